#!/usr/bin/env python3
"""The hosts that tests of the bridge run on, tried with raw sockets: what a fault of theirs does, and that nothing is left.

variants: release
"""
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from field import KINDS, Field, NotHere  # noqa: E402
from relay import Relay  # noqa: E402

PATIENCE = 60


def listening(host):
    one = host.socket()
    one.settimeout(PATIENCE)
    one.bind((host.address, 0))
    one.listen()
    return one


def connected(field, one, other):
    """A connection: (its end at `one`, its end at `other`)."""
    with listening(field.hosts[other]) as server:
        client = field.hosts[one].socket()
        client.settimeout(PATIENCE)
        client.connect(server.getsockname())
        return client, server.accept()[0]


def heard(one, seconds=0.3):
    """What comes, or None for nothing in this time."""
    one.settimeout(seconds)
    try:
        return one.recv(100)
    except socket.timeout:
        return None
    finally:
        one.settimeout(PATIENCE)


def field_of(test, count, kind=None):
    try:
        field = Field(count, kind)
    except NotHere as error:
        test.skipTest(str(error))
    test.addCleanup(field.close)
    return field


class Datagrams:
    """One UDP socket a host: a datagram that comes was carried, one that does not was lost."""

    def __init__(self, test, field):
        self.test, self.field, self.sockets = test, field, []
        for host in field.hosts:
            one = host.socket(kind=socket.SOCK_DGRAM)
            test.addCleanup(one.close)
            one.bind((host.address, 0))
            self.sockets.append(one)

    def send(self, one, other, data=b"x"):
        self.sockets[one].sendto(data, self.sockets[other].getsockname())

    def seen(self, fate, number, one, other):
        """Send so many, and wait until the switch has decided on all of them; how many met this fate."""
        before, end = self.field.counts(), time.monotonic() + PATIENCE
        for sent in range(1, number + 1):
            self.send(one, other)
            if sent % 100 and sent < number:  # a device's queue holds 500
                continue
            now = self.field.counts()
            while sum(now[f] - before[f] for f in ("passed", "lost", "cut")) < sent:
                self.test.assertLess(time.monotonic(), end, "the switch has not seen what was sent")
                now = self.field.counts()
        return now[fate] - before[fate]

    def arrives(self, one, other):
        if not self.seen("passed", 1, one, other):
            return False
        self.test.assertEqual(heard(self.sockets[other], PATIENCE), b"x")
        return True


class Every(unittest.TestCase):
    """What each kind can do."""

    def each(self, work):
        for kind in KINDS:
            with self.subTest(kind=kind):
                try:
                    field = Field(3, kind)
                except NotHere as error:
                    print("%s: not here: %s" % (kind, error))
                    continue
                with field:
                    print(field.words)
                    work(field)

    def test_all_hosts_reach_each_other(self):
        def work(field):
            for one, other in itertools.permutations(range(3), 2):
                a, b = connected(field, one, other)
                with a, b:
                    a.sendall(b"there")
                    self.assertEqual(b.recv(10), b"there")
                    b.sendall(b"back")
                    self.assertEqual(a.recv(10), b"back")
                    if field.kind != "loopback":
                        self.assertEqual(b.getpeername()[0], field.hosts[one].address)

        self.each(work)

    def test_a_megabyte_arrives_as_it_was(self):
        data = os.urandom(1 << 20)

        def work(field):
            a, b = connected(field, 0, 2)
            sender = threading.Thread(target=lambda: (a.sendall(data), a.shutdown(socket.SHUT_WR)))
            sender.start()
            got = bytearray()
            while part := b.recv(1 << 16):
                got += part
            sender.join()
            a.close()
            b.close()
            self.assertEqual(bytes(got), data)

        self.each(work)

    def test_a_reset_ends_both_ends_at_once(self):
        def work(field):
            a, b = connected(field, 0, 1)
            with a, b:
                try:
                    self.assertGreaterEqual(field.reset(0, 1), 1)
                except NotHere as error:
                    print("%s: no resets: %s" % (field.kind, error))
                    return
                for end in (a, b):
                    with self.assertRaises(OSError):
                        if not end.recv(10):
                            raise OSError("closed")

        self.each(work)

    def test_the_remote_shell_runs_on_its_host(self):
        def work(field):
            for name in (field.hosts[2].name, field.hosts[2].address):
                done = subprocess.run([field.rsh(), name, "readlink", "/proc/self/ns/net;", "cat", "/proc/sys/kernel/hostname"],
                                      stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
                net, host = done.stdout.split()
                own = os.readlink("/proc/self/ns/net")
                self.assertEqual((net != own, host == "h2"), (field.kind != "loopback",) * 2)
            done = subprocess.run([field.rsh(), "nobody", "true"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (255, "rsh: no host nobody in this field\n"))

        self.each(work)


class Faults(unittest.TestCase):
    """Of the switch."""

    def setUp(self):
        self.field = field_of(self, 4, "switch")
        self.net = Datagrams(self, self.field)

    def test_a_cut_is_silent_and_healed(self):
        self.field.cut(0, 1)
        self.assertFalse(self.net.arrives(0, 1))
        self.assertFalse(self.net.arrives(1, 0))
        self.assertTrue(self.net.arrives(0, 2))
        self.field.heal()
        self.assertTrue(self.net.arrives(0, 1))

    def test_a_cut_of_one_direction_leaves_the_other(self):
        self.field.cut(0, 1, back=False)
        self.assertFalse(self.net.arrives(0, 1))
        self.assertTrue(self.net.arrives(1, 0))

    def test_a_host_is_cut_off_from_all(self):
        self.field.cut(3)
        for other in range(3):
            self.assertFalse(self.net.arrives(3, other))
            self.assertFalse(self.net.arrives(other, 3))
        self.assertTrue(self.net.arrives(0, 2))

    def test_sides_of_a_partition_hear_only_themselves(self):
        self.field.partition([0, 1], [2, 3])
        self.assertTrue(self.net.arrives(0, 1))
        self.assertTrue(self.net.arrives(3, 2))
        self.assertFalse(self.net.arrives(1, 2))
        self.assertFalse(self.net.arrives(2, 1))

    def test_a_delay_is_no_less_than_asked(self):
        self.field.path(0, 1, delay=0.2)
        start = time.monotonic()
        self.net.send(0, 1)
        self.assertEqual(heard(self.net.sockets[1], PATIENCE), b"x")
        self.assertGreaterEqual(time.monotonic() - start, 0.2)

    def test_jitter_keeps_the_order(self):
        self.field.path(0, 1, back=False, jitter=0.05)
        for number in range(100):
            self.net.send(0, 1, b"%d" % number)
        self.assertEqual([heard(self.net.sockets[1], PATIENCE) for _ in range(100)], [b"%d" % n for n in range(100)])

    def test_losses_are_about_as_many_as_asked(self):
        self.field.path(0, 1, back=False, loss=0.3)
        lost = self.net.seen("lost", 1000, 0, 1)
        self.assertTrue(200 < lost < 400, "%d of 1000 lost" % lost)

    def test_tcp_gets_through_loss_and_delay(self):
        self.field.path(delay=0.01, loss=0.05)
        a, b = connected(self.field, 0, 1)
        with a, b:
            a.sendall(b"x" * 20000)
            a.shutdown(socket.SHUT_WR)
            got = 0
            while part := b.recv(1 << 16):
                got += len(part)
        self.assertEqual(got, 20000)

    def test_a_connection_outlives_a_short_cut(self):
        a, b = connected(self.field, 0, 1)
        with a, b:
            self.field.cut(0, 1)
            a.sendall(b"late")
            self.assertIsNone(heard(b))
            self.field.heal()
            self.assertEqual(heard(b, PATIENCE), b"late")


class Relays(unittest.TestCase):
    """relay.py: faults of single connections, on every kind of field."""

    def setUp(self):
        self.field = field_of(self, 2)
        self.server = listening(self.field.hosts[0])
        self.addCleanup(self.server.close)

    def open(self, **options):
        relay = Relay(self.field.hosts[1], self.server.getsockname(), **options)
        self.addCleanup(relay.close)
        client = self.field.hosts[1].socket()
        client.settimeout(PATIENCE)
        client.connect(relay.address)
        self.addCleanup(client.close)
        peer = self.server.accept()[0]
        peer.settimeout(PATIENCE)
        self.addCleanup(peer.close)
        return relay, client, peer

    def test_bytes_pass_both_ways(self):
        _, client, peer = self.open()
        client.sendall(b"there")
        self.assertEqual(peer.recv(10), b"there")
        peer.sendall(b"back")
        self.assertEqual(client.recv(10), b"back")

    def test_it_breaks_after_so_many_bytes(self):
        relay, client, peer = self.open(up=7)
        client.sendall(b"0123456789")
        got = b""
        with self.assertRaises(ConnectionResetError):
            while True:
                part = peer.recv(10)
                self.assertTrue(part, "closed in good order")
                got += part
        self.assertTrue(b"0123456".startswith(got), got)  # a reset may throw away what was not read
        self.assertEqual(relay.passed, [7, 0])
        with self.assertRaises(OSError):
            if not client.recv(1):
                raise OSError("closed")

    def test_a_silent_one_says_nothing_and_stays_open(self):
        relay, client, peer = self.open()
        relay.hold()
        client.sendall(b"held")
        self.assertIsNone(heard(peer))
        relay.go_on()
        self.assertEqual(heard(peer, PATIENCE), b"held")


VICTIM = """
import sys
sys.path.insert(0, sys.argv[1])
from field import Field
field = Field(3, "switch")
field.hosts[0].popen(["sleep", "1000"])
print(*[__import__("os").fstat(host.net).st_ino for host in field.hosts], flush=True)
sys.stdin.read()
"""


def namespaces():
    """Inodes of the network namespaces that any process is in, or holds open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for folder in ("ns", "fd"):
            try:
                for name in os.listdir("/proc/%s/%s" % (pid, folder)):
                    text = os.readlink("/proc/%s/%s/%s" % (pid, folder, name))
                    if text.startswith("net:["):
                        found.add(int(text[5:-1]))
            except OSError:
                pass
    return found


class Left(unittest.TestCase):
    def test_a_killed_test_leaves_no_namespace(self):
        field_of(self, 1, "switch")
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, os.path.dirname(os.path.abspath(__file__))],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with victim:
            made = {int(word) for word in victim.stdout.readline().split()}
            self.assertEqual(len(made & namespaces()), 3)
            victim.send_signal(signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while made & namespaces() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertFalse(made & namespaces(), "a namespace is left")

    def test_a_closed_field_leaves_none(self):
        field = field_of(self, 3, "switch")
        made = {os.fstat(host.net).st_ino for host in field.hosts}
        switch = field.switch
        field.close()
        self.assertEqual(switch.returncode, 0)
        self.assertFalse(made & namespaces())

    def test_what_is_started_on_a_host_is_in_its_network(self):
        field = field_of(self, 2)
        with field.hosts[1].popen(["readlink", "/proc/self/ns/net"], stdout=subprocess.PIPE, text=True) as process:
            said = process.stdout.read().strip()
        own = os.readlink("/proc/self/ns/net")
        self.assertEqual(said != own, field.kind != "loopback")


if __name__ == "__main__":
    unittest.main(verbosity=2)
