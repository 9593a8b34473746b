#!/usr/bin/env python3
"""ReportErrorToTask: tasks that are servers themselves are called when one is in error; and calls that go wrong.

The workers are servers of Python's gRPC, of the messages of our own .proto file; those that misbehave are sockets.

variants: release asan
timeout: 240
"""
import contextlib
import os
import random
import socket
import sys
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import clients
except ImportError as missing:
    print("skipped: %s (scripts/deps.sh check)" % missing)
    sys.exit(77)
import grpc  # noqa: E402
import workers  # noqa: E402
from clients import MINUTE, Refused, service, task, tsl  # noqa: E402

CONNECTED, ERROR = 3, 4


def Worker(*arguments):
    return workers.Worker(tsl, *arguments)


class Strange:
    """A socket that takes connections, and on each does as it is told."""

    def __init__(self, behave):
        self.socket, self.behave, self.open = socket.create_server(("127.0.0.1", 0)), behave, []
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.socket.accept()[0]
                self.open.append(connection)
                with contextlib.suppress(OSError):
                    self.behave(connection)

    def stop(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for connection in self.open:
            connection.close()
        self.thread.join(MINUTE)


@contextlib.contextmanager
def opened(*made):
    try:
        yield made
    finally:
        for one in made:
            one.stop()


def addresses(all_of_them):
    return "workers=" + ",".join(w.address for w in all_of_them)


def nobody():
    """An address where connections are refused: it is held, and nobody listens there."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    return s, "127.0.0.1:%d" % s.getsockname()[1]


class Workers(unittest.TestCase):
    def register(self, s, count, job=b"worker"):
        c = s.client(tsl)
        for t in range(count):
            c.RegisterTask(incarnation=100 + t, source_task=task(t, job))
        return c

    def state(self, c, t, job=b"worker"):
        return c.GetTaskState(source_task=[task(t, job)]).task_state[0].state

    def comes_in_error(self, c, t):
        """Until its heartbeat says so: by a watch of the states, which returns when something has changed."""
        version = -1
        while True:
            r = c.WatchJobState(job_name=b"worker", version_number=version)
            if r.task_state[t].state == ERROR:
                return r.task_state[t].error_message.decode()
            version = r.version_number

    def test_whoever_is_connected_and_does_not_poll_is_called(self):
        with opened(*(Worker() for _ in range(4))) as w, service(4, "jobs=chief:1,worker:3", addresses(w)) as s:
            c = s.client(tsl)
            c.RegisterTask(incarnation=1, source_task=task(0, b"chief"))
            for t in (0, 1):  # the third is not connected
                c.RegisterTask(incarnation=2 + t, source_task=task(t, b"worker"))
            c.ReportErrorToService(error_origin=task(1, b"worker"), error_code=13, error_message="ouch ä".encode())
            for one in (w[0], w[1]):
                request = one.hears()
                self.assertEqual(request.error_code, 13)
                self.assertIn("ouch ä", request.error_message.decode())
                self.assertEqual(request.error_payload.source_task, task(1, b"worker"))
                self.assertTrue(request.error_payload.is_reported_error)
            # they have been told, and are in no error themselves
            self.assertEqual([self.state(c, 0, b"chief"), self.state(c, 0), self.state(c, 1)], [CONNECTED, CONNECTED, ERROR])
            self.assertEqual(c.Heartbeat(incarnation=1, source_task=task(0, b"chief")).leader_incarnation, s.incarnation)
            self.assertTrue(w[2].told.empty() and w[3].told.empty())

    def test_who_polls_is_told_by_that_alone(self):
        with opened(Worker(), Worker(), Worker()) as w, service(3, addresses(w)) as s:
            c = self.register(s, 3)
            poll = c.begin("PollForError", source_task=task(0, b"worker"))
            c.DeleteKeyValue(key=b"nothing")
            c.ReportErrorToService(error_origin=task(2, b"worker"), error_code=10, error_message=b"ouch")
            with self.assertRaises(Refused) as caught:
                poll.answer()
            self.assertEqual(caught.exception.code, "ABORTED")
            self.assertEqual(w[1].hears().error_code, 10)
            self.assertTrue(w[0].told.empty())

    def test_a_silent_task_is_named_to_those_who_are_called(self):
        with opened(Worker(), Worker()) as w, service(2, "lost_ms=1", addresses(w)) as s:
            self.register(s, 1)
            lost = s.client(tsl)
            lost.RegisterTask(incarnation=101, source_task=task(1, b"worker"))
            lost.close()
            request = w[0].hears()
            self.assertIn("task 1", request.error_message.decode())
            self.assertEqual(request.error_payload.source_task, task(1, b"worker"))
            self.assertFalse(request.error_payload.is_reported_error)

    def test_a_failed_shutdown_is_told_by_the_service(self):
        with opened(Worker(), Worker()) as w, service(2, "shutdown_ms=1", addresses(w)) as s:
            c = self.register(s, 2)
            with self.assertRaises(Refused):
                c.ShutdownTask(source_task=task(0, b"worker"))
            request = w[1].hears()
            self.assertEqual(request.error_code, 13)
            self.assertIn("Shutdown barrier has failed", request.error_message.decode())
            self.assertEqual(request.error_payload.source_task, task(0, b"coordination_service"))

    def test_recoverable_tasks_errors_are_told_to_nobody(self):
        with opened(Worker(), Worker()) as w, service(2, "recoverable", addresses(w)) as s:
            c = self.register(s, 2)
            c.ReportErrorToService(error_origin=task(1, b"worker"), error_code=13, error_message=b"ouch")
            self.assertEqual([self.state(c, t) for t in (0, 1)], [CONNECTED, ERROR])
            self.assertTrue(w[0].told.empty())

    def test_a_new_error_is_told_anew(self):
        with opened(Worker(), Worker()) as w, service(2, addresses(w)) as s:
            c = self.register(s, 2)
            for text in (b"first", b"second"):
                c.ReportErrorToService(error_origin=task(1, b"worker"), error_code=13, error_message=text)
                self.assertIn(text, w[0].hears().error_message)
                c.ResetTask(source_task=task(1, b"worker"))
                c.RegisterTask(incarnation=7, source_task=task(1, b"worker"))

    def untold(self, address, *said, silent=False):
        """Whoever cannot be told by a call is put in error, as without one; others are told."""
        with opened(Worker(), Worker()) as w, service(
                3, "worker_ms=%d" % (300 if silent else 60000), "workers=%s,%s,%s" % (w[0].address, address, w[1].address)) as s:
            c = self.register(s, 3)
            c.ReportErrorToService(error_origin=task(2, b"worker"), error_code=13, error_message=b"ouch")
            self.assertIn(b"ouch", w[0].hears().error_message)
            text = self.comes_in_error(c, 1)
            self.assertIn("unable to inform clients", text)
            self.assertIn("ouch", text)
            with self.assertRaises(Refused) as caught:
                c.Heartbeat(incarnation=101, source_task=task(1, b"worker"))
            self.assertEqual(caught.exception.code, "ABORTED")
            self.assertEqual(self.state(c, 0), CONNECTED)
        for part in said:
            self.assertEqual(s.said.count(part), 1, s.said)

    def test_one_that_is_not_there(self):
        held, address = nobody()
        with held:
            self.untold(address, "task 1's server at %s could not be told of the job's error: Connection refused" % address)

    def test_one_whose_name_is_not_known(self):
        self.untold("nobody.invalid:2222", "task 1's server at nobody.invalid:2222 could not be told", silent=True)

    def test_one_that_refuses(self):
        with opened(Worker(grpc.StatusCode.UNIMPLEMENTED)) as (w,):
            self.untold(w.address, "it answers UNIMPLEMENTED: no%09wonder")

    def test_one_that_closes(self):
        with opened(Strange(lambda c: c.close())) as (w,):
            self.untold(w.address, "task 1's server at " + w.address)

    def test_one_that_speaks_something_else(self):
        with opened(Strange(lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10))) as (w,):
            self.untold(w.address, "it does not speak HTTP/2")

    def test_one_that_says_nothing(self):
        with opened(Strange(lambda c: None)) as (w,):
            self.untold(w.address, "it did not answer within 300 ms", silent=True)

    def test_one_that_has_no_end(self):
        settings, pings = b"\0\0\0\4\0\0\0\0\0", b"\0\0\x08\6\1\0\0\0\0" + b"p" * 8
        with opened(Strange(lambda c: c.sendall(settings + pings * 40000))) as (w,):
            self.untold(w.address, "its answer has no end")

    def test_those_that_answer_nonsense(self):
        """Frames of any kind, flags and stream, some with the headers of an answer's beginning: as likely to be taken as can be."""
        dice = random.Random(4711)
        seeds = [dice.getrandbits(32) for _ in range(40)]

        def nonsense(seed):
            dice = random.Random(seed)
            frames = [b"\0\0\0\4\0\0\0\0\0"]
            for _ in range(dice.randrange(1, 30)):
                inside = dice.choice([b"", b"\x88", b"\x88\x5f\x10application/grpc", dice.randbytes(dice.randrange(40))])
                frames.append(len(inside).to_bytes(3, "big") + bytes([dice.randrange(11), dice.choice([0, 1, 4, 5, 255])]) +
                              dice.choice([0, 1, 1, 1, 2, 3, 1 << 31]).to_bytes(4, "big") + inside)
            return lambda c: (c.sendall(b"".join(frames)), dice.random() < 0.5 and c.close())

        with opened(*(Strange(nonsense(seed)) for seed in seeds)) as w, service(41, "worker_ms=300", addresses(w) + ",x:1") as s:
            c = self.register(s, 41)
            c.ReportErrorToService(error_origin=task(40, b"worker"), error_code=13, error_message=b"ouch")
            for t in range(40):
                self.comes_in_error(c, t)

    def test_many_of_a_template_that_are_not_there_hold_nobody_up(self):
        with service(250, "workers=127.0.0.{rank}:9") as s:
            c = self.register(s, 250)
            c.ReportErrorToService(error_origin=task(249, b"worker"), error_code=13, error_message=b"ouch")
            c.DeleteKeyValue(key=b"nothing")
            for t in (1, 100, 248):
                self.comes_in_error(c, t)
        self.assertEqual(s.said.count("could not be told"), 8)
        self.assertEqual(s.said.count("of others like it nothing is said"), 1)

    def test_the_service_stops_while_a_call_is_open(self):
        with opened(Worker(), Worker()) as w:
            w[0].lets.clear()
            with service(2, addresses(w)) as s:
                c = self.register(s, 2)
                c.ReportErrorToService(error_origin=task(1, b"worker"), error_code=13, error_message=b"ouch")
                w[0].hears()


if __name__ == "__main__":
    unittest.main(verbosity=2)
