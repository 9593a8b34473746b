#!/usr/bin/env python3
"""A task is no process of the launcher that has started its launcher, and every program that asks is told the same.

Programs find their number, and how many they are, in other launchers' variables: here are the rules by which some of
them look (`make interop` runs these programs themselves), asked of the tasks of jobs that are started bare and in what
each other launcher leaves in the environment. A rule gives (rank, size), or None where it finds nothing.
"""
import os
import re
import subprocess
import sys

MUSTER = os.environ["MUSTER"]

# What a process finds that another launcher has started: four processes on two nodes, this is the last.
OUTSIDE = {
    "bare": {},
    "a step of Slurm": {
        "SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711", "SLURM_JOB_NAME": "train", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0",
        "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODELIST": "n[1-2]", "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_GTIDS": "2,3",
        "SLURM_CPUS_PER_TASK": "64", "SLURM_SUBMIT_DIR": "/home", "SLURM_MPI_TYPE": "pmix", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"},
    "mpirun of Open MPI 4": {
        "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_COMM_WORLD_NODE_RANK": "1", "OMPI_UNIVERSE_SIZE": "4", "OMPI_APP_CTX_NUM_PROCS": "4", "OMPI_FIRST_RANKS": "0",
        "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911", "OMPI_MCA_orte_ess_num_procs": "4", "OMPI_MCA_ess": "^singleton",
        "OMPI_MCA_ess_base_vpid": "3", "PMIX_RANK": "3", "PMIX_NAMESPACE": "1531576321"},
    "mpirun of Open MPI 5": {
        "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_VERSION": "5.0.3",
        "OMPI_UNIVERSE_SIZE": "4", "PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-n1-77@1", "PRTE_LAUNCHED": "1"},
    "mpiexec of hydra": {
        "PMI_RANK": "3", "PMI_SIZE": "4", "PMI_FD": "99", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "HYDI_CONTROL_FD": "98"},
    "MVAPICH, PALS, jsrun and Flux": {
        "MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "4", "MV2_COMM_WORLD_LOCAL_RANK": "1", "PALS_RANKID": "3",
        "PALS_LOCAL_RANKID": "1", "LSB_JOBID": "9", "LSB_DJOB_RANKFILE": "/f", "JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_SIZE": "4",
        "JSM_NAMESPACE_LOCAL_RANK": "1", "FLUX_TASK_RANK": "3", "FLUX_JOB_SIZE": "4", "FLUX_JOB_ID": "5"},
    "torchrun": {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "ROLE_RANK": "3", "ROLE_WORLD_SIZE": "4", "ROLE_NAME": "trainer", "TORCHELASTIC_RUN_ID": "outer", "MASTER_ADDR": "elsewhere",
        "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2"},
}
OUTER = {value for variables in OUTSIDE.values() for value in variables.values() if len(value) > 4}
STAYS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_SUBMIT_DIR")


def pair(env, rank, size):
    return (int(env[rank]), int(env[size])) if rank in env and size in env else None


def jax(env, knows_five):
    """jax/_src/clusters of 0.12 and, without knows_five, of 0.4: Open MPI first, then Slurm."""
    major = env.get("OMPI_VERSION", "").split(".")[0]
    if knows_five and (int(major) >= 5 if major.isdigit() else "OMPI_MCA_orte_hnp_uri" not in env):
        return "needs mpi4py"
    if "OMPI_MCA_orte_hnp_uri" in env:
        if "JAX_COORDINATOR_ADDRESS" not in env:
            return "parses the URI"
        return pair(env, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    if "SLURM_JOB_ID" in env:
        return pair(env, "SLURM_PROCID", "SLURM_NTASKS") or "Slurm by half"
    return None


def first_of(*names):
    """accelerate's, DeepSpeed's, Horovod's way: the first launcher of which there is anything."""
    return lambda env: next((pair(env, *two) or two for two in names if two[0] in env or two[1] in env), None)


RULES = {
    "torch.distributed, Megatron, DeepSpeed": first_of(("RANK", "WORLD_SIZE")),
    "Lightning, Fabric (TorchElasticEnvironment)":
        lambda env: pair(env, "RANK", "WORLD_SIZE") if "TORCHELASTIC_RUN_ID" in env and "GROUP_RANK" in env else "not found",
    "Lightning (SLURMEnvironment)": lambda env: "believes in Slurm" if "SLURM_NTASKS" in env else None,
    "Lightning (LSFEnvironment)": first_of(("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")),
    "accelerate, of MPI": first_of(("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                   ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE")),
    "programs of Open MPI": first_of(("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")),
    "programs of MVAPICH": first_of(("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), ("MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE")),
    "programs of PALS": first_of(("PALS_RANKID", "PALS_SIZE")),
    "programs of Flux": first_of(("FLUX_TASK_RANK", "FLUX_JOB_SIZE")),
    "programs of Slurm": first_of(("SLURM_PROCID", "SLURM_NTASKS"), ("SLURM_PROCID", "SLURM_NPROCS"),
                                  ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")),
    "JAX 0.12": lambda env: jax(env, True),
    "JAX 0.4": lambda env: jax(env, False),
}
WHOLE = {  # as torchrun sets them; and what mpirun sets that says what a process is
    "torchrun": "RANK LOCAL_RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR "
                "MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE "
                "TORCH_NCCL_ASYNC_ERROR_HANDLING OMP_NUM_THREADS".split(),
    "mpirun": ["OMPI_COMM_WORLD_" + name for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")],
}
clean = {name: value for name, value in os.environ.items()
         if not re.match("SLURM_|OMPI_|PMI|PRTE_|MPI_|JSM_|LSB_|MV2_|PALS_|FLUX_|JAX_|MASTER_|TORCH|ROLE_|OMP_", name)}


def fail(*words):
    sys.exit("FAIL: " + " ".join(str(word) for word in words))


def tasks(outside, *words):
    """The variables of each task of a job of two, by rank."""
    done = subprocess.run([MUSTER, "run", "-n", "2", "--label", *words, "--", "env"], env={**clean, **OUTSIDE[outside]},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        fail(outside, words, "exits with", done.returncode, done.stderr)
    found = [{}, {}]
    for rank, name, value in re.findall(r"(?m)^\[([01])\] (\w+)=(.*)$", done.stdout):
        found[int(rank)][name] = value
    return found


def check(outside, *words):
    served = "--tcpstore" in words
    both = tasks(outside, *words)
    for rank, env in enumerate(both):
        where = "%s, %s, task %d:" % (outside, " ".join(words) or "no option", rank)
        for program, rule in RULES.items():
            said = rule(env)
            if said is not None and said != (rank, 2):
                fail(where, program, "finds", said)
        for family, names in WHOLE.items():
            lacks = [name for name in names if name not in env]
            if lacks:
                fail(where, family, "has not set", *lacks)
        own = [name for name in env if name.startswith("SLURM_") and name not in STAYS]
        if own or any(name not in env for name in STAYS if name in OUTSIDE[outside]):
            fail(where, "of Slurm it has", *sorted(name for name in env if name.startswith("SLURM_")))
        if env["TORCHELASTIC_USE_AGENT_STORE"] != str(served) or env["MASTER_ADDR"] != "127.0.0.1" or env["OMP_NUM_THREADS"] != "1":
            fail(where, [env[name] for name in ("TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "OMP_NUM_THREADS")])
        if outside != "a step of Slurm" and OUTER & set(env.values()):
            fail(where, "shows through:", OUTER & set(env.values()))
    for name in ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS"):
        if both[0][name] != both[1][name]:
            fail(outside, words, name, "differs:", both[0][name], both[1][name])
    return both[0]


for outside in OUTSIDE:
    check(outside)
    check(outside, "--tcpstore")
if jax(check("a step of Slurm"), True) is None:
    fail("in an allocation JAX finds nothing of its job")
if jax(check("bare", "--grpc"), True) is None:
    fail("JAX finds nothing of its job with --grpc")
if "SLURM_NTASKS" in tasks("a step of Slurm", "--mpi", "none")[0]:
    fail("--mpi none gives a step's number of tasks on")

# What somebody has said on purpose counts.
OUTSIDE["a user"] = {"OMP_NUM_THREADS": "4", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "MASTER_ADDR": "there", "MASTER_PORT": "1",
                     "JAX_COORDINATOR_ADDRESS": "there:2", "OMPI_MCA_btl": "tcp,self", "OMPI_CC": "clang"}
inner = '[ $RANK = 1 ] || exec "$0" run -n 2 -- sh -c "[ \\$RANK = 1 ] || env"'  # of a job that is a task of another
said = subprocess.run([MUSTER, "run", "-n", "2", "--env", "SLURM_NTASKS=9", "--", "sh", "-c", inner, MUSTER], env={**clean, **OUTSIDE["a user"]},
                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
for env, names in ((tasks("a user", "--env", "SLURM_NTASKS=9")[0], [*OUTSIDE["a user"], "SLURM_NTASKS"]),
                   (dict(re.findall(r"(?m)^(\w+)=(.*)$", said)), ["OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMPI_CC"])):
    for name in names:
        if env.get(name) != OUTSIDE["a user"].get(name, "9"):
            fail("the user's", name, "is", env.get(name))
    if names[-1] == "SLURM_NTASKS" and "JAX_COORDINATOR_BIND_ADDRESS" in env:
        fail("the user's coordinator is elsewhere, and", env["JAX_COORDINATOR_BIND_ADDRESS"], "is where it should listen")
alone = subprocess.run([MUSTER, "run", "--", "env"], env=clean, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True).stdout
if "OMP_NUM_THREADS" in alone:
    fail("a task that is alone on its machine is told of one thread; torchrun does not")
print("%d rules in %d surroundings" % (len(RULES), len(OUTSIDE)))
