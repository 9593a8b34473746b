#!/usr/bin/env python3
"""Reflection, as grpcurl and its like use it: what is listed can be looked up, what is looked up can be called, and both
versions say the same. The descriptors are read by Python's protobuf, which refuses what does not hold together."""
import os
import queue
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    print("python3-grpcio or python3-protobuf is not installed")
    sys.exit(77)
import frames
from clients import MINUTE, reflection, service
from serving import check, served, wait_for

PACKAGES = "grpc.reflection.v1", "grpc.reflection.v1alpha"
OURS = {"xla.coordination.CoordinationService": 15, "tensorflow.CoordinationService": 20, "xla.DistributedRuntimeService": 7}
OWN = {"grpc.health.v1.Health": 2, "grpc.reflection.v1.ServerReflection": 1, "grpc.reflection.v1alpha.ServerReflection": 1}
PATH = "/%s.ServerReflection/ServerReflectionInfo"
NOT_FOUND, INVALID = 5, 3


class Stream:
    """One stream: ask() is one request and its answer."""

    def __init__(self, address, package=PACKAGES[0]):
        self.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.requests = queue.Queue()
        method = self.channel.stream_stream(PATH % package, response_deserializer=reflection.ServerReflectionResponse.FromString)
        self.answers = method(iter(self.requests.get, None), timeout=MINUTE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.requests.put(None)
        self.channel.close()

    def send(self, **fields):
        self.requests.put(reflection.ServerReflectionRequest(**fields).SerializeToString())

    def ask(self, **fields):
        self.send(**fields)
        return next(self.answers)

    def code(self):
        try:
            return "answered: %s" % next(self.answers)
        except grpc.RpcError as error:
            return error.code().name

    def names(self):
        return [one.name.decode() for one in self.ask(list_services=b"*").list_services_response.service]

    def file(self, **fields):
        found = self.ask(**fields).file_descriptor_response.file_descriptor_proto
        check(len(found) == 1, "%s is in %d files", fields, len(found))
        return descriptor_pb2.FileDescriptorProto.FromString(found[0])


def listed(address):
    """All services with their methods: {service: descriptor}, each found by name."""
    pool, files = descriptor_pool.DescriptorPool(), set()
    with Stream(address) as one:
        names = one.names()
        for name in names:
            file = one.file(file_containing_symbol=name.encode())
            check(one.file(file_by_filename=file.name.encode()) == file, "%s is another file by its name", file.name)
            check(not file.dependency, "%s needs other files", file.name)
            if file.name not in files:
                files.add(file.name)
                pool.Add(file)
    return names, {name: pool.FindServiceByName(name) for name in names}


def whole():
    with service(2) as one:
        names, services = listed(one.address)
        check(names == list(OURS) + list(OWN), "these are listed: %s", names)
        for name, count in {**OURS, **OWN}.items():
            check(len(services[name].methods) == count, "%s has %d methods", name, len(services[name].methods))
        channel = grpc.insecure_channel(one.address)
        for name in OURS:
            for method in services[name].methods:
                try:  # a message that is none: each method that there is says so
                    channel.unary_unary("/%s/%s" % (name, method.name))(b"\xff", timeout=MINUTE)
                    check(False, "%s took what is no message", method.full_name)
                except grpc.RpcError as error:
                    check(error.code().name == "INVALID_ARGUMENT", "%s says %s", method.full_name, error)
        called(channel, services["tensorflow.CoordinationService"], text="a/b", value=b"\xff\0")
        called(channel, services["xla.coordination.CoordinationService"], text="a/b", value=b"\xff\0", incarnation=one.incarnation)
        channel.close()


def class_of(described):
    """By protobuf 4.22 and later, which came to lack the other way, or by an older one."""
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(described)
    return message_factory.MessageFactory(described.file.pool).GetPrototype(described)


def called(channel, described, text, value, incarnation=None):
    """A key is inserted, overwritten and read by messages of which only what was described is known."""
    def ask(name, **fields):
        method = described.methods_by_name[name]
        request, response = class_of(method.input_type), class_of(method.output_type)
        if incarnation:
            fields["incarnations"] = {"service_incarnation": incarnation}
        path = "/%s/%s" % (described.full_name, name)
        return response.FromString(channel.unary_unary(path)(request(**fields).SerializeToString(), timeout=MINUTE))
    ask("InsertKeyValue", kv={"key": text, "value": value}, allow_overwrite=True)
    got = ask("TryGetKeyValue", key=text)
    check((got.kv.key, got.kv.value) == (text, value), "%s came back as %s", text, got)


def symbols():
    found = {b"tensorflow.CoordinationService": 1, b"tensorflow.CoordinationService.Barrier": 1, b"tensorflow.CoordinatedTask": 1,
             b".tensorflow.CoordinatedTask": 1, b"tensorflow.CoordinatedTask.job_name": 1, b"tensorflow.TASKSTATE_ERROR": 1,
             b"tensorflow.CoordinatedTaskState": 1, b"tensorflow.CoordinationServiceDeviceInfo.type": 1,
             b"grpc.health.v1.HealthCheckResponse.ServingStatus": 1, b"grpc.health.v1.HealthCheckResponse.SERVING": 1,
             b"xla.coordination.TaskInfo": 1, b"xla.ConnectRequest": 1,
             b"": 0, b".": 0, b"tensorflow": 0, b"tensorflow.": 0, b"tensorflow.X": 0, b"tensorflow.CoordinatedTask.": 0,
             b"tensorflow.CoordinatedTask.nobody": 0, b"tensorflow.CoordinatedTas": 0, b"tensorflow.CoordinationService.Barrie": 0,
             b"CoordinatedTask": 0, b"xla.coordination": 0, b"mu.test.Test": 0, b"a" * 4000: 0, "täsk".encode() * 50: 0}
    with served() as server, Stream(server.address) as one:
        for symbol, there in found.items():
            answer = one.ask(file_containing_symbol=symbol, host=b"here")
            check(answer.HasField("file_descriptor_response" if there else "error_response"), "%s: %s", symbol, answer)
            check(there or answer.error_response.error_code == NOT_FOUND, "%s: %s", symbol, answer)
            check(answer.valid_host == b"here", "the host came back as %s", answer.valid_host)
            asked = reflection.ServerReflectionRequest.FromString(answer.original_request)
            check(asked.file_containing_symbol == symbol, "the question came back as %s", asked)
        check("mu.test.Test" in one.names(), "a service without a description is not listed")
        for wrong in b"", b"tensorflow", b"tensorflow/coordination_service.proto2":
            check(one.ask(file_by_filename=wrong).error_response.error_code == NOT_FOUND, "there is a file %s", wrong)
        answer = one.ask(all_extension_numbers_of_type=b"tensorflow.CoordinatedTask")
        check(answer.all_extension_numbers_response.base_type_name == b"tensorflow.CoordinatedTask" and
              not answer.all_extension_numbers_response.extension_number, "extensions: %s", answer)
        for wrong in b"tensorflow.CoordinatedTask.job_name", b"tensorflow.CoordinatedTaskState", b"x":
            answer = one.ask(all_extension_numbers_of_type=wrong)
            check(answer.error_response.error_code == NOT_FOUND, "%s may be extended: %s", wrong, answer)
        answer = one.ask(file_containing_extension={"containing_type": b"tensorflow.CoordinatedTask", "extension_number": 7})
        check(answer.error_response.error_code == NOT_FOUND, "an extension was found: %s", answer)
        check(one.ask().error_response.error_code == INVALID, "no question was answered")


def versions():
    with served() as server, Stream(server.address) as new, Stream(server.address, PACKAGES[1]) as old:
        check(new.names() == old.names(), "the versions list other services")
        for name in new.names()[1:]:
            check(new.file(file_containing_symbol=name.encode()) == old.file(file_containing_symbol=name.encode()),
                  "%s is described otherwise", name)


LIST = frames.message(b"\x3a\0")


def begin(raw, body=b""):
    """A stream, its headers and a first piece in one breath; its number."""
    number, raw.next = raw.next, raw.next + 2
    head = frames.block((":method", "POST"), (":scheme", "http"), (":path", PATH % PACKAGES[0]), (":authority", "x"),
                        ("content-type", "application/grpc"), ("te", "trailers"))
    raw.send(frames.frame(frames.HEADERS, frames.END_HEADERS, number, head), frames.frame(frames.DATA, 0, number, body))
    return number


def silent():
    """Who asks, and leaves the stream open without another word, is sent away; so is who stops within a question."""
    with served("127.0.0.1:0", "stall=300") as server, frames.Raw(server.address) as raw:
        for body in LIST, LIST + LIST[:3]:
            number = begin(raw, body)
            status, words = raw.status(number)
            check((status, words) == (4, "nothing of the request came within 300 ms"), "a stream is open for ever: %d %s", status, words)
            check(raw.answers[number][1].count(b"grpc.health.v1.Health") == 1, "what it had asked was not answered")


def hoarder():
    """Who asks for the same again and again, and takes no answer, is refused: equal answers are held once, but each counts."""
    with served("127.0.0.1:0", "held=262144", "message=65536") as server, frames.Raw(server.address, window=0) as raw, \
            Stream(server.address) as other:
        number, symbol = begin(raw), b"xla.coordination.CoordinationService"
        question = frames.message(b"\x22" + frames.literal(symbol))
        for _ in range(100):
            raw.send(frames.frame(frames.DATA, 0, number, question * 300), frames.frame(frames.PING, 0, 0, bytes(8)))
            pings = raw.pings
            while raw.pings == pings:  # what was sent has been read
                raw.take()
        check("mu.test.Test" in other.names(), "another client is not served")
        window = struct.pack(">I", 1 << 30)
        raw.send(frames.frame(frames.WINDOW_UPDATE, 0, 0, window), frames.frame(frames.WINDOW_UPDATE, 0, number, window))
        status, words = raw.status(number)
        kept = raw.answers[number][1].count(question[5:])
        check(status == 8 and 0 < kept < 10000, "of 30000 answers %d were kept for who took none: %d %s", kept, status, words)


def streams():
    """Questions that do not wait for answers, the end of both sides, and who breaks the rules."""
    with served("127.0.0.1:0", "grace=0") as server:
        with Stream(server.address) as one:
            for _ in range(500):
                one.send(list_services=b"")
                one.send(file_containing_symbol=b"tensorflow.CoordinatedTask")
            one.requests.put(None)
            kinds = [answer.WhichOneof("message_response") for answer in one.answers]
            check(kinds == ["list_services_response", "file_descriptor_response"] * 500, "1000 answers came otherwise: %s", kinds)
            check(one.answers.code() == grpc.StatusCode.OK, "the end is %s", one.answers.code())
        for junk in b"\xff", b"\x22\1\xff", b"\x22\x84\x20" + b"a" * 4100:  # none, no text, too long
            with Stream(server.address) as one:
                one.names()
                one.requests.put(junk)
                check(one.code() == "INVALID_ARGUMENT", "junk is taken")
        with frames.Raw(server.address) as raw, Stream(server.address) as other:
            number = begin(raw)
            for at in range(len(LIST)):  # byte by byte
                raw.send(frames.frame(frames.DATA, 0, number, LIST[at:at + 1]))
            raw.send(frames.frame(frames.DATA, frames.END_STREAM, number, LIST + LIST[:3]))
            status, words = raw.status(number)
            check((status, words) == (13, "the call ends within a message"), "half a message is %d: %s", status, words)
            check(raw.answers[number][1].count(b"grpc.health.v1.Health") == 2, "whole ones before it were not answered")
            check("mu.test.Test" in other.names(), "another client is not served")
        with Stream(server.address) as one:
            one.names()
            server.stop()
            check(one.code() == "UNAVAILABLE", "a stream outlives its server")
        wait_for("the server's end", lambda: server.process.poll() is not None)


whole()
symbols()
versions()
streams()
hoarder()
silent()
