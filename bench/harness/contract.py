"""The performance contract: the lines of the design that hold on one node, judged by the figures of this run.

p50 is judged unless the line says p99. A ratio is that of one turn of the group, the median over all turns (see
results.paired()). What could not be measured is said, never passed.
"""
from harness.results import paired, paired_values


class Line:
    def __init__(self, what, limit):
        self.what, self.limit = what, limit
        self.measured, self.verdict = "", "NOT MEASURED"

    def record(self):
        return {"what": self.what, "limit": self.limit, "measured": self.measured, "verdict": self.verdict}


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


class Judge:
    def __init__(self, results):
        self.results, self.lines = results, []

    def row(self, metric, who="muster"):
        row = self.results.get(metric, who)
        return row if row is not None and row.value is None else None

    def at_most(self, what, limit, value, bound, show, detail="", rows=()):
        """PASS when value <= bound; value None: not measured. Rows all of whose repeats were noisy taint a miss."""
        line = Line(what, limit)
        if value is not None:
            line.measured = show(value) + (" (%s)" % detail if detail else "")
            if value <= bound:
                line.verdict = "PASS"
            else:
                line.verdict = "MISSED by %.0f %%" % (100 * (value / bound - 1))
                if any(row is not None and row.noisy for row in rows):
                    line.verdict += ", noisy"
        self.lines.append(line)

    def ratio(self, what, bound, above, below):
        """above / below <= bound, both rows of this run."""
        value = paired(above, below)
        detail = "%s over %s" % (nanoseconds(above.p50), nanoseconds(below.p50)) if value is not None else ""
        self.at_most(what, "≤ %g×" % bound, value, bound, lambda v: "%.2f×" % v, detail, (above, below))

    def faster(self, what, times, mine, others):
        """The fastest of the others takes at least `times` as long as mine."""
        ratios = [(paired(row, mine), row) for row in others if paired(row, mine) is not None]
        line = Line(what, "≥ %g×" % times if times > 1 else "> 1×")
        if ratios:
            value, best = min(ratios, key=lambda pair: pair[0])
            line.measured = "%.3g× (%s against %s of %s)" % (value, nanoseconds(mine.p50), nanoseconds(best.p50),
                                                             best.who)
            passed = value >= times if times > 1 else value > 1
            line.verdict = "PASS" if passed else "MISSED by %.0f %%" % (100 * (times / value - 1))
            if not passed and (mine.noisy or best.noisy):
                line.verdict += ", noisy"
        self.lines.append(line)

    def time(self, what, bound, row, statistic="p50", detail=""):
        value = getattr(row, statistic) if row is not None else None
        self.at_most(what, "≤ %s%s" % (nanoseconds(bound), "" if statistic == "p50" else " at p99"), value, bound,
                     nanoseconds, detail, (row,))

    def size(self, what, bound, metric):
        row = self.results.get(metric)
        self.at_most(what, "≤ %s" % count_of_bytes(bound), row.value if row else None, bound, count_of_bytes)


def judge_grpc(judge, client, who, name):
    """All rows that both have: the one with the least lead is what counts."""
    def pairs(keep):
        return [(judge.results.get(metric), judge.results.get(metric, who)) for metric, owner in judge.results.rows
                if owner == who and metric.startswith(client + ".") and keep(metric) and judge.results.get(metric)]

    def least(what, limit, bound, found):
        """found: (how many times, row of muster's)"""
        line = Line("over %s, %s, against %s" % (client, what, name), limit)
        if found:
            value, row = min(found, key=lambda pair: pair[0])
            line.measured = "%.3g× (the least of %d rows: %s)" % (value, len(found), row.metric)
            passed = value >= bound
            line.verdict = "PASS" if passed else "MISSED by %.0f %%" % (100 * (bound / value - 1))
            if not passed and row.noisy:
                line.verdict += ", noisy"
        judge.lines.append(line)

    timed = [(mine, theirs) for mine, theirs in pairs(lambda metric: True) if mine.value is None and theirs.value is None]
    least("p50", "≥ 1.5×", 1.5, [(paired(theirs, mine), mine) for mine, theirs in timed])
    least("p99", "≥ 1×", 1, [(theirs.p99 / mine.p99, mine) for mine, theirs in timed if mine.count > 100])
    if client == "grpc": # grpcio has none left of its own processor
        least("calls a second", "≥ 1.5×", 1.5, [(mine.value / theirs.value, mine)
                                                for mine, theirs in pairs(lambda metric: metric.endswith(".rate"))])


def judge_least(judge, what, bound, metrics, mine, theirs):
    """The row of these in which `mine` has the least lead over `theirs`; single figures count as well."""
    found = []
    for metric in metrics:
        ours, others = judge.results.get(metric, mine), judge.results.get(metric, theirs)
        value = paired(others, ours) if ours is None or ours.value is None else paired_values(others, ours)
        if value is not None:
            found.append((value, metric, ours))
    line = Line(what, "≥ %g×" % bound)
    if found:
        value, metric, ours = min(found, key=lambda one: one[0])
        line.measured = "%.3g×" % value + (" (the least of %d rows: %s)" % (len(found), metric) if len(found) > 1 else "")
        line.verdict = "PASS" if value >= bound else "MISSED by %.0f %%" % (100 * (bound / value - 1))
        if value < bound and ours.noisy:
            line.verdict += ", noisy"
    judge.lines.append(line)


def judge_compat(judge):
    """Programs that are not muster's own: PyTorch's and MPI's, against what they bring themselves."""
    for what, metrics in (
            ("10,000 clients connect", ("store.connect.10000", "store.connect.10000.service")),
            ("an ADD among 10,000 clients", ("store.idle.10000", "store.idle.10000.service")),
            ("10,000 clients wake, and meet", ("store.fanout.10000", "store.barrier.10000")),
            ("a call at a time", ("store.add", "store.get", "store.compare_set", "store.wake")),
            ("ADDs on the way, a second", ("store.pipe.16", "store.pipe.128", "store.pipe.1024"))):
        judge_least(judge, "TCPStore, %s, against libuv" % what, 1, metrics, "muster", "torch-libuv")
    judge_least(judge, "store operations in shared memory, against TCPStore", 50, ("store.add", "store.get", "store.compare_set"),
                "muster-shm", "torch-libuv")
    judge_least(judge, "init_process_group of 8 ranks, against rank 0's store", 1, ("store.init.8",), "muster", "torch-libuv")
    for flavour, launcher, name in (("mpich", "hydra", "hydra"), ("openmpi", "mpirun", "Open MPI's mpirun")):
        judge_least(judge, "launch to MPI_Init, against %s" % name, 1, ["mpi.%s.%d" % (flavour, size) for size in (2, 4, 8)],
                    "muster", launcher)


def judged(results):
    judge = Judge(results)
    row = judge.row
    two = row("barrier.n2.avg16")
    over = results.get("barrier.n2.over_line")
    beside = row("barrier.n2.beside_line"), row("barrier.n2.beside_line", "one-way")
    judge.at_most("group barrier, 2 tasks, over the one-way line", "≤ 2×", over.value if over else None, 2,
                  lambda v: "%.2f×" % v,
                  "%s over %s" % tuple(nanoseconds(r.p50) for r in beside) if all(beside) else "", (over,))
    judge.faster("group barrier, 2 tasks, against Open MPI", 2, two,
                 [row("barrier.n2.avg16", "openmpi"), row("barrier.n2.avg16", "openmpi-sm")])
    judge.faster("group barrier, 2 tasks, against MPICH", 5, two, [row("barrier.n2.avg16", "mpich")])
    judge.faster("group barrier, 2 tasks, against pthread", 100, two, [row("barrier.n2.avg16", "pthread")])
    eight = row("barrier.n8")
    judge.faster("group barrier, 8 tasks, ahead of all", 1, eight,
                 [row("barrier.n8", who) for who in ("openmpi", "openmpi-sm", "mpich", "pthread")])
    judge.at_most("group barrier, 8 tasks, p99 over p50", "≤ 2×", eight.p99 / eight.p50 if eight else None, 2,
                  lambda v: "%.2f×" % v, "%s over %s" % (nanoseconds(eight.p99), nanoseconds(eight.p50)) if eight else "",
                  (eight,))
    judge.time("named barrier, 1 participant, an arrival", 1000, row("named.1"))
    judge.time("named barrier, 2 participants, an arrival", 1000, row("named.2"))
    judge.time("KV get, hot", 25, row("kv.get.hot"))
    judge.ratio("KV get, uniform, over 3 dependent loads", 1.2, row("kv.get.chained"), row("kv.get.chained", "loads"))
    judge.time("KV overwrite, hot", 50, row("kv.set.hot"))
    judge.ratio("KV overwrite, uniform, over the get", 1.5, row("kv.set.uniform"), row("kv.get.uniform"))
    judge.ratio("waiting get, asleep, over the futex", 1.1, row("wait.parked"), row("wait.parked", "futex"))
    judge.time("an event of a trace", 20, row("trace.event"))
    line = row("wait.spin", "line")
    judge.time("waiting get, spinning", 200, row("wait.spin"),
               detail="a bare store takes %s" % nanoseconds(line.p50) if line else "")
    judge.ratio("heartbeat without a system call, over the cheapest one", 0.25, row("heartbeat"),
                row("heartbeat", "getppid"))
    for metric in [m for m, who in results.rows if m.startswith("death.") and who == "muster"] or ["death.10MiB",
                                                                                                 "death.2048MiB"]:
        pidfd = row(metric, "pidfd")
        judge.time("SIGKILL → every wait returns, %s resident" % metric[6:], 1e6, row(metric), "p99",
                   "pidfd %s" % nanoseconds(pidfd.p99) if pidfd else "")
    judge.ratio("muster run -n 8 true, over posix_spawn of 8", 1.3, row("run.8"), row("run.8", "posix_spawn"))
    for mode, tcp in (("", "tcp"), (".latency", "tcp-poll")):
        for kind, who in (("group", "muster"), ("named", "muster-named")):
            judge.ratio("%s barrier of 2 hosts, over TCP's round trip%s" % (kind, ", polling" if mode else ""), 1.5,
                        row("cross.n2" + mode, who), row("cross.n2" + mode, tcp))
    for who, name in (("openmpi-tcp", "Open MPI"), ("mpich-tcp", "MPICH")):
        judge.faster("group barrier of 2 hosts, polling, against %s" % name, 1, row("cross.n2.latency"),
                     [row("cross.n2.latency", who)])
    judge_grpc(judge, "grpc", "jaxlib", "JAX's own service")
    judge_grpc(judge, "grpc", "etcd", "etcd")
    judge_grpc(judge, "grpcio", "etcd", "etcd")
    judge_compat(judge)
    judge.size("memory of an empty segment", 1 << 20, "memory.empty")
    judge.size("memory of a task", 2 << 10, "memory.task")
    judge.size("memory of the launcher of 64 tasks, resident", 10 << 20, "memory.agent.64")
    judge.time("attach", 1e6, row("attach"))
    judge.time("audit of 1 M objects", 1e7, row("audit"))
    return judge.lines
