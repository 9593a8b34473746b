#!/usr/bin/env python3
"""The report and what is kept: no line of the contract is lost, the form is fixed, parts of a run are put together."""
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "bench"))

from harness import cdf, contract, curves, kept, markdown, results as module  # noqa: E402

REPORT = os.path.join(TOP, "bench", "REPORT.md")
CONFIGURATION = [("date", "today"), ("commit", "c0ffee"), ("processor", "p"), ("processors", "2; a"), ("kernel", "k"), ("load", "0 0 0"),
                 ("parameters", "large")]


def samples(metric, who, *values):
    steps = [[value, 1] for value in sorted(values)]
    return {"metric": metric, "who": who, "batch": 1, "n": len(steps), "min": steps[0][0], "max": steps[-1][0],
            "mean": sum(values) / len(values), "hist": steps}


def figure(metric, value, unit="bytes", who="muster"):
    return {"metric": metric, "who": who, "value": value, "unit": unit}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench report ")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.kept = kept.Kept(self.folder, False)

    def measured(self, name, *lines, **more):
        group = kept.new_group(CONFIGURATION)
        group.update({"date": "then", "lines": [[line, 0, 1] for line in lines], **more})
        self.kept.groups[name] = group

    def results(self, *names):
        found = self.kept.results(names or list(self.kept.groups))
        found.settle()
        return found

    def report(self, results, names, plots=()):
        path = os.path.join(self.folder, "REPORT.md")
        markdown.write(path, results, CONFIGURATION, contract.judged(results), names, False, plots)
        with open(path) as f:
            return f.read()


class Contract(Folder):
    def test_every_line_has_a_row_of_the_design_or_is_said_to_be_held_besides_and_a_group_that_exists(self):
        listed = subprocess.run([os.path.join(TOP, "bench/run.sh"), "--list"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                text=True, check=True).stdout
        groups = {line.split()[0] for line in listed.splitlines()}
        lines = contract.judged(self.results())
        for line in lines:
            self.assertIn(line.row, [*markdown.DESIGN, contract.BESIDES], line.what)
            self.assertIn(line.group, groups, line.what)
        self.assertEqual(set(markdown.DESIGN), {line.row for line in lines} - {contract.BESIDES})
        self.assertEqual(len({line.what for line in lines}), len(lines))

    def test_the_report_has_every_line_also_of_what_was_not_measured(self):
        text = self.report(self.results(), ["kv"])
        for line in contract.judged(self.results()):
            self.assertIn("| %s | %s | – | **NOT MEASURED** | `%s` |" % (line.what, line.limit, line.command()), text)
        self.assertIn("* the group kv was not measured", text)

    def test_the_report_that_is_kept_with_the_source_has_every_line(self):
        if not os.path.exists(REPORT):
            self.skipTest("no full run has been written")
        with open(REPORT) as f:
            text = f.read()
        for line in contract.judged(self.results()):
            if "\n### %s\n" % line.group not in text:
                continue  # the group came after the last full run
            self.assertIn("| %s | %s |" % (line.what, line.limit), text)
            self.assertIn(line.command(), text)
        for picture in re.findall(r"\]\((plots/[\w.]+)\)", text):
            ElementTree.parse(os.path.join(TOP, "bench", picture))

    def test_a_line_that_is_missed_is_explained_where_that_is_known(self):
        self.measured("run", samples("run.8", "muster", 200), samples("run.8", "posix_spawn", 100), samples("run.8", "bare", 160))
        text = self.report(self.results(), ["run"])
        self.assertIn("1.25× (200.0 ns over 160.0 ns) | PASS", text)
        self.assertIn("**MISSED by 54 %**", text)
        self.assertIn("*muster run -n 8 true, over posix_spawn of 8*: the limit has no start", text)

    def test_what_a_host_costs_is_compared_between_16_and_1024(self):
        self.measured("growth", *(figure("scale.%s.%d" % (what, size), value) for what, few, many in (
            ("barrier.messages", 160, 10240), ("barrier.follower", 20, 50)) for size, value in ((16, few), (1024, many))))
        lines = {line.what: line for line in contract.judged(self.results())}
        self.assertEqual(lines["a barrier of 1,024 hosts × 8 tasks, messages a host, over 16 hosts'"].verdict, "PASS")
        self.assertEqual(lines["a barrier of 1,024 hosts × 8 tasks, another agent's work, over 16 hosts'"].verdict, "MISSED by 67 %")

    def test_no_system_call_means_none(self):
        for calls, verdict in ((0, "PASS"), (0.5, "MISSED")):
            self.measured("count", figure("count.heartbeat.calls", calls, "system calls"))
            lines = {line.what: line for line in contract.judged(self.results())}
            self.assertEqual(lines["heartbeat, system calls"].verdict, verdict)


class Kept(Folder):
    def test_what_is_kept_is_read_again(self):
        self.measured("kv", samples("kv.get.hot", "muster", 7, 8), figure("memory.empty", 9), {"fact": "f", "text": "t"},
                      missing=[["peer", "not installed"]])
        self.kept.save()
        again = kept.Kept(self.folder, False)
        again.load()
        self.assertEqual(again.groups, self.kept.groups)
        results = again.results(["kv", "other"])
        results.settle()
        self.assertEqual((results.get("kv.get.hot").p50, results.get("memory.empty").value), (7, 9))
        self.assertEqual((results.missing, results.facts, list(results.groups)), ([("peer", "not installed")], {"f": "t"}, ["kv"]))

    def test_the_tiny_form_keeps_its_own(self):
        self.measured("kv", samples("kv.get.hot", "muster", 7))
        self.kept.save()
        tiny = kept.Kept(self.folder, True)
        tiny.load()
        self.assertEqual(tiny.groups, {})

    def test_a_file_cut_off_is_not_read(self):
        with open(self.kept.path, "w") as f:
            f.write('{"form": 1, "groups": {"kv')
        self.kept.load()
        self.assertEqual(self.kept.groups, {})

    def test_a_group_is_measured_again_at_another_commit_with_other_parameters_or_after_a_failure(self):
        self.measured("kv")
        self.assertTrue(self.kept.has("kv", CONFIGURATION))
        self.assertFalse(self.kept.has("named", CONFIGURATION))
        for name in ("commit", "parameters", "kernel"):
            self.assertFalse(self.kept.has("kv", [(n, "x" if n == name else w) for n, w in CONFIGURATION]), name)
        self.measured("kv", failures=[["muster of group kv", "ended with 1"]])
        self.assertFalse(self.kept.has("kv", CONFIGURATION))

    def test_a_group_is_measured_again_where_another_peer_is_there_or_the_commit_is_not_known(self):
        self.measured("kv", missing=[["etcd", "etcd is not installed"]])
        self.assertTrue(self.kept.has("kv", CONFIGURATION, [["etcd", "etcd is not installed"]]))
        self.assertFalse(self.kept.has("kv", CONFIGURATION))
        self.measured("kv")
        self.assertFalse(self.kept.has("kv", [*CONFIGURATION, ("peers", "etcd 3.5")]))
        nowhere = [(n, "unknown" if n == "commit" else w) for n, w in CONFIGURATION]
        self.measured("kv", commit="unknown")
        self.assertFalse(self.kept.has("kv", nowhere))

    def test_a_report_that_is_written_later_says_what_was_measured_when(self):
        self.measured("kv", commit="abc")
        self.assertIn("all groups were measured with another commit: abc", self.report(self.results(), ["kv"]))
        self.measured("kv")
        self.assertNotIn("another", self.report(self.results(), ["kv"]).split("## The contract")[0])

    def test_a_row_keeps_its_commit_and_time(self):
        self.measured("kv", samples("kv.get.hot", "muster", 7), commit="abc", date="yesterday")
        self.measured("named", samples("named.1", "muster", 7))
        results = self.results()
        record = module.record(results, results.get("kv.get.hot"))
        self.assertEqual((record["group"], record["commit"], record["date"]), ("kv", "abc", "yesterday"))
        self.assertIn("several commits", self.report(results, ["kv", "named"]))


class Report(Folder):
    def whole(self):
        self.measured("barrier2", samples("barrier.n2.avg16", "muster", 50, 60, 70), samples("barrier.n2.avg16", "openmpi", 400, 500, 600),
                      samples("barrier.n2", "muster", 50), missing=[["mpich", "mpicc.mpich is not installed"]])
        self.measured("barrier8", samples("barrier.n8", "muster", 5000, 6000, 7000))
        self.measured("tasks", *(samples("tasks.group.%d" % size, "muster", 100 * size, 200 * size) for size in (2, 8, 512)),
                      figure("tasks.memory.512", 3072))
        self.measured("keys", *(samples("keys.get.%d" % size, who, 30, 40) for size in (1, 1000000) for who in ("muster", "muster-sized")))
        self.measured("growth", *(figure("scale.join.bytes.%d" % size, 1000 * size) for size in (2, 1024)))
        return self.results()

    def test_the_same_results_make_the_same_report(self):
        names = ["barrier2", "barrier8", "tasks", "keys", "growth", "kv"]
        self.assertEqual(self.report(self.whole(), names), self.report(self.whole(), names))

    def test_it_has_the_machine_the_missing_and_a_table_of_each_group(self):
        text = self.report(self.whole(), ["barrier2", "tasks", "keys", "growth"], ["rows.svg"])
        for wanted in ("| commit | c0ffee |", "* mpich: mpicc.mpich is not installed", "### barrier2\n", "| | openmpi |".replace("| |", "|  |"),
                       "| tasks on one node: p50 / p99 | 2 | 8 | 512 |", "| group barrier | 200.0 ns / 400.0 ns |", "3.00 KiB",
                       "| keys in the store: p50 / p99 | 1 | 1,000,000 |", "| hosts, of 8 tasks each | 2 | 1,024 |",
                       "![muster beside its alternatives](plots/rows.svg)"):
            self.assertIn(wanted, text)
        self.assertNotIn("plots/cdf.svg", text)

    def test_what_could_break_the_table_is_escaped(self):
        self.measured("kv", samples("kv.get.hot", "a|<b>", 7))
        self.assertIn("a\\|&lt;b>", self.report(self.results(), ["kv"]))

    def test_the_curves_and_the_distributions_are_plots(self):
        results = self.whole()
        for draw, wanted in ((curves, "tasks: barriers of all"), (cdf, "openmpi")):
            path = os.path.join(self.folder, "p.svg")
            self.assertTrue(draw.write_svg(path, results, dict(CONFIGURATION)))
            texts = [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn(wanted, texts)
            self.assertLess(os.path.getsize(path), 100000)
            self.assertFalse(draw.write_svg(path + ".none", module.Results(), dict(CONFIGURATION)))

    def test_a_curve_takes_the_sizes_of_its_own_metric(self):
        self.measured("barrier2", samples("barrier.n2", "muster", 1), samples("barrier.n2.avg16", "muster", 2))
        self.measured("cross2", samples("cross.n2", "muster", 3), samples("cross.n2.latency", "muster", 4))
        results = self.results()
        self.assertEqual({size: row.p50 for size, row in curves.rows_of(results, "barrier.n", "muster").items()}, {2: 1})
        self.assertEqual({size: row.p50 for size, row in curves.rows_of(results, "cross.n", "muster", ".latency").items()}, {2: 4})

    def test_the_table_on_the_terminal_has_the_curves(self):
        out = io.StringIO()
        curves.show(out, self.whole())
        self.assertRegex(out.getvalue(), r"(?m)^  group barrier +200.0 ns / 400.0 ns")


if __name__ == "__main__":
    unittest.main()
