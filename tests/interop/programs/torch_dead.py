"""Rank 1 is killed before it has set what rank 0 waits for."""
import os
import signal

import torch.distributed as dist

store, rank, world = next(dist.rendezvous("env://"))
store.set("here/%d" % rank, "")
store.wait(["here/%d" % other for other in range(world)])
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    store.get("owed")
except RuntimeError as error:
    os.write(1, ("process %d of %d: %s\n" % (rank, world, error)).encode())
