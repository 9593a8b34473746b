"""Drivers, workers and object stores of Ray's protocol of 2016, as gRPC's own library makes them, for a scheduler.

Each group of peers lives on a loopback address of its own, for a worker's port is said by its number. Values are bytes;
one that begins with "error:" is a task's failure.
"""
import atexit
import concurrent.futures
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
except ImportError:
    print("python3-grpcio is not installed")
    sys.exit(77)

PATIENCE = 60
HERE = os.path.dirname(os.path.abspath(__file__))
_folder = tempfile.TemporaryDirectory()
subprocess.run(["protoc", "-I" + HERE, "--python_out=" + _folder.name, os.path.join(HERE, "peers.proto")], check=True)
sys.path.insert(0, _folder.name)
import peers_pb2 as m

FREED = (1 << 64) - 1
SCHEDULER = {
    "RegisterWorker": (m.RegisterWorker, m.Registered), "RegisterObjStore": (m.Store, m.One),
    "RegisterFunction": (m.Function, m.Empty), "SubmitTask": (m.Submit, m.Submitted),
    "IncrementCount": (m.One, m.Empty), "DecrementCount": (m.One, m.Empty), "PutObj": (m.One, m.One),
    "RequestObj": (m.Two, m.Empty), "AliasObjectIDs": (m.Two, m.Empty), "ObjReady": (m.Two, m.Empty),
    "IncrementRefCount": (m.Many, m.Empty), "DecrementRefCount": (m.Many, m.Empty),
    "AddContainedObjectIDs": (m.Contained, m.Empty), "ReadyForNewTask": (m.Ready, m.Empty),
    "SchedulerInfo": (m.Empty, m.SchedulerInfo), "TaskInfo": (m.Empty, m.TaskInfo), "KillWorkers": (m.Empty, m.Success),
    "ExportFunction": (m.Import, m.Empty), "ExportReusableVariable": (m.Import, m.Empty),
}
WORKER = {"ExecuteTask": m.Execute, "ImportFunction": m.Import, "ImportReusableVariable": m.Import, "Die": m.Empty}
STORE = {"StartDelivery": m.Delivery, "StreamObjTo": m.One, "NotifyAlias": m.Two, "DeallocateObject": m.One}


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "not so after a minute: " + what
        time.sleep(0.005)  # sleep: between two looks


class Scheduler:
    """The program, or the calls of one client to it: scheduler.PutObj(objectid=worker).objectid"""

    def __init__(self, address):
        self.address = address
        self.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1),
                                                               ("grpc.max_receive_message_length", -1),
                                                               ("grpc.enable_http_proxy", 0)])

    def __getattr__(self, name):
        request, reply = SCHEDULER[name]
        call = self.channel.unary_unary("/Scheduler/" + name, request_serializer=request.SerializeToString,
                                        response_deserializer=reply.FromString)
        return lambda **fields: call(request(**fields), timeout=PATIENCE)

    def counts(self, *ids):
        counts = self.SchedulerInfo().counts
        return [-1 if counts[i] == FREED else counts[i] for i in ids]


class Served:
    def serve(self, service, requests, address):
        handlers = {}
        for name, request in requests.items():
            function = getattr(self, name)
            make = grpc.unary_stream_rpc_method_handler if name == "StreamObjTo" else grpc.unary_unary_rpc_method_handler
            answer = (lambda f: lambda q, _: f(q)) if name == "StreamObjTo" else (lambda f: lambda q, _: f(q) or m.Empty())
            handlers[name] = make(answer(function), request_deserializer=request.FromString,
                                  response_serializer=lambda reply: reply.SerializeToString())
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = self.server.add_insecure_port(address)
        assert port, address
        self.server.start()
        return port

    def leave(self):
        """As a process that is killed: its connections end, and nobody listens."""
        self.server.stop(0).wait()


class Store(Served):
    def __init__(self, net):
        self.scheduler, self.changed, self.values = Scheduler(net.address), threading.Condition(), {}
        self.pulled, self.aliases, self.freed = [], [], []
        self.address = "%s:%d" % (net.ip, self.serve("ObjStore", STORE, net.ip + ":0"))
        self.id = self.scheduler.RegisterObjStore(address=self.address).objectid

    def write(self, object_id, value):
        with self.changed:
            self.values[object_id] = value
            self.changed.notify_all()
        self.scheduler.ObjReady(first=object_id, second=self.id)

    def read(self, object_id):
        with self.changed:
            assert self.changed.wait_for(lambda: object_id in self.values, PATIENCE), "no object %d" % object_id
            return self.values[object_id]

    def StartDelivery(self, q):
        def pull():
            channel = grpc.insecure_channel(q.address)
            call = channel.unary_stream("/ObjStore/StreamObjTo", request_serializer=m.One.SerializeToString,
                                        response_deserializer=m.Chunk.FromString)
            value = b"".join(chunk.data for chunk in call(m.One(objectid=q.objectid), timeout=PATIENCE))
            channel.close()
            self.pulled.append(q.objectid)
            self.write(q.objectid, value)
        threading.Thread(target=pull, daemon=True).start()

    def StreamObjTo(self, q):
        value = self.values[q.objectid]
        for at in range(0, max(len(value), 1), 8192):
            yield m.Chunk(total_size=len(value), data=value[at:at + 8192])

    def NotifyAlias(self, q):
        with self.changed:
            self.aliases.append((q.first, q.second))
            self.values[q.first] = self.values[q.second]
            self.changed.notify_all()

    def DeallocateObject(self, q):
        del self.values[q.objectid]
        self.freed.append(q.objectid)


class Driver:
    """What a driver does, call by call; each reference that it gives out is to be dropped once."""

    def __init__(self, net, store=None, is_driver=True):
        self.net, self.s = net, Scheduler(net.address)
        reply = self.s.RegisterWorker(ip=net.ip, store=store.address if store else "", is_driver=is_driver)
        self.id, self.address = reply.workerid, reply.address
        self.store = next(s for s in net.stores if s.address == reply.store_address)

    def own(self, *ids):
        self.s.IncrementRefCount(objectid=ids)

    def drop(self, *ids):
        self.s.DecrementRefCount(objectid=ids)

    def export(self, name, returns):
        self.s.ExportFunction(what={"data": b"%s/%d" % (name.encode(), returns)})

    def submit(self, name, *args):
        """Of bytes by value, of numbers by id: the list of its results."""
        ids = [a for a in args if isinstance(a, int)]
        if ids:
            self.own(*ids)
        values = [m.Value(id=a) if isinstance(a, int) else m.Value(obj={"data": a}) for a in args]
        reply = self.s.SubmitTask(workerid=self.id, task={"name": name, "arg": values})
        assert reply.function_registered, name
        for one in reply.result:
            self.own(one)
        if reply.result:
            self.drop(*reply.result)
        return list(reply.result)

    def put(self, value):
        object_id = self.s.PutObj(objectid=self.id).objectid
        self.own(object_id)
        self.store.write(object_id, value)
        return object_id

    def get(self, object_id):
        self.s.RequestObj(first=self.id, second=object_id)
        return self.store.read(object_id)


class Worker(Driver, Served):
    """functions: name -> function(worker, *values): bytes, an object's number, or a list of these."""

    def __init__(self, net, functions, begin=True):
        super().__init__(net, is_driver=False)
        self.functions, self.inbox, self.imports, self.returns = functions, queue.Queue(), [], {}
        self.died = threading.Event()
        if begin:
            self.begin()

    def begin(self):
        self.serve("WorkerService", WORKER, self.address)
        threading.Thread(target=self.live, daemon=True).start()
        self.s.ReadyForNewTask(workerid=self.id)

    def ExecuteTask(self, q):
        self.inbox.put(q.task)

    def ImportFunction(self, q):
        self.imports.append(q.what.data)
        self.inbox.put(q.what.data)

    def ImportReusableVariable(self, q):
        self.imports.append(q.what.data)

    def Die(self, _):
        self.inbox.put(None)

    def live(self):
        try:
            while True:
                what = self.inbox.get()
                if what is None:
                    return self.died.set()
                if isinstance(what, bytes):
                    name, returns = what.decode().split("/")
                    self.s.RegisterFunction(workerid=self.id, name=name, returns=int(returns))
                else:
                    self.run(what)
        except grpc.RpcError:
            pass

    def run(self, task):
        ids = [v.id for v in task.arg if not v.HasField("obj")]
        for many in ids, list(task.result):
            if many:
                self.own(*many)
                self.drop(*many)
        words, out = "", []
        try:
            out = self.functions[task.name](self, *[v.obj.data if v.HasField("obj") else self.store.read(v.id)
                                                    for v in task.arg])
            out = out if isinstance(out, list) else [out] if task.result else []
        except Exception as error:
            words = "%s: %s" % (task.name, error)
            out = [b"error:" + words.encode()] * len(task.result)
        for object_id, value in zip(task.result, out):
            if isinstance(value, int):
                self.s.AliasObjectIDs(first=object_id, second=value)
                self.drop(value)
            else:
                self.store.write(object_id, value)
        self.s.ReadyForNewTask(workerid=self.id, outcome={"succeeded": not words, "words": words.encode()})
        if ids or task.result:
            self.drop(*ids, *task.result)


class Net:
    """A scheduler, and peers on an address of their own."""

    def __init__(self, *options):
        self.ip = "127.%d.%d.%d" % (random.randint(2, 250), random.randint(1, 250), random.randint(1, 250))
        self.program = subprocess.Popen([os.environ["MUSTER"], "serve", "--ray=%s:0" % self.ip, *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        atexit.register(self.program.kill)
        self.address, self.stores = self.program.stdout.readline().strip(), []
        assert self.address.startswith(self.ip), self.address or self.program.communicate()

    def store(self):
        self.stores.append(Store(self))
        return self.stores[-1]

    def end(self):
        """What it has said."""
        self.program.terminate()
        out, said = self.program.communicate(timeout=PATIENCE)
        assert self.program.returncode == 0, (self.program.returncode, said)
        return said
