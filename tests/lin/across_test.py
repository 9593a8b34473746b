#!/usr/bin/env python3
"""Histories of the keys of a job of three hosts, with real agents over sockets, whatever is killed and broken meanwhile.

Two tasks a host do operations whose calls and answers are written down, and local reads; across_main.c says how they are
judged, and kills tasks' processes. Here agents are killed, the leader's too, and others adopt what they leave; connections
are reset; agents stop for a while; hosts are cut off for a moment. All that in four jobs: as they are; with --latency;
with one host behind the other, which relays; with both. Run by hand, `across_test.py --seconds N [--seed S]
[--kind loopback]` goes on for so long.

timeout: 300
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bridge"))
import faults_test  # noqa: E402
from field import Field, NotHere  # noqa: E402
from survivors import PATIENCE, Agents, until  # noqa: E402

ACROSS = os.path.join(os.environ["BUILD"], "tests/lin/across")
HOSTS, TASKS = 3, 2
SHORT = 7 if os.environ.get("VARIANT") == "asan" else 16  # faults, of each shape
SHAPES = ((), ("latency",), ("relay",), ("latency", "relay"))


class Lines:
    """What a process says, as it comes; with a last None at its end."""

    def __init__(self, process):
        self.process, self.lines, self.changed = process, [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    def wait(self, what, holds):
        """Until holds(lines)."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while not holds(self.lines):
                if self.lines[-1:] == [None] or time.monotonic() > end:
                    raise AssertionError("waited in vain until %s; it said:\n%s" % (what, self.text()))
                self.changed.wait(1)

    def text(self):
        return "\n".join(line for line in self.lines[-400:] if line is not None)


class Run:
    def __init__(self, field, folder, draw, shape):
        self.field, self.folder, self.draw, self.shape = field, folder, draw, shape
        self.done = {}
        board = os.path.join(folder, "board")
        os.environ["MUSTER_STAR_HOSTS"] = "1" if "relay" in shape else str(HOSTS)
        self.job = faults_test.Job(field, 0, *(["--latency"] if "latency" in shape else []), "--survive=5m",
                                   "--heartbeat-timeout", "60s", "--output", os.path.join(folder, "out-{rank}"),
                                   work=[ACROSS, "work", board], tasks=TASKS, label=False)
        self.agents = Agents(field, self.job, folder)
        self.director = subprocess.Popen([ACROSS, "direct", board, self.job.name, str(HOSTS), str(HOSTS * TASKS)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True)
        self.said = Lines(self.director)

    def end(self):
        """Whatever has become of it."""
        self.agents.end_tasks(ACROSS, os.path.join(self.folder, "board"))
        self.director.wait()
        self.agents.end()

    def begins(self):
        self.goes_on()
        until("all agents are there", self.agents.all_there)
        if "relay" in self.shape:
            until("a host relays", lambda: any(map(faults_test.listens, self.agents.pids[1:])))

    def goes_on(self):
        """A window more has been judged."""
        count = len(self.said.lines)
        self.said.wait("it goes on", lambda lines: any((line or "").startswith("window ") for line in lines[count:]))

    # ---- what happens ----

    def kill_follower(self):
        host = self.draw.randrange(1, HOSTS)
        self.agents.kill(host)
        self.agents.adopt(host)

    def kill_leader(self):
        self.agents.kill(0)
        self.agents.adopt(0)

    def kill_several(self):
        hosts = self.draw.sample(range(HOSTS), self.draw.randrange(2, HOSTS + 1))
        self.agents.kill(*hosts)
        for host in self.draw.sample(hosts, len(hosts)):
            self.agents.adopt(host)

    def two_hosts(self):
        """Which talk to each other; with a relay any two may."""
        return self.draw.sample(range(HOSTS), 2) if "relay" in self.shape else (self.draw.randrange(1, HOSTS), 0)

    def reset(self):
        for _ in range(self.draw.randrange(1, 6)):
            self.field.reset(*self.two_hosts())
            time.sleep(self.draw.random() * 0.02)  # sleep: so far apart they are

    def cut(self):
        self.field.cut(*self.two_hosts(), back=self.draw.random() < 0.5)
        time.sleep(0.2)  # sleep: so long the cut lasts
        self.field.heal()

    def stop(self):
        pid = self.agents.pids[self.draw.randrange(HOSTS)]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)  # sleep: so long it is stopped
        os.kill(pid, signal.SIGCONT)

    FAULTS = (kill_follower, kill_leader, kill_several, reset, cut, stop)

    def one_fault(self, number):
        """Of each kind in turn; two at once now and then."""
        self.goes_on()
        time.sleep(self.draw.random() * 0.02)  # sleep: not always at a window's beginning
        kinds = [self.FAULTS[number % len(self.FAULTS)]]
        if self.draw.random() < 0.3:
            kinds.append(self.draw.choice(self.FAULTS))
        for kind in kinds:
            name = kind.__name__
            try:
                kind(self)
                self.done[name] = self.done.get(name, 0) + 1
            except NotHere as error:
                if name not in self.done:
                    print("not here: %s: %s" % (name, error))
                self.done.setdefault(name, 0)

    def finish(self):
        """Everything ends well, on all hosts."""
        self.goes_on()
        self.director.stdin.close()
        self.said.wait("the director has ended", lambda lines: lines[-1:] == [None])
        if self.director.wait(PATIENCE):
            raise AssertionError("the director:\n" + self.said.text())
        self.agents.all_end()
        print("\n".join(line for line in self.said.lines if line and not line.startswith("window ")))
        print("faults: " + ", ".join("%s %d" % item for item in sorted(self.done.items())))


def one_shape(draw, shape, seconds, kind):
    with tempfile.TemporaryDirectory(prefix="across-") as folder, Field(HOSTS, kind, folder) as field:
        print(field.words, flush=True)
        run = Run(field, folder, draw, shape)
        try:
            run.begins()
            end, number = time.monotonic() + seconds, 0
            while number < SHORT or time.monotonic() < end:
                run.one_fault(number)
                number += 1
            run.finish()
        except BaseException:
            print("\n".join([run.said.text()] + run.job.lines[-20:]))
            for name in sorted(os.listdir(folder)):
                if name.startswith(("adopted.", "out-")):
                    with open(os.path.join(folder, name), errors="replace") as f:
                        print("%s: %s" % (name, f.read()[-2000:]))
            raise
        finally:
            run.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.SystemRandom().getrandbits(31)))
    parser.add_argument("--kind")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what survives agents is ended, too
    print("TEST_SEED=%d" % options.seed)
    os.environ["TEST_SEED"] = str(options.seed)
    draw = random.Random(options.seed)
    for shape in SHAPES:
        print("== " + (" and ".join(shape) or "plain"), flush=True)
        one_shape(draw, shape, options.seconds / len(SHAPES), options.kind)


if __name__ == "__main__":
    main()
