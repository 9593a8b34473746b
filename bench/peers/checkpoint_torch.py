#!/usr/bin/env python3
"""What bench/checkpoint.c measures, by PyTorch: how long training stands still for a save of one tensor, and a load of it.

    checkpoint_torch.py shm|disk|dcp SECONDS BYTES...      (prints the lines of bench/measure.h)

shm, disk: torch.save to a file in /dev/shm, or in the folder for temporary files, where it is synced. dcp: async_save of
torch.distributed.checkpoint to that folder: until it returns, with the save before done; its load.
"""
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tcpstore import emit  # noqa: E402

import torch  # noqa: E402

WAY, SECONDS, SIZES = sys.argv[1], float(sys.argv[2]), [int(size) for size in sys.argv[3:]]
WHO = {"shm": "torch.save to /dev/shm", "disk": "torch.save to a disk", "dcp": "torch.distributed.checkpoint"}[WAY]
folder = tempfile.mkdtemp(prefix="muster-bench-", dir="/dev/shm" if WAY == "shm" else None)
path = os.path.join(folder, "checkpoint")


def file_save(state):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        if WAY == "disk":
            os.fsync(file.fileno())


def measured(call, between=lambda: None):
    samples, end = [], time.monotonic() + SECONDS
    while not samples or time.monotonic() < end:
        start = time.perf_counter_ns()
        last = call()
        samples.append(time.perf_counter_ns() - start)
        if last is not None and hasattr(last, "result"):
            last.result()
        between()
    return samples


def work(size):
    state = {"t": torch.ones(size, dtype=torch.uint8)}
    if WAY == "dcp":
        import torch.distributed.checkpoint as dcp
        save, load = lambda: dcp.async_save(state, checkpoint_id=path), lambda: dcp.load(state, checkpoint_id=path)
    else:
        save, load = lambda: file_save(state), lambda: torch.load(path)
    first = save()
    if WAY == "dcp":
        first.result()
    emit("checkpoint.save.%d" % size, measured(save), WHO)
    emit("checkpoint.load.%d" % size, measured(lambda: load() and None), WHO)


try:
    torch.set_num_threads(1)
    if WAY == "dcp":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    for bytes_count in SIZES:
        work(bytes_count)
finally:
    shutil.rmtree(folder, True)
