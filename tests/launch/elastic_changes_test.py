#!/usr/bin/env python3
"""A program in C over groups of each epoch, through random changes with deaths: more tasks, fewer, some by name, some killed at any moment, also
while a change is pending. After each the job has an epoch that all its members are in, with ranks without gaps, in the order that they had; at the
end the segment is sound. MUSTER_TEST_CHANGES=1000 makes it long, MUSTER_TEST_SEED another.
variants: release
timeout: 300
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

MUSTER, BUILD, FOLDER = os.environ["MUSTER"], os.environ["BUILD"], os.environ["TMPDIR"]
CHANGES = int(os.environ.get("MUSTER_TEST_CHANGES", "40"))
LEAST, MOST, PATIENCE = 2, 8, 60
JOB = "t%d-changes" % os.getpid()
SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
draw = random.Random(SEED)


def muster(*words, status=(0,)):
    done = subprocess.run([MUSTER, words[0], "--job", JOB, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * PATIENCE)
    assert done.returncode in status, "%s: %d, %s" % (words, done.returncode, done.stderr)
    return done


def look():
    picture = json.loads(muster("status", "--json").stdout)
    members = [m for m in picture["membership"]["members"] if m["rank"] is not None]
    return picture["membership"], [m["task"] for m in sorted(members, key=lambda m: m["rank"])], {t["task"]: t["pid"] for t in picture["tasks"]}


class Output:
    def __init__(self, path):
        self.path, self.said, self.at = path, {}, 0

    def read(self):
        """{epoch: {task: (rank, size)}}"""
        with open(self.path) as f:
            f.seek(self.at)
            text = f.read()
        whole = text[:text.rfind("\n") + 1]
        self.at += len(whole.encode())
        for epoch, rank, size, task in re.findall(r"^(\d+) (\d+)/(\d+) task (\d+) ", whole, re.M):
            self.said.setdefault(int(epoch), {})[int(task)] = (int(rank), int(size))
        return self.said


def settled(output, run):
    """Until all members of the present epoch, which no change is about to end, have met in it: its tasks by rank, their pids."""
    end = time.monotonic() + PATIENCE
    while True:
        membership, tasks, pids = look()
        said = output.read().get(membership["epoch"], {})
        if membership["phase"] == "steady" and said == {task: (rank, len(tasks)) for rank, task in enumerate(tasks)}:
            return membership["epoch"], tasks, pids
        assert run.poll() is None and time.monotonic() < end, "epoch %r, its tasks have said %r" % (membership, said)
        time.sleep(0.01)  # sleep: between two looks


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def change(tasks, pids):
    """One; the tasks that it kills."""
    kind = draw.choice(["scale", "scale", "remove", "kill", "kill", "both"])
    spare = len(tasks) - LEAST
    killed = draw.sample(tasks, draw.randint(1, spare)) if spare and kind in ("kill", "both") else []
    if kind == "remove" and spare:
        muster("scale", "--remove", *map(str, draw.sample(tasks, draw.randint(1, spare))))
    elif kind == "both" and killed:  # while the change is pending, or just before, or behind it
        scale = subprocess.Popen([MUSTER, "scale", "--job", JOB, str(draw.randint(max(LEAST, len(tasks)), MOST))], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        time.sleep(draw.random() * 0.05)  # sleep: the moment is drawn, and no condition
        for task in killed:
            kill(pids[task])
        assert scale.wait(2 * PATIENCE) in (0, 1)
    elif kind == "kill" and killed:
        for task in killed:
            kill(pids[task])
    else:
        muster("scale", str(draw.randint(LEAST, MOST)))
    return killed


def main():
    print("MUSTER_TEST_SEED=%d" % SEED, flush=True)
    path, deaths = os.path.join(FOLDER, "out"), 0
    with open(path, "w") as out, open(path + ".err", "w") as err:
        run = subprocess.Popen([MUSTER, "run", "--job", JOB, "--elastic", "%d:%d" % (LEAST, MOST), "--live", "-n", "4", "--",
                                os.path.join(BUILD, "tests/launch/epochs")], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
    output = Output(path)
    try:
        while not os.path.exists("/dev/shm/muster-%d-%s" % (os.getuid(), JOB)):
            assert run.poll() is None
            time.sleep(0.01)  # sleep: until it is there
        epoch, tasks, pids = settled(output, run)
        for _ in range(CHANGES):
            killed = change(tasks, pids)
            deaths += len(killed)
            before, epoch_before = tasks, epoch
            end = time.monotonic() + PATIENCE
            while killed and look()[0]["epoch"] == epoch_before:  # a death is an epoch
                assert time.monotonic() < end and run.poll() is None, "no epoch without %s" % killed
            epoch, tasks, pids = settled(output, run)
            stayed = [task for task in before if task in tasks and task not in killed]
            assert stayed == [task for task in tasks if task in stayed], "the order is another: %s, then %s" % (before, tasks)
            assert LEAST <= len(tasks) <= MOST
        segment = "/dev/shm/muster-%d-%s" % (os.getuid(), JOB)
        check = subprocess.run([MUSTER, "segment", "check", segment], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert check.returncode == 0, check.stdout
        subprocess.run([MUSTER, "kv", "set", "--job", JOB, "stop", "now"], check=True)
        assert run.wait(PATIENCE) == 0, "exit status %d" % run.returncode
    except BaseException:
        with open(path + ".err") as f:
            print(f.read()[-4000:])
        run.send_signal(signal.SIGTERM)
        run.wait()
        raise
    print("%d changes, %d deaths, %d epochs" % (CHANGES, deaths, epoch))


main()
