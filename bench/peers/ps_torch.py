#!/usr/bin/env python3
"""What bench/ps.c measures, by torch.distributed.rpc on loopback: rank 0 has the tensors, the others push and pull.

    ps_torch.py PUSHERS SECONDS [RANK PORT]       (prints the lines of bench/measure.h; starts itself for each rank)
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tcpstore import emit  # noqa: E402

SIZES = [4, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROWS, NUMBERS = 4096, 64
pushers, seconds = int(sys.argv[1]), float(sys.argv[2])
store = {}


def push(name, keys, values):
    import torch
    if keys is None:
        store.setdefault(name, torch.zeros(values.shape)).add_(values)
    else:
        store.setdefault(name, torch.zeros(ROWS, NUMBERS)).index_add_(0, keys, values)


def pull(name, keys):
    return store[name] if keys is None else store[name][keys]


def work(rank, port):
    import torch
    import torch.distributed.rpc as rpc
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo", TP_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    rpc.init_rpc("r%d" % rank, rank=rank, world_size=pushers + 1,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=60, _transports=["uv"]))
    for number in range(len(SIZES) + 1) if rank else ():
        sparse = number == len(SIZES)
        metric = "ps.sparse.n%d" % pushers if sparse else "ps.dense.%d.n%d" % (SIZES[number], pushers)
        keys = torch.arange(ROWS) if sparse else None
        values = torch.zeros(ROWS, NUMBERS) if sparse else torch.zeros(SIZES[number] // 4)
        samples, end = [], time.monotonic() + seconds
        while not samples or time.monotonic() < end:
            start = time.perf_counter_ns()
            rpc.rpc_sync("r0", push, (metric, keys, values))
            rpc.rpc_sync("r0", pull, (metric, keys))
            samples.append(time.perf_counter_ns() - start)
        if rank == 1:
            emit(metric, samples, "torch-rpc")
    rpc.shutdown()


def main():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, *sys.argv[:3], str(rank), port]) for rank in range(pushers + 1)]
    sys.exit(max([rank.wait() != 0 for rank in ranks]))


if __name__ == "__main__":
    work(int(sys.argv[3]), sys.argv[4]) if len(sys.argv) > 3 else main()
