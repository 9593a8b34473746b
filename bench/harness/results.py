"""Results: what the programs printed, merged over repeats; percentiles; the files for machines."""
import csv
import json
import statistics

from harness.machine import NOISE_LIMIT


class Repeat:
    """One program's samples of one row, in the given turn of its group."""

    def __init__(self, line, noise, turn):
        self.noise, self.turn = noise, turn
        self.batch, self.count = line["batch"], line["n"]
        self.mean, self.low, self.high = line["mean"], line["min"], line["max"]
        self.steps = line["hist"]
        self.p50 = percentile(self.steps, 0.5)


def percentile(steps, share):
    """The value below which `share` of the counted values lie; steps are sorted [value, count]."""
    total = sum(count for _, count in steps)
    wanted, seen = share * total, 0
    for value, count in steps:
        seen += count
        if seen >= wanted:
            return value
    return steps[-1][0]


def merged(repeats):
    counts = {}
    for repeat in repeats:
        for value, count in repeat.steps:
            counts[value] = counts.get(value, 0) + count
    return sorted(counts.items())


class Row:
    """All repeats of one contender in one metric; the quiet ones count, or, when none was quiet, the quietest."""

    def __init__(self, metric, who, group=""):
        self.metric, self.who, self.group = metric, who, group
        self.repeats = []
        self.values, self.value, self.unit = [], None, "ns"  # a single figure a repeat, instead of samples

    def settle(self):
        if self.values:
            quiet = [one for one in self.values if one[1] < NOISE_LIMIT]
            self.value = statistics.median(value for value, _ in quiet or self.values)
            self.quiet, self.noisy = len(quiet), not quiet
            self.noise = max(noise for _, noise in quiet or self.values)
            return
        quiet = [r for r in self.repeats if r.noise < NOISE_LIMIT]
        used = quiet or [min(self.repeats, key=lambda r: r.noise)]
        self.quiet = len(quiet)
        self.noise = max(r.noise for r in used)
        self.noisy = not quiet
        self.batch = used[0].batch
        self.count = sum(r.count for r in used)
        self.mean = sum(r.mean * r.count for r in used) / self.count
        self.low, self.high = min(r.low for r in used), max(r.high for r in used)
        steps = merged(used)
        self.p50, self.p99 = percentile(steps, 0.5), percentile(steps, 0.99)
        self.p50_low, self.p50_high = min(r.p50 for r in used), max(r.p50 for r in used)
        self.used = used

    def unsteady(self):
        """The machine changed between the repeats: a virtual machine's processors were moved, say."""
        return self.p50_high > 1.5 * self.p50_low


def paired(above, below):
    """above / below by p50: the median over the turns that have both, since those ran within seconds of each other."""
    if above is None or below is None or above.value is not None or below.value is not None or not below.p50:
        return None
    turns = {repeat.turn: repeat.p50 for repeat in below.used}
    ratios = [repeat.p50 / turns[repeat.turn] for repeat in above.used if turns.get(repeat.turn)]
    return statistics.median(ratios) if ratios else above.p50 / below.p50


MORE_IS_BETTER = {"calls/s"}


def paired_values(theirs, mine):
    """The same of two single figures, so that above 1 is in favour of mine."""
    if theirs is None or mine is None or theirs.value is None or not mine.value or not theirs.value:
        return None
    return mine.value / theirs.value if mine.unit in MORE_IS_BETTER else theirs.value / mine.value


class Results:
    def __init__(self):
        self.rows = {}  # (metric, who) -> Row, in order of first sight
        self.facts = {}
        self.missing = []  # (who, why)
        self.failures = []  # (what, why)
        self.groups = {}  # name -> how it was measured: commit, date, parameters, seconds, facts (see kept.py)

    def add(self, line, noise, turn=0, group=""):
        if "fact" in line:
            self.facts[line["fact"]] = line["text"]
            return
        row = self.rows.setdefault((line["metric"], line["who"]), Row(line["metric"], line["who"], group))
        if "value" in line:
            row.values.append((line["value"], noise))
            row.unit = line["unit"]
        else:
            row.repeats.append(Repeat(line, noise, turn))

    def settle(self):
        for row in self.rows.values():
            row.settle()

    def get(self, metric, who="muster"):
        return self.rows.get((metric, who))

    def of_metric(self, metric):
        return [row for row in self.rows.values() if row.metric == metric]

    def ratio(self, row):
        """How many times muster's p50 in the same metric this one is, or its rate muster's; None where muster has none, or is the row."""
        mine = self.get(row.metric)
        if mine is row:
            return None
        return paired(row, mine) if row.value is None else paired_values(row, mine)


COLUMNS = ["metric", "who", "unit", "batch", "repeats", "quiet_repeats", "noise_pct", "n", "min", "p50", "p99", "max",
           "mean", "p50_lowest_repeat", "p50_highest_repeat", "ratio_to_muster", "group", "commit", "date"]


def record(results, row):
    ratio = results.ratio(row)
    when = results.groups.get(row.group, {})
    also = {"ratio_to_muster": round(ratio, 3) if ratio is not None else None, "quiet_repeats": row.quiet,
            "noise_pct": round(100 * row.noise, 2), "group": row.group, "commit": when.get("commit", ""), "date": when.get("date", "")}
    if row.value is not None:
        return {"metric": row.metric, "who": row.who, "unit": row.unit, "repeats": len(row.values), "p50": row.value, **also}
    return {"metric": row.metric, "who": row.who, "unit": "ns", "batch": row.batch, "repeats": len(row.repeats), "n": row.count, "min": row.low,
            "p50": row.p50, "p99": row.p99, "max": row.high, "mean": round(row.mean, 3),
            "p50_lowest_repeat": row.p50_low, "p50_highest_repeat": row.p50_high, **also}


def write_csv(path, results, configuration):
    with open(path, "w", newline="") as f:
        for name, value in configuration:
            f.write("# %s: %s\n" % (name, value))
        writer = csv.DictWriter(f, COLUMNS, restval="")
        writer.writeheader()
        for row in results.rows.values():
            writer.writerow(record(results, row))


def write_json(path, results, configuration, contract):
    whole = {
        "configuration": dict(configuration),
        "facts": results.facts,
        "groups": results.groups,
        "missing": [{"who": who, "why": why} for who, why in results.missing],
        "failures": [{"what": what, "why": why} for what, why in results.failures],
        "rows": [record(results, row) for row in results.rows.values()],
        "contract": [line.record() for line in contract],
    }
    with open(path, "w") as f:
        json.dump(whole, f, indent=1, ensure_ascii=False)
        f.write("\n")
