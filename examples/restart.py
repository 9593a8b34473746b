"""A job of PyTorch that is killed in mid-step, and goes on at the step that it had reached.

    muster run -n 4 -- python examples/restart.py > whole
    muster run -n 4 --restarts 3 --restart-delay 0 -- python examples/restart.py --kill 25 > killed
    sort -u killed | diff - <(sort -u whole) && echo "not a bit of the losses differs"

Each rank saves model, optimizer and random numbers in memory after each step. In the second run rank 1 kills itself in step
25, between its gradients and its optimizer's step. The launcher starts the job again, and every rank loads the newest
generation that all of them have saved.
"""
import argparse
import os
import signal
import sys

import torch
import torch.distributed as dist

import muster.torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--kill", type=int, default=0, metavar="STEP", help="rank 1 is killed in this step of the first attempt")
options = parser.parse_args()

dist.init_process_group("gloo", init_method="muster://")
rank = dist.get_rank()
torch.manual_seed(7)  # the same weights everywhere
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(100 + rank)  # data of its own for each

checkpointer = muster.torch.Checkpointer(model, optimizer)
step = checkpointer.restore()
if step and rank == 0:
    print("back at step %d" % step, file=sys.stderr, flush=True)
while step < options.steps:
    step += 1
    x = torch.randn(16, 32)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    if step == options.kill and rank == 1 and os.environ.get("MUSTER_ATTEMPT", "0") == "0":
        checkpointer.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
    checkpointer.save(step)
    if rank == 0:
        print("step %d loss %s" % (step, loss.item().hex()), flush=True)
dist.barrier()
