"""The table that a person reads."""
from harness.contract import count_of_bytes, nanoseconds
from harness.curves import is_curve
from harness.growth import is_growth
from harness.titles import LIMITS, place, title


def show_configuration(out, configuration):
    width = max(len(name) for name, _ in configuration)
    for name, value in configuration:
        print("%-*s  %s" % (width, name, value), file=out)


def ratio_text(results, row):
    ratio = results.ratio(row)
    if ratio is None:
        return ""
    return "%.0f×" % ratio if ratio >= 100 else "%.1f×" % ratio if ratio >= 10 else "%.2f×" % ratio


def show_metric(out, results, metric, rows):
    print("\n%-54s %9s %9s %9s %9s %9s %10s" % (title(metric), "n", "p50", "p99", "max", "mean",
                                              "to muster"), file=out)
    for row in sorted(rows, key=lambda r: (r.who not in LIMITS, not r.who.startswith("muster"))):
        name = row.who + (" (limit)" if row.who in LIMITS else "")
        note = "  others used %.0f %% of the machine" % (100 * row.noise) if row.noisy else ""
        mark = "!" if row.noisy else " "
        if row.value is not None:
            shown = count_of_bytes(row.value) if row.unit == "bytes" else "%.3g %s" % (row.value, row.unit)
            print(("%s %-52s %9s %9s %40s%s" % (mark, name, "", shown, ratio_text(results, row), note)).rstrip(), file=out)
            continue
        if row.unsteady():
            note += "  repeats differ: p50 %s to %s" % (nanoseconds(row.p50_low), nanoseconds(row.p50_high))
        print("%s %-52s %9d %9s %9s %9s %9s %10s%s" % (
            mark, name + (", mean of %d" % row.batch if row.batch > 1 and "avg" not in metric else ""),
            row.count, nanoseconds(row.p50), nanoseconds(row.p99), nanoseconds(row.high), nanoseconds(row.mean),
            ratio_text(results, row), note), file=out)


def show_rows(out, results):
    metrics = dict.fromkeys(row.metric for row in results.rows.values() if not is_growth(row.metric) and not is_curve(row.metric))
    for metric in sorted(metrics, key=place):
        show_metric(out, results, metric, results.of_metric(metric))


def show_facts(out, results):
    if results.facts:
        print("\nmeasured with", file=out)
        for fact, text in results.facts.items():
            print("  %-16s %s" % (fact, text), file=out)
    for who, why in results.missing:
        print("missing: %s: %s" % (who, why), file=out)
    for what, why in results.failures:
        print("failed: %s: %s" % (what, why), file=out)


def show_contract(out, lines, quick, groups):
    """All lines, or those of these groups."""
    lines = [line for line in lines if not groups or line.group in groups]
    if quick:
        print("\nsizes were tiny: the verdicts below only show that they can be made", file=out)
    print("\n%-58s %-16s %-20s %s" % ("contract", "limit", "verdict", "measured"), file=out)
    for line in lines:
        print("  %-56s %-16s %-20s %s" % (line.what, line.limit, line.verdict, line.measured or "–"), file=out)
    passed = sum(line.verdict == "PASS" for line in lines)
    print("%d of %d lines of the contract hold" % (passed, len(lines)), file=out)
