#!/usr/bin/env python3
"""With --latency, jobs of two hosts, whose tasks tell each other by datagrams that they have come (barrier/shortcut.h).

Round by round the tasks pass a group's barrier a hundred times, add numbers up and count; whatever becomes of agents and
connections, each counter is exact and all go on. That datagrams do it is seen in the kernel's own count of them.

variants: release
timeout: 400
"""
import os
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree_latency_test  # noqa: E402
from field import NotHere  # noqa: E402

os.environ["WORKER_DOES"] = "swift"
tree_latency_test.HOSTS = 2
del os.environ["MUSTER_STAR_HOSTS"]


class Pair(tree_latency_test.Latency):
    def datagrams(self):
        """Sent by the leader's host until now: of its network, or of this machine's."""
        with open("/proc/%d/net/snmp" % self.agents.pids[0]) as f:
            names, values = [line.split() for line in f if line.startswith("Udp:")]
        return int(values[names.index("OutDatagrams")])

    def tasks_speak(self):
        """Agents decide what comes before their tasks have a way to each other, which on a loaded machine is much."""
        before, give_up = self.datagrams(), time.monotonic() + 100
        self.goes_on()
        while self.datagrams() - before <= 30:
            self.assertLess(time.monotonic(), give_up, "%d datagrams were sent" % (self.datagrams() - before))
            self.goes_on()

    def test_datagrams_are_sent_and_go_on_when_agents_were_replaced(self):
        self.begin()
        self.tasks_speak()
        self.renew(1)
        self.renew(0)
        self.renew(0, 1)
        self.tasks_speak()
        self.all_passed()

    def test_connections_are_reset(self):
        self.begin()
        try:
            for _ in range(6):
                self.assertGreater(self.place.reset(1, 0), 0)
                self.goes_on()
        except NotHere as error:
            self.skipTest("no resets: %s" % error)
        self.all_passed()

    def test_agents_come_back_only_after_a_while(self):
        self.begin()
        for host in (1, 0):
            self.agents.kill(host)
            time.sleep(0.5)  # sleep: so long the other waits for it
            self.agents.adopt(host)
            self.goes_on()
        self.all_passed()


# what has relays is the other test's
for name in dir(Pair):
    if name.startswith("test_") and name not in vars(Pair):
        setattr(Pair, name, None)
del tree_latency_test.Latency

if __name__ == "__main__":
    unittest.main(verbosity=2)
