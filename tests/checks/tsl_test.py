#!/usr/bin/env python3
"""Checks 82 to 92: what only tensorflow.CoordinationService has: jobs with names, WaitForAllTasks, tasks that recover.

JAX's own service has one job of a fixed name, and answers neither ReportErrorToService nor WaitForAllTasks: it is not asked.
"""
import contextlib
import os
import sys

from harness import *

sys.path.append(os.path.join(os.path.dirname(HERE), "rpc"))
from workers import Worker  # noqa: E402

CHIEF = {"jobs": "chief:1,worker:2"}


def chief_and_workers(service, **options):
    return [service.task(0, job="chief", **options), service.task(0, job="worker", **options),
            service.task(1, job="worker", **options)]


def wait_for_all(task, *devices):
    any = [task.wire.messages.Any(type_url=b"x", value=raw(device)).SerializeToString() for device in devices]
    return task.wire.call("WaitForAllTasks", source_task=task.name(), device_info={"devices": any})


def devices_of(task, call):
    return [task.wire.messages.Any.FromString(any).value.decode() for any in expect(call, "OK").value.device_info.devices]


@check(82, "B", reference="")
def _(dialect):
    with served(dialect, 3, **CHIEF) as service:
        tasks = chief_and_workers(service)
        joined(*tasks)
        for call in [wait_for_all(task) for task in tasks]:
            that(expect(call, "OK").value.leader_incarnation, "the service's incarnation")
        expect(service.task(0, job="ps").register(), "INVALID_ARGUMENT", "not in the cluster")


@check(83, "B", reference="")
def _(dialect):
    with served(dialect, 3, **CHIEF) as service:
        chief, one, two = chief_and_workers(service)
        joined(chief, one, two)
        calls = [wait_for_all(two, "w1"), wait_for_all(chief, "c0", "c1"), wait_for_all(one, "w0")]
        for call in calls:
            that(devices_of(one, call) == ["c0", "c1", "w0", "w1"], "in the order of the tasks: %s", devices_of(one, call))


@check(84, "B", reference="")
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        old = wait_for_all(first, "a")
        first.settle()
        new = wait_for_all(first, "a")
        expect(old, "CANCELLED")
        both = wait_for_all(second, "b")
        for call in (new, both):
            that(devices_of(first, call) == ["a", "b"], "each device once: %s", devices_of(first, call))


@contextlib.contextmanager
def workers(count, **options):
    """Tasks that are servers themselves, and their service, which knows where."""
    made = [Worker(stubs()["B"]) for _ in range(count)]
    try:
        with served("B", count, workers=",".join(one.address for one in made), **options) as service:
            yield service, made
    finally:
        for one in made:
            one.stop()


@check(85, "B", reference="")
def _(dialect):
    with workers(2) as (service, (one, other)):
        tasks = service.tasks()
        joined(*tasks)
        expect(tasks[0].report(13, "a test error"), "OK")
        told = other.hears()
        that(told.error_code == 13 and b"a test error" in told.error_message, "it is told: %s", told)
        that(told.error_payload.source_task.task_id == 0, "and of whom: %s", told)
        that(one.told.empty(), "the failing task is not told")


@check(86, "B", reference="")
def _(dialect):
    with served(dialect, 3, **CHIEF) as service:
        chief = service.task(0, job="chief")
        one, two = [service.task(task, job="worker", recoverable=True) for task in (0, 1)]
        joined(chief, one, two)
        polls = [chief.poll(), two.poll()]
        chief.settle(), two.settle()
        expect(one.report(13, "a worker's error"), "OK")
        chief.settle(), two.settle()
        that(not polls[0].done and not polls[1].done, "a worker recovers by itself: %s", polls)
        expect(one.leave(), "OK")
        again = one.restarted()
        expect(again.register(), "OK")
        polls.append(again.poll())
        again.settle()
        expect(chief.report(13, "the chief's error"), "OK")
        for poll in polls:
            expect(poll, "INTERNAL", "the chief's error")


@check(87, "B", reference="")
def _(dialect):
    with served(dialect, 1, heartbeat=300, reconnects=1) as service:
        one = service.task(0)
        joined(one)
        expect(one.poll(), "UNAVAILABLE")
        again = one.restarted()
        expect(again.register(), "OK")


def four(service, **options):
    return [service.task(task, job=job, **options) for job in ("ps", "worker") for task in (0, 1)]


def error_of(which, recoverable):
    with served("B", 4, jobs="ps:2,worker:2") as service:
        tasks = four(service)
        tasks[2].recoverable = tasks[3].recoverable = recoverable
        joined(*tasks)
        polls = [task.poll() for task in tasks]
        for task in tasks:
            task.settle()
        expect(tasks[which].report(13, "a test error"), "OK")
        if not recoverable or which < 2:
            for poll in polls:
                expect(poll, "INTERNAL", "a test error")
            return
        for task in tasks:
            task.settle()
        that(not any(poll.done for poll in polls), "it is told to others: %s", polls)
        expect(tasks[which].heartbeat(), "ABORTED")
        for index, task in enumerate(tasks):
            if index != which:
                expect(task.heartbeat(), "OK")


@check(89, "B", reference="")
def _(dialect):
    with workers(2, shutdown=1) as (service, (one, other)):
        tasks = service.tasks()
        joined(*tasks)
        expect(tasks[0].shutdown(), "INTERNAL")
        told = other.hears()
        that(told.error_code == 13 and b"Shutdown barrier has failed" in told.error_message, "it is told: %s", told)


@check(90, "B", reference="")
def _(dialect):
    error_of(2, recoverable=False)


@check(91, "B", reference="")
def _(dialect):
    error_of(0, recoverable=True)


@check(92, "B", reference="")
def _(dialect):
    error_of(2, recoverable=True)


if __name__ == "__main__":
    main()
