#!/usr/bin/env python3
"""The checks that xla.DistributedRuntimeService has: the protocol of JAX before tensorflow.CoordinationService."""
from harness import *


class Node:
    """A client of the oldest protocol."""

    def __init__(self, service, node):
        self.wire, self.node, self.session = service.wire("C"), node, 0

    def connect(self, client=None, timeout_ms=60000, version=3, node=None):
        return self.wire.call("Connect", protocol_version=version, timeout_milliseconds=timeout_ms,
                              node_id=self.node if node is None else node,
                              client_id=random.getrandbits(64) if client is None else client)

    def call(self, rpc, **fields):
        return self.wire.call(rpc, session_id=fields.pop("session", self.session), **fields)

    def get(self, key, timeout_ms=60000):
        return self.call("KeyValueGet", key=raw(key), timeout_milliseconds=timeout_ms)

    def set(self, key, value):
        return self.call("KeyValueSet", key=raw(key), value=raw(value))

    def barrier(self, name, timeout_ms=60000):
        return self.call("WaitAtBarrier", barrier_id=raw(name), node_id=self.node, timeout_milliseconds=timeout_ms)

    def shutdown(self):
        return self.call("Shutdown")  # clients leave out who they are

    def pause(self):
        """Until what was begun has come: calls of one connection are taken in order."""
        self.wire.call("Heartbeat", session_id=1).code
        if REFERENCE:
            time.sleep(0.2)  # sleep: JAX's service hands calls to several threads


@contextlib.contextmanager
def nodes(count, **options):
    with served("C", count, barrier=1, shutdown=60000, **options) as service:
        all = [Node(service, node) for node in range(count)]
        calls = [node.connect() for node in all]
        for node, call in zip(all, calls):
            node.session = expect(call, "OK").value.session_id
        that(len({node.session for node in all}) == 1, "one session")
        service.nodes = all
        yield service


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    return varint(number << 3 | 2) + varint(len(raw(value))) + raw(value)


def topology(node, boot, devices):
    """A LocalTopologyProto with a boot id and devices as fields 2 and 3."""
    return field(1, node) + field(2, boot) + b"".join(field(3, field(1, index) + field(2, "d")) for index in range(devices))


def fields(data):
    """[(number, value)] of a message of numbers and bytes."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            found.append((tag >> 3, number()))
        else:
            size = number()
            found.append((tag >> 3, data[at:at + size]))
            at += size
    return found


def global_of(call):
    """[(node, [(global id, slice)])] of an answer to EnumerateDevices."""
    found = []
    for _, node in fields(expect(call, "OK").value.global_topology):
        parts = fields(node)
        devices = [dict(fields(device)) for number, device in parts if number == 3]
        found.append((dict(parts).get(1, 0), [(device.get(4, 0), device.get(5, 0)) for device in devices]))
    return found


def enumerated(service, boots):
    calls = [node.call("EnumerateDevices", local_topology=[topology(node.node, boots[node.node], 2)]) for node in service.nodes]
    first = global_of(calls[0])
    for call in calls:
        that(global_of(call) == first, "one topology for all")
    return first


@check(143, "C", reference="C")
def _(_):
    with served("C", 2, barrier=1, shutdown=60000) as service:
        first, second = Node(service, 0), Node(service, 1)
        one = first.connect()
        first.pause()
        that(not one.done, "nobody is connected before the last: %s", one)
        two = second.connect()
        for node, call in ((first, one), (second, two)):
            node.session = expect(call, "OK").value.session_id
        one = first.shutdown()
        first.pause()
        that(not one.done, "nobody is gone before the last: %s", one)
        expect(second.shutdown(), "OK")
        expect(one, "OK")


@check(144, "C", reference="C")
def _(_):
    with nodes(2) as service:
        got = enumerated(service, ["x", "y"])
        that(got == [(0, [(0, 0), (1, 0)]), (1, [(2, 1), (3, 1)])], "the topology: %s", got)


@check(145, "C", reference="C")
def _(_):
    with nodes(11) as service:
        got = enumerated(service, ["x" if node % 2 else "y" for node in range(11)])
        that(got == [(node, [(2 * node, node % 2), (2 * node + 1, node % 2)]) for node in range(11)], "the topology: %s", got)


@check(146, "C", reference="C")
def _(_):
    with served("C", 2, barrier=1) as service:
        first, second = Node(service, 0), Node(service, 1)
        one = first.connect()
        first.pause()
        two = second.connect()
        expect(one, "OK")
        expect(two, "OK")


@check(152, "C", reference="C")
def _(_):
    with served("C", 3, barrier=1) as service:
        calls = []
        for node in range(3):
            late = Node(service, node)
            calls.append(late.connect())
            late.pause()
        for call in calls:
            expect(call, "OK")


@check(153, "C", reference="C")
def _(_):
    with served("C", 2, barrier=1) as service:
        expect(Node(service, 0).connect(timeout_ms=300), "DEADLINE_EXCEEDED")


@check(154, "C", reference="C")
def _(_):
    with nodes(2) as service:
        expect(Node(service, 1).connect(), "ABORTED")


@check(155, "C", reference="C")
def _(_):
    with served("C", 2, barrier=1) as service:
        old, new, other = Node(service, 1), Node(service, 1), Node(service, 0)
        first = old.connect()
        old.pause()
        second = new.connect()
        expect(first, "ABORTED", "Duplicate node ID 1")
        expect(other.connect(), "OK")
        expect(second, "OK")


@check(156, "C", reference="C")
def _(_):
    with nodes(2) as service:
        for call in [node.barrier("b") for node in service.nodes]:
            expect(call, "OK")
        expect(service.nodes[0].barrier("b"), "FAILED_PRECONDITION")  # an id is for once


@check(157, "C", reference="C")
def _(_):
    with nodes(2) as service:
        first, second = service.nodes
        expect(first.barrier("b", timeout_ms=300), "DEADLINE_EXCEEDED")
        expect(second.barrier("b", timeout_ms=300), "FAILED_PRECONDITION|DEADLINE_EXCEEDED")


@check(158, "C", reference="C")
def _(_):
    with nodes(2) as service:
        for call in [node.barrier("b%d" % node.node, timeout_ms=300) for node in service.nodes]:
            expect(call, "DEADLINE_EXCEEDED")


@check(165, "C", reference="C")
def _(_):
    with nodes(1) as service:
        one = service.nodes[0]
        for value in ("v", "w"):
            expect(one.set("k", value), "OK")
            that(expect(one.get("k"), "OK").value.value == raw(value), "the later value")
        for key in (b"/k//", b"\xff\0k", b""):  # keys are anybody's bytes, each one its own
            expect(one.set(key, key), "OK")
        for key in (b"/k//", b"\xff\0k", b""):
            that(expect(one.get(key), "OK").value.value == key, "the value of %r", key)
        that(expect(one.get("k"), "OK").value.value == b"w", "another key")


@check(166, "C", reference="C")
def _(_):
    with nodes(1) as service:
        expect(service.nodes[0].get("none", timeout_ms=200), "NOT_FOUND", "none")


@check(167, "C", reference="C")
def _(_):
    with nodes(2) as service:
        first, second = service.nodes
        waits = first.get("k")
        first.pause()
        that(not waits.done, "nothing to get: %s", waits)
        expect(second.set("k", "v"), "OK")
        that(expect(waits, "OK").value.value == b"v", "the value")


@check(270, "C", reference="C")
def _(_):
    with nodes(1) as service:
        one = service.nodes[0]
        expect(one.wire.call("Heartbeat", session_id=one.session), "OK")
        for rpc, more in (("KeyValueSet", {"key": b"k"}), ("KeyValueGet", {"key": b"k"}), ("Heartbeat", {}), ("Shutdown", {}),
                          ("WaitAtBarrier", {"barrier_id": b"b"}), ("EnumerateDevices", {})):
            expect(one.call(rpc, session=one.session ^ 1, **more), "FAILED_PRECONDITION")
        expect(one.set("k", "v"), "OK")
        expect(one.get("k"), "OK")
        expect(one.call("WaitAtBarrier", barrier_id=b"b", timeout_milliseconds=1000), "OK")
        that(global_of(one.call("EnumerateDevices", local_topology=[topology(0, "x", 1)])) == [(0, [(0, 0)])], "one device")
        expect(one.shutdown(), "OK")
        expect(one.set("k", "v"), "FAILED_PRECONDITION")
    with served("C", 2, barrier=1) as service:
        one = Node(service, 0)
        expect(one.connect(version=2), "INVALID_ARGUMENT", "Invalid protocol version 2")
        expect(one.connect(node=-1), "INVALID_ARGUMENT")
        expect(one.connect(node=2), "FAILED_PRECONDITION")


if __name__ == "__main__":
    main()
