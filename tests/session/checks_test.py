#!/usr/bin/env python3
"""What the tests of TensorFlow's own master check, in 76 sentences: which test here checks each, or why none does; and
those of them that no other file has, with muster's own kernels."""
# timeout: 100
import os
import random
import re
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from kernels_test import Graph, floats, tensor
from workers import FLOAT, STRING, Client, g, grpc, m

WRONG = "test_a_graph_that_is_wrong_is_refused_before_an_executor_sees_it"
GROWS = "test_a_graph_grows_by_versions"
THREE = "test_a_step_over_three_tasks_meets_by_its_edges"
PARTS = "test_partial_runs"
ERRORS = "test_errors_of_a_step"
BLOCKS = "test_a_step_that_blocks_ends_by_close_by_time_and_by_its_client"
INTEROP = "the programs of make interop, with TensorFlow's kernels"
EMPTY = "test_an_empty_graph_is_created_and_closed_and_a_random_handle_is_aborted"
DEVICES = "test_devices_are_listed_with_and_without_a_session"
FED = "test_what_is_fed_and_fetched"
ANY = "test_any_tensors_are_fed_and_fetched"

CHECKS = [  # a test of this folder or of tests/kernel; or, behind a dash, why there is none
    (1, "an empty graph; a random handle", EMPTY),
    (2, "devices without a handle", DEVICES),
    (3, "Reset closes all sessions", "test_reset_closes_all_sessions_and_clears_containers"),
    (4, "Extend adds a constant", GROWS),
    (5, "Extend with a node that is there", GROWS),
    (6, "an old version", GROWS),
    (7, "Extends at the same time", GROWS),
    (8, "runs during an Extend", "test_runs_beside_an_extension"),
    (9, "a constant is fed by its bare name", FED),
    (10, "create, run, close, 25 times", "test_sessions_come_and_go"),
    (11, "the same by callables", "test_sessions_come_and_go"),
    (12, "fetch_devices of a callable", "test_callables"),
    (13, "outputs in order", "test_callables"),
    (14, "device filters", "test_a_node_on_a_device_that_filters_leave_out_is_refused"),
    (15, "a tensor fetched twice", "test_a_subgraph_is_registered_once"),
    (16, "Eigen on another task", "- " + INTEROP),
    (17, "every device with a trace", "- TensorFlow's own is disabled"),
    (18, "more than 1 GB between workers", "- executors pull it from each other: the master does not see it"),
    (19, "strings across devices", ANY),
    (20, "a tensor sent to two devices", THREE),
    (21, "an op's error", ERRORS),
    (22, "an error with recent logs", "- an executor adds them, and the master passes its text on"),
    (23, "an error of 1 MiB", ERRORS),
    (24, "a variable outlives its session", THREE),
    (25, "illegal names of ops", WRONG),
    (26, "illegal names of inputs", WRONG),
    (27, "Extend looks at names, too", GROWS),
    (28, "CreateSession with a dead task", "test_a_dead_executor_is_named_at_once_and_may_come_again"),
    (29, "the same by a run's option", "- a run's option does not bound CreateSession, in TensorFlow 2.21 either"),
    (30, "a run's time by the session's option", BLOCKS),
    (31, "a run's time by its own option", BLOCKS),
    (32, "compression", "test_compressed_requests"),
    (33, "two errors that are roots", "- the first root ends the step, with its own words"),
    (34, "an error that follows from another comes first", "test_an_error_that_follows_from_another_does_not_hide_it"),
    (35, "a task that is cancelled is not reported", ERRORS),
    (36, "the root's code", "test_an_error_that_follows_from_another_does_not_hide_it"),
    (37, "request ids", "test_a_window_of_request_ids"),
    (38, "wrappers of messages", "- classes of TensorFlow's source"),
    (39, "the manager of partial runs", "- an executor's"),
    (40, "sessions of a worker", "test_isolated_sessions_have_variables_of_their_own"),
    (41, "a set-up of nothing", PARTS),
    (42, "a set-up without feeds", "test_long_partial_runs"),
    (43, "two phases", PARTS),
    (44, "an abandoned run", PARTS),
    (45, "two handles", PARTS),
    (46, "200 steps on one handle", "test_long_partial_runs"),
    (47, "a partial run is as a run", "test_long_partial_runs"),
    (48, "a feed is missing", PARTS),
    (49, "an unspecified feed", PARTS),
    (50, "an unspecified fetch", PARTS),
    (51, "fed twice", PARTS),
    (52, "fetched twice", PARTS),
    (53, "feeds, then fetches", PARTS),
    (54, "an error names its op", "test_a_line_is_fitted_by_gradient_descent_and_outlives_its_session"),
    (55, "a handle of no partial run", PARTS),
    (56, "Extend between runs", "test_runs_beside_an_extension"),
    (57, "many threads", "test_runs_beside_an_extension"),
    (58, "use after close", BLOCKS),
    (59, "any tensor is fed", FED),
    (60, "strings with zero bytes and letters of all kinds", ANY),
    (61, "an invalid target", "- the client's"),
    (62, "a trace only where it is asked for", "- " + INTEROP),
    (63, "options and metadata", "- " + INTEROP),
    (64, "partition graphs", "- " + INTEROP),
    (65, "the server's own default time", "- muster's master has none"),
    (66, "errors in the graph are told", WRONG),
    (67, "functions added later", "- " + INTEROP),
    (68, "a session that runs nothing", EMPTY),
    (69, "two sessions of one server", THREE),
    (70, "an unknown container keeps variables", "a_container_is_forgotten_alone"),
    (71, "120 MB", "- " + INTEROP),
    (72, "close cancels a queue's reader", "test_what_is_blocked_is_closed_or_out_of_time"),
    (73, "time ends a queue's reader", "test_what_is_blocked_is_closed_or_out_of_time"),
    (74, "isolated sessions", "test_isolated_sessions_have_variables_of_their_own"),
    (75, "devices", DEVICES),
    (76, "a cluster of the session's own", "test_a_cluster_of_a_sessions_own_is_refused"),
]


class Test(unittest.TestCase):
    def setUp(self):
        self.program = subprocess.Popen(
            [os.environ["MUSTER"], "serve", "--tf-master=127.0.0.1:0", "--tf-jobs", "ps:1,worker:1"],
            stdout=subprocess.PIPE, text=True)
        self.address = self.program.stdout.readline().strip()
        self.client = Client(self)

    def tearDown(self):
        self.program.terminate()
        self.program.stdout.close()
        self.assertEqual(self.program.wait(), 0)

    def fetched(self, *args, **more):
        reply = self.client.run(*args, **more)
        self.assertEqual((reply.status_code, reply.status_error_message), (0, ""))
        return {t.name: g.TensorProto.FromString(t.tensor) for t in reply.tensor}

    def test_each_check_has_its_test(self):
        self.assertEqual([number for number, _, _ in CHECKS], list(range(1, 77)))
        known = ""
        for folder in (HERE, os.path.join(HERE, "..", "kernel")):
            for name in sorted(os.listdir(folder)):
                if re.search(r"_test\.(py|c)$", name):
                    with open(os.path.join(folder, name)) as f:
                        known += f.read()
        for number, sentence, test in CHECKS:
            if not test.startswith("- "):
                self.assertTrue("def %s(" % test in known or "TEST(%s)" % test in known, "%d: %s" % (number, sentence))

    def test_runs_beside_an_extension(self):
        s = self.client.create(Graph().const("a", [3]).made)
        more = Graph().const("b", [4]).node("v", "VariableV2", dtype=FLOAT, shape=()).made
        more.node.extend(Graph().node("set", "Assign", ["v", "b"], T=FLOAT).made.node)
        wrong, begun, extended = [], threading.Barrier(5, timeout=60), threading.Event()

        def run():
            client, seen = Client(self), False
            begun.wait()
            for _ in range(200):
                late = extended.is_set()
                one, two = client.run(s, ["a:0"]), client.run(s, ["a:0", "b:0"])
                if one.status_code or two.status_code not in (0, 5) or (two.status_code and (late or seen)):
                    wrong.append((one.status_code, two.status_code, two.status_error_message))
                seen = seen or not two.status_code
                if seen and late:
                    return
        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        begun.wait()
        self.client.call("ExtendSession", session_handle=s, graph_def=more)
        extended.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertEqual(floats(self.fetched(s, ["set:0"])["set:0"]), [4])

    def test_sessions_come_and_go(self):
        made = Graph().const("a", [3]).const("b", [4]).node("c", "AddV2", ["a", "b"], T=FLOAT).made
        for _ in range(25):
            s = self.client.create(made)
            self.assertEqual(floats(self.fetched(s, ["c:0"], ["a"])["c:0"]), [7])
            self.fetched(s, [], ["c"])
            options = m.CallableOptions(fetch=["c:0", "a:0"])
            handle = self.client.call("MakeCallable", session_handle=s, options=options).handle
            reply = self.client.call("RunCallable", session_handle=s, handle=handle)
            self.assertEqual([floats(g.TensorProto.FromString(t)) for t in reply.fetch], [[7], [3]])
            self.client.call("CloseSession", session_handle=s)

    def test_any_tensors_are_fed_and_fetched(self):
        made = Graph().node("x", "Placeholder", dtype=STRING)
        made.made.node[-1].device = "/job:ps"
        made.node("y", "Identity", ["x"], T=STRING).made.node[-1].device = "/job:worker"
        made.node("z", "Identity", ["y"], T=STRING).made.node[-1].device = "/job:ps"
        fed = g.TensorProto(dtype=STRING, tensor_shape=g.TensorShapeProto(dim=[g.Dim(size=3)]))
        fed.tensor_content = b"\x03\x02\x00a\x00b" + "ü".encode()
        got = self.fetched(self.client.create(made.made), ["y:0", "z:0"], feed={"x:0": fed})
        self.assertEqual([got[name].tensor_content for name in ("y:0", "z:0")], [fed.tensor_content] * 2)

    def test_a_window_of_request_ids(self):
        rng = random.Random(11)
        ids = rng.sample(range(1, 1 << 62), 10001)
        run = self.client.channel.unary_unary("/tensorflow.MasterService/PartialRunSetup")

        def said(request_id):
            try:
                run(m.PartialRunSetupRequest(session_handle="none", request_id=request_id).SerializeToString())
            except grpc.RpcError as e:
                return e.details()
        self.assertIn("is not found", said(ids[0]))
        self.assertIn("was received twice", said(ids[0]))
        for request_id in ids[1:10000]:
            said(request_id)
        self.assertIn("was received twice", said(ids[0]), "it is the oldest of 10,000")
        self.assertIn("is not found", said(ids[10000]))
        self.assertIn("is not found", said(ids[0]), "it is forgotten")
        self.assertIn("was received twice", said(ids[9999]))

    def test_the_newest_replies_are_kept(self):
        made = Graph().node("v", "VariableV2", dtype=FLOAT, shape=()).const("zero", [0]).const("one", [1])
        made.node("set", "Assign", ["v", "zero"], T=FLOAT).node("add", "AssignAdd", ["v", "one"], T=FLOAT)
        made.const("long", [0] * 15000, (15000,))
        s = self.client.create(made.made)
        self.fetched(s, ["set:0"])

        def step(request_id):
            return floats(self.fetched(s, ["add:0", "long:0"], request_id=request_id)["add:0"])[0]
        for k in range(1, 701):  # of 60 kB: more than are kept
            self.assertEqual(step(k), k)
        self.assertEqual(step(700), 700, "a second time it is not run")
        self.assertEqual(step(250), 250)
        with self.assertRaisesRegex(grpc.RpcError, "received twice.*its reply was not kept"):
            step(1)

    def test_long_partial_runs(self):
        made = Graph().const("x0", [1])
        for k in range(200):
            made.node("f%d" % k, "Placeholder", dtype=FLOAT)
            made.node("x%d" % (k + 1), "AddV2", ["x%d" % k, "f%d" % k], T=FLOAT)
        s = self.client.create(made.made)
        feeds, fetches = ["f%d:0" % k for k in range(200)], ["x%d:0" % (k + 1) for k in range(200)]
        handle = self.client.call("PartialRunSetup", session_handle=s, feed=feeds, fetch=fetches).partial_run_handle
        for k in range(200):
            got = self.fetched(s, [fetches[k]], feed={feeds[k]: tensor([1])}, partial_run_handle=handle)
            self.assertEqual(floats(got[fetches[k]]), [k + 2])
        got = self.fetched(s, fetches, feed={name: tensor([1]) for name in feeds})
        self.assertEqual([floats(got[name])[0] for name in fetches], list(range(2, 202)))
        handle = self.client.call("PartialRunSetup", session_handle=s, fetch=["x0:0"]).partial_run_handle
        self.assertEqual(floats(self.fetched(s, ["x0:0"], partial_run_handle=handle)["x0:0"]), [1])

    def test_isolated_sessions_have_variables_of_their_own(self):
        made = Graph().node("v", "VariableV2", dtype=FLOAT, shape=()).const("a", [3])
        made.node("set", "Assign", ["v", "a"], T=FLOAT).node("read", "Identity", ["v"], T=FLOAT)
        alone, shared, other = (self.client.create(made.made, isolate_session_state=is_) for is_ in (True, False, False))
        self.fetched(alone, [], ["set"])
        self.assertEqual(self.client.run(shared, ["read:0"]).status_code, 9)
        self.fetched(shared, [], ["set"])
        self.assertEqual(floats(self.fetched(other, ["read:0"])["read:0"]), [3])
        self.client.call("CloseSession", session_handle=alone)
        again = self.client.create(made.made, isolate_session_state=True)
        self.assertEqual(self.client.run(again, ["read:0"]).status_code, 9)

    def test_a_node_on_a_device_that_filters_leave_out_is_refused(self):
        made = Graph().const("a", [3])
        made.made.node[-1].device = "/job:worker"
        s = self.client.create(made.made, device_filters=["/job:worker"])
        self.assertEqual(floats(self.fetched(s, ["a:0"])["a:0"]), [3])
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.create(made.made, device_filters=["/job:ps"])
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_a_cluster_of_a_sessions_own_is_refused(self):
        config = m.Config()
        config.cluster_def.job.add()
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.call("CreateSession", config=config.SerializeToString())
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("cluster_def", caught.exception.details())


if __name__ == "__main__":
    unittest.main()
