#!/usr/bin/env python3
"""Calls of Python functions in two worker processes: muster.remote, multiprocessing.Pool, ProcessPoolExecutor, loky.

    calls.py WHO SECONDS STARTS       (seconds for each row, starts of the pool; prints the lines of bench/measure.h)

The function gives back its number. call: submit one and get its result, over and over. calls: 2,000 submitted at once and all
got, a sample is their mean. start: from before the pool is made to the first result, in an interpreter that has imported it;
start.beyond: less what `python -S -c pass` took, from its start to its end, just before.
death: from before a worker kills itself by SIGKILL to its caller's exception; of Pool there is none, which waits for ever.
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tcpstore import emit  # noqa: E402

WORKERS, MANY = 2, 2000
who, seconds, starts = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])


def same(x):
    return x


def die():
    now = time.monotonic_ns()
    with open(os.environ["CALLS_DEATH"], "w") as f:
        f.write(str(now))
    os.kill(os.getpid(), signal.SIGKILL)


class Muster:
    def __init__(self):
        import muster
        self.muster = muster
        muster.init(workers=WORKERS)
        self.same, self.die = muster.remote(same), muster.remote(die)

    def call(self, x):
        return self.muster.get(self.same.remote(x))

    def calls(self, xs):
        return self.muster.get([self.same.remote(x) for x in xs])

    def death(self):
        self.muster.get(self.die.remote())

    def end(self):
        self.muster.shutdown()


class Pool:
    death = None

    def __init__(self):
        import multiprocessing
        self.pool = multiprocessing.Pool(WORKERS)

    def call(self, x):
        return self.pool.apply(same, (x,))

    def calls(self, xs):
        return [r.get() for r in [self.pool.apply_async(same, (x,)) for x in xs]]

    def end(self):
        self.pool.terminate()
        self.pool.join()


class Executor:
    def __init__(self):
        import concurrent.futures
        self.pool = concurrent.futures.ProcessPoolExecutor(WORKERS)

    def call(self, x):
        return self.pool.submit(same, x).result()

    def calls(self, xs):
        return [f.result() for f in [self.pool.submit(same, x) for x in xs]]

    def death(self):
        self.pool.submit(die).result()

    def end(self):
        self.pool.shutdown()


class Loky(Executor):
    def __init__(self):
        import loky
        self.pool = loky.ProcessPoolExecutor(WORKERS)


def timed(metric, call, each):
    samples, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or not samples:
        start = time.perf_counter_ns()
        call()
        samples.append((time.perf_counter_ns() - start) / each)
    emit(metric, samples, who, each)


def start_of(kind):
    begin = time.perf_counter_ns()
    pool = kind()
    assert pool.call(5) == 5
    return pool, time.perf_counter_ns() - begin


def bare_start():
    begin = time.perf_counter_ns()
    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", "pass"], os.environ), 0)
    return time.perf_counter_ns() - begin


def deaths_of(kind):
    samples, path = [], os.path.join(os.environ.get("TMPDIR", "/tmp"), "calls.%d" % os.getpid())
    os.environ["CALLS_DEATH"] = path
    for _ in range(starts):
        pool, _ = start_of(kind)
        try:
            pool.death()
        except Exception:
            now = time.monotonic_ns()
        with open(path) as f:
            samples.append(now - int(f.read()))
        pool.end()
    os.unlink(path)
    emit("calls.death", samples, who)


def main():
    kind = {"muster": Muster, "Pool": Pool, "ProcessPoolExecutor": Executor, "loky": Loky}[who]
    start_of(kind)[0].end()  # what it imports
    samples, beyond = [], []
    for _ in range(starts):
        bare = bare_start()
        pool, took = start_of(kind)
        samples.append(took)
        beyond.append(max(took - bare, 0))
        pool.end()
    emit("calls.start", samples, who)
    emit("calls.start.beyond", beyond, who)
    pool, _ = start_of(kind)
    timed("calls.one", lambda: pool.call(5), 1)
    timed("calls.many", lambda: pool.calls(range(MANY)), MANY)
    pool.end()
    if kind.death:
        deaths_of(kind)


if __name__ == "__main__":
    main()
