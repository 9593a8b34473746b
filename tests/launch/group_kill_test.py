#!/usr/bin/env python3
"""SIGKILL to the launcher's whole process group, at the moment its segment gets its name: it is removed all the same.

The guard has a session of its own by then, be it a program of its own or forked, or be what lies there no program.
timeout: 180
"""
import ctypes
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MUSTER = os.environ["MUSTER"]
PATIENCE = 60
IN_CREATE, IN_MOVED_TO = 0x100, 0x80
libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Of the names that appear in /dev/shm."""

    def __init__(self):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.fd >= 0 and libc.inotify_add_watch(self.fd, b"/dev/shm", IN_CREATE | IN_MOVED_TO) >= 0

    def await_name(self, part):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            select.select([self.fd], [], [], 1)
            try:
                events = os.read(self.fd, 65536)
            except BlockingIOError:
                continue
            while events:
                size = struct.unpack_from("IIII", events)[3]
                if part in events[16:16 + size].rstrip(b"\0").decode():
                    return
                events = events[16 + size:]
        sys.exit("FAIL: no segment of %s appeared" % part)


def segments(job):
    return [name for name in os.listdir("/dev/shm") if job in name]


def kill_some(watch, muster, times, word):
    for i in range(times):
        job = "group-kill-%d-%s-%d" % (os.getpid(), word, i)
        launcher = subprocess.Popen([muster, "run", "-n", "2", "--job", job, "sleep", "900"], start_new_session=True,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watch.await_name(job)
        os.killpg(launcher.pid, signal.SIGKILL)
        if launcher.wait() != -signal.SIGKILL:
            sys.exit("FAIL: the launcher ended with %d" % launcher.returncode)
        end = time.monotonic() + PATIENCE
        while segments(job):
            if time.monotonic() > end:
                left = segments(job)
                for name in left:
                    os.unlink("/dev/shm/" + name)
                sys.exit("FAIL: %s, kill %d: left %s" % (word, i + 1, left))
            time.sleep(0.001)


def main():
    watch = Watch()
    kill_some(watch, MUSTER, 60, "beside")
    with tempfile.TemporaryDirectory() as folder:
        alone = shutil.copy(MUSTER, os.path.join(folder, "muster"))
        kill_some(watch, alone, 20, "forked")
        guard = os.path.join(folder, "mu-guard")
        for mode in (0o644, 0o755):  # neither of which can be executed
            with open(guard, "w") as f:
                f.write("garbage")
            os.chmod(guard, mode)
            kill_some(watch, alone, 20, "broken-%o" % mode)
    print("120 groups killed when the segment got its name: none is left")


main()
