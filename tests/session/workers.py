"""Servers of TensorFlow's WorkerService for `muster serve --tf-master`, in Python: a handful of ops, run one after the
other as their inputs come, with rendezvous from worker to worker. And the client: the calls of MasterService."""
import concurrent.futures
import itertools
import os
import select
import struct
import subprocess
import sys
import tempfile
import threading

try:
    import grpc
except ImportError:
    print("python3-grpcio is not installed")
    sys.exit(77)

PATIENCE = 20
HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "..", "..", "src")
_folder = tempfile.TemporaryDirectory()
subprocess.run(["protoc", "-I" + SRC, "--python_out=" + _folder.name, "kernel/graph.proto", "session/master.proto"],
               check=True)
sys.path.insert(0, _folder.name)
from kernel import graph_pb2 as g
from session import master_pb2 as m

FLOAT, INT, STRING, RESOURCE = 1, 3, 7, 20
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0),
           ("grpc.use_local_subchannel_pool", 1)]


# ---- ops and kernels

def _op(name, inputs=(), outputs=(), stateful=False):
    """An argument: "T" of attribute T, "N*T" as many, "&T" a reference, or a number."""
    op = g.OpDef(name=name, is_stateful=stateful)

    def fill(args, texts):
        for i, text in enumerate(texts):
            a = args.add(name="%s%d" % (text.strip("&*").lower(), i))
            if isinstance(text, str) and text.startswith("&"):
                a.is_ref, text = True, text[1:]
            if "*" in str(text):
                a.number_attr, text = text.split("*")
            if str(text).isdigit():
                a.type = int(text)
            else:
                a.type_attr = text
    fill(op.input_arg, inputs)
    fill(op.output_arg, outputs)
    return op


OPS = [_op("Const", (), ("dtype",)), _op("Placeholder", (), ("dtype",)), _op("Identity", ("T",), ("T",)), _op("NoOp"),
       _op("AddV2", ("T", "T"), ("T",)), _op("AddN", ("N*T",), ("T",)), _op("Mul", ("T", "T"), ("T",)),
       _op("Split", ("T",), ("T", "T")), _op("VariableV2", (), ("&dtype",), True), _op("Assign", ("&T", "T"), ("&T",)),
       _op("AssignAdd", ("&T", "T"), ("&T",)), _op("Block", (), ("1",), True), _op("Fail", (), ("1",), True),
       _op("Enter", ("T",), ("T",)), _op("Merge", ("N*T",), ("T", "3")), _op("NextIteration", ("T",), ("T",)),
       _op("Exit", ("T",), ("T",)), _op("Unserved", (), ("1",)), _op("Shape", ("T",), ("3",))]


def lists(folder):
    ops = g.OpList(op=OPS)
    kernels = g.KernelList()
    for op in OPS:
        if op.name != "Unserved":
            k = kernels.kernel.add(op=op.name, device_type="CPU")
            if op.name == "Mul":
                c = k.constraint.add(name="T")
                c.allowed_values.list.type.extend([FLOAT])
    names = [os.path.join(folder, "ops"), os.path.join(folder, "kernels")]
    for name, message in zip(names, (ops, kernels)):
        with open(name, "wb") as f:
            f.write(message.SerializeToString())
    return names


# ---- graphs and tensors

def value(x, kind=FLOAT):
    """A scalar, as clients feed it."""
    return g.TensorProto(dtype=kind, tensor_shape=g.TensorShapeProto(),
                         tensor_content=struct.pack("<f" if kind == FLOAT else "<i", x))


def number(tensor):
    t = g.TensorProto.FromString(tensor)
    if t.tensor_content:
        return struct.unpack("<f" if t.dtype == FLOAT else "<i", t.tensor_content)[0]
    return (list(t.float_val) + list(t.int_val) + [0])[0]


def node(graph, name, op, inputs=(), device="", T=None, **attrs):
    n = graph.node.add(name=name, op=op, device=device)
    n.input.extend(inputs)
    if T is None and op not in ("NoOp", "Block", "Fail", "Const", "Placeholder", "VariableV2", "Unserved"):
        T = FLOAT
    if T is not None:
        n.attr.add(key="T").value.type = T
    if op in ("Const", "Placeholder", "VariableV2"):
        n.attr.add(key="dtype").value.type = attrs.pop("dtype", FLOAT)
    for key, v in attrs.items():
        a = n.attr.add(key=key).value
        if isinstance(v, int):
            a.i = v
        elif isinstance(v, list):
            a.list.s.extend(x.encode() for x in v)
        elif isinstance(v, str):
            a.s = v.encode()
        else:
            a.tensor.CopyFrom(v)
    return n


def const(graph, name, x, **more):
    return node(graph, name, "Const", value=value(x), **more)


def graph(producer=134):
    made = g.GraphDef()
    made.versions.producer = producer
    return made


# ---- workers

class Stopped(Exception):
    pass


class Failed(Exception):
    pass


class Rendezvous:
    """Tensors between all workers of the process, by step and key."""

    def __init__(self):
        self.tensors, self.changed = {}, threading.Condition()

    def put(self, step, key, tensor):
        with self.changed:
            self.tensors[step, key] = tensor
            self.changed.notify_all()

    def take(self, step, key, stop):
        with self.changed:
            self.changed.wait_for(lambda: (step, key) in self.tensors or stop.is_set(), PATIENCE)
            if (step, key) not in self.tensors:
                raise Stopped()
            return self.tensors[step, key]

    def stopped(self):
        with self.changed:
            self.changed.notify_all()


MEETING = Rendezvous()


class Worker:
    def __init__(self, job="worker", task=0, address="127.0.0.1:0"):
        self.name = "/job:%s/replica:0/task:%d" % (job, task)
        self.device = self.name + "/device:CPU:0"
        self.incarnation = 0x8000000000000001 + task
        self.graphs, self.sessions, self.cleared, self.cleaned, self.dropped = {}, {}, [], [], []
        self.variables, self.handles = {}, itertools.count()
        self.begun, self.release, self.cancelled = threading.Event(), threading.Event(), threading.Event()
        self.steps, self.blocks = {}, []  # blocks: of the steps whose Block has begun
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(32), options=OPTIONS + [("grpc.so_reuseport", 0)])
        methods = {n: grpc.unary_unary_rpc_method_handler(getattr(self, n), request_deserializer=r.FromString,
                                                          response_serializer=lambda a: a.SerializeToString())
                   for n, r in (("GetStatus", m.CloseSessionRequest),
                                ("CreateWorkerSession", m.CreateWorkerSessionRequest),
                                ("DeleteWorkerSession", m.DeleteWorkerSessionRequest),
                                ("RegisterGraph", m.RegisterGraphRequest), ("RunGraph", m.RunGraphRequest),
                                ("DeregisterGraph", m.DeregisterGraphRequest),
                                ("CleanupGraph", m.CleanupGraphRequest), ("CleanupAll", m.CleanupAllRequest))}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.WorkerService", methods),))
        self.port = self.server.add_insecure_port(address)
        self.address = "127.0.0.1:%d" % self.port
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()

    def GetStatus(self, r, context):
        d = g.DeviceAttributes(name=self.device, device_type="CPU", incarnation=self.incarnation, memory_limit=1 << 28)
        return m.GetStatusResponse(device_attributes=[d.SerializeToString()])

    def CreateWorkerSession(self, r, context):
        self.sessions[r.session_handle] = m.ServerDef.FromString(r.server_def)
        return g.GraphDef()

    def DeleteWorkerSession(self, r, context):
        self.sessions.pop(r.session_handle, None)
        return g.GraphDef()

    def RegisterGraph(self, r, context):
        made = g.GraphDef.FromString(r.graph_def)
        assert r.create_worker_session_called and all(n.device == self.device for n in made.node)
        handle = "g%d" % next(self.handles)
        self.graphs[handle] = made
        return m.RegisterGraphResponse(graph_handle=handle)

    def DeregisterGraph(self, r, context):
        self.dropped.append(r.graph_handle)
        return g.GraphDef()

    def CleanupGraph(self, r, context):
        if r.step_id in self.steps:
            self.steps.pop(r.step_id).set()
            MEETING.stopped()
        self.cleaned.append(r.step_id)
        return g.GraphDef()

    def CleanupAll(self, r, context):
        self.cleared.append(list(r.container))
        if not r.container:
            self.variables.clear()
        return g.GraphDef()

    def RunGraph(self, r, context):
        stop = threading.Event()

        def left():
            stop.set()
            MEETING.stopped()
        if not context.add_callback(left):  # cancelled before it began
            left()
        reply = m.RunGraphResponse()
        try:
            for t in r.send:
                MEETING.put(r.step_id, t.name, t.tensor)
            if not r.is_partial or r.step_id not in self.steps:
                ends = threading.Event() if r.is_partial else stop
                run = Run(self, self.graphs[r.graph_handle], r.step_id, ends)
                if r.is_partial:
                    self.steps[r.step_id] = ends
                    for n in run.graph.node:
                        threading.Thread(target=run.as_far_as_it_goes, args=(n.name,), daemon=True).start()
                else:
                    run.all()
            self.asked = len(r.recv_key)
            for key in r.recv_key:
                reply.recv.add(name=key, tensor=MEETING.take(r.step_id, key, stop))
        except Failed as e:
            reply.status_code, reply.status_error_message = e.args[1] if len(e.args) > 1 else 3, e.args[0]
        except Stopped:
            self.cancelled.set()
            reply.status_code, reply.status_error_message = 1, "Step was cancelled"
        return reply


class Run:
    def __init__(self, worker, made, step, stop):
        self.worker, self.graph, self.step, self.stop = worker, made, step, stop
        self.nodes, self.done = {n.name: n for n in made.node}, {}

    def as_far_as_it_goes(self, name):
        try:
            self.outputs(name)
        except Stopped:
            pass

    def all(self):
        for n in self.graph.node:
            self.outputs(n.name)

    def outputs(self, name):
        if name not in self.done:
            n = self.nodes[name]
            for i in n.input:
                if i.startswith("^"):
                    self.outputs(i[1:])
            ins = [self.outputs(i.split(":")[0])[int(i.split(":")[1]) if ":" in i else 0] for i in n.input if i[0] != "^"]
            attrs = {a.key: a.value for a in n.attr}
            self.done[name] = self.run(n, ins, attrs)
        return self.done[name]

    def key(self, attrs):
        return "%s;%016x;%s;%s;0:0" % (attrs["send_device"].s.decode(), attrs["send_device_incarnation"].i & (1 << 64) - 1,
                                       attrs["recv_device"].s.decode(), attrs["tensor_name"].s.decode())

    def run(self, n, ins, attrs):
        w = self.worker
        if n.op == "_Send":
            MEETING.put(self.step, self.key(attrs), w.variables[ins[0]] if ins[0] in w.variables else ins[0])
            return []
        if n.op == "_Recv":
            return [MEETING.take(self.step, self.key(attrs), self.stop)]
        if n.op == "Placeholder":
            raise Failed("You must feed a value for placeholder tensor '%s' with dtype float\n\t [[{{node %s}}]]" % (
                n.name, n.name))
        if n.op == "Const":
            return [attrs["value"].tensor.SerializeToString()]
        if n.op == "Block":
            w.blocks.append(self.step)
            w.begun.set()
            while not w.release.wait(0.01):
                if self.stop.is_set():
                    raise Stopped()
            return [value(1).SerializeToString()]
        if n.op == "Fail":
            if "held" in attrs:
                w.release.wait(PATIENCE)
            w.begun.set()
            raise Failed(attrs["text"].s.decode() * attrs["times"].i, attrs["code"].i if "code" in attrs else 3)
        if n.op == "VariableV2":
            w.variables.setdefault(n.name, None)
            return [n.name]
        if n.op in ("Assign", "AssignAdd"):
            old = number(w.variables[ins[0]]) if n.op == "AssignAdd" else 0
            w.variables[ins[0]] = value(old + number(ins[1])).SerializeToString()
            return [ins[0]]
        ins = [w.variables[i] if i in w.variables else i for i in ins]
        if n.op in ("AddV2", "AddN"):
            return [value(sum(map(number, ins))).SerializeToString()]
        if n.op == "Mul":
            return [value(number(ins[0]) * number(ins[1])).SerializeToString()]
        return ins * 2  # Identity, Split


# ---- the master, and its clients

LIBRARY = os.path.join(os.environ["BUILD"], "tests", "session", "libfake_tensorflow.so")


class Master:
    def __init__(self, workers, *more):
        self.folder = tempfile.TemporaryDirectory()
        ops, kernels = lists(self.folder.name)
        env = dict(os.environ, FAKE_OPS=ops, FAKE_KERNELS=kernels)
        self.program = subprocess.Popen(
            [os.environ["MUSTER"], "serve", "--tf-master=127.0.0.1:0", "--tf-workers",
             ",".join(w if isinstance(w, str) else w.address for w in workers), "--libtensorflow",
             LIBRARY, *more],
            stdout=subprocess.PIPE, text=True, env=env)
        self.address = self.program.stdout.readline().strip()

    def stop(self):
        self.program.terminate()
        self.program.stdout.close()
        self.folder.cleanup()
        return self.program.wait()


def served(pid):
    """Whether it is a server of this file."""
    with open("/proc/%s/cmdline" % pid) as words:
        return os.path.abspath(__file__) in words.read().split("\0")


class Job:
    """muster run --tf-master of one task: it says where the master is, and goes on as long as its input does."""

    def __init__(self, server=os.path.abspath(__file__)):
        self.folder = tempfile.TemporaryDirectory()
        ops, kernels = lists(self.folder.name)
        env = dict(os.environ, FAKE_OPS=ops, FAKE_KERNELS=kernels, FAKE_PYTHON=sys.executable, FAKE_SERVER=server)
        self.program = subprocess.Popen(
            [os.environ["MUSTER"], "run", "-n", "1", "--tf-master=127.0.0.1:0", "--libtensorflow", LIBRARY, "--",
             "sh", "-c", "echo $MUSTER_TF_MASTER; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=env)
        self.address = self.program.stdout.readline().decode().strip().removeprefix("grpc://")

    def said(self):
        """The launcher's next line; "": it says none."""
        ready, _, _ = select.select([self.program.stderr], [], [], PATIENCE)
        return self.program.stderr.readline().decode() if ready else ""

    def files(self, name):
        """How often the launcher has this file open."""
        of = "/proc/%d/fd/" % self.program.pid
        return sum(os.path.realpath(of + fd) == name for fd in os.listdir(of))

    def executor(self):
        """The pid of the executor that runs."""
        of = "/proc/%d/task/%d/children" % (self.program.pid, self.program.pid)
        with open(of) as children:
            pids = children.read().split()
        return next(int(pid) for pid in pids if served(pid))

    def stop(self):
        self.program.stdin.close()
        code = self.program.wait()
        for pipe in (self.program.stdout, self.program.stderr):
            pipe.close()
        self.folder.cleanup()
        return code


class Client:
    def __init__(self, master, prefix="tensorflow", **more):
        self.channel = grpc.insecure_channel(master.address, options=OPTIONS, **more)
        self.prefix = prefix

    def raw(self, method, body, timeout=PATIENCE):
        return self.channel.unary_unary("/%s.MasterService/%s" % (self.prefix, method))(body, timeout=timeout)

    def later(self, method, request):
        return self.channel.unary_unary("/%s.MasterService/%s" % (self.prefix, method)).future(
            request.SerializeToString(), timeout=PATIENCE)

    def call(self, method, timeout=PATIENCE, **fields):
        request = getattr(m, method + "Request")(**fields)
        kind = getattr(m, method + "Response", None)
        reply = self.raw(method, request.SerializeToString(), timeout)
        return kind.FromString(reply) if kind else reply

    def create(self, made=None, **config):
        request = m.CreateSessionRequest(graph_def=made or g.GraphDef(), target="grpc://x")
        if config:
            request.config = m.Config(**config).SerializeToString()
        return m.CreateSessionResponse.FromString(self.raw("CreateSession", request.SerializeToString())).session_handle

    def request(self, session, fetch=(), target=(), feed=None, **more):
        more.setdefault("store_errors_in_response_body", True)
        r = m.RunStepRequest(session_handle=session, fetch=fetch, target=target, **more)
        for name, tensor in (feed or {}).items():
            tensor = tensor if isinstance(tensor, bytes) else (
                tensor if isinstance(tensor, g.TensorProto) else value(tensor)).SerializeToString()
            r.feed.add(name=name, tensor=tensor)
        return r

    def run(self, *args, **more):
        return m.RunStepResponse.FromString(self.raw("RunStep", self.request(*args, **more).SerializeToString()))

    def values(self, *args, **more):
        reply = self.run(*args, **more)
        assert reply.status_code == 0, reply.status_error_message
        return {t.name: number(t.tensor) for t in reply.tensor}


if __name__ == "__main__":  # an executor of `muster run --tf-master`
    Worker(address=sys.argv[1]).server.wait_for_termination()
