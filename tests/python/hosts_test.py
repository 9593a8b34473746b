#!/usr/bin/env python3
"""A job of two hosts, the second of which is this machine again: the same calls, whose answers come from the other host.
variants: release
timeout: 300
"""
import os
import sys
import tempfile

import common

FOLDER = tempfile.mkdtemp()
RSH = os.path.join(FOLDER, "rsh")
with open(RSH, "w") as f:
    f.write('#!/bin/sh\nshift\neval "$*"\n')
os.chmod(RSH, 0o755)


def run(program, status=0, options=()):
    return common.python(program, status=status, command=(
        common.MUSTER, "run", "--hosts", "localhost:1,b:2", "--rsh", RSH, "--job", common.job_name(), *options, "--"))


def test_everything_reaches_across():
    out = run("""
        import asyncio, muster
        from muster import _wait
        with muster.join() as task:
            kv = task.kv
            kv["from/%d" % task.id] = b"x" * 5000 + b"%d" % task.id
            kv.increment("n")
            kv.append("log", "a")
            task.barrier("written", timeout=100)
            assert len(kv.list("from")) == 3 and kv["n"] == b"3" and kv["log"] == b"aaa"
            won = False
            try:
                kv.compare_and_set("first", 0, "me")
                won = True
            except muster.Aborted as e:
                assert e.version > 0
            with task.group("g", data_bytes=64) as g:
                g.barrier()
                assert g.allgather(b"%d" % won).count(b"1") == 1
                assert g.allreduce(task.id) == 3
            async def waits():
                first = asyncio.ensure_future(kv.wait("later/%d" % ((task.id + 1) % 3)))
                kv["later/%d" % task.id] = "now"
                await task.barrier.wait_async("async")
                assert await first == b"now"
                if task.id == 2:
                    await asyncio.sleep(4 * _wait.SLICE)  # sleep: so that the others wait for several slices
                await task.barrier.wait_async("slices")
            asyncio.run(waits())
            if task.id == 2:
                task.events.send(1, b"event")
            assert task.events.read(0).payload == b"event"
            assert task.alive() == [0, 1, 2]
            try:
                task.barrier("never", tasks=[task.id, (task.id + 1) % 3], patience=0.05)
            except muster.Error as e:
                assert isinstance(e, (muster.DeadlineExceeded, muster.InvalidArgument)), e
            task.barrier("end")
            print("task %d is done" % task.id, flush=True)
    """)
    for i in range(3):
        assert "task %d is done\n" % i in out, out


def test_objects_cross_hosts():
    out = run("""
        import asyncio, os, signal, muster
        task = muster.join()
        kv = task.kv
        class Odd(Exception):
            pass
        def given(i, name):
            return muster.ObjectRef(int(kv.get("%s/%d" % (name, i), wait=True)))
        value = {"task": task.id, "bytes": bytes(range(256)) * 8192 * (1 + task.id)}
        mine, small = muster.put(value), muster.put("of %d" % task.id)
        kv["long/%d" % task.id], kv["small/%d" % task.id] = str(mine.number), str(small.number)
        for i in range(3):
            got = muster.get(given(i, "long"))
            assert got["task"] == i and got["bytes"] == bytes(range(256)) * 8192 * (1 + i)
            assert muster.get(given(i, "small"), timeout=100) == "of %d" % i
        async def waits():
            return await given((task.id + 1) % 3, "small")
        assert asyncio.run(waits()) == "of %d" % ((task.id + 1) % 3)
        refs = [given(i, "small") for i in range(3)]
        assert muster.wait(refs, num_returns=3)[0] == refs
        task.barrier("all")
        del mine, small, refs, got
        task.barrier("dropped")
        try:
            muster.get(muster.ObjectRef(int(kv["small/%d" % (2 - task.id if task.id != 1 else 0)])), timeout=100)
        except muster.NotFound as e:
            print("task %d: %s" % (task.id, e), flush=True)
        task.barrier("end")
    """)
    for i, host in enumerate(["b", "", "b"]):
        assert "is gone: nobody held it any more" in out, (out, host, i)


def test_a_death_is_told_across_and_ctrl_c_ends_a_wait():
    out = run("""
        import os, signal, threading, time, muster
        from muster import _wait
        task = muster.join()
        task.barrier("begin")
        def interrupt():
            while _wait._main.handle is None:
                time.sleep(0.002)  # sleep: between two looks
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            task.barrier("never") if task.id == 1 else task.kv.get("never", wait=True)
        except KeyboardInterrupt:
            print("task %d was interrupted" % task.id, flush=True)
        thread.join()
        task.kv["interrupted/%d" % task.id] = "yes"
        for i in range(3):
            task.kv.get("interrupted/%d" % i, wait=True)
        if task.id == 2:
            task.kv.get("go", wait=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            task.kv["ready/%d" % task.id] = ""
            task.kv.get("ready/%d" % (1 - task.id), wait=True)
            task.kv["go"] = ""
            task.kv.get("never", wait=True)
        except muster.Unavailable as e:
            assert e.culprit.task == 2 and e.culprit.host == "b", e.culprits
            print("task %d blames 2" % task.id, flush=True)
    """, status=None, options=("--kill-on-fail=no",))
    for line in ["task %d was interrupted" % i for i in range(3)] + ["task 0 blames 2", "task 1 blames 2"]:
        assert line + "\n" in out, out


try:
    common.main(sys.modules[__name__])
finally:
    os.remove(RSH)
    os.rmdir(FOLDER)
