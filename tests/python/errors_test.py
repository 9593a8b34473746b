#!/usr/bin/env python3
"""Failures, in jobs of real processes: who is to blame is in the exception, wherever one waits.
variants: release
timeout: 300
"""
import sys

import common

KILLED = """
    import os, signal, time, muster
    task = muster.join()
    group = task.group("g")
    task.barrier("ready")
    if task.id == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    waits = [lambda: group.barrier(), lambda: task.kv.get("never", wait=True), lambda: task.barrier("never")]
    try:
        waits[{0}]()
    except muster.{1} as e:
        assert e.culprit.task == 2 and e.culprit.pid == task.state(2).pid, e.culprits
        assert e.culprit.name in str(e) and e.culprit.host and e.code == "{2}", str(e)
        first = task.wait_error(30)
        assert (first.task, first.cause, first.pid) == (2, "DIED", e.culprit.pid)
        assert task.error()[:5] == first[:5]  # the launcher adds the signal to the message when it knows it
        assert task.state(2).state == "ERROR"
        while task.state(2).alive:
            time.sleep(0.002)  # sleep: between two looks: a process's threads do not die at one instant
        print("task", task.id, "blames", e.culprit.task, flush=True)
"""
# The launcher would end the others as soon as it sees the death: here they end by themselves.
STAY = ("--kill-on-fail=no",)


def killed(which, error, code):
    out = common.run(4, KILLED.format(which, error, code), status=None, options=STAY)
    for i in (0, 1, 3):
        assert "task %d blames 2" % i in out, out


def test_a_killed_task_ends_a_group_barrier():
    killed(0, "Unavailable", "UNAVAILABLE")


def test_a_killed_task_ends_a_wait_for_a_key():
    killed(1, "Unavailable", "UNAVAILABLE")


def test_a_killed_task_ends_a_barrier():
    killed(2, "Internal", "INTERNAL")


def test_a_timeout_names_the_missing():
    out = common.run(3, """
        import muster
        with muster.join() as task:
            task.barrier("begin")
            if task.id == 1:
                task.kv.get("over", wait=True)
                raise SystemExit
            try:
                task.barrier("b", timeout=0.3)
            except TimeoutError as e:
                # Where the machine is slow one of us two has come too late as well.
                assert isinstance(e, muster.DeadlineExceeded) and 1 in [c.task for c in e.culprits], e
                print("task", task.id, "misses 1", flush=True)
            try:
                task.barrier("own; not there: task 7 (pid 7 on host h)", timeout=50, patience=0.05)
            except muster.DeadlineExceeded as e:
                assert 1 in [c.task for c in e.culprits] and 7 not in [c.task for c in e.culprits], e
                one = [c for c in e.culprits if c.task == 1][0]
                assert one.pid and one.host and "running" in str(e), e
                print("task", task.id, "gave up", flush=True)
            task.barrier("both", tasks=[0, 2])
            task.kv["over"] = ""
    """)
    for line in ("task 0 misses 1", "task 2 misses 1", "task 0 gave up", "task 2 gave up"):
        assert line in out, out


def test_an_exception_is_told_to_the_others():
    out = common.run(2, """
        import muster
        with muster.join() as task:
            task.barrier("begin")
            if task.id == 0:
                raise ValueError("the loss is nan")
            try:
                task.kv.get("never", wait=True)
            except muster.Unavailable as e:
                assert e.culprit.task == 0 and "ValueError: the loss is nan" in e.message, e
                print("told:", e)
    """, status=1, options=STAY)
    assert "told: " in out and "ValueError: the loss is nan" in out, out


def test_an_end_without_leaving_is_told_too():
    out = common.run(2, """
        import muster
        task = muster.join()
        task.barrier("begin")
        if task.id == 0:
            raise ValueError("it was not caught")
        try:
            task.barrier("never")
        except muster.Internal as e:
            assert e.culprit.task == 0 and "ValueError: it was not caught" in e.message, e
            print("told:", e)
    """, status=1, options=STAY)
    assert "told: " in out, out


def test_a_section_that_fails_ends_the_others_wait_at_its_end():
    out = common.run(3, """
        import time, muster
        with muster.join() as task:
            def there(barrier):
                return [b.arrived for b in task.barrier.list() if b.id == barrier + "/end" and not b.passed] == [2]
            for name, late in (("early", 0), ("late", 1)):
                try:
                    with task.barrier(name):
                        if task.id == 1:
                            while late and not there(name):
                                time.sleep(0.005)  # sleep: between two looks
                            raise KeyError("weights")
                        if not late:
                            task.kv.get("failed", wait=True)
                except KeyError:
                    task.kv["failed"] = name
                except muster.Cancelled:
                    print("task", task.id, name, "cancelled", flush=True)
                task.barrier(name)  # as good as new
    """)
    assert sorted(out.split("\n")[:-1]) == ["task %d %s cancelled" % (i, n) for i in (0, 2) for n in ("early", "late")], out


def test_reported_errors():
    out = common.run(2, """
        import muster
        with muster.join() as task:
            assert task.error() is None
            task.barrier("begin")
            if task.id == 0:
                task.report_error("GPU 3 has fallen off the bus", code=14)
            first = task.wait_error(30)
            assert (first.task, first.code, first.cause, first.message) == (
                0, 14, "REPORTED", "GPU 3 has fallen off the bus"), first
            assert task.state(0).state == "ERROR" and task.state(0).message == first.message
            print("task %d knows" % task.id, flush=True)
    """)
    assert "task 0 knows" in out and "task 1 knows" in out, out


def test_states_and_who_is_alive():
    out = common.run(3, """
        import muster
        with muster.join() as task:
            task.barrier("begin")
            assert [(s.task, s.state, s.alive) for s in task.states()] == [(i, "CONNECTED", True) for i in range(3)]
            assert task.state().pid == __import__("os").getpid() and task.state(1).task == 1
            assert task.alive(timeout=30) == [0, 1, 2]
            version, states = task.watch_states(0)
            task.barrier("seen")
            if task.id == 2:
                task.leave()
                raise SystemExit
            while task.state(2).state != "DISCONNECTED":
                version, states = task.watch_states(version, timeout=30)
            assert task.alive([0, 1], timeout=30) == [0, 1]
    """)
    assert out == "", out


THREADS = """
    import muster, threading
    task = muster.join()
    task.barrier("the first thread of each has its slot")
    tried, may_end = (threading.Barrier(16) for _ in range(2))
    refused = []
    def writes(i):
        try:
            task.kv.set("k/%d/%d" % (task.id, i), "x")
        except muster.ResourceExhausted as e:
            refused.append(str(e))
        tried.wait()  # its slot is held until its thread ends
        may_end.wait()
    threads = [threading.Thread(target=writes, args=(i,)) for i in range(15)]
    for thread in threads:
        thread.start()
    tried.wait()
    task.barrier("all threads of all tasks have tried")
    may_end.wait()
    print(*set(refused), flush=True)
"""


def test_16_threads_of_each_task_write_at_once():
    assert not common.run(8, THREADS).strip()


def test_threads_is_how_to_have_more():
    assert "(start the job with 'muster run --threads N'" in common.run(8, THREADS, options=("--threads", "1"))
    assert not common.run(8, THREADS, options=("--threads=16",)).strip()


common.main(sys.modules[__name__])
