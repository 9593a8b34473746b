"""Two tasks, one run: what an operation of PyTorch's TCPStore costs, and the same by muster.torch, with its compiled module
and without. The server is PyTorch's own, in rank 1, whose Python sleeps meanwhile; values of 64 bytes; medians of single
calls, the contenders in turn. The wake-up is the time from a set() in one task to the return of the other's get(), half of
there and back.
"""
import datetime
import os
import statistics
import sys
import time

import torch.distributed as dist

import muster.torch

ROUNDS, CALLS, TURNS = 5, 400, 200
rank = int(os.environ["RANK"])
control = muster.torch.Store()
more = {} if dist.TCPStore.__init__.__doc__.find("use_libuv") < 0 else {"use_libuv": True}
value = b"v" * 64


def tcp():
    if rank == 1:
        server = dist.TCPStore("127.0.0.1", 0, None, True, datetime.timedelta(seconds=60), wait_for_workers=False, **more)
        control.set("port", str(server.port))
        contenders["server"] = server
    return dist.TCPStore("127.0.0.1", int(control.get("port")), None, False, datetime.timedelta(seconds=60), **more)


def of_muster(fast):
    kept, muster.torch._fast = muster.torch._fast, fast
    made = muster.torch.Store()
    muster.torch._fast = kept
    return made


contenders = {}
contenders["TCPStore"] = tcp()
contenders["muster.torch by ctypes"] = of_muster(None)
if muster.torch._fast:
    contenders["muster.torch"] = of_muster(muster.torch._fast)
contenders.pop("server", None) if rank == 0 else None


def cost(call, *arguments):
    """Of single calls; those that take less than the clock are timed by tens."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter_ns()
        for _ in range(10):
            call(*arguments)
        times.append((time.perf_counter_ns() - start) / 10)
    return statistics.median(times)


def answer(store, name, count):
    for turn in range(count):
        store.get("%s/there/%d" % (name, turn))
        store.set("%s/back/%d" % (name, turn), value)


def ask(store, name, count):
    times = []
    for turn in range(count):
        start = time.perf_counter_ns()
        store.set("%s/there/%d" % (name, turn), value)
        store.get("%s/back/%d" % (name, turn))
        times.append((time.perf_counter_ns() - start) / 2)
    return statistics.median(times)


def main():
    stores = {name: store for name, store in contenders.items() if name != "server"}
    found = {}
    if rank == 0:
        for _ in range(ROUNDS):
            for name, store in stores.items():
                store.set("speed/key", value)
                for what, call in (("get", lambda: store.get("speed/key")), ("add", lambda: store.add("speed/sum", 1)),
                                   ("compare_set", lambda: store.compare_set("speed/key", value.decode(), value.decode())),
                                   ("wait, of a key that is there", lambda: store.wait(["speed/key"])),
                                   ("set", lambda: store.set("speed/key", value))):
                    found.setdefault((what, name), []).append(cost(call))
    for round_ in range(ROUNDS):
        for name, store in stores.items():
            control.barrier_of_two("%d/%s" % (round_, name))
            if rank == 0:
                found.setdefault(("wake-up", name), []).append(ask(store, "%d/%s" % (round_, name), TURNS))
            else:
                answer(store, "%d/%s" % (round_, name), TURNS)
    control.barrier_of_two("end")
    for what in dict.fromkeys(one for one, _ in found):
        costs = {name: statistics.median(found[what, name]) for name in stores}
        told = ["%s %.2f us" % (name, ns / 1000) + ("" if name == "TCPStore" else " (%.0fx)" % (costs["TCPStore"] / ns))
                for name, ns in costs.items()]
        print("process 0 of 2: %s: %s" % (what, ", ".join(told)))


def barrier_of_two(name):
    control.set("%s/%d" % (name, rank), "")
    control.wait(["%s/%d" % (name, 1 - rank)])


control.barrier_of_two = barrier_of_two
main()
sys.stdout.flush()
