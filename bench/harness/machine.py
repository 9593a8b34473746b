"""The machine: what it is, how busy it is, and how a program is run on it, bounded and watched."""
import ctypes
import glob
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
NOISE_LIMIT = 0.04  # share of all processors that others may use while a figure counts as quiet
PR_SET_CHILD_SUBREAPER = 36
GUARD_PATIENCE = 5.0  # seconds


def first_line(path):
    try:
        with open(path) as f:
            return f.readline().strip()
    except OSError:
        return ""


def output_line(*command):
    """First line that a command prints, "" when it cannot be run."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.decode(errors="replace").splitlines() or [""])[0].strip()


def processor_model():
    try:
        with open("/proc/cpuinfo") as f:
            fields = dict(line.split(":", 1) for line in f if ":" in line)
    except OSError:
        fields = {}
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    name = fields.get("model name", platform.machine())
    if "cpu family" in fields:
        name += " (family %s model %s)" % (fields["cpu family"], fields.get("model", "?"))
    return name


WRITTEN = ["--", ".", ":!bench/REPORT.md", ":!bench/plots"]  # but what the harness writes is no change of what is measured


def configuration(top, options, compilers):
    """What a reader must know to compare these figures with others: (name, value) in order."""
    cpus = sorted(os.sched_getaffinity(0))
    virtual = output_line("systemd-detect-virt", "--vm") or "none or unknown"
    memory = first_line("/proc/meminfo").split()
    load = first_line("/proc/loadavg").split()[:3]
    dirty = output_line("git", "-C", top, "status", "--porcelain", "--untracked-files=no", *WRITTEN)
    commit = output_line("git", "-C", top, "rev-parse", "--short=12", "HEAD") or "unknown"
    governor = first_line("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor" % cpus[0])
    return [
        ("date", time.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("commit", commit + (" with uncommitted changes" if dirty else "")),
        ("machine", "%s, virtualization: %s" % (platform.machine(), virtual)),
        ("processor", processor_model()),
        ("processors", "%d online, may use %d; ranks are pinned to these in turn: %s"
         % (os.cpu_count(), len(cpus), ", ".join(map(str, cpus[:16])) + ("…" if len(cpus) > 16 else ""))),
        ("governor", governor or "not readable"),
        ("memory", "%d MiB" % (int(memory[1]) // 1024) if len(memory) > 1 else "unknown"),
        ("kernel", "%s %s" % (platform.system(), platform.release())),
        ("clock", first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"),
        ("huge pages", "anonymous %s; shared %s"
         % (first_line("/sys/kernel/mm/transparent_hugepage/enabled") or "unknown",
            first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled") or "unknown")),
        ("load", " ".join(load)),
        ("compiler", ", ".join(filter(None, (output_line(c, "--version") for c in compilers))) or "unknown"),
        ("parameters", options),
    ]


def busy_seconds():
    """Processor time used by anybody since boot, time stolen by the hypervisor included."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def own_seconds():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


class Meter:
    """Share of the machine that others used between start and stop."""

    def __init__(self):
        self.busy, self.own, self.wall = busy_seconds(), own_seconds(), time.monotonic()

    def others(self):
        wall = max(time.monotonic() - self.wall, 1e-3)
        used = busy_seconds() - self.busy - (own_seconds() - self.own)
        # Below two ticks a processor the counters say nothing.
        floor = 2.0 * os.cpu_count() / TICK
        return max(0.0, used - floor) / (wall * os.cpu_count())


def wait_until_idle(patience):
    """Up to `patience` seconds for a quarter of a second without others; returns the seconds spent."""
    start = time.monotonic()
    while time.monotonic() - start < patience:
        meter = Meter()
        time.sleep(0.25)
        if meter.others() < NOISE_LIMIT:
            break
    return time.monotonic() - start


def become_reaper():
    """Orphans of what we start come to us, so that none can be overlooked; who ends us ends what we have started."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of_ours():
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        try:
            with open(path) as f:
                found += map(int, f.read().split())
        except OSError:
            pass
    return found


def is_guard(pid):
    """A launcher's, which removes the segment and whatever else its job has when the launcher has been killed."""
    try:  # while it execs what its work is done by it has no words
        table = os.readlink("/proc/%d/fd/3" % pid)
    except OSError:
        table = ""
    return table.startswith("/memfd:mu-guard") or first_line("/proc/%d/cmdline" % pid).startswith("mu-guard")


def reap_stragglers():
    """Kill and reap every process that a finished program left to us; but guards clean up first, and end by themselves."""
    patience = time.monotonic() + GUARD_PATIENCE
    for left in iter(children_of_ours, []):
        waiting = [pid for pid in left if is_guard(pid) and time.monotonic() < patience]
        for pid in set(left) - set(waiting):
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        if waiting:
            time.sleep(0.002)


def remove_files(pid):
    """What a killed bench program left in /dev/shm: segments and others; their names carry its pid."""
    for name in ("muster-%d-bench-%d-*" % (os.getuid(), pid), "muster-%d-bridgesim-%d" % (os.getuid(), pid),
                 "muster-%d-bridgesim-%d.h*" % (os.getuid(), pid), "bench-%d-*" % pid):
        for path in glob.glob("/dev/shm/" + name):
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                os.unlink(path)
            except OSError:
                pass


def end(process):
    """Nothing of the program stays, however it ended and whatever ends us."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.stdout.close()
    reap_stragglers()
    remove_files(process.pid)


class Outcome:
    def __init__(self):
        self.lines, self.noise, self.problem = [], 0.0, ""


def run(command, timeout, environment=None):
    """Run a bench program; its JSON lines, the noise meanwhile, and what went wrong ("" when nothing did)."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, tempfile.TemporaryFile() as errors:
        meter = Meter()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                       env={**os.environ, "TMPDIR": folder, **(environment or {})},
                                       start_new_session=True)
        except OSError as error:
            outcome.problem = "%s: %s" % (command[0], error.strerror)
            return outcome
        try:
            text, _ = process.communicate(timeout=timeout)
            if process.returncode:
                outcome.problem = "ended with %d" % process.returncode
        except subprocess.TimeoutExpired:
            text, outcome.problem = b"", "did not end within %d s" % timeout
        finally:
            end(process)
        outcome.noise = meter.others()
        if outcome.problem:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            outcome.problem += ": " + said[-1] if said else ""
            return outcome
        try:
            outcome.lines = [json.loads(line) for line in text.decode().splitlines() if line.startswith("{")]
        except ValueError as error:
            outcome.problem = "printed what is not JSON: %s" % error
    return outcome
