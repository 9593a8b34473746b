#!/usr/bin/env python3
"""Starts a coordination service for 256 tasks, then runs bench/grpc against it and ends it.

    coordination.py muster MUSTER GRPC SECONDS         `muster serve`
    coordination.py jaxlib PYTHON GRPC SECONDS         JAX's own service, in the Python of an environment that has jaxlib

Both: heartbeat timeout 10 s, who registers waits for all, the service on the second processor.
"""
import os
import subprocess
import sys

JAXLIB = """
import socket, sys
from jaxlib import _jax
one = socket.socket(); one.bind(("127.0.0.1", 0)); port = one.getsockname()[1]; one.close()
service = _jax.get_distributed_runtime_service("127.0.0.1:%d" % port, 256, heartbeat_timeout=10, shutdown_timeout=60)
print("127.0.0.1:%d" % port, flush=True)
sys.stdin.read()
"""


def second_processor():
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[1 % len(allowed)]})


who, program, client, seconds = sys.argv[1:]
command = ([program, "serve", "--tasks", "256", "--grpc", "127.0.0.1:0", "--heartbeat-timeout", "10s"] if who == "muster"
           else [program, "-c", JAXLIB])
service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           preexec_fn=second_processor)
try:
    host, _, port = service.stdout.readline().strip().rpartition(":")
    if not port:
        sys.exit("the service did not start")
    status = subprocess.run([client, who, host, port, seconds], timeout=150).returncode
finally:
    service.terminate()
    try:
        service.wait(10)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()
sys.exit(status)
