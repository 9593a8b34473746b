"""Ports for tests that must name one before anybody listens there.

A port that was found free and let go may be given to a test beside this one. So it is kept: by a socket that is bound
to it, at all addresses, and never listens. The kernel gives it to nobody else, and who asks for just that one, with
SO_REUSEADDR as servers do, gets it.

    ports.py N PID    prints N ports in a line, and keeps them, in a process of its own, until process PID has ended
"""
import os
import select
import socket
import sys


def keep_port(address=""):
    """A socket that keeps a port, at one address or at all, until it is closed."""
    family = socket.AF_INET6 if ":" in address or (not address and socket.has_dualstack_ipv6()) else socket.AF_INET
    kept = socket.socket(family)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not address and family == socket.AF_INET6:
        kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    kept.bind((address, 0))
    return kept


def port_of(kept):
    return kept.getsockname()[1]


def main():
    until = os.pidfd_open(int(sys.argv[2]))
    kept = [keep_port() for _ in range(int(sys.argv[1]))]
    print(*map(port_of, kept), flush=True)
    if os.fork() == 0:
        for fd in range(3):  # whoever reads what we have printed waits for its end
            os.dup2(until, fd)
        select.select([until], [], [])


if __name__ == "__main__":
    main()
