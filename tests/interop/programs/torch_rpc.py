"""torch.distributed.rpc (TensorPipe), which meets by the store."""
import os

import torch
import torch.distributed.rpc as rpc

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc("worker%d" % rank, rank=rank, world_size=world)
peer = "worker%d" % ((rank + 1) % world)
assert torch.equal(rpc.rpc_sync(peer, torch.add, args=(torch.ones(2), 3)), torch.full((2,), 4.0))
rpc.shutdown()
os.write(1, b"process %d of %d: rpc_sync to its neighbour, shutdown\n" % (rank, world))
