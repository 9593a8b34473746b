"""Fields of a plot, both axes logarithmic: what something costs against how many there are.

A line with a dot at each size, its last value beside it, and, dashed, what grows with the size would from the first dot.
"""
import math

from harness.contract import nanoseconds
from harness.svg import FAINT, GRID, INK, WIDTH, dot, line, machine_words, text, write

COLUMNS, PANEL, LEFT, TOP = 3, 230, 24, 84


def words(number, unit):
    if unit == "ns":
        return nanoseconds(number)
    if unit == "s":
        return "%.3g s" % number
    if unit == "us":
        return "%.3g s" % (number / 1e6) if number >= 1e6 else "%.3g ms" % (number / 1e3) if number >= 1e3 else "%.3g us" % number
    for step, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= step:
            return "%.3g %s%s" % (number / step, prefix, unit)
    return "%.3g %s" % (number, unit)


def size_words(size):
    return "%dM" % (size // 1000000) if size >= 1000000 else "%dk" % (size // 1000) if size >= 10000 else "%d" % size


class Panel:
    """Where a size and a value lie in one of the plot's fields."""

    def __init__(self, number, found, values):
        self.left = LEFT + number % COLUMNS * ((WIDTH - 2 * LEFT) / COLUMNS) + 8
        self.top = TOP + number // COLUMNS * PANEL + 30
        self.width, self.height = (WIDTH - 2 * LEFT) / COLUMNS - 134, PANEL - 74
        self.first, self.last = math.log(found[0]), math.log(found[-1])
        self.low = math.floor(math.log10(max(min(values), 1e-6)))
        self.high = max(math.ceil(math.log10(max(max(values), 1e-6))), self.low + 1)

    def x(self, size):
        span = self.last - self.first
        return self.left + (self.width * (math.log(size) - self.first) / span if span else 0)

    def y(self, number):
        share = (math.log10(max(number, 1e-6)) - self.low) / (self.high - self.low)
        return self.top + self.height * (1 - min(max(share, 0), 1))


def draw(number, title, lines, unit, dashed):
    """lines: [(name, color, {size: value})]"""
    found = sorted({size for *_, values in lines for size in values})
    panel = Panel(number, found, [v for *_, values in lines for v in values.values()])
    parts = [text(panel.left, panel.top - 12, title, 13, INK, "start", "bold")]
    for decade in range(panel.low, panel.high + 1):
        y = panel.y(10.0 ** decade)
        parts.append(line([(panel.left, y), (panel.left + panel.width, y)], GRID, 1))
        if (panel.high - decade) % (1 + (panel.high - panel.low) // 4) == 0:
            parts.append(text(panel.left + 2, y - 2, words(10.0 ** decade, unit), 9, FAINT))
    for size in found:
        parts.append(text(panel.x(size), panel.top + panel.height + 16, size_words(size), 10, FAINT, "middle"))
    taken = []
    for name, color, values in lines:
        points = sorted(values.items())
        first = points[0]
        if dashed:
            last = min(points[-1][0], first[0] * 10.0 ** panel.high / first[1]) if first[1] > 0 else first[0]
            parts.append(line([(panel.x(s), panel.y(first[1] * s / first[0])) for s in (first[0], last)], FAINT, 1, "3 4"))
        parts.append(line([(panel.x(s), panel.y(v)) for s, v in points], color, 2))
        parts += [dot(panel.x(s), panel.y(v), color) for s, v in points]
        y = beside(panel.y(points[-1][1]) + 4, taken)
        parts.append(text(panel.x(points[-1][0]) + 8, y, (name + " " if name else "") + words(points[-1][1], unit), 11, color))
    return parts


def beside(y, taken):
    """The height of a label that covers none of those taken."""
    while any(abs(y - other) < 12 for other in taken):
        y += 3
    taken.append(y)
    return y


def write_svg(path, heading, below, configuration, shown):
    """shown: [(title, lines, unit, whether the dashed line is drawn)]"""
    height = TOP + PANEL * math.ceil(len(shown) / COLUMNS) + 24
    parts = [text(LEFT, 34, heading, 20, INK, "start", "bold"), text(LEFT, 54, machine_words(configuration), 12, FAINT)]
    for number, (title, lines, unit, dashed) in enumerate(shown):
        parts += draw(number, title, lines, unit, dashed)
    parts.append(text(LEFT, height - 12, below + " · " + configuration["date"], 11, FAINT))
    write(path, height, parts)
