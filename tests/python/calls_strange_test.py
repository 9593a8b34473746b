#!/usr/bin/env python3
"""Calls with strange errors, with references inside of arguments and results, with very many of them, and nested ones.
variants: release
timeout: 300
"""
import functools
import sys
import threading
import typing

import common
from common import raises

import muster


@muster.remote
def add(*numbers):
    return sum(numbers)


class Coded(Exception):
    """Its attributes have the names of muster's own."""
    def __init__(self, text):
        super().__init__(text)
        self.code, self.status, self.message, self.cause = 404, 500, "its own", "its own"


class Fixed(Exception):
    @property
    def message(self):
        return "cannot be set"


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("it cannot be shown")


@muster.remote
def fail_strangely(kind):
    error = kind("strange")
    if kind is ValueError:
        error.lock = threading.Lock()
    raise error


@muster.remote
class Strange:
    def fail(self):
        raise Fixed("strange")

    def one(self):
        return 1


def test_strange_errors_are_errors_all_the_same():
    e = raises(Coded, muster.get, fail_strangely.remote(Coded))
    assert (e.code, e.status, e.message, e.cause) == (404, 500, "its own", "its own")
    e = raises(Fixed, muster.get, fail_strangely.remote(Fixed))
    assert e.message == "cannot be set" and isinstance(e, muster.TaskError)
    raises(muster.TaskError, muster.get, fail_strangely.remote(Mute))
    raises(ValueError, muster.get, fail_strangely.remote(ValueError))  # what of it cannot be pickled is left out
    actor = Strange.remote()
    raises(Fixed, muster.get, actor.fail.remote(), timeout=60)
    assert muster.get(actor.one.remote(), timeout=60) == 1


@muster.remote(num_returns=2)
def with_reference(x):
    return x, [muster.put(x)]


def test_references_in_results_and_arguments_are_kept_and_go():
    pairs = [with_reference.remote(i) for i in range(20)]
    muster.get([with_reference.remote(i)[0] for i in range(300)])
    assert [muster.get(muster.get(pair[1])[0]) for pair in pairs] == list(range(20))
    common.python("""
        import muster
        @muster.remote
        def first_of(refs): return len(muster.get(refs[0]))
        @muster.remote
        def put_of(size): return [muster.put(bytes(size))]
        @muster.remote
        def bytes_of(size): return bytes(size)
        muster.init(workers=2, store=64 << 20)
        for _ in range(12):
            inner = muster.put(bytes(10 << 20))
            muster.get(first_of.remote([inner]))
            del inner
        for _ in range(12):
            muster.get(muster.get(put_of.remote(10 << 20))[0])
        left = [bytes_of.remote(10 << 20) for _ in range(12)]  # results wait for room
        while left:
            (ready,), left = muster.wait(left)
            assert len(muster.get(ready)) == 10 << 20
            del ready
        """)


def test_a_call_with_a_thousand_references():
    assert muster.get(add.remote(*[muster.put(i) for i in range(1000)])) == sum(range(1000))


@muster.remote
def parent(i):
    return sum(muster.get([add.remote(i, j) for j in range(3)]))


def test_many_calls_that_wait_for_others():
    assert muster.get([parent.remote(i) for i in range(150)], timeout=120) == [3 * i + 3 for i in range(150)]


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value

    @functools.cached_property
    def twice(self):
        return 2 * self.value


@muster.remote
def unpacked(box):
    return box.twice, box.twice, Box[int](7).value


def test_generic_classes_go_by_value():
    assert muster.get(unpacked.remote(Box(4))) == (8, 8, 7)


if __name__ == "__main__":
    muster.init(workers=2)
    common.main(sys.modules[__name__])
    muster.shutdown()
