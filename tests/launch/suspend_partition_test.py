#!/usr/bin/python3
"""Processes that are stopped while the network goes: ^Z of a job of two hosts, whose agents take silence for nothing then,
but the kernels of the two ask each other, and what they find ends the job on both; and an agent that is stopped, and goes
on when its host has been given up.

variants: release
timeout: 240
"""
import os
import signal
import subprocess
import sys
import time
import unittest

TOP, BUILD, TMPDIR = os.environ["TOP"], os.environ["BUILD"], os.environ["TMPDIR"]
sys.path.insert(0, os.path.join(TOP, "tests", "bridge"))
from field import Field, NotHere  # noqa: E402

PATIENCE = 60
MARK = "MUSTER_TEST_MARK=%d-%d" % (os.getpid(), time.monotonic_ns())


def ours(*words):
    """Processes of this test with these words in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as f:
                environment = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if environment != [""] and all(word in environment for word in (MARK, *words)):
            found.append(int(name))
    return found


def state(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


class Partition(unittest.TestCase):
    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, "not in time: " + what)
            time.sleep(0.05)

    def round(self):
        try:
            with open(os.path.join(TMPDIR, "round")) as f:
                return int(f.read())
        except OSError:
            return 0

    def field(self):
        try:
            field = Field(2, "switch")
        except (NotHere, OSError) as error:
            self.skipTest("no network that can be cut: %s" % error)
        self.addCleanup(field.close)
        for name in ("stop", "round"):  # of the test before
            if os.path.exists(os.path.join(TMPDIR, name)):
                os.unlink(os.path.join(TMPDIR, name))
        return field

    def goes_on(self):
        past = self.round() + 4
        self.until("the tasks go on", lambda: self.round() >= past)

    def begin(self, field, timeout):
        name, value = MARK.split("=")
        addresses = [host.address for host in field.hosts]
        self.job = "t%d-partition" % os.getpid()
        words = [os.environ["MUSTER"], "run", "--job", self.job, "--rsh", field.rsh(), "--hosts",
                 ",".join(address + ":1" for address in addresses), "--heartbeat-timeout", timeout, "--grace", "500ms", "--",
                 os.path.join(BUILD, "tests", "launch", "counts"), TMPDIR]
        self.said = open(os.path.join(TMPDIR, "said"), "w+")
        self.addCleanup(self.said.close)
        job = field.hosts[0].popen(words, env={**os.environ, name: value}, stdin=subprocess.DEVNULL, stdout=self.said,
                                   stderr=self.said, process_group=0)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.goes_on()
        return job

    def text(self):
        self.said.seek(0)
        return self.said.read()

    def suspend(self, job):
        here, there = (ours("MUSTER_TASK_ID=%d" % task) for task in (0, 1))
        self.assertEqual((len(here), len(there)), (1, 1))
        os.kill(job.pid, signal.SIGTSTP)
        for pid in (job.pid, *here, *there):
            self.until("process %d is stopped" % pid, lambda pid=pid: state(pid) == "T")
        return here, there

    def test_a_short_cut_while_a_job_is_stopped_is_not_noticed(self):
        field = self.field()
        job = self.begin(field, "60s")
        self.suspend(job)
        field.cut(1)
        time.sleep(2)  # sleep: so long the cut lasts; the kernels ask, and go on asking
        field.heal()
        os.kill(job.pid, signal.SIGCONT)
        self.goes_on()
        open(os.path.join(TMPDIR, "stop"), "w").close()
        self.until("the launcher has ended", lambda: job.poll() is not None)
        self.assertEqual((job.returncode, "lost" in self.text()), (0, False), self.text())

    def test_an_agent_that_is_stopped_until_its_host_is_given_up_ends_when_it_goes_on(self):
        field = self.field()
        name, value = MARK.split("=")
        agents, said = [], []
        for node, host in enumerate(field.hosts):
            command = [os.environ["MUSTER"], "agent", "--join", field.hosts[0].address + ":4711", "--node-id", str(node), "--nodes", "2",
                       "--heartbeat-timeout", "2s", "--grace", "500ms", "--host-name", host.name, "--",
                       os.path.join(BUILD, "tests", "launch", "counts"), TMPDIR]
            said.append(open(os.path.join(TMPDIR, "said.%d" % node), "w+"))
            self.addCleanup(said[-1].close)
            agents.append(host.popen(command, env={**os.environ, name: value, "MUSTER_KEY": "07" * 32}, stdin=subprocess.DEVNULL,
                                     stdout=said[-1], stderr=said[-1]))
            self.addCleanup(agents[-1].wait)
            self.addCleanup(agents[-1].kill)
        self.goes_on()
        task = ours("MUSTER_TASK_ID=1")
        self.assertEqual(len(task), 1)
        agents[1].send_signal(signal.SIGSTOP)
        field.cut(1)
        self.until("the leader has ended", lambda: agents[0].poll() is not None)
        said[0].seek(0)
        self.assertRegex(said[0].read(), r"(?m)host h1 is lost: nothing was heard of it for")
        self.assertEqual((state(agents[1].pid), state(task[0]) in ("Z", "gone")), ("T", False))  # nobody there knows
        field.heal()
        agents[1].send_signal(signal.SIGCONT)
        self.until("the other agent has ended", lambda: agents[1].poll() is not None)
        self.assertNotEqual(agents[1].returncode, 0)
        said[1].seek(0)
        self.assertRegex(said[1].read(), r"(?m)the leader is lost: .*; ending 1 task")
        self.until("no process is left", lambda: not ours())

    def test_a_job_that_is_stopped_ends_when_its_network_has_gone(self):
        self.network_goes(lambda field: None)

    def test_nor_does_what_is_on_its_way_then_keep_it(self):
        """A kernel that has sent something sends it again, for longer than it would ask one that is silent."""
        def ask(field):
            name, value = MARK.split("=")
            words = [os.environ["MUSTER"], "kv", "set", "--job", self.job + ".h1", "key", "value"]
            asks = field.hosts[1].popen(words, env={**os.environ, name: value}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(asks.wait)
            self.addCleanup(asks.kill)

        self.network_goes(ask)

    def network_goes(self, then):
        field = self.field()
        job = self.begin(field, "4s")
        here, there = self.suspend(job)
        field.cut(1)
        then(field)
        self.until("the other host's task has ended", lambda: state(there[0]) in ("gone", "Z"))
        self.assertEqual([state(pid) for pid in (job.pid, *here)], ["T", "T"])
        os.kill(job.pid, signal.SIGCONT)
        self.until("the launcher has ended", lambda: job.poll() is not None)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(self.text(), r"(?m)^muster run: host %s is lost" % field.hosts[1].address)
        self.until("no process is left", lambda: not ours())


if __name__ == "__main__":
    unittest.main(verbosity=2)
