"""Agents of a job that was started with --survive: they are killed, and others adopt what they leave."""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults_test  # noqa: E402

PATIENCE = faults_test.PATIENCE


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


class Agents:
    """Of each host of a faults_test.Job: at first its own, then who has adopted the host last."""

    def __init__(self, field, job, folder):
        self.field, self.job, self.folder = field, job, folder
        self.processes = [job.process] + [None] * (len(field.hosts) - 1)  # our children
        self.pids = [job.process.pid] + [0] * (len(field.hosts) - 1)

    def all_there(self):
        """Once tasks run: guards, which are forked from agents, do not look like them any more."""
        found = self.job.agents()
        for host in range(1, len(self.pids)):
            self.pids[host] = found.get(str(host), 0)
        return all(self.pids)

    def kill(self, *hosts):
        for host in hosts:
            os.kill(self.pids[host], signal.SIGKILL)
        for host in hosts:
            if self.processes[host]:
                self.processes[host].wait()
            until("agent %d is gone" % host, lambda pid=self.pids[host]: is_gone(pid))
            self.processes[host], self.pids[host] = None, 0

    def adopt(self, host):
        path = os.path.join(self.folder, "adopted.%d" % host)
        part = self.job.name + (".h%d" % host if host else "")
        with open(path, "w") as out:
            command = [faults_test.MUSTER, "agent", "--adopt", part]
            process = self.field.hosts[host].popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.processes[host], self.pids[host] = process, process.pid

        def adopted():
            with open(path) as f:
                text = f.read()
            if process.poll() is not None:
                raise AssertionError("the agent of host %d has ended:\n%s" % (host, text))
            return " adopted: " in text

        until("host %d is adopted" % host, adopted)

    def all_end(self):
        """By themselves, and well."""
        for process in filter(None, self.processes):
            status = process.wait(PATIENCE)
            if status:
                raise AssertionError("an agent ended with status %d" % status)

    def end(self):
        """Without tasks, agents end by themselves, and guards remove the segments."""
        for process in filter(None, self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.job.kill()

    def end_tasks(self, program, word):
        """Processes of this program with this word behind it: nothing else ends what survives agents."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
                if words[0] == program.encode() and word.encode() in words:
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue
