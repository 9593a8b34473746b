#!/usr/bin/env python3
"""Bytes in shared memory by multiprocessing.SharedMemory: the rows of bench/object.c that it has.

    sharedmemory.py SECONDS      (for each row; prints the lines of bench/measure.h)

put: a block is made, filled from bytes, closed and unlinked; its pages are new ones each time. get: another object of Python's is
attached to a block that is there, and closed.
"""
import os
import sys
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tcpstore import emit  # noqa: E402

SIZES = 20, 70000, 1 << 20, 64 << 20


def timed(metric, call, seconds):
    samples, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or not samples:
        start = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - start)
    emit(metric, samples, "SharedMemory")


def put(data):
    block = SharedMemory(create=True, size=len(data))
    block.buf[:len(data)] = data
    block.close()
    block.unlink()


def get(name):
    SharedMemory(name).close()


def main():
    seconds = float(sys.argv[1])
    resource_tracker.register = resource_tracker.unregister = lambda *_: None  # its process is no part of what is measured
    for size in SIZES:
        data = bytes(size)
        timed("object.put.%d" % size, lambda: put(data), seconds)
        block = SharedMemory(create=True, size=size)
        timed("object.get.%d" % size, lambda: get(block.name), seconds)
        block.close()
        block.unlink()


if __name__ == "__main__":
    main()
