#!/usr/bin/env python3
"""Starts a server of PyTorch's TCPStore, runs bench/store against it, and ends it.

    store_server.py muster MUSTER CLIENT SECONDS MOST             `muster serve --tcpstore`
    store_server.py torch-libuv|torch-poll PYTHON CLIENT ...      PyTorch's own, in a Python that has PyTorch

The server is on the second processor, its client on the first. PyTorch before 2.1 is spoken to in its own dialect.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

# A store that waits for nobody; the client needs no Python. Before 2.3 there is no word for the back end.
TORCH = """
import datetime, sys
import torch, torch.distributed as dist
more = {"use_libuv": sys.argv[1] == "torch-libuv"}
old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3)
store = dist.TCPStore("127.0.0.1", 0, None, True, datetime.timedelta(seconds=300), False, **({} if old else more))
print(torch.__version__, "old" if old else "new", store.port, flush=True)
sys.stdin.read()
"""

# PyTorch's server looks up the name of each client that connects; a name server far away would be what is measured.
FILES_ALONE = 'echo "hosts: files" > "$0" && mount --bind "$0" /etc/nsswitch.conf && rm "$0" && exec "$@"'
APART = "MUSTER_BENCH_NAMES"  # in the environment: names come from where it says


def in_namespace():
    return APART in os.environ


def without_name_server(command):
    """The command with a mount namespace of its own, in which names come from /etc/hosts; as it is where that is not allowed."""
    space = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    path = os.path.join(tempfile.gettempdir(), "bench-nsswitch-%d" % os.getpid())
    able = shutil.which("unshare") and subprocess.run([*space, "sh", "-c", FILES_ALONE, path, "true"], stdin=subprocess.DEVNULL,
                                                      stderr=subprocess.DEVNULL).returncode == 0
    os.environ[APART] = "/etc/hosts" if able else "the name server"
    print(json.dumps({"fact": "torch's clients", "text": "named by " + os.environ[APART]}), flush=True)
    return [*space, "sh", "-c", FILES_ALONE, path, *command] if able else command


def second_processor():
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[1 % len(allowed)]})


def start(who, program):
    """(the process, dialect, port); no port when it did not start."""
    command = ([program, "serve", "--tasks", "1", "--tcpstore=127.0.0.1:0"] if who == "muster"
               else without_name_server([program, "-c", TORCH, who]))
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              preexec_fn=second_processor)
    line = server.stdout.readline().split()
    if who == "muster":
        return server, "new", line[-1].rpartition(":")[2] if line else ""
    if len(line) != 3:
        return server, "", ""
    print(json.dumps({"fact": who, "text": "PyTorch " + line[0]}), flush=True)
    return server, line[1], line[2]


def main():
    who, program, client, seconds, most = sys.argv[1:]
    server, dialect, port = start(who, program)
    try:
        if not port:
            return "the server did not start"
        return subprocess.run([client, who, "127.0.0.1", port, seconds, str(server.pid), most, dialect], timeout=210).returncode
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
