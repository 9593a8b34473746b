#!/usr/bin/env python3
"""Checks 93 to 126 and 143 to 171: clients as the real ones behave, as JAX configures its service.

Those of the lower-level client and those of JAX's own are mostly the same sentences: one test for both.
"""
from agent import *


def both(number, jax, dialects="AB", reference="AB"):
    def take(body):
        for one in (number, jax):
            if one:
                check(one, dialects, reference)(body)
        return body
    return take


@both(93, 143)
def _(dialect):
    with served(dialect, 3, barrier=1, shutdown=60000) as service:
        all = [Agent(service, task) for task in range(3)]
        calls = [agent.at.register() for agent in all[:2]]
        for agent in all[:2]:
            agent.at.settle()
        that(not any(call.done for call in calls), "nobody is connected before the last: %s", calls)
        calls.append(all[2].at.register())
        for call in calls:
            expect(call, "OK")
        calls = [agent.at.shutdown() for agent in all[:2]]
        for agent in all[:2]:
            agent.at.settle()
        that(not any(call.done for call in calls), "nobody is gone before the last: %s", calls)
        calls.append(all[2].at.shutdown())
        for call in calls:
            expect(call, "OK")


def one_goes_away(dialect, poll):
    with agents(dialect, 3, heartbeat=1000, shutdown=1000, poll=poll) as service:
        service.agents[2].destroy()
        codes = all_at_once(service.agents[0].shutdown, service.agents[1].shutdown)
        that(set(codes) <= {"INTERNAL", "FAILED_PRECONDITION"}, "shutdowns: %s", codes)


@both(94, 147)
def _(dialect):
    one_goes_away(dialect, True)


@check(148, "AB")
def _(dialect):
    one_goes_away(dialect, False)


@check(95, "AB")
def _(dialect):
    with agents(dialect, 3) as service:
        shut_down(*service.agents)


def survivors_are_told(dialect, poll):
    with agents(dialect, 3, heartbeat=3000, poll=poll) as service:
        service.agents[1].destroy()
        for survivor in (service.agents[0], service.agents[2]):
            that(survivor.told.wait(MINUTE), "a survivor was not told")


@both(96, 149)
def _(dialect):
    survivors_are_told(dialect, True)


@check(150, "AB")
def _(dialect):
    survivors_are_told(dialect, False)


@check(97, "AB")
def _(dialect):
    with agents(dialect, 2, shutdown=500) as service:
        first, second = service.agents
        that(first.shutdown() == "INTERNAL", "the shutdown barrier should fail")
        that(second.told.wait(MINUTE), "the other was not told")
        that(second.error.startswith("INTERNAL"), "told: %s", second.error)


@both(98, 151)
def _(dialect):
    with agents(dialect, 1, heartbeat=1000) as service:
        one = service.agents[0]
        service.stop()
        # The real service's end resets connections, which is more than its answer to the poll.
        that(one.told.wait(MINUTE), "nobody said that the service is gone")
        that(one.shutdown() == "FAILED_PRECONDITION", "a client in error refuses")


@both(99, 152)
def _(dialect):
    with served(dialect, 4, barrier=1, shutdown=60000) as service:
        all = [Agent(service, task) for task in range(4)]

        def late(agent):
            time.sleep(0.2 * agent.at.task)  # sleep: the delay is what is checked
            return agent.connect()
        for call in all_at_once(*[functools.partial(late, agent) for agent in all]):
            expect(call, "OK")
        shut_down(*all)


@both(100, 153)
def _(dialect):
    with served(dialect, 3, barrier=1, register=1000) as service:
        for call in all_at_once(*[Agent(service, task).connect for task in range(2)]):
            expect(call, "DEADLINE_EXCEEDED")


@both(101, 154)
def _(dialect):
    with agents(dialect, 3) as service:
        expect(Agent(service, 2).connect(timeout=1), "ABORTED")
        for survivor in service.agents[:2]:
            that(survivor.told.wait(MINUTE), "a survivor was not told")
            that(survivor.shutdown() == "FAILED_PRECONDITION", "a client in error refuses")


@both(102, 155)
def _(dialect):
    with served(dialect, 3, barrier=1, shutdown=60000) as service:
        old, new = Agent(service, 2), Agent(service, 2)
        first = old.at.register()
        old.at.settle()
        second = new.at.register()
        expect(first, "ALREADY_EXISTS")
        connected(Agent(service, 0), Agent(service, 1))
        expect(second, "OK")


@both(103, 156)
def _(dialect):
    with agents(dialect, 2) as service:
        met("b", *service.agents)
        shut_down(*service.agents)


@both(104, 157)
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        expect(first.barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED", "Barrier timed out")
        expect(second.barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED", "Barrier timed out")


@both(105, 158)
def _(dialect):
    with agents(dialect, 2) as service:
        calls = [agent.barrier("b%d" % agent.at.task, timeout_ms=300) for agent in service.agents]
        for call in calls:
            expect(call, "DEADLINE_EXCEEDED")


@check(106, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        for _ in range(5):
            met("b", *service.agents)


@check(107, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        for _ in range(3):
            met("b", first, second)
        second.counters.clear()
        one = first.barrier("b")
        first.at.settle()
        expect(second.at.barrier("b", counter=0), "INTERNAL", "restarted")
        expect(one, "INTERNAL", "restarted")


@check(108, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        one = expect(first.barrier("b", timeout_ms=300).settled(), "DEADLINE_EXCEEDED")
        two = expect(second.barrier("b", timeout_ms=300).settled(), "DEADLINE_EXCEEDED")
        that(one.text == two.text, "the straggler gets the same: %s, %s", one, two)
        met("b", first, second)


@check(109, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        quick, late = service.agents
        for _ in range(2):
            expect(quick.barrier("b", timeout_ms=300).settled(), "DEADLINE_EXCEEDED")
        expect(late.barrier("b").settled(), "INTERNAL", "too quick / slow|restarted")


@both(110, 159)
def _(dialect):
    with agents(dialect, 3) as service:
        met("b", *service.agents[:2], tasks=[0, 1])


@check(111, "AB")
def _(dialect):
    with agents(dialect, 3) as service:
        first, second, third = service.agents
        met("b", first, second, tasks=[0, 1])
        expect(third.at.barrier("b", [2, 0], counter=0), "INVALID_ARGUMENT", "Conflicting tasks specified")


@both(113, 160)
def _(dialect):
    with agents(dialect, 3) as service:
        first, _, third = service.agents
        one = first.barrier("b", [0, 1])
        first.at.settle()
        expect(third.barrier("b", [0, 1]), "INVALID_ARGUMENT", "^A non-participating task")
        expect(one, "INVALID_ARGUMENT", "^A non-participating task")


@both(114, 161)
def _(dialect):
    with agents(dialect, 2) as service:
        calls = [agent.at.alive([0, 1]) for agent in service.agents]
        for call in calls:
            that(alive_of(expect(call, "OK")) == {agent.at.task: agent.at.incarnation for agent in service.agents},
                 "alive: %s", alive_of(call))


@check(162, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        expect(service.agents[0].at.alive([1]), "INVALID_ARGUMENT")


@both(115, 163)
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        for key in ("dir/a", "dir/sub/b", "sibling/c", "dirs"):
            expect(keys.insert(key, key), "OK")
        got = listing(expect(keys.dir("dir"), "OK"))
        that(got == [("dir/a", "dir/a"), ("dir/sub/b", "dir/sub/b")], "listed: %s", got)


@both(116, 164)
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        expect(first.at.insert("k", "v"), "OK")
        expect(second.at.insert("k", "w"), "ALREADY_EXISTS", "^key .* already exists.")


@both(117, 165)
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        expect(first.at.insert("k", "v"), "OK")
        expect(second.at.insert("k", "w", overwrite=True), "OK")
        that(expect(first.at.get("k"), "OK").value.kv.value == b"w", "the later value")


@both(118, 169)
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        expect(keys.insert("k", "v"), "OK")
        expect(keys.insert("other", "w"), "OK")
        expect(keys.delete("k"), "OK")
        expect(keys.get("k", timeout=0.3), "DEADLINE_EXCEEDED")
        expect(keys.get("other"), "OK")


@both(119, 170)
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        for key in ("dir/a", "dir/sub/b", "dirs"):
            expect(keys.insert(key, key), "OK")
        expect(keys.delete("dir/", is_directory=True), "OK")
        expect(keys.try_get("dir/a"), "NOT_FOUND")
        expect(keys.try_get("dir/sub/b"), "NOT_FOUND")
        expect(keys.get("dirs"), "OK")


@check(120, "AB")
def _(dialect):
    with served(dialect, 100, barrier=1) as service:
        call = expect(service.task(0).barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED", "1/100")
        that(sum(len(key) + len(value) for key, value in call.trailers.items()) < 8192, "trailers of 8 KiB")


@check(121, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        calls = [first.at.get("k"), first.barrier("b")]
        first.at.settle()
        first.destroy()
        for call in calls:
            expect(call, "CANCELLED")


@check(122, "AB")
def _(dialect):
    with served(dialect, 2, barrier=1, register=1000, recoverable=1) as service:
        expect(Agent(service, 0, recoverable=True).connect(timeout=10), "DEADLINE_EXCEEDED|ABORTED")


@check(123, "AB")
def _(dialect):
    with agents(dialect, 3, heartbeat=3000) as service:
        first, second, third = service.agents
        third.destroy()
        for survivor in (first, second):
            that(survivor.told.wait(MINUTE), "a survivor was not told")
            that(survivor.error.startswith("UNAVAILABLE"), "told: %s", survivor.error)


@check(124, "AB")
def _(dialect):
    with agents(dialect, 3, recoverable=True) as service:
        first, second, third = service.agents
        third.silent = True
        third.destroy()
        met("b", first, second, tasks=[0, 1])
        shut_down(first, second)


@check(125, "AB")
def _(dialect):
    with agents(dialect, 2, recoverable=True) as service:
        first, second = service.agents
        for _ in range(3):
            met("b", first, second)
        second.destroy()
        again = Agent(service, 1, recoverable=True)
        connected(again)
        met("b", again, first)
        met("last", first, again)


@check(126, "A")
def _(dialect):
    with agents(dialect, 2) as service:
        service.agents[0].over.set()
        at = service.agents[0].at
        old = at.wire.service_incarnation()
        service.restart(barrier=1)
        fresh = Task(service.wire(), 0)
        fresh.wire.incarnation = old
        for call in (fresh.get("k"), fresh.try_get("k"), fresh.insert("k", "v"), fresh.delete("k"), fresh.increment("k", 1),
                     fresh.dir("k"), fresh.barrier("b"), fresh.alive([0, 1]), fresh.watch(-1)):
            expect(call, "INTERNAL", "wrong service incarnation")
            that(call.payload["ServiceMismatchError"].service_incarnation not in (0, old), "the one that it has now")
            that("CoordinationServiceError" in call.payload, "payloads: %s", call.payload)


@check(146, "AB")
def _(dialect):
    with served(dialect, 2, barrier=1) as service:
        calls = [service.task(0).register()]
        late = Agent(service, 1)
        late.at.settle()
        connected(late)
        expect(calls[0], "OK")


@check(166, "AB")
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        expect(keys.try_get("k"), "NOT_FOUND")
        expect(keys.insert("k", "v"), "OK")
        expect(keys.try_get("k"), "OK")


@check(167, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        waits = first.at.get("k")
        first.at.settle()
        expect(second.at.insert("k", "v"), "OK")
        that(expect(waits, "OK").value.kv.value == b"v", "the value")


@check(168, "AB")
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        expect(keys.insert("k", "10"), "OK")
        that(expect(keys.increment("k", 1), "OK").value.kv.value == b"11", "10 + 1")


@check(171, "AB")
def _(dialect):
    with served(dialect, 2, barrier=1, shutdown=60000) as service:
        all = [Agent(service, task, compression=grpc.Compression.Gzip) for task in range(2)]
        connected(*all)
        expect(all[0].at.insert("k", "A" * 100000), "OK")
        that(expect(all[1].at.get("k"), "OK").value.kv.value == b"A" * 100000, "the value")
        shut_down(*all)


if __name__ == "__main__":
    main()
