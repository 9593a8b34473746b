#!/usr/bin/env python3
"""muster.epoch: a program that waits for each epoch of its job goes on while tasks are lost, come and go.
variants: release
"""
import json
import os
import signal
import subprocess
import sys
import time

import common
from common import MUSTER, PATIENCE, job_name, raises

import muster

PROGRAM = """
import os
import muster

with muster.join(recoverable=True) as task:
    print("begins", task.id, flush=True)
    for epoch in task.epochs():
        assert (epoch.least, epoch.most) == (1, 4) and epoch.rank < epoch.size
        try:
            with epoch.group("steps") as group:
                assert (group.rank, group.size) == (epoch.rank, epoch.size)
                print(epoch.number, epoch.rank, epoch.size, task.id, flush=True)
                while True:
                    stop = 2 if "stop" in task.kv else int(epoch.changed())
                    stop = group.allreduce(stop, "max")
                    if stop:
                        break
        except muster.Unavailable:  # the next epoch may be a moment away
            continue
        if stop == 2:
            break
    print("ends", task.id, flush=True)
"""


class Job:
    def __init__(self, n):
        self.name, self.out = job_name(), os.path.join(os.environ["TMPDIR"], job_name())
        with open(self.out, "w") as out:
            self.run = subprocess.Popen([MUSTER, "run", "--job", self.name, "--elastic", "1:4", "--live", "-n", str(n), "--", sys.executable, "-c",
                                         PROGRAM], stdout=out, stdin=subprocess.DEVNULL)

    def lines(self):
        with open(self.out) as f:
            return f.read().splitlines()

    def await_epoch(self, number, ranks):
        """ranks: the task of each."""
        wanted = ["%d %d %d %d" % (number, rank, len(ranks), task) for rank, task in enumerate(ranks)]
        end = time.monotonic() + PATIENCE
        while not set(wanted) <= set(self.lines()):
            assert self.run.poll() is None and time.monotonic() < end, "%s: %s" % (wanted, self.lines())
            time.sleep(0.02)  # sleep: between two looks

    def muster(self, *words):
        return subprocess.run([MUSTER, words[0], "--job", self.name, *words[1:]], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True).stdout


def test_a_program_goes_on_from_epoch_to_epoch():
    job = Job(3)
    job.await_epoch(1, [0, 1, 2])
    pids = [task["pid"] for task in json.loads(job.muster("status", "--json"))["tasks"]]
    os.kill(pids[1], signal.SIGKILL)
    job.await_epoch(2, [0, 2])
    job.muster("scale", "+2")
    job.await_epoch(3, [0, 2, 1, 3])
    job.muster("scale", "--remove", "0")
    job.await_epoch(4, [2, 1, 3])
    assert job.lines().count("begins 2") == 1, "one that stays was started again"
    subprocess.run([MUSTER, "kv", "set", "--job", job.name, "stop", "now"], timeout=PATIENCE, check=True)
    assert job.run.wait(PATIENCE) == 0
    assert sorted(line for line in job.lines() if line.startswith("ends")) == ["ends 0", "ends 1", "ends 2", "ends 3"]


def test_a_job_without_a_membership_has_no_epochs():
    with muster.join(job_name(), task=0, num_tasks=1) as task:
        assert "has no membership" in str(raises(muster.FailedPrecondition, next, task.epochs()))


common.main(sys.modules[__name__])
