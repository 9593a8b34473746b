#!/usr/bin/env python3
"""Jobs whose hosts come to the leader by relays, as above 64 hosts; here above two, so that eight make a tree.

The hosts and the faults are those of faults_test.py. Every task counts and meets the others, round by round, adds numbers up
with them in a group, reads their keys behind the barrier, and reads each event that they send.

variants: release
timeout: 400
"""
import os
import re
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults_test  # noqa: E402
from faults_test import connections, listens  # noqa: E402
from field import NotHere  # noqa: E402

os.environ["MUSTER_STAR_HOSTS"] = "2"
os.environ["WORKER_DOES"] = "all"
HOSTS, RELAYS = 8, 2  # so five are behind the two


class Trees(faults_test.Faults):
    def begin(self, kind=None, *options):
        self.kind = kind
        field = self.field(HOSTS)
        job = self.job(field, faults_test.ENDLESS, *options)
        job.goes_on()
        agents = job.agents()
        self.assertEqual(len(agents), HOSTS - 1)
        return field, job, {int(node): pid for node, pid in agents.items()}

    def relays(self, agents):
        """Those that others are connected to; at least one: who could not reach a relay in time is the leader's."""
        end = time.monotonic() + faults_test.PATIENCE
        found = []
        while not 1 <= len(found) <= RELAYS:
            self.assertLess(time.monotonic(), end, {node: connections(pid) for node, pid in agents.items()})
            found = [node for node, pid in agents.items() if listens(pid) and connections(pid) > 1]
        return found

    def only_is_lost(self, field, node, job):
        lost = re.findall(r"^muster run: host (\S+) is lost", job.text(), re.M)
        self.assertEqual(lost, [field.hosts[node].address], job.text()[-4000:])

    def test_few_are_connected_to_the_leader(self):
        _, job, agents = self.begin()
        behind = sum(connections(agents[node]) - 1 for node in self.relays(agents))
        self.assertEqual(connections(job.process.pid), HOSTS - 1 - behind)
        self.all_passed(job)

    def test_connections_are_reset_again_and_again(self):
        field, job, agents = self.begin()
        try:
            for turn in range(3):
                for node in self.relays(agents):
                    self.assertGreater(field.reset(node, 0), 0)  # the relay's own, and so all behind it
                job.goes_on()
            for relay in self.relays(agents):
                for node in range(1, HOSTS):
                    field.reset(node, relay)
            job.goes_on()
        except NotHere as error:
            self.skipTest("no resets: %s" % error)
        self.all_passed(job)

    def test_a_relay_that_is_stopped_for_a_while_delays_the_others(self):
        _, job, agents = self.begin()
        relay = agents[self.relays(agents)[0]]
        os.kill(relay, signal.SIGSTOP)
        time.sleep(1)  # sleep: so long it hears nothing, and nobody behind it does
        os.kill(relay, signal.SIGCONT)
        job.goes_on()
        self.all_passed(job)

    def test_a_cut_around_a_relay_is_made_good(self):
        field, job, agents = self.begin("switch")
        node = self.relays(agents)[0]
        for other in (0, None):  # from the leader only, from all
            field.cut(node, other)
            time.sleep(1.5)  # sleep: less than their patience
            field.heal()
            job.goes_on()
        self.all_passed(job)

    def test_hosts_behind_a_relay_that_stays_away_come_again(self):
        # half of it is their patience with the relay; the rest is to come anew in, on any machine
        field, job, agents = self.begin("switch", "--heartbeat-timeout", "20s")
        node = self.relays(agents)[0]
        field.cut(node)
        self.assertNotEqual(job.ends(), 0)
        self.only_is_lost(field, node, job)

    def test_only_the_tasks_of_a_killed_relay_are_lost(self):
        field = self.field(HOSTS)
        count = 'n=0; until [ -e "$1" ]; do "$MUSTER" kv increment count > /dev/null || exit 7; echo round $((n += 1)); done'
        job = self.job(field, faults_test.ENDLESS, "--kill-on-fail=no", work=["sh", "-c", count, "sh"])
        for task in range(HOSTS):
            job.wait_for(r"^\[%d\] round 2$" % task)
        agents = {int(node): pid for node, pid in job.agents().items()}
        node = self.relays(agents)[0]
        os.kill(agents[node], signal.SIGKILL)
        job.wait_for(r"^muster run: host \S+ is lost")
        for task in set(range(HOSTS)) - {node}:
            rounds = len(re.findall(r"^\[%d\] round" % task, job.text(), re.M))
            job.wait_for(r"^\[%d\] round %d$" % (task, rounds + 5))
        job.stop()
        job.ends()
        self.only_is_lost(field, node, job)
        self.assertNotIn("status 7", job.text())

    def test_what_is_no_number_of_hosts_is_said(self):
        os.environ["MUSTER_STAR_HOSTS"] = "some"
        self.addCleanup(os.environ.__setitem__, "MUSTER_STAR_HOSTS", "2")
        job = self.job(self.field(2), 1)
        self.all_passed(job, 1)
        self.assertIn("MUSTER_STAR_HOSTS is 'some', not a number of hosts from 1 to 4096: it is ignored", job.text())

    def test_a_relay_that_nobody_reaches_is_done_without(self):
        self.kind = "switch"
        field = self.field(HOSTS)
        for node in range(1, HOSTS):
            for other in range(1, HOSTS):
                if node != other:
                    field.cut(node, other)
        job = self.job(field, faults_test.ENDLESS)
        job.goes_on()
        self.assertEqual(connections(job.process.pid), HOSTS - 1)
        self.all_passed(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
