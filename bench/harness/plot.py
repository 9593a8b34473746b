"""The plot: one SVG, every metric on one logarithmic time axis, written without any library.

A line a contender: the dot is p50, the bar reaches to p99, the figure at the right is p50 and how many times muster's it
is. muster is coloured, limits of hardware and kernel are hollow, the rest is grey. Rows measured while others used the
machine are marked as in the table.
"""
import math

from harness import svg
from harness.contract import nanoseconds
from harness.svg import FAINT, GRID, INK, LIMIT, MUSTER, PEER, WIDTH
from harness.titles import LIMITS, TITLES

LEFT, RIGHT = 250, 190
LINE, HEAD, TOP, BOTTOM = 19, 34, 92, 54

# What a person wants to see; variants of the same row stay in the table.
SHOWN = ["barrier.n2.avg16", "barrier.n4", "barrier.n8", "named.1", "named.2", "kv.get.hot", "kv.get.uniform",
         "kv.get.chained", "kv.set.hot", "kv.set.uniform", "kv.increment", "kv.insert", "wait.spin", "wait.parked",
         "heartbeat", "attach", "audit", "run.8"]
ALSO = {"barrier.n2.avg16": ("line.avg16", "one-way")}  # the limit is measured in a metric of its own


def panels(results):
    """(title, rows) in order: limits, muster, then the peers from fast to slow."""
    deaths = [m for m in TITLES if m.startswith("death.")]
    deaths += sorted({m for m, _ in results.rows if m.startswith("death.")} - set(deaths))
    for metric in SHOWN[:-4] + deaths + SHOWN[-4:]:
        rows = [row for row in results.of_metric(metric) if row.value is None]
        extra = ALSO.get(metric)
        if extra and extra in results.rows:
            rows.append(results.rows[extra])
        if rows:
            rows.sort(key=lambda row: (row.who not in LIMITS, not row.who.startswith("muster"), row.p50))
            yield TITLES.get(metric, metric), rows


class Canvas:
    def __init__(self, low, high):
        self.parts = []
        self.low, self.high = low, high

    def x(self, value):
        share = (math.log10(max(value, self.low)) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return LEFT + min(share, 1) * (WIDTH - LEFT - RIGHT)

    def add(self, text, *values):
        self.parts.append(text % values if values else text)

    def text(self, x, y, words, size=12, color=INK, anchor="start", weight="normal"):
        self.parts.append(svg.text(x, y, words, size, color, anchor, weight))

    def line(self, x1, y1, x2, y2, color, width=1.0, opacity=1.0):
        self.add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f" stroke-opacity="%.2f" '
                 'stroke-linecap="round"/>', x1, y1, x2, y2, color, width, opacity)


def draw_axis(canvas, top, bottom):
    decade = math.floor(math.log10(canvas.low))
    while 10 ** decade <= canvas.high:
        value = 10.0 ** decade
        if value >= canvas.low:
            canvas.line(canvas.x(value), top, canvas.x(value), bottom, GRID)
            label = nanoseconds(value).replace(".00", "").replace(".0", "")
            canvas.text(canvas.x(value), top - 7, label, 11, FAINT, "middle")
            canvas.text(canvas.x(value), bottom + 16, label, 11, FAINT, "middle")
        decade += 1


def ratio_words(results, row, metric_rows):
    mine = next((r for r in metric_rows if r.who == "muster"), None)
    if mine is None or row is mine or not mine.p50:
        return ""
    value = results.ratio(row) if row.metric == mine.metric else row.p50 / mine.p50
    return "%.0f×" % value if value >= 20 else "%.1f×" % value if value >= 1.95 else "%.2f×" % value


def draw_row(canvas, results, row, rows, y):
    color = MUSTER if row.who.startswith("muster") else LIMIT if row.who in LIMITS else PEER
    x50, x99 = canvas.x(row.p50), canvas.x(row.p99)
    canvas.line(x50, y, x99, y, color, 5, 0.30)
    canvas.line(x99, y - 4, x99, y + 4, color, 1.5)
    canvas.add('<circle cx="%.1f" cy="%.1f" r="4.2" fill="%s" stroke="%s" stroke-width="1.6"/>',
               x50, y, "#ffffff" if row.who in LIMITS else color, color)
    name = row.who + (" (limit)" if row.who in LIMITS else "") + (" !" if row.noisy else "")
    canvas.text(LEFT - 12, y + 4, name, 12, color, "end", "bold" if row.who == "muster" else "normal")
    canvas.text(WIDTH - RIGHT + 92, y + 4, nanoseconds(row.p50), 12, color, "end",
                "bold" if row.who == "muster" else "normal")
    canvas.text(WIDTH - 24, y + 4, ratio_words(results, row, rows), 12, FAINT, "end")


def write_svg(path, results, configuration):
    shown = list(panels(results))
    rows = [row for _, group in shown for row in group]
    low = 10 ** math.floor(math.log10(max(min((row.p50 for row in rows), default=1), 0.1)))
    high = max((row.p99 for row in rows), default=1e6) * 1.15
    height = TOP + BOTTOM + sum(HEAD + LINE * len(group) for _, group in shown)
    canvas = Canvas(low, max(high, low * 10))
    canvas.text(24, 34, "muster beside its alternatives, one node", 20, INK, "start", "bold")
    canvas.text(24, 54, "%s · %s · %s · commit %s" % (
        configuration["processor"], configuration["processors"].split(";")[0], configuration["kernel"],
        configuration["commit"]), 12, FAINT)
    canvas.text(WIDTH - RIGHT + 92, TOP - 7, "p50", 11, FAINT, "end")
    canvas.text(WIDTH - 24, TOP - 7, "to muster", 11, FAINT, "end")
    draw_axis(canvas, TOP, height - BOTTOM + 8)
    y = TOP
    for title, group in shown:
        canvas.text(24, y + 22, title, 13, INK, "start", "bold")
        y += HEAD
        for row in group:
            draw_row(canvas, results, row, group, y + LINE / 2 - 2)
            y += LINE
    canvas.text(24, height - 14, "dot: p50 · bar: to p99 · hollow: limit of hardware or kernel · !: others used the machine "
                "meanwhile · " + configuration["date"], 11, FAINT)
    svg.write(path, height, canvas.parts)
