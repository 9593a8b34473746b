"""bench/REPORT.md: the contract with what was measured, and every group's table. Its form is the same for the same results."""
from harness import curves, growth
from harness.contract import count_of_bytes, nanoseconds
from harness.kept import machine_words
from harness.report import ratio_text
from harness.titles import LIMITS, place, title
from harness.why import WHY

# What the contract of the design asks for: row -> limit or contract, as the design says it.
DESIGN = {
    "group barrier, 2 tasks on 2 cores": "≤ 2× the one-way line latency; ≥ 2× faster than Open MPI, ≥ 5× MPICH, ≥ 100× pthread",
    "group barrier, 8 tasks on 2 cores": "ahead of all, p99 within 2× p50",
    "named barrier, participants running on the leader's node": "≤ 1 µs per arrival",
    "KV get, 64 B: hot / uniform over 50,000 keys": "≤ 25 ns / ≤ 1.2× the cost of 3 dependent random loads over the same footprint",
    "KV overwrite, 64 B: hot / uniform": "≤ 50 ns / ≤ 1.5× the get",
    "get that waits: set → reader runs": "≤ 1.1× the futex limit parked; ≤ 200 ns spinning",
    "heartbeat": "one store to the task's own line, no system call",
    "SIGKILL of a task → every peer's wait returns": "≤ 1 ms p99 at 10 MiB and at 2 GiB resident",
    "cross-host barrier, 2 hosts, one task each": "≤ 1.5× the same mode's round trip",
    "muster run -n 8 true": "within 1.3× of posix_spawn of 8",
    "gRPC front-end, unary KV and barrier": "≥ 1.5× the throughput of jaxlib's own server and lower p99 at 2, 8, 64 clients",
    "memory": "≤ 2 KiB a task, ≤ 1 MiB an empty segment committed, agent ≤ 10 MiB RSS",
    "attach; audit of 1 M objects": "≤ 1 ms; ≤ 10 ms",
    "scale, simulated hosts on loopback": "1,024 hosts × 8 tasks join, barrier and exchange topologies; cost a host flat",
}
PLOTS = [("rows.svg", "muster beside its alternatives"), ("curves.svg", "against ranks, tasks, keys"), ("growth.svg", "against hosts"),
         ("cdf.svg", "how the samples are distributed")]


def escape(words):
    return words.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def table(out, heads, lines, right=()):
    """right: the columns of figures"""
    print("| " + " | ".join(heads) + " |", file=out)
    print("|" + "|".join("--:" if number in right else "---" for number in range(len(heads))) + "|", file=out)
    for line in lines:
        print("| " + " | ".join(escape(cell) for cell in line) + " |", file=out)
    print(file=out)


def heading(out, level, words):
    print("%s %s\n" % ("#" * level, words), file=out)


def how_to(line):
    return "`%s`" % line.command()


def show_contract(out, lines):
    heading(out, 2, "The contract")
    passed = sum(line.verdict == "PASS" for line in lines)
    unmeasured = sum(line.verdict == "NOT MEASURED" for line in lines)
    print("%d of %d lines hold, %d were not measured. A line's command measures its group again, and what it is compared with.\n"
          % (passed, len(lines), unmeasured), file=out)
    for row, asked in DESIGN.items():
        heading(out, 3, row)
        print("The design: %s.\n" % asked, file=out)
        show_lines(out, [line for line in lines if line.row == row])
    heading(out, 3, "What is held besides")
    show_lines(out, [line for line in lines if line.row not in DESIGN])


def show_lines(out, lines):
    table(out, ["line", "limit", "measured", "verdict", "command"],
          [(line.what, line.limit, line.measured or "–", bold(line.verdict), how_to(line)) for line in lines])
    for line in lines:
        if line.verdict.startswith("MISSED") and line.what in WHY:
            print("*%s*: %s\n" % (line.what, WHY[line.what]), file=out)


def bold(verdict):
    return verdict if verdict == "PASS" else "**%s**" % verdict


def name_of(row):
    name = row.who + (" (limit)" if row.who in LIMITS else "")
    return "**%s**" % name if row.who.startswith("muster") else name


def cells(results, row):
    notes = ["others used %.0f %% of the machine" % (100 * row.noise)] if row.noisy else []
    if row.value is not None:
        shown = count_of_bytes(row.value) if row.unit == "bytes" else "%.4g %s" % (row.value, row.unit)
        return [name_of(row), "", shown, "", "", "", ratio_text(results, row), *(notes or [""])]
    if row.unsteady():
        notes.append("repeats differ: p50 %s to %s" % (nanoseconds(row.p50_low), nanoseconds(row.p50_high)))
    if row.batch > 1:
        notes.append("mean of %d" % row.batch)
    return [name_of(row), format(row.count, ",d"), nanoseconds(row.p50), nanoseconds(row.p99), nanoseconds(row.high),
            nanoseconds(row.mean), ratio_text(results, row), "; ".join(notes)]


def group_lines(results, name):
    metrics = {row.metric for row in results.rows.values() if row.group == name}
    for metric in sorted((m for m in metrics if not growth.is_growth(m) and not curves.is_curve(m)), key=lambda m: (place(m), m)):
        rows = [row for row in results.of_metric(metric) if row.group == name]
        rows.sort(key=lambda row: (row.who not in LIMITS, not row.who.startswith("muster"), row.who))
        for number, row in enumerate(rows):
            yield ["" if number else title(metric), *cells(results, row)]


def show_group(out, results, name):
    group = results.groups[name]
    heading(out, 3, name)
    print("`make bench ARGS=\"--only %s\"`: %s, commit %s, %.0f s, load before %s.\n"
          % (name, group["date"], group["commit"], group["seconds"], group["load"]), file=out)
    lines = list(group_lines(results, name))
    if lines:
        table(out, ["what", "who", "n", "p50", "p99", "max", "mean", "to muster", ""], lines, range(2, 8))
    for headline, sizes, curve in curves.tables(results) if name in ("tasks", "keys") else []:
        if headline.startswith(name):
            table(out, [headline + ": p50 / p99", *(format(size, ",d") for size in sizes)],
                  [[words, *row] for words, row in curve], range(1, len(sizes) + 1))
    if name == "growth":
        sizes, grown = growth.table(results)
        table(out, ["hosts, of 8 tasks each", *(format(size, ",d") for size in sizes)], [[words.strip(), *row] for words, row in grown],
              range(1, len(sizes) + 1))
    for fact, words in sorted(group["facts"].items()):
        print("* %s: %s" % (escape(fact), escape(words)), file=out)
    if group["facts"]:
        print(file=out)


def show_configuration(out, configuration, results):
    heading(out, 2, "The machine")
    table(out, ["", ""], [(name, words) for name, words in configuration])
    of_now = {**dict(configuration), "machine": machine_words(dict(configuration))}
    for what, name in (("commits", "commit"), ("machines", "machine"), ("parameters", "parameters"), ("versions of peers", "peers")):
        found = sorted({group[name] for group in results.groups.values() if group.get(name)})
        if len(found) > 1:
            print("The groups were measured with several %s, each with what its heading or its CSV says: %s.\n"
                  % (what, "; ".join(found)), file=out)
        elif found and found[0] != of_now.get(name):
            print("The table is of when this was written; all groups were measured with another %s: %s.\n" % (name, found[0]), file=out)


def show_absent(out, results, absent):
    heading(out, 2, "What is missing")
    lines = ["%s: %s" % entry for entry in results.missing]
    lines += ["failed: %s: %s" % entry for entry in results.failures]
    lines += ["the group %s was not measured" % name for name in absent]
    for line in lines or ["Nothing: every peer was there, and every program ended well."]:
        print("* " + escape(line), file=out)
    print(file=out)


def write(path, results, configuration, lines, all_groups, quick, plots):
    """plots: the files that were drawn, in the folder plots/ beside this one"""
    with open(path, "w") as out:
        heading(out, 1, "What muster does, measured")
        print("Written by the harness (`make bench ARGS=--report`) from its last run: not to be edited. How it is measured, and what "
              "the rows are: [README.md](README.md).\n" if not quick else
              "Written by the harness. **Sizes were tiny**: the verdicts only show that they can be made.\n", file=out)
        show_configuration(out, configuration, results)
        show_absent(out, results, [name for name in all_groups if name not in results.groups])
        show_contract(out, lines)
        heading(out, 2, "Plots")
        for name, words in PLOTS:
            if name in plots:
                print("![%s](plots/%s)\n" % (words, name), file=out)
        heading(out, 2, "Every group")
        print("p50, p99 and max are of all samples of the quiet repeats, or of the quietest where none was; p99 of fewer than 100 "
              "samples is their largest. \"to muster\" is how many times muster's p50, taken within one turn; of single figures "
              "(rates, processor time) that of their medians, above 1 where muster's is the better one.\n", file=out)
        for name in all_groups:
            if name in results.groups:
                show_group(out, results, name)
