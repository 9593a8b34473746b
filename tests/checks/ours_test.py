#!/usr/bin/env python3
"""Checks 270 to 282: what JAX does not test of its service, and must hold of one that takes its place."""
import glob
import os
import signal
import sys

from agent import *

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from preload import preloadable  # noqa: E402


def every_call(task):
    """(call, code) for each of them; the task is alone and registered."""
    wire = task.wire
    yield task.heartbeat(), "OK"
    yield task.insert("d/k", "1"), "OK"
    yield task.get("d/k"), "OK"
    yield task.try_get("d/k"), "OK"
    yield task.increment("d/k", 1), "OK"
    yield task.dir("d"), "OK"
    yield task.delete("d"), "OK"
    yield task.barrier("b"), "OK"
    yield task.barrier("b2", [0]), "OK"
    yield task.cancel("b"), "FAILED_PRECONDITION"
    yield task.alive([0]), "OK"
    yield task.watch(-1), "OK"
    if task.dialect == "B" and not REFERENCE:
        yield wire.call("GetTaskState", source_task=[task.name()]), "OK"
        yield wire.call("WaitForAllTasks", source_task=task.name()), "OK"
        yield task.report(13, "its error"), "OK"
        yield wire.call("ResetTask", source_task=task.name()), "OK"
        yield task.restarted().register(), "OK"
    if task.dialect == "A":
        yield task.report(13, "its error"), "OK"
    yield task.shutdown(), "OK"


@check(270, "AB")
def _(dialect):
    for job in ("",) if REFERENCE else ("", "jax_worker"):
        with served(dialect, 1) as service:
            task = service.task(0, job=job, incarnation=1)
            request = task.wire.messages.RegisterTaskRequest(incarnation=1, **task.mine()).SerializeToString()
            if not job or dialect == "A":  # as JAX sends it
                that(request == b"\x19\1" + bytes(7) + (b"" if dialect == "A" else b"\x2a\0"), "%r", request)
            joined(task)
            poll = task.poll()
            for call, code in every_call(task):
                expect(call, code)
            if dialect == "A":
                expect(poll, "CANCELLED|INTERNAL")


@check(271, "A")
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        gate = first.wire.messages.BarrierRequest(incarnations={"service_incarnation": first.wire.service_incarnation()})
        head = gate.SerializeToString() + b"\x12\x01b\x18\xe8\x07"
        calls = [first.wire.send("Barrier", head + b"\x20\0\x20\1"), second.wire.send("Barrier", head + b"\x22\2\0\1\x28\1")]
        for call in calls:
            expect(call, "OK")
        head = gate.SerializeToString()
        calls = [first.wire.send("GetAliveTasks", head + b"\x18\0\x18\1"),
                 second.wire.send("GetAliveTasks", head + b"\x10\1\x18\0\x1a\1\1")]
        for call in calls:
            that(alive_of(expect(call, "OK")) == {0: first.incarnation, 1: second.incarnation}, "alive: %s", call.value)


@check(272, "AB")
def _(dialect):
    with served(dialect, 1) as service:
        zipped = Task(service.wire(compression=grpc.Compression.Gzip), 0)
        joined(zipped)
        for key, value in (("small", b"v"), ("large", b"A" * 500000), ("random", os.urandom(50000))):  # the first stays flag 0
            expect(zipped.insert(key, value), "OK")
            that(expect(zipped.get(key), "OK").value.kv.value == value, "%s as it was", key)


@check(273, "AB", reference="")  # JAX's service does not notice that a client waits no more
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        many = dialect == "A" and os.environ["VARIANT"] == "release"
        for _ in range(3 if many else 1):  # together more than a connection may have open: 20000
            gets = [first.get("none") for _ in range(7000 if many else 500)]
            first.settle()
            for call in gets:
                call.cancel()
            for call in gets:
                expect(call, "CANCELLED")
        barrier, poll = first.barrier("b"), first.poll()
        first.settle()
        barrier.cancel()
        poll.cancel()
        calls = [first.barrier("b"), second.barrier("b")]
        for call in calls:
            expect(call, "OK")
        again = first.poll()
        first.settle()
        that(not again.done, "it may poll again: %s", again)


@check(274, "AB")
def _(dialect):
    with served(dialect, 1) as service:
        task = service.task(0)
        gets = [task.get("k%d" % (index % 100)) for index in range(10000 if dialect == "A" else 1000)]
        task.settle()
        that(not any(call.done for call in gets), "nothing to get")
        other = Keys(service.wire())
        for index in range(100):
            expect(other.insert("k%d" % index, "v%d" % index), "OK")
        for index, call in enumerate(gets):
            that(expect(call, "OK").value.kv.value == b"v%d" % (index % 100), "the value")


@check(275, "AB")
def _(dialect):
    with served(dialect, 1, **({} if REFERENCE else {"heap": 64})) as service:
        task, value = service.task(0), os.urandom(5 << 20)
        expect(task.insert("large", value), "OK")
        that(expect(task.get("large"), "OK").value.kv.value == value, "5 MiB as they were")


@check(276, "AB")
def _(dialect):
    with served(dialect, 2, barrier=1, shutdown=60000) as service:
        first, second = service.tasks()
        one, two = first.register(), None
        first.settle()
        two = first.register()
        expect(second.register(), "OK")
        expect(one, "OK|ALREADY_EXISTS")
        expect(two, "OK")
        one = first.barrier("b")
        first.settle()
        two = first.barrier("b")
        expect(second.barrier("b"), "OK")
        expect(one, "CANCELLED|OK")
        expect(two, "OK")
        expect(first.barrier("b"), "OK")
        one = first.shutdown()
        first.settle()
        two = first.shutdown()
        first.settle()
        expect(second.shutdown(), "OK")
        expect(two, "OK")
        that("OK" in (one.code, two.code), "%s, %s", one, two)


@check(277, "AB", reference="")  # takes JAX's service minutes
def _(dialect):
    with served(dialect, 8192) as service:
        call = expect(service.task(0).barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED", "1/8192")
        that(sum(len(key) + len(value) for key, value in call.trailers.items()) < 8192, "trailers of 8 KiB")
        call = expect(service.task(0).barrier("x" * 4000, timeout_ms=300), "DEADLINE_EXCEEDED|INVALID_ARGUMENT")
        that(sum(len(key) + len(value) for key, value in call.trailers.items()) < 8192, "trailers of 8 KiB")


@check(278, "AB", reference="")  # it ends JAX's service
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        for version in (1 << 40, (1 << 63) - 1):
            expect(first.watch(version), "INVALID_ARGUMENT|FAILED_PRECONDITION|OUT_OF_RANGE")
        if dialect == "B":
            for unknown in (2, -1, 1 << 30):
                expect(first.wire.call("GetTaskState", source_task=[first.name(unknown)]), "INVALID_ARGUMENT")
        expect(first.heartbeat(), "OK")


@check(279, "AB", reference="")  # JAX's service counts the stranger in, and fails the shutdown of all
def _(dialect):
    with served(dialect, 2, shutdown=60000) as service:
        first, second = service.tasks()
        joined(first, second)
        for strange in (2, -1, (1 << 31) - 1):
            stranger = service.task(strange)
            call = first.barrier("b%d" % strange)
            first.settle()
            expect(stranger.barrier("b%d" % strange), "INVALID_ARGUMENT", "not in the cluster")
            expect(stranger.cancel("b%d" % strange), "INVALID_ARGUMENT")
            expect(second.barrier("b%d" % strange), "OK")
            expect(call, "OK")
            expect(stranger.shutdown(), "INVALID_ARGUMENT")
        calls = [first.shutdown(), second.shutdown()]
        for call in calls:
            expect(call, "OK")


CLIENT = """
import sys, types
sys.path.insert(0, %(here)r)
from harness import *
wire = Wire(types.SimpleNamespace(address=%(address)r), %(dialect)r)
task = Task(wire, 1, incarnation=7)
expect(task.register(), "OK")
calls = [task.poll(), task.barrier("b")]
task.settle()
print("waits", flush=True)
calls[1].code
"""


@check(280, "AB")
def _(dialect):
    with served(dialect, 3, heartbeat=2000 if REFERENCE else 60000, barrier=1) as service:
        first, third = service.task(0), service.task(2)
        calls = [first.register(), third.register()]
        program = CLIENT % {"here": HERE, "address": service.address, "dialect": dialect}
        client = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True)
        try:
            that(client.stdout.readline() == "waits\n", "the client ended")
            for call in calls:
                expect(call, "OK")
            poll, barrier = first.poll(), third.barrier("b")
            first.settle(), third.settle()
        finally:
            client.kill()
            client.communicate()
        expect(barrier, "INTERNAL")
        error = expect(poll, "UNAVAILABLE")
        that(REFERENCE or names(error.text, 1) or "task 1" in error.text, "who: %s", error.text)


@check(281, "AB")
def _(dialect):
    other = Host()
    try:
        service = Service.__new__(Service)
        service.dialect, service.num, service.wires = dialect, 2, []
        service.address = other.ask("open killed tasks=2")
        first, second = service.tasks()
        joined(first, second)
        polls = [first.poll(), second.poll()]
        first.settle(), second.settle()
        other.process.send_signal(signal.SIGKILL)
        for poll in polls:
            expect(poll, "UNAVAILABLE")
        for wire in service.wires:
            wire.close()
    finally:
        other.process.kill()
        other.process.communicate()
        for left in glob.glob("/dev/shm/muster-*-checks-%d-killed" % other.process.pid):
            os.unlink(left)  # nobody is left who would


@check(282, "AB", reference="")
def _(dialect):
    if os.environ["VARIANT"] != "release":
        return  # a sanitizer's own library has to come first
    clock = preloadable(os.path.join(os.environ["BUILD"], "tests/checks/libfake_clock.so"))
    other = Host(environment={"LD_PRELOAD": clock})
    try:
        service = Service.__new__(Service)
        service.dialect, service.num, service.wires = dialect, 2, []
        service.address = other.ask("open jumps tasks=2 heartbeat=60000")
        first, second = service.tasks()
        joined(first, second)
        poll, call = first.poll(), first.barrier("b")
        for _ in range(20):  # the clock of the day jumps by a day, there and back
            expect(first.heartbeat(), "OK")
            expect(second.heartbeat(), "OK")
        that(not poll.done and not call.done, "%s, %s", poll, call)
        expect(second.barrier("b"), "OK")
        expect(call, "OK")
        expect(first.barrier("late", timeout_ms=300), "DEADLINE_EXCEEDED")
        poll.cancel()
        for wire in service.wires:
            wire.close()
    finally:
        clean, said = other.end()
        that(clean, "the host ended badly: %s", said)


if __name__ == "__main__":
    main()
