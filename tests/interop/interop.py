"""Runs unmodified JAX programs (programs/*.py) on muster's coordination service: `make interop`.

Each version of JAX gets a virtual environment in build/interop, made by pip once: from the oldest whose initialize() can be
given another service, over both that speak tensorflow.CoordinationService with and without a job's name, to the newest. A
version that cannot be had here (no such Python, no network) is named and skipped. With each: 2 and 4 processes of one
program under `muster run --grpc`; one that comes late; a barrier with a straggler; and one killed, where every survivor
must be told its name: the same with JAX's own service, beside it, for comparison. The checks of tests/checks are asked of
JAX's own services, too: what these fail would be a wrong check. Logs stay in build/interop/logs.
"""
import argparse
import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MUSTER = os.environ.get("MUSTER") or os.path.join(TOP, "build/release/muster")
FOLDER = os.path.join(TOP, "build/interop")
LOGS = os.path.join(FOLDER, "logs")
MINUTES = 180  # seconds that a program may take; imports alone take ten on a busy machine

# name: (versions of Python that will do, packages, protocol)
VERSIONS = {
    "0.4.13": (("3.9", "3.8"), ["jax==0.4.13", "jaxlib==0.4.13", "numpy<2"], "old client"),
    "0.4.34": (("3.10", "3.11", "3.12"), ["jax==0.4.34", "jaxlib==0.4.34"], "B"),
    "0.4.38": (("3.10", "3.11", "3.12"), ["jax==0.4.38", "jaxlib==0.4.38"], "B"),
    "0.9.2": (("3.12", "3.11"), ["jax==0.9.2", "jaxlib==0.9.2"], "B"),
    "newest": (("3.13", "3.12"), ["jax"], "A"),
    "tensorflow": (("3.12", "3.11", "3.10"), ["tensorflow-cpu"], "B"),
}
failures = []


def say(text):
    print(text, flush=True)


def verdict(version, what, wrong=None, more=""):
    say("%s %-7s %s%s" % ("FAIL" if wrong else "ok  ", version, what, "  " + more if more else ""))
    if wrong:
        failures.append((version, what))
        say("        " + wrong.strip().replace("\n", "\n        ")[-2000:])


def interpreter(versions):
    """A Python of one of these versions: in the path, or of pyenv."""
    for version in versions:
        found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*/bin/python3" % version)))
        for path in [shutil.which("python" + version)] + found[-1:]:
            if path and subprocess.run([path, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL).returncode == 0:
                return path
    return None


def environment(name, given):
    """The python of the version's environment, or None, said why."""
    if given:
        return os.path.join(given, "bin/python")
    path, (versions, packages, _) = os.path.join(FOLDER, name if name == "tensorflow" else "jax-" + name), VERSIONS[name]
    python = os.path.join(path, "bin/python")
    if os.path.exists(os.path.join(path, "whole")):
        return python
    base = interpreter(versions)
    if not base:
        say("skip %-7s no Python %s here" % (name, " or ".join(versions)))
        return None
    shutil.rmtree(path, ignore_errors=True)
    with open(os.path.join(LOGS, "pip-%s.log" % name), "w") as log:
        made = all(subprocess.run(command, stdout=log, stderr=log).returncode == 0 for command in (
            [base, "-m", "venv", path], [python, "-m", "pip", "install", "-q"] + packages))
    if not made:
        say("skip %-7s pip cannot install %s (build/interop/logs/pip-%s.log)" % (name, " ".join(packages), name))
        return None
    open(os.path.join(path, "whole"), "w").close()
    return python


def clean_environment(**more):
    """No proxy: gRPC would dial it."""
    keep = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and not key.startswith(("MUSTER", "JAX_"))}
    return dict(keep, TF_CPP_MIN_LOG_LEVEL="1", **more)


class Program:
    """A process of a JAX program; its output goes to a log."""

    def __init__(self, name, python, program, *arguments, own=False):
        self.log = os.path.join(LOGS, name + ".log")
        env = clean_environment(**({} if own else {"JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0"}))
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([python, os.path.join(HERE, "programs", program)] + [str(word) for word in arguments],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    @property
    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def says(self, word):
        end = time.monotonic() + MINUTES
        while word not in self.text:
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.05)  # sleep: between two looks
        return True

    def end(self):
        """Its exit status; None: it had to be killed."""
        try:
            return self.process.wait(MINUTES)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


@contextlib.contextmanager
def service(name, tasks, *options):
    log = open(os.path.join(LOGS, name + ".serve.log"), "w")
    process = subprocess.Popen([MUSTER, "serve", "--tasks", str(tasks), "--grpc", "127.0.0.1:0", *options],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        log.close()


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % one.getsockname()[1]


def under_run(version, python, count):
    log = os.path.join(LOGS, "%s-run%d.log" % (version, count))
    with open(log, "w") as output:
        try:
            code = subprocess.run([MUSTER, "run", "-n", str(count), "--grpc", "--", python, os.path.join(HERE, "programs/train.py")],
                                  stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=clean_environment(),
                                  timeout=MINUTES).returncode
        except subprocess.TimeoutExpired:
            code = None
    text = open(log, errors="replace").read()
    said = re.findall(r"process \d+ of \d+, jax [\d.]+: ([a-z_, ]+)", text.replace("process ", "\nprocess "))
    verdict(version, "muster run -n %d --grpc -- train.py, which calls initialize() alone" % count,
            None if code == 0 and len(said) == count else "exit status %s\n%s" % (code, text),
            said[0] if said else "")


def all_end_well(version, what, programs):
    codes = [program.end() for program in programs]
    wrong = None if set(codes) == {0} else "exit statuses %s\n%s" % (codes, "\n".join(program.text for program in programs))
    verdict(version, what, wrong)


def late_joiner(version, python):
    name = version + "-late"
    with service(name, 2) as address:
        first = Program(name + "0", python, "train.py", address, 2, 0)
        time.sleep(3)  # sleep: what makes the other late
        second = Program(name + "1", python, "train.py", address, 2, 1)
        all_end_well(version, "a process that comes 3 s late", [first, second])


def straggler(version, python):
    name = version + "-straggler"
    with service(name, 3) as address:
        programs = [Program(name + str(task), python, "straggler.py", address, 3, task) for task in range(3)]
        codes = [program.end() for program in programs]
        texts = [program.text for program in programs]
    named = [re.search(r"DEADLINE_EXCEEDED: Barrier timed out.*task 2|DEADLINE_EXCEEDED: Barrier timed out.*task:2", text)
             for text in texts[:2]]
    wrong = None if set(codes) == {0} and all(named) else "exit statuses %s\n%s" % (codes, "\n".join(texts))
    verdict(version, "a barrier with a straggler; one that times out names it", wrong)


def killed(version, python, address, own, heartbeat=10, count=4, victim=2):
    """Seconds until each survivor says that it ends, and all that they said (writing a core may take longer)."""
    name = "%s-killed-%s" % (version, "own" if own else "muster")
    programs = [Program(name + str(task), python, "stays.py", address, count, task, heartbeat, own=own) for task in range(count)]
    try:
        if not all(program.says("computes") for program in programs):
            return None, "\n".join(program.text for program in programs)
        programs[victim].process.send_signal(signal.SIGKILL)
        start, times = time.monotonic(), {}
        while len(times) < count - 1 and time.monotonic() < start + MINUTES:
            for task, program in enumerate(programs):
                if task != victim and task not in times and re.search("(?i)Terminating process because", program.text):
                    times[task] = time.monotonic() - start
            time.sleep(0.005)  # sleep: between two looks
        for task, program in enumerate(programs):
            program.end()
        return sorted(times.values()), [program.text for task, program in enumerate(programs) if task != victim]
    finally:
        for program in programs:
            program.process.kill()
            program.process.wait()


def one_killed(version, python, compare):
    with service(version + "-killed", 4) as address:
        times, texts = killed(version, python, address, own=False)
    named = times and len(times) == 3 and all(re.search(r"task[ :]2\b", text) for text in texts)
    wrong = None if named else "%s survivors said so\n%s" % (len(times or []), "\n".join(texts))
    verdict(version, "one of 4 killed: each survivor is told that it was task 2", wrong,
            "after %s" % " ".join("%.3f s" % one for one in times or []))
    if compare:
        own, texts = killed(version, python, free_address(), own=True)
        say("     %-7s with JAX's own service, heartbeat_timeout_seconds=10 (its default is 100): %s" % (
            version, "after " + " ".join("%.3f s" % one for one in own) if own else "it did not come up"))


def outlives(version, python):
    name = version + "-outlives"
    with service(name, 3, "--grpc-recoverable") as address:
        programs = [Program(name + str(task), python, "outlives.py", address, 3, task) for task in range(3)]
        if all(program.says("begun") for program in programs):
            programs[0].process.kill()
        codes = [program.end() for program in programs]
        wrong = None if codes == [-9, 0, 0] else "exit statuses %s\n%s" % (codes, "\n".join(one.text for one in programs))
    verdict(version, "process 0 killed, serve --grpc-recoverable: the others go on, by get_live_nodes and barriers", wrong)


def preempted(version, python):
    name = version + "-preempted"
    with service(name, 2) as address:
        programs = [Program(name + str(task), python, "preempted.py", address, 2, task) for task in range(2)]
        if all(program.says("computes") for program in programs):
            programs[1].process.send_signal(signal.SIGTERM)
        codes = [program.end() for program in programs]
        said = [re.findall(r"saves at step \d+", program.text) for program in programs]
    wrong = None if set(codes) == {0} and said[0] and said[0] == said[1] else "exit statuses %s\n%s" % (
        codes, "\n".join(program.text for program in programs))
    verdict(version, "SIGTERM to one: both reach the same step to save at", wrong, said[0][0] if said[0] else "")


def tensorflow(given):
    python = environment("tensorflow", given)
    if not python:
        return
    name = "tensorflow"
    with service(name, 2, "--jobs", "worker:2") as address:
        ports = [free_address().rpartition(":")[2] for _ in range(2)]
        programs = [Program(name + str(task), python, "tensors.py", address, 2, task, *ports) for task in range(2)]
        all_end_well("tf", "2 workers of TensorFlow whose coordination service is muster", programs)
    for program in programs:
        for line in re.findall(r"worker \d of .*", program.text):
            say("        " + line)


def old_client(version, python):
    for protocol, words in (("new", "tensorflow.CoordinationService"), ("old", "xla.DistributedRuntimeService")):
        name = "%s-%s" % (version, protocol)
        with service(name, 2) as address:
            all_end_well(version, "the library's client, by " + words,
                         [Program(name + str(task), python, "old.py", address, 2, task, protocol) for task in range(2)])


def ask_reference(version, python, protocol):
    """The checks, with JAX's own service in muster's place."""
    for path in sorted(glob.glob(os.path.join(TOP, "tests/checks/*_test.py"))):
        name = os.path.basename(path)
        if name == "table_test.py" or (name == "old_test.py") != (protocol == "C"):
            continue
        with open(os.path.join(LOGS, "%s-reference-%s.log" % (version, name)), "w+") as log:
            code = subprocess.run([sys.executable, path], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.DEVNULL,
                                  env=clean_environment(TOP=TOP, VARIANT="release", BUILD=os.path.dirname(MUSTER),
                                                        MUSTER_TEST_CHECKS_DIALECTS=protocol, MUSTER_TEST_CHECKS_SERVER=" ".join(
                                                            [python, os.path.join(TOP, "tests/checks/reference.py")])),
                                  timeout=600).returncode
            log.seek(0)
            text = log.read()
        lines = text.strip().splitlines()
        verdict(version, "JAX's own service, asked by %s" % name, text if code else None, lines[-1] if lines else "")


def one_version(version, given, ask):
    if version == "tensorflow":
        return tensorflow(given)
    protocol, python = VERSIONS[version][2], environment(version, given)
    if not python:
        return
    number = subprocess.run([python, "-c", "import jaxlib; print(jaxlib.__version__)"], capture_output=True, text=True).stdout.strip()
    say("---- jaxlib %s" % number)
    if protocol == "old client":
        old_client(version, python)
    else:
        under_run(version, python, 2)
        under_run(version, python, 4)
        late_joiner(version, python)
        straggler(version, python)
        one_killed(version, python, compare=version in ("newest", "0.9.2"))
        if version in ("newest", "0.9.2"):  # where the client has get_live_nodes
            outlives(version, python)
        preempted(version, python)
    if ask and version in ("newest", "0.9.2", "0.4.13"):
        ask_reference(version, python, {"newest": "A", "0.9.2": "B", "0.4.13": "C"}[version])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="VERSIONS", help="of " + " ".join(VERSIONS))
    parser.add_argument("--python", metavar="VERSION=FOLDER", action="append", default=[], help="an environment that is there")
    parser.add_argument("--no-reference", action="store_true", help="do not ask JAX's own services the checks")
    options = parser.parse_args()
    os.makedirs(LOGS, exist_ok=True)
    given = dict(word.split("=", 1) for word in options.python)
    for version in options.only.split() if options.only else VERSIONS:
        one_version(version, given.get(version), not options.no_reference)
    say("%d failures; logs: build/interop/logs" % len(failures))
    sys.exit(bool(failures))


main()
