#!/usr/bin/env python3
"""Calls and actors that ask for GPUs and other resources: what they see, what is refused, and what a death gives back.
variants: release
timeout: 200
"""
import json
import os
import signal
import subprocess
import sys
import time

import common
from common import raises

import muster

PATIENCE = common.PATIENCE


@muster.remote(num_gpus=1)
def one_gpu(path):
    """Nobody else has it: a file of its name is this call's alone."""
    mine = os.path.join(path, "gpu" + os.environ["CUDA_VISIBLE_DEVICES"])
    os.close(os.open(mine, os.O_CREAT | os.O_EXCL))
    time.sleep(0.002)
    os.unlink(mine)
    return os.environ["CUDA_VISIBLE_DEVICES"]


@muster.remote
def no_gpu():
    return os.environ["CUDA_VISIBLE_DEVICES"]


@muster.remote(resources={"disk": 1})
def hold(path, release):
    open(path, "w").close()
    while not os.path.exists(release):
        time.sleep(0.005)
    return os.getpid()


@muster.remote(num_gpus=2)
class Model:
    def gpus(self):
        return os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


os.environ["CUDA_VISIBLE_DEVICES"] = "4,GPU-5"
task = muster.init(workers=3, store=64 << 20, num_gpus=2, resources={"disk": 1.5})
FOLDER = os.environ["TMPDIR"]


def get(refs):
    return muster.get(refs, timeout=PATIENCE)


def until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_each_call_has_a_gpu_of_its_own():
    assert set(get([one_gpu.remote(FOLDER) for _ in range(40)])) <= {"4", "GPU-5"}
    assert get(no_gpu.remote()) == ""
    assert get(one_gpu.options(num_gpus=2).remote(FOLDER)) == "4,GPU-5"


def test_what_can_never_be_had_is_refused():
    for options in ({"num_gpus": 3}, {"resources": {"tape": 1}}, {"num_cpus": 4}):
        error = raises(muster.FailedPrecondition, no_gpu.options(**options).remote)
        assert "asks for" in str(error), error
    raises(muster.InvalidArgument, no_gpu.options(num_gpus=0.5).remote)
    raises(ValueError, no_gpu.options, num_gpus=-1)
    raises(ValueError, no_gpu.options, num_gpus=1, resources={"GPU": 1})
    assert get(no_gpu.options(num_cpus=3, resources={"disk": 0.5}).remote()) == ""


@muster.remote(num_gpus=2)
def ends_late(path):
    """Its process flushes stdout when it ends."""
    class Late:
        def flush(self):
            open(path + ".ends", "w").close()
            until(lambda: os.path.exists(path + ".may"))

    sys.stdout = Late()
    return os.getpid()


def test_gpus_are_lent_again_when_their_process_has_ended():
    path = os.path.join(FOLDER, "late")
    pid = get(ends_late.remote(path))
    until(lambda: os.path.exists(path + ".ends"))
    waits = one_gpu.remote(FOLDER)
    raises(muster.Timeout, muster.get, waits, timeout=0.2)
    open(path + ".may", "w").close()
    assert get(waits) in ("4", "GPU-5")
    until(lambda: not os.path.exists("/proc/%d" % pid))


def test_an_actor_has_its_gpus_until_it_ends():
    model = Model.remote()
    gpus, pid = get(model.gpus.remote())
    assert gpus == "4,GPU-5"
    waits = one_gpu.remote(FOLDER)
    assert get(no_gpu.remote()) == ""
    raises(muster.Timeout, muster.get, waits, timeout=0.05)
    os.kill(pid, signal.SIGKILL)
    assert get(waits) in ("4", "GPU-5")
    del model


def test_people_see_who_has_what():
    path, release = os.path.join(FOLDER, "holds"), os.path.join(FOLDER, "release")
    first = hold.remote(path, release)
    until(lambda: os.path.exists(path))
    second = hold.remote(path, release)
    command = [common.MUSTER, "task", "list", "--job", task.job]
    seen = json.loads(subprocess.check_output(command + ["--json"]))["resources"]
    disk, = [r for r in seen if r["name"] == "disk"]
    assert (disk["total"], disk["lent"], len(disk["leases"])) == (1.5, 1, 1), seen
    text = subprocess.check_output(command, text=True)
    assert "disk              1.5        1  0x" in text and "(pid %d): 1\n" % disk["leases"][0]["pid"] in text, text
    open(release, "w").close()
    assert disk["leases"][0]["pid"] == get(first) and get(second)


def test_workers_of_a_launcher():
    said = common.run(1, """
        import os, muster
        @muster.remote(num_gpus=1, resources={"disk": 0.25})
        def one(): return os.environ["CUDA_VISIBLE_DEVICES"]
        with muster.join() as task:
            print(sorted(set(muster.get([one.remote() for _ in range(10)], timeout=60))))
            try: one.options(num_gpus=3).remote()
            except muster.FailedPrecondition as e: print(e)
        """, options=("--workers", "2", "--resources", "GPU=2,disk=1", "--worker-command", sys.executable + " -m muster.worker"),
        environment={"CUDA_VISIBLE_DEVICES": "7,8,9"})
    assert said.splitlines()[0] in ("['7', '8']", "['7']", "['8']"), said
    assert "the call asks for 3 of resource GPU, of which job" in said and " has 2\n" in said, said
    for wrong in ("GPU", "GPU=0", "GPU=1.5", "disk=x", "=1", "GPU=4"):
        said = common.run(1, "", status=2, options=("--workers", "1", "--resources", wrong), environment={"CUDA_VISIBLE_DEVICES": "7,8,9"})
        assert "is no list of resources" in said, said
    assert "--workers" in common.run(1, "", status=2, options=("--resources", "disk=1"))


if __name__ == "__main__":
    common.main(sys.modules[__name__])
    muster.shutdown()
