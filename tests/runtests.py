#!/usr/bin/env python3
"""Runs tests: tests/runtests.py [options] PATH=VARIANT ...   (`make plan` prints all of them)

PATH is a test's source. tests/D/X_test.c means the program build/VARIANT/tests/D/X_test; tests/D/X_test.sh and .py
are run as they are; examples/X.c is run by scripts/run-example.sh. Each runs in a session of its own, from the top
of the tree, with stdin closed and

    BUILD     build/VARIANT, absolute         MUSTER    $BUILD/muster
    VARIANT   its name                        TOP       the top of the tree, absolute
    TMPDIR    an empty folder, removed after  CC, CXX   the compilers

and, of the caller's variables MUSTER*, those that begin with MUSTER_TEST_: what a test may use where it is there.

A test passes with exit status 0 and is skipped with 77, its last line of output being the reason. It fails with any
other status or signal; past its timeout (120 s, or a comment line "timeout: SECONDS" in its first 40 lines; twice
that under asan and fuzz, three times under tsan; while more want a processor than there are, its time passes in
proportion slower, by a factor of five at most); when a process that it started outlives it by ten seconds; and when
it leaves a file /dev/shm/muster-*. Where the runner may mount (as root), each test has a /dev/shm of its own and that
last check names the test; elsewhere it is made once, at the end, for all.

The last line is "N passed, N failed, N skipped", kept also in build/check.summary. Logs: build/logs/.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT_TIMEOUT = 120
LOADAVG, SLOWEST = "/proc/loadavg", 5
GRACE = 10  # seconds that a test's processes have to go after it
SLOWER = {"asan": 2, "fuzz": 2, "tsan": 3}
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def works(*command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def enter_private_mounts():
    """Once, as root: go on in a mount namespace of our own, where mounting a /dev/shm for each test harms nobody."""
    if os.environ.pop("RUNTESTS_PRIVATE", None):
        return True
    if os.geteuid() != 0 or not works("unshare", "--mount", "sh", "-c", "mount -t tmpfs muster-test /dev/shm"):
        return False
    os.environ["RUNTESTS_PRIVATE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable] + sys.argv)


def pace(cpus):
    """How fast a test's time passes: 1 where there is a processor for each that wants one."""
    try:
        with open(LOADAVG) as f:
            wanting = int(f.read().split()[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return 1.0
    return max(1 / SLOWEST, min(1.0, cpus / max(wanting, 1)))


def wait_for(child, seconds):
    """Its status; subprocess.TimeoutExpired when so much of its time has passed."""
    cpus, slice_s = len(os.sched_getaffinity(0)), 0.5
    while True:
        try:
            return child.wait(min(slice_s, max(seconds, 0.01)))
        except subprocess.TimeoutExpired:
            seconds -= slice_s * pace(cpus)
            if seconds <= 0:
                raise


def processes_of(token):
    """Living processes whose environment carries the token: (pid, command, state, what they wait for)."""
    found = []
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            with open(entry + "/environ", "rb") as f:
                if token.encode() not in f.read():
                    continue
            with open(entry + "/stat") as f:
                state = f.read().rpartition(")")[2].split()[0]
            with open(entry + "/cmdline", "rb") as f:
                command = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
            with open(entry + "/wchan") as f:
                wchan = f.read()
        except OSError:
            continue
        if state not in "ZX":
            found.append((int(entry[6:]), command, state, wchan))
    return found


def kill_all(token):
    for _ in range(100):
        left = processes_of(token)
        if not left:
            return
        for pid, _, _, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


def hear_signals():
    """Started in the background or by nohup we ignore signals, and so would the tests, which send them. A handler, even
    one that does nothing, is not inherited through exec."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


class Test:
    def __init__(self, name, options):
        self.source, _, self.variant = name.partition("=")
        self.name = self.variant + "  " + self.source
        self.options = options
        kind = self.variant.split("-")[0]
        self.timeout = DEFAULT_TIMEOUT
        if os.path.exists(self.source):
            with open(self.source, errors="replace") as f:
                head = "".join(f.readline() for _ in range(40))
            said = re.search(r"^[ #*/]*timeout: *(\d+)", head, re.M)
            if said:
                self.timeout = int(said.group(1))
        self.timeout *= SLOWER.get(kind, 1)

    def command(self):
        build = os.path.join(self.options.build, self.variant)
        if self.source.startswith("examples/"):
            return ["scripts/run-example.sh", build, os.path.basename(self.source)[:-2]]
        if self.source.endswith(".c"):
            return [os.path.join(build, self.source[:-2])]
        if self.source.endswith(".py"):
            return [sys.executable, self.source]
        return [os.path.join(".", self.source)]

    def environment(self, token, tmp):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("MUSTER", "MAKE", "MFLAGS", "RUNTESTS", "SECONDS")) or k.startswith("MUSTER_TEST_")}
        build = os.path.join(self.options.build, self.variant)
        # Hosts of tests have names that no server knows; one that does not even say so costs a second, not 5 or 10.
        env["RES_OPTIONS"] = "timeout:1 attempts:1"
        env.update(SANITIZERS, BUILD=build, MUSTER=os.path.join(build, "muster"), VARIANT=self.variant, TOP=TOP,
                   TMPDIR=tmp, CC=os.environ.get("CC", "gcc"), CXX=os.environ.get("CXX", "g++"), RUNTESTS=token)
        return env

    def run(self, number):
        token = "RUNTESTS=%d.%06d" % (os.getpid(), number)
        tmp = tempfile.mkdtemp(prefix="muster-test.")
        scratch, shm = os.path.join(tmp, "tmp"), os.path.join(tmp, "shm")
        os.mkdir(scratch)
        os.mkdir(shm)
        log = os.path.join(self.options.build, "logs", self.variant,
                           self.source + (".%d" % number if self.options.repeat > 1 else "") + ".log")
        os.makedirs(os.path.dirname(log), exist_ok=True)
        command = self.command()
        if self.variant.split("-")[0] in SLOWER and self.options.setarch:
            command = ["setarch", "-R"] + command  # these sanitizers fail where addresses are drawn from 32 random bits
        if self.options.private:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "muster-test", shm], check=True)
            command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/shm && exec "$@"', shm] + command
        started = time.monotonic()
        try:
            with open(log, "wb") as out:
                trouble = self.watch(command, self.environment(token.partition("=")[2], scratch), token, out)
            if self.options.private:
                trouble += ["left behind: /dev/shm/" + f for f in sorted(os.listdir(shm)) if f.startswith("muster-")]
        finally:
            if self.options.private:
                subprocess.run(["umount", "--lazy", shm])
            shutil.rmtree(tmp, ignore_errors=True)
        self.seconds = time.monotonic() - started
        with open(log, errors="replace") as f:
            self.output = f.read()
        if self.status == 77 and not trouble:
            lines = [line for line in self.output.splitlines() if line.strip()]
            self.result, self.reason = "skip", lines[-1].strip() if lines else "no reason given"
        else:
            self.result, self.reason = ("FAIL", "; ".join(trouble)) if trouble else ("ok", "")
        return self

    def watch(self, command, env, token, out):
        """Runs the command to its end; returns what is wrong, as a list of sentences."""
        trouble = []
        try:
            child = subprocess.Popen(command, cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as e:
            self.status = None
            return ["cannot be run: %s" % e]
        try:
            began = time.monotonic()
            self.status = wait_for(child, self.timeout)
            if self.status < 0:
                trouble.append("killed by " + signal.Signals(-self.status).name)
            elif self.status not in (0, 77):
                trouble.append("exit status %d" % self.status)
        except subprocess.TimeoutExpired:
            self.status = None
            clock = time.monotonic() - began
            trouble.append("no end after %d s" % self.timeout +
                           (", which took %d s, for the machine was busy" % clock if clock > self.timeout + 1 else ""))
            for pid, command, state, wchan in processes_of(token):
                trouble.append("then pid %d (%s) was in state %s, %s" % (pid, command, state, wchan))
        # "State", not "change": what is asked is that they are gone, however long this machine takes, within reason.
        end = time.monotonic() + (GRACE if self.status is not None else 0)
        left = processes_of(token)
        if not left:  # who is about to exec has no environment for an instant
            time.sleep(0.02)
            left = processes_of(token)
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = processes_of(token)
        if self.status is not None:
            trouble += ["left running: pid %d (%s), state %s, %s" % p for p in left]
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        kill_all(token)
        child.wait()
        return trouble


def report(test, lock):
    with lock:
        line = "%-4s %7.2fs  %s" % (test.result, test.seconds, test.name)
        print(line + ("  (%s)" % test.reason if test.reason else ""), flush=True)
        if test.result == "FAIL":
            lines = test.output.splitlines()
            if len(lines) > 200:
                print("    | ... %d lines above" % (len(lines) - 200))
            print("\n".join("    | " + line for line in lines[-200:]), flush=True)


def shared_files():
    return set(glob.glob("/dev/shm/muster-%d-*" % os.getuid()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="REGEX", help="only tests whose variant and path match")
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), help="how many at a time")
    parser.add_argument("--random", type=int, metavar="SEED", help="in an order drawn from this seed")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="everything N times")
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"), help="the build folder")
    parser.add_argument("tests", nargs="*", metavar="PATH=VARIANT")
    options = parser.parse_args()
    os.chdir(TOP)
    options.build = os.path.abspath(options.build)
    options.private = enter_private_mounts()
    options.setarch = works("setarch", "-R", "true")
    os.makedirs(options.build, exist_ok=True)

    names = [t for t in options.tests if not options.k or re.search(options.k, t.replace("=", " "))]
    times_file = os.path.join(options.build, "logs", "times.json")
    try:
        with open(times_file) as f:
            times = json.load(f)
    except (OSError, ValueError):
        times = {}
    names.sort(key=lambda n: -times.get(n, 1e9))  # the slowest first: they must not run alone at the end
    names *= options.repeat
    if options.random is not None:
        random.Random(options.random).shuffle(names)
        print("order: --random %d" % options.random)
    if not options.private:
        print("not allowed to mount: files left in /dev/shm are looked for once, at the end")
    before = shared_files()

    hear_signals()
    lock, done = threading.Lock(), []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.j)) as pool:
        running = [pool.submit(Test(name, options).run, i) for i, name in enumerate(names)]
        try:
            for future in concurrent.futures.as_completed(running):
                test = future.result()
                done.append(test)
                times[test.source + "=" + test.variant] = round(test.seconds, 2)
                report(test, lock)
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
            kill_all("RUNTESTS=%d." % os.getpid())
            raise

    count = {r: sum(t.result == r for t in done) for r in ("ok", "FAIL", "skip")}
    left = sorted(shared_files() - before) if not options.private else []
    if left:
        print("FAIL  left behind by one of the tests above, or by a job that runs beside them: " + " ".join(left))
        count["FAIL"] += 1
    if not done:
        print("FAIL  no test matches" if options.tests else "FAIL  there is no test")
        count["FAIL"] += 1
    if len(done) > 10:
        print("slowest:")
        for test in sorted(done, key=lambda t: -t.seconds)[:10]:
            print("     %7.2fs  %s" % (test.seconds, test.name))
    for test in done:
        if test.result == "FAIL":
            print("failed: %s  (%s)" % (test.name, test.reason))
            print("\n".join("    | " + line for line in test.output.splitlines()[-12:]))  # a log may be cut in its middle
    os.makedirs(os.path.dirname(times_file), exist_ok=True)
    with open(times_file, "w") as f:
        json.dump(times, f, indent=0, sort_keys=True)
    summary = "%d passed, %d failed, %d skipped" % (count["ok"], count["FAIL"], count["skip"])
    with open(os.path.join(options.build, "check.summary"), "w") as f:
        f.write(summary + "\n")
    print(summary, flush=True)
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
