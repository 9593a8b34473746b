"""The versions of what muster is measured beside."""
import re
import shutil

from harness import compat, rows
from harness.machine import output_line

ASK = "import importlib.metadata as m; print(m.version('%s'))"


def version(text):
    found = re.search(r"\d+\.\d+[\w.+-]*", text)
    return found.group(0) if found else ""


def of_program(program, *arguments):
    path = shutil.which(program)
    return version(output_line(path, *arguments)) if path else ""


def of_package(python, package):
    return version(output_line(python, "-c", ASK % package)) if python else ""


def peers():
    """(name, version or why there is none), in a fixed order."""
    yield "MPICH", of_program("mpichversion") or of_program("mpiexec.hydra", "--version")
    yield "Open MPI", of_program("mpirun.openmpi", "--version")
    yield "Redis", of_program("redis-server", "--version")
    yield "etcd", of_program("etcd", "--version")
    yield "PyTorch, the system's", of_package("/usr/bin/python3", "torch")
    yield "PyTorch, today's", of_package(compat.newest_torch(), "torch")
    yield "jaxlib", of_package(rows.jax_python(), "jaxlib")
    yield "grpcio", of_package("/usr/bin/python3", "grpcio")
    yield "valgrind", of_program("valgrind", "--version")
    yield "strace", of_program("strace", "-V")


def words():
    return "; ".join("%s %s" % (name, found or "not found") for name, found in peers())
