"""The performance contract, line by line, judged by the figures of this run.

Each line belongs to a row of the design's contract, or to what is held besides, and to the group whose run reproduces
it. p50 is judged unless the line says p99. A ratio is that of one turn of the group, the median over all turns (see
results.paired()). What could not be measured is said, never passed; nor is what holds only beside a peer that others
disturbed in all its repeats ("PASS, noisy"), or against some of those that it is to hold against ("PASS, without ...").
"""
from harness.results import paired, paired_values


BESIDES = "held besides"  # what is no row of the design's contract


class Line:
    def __init__(self, what, limit):
        self.what, self.limit = what, limit
        self.measured, self.verdict = "", "NOT MEASURED"
        self.row, self.group = BESIDES, ""  # of the design's contract; whose run measures it

    def record(self):
        return {"row": self.row, "what": self.what, "limit": self.limit, "measured": self.measured, "verdict": self.verdict,
                "command": self.command()}

    def command(self):
        return 'make bench ARGS="--only %s"' % self.group


def nanoseconds(value):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return ("%#.3g %s" if value < 99.95 * size else "%.0f %s") % (value / size, unit)
    return "%.1f ns" % value


def count_of_bytes(value):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return "%.2f %s" % (value / size, unit)
    return "%.0f B" % value


def at_least(value, bound, mine, theirs, strictly=False, absent=()):
    """The verdict on how many times mine theirs is. What disturbs them makes a PASS easy, what disturbs either excuses a miss."""
    if value > bound or (value == bound and not strictly):
        verdict, noisy = "PASS", theirs.noisy
    else:
        verdict, noisy = "MISSED by %.0f %%" % (100 * (bound / value - 1)), mine.noisy or theirs.noisy
    return verdict + (", noisy" if noisy else "") + (", without " + ", ".join(absent) if absent and verdict == "PASS" else "")


class Judge:
    def __init__(self, results):
        self.results, self.lines = results, []
        self.about_row, self.about_group = BESIDES, ""

    def about(self, row, group):
        """What the lines that come belong to."""
        self.about_row, self.about_group = row, group
        return self

    def add(self, line):
        line.row, line.group = self.about_row, self.about_group
        self.lines.append(line)

    def row(self, metric, who="muster"):
        row = self.results.get(metric, who)
        return row if row is not None and row.value is None else None

    def at_most(self, what, limit, value, bound, show, detail="", rows=(), beside=()):
        """PASS when value <= bound; value None: not measured. Rows all of whose repeats were noisy taint a miss, those of
        what it is beside a PASS."""
        line = Line(what, limit)
        if value is not None:
            line.measured = show(value) + (" (%s)" % detail if detail else "")
            passed = value <= bound
            line.verdict = "PASS" if passed else "MISSED by %.0f %%" % (100 * (value / bound - 1)) if bound else "MISSED"
            if any(row is not None and row.noisy for row in (beside if passed else (*rows, *beside))):
                line.verdict += ", noisy"
        self.add(line)

    def ratio(self, what, bound, above, below):
        """above / below <= bound, both rows of this run."""
        value = paired(above, below)
        detail = "%s over %s" % (nanoseconds(above.p50), nanoseconds(below.p50)) if value is not None else ""
        self.at_most(what, "≤ %g×" % bound, value, bound, lambda v: "%.2f×" % v, detail, (above,), (below,))

    def faster(self, what, times, mine, others, absent=()):
        """The fastest of the others takes at least `times` as long as mine. absent: those of them that were not measured"""
        ratios = [(paired(row, mine), row) for row in others if paired(row, mine) is not None]
        line = Line(what, "≥ %g×" % times if times > 1 else "> 1×")
        if ratios:
            value, best = min(ratios, key=lambda pair: pair[0])
            line.measured = "%.3g× (%s against %s of %s)" % (value, nanoseconds(mine.p50), nanoseconds(best.p50),
                                                             best.who)
            line.verdict = at_least(value, times, mine, best, times == 1, absent)
        self.add(line)

    def time(self, what, bound, row, statistic="p50", detail=""):
        value = getattr(row, statistic) if row is not None else None
        self.at_most(what, "≤ %s%s" % (nanoseconds(bound), "" if statistic == "p50" else " at p99"), value, bound,
                     nanoseconds, detail, (row,))

    def size(self, what, bound, metric):
        self.figure(what, bound, metric, count_of_bytes)

    def figure(self, what, bound, metric, show, detail=""):
        row = self.results.get(metric)
        self.at_most(what, "≤ %s" % show(bound), row.value if row else None, bound, show, detail, (row,))


def judge_grpc(judge, client, who, name):
    """All rows that both have: the one with the least lead is what counts."""
    def pairs(keep):
        return [(judge.results.get(metric), judge.results.get(metric, who)) for metric, owner in judge.results.rows
                if owner == who and metric.startswith(client + ".") and keep(metric) and judge.results.get(metric)]

    def least(what, limit, bound, found):
        """found: (how many times, row of muster's, row of theirs)"""
        line = Line("over %s, %s, against %s" % (client, what, name), limit)
        if found:
            value, ours, others = min(found, key=lambda one: one[0])
            line.measured = "%.3g× (the least of %d rows: %s)" % (value, len(found), ours.metric)
            line.verdict = at_least(value, bound, ours, others)
        judge.add(line)

    timed = [(mine, theirs) for mine, theirs in pairs(lambda metric: True) if mine.value is None and theirs.value is None]
    least("p50", "≥ 1.5×", 1.5, [(paired(theirs, mine), mine, theirs) for mine, theirs in timed])
    least("p99", "≥ 1×", 1, [(theirs.p99 / mine.p99, mine, theirs) for mine, theirs in timed if mine.count > 100])
    if client == "grpc": # grpcio has none left of its own processor
        least("calls a second", "≥ 1.5×", 1.5, [(mine.value / theirs.value, mine, theirs)
                                                for mine, theirs in pairs(lambda metric: metric.endswith(".rate"))])


def judge_least(judge, what, bound, metrics, mine, theirs):
    """The row of these in which `mine` has the least lead over `theirs`; single figures count as well."""
    found = []
    for metric in metrics:
        ours, others = judge.results.get(metric, mine), judge.results.get(metric, theirs)
        value = paired(others, ours) if ours is None or ours.value is None else paired_values(others, ours)
        if value is not None:
            found.append((value, metric, ours, others))
    line = Line(what, "≥ %g×" % bound)
    if found:
        value, metric, ours, others = min(found, key=lambda one: one[0])
        line.measured = "%.3g×" % value + (" (the least of %d rows: %s)" % (len(found), metric) if len(found) > 1 else "")
        line.verdict = at_least(value, bound, ours, others, absent=sorted(set(metrics) - {one[1] for one in found}))
    judge.add(line)


def judge_compat(judge):
    """Programs that are not muster's own: PyTorch's and MPI's, against what they bring themselves."""
    judge.about(BESIDES, "store")
    for what, metrics in (
            ("10,000 clients connect, the server's time", ("store.connect.10000.service",)),
            ("10,000 clients connect, until the last is served", ("store.connect.10000",)),
            ("an ADD among 10,000 clients", ("store.idle.10000", "store.idle.10000.service")),
            ("10,000 clients wake, and meet", ("store.fanout.10000", "store.barrier.10000")),
            ("a call at a time", ("store.add", "store.get", "store.compare_set", "store.wake")),
            ("ADDs on the way, a second", ("store.pipe.16", "store.pipe.128", "store.pipe.1024"))):
        judge_least(judge, "TCPStore, %s, against libuv" % what, 1, metrics, "muster", "torch-libuv")
    judge_least(judge, "store operations in shared memory, against TCPStore", 50, ("store.add", "store.get", "store.compare_set"),
                "muster-shm", "torch-libuv")
    judge_least(judge, "a SET in shared memory, against the bare send of one", 10, ("store.set",), "muster-shm", "torch-libuv")
    judge.about(BESIDES, "torch")
    judge_least(judge, "muster.torch, what TCPStore's client waits for", 50,
                ["torch." + what for what in ("get", "add", "compare_set", "wait", "check", "multi_get")], "muster", "torch-libuv")
    judge_least(judge, "muster.torch by ctypes alone, the same", 2,
                ["torch." + what for what in ("get", "add", "compare_set", "wait", "check", "multi_get")], "muster-ctypes", "torch-libuv")
    judge_least(judge, "muster.torch, set, against TCPStore's send", 8, ("torch.set", "torch.set.stream"), "muster", "torch-libuv")
    judge_least(judge, "muster.torch, set → another's get returns", 50, ("torch.wake",), "muster", "torch-libuv")
    judge_least(judge, "muster.torch, the same of one that sleeps", 1, ("torch.wake.asleep",), "muster", "torch-libuv")
    judge.about(BESIDES, "init")
    judge_least(judge, "init_process_group of 8 ranks, against rank 0's store", 1, ("store.init.8",), "muster", "torch-libuv")
    judge.about(BESIDES, "mpi")
    for flavour, launcher, name in (("mpich", "hydra", "hydra"), ("openmpi", "mpirun", "Open MPI's mpirun")):
        judge_least(judge, "launch to MPI_Init, against %s" % name, 1, ["mpi.%s.%d" % (flavour, size) for size in (2, 4, 8)],
                    "muster", launcher)


def judge_barriers(judge):
    row, about = judge.row, "group barrier, 2 tasks on 2 cores"
    judge.about(about, "barrier2")
    two = row("barrier.n2.avg16")
    over = judge.results.get("barrier.n2.over_line")
    beside = row("barrier.n2.beside_line"), row("barrier.n2.beside_line", "one-way")
    judge.at_most("group barrier, 2 tasks, over the one-way line", "≤ 2×", over.value if over else None, 2,
                  lambda v: "%.2f×" % v,
                  "%s over %s" % tuple(nanoseconds(r.p50) for r in beside) if all(beside) else "", (over,))
    judge.faster("group barrier, 2 tasks, against Open MPI", 2, two,
                 [row("barrier.n2.avg16", "openmpi"), row("barrier.n2.avg16", "openmpi-sm")])
    judge.faster("group barrier, 2 tasks, against MPICH", 5, two, [row("barrier.n2.avg16", "mpich")])
    judge.faster("group barrier, 2 tasks, against pthread", 100, two, [row("barrier.n2.avg16", "pthread")])
    judge.about("group barrier, 8 tasks on 2 cores", "barrier8")
    eight = row("barrier.n8")
    peers = {who: row("barrier.n8", who) for who in ("openmpi", "mpich", "pthread")}
    judge.faster("group barrier, 8 tasks, ahead of all", 1, eight, [*peers.values(), row("barrier.n8", "openmpi-sm")],
                 [who for who in peers if peers[who] is None])
    judge.at_most("group barrier, 8 tasks, p99 over p50", "≤ 2×", eight.p99 / eight.p50 if eight else None, 2,
                  lambda v: "%.2f×" % v, "%s over %s" % (nanoseconds(eight.p99), nanoseconds(eight.p50)) if eight else "",
                  (eight,))
    judge.about("named barrier, participants running on the leader's node", "named")
    judge.time("named barrier, 1 participant, an arrival", 1000, row("named.1"))
    judge.time("named barrier, 2 participants, an arrival", 1000, row("named.2"))


def judge_keys(judge):
    row = judge.row
    judge.about("KV get, 64 B: hot / uniform over 50,000 keys", "kv")
    judge.time("KV get, hot", 25, row("kv.get.hot"))
    judge.ratio("KV get, uniform, over 3 dependent loads", 1.2, row("kv.get.chained"), row("kv.get.chained", "loads"))
    judge.about("KV overwrite, 64 B: hot / uniform", "kv")
    judge.time("KV overwrite, hot", 50, row("kv.set.hot"))
    judge.ratio("KV overwrite, uniform, over the get", 1.5, row("kv.set.uniform"), row("kv.get.uniform"))
    judge.about("get that waits: set → reader runs", "kv")
    judge.ratio("waiting get, asleep, over the futex", 1.1, row("wait.parked"), row("wait.parked", "futex"))
    line, two = row("wait.spin", "line"), row("wait.spin", "2 lines")
    judge.time("waiting get, spinning", 200, row("wait.spin"),
               detail="a bare store takes %s, with a line behind it %s" % (nanoseconds(line.p50), nanoseconds(two.p50))
               if line and two else "")


def judge_tasks(judge):
    row = judge.row
    judge.about("heartbeat", "task")
    judge.ratio("heartbeat without a system call, over the cheapest one", 0.25, row("heartbeat"),
                row("heartbeat", "getppid"))
    judge.about("heartbeat", "count")
    judge.figure("heartbeat, system calls", 0, "count.heartbeat.calls", lambda v: "%.3g" % v)
    judge.about("SIGKILL of a task → every peer's wait returns", "death")
    sizes = [m for m, who in judge.results.rows if m.startswith("death.") and who == "muster" and m != "death.10MiB"]
    for metric in ("death.10MiB", *(sizes or ["death.2048MiB"])):
        pidfd = row(metric, "pidfd")
        judge.time("SIGKILL → every wait returns, %s resident" % metric[6:], 1e6, row(metric), "p99",
                   "pidfd %s" % nanoseconds(pidfd.p99) if pidfd else "")


def judge_elastic(judge):
    row = judge.row
    judge.about(BESIDES, "elastic")
    judge.time("SIGKILL → the last of 15 members is in the next epoch", 1e6, row("elastic.loss.16", "muster-last"))
    judge.time("a death → the last of 15 nodes of MindSpore is told", 1e7, row("nodes.death.16"))
    judge.figure("epoch change of 8, futex wake-ups", 5, "elastic.change.8.wakes", lambda v: "%.3g" % v)
    judge.time("event to 256 nodes of MindSpore", 5e6, row("nodes.event.256"))
    judge.about(BESIDES, "ps")
    for theirs in ("ps-lite", "torch-rpc"):
        for what, bound, names in (("1 to 16 MiB", 10, ("dense.1048576", "dense.4194304", "dense.16777216")), ("4,096 rows", 3, ("sparse",)),
                                   ("one float", 100, ("dense.4",))):
            judge_least(judge, "push and pull of %s, against %s" % (what, theirs), bound,
                        ["ps.%s.n%d" % (name, pushers) for name in names for pushers in (1, 2, 8)], "muster", theirs)


def judge_hosts(judge):
    row = judge.row
    judge.about("cross-host barrier, 2 hosts, one task each", "cross2")
    for mode, tcp in (("", "tcp"), (".latency", "tcp-poll")):
        for kind, who in (("group", "muster"), ("named", "muster-named")):
            judge.ratio("%s barrier of 2 hosts, over TCP's round trip%s" % (kind, ", polling" if mode else ""), 1.5,
                        row("cross.n2" + mode, who), row("cross.n2" + mode, tcp))
    judge.about(BESIDES, "cross2")
    for who, name in (("openmpi-tcp", "Open MPI"), ("mpich-tcp", "MPICH")):
        judge.faster("group barrier of 2 hosts, polling, against %s" % name, 1, row("cross.n2.latency"),
                     [row("cross.n2.latency", who)])


GROWN = (16, 1024)  # hosts: what one costs among few and among many


def judge_growth(judge):
    """What a host besides the leader's costs is flat: between 16 hosts and 1,024, each with 8 tasks."""
    judge.about("scale, simulated hosts on loopback", "growth")

    def each(phase, what, per_host):
        rows = [judge.results.get("scale.%s.%s.%d" % (phase, what, size)) for size in GROWN]
        return [row.value / (size - 1 if per_host else 1) for row, size in zip(rows, GROWN)] if all(rows) else None

    for what, bound, phase, name, per_host in (
            ("a barrier of 1,024 hosts × 8 tasks, messages a host, over 16 hosts'", 1.1, "barrier", "messages", True),
            ("a barrier of 1,024 hosts × 8 tasks, bytes a host, over 16 hosts'", 1.1, "barrier", "bytes", True),
            ("a barrier of 1,024 hosts × 8 tasks, the leader's work a host, over 16 hosts'", 1.5, "barrier", "leader", True),
            ("a barrier of 1,024 hosts × 8 tasks, another agent's work, over 16 hosts'", 1.5, "barrier", "follower", False),
            ("joining, 1,024 hosts × 8 tasks, messages a host, over 16 hosts'", 1.1, "join", "messages", True),
            ("an exchange of topologies, 1,024 hosts × 8 tasks, messages a host, over 16 hosts'", 1.1, "exchange", "messages", True),
            ("memory of another host's agent, 1,024 hosts, over 16 hosts'", 1.1, "memory", "follower", False)):
        found = each(phase, name, per_host)
        judge.at_most(what, "≤ %g×" % bound, found[1] / found[0] if found and found[0] else None, bound, lambda v: "%.2f×" % v,
                      "%.3g against %.3g" % (found[1], found[0]) if found else "")


def judge_services(judge):
    judge.about("gRPC front-end, unary KV and barrier", "grpc")
    judge_grpc(judge, "grpc", "jaxlib", "JAX's own service")
    for size in (2, 8, 64):
        metric = "grpc.barrier.%d" % size
        mine, theirs = judge.row(metric), judge.row(metric, "jaxlib")
        judge.faster("over grpc, barrier of %d, against JAX's own service" % size, 1.5, mine, [theirs])
        judge.at_most("over grpc, barrier of %d, p99 over that of JAX's own service" % size, "≤ 1×",
                      mine.p99 / theirs.p99 if mine and theirs else None, 1, lambda v: "%.2f×" % v,
                      "%s over %s" % (nanoseconds(mine.p99), nanoseconds(theirs.p99)) if mine and theirs else "", (mine,), (theirs,))
    judge.about(BESIDES, "grpc")
    judge_grpc(judge, "grpc", "etcd", "etcd")
    judge.about(BESIDES, "grpcio")
    judge_grpc(judge, "grpcio", "etcd", "etcd")
    judge_compat(judge)


def judge_sizes(judge):
    judge.about("memory", "task")
    judge.size("memory of an empty segment", 1 << 20, "memory.empty")
    judge.size("memory of a task", 2 << 10, "memory.task")
    judge.size("memory of the launcher of 64 tasks, resident", 10 << 20, "memory.agent.64")
    judge.about("attach; audit of 1 M objects", "task")
    judge.time("attach", 1e6, judge.row("attach"))
    judge.time("audit of 1 M objects", 1e7, judge.row("audit"))
    judge.about(BESIDES, "agent")
    for name, what in (("run", "launcher of 8 tasks"), ("leader", "agent of the first of 2 hosts"),
                       ("follower", "agent of the second of 2 hosts"), ("serving", "launcher that serves gRPC and TCPStore")):
        judge.figure("%s, idle: share of a processor" % what, 0.1, "agent.idle." + name, lambda v: "%.3g %%" % v)
    judge.size("memory of an agent of 2 hosts, busy, resident", 10 << 20, "agent.busy.rss.leader")
    judge.about(BESIDES, "trace")
    judge.time("an event of a trace", 20, judge.row("trace.event"))


def judge_objects(judge):
    """Objects, and calls of functions in other processes."""
    row = judge.row
    judge.about(BESIDES, "object")
    judge.time("an object of 20 B, put", 1000, row("object.put.20"))
    judge.time("an object of 20 B that is sealed, get", 200, row("object.get.20"))
    put = "object.put.%d" % (64 << 20)
    judge.ratio("an object of 64 MiB, put on recycled pages, over memcpy to warm pages", 1.11, row(put), row(put, "memcpy"))
    judge.time("an object of 64 MiB, get", 2000, row("object.get.%d" % (64 << 20)))
    judge.time("100,000 objects, waited for one by one, each", 1000, row("object.wait.100000"))
    judge.about(BESIDES, "call")
    judge.ratio("seal → a sleeper's get returns, over the futex", 1.1, row("call.seal"), row("call.seal", "futex"))
    judge.ratio("a call of C, its worker asleep, over two wake-ups by futex", 1.1, row("call.one"), row("call.one", "futex"))
    judge.time("calls of C on the way, two workers, each", 2000, row("call.many"))
    judge.size("memory of an object beyond its bytes", 256, "memory.object")
    judge.size("memory of a call", 256, "memory.call")
    judge.about(BESIDES, "calls")
    for metric, what, bound in (("calls.one", "a call of Python", 60e3), ("calls.many", "calls of Python on the way, each", 1e6 / 60)):
        judge.time(what, bound, row(metric))
        judge.faster("%s, against Pool" % what, 1, row(metric), [row(metric, "Pool")])
    judge.time("SIGKILL of a worker → the exception", 1e6, row("calls.death"))
    judge.time("muster.init(workers=2) → first result", 60e6, row("calls.start"))
    judge.time("the same, beyond Python's own start", 10e6, row("calls.start.beyond"))


def judge_checkpoint(judge):
    judge.about(BESIDES, "checkpoint")
    size, name = 1 << 30, "1 GiB"
    save, load = "checkpoint.save.%d" % size, "checkpoint.load.%d" % size
    judge.ratio("training stands still for a checkpoint of %s, over memcpy into warm pages" % name, 1.2, judge.row(save), judge.row(save, "memcpy"))
    judge.ratio("load of a checkpoint of %s, over memcpy" % name, 1 / 0.9, judge.row(load), judge.row(load, "memcpy"))
    for who in ("torch.save to /dev/shm", "torch.save to a disk", "torch.distributed.checkpoint"):
        judge.faster("training stands still for a checkpoint of %s, against %s" % (name, who), 1, judge.row(save), [judge.row(save, who)])
        judge.faster("load of a checkpoint of %s, against %s" % (name, who), 1, judge.row(load), [judge.row(load, who)])


def judged(results):
    judge = Judge(results)
    judge_barriers(judge)
    judge_keys(judge)
    judge_tasks(judge)
    judge_elastic(judge)
    judge_checkpoint(judge)
    judge_hosts(judge)
    judge.about("muster run -n 8 true", "run")
    judge.ratio("muster run -n 8 true, over posix_spawn of 8", 1.3, judge.row("run.8"), judge.row("run.8", "posix_spawn"))
    judge.ratio("the same, over a program that does that, from exec to exit", 1.3, judge.row("run.8"), judge.row("run.8", "bare"))
    judge_services(judge)
    judge_sizes(judge)
    judge_objects(judge)
    judge_growth(judge)
    return judge.lines
