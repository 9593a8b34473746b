#!/usr/bin/env python3
"""init_process_group() of gloo: from the moment at which all ranks may call it until the last one's returns.

    store_init.py METRIC WHO MUSTER ROUNDS RANKS

With WHO "muster" the ranks are told, as `muster run --tcpstore` tells them, of a store that `muster serve` keeps; else rank 0
hosts it, as without torchrun: with the back end that PyTorch has by default, or, "torch-poll", the old one. The ranks are
forked of one process that has imported PyTorch, so that its seconds are nobody's. Each round has a store of its own.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store_server import in_namespace, without_name_server  # noqa: E402
from tcpstore import emit  # noqa: E402

import socket  # noqa: E402


def free_port():
    """Free a moment ago: rank 0 must be told, and so must the others."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def serve(muster):
    server = subprocess.Popen([muster, "serve", "--tasks", "1", "--tcpstore=127.0.0.1:0"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = server.stdout.readline().strip().rpartition(":")[2]
    if not port:
        raise SystemExit("store_init: the server did not start")
    return server, port


def environment(who, rank, ranks, port):
    found = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(ranks),
             "GLOO_SOCKET_IFNAME": "lo"}
    if who == "muster":
        found |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    if who == "torch-poll":
        found["USE_LIBUV"] = "0"
    return found


def rank_of(dist, variables, ready, go, done, over):
    """A rank: says that it is there, waits, begins, says when it has begun, and stays until all have."""
    status = 1
    try:
        os.environ.update(variables)
        os.write(ready, b"r")
        os.read(go, 1)
        dist.init_process_group("gloo")
        os.write(done, time.monotonic_ns().to_bytes(8, "little"))
        os.read(over, 1)
        status = 0
    finally:
        os._exit(status)


def read_all(fd, size):
    """Of so many bytes, each rank's written at once; a rank that ends without them ends the run."""
    found = b""
    while len(found) < size:
        more = os.read(fd, size - len(found))
        if not more:
            raise SystemExit("store_init: a rank failed")
        found += more
    return found


def round_of(dist, who, ranks, port):
    pipes = {name: os.pipe() for name in ("ready", "go", "done", "over")}
    children = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            for name in ("go", "over"):
                os.close(pipes[name][1])
            rank_of(dist, environment(who, rank, ranks, port), pipes["ready"][1], pipes["go"][0], pipes["done"][1],
                    pipes["over"][0])
        children.append(pid)
    for name in ("ready", "done"):
        os.close(pipes[name][1])
    read_all(pipes["ready"][0], ranks)
    start = time.monotonic_ns()
    os.close(pipes["go"][1])
    stamps = read_all(pipes["done"][0], 8 * ranks)
    os.close(pipes["over"][1])
    for pid in children:
        os.waitpid(pid, 0)
    for fd in (pipes["ready"][0], pipes["go"][0], pipes["done"][0], pipes["over"][0]):
        os.close(fd)
    return max(int.from_bytes(stamps[i:i + 8], "little") for i in range(0, len(stamps), 8)) - start


def main():
    metric, who, muster, rounds, ranks = sys.argv[1:]
    if not in_namespace():
        command = without_name_server([sys.executable, *sys.argv])
        os.execvp(command[0], command)
    import torch.distributed as dist
    samples = []
    for i in range(int(rounds) + 1):  # the first warms the caches
        server, port = serve(muster) if who == "muster" else (None, free_port())
        try:
            took = round_of(dist, who, int(ranks), port)
        finally:
            if server:
                server.terminate()
                server.wait()
        if i:
            samples.append(took)
    emit(metric, samples, who)


main()
