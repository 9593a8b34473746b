#!/usr/bin/env python3
"""Tensors and tables that real processes push to: versions, rounds, views, errors, files; arrays of numpy, tensors of torch
where it is installed.
variants: release
timeout: 300
"""
import os
import sys
import tempfile

import common
from common import raises

import muster

try:
    import numpy
except ImportError:
    numpy = None

ROUNDS = """
    import muster, numpy as np
    with muster.join() as task:
        n = task.num_tasks
        w = muster.ps.Tensor(task, "w", (300, 5), initial=1, optimizer="sgd", rate=1, pushers=n, staleness=1)
        for i in range(1, 21):
            assert w.push(np.full((300, 5), 0.25), timeout=60) == i
        assert w.wait(20, timeout=60) == 20 and (w.pull() == 1 - 20 * n * 0.25).all()
        t = muster.ps.Table(task, "t", (3,), "float64", rows=50)
        for i in range(20):
            t.push(np.arange(50), np.ones((50, 3)))
        task.barrier("pushed")
        assert (t.pull([0, 49, 1 << 63])[:, 1] == [20 * n, 20 * n, 0]).all() and len(t) == 50
        try:
            t.push([50], np.ones((1, 3)))
            assert False
        except muster.ResourceExhausted as e:
            assert "is full: it has 50 rows" in str(e), e
        task.barrier("end")
        if task.id == 0:
            print("tasks", n)
"""


def test_rounds_of_four_processes():
    assert common.run(4, ROUNDS) == "tasks 4\n"


def test_one_task():
    with muster.join(common.job_name(), task=0, num_tasks=1) as task:
        w = muster.ps.Tensor(task, "w", (2, 3), "int64")
        assert w.push(numpy.arange(6).reshape(2, 3)) == 1 and w.version == 1
        view = w.view()
        assert w.set([[1, 2, 3], [4, 5, 6]]) == 2
        assert view.tolist() == [[0, 1, 2], [3, 4, 5]] and not view.flags.writeable
        out = numpy.zeros((2, 3), numpy.int64)
        assert w.pull(out) is out and out.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert repr(w) == "<tensor w: (2, 3) of int64>"
        other = muster.ps.Tensor(task, "w")
        assert other.shape == (2, 3) and other.dtype == numpy.int64 and other.pull().sum() == 21
        raises(ValueError, w.push, numpy.ones((3, 2)))
        raises(ValueError, w.pull, numpy.zeros((2, 3), numpy.float32))
        raises(muster.FailedPrecondition, muster.ps.Tensor, task, "w", (2, 4), "int64")
        raises(muster.DeadlineExceeded, muster.ps.Tensor, task, "none", timeout=0.01)
        raises(TypeError, muster.ps.Tensor, task, "x", (1,), "complex64")
        raises(muster.DeadlineExceeded, w.wait, 99, timeout=0.01)
        del view
        w.close()
        raises(muster.InvalidArgument, w.pull)
        other.close()


def test_files():
    with muster.join(common.job_name(), task=0, num_tasks=1) as task, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        t = muster.ps.Table(task, "t", (2,), rows=10, optimizer="adam", rate=0.5)
        t.push([3, 9], numpy.ones((2, 2)))
        was = t.pull([3, 9])
        t.save(path)
        t.push([3, 9], numpy.ones((2, 2)))
        assert t.rate == 0.5 and (t.pull([3, 9]) != was).all()
        t.load(path)
        assert (t.pull([3, 9]) == was).all() and os.listdir(folder) == ["rows"]
        raises(OverflowError, t.push, [-1], numpy.ones((1, 2)))
        raises(OverflowError, t.push, numpy.array([-1]), numpy.ones((1, 2)))
        assert t.has(numpy.array([9, 10])).tolist() == [True, False]
        raises(TypeError, t.pull, [0.5])
        raises(muster.NotFound, t.load, path + "x")


def test_torch():
    try:
        import torch
    except ImportError:
        print(", skipped: torch is not installed", end="")
        return
    with muster.join(common.job_name(), task=0, num_tasks=1) as task:
        p = torch.nn.Parameter(torch.ones(4))
        w = muster.ps.Tensor(task, "w", p.shape, p.dtype, initial=p)
        w.push(torch.ones(4))
        with torch.no_grad():
            w.pull(p.data)
        assert p.tolist() == [2, 2, 2, 2]


if numpy is None:
    print("numpy is not installed")
    sys.exit(77)
common.main(sys.modules[__name__])
