"""PyTorch's environment and nothing else: collectives, a subgroup, and a small model that learns with DDP. All ranks compare."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert (rank, world) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))

one = torch.tensor([float(rank + 1)])
dist.all_reduce(one)
assert one.item() == world * (world + 1) / 2, one
dist.barrier()
even = dist.new_group(list(range(0, world, 2)))
if rank % 2 == 0:
    two = torch.ones(1)
    dist.all_reduce(two, group=even)
    assert two.item() == (world + 1) // 2, two

torch.manual_seed(rank)  # DDP gives all the weights of rank 0
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(30):
    data = torch.randn(16, 4)
    loss = (model(data).squeeze(1) - data.sum(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weights = torch.cat([one.detach().flatten() for one in model.parameters()])
all_weights = [torch.empty_like(weights) for _ in range(world)]
dist.all_gather(all_weights, weights)
assert all(torch.equal(weights, other) for other in all_weights)
assert sum(losses[-5:]) < sum(losses[:5]), losses
# one write a line: the lines of all ranks are in one log
os.write(1, b"process %d of %d: all_reduce, barrier, new_group, DDP: 30 steps, all ranks have the same weights\n" % (rank, world))
dist.destroy_process_group()
