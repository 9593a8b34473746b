#!/usr/bin/env python3
"""An unmodified program of PyTorch, DDP over gloo, under run --elastic: 4 ranks, 3 after a SIGKILL, then 4, 6 and 2. It goes on from its
checkpoint each time, and its loss goes on falling."""
# variants: release
# timeout: 300
import json
import os
import re
import signal
import subprocess
import sys
import time

MUSTER, FOLDER = os.environ["MUSTER"], os.environ["TMPDIR"]
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
JOB = "t%d-elastic-torch" % os.getpid()
STEPS = 12  # of an epoch of the job, at least, before it is changed
PATIENCE = 60

PROGRAM = r"""
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(1)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size, path = dist.get_rank(), dist.get_world_size(), sys.argv[1]
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = 0
if os.path.exists(path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    step = state["step"]
ddp = DistributedDataParallel(model)
data = torch.randn(240, 8)
wanted = data @ torch.arange(8.0).reshape(8, 1) + 1
mine = slice(rank * 240 // size, (rank + 1) * 240 // size)
while True:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(ddp(data[mine]), wanted[mine])
    loss.backward()
    optimizer.step()
    step += 1
    total = loss.detach() * (data[mine].shape[0] / 240)
    dist.all_reduce(total)
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, path + ".new")
        os.rename(path + ".new", path)
        print("step", step, "size", size, "loss", total.item(), "restarts", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
    dist.barrier()
"""


def muster(*words):
    done = subprocess.run([MUSTER] + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps():
    """[(step, size, loss, restarts)]"""
    with open(os.path.join(FOLDER, "out")) as f:
        found = re.findall(r"^step (\d+) size (\d+) loss (\S+) restarts (\d+)$", f.read(), re.M)
    return [(int(step), int(size), float(loss), int(restarts)) for step, size, loss, restarts in found]


def await_steps(size, after, run):
    """Until an epoch of that size has taken its steps."""
    end = time.monotonic() + PATIENCE
    while len([each for each in steps()[after:] if each[1] == size]) < STEPS:
        assert run.poll() is None, "the job has ended"
        assert time.monotonic() < end, "no steps with %d ranks" % size
        time.sleep(0.05)  # sleep: between two looks


def main():
    if subprocess.run([PYTHON, "-c", "import torch.distributed as d; d.Store"], capture_output=True).returncode:
        print("PyTorch is not installed")
        return 77
    program = os.path.join(FOLDER, "train.py")
    with open(program, "w") as f:
        f.write(PROGRAM)
    with open(os.path.join(FOLDER, "out"), "w") as out, open(os.path.join(FOLDER, "err"), "w") as err:
        run = subprocess.Popen([MUSTER, "run", "--job", JOB, "--elastic", "2:6", "-n", "4", "--tcpstore", "--grace", "1s", "--", PYTHON, program,
                                os.path.join(FOLDER, "checkpoint")], stdout=out, stderr=err)
    try:
        await_steps(4, 0, run)
        before = len(steps())
        victim = json.loads(muster("status", "--json", "--job", JOB))["tasks"][2]["pid"]
        os.kill(victim, signal.SIGKILL)
        await_steps(3, before, run)
        for words, size in (("+1", 4), ("6", 6), ("2", 2)):
            before = len(steps())
            assert "has %d tasks" % size in muster("scale", "--job", JOB, words)
            await_steps(size, before, run)
    except BaseException:
        with open(os.path.join(FOLDER, "err")) as f:
            print(f.read())
        raise
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()
    all_steps = steps()
    sizes = [size for i, (_, size, _, _) in enumerate(all_steps) if i == 0 or all_steps[i - 1][1] != size]
    assert sizes == [4, 3, 4, 6, 2], sizes
    numbers = [step for step, _, _, _ in all_steps]
    # a checkpoint is written before its step is printed: one that is lost between is not done again
    assert all(0 < b - a <= 2 for a, b in zip(numbers, numbers[1:])), "not from the checkpoint: %s" % numbers
    assert [restarts for _, size, _, restarts in all_steps if size == 3][0] == 1 and all_steps[-1][3] == 1, all_steps[-1]
    losses = [loss for _, _, loss, _ in all_steps]
    assert all(b < a or b < 1e-6 for a, b in zip(losses, losses[1:])), losses
    print("%d steps with 4, 3, 4, 6 and 2 ranks: loss %.3f to %.6f" % (len(losses), losses[0], losses[-1]))
    return 0


sys.exit(main())
