#!/usr/bin/env python3
"""Jobs of several hosts, started by `muster run --hosts`, in networks that are slow, lossy, cut or reset.

Every task counts a counter up and meets the others, round by round. Whatever is done to the network within the hosts'
patience, all rounds are passed and the counter is exact; beyond it, the others are told which host is lost, and the job
ends. Run by hand, `faults_test.py HOSTS...` does the same plain job on so many hosts (64, 65, 100).

variants: release
timeout: 240
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from field import Field, NotHere  # noqa: E402

MUSTER = os.environ["MUSTER"]
WORKER = os.path.join(os.environ["BUILD"], "tests/bridge/worker")
PATIENCE = 120
ENDLESS = 1000000


def sockets(pid, state):
    """The TCP sockets of a process that are in this state, in whatever network it is."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            at = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            continue
        if at.startswith("socket:["):
            inodes.add(at[8:-1])
    count = 0
    for name in ("tcp", "tcp6"):
        with open("/proc/%d/net/%s" % (pid, name)) as f:
            count += sum(words[3] == state and words[9] in inodes for words in map(str.split, list(f)[1:]))
    return count


def connections(pid):
    return sockets(pid, "01")


def listens(pid):
    return sockets(pid, "0A") > 0


class Job:
    """muster run on the hosts of a field, from the first one; its output is read as it comes."""

    number = 0

    def __init__(self, field, rounds, *options, hosts=None, work=None, tasks=1, label=True):
        Job.number += 1
        self.name = "faults-%d-%d" % (os.getpid(), Job.number)
        self.count = hosts or len(field.hosts)
        self.stop_file = os.path.join(field.folder.name, "stop%d" % Job.number)
        names = ["localhost"] + [host.address for host in field.hosts[1:self.count]]
        hosts = ",".join("%s:%d" % (name, tasks) for name in names)
        command = [MUSTER, "run", "--job", self.name, "--hosts", hosts, "--address",
                   field.hosts[0].address, "--rsh", field.rsh(), *(["-l"] if label else []), *options, "--"]
        command += work or [WORKER, str(rounds)]
        command += [self.stop_file] if rounds == ENDLESS else []
        self.lines, self.changed = [], threading.Condition()
        self.process = field.hosts[0].popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("(ended)")
            self.changed.notify_all()

    def text(self):
        return "\n".join(self.lines)

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        with self.changed:
            while not re.search(pattern, self.text(), re.M):
                if time.monotonic() > end or self.lines[-1:] == ["(ended)"]:
                    raise AssertionError("never came: %s\n%s" % (pattern, self.text()))
                self.changed.wait(1)

    def goes_on(self):
        """All have passed three rounds more."""
        with self.changed:
            last = max([int(n) for n in re.findall(r"^\[0\] round (\d+)$", self.text(), re.M)], default=-1)
        for task in range(self.count):
            self.wait_for(r"^\[%d\] round %d$" % (task, last + 3))

    def stop(self):
        open(self.stop_file, "w").close()

    def ends(self):
        """Its exit status."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError("it does not end:\n" + self.text()) from None
        self.reader.join(PATIENCE)
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(30)
        self.process.stdout.close()

    def agents(self):
        """The followers' agents, by host; a child of one that does not look like anything else yet is none."""
        nodes, parents = {}, {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().decode(errors="replace").split("\0")
                with open("/proc/%s/stat" % pid) as f:
                    parents[int(pid)] = int(f.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if len(words) > 2 and words[0].endswith("muster") and words[1] == "agent" and self.name in words:
                nodes[int(pid)] = words[words.index("--node-id") + 1]
        return {node: pid for pid, node in nodes.items() if parents.get(pid) not in nodes}


class Faults(unittest.TestCase):
    kind = None

    def field(self, count):
        try:
            field = Field(count, self.kind)
        except NotHere as error:
            self.skipTest(str(error))
        print(field.words)
        self.addCleanup(field.close)
        return field

    def job(self, field, rounds, *options, **more):
        job = Job(field, rounds, *options, **more)
        self.addCleanup(job.kill)
        return job

    def all_passed(self, job, rounds=None):
        if not rounds:
            job.stop()
        self.assertEqual(job.ends(), 0, job.text()[-4000:])
        rounds = rounds or 1 + int(re.findall(r"^\[0\] round (\d+)$", job.text(), re.M)[-1])
        wanted = sorted("[%d] count %d" % (task, rounds * job.count) for task in range(job.count))
        self.assertEqual(sorted(line for line in job.lines if " count " in line), wanted, job.text()[-4000:])


class Anywhere(Faults):
    """Namespaces or loopback."""

    def test_two_three_and_eight_hosts(self):
        for count in (2, 3, 8):
            with self.subTest(hosts=count):
                self.all_passed(self.job(self.field(count), 10), 10)

    def test_connections_are_reset_again_and_again(self):
        field = self.field(3)
        job = self.job(field, ENDLESS)
        try:
            for turn in range(8):
                job.goes_on()
                self.assertGreater(field.reset(1 + turn % 2, 0), 0)
        except NotHere as error:
            self.skipTest("no resets: %s" % error)
        job.goes_on()
        self.all_passed(job)

    def test_an_agent_that_is_stopped_for_a_while_delays_the_others(self):
        job = self.job(self.field(3), ENDLESS)
        job.goes_on()
        agent = job.agents()["2"]
        os.kill(agent, signal.SIGSTOP)
        time.sleep(1)  # sleep: so long it is stopped
        os.kill(agent, signal.SIGCONT)
        job.goes_on()
        self.all_passed(job)

    def test_a_killed_agent_ends_the_job_and_is_named(self):
        field = self.field(3)
        job = self.job(field, ENDLESS)
        job.goes_on()
        os.kill(job.agents()["1"], signal.SIGKILL)
        self.assertNotEqual(job.ends(), 0)
        self.assertRegex(job.text(), re.escape(field.hosts[1].address))


class Switched(Faults):
    kind = "switch"

    def test_delay_and_loss(self):
        field = self.field(3)
        field.path(delay=0.1, loss=0.05)  # 200 ms there and back
        self.all_passed(self.job(field, 5), 5)

    def test_a_cut_within_patience_is_made_good(self):
        field = self.field(3)
        job = self.job(field, ENDLESS)
        for one, other, back in ((2, 0, True), (1, 0, False), (0, 2, False)):
            job.goes_on()
            field.cut(one, other, back=back)
            time.sleep(1.5)  # sleep: so long the cut lasts
            field.heal()
        job.goes_on()
        self.all_passed(job)

    def test_a_host_that_stays_away_is_lost_and_named(self):
        field = self.field(3)
        job = self.job(field, ENDLESS, "--heartbeat-timeout", "2s")
        job.goes_on()
        field.cut(2)
        self.assertNotEqual(job.ends(), 0)
        self.assertRegex(job.text(), re.escape(field.hosts[2].address))
        end = time.monotonic() + PATIENCE
        while job.agents() and time.monotonic() < end:  # on the far side they give up by themselves
            time.sleep(0.1)  # sleep: between two looks
        self.assertEqual(job.agents(), {}, "agents are left behind a network that is cut")


def by_hand(counts):
    for count in counts:
        with Field(count) as field:
            began = time.monotonic()
            job = Job(field, 10)
            try:
                status = job.ends()
            finally:
                job.kill()
            right = sum(line.endswith(" count %d" % (10 * count)) for line in job.lines)
            print("%d hosts (%s): status %d, %d of %d tasks counted right, %.1f s" % (count, field.words, status, right,
                                                                                     count, time.monotonic() - began))
            if status or right != count:
                sys.exit("\n".join(job.lines[-40:]))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        by_hand(map(int, sys.argv[1:]))
    else:
        unittest.main(verbosity=2)
