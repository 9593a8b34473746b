#!/usr/bin/env python3
"""Every call of every dialect once, over the wire; what a dialect does of its own; and that all have one engine.

variants: release asan
timeout: 240
"""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import clients
except ImportError as missing:
    print("skipped: %s (scripts/deps.sh check)" % missing)
    sys.exit(77)
from clients import Refused, runtime, service, task, tsl, xla  # noqa: E402


def fields(message):
    """(number, value) of each; of small messages: all numbers are of one byte."""
    at = 0
    while at < len(message):
        number, is_bytes, value = message[at] >> 3, message[at] & 7 == 2, message[at + 1]
        at += 2
        if is_bytes:
            value, at = message[at:at + value], at + value
        yield number, value


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


class Dialects(unittest.TestCase):
    def refused(self, code, part, call, *arguments, **fields):
        with self.assertRaises(Refused) as caught:
            call(*arguments, **fields)
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        self.assertIn(part, caught.exception.text)
        return caught.exception.payloads

    def test_each_call_of_xla(self):
        with service(2) as s:
            c = s.client(xla)
            for t in (0, 1):
                r = c.RegisterTask(incarnation=100 + t, source_task_id=t)
                self.assertEqual(r.service_incarnation, s.incarnation)
                r = c.Heartbeat(incarnation=100 + t, source_task_id=t)
                self.assertEqual(r.service_incarnation, s.incarnation)
            self.keys(c)
            self.barriers(c, xla, 0, 1)
            alive = [c.begin("GetAliveTasks", requesting_task_id=t, task_ids=[0, 1]) for t in (0, 1)]
            for call in alive:
                r = call.answer()
                self.assertEqual((list(r.alive_task_ids), list(r.incarnations)), ([0, 1], [100, 101]))
            r = c.WatchTasks(version_number=-1)
            self.assertEqual([(t.task_id, t.state, t.incarnation) for t in r.task_state], [(0, 3, 100), (1, 3, 101)])
            watch = c.begin("WatchTasks", version_number=r.version_number)
            polls = [c.begin("PollForError", source_task_id=t) for t in (0, 1)]
            c.DeleteKeyValue(key=b"nothing")
            self.assertEqual([p.is_done() for p in polls + [watch]], [False] * 3)
            c.ReportErrorToService(source_task_id=1, error_code=13, error_message="ouch ä".encode())
            for poll in polls:
                payloads = self.refused("INTERNAL", "ouch ä", poll.answer)
                error = xla.CoordinationServiceError.FromString(payloads["CoordinationServiceError"])
                self.assertEqual((error.source_task_id, error.is_reported_error), (1, True))
            rows = watch.answer().task_state
            self.assertEqual([t.state for t in rows], [3, 4])
            self.assertFalse(rows[0].HasField("error_payload"))
            self.assertEqual((rows[1].error_code, rows[1].error_payload.source_task_id), (13, 1))
            self.assertIn("ouch ä", rows[1].error_message.decode())
            c.ShutdownTask(source_task_id=0)

    def test_long_values(self):
        """What is long is not copied into its answer: the same bytes all the same, with keys and lengths of all sizes."""
        with service(1) as s:
            x, t, r = s.client(xla), s.client(tsl), s.client(runtime)
            for number, size in enumerate((4095, 4096, 16383, 16384, 100000, 3 << 20)):
                key, value = b"d/" + b"k" * (number * 60 + 1), os.urandom(size)
                waits = [c.begin("GetKeyValue", key=key) for c in (x, t)]
                x.InsertKeyValue(kv=xla.KeyValueEntry(key=key, value=value))
                for kv in [w.answer().kv for w in waits] + [c.TryGetKeyValue(key=key).kv for c in (x, t)]:
                    self.assertEqual((kv.key, kv.value), (key, value))
                self.assertEqual(r.KeyValueGet(session_id=s.incarnation, key=key, timeout_milliseconds=60000).value, value)
                listed = {kv.key: kv.value for kv in x.GetKeyValueDir(directory_key=b"d").kv}
                self.assertEqual((len(listed), listed[key]), (number + 1, value))

    def keys(self, c):
        """Of xla and tsl: the same."""
        kv = c.dialect.KeyValueEntry
        waits = c.begin("GetKeyValue", key=b"//a//b/")
        self.refused("NOT_FOUND", "Config key a/b not found", c.TryGetKeyValue, key=b"a/b")
        self.assertFalse(waits.is_done())
        c.InsertKeyValue(kv=kv(key=b"/a//b", value=b"\xff\x00"))
        self.assertEqual(waits.answer().kv, kv(key=b"//a//b/", value=b"\xff\x00"))
        self.assertEqual(c.TryGetKeyValue(key=b"a/b").kv.value, b"\xff\x00")
        payloads = self.refused("ALREADY_EXISTS", "key a/b already exists.", c.InsertKeyValue, kv=kv(key=b"a/b"))
        self.assertEqual(payloads, {})
        c.InsertKeyValue(kv=kv(key=b"a/b", value=b"w"), allow_overwrite=True)
        self.assertEqual(c.IncrementKeyValue(key=b"n", increment=41).kv, kv(key=b"n", value=b"41"))
        self.assertEqual(c.IncrementKeyValue(key=b"n", increment=-83).kv.value, b"-42")
        c.InsertKeyValue(kv=kv(key="a/ä".encode(), value=b""))
        r = c.GetKeyValueDir(directory_key=b"a/")
        self.assertEqual(r.directory_key, b"")
        self.assertEqual([(e.key, e.value) for e in r.kv], [(b"a/b", b"w"), ("a/ä".encode(), b"")])
        c.DeleteKeyValue(key=b"a")
        self.assertEqual(len(c.GetKeyValueDir(directory_key=b"a").kv), 0)
        big = os.urandom(5 << 20)
        c.InsertKeyValue(kv=kv(key=b"big", value=big))
        self.assertTrue(c.GetKeyValue(key=b"big").kv.value == big)

    def test_keys_and_ids_are_as_long_and_as_odd_as_clients_have_them(self):
        with service(2) as s:
            a, b = s.client(xla), s.client(tsl)
            for i in (0, 1):
                a.RegisterTask(incarnation=1 + i, source_task_id=i)
            names = [b"d/" + b"x" * 5303, b"d/" + b"x" * 5302 + b"y", b"d/" + "\u00e4".encode() * (1 << 19), b"a/../b", b"a/./b", b"..", b""]
            names[2] = names[2][:1 << 20]
            for i, name in enumerate(names):
                kv = xla.KeyValueEntry(key=name, value=b"%d" % i)
                self.refused("NOT_FOUND", "Config key", a.TryGetKeyValue, key=name)
                waits = b.begin("GetKeyValue", key=b"/" + name + b"/")
                b.DeleteKeyValue(key=b"nothing")
                a.InsertKeyValue(kv=kv)
                self.assertEqual(waits.answer().kv.value, b"%d" % i)
                self.refused("ALREADY_EXISTS", "already exists.", a.InsertKeyValue, kv=kv)
                a.InsertKeyValue(kv=kv, allow_overwrite=True)
            for i, name in enumerate(names):
                self.assertEqual(b.GetKeyValue(key=name).kv, tsl.KeyValueEntry(key=name, value=b"%d" % i))
            self.assertEqual(b.GetKeyValue(key=b"/").kv.value, b"6")
            self.assertEqual(b.GetKeyValue(key=b"a/../b\0more").kv.value, b"3")  # the reference ends it there, too
            self.assertEqual({e.key: e.value for e in b.GetKeyValueDir(directory_key=b"d").kv},
                             {names[0]: b"0", names[1]: b"1", names[2]: b"2"})
            self.assertEqual([e.key for e in b.GetKeyValueDir(directory_key=b"a/..").kv], [b"a/../b"])
            self.refused("INVALID_ARGUMENT", "1048577 bytes", a.InsertKeyValue, kv=xla.KeyValueEntry(key=b"k" * ((1 << 20) + 1)))
            for name in (names[0], names[3], names[6]):
                a.DeleteKeyValue(key=name)
                self.refused("NOT_FOUND", "Config key", a.TryGetKeyValue, key=name)
            a.DeleteKeyValue(key=b"d")
            self.assertEqual(len(b.GetKeyValueDir(directory_key=b"d").kv), 0)
            for name in b"n" * 3968, b"n" * 4096, b"n" * 5303:
                self.assertEqual([a.IncrementKeyValue(key=name + b"/count", increment=n).kv.value for n in (40, 2)], [b"40", b"42"])
                self.assertEqual(b.GetKeyValue(key=name + b"/count").kv.value, b"42")
                b.InsertKeyValue(kv=tsl.KeyValueEntry(key=name + b"s/count", value=b"beside"))
                self.assertEqual([e.key for e in b.GetKeyValueDir(directory_key=name).kv], [name + b"/count"])
                a.DeleteKeyValue(key=name)
                self.assertEqual(len(b.GetKeyValueDir(directory_key=name).kv), 0)
                self.assertEqual(b.GetKeyValue(key=name + b"s/count").kv.value, b"beside")
            for name in (b"i" * 5000, b"i" * 4999 + b"j", b"with\0NUL", b""):
                first = a.begin("Barrier", barrier_id=name, barrier_timeout_in_ms=60000, source_task_id=0)
                b.DeleteKeyValue(key=b"nothing")
                self.assertFalse(first.is_done())
                a.Barrier(barrier_id=name, barrier_timeout_in_ms=60000, source_task_id=1)
                first.answer()

    def barriers(self, c, dialect, *two):
        """The second call of each instance lets both through."""
        def source(t):
            return {"source_task_id" if dialect is xla else "source_task": t}
        everybody = {"task_ids" if dialect is xla else "tasks": two}
        for counter in (0, 1):
            first = c.begin("Barrier", barrier_id=b"b", barrier_timeout_in_ms=60000, counter=counter, **source(two[0]))
            c.DeleteKeyValue(key=b"nothing")
            self.assertFalse(first.is_done())
            r = c.Barrier(barrier_id=b"b", barrier_timeout_in_ms=60000, counter=counter, **everybody, **source(two[1]))
            self.assertEqual((r.counter, first.answer().counter), (counter, counter))
        waits = c.begin("Barrier", barrier_id=b"c", barrier_timeout_in_ms=60000, **source(two[0]))
        c.DeleteKeyValue(key=b"nothing")
        c.CancelBarrier(barrier_id=b"c", **source(two[1]))
        payloads = self.refused("CANCELLED", "cancelled", waits.answer)
        self.assertEqual(payloads["CoordinationServiceError"], b"")
        self.assertEqual(dialect.BarrierError.FromString(payloads["BarrierError"]),
                         dialect.BarrierError(barrier_id=b"c", counter=0))

    def test_each_call_of_tensorflow(self):
        with service(2) as s:
            c = s.client(tsl)
            me, you = task(0), task(1)
            for t in (me, you):
                self.assertEqual(c.RegisterTask(incarnation=7, source_task=t).leader_incarnation, s.incarnation)
                self.assertEqual(c.Heartbeat(incarnation=7, source_task=t).leader_incarnation, s.incarnation)
            self.keys(c)
            self.barriers(c, tsl, me, you)
            alive = [c.begin("GetAliveTasks", requesting_task=t, tasks=[me, you]) for t in (me, you)]
            for call in alive:
                r = call.answer()
                self.assertEqual((list(r.alive_tasks), list(r.incarnations)), ([me, you], [7, 7]))
            waits = [c.begin("WaitForAllTasks", source_task=t) for t in (me, you)]
            self.assertEqual([w.answer().leader_incarnation for w in waits], [s.incarnation] * 2)
            r = c.GetTaskState(source_task=[you, me])
            self.assertEqual({(t.task.task_id, t.task.job_name, t.state) for t in r.task_state},
                             {(0, b"jax_worker", 3), (1, b"jax_worker", 3)})
            self.refused("INVALID_ARGUMENT", "", c.GetTaskState, source_task=[task(2)])
            self.refused("UNIMPLEMENTED", "PollForError", c.ReportErrorToTask, error_code=13)
            self.assertEqual(c.GetJobState(job_name=b"jax_worker").task_state,
                             c.WatchJobState(job_name=b"jax_worker", version_number=-1).task_state)
            r = c.WatchJobState(job_name=b"jax_worker", version_number=-1)
            self.assertEqual([t.state for t in r.task_state], [3, 3])
            self.refused("INVALID_ARGUMENT", "", c.WatchJobState, job_name=b"", version_number=r.version_number + 1000)
            poll = c.begin("PollForError", source_task=me)
            c.DeleteKeyValue(key=b"nothing")
            self.assertFalse(poll.is_done())
            c.ReportErrorToService(error_origin=you, error_code=13, error_message=b"ouch")
            payloads = self.refused("INTERNAL", "ouch", poll.answer)
            error = tsl.CoordinationServiceError.FromString(payloads["CoordinationServiceError"])
            self.assertEqual((error.source_task, error.is_reported_error), (you, True))
            c.ResetTask(source_task=you)
            c.ShutdownTask(source_task=me)

    def test_task_zero_may_be_left_out_and_names_may_be_empty(self):
        with service(1) as s:
            a, b = s.client(xla), s.client(tsl)
            a.begin_bytes("RegisterTask", bytes.fromhex("191111111111111111")).answer()
            b.begin_bytes("RegisterTask", bytes.fromhex("1911111111111111112a00")).answer()
            b.begin_bytes("RegisterTask", bytes.fromhex("191111111111111111")).answer()  # no task at all
            b.RegisterTask(incarnation=0x1111111111111111, source_task=task(0))
            for job in (b"", b"jax_worker"):
                name = tsl.CoordinatedTask(job_name=job)
                r = b.GetAliveTasks(requesting_task=name, tasks=[name])
                self.assertEqual(list(r.alive_tasks), [name])  # as the client calls it
            self.refused("ABORTED", "different incarnation", b.RegisterTask, incarnation=1)

    def test_a_call_that_means_another_service_is_refused(self):
        with service(1) as s:
            c = clients.Client(s.address, xla, s.incarnation ^ 1)
            s.clients.append(c)
            c.RegisterTask(incarnation=1)
            for rpc in ("Heartbeat", "GetKeyValue", "Barrier", "WatchTasks", "PollForError", "ShutdownTask",
                        "InsertKeyValue", "TryGetKeyValue", "IncrementKeyValue", "GetKeyValueDir", "DeleteKeyValue",
                        "CancelBarrier", "GetAliveTasks", "ReportErrorToService"):
                payloads = self.refused("INTERNAL", "wrong service incarnation: requested %d, currently %d" % (
                    s.incarnation ^ 1, s.incarnation), c.begin(rpc).answer)
                self.assertEqual(payloads["CoordinationServiceError"], b"")
                self.assertEqual(xla.ServiceMismatchError.FromString(payloads["ServiceMismatchError"]),
                                 xla.ServiceMismatchError(service_incarnation=s.incarnation))
            self.refused("INTERNAL", "requested 0,", c.begin_bytes("Heartbeat", b"").answer)
            self.assertEqual(len(payloads), 2)

    def test_what_is_no_message_or_no_text_is_refused_in_words(self):
        with service(1) as s:
            b = s.client(tsl)
            self.refused("INVALID_ARGUMENT", "a key is not UTF-8", b.GetKeyValue, key=b"\xff\xfe")
            self.refused("INVALID_ARGUMENT", "a job_name is not UTF-8", b.Heartbeat, source_task=task(0, b"\xc3"))
            self.refused("INVALID_ARGUMENT", "no BarrierRequest", b.begin_bytes("Barrier", b"\x0a\xff").answer)
            self.refused("RESOURCE_EXHAUSTED", "64 MiB", b.begin_bytes("Barrier", b"\x1a\x00" * (4 << 20)).answer)
            b.InsertKeyValue(kv=tsl.KeyValueEntry(key=b"k", value=b"v"))  # and it goes on
            path = "/tensorflow.CoordinationService/NoSuchCall"
            call = b.channel.unary_unary(path)
            self.refused("UNIMPLEMENTED", "", clients.Pending(call.future(b"", timeout=60)).answer)

    def test_jobs_are_numbered_in_the_order_in_which_they_are_told(self):
        with service(3, "jobs=worker:2,ps:1") as s:
            c = s.client(tsl)
            names = [task(0, b"worker"), task(1, b"worker"), task(0, b"ps")]
            for i, name in enumerate(names):
                c.RegisterTask(incarnation=50 + i, source_task=name)
            a = s.client(xla)
            self.assertEqual([t.incarnation for t in a.WatchTasks(version_number=-1).task_state], [50, 51, 52])
            r = c.WatchJobState(job_name=b"ps", version_number=-1)
            self.assertEqual(c.GetJobState(job_name=b"ps").task_state, r.task_state)
            self.refused("INVALID_ARGUMENT", "'chief' is not in the cluster", c.GetJobState, job_name=b"chief")
            self.assertEqual([(t.task, t.incarnation) for t in r.task_state], [(names[2], 52)])
            calls = [c.begin("GetAliveTasks", requesting_task=n, tasks=names) for n in names]
            self.assertEqual([list(call.answer().alive_tasks) for call in calls], [names] * 3)
            for stranger in (task(2, b"worker"), task(1, b"ps"), task(-1, b"ps"), task(0, b"chief"), task(0)):
                self.refused("INVALID_ARGUMENT", "not in the cluster", c.RegisterTask, incarnation=1,
                             source_task=stranger)
            self.refused("INVALID_ARGUMENT", "'chief' is not in the cluster", c.WatchJobState, job_name=b"chief")
            poll = c.begin("PollForError", source_task=names[0])
            c.DeleteKeyValue(key=b"nothing")
            c.ReportErrorToService(error_origin=names[2], error_code=8, error_message=b"full")
            payloads = self.refused("RESOURCE_EXHAUSTED", "full", poll.answer)
            error = tsl.CoordinationServiceError.FromString(payloads["CoordinationServiceError"])
            self.assertEqual(error.source_task, names[2])

    def test_sentences_name_tasks_as_their_clients_do(self):
        """The number that a task has here is nobody's: worker 0 is task 1."""
        with service(3, "jobs=ps:1,worker:2", "shutdown_ms=60000") as s:
            c = s.client(tsl)
            names = [task(0, b"ps"), task(0, b"worker"), task(1, b"worker")]

            def says(code, who, rpc, **fields):
                with self.assertRaises(Refused) as caught:
                    rpc.answer() if hasattr(rpc, "answer") else getattr(c, rpc)(**fields)
                text = caught.exception.text
                self.assertEqual(caught.exception.code, code, text)
                for job, index in who:
                    self.assertIn("/job:%s/replica:0/task:%d" % (job, index), text)
                self.assertNotRegex(text, r"(?i)(\btask[ =(]+|at the barrier: )\d")

            def barrier(name, caller, **fields):
                return c.begin("Barrier", barrier_id=name, source_task=names[caller],
                               **dict({"barrier_timeout_in_ms": 60000}, **fields))

            ps, one, two = ("ps", 0), ("worker", 0), ("worker", 1)
            says("FAILED_PRECONDITION", [one], "PollForError", source_task=names[1])
            says("INVALID_ARGUMENT", [one], "Heartbeat", source_task=names[1])
            says("FAILED_PRECONDITION", [one], "ResetTask", source_task=names[1])
            for i, name in enumerate(names):
                c.RegisterTask(incarnation=50 + i, source_task=name)
            says("DEADLINE_EXCEEDED", [one, ps, two], barrier(b"late", 1, barrier_timeout_in_ms=1))
            says("INVALID_ARGUMENT", [two], barrier(b"b", 2, tasks=names[:2]))
            says("INTERNAL", [one], barrier(b"c", 1, counter=7))
            waits = barrier(b"d", 0)
            c.DeleteKeyValue(key=b"nothing")
            c.CancelBarrier(barrier_id=b"d", source_task=names[2])
            says("CANCELLED", [two], waits)
            says("INVALID_ARGUMENT", [one], "GetAliveTasks", requesting_task=names[1], tasks=names[:1])
            waits, poll = barrier(b"e", 0), c.begin("PollForError", source_task=names[0])
            c.DeleteKeyValue(key=b"nothing")
            says("ABORTED", [two], "RegisterTask", source_task=names[2], incarnation=1)
            says("INTERNAL", [two], waits)
            says("ABORTED", [two], poll)
            says("ABORTED", [two], "Heartbeat", source_task=names[2], incarnation=52)
            says("FAILED_PRECONDITION", [two], "PollForError", source_task=names[2])
            says("INTERNAL", [two], barrier(b"f", 1))
            says("INTERNAL", [two], "ShutdownTask", source_task=names[1])

    def test_one_job_of_any_name_is_not_two(self):
        with service(2) as s:
            c = s.client(tsl)
            c.RegisterTask(incarnation=1, source_task=task(0, b"trainer"))
            c.RegisterTask(incarnation=1, source_task=task(0, b""))
            self.refused("INVALID_ARGUMENT", "--jobs", c.RegisterTask, incarnation=1, source_task=task(0, b"ps"))

    def wait_for_all(self, c, infos):
        calls = [c.begin("WaitForAllTasks", source_task=task(i), **info) for i, info in enumerate(infos)]
        answers = [call.answer() for call in calls]
        for answer in answers[1:]:
            self.assertEqual(answer, answers[0])
        return answers[0]

    def test_devices_of_all_tasks_are_given_to_all(self):
        anys = [tsl.Any(type_url=b"type.googleapis.com/tensorflow.DeviceAttributes", value=b"%d" % i)
                .SerializeToString() for i in range(4)]
        with service(3) as s:
            c = s.client(tsl)
            infos = [{"device_info": tsl.DeviceInfo(devices=list)} for list in (anys[:2], [], anys[2:])]
            first = c.begin("WaitForAllTasks", source_task=task(0), **infos[0])
            c.DeleteKeyValue(key=b"nothing")
            answer = self.wait_for_all(c, infos)  # who asks twice: the first is cancelled, nothing is there twice
            self.refused("CANCELLED", "", first.answer)
            self.assertEqual(list(answer.device_info.devices), anys)
            self.assertEqual(answer.leader_incarnation, s.incarnation)
            again = c.WaitForAllTasks(source_task=task(1), **infos[0])
            self.assertEqual(again, answer)
            self.refused("INVALID_ARGUMENT", "not in the cluster", c.WaitForAllTasks, source_task=task(3))
        with service(2) as s:
            infos = [{"local_device_info": tsl.CoordinationServiceDeviceInfo(tf=tsl.TfDeviceList(devices=[d]))}
                     for d in (b"one", b"two")]
            answer = self.wait_for_all(s.client(tsl), infos)
            self.assertEqual(list(answer.cluster_device_info.tf.devices), [b"one", b"two"])

    def test_many_who_wait_for_all_get_one_answer(self):
        count = 200
        with service(count) as s:
            c = s.client(tsl)
            infos = [{"device_info": tsl.DeviceInfo(devices=[tsl.Any(value=b"%d" % i).SerializeToString()])}
                     for i in range(count)]
            answer = self.wait_for_all(c, infos)
            values = [tsl.Any.FromString(any).value for any in answer.device_info.devices]
            self.assertEqual(values, [b"%d" % i for i in range(count)])
        with service(count, "register") as s:
            calls = [c.begin("EnumerateDevices", session_id=s.incarnation, local_topology=[b"\x08" + varint(i)])
                     for i, c in enumerate([s.client(runtime)] * count)]
            answers = [call.answer().global_topology for call in calls]
            self.assertEqual(set(answers), {answers[0]})
            self.assertEqual(len(list(fields(answers[0]))), count)
        with service(3) as s:  # and one error
            calls = [s.client(runtime).begin("EnumerateDevices", session_id=s.incarnation,
                                             local_topology=[b"\x08%c" % i + b"\xff" * (i == 1)]) for i in range(3)]
            self.refused("INVALID_ARGUMENT", "no Node", calls[1].answer)
            calls[1] = s.client(runtime).begin("EnumerateDevices", session_id=s.incarnation,
                                               local_topology=[b"\x08\x01\x12\x01\x80"])
            for call in calls:
                self.refused("INVALID_ARGUMENT", "local topology 1", call.answer)

    # A node of two devices in today's form (1: process, 2: boot id, 3: devices), and in that of 2020 (2: devices).
    @staticmethod
    def node(number, today, boot=b"boot"):
        devices = [b"\x08\x00\x12\x01x", b"\x08\x01\x12\x01y"]
        out = bytes([8, number]) if number else b""
        out += b"\x12\x04" + boot if today else b""
        return out + b"".join((b"\x1a" if today else b"\x12") + bytes([len(d)]) + d for d in devices)

    def assert_numbered(self, topology, today):
        """Two nodes of two devices: 4: global_device_id is 0, 1, 2, 3, or left out for 0."""
        ids = [dict(fields(device)).get(4, 0) for number, node in fields(topology)
               for number, device in fields(node) if number == (3 if today else 2) and device != b"boot"]
        self.assertEqual(ids, [0, 1, 2, 3], topology)

    def test_topologies_are_made_one(self):
        for today in (True, False):
            with service(2) as s:
                anys = [tsl.Any(type_url=b"type.googleapis.com/xla.LocalTopologyProto", value=self.node(i, today))
                        for i in (0, 1)]
                infos = [{"device_info": tsl.DeviceInfo(devices=[a.SerializeToString()])} for a in anys]
                answer = self.wait_for_all(s.client(tsl), infos)
                self.assertEqual(len(answer.device_info.devices), 1)
                any = tsl.Any.FromString(answer.device_info.devices[0])
                self.assertEqual(any.type_url, b"type.googleapis.com/xla.GlobalTopologyProto")
                self.assert_numbered(any.value, today)
            with service(2) as s:
                globals = [tsl.TfDeviceList(devices=[self.node(i, today)]).SerializeToString() for i in (0, 1)]
                infos = [{"local_device_info": tsl.CoordinationServiceDeviceInfo(xla=tsl.XlaDeviceList(devices=g))}
                         for g in globals]
                answer = self.wait_for_all(s.client(tsl), infos)
                self.assert_numbered(answer.cluster_device_info.xla.devices, today)

    def connect(self, s, count):
        nodes = [s.client(runtime) for _ in range(count)]
        calls = [c.begin("Connect", protocol_version=3, timeout_milliseconds=60000, node_id=i, client_id=1000 + i)
                 for i, c in enumerate(nodes)]
        self.assertEqual({call.answer().session_id for call in calls}, {s.incarnation})
        return nodes

    def test_each_call_of_the_old_service(self):
        with service(2, "register", "shutdown_ms=60000") as s:
            one, two = self.connect(s, 2)
            session = {"session_id": s.incarnation}
            for i, c in enumerate((one, two)):
                c.Heartbeat(node_id=i, **session)
            waits = one.begin("KeyValueGet", key=b"\xff//", timeout_milliseconds=60000, **session)
            self.refused("NOT_FOUND", "none", one.KeyValueGet, key=b"none", timeout_milliseconds=1, **session)
            two.KeyValueSet(key=b"\xff//", value=b"raw", **session)
            self.assertEqual(waits.answer().value, b"raw")
            two.KeyValueSet(key=b"\xff//", value=b"again", **session)
            r = one.KeyValueGet(key=b"\xff//", **session)
            self.assertEqual((r.value, r.found), (b"again", False))
            calls = [c.begin("EnumerateDevices", local_topology=[self.node(i, False)], **session)
                     for i, c in enumerate((one, two))]
            for call in calls:
                self.assert_numbered(call.answer().global_topology, False)
            calls = [c.begin("WaitAtBarrier", barrier_id=b"b", node_id=i, timeout_milliseconds=60000, **session)
                     for i, c in enumerate((one, two))]
            for call in calls:
                call.answer()
            self.refused("FAILED_PRECONDITION", "Barrier b has been used", one.WaitAtBarrier, barrier_id=b"b",
                         timeout_milliseconds=60000, **session)
            self.refused("DEADLINE_EXCEEDED", "Barrier timed out", one.WaitAtBarrier, barrier_id=b"late",
                         timeout_milliseconds=1, **session)
            calls = [c.begin("Shutdown", **session) for c in (one, two)]  # without the node
            for call in calls:
                call.answer()
            for rpc in ("KeyValueGet", "KeyValueSet", "EnumerateDevices", "WaitAtBarrier"):
                self.refused("FAILED_PRECONDITION", "closed", one.begin(rpc, **session).answer)

    def generation(self, s, number):
        """Two clients of each dialect's way come, write, meet, and shut down; what is there is what they find anew."""
        a, b = s.client(xla), s.client(tsl)
        calls = [a.begin("RegisterTask", incarnation=10 * number, source_task_id=0),
                 b.begin("RegisterTask", incarnation=10 * number + 1, source_task=task(1))]
        for call in calls:
            call.answer()
        a.InsertKeyValue(kv=xla.KeyValueEntry(key=b"addresses/0", value=b"%d" % number))
        b.InsertKeyValue(kv=tsl.KeyValueEntry(key=b"long", value=bytes(100000)))
        self.assertEqual(b.IncrementKeyValue(key=b"count", increment=1).kv.value, b"1")
        first = a.begin("Barrier", barrier_id=b"step", barrier_timeout_in_ms=60000, source_task_id=0)
        a.DeleteKeyValue(key=b"nothing")
        self.assertFalse(first.is_done())  # it is no barrier that passed before
        b.Barrier(barrier_id=b"step", barrier_timeout_in_ms=60000, source_task=task(1))
        first.answer()
        calls = [c.begin("WaitForAllTasks", source_task=task(i), device_info=tsl.DeviceInfo(devices=[
            tsl.Any(value=b"%d of %d" % (i, number)).SerializeToString()])) for i, c in ((0, s.client(tsl)), (1, b))]
        for call in calls:
            self.assertEqual([tsl.Any.FromString(any).value for any in call.answer().device_info.devices],
                             [b"%d of %d" % (i, number) for i in (0, 1)])
        last = a.begin("ShutdownTask", source_task_id=0)
        a.TryGetKeyValue(key=b"addresses/0")
        b.ShutdownTask(source_task=task(1))
        last.answer()
        self.refused("NOT_FOUND", "addresses/0", a.TryGetKeyValue, key=b"addresses/0")

    def test_what_guests_write_goes_when_all_have_shut_down(self):
        for option in ("shutdown_ms=60000", "shutdown_ms=0"):
            with service(2, "register", option) as s:
                for number in (1, 2, 3):
                    self.generation(s, number)

    def test_clients_of_one_process_shut_down_on_one_connection(self):
        with service(3, "register", "shutdown_ms=60000") as s:
            shared, alone = s.client(runtime), s.client(runtime)
            calls = [c.begin("Connect", protocol_version=3, timeout_milliseconds=60000, node_id=i, client_id=1000 + i)
                     for i, c in enumerate((shared, alone, shared))]
            for call in calls:
                call.answer()
            session = {"session_id": s.incarnation}
            shared.Heartbeat(node_id=0, **session)  # the last word on a connection is not whose every call is
            calls = [c.begin("Shutdown", **session) for c in (shared, shared)]
            shared.Heartbeat(node_id=2, **session)
            self.assertEqual([call.is_done() for call in calls], [False, False])
            alone.Shutdown(**session)
            for call in calls:
                call.answer()

    def test_a_node_that_fails_is_named_to_every_call_of_the_old_service(self):
        with service(3, "register", "shutdown_ms=60000", "lost_ms=1") as s:
            one, two, lost = self.connect(s, 3)
            session = {"session_id": s.incarnation}
            waiting = [one.begin("KeyValueGet", key=b"none", timeout_milliseconds=60000, **session),
                       one.begin("WaitAtBarrier", barrier_id=b"b", timeout_milliseconds=60000, **session),
                       two.begin("EnumerateDevices", local_topology=[self.node(1, False)], **session),
                       two.begin("Shutdown", **session)]
            for i, c in enumerate((one, two)):
                c.Heartbeat(node_id=i, **session)
            self.assertEqual([call.is_done() for call in waiting], [False] * 4)
            lost.close()
            for call in waiting:
                self.refused("ABORTED", "task 2", call.answer)
            for rpc in ("Heartbeat", "WaitAtBarrier", "KeyValueSet", "KeyValueGet", "EnumerateDevices", "Shutdown"):
                self.refused("ABORTED", "task 2", one.begin(rpc, **session).answer)

    def test_devices_are_numbered_node_by_node(self):
        with service(4) as s:
            boots = [b"aaaa", b"bbbb", b"aaaa", b"bbbb"]  # two hosts, whose nodes alternate
            calls = [c.begin("EnumerateDevices", session_id=s.incarnation,
                             local_topology=[self.node(i, True, boots[i])])
                     for i, c in enumerate(self.connect(s, 4))]
            for call in calls:
                nodes = [node for _, node in fields(call.answer().global_topology)]
                ids = [dict(fields(device)).get(4, 0) for node in nodes for n, device in fields(node) if n == 3]
                self.assertEqual(ids, list(range(8)))

    def test_what_the_old_service_refuses(self):
        with service(2, "register") as s:
            c = s.client(runtime)
            hello = {"protocol_version": 3, "timeout_milliseconds": 60000}
            self.refused("INVALID_ARGUMENT", "Invalid protocol version 2", c.Connect, protocol_version=2)
            self.refused("INVALID_ARGUMENT", "node ID -1", c.Connect, node_id=-1, **hello)
            self.refused("FAILED_PRECONDITION", "node ID 2", c.Connect, node_id=2, **hello)
            self.refused("DEADLINE_EXCEEDED", "not all", c.Connect, protocol_version=3, timeout_milliseconds=1)
            for rpc in ("Heartbeat", "Shutdown", "KeyValueGet", "KeyValueSet", "EnumerateDevices", "WaitAtBarrier"):
                self.refused("FAILED_PRECONDITION", "Session ID", c.begin(rpc, session_id=s.incarnation ^ 1).answer)
            first = c.begin("Connect", node_id=1, client_id=1, **hello)
            self.refused("FAILED_PRECONDITION", "Session", c.Heartbeat)  # so that the first has come
            other = s.client(runtime)
            second = other.begin("Connect", node_id=1, client_id=2, **hello)
            self.refused("ABORTED", "Duplicate node ID 1", first.answer)
            c.Connect(node_id=0, client_id=3, **hello)
            second.answer()
            for client in (c, other):  # who comes later harms nobody
                self.refused("ABORTED", "not initializing", client.Connect, node_id=1, client_id=4, **hello)
                other.Heartbeat(session_id=s.incarnation, node_id=1)
            other.Connect(node_id=1, client_id=2, **hello)  # and the same again is the same

    def test_all_dialects_have_one_coord(self):
        with service(3) as s:
            a, b, c = s.client(xla), s.client(tsl), s.client(runtime)
            a.RegisterTask(incarnation=1, source_task_id=0)
            b.RegisterTask(incarnation=2, source_task=task(1))
            session = c.Connect(protocol_version=3, timeout_milliseconds=60000, node_id=2, client_id=3).session_id
            a.InsertKeyValue(kv=xla.KeyValueEntry(key=b"k", value=b"of a"))
            self.assertEqual(b.GetKeyValue(key=b"k").kv.value, b"of a")
            self.assertEqual(c.KeyValueGet(session_id=session, key=b"k").value, b"of a")
            calls = [a.begin("Barrier", barrier_id=b"b", barrier_timeout_in_ms=60000, source_task_id=0),
                     b.begin("Barrier", barrier_id=b"b", barrier_timeout_in_ms=60000, source_task=task(1))]
            c.WaitAtBarrier(session_id=session, barrier_id=b"b", node_id=2, timeout_milliseconds=60000)
            for call in calls:
                call.answer()
            poll = a.begin("PollForError", source_task_id=0)
            a.DeleteKeyValue(key=b"nothing")
            b.ReportErrorToService(error_origin=task(1), error_code=10, error_message=b"of b")
            payloads = self.refused("ABORTED", "of b", poll.answer)
            error = xla.CoordinationServiceError.FromString(payloads["CoordinationServiceError"])
            self.assertEqual(error.source_task_id, 1)

    def test_a_service_that_stops_answers_all_that_wait(self):
        with service(2) as s:
            a, b, c = s.client(xla), s.client(tsl), s.client(runtime)
            a.RegisterTask(incarnation=1)
            get = a.begin("GetKeyValue", key=b"never")
            poll = a.begin("PollForError")
            watch = b.begin("WatchJobState", version_number=a.WatchTasks(version_number=-1).version_number)
            b.DeleteKeyValue(key=b"nothing")
            old = c.begin("KeyValueGet", session_id=s.incarnation, key=b"never", timeout_milliseconds=600000)
            self.refused("FAILED_PRECONDITION", "Session", c.Heartbeat)
            s.stop()
            for call in (get, poll, old):
                self.refused("CANCELLED", "", call.answer)
            self.assertEqual(watch.answer(), tsl.WatchJobStateResponse(version_number=-1))


if __name__ == "__main__":
    unittest.main()
