#!/usr/bin/python3
"""A relay of TCP connections that breaks them: cut.py HOST:PORT FILE

Listens at a port of its own choice, which it writes to FILE as 127.0.0.1:PORT; each connection goes on to HOST:PORT. On
SIGUSR1 all that are open are broken, and FILE.cut gets a line with their number. Ends with whoever started it.
"""
import os
import signal
import socket
import sys
import threading

open_pairs = []
lock = threading.RLock()  # the signal comes to the thread that has it, perhaps


def carry(one, other):
    try:
        while True:
            data = one.recv(65536)
            if not data:
                break
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def cut(*_):
    with lock:
        pairs, open_pairs[:] = open_pairs[:], []
    for end in (end for pair in pairs for end in pair):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    with open(sys.argv[2] + ".cut", "a") as log:
        log.write("%d\n" % len(pairs))


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    starter = os.getppid()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    signal.signal(signal.SIGUSR1, cut)
    with open(sys.argv[2] + ".new", "w") as out:
        out.write("127.0.0.1:%d\n" % listener.getsockname()[1])
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    while os.getppid() == starter:
        try:
            client, _ = listener.accept()
        except socket.timeout:
            continue
        client.settimeout(None)
        try:
            target = socket.create_connection((host.strip("[]"), int(port)))
        except OSError:
            client.close()
            continue
        with lock:
            open_pairs.append((client, target))
        for pair in ((client, target), (target, client)):
            threading.Thread(target=carry, args=pair, daemon=True).start()
    os._exit(0)


main()
