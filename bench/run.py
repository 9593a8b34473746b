#!/usr/bin/env python3
"""One benchmark run: every contender of every row, interleaved, then a table, a CSV, a JSON file and a plot.

The C programs print their samples (bench/measure.h); harness/rows.py says which run together; this file asks for
each in turn, keeps what others did to the machine meanwhile, repeats what was disturbed, and writes the results.
Exit status: 0 when every program that could run did, 1 when one failed, 2 for wrong usage.
"""
import argparse
import io
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from harness import compat, contract, cross, growth, machine, plot, report, results as results_module, rows  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run.sh", description="Measure muster beside its alternatives.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one repeat, seconds in all: for `make check`")
    parser.add_argument("--seconds", type=float, default=60, metavar="N",
                        help="effort: a timed loop lasts N/100 s (default 60; the whole takes some 5 times N)")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="of each contender (default 5, quick 1)")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP",
                        help="only this group; may be repeated (--list names them)")
    parser.add_argument("--list", action="store_true", help="print the groups and their contenders, and stop")
    parser.add_argument("--build", default=os.environ.get("BUILD", os.path.join(TOP, "build/release")), metavar="DIR",
                        help="where the programs are (default $BUILD, else build/release)")
    parser.add_argument("--out", metavar="DIR", help="where bench.csv, bench.json, bench.svg and growth.svg go (default build/bench)")
    parser.add_argument("--csv", metavar="FILE", help="write the CSV here instead")
    parser.add_argument("--json", metavar="FILE", help="write the JSON here instead")
    parser.add_argument("--svg", metavar="FILE", help="write the plot here instead")
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


def measure(group, results, repeats, patience):
    """All contenders of the group in turn, `repeats` times; disturbed ones up to twice more. Returns patience left."""
    able = []
    for contender in group.contenders:
        if contender.missing:
            if (contender.who, contender.missing) not in results.missing:
                results.missing.append((contender.who, contender.missing))
        else:
            able.append(contender)
    left = {contender: min(repeats, contender.repeats or repeats) for contender in able}
    tries = {contender: 0 for contender in able}
    while any(left.values()):
        for contender in [c for c in able if left[c]]:
            patience -= machine.wait_until_idle(min(patience, 10))
            command = contender.command() if callable(contender.command) else contender.command
            outcome = machine.run(command, contender.timeout, contender.environment)
            tries[contender] += 1
            if outcome.problem:
                results.failures.append(("%s of group %s" % (contender.who, group.name), outcome.problem))
                left[contender] = 0
                continue
            for line in outcome.lines:
                results.add(line, outcome.noise, tries[contender])
            quiet = outcome.noise < machine.NOISE_LIMIT
            if quiet or repeats == 1 or tries[contender] >= repeats + 2:
                left[contender] -= 1
    return patience


def resident(pid):
    """(resident bytes, those with what is shared divided by the sharers) of a process."""
    with open("/proc/%d/smaps_rollup" % pid) as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line and line.endswith("kB\n"))
    return int(fields["Rss"].split()[0]) << 10, int(fields["Pss"].split()[0]) << 10


def agent_memory(tools, results, size):
    """Memory of `muster run` while its tasks sleep."""
    if not (tools.muster and os.access(tools.muster, os.X_OK)):
        results.missing.append(("memory of the agent", "the muster command is not built"))
        return
    process = subprocess.Popen([tools.muster, "run", "-n", str(size), "--", "sleep", "60"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        settled = 0
        for _ in range(1000):  # until all and the guard run, and a little longer; then what it has is what it needs
            time.sleep(0.02)
            children = machine.first_line("/proc/%d/task/%d/children" % (process.pid, process.pid)).split()
            settled += len(children) > size
            if settled > 10:
                break
        for kind, value in zip(("", ".pss"), resident(process.pid)):
            results.add({"metric": "memory.agent.%d%s" % (size, kind), "who": "muster", "value": value,
                         "unit": "bytes"}, 0)
    except (OSError, KeyError) as error:
        results.failures.append(("memory of the agent", str(error)))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        machine.reap_stragglers()


def save(options, results, configuration, lines):
    os.makedirs(options.out, exist_ok=True)
    paths = [getattr(options, kind) or os.path.join(options.out, "bench." + kind) for kind in ("csv", "json", "svg")]
    results_module.write_csv(paths[0], results, configuration)
    results_module.write_json(paths[1], results, configuration, lines)
    plot.write_svg(paths[2], results, dict(configuration))
    growing = os.path.join(options.out, "growth.svg")
    if growth.write_svg(growing, results, dict(configuration)):
        paths.append(growing)
    return paths


def main():
    options = arguments()
    compiler = os.environ.get("CC", "gcc")
    effort = rows.Effort(options.quick, options.seconds)
    tools = rows.Tools(options.build, os.environ.get("MUSTER", os.path.join(options.build, "muster")), compiler)
    hosts = cross.Hosts()
    groups = chosen(rows.groups(tools, effort) + compat.groups(tools, effort) + cross.groups(tools, effort, hosts), options.only)
    if options.list:
        for group in groups:
            print("%-10s %s" % (group.name, ", ".join(dict.fromkeys(c.who for c in group.contenders))))
        return 0
    machine.become_reaper()
    configuration = machine.configuration(TOP, "%s, %d repeats" % (effort, options.repeats), [compiler])
    report.show_configuration(sys.stdout, configuration)
    sys.stdout.flush()
    results = results_module.Results()
    patience = 0 if options.quick else 120
    for group in groups:
        started = time.monotonic()
        patience = measure(group, results, options.repeats, patience)
        if group.name == "task":
            for size in (1, 64, 512):
                agent_memory(tools, results, size)
        print("… %s: %.0f s" % (group.name, time.monotonic() - started), file=sys.stderr)
    if hosts.made:
        results.facts["hosts"] = hosts.words()
        hosts.close()
    results.settle()
    lines = contract.judged(results)
    table = io.StringIO()
    report.show_rows(table, results)
    growth.show(table, results)
    report.show_facts(table, results)
    report.show_contract(table, lines, options.quick)
    sys.stdout.write(table.getvalue())
    print("\nwritten: %s" % ", ".join(save(options, results, configuration, lines)))
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
