#!/usr/bin/env python3
"""Checks 1 to 26: registering, heartbeats, polling for errors, tasks that may recover.

JAX's services of dialect B never answer ReportErrorToService: those checks are asked of its newer one.
"""

from harness import *


@check(1, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.heartbeat(), "OK")
        expect(second.heartbeat(), "OK")
        expect(service.task(2).heartbeat(), "INVALID_ARGUMENT")
        expect(second.heartbeat(second.incarnation ^ 1), "ABORTED")


@check(2, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.register(), "OK")


@check(3, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.register(first.incarnation ^ 1), "ABORTED", "different incarnation")


@check(4, "AB", reference="A")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.report(13, "test error"), "OK")
        expect(first.register(), "ABORTED", "already in error")


@check(5, "AB")
def _(dialect):
    with served(dialect, heartbeat=300) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.poll(), "UNAVAILABLE")
        in_error(first)
        in_error(second)
        expect(first.heartbeat(), "ABORTED")
        expect(second.heartbeat(), "ABORTED")


@check(6, "AB")
def _(dialect):
    with served(dialect, heartbeat=300) as service:
        first, second = service.tasks()
        joined(first, second)
        in_error(first)
        in_error(second)
        expect(first.heartbeat(), "ABORTED")
        expect(second.heartbeat(), "ABORTED")


@check(7, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(second.restarted(service.wire()).register(), "ABORTED", "likely restarted")


@check(8, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(second.leave(), "OK")
        expect(second.register(), "OK")
        expect(second.heartbeat(), "OK")


def after_leaving(dialect, leave):
    with served(dialect, tasks=1) as service:
        one = service.task(0)
        joined(one)
        expect(leave(one), "OK")
        expect(one.heartbeat(), "OK")  # the grace is a minute here
    with served(dialect, tasks=1, heartbeat=200) as service:
        one = service.task(0)
        joined(one)
        expect(leave(one), "OK")
        until("the grace is over", lambda: expect(one.heartbeat(), "OK|INVALID_ARGUMENT").code != "OK")


@check(9, "AB")
def _(dialect):
    after_leaving(dialect, Task.leave)


@check(10, "AB")
def _(dialect):
    after_leaving(dialect, Task.shutdown)


@check(11, "AB")
def _(dialect):
    with served(dialect) as service:
        tasks = service.tasks()
        joined(*tasks)
        polls = [task.poll() for task in tasks]
        for task in tasks:
            task.settle()
        that(not any(poll.done for poll in polls), "a poll was answered before the service stopped: %s", polls)
        service.stop()
        stopped(*polls)


@check(12, "AB")
def _(dialect):
    with served(dialect, heartbeat=300) as service:
        tasks = service.tasks()
        joined(*tasks)
        for poll in [task.poll() for task in tasks]:
            expect(poll, "UNAVAILABLE")


@check(13, "AB")
def _(dialect):
    for _ in range(10):
        with served(dialect, heartbeat=1000) as service:
            first, second = service.tasks()
            joined(first, second)
            with beating(first):
                polls = [first.poll(), second.poll()]
                for poll in polls:
                    expect(poll, "UNAVAILABLE", "heartbeat")
                    that(names(poll.text, 1), "task 1 is not named: %s", poll.text)
                if expect(first.heartbeat(), "OK|ABORTED").code == "OK":
                    return
    fail("task 0 could not be kept alive, in ten attempts")


@check(14, "AB", reference="A")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        polls = [first.poll(), second.poll()]
        first.settle(), second.settle()
        expect(second.report(13, "a test error"), "OK")
        for poll in polls:
            expect(poll, "INTERNAL", "a test error")


@check(15, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        poll = first.poll()
        first.settle()
        expect(second.restarted().register(), "ABORTED")
        expect(poll, "ABORTED", "likely restarted")


@check(16, "AB", reference="A")
def _(dialect):
    with served(dialect, tasks=3) as service:
        first, second, third = service.tasks()
        joined(first, second, third)
        poll = first.poll()
        first.settle()
        expect(second.report(13, "a test error"), "OK")
        expect(poll, "INTERNAL")
        late = expect(third.poll(), "INTERNAL")
        that(late.text == poll.text, "one text for all: %r and %r", late.text, poll.text)
        that(expect(first.poll(), "INTERNAL").text == poll.text, "and for who asks again")


@check(17, "AB")
def _(dialect):
    with served(dialect) as service:
        joined(*service.tasks())
        expect(service.task(2).poll(), "INVALID_ARGUMENT", "not in the cluster")


@check(18, "AB")
def _(dialect):
    with served(dialect) as service:
        expect(service.task(0).poll(), "FAILED_PRECONDITION", "has not been registered")


@check(19, "AB")
def _(dialect):
    with served(dialect, tasks=1) as service:
        one = service.task(0)
        joined(one)
        expect(one.shutdown(), "OK")
        poll = one.poll()
        one.settle()
        that(not poll.done, "the poll is accepted: %s", poll)
        service.stop()
        stopped(poll)


def poll_beyond_grace(dialect, leave):
    with served(dialect, tasks=1, heartbeat=200) as service:
        one = service.task(0)
        joined(one)
        expect(leave(one), "OK")
        until("the grace is over", lambda: one.heartbeat().code == "INVALID_ARGUMENT")
        expect(one.poll(), "FAILED_PRECONDITION", "has disconnected")


@check(20, "AB")
def _(dialect):
    poll_beyond_grace(dialect, Task.shutdown)


@check(21, "AB")
def _(dialect):
    poll_beyond_grace(dialect, Task.leave)


@check(22, "AB", reference="A")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(first.report(13, "a test error"), "OK")
        expect(first.poll(), "FAILED_PRECONDITION", "already in error", "a test error")


@check(23, "AB")
def _(dialect):
    with served(dialect, heartbeat=300) as service:
        first, second = service.tasks()
        joined(first, second)
        in_error(second)
        expect(second.poll(), "FAILED_PRECONDITION", "already in error")


@check(24, "AB", reference="A")
def _(dialect):
    with served(dialect, recoverable=1) as service:
        first, second = service.tasks(recoverable=True)
        joined(first, second)
        expect(second.report(13, "a test error"), "OK")
        expect(second.heartbeat(), "ABORTED")
        expect(first.heartbeat(), "OK")


@check(25, "AB", reference="A")
def _(dialect):
    with served(dialect, recoverable=1) as service:
        first, second = service.tasks(recoverable=True)
        joined(first, second)
        polls = [first.poll(), second.poll()]
        first.settle(), second.settle()
        expect(second.report(13, "a test error"), "OK")
        first.settle(), second.settle()
        that(not any(poll.done for poll in polls), "an error that its task may recover from is told: %s", polls)
        service.stop()
        stopped(*polls)


@check(26, "AB", reference="A")
def _(dialect):
    with served(dialect, recoverable=1) as service:
        first, second = service.tasks(recoverable=True)
        joined(first, second)
        expect(second.report(13, "a test error"), "OK")
        expect(second.heartbeat(), "ABORTED")
        expect(second.leave(), "OK")
        again = second.restarted()
        expect(again.register(), "OK")
        expect(again.heartbeat(), "OK")
        expect(first.heartbeat(), "OK")


if __name__ == "__main__":
    main()
