"""The rank in the middle does not come to monitored_barrier(): rank 0 is told which."""
import datetime
import os

import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if rank == 0:
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=2), wait_all_ranks=True)
        said = "came to an end"
    except RuntimeError as error:
        said = " ".join(str(error).split())
    os.write(1, ("process 0 of %d: monitored_barrier: %s\n" % (world, said)).encode())
elif rank != world // 2:
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=4))
    except RuntimeError:
        pass  # rank 0 told them that it has failed, or went
