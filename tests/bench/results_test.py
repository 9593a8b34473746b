#!/usr/bin/env python3
"""The benchmark's arithmetic: percentiles, merging, noise, paired ratios, verdicts, and files that others can read."""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock

TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "bench"))

from harness import agent, contract, growth, plot, report, results as module  # noqa: E402


def line(metric, who, steps, batch=1):
    count = sum(c for _, c in steps)
    return {"metric": metric, "who": who, "batch": batch, "n": count, "min": steps[0][0], "max": steps[-1][0],
            "mean": sum(v * c for v, c in steps) / count, "hist": [list(step) for step in steps]}


def settled(*entries):
    """Results of (line, noise, turn) entries."""
    results = module.Results()
    for entry in entries:
        results.add(*entry)
    results.settle()
    return results


def verdict(lines, start):
    return next(l for l in lines if l.what.startswith(start)).verdict


class Arithmetic(unittest.TestCase):
    def test_percentiles_count_samples_not_steps(self):
        steps = [[1, 98], [50, 1], [1000, 1]]
        self.assertEqual(module.percentile(steps, 0.5), 1)
        self.assertEqual(module.percentile(steps, 0.98), 1)
        self.assertEqual(module.percentile(steps, 0.99), 50)
        self.assertEqual(module.percentile(steps, 1.0), 1000)

    def test_repeats_are_pooled(self):
        row = settled((line("m", "w", [[10, 3]]), 0, 1), (line("m", "w", [[10, 1], [30, 4]]), 0, 2)).get("m", "w")
        self.assertEqual((row.count, row.p50, row.low, row.high), (8, 10, 10, 30))
        self.assertAlmostEqual(row.mean, (4 * 10 + 4 * 30) / 8)
        self.assertEqual((row.p50_low, row.p50_high), (10, 30))
        self.assertTrue(row.unsteady())

    def test_noisy_repeats_do_not_count_beside_quiet_ones(self):
        row = settled((line("m", "w", [[10, 5]]), 0.0, 1), (line("m", "w", [[90, 50]]), 0.5, 2)).get("m", "w")
        self.assertEqual((row.p50, row.count, row.noisy, row.quiet), (10, 5, False, 1))

    def test_when_all_are_noisy_the_quietest_counts_and_is_marked(self):
        row = settled((line("m", "w", [[10, 5]]), 0.3, 1), (line("m", "w", [[90, 5]]), 0.2, 2)).get("m", "w")
        self.assertEqual((row.p50, row.noisy), (90, True))

    def test_a_ratio_pairs_what_ran_in_the_same_turn(self):
        # The machine slowed sevenfold after turn 1 and one contender missed turn 2: pooled, the ratio would be 14.
        results = settled((line("m", "muster", [[30, 9]]), 0, 1), (line("m", "peer", [[60, 1]]), 0, 1),
                          (line("m", "muster", [[30, 9]]), 0, 2), (line("m", "peer", [[420, 9]]), 0, 3),
                          (line("m", "muster", [[210, 1]]), 0, 3))
        self.assertEqual(results.ratio(results.get("m", "peer")), 2)
        self.assertIsNone(results.ratio(results.get("m", "muster")))


    def test_single_figures_have_a_ratio_that_is_above_one_where_muster_is_better(self):
        def figure(metric, who, value, unit):
            return {"metric": metric, "who": who, "value": value, "unit": unit}, 0, 1

        results = settled(figure("rate", "muster", 300, "calls/s"), figure("rate", "peer", 100, "calls/s"),
                          figure("cost", "muster", 2, "µs"), figure("cost", "peer", 8, "µs"),
                          figure("lone", "peer", 8, "µs"))
        self.assertEqual(results.ratio(results.get("rate", "peer")), 3)
        self.assertEqual(results.ratio(results.get("cost", "peer")), 4)
        self.assertIsNone(results.ratio(results.get("rate", "muster")))
        self.assertIsNone(results.ratio(results.get("lone", "peer")))


    def test_a_single_figure_says_how_disturbed_it_was(self):
        def idle(value, noise):
            return {"metric": "agent.idle.run", "who": "muster", "value": value, "unit": "%"}, noise, 1

        row = settled(idle(0.5, 0.3), idle(0.1, 0.2)).get("agent.idle.run")
        self.assertEqual((row.noisy, row.quiet, row.noise), (True, 0, 0.3))
        row = settled(idle(0.5, 0.3), idle(0.1, 0.01)).get("agent.idle.run")
        self.assertEqual((row.noisy, row.quiet, row.noise, row.value), (False, 1, 0.01, 0.1))


class Verdicts(unittest.TestCase):
    def test_nothing_measured_is_not_passed(self):
        self.assertEqual({l.verdict for l in contract.judged(settled())}, {"NOT MEASURED"})

    def test_limits_are_inclusive_and_misses_say_by_how_much(self):
        lines = contract.judged(settled((line("kv.get.hot", "muster", [[25.0, 1]]), 0, 1),
                                        (line("kv.set.hot", "muster", [[60.0, 1]]), 0, 1)))
        self.assertEqual(verdict(lines, "KV get, hot"), "PASS")
        self.assertEqual(verdict(lines, "KV overwrite, hot"), "MISSED by 20 %")

    def test_a_miss_on_a_noisy_machine_says_so(self):
        lines = contract.judged(settled((line("attach", "muster", [[2e6, 1]]), 0.5, 1)))
        self.assertEqual(verdict(lines, "attach"), "MISSED by 100 %, noisy")

    def test_what_holds_only_beside_a_disturbed_peer_is_not_held(self):
        for noise, wanted in ((0, "PASS"), (0.5, "PASS, noisy")):
            lines = contract.judged(settled((line("barrier.n2.avg16", "muster", [[50, 1]]), 0, 1),
                                            (line("barrier.n2.avg16", "mpich", [[500, 1]]), noise, 1),
                                            (line("wait.parked", "muster", [[50, 1]]), 0, 1),
                                            (line("wait.parked", "futex", [[50, 1]]), noise, 1),
                                            (line("store.init.8", "muster", [[50, 1]]), 0, 1),
                                            (line("store.init.8", "torch-libuv", [[60, 1]]), noise, 1)))
            for start in ("group barrier, 2 tasks, against MPICH", "waiting get, asleep", "init_process_group"):
                self.assertEqual(verdict(lines, start), wanted)

    def test_what_holds_against_some_of_the_peers_or_in_some_of_the_rows_says_which_are_not_there(self):
        entries = [(line("barrier.n8", who, [[value, 1]]), 0, 1) for who, value in (("muster", 50), ("pthread", 60), ("openmpi", 70))]
        entries += [(line("mpi.mpich.%d" % size, who, [[value, 1]]), 0, 1) for size in (2, 8)
                    for who, value in (("muster", 50), ("hydra", 60))]
        lines = contract.judged(settled(*entries))
        self.assertEqual(verdict(lines, "group barrier, 8 tasks, ahead"), "PASS, without mpich")
        self.assertEqual(verdict(lines, "launch to MPI_Init, against hydra"), "PASS, without mpi.mpich.4")
        lines = contract.judged(settled(*entries, (line("barrier.n8", "mpich", [[55, 1]]), 0, 1)))
        self.assertEqual(verdict(lines, "group barrier, 8 tasks, ahead"), "PASS")

    def test_a_death_that_could_not_be_measured_keeps_its_line(self):
        lines = contract.judged(settled((line("death.10MiB", "muster", [[1e5, 1]]), 0, 1)))
        self.assertEqual(verdict(lines, "SIGKILL → every wait returns, 10MiB"), "PASS")
        self.assertEqual(verdict(lines, "SIGKILL → every wait returns, 2048MiB"), "NOT MEASURED")

    def test_the_fastest_peer_is_the_one_to_beat(self):
        lines = contract.judged(settled((line("barrier.n2.avg16", "muster", [[50, 1]]), 0, 1),
                                        (line("barrier.n2.avg16", "openmpi", [[200, 1]]), 0, 1),
                                        (line("barrier.n2.avg16", "openmpi-sm", [[80, 1]]), 0, 1)))
        self.assertEqual(verdict(lines, "group barrier, 2 tasks, against Open MPI"), "MISSED by 25 %")

    def test_death_is_judged_at_p99(self):
        lines = contract.judged(settled((line("death.10MiB", "muster", [[1e5, 95], [3e6, 5]]), 0, 1)))
        self.assertEqual(verdict(lines, "SIGKILL"), "MISSED by 200 %")


    def test_over_grpc_the_row_with_the_least_lead_is_judged(self):
        entries = [(line("grpc." + metric, who, [[value, 200]]), 0, 1)
                   for metric, who, value in (("set", "muster", 10), ("set", "jaxlib", 40), ("get", "muster", 10),
                                              ("get", "jaxlib", 12), ("get", "etcd", 30))]
        entries.append((line("grpc.death", "muster", [[5, 1]]), 0, 1))
        entries.append((line("grpc.death", "jaxlib", [[4, 1]]), 0, 1))
        lines = contract.judged(settled(*entries[:5]))
        self.assertEqual(verdict(lines, "over grpc, p50, against JAX"), "MISSED by 25 %")
        self.assertEqual(verdict(lines, "over grpc, p99, against JAX"), "PASS")
        self.assertEqual(verdict(lines, "over grpc, p50, against etcd"), "PASS")
        self.assertEqual(verdict(lines, "over grpc, calls a second, against JAX"), "NOT MEASURED")
        # one sample has no p99
        self.assertEqual(verdict(contract.judged(settled(*entries)), "over grpc, p99, against JAX"), "PASS")


    def test_of_the_store_the_row_with_the_least_lead_is_judged_also_of_single_figures(self):
        def cost(who, value):
            return {"metric": "store.idle.10000.service", "who": who, "value": value, "unit": "µs"}, 0, 1

        entries = [(line("store.idle.10000", who, [[value, 1]]), 0, 1) for who, value in (("muster", 10), ("torch-libuv", 40))]
        self.assertEqual(verdict(contract.judged(settled(*entries)), "TCPStore, an ADD among 10,000 clients"),
                         "PASS, without store.idle.10000.service")
        lines = contract.judged(settled(*entries, cost("muster", 5), cost("torch-libuv", 4)))
        self.assertEqual(verdict(lines, "TCPStore, an ADD among 10,000 clients"), "MISSED by 25 %")

    def test_shared_memory_is_compared_with_the_store_of_pytorch(self):
        entries = [(line("store.add", who, [[value, 1]]), 0, 1) for who, value in (("muster-shm", 10), ("torch-libuv", 400))]
        self.assertEqual(verdict(contract.judged(settled(*entries)), "store operations in shared"), "MISSED by 25 %")


class Programs(unittest.TestCase):
    def test_who_ends_the_run_ends_its_program(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = os.path.join(folder, "pid")
            script = 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 100'
            run = subprocess.Popen([sys.executable, "-c", "import sys; from harness import machine; machine.become_reaper(); "
                                    "machine.run(['sh', '-c', *sys.argv[1:]], 100)", script, pid_file],
                                   cwd=os.path.join(TOP, "bench"))
            while not os.path.exists(pid_file):
                self.assertIsNone(run.poll())
                time.sleep(0.01)
            with open(pid_file) as f:
                pid = int(f.read())
            run.terminate()
            self.assertEqual(run.wait(), 143)
            self.assertFalse(os.path.exists("/proc/%d" % pid))


    @unittest.skipUnless(os.access(os.environ.get("MUSTER", ""), os.X_OK), "the muster command is not built")
    def test_the_guard_of_a_launcher_that_a_program_left_cleans_up(self):
        job = "bench-left-%d" % os.getpid()
        script = """"$0" run -n 2 --job "$1" -- sh -c '"$0" kv set a b > /dev/null; exec sleep 100' "$0" > /dev/null &
                 until [ "$("$0" kv list --job "$1" | cut -c1)" = a ]; do sleep 0.01; done; exit 3"""
        done = subprocess.run([sys.executable, "-c", "import sys; from harness import machine; machine.become_reaper(); "
                               "print(machine.run(['sh', '-c', *sys.argv[1:]], 100).problem)", script, os.environ["MUSTER"], job],
                              cwd=os.path.join(TOP, "bench"), stdout=subprocess.PIPE, text=True)
        self.assertIn("ended with 3", done.stdout)
        self.assertFalse(os.path.exists("/dev/shm/muster-%d-%s" % (os.getuid(), job)))

    def test_files_of_a_program_that_was_killed_are_removed(self):
        script = 'mkdir "/dev/shm/bench-$$-a-$1"; touch "/dev/shm/bench-$$-a-$1/b" "/dev/shm/bench-$$-c-$1"; kill -9 $$'
        subprocess.run([sys.executable, "-c", "import sys; from harness import machine; machine.become_reaper(); "
                        "machine.run(['sh', '-c', *sys.argv[1:]], 100)", script, "sh", str(os.getpid())],
                       cwd=os.path.join(TOP, "bench"), check=True)
        self.assertEqual(glob.glob("/dev/shm/bench-*-%d" % os.getpid()), [])

    def test_a_watched_process_that_ends_has_no_share(self):
        child = subprocess.Popen(["sleep", "100"])
        self.addCleanup(child.wait)
        while not agent.used_ns(child.pid):
            pass

        def instead_of_sleeping(seconds):
            child.kill()
            child.wait()

        with mock.patch.object(agent.time, "sleep", instead_of_sleeping), self.assertRaisesRegex(SystemExit, "has ended"):
            agent.watch({"one": [child.pid]}, 1)


class Files(unittest.TestCase):
    def setUp(self):
        self.results = settled((line("kv.get.hot", "muster", [[7, 9], [9, 1]], 32), 0, 1),
                               (line("kv.get.hot", "a<&>b", [[7000, 9], [9000, 1]]), 0.5, 1),
                               ({"metric": "memory.empty", "who": "muster", "value": 4096, "unit": "bytes"}, 0, 1),
                               ({"fact": "f", "text": "t"}, 0, 1))
        self.results.missing.append(("peer", "not installed"))
        self.configuration = [(n, "x, y; z") for n in ("processor", "processors", "kernel", "commit", "date")]
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_csv_has_a_record_a_row(self):
        module.write_csv(self.path("b.csv"), self.results, self.configuration)
        with open(self.path("b.csv"), newline="") as f:
            records = list(csv.DictReader(l for l in f if not l.startswith("#")))
        self.assertEqual([r["who"] for r in records], ["muster", "a<&>b", "muster"])
        self.assertEqual((records[1]["ratio_to_muster"], records[1]["noise_pct"]), ("1000.0", "50.0"))

    def test_json_names_what_is_missing(self):
        module.write_json(self.path("b.json"), self.results, self.configuration, contract.judged(self.results))
        with open(self.path("b.json")) as f:
            whole = json.load(f)
        self.assertEqual(whole["missing"], [{"who": "peer", "why": "not installed"}])
        self.assertEqual(len(whole["rows"]), 3)

    def test_the_plot_is_sound_xml_with_every_row(self):
        plot.write_svg(self.path("b.svg"), self.results, dict(self.configuration))
        texts = [e.text for e in ElementTree.parse(self.path("b.svg")).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("a<&>b !", texts)
        self.assertIn("1000×", texts)

    def test_the_plot_of_nothing_is_sound_xml(self):
        plot.write_svg(self.path("e.svg"), settled(), dict(self.configuration))
        ElementTree.parse(self.path("e.svg"))

    def test_growth_is_a_table_and_a_plot(self):
        grown = settled(*(({"metric": "scale.%s.%d" % (what, size), "who": "muster", "value": value, "unit": "bytes"}, 0, 1)
                          for what, values in (("join.bytes", (57000, 121480107)), ("memory.follower", (63173, 63369)))
                          for size, value in zip((16, 1024), values)))
        self.assertTrue(growth.write_svg(self.path("g.svg"), grown, dict(self.configuration)))
        texts = [e.text for e in ElementTree.parse(self.path("g.svg")).iter("{http://www.w3.org/2000/svg}text")]
        for wanted in ("joining: bytes", "121 MB", "other 63.4 kB", "16", "1024"):
            self.assertIn(wanted, texts)
        self.assertNotIn("joining: messages", texts)
        with open(self.path("t.txt"), "w+") as out:
            growth.show(out, grown)
            out.seek(0)
            self.assertRegex(out.read(), r"(?m)^    bytes +57000 +121480107$")

    def test_without_growth_there_is_no_plot_of_it(self):
        self.assertFalse(growth.write_svg(self.path("g.svg"), self.results, dict(self.configuration)))
        self.assertFalse(os.path.exists(self.path("g.svg")))

    def test_the_table_shows_rows_facts_and_the_missing(self):
        with open(self.path("t.txt"), "w+") as out:
            report.show_rows(out, self.results)
            report.show_facts(out, self.results)
            out.seek(0)
            text = out.read()
        for wanted in ("a<&>b", "mean of 32", "others used 50 %", "4.00 KiB", "missing: peer: not installed"):
            self.assertIn(wanted, text)


if __name__ == "__main__":
    unittest.main()
