#!/usr/bin/env python3
"""`muster serve --tf-master` before clients of TensorFlow's MasterService and servers of its WorkerService."""
# timeout: 240
import os
import random
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import workers as w
from workers import Client, Master, Worker, const, g, graph, grpc, m, node, number, value

CREATE = bytes.fromhex(
    "0a96010a320a05436f6e73741205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a04000040400a340a"
    "07436f6e73745f311205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a04000080400a250a036164"
    "64120541646456321a05436f6e73741a07436f6e73745f312a070a015412023001220308860112001a15677270633a2f2f3132372e302e302e"
    "313a32323232")


def three():
    return [Worker("ps", 0), Worker("worker", 0), Worker("worker", 1)]


class Test(unittest.TestCase):
    def begin(self, made=None, **more):
        self.workers = made or [Worker()]
        self.master = Master(self.workers, *more.pop("words", ()))
        self.addCleanup(self.end, self.workers, self.master)
        self.client = Client(self.master, **more)
        self.assertRegex(self.master.address, r"^127\.0\.0\.1:\d+$")

    def end(self, made, master):
        for worker in made:
            worker.stop()
        self.assertEqual(master.stop(), 0)

    def refused(self, code, text, call, *args, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **fields)
        self.assertEqual(caught.exception.code().name, code, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def failed(self, code, text, *args, **fields):
        reply = self.client.run(*args, **fields)
        self.assertEqual(grpc.StatusCode[code].value[0], reply.status_code, reply.status_error_message)
        self.assertIn(text, reply.status_error_message)

    def sum(self):
        made = graph()
        const(made, "a", 3)
        const(made, "b", 4)
        node(made, "c", "AddV2", ["a", "b"])
        return made

    # ---- sessions and graphs

    def test_golden_bytes_of_a_minimal_session(self):
        self.begin()
        for prefix in ("tensorflow", "tensorflow.grpc"):
            c = Client(self.master, prefix)
            reply = c.raw("CreateSession", CREATE)
            handle = reply[2:]
            self.assertRegex(reply, rb"^\x0a\x10[0-9a-f]{16}$")
            run = bytes.fromhex("0a10") + handle + bytes.fromhex("1a056164643a302a00380140") + (
                b"\x88\xef\x99\xab\xc5\xe8\x8c\x91" + (b"\x11" if prefix == "tensorflow" else b"\x12"))
            self.assertEqual(c.raw("RunStep", run).hex(), "0a130a056164643a30120a0801120022040000e0401200")
            self.assertEqual(c.raw("CloseSession", b"\x0a\x10" + handle), b"")

    def test_an_empty_graph_is_created_and_closed_and_a_random_handle_is_aborted(self):
        self.begin()
        handle = self.client.create()
        self.assertEqual(self.client.call("CloseSession", session_handle=handle), b"")
        self.refused("ABORTED", "Session %s is not found. Possibly, this master has restarted." % handle,
                     self.client.call, "CloseSession", session_handle=handle)
        self.refused("INVALID_ARGUMENT", "Session no is not found.", self.client.call, "ListDevices", session_handle="no")
        self.failed("ABORTED", "Session no is not found.", "no", ["a:0"])
        self.refused("INTERNAL", "Unable to parse request", self.client.raw, "RunStep", b"\xff\xff")

    def test_devices_are_listed_with_and_without_a_session(self):
        self.begin(three())
        names = ["/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0",
                 "/job:worker/replica:0/task:1/device:CPU:0"]
        for handle, expected in (("", names), (self.client.create(), names),
                                 (self.client.create(device_filters=["/job:ps"]), names[:1])):
            found = [g.DeviceAttributes.FromString(d)
                     for d in self.client.call("ListDevices", session_handle=handle).local_device]
            self.assertEqual([d.name for d in found], expected)
            self.assertTrue(all(d.incarnation for d in found))

    def test_reset_closes_all_sessions_and_clears_containers(self):
        self.begin(three())
        handles = [self.client.create(), self.client.create()]
        self.refused("INVALID_ARGUMENT", "bad", self.client.call, "Reset", device_filters=["///bad"])
        self.client.call("Reset", container=["c"], device_filters=["/job:worker"])
        for handle in handles:
            self.refused("ABORTED", "is not found", self.client.call, "CloseSession", session_handle=handle)
        self.assertEqual([worker.cleared for worker in self.workers], [[], [["c"]], [["c"]]])

    def test_a_graph_grows_by_versions(self):
        self.begin()
        handle = self.client.create(self.sum())

        def extend(version, *names, **more):
            made = graph(more.get("producer", 134))
            for name in names:
                const(made, name, 5)
            return self.client.call("ExtendSession", session_handle=handle, graph_def=made,
                                    current_graph_version=version).new_graph_version
        self.assertEqual(extend(0, "d"), 1)
        self.assertEqual(self.client.values(handle, ["d:0", "c:0"]), {"d:0": 5, "c:0": 7})
        self.refused("ABORTED", "Current version is 1 but caller expected 0.", extend, 0, "e")
        self.refused("INVALID_ARGUMENT", "includes node 'd', which was created by a previous call", extend, 1, "e", "d")
        self.refused("INVALID_ARGUMENT", "Illegal op name '_x'", extend, 1, "_x")
        self.assertEqual(extend(1, "e", producer=99), 2)
        self.assertEqual(extend(2), 3)
        outcomes = []
        threads = [threading.Thread(target=lambda i=i: outcomes.append(self.outcome(extend, 3, "n%d" % i)))
                   for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(outcomes), ["4"] + ["ABORTED"] * 19)
        self.refused("ABORTED", "is not found", self.client.call, "ExtendSession", session_handle="no")

    def test_an_extension_that_cannot_be_placed_leaves_nothing(self):
        self.begin()
        s = self.client.create(self.sum())
        more = graph(999)
        node(more, "d", "Identity", ["c"], device="/job:nobody")
        self.refused("INVALID_ARGUMENT", "Cannot assign a device", self.client.call, "ExtendSession", session_handle=s,
                     graph_def=more)
        self.assertEqual(self.client.values(s, ["c:0"]), {"c:0": 7})
        self.assertEqual([made.versions.producer for made in self.workers[0].graphs.values()], [134])

    @staticmethod
    def outcome(call, *args):
        try:
            return str(call(*args))
        except grpc.RpcError as e:
            return e.code().name

    def test_a_graph_that_is_wrong_is_refused_before_an_executor_sees_it(self):
        self.begin()

        def wrong(code, text, *nodes):
            made = self.sum()
            for args, more in nodes:
                node(made, *args, **more)
            self.refused(code, text, self.client.create, made)
        for name in ("a:b", "a:0", "_a", "", "a>", "-a"):
            wrong("INVALID_ARGUMENT", "Illegal op name '%s'" % name, ((name, "NoOp"), {}))
        for name in ("a:first", "_a", "_a:0", "a:01"):
            wrong("INVALID_ARGUMENT", "Illegal op input name '%s'" % name, (("x", "Identity", [name]), {}))
        wrong("INVALID_ARGUMENT", "Node 'x': Unknown input node 'zz'", (("x", "Identity", ["zz"]), {}))
        wrong("INVALID_ARGUMENT", "Connecting to invalid output 1 of source node a which has 1 outputs",
              (("x", "Identity", ["a:1"]), {}))
        wrong("INVALID_ARGUMENT", "Node 'a' is not unique", (("a", "NoOp"), {}))
        wrong("INVALID_ARGUMENT", "2 nodes in a cycle", (("x", "Identity", ["y"]), {}), (("y", "Identity", ["x"]), {}))
        wrong("INVALID_ARGUMENT", "Input 0 of node x was passed float from a:0 incompatible with expected int32.",
              (("x", "Identity", ["a"]), {"T": w.INT}))
        wrong("INVALID_ARGUMENT", "All control inputs must follow all data inputs", (("x", "AddV2", ["^a", "b"]), {}))
        wrong("NOT_FOUND", "Op type not registered 'Nonsense'", (("x", "Nonsense"), {}))
        wrong("INVALID_ARGUMENT", "No OpKernel was registered to support Op 'Unserved'", (("x", "Unserved"), {}))
        made = graph()
        made.versions.min_consumer = 99999
        self.refused("INVALID_ARGUMENT", "GraphDef min consumer version 99999 above current version",
                     self.client.create, made)
        self.refused("INVALID_ARGUMENT", "session thread pool options", self.client.create, use_per_session_threads=True)
        for legal in ("a>b", "0a", ".a"):
            made = graph()
            node(made, legal, "NoOp")
            self.client.create(made)
        self.assertEqual(self.workers[0].graphs, {})

    def test_nodes_are_placed(self):
        self.begin(three())
        made = graph()
        const(made, "free", 1)
        const(made, "there", 2, device="/job:worker/task:1")
        node(made, "v", "VariableV2", device="/job:worker/task:0")
        node(made, "set", "Assign", ["v", "there"])
        node(made, "with", "Identity", ["free"], _class=["loc:@there"])
        node(made, "gpu", "Identity", ["free"], device="/device:GPU:0")
        self.refused("INVALID_ARGUMENT", "was explicitly assigned to /device:GPU:0 but available devices are [ /job:ps",
                     self.client.create, made)
        handle = self.client.create(made, allow_soft_placement=True)
        self.client.values(handle, ["set:0", "with:0", "gpu:0"])
        placed = {n.name: n.device for worker in self.workers for made in worker.graphs.values() for n in made.node}
        self.assertEqual([placed[n][5:placed[n].index("/device")] for n in ("there", "v", "set", "with", "gpu", "free")],
                         ["worker/replica:0/task:1", "worker/replica:0/task:0", "worker/replica:0/task:0",
                          "worker/replica:0/task:1", "ps/replica:0/task:0", "ps/replica:0/task:0"])
        made = graph()
        const(made, "x", 1, device="/job:nobody")
        self.refused("INVALID_ARGUMENT", "Make sure the device specification refers to a valid device", self.client.create,
                     made, allow_soft_placement=True)
        made = graph()
        const(made, "x", 1, device="what")
        self.refused("INVALID_ARGUMENT", "Malformed device specification 'what'", self.client.create, made)
        made = graph()
        node(made, "x", "Mul", ["y", "y"], T=w.INT)
        node(made, "y", "Const", dtype=w.INT, value=value(1, w.INT))
        self.refused("INVALID_ARGUMENT", "because no supported kernel", self.client.create, made)

    # ---- steps

    def test_what_is_fed_and_fetched(self):
        self.begin()
        made = self.sum()
        node(made, "x", "Placeholder")
        node(made, "y", "Mul", ["x", "c"])
        node(made, "n", "NoOp", ["^y"])
        node(made, "few", "AddV2", ["^a"])
        s = self.client.create(made)
        v = self.client.values
        self.assertEqual(v(s, ["y:0"], feed={"x:0": 2}), {"y:0": 14})
        self.assertEqual(v(s, ["c", "c:0"]), {"c": 7, "c:0": 7})
        self.assertEqual(v(s, ["y:0"], feed={"x": 2, "a": 6}), {"y:0": 20}, "a constant is fed, by its bare name")
        self.assertEqual(v(s, ["a:0", "c:0"]), {"a:0": 3, "c:0": 7})
        self.assertEqual(v(s, ["c:0"], feed={"a:0": 5}), {"c:0": 9}, "feeds and fetches are not mixed up")
        self.assertEqual(v(s, ["c:0"], feed={"x:0": 5}), {"c:0": 7}, "an unused feed is ignored")
        self.assertEqual(v(s, [], ["n"], feed={"x:0": 5}), {})
        self.assertEqual(v(s, [], ["n:0"], feed={"x:0": 5}), {})
        self.failed("INVALID_ARGUMENT", "From /job:worker/replica:0/task:0:\nYou must feed a value for placeholder tensor 'x'",
                    s, ["y:0"])
        self.failed("INVALID_ARGUMENT", "Must specify at least one target to fetch or execute.", s)
        self.failed("NOT_FOUND", "FeedInputs: unable to find feed output q:0", s, ["c:0"], feed={"q:0": 1})
        self.failed("INVALID_ARGUMENT", "FeedInputs: a:7 should have output index < 1", s, ["c:0"], feed={"a:7": 1})
        self.failed("NOT_FOUND", "FetchOutputs node q:0: not found", s, ["q:0"])
        self.failed("INVALID_ARGUMENT", "Tried to fetch data for 'n:0', which produces no output.", s, ["n:0"])
        self.failed("INVALID_ARGUMENT", "FetchOutputs c:1: output index too large, must be < 1", s, ["c:1"])
        self.failed("NOT_FOUND", "PruneForTargets: Some target nodes not found: q r ", s, [], ["q", "r"])
        self.failed("INVALID_ARGUMENT", "c:0 is both fed and fetched.", s, ["c:0"], feed={"c:0": 1})
        self.failed("INVALID_ARGUMENT", 'Endpoint "x:0" fed more than once.', s, ["y:0"], feed={"x:0": 1, "x": 1})
        self.failed("INVALID_ARGUMENT", "Incomplete graph, missing 2 inputs for few", s, [], ["few"])
        self.failed("INTERNAL", "Output 0 of type int32 does not match declared output type float for node {{node _recv_x_0}}",
                    s, ["y:0"], feed={"x:0": value(1, w.INT)})
        for bad in (b"", b"\xff", b"\x08\x01\x12\x00\x22\x03abc", b"\x08\x01\x12\x02\x18\x01"):
            self.failed("INVALID_ARGUMENT", "Invalid TensorProto for feed value 0", s, ["y:0"], feed={"x:0": bad})
        self.refused("NOT_FOUND", "FetchOutputs node q", self.client.run, s, ["q"], store_errors_in_response_body=False)

    def test_a_tensor_of_two_names_is_fetched_once_among_many(self):
        self.begin()
        made = self.sum()
        for i in range(70):
            const(made, "c%d" % i, i)
        s = self.client.create(made)
        expected = {"c%d:0" % i: i for i in range(70)}
        expected.update({"c": 7, "c:0": 7})
        self.assertEqual(self.client.values(s, list(expected)), expected)
        self.assertEqual(self.workers[0].asked, 71)

    def test_a_step_over_three_tasks_meets_by_its_edges(self):
        self.begin(three())
        made = graph()
        node(made, "v", "VariableV2", device="/job:ps")
        const(made, "one", 1, device="/job:ps")
        node(made, "init", "Assign", ["v", "one"])
        node(made, "x", "Placeholder", device="/job:worker/task:0")
        node(made, "p", "Mul", ["x", "v"], device="/job:worker/task:0")
        node(made, "q", "AddN", ["p", "p", "v"], device="/job:worker/task:1", N=3)
        node(made, "up", "AssignAdd", ["v", "one", "^q"])
        s = self.client.create(made)
        self.client.values(s, [], ["init"])
        self.assertEqual(self.client.values(s, ["q:0"], ["up"], feed={"x:0": 10}), {"q:0": 21})
        self.assertEqual(self.client.values(s, ["q:0", "v:0"], feed={"x:0": 10}), {"q:0": 42, "v:0": 2})
        other = self.client.create(made)
        self.client.call("CloseSession", session_handle=s)
        self.assertEqual(self.client.values(other, ["v:0"]), {"v:0": 2}, "variables are the executors', and stay")
        sends = [n for worker in self.workers for made in worker.graphs.values() for n in made.node if n.op == "_Send"]
        self.assertTrue(all(a.value.type == w.FLOAT for n in sends for a in n.attr if a.key == "T"))
        server = self.workers[0].sessions[other]
        self.assertEqual(server.protocol, "")

    def test_a_loop_of_switches_over_two_tasks_is_refused_in_words(self):
        self.begin(three())
        made = graph()
        const(made, "a", 1)
        node(made, "enter", "Enter", ["a"], device="/job:ps")
        node(made, "merge", "Merge", ["enter", "next"], device="/job:ps", N=2)
        node(made, "body", "Identity", ["merge"], device="/job:worker/task:0")
        node(made, "next", "NextIteration", ["body"], device="/job:ps")
        node(made, "exit", "Exit", ["merge"], device="/job:ps")
        s = self.client.create(made)
        self.failed("UNIMPLEMENTED", "has nodes on several tasks", s, ["body:0"])

    def test_a_subgraph_is_registered_once(self):
        self.begin()
        s = self.client.create(self.sum())
        for fetch in (["c:0", "a:0"], ["a:0", "c:0"], ["a:0", "c:0", "a:0"]) * 3:
            self.assertEqual(self.client.values(s, fetch), {"a:0": 3, "c:0": 7})
        self.assertEqual(len(self.workers[0].graphs), 1)
        self.client.call("CloseSession", session_handle=s)
        self.wait("its graph is dropped", lambda: self.workers[0].dropped == ["g0"] and not self.workers[0].sessions)

    @staticmethod
    def wait(what, condition):
        end = time.monotonic() + w.PATIENCE
        while not condition():
            assert time.monotonic() < end, "not so after a minute: " + what
            time.sleep(0.005)  # sleep: between two looks

    def test_errors_of_a_step(self):
        self.begin(three())
        made = graph()
        node(made, "fail", "Fail", device="/job:worker/task:1", text="e" * 1024, times=1024)
        node(made, "block", "Block", device="/job:ps")
        node(made, "both", "AddV2", ["fail", "block"], device="/job:ps")
        const(made, "a", 3)
        s = self.client.create(made)
        reply = self.client.run(s, ["both:0"])
        self.assertEqual(reply.status_code, 3)
        self.assertEqual(len(reply.status_error_message), len("From /job:worker/replica:0/task:1:\n") + (1 << 20))
        self.assertTrue(self.workers[0].cancelled.wait(w.PATIENCE), "the other executor's part is cancelled")
        self.assertEqual(self.client.values(s, ["a:0"]), {"a:0": 3}, "the session is as it was")
        self.wait("the step is cleaned up", lambda: all(worker.cleaned for worker in self.workers[::2]))

    def test_an_error_that_follows_from_another_does_not_hide_it(self):
        self.begin(three())
        made = graph()
        node(made, "root", "Fail", device="/job:ps", text="root", times=1, code=13, held=1)
        node(made, "follows", "Fail", device="/job:worker/task:1", text="follows", times=1, code=10)
        s = self.client.create(made)
        late = self.client.later("RunStep", self.client.request(s, ["root:0", "follows:0"]))
        self.assertTrue(self.workers[2].begun.wait(w.PATIENCE))
        self.workers[0].release.set()
        reply = m.RunStepResponse.FromString(late.result())
        self.assertEqual((reply.status_code, reply.status_error_message), (13, "From /job:ps/replica:0/task:0:\nroot"))

    def test_a_step_that_blocks_ends_by_close_by_time_and_by_its_client(self):
        self.begin()
        made = graph()
        node(made, "block", "Block")
        s, worker = self.client.create(made), self.workers[0]
        self.failed("DEADLINE_EXCEEDED", "", s, ["block:0"], options=m.RunOptions(timeout_in_ms=100))
        self.assertTrue(worker.cancelled.wait(w.PATIENCE))
        worker.cancelled.clear()
        worker.begun.clear()
        late = self.client.later("RunStep", self.client.request(s, ["block:0"]))
        self.assertTrue(worker.begun.wait(w.PATIENCE))
        late.cancel()
        self.assertTrue(worker.cancelled.wait(w.PATIENCE))
        worker.begun.clear()
        closed = self.client.later("RunStep", self.client.request(s, ["block:0"]))
        self.assertTrue(worker.begun.wait(w.PATIENCE))
        self.client.call("CloseSession", session_handle=s)
        reply = m.RunStepResponse.FromString(closed.result())
        self.assertEqual((reply.status_code, reply.status_error_message),
                         (1, "Step was cancelled by an explicit call to `Session::Close()`."))
        s = self.client.create(made, operation_timeout_in_ms=100)
        self.failed("DEADLINE_EXCEEDED", "", s, ["block:0"])

    def test_reset_while_a_step_runs(self):
        self.begin()
        made = graph()
        node(made, "block", "Block")
        s = self.client.create(made)
        late = self.client.later("RunStep", self.client.request(s, ["block:0"]))
        self.assertTrue(self.workers[0].begun.wait(w.PATIENCE))
        self.client.call("Reset")
        self.assertEqual(m.RunStepResponse.FromString(late.result()).status_code, 10)
        self.client.create(made)

    def test_a_request_that_is_said_again_gets_the_reply_that_was_kept(self):
        self.begin()
        made = graph()
        node(made, "v", "VariableV2")
        const(made, "one", 1)
        node(made, "init", "Assign", ["v", "one"])
        node(made, "up", "AssignAdd", ["v", "one"])
        s = self.client.create(made)
        self.client.values(s, [], ["init"])
        for _ in range(3):
            self.assertEqual(self.client.values(s, ["up:0"], request_id=-77), {"up:0": 2})
        for n in (3, 4):
            self.assertEqual(self.client.values(s, ["up:0"], request_id=0), {"up:0": n})
        handles = {self.client.call("MakeCallable", session_handle=s, options=m.CallableOptions(fetch=["v:0"]),
                                    request_id=5).handle for _ in range(2)}
        self.assertEqual(handles, {0})

    # ---- partial runs and callables

    def test_partial_runs(self):
        self.begin()
        made = graph()
        for name in "abc":
            node(made, name, "Placeholder")
        node(made, "r1", "AddV2", ["a", "b"])
        node(made, "r2", "Mul", ["r1", "c"])
        s = self.client.create(made)

        def setup(feed=("a:0", "b:0", "c:0"), fetch=("r1:0", "r2:0")):
            return self.client.call("PartialRunSetup", session_handle=s, feed=feed, fetch=fetch).partial_run_handle
        self.refused("INVALID_ARGUMENT", "specify at least one target to fetch or execute", setup, [], [])
        first, second = setup(), setup()
        self.assertEqual([first, second], ["1", "2"], "a set-up that fails has used its number up")

        def part(handle, fetch, **feed):
            return self.client.values(s, fetch, feed={k + ":0": v for k, v in feed.items()}, partial_run_handle=handle)

        def wrong(text, handle, fetch, **feed):
            self.failed("INVALID_ARGUMENT", text, s, fetch, feed={k + ":0": v for k, v in feed.items()},
                        partial_run_handle=handle)
        wrong("Must run PartialRunSetup before performing partial runs", "9", ["r1:0"])
        wrong("The feed r1:0 was not specified in partial_run_setup.", first, ["r1:0"], r1=1)
        wrong("The fetch a:0 was not specified in partial_run_setup.", first, ["a:0"])
        wrong("Fetch r1:0 can't be computed from the feeds that have been fed so far", first, ["r1:0"], a=1)
        self.assertEqual(part(first, ["r1:0"], a=1, b=2), {"r1:0": 3})
        wrong("The feed a:0 has already been fed.", first, ["r2:0"], a=1)
        wrong("The fetch r1:0 has already been fetched.", first, ["r1:0"])
        self.assertEqual(part(second, [], a=1, b=8), {})
        self.assertEqual(part(second, ["r1:0"]), {"r1:0": 9})
        self.assertEqual(part(first, ["r2:0"], c=17), {"r2:0": 51})
        self.assertEqual(part(second, ["r2:0"], c=18), {"r2:0": 162})
        wrong("Must run PartialRunSetup before performing partial runs", first, ["r1:0"])
        abandoned = setup()
        part(abandoned, ["r1:0"], a=1, b=2)
        self.client.call("CloseSession", session_handle=s)

    def test_callables(self):
        self.begin()
        made = self.sum()
        node(made, "x", "Placeholder")
        node(made, "y", "Mul", ["x", "c"])
        s = self.client.create(made)

        def make(**options):
            return self.client.call("MakeCallable", session_handle=s, options=m.CallableOptions(**options)).handle

        def run(handle, *feeds):
            reply = self.client.call("RunCallable", session_handle=s, handle=handle,
                                     feed=[value(f).SerializeToString() for f in feeds])
            return [number(t) for t in reply.fetch]
        one = make(feed=["x:0", "a:0"], fetch=["y:0", "c:0", "y:0"])
        self.assertEqual(run(one, 2, 6), [20, 10, 20])
        self.assertEqual(run(one, 2, 6, 99), [20, 10, 20], "surplus feeds are ignored")
        self.refused("INVALID_ARGUMENT", "Expected 2 feeds, and got 1", run, one, 2)
        self.refused("INVALID_ARGUMENT", "No such callable handle: 1", run, 1)
        two = make(fetch=["y:0"], tensor_connection=[m.TensorConnection(from_tensor="c:0", to_tensor="x:0")])
        self.assertEqual(run(two), [49])
        self.refused("UNIMPLEMENTED", "CallableOptions::feed_devices", make, fetch=["y:0"],
                     feed_devices=[m.FeedDevice(key="x:0", value="/cpu:0")])
        for handle in (one, 17):
            self.client.call("ReleaseCallable", session_handle=s, handle=handle)
        self.refused("INVALID_ARGUMENT", "Attempted to run callable after handle was released: 0", run, one, 1, 2)
        self.refused("INVALID_ARGUMENT", "Attempted to run callable after handle was released: -1", run, -1)

    def test_a_callable_that_is_released_while_it_runs_gives_what_it_fetches(self):
        self.begin()
        made = graph()
        node(made, "block", "Block")
        s, worker = self.client.create(made), self.workers[0]
        handle = self.client.call("MakeCallable", session_handle=s, options=m.CallableOptions(fetch=["block:0"])).handle
        late = self.client.later("RunCallable", m.RunCallableRequest(session_handle=s, handle=handle))
        self.assertTrue(worker.begun.wait(w.PATIENCE))
        self.client.call("ReleaseCallable", session_handle=s, handle=handle)
        worker.release.set()
        self.assertEqual([number(t) for t in m.RunCallableResponse.FromString(late.result()).fetch], [1])

    # ---- executors that go, and clients that are none

    def test_a_dead_executor_is_named_at_once_and_may_come_again(self):
        self.begin(three())
        made = graph()
        node(made, "block", "Block", device="/job:worker/task:1")
        const(made, "a", 3)
        s, worker = self.client.create(made), self.workers[2]
        other = self.client.create(self.sum(), device_filters=["/job:ps"])
        late = self.client.later("RunStep", self.client.request(s, ["block:0"]))
        self.assertTrue(worker.begun.wait(w.PATIENCE))
        worker.stop()
        reply = m.RunStepResponse.FromString(late.result())
        self.assertEqual(reply.status_code, 14)
        self.assertIn("/job:worker/replica:0/task:1", reply.status_error_message)
        self.failed("ABORTED", "/job:worker/replica:0/task:1 is gone", s, ["a:0"])
        self.assertEqual(self.client.values(other, ["c:0"]), {"c:0": 7}, "sessions without it go on")
        self.refused("DEADLINE_EXCEEDED", "/job:worker/replica:0/task:1 at %s" % worker.address, self.client.create,
                     self.sum(), operation_timeout_in_ms=300)
        self.workers[2] = Worker("worker", 1, worker.address)
        self.assertEqual(self.client.values(self.client.create(made), ["a:0"]), {"a:0": 3})

    def test_filters_wait_for_a_server_that_has_not_said_which_task_it_is(self):
        made = three()
        made[2].stop()
        self.begin(made)
        wanted = graph()
        const(wanted, "a", 3, device="/job:worker/task:1")
        late = self.client.later("CreateSession", m.CreateSessionRequest(graph_def=wanted, target="grpc://x", config=m.Config(
            device_filters=["/job:ps", "/job:worker/task:1"]).SerializeToString()))
        self.failed("ABORTED", "is not found", "no", ["a:0"])  # said after it, heard after it
        self.workers[2] = Worker("worker", 1, made[2].address)
        s = m.CreateSessionResponse.FromString(late.result()).session_handle
        self.assertEqual(self.client.values(s, ["a:0"]), {"a:0": 3})
        self.assertEqual([s in worker.sessions for worker in self.workers], [True, False, True])
        other = self.client.create(device_filters=["/job:ps/task:0"])
        self.assertEqual([other in worker.sessions for worker in self.workers], [True, False, False])

    def test_an_executor_of_a_job_is_started_again_each_time_it_is_killed(self):
        job = w.Job()
        self.addCleanup(self.end, [], job)
        self.client = Client(job)
        killed, nulls = [], set()
        for _ in range(3):
            s = self.client.create(self.sum())
            self.assertEqual(self.client.values(s, ["c:0"]), {"c:0": 7})
            executor = job.executor()
            self.assertNotIn(executor, killed)
            nulls.add(job.files("/dev/null"))
            if len(killed) < 2:
                os.kill(executor, signal.SIGKILL)
                killed.append(executor)
                self.assertEqual(job.said(), "muster run: /job:worker/task:0: its executor was killed by signal 9\n")
                self.failed("ABORTED", "/job:worker/replica:0/task:0 is gone", s, ["c:0"])
        self.assertEqual(len(nulls), 1, "what an executor was given is not kept")

    def test_an_executor_that_ends_while_a_session_waits_for_it_is_told_of_at_once(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as server:  # it never serves, and ends when it is told to
            server.write("import os, sys, time\nwhile not os.path.exists(sys.argv[0] + '.end'): time.sleep(0.01)\n"
                         "os.unlink(sys.argv[0] + '.end'); sys.exit(5)\n")
            server.flush()
            job = w.Job(server.name)
            self.addCleanup(self.end, [], job)
            self.client = Client(job)
            late = self.client.later("CreateSession", m.CreateSessionRequest(target="grpc://x"))
            self.failed("ABORTED", "is not found", "no", ["a:0"])  # said after it, heard after it
            open(server.name + ".end", "w").close()
            self.refused("ABORTED", "CreateSession: /job:worker/replica:0/task:0 is gone: its executor has ended with "
                         "status 5", late.result)
            self.assertIn("its executor has ended with status 5", job.said())

    def test_a_callable_whose_executor_is_gone_is_not_to_be_run_again(self):
        self.begin(three())
        made = graph()
        node(made, "block", "Block", device="/job:worker/task:1")
        s, worker = self.client.create(made), self.workers[2]
        handle = self.client.call("MakeCallable", session_handle=s, options=m.CallableOptions(fetch=["block:0"])).handle
        late = [self.client.later("RunCallable", m.RunCallableRequest(session_handle=s, handle=handle)),
                self.client.later("RunStep", self.client.request(s, ["block:0"], store_errors_in_response_body=False))]
        self.wait("both run", lambda: len(worker.blocks) == 2)
        worker.stop()
        for one in late:
            self.refused("ABORTED", "/job:worker/replica:0/task:1", one.result)

    def test_bodies_that_are_none_of_its_messages(self):
        self.begin()
        made = self.sum()
        node(made, "x", "Placeholder")
        s = self.client.create(made)
        bodies = [("CreateSession", m.CreateSessionRequest(graph_def=made, config=m.Config(
            allow_soft_placement=True).SerializeToString()).SerializeToString()),
            ("ExtendSession", m.ExtendSessionRequest(session_handle=s, graph_def=made).SerializeToString()),
            ("RunStep", self.client.request(s, ["c:0"], feed={"a:0": 3}).SerializeToString()),
            ("PartialRunSetup", m.PartialRunSetupRequest(session_handle=s, feed=["x:0"], fetch=["c:0"]).SerializeToString()),
            ("MakeCallable", m.MakeCallableRequest(session_handle=s, options=m.CallableOptions(
                fetch=["c:0"])).SerializeToString()),
            ("RunCallable", m.RunCallableRequest(session_handle=s, feed=[b"x"]).SerializeToString()),
            ("Reset", m.ResetRequest(container=["c"], device_filters=["/job:none"]).SerializeToString())]
        rng = random.Random(7)
        for _ in range(300):
            method, body = rng.choice(bodies[:-1])
            body = bytearray(body)
            for _ in range(rng.choice((0, 1, 1, 3))):
                body[rng.randrange(len(body))] = rng.randrange(256)
            body = bytes(body[:rng.choice((len(body), len(body), rng.randrange(len(body))))])
            try:
                self.client.raw(method, body)
            except grpc.RpcError as e:
                self.assertNotIn(e.code().name, ("UNAVAILABLE", "UNKNOWN"), (method, body, e.details()))
        self.assertEqual(self.client.values(s, ["c:0"]), {"c:0": 7})

    def test_what_is_read_of_bytes_within_a_request_is_bounded(self):
        self.begin()
        made = self.sum()
        s = self.client.create(made)
        many = 6 << 20  # empty messages of two bytes, which take twenty times as much when they are read
        text = "read, it takes more than 64 MiB beyond its size"
        self.refused("RESOURCE_EXHAUSTED", text, self.client.call, "CreateSession", graph_def=made,
                     config=b"\x62\x00" * many)
        more = graph()
        more.library = b"\x0a\x00" * many
        self.refused("RESOURCE_EXHAUSTED", text, self.client.call, "ExtendSession", session_handle=s, graph_def=more)
        shape = b"\xa2\x06\x80\x80\x04" + b"x" * (1 << 16)  # nothing that is known
        self.failed("INVALID_ARGUMENT", "Invalid TensorProto for feed value 0", s, ["c:0"],
                    feed={"a:0": b"\x08\x01\x12\x85\x80\x04" + shape})

    def test_compressed_requests(self):
        for kind in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            self.begin(compression=kind)
            made = self.sum()
            for i in range(100):
                const(made, "constant%d" % i, i)
            self.assertEqual(self.client.values(self.client.create(made), ["c:0"]), {"c:0": 7})


if __name__ == "__main__":
    unittest.main()
