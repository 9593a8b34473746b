#!/usr/bin/env python3
"""Checks 144, 145 and 213 to 268: topologies by keys, payloads of errors, TLS, what JAX's own tests ask of its service."""
from agent import *


def exchange(keys, node, nodes, topology):
    """What JAX's clients do with keys; node 0 puts the topologies together."""
    expect(keys.insert("cpu:local_topology/cpu/%d" % node, topology), "OK")
    if node == 0:
        parts = [expect(keys.get("cpu:local_topology/cpu/%d" % other), "OK").value.kv.value for other in range(nodes)]
        return published(keys, b",".join(parts))
    return expect(keys.get("cpu:global_topology/cpu"), "OK").value.kv.value


def published(keys, whole):
    """Node 0's last step, which may be done twice with the same result."""
    if expect(keys.insert("cpu:global_topology/cpu", whole), "OK|ALREADY_EXISTS").code == "ALREADY_EXISTS":
        there = expect(keys.try_get("cpu:global_topology/cpu"), "OK").value.kv.value
        that(there == whole, "another topology is there already: %r", there)
    return whole


def exchanged(dialect, nodes):
    with agents(dialect, nodes) as service:
        works = [functools.partial(exchange, agent.at, agent.at.task, nodes, "node%d" % agent.at.task)
                 for agent in service.agents]
        wanted = ",".join("node%d" % node for node in range(nodes)).encode()
        got = all_at_once(*works)
        that(set(got) == {wanted}, "in the order of the nodes: %s", got)


@check(144, "AB")
def _(dialect):
    exchanged(dialect, 2)


@check(145, "AB")
def _(dialect):
    exchanged(dialect, 11)


@check(235, "AB")
def _(dialect):
    exchanged(dialect, 3)


@check(236, "AB")
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        for _ in range(2):
            that(published(keys, b"whole") == b"whole", "published")


@check(237, "AB")
def _(dialect):
    with agents(dialect, 1) as service:
        keys = service.agents[0].at
        published(keys, b"whole")
        expect(keys.insert("cpu:global_topology/cpu", "other"), "ALREADY_EXISTS")
        that(expect(keys.try_get("cpu:global_topology/cpu"), "OK").value.kv.value == b"whole", "what the client compares")


def origin(payload):
    source = payload["CoordinationServiceError"].source_task if hasattr(payload["CoordinationServiceError"], "source_task") \
        else payload["CoordinationServiceError"].source_task_id
    return source if isinstance(source, int) else source.task_id


@check(213, "AB")
def _(dialect):
    with served(dialect, 2) as service:
        call = expect(service.task(5).heartbeat(), "INVALID_ARGUMENT")
        that(call.payload["CoordinationServiceError"].ByteSize() == 0, "the service's own error: %s", call.payload)


@check(214, "AB")
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        call = expect(second.restarted().register(), "ABORTED")
        that("CoordinationServiceError" in call.payload, "payloads: %s", call.payload)
        call = expect(second.register(), "ABORTED", "already in error")
        that(origin(call.payload) == 1 and not call.payload["CoordinationServiceError"].is_reported_error,
             "whose error it is: %s", call.payload)


@check(215, "AB", reference="A")
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        poll = first.poll()
        first.settle()
        expect(second.report(13, "a test error"), "OK")
        error = expect(poll, "INTERNAL").payload
        that(origin(error) == 1 and error["CoordinationServiceError"].is_reported_error, "whose error it is: %s", error)


@check(217, "AB")
def _(dialect):
    with served(dialect, 2) as service:
        first, second = service.tasks()
        joined(first, second)
        payload = expect(first.barrier("a/b", timeout_ms=300), "DEADLINE_EXCEEDED").payload
        that(set(payload) == {"CoordinationServiceError", "BarrierError"}, "both payloads: %s", payload)
        that(payload["CoordinationServiceError"].ByteSize() == 0, "without an origin: %s", payload)
        error = payload["BarrierError"]
        that((raw(error.barrier_id), error.counter) == (b"a/b", 0), "which barrier: %s", error)


@contextlib.contextmanager
def one_client(dialect):
    with agents(dialect, 1) as service:
        yield service.agents[0].at


@check(255, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        expect(keys.insert("test_key", "value"), "OK")
        that(expect(keys.get("test_key"), "OK").value.kv.value == b"value", "the value")


@check(256, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        expect(keys.insert("test_key", "value"), "OK")
        expect(keys.insert("test_key", "value"), "ALREADY_EXISTS", "key .* already exists.")


@check(257, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        for value in ("value", "other"):
            expect(keys.insert("test_key", value, overwrite=True), "OK")
        that(expect(keys.get("test_key"), "OK").value.kv.value == b"other", "the later value")


@check(258, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        expect(keys.insert("bytes", b"\0\xff\xfe"), "OK")
        that(expect(keys.get("bytes"), "OK").value.kv.value == b"\0\xff\xfe", "the bytes")


def tried_after_barrier(dialect, value):
    with agents(dialect, 2) as service:
        first, second = service.agents
        expect(first.at.insert("k", value), "OK")
        calls = [agent.barrier("wait", timeout_ms=60000) for agent in (first, second)]
        for call in calls:
            expect(call.settled(), "OK")
        that(expect(second.at.try_get("k"), "OK").value.kv.value == raw(value), "the value")


@check(259, "AB")
def _(dialect):
    tried_after_barrier(dialect, "value")


@check(260, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        expect(keys.try_get("none"), "NOT_FOUND")


@check(261, "AB")
def _(dialect):
    tried_after_barrier(dialect, b"\0\xff")


@check(262, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        wanted = [("dir/%d" % index, "v%d" % index) for index in range(3)]
        for key, value in wanted:
            expect(keys.insert(key, value), "OK")
        that(listing(keys.dir("dir/")) == wanted, "listed: %s", keys.dir("dir/").value)


@check(263, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        expect(keys.insert("dir/b", b"\xff\0"), "OK")
        that([kv.value for kv in expect(keys.dir("dir"), "OK").value.kv] == [b"\xff\0"], "the bytes")


@check(264, "AB")
def _(dialect):
    with one_client(dialect) as keys:
        wanted = ["large/%05d" % index for index in range(1000)]
        for call in [keys.insert(key, b"x" * 1000) for key in wanted]:
            expect(call, "OK")
        that([key for key, _ in listing(expect(keys.dir("large"), "OK"))] == wanted, "all, sorted")


@check(265, "AB")
def _(dialect):
    with agents(dialect, 3) as service:
        met("b", *service.agents[1:], tasks=[1, 2])


@check(266, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        first, second = service.agents
        one = first.barrier("b", [0])
        expect(one.settled(), "OK")
        expect(second.barrier("b", [0]), "INVALID_ARGUMENT", "A non-participating task.*")


@check(267, "AB")
def _(dialect):
    with agents(dialect, 3) as service:
        met("b", *service.agents)


@check(268, "AB")
def _(dialect):
    with agents(dialect, 2) as service:
        expect(service.agents[0].barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED", "^Barrier timed out.*")


if __name__ == "__main__":
    main()
