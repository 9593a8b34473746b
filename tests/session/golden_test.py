#!/usr/bin/env python3
"""A whole session of TensorFlow 2.21's client, byte by byte as it was seen before TensorFlow's own master, said again to
muster's: its frames, its header compression, its messages. Each stream is answered with the same bytes."""
# timeout: 60
import os
import re
import socket
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, END_STREAM = 0, 1, 1
LOGS = b"\nRecent warning and error logs:"  # which TensorFlow adds to an error


def recorded():
    """Each line of the record: a direction, and bytes."""
    with open(os.path.join(HERE, "minimal_session.txt")) as lines:
        for line in lines:
            words = line.split()
            if words[-1] != "EOF":
                yield words[1], bytes.fromhex(words[3])


class Frames:
    """What of a stream of frames has come so far."""

    def __init__(self):
        self.rest, self.data, self.ended = b"", {}, set()

    def take(self, some):
        self.rest += some.removeprefix(PREFACE)
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3], "big"):
            size, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
            stream = int.from_bytes(self.rest[5:9], "big")
            if kind == DATA:
                self.data[stream] = self.data.get(stream, b"") + self.rest[9:9 + size]
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self.ended.add(stream)
            self.rest = self.rest[9 + size:]


class Test(unittest.TestCase):
    def test_a_recorded_client_is_answered_as_it_was(self):
        master = subprocess.Popen([os.environ["MUSTER"], "serve", "--tf-master=127.0.0.1:0"], stdout=subprocess.PIPE,
                                  text=True)
        self.addCleanup(master.wait)
        self.addCleanup(master.terminate)
        self.addCleanup(master.stdout.close)
        host, port = master.stdout.readline().strip().split(":")
        theirs, ours, asked = Frames(), Frames(), Frames()
        handles = None
        with socket.create_connection((host, int(port)), timeout=30) as client:
            for direction, some in recorded():
                if direction == "s2c":
                    theirs.take(some)
                    continue
                # What the recorded client had been answered by then, ours has been, too.
                while not theirs.ended <= ours.ended:
                    more = client.recv(1 << 16)
                    self.assertTrue(more, "the master has closed the connection")
                    ours.take(more)
                if not handles and 1 in ours.data:
                    handles = [re.search(rb"[0-9a-f]{16}", frames.data[1]).group() for frames in (theirs, ours)]
                asked.take(some)
                client.sendall(some.replace(*handles) if handles else some)
            while not theirs.ended <= ours.ended:
                more = client.recv(1 << 16)
                self.assertTrue(more, "the master has closed the connection")
                ours.take(more)
        self.assertEqual(sorted(theirs.ended), [1, 3, 5, 7, 9])
        self.assertEqual(asked.ended, theirs.ended)
        for stream in theirs.ended:
            is_, wanted = ours.data.get(stream, b""), theirs.data.get(stream, b"").replace(*handles)
            if LOGS in wanted:  # as far as that, and without the lengths
                wanted, is_ = wanted[wanted.index(b"From"):wanted.index(LOGS)], is_[is_.index(b"From"):]
            self.assertEqual(is_, wanted, "stream %d" % stream)

    def test_recorded_messages_are_answered_as_they_were(self):
        try:
            import grpc
        except ImportError:
            self.skipTest("python3-grpcio is not installed")
        master = subprocess.Popen([os.environ["MUSTER"], "serve", "--tf-master=127.0.0.1:0"], stdout=subprocess.PIPE,
                                  text=True)
        self.addCleanup(master.wait)
        self.addCleanup(master.terminate)
        self.addCleanup(master.stdout.close)
        with open(os.path.join(HERE, "session_messages.txt")) as record:
            said = re.findall(r"c1 (c>s|s>c) s(\d+) MESSAGE (\w+?)(?:Request|Response) .*\n(?:\s+hex ([0-9a-f]*))?",
                              record.read())
        self.assertEqual(len(said), 22)
        handles = None
        with grpc.insecure_channel(master.stdout.readline().strip(), options=[("grpc.enable_http_proxy", 0)]) as channel:
            for (_, stream, method, asked), (_, same, _, wanted) in zip(said[::2], said[1::2]):
                self.assertEqual(stream, same)
                asked, wanted = bytes.fromhex(asked), bytes.fromhex(wanted)
                is_ = channel.unary_unary("/tensorflow.MasterService/" + method)(
                    asked.replace(*handles) if handles else asked, timeout=30)
                handles = handles or (wanted[2:], is_[2:])
                wanted = wanted.replace(*handles)
                if LOGS in wanted:
                    wanted, is_ = wanted[wanted.index(b"From"):wanted.index(LOGS)], is_[is_.index(b"From"):]
                self.assertEqual(is_, wanted, "%s on stream %s" % (method, stream))


if __name__ == "__main__":
    unittest.main()
