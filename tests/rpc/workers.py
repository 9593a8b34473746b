"""Servers that play tasks which are servers themselves: they are called when another task is in error."""
import concurrent.futures
import queue
import threading

import grpc

MINUTE = 60


class Worker:
    """Its method ReportErrorToTask notes what it is told, and answers with that status, once it is let.

    messages: the module of src/rpc/tsl_coordination.proto. heard: called with each request.
    """

    def __init__(self, messages, status=grpc.StatusCode.OK, heard=None):
        self.told, self.status, self.heard, self.lets = queue.Queue(), status, heard, threading.Event()
        self.lets.set()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "tensorflow.CoordinationService", {"ReportErrorToTask": grpc.unary_unary_rpc_method_handler(
                self.take, request_deserializer=messages.ReportErrorToTaskRequest.FromString,
                response_serializer=messages.ReportErrorToTaskResponse.SerializeToString)})])
        self.answer = messages.ReportErrorToTaskResponse()
        self.address = "127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def take(self, request, context):
        self.told.put(request)
        if self.heard:
            self.heard(request)
        self.lets.wait(MINUTE)
        if self.status is not grpc.StatusCode.OK:
            context.abort(self.status, "no\twonder")
        return self.answer

    def hears(self):
        return self.told.get(timeout=MINUTE)

    def stop(self):
        self.lets.set()
        self.server.stop(None).wait(MINUTE)
