#!/usr/bin/env python3
"""task.kv: every call of it, as a mapping and as the store.
variants: release
"""
import os
import sys
import threading
from collections.abc import MutableMapping

import common
from common import raises

import muster

task = muster.join(common.job_name(), task=0, num_tasks=1)
kv = task.kv


def test_it_is_a_mapping():
    assert isinstance(kv, MutableMapping) and len(kv) == 0 and kv
    kv["b/x"] = b"1"
    kv[b"/a//y/"] = "zwei \u00e4"
    kv["b/\udcff"] = bytearray(b"\0\xff")
    assert list(kv) == ["a/y", "b/x", "b/\udcff"], list(kv)
    assert kv["a/y"] == "zwei \u00e4".encode() and kv["b/\udcff"] == b"\0\xff" and kv[b"b/\xff"] == b"\0\xff"
    assert dict(kv.items()) == dict(kv) == kv.directory() and list(kv.values())[1] == b"1"
    assert "b/x" in kv and b"b/x" in kv and "b" not in kv and 5 not in kv
    assert kv.pop("b/x") == b"1" and "b/x" not in kv
    assert kv.get("b/x") is None and kv.get("b/x", 5) == 5 and kv.setdefault("b/x", "new") == b"new"
    assert kv.setdefault("b/x", "newer") == b"new"
    kv.update({"b/x": b"3", "c": b""})
    assert kv["b/x"] == b"3" and kv["c"] == b""
    assert kv.popitem()[0] == "a/y"
    del kv["b"]
    assert list(kv) == ["c"]
    kv.clear()
    assert not list(kv.items())


def test_what_is_not_there():
    for error in (raises(KeyError, lambda: kv["nowhere"]), raises(muster.NotFound, kv.read, "nowhere")):
        assert error.status == 5 and error.code == "NOT_FOUND" and "nowhere" in str(error), error
    raises(KeyError, kv.__delitem__, "nowhere")
    assert kv.delete("nowhere") == 0


def test_versions():
    first = kv.set("v", "1")
    assert kv.read("v") == muster.Entry("v", b"1", first)
    second = kv.compare_and_set("v", first, "2")
    assert second > first
    error = raises(muster.Aborted, kv.compare_and_set, "v", first, "3")
    assert error.version == second and kv["v"] == b"2"
    assert raises(muster.Aborted, kv.compare_and_set, "absent", first, "3").version == 0
    assert kv.compare_and_set("absent", 0, "here") and kv["absent"] == b"here"
    assert kv.watch("v") == kv.watch("v", first) == ("v", b"2", second)
    raises(muster.DeadlineExceeded, kv.watch, "v", second, 0.01)
    kv.delete("v")
    raises(muster.NotFound, kv.watch, "v", second)


def test_insert_increment_append():
    kv.insert("i", "first")
    raises(muster.AlreadyExists, kv.insert, "i", "second")
    assert kv.increment("n") == 1 and kv.increment("n", -5) == -4 and kv["n"] == b"-4"
    assert raises(muster.FailedPrecondition, kv.increment, "i").culprit is None
    raises(OverflowError, kv.increment, "n", 1 << 63)
    assert kv.append("l", "ab") == 2 and kv.append("l", b"\0c") == 4 and kv["l"] == b"ab\0c"


def test_directories():
    for i in range(3):
        kv["d/%d/x" % i] = str(i)
    kv["d"] = "its own"
    kv["dd"] = "beside"
    assert [e.key for e in kv.list("d")] == ["d/0/x", "d/1/x", "d/2/x"] == [e.key for e in kv.list("/d/")]
    assert kv.directory("d/1") == {"d/1/x": b"1"} and kv.count("d") == 3 and kv.list("none") == []
    assert kv.delete("d") == 4 and kv["dd"] == b"beside"


def test_bad_input_is_one_clear_line():
    for bad in ("", "a/../b", "nul\0", "x" * 5000):
        error = raises(muster.InvalidArgument, kv.set, bad, "v")
        assert isinstance(error, ValueError) and "\n" not in str(error) and str(error), error
    assert raises(TypeError, kv.set, "k", 5).args == ("a value is bytes or str, not int",)
    raises(TypeError, kv.set, 5, "v")
    raises(ValueError, kv.get, "k", wait=float("nan"))


def test_a_number_that_does_not_fit_is_refused():
    big = 1 << 32
    for call in (lambda: kv.increment("n", -(1 << 63) - 1), lambda: kv.compare_and_set("c", 1 << 64, "v"),
                 lambda: kv.compare_and_set("c", -1, "v"), lambda: kv.watch("k", 1 << 64, 0), lambda: task.state(big),
                 lambda: task.report_error("x", code=big), lambda: task.report_error("x", task=big),
                 lambda: task.reset(big), lambda: task.alive([big]), lambda: task.watch_states(1 << 64),
                 lambda: task.barrier("b", tasks=[0, big]), lambda: task.barrier("b", counter=1 << 64),
                 lambda: task.group("g", [big]), lambda: task.events.send(big), lambda: task.events.read(1 << 64, 0),
                 lambda: muster.join(task.job, task=big), lambda: muster.join(task.job, task=0, num_tasks=big + 1)):
        assert " does not fit into " in str(raises(OverflowError, call))
    assert "c" not in kv and task.error() is None
    raises(TypeError, task.alive, [0.5])


def test_values_of_all_sizes():
    for size in (0, 1, 4095, 4096, 4097, 100000, 5 << 20):
        value = os.urandom(size)
        kv["big"] = value
        assert kv["big"] == value == kv.get("big") == kv.read("big").value == kv.watch("big").value
        assert kv.list("")[0].key and kv.directory()["big"] == value
    kv["big"] = memoryview(b"abcdef")[::2]
    assert kv["big"] == b"ace"
    error = raises(muster.Error, kv.set, "big", bytes((64 << 20) + 1))
    assert error.status in (3, 8) and kv["big"] == b"ace"
    kv.clear()


def test_a_value_that_others_make_longer_is_whole():
    over = threading.Event()

    def write():
        sizes = [10, 5000, 300000, 4096]
        while not over.is_set():
            for size in sizes:
                kv["torn"] = b"%d " % size + bytes([size % 251]) * size

    kv["torn"] = b"0 "
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for read in [kv.__getitem__, lambda k: kv.watch(k).value] * 300:
            size, _, rest = read("torn").partition(b" ")
            assert rest == bytes([int(size) % 251]) * int(size)
    finally:
        over.set()
        writer.join()


def between_all_steps(call, handler):
    """What the call returns while the handler is called before each instruction of the package's, as by signals."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if os.path.basename(frame.f_code.co_filename) not in ("kv.py", "_lib.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            handler()
            count += 1
        return trace

    sys.settrace(trace)
    try:
        got = call()
    finally:
        sys.settrace(None)
    assert count > 5, count
    return got


def test_a_handler_of_a_signal_may_use_it():
    long = os.urandom(9000)
    kv.update({"mine": b"A" * 100, "theirs": b"B" * 50, "long": long})

    def handler():
        assert kv["theirs"] == b"B" * 50 and kv.increment("handled") and kv.set("again", b"") and "none" not in kv
        assert kv.append("said", b".") and kv.watch("theirs").value == b"B" * 50 and kv.count("none") == 0

    first = kv.read("mine")
    assert between_all_steps(lambda: kv["mine"], handler) == first.value
    assert between_all_steps(lambda: kv.read("mine"), handler) == first
    assert between_all_steps(lambda: kv.watch("mine"), handler) == first
    assert between_all_steps(lambda: kv.watch("long").value, handler) == kv["long"] == long
    assert between_all_steps(lambda: "mine" in kv, handler) and not between_all_steps(lambda: "no" in kv, handler)
    for i in range(2):
        assert between_all_steps(lambda: kv.increment("sum", 1000), handler) == 1000 * (i + 1)
        assert between_all_steps(lambda: kv.append("parts", b"12345"), handler) == 5 * (i + 1)
        version = between_all_steps(lambda: kv.set("mine", b"C"), handler)
        assert version == kv.read("mine").version
        assert between_all_steps(lambda: kv.compare_and_set("mine", version, b"D"), handler) == kv.read("mine").version
    kv.update({"some/%d" % i: "" for i in range(7)})
    assert between_all_steps(lambda: kv.count("some"), handler) == between_all_steps(lambda: kv.delete("some"), handler) == 7


def test_waiting_for_a_key():
    raises(TimeoutError, kv.get, "late", wait=0.01)
    error = raises(muster.DeadlineExceeded, kv.read, "late", wait=0)
    assert "key late" in str(error) and not error.culprits
    for value in (b"there", b"long" * 5000):
        setter = threading.Thread(target=kv.set, args=("late", value))
        setter.start()
        assert kv.get("late", wait=True) == value
        setter.join()
        kv.delete("late")
    kv.sync()


def test_after_leaving():
    other = muster.join(task.job, observer=True)
    other.kv["x"] = "set by nobody"
    assert other.id is None and kv["x"] == b"set by nobody"
    reader = muster.join(task.job, read_only=True)
    raises(muster.PermissionDenied, reader.kv.set, "k", "v")
    assert list(reader.kv) == list(kv)
    reader.leave()
    other.leave()
    other.leave()
    for call in (lambda: other.kv["x"], lambda: other.kv.set("x", "y"), lambda: other.kv.get("x", wait=True),
                 other.states, other.heartbeat):
        error = raises(muster.Error, call)
        assert str(error), error
    assert "left" in repr(other)


common.main(sys.modules[__name__])
