"""The cases of `make interop` for TensorFlow: two workers each, whose coordination service is muster's; and sessions, whose
master is."""
import contextlib
import json
import os
import re
import subprocess

import kit
from kit import crowd, service

CASES = (
    ("tensors.py", "configure_coordination_service(): keys, each other's devices"),
    ("trains.py", "MultiWorkerMirroredStrategy, which knows of the service by TF_CONFIG alone: 50 steps of training"),
    ("meshes.py", "DTensor of two clients"),
)

SESSIONS = (
    ("graphs_replicas.py", "a graph over three tasks: training, branches, loops"),
    ("graphs_between.py", "two clients train by MonitoredTrainingSession, with checkpoints"),
    ("graphs_queues.py", "queues"),
    ("graphs_large.py", "120 MB, all types, a checkpoint, 8 threads, a trace"),
)


def ports():
    return [kit.free_address().rpartition(":")[2] for _ in range(2)]


def all_cases(version, python):
    for program, what in CASES:
        name = "%s-%s" % (version, program[:-3])
        with service(name, 2, "--jobs", "worker:2") as address, crowd(name, python, program, address, 2, *ports()) as programs:
            kit.all_end_well(version, what, programs)
    under_run(version, python)
    called(version, python)
    if version == "tf":
        sessions(version, python)


def library(python):
    """The folder of its package, with TensorFlow's library."""
    code = "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def master(name, *options):
    """Its target: muster serve --tf-master."""
    with open(os.path.join(kit.LOGS, name + ".serve.log"), "w") as log:
        process = subprocess.Popen([kit.MUSTER, "serve", "--tf-master=127.0.0.1:0", *options], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield "grpc://" + process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def sessions(version, python):
    """The same programs over servers that a cluster has, over executors of a job, and over muster's kernels."""
    with contextlib.ExitStack() as stack:
        hosts = [kit.free_address() for _ in range(3)]
        for i, (job, task) in enumerate((("ps", 0), ("worker", 0), ("worker", 1))):
            server = kit.Program("%s-server%d" % (version, i), python, "graphs_server.py", job, task, *hosts)
            stack.callback(server.process.wait)
            stack.callback(server.process.kill)
        target = stack.enter_context(master(version + "-servers", "--tf-workers", ",".join(hosts), "--libtensorflow", library(python)))
        for program, what in SESSIONS:
            one = kit.Program("%s-servers-%s" % (version, program[:-3]), python, program, target)
            kit.all_end_well(version, what + ", over three tf.distribute.Server", [one])
    for program, what in SESSIONS:
        shell = '[ "$RANK" != 0 ] || exec "$0" "$1" "$MUSTER_TF_MASTER"'
        code, text = kit.run("%s-executors-%s" % (version, program[:-3]), [
            "-n", "3", "--tf-master=127.0.0.1:0", "--tf-jobs", "ps:1,worker:2", "--libtensorflow", library(python), "--",
            "sh", "-c", shell, python, kit.HERE + "/programs/" + program])
        kit.verdict(version, what + ", over the executors of muster run", None if code == 0 else "exit status %s\n%s" % (code, text))
    with master(version + "-kernels", "--tf-jobs", "ps:1,worker:2") as target:
        one = kit.Program(version + "-kernels-queues", python, "graphs_queues.py", target)
        kit.all_end_well(version, "queues, over muster's own kernels", [one])


def called(version, python):
    """Twice: the launcher is told of the workers, and finds them in TF_CONFIG."""
    for way in ("--grpc-workers", "TF_CONFIG"):
        two = ports()
        hosts = ["127.0.0.1:" + port for port in two]
        options = ["--grpc-workers", ",".join(hosts)] if way == "--grpc-workers" else [
            "--env", "TF_CONFIG=" + json.dumps({"cluster": {"worker": hosts}})]
        code, text = kit.under_run("%s-called-%s" % (version, way.strip("-")), 2, python, "called.py", "--kill-on-fail=no", *options,
                                   arguments=two)
        right = code == 137 and re.search("its operation ended: .*Error reported from /job:worker/task:1: task 1 .*signal 9", text)
        kit.verdict(version, "ReportErrorToTask by %s: a worker that does not ask has its collective operation aborted" % way,
                    None if right else "exit status %s\n%s" % (code, text))


def under_run(version, python):
    """The launcher gives its address and a number to each by the environment, and the program puts them into TF_CONFIG."""
    shell = 'exec "$0" "$1" $MUSTER_GRPC_ADDRESS 2 $RANK $2 $3'
    log, process = kit.start(version + "-run", [kit.MUSTER, "run", "-n", 2, "--grpc", "--", "sh", "-c", shell, python,
                                                kit.HERE + "/programs/trains.py", *ports()])
    try:
        code = process.wait(kit.MINUTES)
    except subprocess.TimeoutExpired:
        code = None
        process.terminate()
        process.wait()
    with open(log, errors="replace") as output:
        text = output.read()
    right = code == 0 and len(re.findall("after 50 steps", text)) == 2
    kit.verdict(version, "the same by muster run -n 2 --grpc", None if right else "exit status %s\n%s" % (code, text))
