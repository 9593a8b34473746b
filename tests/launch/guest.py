#!/usr/bin/python3
"""A task that speaks to the coordination service by gRPC, as a JAX process does: grpcio, and no library of muster's.

    guest.py [--address A] [--task I] WORD...

The words are done in order: register, poll (in the background), set K V, get K, try K, barrier ID, alive, report TEXT (an
error of its own), shutdown, reset, say TEXT, await FILE (until it is there), become N (another user), kill (itself, by SIGKILL), exit N, hold (until the poll has been
answered: it prints the answer). By default the address and the number are those of the environment. A refusal is printed,
"CODE: text", and ends it with status 9. Every wait is bounded. The messages' module is made by guests.sh.
"""
import argparse
import os
import random
import signal
import sys
import threading
import time

import grpc

import rpc.xla_coordination_pb2 as pb

SERVICE = "/xla.coordination.CoordinationService/"
PATIENCE = 60  # seconds that any call may take


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # at once: others write to the same file


class Guest:
    def __init__(self, address, task):
        self.task = task
        self.incarnation = random.getrandbits(63)
        self.service = 0
        self.channel = grpc.insecure_channel(address)
        self.answer = None  # of the poll
        self.answered = threading.Event()

    def prepare(self, name, fields):
        request = getattr(pb, name + "Request")(**fields)
        if name != "RegisterTask":
            request.incarnations.task_id = self.task
            request.incarnations.task_incarnation = self.incarnation
            request.incarnations.service_incarnation = self.service
        method = self.channel.unary_unary(SERVICE + name, type(request).SerializeToString,
                                          getattr(pb, name + "Response").FromString)
        return method, request

    def call(self, name, **fields):
        method, request = self.prepare(name, fields)
        return method(request, timeout=PATIENCE, wait_for_ready=name == "RegisterTask")

    def register(self):
        answer = self.call("RegisterTask", incarnation=self.incarnation, source_task_id=self.task)
        self.service = answer.service_incarnation

    def poll(self):
        """Before any call that follows: a thread of ours might come to it too late."""
        def done(future):
            error = future.exception()
            self.answer = "%s: %s" % (error.code().name, error.details()) if error else "OK"
            self.answered.set()
        method, request = self.prepare("PollForError", {"source_task_id": self.task})
        method.future(request, timeout=PATIENCE).add_done_callback(done)

    def hold(self):
        if not self.answered.wait(PATIENCE):
            sys.exit("the poll was not answered")
        tell(self.answer)

    def do(self, words):
        words = iter(words)
        for word in words:
            if word == "set":
                self.call("InsertKeyValue", kv={"key": next(words).encode(), "value": next(words).encode()})
            elif word in ("get", "try"):
                name = "GetKeyValue" if word == "get" else "TryGetKeyValue"
                tell(self.call(name, key=next(words).encode()).kv.value.decode())
            elif word == "barrier":
                self.call("Barrier", barrier_id=next(words).encode(), barrier_timeout_in_ms=1000 * PATIENCE,
                          source_task_id=self.task)
            elif word == "alive":
                tasks = range(int(os.environ["MUSTER_NUM_TASKS"]))
                tell(*self.call("GetAliveTasks", requesting_task_id=self.task, task_ids=tasks).alive_task_ids)
            elif word == "report":
                self.call("ReportErrorToService", error_code=13, error_message=next(words).encode(),
                          source_task_id=self.task)
            elif word == "shutdown":
                self.call("ShutdownTask", source_task_id=self.task)
            elif word == "say":
                tell(next(words))
            elif word == "await":
                path, end = next(words), time.monotonic() + PATIENCE
                while not os.path.exists(path):
                    if time.monotonic() > end:
                        sys.exit("%s did not come" % path)
                    time.sleep(0.01)  # sleep: between two looks at the condition
            elif word == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif word == "become":
                user = int(next(words))
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            elif word == "exit":
                os._exit(int(next(words)))
            else:
                getattr(self, word)()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default=os.environ.get("MUSTER_GRPC_ADDRESS"))
    parser.add_argument("--task", type=int, default=int(os.environ.get("MUSTER_TASK_ID", "0")))
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    try:
        Guest(args.address, args.task).do(args.words)
    except grpc.RpcError as error:
        tell("%s: %s" % (error.code().name, error.details()))
        os._exit(9)
    os._exit(0)  # without grpcio's own long goodbye


main()
