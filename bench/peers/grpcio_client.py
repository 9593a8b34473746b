#!/usr/bin/env python3
"""Measures a service as programs in Python see it: Debian's grpcio, messages written by hand, the rows of bench/grpc.c.

    grpcio_client.py WHO HOST PORT SECONDS PID      keys; of who is not etcd, barriers of 2 and 8 tasks too
    grpcio_client.py --version                      whether this Python has grpcio

Each task has a channel of its own. What is measured is mostly grpcio: the same for every service.
"""
import json
import os
import sys
import threading
import time

try:
    import grpc
except ImportError:
    sys.exit("there is no grpcio in this Python")

TASKS, ON_THE_WAY, PATIENCE = 256, 32, 60
XLA, ETCD = "/xla.coordination.CoordinationService/", "/etcdserverpb."


# ---- protocol buffers ----

def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def fixed(field, value):
    return varint(field << 3 | 1) + value.to_bytes(8, "little")


def data(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


# ---- what is printed: the lines of bench/measure.h ----

def emit(metric, who, samples):
    samples.sort()
    steps = []
    for sample in samples:
        step = sample >> max(sample.bit_length() - 11, 0) << max(sample.bit_length() - 11, 0)
        if steps and steps[-1][0] == step:
            steps[-1][1] += 1
        else:
            steps.append([step, 1])
    print(json.dumps({"metric": metric, "who": who, "batch": 1, "n": len(samples), "mean": sum(samples) / len(samples),
                      "min": samples[0], "max": samples[-1], "hist": steps}), flush=True)


class Client:
    def __init__(self, who, target, seconds):
        self.who, self.target, self.seconds = who, target, seconds
        self.is_etcd = who == "etcd"
        self.channels, self.methods, self.service = {}, {}, b""

    def method(self, task, path):
        if (task, path) not in self.methods:
            if task not in self.channels: # a connection each: grpcio shares them otherwise
                self.channels[task] = grpc.insecure_channel(self.target, options=[("grpc.use_local_subchannel_pool", 1)])
            self.methods[task, path] = self.channels[task].unary_unary(path)
        return self.methods[task, path]

    def set_of(self, key):
        if self.is_etcd:
            return ETCD + "KV/Put", data(1, key) + data(2, b"v" * 64)
        return XLA + "InsertKeyValue", self.service + data(2, data(1, key) + data(2, b"v" * 64)) + number(3, 1)

    def get_of(self, key):
        if self.is_etcd:
            return ETCD + "KV/Range", data(1, key)
        return XLA + "GetKeyValue", self.service + data(2, key)

    def barrier_of(self, name, count, task, counter):
        members = b"".join(varint(i) for i in range(count))
        return XLA + "Barrier", (self.service + data(2, name) + number(3, 60000) + data(4, members) + number(5, task) +
                                 number(6, counter))

    def register(self):
        """All tasks: the service's barrier wants them. The first eight are ours, the others' channel is one."""
        calls = [self.method(min(task, 8), XLA + "RegisterTask").future(fixed(3, task + 1) + number(5, task), timeout=PATIENCE)
                 for task in range(TASKS)]
        answers = [call.result() for call in calls]
        self.service = data(1, fixed(3, int.from_bytes(answers[0][1:9], "little")))

    def beat(self):
        calls = [self.method(8, XLA + "Heartbeat").future(self.service + fixed(2, task + 1) + number(3, task), timeout=PATIENCE)
                 for task in range(0 if self.is_etcd else TASKS)]
        for call in calls:
            call.result()

    # ---- rows ----

    def measure_call(self, metric, path, request):
        call, samples = self.method(0, path), []
        for _ in range(20):
            call(request, timeout=PATIENCE)
        end = time.monotonic() + self.seconds
        while not samples or time.monotonic() < end:
            start = time.monotonic_ns()
            call(request, timeout=PATIENCE)
            samples.append(time.monotonic_ns() - start)
        emit(metric, self.who, samples)

    def measure_load(self, metric, path, request):
        """Calls a second, so many on the way."""
        call, count, began = self.method(0, path), 0, time.monotonic()
        room, failed = threading.Semaphore(ON_THE_WAY), []

        def over(future):
            if future.code() is not grpc.StatusCode.OK:
                failed.append(future.code())
            room.release()

        while count == 0 or time.monotonic() < began + self.seconds:
            room.acquire()
            call.future(request, timeout=PATIENCE).add_done_callback(over)
            count += 1
        for _ in range(ON_THE_WAY):
            room.acquire()
        if failed:
            sys.exit("%s: %s" % (metric, failed[0]))
        print(json.dumps({"metric": metric + ".rate", "who": self.who, "unit": "calls/s",
                          "value": count / (time.monotonic() - began)}), flush=True)

    def measure_wake(self):
        samples, end, i = [], time.monotonic() + self.seconds, 0
        while not samples or time.monotonic() < end:
            key = b"wake/%d" % i
            i += 1
            path, request = self.get_of(key)
            waits = self.method(0, path).future(request, timeout=PATIENCE)
            time.sleep(0.001)  # until it waits there
            path, request = self.set_of(key)
            start = time.monotonic_ns()
            sets = self.method(1, path).future(request, timeout=PATIENCE)
            waits.result()
            samples.append(time.monotonic_ns() - start)
            sets.result()
        emit("grpcio.wake", self.who, samples)

    def measure_watch(self):
        """etcd's way to wait: a watch that stays, and tells of each put."""
        watch = self.channels[0].stream_stream(ETCD + "Watch/Watch")
        over = threading.Event()

        def requests():
            yield data(1, data(1, b"wake"))
            over.wait(PATIENCE)

        events = watch(requests(), timeout=PATIENCE)
        next(events)  # it is made
        samples, end = [], time.monotonic() + self.seconds
        path, request = self.set_of(b"wake")
        while not samples or time.monotonic() < end:
            time.sleep(0.001)
            start = time.monotonic_ns()
            sets = self.method(1, path).future(request, timeout=PATIENCE)
            next(events)
            samples.append(time.monotonic_ns() - start)
            sets.result()
        over.set()
        events.cancel()
        emit("grpcio.wake", self.who, samples)

    def measure_barrier(self, count):
        samples, end, counter = [], time.monotonic() + self.seconds, 0
        while not samples or time.monotonic() < end:
            start = time.monotonic_ns()
            calls = []
            for task in range(count):
                path, request = self.barrier_of(b"b%d" % count, count, task, counter)
                calls.append(self.method(task, path).future(request, timeout=PATIENCE))
            for call in calls:
                call.result()
            samples.append(time.monotonic_ns() - start)
            counter += 1
        emit("grpcio.barrier.%d" % count, self.who, samples)

    def run(self):
        if not self.is_etcd:
            self.register()
        for measure, what, of in ((self.measure_call, "set", self.set_of), (self.measure_call, "get", self.get_of),
                                  (self.measure_load, "load.set", self.set_of), (self.measure_load, "load.get", self.get_of)):
            measure("grpcio." + what, *of(b"key"))
            self.beat()
        if self.is_etcd:
            self.measure_watch()
            return
        self.measure_wake()
        for count in (2, 8):
            self.beat()
            self.measure_barrier(count)


def main():
    if sys.argv[1:] == ["--version"]:
        print(grpc.__version__)
        return 0
    who, host, port, seconds, _ = sys.argv[1:]
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[0]})
    Client(who, "%s:%s" % (host, port), float(seconds)).run()
    sys.stdout.flush()
    os._exit(0)  # grpcio's threads need not be waited for


sys.exit(main())
