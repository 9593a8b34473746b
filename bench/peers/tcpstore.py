#!/usr/bin/env python3
"""PyTorch's TCPStore on loopback, or between two hosts: the same keys, values and rows as muster's.

One process hosts the store, pinned to the second processor; this one is the client, pinned to the first, and times
each call from Python (the interpreter's share is some 0.2 us of the tens measured). set() only sends: it does not
wait for the store, so its rows say "tcpstore-send", and the writes that are acknowledged, as those of the others are,
go by compare_set(). "wait.parked" is a get() of an absent key in another process, from just before the set() to the
get()'s return.

Usage: tcpstore.py SECONDS KEYS [NET ADDRESS NET ADDRESS]
                                    (seconds for each row; prints the lines of bench/measure.h; with hosts, as in
                                    bench/net.h, the store is on the first, and the rows are those across hosts)
       tcpstore.py --version        exits 1 when there is no torch.distributed
"""
import ctypes
import json
import os
import random
import signal
import sys
import time
from datetime import timedelta

WHO = "tcpstore"
VALUE = b"".join(bytes([48 + (i * 37 + 11) % 64]) for i in range(64))
CPUS = sorted(os.sched_getaffinity(0))
PR_SET_PDEATHSIG = 1
CLONE_NEWNET = 0x40000000


def step(nanoseconds):
    """The histogram's step, as bench_step() in measure.h: 10 significant bits of picoseconds."""
    picoseconds = int(nanoseconds * 1000)
    shift = max(0, picoseconds.bit_length() - 10)
    return (picoseconds >> shift << shift) / 1000


def emit(metric, samples, who=WHO, batch=1):
    steps = {}
    for sample in samples:
        steps[step(sample)] = steps.get(step(sample), 0) + 1
    print(json.dumps({"metric": metric, "who": who, "batch": batch, "n": len(samples), "mean": sum(samples) / len(samples),
                      "min": min(samples), "max": max(samples), "hist": sorted(steps.items())}), flush=True)


def key(number):
    return "bench/" + "".join(chr(48 + (number >> shift & 63)) for shift in (0, 6, 12, 18))


def pin(rank):
    os.sched_setaffinity(0, {CPUS[rank % len(CPUS)]})


def child(rank, work):
    """Run work() in a pinned child that dies with us."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        pin(rank)
        work()
        status = 0
    finally:
        os._exit(status)


def enter(net):
    """This process goes to the network namespace of this file; "-": it stays."""
    if net != "-":
        with open(net) as file:
            if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET):
                raise SystemExit("tcpstore: %s cannot be entered" % net)


def connect(dist, port, address="127.0.0.1"):
    return dist.TCPStore(address, port, None, False, timedelta(seconds=30))


def timed(metric, seconds, operation, who=WHO):
    samples, clock = [], time.perf_counter_ns
    end = clock() + int(seconds * 1e9)
    while clock() < end:
        start = clock()
        operation()
        samples.append(clock() - start)
    emit(metric, samples, who)


def rows(store, seconds, keys):
    hot, fresh = key(0), [1 << 20]
    text = VALUE.decode()
    names = [key(number) for number in range(keys)]
    for name in names:
        store.set(name, VALUE)

    def insert():
        fresh[0] += 1
        store.compare_set("fresh/%d" % fresh[0], "", text)

    def overwrite(name):
        store.compare_set(name, text, text)

    pick = random.Random(1).choice
    timed("kv.get.hot", seconds, lambda: store.get(hot))
    timed("kv.get.uniform", seconds, lambda: store.get(pick(names)))
    timed("kv.set.hot", seconds, lambda: overwrite(hot))
    timed("kv.set.uniform", seconds, lambda: overwrite(pick(names)))
    timed("kv.increment", seconds, lambda: store.add("counter", 1))
    timed("kv.insert", seconds, insert)
    timed("kv.set.hot", seconds, lambda: store.set(hot, VALUE), "tcpstore-send")
    store.get(hot)  # the store has now worked off what set() left in its queue


def row_wait(dist, port, store, rounds):
    """Reader and setter share CLOCK_MONOTONIC; the reader's return times come back through a pipe."""
    out, into = os.pipe()

    def reader():
        mine = connect(dist, port)
        for i in range(rounds):
            os.write(into, b"r")
            mine.get("wait/%d" % i)
            os.write(into, time.clock_gettime_ns(time.CLOCK_MONOTONIC).to_bytes(8, "little"))

    pid = child(1, reader)
    os.close(into)
    samples = []
    for i in range(rounds):
        if os.read(out, 1) != b"r":
            raise SystemExit("tcpstore: the reader has gone")
        time.sleep(0.0005)  # for the reader to be asleep in get(): what is measured is its waking
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        store.set("wait/%d" % i, b"x")
        samples.append(int.from_bytes(os.read(out, 8), "little") - start)
    os.waitpid(pid, 0)
    emit("wait.parked", samples)


def rows_across(store, seconds):
    text = VALUE.decode()
    store.set(key(0), VALUE)
    timed("cross.kv.get", seconds, lambda: store.get(key(0)))
    timed("cross.kv.set", seconds, lambda: store.compare_set(key(0), text, text))


def serve(dist, ready, done, address="127.0.0.1"):
    store = dist.TCPStore(address, 0, None, True, timedelta(seconds=30), False)
    os.write(ready, str(store.port).encode())
    os.read(done, 1)  # until the client closes its end


def main():
    try:
        import torch
        import torch.distributed as dist
        dist.TCPStore
    except (ImportError, AttributeError):
        print("tcpstore: no torch.distributed for %s" % sys.executable, file=sys.stderr)
        raise SystemExit(1)
    if sys.argv[1:] == ["--version"]:
        print("PyTorch %s" % torch.__version__)
        return
    if len(sys.argv) not in (3, 7):
        raise SystemExit("usage: tcpstore.py SECONDS KEYS [NET ADDRESS NET ADDRESS]")
    seconds, keys = float(sys.argv[1]), int(sys.argv[2])
    nets, address = sys.argv[3::2] or ["-", "-"], sys.argv[4] if len(sys.argv) > 3 else "127.0.0.1"
    signal.alarm(int(seconds * 10) + 90)
    ready_out, ready_in = os.pipe()
    done_out, done_in = os.pipe()

    def host():
        os.close(done_in)
        enter(nets[0])
        serve(dist, ready_in, done_out, address)

    server = child(1, host)
    os.close(ready_in)
    pin(0)
    enter(nets[1])
    port = os.read(ready_out, 16)
    if not port:
        raise SystemExit("tcpstore: the store could not be hosted")
    store = connect(dist, int(port), address)
    if len(sys.argv) > 3:
        rows_across(store, seconds)
    else:
        rows(store, seconds, keys)
        row_wait(dist, int(port), store, 100 if seconds < 0.2 else 500)
    os.close(done_in)
    os.waitpid(server, 0)


if __name__ == "__main__":
    main()
