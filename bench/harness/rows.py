"""The rows: which programs make them, and in which groups they run interleaved.

A group's contenders run in turn, then all again (A B C A B C), so that a slow minute of the machine meets them all.
"""
import functools
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Contender:
    def __init__(self, who, command, timeout=90, environment=None, missing="", repeats=None):
        self.who, self.command, self.timeout = who, command, timeout  # a list, or a function that makes it when it is due
        self.environment = environment or {}
        self.missing = missing  # why it cannot run here; "" when it can
        self.repeats = repeats  # at most so many, None: as many as asked for


class Group:
    """contenders: a list, or a function that makes it when it is asked for: peers are looked for and compiled then"""

    def __init__(self, name, contenders):
        self.name, self.found = name, contenders

    @property
    def contenders(self):
        if callable(self.found):
            self.found = self.found()
        return self.found


def later(name, make, *arguments):
    """The group of this name that make(*arguments) makes, when its contenders are asked for."""
    return Group(name, lambda: make(*arguments).contenders)


class Tools:
    """Where the programs are. Peers are compiled here, because their compilers may be absent."""

    def __init__(self, build, muster, compiler):
        self.folder = os.path.join(build, "bench")
        self.muster, self.compiler = muster, compiler
        self.why = {}  # program -> why it is missing
        self.scratch = tempfile.TemporaryDirectory(prefix="muster-bench-")  # what peers leave; gone at the end

    def program(self, name):
        path = os.path.join(self.folder, name)
        return path if os.access(path, os.X_OK) else None

    def peer(self, name, source, compiler, flags=()):
        """Compile bench/peers/SOURCE with COMPILER; None, and the reason kept, when that cannot be done."""
        path = os.path.join(self.folder, "peers", name)
        source = os.path.join(HERE, "peers", source)
        inputs = [source] + [os.path.join(HERE, n) for n in os.listdir(HERE) if n.endswith(".h")]
        if os.path.exists(path) and os.path.getmtime(path) > max(map(os.path.getmtime, inputs)):
            return path
        if not shutil.which(compiler):
            self.why[name] = "%s is not installed" % compiler
            return None
        os.makedirs(os.path.dirname(path), exist_ok=True)
        done = subprocess.run([compiler, "-std=gnu17", "-O2", "-Wall", "-Wextra", "-o", path, source, *flags],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            said = done.stdout.decode(errors="replace").strip().splitlines()
            self.why[name] = "%s cannot compile it: %s" % (compiler, said[0] if said else "no reason given")
            return None
        return path


class Effort:
    """How long and how often: everything that --quick and --seconds change."""

    def __init__(self, quick, seconds):
        self.quick = quick
        self.slice = 0.03 if quick else min(max(seconds / 100, 0.1), 10)  # of a timed loop
        self.least = 16 if quick else 96  # iterations of a slow barrier
        self.most = 2000000
        self.keys = 2000 if quick else 50000
        self.objects = 20000 if quick else 1000000
        self.waits = 50 if quick else 300
        self.small_kills = 3 if quick else 15
        self.large_kills, self.large_mib = (2, 64) if quick else (6, 2048)
        self.runs = 3 if quick else 10
        self.many = 16 if quick else 128  # tasks

    def __str__(self):
        return ("%.2f s a timed loop, %d keys of 64 bytes, %d objects audited, %d kills at 10 MiB and %d at %d MiB a "
                "repeat" % (self.slice, self.keys, self.objects, self.small_kills, self.large_kills, self.large_mib))


def own(tools, who, program, *arguments, **more):
    path = tools.program(program)
    missing = "" if path else "%s is not built" % os.path.join(tools.folder, program)
    return Contender(who, [path or program] + [str(a) for a in arguments], missing=missing, **more)


def openmpi_environment():
    if os.geteuid():
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpi(tools, who, flavour, size, effort, *launcher_options):
    name = "mpi_barrier." + flavour
    program = tools.peer(name, "mpi_barrier.c", "mpicc." + flavour)
    launcher = shutil.which("mpirun." + flavour)
    missing = "" if program and launcher else tools.why.get(name, "mpirun.%s is not installed" % flavour)
    command = [launcher, *launcher_options, "-n", str(size), program, who, str(effort.slice), str(effort.least),
               str(effort.most)]
    return Contender(who, command, environment=openmpi_environment() if flavour == "openmpi" else {}, missing=missing)


def barrier_group(tools, effort, size):
    few = size <= len(os.sched_getaffinity(0))
    loop = (size, effort.slice, effort.least, effort.most)
    pthread = tools.peer("pthread_barrier", "pthread_barrier.c", tools.compiler, ["-pthread"])
    contenders = [
        own(tools, "muster", "barrier", *loop),
        Contender("pthread", [pthread] + [str(a) for a in loop], missing=tools.why.get("pthread_barrier", "")),
        mpi(tools, "mpich", "mpich", size, effort, "-bind-to", "none"),
        mpi(tools, "openmpi", "openmpi", size, effort, "--bind-to", "none", *([] if few else ["--oversubscribe"])),
    ]
    if few:
        contenders.append(mpi(tools, "openmpi-sm", "openmpi", size, effort, "--bind-to", "none", "--mca",
                              "coll_sm_priority", "100"))
    if size == 2:
        contenders.insert(0, own(tools, "one-way", "line", effort.slice))
    return Group("barrier%d" % size, contenders)


def kv_group(tools, effort):
    each = effort.slice / 2
    redis = tools.peer("redis", "redis.c", tools.compiler)
    no_redis = tools.why.get("redis", "") or ("" if shutil.which("redis-server") else "redis-server is not installed")
    python, store = torch_python(), os.path.join(HERE, "peers", "tcpstore.py")
    return Group("kv", [
        own(tools, "muster", "kv", each, effort.keys),
        Contender("redis", [redis, str(each), str(effort.keys)], missing=no_redis),
        Contender("tcpstore", [python, store, str(each), str(effort.keys)],
                  missing="" if python else "no Python here has torch.distributed (Debian: python3-torch)"),
        own(tools, "muster", "wait", effort.waits),
    ])


@functools.lru_cache(None)
def torch_python():
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3", shutil.which("python3"))):
        if not python:
            continue
        try:
            done = subprocess.run([python, os.path.join(HERE, "peers", "tcpstore.py"), "--version"], timeout=60,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return python
    return None


def launchers(tools, size, python):
    """(who, command line, environment, why it cannot run, or "") of each launcher of `size` times true."""
    hydra, orte = shutil.which("mpiexec.hydra"), shutil.which("mpirun.openmpi")
    muster = tools.muster if tools.muster and os.access(tools.muster, os.X_OK) else None
    size = str(size)
    bare = tools.program("floor")
    for who, words in (("bare", []), ("bare-guard", ["guard"]), ("bare-clone", ["clone"])):
        yield who, [bare, *words, size, "true"], {}, "" if bare else "%s/floor is not built" % tools.folder
    yield "muster", [muster, "run", "-n", size, "--", "true"], {}, "" if muster else "the muster command is not built"
    yield ("mpich", [hydra, "-bind-to", "none", "-n", size, "true"], {},
           "" if hydra else "mpiexec.hydra is not installed")
    yield ("openmpi", [orte, "--bind-to", "none", "--oversubscribe", "-n", size, "true"], openmpi_environment(),
           "" if orte else "mpirun.openmpi is not installed")
    # 9:1, "the output of task 9 to a file": with its own default this version fails under Python 3.11.
    yield ("torchrun", [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", size, "--redirects",
                        "9:1", "--tee", "9:1", "--log_dir", tools.scratch.name, "--no_python", "true"], {},
           "" if python else "no Python here has torch.distributed (Debian: python3-torch)")


def run_group(tools, effort):
    contenders, spawn, python = [], tools.program("spawn"), torch_python()
    for size in (2, 8, 64):
        metric = "run.%d" % size
        contenders.append(own(tools, "posix_spawn", "spawn", metric, "posix_spawn", effort.runs, size, "true"))
        for who, command, environment, why in launchers(tools, size, python):
            slow = who == "torchrun"  # seconds each
            if slow and size != (2 if effort.quick else 8) or who == "openmpi" and size == 64:  # where mpirun 4.1.4 often does not end
                continue
            missing = why if spawn else "%s/spawn is not built" % tools.folder
            contenders.append(Contender(who, [spawn, metric, who, "1" if slow else str(effort.runs), "1", *command],
                                        environment=environment, missing=missing, repeats=2 if slow else None))
    return Group("run", contenders)


@functools.lru_cache(None)
def grpcio_python():
    script = os.path.join(HERE, "peers", "grpcio_client.py")
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if python and subprocess.run([python, script, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def jax_python():
    made = os.path.join(os.path.dirname(HERE), "build/interop/jax-newest/bin/python")
    return os.environ.get("MUSTER_BENCH_JAX") or (made if os.access(made, os.X_OK) else None)


def grpc_services(tools):
    """(who, the program that serves, why it cannot): $MUSTER_BENCH_JAX names a Python that has jaxlib, else `make interop` made one."""
    python = jax_python()
    able = tools.muster and os.access(tools.muster, os.X_OK)
    etcd = shutil.which("etcd")
    yield "muster", tools.muster, "" if able else "the muster command is not built"
    yield "jaxlib", python, "" if python else "no Python here has jaxlib 0.10 or later ($MUSTER_BENCH_JAX, or make interop)"
    yield "etcd", etcd, "" if etcd else "etcd is not installed"


def grpc_contenders(tools, effort, client, missing):
    """JAX's own service, in C++, and etcd beside ours; the same client asks them alike."""
    each = str(min(effort.slice / 2, 2))  # seconds for a row
    script = os.path.join(HERE, "peers", "coordination.py")
    return [Contender(who, [sys.executable, script, who, program, each, *client], timeout=180, missing=why or missing, repeats=3)
            for who, program, why in grpc_services(tools) if not (effort.quick and who == "jaxlib")]  # it takes 10 s


def grpc_group(tools, effort):
    client = tools.program("grpc")
    loopback = ["-", "127.0.0.1", "-", "127.0.0.1"]
    limits = [own(tools, "tcp", "tcp", metric, "tcp", "block", effort.slice / 2, *loopback) for metric in ("grpc.set", "grpc.get")]
    return Group("grpc", limits + grpc_contenders(tools, effort, [client], "" if client else "%s/grpc is not built" % tools.folder))


def grpcio_group(tools, effort):
    python = grpcio_python()
    return Group("grpcio", grpc_contenders(tools, effort, [python, os.path.join(HERE, "peers", "grpcio_client.py")],
                                           "" if python else "no Python here has grpcio (Debian: python3-grpcio)"))


def elastic_group(tools, effort):
    """A job's membership, by C and by the wire of MindSpore's parameter servers."""
    contenders = [own(tools, "muster", "elastic", "loss", 16, effort.small_kills, timeout=180),
                  own(tools, "muster", "elastic", "change", 8, 0, effort.waits)]
    contenders += [own(tools, "muster", "elastic", "change", members, come, max(effort.runs, 3), timeout=180)
                   for members, come in ((8, 2), (256, 64)) if members == 8 or not effort.quick]
    muster = tools.muster if tools.muster and os.access(tools.muster, os.X_OK) else None
    for servers, workers in ((8, 8), (32, 32), (128, 128))[:1 if effort.quick else 3]:
        contender = own(tools, "muster", "nodes", muster, servers, workers, effort.waits, effort.small_kills, timeout=180)
        contender.missing = contender.missing or ("" if muster else "the muster command is not built")
        contenders.append(contender)
    hot = tools.program("elastic")
    contenders.append(Contender("strace", [sys.executable, os.path.join(HERE, "harness/counted.py"), "wakes", hot or "elastic"], repeats=1,
                                missing="" if hot and shutil.which("strace") else "strace is not installed"))
    return Group("elastic", contenders)


def checkpoint_group(tools, effort):
    """A rank's checkpoint in memory, beside what PyTorch does."""
    from harness.compat import newest_torch
    sizes = [str(size) for size in ([1 << 20] if effort.quick else [1 << 20, 64 << 20, 1 << 30])]
    contenders = [own(tools, "muster", "checkpoint", effort.slice, *sizes, timeout=180)]
    python = None if effort.quick else newest_torch()
    for way, who in (("shm", "torch.save to /dev/shm"), ("disk", "torch.save to a disk"), ("dcp", "torch.distributed.checkpoint")):
        if not effort.quick:
            contenders.append(Contender(who, [python or "python3", os.path.join(HERE, "peers", "checkpoint_torch.py"), way,
                                              str(min(effort.slice, 2)), *sizes], timeout=300, repeats=1,
                                        missing="" if python else "no Python here has PyTorch 2.4 or later ($MUSTER_BENCH_TORCH, or make interop)"))
    return Group("checkpoint", contenders)


def groups(tools, effort):
    return [
        *(later("barrier%d" % size, barrier_group, tools, effort, size) for size in (2, 4, 8)),
        Group("named", [own(tools, "muster", "named", effort.slice)]),
        later("kv", kv_group, tools, effort),
        Group("death", [own(tools, "muster", "death", effort.small_kills, 10),
                        own(tools, "muster", "death", effort.large_kills, effort.large_mib, timeout=180)]),
        Group("stream", [own(tools, "muster", "stream", 2, effort.waits * 10, effort.small_kills)]),
        Group("trace", [own(tools, "muster", "trace", effort.slice)]),
        Group("topology", [own(tools, "muster", "topology", tasks, effort.runs) for tasks in (8, effort.many)]),
        Group("exchange", [own(tools, "muster", "exchange", tasks, effort.runs) for tasks in (8, effort.many)]),
        Group("object", [own(tools, "muster", "object", effort.slice),
                         Contender("SharedMemory", [sys.executable, os.path.join(HERE, "peers", "sharedmemory.py"), str(effort.slice)])]),
        Group("call", [own(tools, "muster", "call", effort.slice)]),
        Group("queue", [own(tools, "muster", "queue", effort.slice)]),
        later("checkpoint", checkpoint_group, tools, effort),
        later("elastic", elastic_group, tools, effort),
        later("grpc", grpc_group, tools, effort),
        later("grpcio", grpcio_group, tools, effort),
        later("run", run_group, tools, effort),
    ]
