#!/usr/bin/env python3
"""Memory and processor time of the launcher and of the agents that it starts: a program as run.py's others are.

    agent.py memory MUSTER TASKS             resident bytes while the tasks sleep
    agent.py idle MUSTER TENANT SECONDS      processor time while nobody does anything; several jobs at once
    agent.py busy MUSTER TENANT SECONDS      the same while the tasks (bench/tenant.c) do nothing but barriers

Processor time is what the kernel's scheduler counts, in nanoseconds (/proc/PID/task/TID/schedstat), of all threads of a
job's agent and of its guard.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

RSH = '#!/bin/sh\nshift\nexec sh -c "$*"\n'  # "the other host" is here
SETTLE = 1.0  # seconds from the start of all until what is measured begins


def emit(metric, value, unit):
    print(json.dumps({"metric": metric, "who": "muster", "value": value, "unit": unit}))


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def children(pid):
    return [int(child) for path in glob.glob("/proc/%d/task/*/children" % pid) for child in read(path).split()]


def family(pid):
    """The process and all that come from it."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def words(pid):
    return read("/proc/%d/cmdline" % pid).split("\0")


def is_guard(pid):
    return words(pid)[0].startswith("mu-guard")


def used_ns(pid):
    found = [read(path).split() for path in glob.glob("/proc/%d/task/*/schedstat" % pid)]  # [] of a thread that has just ended
    return sum(int(fields[0]) for fields in found if fields)


def resident(pid):
    """(resident bytes, those with what is shared divided by the sharers) of a process."""
    fields = dict(line.split(":", 1) for line in read("/proc/%d/smaps_rollup" % pid).splitlines() if line.endswith("kB"))
    return int(fields["Rss"].split()[0]) << 10, int(fields["Pss"].split()[0]) << 10


class Job:
    """`muster run` with these words, from its start to its end."""

    def __init__(self, muster, tasks, *arguments):
        self.tasks = tasks
        self.process = subprocess.Popen([muster, "run", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def agent(self, which):
        """The pids that count: the launcher or the agent that it has started on the other host, each with its guard."""
        leader = self.process.pid
        if which == "leader":
            return [leader] + [pid for pid in children(leader) if is_guard(pid)]
        found = [pid for pid in family(leader) if len(words(pid)) > 1 and words(pid)[1] == "agent"]
        return found + [pid for one in found for pid in children(one) if is_guard(pid)]

    def tenants(self):
        return [pid for pid in family(self.process.pid) if os.path.basename(words(pid)[0]) in ("sleep", "tenant")]

    def wait_for_all(self):
        end = time.monotonic() + 30
        while len(self.tenants()) < self.tasks:
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit("the job's tasks did not come")
            time.sleep(0.02)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def memory(muster, tasks):
    job = Job(muster, int(tasks), "-n", tasks, "--", "sleep", "60")
    try:
        job.wait_for_all()
        time.sleep(0.2)  # a little longer; then what it has is what it needs
        rss, pss = resident(job.process.pid)
    finally:
        job.end()
    emit("memory.agent.%s" % tasks, rss, "bytes")
    emit("memory.agent.%s.pss" % tasks, pss, "bytes")


def two_hosts(folder):
    rsh = os.path.join(folder, "rsh")
    with open(rsh, "w") as f:
        f.write(RSH)
    os.chmod(rsh, 0o755)
    return ["--hosts", "localhost:4,other:4", "--rsh", rsh]


def watch(watched, seconds):
    """Shares of a processor, in percent, of {name: pids} while so many seconds go by."""
    for name, pids in watched.items():
        if not pids or not all(map(used_ns, pids)):
            raise SystemExit("%s: no process, or the kernel does not tell what it uses" % name)
    before = {pid: used_ns(pid) for pids in watched.values() for pid in pids}
    began = time.monotonic_ns()
    time.sleep(seconds)
    wall = time.monotonic_ns() - began
    used = {pid: used_ns(pid) - before[pid] for pid in before}
    if min(used.values()) < 0:
        raise SystemExit("a process or a thread that was watched has ended: what it used is not known")
    return {name: 100.0 * sum(used[pid] for pid in pids) / wall for name, pids in watched.items()}


def idle(muster, tenant, seconds):
    stay = [tenant, "idle", str(seconds + 60)]
    with tempfile.TemporaryDirectory() as folder:
        jobs = {"run": Job(muster, 8, "-n", "8", "--", "sleep", "100"),
                "joined": Job(muster, 8, "-n", "8", "--", *stay),
                "serving": Job(muster, 8, "-n", "8", "--grpc", "--tcpstore", "--", "sleep", "100"),
                "hosts": Job(muster, 8, *two_hosts(folder), "--", *stay)}
        try:
            for job in jobs.values():
                job.wait_for_all()
            time.sleep(SETTLE)
            watched = {name: jobs[name].agent("leader") for name in ("run", "joined", "serving")}
            watched.update({"task": jobs["joined"].tenants()[:1], "leader": jobs["hosts"].agent("leader"),
                            "follower": jobs["hosts"].agent("follower")})
            for name, share in watch(watched, seconds).items():
                emit("agent.idle." + name, share, "%")
        finally:
            for job in jobs.values():
                job.end()


def busy(muster, tenant, seconds):
    with tempfile.TemporaryDirectory() as folder:
        for what, names, how in (("group", ["run"], ["-n", "8"]), ("named", ["leader", "follower"], two_hosts(folder))):
            job = Job(muster, 8, *how, "--", tenant, what, str(seconds + SETTLE + 60))
            try:
                job.wait_for_all()
                time.sleep(SETTLE)
                watched = {name: job.agent("leader" if name == "run" else name) for name in names}
                for name, share in watch(watched, seconds).items():
                    emit("agent.busy." + name, share, "%")
                for name in names if len(names) > 1 else []:
                    emit("agent.busy.rss." + name, resident(watched[name][0])[0], "bytes")
            finally:
                job.end()


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("memory", "idle", "busy"):
        raise SystemExit("usage: agent.py memory MUSTER TASKS | idle MUSTER TENANT SECONDS | busy MUSTER TENANT SECONDS")
    if sys.argv[1] == "memory":
        memory(*sys.argv[2:4])
    else:
        (idle if sys.argv[1] == "idle" else busy)(sys.argv[2], sys.argv[3], float(sys.argv[4]))


if __name__ == "__main__":
    main()
