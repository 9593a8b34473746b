#!/usr/bin/env python3
"""Checks 27 to 43: watching the tasks' states, and keys. Checks 202 to 212: the store by itself."""
from harness import *


@check(27, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        seen = states_of(expect(first.watch(-1), "OK"))
        that(seen == {0: ("CONNECTED", first.incarnation), 1: ("CONNECTED", second.incarnation)}, "listed: %s", seen)


@check(28, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(second.leave(), "OK")
        watch = expect(first.watch(-1), "OK")
        seen = states_of(watch)
        that(seen[0] == ("CONNECTED", first.incarnation) and seen[1][0] == "DISCONNECTED", "listed: %s", seen)
        that(watch.value.version_number >= 0, "version %d", watch.value.version_number)


@check(29, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        expect(second.leave(), "OK")
        again = second.restarted()
        expect(again.register(), "OK")
        seen = states_of(expect(first.watch(-1), "OK"))
        that(seen[1] == ("CONNECTED", again.incarnation), "listed: %s", seen)


@check(30, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        version = expect(first.watch(-1), "OK").value.version_number
        watch = first.watch(version)
        first.settle()
        that(not watch.done, "nothing has changed: %s", watch)
        expect(second.leave(), "OK")
        expect(watch, "OK")
        that(watch.value.version_number > version, "version %d after %d", watch.value.version_number, version)


@check(31, "AB")
def _(dialect):
    with served(dialect) as service:
        first, second = service.tasks()
        joined(first, second)
        version = expect(first.watch(-1), "OK").value.version_number
        expect(second.leave(), "OK")
        again = second.restarted()
        expect(again.register(), "OK")
        watch = expect(first.watch(version), "OK")
        that(states_of(watch)[1] == ("CONNECTED", again.incarnation), "listed: %s", states_of(watch))
        that(watch.value.version_number > version, "version %d after %d", watch.value.version_number, version)


@contextlib.contextmanager
def store(dialect):
    """Keys need no registration."""
    with served(dialect, tasks=1) as service:
        yield service.task(0)


def has(keys, key, value):
    got = expect(keys.try_get(key), "OK").value.kv.value
    that(got == raw(value), "%s is %r instead of %r", key, got, value)


def put(keys, **pairs):
    for key, value in pairs.items():
        expect(keys.insert(key.replace("__", "/"), value), "OK")


@check(32, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, key0="old")
        expect(keys.insert("key0", "new"), "ALREADY_EXISTS", r"key .*key0.* already exists")
        has(keys, "key0", "old")


@check(33, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, key0="old")
        expect(keys.insert("key0", "new", overwrite=True), "OK")
        has(keys, "key0", "new")


@check(34, "AB")
def _(dialect):
    with served(dialect, tasks=1) as service:
        keys = service.task(0)
        for key, value in (("/path", "0"), ("/path/to/key1", "1"), ("path/to//key2/", "2")):
            expect(keys.insert(key, value), "OK")
        for key, value in (("path/", "0"), ("path/to/key1", "1"), ("/path//to/key1/", "1"), ("path/to/key2", "2")):
            got = expect(keys.get(key), "OK").value.kv
            that((got.key, got.value) == (raw(key), raw(value)), "%s: %s", key, got)
        expect(keys.delete("/path/to//key1/"), "OK")
        waits = keys.get("path/to/key1")
        keys.settle()
        that(not waits.done, "a deleted key is waited for: %s", waits)
        expect(keys.insert("path/to/key1", "again"), "OK")
        that(expect(waits, "OK").value.kv.value == b"again", "what was inserted")
        expect(keys.delete("/path"), "OK")
        waits = keys.get("/path/to/key1")
        keys.settle()
        that(not waits.done, "the subtree was deleted: %s", waits)
        service.stop()
        stopped(waits)


def by_service(call):
    """The error is the service's own, and says so."""
    that({name: value.ByteSize() for name, value in call.payload.items()} == {"CoordinationServiceError": 0},
         "payloads: %s", call.payload)


@check(35, "AB")
def _(dialect):
    with store(dialect) as keys:
        by_service(expect(keys.try_get("k"), "NOT_FOUND", "k"))
        put(keys, k="v")
        has(keys, "k", "v")
        expect(keys.delete("k"), "OK")
        expect(keys.try_get("k"), "NOT_FOUND")


@check(36, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, one="1", bad="bad_value")
        that(expect(keys.increment("one", 3), "OK").value.kv.value == b"4", "1 + 3")
        has(keys, "one", "4")
        that(expect(keys.increment("none", 10), "OK").value.kv.value == b"10", "nothing + 10")
        by_service(expect(keys.increment("bad", 1), "FAILED_PRECONDITION", "bad_value"))


def dir_is(keys, key, *pairs):
    got = listing(expect(keys.dir(key), "OK"))
    that(got == list(pairs), "%s has %s instead of %s", key, got, pairs)


@check(37, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, dir__path="v")
        dir_is(keys, "dir", ("dir/path", "v"))


@check(38, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, dir__path="1", dir__path2="2", dir__sub__path="3")
        dir_is(keys, "dir", ("dir/path", "1"), ("dir/path2", "2"), ("dir/sub/path", "3"))
        dir_is(keys, "/dir//sub/", ("dir/sub/path", "3"))


@check(39, "AB")
def _(dialect):
    with store(dialect) as keys:
        dir_is(keys, "dir")


@check(40, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, other__path="v")
        dir_is(keys, "dir")


@check(41, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, wrong_dir__dir__path="v")
        dir_is(keys, "dir")


@check(42, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, dir_key="v")
        dir_is(keys, "dir")


@check(43, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, dir="v")
        dir_is(keys, "dir")


@check(202, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, k="a")
        expect(keys.insert("k", "b"), "ALREADY_EXISTS")
        has(keys, "k", "a")
        expect(keys.insert("k", "c", overwrite=True), "OK")
        has(keys, "k", "c")


@check(203, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, k="a")
        has(keys, "k", "a")
        expect(keys.try_get("l"), "NOT_FOUND")


@check(204, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, foo__1="a", foo__2="b", foobar="c", foo__dir__3="d")
        dir_is(keys, "bar")
        dir_is(keys, "foo/1")
        dir_is(keys, "fo")
        dir_is(keys, "foo", ("foo/1", "a"), ("foo/2", "b"), ("foo/dir/3", "d"))


@check(205, "AB")
def _(dialect):
    with store(dialect) as keys:
        before = keys.get("k")
        keys.settle()
        that(not before.done, "nothing to get: %s", before)
        put(keys, k="v")
        for call in (before, keys.get("k")):
            that(expect(call, "OK").value.kv.value == b"v", "the value")


@check(206, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, k="v")
        expect(keys.delete("k"), "OK")
        expect(keys.try_get("k"), "NOT_FOUND")
        expect(keys.delete("k"), "OK")


@check(207, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, a="0", a__b="1", a__b__c="2", ab="3")
        expect(keys.delete("x"), "OK")
        expect(keys.delete("a/b"), "OK")
        has(keys, "a", "0")
        dir_is(keys, "a")
        put(keys, a__d="4")
        expect(keys.delete("a"), "OK")
        expect(keys.try_get("a"), "NOT_FOUND")
        expect(keys.try_get("a/d"), "NOT_FOUND")
        has(keys, "ab", "3")


@check(208, "AB")
def _(dialect):
    with served(dialect, tasks=1) as service:
        keys = service.task(0)
        waits = [keys.get("k"), keys.get("k"), keys.get("l")]
        keys.settle()
        service.stop()
        stopped(*waits)


@check(209, "AB")
def _(dialect):
    with store(dialect) as keys:
        put(keys, k="40", word="x")
        for key, by, result in (("k", 2, b"42"), ("k", -50, b"-8"), ("new", -1, b"-1")):
            got = expect(keys.increment(key, by), "OK").value.kv.value
            that(got == result, "%s: %r instead of %r", key, got, result)
        expect(keys.increment("word", 1), "FAILED_PRECONDITION")


@check(210, "AB")
def _(dialect):
    with store(dialect) as keys:
        for spelling, plain in (("a", "a"), ("/b/", "b"), ("//c///d//", "c/d"), ("e/f", "e/f")):
            expect(keys.insert(spelling, "v"), "OK")
            expect(keys.insert(plain, "w"), "ALREADY_EXISTS")
            has(keys, "/" + plain + "//", "v")


@check(211, "AB")
def _(dialect):
    with store(dialect) as keys:
        other = Keys(keys.wire.service.wire())
        for key, change in (("added", lambda: other.insert("added", "1")),
                            ("put", lambda: other.insert("put", "1", overwrite=True)),
                            ("counted", lambda: other.increment("counted", 1))):
            waits = keys.get(key)
            keys.settle()
            answered = []
            waits.future.add_done_callback(lambda _: answered.append(keys.try_get(key)))  # from within the answer
            expect(change(), "OK")
            that(expect(waits, "OK").value.kv.value == b"1", "the value")
            until("it was asked again", lambda: answered)
            expect(answered[0], "OK")


@check(212, "AB")
def _(dialect):
    with store(dialect) as keys:
        waits, deleted = keys.get("k"), []
        keys.settle()
        waits.future.add_done_callback(lambda _: deleted.append(keys.delete("k")))
        expect(keys.insert("k", "v"), "OK")
        until("the key is deleted", lambda: deleted)
        expect(deleted[0], "OK")
        expect(keys.try_get("k"), "NOT_FOUND")


if __name__ == "__main__":
    main()
