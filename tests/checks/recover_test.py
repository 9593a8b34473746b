#!/usr/bin/env python3
"""Checks 127 to 142: a task that may recover restarts around a barrier, in each of its ways to go.

The ways: with a ShutdownTask or without, silent until it is in error or at once, with three instances of the barrier before
or none. Silence needs a short heartbeat, which a busy machine may break for the others, too: then it is tried again.
"""
from agent import *

WAYS = [(shutdown, silent, prior) for prior in (False, True) for shutdown in (True, False) for silent in (True, False)]


def gone(service, agent, silent, shutdown):
    """Its end; its connection is kept, so that the service's answers to it are seen."""
    agent.over.set()
    agent.thread.join()
    if silent:
        in_error(service.agents[0].at, agent.at.task)
    if shutdown:
        agent.at.shutdown().code


def restarts_before(dialect, way):
    shutdown, silent, prior = way
    with agents(dialect, 2, heartbeat=1000, recoverable=True) as service:
        first, old = service.agents
        for _ in range(3 if prior else 0):
            met("b", first, old)
        gone(service, old, silent, shutdown)
        old.at.wire.close()
        new = Agent(service, 1, 1000, recoverable=True)
        connected(new)
        if first.error:
            return False
        calls = [new.barrier("b"), first.barrier("b")]
        for call in calls:
            expect(call.settled(), "OK")
        new.over.set()
    return True


def joins_twice(dialect, way):
    shutdown, silent, prior = way
    with agents(dialect, 3, heartbeat=1000, recoverable=True) as service:
        first, second, old = service.agents
        for _ in range(3 if prior else 0):
            met("b", first, second, old)
        call = old.barrier("b")
        old.at.settle()
        gone(service, old, silent, shutdown)
        new = Agent(service, 2, 1000, recoverable=True)
        connected(new)
        if first.error or second.error:
            return False
        expect(call, "CANCELLED")
        calls = [new.barrier("b"), first.barrier("b"), second.barrier("b")]
        for call in calls:
            expect(call.settled(), "OK")
        new.over.set()
    return True


def again(scenario, way, dialect):
    for _ in range(10):
        if scenario(dialect, way):
            return
    fail("the others could not be kept alive, in ten attempts")


for first_number, scenario in ((127, restarts_before), (135, joins_twice)):
    for index, way in enumerate(WAYS):
        check(first_number + index, "AB")(functools.partial(again, scenario, way))

if __name__ == "__main__":
    main()
