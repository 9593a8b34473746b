#!/usr/bin/env python3
"""A port that is kept for a test (tests/common/ports.py) is given to nobody else, goes to the server that asks for it,
and is free when the test has ended.

variants: release
"""
import os
import socket
import subprocess
import sys
import time
import unittest

COMMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common")
sys.path.append(COMMON)
from ports import keep_port, port_of

PORTS = os.path.join(COMMON, "ports.py")
# In a network of its own that has four ports to give away: three are kept, and the fourth is what everybody gets.
FEW = """
import socket, sys
sys.path.append(sys.argv[1])
from ports import keep_port, port_of
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as f:
    f.write("40000 40003")
kept = [keep_port() for _ in range(3)]
given = set()
for address in ("127.0.0.1", "", "127.0.0.2") * 20:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((address, 0))
        one.listen()
        given.add(port_of(one))
assert len(given) == 1 and not given & set(map(port_of, kept)), given
"""


class Ports(unittest.TestCase):
    def test_who_asks_for_just_that_one_gets_it(self):
        with keep_port() as kept, socket.socket() as client:
            with self.assertRaises(ConnectionRefusedError):
                client.connect(("127.0.0.1", port_of(kept)))
            for address in ("127.0.0.1", "127.0.0.2", ""):
                with socket.create_server((address, port_of(kept))), socket.socket() as another:
                    with self.assertRaises(OSError):
                        another.bind((address, port_of(kept)))

    def test_nobody_else_is_given_it(self):
        try:
            alone = subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            alone = False
        if not alone:
            self.skipTest("a network of its own is not allowed here")
        subprocess.run(["unshare", "-rn", sys.executable, "-c", FEW, COMMON], check=True)

    def test_it_is_free_when_the_test_has_ended(self):
        test = subprocess.Popen(["sleep", "1000"])
        out = subprocess.run([sys.executable, PORTS, "2", str(test.pid)], stdout=subprocess.PIPE, text=True, check=True).stdout
        ports = [int(word) for word in out.split()]
        self.assertEqual(len(set(ports)), 2)
        for port in ports:
            with self.assertRaises(OSError), socket.socket() as one:
                one.bind(("127.0.0.1", port))
        test.kill()
        test.wait()
        for port in ports:
            self.free(port)

    def free(self, port):
        end = time.monotonic() + 30
        while True:
            try:
                with socket.socket() as one:
                    return one.bind(("127.0.0.1", port))
            except OSError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.01)  # sleep: between two looks


if __name__ == "__main__":
    unittest.main()
