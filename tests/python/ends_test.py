#!/usr/bin/env python3
"""Actors that are killed before they have begun, and jobs whose helper dies: what waits ends, and nothing is left.
variants: release
timeout: 200
"""
import glob
import os
import signal
import sys
import time

import common
from common import raises

import muster

PATIENCE = common.PATIENCE


@muster.remote
class Slow:
    def __init__(self, path):
        with open(path, "a") as f:
            f.write("%d\n" % os.getpid())
        time.sleep(600)

    def one(self):
        return 1


@muster.remote
class Quick:
    def one(self):
        return 1, os.getpid()


@muster.remote
def sleep(path):
    open(path, "w").close()
    time.sleep(600)


task = muster.init(workers=2, store=64 << 20)


def path_of(name):
    return os.path.join(os.environ["TMPDIR"], name)


def until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def lines(path):
    return open(path).read().splitlines() if os.path.exists(path) else []


def get(refs):
    return muster.get(refs, timeout=PATIENCE)


def test_an_actor_is_killed_in_its_constructor():
    for restarts in (0, 2):
        path = path_of("slow%d" % restarts)
        slow = Slow.options(max_restarts=restarts).remote(path)
        until(lambda: lines(path))
        muster.kill(slow)
        pid, = lines(path)
        until(lambda: not os.path.exists("/proc/" + pid))
        assert isinstance(raises(muster.ActorDied, get, slow.one.remote()), muster.Unavailable)
        muster.kill(slow)
        assert lines(path) == [pid]  # it was not made anew
    assert get(Quick.remote().one.remote())[0] == 1


def test_an_actor_is_killed_that_no_worker_has_begun():
    busy = [sleep.remote(path_of("busy%d" % i)) for i in range(2)]
    until(lambda: all(os.path.exists(path_of("busy%d" % i)) for i in range(2)))
    path = path_of("never")
    slow = Slow.options(max_restarts=1).remote(path)
    muster.kill(slow)
    raises(muster.ActorDied, get, slow.one.remote())
    assert not lines(path) and len(busy) == 2


def test_an_actor_that_may_be_restarted_is_killed_for_good():
    actor = Quick.options(max_restarts=3).remote()
    _, pid = get(actor.one.remote())
    muster.kill(actor)
    raises(muster.ActorDied, get, actor.one.remote())
    until(lambda: not os.path.exists("/proc/%d" % pid))
    raises(muster.ActorDied, get, actor.one.remote())


def test_an_actor_in_a_worker_of_a_launcher_is_killed():
    said = common.run(1, """
        import os, muster
        @muster.remote
        class Actor:
            def one(self): return os.getpid()
        with muster.join() as task:
            actor = Actor.remote()
            pid = muster.get(actor.one.remote())
            muster.kill(actor)
            try: muster.get(actor.one.remote())
            except muster.ActorDied: print("died", os.path.exists("/proc/%d" % pid))
        """, options=("--workers", "1", "--worker-command", sys.executable + " -m muster.worker"))
    assert "died" in said, said


def test_nothing_is_left_when_the_helper_dies_before_its_workers():
    """The worker asks not to die with the helper, so that it is alive for certain when the driver leaves."""
    for end in ("muster.shutdown()", "import sys; sys.exit(0)"):
        out = common.python("""
            import ctypes, os, signal, muster
            @muster.remote
            def parent():
                ctypes.CDLL(None).prctl(1, 0)
                return os.getppid(), os.getpid()
            task = muster.init(workers=1)
            helper, worker = muster.get(parent.remote())
            os.kill(helper, signal.SIGKILL)
            print("job", task.job, worker, flush=True)
            """ + end + "\n")
        job, worker = [line for line in out.splitlines() if line.startswith("job ")][0].split()[1:]
        assert not glob.glob("/dev/shm/*%s*" % job), out
        until(lambda: not os.path.exists("/proc/" + worker))  # it finds its job removed


if __name__ == "__main__":
    common.main(sys.modules[__name__])
    muster.shutdown()
