"""How a job of more and more hosts grows: the table's rows, and a plot of them, without any library.

A panel a figure, both axes logarithmic: a line with a dot at each size, its last value beside it, and, dashed, what grows
with the hosts would from the first dot. What is flat costs no host anything for the others' being there.
"""
import math
from xml.sax.saxutils import escape

INK, FAINT, GRID, LEADER, HOST = "#1f2933", "#7b8794", "#e4e7eb", "#d9480f", "#0b7285"
WIDTH, COLUMNS, PANEL, LEFT, TOP = 1080, 3, 230, 24, 84

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


def words(number, unit):
    if unit == "s":
        return "%.3g s" % number
    if unit == "us":
        return "%.3g s" % (number / 1e6) if number >= 1e6 else "%.3g ms" % (number / 1e3) if number >= 1e3 else "%.3g us" % number
    for step, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= step:
            return "%.3g %s%s" % (number / step, prefix, unit)
    return "%.3g %s" % (number, unit)


def show(out, results):
    """The table: what a job of more and more hosts costs; the hosts are simulated, with 8 tasks each."""
    found = sizes(results)
    if not found:
        return
    print("\n%-54s %s" % ("hosts, of 8 tasks each", " ".join("%14d" % size for size in found)), file=out)
    for phase, what, title in ROWS:
        cells = [value(results, phase, what, size) for size in found]
        shown = "%.3f" if what == "seconds" else "%.0f"
        print("  %-52s %s" % (title, " ".join("%14s" % (shown % cell if cell is not None else "-") for cell in cells)), file=out)


class Panel:
    """Where a size and a value lie in one of the plot's fields."""

    def __init__(self, number, found, values):
        self.left = LEFT + number % COLUMNS * ((WIDTH - 2 * LEFT) / COLUMNS) + 8
        self.top = TOP + number // COLUMNS * PANEL + 30
        self.width, self.height = (WIDTH - 2 * LEFT) / COLUMNS - 96, PANEL - 74
        self.first, self.last = math.log(found[0]), math.log(found[-1])
        self.low = math.floor(math.log10(max(min(values), 1e-6)))
        self.high = max(math.ceil(math.log10(max(max(values), 1e-6))), self.low + 1)

    def x(self, size):
        span = self.last - self.first
        return self.left + (self.width * (math.log(size) - self.first) / span if span else 0)

    def y(self, number):
        share = (math.log10(max(number, 1e-6)) - self.low) / (self.high - self.low)
        return self.top + self.height * (1 - min(max(share, 0), 1))


def text(x, y, what, size=12, color=INK, anchor="start", weight="normal"):
    return ('<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s" font-weight="%s">%s</text>'
            % (x, y, size, color, anchor, weight, escape(what)))


def line(points, color, width, dashes=""):
    return ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"%s/>'
            % (" ".join("%.1f,%.1f" % point for point in points), color, width,
               ' stroke-dasharray="%s"' % dashes if dashes else ""))


def draw(number, title, lines, unit, found):
    panel = Panel(number, found, [v for *_, values in lines for v in values.values()])
    parts = [text(panel.left, panel.top - 12, title, 13, INK, "start", "bold")]
    for decade in range(panel.low, panel.high + 1):
        y = panel.y(10.0 ** decade)
        parts.append(line([(panel.left, y), (panel.left + panel.width, y)], GRID, 1))
        if (panel.high - decade) % (1 + (panel.high - panel.low) // 4) == 0:
            parts.append(text(panel.left + 2, y - 2, words(10.0 ** decade, unit), 9, FAINT))
    for size in found:
        parts.append(text(panel.x(size), panel.top + panel.height + 16, "%d" % size, 11, FAINT, "middle"))
    for name, color, values in lines:
        points = sorted(values.items())
        first = points[0]
        linear = [(panel.x(s), panel.y(first[1] * s / first[0])) for s, _ in points]
        parts.append(line(linear, FAINT, 1, "3 4"))
        parts.append(line([(panel.x(s), panel.y(v)) for s, v in points], color, 2))
        parts += ['<circle cx="%.1f" cy="%.1f" r="3.6" fill="%s"/>' % (panel.x(s), panel.y(v), color) for s, v in points]
        parts.append(text(panel.x(points[-1][0]) + 8, panel.y(points[-1][1]) + 4,
                          (name + " " if name else "") + words(points[-1][1], unit), 11, color))
    return parts


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
            shown.append((title, drawn, unit))
    if not shown:
        return False
    height = TOP + PANEL * math.ceil(len(shown) / COLUMNS) + 24
    parts = [text(LEFT, 34, "muster on more and more hosts, of 8 tasks each", 20, INK, "start", "bold"),
             text(LEFT, 54, "%s · %s · commit %s · simulated hosts on one thread: real segments and agents, no network" % (
                 configuration["processor"], configuration["kernel"], configuration["commit"]), 12, FAINT)]
    for number, (title, drawn, unit) in enumerate(shown):
        parts += draw(number, title, drawn, unit, found)
    parts.append(text(LEFT, height - 12, "across: hosts · dashed: as the hosts grow, from the first dot · "
                      + configuration["date"], 11, FAINT))
    with open(path, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<rect width="100%%" height="100%%" '
                'fill="#ffffff"/>\n%s\n</svg>\n' % (WIDTH, height, WIDTH, height, "\n".join(parts)))
    return True
