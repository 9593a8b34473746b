#!/usr/bin/env python3
"""Metrics over HTTP: what a scrape says of a real job, and what clients that are slow, wrong or hostile get.

tests/agent/metrics_main.c runs the job and the server. Whatever was done to it, at the end its loop is left clean, and
under asan nothing has leaked. Every answer's text is read by exposition.py, which is strict.
"""
import contextlib
import errno
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import exposition

PROGRAM = os.path.join(os.environ["BUILD"], "tests/agent/metrics")
TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def check(condition, sentence, *args):
    if not condition:
        print("FAIL: " + (sentence % args if args else sentence))
        sys.exit(1)


@contextlib.contextmanager
def served(address, job="metrics-%d" % os.getpid()):
    process = subprocess.Popen([PROGRAM, address, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        words = process.stdout.readline().split()
        check(len(words) == 3, "the server did not start")
        process.address, process.pids = words[0], [int(word) for word in words[1:]]
        yield process
        process.stdin.close()
        said = process.stdout.read()
        check(process.wait(60) == 0 and said == "clean\n", "it ended with %s: %s", process.returncode, said)
    finally:
        process.kill()
        process.wait()


def port_of(server):
    return int(re.match(r"http://(?:127\.0\.0\.1|\[::1\]):(\d+)/metrics$", server.address).group(1))


def connect(port):
    one = socket.create_connection(("127.0.0.1", port))
    one.settimeout(60)
    return one


def read_all(one):
    data = b""
    while True:
        more = one.recv(65536)
        if not more:
            return data
        data += more


def scrape(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    check(answer.status == 200, "status %d", answer.status)
    check(answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8", "its type")
    return exposition.read(text)


def value(metrics, name, **labels):
    base = re.sub(r"_(sum|count|bucket)$", "", name) if name not in metrics else name
    for sample, has, number in metrics[base][2]:
        if sample == name and all(has.get(k) == v for k, v in labels.items()):
            return number
    check(False, "no %s %s", name, labels)


def until(what, port, condition):
    end = time.monotonic() + 60
    while True:
        metrics = scrape(port)
        if condition(metrics):
            return metrics
        check(time.monotonic() < end, "waited in vain until %s", what)
        time.sleep(0.1)  # sleep: between two looks


# ---- what it says ----

def says_what_the_job_did(server):
    port = port_of(server)
    metrics = scrape(port)
    info = metrics["muster_info"][2][0][1]
    check(info["muster_job"] == "metrics-%d" % os.getpid() and info["tasks"] == "2", "muster_info: %s", info)
    check(value(metrics, "muster_tasks", state="connected") == 2, "two tasks are connected")
    check(value(metrics, "muster_tasks", state="error") == 0, "none is in error")
    hosts = {labels["host"]: labels["pid"] for _, labels, _ in metrics["muster_task_info"][2]}
    check(list(hosts) == [socket.gethostname()], "their host: %s", hosts)
    pids = [int(labels["pid"]) for _, labels, _ in metrics["muster_task_info"][2]]
    check(pids == server.pids, "their pids: %s", pids)
    check(value(metrics, "muster_named_barriers_total") == 10, "five named barriers of two")
    check(value(metrics, "muster_group_barriers_total") == 10, "five group barriers of two")
    check(value(metrics, "muster_kv_writes_total") == 10, "ten keys")
    # Task 0 slept at each of the five named barriers, for the 20 ms of the other's work.
    waits = value(metrics, "muster_barrier_wait_seconds_count")
    check(waits >= 5, "%s waits at barriers", waits)
    check(value(metrics, "muster_barrier_wait_seconds_sum") > 0.05, "they slept")
    check(value(metrics, "muster_barrier_wait_seconds_bucket", le="+Inf") == waits, "+Inf is the count")
    check(value(metrics, "muster_segment_committed_bytes") > 65536, "memory is committed")
    check(value(metrics, "muster_segment_slots_in_use") >= 3, "three hold slots")
    check(abs(value(metrics, "muster_segment_created_timestamp_seconds") - time.time()) < 600, "made just now")
    check(value(metrics, "muster_task_alive", task="1") == 1, "task 1 lives")
    check(value(metrics, "muster_failures_total") == 3, "what the launcher has counted")
    # Counters do not fall, heartbeats rise.
    beats = value(metrics, "muster_task_heartbeats_total", task="0")
    later = until("a heart beats", port, lambda m: value(m, "muster_task_heartbeats_total", task="0") > beats)
    for name, (kind, _, rows) in metrics.items():
        for sample, labels, before in rows if kind in ("counter", "histogram") else []:
            check(value(later, sample, **labels) >= before, "%s %s fell", sample, labels)
    server.stdin.write("\n\n")
    server.stdin.flush()
    until("both restarts are counted", port, lambda m: value(m, "muster_restarts_total") == 2)


def says_who_is_stopped_and_who_is_dead(server):
    port = port_of(server)
    os.kill(server.pids[1], signal.SIGSTOP)
    until("the age of a stopped task grows", port, lambda m: value(m, "muster_task_heartbeat_age_seconds", task="1") > 3.2)
    os.kill(server.pids[1], signal.SIGCONT)
    until("it is young again", port, lambda m: value(m, "muster_task_heartbeat_age_seconds", task="1") < 3)
    os.kill(server.pids[1], signal.SIGKILL)
    metrics = until("a death is counted", port, lambda m: value(m, "muster_deaths_total") >= 1)
    check(value(metrics, "muster_tasks", state="error") == 1, "the dead is in error")
    check(value(metrics, "muster_task_alive", task="1") == 0, "and not alive")


def dashboard_names_what_is_exported(server):
    names = {sample for _, _, rows in scrape(port_of(server)).values() for sample, _, _ in rows}
    with open(os.path.join(TOP, "docs/grafana-dashboard.json"), encoding="utf-8") as f:
        board = json.load(f)
    texts = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    texts += [str(variable.get("query", "")) for variable in board["templating"]["list"]]
    used = set(re.findall(r"\bmuster_[a-z_]+\b", " ".join(texts))) - {"muster_job"}
    check(len(texts) >= 10 and len(used) >= 10, "the dashboard shows little: %s", used)
    check(not used - names, "the dashboard names what is not exported: %s", used - names)
    ids = [panel["id"] for panel in board["panels"]]
    check(len(ids) == len(set(ids)), "panels with the same id")
    for panel in board["panels"]:
        check(panel["title"] and panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, "panel %s", panel["title"])


def documentation_names_what_is_exported(server):
    metrics = scrape(port_of(server))
    with open(os.path.join(TOP, "docs/METRICS.md"), encoding="utf-8") as f:
        rows = dict(re.findall(r"^\| `(muster_(?!grpc_|tcpstore_|task_exit|ray|mindspore|elastic)\w+)` \| (\w+) \|", f.read(), re.M))  # those: launch/{grpc,tcpstore,metrics,elastic}_test.sh, schedule/workers_test.sh
    check(rows == {name: kind for name, (kind, _, _) in metrics.items()}, "docs/METRICS.md differs in %s",
          set(rows) ^ set(metrics))


# ---- how it answers ----

def answers(port, data):
    """What comes back on one connection until it is closed, as (status, headers, body) of the first answer."""
    with connect(port) as one:
        one.sendall(data)
        raw = read_all(one)
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("ascii").split("\r\n")
    headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines[1:])}
    match = re.match(r"HTTP/1\.1 (\d{3}) ", lines[0])
    check(match, "no answer to %r: %r", data[:60], raw[:60])
    check("HEAD" in data.decode("latin-1")[:5] or len(body) == int(headers["content-length"]), "the length: %r", raw[:200])
    return int(match.group(1)), headers, body


CLOSE = b"Host: x\r\nConnection: close\r\n\r\n"
TABLE = [
    (200, b"GET /healthz HTTP/1.1\r\n" + CLOSE), (200, b"GET /metrics?x=y HTTP/1.1\r\n" + CLOSE),
    (200, b"GET /healthz HTTP/1.0\r\n\r\n"), (200, b"GET http://any/healthz HTTP/1.1\r\n" + CLOSE),
    (200, b"GET /healthz HTTP/1.1\n" + CLOSE.replace(b"\r", b"")), (200, b"\r\nGET /healthz HTTP/1.0\r\n\r\n"),
    (200, b"HEAD /metrics HTTP/1.1\r\n" + CLOSE), (200, b"GET /healthz HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
    (404, b"GET / HTTP/1.1\r\n" + CLOSE), (404, b"GET /metrics/ HTTP/1.1\r\n" + CLOSE),
    (404, b"GET /../etc/passwd HTTP/1.1\r\n" + CLOSE), (404, b"GET * HTTP/1.0\r\n\r\n"),
    (405, b"POST /metrics HTTP/1.1\r\n" + CLOSE), (405, b"DELETE / HTTP/1.0\r\n\r\n"),
    (405, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
    (400, b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
    (400, b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, b"GET /metrics HTTP/1.1\r\n\r\n"), (400, b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    (400, b"GET metrics HTTP/1.1\r\n" + CLOSE), (400, b"GET  /metrics HTTP/1.1\r\n" + CLOSE), (400, b"hello\r\n"),
    (400, b"GET /metrics\r\n\r\n"), (400, b"GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n"),
    (400, b"GET /metrics HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"), (400, b"G\x00T / HTTP/1.1\r\n\r\n"),
    (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), (400, b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
    (400, b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), (400, b"GET / HTTP/x.1\r\n\r\n"),
    (414, b"GET /" + b"x" * 300 + b" HTTP/1.1\r\n" + CLOSE), (505, b"GET / HTTP/2.0\r\n\r\n"),
    (431, b"GET / HTTP/1.1\r\nX: " + b"x" * 9000), (431, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n"),
    (431, b"GET / HTTP/1.1\r\nX: " + b"x" * 60000 + b"\r\n\r\n"),
]


def answers_by_the_table(server):
    port = port_of(server)
    for status, data in TABLE:
        got, headers, body = answers(port, data)
        check(got == status, "%d instead of %d to %r", got, status, data[:80])
        check(headers["connection"] == "close", "it says that it closes: %r", data[:80])
        check(status != 405 or headers["allow"] == "GET, HEAD", "405 says what is allowed")
        check(not data.startswith(b"HEAD") or (body == b"" and int(headers["content-length"]) > 1000), "HEAD")
    # One byte at a time, and a client that closes its side first.
    with connect(port) as one:
        for byte in GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"):
            one.sendall(bytes([byte]))
        one.shutdown(socket.SHUT_WR)
        exposition.read(read_all(one).partition(b"\r\n\r\n")[2].decode())


def keeps_connections(server):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    connection.connect()
    mine = connection.sock
    for path, status in [("/metrics", 200), ("/nothing", 404), ("/healthz", 200), ("/metrics", 200)] * 5:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        check(answer.status == status and connection.sock is mine, "%s: %d on the same connection", path, answer.status)
    connection.close()
    # Three at once: three answers, in order.
    with connect(port_of(server)) as one:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /no HTTP/1.1\r\nHost: x\r\n\r\n" +
                    b"GET /healthz HTTP/1.1\r\n" + CLOSE)
        statuses = re.findall(rb"HTTP/1\.1 (\d+)", read_all(one))
    check(statuses == [b"200", b"404", b"200"], "answers to three at once: %s", statuses)


# ---- what hostile clients get ----

def survives_hostile_clients(server):
    port = port_of(server)
    # Somebody who drips bytes is cut off though he never falls silent; meanwhile others are served.
    with connect(port) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        slow.settimeout(0.3)
        end = time.monotonic() + 60
        while True:
            check(time.monotonic() < end, "a client that drips bytes is never cut off")
            try:
                slow.sendall(b"x")
                if slow.recv(100) == b"":
                    break
            except socket.timeout:
                scrape(port)
            except (BrokenPipeError, ConnectionResetError):
                break
    # More connections than it holds, all silent: a scrape works all the same, and the oldest are let go.
    crowd = [connect(port) for _ in range(100)]
    try:
        for _ in range(5):
            scrape(port)
        crowd[0].settimeout(60)
        check(crowd[0].recv(1) == b"", "the oldest was not let go")
    finally:
        for one in crowd:
            one.close()
    # Many requests at once of somebody who does not read the answers; resets; a body that never ends.
    with connect(port) as greedy:
        greedy.settimeout(2)
        with contextlib.suppress(OSError):
            for _ in range(2000):
                greedy.sendall(GET * 10)
        scrape(port)
    for data in (b"", b"GET", GET, GET * 20):
        one = connect(port)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.sendall(data)
        one.close()
    with connect(port) as endless, contextlib.suppress(OSError):
        endless.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        for _ in range(1000):
            endless.sendall(b"x" * 65536)
    scrape(port)


# ---- where it listens ----

def as_other(folder, work):
    """Another user's attempt, in a folder that it may be in: 0, or the errno."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(folder)
            os.setresuid(65534, 65534, 65534)
            work()
            status = 0
        except OSError as e:
            status = e.errno
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def listens_where_told():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "metrics.sock")
    with served("unix:" + path) as server:
        check(server.address == "unix:" + path and os.stat(path).st_mode & 0o777 == 0o600, "the socket's mode")
        refused("unix:" + path, "address already in use")
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)
            one.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            exposition.read(read_all(one).partition(b"\r\n\r\n")[2].decode())
        if os.geteuid() == 0:
            os.chmod(os.path.dirname(path), 0o755)
            for wanted in (errno.EACCES, 0):
                got = as_other(os.path.dirname(path), lambda: socket.socket(socket.AF_UNIX).connect("metrics.sock"))
                check(got == wanted, "another user at the Unix socket: %d", got)
                os.chmod(path, 0o666)
    check(not os.path.exists(path), "the socket is left")
    with socket.socket(socket.AF_UNIX) as dead:  # left by a server that was killed
        dead.bind(path)
    with served("unix:" + path):
        pass
    with open(path, "w", encoding="utf-8"):
        pass
    refused("unix:" + path, "address already in use")
    check(os.path.exists(path), "a file of somebody was removed")
    for address in ("0", ":0", "localhost:0", "127.0.0.1:0"):
        with served(address) as server:
            check(server.address.startswith("http://127.0.0.1:"), "%s is loopback: %s", address, server.address)
            refused("127.0.0.1:%d" % port_of(server), "address already in use")
            if os.geteuid() == 0:
                check(as_other("/", lambda: scrape(port_of(server))) == 0, "another user cannot read it on loopback")
    with served("*:0") as server:
        check(server.address.startswith("http://0.0.0.0:"), "every interface: %s", server.address)
    if os.path.exists("/proc/net/if_inet6") and open("/proc/net/if_inet6", encoding="ascii").read().startswith("0" * 31 + "1"):
        with served("[::1]:0") as server, socket.create_connection(("::1", port_of(server))) as one:
            one.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            check(read_all(one).startswith(b"HTTP/1.1 200 OK\r\n"), "over IPv6")
    for address in ("", "x", ":", ":x", ":99999", ":-1", "example.org:80", "::1:80", "[::1]", "[::1", "[x]:1", "unix:",
                    "unix:" + "x" * 200, "1.2.3:80", "127.0.0.1", "203.0.113.1:0"):
        refused(address, "")


def refused(address, why):
    done = subprocess.run([PROGRAM, address, "metrics-%d" % os.getpid()], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and why in done.stderr,
          "%s: %d: %s", address, done.returncode, done.stderr)


with served(":0") as shared:
    says_what_the_job_did(shared)
    dashboard_names_what_is_exported(shared)
    documentation_names_what_is_exported(shared)
    answers_by_the_table(shared)
    keeps_connections(shared)
    survives_hostile_clients(shared)
    says_who_is_stopped_and_who_is_dead(shared)
listens_where_told()
