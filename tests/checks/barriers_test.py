#!/usr/bin/env python3
"""Checks 44 to 67: barriers."""
from harness import *


def instance(call):
    """The counter that a barrier's answer carries, right or wrong."""
    return call.value.counter if call.code == "OK" else call.payload["BarrierError"].counter


def waiting(task, *arguments, **options):
    """A barrier call that has come to the service and is not answered."""
    call = task.barrier(*arguments, **options)
    task.settle()
    that(not call.done, "the barrier should wait: %s", call)
    return call


def passed(*tasks, name="b", among=None, counter=0):
    calls = [task.barrier(name, among, counter) for task in tasks]
    for call in calls:
        expect(call, "OK")
        that(instance(call) == counter, "instance %d instead of %d", instance(call), counter)


@contextlib.contextmanager
def cluster(dialect, tasks=2, **options):
    with served(dialect, tasks, **options) as service:
        all = service.tasks()
        joined(*all)
        yield all


@check(44, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        calls = [waiting(first, "b"), waiting(second, "b")]
        that(not calls[0].done, "two of three")
        calls.append(third.barrier("b"))
        for call in calls:
            that(instance(expect(call, "OK")) == 0, "the first instance")


@check(45, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, _):
        passed(first, second, among=[0, 1])


@check(46, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, _):
        one = waiting(first, "b", [0, 1])
        two = second.barrier("b", [1, 2])
        for call in (one, two):
            expect(call, "INVALID_ARGUMENT", "Conflicting tasks specified")


@check(47, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        one = waiting(first, "b", [0, 1])
        two = third.barrier("b", [0, 1])
        for call in (one, two):
            expect(call, "INVALID_ARGUMENT", "A non-participating task")


@check(48, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        calls = [first.barrier("b", [0, 1]), second.barrier("b", [0, 1])]
        for call in calls:
            expect(call, "OK")
        expect(third.barrier("b", [0, 1]), "INVALID_ARGUMENT", "A non-participating task")
        for call in calls:
            expect(call, "OK")


@check(49, "AB")
def _(dialect):
    with cluster(dialect, 2) as (first, _):
        expect(first.barrier("b", [0, 2]), "INVALID_ARGUMENT", "not in the cluster")


@check(50, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, _):
        one = waiting(first, "b", timeout_ms=500)
        two = second.barrier("b", timeout_ms=500)
        expect(one, "DEADLINE_EXCEEDED", "Barrier timed out", "b::0", "2/3")
        that(two.code == one.code and two.text == one.text, "not the same: %s, %s", one, two)
        that(names(re.search("first task at the barrier: .*", one.text).group(), 0), "who was first: %s", one.text)
        that(names(one.text.partition("timed out task names:")[2], 2), "who is missing: %s", one.text)


@check(51, "AB", reference="A")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        first.poll()
        one = waiting(first, "b")
        expect(second.report(13, "a test error"), "OK")
        expect(one, "INTERNAL")
        expect(first.barrier("b"), "INTERNAL")


@check(52, "AB")
def _(dialect):
    with cluster(dialect, 3) as tasks:
        passed(*tasks, counter=0)
        passed(*tasks, counter=1)


@check(53, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        one = waiting(first, "b", counter=0)
        two = second.barrier("b", counter=1)
        for call in (one, two, third.barrier("b", counter=0)):
            expect(call, "INTERNAL")
            that(instance(call) == 0, "instance %d", instance(call))


@check(54, "AB")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        passed(first, second)
        passed(first)
        for counter in (-1, 2, -(1 << 63) + 1, (1 << 63) - 1):
            call = expect(first.barrier("b", counter=counter), "INTERNAL", r"\(b::%d\)" % counter)
            that(instance(call) == 0, "instance %d", instance(call))


@check(55, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        calls = [waiting(first, "b"), waiting(second, "b")]
        expect(third.cancel("b"), "OK")
        for call in calls:
            expect(call, "CANCELLED", "cancelled")


@check(56, "AB")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        passed(first, second)
        expect(first.cancel("b"), "FAILED_PRECONDITION", "already been passed")
        passed(first, second)


@check(57, "AB")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        passed(first, second)
        call = waiting(first, "b", counter=1)
        for counter in (0, 2, -1):
            expect(second.cancel("b", counter), "FAILED_PRECONDITION", "likely due to a restart", r"b::%d\b" % counter)
        first.settle()
        that(not call.done, "the barrier goes on: %s", call)
        expect(second.cancel("b", 1), "OK")
        expect(call, "CANCELLED")


@check(58, "AB")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        passed(first, second)
        passed(first)


@check(59, "AB", reference="A")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        first.poll()
        expect(second.report(13, "a test error"), "OK")
        expect(first.barrier("b"), "INTERNAL")


@check(60, "AB", reference="A")
def _(dialect):
    with cluster(dialect, 2) as (first, second):
        first.poll()
        call = waiting(first, "b")
        expect(second.report(13, "a test error"), "OK")
        expect(call, "INTERNAL")


@check(61, "AB")
def _(dialect):
    with cluster(dialect, 3) as (first, second, third):
        one = waiting(first, "b")
        two = waiting(first, "b")
        expect(one, "CANCELLED", "more recent")
        calls = [two, waiting(second, "b"), third.barrier("b")]
        for call in calls:
            expect(call, "OK")


def participant_goes(dialect, leave):
    with cluster(dialect, 3) as (first, second, third):
        calls = [waiting(first, "b"), waiting(second, "b")]
        expect(leave(second), "OK")
        expect(calls[0], "INTERNAL")
        expect(calls[1], "INTERNAL")


@check(62, "AB")
def _(dialect):
    participant_goes(dialect, Task.leave)


@check(63, "AB")
def _(dialect):
    participant_goes(dialect, Task.shutdown)


def with_stale(dialect, among, poll=False):
    """Task 1 says nothing any more; task 0 is kept alive, or it is tried again."""
    for _ in range(10):
        with served(dialect, 3, heartbeat=1000) as service:
            first, second, third = service.tasks()
            joined(first, second, third)
            with beating(first, third):
                told = first.poll()
                if poll:
                    expect(told, "UNAVAILABLE")
                in_error(first, second.task)
                if first.heartbeat().code == third.heartbeat().code == "OK":
                    expect(first.barrier("b", among), "INTERNAL")
                    return
    fail("tasks 0 and 2 could not be kept alive, in ten attempts")


@check(64, "AB")
def _(dialect):
    with_stale(dialect, None)


@check(65, "AB")
def _(dialect):
    with_stale(dialect, [0, 1, 2])


@check(66, "AB")
def _(dialect):
    with_stale(dialect, None, poll=True)


@check(67, "AB")
def _(dialect):
    with_stale(dialect, [0, 1])


if __name__ == "__main__":
    main()
