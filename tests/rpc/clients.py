"""Clients of the coordination service in its three dialects, over Python's gRPC, and a service for them to call.

The messages are those of our own .proto files, as protoc writes them for Python. Nothing here takes time: a call that
should wait is looked at after another one on the same connection has been answered, which came to the service later.
"""
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile

import grpc

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVICE = os.path.join(os.environ["BUILD"], "tests/rpc/service")
MINUTE = 60
TYPE_URL = "type.googleapis.com/tensorflow."

_folder = tempfile.TemporaryDirectory()
_files = ["payload", "xla_coordination", "tsl_coordination", "xla_runtime", "reflection"]
subprocess.run(["protoc", "-I" + os.path.join(TOP, "src/rpc"), "--python_out=" + _folder.name] +
               [os.path.join(TOP, "src/rpc", name + ".proto") for name in _files], check=True)
sys.path.insert(0, _folder.name)
payload, xla, tsl, runtime, reflection = [importlib.import_module(name + "_pb2") for name in _files]

PATHS = {xla: "/xla.coordination.CoordinationService/", tsl: "/tensorflow.CoordinationService/",
         runtime: "/xla.DistributedRuntimeService/"}


class Refused(Exception):
    """code: a name; text: the sentence; payloads: {name: bytes}."""

    def __init__(self, error):
        self.code, self.text, self.payloads = error.code().name, error.details(), {}
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for entry in payload.Container.FromString(value).payloads:
                    name = entry.key.decode()
                    assert name.startswith(TYPE_URL), name
                    self.payloads[name[len(TYPE_URL):]] = entry.value
        super().__init__("%s: %s" % (self.code, self.text))


class Pending:
    def __init__(self, future):
        self.future = future

    def is_done(self):
        return self.future.done()

    def answer(self):
        try:
            return self.future.result(timeout=MINUTE)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def cancel(self):
        self.future.cancel()


class Client:
    """client.Barrier(barrier_id=b"b", ...) is the answer, or raises Refused; client.begin("Barrier", ...) is Pending."""

    def __init__(self, address, dialect, service_incarnation=0, **options):
        self.dialect, self.incarnation = dialect, service_incarnation
        options.setdefault("options", [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
                                       ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)])
        self.channel = grpc.insecure_channel(address, **options)

    def request(self, rpc, fields):
        message = getattr(self.dialect, rpc + "Request")(**fields)
        if self.dialect is xla and rpc != "RegisterTask" and not message.HasField("incarnations"):
            message.incarnations.service_incarnation = self.incarnation
        return message

    def begin_bytes(self, rpc, data):
        response = getattr(self.dialect, rpc + "Response")
        call = self.channel.unary_unary(PATHS[self.dialect] + rpc, request_serializer=lambda b: b,
                                        response_deserializer=response.FromString)
        return Pending(call.future(data, timeout=2 * MINUTE))

    def begin(self, rpc, **fields):
        return self.begin_bytes(rpc, self.request(rpc, fields).SerializeToString())

    def __getattr__(self, rpc):
        return lambda **fields: self.begin(rpc, **fields).answer()

    def close(self):
        self.channel.close()


def task(number, job=b"jax_worker", **fields):
    return tsl.CoordinatedTask(job_name=job, task_id=number, **fields)


class Service:
    """said: what it has said to people, once it has ended."""

    def __init__(self, tasks, *options):
        self.words, self.said = tempfile.TemporaryFile(), ""
        self.process = subprocess.Popen([SERVICE, str(tasks), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.words, text=True)
        self.address, incarnation = self.process.stdout.readline().split()
        self.incarnation, self.clients = int(incarnation), []

    def client(self, dialect, **options):
        self.clients.append(Client(self.address, dialect, self.incarnation, **options))
        return self.clients[-1]

    def stop(self):
        """No more calls; it answers those that wait."""
        self.process.stdin.close()

    def end(self):
        for client in self.clients:
            client.close()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        said = self.process.stdout.read()
        status = self.process.wait(timeout=MINUTE)
        self.process.stdout.close()
        self.words.seek(0)
        self.said = self.words.read().decode(errors="replace")
        self.words.close()
        sys.stderr.write(self.said)
        assert (said, status) == ("stopped\n", 0), (said, status)


@contextlib.contextmanager
def service(tasks, *options):
    served = Service(tasks, *options)
    try:
        yield served
    finally:
        served.end()
