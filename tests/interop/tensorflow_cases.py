"""The cases of `make interop` for TensorFlow: two workers each, whose coordination service is muster's."""
import json
import re
import subprocess

import kit
from kit import crowd, service

CASES = (
    ("tensors.py", "configure_coordination_service(): keys, each other's devices"),
    ("trains.py", "MultiWorkerMirroredStrategy, which knows of the service by TF_CONFIG alone: 50 steps of training"),
    ("meshes.py", "DTensor of two clients"),
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
