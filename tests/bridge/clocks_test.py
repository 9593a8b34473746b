#!/usr/bin/env python3
"""Jobs whose hosts have clocks that are hours apart, and calendars that are days apart: durations alone go from host to
host, so nothing is early or late, and every age that a host shows is by its own clock.

A host's clock is a time namespace, in which its agent and its tasks run; its calendar is libfake_clock.so.

variants: release
timeout: 240
"""
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import faults_test  # noqa: E402
from preload import preloadable  # noqa: E402

LIBRARY = preloadable(os.path.join(os.environ["BUILD"], "tests/bridge/libfake_clock.so"))
HOUR, DAY = 3600, 86400
TOO_LONG = 1800  # seconds: no age of a test is more, and every clock is further apart
LOOK = r"""
set -e
muster() { "$MUSTER" "$@" > /dev/null; }
look() { "$MUSTER" status --json > "$1/status.$2.$RANK"; }
cat /proc/self/timens_offsets > "$1/clock.$RANK"
date +%s > "$1/calendar.$RANK"
muster barrier wait begun
muster event send --type 7 "of $RANK"
muster barrier wait --timeout 100s sent
if [ $RANK = 2 ]; then
    sleep 2 # sleep: the others wait so long at least
    look "$1" waiting
fi
muster barrier wait --timeout 100s met # by who came later, too
"$MUSTER" event read --json > "$1/events.$RANK"
if [ $RANK != 2 ]; then # who does not come is waited for as long as was said, and no longer
    if "$MUSTER" barrier wait --timeout 1s missed 2> "$1/missed.$RANK"; then echo "it was not missed"; exit 1; fi
fi
look "$1" last
muster barrier wait end
"""


def uptime():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


def clocks():
    """Of each host, how far ahead: (clock, calendar), in seconds. No clock can be below 0."""
    back = int(min(5 * HOUR, uptime() - 60))
    if back < TOO_LONG:
        back = -9 * HOUR  # this machine has only just started
    return [(0, 0), (5 * HOUR, 3 * DAY), (-back, -2 * DAY)]


CLOCKS = clocks()


class Clocks(faults_test.Faults):
    def field(self, count):
        try:
            subprocess.run(["unshare", "--time", "true"], check=True, stderr=subprocess.PIPE)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest("no time namespaces: %s" % error)
        field = super().field(count)
        inner, path = field.rsh(), os.path.join(field.folder.name, "rsh-with-clock")
        cases = ""
        for host, (clock, calendar) in zip(field.hosts, CLOCKS):
            cases += "%s) c=%d; export FAKE_CLOCK_SECONDS=%d ;;\n" % (host.address, clock, calendar)
        with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o700)) as f:
            f.write("#!/bin/sh\ncase $1 in\n%sesac\nexport LD_PRELOAD='%s'\n" % (cases, LIBRARY) +
                    'exec unshare --time --monotonic=$c --boottime=$c "%s" "$@"\n' % inner)
        field.rsh = lambda: "'%s'" % path if " " in path else path
        return field

    def work(self, text, *arguments):
        """A command whose processes have their host's calendar; the launcher's environment is every task's."""
        days = " ".join(str(calendar) for _, calendar in CLOCKS)
        before = ('set -- %s "$@"; shift $MUSTER_NODE_ID; FAKE_CLOCK_SECONDS=$1; shift $((3 - MUSTER_NODE_ID)); '
                  "export FAKE_CLOCK_SECONDS LD_PRELOAD='%s'\n" % (days, LIBRARY))
        return ["sh", "-c", before + text, "sh", *arguments]

    def job_with(self, field, rounds, *options, text=None, arguments=(), **more):
        text = text or "exec '%s' \"$@\"" % faults_test.WORKER
        return self.job(field, rounds, *options, work=self.work(text, *arguments), **more)

    def test_hosts_whose_clocks_are_hours_apart_pass_all_rounds(self):
        os.environ["WORKER_DOES"] = "all"
        self.addCleanup(os.environ.pop, "WORKER_DOES")
        job = self.job_with(self.field(3), 20, arguments=["20"])
        self.all_passed(job, 20)

    def read(self, field, name):
        with open(os.path.join(field.folder.name, name)) as f:
            return f.read()

    def is_recent(self, now, then, what):
        self.assertLessEqual(then, now, what)
        self.assertLess(now - then, TOO_LONG * 1e9, what)

    def test_ages_are_by_the_clock_of_who_looks(self):
        field = self.field(3)
        job = self.job_with(field, 0, text=LOOK, arguments=[field.folder.name])
        self.assertEqual(job.ends(), 0, job.text())
        calendars = [int(self.read(field, "calendar.%d" % rank)) for rank in range(3)]
        for rank, (clock, calendar) in enumerate(CLOCKS):
            self.assertIn(str(clock), self.read(field, "clock.%d" % rank).split())  # the test itself is as it should be
            self.assertLess(abs(calendars[rank] - calendars[0] - calendar), TOO_LONG)
        for name in ("waiting.2", "last.0", "last.1", "last.2"):
            it = json.loads(self.read(field, "status." + name))
            self.assertEqual([host["state"] for host in it["hosts"]], ["up"] * 3)
            for host in it["hosts"]:
                self.is_recent(it["now_ns"], host["since_ns"], (name, host))
                self.is_recent(it["now_ns"], host["heard_ns"] or it["now_ns"], (name, host))
                self.assertLess(host["rtt_ns"] or 0, 60e9, (name, host))
            for task in it["tasks"]:
                self.is_recent(it["now_ns"], task["since_ns"], (name, task))
            for barrier in it["barriers"]:
                self.is_recent(it["now_ns"], barrier["since_ns"], (name, barrier))
        open_one = [b for b in json.loads(self.read(field, "status.waiting.2"))["barriers"] if b["id"] == "met"]
        self.assertEqual([b["deadline_ns"] - b["since_ns"] for b in open_one], [100 * 10 ** 9])
        for rank in range(3):
            now = json.loads(self.read(field, "status.last.%d" % rank))["now_ns"]
            events = [json.loads(line) for line in self.read(field, "events.%d" % rank).splitlines()]
            self.assertEqual(sorted(event["payload"] for event in events), ["of 0", "of 1", "of 2"])
            for event in events:
                self.is_recent(now, event["time_ns"], (rank, event))
            if rank < 2:
                self.assertRegex(self.read(field, "missed.%d" % rank), r"missed.*task 2")

    def test_an_idle_host_is_kept_and_one_that_is_cut_off_is_lost(self):
        self.kind = "switch"
        field = self.field(3)
        idle = "'%s' barrier wait begun > /dev/null; sleep 9; echo awake; exec sleep 900" % faults_test.MUSTER  # sleep: idle
        job = self.job_with(field, 0, "--heartbeat-timeout", "4s", "--grace", "300ms", text=idle)
        for rank in range(3):
            job.wait_for(r"^\[%d\] awake$" % rank)
        self.assertNotIn("lost", job.text())
        field.cut(1)
        self.assertNotEqual(job.ends(), 0)
        self.assertRegex(job.text(), r"(?m)^muster run: host %s is lost: " % field.hosts[1].address)
        self.assertRegex(job.text(), "nothing was heard of it for")  # each side says so, unless the other was first


if __name__ == "__main__":
    unittest.main(verbosity=2)
