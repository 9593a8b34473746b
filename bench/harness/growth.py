"""How a job of more and more hosts grows: the table's rows, and a plot of them.

What is flat costs no host anything for the others' being there.
"""
from harness import panels
from harness.svg import INK, LIMIT as HOST, MUSTER as LEADER

# (phase, what, the table's words)
ROWS = [
    ("join", "seconds", "joining: processor time of all, one after the other, s"),
    ("join", "messages", "  messages"),
    ("join", "bytes", "  bytes"),
    ("join", "leader", "  processor time of the leader's agent, us"),
    ("join", "follower", "  of another host's agent, us"),
    ("barrier", "messages", "a barrier of all tasks: messages"),
    ("barrier", "bytes", "  bytes"),
    ("barrier", "leader", "  processor time of the leader's agent, us"),
    ("barrier", "follower", "  of another host's agent, us"),
    ("exchange", "messages", "an exchange of topologies: messages"),
    ("exchange", "bytes", "  bytes"),
    ("exchange", "leader", "  processor time of the leader's agent, us"),
    ("exchange", "follower", "  of another host's agent, us"),
    ("memory", "leader", "memory of the leader's agent, bytes"),
    ("memory", "follower", "memory of another host's agent, bytes"),
    ("segment", "leader", "the leader's segment, committed bytes"),
    ("segment", "follower", "another host's segment, committed bytes"),
]

# (title, [(phase, what, name, colour)], unit)
PANELS = [
    ("joining: all hosts' work, on one processor", [("join", "seconds", "", INK)], "s"),
    ("joining: bytes", [("join", "bytes", "", INK)], "B"),
    ("joining: messages", [("join", "messages", "", INK)], ""),
    ("joining: processor time of an agent", [("join", "leader", "leader", LEADER), ("join", "follower", "other", HOST)], "us"),
    ("a barrier: processor time of an agent",
     [("barrier", "leader", "leader", LEADER), ("barrier", "follower", "other", HOST)], "us"),
    ("a barrier: bytes", [("barrier", "bytes", "", INK)], "B"),
    ("a barrier: messages", [("barrier", "messages", "", INK)], ""),
    ("memory of an agent", [("memory", "leader", "leader", LEADER), ("memory", "follower", "other", HOST)], "B"),
    ("an exchange of topologies: bytes", [("exchange", "bytes", "", INK)], "B"),
]


def is_growth(metric):
    return metric.startswith("scale.")


def sizes(results):
    return sorted({int(row.metric.rsplit(".", 1)[1]) for row in results.rows.values() if is_growth(row.metric)})


def value(results, phase, what, size):
    row = results.get("scale.%s.%s.%d" % (phase, what, size))
    return row.value if row else None


def table(results):
    """(sizes, [(title, [cell of each size])]): what a job of more and more hosts costs."""
    found = sizes(results)
    lines = []
    for phase, what, title in ROWS if found else []:
        cells = [value(results, phase, what, size) for size in found]
        shown = "%.3f" if what == "seconds" else "%.0f"
        lines.append((title, [shown % cell if cell is not None else "-" for cell in cells]))
    return found, lines


def show(out, results):
    found, lines = table(results)
    if found:
        print("\n%-54s %s" % ("hosts, of 8 tasks each", " ".join("%14d" % size for size in found)), file=out)
    for title, cells in lines:
        print("  %-52s %s" % (title, " ".join("%14s" % cell for cell in cells)), file=out)


def write_svg(path, results, configuration):
    """False: there is nothing to plot."""
    found = sizes(results)
    shown = []
    for title, lines, unit in PANELS:
        drawn = []
        for phase, what, name, color in lines:
            values = {size: value(results, phase, what, size) for size in found}
            values = {size: v for size, v in values.items() if v}
            if values:
                drawn.append((name, color, values))
        if drawn:
            shown.append((title, drawn, unit, True))
    if not shown:
        return False
    panels.write_svg(path, "muster on more and more hosts, of 8 tasks each",
                     "across: hosts, simulated on one thread: real segments and agents, no network · "
                     "dashed: as the hosts grow, from the first dot", configuration, shown)
    return True
