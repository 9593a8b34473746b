"""What grows on one node: with the tasks, with the keys, with the ranks of a barrier. Tables, and a plot of them."""
from harness import panels
from harness.contract import count_of_bytes, nanoseconds
from harness.svg import LIMIT, MUSTER, PEER

OTHERS = ("#8d6b94", "#5f7a61", "#b08968", "#3d5a80", PEER)

# Heading of a table -> (the metric before the size, who, the table's words)
TABLES = {
    "tasks on one node": [
        ("tasks.join", "muster", "join, one after the other"),
        ("tasks.meet", "muster", "the first barrier of all, until the last has left it"),
        ("tasks.build", "muster", "a group of all is built, until the last has left its first barrier"),
        ("tasks.group", "muster", "group barrier"),
        ("tasks.named", "muster", "named barrier"),
        ("tasks.status", "muster", "`muster status`"),
        ("tasks.memory", "muster", "committed for each task"),
        ("tasks.memory.group", "muster", "… for each member of a group of all"),
    ],
    "keys in the store": [
        ("keys.get", "muster", "get, uniform"),
        ("keys.get", "muster-sized", "… index as large as the keys"),
        ("keys.set", "muster", "overwrite, uniform"),
        ("keys.set", "muster-sized", "… index as large as the keys"),
        ("keys.insert", "muster", "insert"),
        ("keys.insert", "muster-sized", "… index as large as the keys"),
        ("keys.audit", "muster", "audit"),
        ("keys.audit", "muster-sized", "… index as large as the keys"),
        ("keys.memory", "muster", "live blocks for each key"),
    ],
}

# (title, [(metric, who, name, colour)])
PANELS = [
    ("tasks: barriers of all", [("tasks.group", "muster", "group", MUSTER), ("tasks.named", "muster", "named", LIMIT)]),
    ("tasks: join, and the first barrier", [("tasks.join", "muster", "join", MUSTER), ("tasks.meet", "muster", "first", LIMIT)]),
    ("tasks: `muster status`", [("tasks.status", "muster", "", MUSTER)]),
    ("keys: get", [("keys.get", "muster", "", MUSTER), ("keys.get", "muster-sized", "sized", LIMIT)]),
    ("keys: overwrite", [("keys.set", "muster", "", MUSTER), ("keys.set", "muster-sized", "sized", LIMIT)]),
    ("keys: insert", [("keys.insert", "muster", "", MUSTER), ("keys.insert", "muster-sized", "sized", LIMIT)]),
    ("keys: audit of the segment", [("keys.audit", "muster", "", MUSTER), ("keys.audit", "muster-sized", "sized", LIMIT)]),
    ("memory of a task", [("tasks.memory", "muster", "joined", MUSTER), ("tasks.memory.group", "muster", "group", LIMIT)]),
]
BARRIERS = [("group barrier, ranks on one node", "barrier.n", ""), ("barrier across hosts", "cross.n", ""),
            ("barrier across hosts, polling", "cross.n", ".latency")]


def is_curve(metric):
    return metric.startswith(("tasks.", "keys."))


def rows_of(results, metric, who, after=""):
    """{size: row} of METRIC.SIZE or METRICSIZE, for one contender."""
    start, found = metric if metric.endswith(".n") else metric + ".", {}
    for (name, owner), row in results.rows.items():
        size = name[len(start):len(name) - len(after) or None]
        if owner == who and name.startswith(start) and name.endswith(after) and size.isdigit():
            found[int(size)] = row
    return found


def cell(row):
    if row is None:
        return "-"
    if row.value is not None:
        return count_of_bytes(row.value) if row.unit == "bytes" else "%.3g %s" % (row.value, row.unit)
    return nanoseconds(row.p50) if row.count < 2 else "%s / %s" % (nanoseconds(row.p50), nanoseconds(row.p99))


def tables(results):
    """[(heading, sizes, [(words, [cell of each size])])]: p50 / p99."""
    for heading, wanted in TABLES.items():
        found = [(words, rows_of(results, metric, who)) for metric, who, words in wanted]
        sizes = sorted({size for _, rows in found for size in rows})
        if sizes:
            yield heading, sizes, [(words, [cell(rows.get(size)) for size in sizes]) for words, rows in found if rows]


def show(out, results):
    for heading, sizes, lines in tables(results):
        print("\n%-54s %s" % (heading + ": p50 / p99", " ".join("%21s" % format(size, ",d") for size in sizes)), file=out)
        for words, cells in lines:
            print("  %-52s %s" % (words, " ".join("%21s" % text for text in cells)), file=out)


def figures(rows):
    return {size: row.p50 if row.value is None else row.value for size, row in rows.items() if row.value or row.value is None}


def barrier_lines(results, metric, after):
    """Everybody who has two sizes, muster in front."""
    whos = list(dict.fromkeys(who for name, who in results.rows if name.startswith(metric) and name.endswith(after or name[-1])))
    whos.sort(key=lambda who: (not who.startswith("muster"), who))
    lines, colors = [], iter(OTHERS)
    for who in whos:
        rows = rows_of(results, metric, who, after)
        if len(rows) > 1:
            color = MUSTER if who == "muster" else LIMIT if who == "muster-named" else next(colors, PEER)
            lines.append((who, color, figures(rows)))
    return lines


def write_svg(path, results, configuration):
    """False: there is nothing to plot."""
    shown = [(title, barrier_lines(results, metric, after), "ns", False) for title, metric, after in BARRIERS]
    for title, wanted in PANELS:
        lines = [(name, color, figures(rows_of(results, metric, who))) for metric, who, name, color in wanted]
        shown.append((title, [line for line in lines if line[2]], "B" if "memory" in title else "ns", True))
    shown = [panel for panel in shown if panel[1]]
    if shown:
        panels.write_svg(path, "latency, work and memory against how many there are", "p50; across: ranks, hosts, tasks, keys · "
                         "dashed: as they grow, from the first dot", configuration, shown)
    return bool(shown)
