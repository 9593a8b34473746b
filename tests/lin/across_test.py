#!/usr/bin/env python3
"""Histories of the keys of a job of three hosts, with real agents over sockets, whatever is killed and broken meanwhile.

Two tasks a host do operations whose calls and answers are written down, and local reads; across_main.c says how they are
judged, and kills tasks' processes. Here agents are killed, the leader's too, and others adopt what they leave; connections
are reset; agents stop for a while; hosts are cut off for a moment. Run by hand, `across_test.py --seconds N [--seed S]
[--kind loopback]` goes on for so long.

timeout: 300
"""
import argparse
import os
import random
import re
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

ACROSS = os.path.join(os.environ["BUILD"], "tests/lin/across")
HOSTS, TASKS = 3, 2
PATIENCE = 120
SHORT = 20 if os.environ.get("VARIANT") == "asan" else 60  # faults


def is_gone(pid):
    """With all of its threads: the last of them lets go of what it had open."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            state = f.read().rpartition(")")[2].split()[0]
        return state in "ZX" and len(os.listdir("/proc/%d/task" % pid)) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("waited in vain until " + what)
        time.sleep(0.01)  # sleep: between two looks


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
    def __init__(self, field, folder, draw):
        self.field, self.folder, self.draw = field, folder, draw
        self.done = {}
        self.can_reset = self.can_cut = True
        board = os.path.join(folder, "board")
        self.job = faults_test.Job(field, 0, "--survive=5m", "--heartbeat-timeout", "60s", "--output",
                                   os.path.join(folder, "out-{rank}"), work=[ACROSS, "work", board], tasks=TASKS, label=False)
        self.agents = [self.job.process] + [None] * (HOSTS - 1)
        self.pids = [self.job.process.pid] + [0] * (HOSTS - 1)
        self.director = subprocess.Popen([ACROSS, "direct", board, self.job.name, str(HOSTS), str(HOSTS * TASKS)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True)
        self.said = Lines(self.director)

    def all_there(self):
        found = self.job.agents()
        for host in range(1, HOSTS):
            self.pids[host] = found.get(str(host), 0)
        return all(self.pids)

    def end(self):
        """Whatever has become of it: without tasks, agents end by themselves, and guards remove the segments."""
        board = os.path.join(self.folder, "board").encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
                if words[0] == ACROSS.encode() and board in words:
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue
        self.director.wait()
        for process in [agent for agent in self.agents if agent]:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.job.kill()

    def goes_on(self):
        """A window more has been judged."""
        count = len(self.said.lines)
        self.said.wait("it goes on", lambda lines: any((line or "").startswith("window ") for line in lines[count:]))

    # ---- what happens ----

    def part(self, host):
        return self.job.name + (".h%d" % host if host else "")

    def kill(self, *hosts):
        for host in hosts:
            os.kill(self.pids[host], signal.SIGKILL)
        for host in hosts:
            if self.agents[host]:
                self.agents[host].wait()
            until("agent %d is gone" % host, lambda pid=self.pids[host]: is_gone(pid))
            self.agents[host], self.pids[host] = None, 0

    def adopt(self, host):
        path = os.path.join(self.folder, "adopted.%d" % host)
        with open(path, "w") as out:
            command = [faults_test.MUSTER, "agent", "--adopt", self.part(host)]
            self.agents[host] = self.field.hosts[host].popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.pids[host] = self.agents[host].pid

        def adopted():
            with open(path) as f:
                text = f.read()
            if self.agents[host].poll() is not None:
                raise AssertionError("the agent of host %d has ended:\n%s" % (host, text))
            return " adopted: " in text

        until("host %d is adopted" % host, adopted)

    def kill_follower(self):
        host = self.draw.randrange(1, HOSTS)
        self.kill(host)
        self.adopt(host)

    def kill_leader(self):
        self.kill(0)
        self.adopt(0)

    def kill_several(self):
        hosts = self.draw.sample(range(HOSTS), self.draw.randrange(2, HOSTS + 1))
        self.kill(*hosts)
        for host in self.draw.sample(hosts, len(hosts)):
            self.adopt(host)

    def reset(self):
        for _ in range(self.draw.randrange(1, 6)):
            self.field.reset(self.draw.randrange(1, HOSTS), 0)
            time.sleep(self.draw.random() * 0.02)  # sleep: so far apart they are

    def cut(self):
        self.field.cut(self.draw.randrange(1, HOSTS), 0, back=self.draw.random() < 0.5)
        time.sleep(0.2)  # sleep: so long the cut lasts
        self.field.heal()

    def stop(self):
        pid = self.pids[self.draw.randrange(HOSTS)]
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
        for process in [agent for agent in self.agents if agent]:
            status = process.wait(PATIENCE)
            if status:
                raise AssertionError("an agent ended with status %d" % status)
        print("\n".join(line for line in self.said.lines if line and not line.startswith("window ")))
        print("faults: " + ", ".join("%s %d" % item for item in sorted(self.done.items())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.SystemRandom().getrandbits(31)))
    parser.add_argument("--kind")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what survives agents is ended, too
    print("TEST_SEED=%d" % options.seed)
    os.environ["TEST_SEED"] = str(options.seed)
    with tempfile.TemporaryDirectory(prefix="across-") as folder, Field(HOSTS, options.kind, folder) as field:
        print(field.words, flush=True)
        run = Run(field, folder, random.Random(options.seed))
        try:
            run.goes_on()  # guards, which are forked from agents, do not look like them any more
            until("all agents are there", run.all_there)
            end, number = time.monotonic() + options.seconds, 0
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


if __name__ == "__main__":
    main()
