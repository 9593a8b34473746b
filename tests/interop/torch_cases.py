"""The cases of `make interop` for PyTorch: unmodified programs (programs/torch_*.py), and what must come of each.

Each is run three times: on the server that rank 0 makes by itself (what fails there is a wrong case), on `muster run
--tcpstore`, and on muster.torch.
"""
import os
import re
import shutil
import subprocess
import tempfile

import jax_cases
import kit
from kit import verdict

SOURCE = os.path.join(kit.TOP, "python/src")
SIZES = (2, 4, 8)
WAYS = {  # name: (options of muster run, what is before the program)
    "own": ((), ()),
    "tcpstore": (("--tcpstore",), ()),
    "muster.torch": ((), ("-m", "muster.torch")),
}


def run(name, words, **more):
    """muster run with these words: its exit status, and all that was said."""
    return kit.run(name, words, **more, **kit.of_library())


def job(name, count, python, way, program, *arguments, options=()):
    """One program as all tasks of a job."""
    asked, before = WAYS[way]
    return run(name, ["-n", count, *asked, *options, "--", python, *before, os.path.join(kit.HERE, "programs", program), *arguments])


def each_says(version, way, what, count, result, pattern, code=0):
    status, text = result
    said = re.findall(r"process \d+ of %d: (%s)" % (count, pattern), text)
    verdict(version, "%s: %s" % (way, what), None if status == code and len(said) == count else "exit status %s\n%s" % (
        status, text), said[0] if said else "")


def trains(version, python, way):
    for count in SIZES:
        each_says(version, way, "init_process_group() of env://, all_reduce, new_group, DDP, %d ranks" % count, count, job(
            "%s-%s-train%d" % (version, way, count), count, python, way, "torch_train.py"), r"all_reduce, [^\n]*")


def meets_elsewhere(version, python, way):
    each_says(version, way, "init_process_group() of tcp:// at another port", 2, job(
        "%s-%s-elsewhere" % (version, way), 2, python, way, "torch_elsewhere.py"), r"all_reduce, [^\n]*")


def on_two_hosts(version, python, way):
    with tempfile.TemporaryDirectory() as folder:
        options = ("--hosts", "localhost:2,b:2", "--rsh", jax_cases.rsh_to_here(folder))
        each_says(version, way, "the same on two hosts, --hosts localhost:2,b:2", 4, job(
            "%s-%s-hosts" % (version, way), 4, python, way, "torch_train.py", options=options), r"all_reduce, [^\n]*")


def missing_is_named(version, python, way):
    for count in SIZES:
        _, text = job("%s-%s-missing%d" % (version, way, count), count, python, way, "torch_missing.py", options=("--kill-on-fail=no",))
        said = re.findall(r"process 0 of %d: monitored_barrier: ([^\n]*)" % count, text)
        verdict(version, "%s: monitored_barrier() names the rank that is missing, %d ranks" % (way, count),
                None if said and re.search(r"Ranks %d failed to pass" % (count // 2), said[0]) else text, said[0] if said else "")


def starts_again(version, python, way):
    for count in SIZES:
        what = "rank 1 is killed by SIGKILL, --restarts 1: the second attempt ends well, %d ranks" % count
        each_says(version, way, what, count, job("%s-%s-killed%d" % (version, way, count), count, python, way, "torch_killed.py",
                                                 options=("--restarts", "1")), r"ten all_reduces in attempt 1")


def calls(version, python, way):
    each_says(version, way, "torch.distributed.rpc", 3, job("%s-%s-rpc" % (version, way), 3, python, way, "torch_rpc.py"),
              r"rpc_sync[^\n]*")


def checks(version, python, way):
    mode = way.split(".")[0]
    asked = "tcpstore" if way == "muster.torch" else way  # muster.torch is imported by the program
    status, text = job("%s-%s-checks" % (version, way), 1, python, asked if mode != "muster" else "own", "torch_checks.py", mode)
    counts = [len(re.findall(r"(?m)^%s +\d+ " % word, text)) for word in ("ok", "FAIL", "skip")]
    bad = "\n".join(re.findall(r"(?m)^FAIL.*(?:\n(?!ok |skip |FAIL ).*)*", text))
    verdict(version, "%s: the 35 checks of PyTorch's own tests, by its client" % way,
            None if status == 0 and sum(counts) == 35 and not counts[1] else "exit status %s\n%s" % (status, bad or text),
            "%d hold, %d do not apply (why: %s-%s-checks.log)" % (counts[0], counts[2], version, way))


def torchrun(version, python):
    """torchrun as it is, two agents of one worker each; where they meet is our store, of which none is the host."""
    words = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_id", "one",
             "--rdzv_conf", "is_host=0", "--log_dir", os.path.join(kit.LOGS, version + "-torchrun.workers"),
             "-r", "1", "-t", "1"]  # 1.13 breaks without -r and -t on Python 3.11
    program = os.path.join(kit.HERE, "programs", "torch_train.py")
    shell = 'unset TORCHELASTIC_USE_AGENT_STORE; exec "$0" "$@" --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT %s' % program
    result = run("%s-torchrun" % version, ["-n", "2", "--tcpstore", "--", "sh", "-c", shell, python, *words])
    each_says(version, "tcpstore", "torchrun's own rendezvous (c10d, is_host=0), two agents", 2, result, r"all_reduce, [^\n]*")


def dead_is_named(version, python):
    """Both kinds of ranks wait for a key that the dead one owes: muster.torch says who it was."""
    status, text = job("%s-dead" % version, 2, python, "muster.torch", "torch_dead.py", options=("--kill-on-fail=no",))
    said = re.findall(r"process 0 of 2: ([^\n]*task 1 \(pid \d+ [^\n]*)", text)
    verdict(version, "muster.torch: what a dead rank owes is an error with its name", None if said else text,
            said[0] if said else "")


def mixed(version, python, mpi):
    """One task in C, one of PyTorch, one of MPI (of which there is one, so it is a world of its own)."""
    compiler = shutil.which("mpicc." + mpi)
    if not compiler:
        return kit.skip(version, "a job that mixes C, PyTorch and MPI: mpicc.%s is not here" % mpi)
    build = os.path.dirname(kit.MUSTER)
    with tempfile.TemporaryDirectory() as folder:
        for program, words in (("c", ["cc"]), ("mpi", [compiler, "-DWITH_MPI"])):
            made = subprocess.run([*words, "-I" + os.path.join(kit.TOP, "include"), os.path.join(kit.HERE, "programs/mixed.c"), "-o",
                                   os.path.join(folder, program), os.path.join(build, "libmuster.so.0"), "-Wl,-rpath," + build],
                                  capture_output=True, text=True)
            if made.returncode:
                return verdict(version, "%s of mixed.c" % words[0], made.stderr)
        shell = ('case $RANK in 0) exec %s/c tcpstore/:shared;; 1) exec "$@";; '
                 '*) exec %s/mpi tcpstore/:shared;; esac' % (folder, folder))
        result = run("%s-mixed-%s" % (version, mpi), ["-n", "3", "--tcpstore", "--mpi", "none", "--", "sh", "-c", shell, "sh", python,
                                                                os.path.join(kit.HERE, "programs/torch_mixed.py")])
    each_says(version, "tcpstore", "a task in C, one of PyTorch, one of MPI (%s): one barrier, one key" % mpi, 3, result,
              r"[^\n]*passed the barrier")


def shards(version, python):
    what = "a model of fully_shard() in muster.torch.Checkpointer goes on where it was, bit for bit"
    if subprocess.run([python, "-c", "from torch.distributed.fsdp import fully_shard"], capture_output=True).returncode:
        return kit.skip(version, what + ": this PyTorch has none")
    kit.goes_on_alike(version, python, "torch_sharded.py", 3, 8, what)


def speeds(version, python):
    """What operations cost, told and not judged; with muster._fast where it can be compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(SOURCE, os.path.join(folder, "src"))
        headers = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], capture_output=True,
                                 text=True).stdout.strip()
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I" + headers, os.path.join(source, "muster/_fast.c"), "-o",
                        os.path.join(source, "muster/_fast.so")], capture_output=True)
        status, text = run("%s-speeds" % version, ["-n", "2", "--", "env", "PYTHONPATH=" + source, python,
                                                   os.path.join(kit.HERE, "programs/torch_speed.py")])
    said = re.findall(r"process 0 of 2: ([^\n]*)", text)
    verdict(version, "muster.torch beside TCPStore, in one run", None if status == 0 and len(said) == 6 else text)
    for line in said:
        kit.say("        " + line)


def all_cases(version, python):
    for way in WAYS:
        checks(version, python, way)
        trains(version, python, way)
        missing_is_named(version, python, way)
        starts_again(version, python, way)
        if way != "muster.torch":
            calls(version, python, way)
        if way != "own":
            on_two_hosts(version, python, way)
        if way == "tcpstore":
            meets_elsewhere(version, python, way)
    for mpi in ("mpich", "openmpi"):
        mixed(version, python, mpi)
    torchrun(version, python)
    dead_is_named(version, python)
    shards(version, python)
    speeds(version, python)
