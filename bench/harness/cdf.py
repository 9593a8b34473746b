"""How the samples of the main rows are distributed: a field a row, time logarithmic, the share of samples upwards."""
import math

from harness.contract import nanoseconds
from harness.curves import OTHERS
from harness.results import merged
from harness.svg import FAINT, GRID, INK, LIMIT, MUSTER, PEER, WIDTH, line, machine_words, text, write
from harness.titles import LIMITS, title

COLUMNS, PANEL, LEFT, TOP = 3, 240, 24, 84
# In this order; a metric that was not measured is left out.
SHOWN = ["barrier.n2.avg16", "barrier.n4", "barrier.n8", "named.2", "kv.get.uniform", "kv.set.uniform", "wait.spin", "wait.parked",
         "late.8.each", "late.64.each", "death.10MiB", "death.2048MiB", "run.8", "cross.n2", "cross.n2.latency", "cross.kv.set",
         "grpc.set", "grpc.load.set", "store.add", "store.wake", "mpi.mpich.8"]
SHARES = [0, 0.01, 0.02, 0.05, *(step / 20 for step in range(2, 19)), 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1]


def points(row):
    """(time, share) at a fixed set of shares: few, so that the file stays small."""
    steps, found = merged(row.used), []
    total, seen, at = sum(count for _, count in steps), 0, 0
    for value, count in steps:
        seen += count
        while at < len(SHARES) and seen >= SHARES[at] * total:
            found.append((value, SHARES[at]))
            at += 1
    return found


def short(words):
    return words if len(words) < 50 else words[:48].rstrip(" ,") + "…"


def draw(number, metric, rows):
    left, top = LEFT + number % COLUMNS * ((WIDTH - 2 * LEFT) / COLUMNS) + 8, TOP + number // COLUMNS * PANEL + 30
    width, height = (WIDTH - 2 * LEFT) / COLUMNS - 36, PANEL - 74
    # The slowest thousandth would leave no room for the rest.
    low = math.log10(max(min(row.low for row in rows), 1)) - 0.05
    high = math.log10(max(max(row.p99 for row in rows) * 3, 10 ** low * 10))

    def x(value):
        return left + width * min(max((math.log10(max(value, 1e-3)) - low) / (high - low), 0), 1)

    parts = [text(left, top - 12, short(title(metric)), 12, INK, "start", "bold")]
    for decade in range(math.ceil(low), math.floor(high) + 1):
        parts.append(line([(x(10.0 ** decade), top), (x(10.0 ** decade), top + height)], GRID, 1))
        parts.append(text(x(10.0 ** decade), top + height + 14, nanoseconds(10.0 ** decade).replace(".00", "").replace(".0", ""), 10,
                          FAINT, "middle"))
    for share in (0, 0.5, 1):
        parts.append(line([(left, top + height * (1 - share)), (left + width, top + height * (1 - share))], GRID, 1))
    colors = iter(OTHERS)
    for place, row in enumerate(rows):
        color = MUSTER if row.who == "muster" else LIMIT if row.who in LIMITS else next(colors, PEER)
        parts.append(line([(x(value), top + height * (1 - share)) for value, share in points(row)], color,
                          2 if row.who == "muster" else 1.4, "4 3" if row.who in LIMITS else ""))
        parts.append(text(left + width - 2, top + height - 6 - 13 * (len(rows) - 1 - place), row.who, 11, color, "end"))
    return parts


def write_svg(path, results, configuration):
    """False: there is nothing to plot."""
    shown = []
    for metric in SHOWN:
        rows = [row for row in results.of_metric(metric) if row.value is None and row.count > 2]
        if rows:
            shown.append((metric, sorted(rows, key=lambda row: (row.who != "muster", row.who in LIMITS, row.who))))
    if not shown:
        return False
    height = TOP + PANEL * math.ceil(len(shown) / COLUMNS) + 24
    parts = [text(LEFT, 34, "how the samples are distributed", 20, INK, "start", "bold"),
             text(LEFT, 54, machine_words(configuration), 12, FAINT)]
    for number, (metric, rows) in enumerate(shown):
        parts += draw(number, metric, rows)
    parts.append(text(LEFT, height - 12, "upwards: the share of samples that took no longer · dashed: limits of hardware or kernel · "
                      + configuration["date"], 11, FAINT))
    write(path, height, parts)
    return True
