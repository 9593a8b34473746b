#!/usr/bin/env python3
"""PyTorch's store as PyTorch's users call it, from Python: its own client with a server of libuv's, or muster.torch.

    muster run -n 2 -- store_torch.py WHO SECONDS       (seconds for each row; prints the lines of bench/measure.h)

WHO is "torch-libuv", "muster" (with muster._fast) or "muster-ctypes" (without). The loop is the same for all: values of
64 bytes, 16 calls a sample. Rank 0 calls, rank 1 answers and is on the second processor, where PyTorch's server is too, in
a process of its own. So is rank 0 while it alone calls: between processors each call of TCPStore's would be two wake-ups
more. For the wake-ups it goes to the first. After each sample of set(), which waits for no answer of a server, an add()
that is not timed lets the server come after; set.stream: without that. wake: half of there and back, set() in one and
get() in the other; wake.asleep: from before a set() to the return of a get() that has been asleep.
"""
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from itertools import repeat

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store_server import start  # noqa: E402
from tcpstore import emit, pin  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import muster.torch  # noqa: E402

BATCH, KEYS = 16, 16
VALUE = b"v" * 64
rank, who, seconds = int(os.environ["RANK"]), sys.argv[1], float(sys.argv[2])
control = muster.torch.Store()


def store_of_torch():
    """PyTorch's client; the server's process, of rank 1, ends with it."""
    if rank == 1:
        server, _, port = start(who, sys.executable)
        control.set("port", port)
        store_of_torch.server = server
    port = int(control.get("port"))
    return dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60), use_libuv=True)


def store():
    if who == "torch-libuv":
        return store_of_torch()
    if who == "muster-ctypes":
        muster.torch._fast = None
    elif muster.torch._fast is None:
        raise SystemExit("store_torch: muster._fast is not there")
    return muster.torch.Store()


def timed(metric, call, *arguments, after=None):
    samples, clock, end = [], time.perf_counter_ns, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        for _ in repeat(None, BATCH):
            call(*arguments)
        samples.append((clock() - start) / BATCH)
        if after:
            after("sum", 1)
    emit(metric, samples, who, BATCH)


def calls(one):
    text, names = VALUE.decode(), ["key/%d" % i for i in range(KEYS)]
    for name in names:
        one.set(name, VALUE)
    timed("torch.set", one.set, names[0], VALUE, after=one.add)
    timed("torch.set.stream", one.set, names[0], VALUE)
    one.add("sum", 1)
    timed("torch.get", one.get, names[0])
    timed("torch.add", one.add, "sum", 1)
    timed("torch.compare_set", one.compare_set, names[0], text, text)
    timed("torch.wait", one.wait, names[:1])
    timed("torch.check", one.check, names[:1])
    timed("torch.multi_get", one.multi_get, names)


def meet(name):
    control.set("%s/%d" % (name, rank), b"")
    control.wait(["%s/%d" % (name, 1 - rank)])


def there_and_back(one, turns):
    samples = []
    for i in range(turns):
        there, back = "there/%d" % i, "back/%d" % i
        if rank == 1:
            one.get(there)
            one.set(back, VALUE)
            continue
        start = time.perf_counter_ns()
        one.set(there, VALUE)
        one.get(back)
        samples.append((time.perf_counter_ns() - start) / 2)
    if rank == 0:
        emit("torch.wake", samples, who)


def asleep(one, turns):
    """Both read CLOCK_MONOTONIC; the sleeper's times come by the other store."""
    samples = []
    for i in range(turns):
        meet("turn/%d" % i)
        if rank == 1:
            one.get("asleep/%d" % i)
            control.set("at/%d" % i, str(time.monotonic_ns()))
            continue
        time.sleep(0.002)  # sleep: for the other to be asleep, which is what is measured
        start = time.monotonic_ns()
        one.set("asleep/%d" % i, VALUE)
        samples.append(int(control.get("at/%d" % i)) - start)
    if rank == 0:
        emit("torch.wake.asleep", samples, who)


def main():
    one = store()
    pin(1)
    meet("begin")
    if rank == 0:
        print(json.dumps({"fact": who, "text": "PyTorch " + torch.__version__}), flush=True)
        calls(one)
    pin(rank)
    meet("calls")
    turns = max(100, int(seconds * 1000))
    there_and_back(one, turns)
    asleep(one, turns // 4)
    meet("end")
    server = getattr(store_of_torch, "server", None)
    if server:
        server.stdin.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


main()
