"""The rows of programs that are not muster's own: PyTorch's stores and process groups, MPI's launch."""
import importlib.util
import os
import shutil
import subprocess
import sys

from harness import rows
from harness.rows import Contender, Group, own

PEERS = os.path.join(rows.HERE, "peers")


def newest_torch():
    """The Python of an environment with a PyTorch that has the libuv back end: $MUSTER_BENCH_TORCH, else `make interop` made one."""
    made = os.path.join(os.path.dirname(rows.HERE), "build/interop/torch-newest/bin/python")
    return os.environ.get("MUSTER_BENCH_TORCH") or (made if os.access(made, os.X_OK) else None)


def able_muster(tools):
    return tools.muster if tools.muster and os.access(tools.muster, os.X_OK) else None


def torches():
    """(who, Python, why it cannot run): both back ends of a PyTorch of today, and the one that the system brings."""
    newest, system = newest_torch(), rows.torch_python()
    why = "no Python here has PyTorch 2.4 or later ($MUSTER_BENCH_TORCH, or make interop)"
    yield "torch-libuv", newest, "" if newest else why
    yield "torch-poll", newest, "" if newest else why
    yield "torch-debian", system, "" if system else "no Python here has torch.distributed (Debian: python3-torch)"


def store_group(tools, effort):
    client, script = tools.program("store"), os.path.join(PEERS, "store_server.py")
    each, most = str(min(effort.slice / 2, 2)), "100" if effort.quick else "10000"
    servers = [] if effort.quick else list(torches())  # PyTorch alone takes seconds to begin

    def contender(who, program, why):
        slow = who in ("torch-poll", "torch-debian")  # at 10,000 clients a request takes milliseconds, connecting them 10 s
        return Contender(who, [sys.executable, script, who, program, client, each, most], timeout=240, repeats=1 if slow else 3,
                         missing=why or ("" if client else "%s/store is not built" % tools.folder))

    muster = able_muster(tools)
    return Group("store", [contender("muster", muster, "" if muster else "the muster command is not built"),
                           *(contender(*server) for server in servers), own(tools, "muster-shm", "store_shm", each)])


def init_group(tools, effort):
    """PyTorch alone takes seconds to begin: nothing of it is in the quick form."""
    script, rounds = os.path.join(PEERS, "store_init.py"), str(effort.runs)

    def contender(metric, who, python, why):
        return Contender(who, [python, script, metric, who, tools.muster or "", rounds, "8"], timeout=180, repeats=3, missing=why)

    found, no_muster = [], "" if able_muster(tools) else "the muster command is not built"
    for who, python, why in [] if effort.quick else torches():
        metric = "store.init.8.debian" if who == "torch-debian" else "store.init.8"
        found.append(contender(metric, who, python, why))
        if who != "torch-poll":  # each PyTorch's ranks once with the store that muster serves
            found.append(contender(metric, "muster", python, why or no_muster))
    return Group("init", found)


def package_of(tools, python):
    """(a folder with the Python package and muster._fast, compiled for that Python; why there is none)"""
    source, folder = os.path.join(os.path.dirname(rows.HERE), "python/src"), os.path.join(tools.folder, "peers/python")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info"))
    asked = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True)
    headers = asked.stdout.strip()
    if not os.path.exists(os.path.join(headers, "Python.h")):
        return folder, "no headers of %s: Debian's python3-dev has them" % python
    done = subprocess.run([tools.compiler, "-O2", "-shared", "-fPIC", "-I" + headers, os.path.join(folder, "muster/_fast.c"), "-o",
                           os.path.join(folder, "muster/_fast.so")], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return folder, "muster._fast cannot be compiled: " + (done.stderr.splitlines() or ["?"])[0] if done.returncode else ""


def torch_group(tools, effort):
    """PyTorch's own client from Python beside muster.torch. Not in the quick form, as all of PyTorch."""
    python, muster, script = newest_torch(), able_muster(tools), os.path.join(PEERS, "store_torch.py")
    if effort.quick:
        return Group("torch", [])
    why = "the muster command is not built" if not muster else "" if python else (
        "no Python here has PyTorch 2.4 or later ($MUSTER_BENCH_TORCH, or make interop)")
    package, no_fast = package_of(tools, python) if not why else ("", "")
    more = {} if why else {"PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1",
                           "MUSTER_LIBRARY": os.path.join(os.path.dirname(muster), "libmuster.so.0")}
    return Group("torch", [Contender(who, [muster, "run", "-n", "2", "--", python, script, who, str(min(effort.slice / 2, 1))],
                                     environment=more, timeout=120, repeats=3, missing=why or (no_fast if who == "muster" else ""))
                           for who in ("torch-libuv", "muster", "muster-ctypes")])


def calls_group(tools, effort):
    """Calls of Python functions, beside the pools of Python itself."""
    muster, script = able_muster(tools), os.path.join(PEERS, "calls.py")
    more = {} if not muster else {"PYTHONPATH": os.path.join(os.path.dirname(rows.HERE), "python/src"), "PYTHONDONTWRITEBYTECODE": "",
                                  "MUSTER_LIBRARY": os.path.join(os.path.dirname(muster), "libmuster.so.0")}
    missing = {"muster": "" if muster else "the muster command is not built",
               "loky": "" if importlib.util.find_spec("loky") else "loky is not installed"}
    return Group("calls", [Contender(who, [sys.executable, script, who, str(min(effort.slice / 2, 2)), "2" if effort.quick else "20"],
                                     environment=more if who == "muster" else {}, timeout=120, repeats=1 if effort.quick else 3,
                                     missing=missing.get(who, ""))
                           for who in ("muster", "Pool", "ProcessPoolExecutor", "loky")])


def ps_group(tools, effort):
    """Tensors that 1, 2, 8 processes push to, beside torch.distributed.rpc, and ps-lite where $PSLITE is its built source."""
    python, contenders, each = newest_torch(), [], str(min(effort.slice / 2, 1))
    folder = os.environ.get("PSLITE")
    pslite = None if effort.quick or not folder else tools.peer(
        "pslite", "pslite.cc", "g++", ["-std=c++14", "-O3", "-w", "-I" + folder + "/include", "-I" + folder + "/src",
                                       folder + "/libps.a", *os.environ.get("PSLITE_FLAGS", "-lzmq -lprotobuf -lpthread").split()])
    for pushers in (1, 2) if effort.quick else (1, 2, 8):
        contenders.append(rows.own(tools, "muster", "ps", pushers, each, (1 if effort.quick else 64) << 20, timeout=180, repeats=3))
        if effort.quick:
            continue
        contenders.append(Contender("torch-rpc", [python or "python3", os.path.join(PEERS, "ps_torch.py"), str(pushers), each],
                                    timeout=180, repeats=3, missing="" if python else "no Python here has PyTorch 2.4 or later "
                                    "($MUSTER_BENCH_TORCH, or make interop)"))
        contenders.append(Contender("ps-lite", [pslite or "pslite", str(pushers), each], timeout=180, repeats=3,
                                    missing="" if pslite else tools.why.get("pslite", "$PSLITE does not name ps-lite's built source")))
    return Group("ps", contenders)


def mpi_launchers(tools, flavour, size):
    """(who, the launcher's words before the program)"""
    muster = able_muster(tools)
    theirs = shutil.which("mpiexec.hydra" if flavour == "mpich" else "mpirun.openmpi")
    name = "hydra" if flavour == "mpich" else "mpirun"
    more = ["-bind-to", "none"] if flavour == "mpich" else ["--bind-to", "none", "--oversubscribe"]
    yield "muster", [muster, "run", "-n", str(size), "--"], "" if muster else "the muster command is not built"
    yield name, [theirs, *more, "-n", str(size)], "" if theirs else "%s of %s is not installed" % (name, flavour)


def mpi_contenders(tools, effort, flavour, size):
    program = tools.peer("mpi_init." + flavour, "mpi_init.c", "mpicc." + flavour)
    launch = tools.program("launch")
    missing = tools.why.get("mpi_init." + flavour, "") or ("" if launch else "%s/launch is not built" % tools.folder)
    rounds = 1 if effort.quick else effort.runs
    for who, words, why in mpi_launchers(tools, flavour, size):
        yield Contender(who, [launch, "mpi.%s.%d" % (flavour, size), who, str(rounds), str(size), *words, program, str(size)],
                        environment=rows.openmpi_environment() if flavour == "openmpi" else {}, missing=missing or why,
                        timeout=180, repeats=3)


def mpi_group(tools, effort):
    return Group("mpi", [contender for size in ((2,) if effort.quick else (2, 4, 8)) for flavour in ("mpich", "openmpi")
                         for contender in mpi_contenders(tools, effort, flavour, size)])


def groups(tools, effort):
    return [rows.later(name, make, tools, effort) for name, make in (("store", store_group), ("torch", torch_group), ("calls", calls_group), ("ps", ps_group), ("init", init_group),
                                                                     ("mpi", mpi_group))]
