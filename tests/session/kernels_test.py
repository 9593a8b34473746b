#!/usr/bin/env python3
"""`muster serve --tf-master` with muster's own kernels before plain clients of TensorFlow's MasterService."""
# timeout: 120
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from workers import FLOAT, INT, Client, g, grpc, m


def tensor(numbers, shape=(), dtype=FLOAT):
    t = g.TensorProto(dtype=dtype)
    t.tensor_shape.SetInParent()
    for n in shape:
        t.tensor_shape.dim.add(size=n)
    (t.float_val if dtype == FLOAT else t.int_val).extend(numbers)
    return t


class Graph:
    def __init__(self):
        self.made = g.GraphDef()
        self.made.versions.producer = 2474

    def node(self, name, op, inputs=(), **attrs):
        n = self.made.node.add(name=name, op=op, input=inputs)
        for key, it in attrs.items():
            v = n.attr.add(key=key).value
            if isinstance(it, g.TensorProto):
                v.tensor.CopyFrom(it)
            elif isinstance(it, bool):
                v.b = it
            elif isinstance(it, bytes):
                v.s = it
            elif isinstance(it, tuple):
                v.shape.SetInParent()
                for d in it:
                    v.shape.dim.add(size=d)
            elif isinstance(it, list):
                v.list.SetInParent()
                v.list.type.extend(it)
            else:
                v.type = it
        return self

    def const(self, name, numbers, shape=(), dtype=FLOAT):
        return self.node(name, "Const", dtype=dtype, value=tensor(numbers, shape, dtype))


def floats(t):
    import array
    return [round(x, 4) for x in array.array("f", t.tensor_content)]


class Test(unittest.TestCase):
    def setUp(self):
        self.program = subprocess.Popen([os.environ["MUSTER"], "serve", "--tf-master=127.0.0.1:0"],
                                        stdout=subprocess.PIPE, text=True)
        self.address = self.program.stdout.readline().strip()
        self.client = Client(self)

    def tearDown(self):
        self.program.terminate()
        self.program.stdout.close()
        self.assertEqual(self.program.wait(), 0)

    def fetched(self, session, names, target=(), feed=None):
        reply = self.client.run(session, names, target, feed=feed)
        self.assertEqual((reply.status_code, reply.status_error_message), (0, ""))
        by_name = {t.name: t.tensor for t in reply.tensor}
        return [g.TensorProto.FromString(t) if isinstance(t, bytes) else t for t in (by_name[n] for n in names)]

    def test_devices(self):
        devices = self.client.call("ListDevices", session_handle=self.client.create())
        text = devices.SerializeToString()
        self.assertIn(b"/job:local/replica:0/task:0/device:CPU:0", text)

    def test_a_line_is_fitted_by_gradient_descent_and_outlives_its_session(self):
        made = Graph().node("x", "Placeholder", dtype=FLOAT).node("y", "Placeholder", dtype=FLOAT)
        made.node("w", "VariableV2", dtype=FLOAT, shape=(1, 1)).const("zero", [0], (1, 1))
        made.node("init", "Assign", ["w", "zero"], T=FLOAT).node("read", "Identity", ["w"], T=FLOAT)
        made.node("p", "MatMul", ["x", "read"], T=FLOAT).node("e", "Sub", ["p", "y"], T=FLOAT)
        made.node("g", "MatMul", ["x", "e"], T=FLOAT, transpose_a=True).const("rate", [0.05])
        made.node("train", "ApplyGradientDescent", ["w", "rate", "g"], T=FLOAT)
        s = self.client.create(made.made)
        reply = self.client.run(s, ["read:0"])
        self.assertEqual(reply.status_code, 9)
        self.assertIn("Attempting to use uninitialized value w\n\t [[{{node read}}]]", reply.status_error_message)
        self.fetched(s, [], ["init"])
        feed = {"x:0": tensor([1, 2, 3], (3, 1)), "y:0": tensor([2, 4, 6], (3, 1))}
        for _ in range(40):
            self.fetched(s, [], ["train"], feed)
        self.client.call("CloseSession", session_handle=s)
        self.assertEqual(floats(self.fetched(self.client.create(made.made), ["read:0"])[0]), [2.0])

    def test_a_few_bytes_are_not_many_elements(self):
        made = Graph().node("x", "Placeholder", dtype=FLOAT).node("y", "Placeholder", dtype=FLOAT)
        made.node("n", "Size", ["x"], T=FLOAT, out_type=INT).node("m", "Size", ["y"], T=FLOAT, out_type=INT)
        s = self.client.create(made.made)
        small, large = tensor([1], (9000000,)), tensor([1], (1000000000,))
        self.assertLess(large.ByteSize(), 60)
        self.fetched(s, ["n:0"], feed={"x:0": small})
        for feed in ({"x:0": large, "y:0": tensor([1])}, {"x:0": small, "y:0": small}):
            reply = self.client.run(s, ["n:0", "m:0"], feed=feed)
            self.assertEqual(reply.status_code, 8)
            self.assertIn("a request's tensors may be 64 MiB larger than the request", reply.status_error_message)

    def test_a_queue_joins_two_clients(self):
        def queue():
            made = Graph().node("q", "FIFOQueueV2", component_types=[FLOAT], shared_name=b"joined").node(
                "v", "Placeholder", dtype=FLOAT)
            made.node("put", "QueueEnqueueV2", ["q", "v"], Tcomponents=[FLOAT])
            made.node("get", "QueueDequeueV2", ["q"], component_types=[FLOAT])
            return made.node("end", "QueueCloseV2", ["q"]).made
        got = []
        other = Client(self)

        def take():
            s = other.create(queue())
            while True:
                reply = other.run(s, ["get:0"])
                if reply.status_code:
                    got.append(reply.status_code)
                    return
                t = reply.tensor[0].tensor
                got.append(floats(g.TensorProto.FromString(t) if isinstance(t, bytes) else t)[0])
        taker = threading.Thread(target=take)
        taker.start()
        s = self.client.create(queue())
        for n in range(5):
            self.fetched(s, [], ["put"], {"v:0": tensor([n])})
        self.fetched(s, [], ["end"])
        taker.join(60)
        self.assertEqual(got, [0, 1, 2, 3, 4, 11])  # OUT_OF_RANGE

    def test_what_is_blocked_is_closed_or_out_of_time(self):
        made = Graph().node("q", "FIFOQueueV2", component_types=[INT])
        made.node("get", "QueueDequeueV2", ["q"], component_types=[INT])
        s = self.client.create(made.made)
        reply = self.client.run(s, ["get:0"], options=m.RunOptions(timeout_in_ms=200))
        self.assertEqual(reply.status_code, 4)
        later = self.client.later("RunStep", self.client.request(s, ["get:0"]))
        other = Client(self)
        self.fetched(s, [], ["q"])
        other.call("CloseSession", session_handle=s)
        reply = m.RunStepResponse.FromString(later.result())
        self.assertIn(reply.status_code, (1, 10))

    def test_an_empty_tensor_of_any_size_takes_no_time(self):
        made = Graph().const("e", [], (1 << 62, 0)).const("f", [], (0, 0)).const("axis", [1], (), INT)
        made.const("none", [], (0,), INT)
        made.node("packed", "Pack", ["e"], T=FLOAT)
        n = made.made.node[-1]
        n.attr.add(key="N").value.i = 1
        n.attr.add(key="axis").value.i = 1
        made.node("product", "MatMul", ["e", "f"], T=FLOAT)
        made.node("taken", "GatherV2", ["e", "none", "axis"], Tparams=FLOAT, Tindices=INT, Taxis=INT)
        s = self.client.create(made.made)
        for name in ("packed:0", "product:0", "taken:0"):
            reply = self.client.run(s, [name])
            self.assertEqual((reply.status_code, reply.status_error_message), (0, ""), name)

    def test_what_assert_is_given_is_no_reference(self):
        made = Graph().node("v", "VariableV2", dtype=FLOAT, shape=()).const("one", [1])
        made.node("init", "Assign", ["v", "one"], T=FLOAT).const("no", [0], (), 10)
        made.made.node[-1].attr[-1].value.tensor.bool_val.append(False)
        made.node("assert", "Assert", ["no", "v"], T=[])
        made.made.node[-1].attr[-1].value.list.MergeFromString(b"\x32\x01\x65")  # a reference to float
        try:
            s = self.client.create(made.made)
            self.fetched(s, [], ["init"])
            reply = self.client.run(s, target=["assert"])
            self.assertEqual(reply.status_code, 3, reply.status_error_message)
        except grpc.RpcError as e:
            self.assertEqual(e.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_a_colocated_name_has_zero_bytes(self):
        def place(name, h=1469598103934665603):  # in the graph's table
            for byte in name:
                h = (h ^ byte) * 1099511628211 % (1 << 64)
            return h, (h ^ h >> 29) % 64
        name = b"a\0" + b"x" * (1 << 20)
        so_far = place(name)[0]
        more = next(m for m in (b"%d" % k for k in range(10000)) if place(m, so_far)[1] == place(b"a")[1])
        made = Graph().const("a", [1]).node("b", "Identity", ["a"], T=FLOAT)
        made.made.node[-1].attr.add(key="_class").value.list.s.append(b"loc:@" + name + more)
        try:
            self.client.create(made.made)
        except grpc.RpcError as e:
            self.assertEqual(e.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.client.run("none", ["a:0"]).status_code, 10)  # it lives

    def test_what_is_said_of_a_clients_bytes_is_text(self):
        made = Graph().const("no", [], (), 10).const("data", [], (), 7)
        made.made.node[-1].attr[-1].value.tensor.string_val.append(b"a\xff\xc3")
        made.node("assert", "Assert", ["no", "data"], T=[7])
        reply = self.client.run(self.client.create(made.made), target=["assert"])
        self.assertIn("assertion failed: [a??]", reply.status_error_message)

    def test_a_few_bytes_are_not_many_edges(self):
        def sums(first, count):
            made = Graph()
            for k in range(first, first + count):
                made.node("n%d" % k, "AddN", T=FLOAT).made.node[-1].attr.add(key="N").value.i = 1 << 20
            return made.made
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.create(sums(0, 16))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("the graph has too many edges", caught.exception.details())
        s = self.client.create(sums(0, 12))
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.call("ExtendSession", session_handle=s, graph_def=sums(12, 4))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.client.call("ExtendSession", session_handle=s, graph_def=sums(12, 3))  # the others are taken back

    def test_an_op_that_muster_has_not_is_named(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.create(Graph().node("x", "Einsum").made)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("'Einsum'", caught.exception.details())
        self.assertIn("--libtensorflow", caught.exception.details())


if __name__ == "__main__":
    unittest.main()
