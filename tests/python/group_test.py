#!/usr/bin/env python3
"""Groups of one to eight real processes: bytes and numpy arrays gathered, broadcast and reduced.
variants: release
timeout: 300
"""
import sys

import common
from common import raises

import muster

try:
    import numpy
except ImportError:
    numpy = None

BYTES = """
    import muster
    with muster.join() as task, task.group("g", data_bytes=64) as g:
        n, r = g.size, g.rank
        assert (n, r) == (task.num_tasks, task.id) and repr(g) == "<group g: rank %d of %d>" % (r, n)
        for i in range(6):
            g.barrier()
            assert g.allgather(b"x" * r) == [b"x" * k for k in range(n)]
            assert g.allgather(bytearray(b"%d" % (r * i))) == [b"%d" % (k * i) for k in range(n)]
            assert g.broadcast(b"of %d" % r, root=i % n) == b"of %d" % (i % n)
            assert g.broadcast(b"" if r == 0 else None) == b""
            assert g.allreduce(r) == n * (n - 1) // 2 and g.allreduce(-r, "min") == 1 - n
            assert g.allreduce(r + 0.5, "max") == n - 0.5 and g.allreduce(1 << r, "bor") == (1 << n) - 1
        assert g.allgather(b"y" * 56)[n - 1] == b"y" * 56
        task.barrier("end")
        if r == 0:
            print("members", n)
"""

ARRAYS = """
    import muster, numpy as np
    with muster.join() as task, task.group("g", data_bytes=4096) as g:
        n, r = g.size, g.rank
        for dtype in (np.float32, np.int64, np.uint8, np.complex128, np.dtype([("a", "<i4"), ("b", "<f8")])):
            mine = np.zeros((3, 2), dtype)
            mine.view(np.uint8)[...] = r + 1
            got = g.allgather(mine)
            assert got.shape == (n, 3, 2) and got.dtype == mine.dtype
            assert all((got[k].view(np.uint8) == k + 1).all() for k in range(n))
        assert g.allgather(np.float64(r)).tolist() == [float(k) for k in range(n)]
        turned = np.arange(6.0).reshape(2, 3).T + r
        assert (g.allgather(turned)[n - 1] == np.arange(6.0).reshape(2, 3).T + n - 1).all()
        weights = np.full(5, float(r))
        assert g.broadcast(weights, root=n - 1) is weights and (weights == n - 1).all()
        given = np.arange(4) + r
        assert (g.allreduce(given) == n * np.arange(4) + n * (n - 1) // 2).all() and given[0] == r
        assert (g.allreduce(np.array([r, 1.0]), "max") == [n - 1, 1]).all()
        task.barrier("end")
        if r == 0:
            print("members", n)
"""


def test_bytes_of_one_to_eight():
    for n in (1, 2, 5, 8):
        assert common.run(n, BYTES) == "members %d\n" % n


def test_arrays_of_one_to_eight():
    if not numpy:
        print("numpy is not installed: arrays are not tried")
        return
    for n in (1, 4):
        assert common.run(n, ARRAYS) == "members %d\n" % n


def test_some_tasks_only_and_who_is_missing():
    out = common.run(3, """
        import muster
        with muster.join() as task:
            if task.id == 1:
                task.kv.get("over", wait=True)
                raise SystemExit
            g = task.group("some", tasks=[2, 0])
            assert g.rank == {2: 0, 0: 1}[task.id] and g.size == 2
            if task.id == 0:
                assert g.missing() == (2, 0) or set(g.missing()) <= {0, 2}
                try:
                    g.barrier(timeout=0.05)
                except muster.DeadlineExceeded as e:
                    assert e.culprit.task == 2, e
                task.kv["failed"] = ""
            else:
                task.kv.get("failed", wait=True)
                try:
                    g.barrier()
                except muster.DeadlineExceeded as e:
                    print("the same for both")
            g.close()
            g = task.group("some", tasks=[2, 0])
            g.barrier()
            task.kv["over"] = ""
    """)
    assert out == "the same for both\n", out


def test_bad_input_is_one_clear_line():
    with muster.join(common.job_name(), task=0, num_tasks=1) as task:
        with task.group("g", data_bytes=32) as g:
            assert "takes 24" in str(raises(ValueError, g.allgather, bytes(25)))
            assert "takes 24" in str(raises(ValueError, g.broadcast, bytes(25)))
            raises(ValueError, g.broadcast, b"", 1)
            raises(TypeError, g.allgather, ["a list"])
            raises(ValueError, g.allreduce, 1, "median")
            raises(OverflowError, g.allreduce, 1 << 63)
            if numpy:
                assert "takes 32" in str(raises(ValueError, g.allgather, numpy.zeros(5)))
                raises(TypeError, g.allgather, numpy.array([None]))
                raises(TypeError, g.allreduce, numpy.zeros(1, numpy.float32))
            g.barrier()
        raises(muster.InvalidArgument, g.barrier)
        raises(muster.InvalidArgument, task.group, "large", data_bytes=1 << 20)
        raises(ValueError, task.group, "nobody", tasks=[])


def test_a_group_that_is_left_open():
    task = muster.join(common.job_name(), task=0, num_tasks=1)
    g = task.group("g")
    task.leave()
    raises(muster.Error, g.barrier)
    raises(muster.Error, g.missing)


common.main(sys.modules[__name__])
