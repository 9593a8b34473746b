#!/usr/bin/env python3
"""The table of muster-run(1)'s ENVIRONMENT is whole, and true: what tasks get beyond the launcher's own variables is
named there, what is named there some task here gets, and what one variable is said to be as another is that.
"""
import fnmatch
import os
import re
import subprocess
import sys

MUSTER, TOP, TMPDIR = os.environ["MUSTER"], os.environ["TOP"], os.environ["TMPDIR"]
MACHINES = os.path.join(TOP, "tests/topology/machines")
READERS = {"muster", "torchrun", "Open MPI", "MPICH", "PMIx", "OpenMP", "Python", "JAX", "gRPC", "MindSpore", "CUDA", "ROCm"}


def fail(*words):
    sys.exit("FAIL: " + " ".join(str(word) for word in words))


def read_table():
    """{variable, which may have a * in it: (reader, value)}"""
    page = open(os.path.join(TOP, "man/muster-run.1")).read()
    section = page.split("\n.Sh ENVIRONMENT\n")[1].split("\n.Sh ")[0]
    if section.count("\n.Bl ") != 1:
        fail("ENVIRONMENT has", section.count("\n.Bl "), "lists, not one table")
    rows = {}
    for row in section.split("\n.Bl ")[1].split("\n.El\n")[0].split("\n.It ")[2:]:  # behind the one of titles
        cells = row.replace("\n", " ").split(" Ta ")
        name = re.fullmatch(r"Ev (\S+)", cells[0])
        if len(cells) != 3 or not name or name[1] in rows:
            fail("no row of 'variable, reader, value', or a second one:", row)
        if cells[1] not in READERS:
            fail(name[1], "is read by", cells[1])
        rows[name[1]] = (cells[1], cells[2])
    return rows


TABLE = read_table()
base = {name: value for name, value in os.environ.items()
        if not re.search("^HWLOC_|VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|proxy", name, re.IGNORECASE)
        and not any(fnmatch.fnmatchcase(name, row) for row in TABLE)}
seen = set()


def note(words, variables):
    """What the task got, beyond the launcher's."""
    for name in variables:
        rows = [row for row in TABLE if fnmatch.fnmatchcase(name, row)]
        if len(rows) != 1:
            fail(words, "sets", name, "which has", len(rows), "rows in the table")
        seen.update(rows)
    previous = None
    for name, (_, value) in TABLE.items():
        same = re.match(r"(?:.*: )?as \.Ev (\S+)$", value)  # and no more words, of other cases
        other = same[1] if same else previous if value == "the same" else None
        if other and name in variables and variables[name] != variables.get(other):
            fail(words, name, "is", variables[name], "and", other, "is", variables.get(other))
        previous = other or name


def run(*words, **more):
    """A job, whose first task's variables are shown."""
    done = subprocess.run([MUSTER, "run", *words, "env", "-0"], env={**base, **more}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        fail(words, "exits with", done.returncode, done.stderr.decode())
    variables = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)
    own = {name: value for name, value in variables.items() if name not in base and name not in more}
    note(words, own)
    return own


def plan(*words, **more):
    """A dry run, of a machine that is not this one; dry_run_test.sh has proved that it tells what a run does."""
    done = subprocess.run([MUSTER, "run", "--dry-run", *words, "true"], env={**base, **more}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        fail(words, "exits with", done.returncode, done.stderr.decode())
    lines = done.stdout.decode().split("\ntask 1 on")[0].splitlines()
    own = dict(line.strip().split("=", 1) for line in lines if re.match(r"    \w+=", line))
    note(words, own)
    return own


def expect(variables, **values):
    for name, value in values.items():
        if variables.get(name) != value:
            fail(name, "is", variables.get(name), "and not", value)


def works(*words):
    return subprocess.run([MUSTER, "run", *words, "true"], env=base, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


alone = run()
expect(alone, GROUP_WORLD_SIZE="1", MUSTER_RECOVERABLE="0", TORCHELASTIC_MAX_RESTARTS="0", WORLD_SIZE="1")
expect(run("--restarts", "2", "--restart-policy", "task"), MUSTER_RECOVERABLE="1", TORCHELASTIC_MAX_RESTARTS="2")
expect(run("--restarts", "2"), MUSTER_RECOVERABLE="0")
expect(plan("--hosts", "localhost:2,elsewhere:1"), GROUP_WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", WORLD_SIZE="3")
expect(plan("-n", "2"), OMP_NUM_THREADS="1", TORCHELASTIC_USE_AGENT_STORE="False")
run("--memfd")
silent = run("--mpi", "none")
for pattern in "PMI_*", "FLUX_*", "OMPI_MCA_*":
    if fnmatch.filter(silent, pattern) or not fnmatch.filter(alone, pattern):
        fail(pattern, "with and without --mpi none:", sorted(alone), sorted(silent))
run("--mpi", "pmi1")
if "PMI_FD" in run("--mpi", "port"):
    fail("--mpi port has a PMI_FD")
run("--tcpstore")
expect(run("--mindspore"), MS_ROLE="MS_WORKER", MS_WORKER_NUM="1", MS_SERVER_NUM="0")
run("--grpc")
expect(run("--grpc", https_proxy="http://127.0.0.1:9"), no_grpc_proxy="127.0.0.1")

untried = set()
if works("--mpi", "pmix"):
    if fnmatch.filter(run("--mpi", "pmix"), "PMI_*"):
        fail("--mpi pmix sets PMI_*")
else:
    untried |= {"PMIX_*", "JSM_JSRUN_PORT"}
if works("--dry-run", "--bind-to", "core"):
    amd = os.path.join(TMPDIR, "amd.xml")
    with open(amd, "w") as out:
        out.write(open(os.path.join(MACHINES, "makers.xml")).read().replace("[10de:", "[1af4:"))
    plan("--grpc", "--bind-to", "gpu", HWLOC_XMLFILE=os.path.join(MACHINES, "switched.xml"))
    plan("--bind-to", "gpu", HWLOC_XMLFILE=os.path.join(MACHINES, "makers.xml"))  # its UUIDs are not known
    plan("--bind-to", "gpu", HWLOC_XMLFILE=amd)
else:
    untried |= {row for row in TABLE if re.match("MUSTER_GPU|CUDA_|ROCR_|JAX_LOCAL_DEVICE", row)}
if untried:
    print("not tested here, for libpmix or hwloc is missing:", *sorted(untried))
if set(TABLE) - seen - untried:
    fail("no task has what the table names:", *sorted(set(TABLE) - seen - untried))
print("%d rows, all set by some job" % len(seen))
