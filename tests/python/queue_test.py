#!/usr/bin/env python3
"""Queues of messages: bytes of any length, memory that lasts, slow readers and dead writers by name.
variants: release
"""
import os
import signal

import common
from common import raises

import muster

task = muster.join(common.job_name(), task=0, num_tasks=3, recoverable=True)


def sends_and_reads():
    with muster.Queue(depth=2, readers=2) as queue:
        reader = muster.QueueReader(queue.number)
        queue.wait(1, timeout=60)
        queue.write(b"")
        queue.write(bytearray(b"x" * 100000), timeout=1)
        error = raises(muster.DeadlineExceeded, queue.write, b"3", 0.01)
        assert "task 0 (pid %d" % os.getpid() in str(error) and "has read 0 of 2 messages" in str(error), error
        assert reader.read() == b""
        large = reader.read(timeout=60)
        raises(muster.DeadlineExceeded, reader.read, 0)
        assert large.readonly and large.nbytes == 100000
        raises(muster.DeadlineExceeded, queue.wait, 2, 0.01)
        queue.write(b"last")
    assert list(reader) == [b"last"]
    error = raises(EOFError, reader.read)
    reader.close()
    raises(ValueError, reader.read)
    assert bytes(large) == b"x" * 100000
    raises(muster.InvalidArgument, muster.Queue, 1 << 20)
    raises(muster.NotFound, muster.QueueReader, queue.number)
    del large
    assert task.objects.count() == 0


def names_a_dead_writer():
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with_us = muster.join(task.job, task=1, num_tasks=3, recoverable=True)
            queue = muster.Queue(task=with_us)
            os.write(theirs, b"%d" % queue.number)
            queue.wait(1, timeout=60)
            queue.write(b"before")
            signal.pause()
        finally:
            os._exit(1)
    reader = muster.QueueReader(int(os.read(ours, 32)))
    assert reader.read(timeout=60) == b"before"
    os.kill(pid, signal.SIGKILL)
    error = raises(muster.Unavailable, reader.read, 60)
    assert "task 1 (pid %d" % pid in str(error) and "1 messages were read" in str(error), error
    os.waitpid(pid, 0)
    reader.close()


sends_and_reads()
names_a_dead_writer()
task.leave()
