"""In the first attempt rank 1 is killed, as by the kernel's memory killer, in the middle of its work; the second ends well."""
import os
import signal

import torch
import torch.distributed as dist

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(10):
    if attempt == 0 and step == 5 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == world
dist.barrier()
os.write(1, b"process %d of %d: ten all_reduces in attempt %d\n" % (rank, world, attempt))
dist.destroy_process_group()
