#!/usr/bin/env python3
"""A real `muster executor` before a master that is a stranger: steps by its socket, and frames that no master says.

It wants TensorFlow, by MUSTER_TEST_LIBTENSORFLOW or the first python3; without, it is skipped.
variants: release
"""
# timeout: 240
import os
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import ports
from kernels_test import Graph
from workers import FLOAT

BUILD, RUN, DROP, BUILT, DONE = range(1, 6)
INTERNAL = 13
LIBRARY = ["--libtensorflow=" + path for path in [os.environ.get("MUSTER_TEST_LIBTENSORFLOW")] if path]
HEAD = struct.Struct("=IIQQIIIIQ")  # session/direct.h: struct mu_direct_head
TENSOR = struct.Struct("=IIQ8q")
# GraphOptions within ConfigProto that keeps the graph as it is, as mu_direct_config() writes it
CONFIG = bytes([10 << 3 | 2, 5, 10 << 3 | 2, 3, 0x98, 0x01, 1])


def head(kind, count=0, number=0, graph=0, words=0, config=0, fetches=0, size=0):
    return HEAD.pack(kind, count, number, graph, 0, words, config, fetches, size)


def tensor(*numbers, dims=None, size=None):
    dims = (len(numbers),) if dims is None else dims
    return TENSOR.pack(FLOAT, len(dims), 4 * len(numbers) if size is None else size, *(dims + (0,) * (8 - len(dims))))


def floats(*numbers):
    return struct.pack("=%df" % len(numbers), *numbers)


class Executor:
    def __init__(self):
        self.socket, theirs = socket.socketpair()
        self.kept = ports.keep_port("127.0.0.1")
        self.port = ports.port_of(self.kept)
        self.program = subprocess.Popen([os.environ["MUSTER"], "executor", "--address", "127.0.0.1:%d" % self.port, *LIBRARY],
                                        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        theirs.close()
        self.socket.settimeout(60)
        if not self.program.stdout.readline():
            words = self.program.stderr.read()
            self.program.wait()
            if "no TensorFlow here" in words:
                print("no TensorFlow here: MUSTER_TEST_LIBTENSORFLOW may name one")
                sys.stdout.flush()
                os._exit(77)
            raise AssertionError(words)

    def take(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def answer(self):
        """Its kind, id and status; its text; its tensors' numbers."""
        kind, count, number, _, status, words, _, _, size = HEAD.unpack(self.take(HEAD.size))
        described = [TENSOR.unpack(self.take(TENSOR.size)) for _ in range(count)]
        text = self.take(words).decode()
        lists = [list(struct.unpack("=%df" % (one[2] // 4), self.take(one[2]))) for one in described]
        assert sum(one[2] for one in described) == size
        return (kind, number, status), text, lists

    def serves(self):
        with socket.create_connection(("127.0.0.1", self.port), 10):
            return self.program.poll() is None

    def end(self):
        self.program.kill()
        self.program.communicate()
        self.socket.close()
        self.kept.close()


def doubled():
    made = Graph().node("muster.in/0", "Placeholder", dtype=FLOAT).node("twice", "AddV2", ["muster.in/0"] * 2, T=FLOAT)
    made.node("muster.out/0", "Identity", ["twice"], T=FLOAT).node("muster.end", "NoOp", ["^twice"])
    return made.made.SerializeToString()


def build(number, graph, config=CONFIG):
    return head(BUILD, 1, number, words=len(config) + len(graph), config=len(config), fetches=1) + config + graph


class Test(unittest.TestCase):
    def setUp(self):
        self.executor = Executor()
        self.addCleanup(self.executor.end)

    def test_steps_and_what_cannot_be_done(self):
        say, answer = self.executor.socket.sendall, self.executor.answer
        say(build(7, doubled()))
        self.assertEqual(answer(), ((BUILT, 7, 0), "", []))
        for step in range(1, 50):
            say(head(RUN, 1, step, 7, size=8) + tensor(step, 2) + floats(step, 2))
            self.assertEqual(answer(), ((DONE, step, 0), "", [[2 * step, 4]]))
        say(head(RUN, 1, 50, 7) + tensor(dims=(0, 3)))
        self.assertEqual(answer()[2], [[]], "no element")
        say(head(RUN, 0, 51, 7))
        self.assertEqual(answer()[0], (DONE, 51, INTERNAL), "a step that feeds too little")
        say(head(RUN, 1, 52, 8, size=4) + tensor(1) + floats(1))
        self.assertEqual(answer()[:2], ((DONE, 52, INTERNAL), "no such graph"))
        say(build(9, b"\xff\xff no graph"))
        got = answer()
        self.assertEqual((got[0][:2], got[0][2] != 0), ((BUILT, 9), True))
        say(build(10, Graph().node("muster.in/0", "NoSuchOp").made.SerializeToString()))
        got = answer()
        self.assertEqual((got[0][:2], got[0][2] != 0, "NoSuchOp" in got[1]), ((BUILT, 10), True, True))
        say(head(DROP, number=7) + head(DROP, number=7) + head(DROP, number=99))
        say(head(RUN, 1, 53, 7, size=4) + tensor(1) + floats(1))
        while self.executor.answer()[0][2] == 0:  # another thread may be quicker than the drop's
            say(head(RUN, 1, 53, 7, size=4) + tensor(1) + floats(1))
        self.assertTrue(self.executor.serves())


WRONG = {
    "of_no_kind": head(9),
    "of_an_answers_kind": head(DONE, 0, 1),
    "with_too_many_tensors": head(RUN, 65, 1, 7),
    "whose_config_is_longer_than_its_words": head(BUILD, 1, 1, words=4, config=5) + b"abcd",
    "whose_graph_is_too_long": head(BUILD, 1, 1, words=0xffffffff),
    "whose_tensor_is_longer_than_its_shape": head(RUN, 1, 1, 7, size=8) + tensor(1, size=8) + floats(1, 2),
    "whose_sum_is_another": head(RUN, 1, 1, 7, size=4) + tensor(1, 2) + floats(1, 2),
    "whose_shape_is_negative": head(RUN, 1, 1, 7, size=4) + tensor(1, dims=(-1,)) + floats(1),
    "whose_shape_overflows": head(RUN, 1, 1, 7, size=0) + tensor(dims=(1 << 40, 1 << 40), size=0),
    "that_is_half": head(RUN, 1, 1, 7, size=4)[:20],
}


def wrong(name, frame):
    def test(self):
        self.executor.socket.sendall(frame)
        if name == "that_is_half":
            self.executor.socket.shutdown(socket.SHUT_WR)
        else:
            with self.assertRaises((EOFError, ConnectionResetError)):
                self.executor.answer()
        self.assertTrue(self.executor.serves(), "the server goes on")
    return test


for name, frame in WRONG.items():
    setattr(Test, "test_a_frame_%s_ends_the_channel_alone" % name, wrong(name, frame))

if __name__ == "__main__":
    unittest.main(verbosity=2)
