#!/usr/bin/env python3
"""Checks 68 to 81: the barriers at both ends of a job, and who is alive."""
from harness import *


@check(68, "AB")
def _(dialect):
    with served(dialect, shutdown=60000) as service:
        first, second = service.tasks()
        joined(first, second)
        one = first.shutdown()
        first.settle()
        that(not one.done, "nobody leaves before all do: %s", one)
        expect(second.shutdown(), "OK")
        expect(one, "OK")
        joined(first, second)


@check(69, "AB")
def _(dialect):
    with served(dialect, shutdown=500) as service:
        first, second = service.tasks()
        joined(first, second)
        polls = [first.poll(), second.poll()]
        first.settle(), second.settle()
        expect(first.shutdown(), "INTERNAL", "timed out")
        for poll in polls:
            expect(poll, "INTERNAL")
        expect(first.register(), "ABORTED")
        expect(first.restarted().register(), "ABORTED")
        expect(second.restarted().register(), "ABORTED")


@check(70, "AB")
def _(dialect):
    with served(dialect, shutdown=500) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.shutdown(), "INTERNAL", "timed out")
        expect(second.heartbeat(), "ABORTED")
        expect(second.restarted().register(), "ABORTED")


@check(71, "AB")
def _(dialect):
    with served(dialect, barrier=1) as service:
        first, second = service.tasks()
        joined(first, second)
        service.restart(barrier=1)
        first, second = Task(service.wire(), 0, incarnation=first.incarnation), service.task(1)
        expect(first.heartbeat(), "INVALID_ARGUMENT", "must be registered")
        expect_pending(first, first.register())
        again = first.restarted()
        one = expect_pending(again, again.register())
        expect(second.register(), "OK")
        expect(one, "OK")


def expect_pending(task, call):
    task.settle()
    that(not call.done, "it should wait for the others: %s", call)
    return call


@check(72, "AB")
def _(dialect):
    with served(dialect, barrier=1) as service:
        first, second = service.tasks()
        old = expect_pending(first, first.register())
        again = first.restarted()
        new = expect_pending(again, again.register())
        expect(old, "ALREADY_EXISTS", "newer incarnation")
        expect(second.register(), "OK")
        expect(new, "OK")
        expect(again.register(), "OK")


@check(73, "AB")
def _(dialect):
    with served(dialect, barrier=1) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.restarted().register(), "ABORTED")
        expect(second.barrier("b"), "INTERNAL")


@check(74, "AB")
def _(dialect):
    with served(dialect, barrier=1, register=500) as service:
        first, _ = service.tasks()
        call = expect(first.register(), "DEADLINE_EXCEEDED", "timed out", "1/2")
        that(call.payload.get("CoordinationServiceError") is not None, "clients give up by the payload: %s", call.payload)
        that(names(call.text.partition("timed out task names:")[2], 1), "who is missing: %s", call.text)


def alive(dialect, tasks=3):
    return served(dialect, tasks)


def all_alive(call, *tasks):
    got = alive_of(expect(call, "OK"))
    wanted = {task.task: task.incarnation for task in tasks}
    that(got == wanted, "alive: %s instead of %s", got, wanted)


@check(75, "AB")
def _(dialect):
    with alive(dialect) as service:
        tasks = service.tasks()
        joined(*tasks)
        calls = [task.alive([0, 1, 2]) for task in tasks]
        for call in calls:
            all_alive(call, *tasks)


@check(76, "AB", reference="A")
def _(dialect):
    with alive(dialect) as service:
        first, second, third = service.tasks()
        joined(first, second, third)
        first.poll()
        first.settle()
        expect(third.report(13, "a test error"), "OK")
        for call in [first.alive([0, 1, 2]), second.alive([0, 1, 2])]:
            all_alive(call, first, second)


@check(77, "AB", reference="A")
def _(dialect):
    with alive(dialect) as service:
        first, second, third = service.tasks()
        joined(first, second, third)
        first.poll()
        calls = [expect_pending(task, task.alive([0, 1, 2])) for task in (first, second)]
        expect(third.report(13, "a test error"), "OK")
        for call in calls:
            all_alive(call, first, second)


@check(78, "AB")
def _(dialect):
    with alive(dialect) as service:
        first, second, third = service.tasks()
        joined(first, second, third)
        one = expect_pending(first, first.alive([0, 1]))
        two = expect_pending(third, third.alive([2, 1]))
        calls = [second.alive([1, 0]), second.alive([1, 2])]
        all_alive(one, first, second)
        all_alive(calls[0], first, second)
        all_alive(two, second, third)
        all_alive(calls[1], second, third)


@check(79, "AB")
def _(dialect):
    with alive(dialect) as service:
        first, second, third = service.tasks()
        joined(first, second, third)
        expect(first.alive([1, 2]), "INVALID_ARGUMENT")


def six_calls(dialect):
    with alive(dialect) as service:
        tasks = service.tasks()
        joined(*tasks)
        calls = [expect_pending(task, task.alive([0, 1, 2])) for task in tasks[:2] * 2]
        calls += [tasks[2].alive([0, 1, 2])]
        for call in calls:
            all_alive(call, *tasks)
        more = [task.alive([0, 1, 2]) for task in tasks]
        for call in more:
            all_alive(call, *tasks)


@check(80, "A")
def _(dialect):
    six_calls(dialect)


@check(81, "B")
def _(dialect):
    six_calls(dialect)


if __name__ == "__main__":
    main()
