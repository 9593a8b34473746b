"""What the cases of `make interop` share: where things lie, processes with a log each, a service, and what came of a case."""
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import ports

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MUSTER = os.environ.get("MUSTER") or os.path.join(TOP, "build/release/muster")
FOLDER = os.environ.get("MUSTER_TEST_INTEROP") or os.path.join(TOP, "build/interop")
LOGS = os.path.join(FOLDER, "logs")
MINUTES = 180  # seconds that a program may take; imports alone take ten on a busy machine
STEP = {  # what Slurm leaves in the environment of a step of four tasks on two nodes
    "SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711", "SLURM_JOB_NAME": "train", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0",
    "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "2",
    "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NODELIST": "n[1-2]", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_GTIDS": "2,3"}
failures, passed, skipped = [], [], []
kept = []  # sockets that keep ports


def begin():
    """Logs are where they belong; JAX's way to end is abort(), and a core of it is 100 MB."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.makedirs(LOGS, exist_ok=True)
    open(os.path.join(LOGS, "summary"), "w").close()


def say(text):
    print(text, flush=True)
    with open(os.path.join(LOGS, "summary"), "a") as summary:
        summary.write(text + "\n")


def verdict(version, what, wrong=None, more=""):
    (failures if wrong else passed).append((version, what))
    say("%s %-7s %s%s" % ("FAIL" if wrong else "ok  ", version, what, "  " + more if more else ""))
    if wrong:
        say("        " + wrong.strip().replace("\n", "\n        ")[-2000:])


def skip(version, why):
    skipped.append((version, why))
    say("skip %-7s %s" % (version, why))


def clean_environment(**more):
    """No proxy: gRPC would dial it. A home of their own: TensorFlow makes folders there. Python writes whole lines, which
    those of other tasks do not break."""
    keep = {key: value for key, value in os.environ.items()
            if "proxy" not in key.lower() and not key.startswith(("MUSTER", "JAX_", "OMPI_", "TF_", "SLURM_"))}
    return dict(keep, PYTHONUNBUFFERED="", TF_CPP_MIN_LOG_LEVEL="1", HOME=FOLDER, **more)


def start(name, command, **more):
    """A process with its output in the log of that name; its path."""
    log = os.path.join(LOGS, name + ".log")
    with open(log, "w") as output:
        return log, subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                     env=clean_environment(**more))


class Program:
    """A process of a program, which is given its service's address, how many they are, and its number."""

    def __init__(self, name, python, program, *arguments, own=False):
        more = {} if own else {"JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0"}
        self.log, self.process = start(name, [python, os.path.join(HERE, "programs", program), *arguments], **more)

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
def crowd(name, python, program, address, count, *arguments, own=False):
    """All processes of a program. None outlives the block."""
    programs = []
    try:
        for task in range(count):
            programs.append(Program(name + str(task), python, program, address, count, task, *arguments, own=own))
        yield programs
    finally:
        for one in programs:
            one.process.kill()
            one.process.wait()


@contextlib.contextmanager
def service(name, tasks, *options, address="127.0.0.1:0"):
    with open(os.path.join(LOGS, name + ".serve.log"), "w") as log:
        process = subprocess.Popen([MUSTER, "serve", "--tasks", str(tasks), "--grpc", address, *options],
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


def free_address():
    kept.append(ports.keep_port())
    return "127.0.0.1:%d" % ports.port_of(kept[-1])


def run(name, words, **more):
    """muster run with these words: its exit status, and all that was said."""
    log, process = start(name, [MUSTER, "run", *words], **more)
    try:
        code = process.wait(MINUTES)
    except subprocess.TimeoutExpired:
        code = None
        process.terminate()
        process.wait()
    with open(log, errors="replace") as text:
        return code, text.read()


def of_library():
    """What a program needs that imports muster from this tree."""
    return {"PYTHONPATH": os.path.join(TOP, "python/src"), "PYTHONDONTWRITEBYTECODE": "1",
            "MUSTER_LIBRARY": os.path.join(os.path.dirname(MUSTER), "libmuster.so.0")}


def goes_on_alike(version, python, program, count, steps, what):
    """A program that saves in memory after each step, undisturbed and with task 1 killed once: the steps differ in no bit."""
    said = []
    for name, more in (("whole", {}), ("killed", {"KILLED": "1"})):
        words = ["-n", count, "--restarts", "1", "--restart-delay", "0", "--", python, os.path.join(HERE, "programs", program)]
        code, text = run("%s-%s-%s" % (version, program.split(".")[0], name), words, **of_library(), **more)
        said.append(sorted(set(re.findall(r"process \d+ of %d: step [^\n]*" % count, text))))
        came = re.findall(r"attempt (\d) from step (\d+)", text)
        wanted = {("0", "0"), ("1", "4")} if more else {("0", "0")}
        if code or len(said[-1]) != count * steps or set(came) != wanted:
            return verdict(version, what, "exit status %s\n%s" % (code, text))
    return verdict(version, what, None if said[0] == said[1] else "%s\n%s" % tuple(said), "%d steps of %d tasks" % (steps, count))


def under_run(name, count, python, program, *options, arguments=()):
    """One program as all tasks of a job: the launcher's exit status and all that was said."""
    log, process = start(name, [MUSTER, "run", "-n", count, "--grpc", *options, "--", python,
                                os.path.join(HERE, "programs", program), *arguments])
    try:
        code = process.wait(MINUTES)
    except subprocess.TimeoutExpired:
        code = None
        process.send_signal(signal.SIGINT)  # and again: JAX takes the first for a notice
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with open(log, errors="replace") as text:
        return code, text.read()


def until(log, process, holds):
    """What the process has said when that holds, or it has ended, or all the time has passed."""
    end = time.monotonic() + MINUTES
    while True:
        ended = process.poll() is not None or time.monotonic() > end
        with open(log, errors="replace") as lines:
            text = lines.read()
        if ended or holds(text):
            return text
        time.sleep(0.05)  # sleep: between two looks


def all_end_well(version, what, programs, wanted=(0,)):
    """The last line of the first is told, for it says what it has done."""
    codes = [program.end() for program in programs]
    right = set(codes) == set(wanted) if len(wanted) == 1 else codes == list(wanted)
    said = re.findall(r"(?:process|worker) \d of \d, .*", programs[-1].text)
    verdict(version, what, None if right else "exit statuses %s\n%s" % (codes, "\n".join(one.text for one in programs)),
            said[-1].split(": ", 1)[-1] if said else "")
