#!/usr/bin/env python3
"""Starts a service for 256 tasks, runs a client of gRPC against it, and ends it.

    coordination.py muster MUSTER SECONDS CLIENT...      `muster serve`
    coordination.py jaxlib PYTHON SECONDS CLIENT...      JAX's own service, in the Python of an environment that has jaxlib
    coordination.py etcd ETCD SECONDS CLIENT...          etcd, a cluster of one, its data in memory: no disk is waited for

The client (bench/grpc, peers/grpcio_client.py) is told WHO HOST PORT SECONDS and the service's pid. The service is on the
second processor, and the first two are alike otherwise: heartbeat timeout 10 s, who registers waits for all.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

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


def free_port():
    """Free a moment ago: etcd cannot be told to choose."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(command, **more):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            preexec_fn=second_processor, **more)


def start_etcd(program, folder):
    client, peer = ("http://127.0.0.1:%d" % free_port() for _ in range(2))
    service = start([program, "--data-dir", folder, "--listen-client-urls", client, "--advertise-client-urls", client,
                     "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                     "default=" + peer, "--log-level", "error"], stdout=subprocess.DEVNULL)
    host, port = client.rpartition("/")[2].split(":")
    for _ in range(1500):
        with socket.socket() as one:
            if one.connect_ex((host, int(port))) == 0:
                return service, host, port
        if service.poll() is not None:
            break
        time.sleep(0.01)
    return service, host, ""


def start_service(who, program, folder):
    if who == "etcd":
        return start_etcd(program, folder)
    service = start([program, "serve", "--tasks", "256", "--grpc", "127.0.0.1:0", "--heartbeat-timeout", "10s"]
                    if who == "muster" else [program, "-c", JAXLIB], stdout=subprocess.PIPE)
    host, _, port = service.stdout.readline().strip().rpartition(":")
    return service, host, port


def main():
    who, program, seconds, *client = sys.argv[1:]
    folder = tempfile.mkdtemp(prefix="bench-%d-etcd-" % os.getpid(), dir="/dev/shm") if who == "etcd" else None
    service, host, port = start_service(who, program, folder)
    try:
        if not port:
            return "the service did not start"
        return subprocess.run([*client, who, host, port, seconds, str(service.pid)], timeout=150).returncode
    finally:
        service.terminate()
        try:
            service.wait(10)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
