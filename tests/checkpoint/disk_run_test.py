#!/usr/bin/env python3
"""muster run --checkpoint-dir: what is written, read back and refused; an adopter; random kills of tasks, launchers and, with these, writers.
What a job begins with is one whole generation, never older than the newest that lay on the disk when its predecessor was killed.
MUSTER_TEST_KILLS=500 makes it long, MUSTER_TEST_SEED another.
variants: release
timeout: 600
"""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

MUSTER, TRAINER, PATIENCE = os.environ["MUSTER"], os.environ["BUILD"] + "/tests/checkpoint/trainer", 60
KILLS = int(os.environ.get("MUSTER_TEST_KILLS", "24"))
SEED = int(os.environ.get("MUSTER_TEST_SEED", "0")) or os.getpid()
HERE = tempfile.mkdtemp(prefix="disk-run-", dir=os.environ.get("TMPDIR"))
SHM = tempfile.mkdtemp(prefix="disk-run-", dir="/dev/shm")
os.environ["MUSTER_SHM_DIR"] = SHM  # other jobs of this machine have checkpoints, too
jobs = 0


def folder(name):
    path = os.path.join(HERE, name)
    os.mkdir(path)
    return path


def generations(path):
    return sorted((int(g.rsplit("@", 1)[1]) for g in glob.glob(path + "/model@*")), reverse=True)


def newest(path):
    return next(iter(generations(path)), 0)


class Job:
    """A job of trainers, with what it prints and says."""

    def __init__(self, path, *options, n=2, steps=10, pause=0, command=None):
        global jobs
        jobs += 1
        self.name, self.lines, self.news = "disk%d-%d" % (os.getpid(), jobs), [], threading.Condition()
        options = ("--checkpoint-dir", path, *options) if path else options
        self.process = subprocess.Popen(
            command or [MUSTER, "run", "-n", str(n), "--job", self.name, *options, "--", TRAINER, str(steps), str(pause)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append("(the end)")
            self.news.notify_all()

    def text(self):
        return "\n".join(self.lines)

    def find(self, pattern, times=1):
        """The match of the pattern in so manieth a line."""
        end, at = time.monotonic() + PATIENCE, 0
        with self.news:
            while True:
                found = [m for m in (re.search(pattern, line) for line in self.lines) if m]
                if len(found) >= times:
                    return found[times - 1]
                assert self.lines[-1:] != ["(the end)"] and time.monotonic() < end, "no %d times %r in:\n%s" % (times, pattern, self.text())
                self.news.wait(1)

    def end(self, status=0):
        code = self.process.wait(timeout=PATIENCE)
        self.reader.join(timeout=PATIENCE)
        assert status is None or code == status, "%d, not %s:\n%s" % (code, status, self.text())
        assert "torn" not in self.text(), self.text()
        return self.text()

    def tasks(self):
        """The processes of its tasks."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", TRAINER], stdout=subprocess.PIPE, text=True)
        return [int(pid) for pid in found.stdout.split()]


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_the_last_generation_is_written_and_read_back():
    path = folder("last")
    assert "found 0 0 2" in Job(path, "--checkpoint-every", "1000").end()
    assert generations(path) == [10]
    text = Job(path, "--checkpoint-keep", "1", steps=12).end()
    assert "checkpoint model: generation 10 (step 10, of 2 ranks) is read back from %s" % path in text and "found 10 10 2" in text, text
    assert generations(path) == [12]
    assert "found 12 12 2" in Job(path, n=3, steps=13).end()
    assert "found 13 13 3" in Job(path, n=3, steps=13).end()
    assert os.listdir(SHM) == [], os.listdir(SHM)


def test_each_kth_generation_is_written_while_the_job_goes_on():
    path = folder("every")
    job = Job(path, "--checkpoint-every", "5", "--checkpoint-keep", "2", steps=1000000, pause=20)
    until(lambda: len(generations(path)) == 2 and generations(path)[1] > 5, "two generations")
    job.process.send_signal(signal.SIGTERM)
    job.end(143)
    assert len(generations(path)) == 2


def test_a_damaged_generation_is_named_and_passed_over():
    path = folder("damaged")
    Job(path, steps=4).end()
    Job(path, steps=5).end()
    with open(path + "/model@5/1", "r+b") as f:
        f.seek(50000)
        f.write(b"x" * 100)
    text = Job(path, steps=5).end()
    assert "generation 5 in %s is passed over: the part of rank 1 is damaged: its checksum is" % path in text, text
    assert "found 4 4 2" in text and generations(path)[0] == 5
    assert "found 5 5 2" in Job(path, steps=6).end()


def test_attempts_go_on_from_memory():
    path = folder("attempts")
    job = Job(path, "--restarts", "3", "--restart-delay", "0", steps=1000000, pause=1)
    job.find(r"^saved 20$")
    os.kill(job.tasks()[0], signal.SIGKILL)
    assert int(job.find(r"^found (\d+)", 2).group(1)) >= 20
    assert "read back" not in job.text()
    job.process.send_signal(signal.SIGTERM)
    job.end(143)


def test_an_adopter_writes_on():
    path, log = folder("adopted"), os.path.join(HERE, "adopted")
    job = Job(path, "--survive", "--output", log + ".{rank}", steps=1000000, pause=5)
    until(lambda: newest(path) > 3, "generations")
    job.process.kill()
    job.process.wait()
    adopter = Job(None, command=[MUSTER, "agent", "--adopt", job.name])
    adopter.find("adopted: 2 of 2 tasks are running")
    seen = newest(path)
    until(lambda: newest(path) > seen + 3, "generations of the adopter")
    adopter.process.send_signal(signal.SIGTERM)
    adopter.end(None)
    with open(log + ".0") as f:
        saved = int(re.findall(r"^saved (\d+)$", f.read(), re.M)[-1])
    assert newest(path) >= saved, (newest(path), saved)
    until(lambda: os.listdir(SHM) == [], os.listdir(SHM))


def test_a_folder_that_vanishes_is_named_and_the_job_goes_on():
    path = folder("vanishes")
    job = Job(path, steps=1000000, pause=5)
    until(lambda: newest(path) > 0, "a generation")
    os.rename(path, path + "-elsewhere")
    job.find(r"checkpoint model: generation \d+ is not written to %s: the folder has gone: No such file or directory; the newest there is \d+" % path)
    os.rename(path + "-elsewhere", path)
    job.find(r"checkpoint model: generation \d+ is written to %s again" % path)
    job.process.send_signal(signal.SIGTERM)
    job.end(143)


def test_what_cannot_be_is_refused():
    path = folder("refused")
    for options, status, words in (
            (("--checkpoint-dir", "/proc/self/none"), 125, "cannot make the folder /proc/self/none"),
            (("--checkpoint-dir", "/sys/kernel"), 125, "it cannot be written to: "),
            (("--checkpoint-dir", path, "--hosts", "a:1,b:1"), 2, "--checkpoint-dir and --hosts exclude each other"),
            (("--checkpoint-dir", path, "--elastic", "1:2", "--live"), 2, "--checkpoint-dir and --live exclude each other"),
            (("--checkpoint-every", "2"), 2, "--checkpoint-every needs --checkpoint-dir DIR"),
            (("--checkpoint-dir", path, "--checkpoint-keep", "0"), 2, "--checkpoint-keep 0: 1 keeps the newest")):
        done = subprocess.run([MUSTER, "run", *options, "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        assert done.returncode == status and words in done.stdout, (options, done)
    job = Job(path, steps=1000000, pause=5)
    job.find("^saved 2$")
    assert "another job writes its checkpoints there" in Job(path).end(125)
    job.process.send_signal(signal.SIGTERM)
    job.end(143)


def look(*words, status=0):
    done = subprocess.run([MUSTER, "checkpoint", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
    assert done.returncode == status, (words, done)
    return done.stdout


def test_people_see_generations_in_memory_and_on_the_disk():
    path = folder("looked")
    assert json.loads(look("ls", "--json", path)) == []
    Job(path, steps=4).end()
    job = Job(path, "--restarts", "1", steps=1000000, pause=20)
    job.find("^saved 7$")
    until(lambda: newest(path) > 6, "generation 7")
    rows = json.loads(look("ls", "--json", "--job", job.name))
    memory, disk = rows[0], [r for r in rows if r["where"] == path]
    assert memory["where"] == "memory" and memory["generation"] > 6 and memory["on_disk"] > 6 and memory["ranks"] == 2, rows
    assert len(disk) >= 2 and all(r["problem"] is None and r["step"] == r["generation"] for r in disk), rows
    picture = subprocess.run([MUSTER, "status", "--job", job.name], stdout=subprocess.PIPE, text=True, timeout=PATIENCE).stdout
    assert re.search(r"^saved to %s written \d+ bytes \d+ overwritten \d+ failed 0 newest \d+$" % re.escape(path[:100]), picture, re.M), picture
    stopped = job.tasks()[0]
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: json.loads(look("ls", "--json", "--job", job.name))[0]["missing"] in ("0", "1"), "a rank that is behind")
    os.kill(stopped, signal.SIGCONT)
    assert "another job writes its checkpoints there" in look("rm", path, "model", status=1)
    job.process.send_signal(signal.SIGTERM)
    job.end(143)
    look("show", path, "model")
    last = newest(path)
    with open(path + "/model@%d/0" % last, "r+b") as f:
        f.seek(50000)
        f.write(b"x" * 100)
    assert "the part of rank 0 is damaged" in look("show", path, "model@%d" % last, status=1)
    assert "there is no such generation" in look("show", path, "model@1", status=3)
    look("rm", path, "model@%d" % last)
    assert newest(path) < last
    look("rm", path, "model")
    assert generations(path) == [] and "there is no such generation" in look("rm", path, "model", status=3)
    look("ls", path + "-none", status=3)
    look("ls", "--job", "none-%d" % os.getpid(), status=3)


def test_random_kills():
    path, draw, kills, known, began = folder("kills"), random.Random(SEED), 0, 0, 0
    while kills < KILLS:
        job = Job(path, "--checkpoint-keep", "2", "--restarts", "1000", "--restart-delay", "0", n=3, steps=1000000)
        began += 1
        found = int(job.find(r"^found (\d+)").group(1))
        assert found >= known, "seed %d: found %d, %d was on the disk:\n%s" % (SEED, found, known, job.text())
        for attempt in range(draw.randrange(4)):  # tasks
            time.sleep(draw.random() * 0.1)
            known, tasks = newest(path), job.tasks()
            if tasks:
                os.kill(draw.choice(tasks), signal.SIGKILL)
                kills += 1
                found = int(job.find(r"^found (\d+)", attempt + 2).group(1))
                assert found >= known, "seed %d: found %d, %d was on the disk:\n%s" % (SEED, found, known, job.text())
        time.sleep(draw.random() * 0.2)
        known = newest(path)
        job.process.kill()  # and so the writer, wherever it is
        kills += 1
        job.end(-signal.SIGKILL)
        until(lambda: os.listdir(SHM) == [], "the guard ends the job")
    assert known > 0
    found = int(re.search(r"^found (\d+)", Job(path, n=3, steps=0).end(), re.M).group(1))
    assert found >= known
    assert not [e for e in os.listdir(path) if e.startswith(".")]
    print("%d kills in %d jobs, generation %d" % (kills, began, known))


for name, test in [(n, f) for n, f in list(globals().items()) if n.startswith("test_")]:
    print("# " + name[5:].replace("_", " "), end="", flush=True)
    start = time.monotonic()
    test()
    print(": %.2f s" % (time.monotonic() - start), flush=True)
shutil.rmtree(HERE, True)
shutil.rmtree(SHM, True)
