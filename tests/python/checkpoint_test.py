#!/usr/bin/env python3
"""Checkpoints in Python: states of any kind, restarts of the job, of a task, and a launcher that dies; what is named.
variants: release
"""
import atexit
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import common
from common import MUSTER, job_name, raises, run

import muster

# A folder of its own: other jobs of this machine have checkpoints, too.
os.environ["MUSTER_SHM_DIR"] = tempfile.mkdtemp(prefix="checkpoint-test-", dir="/dev/shm")
atexit.register(shutil.rmtree, os.environ["MUSTER_SHM_DIR"], True)

SAVES = """
import muster, os, sys
import numpy
with muster.join() as task:
    with muster.Checkpoint("m") as cp:
        %s
"""


def body(text):
    return SAVES % "\n        ".join(text.strip("\n").split("\n"))


def left():
    return glob.glob(os.environ["MUSTER_SHM_DIR"] + "/muster-checkpoints-*")


def test_states_of_any_kind_come_back_as_they_were():
    run(1, body("""
tied = numpy.arange(6, dtype="int16").reshape(2, 3)
state = {"a": tied, "again": tied, "list": [numpy.float64(2.5), numpy.zeros((0, 4)), 7], "text": "x", "raw": b"bytes",
         "turned": numpy.arange(6.0).reshape(2, 3).T, "when": numpy.array(["2026-01-01"], "M8[D]"), "bool": numpy.array(True)}
assert cp.load() is None and cp.newest() is None
assert cp.save(state, step=5) == 1
cp.wait()
assert cp.newest() == (1, 5, 1), cp.newest()
for copy in (True, False):
    got = cp.load(copy=copy)
    assert (got.generation, got.step, got.rank, got.ranks) == (1, 5, 0, 1)
    got = got.state
    assert got["a"].dtype == "int16" and (got["a"] == tied).all() and got["again"] is got["a"]
    assert got["list"][0] == 2.5 and got["list"][1].shape == (0, 4) and got["list"][2] == 7
    assert got["text"] == "x" and got["raw"] == b"bytes" and (got["turned"] == state["turned"]).all()
    assert got["when"] == state["when"] and got["bool"].shape == () and got["bool"]
    assert got["a"].flags.writeable == copy
for step in range(6, 12):
    cp.save(step, step=step)
assert (got["a"] == tied).all()  # the view stays
assert cp.load().state == 11
cp.save(b"plain")
assert cp.load().state == b"plain"
try:
    muster.Checkpoint("m")
    raise SystemExit(1)
except ValueError as e:
    assert "open already" in str(e)
"""))
    assert not left()


def test_a_job_that_is_started_again_goes_on_from_the_newest_whole_generation():
    out = run(3, body("""
saved = cp.load()
step = saved.step if saved else 0
if saved:
    assert saved.step == 4 and saved.state == {"rank": task.id, "x": saved.state["x"]} and saved.state["x"][0] == 4, saved
    print("back at", step)
while step < 8:
    step += 1
    if step == 5 and task.id == 1 and not saved:
        cp.wait()
        os.kill(os.getpid(), 9)
    cp.save({"rank": task.id, "x": numpy.full(10, step)}, step=step)
    if step == 5 and not saved:
        cp.wait(timeout=60)
"""), options=("--restarts", "1", "--restart-delay", "0"))
    assert out.count("back at 4") == 3, out
    assert not left()


def test_a_task_that_is_started_again_alone_goes_back_to_what_is_whole():
    out = run(2, body("""
saved = cp.load()
step = saved.step if saved else 0
print("from", step, flush=True)
while step < 6:
    step += 1
    if step == 4 and task.id == 0 and not saved:
        cp.wait()
        os.kill(os.getpid(), 9)
    cp.save(step, step=step, timeout=60)
cp.wait(timeout=60)
assert cp.load(1 - task.id).state == 6
"""), options=("--restarts", "1", "--restart-policy", "task", "--restart-delay", "0"))
    assert out.count("from 0\n") >= 2 and "from 3\n" in out, out


def test_a_missing_rank_another_size_and_a_wrong_state_are_named():
    out = run(2, body("""
if task.id == 0:
    cp.save(1, step=1)
    try:
        cp.wait(timeout=0)
        raise SystemExit(1)
    except muster.DeadlineExceeded as e:
        assert "not saved by task 1" in str(e), e
    try:
        cp.load(7)
    except muster.NotFound as e:
        raise SystemExit(1)
assert not cp.load(7)
task.barrier("said", timeout=60)
try:
    muster.Checkpoint("a/b")
    raise SystemExit(1)
except muster.InvalidArgument:
    pass
"""))
    task = muster.join(job_name(), task=0, num_tasks=1)
    error = raises(muster.FailedPrecondition, muster.Checkpoint)
    assert "muster run" in str(error), error
    task.leave()
    assert not out.strip(), out


def ends_of(kill, options=()):
    """A job of two that saves until it is killed; `kill` gets the launcher and the tasks' pids."""
    launcher = subprocess.Popen([MUSTER, "run", "-n", "2", "--job", job_name(), *options, "--", sys.executable, "-c", body("""
step = 0
while True:
    step += 1
    cp.save(numpy.full(1000, step), step=step)
    if step == 3:
        os.write(1, b"%d\\n" % os.getpid())
""")], stdout=subprocess.PIPE, text=True)
    pids = [int(launcher.stdout.readline()) for _ in range(2)]
    assert left()
    kill(launcher, pids)
    deadline = time.monotonic() + common.PATIENCE
    while left():
        assert time.monotonic() < deadline, left()
        time.sleep(0.01)
    launcher.wait()
    launcher.stdout.close()


def test_nothing_is_left_whoever_is_killed():
    ends_of(lambda launcher, pids: launcher.kill())
    ends_of(lambda launcher, pids: launcher.terminate())
    ends_of(lambda launcher, pids: os.kill(pids[1], signal.SIGKILL))


def test_checkpoints_outlive_a_launcher_whose_tasks_do():
    def kill(launcher, pids):
        launcher.kill()
        launcher.wait()
        assert left()  # the tasks go on
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    ends_of(kill, ("--survive",))


TORCH = """
import torch, muster, muster.torch
def model_of(inputs):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.Linear(16, 1))
model = model_of(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with muster.join() as task:
    c = muster.torch.Checkpointer(model, optimizer, every=2)
    assert c.restore() == 0
    for step in range(1, 6):
        optimizer.zero_grad(); model(torch.ones(4, 8)).sum().backward(); optimizer.step()
        assert (c.save(step, note=step) != 0) == (step % 2 == 0)
        if step == 4:
            weight, momentum = model[0].weight.clone(), optimizer.state[model[0].weight]["momentum_buffer"].clone()
            drawn = torch.randn(3)
    c.wait()
    assert c.newest().step == 4
    assert c.restore() == 4 and c.extra == {"note": 4} and torch.equal(model[0].weight, weight)
    assert torch.equal(optimizer.state[model[0].weight]["momentum_buffer"], momentum)
    assert torch.equal(torch.randn(3), drawn)
    for other, words in (model_of(9), "0.weight of the model is float32[16,8] in the checkpoint, not float32[16,9]"), (
            model_of(8).double(), "not float64[16,8]"):
        c.model = other
        try:
            c.restore()
            raise SystemExit(1)
        except muster.InvalidArgument as e:
            assert words in str(e), e
    c.model = torch.nn.Linear(8, 16)
    try:
        c.restore()
        raise SystemExit(1)
    except muster.NotFound as e:
        assert "no weight of the model" in str(e), e
    c.close()
    odd = {"half": torch.ones(3, dtype=torch.bfloat16), "none": torch.empty(0, 4), "turned": torch.randn(3, 4).t(), "bool": torch.tensor(True)}
    odd["same"] = odd["turned"]
    with muster.Checkpoint("odd") as cp:
        cp.save(odd)
        for copy in (True, False):
            got = cp.load(copy=copy).state
            assert all(got[k].dtype == odd[k].dtype and torch.equal(got[k], odd[k]) for k in odd) and got["same"] is got["turned"]
"""


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed as d; d.Store"], capture_output=True).returncode == 0


def test_a_module_and_its_optimizer_come_back_and_what_does_not_fit_is_named():
    if has_torch():
        run(1, TORCH)
    else:
        print(": no PyTorch here", end="")


def test_a_job_of_pytorch_that_is_killed_has_the_losses_of_one_that_is_not():
    if not has_torch():
        print(": no PyTorch here", end="")
        return

    def losses(*args, options=()):
        done = subprocess.run([MUSTER, "run", "-n", "2", "--job", job_name(), *options, "--", sys.executable,
                               os.path.join(common.TOP, "examples/restart.py"), "--steps", "12", *args],
                              capture_output=True, text=True, timeout=common.PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return set(done.stdout.splitlines()), done.stderr
    whole, said = losses()
    assert len(whole) == 12, whole
    again, said = losses("--kill", "7", options=("--restarts", "1", "--restart-delay", "0"))
    assert again == whole and "back at step 6" in said, (whole, again, said)


common.main(sys.modules[__name__])
