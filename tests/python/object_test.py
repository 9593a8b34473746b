#!/usr/bin/env python3
"""Objects: every kind of value, how long each lives, waits, views that cannot be written to, other processes and their deaths.
variants: release
timeout: 300
"""
import array
import asyncio
import collections
import ctypes
import gc
import os
import pickle
import sys
import threading

import common
from common import raises

import muster
from muster import _lib, _pack

try:
    import numpy
except ImportError:
    numpy = None

task = muster.join(common.job_name(), task=0, num_tasks=1)
objects = task.objects
Point = collections.namedtuple("Point", "x y")


class Pages:
    """What hands its memory to pickle beside the pickle, as numpy's arrays do."""

    def __init__(self, memory):
        self.memory = memoryview(memory)

    def __reduce_ex__(self, protocol):
        return Pages, (pickle.PickleBuffer(self.memory),)


def unsealed(size=8):
    """A reference to an object that is not sealed, and where its bytes are."""
    cell, room = ctypes.c_uint64(), _lib.ObjectRoom()
    muster.errors.check(_lib.lib.muster_object_create(task._m, size, 0, 0, ctypes.byref(cell), ctypes.byref(room)))
    ref = muster.ObjectRef(cell.value)
    muster.errors.check(_lib.lib.muster_object_drop(task._m, ctypes.byref(cell), 1))
    return ref, room


def seal(ref):
    muster.errors.check(_lib.lib.muster_object_seal(task._m, ref.number))


def test_values_come_back():
    values = [0, -1, 1 << 70, 0.5, float("inf"), "", "z\u00e4\0", None, True, b"", b"\0raw", bytearray(b"x"), [], (1, (2,)),
              {"a": [1], 2: {3}}, {b"k"}, Point(1, 2), ValueError("v", 3), len, collections.OrderedDict(a=1), range(5),
              "x" * 10000, list(range(5000)), array.array("d", [1, 2]), b"y" * 60000]
    for value in values:
        got = muster.get(muster.put(value))
        assert type(got) is type(value) and repr(got) == repr(value), value
    assert muster.get([muster.put(i) for i in range(100)]) == list(range(100)) and muster.get([]) == []
    looped = []
    looped.append(looped)
    got = muster.get(muster.put(looped))
    assert got[0] is got
    del got
    gc.collect()
    assert objects.count() == 0


def test_bytes_are_what_c_programs_put():
    cell = ctypes.c_uint64()
    muster.errors.check(_lib.lib.muster_object_put(task._m, b"from C", 6, None, 0, 0, ctypes.byref(cell)))
    ref = muster.ObjectRef(cell.value)
    assert muster.get(ref) == b"from C"
    muster.errors.check(_lib.lib.muster_object_drop(task._m, ctypes.byref(cell), 1))
    ref = muster.put(b"to C")
    info, = objects.infos()
    assert (info.object, info.len, info.meta_len, info.sealed) == (ref.number, 4, 0, 1)
    muster.errors.check(_lib.lib.muster_object_put(task._m, b"x", 1, b"other", 5, 0, ctypes.byref(cell)))
    assert "not made by this version" in str(raises(ValueError, muster.get, muster.ObjectRef(cell.value)))
    muster.errors.check(_lib.lib.muster_object_drop(task._m, ctypes.byref(cell), 1))
    del ref
    assert objects.count() == 0, objects.infos()


def test_what_cannot_be_pickled_leaves_nothing():
    raises(TypeError, muster.put, threading.Lock())
    raises(TypeError, muster.put, [muster.put(1), threading.Lock()])
    assert _pack.turn.refs is None and objects.count() == 0


def test_buffers_lie_in_the_object():
    sizes = (0, 1, 63, 64, 65, 4096, 5000)
    value = [Pages(bytes([i] * size)) for i, size in enumerate(sizes)]
    ref = muster.put({"pages": value, "name": "n"})
    got = muster.get(ref)["pages"]
    assert [p.memory.tobytes() for p in got] == [p.memory.tobytes() for p in value]
    again = muster.get(ref)["pages"]
    for one, other, size in zip(got, again, sizes):
        assert one.memory.readonly and one.memory.format == "B" and one.memory.nbytes == size
        raises(TypeError, one.memory.__setitem__, slice(0, 0), b"")
        if size:  # the same memory, twice
            assert len({ctypes.addressof(p.memory.obj) for p in (one, other)}) == 1
    assert objects.infos()[0].len >= sum(sizes)
    del ref, again, one, other
    assert objects.count() == 1
    part = got[-1].memory[100:200]
    del got
    gc.collect()
    assert objects.count() == 1 and part == bytes([6] * 100)
    thread = threading.Thread(target=lambda kept: kept.clear(), args=([part],))
    del part
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert objects.count() == 0


def test_an_object_lives_as_long_as_its_references():
    ref = muster.put("kept")
    other = muster.ObjectRef(ref.number)
    assert other == ref and hash(other) == hash(ref) and other is not ref and ref != muster.put("kept")
    assert repr(ref) == "ObjectRef(0x%016x)" % ref.number
    copy = pickle.loads(pickle.dumps(ref))
    del ref, other
    assert muster.get(copy) == "kept"
    number = copy.number
    del copy
    error = raises(muster.NotFound, muster.ObjectRef, number)
    assert "is gone" in str(error), error
    raises(OverflowError, muster.ObjectRef, 1 << 64)
    raises(TypeError, muster.ObjectRef, "5")
    assert objects.count() == 0


def test_references_inside_a_value():
    inner = muster.put("inner")
    outer = muster.put({"deep": [muster.put([inner]), inner]})
    number = inner.number
    del inner
    got = muster.get(outer)["deep"]
    assert got[1].number == number and muster.get(got[1]) == "inner" == muster.get(muster.get(got[0])[0])
    del got
    assert objects.count() == 3
    del outer
    assert objects.count() == 0 and not objects._inner
    kept = [muster.put([muster.put(i)]) for i in range(200)]
    assert [muster.get(r) for r in sum(muster.get(kept), [])] == list(range(200))
    del kept
    assert objects.count() == 0


def test_waiting_for_some():
    refs = [unsealed() for _ in range(4)]
    waited = [r for r, _ in refs]
    assert muster.wait(waited, timeout=0) == ([], waited)
    seal(waited[2])
    assert muster.wait(waited) == ([waited[2]], [waited[0], waited[1], waited[3]])
    assert muster.wait(waited, num_returns=2, timeout=0.01) == ([waited[2]], [waited[0], waited[1], waited[3]])
    timer = threading.Timer(0.05, seal, (waited[0],))
    timer.start()
    assert muster.wait(waited, 2, common.PATIENCE) == ([waited[0], waited[2]], [waited[1], waited[3]])
    assert muster.wait(waited) == ([waited[0]], waited[1:])
    del waited[3:], refs[3:]  # what its producer drops unsealed is an error, and gone with it
    assert muster.wait(waited[:1] + waited[2:], num_returns=2) == ([waited[0], waited[2]], [])
    timer.join()
    for bad in (dict(num_returns=0), dict(num_returns=4), dict(num_returns=-1)):
        assert "of 3 references" in str(raises(ValueError, muster.wait, waited, **bad))
    raises(ValueError, muster.wait, [])
    assert "once" in str(raises(ValueError, muster.wait, [waited[0], waited[0]]))
    raises(ValueError, muster.wait, waited, 3, float("nan"))
    raises(TypeError, muster.wait, waited[0])
    raises(TypeError, muster.get, [waited[0], 5])
    raises(TypeError, muster.get, 5)


def test_get_waits_and_gives_up():
    ref, room = unsealed()
    for timeout in (0, 0.01):
        error = raises(muster.Timeout, muster.get, ref, timeout=timeout)
        assert isinstance(error, TimeoutError) and "is not sealed" in str(error) and error.culprit.task == 0, error
    raises(muster.Timeout, muster.get, [muster.put(1), ref], timeout=0.01)
    ctypes.memmove(room.data, b"8 bytes!", 8)
    timer = threading.Timer(0.05, seal, (ref,))
    timer.start()
    assert muster.get([ref, muster.put(2)], timeout=common.PATIENCE) == [b"8 bytes!", 2]
    timer.join()
    del timer
    failed, _ = unsealed()
    muster.errors.check(_lib.lib.muster_object_fail(task._m, failed.number, _lib.DEADLINE_EXCEEDED, b"its own deadline"))
    assert "its own deadline" in str(raises(muster.DeadlineExceeded, muster.get, failed))
    assert muster.wait([failed])[0] == [failed]
    del ref, failed, error  # which has the frames that it went through
    assert objects.count() == 0


def test_asyncio():
    async def main():
        ref, room = unsealed()
        waits = [asyncio.ensure_future(objects.get_async(ref, common.PATIENCE)) for _ in range(6)]
        waits.append(asyncio.ensure_future(asyncio.wait_for(ref, 0.01)))
        assert (await asyncio.gather(waits.pop(), return_exceptions=True))[0].__class__ is asyncio.TimeoutError
        try:
            await objects.get_async(ref, timeout=0.01)
        except muster.Timeout as e:
            assert "is not sealed" in str(e), e
        else:
            raise AssertionError("it came")
        ctypes.memmove(room.data, b"8 bytes!", 8)
        seal(ref)
        assert await asyncio.gather(*waits) == [b"8 bytes!"] * 6
        assert await muster.put("at once") == "at once" == await objects.get_async(muster.put("at once"), 0)

    asyncio.run(main())
    gc.collect()
    assert objects.count() == 0


def test_many_threads():
    shared, failures = collections.deque(maxlen=50), []

    def work(seed):
        try:
            for i in range(400):
                shared.append(muster.put([seed, i, Pages(b"%d" % i * 100)] if i % 3 else (seed, i)))
                first = muster.get(shared[i % len(shared)])
                assert len(first) in (2, 3)
                if i % 50 == 0:
                    gc.collect()
        except IndexError:
            pass
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    shared.clear()
    gc.collect()
    assert objects.count() == 0


def test_full_says_so_and_takes_back():
    small = muster.join(common.job_name(), task=0, num_tasks=1, heap_bytes=1 << 20)
    kept = []
    error = raises(muster.ResourceExhausted, lambda: [kept.append(small.objects.put(b"x" * 1000)) for _ in range(5000)])
    assert len(kept) > 100 and str(error)
    kept.clear()
    ref = small.objects.put([1, muster.put(2)])
    assert small.objects.get(ref)[0] == 1 and muster.put(3)._task is small
    small.leave()
    assert raises(muster.InvalidArgument, small.objects.get, ref)
    assert muster.put(3)._task is task


def test_large_ones_lie_in_the_arena_and_wait_for_room():
    small = muster.join(common.job_name(), task=0, num_tasks=1, object_bytes=4 << 20)
    value = Pages(os.urandom(3 << 20))
    kept = [small.objects.put(value)]
    one, other = small.objects.get(kept[0]), small.objects.get(kept[0])
    assert bytes(one.memory) == bytes(value.memory) and ctypes.addressof(one.memory.obj) == ctypes.addressof(other.memory.obj)
    raises(TypeError, one.memory.__setitem__, slice(0, 1), b"x")
    assert "task 0" in str(raises(muster.ResourceExhausted, small.objects.put, value, 0.01))
    raises(muster.OutOfRange, small.objects.put, bytes(5 << 20))
    timer = threading.Timer(0.05, lambda: (kept.clear(), held.clear()))
    held = [one, other]
    del one, other
    timer.start()
    again = small.objects.put(value, common.PATIENCE)
    assert bytes(small.objects.get(again).memory[-100:]) == bytes(value.memory[-100:])
    timer.join()
    small.leave()


def test_without_a_job():
    out = common.python("""
        import muster
        try:
            muster.put(1)
        except muster.FailedPrecondition as e:
            print(e)
        """)
    assert out == "this process has not joined a job: call muster.init() or muster.join() first\n", out


def test_other_processes():
    out = common.run(3, """
        import gc, os, signal, sys, muster
        task = muster.join()
        if task.id == 0:
            ref = muster.put({"who": 0, "inner": [muster.put("inner")]})
            task.kv["ref"] = str(ref.number)
            task.barrier("held")
            number = ref.number
            del ref  # the others have it
            assert muster.get(muster.ObjectRef(number))["who"] == 0
            task.barrier("got")
            gc.collect()
            task.barrier("end")
            print("gone", not task.objects._exists(number))
        else:
            ref = muster.ObjectRef(int(task.kv.get("ref", wait=True)))
            task.barrier("held")
            value = muster.get(ref)
            print("got", value["who"], muster.get(value["inner"]))
            sys.stdout.flush()
            if task.id == 2 and os.fork() == 0:
                try:
                    muster.get(ref)
                except muster.FailedPrecondition:
                    print("no task")
                del ref, value
                sys.stdout.flush()
                os._exit(0)
            if task.id == 2:
                os.wait()
                assert muster.get(ref)["who"] == 0  # the child has dropped nothing of ours
            task.barrier("got")
            del ref, value
            task.barrier("end")
        """, environment={"PYTHONWARNINGS": "ignore"})  # of fork() beside threads
    assert sorted(out.splitlines()) == ["gone True"] + ["got 0 ['inner']"] * 2 + ["no task"], out


def test_a_producer_that_dies():
    out = common.run(2, """
        import ctypes, os, signal, muster
        from muster import _lib
        task = muster.join()
        if task.id == 1:
            cell, room = ctypes.c_uint64(), _lib.ObjectRoom()
            _lib.lib.muster_object_create(task._m, 8, 0, 0, ctypes.byref(cell), ctypes.byref(room))
            whole = muster.put("whole")
            task.kv["refs"] = "%d %d" % (cell.value, whole.number)
            task.barrier("held")
            os.kill(os.getpid(), signal.SIGKILL)
        never, whole = [muster.ObjectRef(int(n)) for n in task.kv.get("refs", wait=True).split()]
        task.barrier("held")
        try:
            muster.get(never)
        except muster.Unavailable as e:
            print(e.culprit.task, muster.get(whole))
        """, options=["--kill-on-fail=no"], status=None)
    assert "1 whole\n" in out, out


def test_what_is_alive_at_the_end_of_the_program():
    out = common.python("""
        import pickle, muster
        class Pages:
            def __init__(self, memory): self.memory = memoryview(memory)
            def __reduce_ex__(self, protocol): return Pages, (pickle.PickleBuffer(self.memory),)
        task = muster.join(%r, task=0, num_tasks=1)
        class Late:
            def __del__(self): print("late", self.ref.number > 0)
        late = Late()
        late.ref = muster.put(Pages(b"x" * 100))
        late.value = muster.get(late.ref)
        late.loop = late
        print("done")
        """ % common.job_name())
    assert out.splitlines()[0] == "done" and set(out.splitlines()[1:]) <= {"late True"}, out


def test_arrays():
    if numpy is None:
        print("numpy is not installed: arrays are not tried")
        return
    for a in (numpy.arange(6000.).reshape(20, 300), numpy.asfortranarray(numpy.ones((3, 5), numpy.int16)), numpy.zeros((0, 3)),
              numpy.array(5), numpy.arange(10)[::2], numpy.array(["a", "bc"]), numpy.array([(1, 2.)], "i4,f8")):
        ref = muster.put(a)
        b = muster.get(ref)
        assert b.dtype == a.dtype and b.shape == a.shape and (b == a).all()
    ref = muster.put(numpy.arange(100))
    b = muster.get(ref)
    assert not b.flags.writeable and b.ctypes.data % 64 == 0 and muster.get(ref).ctypes.data == b.ctypes.data
    raises(ValueError, b.__setitem__, 0, 1)
    raises(ValueError, b.setflags, write=True)
    if hasattr(numpy, "from_dlpack") and numpy.__version__ >= "2.1":
        assert numpy.from_dlpack(b).ctypes.data == b.ctypes.data and not numpy.from_dlpack(b).flags.writeable
    mixed = muster.get(muster.put([numpy.array([None, "x"]), numpy.float32(2), {"k": numpy.ones(3)}]))
    assert list(mixed[0]) == [None, "x"] and mixed[1] == 2 and mixed[2]["k"].sum() == 3
    view = b[10:20]
    del b, ref, mixed
    assert (view == numpy.arange(10, 20)).all() and objects.count() == 1
    del view
    assert objects.count() == 0


def test_tensors():
    try:
        import torch
    except ImportError:
        print("torch is not installed: tensors are not tried")
        return
    for t in (torch.arange(6.).reshape(2, 3), torch.ones(3, 4).t(), torch.tensor(5), torch.zeros(0, 2),
              torch.arange(4).to(torch.bfloat16), torch.tensor([True, False]), torch.ones(2, requires_grad=True)):
        got = muster.get(muster.put({"t": t}))["t"]
        assert got.dtype == t.dtype and got.shape == t.shape and torch.equal(got, t) and got.requires_grad == t.requires_grad
    ref = muster.put(torch.ones(1000))
    one, other = muster.get(ref), muster.get(ref)
    assert one.data_ptr() == other.data_ptr() and one.data_ptr() % 64 == 0
    half = one[500:]
    del one, other, ref
    assert half.sum() == 500 and objects.count() == 1
    del half
    assert objects.count() == 0


common.main(sys.modules[__name__])
