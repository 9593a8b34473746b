"""The cases of `make interop` for frameworks on top of PyTorch and MPI: programs/frameworks.py, under muster run as it is,
and with --tcpstore; bare, and within what a step of Slurm leaves in the environment.
"""
import os
import re

import kit
import torch_cases
from environments import can
from kit import verdict

# name: (modules, tasks, whether PyTorch's store is of any use to it)
FRAMEWORKS = {
    "lightning": ("lightning", 2, True),
    "fabric": ("lightning", 2, True),
    "accelerate": ("accelerate", 2, True),
    "deepspeed": ("deepspeed", 2, True),
    "megatron": ("megatron.core._rank_utils", 2, True),
    "dask": ("dask_mpi, mpi4py.MPI", 3, False),
    "hydra": ("hydra", 2, True),
}
PROGRAM = os.path.join(kit.HERE, "programs/frameworks.py")


def find(version, python, name, way, count, outside, where):
    options = ("--tcpstore",) if way == "tcpstore" else ()
    code, text = torch_cases.run("%s-%s-%s-%s" % (version, name, way, where.split()[-1]), [
        "-n", count, "--label", *options, "--", python, PROGRAM, name], **outside)
    said = re.findall(r"(?m)^\[\d+\] process \d+ of %d: (.*)" % count, text)
    verdict(version, "%s: %s, %d ranks, %s" % (way, name, count, where),
            None if code == 0 and len(said) == count else "exit status %s\n%s" % (code, text), said[0] if said else "")


def record(version, python):
    code, text = torch_cases.run(version + "-record", ["-n", 2, "--label", "--tcpstore", "--", python, PROGRAM, "record"])
    said = re.findall(r"(?m)^muster run: (task 1 .*: ArithmeticError: the loss is nan)", text)
    verdict(version, "@record: the exception of the rank that raised is said as the root cause",
            None if code and said else "exit status %s\n%s" % (code, text), said[0] if said else "")


def all_cases(version, python):
    for name, (modules, count, uses_store) in FRAMEWORKS.items():
        if not can(python, "import " + modules):
            kit.skip(version, "%s: 'import %s' fails there" % (name, modules))
            continue
        for way in ("own", "tcpstore") if uses_store else ("own",):
            for where, outside in (("bare", {}), ("in a step", kit.STEP)):
                find(version, python, name, way, count, outside, where)
    record(version, python)
