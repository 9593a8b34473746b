#!/usr/bin/env python3
"""One benchmark run: every contender of every row, interleaved, then a table, a CSV, a JSON file, a report and plots.

The C programs print their samples (bench/measure.h); harness/rows.py says which run together; this file asks for
each in turn, keeps what others did to the machine meanwhile, repeats what was disturbed, and writes the results. What is
measured is kept group by group, so that a run can be made in parts, and taken up where it was cut off.
Exit status: 0 when every program that could run did, 1 when one failed, 2 for wrong usage.
"""
import argparse
import io
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from harness import cdf, compat, contract, cross, curves, growth, kept as kept_module, machine, markdown, plot, report  # noqa: E402
from harness import results as results_module, rows, scale, versions  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run.sh", description="Measure muster beside its alternatives.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one repeat, seconds in all: for `make check`")
    parser.add_argument("--seconds", type=float, default=60, metavar="N",
                        help="effort: a timed loop lasts N/100 s (default 60; the whole then takes some 25 minutes)")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="of each contender (default 5, quick 1)")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP",
                        help="only this group; may be repeated (--list names them)")
    parser.add_argument("--list", action="store_true", help="print the groups and their contenders, and stop")
    parser.add_argument("--merge", action="store_true",
                        help="tell also of the groups that earlier runs measured into the same folder")
    parser.add_argument("--resume", action="store_true",
                        help="as --merge, and do not measure again what was measured at this commit")
    parser.add_argument("--show", action="store_true", help="measure nothing: write the files anew of what was measured")
    parser.add_argument("--report", action="store_true", help="write bench/REPORT.md and bench/plots, too")
    parser.add_argument("--build", default=os.environ.get("BUILD", os.path.join(TOP, "build/release")), metavar="DIR",
                        help="where the programs are (default $BUILD, else build/release)")
    parser.add_argument("--out", metavar="DIR", help="where bench.csv, bench.json, REPORT.md and plots/ go (default build/bench)")
    parser.add_argument("--csv", metavar="FILE", help="write the CSV here instead")
    parser.add_argument("--json", metavar="FILE", help="write the JSON here instead")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.out = options.out or os.path.join(os.path.dirname(options.build), "bench")
    options.repeats = options.repeats or (1 if options.quick else 5)
    return options


def chosen(groups, names):
    unknown = [name for name in names if name not in [group.name for group in groups]]
    if unknown:
        print("bench: there is no group '%s'; bench/run.sh --list names them" % unknown[0], file=sys.stderr)
        raise SystemExit(2)
    return [group for group in groups if not names or group.name in names]


def absent(group):
    """[who, why] of the contenders that cannot run here."""
    return [list(entry) for entry in dict.fromkeys((c.who, c.missing) for c in group.contenders if c.missing)]


def measure(group, record, repeats, patience):
    """All contenders of the group in turn, `repeats` times; disturbed ones up to twice more. Returns patience left."""
    able = [contender for contender in group.contenders if not contender.missing]
    wanted = {contender: min(repeats, contender.repeats or repeats) for contender in able}
    left, tries = dict(wanted), {contender: 0 for contender in able}
    record["missing"] = absent(group)
    while any(left.values()):
        for contender in [c for c in able if left[c]]:
            patience -= machine.wait_until_idle(min(patience, 10))
            command = contender.command() if callable(contender.command) else contender.command
            outcome = machine.run(command, contender.timeout, contender.environment)
            tries[contender] += 1
            if outcome.problem:
                record["failures"].append(["%s of group %s" % (contender.who, group.name), outcome.problem])
                left[contender] = 0
                continue
            record["lines"] += [[line, outcome.noise, tries[contender]] for line in outcome.lines]
            quiet = outcome.noise < machine.NOISE_LIMIT
            if quiet or wanted[contender] == 1 or tries[contender] >= wanted[contender] + 2:
                left[contender] -= 1
    return patience


def measure_all(options, groups, kept, configuration, hosts):
    """The groups that are due, each kept as soon as it is done."""
    patience, began = 0 if options.quick else 120, time.monotonic()
    for number, group in enumerate(groups, 1):
        place = "%*d of %d" % (len(str(len(groups))), number, len(groups))
        if options.resume and kept.has(group.name, configuration, absent(group)):
            print("… %s  %-9s measured before" % (place, group.name), file=sys.stderr)
            continue
        record, started = kept_module.new_group(configuration), time.monotonic()
        record["load"] = " ".join(machine.first_line("/proc/loadavg").split()[:3])
        patience = measure(group, record, options.repeats, patience)
        if hosts.made and group.name.startswith(("cross", "runhosts")):
            record["lines"].append([{"fact": "hosts", "text": hosts.words()}, 0, 0])
        record["seconds"] = round(time.monotonic() - started, 1)
        kept.groups[group.name], kept.configuration = record, configuration
        kept.save()
        print("… %s  %-9s %4.0f s, %2.0f min in all%s" % (place, group.name, record["seconds"], (time.monotonic() - began) / 60,
              ", FAILED: " + record["failures"][0][1] if record["failures"] else ""), file=sys.stderr, flush=True)
    hosts.close()


def draw(folder, results, configuration):
    """The plots, in a folder of their own; the names of those for which there was something to draw."""
    os.makedirs(folder, exist_ok=True)
    drawn, about = ["rows.svg"], dict(configuration)
    plot.write_svg(os.path.join(folder, "rows.svg"), results, about)
    for name, module in (("curves.svg", curves), ("growth.svg", growth), ("cdf.svg", cdf)):
        if module.write_svg(os.path.join(folder, name), results, about):
            drawn.append(name)
    return drawn


def save(options, results, configuration, lines, names):
    os.makedirs(options.out, exist_ok=True)
    paths = [getattr(options, kind) or os.path.join(options.out, "bench." + kind) for kind in ("csv", "json")]
    results_module.write_csv(paths[0], results, configuration)
    results_module.write_json(paths[1], results, configuration, lines)
    for folder in [options.out] + ([HERE] if options.report else []):
        plots = draw(os.path.join(folder, "plots"), results, configuration)
        paths.append(os.path.join(folder, "REPORT.md"))
        markdown.write(paths[-1], results, configuration, lines, names, options.quick, plots)
    return paths


def show_all(results, lines, quick, groups):
    table = io.StringIO()
    report.show_rows(table, results)
    curves.show(table, results)
    growth.show(table, results)
    report.show_facts(table, results)
    report.show_contract(table, lines, quick, groups)
    sys.stdout.write(table.getvalue())


def main():
    options = arguments()
    compiler = os.environ.get("CC", "gcc")
    effort = rows.Effort(options.quick, options.seconds)
    tools = rows.Tools(options.build, os.environ.get("MUSTER", os.path.join(options.build, "muster")), compiler)
    hosts = cross.Hosts()
    everything = [*rows.groups(tools, effort), *scale.groups(tools, effort), *compat.groups(tools, effort),
                  *cross.groups(tools, effort, hosts)]
    groups = chosen(everything, options.only)
    if options.list:
        for group in groups:
            print("%-10s %s" % (group.name, ", ".join(dict.fromkeys(c.who for c in group.contenders))))
        return 0
    machine.become_reaper()
    configuration = machine.configuration(TOP, "%s, %d repeats" % (effort, options.repeats), [compiler])
    configuration.append(("peers", versions.words()))
    report.show_configuration(sys.stdout, configuration)
    sys.stdout.flush()
    kept = kept_module.Kept(options.out, options.quick)
    kept.load()
    if not options.show:
        measure_all(options, groups, kept, configuration, hosts)
    names = [group.name for group in everything]
    told = names if options.merge or options.resume or options.show else [group.name for group in groups]
    results = kept.results(told)
    results.settle()
    if options.show:
        configuration = kept_module.as_measured(kept, configuration, results.groups)
    lines = contract.judged(results)
    show_all(results, lines, options.quick, options.only)
    print("\nwritten: %s" % ", ".join(save(options, results, configuration, lines, names)))
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
