#!/usr/bin/env python3
"""Who comes to a job that runs and does not belong there, or belongs there and says what cannot be: each is refused in
words that say why, and the job goes on. Real agents; what no agent says is said by `openssl s_client`, which knows the
job's key.

variants: release
timeout: 240
"""
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from ports import keep_port, port_of

MUSTER = os.environ["MUSTER"]
with open(os.path.join(os.environ["TOP"], "src/bridge/core/frame.h")) as header:
    VERSION = int(re.search(r"define MU_BRIDGE_VERSION (\d+)u", header.read()).group(1))
KEY = "07" * 32
PATIENCE = 60
COUNT = 'n=0; until [ -e "$1" ]; do "$MUSTER" kv increment count > /dev/null || exit 7; echo round $((n += 1)); done'
JOIN, WELCOME, REFUSE, LEAVE, PING, PONG, DROP = range(1, 8)
CALL, ANSWER, ACK, COPIES, FORGET, MEETING, RECORDS, HOSTS = 16, 17, 18, 24, 25, 32, 40, 41
TO_OWNER, OWNER_SAYS, EVENTS, EVENTS_FROM, EVENTS_TAKEN, GROUP, GROUP_END, CONTROL = 42, 43, 48, 49, 50, 56, 57, 64
NEVER, MOST = 2 ** 32 - 1, 2 ** 64 - 1


def join(node, nodes=3, tasks=1, job="", host="stranger", incarnation=b"s" * 16):
    texts = b"".join(struct.pack("<I", len(text)) + text.encode() for text in (job, host))
    return struct.pack("<III16sI", node, nodes, tasks, incarnation, os.getpid()) + texts


def call(slot=0, number=1, op=3, task=0, body=b""):
    return struct.pack("<IQIIIIQB", slot, number, op, task, 0, 1, 7, 0) + body


class Peer:
    """Something that has the job's key, and says what it is told."""

    def __init__(self, address):
        words = ["openssl", "s_client", "-connect", address, "-tls1_3", "-psk_identity", "muster", "-psk", KEY,
                 "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-quiet"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.sequence, self.bytes = 0, b""

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it had gone before

    def send(self, kind, payload=b"", version=VERSION, length=None, flags=0, sequence=None, magic=b"Mu"):
        sequence = self.sequence if sequence is None else sequence
        self.sequence = (sequence + 1) % 2 ** 32
        length = len(payload) if length is None else length
        self.raw(struct.pack("<2sBBIIB3x", magic, version, kind, length, sequence, flags) + payload)

    def raw(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it was told before says why

    def take(self, count):
        """So many bytes, or None at the end."""
        end = time.monotonic() + PATIENCE
        while len(self.bytes) < count:
            if not select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                raise AssertionError("nothing comes")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self.bytes += data
        data, self.bytes = self.bytes[:count], self.bytes[count:]
        return data

    def hear(self, *kinds):
        """(type, text) of the next of these; (0, "") at the end."""
        while True:
            head = self.take(16)
            if head is None:
                return 0, ""
            kind, length = head[3], struct.unpack("<I", head[4:8])[0]
            payload = self.take(length)
            if kind in kinds:
                return kind, (payload or b"").decode(errors="replace")


class Agents(unittest.TestCase):
    address = "127.0.0.1"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="strangers-")
        self.addCleanup(self.folder.cleanup)
        self.stop_file = os.path.join(self.folder.name, "stop")
        kept = keep_port(self.address)
        self.addCleanup(kept.close)
        self.port = port_of(kept)
        self.leader = ("[%s]:%d" if ":" in self.address else "%s:%d") % (self.address, self.port)
        self.job = "t%d-%s" % (os.getpid(), self.id().rsplit(".", 1)[1][:40])
        self.agents, self.extra = {}, []

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def text(self, node, kind="err"):
        with open(self.path("%s.%s" % (kind, node)), errors="replace") as f:
            return f.read()

    def words(self, node, nodes, *options, leader=None):
        return [MUSTER, "agent", "--join", leader or self.leader, "--node-id", str(node), "--nodes", str(nodes),
                "--join-timeout", "30s", *options]

    def begin(self, node, nodes, *options):
        command = self.words(node, nodes, *options, *(["--job", self.job] if node == 0 else []), "--host-name", "h%d" % node,
                             "--heartbeat-timeout", "60s", "--kill-on-fail=no", "--grace", "500ms",
                             "--", "sh", "-c", COUNT, "sh", self.stop_file)
        with open(self.path("out.%d" % node), "w") as out, open(self.path("err.%d" % node), "w") as err:
            self.agents[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                 env={**os.environ, "MUSTER_KEY": KEY})
        self.addCleanup(self.end, node)

    def end(self, node):
        agent = self.agents[node]
        if agent.poll() is None:
            agent.terminate()
        try:
            agent.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                self.fail("not in time: %s\n%s" % (what, "\n".join(self.text(node) for node in self.agents)))
            time.sleep(0.02)  # sleep: between two looks

    def rounds(self, node):
        return len(self.text(node, "out").splitlines())

    def goes_on(self):
        for node in self.agents:
            past = self.rounds(node) + 2
            self.until("host %d goes on" % node, lambda node=node, past=past: self.rounds(node) >= past)

    def ends_well(self):
        open(self.stop_file, "w").close()
        for node, agent in self.agents.items():
            self.assertEqual(agent.wait(PATIENCE), 0, "host %d: %s" % (node, self.text(node)))

    def refused(self, status, pattern, *command, key=KEY):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE, env={**os.environ, "MUSTER_KEY": key})
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, pattern)

    def peer(self):
        peer = Peer(self.leader)
        self.addCleanup(peer.close)
        return peer


class Strangers(Agents):
    def test_who_is_one_too_many_is_refused_and_the_job_goes_on(self):
        for node in (0, 1, 2):
            self.begin(node, 3)
        self.goes_on()
        for pattern, node, nodes, options in (
                (r"node 1 is taken by host h1, agent pid \d+", 1, 3, []),
                (r"node 2 is taken by host h2, agent pid \d+", 2, 3, ["-n", "4"]),
                ("it was told that the job has 4 hosts, and it has 3", 3, 4, []),
                ("it was told that the job has 2 hosts, and it has 3", 1, 2, []),
                ("it is of job 'another', this is job '%s'" % self.job, 1, 3, ["--job", "another"])):
            self.refused(125, "refused this host: " + pattern, *self.words(node, nodes, *options, "true"))
            self.until("the leader says so", lambda pattern=pattern: re.search("refused host .*: " + pattern, self.text(0)))
            self.goes_on()
        self.refused(125, "has another key than this host", *self.words(1, 3, "true"), key="08" * 32)
        self.refused(125, r"host \S+ cannot listen at 127.0.0.1:%d: Address already in use" % self.port, *self.words(0, 2, "true"))
        self.goes_on()
        self.ends_well()
        self.refused(125, "leader .%s. could not be reached for" % re.escape(self.leader),
                     *self.words(1, 3, "--join-timeout", "300ms", "true"))

    def test_names_that_do_not_resolve_are_named(self):
        self.refused(125, r"the leader \(no\.\.such\.host:4711\) could not be reached .*the name 'no\.\.such\.host' does not resolve",
                     *self.words(1, 2, "--join-timeout", "300ms", "true", leader="no..such.host:4711"))

    @unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
    def test_who_has_the_key_and_no_place_is_refused(self):
        for node in (0, 1, 2):
            self.begin(node, 3)
        self.goes_on()
        for pattern, payload in (("node 0 is the leader itself", join(0)),
                                 ("it calls itself node 3, and the job has 3 hosts", join(3)),
                                 ("all 3 hosts of the job are there already", join(NEVER)),
                                 ("it calls itself node 4294967294", join(NEVER - 1, 0)),
                                 ("node 1 is taken by host h1", join(1)),
                                 ("node 1 is taken by host h1", join(1, 0, NEVER)),
                                 ("it is of job", join(1, 3, 1, "j" * 207)),
                                 ("its JOIN is not well formed", join(1, 3, 1, "j" * 208)),
                                 ("its JOIN is not well formed", join(1, 3, 1, "", "")),
                                 ("its JOIN is not well formed", join(1, 3, 1, "", "h" * 64)),
                                 ("its JOIN is not well formed", join(1, 3, 1, "", "h\x1b[2J")),
                                 ("its JOIN is not well formed", join(1)[:-1]),
                                 ("its JOIN is not well formed", join(1) + b"x"),
                                 ("its JOIN is not well formed", b"")):
            peer = self.peer()
            peer.send(JOIN, payload)
            kind, text = peer.hear(WELCOME, REFUSE)
            self.assertEqual((kind, peer.hear(WELCOME)[0]), (REFUSE, 0))
            self.assertIn(pattern, text)
        for pattern, how in (("speaks version 0 of", {"version": 0}), ("speaks version %d of" % (VERSION - 1), {"version": VERSION - 1}),
                             ("speaks version 255 of", {"version": 255}), ("4294967295 bytes", {"length": NEVER}),
                             ("65537 bytes", {"length": 65537}), ("flags", {"flags": 255}), ("flags", {"flags": 2}),
                             ("frame 1 where 0 was expected", {"sequence": 1}), ("does not speak muster", {"magic": b"mU"}),
                             ("frame 4294967295 where 0 was expected", {"sequence": NEVER})):
            peer = self.peer()
            peer.send(JOIN, join(1), **how)
            kind, text = peer.hear(WELCOME, REFUSE)
            self.assertEqual(kind, REFUSE)
            self.assertIn(pattern, text)
        for kind in (0, PING, DROP, CALL, CONTROL, 255):
            peer = self.peer()
            peer.send(kind, b"12345678")
            self.assertIn("in state JOINING", peer.hear(REFUSE)[1])
        self.goes_on()
        self.ends_well()

    def says(self, incarnation, *frames):
        """As node 2, on a connection of its own: what the leader makes of these frames. None: it takes them."""
        peer = self.peer()
        peer.send(JOIN, join(2, incarnation=incarnation))
        self.assertEqual(peer.hear(WELCOME, REFUSE)[0], WELCOME)
        for kind, payload, *how in frames:
            peer.send(kind, payload, **(how[0] if how else {}))
        peer.send(PING, b"stamp of")
        kind, text = peer.hear(PONG, DROP)
        peer.close()
        return text if kind == DROP else None

    @unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
    def test_a_host_that_says_what_cannot_be_loses_its_connection_alone(self):
        number = os.urandom(16)
        for node in (0, 1):
            self.begin(node, 3)
        first = self.peer()
        first.send(JOIN, join(2, incarnation=number))
        self.assertEqual(first.hear(WELCOME)[0], WELCOME)
        self.goes_on()
        dropped = [(kind, b"12345678") for kind in (0, JOIN, WELCOME, REFUSE, 9, 11, 12, 13, 15, 19, 31, 63, 65, 254, 255)]
        dropped += [(kind, b"") for kind in (CALL, ACK, CONTROL, OWNER_SAYS, EVENTS_FROM, EVENTS_TAKEN, GROUP, GROUP_END, FORGET)]
        dropped += [(kind, b"\xff" * 200) for kind in (CALL, ACK, CONTROL, OWNER_SAYS, GROUP, GROUP_END, FORGET, RECORDS, HOSTS)]
        dropped += [(kind, b"\0" * 64) for kind in (ANSWER, COPIES, MEETING, TO_OWNER, EVENTS)]  # a leader's
        dropped += [(CALL, call(slot=NEVER)), (CALL, call(slot=16384)), (CALL, call(number=0)), (CALL, call(op=0)),
                    (CALL, call(op=NEVER)), (CALL, call(task=1)), (CALL, call(task=NEVER)), (PING, b"1234567"),
                    (ACK, struct.pack("<IQ", 16384, 1)), (ACK, struct.pack("<IQI", 1, 1, 1)),
                    (HOSTS, b"\x01\x01" + b"\0" * 6), (PING, b"x" * 8, {"length": NEVER}), (PING, b"x" * 8, {"flags": 128}),
                    (PING, b"x" * 8, {"sequence": 0}), (PING, b"x" * 8, {"sequence": 7}), (PING, b"x" * 8, {"version": VERSION + 1})]
        for frame in dropped:
            text = self.says(number, frame)
            self.assertTrue(text, "%s was taken" % (frame,))
        taken = [(CALL, call(op=63)), (CALL, call(body=struct.pack("<I", NEVER))), (CALL, call(body=struct.pack("<I", 0))),
                 (CALL, call(body=struct.pack("<I", 4097) + b"k" * 4097)), (CALL, call(number=MOST, body=b"\xff" * 100)),
                 (CALL, call(op=8, body=struct.pack("<BQI", 255, MOST, 1) + b"k")), (CALL, call(op=16, body=b"\xff" * 64)),
                 (CALL, call(op=32, body=b"\xff" * 64)), (CALL, call(op=36, body=b"\xff" * 64)), (CALL, call(op=40, body=b""))]
        for n, frame in enumerate(taken):  # a call is answered, or ends the connection: either harms nobody
            self.says(number, (frame[0], frame[1].replace(struct.pack("<Q", 1), struct.pack("<Q", n + 2), 1)))
        self.goes_on()
        self.assertNotIn("lost", self.text(0))
        for node in (0, 1):
            check = subprocess.run([MUSTER, "segment", "check", self.job + ("" if node == 0 else ".h1")],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(check.returncode, 0, check.stdout)
        self.says(number, (LEAVE, b""))
        self.until("the leader says so", lambda: "host stranger is lost" in self.text(0))


@unittest.skipUnless(os.path.exists("/proc/net/if_inet6"), "there is no IPv6 here")
class Six(Agents):
    address = "::1"

    def test_hosts_meet_by_ipv6(self):
        for node in (0, 1, 2):
            self.begin(node, 3)
        self.goes_on()
        self.refused(125, r"refused this host: node 1 is taken by host h1", *self.words(1, 3, "true"))
        self.ends_well()
        with open("/proc/net/tcp") as f:
            self.assertNotIn(":%04X " % self.port, f.read())

    def test_a_launcher_is_found_by_ipv6(self):
        rsh = self.path("rsh")
        with open(rsh, "w", opener=lambda name, flags: os.open(name, flags, 0o700)) as f:
            f.write('#!/bin/sh\necho "$*" >> "%s"\nshift\neval "exec $*"\n' % self.path("asked"))
        done = subprocess.run([MUSTER, "run", "--job", self.job, "--hosts", "localhost:1,[2001:db8::2]:2", "--address", "::1", "--rsh",
                               rsh, "sh", "-c", "muster barrier wait b > /dev/null && echo $RANK $MASTER_ADDR $JAX_COORDINATOR_ADDRESS"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                              env={**os.environ, "PATH": os.path.dirname(MUSTER) + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        said = [line.split() for line in sorted(done.stdout.splitlines())]
        self.assertEqual([words[:2] for words in said], [[str(rank), "::1"] for rank in range(3)])
        self.assertEqual(len({words[2] for words in said}), 1)
        self.assertRegex(said[0][2], r"^\[::1\]:\d+$")
        with open(self.path("asked")) as f:
            self.assertRegex(f.read(), r"^2001:db8::2 .* --join '?\[::1\]:\d+'? ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
