"""A task of PyTorch beside one in C and one of MPI: keys by PyTorch's own client, and the barrier of all."""
import os

import torch.distributed as dist

import muster

store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
store.set("shared", "from PyTorch")
heard = [store.get(other).decode() for other in ("c", "mpi")]
with muster.join() as task:
    task.barrier("all", timeout=60)
    os.write(1, ("process %d of 3: PyTorch read %s and passed the barrier\n" % (task.id, heard)).encode())
