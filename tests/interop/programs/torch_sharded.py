"""A model that fully_shard() has sharded over the ranks, saved in memory after each step; rank 1 kills itself once."""
import os
import signal

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import muster.torch

dist.init_process_group("gloo", init_method="muster://")
rank, count = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (count,))
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(13, 17), torch.nn.Tanh(), torch.nn.Linear(17, 3))  # no multiple of the ranks
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
checkpointer = muster.torch.Checkpointer(model, optimizer)
step = checkpointer.restore()
print("attempt %s from step %d" % (os.environ["MUSTER_ATTEMPT"], step), flush=True)
while step < 8:
    step += 1
    data = torch.randn(8, 13, generator=torch.Generator().manual_seed(step * 100 + rank))
    loss = ((model(data) - data[:, :3]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    if step == 5 and rank == 1 and os.environ["MUSTER_ATTEMPT"] == "0" and "KILLED" in os.environ:
        checkpointer.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
    checkpointer.save(step)
    print("process %d of %d: step %d %s" % (rank, count, step, loss.item().hex()), flush=True)
dist.barrier()
dist.destroy_process_group()
