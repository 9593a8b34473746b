#!/usr/bin/env python3
"""With --latency, jobs of eight hosts whose most come by relays: their agents die, and others adopt what these leave.

Every task counts and meets the others, round by round: it adds numbers up with them in a group, passes the group's
barrier, to which one always comes late, and a named one, each time with the counter as exact as that promises; it reads
their keys and each event.

variants: release
timeout: 400
"""
import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults_test  # noqa: E402
from faults_test import connections, listens  # noqa: E402
from field import NotHere  # noqa: E402
from survivors import PATIENCE, Agents, until  # noqa: E402

os.environ["MUSTER_STAR_HOSTS"] = "2"
os.environ["WORKER_DOES"] = "late"
HOSTS, RELAYS = 8, 2


class Latency(faults_test.Faults):
    def begin(self):
        folder = tempfile.TemporaryDirectory(prefix="latency-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.place = self.field(HOSTS)
        self.job = faults_test.Job(self.place, faults_test.ENDLESS, "--latency", "--survive=5m", "--heartbeat-timeout", "60s",
                                   "--output", os.path.join(self.folder, "out-{rank}"), label=False)
        self.agents = Agents(self.place, self.job, self.folder)
        self.addCleanup(self.end)
        signal.signal(signal.SIGTERM, self.is_ended)
        self.goes_on()
        until("all agents are there", self.agents.all_there)

    def end(self):
        self.agents.end_tasks(faults_test.WORKER, self.job.stop_file)
        self.agents.end()

    def is_ended(self, number, _):
        """What survives agents is ended, too."""
        self.doCleanups()
        os._exit(128 + number)

    def text(self, task):
        try:
            with open(os.path.join(self.folder, "out-%d" % task)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def rounds(self):
        """The least that a task has passed; a fault that one says is raised."""
        texts = [self.text(task) for task in range(HOSTS)]
        for text in texts:
            self.assertNotIn("failed", text)
        return min(text.count("round") for text in texts)

    def goes_on(self):
        """Everybody passes three rounds more."""
        end, wanted = time.monotonic() + PATIENCE, self.rounds() + 3
        while self.rounds() < wanted:
            if time.monotonic() > end:
                raise AssertionError("it does not go on:\n" + self.all_said())
            time.sleep(0.01)  # sleep: between two looks

    def all_said(self):
        said = [self.job.text()[-2000:]]
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), errors="replace") as f:
                said.append("%s: %s" % (name, f.read()[-500:]))
        return "\n".join(said)

    def relays(self):
        """Their numbers: those that others are connected to."""
        found = []

        def any_is_there():
            nonlocal found
            found = [host for host in range(1, HOSTS)
                     if listens(self.agents.pids[host]) and connections(self.agents.pids[host]) > 1]
            return found

        until("a host relays", any_is_there)
        return found

    def leaf(self):
        """One that is not connected to the leader, if any is not: nobody is connected to it."""
        relays = self.relays()
        return next(host for host in range(HOSTS - 1, 0, -1) if host not in relays)

    def renew(self, *hosts):
        """They are killed at once; each is adopted; it goes on."""
        self.agents.kill(*hosts)
        for host in reversed(hosts):
            self.agents.adopt(host)
        self.goes_on()

    def all_passed(self):
        self.job.stop()
        self.agents.all_end()
        rounds = self.text(0).count("round")
        for task in range(HOSTS):
            self.assertEqual(re.findall(r"^count (\d+)$", self.text(task), re.M), [str(rounds * HOSTS)], self.text(task)[-500:])
            self.assertEqual(self.text(task).count("round"), rounds)

    def test_relays_those_behind_them_and_the_leader_die_and_are_adopted(self):
        self.begin()
        self.renew(self.relays()[0])
        self.renew(self.leaf())
        self.renew(0)
        self.renew(*self.relays())
        self.renew(0, self.relays()[0])
        self.renew(self.leaf(), self.relays()[0], 0)
        self.all_passed()

    def test_agents_die_while_connections_are_reset(self):
        self.begin()
        try:
            for host in self.relays():
                self.assertGreater(self.place.reset(host, 0), 0)
                self.renew(self.leaf())
            for relay in self.relays():
                for host in range(1, HOSTS):
                    if host != relay:
                        self.place.reset(host, relay)
                self.renew(relay)
        except NotHere as error:
            self.skipTest("no resets: %s" % error)
        self.all_passed()

    def test_what_was_said_to_an_agent_that_heard_no_more_is_said_again(self):
        """That of a host that had the last word of a barrier, and let its members pass, too."""
        self.begin()
        for _ in range(6):
            for host in (self.relays()[0], 0):
                os.kill(self.agents.pids[host], signal.SIGSTOP)
                time.sleep(0.05)  # sleep: so long others say what it does not hear
                self.renew(host)
        self.all_passed()

    def test_an_agent_dies_and_comes_back_only_after_a_while(self):
        self.begin()
        for host in (self.relays()[0], self.leaf(), 0):
            self.agents.kill(host)
            time.sleep(0.5)  # sleep: so long all others wait for it, and poll
            self.agents.adopt(host)
            self.goes_on()
        self.all_passed()


if __name__ == "__main__":
    unittest.main(verbosity=2)
