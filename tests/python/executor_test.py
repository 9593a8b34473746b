#!/usr/bin/env python3
"""muster.Executor: what concurrent.futures promises, a dead worker that fails its own future only, dask where it is here.
variants: release
timeout: 300
"""
import concurrent.futures
import operator
import os
import pickle
import signal
import struct
import sys
import threading
import time

import common
from common import raises

import muster
from muster import _pool

PATIENCE = common.PATIENCE


def square(x):
    return x * x


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(seconds):
    time.sleep(seconds)


def hold(path):
    """Says that it runs, and runs until it is told to end."""
    os.mkfifo(path + ".end")
    open(path, "w").close()
    open(path + ".end").close()


def held(executor, path):
    """A call that runs until released(path)."""
    runs = executor.submit(hold, path)
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        assert time.monotonic() < deadline and not runs.done()
        time.sleep(0.005)  # sleep: between two looks
    return runs


def released(path):
    open(path + ".end", "w").close()


def test_a_driver_that_dies_while_its_workers_begin_leaves_nothing():
    task = muster.join("executor-%d" % os.getpid(), task=0, num_tasks=10)
    helper, down, up = _pool._spawn(task.job)
    os.close(up)  # as a driver's death does it
    config = pickle.dumps({"job": task.job, "num_tasks": 10, "workers": 1, "path": sys.path, "argv": sys.argv})
    os.write(down, struct.pack("<Q", len(config)) + config)
    assert os.waitpid(helper, 0)[1] == 0
    os.close(down)
    assert not os.path.exists("/dev/shm/muster-%d-%s" % (os.getuid(), task.job))
    task.leave()


def test_an_error_of_the_job_ends_every_future():
    executor = muster.Executor(max_workers=1)
    futures = [executor.submit(sleep, 1000) for _ in range(2)]
    executor._task.report_error("the driver gives up")
    for future in futures:
        assert "the driver gives up" in str(raises(muster.Error, future.result, PATIENCE))
    executor.shutdown()


def test_it_is_an_executor():
    with muster.Executor(max_workers=2) as executor:
        assert isinstance(executor, concurrent.futures.Executor) and executor._max_workers == 2
        future = executor.submit(square, 7)
        assert isinstance(future, concurrent.futures.Future) and future.result(PATIENCE) == 49 and future.exception() is None
        assert executor.submit(lambda x, y=1: x + y, 1, y=5).result(PATIENCE) == 6
        assert executor.submit(operator.mul, 6, 7).result(PATIENCE) == 42
        assert list(executor.map(pow, range(10), range(10))) == [i ** i for i in range(10)]
        assert list(executor.map(square, range(100), chunksize=7)) == [i * i for i in range(100)]
        assert list(executor.map(square, [], chunksize=7)) == []
        futures = [executor.submit(square, i) for i in range(200)]
        assert sum(f.result(PATIENCE) for f in concurrent.futures.as_completed(futures, PATIENCE)) == sum(i * i for i in range(200))
        called = threading.Event()
        executor.submit(square, 1).add_done_callback(lambda f: called.set())
        assert called.wait(PATIENCE)
        error = raises(ZeroDivisionError, executor.submit(operator.truediv, 1, 0).result, PATIENCE)
        assert isinstance(error, muster.TaskError)
        raises(TypeError, executor.submit, square, threading.Lock())
        path = os.path.join(os.environ["TMPDIR"], "slow")
        raises(concurrent.futures.TimeoutError, held(executor, path).result, 0.01)
        released(path)
        raises(ValueError, executor.map, square, [1], chunksize=0)
        last = executor.submit(square, 9)
        executor.shutdown(wait=False)
        raises(RuntimeError, executor.submit, square, 1)
        assert last.result(PATIENCE) == 81
        executor.shutdown()


def test_a_dead_worker_fails_its_own_future():
    with muster.Executor(2) as executor:
        before = [executor.submit(square, i) for i in range(50)]
        dead = [executor.submit(die) for _ in range(3)]
        after = [executor.submit(square, i) for i in range(50)]
        for future in dead:
            assert raises(muster.WorkerDied, future.result, PATIENCE).signal == signal.SIGKILL
        assert [f.result(PATIENCE) for f in before + after] == [i * i for i in range(50)] * 2


def test_cancelling():
    path = os.path.join(os.environ["TMPDIR"], "begun")
    with muster.Executor(1) as executor:
        runs, waits = held(executor, path), executor.submit(square, 2)
        assert waits.cancel() and waits.cancelled() and not runs.cancel()
        raises(concurrent.futures.CancelledError, waits.result, PATIENCE)
        released(path)
        assert runs.result(PATIENCE) is None and executor.submit(square, 3).result(PATIENCE) == 9
    executor, path = muster.Executor(1), path + " again"
    runs, waits = held(executor, path), [executor.submit(square, i) for i in range(20)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert not runs.done()
    released(path)
    executor.shutdown()
    assert all(f.cancelled() for f in waits) and runs.result(PATIENCE) is None


def test_it_uses_the_workers_that_are_there():
    muster.init(workers=1)
    with muster.Executor() as executor:
        assert executor._max_workers == 1 and executor.submit(square, 2).result(PATIENCE) == 4
    assert muster.get(muster.remote(square).remote(3), timeout=PATIENCE) == 9
    muster.shutdown()


def test_many_threads_submit():
    with muster.Executor(2) as executor:
        sums = []

        def work(seed):
            sums.append(sum(executor.submit(square, i).result(PATIENCE) for i in range(seed, seed + 50)))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(sums) == [sum(i * i for i in range(s, s + 50)) for s in range(4)]


def test_dask():
    try:
        import dask
    except ImportError:
        print("dask is not installed: it is not tried")
        return
    with muster.Executor(2) as executor:
        total = dask.delayed(sum)([dask.delayed(square)(i) for i in range(20)])
        assert total.compute(scheduler=executor) == sum(i * i for i in range(20))


def test_joblib():
    try:
        import joblib
    except ImportError:
        print("joblib is not installed: it is not tried")
        return
    import muster.joblib  # noqa: F401
    with joblib.parallel_config("muster", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(square)(i) for i in range(300)) == [i * i for i in range(300)]
        raises(ZeroDivisionError, joblib.Parallel(), [joblib.delayed(operator.truediv)(1, 0)])
        with joblib.Parallel() as parallel:
            assert parallel(joblib.delayed(lambda x: x + 1)(i) for i in range(5)) == [1, 2, 3, 4, 5]
            assert parallel(joblib.delayed(square)(i) for i in range(5)) == [0, 1, 4, 9, 16]


if __name__ == "__main__":
    common.main(sys.modules[__name__])
