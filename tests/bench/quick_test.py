#!/usr/bin/env python3
"""`make bench` in its tiny form: every program runs, every row is there, peers that are absent are named.

No time is asserted: the figures of a busy machine mean nothing; that they are figures does.
timeout: 480
"""
import csv
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.environ.get("TMPDIR", "/tmp")

# Rows that need nothing but muster and two processors.
TWO = {"line", "line.avg16", "wait.spin", "wait.parked", "barrier.n2.beside_line", "barrier.n2.over_line"}
ALWAYS = {"barrier.n2", "barrier.n2.avg16", "barrier.n4", "barrier.n8", "named.1", "named.2", "kv.get.hot",
          "kv.get.uniform", "kv.get.chained", "kv.set.hot", "kv.set.uniform", "kv.increment", "kv.insert",
          "death.10MiB", "death.64MiB", "heartbeat", "attach", "attach.thread", "attach.leave", "audit", "trace.event",
          "trace.off", "trace.barrier", "ps.dense.4.n1", "ps.dense.1048576.n2", "ps.sparse.n2", "object.put.20", "object.put.67108864", "object.get.67108864",
          "object.wait.100000", "call.seal", "call.one", "call.many", "memory.object", "memory.call", "queue.1.20", "queue.8.1048576", "checkpoint.save.1048576", "checkpoint.load.1048576",
          "elastic.loss.16", "elastic.change.8", "elastic.grow.8.2",
          "tasks.join.2", "tasks.meet.16", "tasks.group.16", "tasks.named.16", "tasks.memory.16", "keys.get.1", "keys.set.100",
          "keys.insert.2000", "keys.audit.2000", "keys.memory.2000", "late.8.each", "late.8.call", "late.16.last",
          "memory.empty", "memory.task", "cross.kv.get", "cross.kv.set", "cross.kv.copy", "cross.kv.set.latency", "cross.object.20",
          "cross.object.64m"}
# Over gRPC, where the command is built.
GRPC = {"grpc.register", "grpc.set", "grpc.get", "grpc.wake", "grpc.barrier.2", "grpc.barrier.8", "grpc.barrier.64",
        "grpc.load.set", "grpc.load.set.rate", "grpc.load.get.rate", "grpc.load.barrier.rate", "grpc.set.service", "grpc.death"}
GRPC_ETCD = {"grpc.set", "grpc.get", "grpc.wake", "grpc.load.set.rate", "grpc.load.get.rate"}
# What the launcher and its agents take.
AGENT = {"agent.idle." + name for name in ("run", "joined", "serving", "task", "leader", "follower")} | {
    "agent.busy.run", "agent.busy.leader", "agent.busy.follower", "agent.busy.rss.follower"}
# What may well be nothing.
COUNTED = {"%", "system calls"}
# A client of the TCPStore that is served, likewise.
STORE = {"store.add", "store.get", "store.compare_set", "store.wake", "store.pipe.16", "store.pipe.1024", "store.stream",
         "store.connect.100", "store.idle.100", "store.fanout.100", "store.barrier.100", "store.connect.100.service"}
# Of PyTorch's store what needs nothing but the library.
SHM = {"store.add", "store.get", "store.compare_set", "store.stream"}
# Who is missing -> the file without which that is so.
PEERS = {"mpich": "mpicc.mpich", "openmpi": "mpicc.openmpi", "openmpi-sm": "mpicc.openmpi", "redis": "redis-server",
         "hydra": "mpicc.mpich", "mpirun": "mpicc.openmpi", "mpich-tcp": "mpicc.mpich", "openmpi-tcp": "mpicc.openmpi", "etcd": "etcd",
         "valgrind": "valgrind", "strace": "strace"}

problems = []


def expect(holds, sentence):
    if not holds:
        problems.append(sentence)


def on_path(name):
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in os.environ["PATH"].split(":"))


def check_rows(whole):
    mine = {row["metric"] for row in whole["rows"] if row["who"] in ("muster", "one-way")}
    wanted = set(ALWAYS)
    if len(os.sched_getaffinity(0)) > 1:
        wanted |= TWO
    if os.access(os.environ.get("MUSTER", ""), os.X_OK):
        wanted |= GRPC | STORE
        wanted |= {"run.2", "run.8", "run.64", "memory.agent.1", "memory.agent.64.pss", "memory.agent.512", "tasks.status.16", "nodes.ready.8.8", "nodes.event.16", "nodes.death.16"} | AGENT
    expect(wanted <= mine, "no row for: %s" % " ".join(sorted(wanted - mine)))
    both = {(row["metric"], row["who"]) for row in whole["rows"]}
    for size in (2, 4, 8):
        for metric in ("cross.n%d" % size, "cross.n%d.latency" % size):
            for who in ("muster", "muster-named"):
                expect((metric, who) in both, "no row for %s of %s" % (metric, who))
    expect(SHM <= {metric for metric, who in both if who == "muster-shm"}, "rows of the store in shared memory are missing")
    for flavour in ("mpich", "openmpi"):
        if on_path("mpicc." + flavour) and os.access(os.environ.get("MUSTER", ""), os.X_OK):
            expect(("mpi.%s.2" % flavour, "muster") in both, "no row for programs of %s under muster run" % flavour)
    if on_path("etcd"):
        expect(GRPC_ETCD <= {metric for metric, who in both if who == "etcd"}, "rows of etcd over gRPC are missing")
    for tool, metric in (("valgrind", "count.group.instructions"), ("strace", "count.get.calls")):
        expect(not on_path(tool) or (metric, "muster") in both, "no row for %s" % metric)
    limits = {row["metric"] for row in whole["rows"] if row["who"].startswith("tcp")}
    cross = {"cross.n2", "cross.n2.latency", "cross.n4", "cross.n8", "cross.kv.get", "cross.kv.set"}
    expect(cross <= limits, "no round trip for: %s" % " ".join(sorted(cross - limits)))
    expect(("cross.n2.latency", "tcp-relay-poll") in both, "no row for two processes a host over bare TCP")
    expect(whole["facts"].get("hosts"), "what the hosts were is not said")
    for row in whole["rows"]:
        name = "%s of %s" % (row["metric"], row["who"])
        if row["unit"] != "ns":
            expect(row["p50"] > 0 or row["unit"] in COUNTED, name + " is nothing")
            continue
        expect(row["n"] > 0, name + " has no sample")
        # Percentiles are steps of 0.2 %, extremes are exact.
        expect(0 <= row["min"] <= row["p50"] * 1.003 and row["p50"] <= row["p99"] <= row["max"] * 1.003,
               name + " is out of order: %s" % row)


def check_missing(whole):
    for entry in whole["missing"]:
        who, why = entry["who"], entry["why"]
        absent = re.fullmatch(r"(\S+) is not installed", why) # what muster itself is measured with: an MPI's compiler, say
        expect(who in PEERS or who in ("tcpstore", "torchrun", "jaxlib") or "grpcio" in why or "the muster command" in why or
               (absent and not on_path(absent.group(1))), "missing: %s: %s" % (who, why))
        if who in PEERS:
            expect(not on_path(PEERS[who]), "%s is said to be missing (%s), but %s is there" % (who, why, PEERS[who]))
    seen = {row["who"] for row in whole["rows"]} | {entry["who"] for entry in whole["missing"]}
    for peer in set(PEERS) - {"openmpi-sm", "valgrind", "strace"} | {"tcpstore", "torchrun", "pthread", "posix_spawn", "bare", "bare-guard"}:
        expect(peer in seen, "%s is neither measured nor said to be missing" % peer)


def check_report(whole):
    """Every line of the contract stands in the report with its limit, its verdict and the command that measures it again."""
    with open(os.path.join(OUT, "REPORT.md")) as f:
        text = f.read()
    for line in whole["contract"]:
        row = next((r for r in text.splitlines() if r.startswith("| %s | %s |" % (line["what"], line["limit"]))), "")
        expect(line["verdict"] in row and line["command"] in row, "the report lacks the line: %s" % line["what"])
    for name in whole["groups"]:
        expect(re.search(r"^### %s$" % name, text, re.M), "the report has no table of the group %s" % name)
    for entry in whole["missing"]:
        expect("* %s: " % entry["who"] in text, "the report does not say that %s is missing" % entry["who"])
    for picture in re.findall(r"\]\((plots/[\w.]+)\)", text):
        ElementTree.parse(os.path.join(OUT, picture))
    expect(len(re.findall(r"\]\(plots/", text)) == 4, "the report does not show four plots")


def run(*arguments, **environment):
    return subprocess.run([os.path.join(TOP, "bench/run.sh"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment})


def check_parts():
    """What is measured anew takes the place of what was kept; the rest stays."""
    with open(os.path.join(OUT, "bench.json")) as f:
        before = json.load(f)
    done = run("--quick", "--out", OUT, "--only", "late", "--merge")
    expect(done.returncode == 0, "a part of a run ended with %d: %s" % (done.returncode, done.stdout))
    with open(os.path.join(OUT, "bench.json")) as f:
        after = json.load(f)

    expect("\n0 of 0 lines of the contract hold" in done.stdout, "the lines of groups that did not run are shown, too")
    kv = sum('--only kv"' in line["command"] for line in after["contract"])
    text = run("--quick", "--out", OUT, "--show", "--only", "kv").stdout
    shown = re.search(r"^contract .*\n((?:  .*\n)*)\d+ of (\d+) lines of the contract hold$", text, re.M)
    expect(kv and shown and len(shown.group(1).splitlines()) == int(shown.group(2)) == kv, "not the lines of kv alone are shown")

    def names(whole):
        return sorted((row["metric"], row["who"]) for row in whole["rows"])

    expect(names(before) == names(after), "a part of a run has changed the rows of the rest")
    expect(before["groups"]["kv"] == after["groups"]["kv"], "a part of a run has changed when another was measured")
    expect(before["groups"]["late"] != after["groups"]["late"], "a part of a run is not in the whole")
    with open(os.path.join(OUT, "REPORT.md")) as f:
        text = f.read()
    done = run("--quick", "--out", OUT, "--show", CC="true")  # the machine has changed since: another compiler, of no version
    with open(os.path.join(OUT, "REPORT.md")) as f:
        again = f.read()
    plain = re.compile(r"^\| (date|commit|load) \|.*$", re.M)
    expect(done.returncode == 0 and plain.sub("", text) == plain.sub("", again), "the same results give another report")


def main():
    done = run("--quick", "--out", OUT)
    print(done.stdout)
    expect(done.returncode == 0, "bench/run.sh --quick ended with %d" % done.returncode)
    if done.returncode in (0, 1):
        with open(os.path.join(OUT, "bench.json")) as f:
            whole = json.load(f)
        expect(not whole["failures"], "failed: %s" % whole["failures"])
        check_rows(whole)
        check_missing(whole)
        with open(os.path.join(OUT, "bench.csv"), newline="") as f:
            records = list(csv.DictReader(l for l in f if not l.startswith("#")))
        expect(len(records) == len(whole["rows"]), "the CSV and the JSON have different rows")
        table = re.search(r"^(\d+) of (\d+) lines of the contract hold$", done.stdout, re.M)
        expect(table and int(table.group(2)) == len(whole["contract"]), "the contract is not shown")
        check_report(whole)
        check_parts()
    wrong = subprocess.run([os.path.join(TOP, "bench/run.sh"), "--only", "nothing"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(wrong.returncode == 2 and "no group 'nothing'" in wrong.stderr, "an unknown group is not refused")
    for sentence in problems:
        print("problem: " + sentence)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
