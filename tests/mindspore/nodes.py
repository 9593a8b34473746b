"""Nodes of MindSpore's clusters, as independent peers over plain sockets: ps core (1.5 to 1.8) and RPC0 (1.10 to 2.10)."""
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

MUSTER = os.path.join(os.environ["BUILD"], "muster")
PATIENCE = 60  # seconds; far more than anything here takes
TERMINATE, REGISTER, HEARTBEAT, SEND_DATA, FETCH, FINISH, _, METADATA, OUT, IN, OUT_DONE, IN_DONE, EVENT = range(13)
STARTING, READY, EXIT, TIMEOUT, SCALING_OUT, SCALING_IN = range(6)
SERVER, WORKER = 0, 1
NO_RANK = 0xffffffff


running = []  # services


def check(condition, sentence, *args):
    if not condition:
        print("FAIL: " + (sentence % args if args else sentence))
        for service in running:
            print("the service's words:\n" + service.said())
        sys.stdout.flush()
        os._exit(1)


def wait_for(what, condition):
    """Until it is true, and then what it is."""
    end = time.monotonic() + PATIENCE
    while True:
        got = condition()
        if got:
            return got
        check(time.monotonic() < end, "%s did not come about in %d s", what, PATIENCE)
        time.sleep(0.01)  # sleep: between two looks


# ---- protobuf, as much of it as is needed ----

def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def pack(**fields):
    """f1=number, f2=text or bytes, ...; what is 0 or empty is left out"""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value if value else b""
        elif value:
            out += varint(number << 3) + varint(value)
    return out


def unpack(data):
    """{number: [values]}"""
    out, at = {}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return n
    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            at, value = at + value, data[at:at + value]
        out.setdefault(tag >> 3, []).append(value)
    return out


def first(fields, number, default=0):
    return fields.get(number, [default])[0]


# ---- ps core ----

def frame(proto, meta, body):
    return struct.pack("<IIQ", proto, len(meta), len(meta) + len(body)) + meta + body


def read(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_frame(sock):
    proto, meta, total = struct.unpack("<IIQ", read(sock, 16))
    data = read(sock, total)
    return proto, data[:meta], data[meta:]


class Node:
    """A server or a worker: registers, beats, and does as it is told, as MindSpore 1.5 does."""

    def __init__(self, address, name, role=SERVER, scales=True, listens=True):
        self.name, self.role, self.scales, self.obeys = name, role, scales, True
        self.pushes, self.beats, self.lock = [], [], threading.Lock()  # (command, body); what was told without asking
        self.request_id, self.answers, self.rank, self.claim = 0, {}, None, NO_RANK
        self.door = socket.create_server(("127.0.0.1", 0)) if listens else None
        self.port = self.door.getsockname()[1] if listens else 1
        if listens:
            threading.Thread(target=self.listen, daemon=True).start()
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)))
        threading.Thread(target=self.hear, args=(self.sock,), daemon=True).start()

    def ask(self, command, body, proto=1, rank=0):
        with self.lock:
            self.request_id += 1
            number = self.request_id
            self.sock.sendall(frame(proto, pack(f1=command, f2=number, f4=rank), body))
        wait_for("an answer to %d of %s" % (command, self.name), lambda: number in self.answers)
        return self.answers[number]

    def register(self):
        answer = unpack(self.ask(REGISTER, pack(f1="127.0.0.1", f2=self.port, f3=self.name, f4=self.role), rank=self.claim))
        self.rank = first(answer, 2)
        return self.rank

    def beat(self):
        """(state, {id: (rank, alive)}, whether it is the end)"""
        return beaten(self.ask(HEARTBEAT, pack(f1=self.name)))

    def finish(self):
        return self.ask(FINISH, self.name.encode(), proto=0)

    def hear(self, sock):
        try:
            while True:
                _, meta, body = read_frame(sock)
                fields = unpack(meta)
                if first(fields, 2) == 0:
                    self.beats.append(beaten(body))
                else:
                    self.answers[first(fields, 2)] = body
        except (EOFError, OSError):
            self.closed = True

    def listen(self):
        try:
            while True:
                conn, _ = self.door.accept()
                threading.Thread(target=self.serve, args=(conn,), daemon=True).start()
        except OSError:
            pass

    def serve(self, conn):
        try:
            while True:
                _, meta, body = read_frame(conn)
                conn.sendall(frame(0, meta, body))
                command = first(unpack(meta), 1)
                self.pushes.append((command, body))
                threading.Thread(target=self.obey, args=(command, unpack(body)), daemon=True).start()
        except (EOFError, OSError):
            pass

    def obey(self, command, fields):
        if not self.obeys:
            return
        if command == METADATA:
            self.rank = self.claim = first(fields, 5)
            if first(fields, 4) in (SCALING_OUT, SCALING_IN) and self.scales:
                self.ask(OUT_DONE if first(fields, 4) == SCALING_OUT else IN_DONE, pack(f1=self.name))
        elif command in (OUT, IN) and self.scales and not first(fields, 3):
            self.ask(REGISTER, pack(f1="127.0.0.1", f2=self.port, f3=self.name, f4=self.role), rank=self.claim)

    def told(self, command):
        return [body for c, body in list(self.pushes) if c == command]

    def metadata(self):
        """of each time: (state, own rank, workers, servers, {rank: port})"""
        return [(first(f, 4), first(f, 5), first(f, 2), first(f, 3),
                 {first(m, 1): first(m, 3) for m in map(unpack, f.get(1, []))}) for f in map(unpack, self.told(METADATA))]

    def die(self):
        """As a process that is killed: everything is closed at once, and it answers nobody."""
        if self.door:
            self.door.close()
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def beaten(body):
    fields = unpack(body)
    members = {}
    for member in map(unpack, fields.get(2, [])):
        members[first(member, 6, b"").decode()] = (first(member, 1), bool(first(member, 4)))
    return first(fields, 1), members, bool(first(fields, 3))


# ---- the service ----

class Service:
    """muster serve --mindspore"""

    def __init__(self, servers, workers, *options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [MUSTER, "serve", "--mindspore", "--servers", str(servers), "-n", str(servers + workers)] + list(options),
            stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)
        self.address = self.process.stdout.readline().decode().strip()
        check(self.address, "the service did not start: %s", self.said())

    def said(self):
        """All of it; the service shares the file's position, which stays where it is."""
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode(errors="replace")

    def http(self, path, body=None):
        """(status, what the body says)"""
        host, port = self.address.rsplit(":", 1)
        conn = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        conn.request("GET" if body is None else "POST", path,
                     body if body is None or isinstance(body, str) else json.dumps(body))
        answer = conn.getresponse()
        check(answer.reason == "Client", "the reason of %s is %s", path, answer.reason)
        text = answer.read().decode()
        conn.close()
        return answer.status, json.loads(text)

    def state(self):
        return self.http("/state")[1]["cluster_state"]

    def cluster(self, servers, workers=0, **how):
        nodes = [Node(self.address, "s%d" % i, SERVER, **how) for i in range(servers)]
        nodes += [Node(self.address, "w%d" % i, WORKER, **how) for i in range(workers)]
        for node in nodes:
            node.register()
        for node in nodes:
            wait_for("the metadata of " + node.name, node.metadata)
        return nodes

    def stop(self, status=0):
        if self.process.poll() is None and status == 0:
            self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(PATIENCE)
        check(got in (status, 128 + signal.SIGTERM if status == 0 else status), "the service ended with %d: %s", got, self.said())

    def __enter__(self):
        running.append(self)
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print("the service's words:\n" + self.said())
        running.remove(self)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# ---- RPC0 ----

class Client:
    """A worker of MindSpore 1.10 to 2.10. found: what it takes for a key that is there, 10 or 11."""

    def __init__(self, address, name, role="MS_WORKER", host="vm", found=11):
        self.address, self.name, self.role, self.host, self.found = address, name, role, host, found
        at, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((at, int(port)))
        self.sock.settimeout(PATIENCE)

    def ask(self, name, body, answers=True):
        name, to = str(name).encode(), ("@" + self.address).encode()
        self.sock.sendall(b"RPC0" + struct.pack(">IIII", len(name), len(to), 1, len(body)) + name + to + b"@" + body)
        if not answers:
            return None
        head = read(self.sock, 20)
        check(head[:4] == b"RPC0", "an answer begins with %s", head)
        lens = struct.unpack(">IIII", head[4:])
        name = read(self.sock, lens[0])
        read(self.sock, lens[1] + lens[2])
        return int(name), read(self.sock, lens[3])

    def register(self):
        name, body = self.ask(0, pack(f1=self.name, f2=self.host, f3=self.role, f4="127.0.0.1"))
        fields = unpack(body)
        check(name == 3, "a registration is answered by %d", name)
        return first(fields, 1), first(fields, 2), first(fields, 3)

    def beat(self):
        fields = unpack(self.ask(2, pack(f1=self.name))[1])
        return first(fields, 1), first(fields, 2), first(fields, 3), first(fields, 4)

    def write(self, key, value):
        self.ask(6, pack(f1=key, f2=value), answers=False)

    def read(self, key, name=7):
        """The value; None: not there, as this client understands it."""
        code, body = self.ask(name, pack(f1=key))
        return first(unpack(body), 2, b"") if code == self.found else None

    def own_rank(self):
        return wait_for("the rank of " + self.name, lambda: self.read(self.role + self.name))
