#!/usr/bin/env python3
"""asyncio: waits that are awaited, many at once on few threads, cancelled, and failed by a peer's death.
variants: release
timeout: 300
"""
import asyncio
import os
import signal
import sys
import threading

import common
from common import raises

import muster
from muster import _wait

task = muster.join(common.job_name(), task=0, num_tasks=2)


def test_a_key_that_comes_and_one_that_does_not():
    async def main():
        wait = asyncio.ensure_future(task.kv.wait("k"))
        await asyncio.sleep(0)
        task.kv["k"] = b"v" * 9000
        assert await wait == b"v" * 9000 and await task.kv.wait("k", timeout=0) == b"v" * 9000
        try:
            await task.kv.wait("never", timeout=0.02)
        except TimeoutError as e:
            assert "key never" in str(e), e
        else:
            raise AssertionError("it came")
        entry = await task.kv.wait_change("k")
        change = asyncio.ensure_future(task.kv.wait_change("k", entry.version, timeout=common.PATIENCE))
        await asyncio.sleep(0.01)  # sleep: so that it mostly waits already; it holds either way
        version = task.kv.set("k", "new")
        assert await change == ("k", b"new", version)
        task.kv.delete("k")
        try:
            await task.kv.wait_change("k", version)
        except muster.NotFound:
            return
        raise AssertionError("it was not deleted")

    asyncio.run(main())


def test_more_waits_than_threads_all_come_through():
    async def main():
        waits = [asyncio.ensure_future(task.kv.wait("many/%d" % i)) for i in range(60)]
        await asyncio.sleep(0.01)  # sleep: as above
        assert not any(w.done() for w in waits)
        for i in range(60):
            task.kv["many/%d" % (59 - i)] = str(i)
        assert await asyncio.wait_for(asyncio.gather(*waits), common.PATIENCE) == [b"%d" % (59 - i) for i in range(60)]
        assert len([t for t in threading.enumerate() if t.name.startswith("muster-wait")]) <= _wait.THREADS

    asyncio.run(main())


def test_cancelling():
    async def main():
        waits = [asyncio.ensure_future(c) for c in (task.kv.wait("never"), task.barrier.wait_async("never"),
                                                    task.wait_error_async())]
        await asyncio.sleep(0.01)  # sleep: as above
        for wait in waits:
            wait.cancel()
        done = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(e, asyncio.CancelledError) for e in done), done
        try:
            await asyncio.wait_for(task.kv.wait("never"), 0.01)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError("it came")
        assert _wait._waiting == 0
        task.kv["sound"] = "yes"

    asyncio.run(main())


def test_barriers():
    async def main():
        with_one = [task.barrier.wait_async("b%d" % i, tasks=[0]) for i in range(8)]
        await asyncio.wait_for(asyncio.gather(*with_one), common.PATIENCE)
        for kwargs in ({"timeout": 0.01}, {"patience": 0.01}):
            try:
                await task.barrier.wait_async("late" + str(sorted(kwargs)), **kwargs)
            except muster.DeadlineExceeded as e:
                assert ("Barrier timed out" in e.message) == ("timeout" in kwargs), e
            else:
                raise AssertionError("task 1 was not there")

    asyncio.run(main())


def test_interrupt():
    async def main():
        wait = asyncio.ensure_future(task.kv.wait("never"))
        await asyncio.sleep(0.01)  # sleep: as above
        task.interrupt()
        try:
            await asyncio.wait_for(wait, common.PATIENCE)
        except muster.Cancelled:
            pass
        else:
            raise AssertionError("it came")
        finally:
            task.resume()

    asyncio.run(main())


def test_a_loop_with_signal_handlers_of_its_own():
    async def main():
        heard = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
        raises(muster.DeadlineExceeded, task.kv.get, "never", wait=0.01)  # blocks the loop, and borrows its signals
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(heard.wait(), common.PATIENCE)

    asyncio.run(main())


def test_leaving_while_threads_wait():
    for _ in range(20):
        mine = muster.join(common.job_name(), task=0, num_tasks=2)
        ends = []

        def wait(call):
            ends.append(raises(muster.Error, call).code)

        threads = [threading.Thread(target=wait, args=(c,)) for c in (
            lambda: mine.kv.get("never", wait=True), lambda: mine.barrier("never"), mine.wait_error)]
        for thread in threads:
            thread.start()

        async def main():
            wait = asyncio.ensure_future(mine.wait_error_async())
            await asyncio.sleep(0.002)  # sleep: so that the waits are somewhere in their beginning
            wait.cancel()

        asyncio.run(main())
        mine.leave()
        for thread in threads:
            thread.join(common.PATIENCE)
        assert len(ends) == 3 and set(ends) <= {"CANCELLED", "INVALID_ARGUMENT"}, ends


def test_a_job_of_two():
    out = common.run(2, """
        import asyncio, os, signal, muster
        async def main(task):
            await asyncio.gather(task.barrier.wait_async("a"), task.barrier.wait_async("b"))
            await task.kv.wait("never") if task.id == 0 else os.kill(os.getpid(), signal.SIGKILL)
        task = muster.join()
        try:
            asyncio.run(main(task))
        except muster.Unavailable as e:
            assert e.culprit.task == 1, e
            print("told", flush=True)
        error = asyncio.run(task.wait_error_async())
        assert (error.task, error.cause) == (1, "DIED"), error
    """, status=None, options=("--kill-on-fail=no",))
    assert "told\n" in out, out


common.main(sys.modules[__name__])
