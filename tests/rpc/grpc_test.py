#!/usr/bin/env python3
"""The server as a client of gRPC sees it that is not ours: messages of all sizes, errors, deadlines, cancellation,
compression, ten thousand calls at once, sockets of both kinds, and an orderly end."""
# timeout: 240
import os
import stat
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import grpc
except ImportError:
    print("python3-grpcio is not installed")
    sys.exit(77)
from serving import PATIENCE, check, served, wait_for

ENDLESS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
TRUNCATED = " ... [truncated]"


class Client:
    def __init__(self, server, options=(), **more):
        self.channel = grpc.insecure_channel(server.address, options=ENDLESS + list(options), **more)
        for name in "Echo", "Big", "Park", "Release", "Refuse", "Count", "None":
            setattr(self, name.lower(), self.channel.unary_unary("/mu.test.Test/" + name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def counts(self):
        """[parked, ended, connections, begun]"""
        return [int(n) for n in self.count(b"", timeout=PATIENCE).split()]

    def wait_counts(self, parked, ended):
        wait_for("%d calls that wait and %d that ended" % (parked, ended), lambda: self.counts()[:2] == [parked, ended])


def fails(call, *args, **more):
    try:
        call(*args, **more)
    except grpc.RpcError as error:
        return error
    check(False, "a call that should fail was answered")


def sizes():
    with served() as server, Client(server) as client:
        for size in [0, 1, 5, 255, 256, 257, 16378, 16379, 16384, 65536, 1 << 20, (5 << 20) + 1]:
            message = os.urandom(size)
            check(client.echo(message, timeout=PATIENCE) == message, "a message of %d bytes came back otherwise", size)
        message = os.urandom(1 << 20) * 64
        check(client.echo(message, timeout=PATIENCE) == message, "a message of 64 MiB came back otherwise")


def errors():
    with served("127.0.0.1:0", "message=1000000", "held=2100000") as server, Client(server) as client:
        error = fails(client.none, b"")
        check(error.code() == grpc.StatusCode.UNIMPLEMENTED, "an unknown method: %s", error.code())
        for number, code in enumerate(list(grpc.StatusCode)[1:], 1):
            error = fails(client.refuse, b"%d d\0e\xfftails why not? 100%% of \xc3\xa4\n" % number)
            check(error.code() == code and error.details() == "why not? 100% of \xe4\n", "%s: %s", error.code(), error.details())
            details = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
            check(details == [b"d\0e\xfftails"], "the details came as %r", details)
        error = fails(client.refuse, b"13  " + b"x" * 3072)
        check(error.details() == "x" * 3072 and not error.trailing_metadata(), "3072 bytes are cut, or details came from nowhere")
        error = fails(client.refuse, b"13  " + b"x" * 3073)
        check(error.details() == "x" * 3072 + TRUNCATED, "3073 bytes came as %r", error.details()[3050:])
        error = fails(client.refuse, b"13  " + "\xe4".encode() * 3000)  # nine bytes of header for two of text
        check(error.details() == "\xe4" * ((len(error.details()) - len(TRUNCATED))) + TRUNCATED, "a character was halved")
        check(len(error.details()) > 1200, "only %d characters were left", len(error.details()))
        error = fails(client.refuse, b"13 %s x" % (b"d" * 3000))
        check(error.trailing_metadata()[0][1] == b"d" * 3000, "details of 3000 bytes came otherwise")
        error = fails(client.refuse, b"13 %s x" % (b"d" * 30000))  # nobody could take them
        check(error.details() == "x" and not error.trailing_metadata(), "details of 30000 bytes were sent")
        error = fails(client.echo, b"x" * 1000001)
        check(error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "1000001 bytes; 1000000 are the most" in error.details(),
              "a message that is too large: %s", error.details())
        error = fails(client.echo, b"x" * 1000001, compression=grpc.Compression.Gzip)
        check(error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "more than 1000000 bytes" in error.details(),
              "a message that inflates too far: %s", error.details())
        error = fails(client.big, b"2200000")
        check(error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "no room for an answer" in error.details(),
              "an answer that is too large: %s", error.details())
        check(client.echo(b"x" * 1000000) == b"x" * 1000000, "the largest message was not taken")


def compression():
    with served() as server:
        for how in grpc.Compression.Gzip, grpc.Compression.Deflate:
            with Client(server, compression=how) as client:
                for size in 0, 1, 100, 100000, 20 << 20:  # small ones are sent as they are, under the same headers
                    check(client.echo(b"A" * size, timeout=PATIENCE) == b"A" * size, "%s: %d bytes came otherwise", how, size)


def deadlines():
    with served() as server, Client(server) as client:
        error = fails(client.park, b"", timeout=0.1)
        check(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, "a deadline: %s", error.code())
        client.wait_counts(0, 1)
        waiting = client.park.future(b"")
        client.wait_counts(1, 1)
        waiting.cancel()
        client.wait_counts(0, 2)
        waiting = client.park.future(b"", timeout=PATIENCE)
        client.wait_counts(1, 2)
        check(client.release(b"") == b"1" and waiting.result(PATIENCE) == b"released", "a call that waited was not answered")
        check(client.counts()[:2] == [0, 2], "an answered call ended once more")
        with Client(server) as other:
            kept = other.park.future(b"")  # a call that nobody has is cancelled
            client.wait_counts(1, 2)
            check(not kept.done(), "a call that waits is over")
        client.wait_counts(0, 3)  # its connection is closed
        wait_for("a word of the connection's end", lambda: "by its peer" in server.said())


def many(count):
    """So many calls wait in one connection: answered, then cancelled; somebody else is served meanwhile."""
    with served() as server, Client(server) as client, Client(server) as other:
        waiting = [client.park.future(b"") for _ in range(count)]
        other.wait_counts(count, 0)
        check(other.echo(b"x", timeout=PATIENCE) == b"x", "another client was not served")
        check(other.release(b"", timeout=PATIENCE) == b"%d" % count, "not all were there")
        for call in waiting:
            check(call.result(PATIENCE) == b"released", "one was not answered")
        waiting = [client.park.future(b"") for _ in range(count)]
        other.wait_counts(count, 0)
        for call in waiting:
            call.cancel()
        other.wait_counts(0, count)
        check(client.echo(b"x", timeout=PATIENCE) == b"x", "whoever cancels many calls is sent away")


def sockets():
    path = os.path.join(os.environ["TMPDIR"], "socket")
    with served("unix:" + path) as server, Client(server) as client:
        check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "others may connect to the socket")
        check(client.echo(b"x") == b"x", "no answer over a Unix socket")
        kept = client.park.future(b"")
        client.wait_counts(1, 0)
        check(not kept.done(), "a call that waits is over")
    check("closed: pid %d: " % os.getpid() in server.words, "who spoke was not known: %s", server.words)
    check(not os.path.exists(path), "the socket stayed")
    with served(":0") as server:
        port = server.address.rsplit(":", 1)[1]
        for host in "127.0.0.1", "[::1]", "localhost":
            if host == "[::1]" and not os.path.exists("/proc/net/if_inet6"):
                print("there is no IPv6 here")
                continue
            server.address = host + ":" + port
            with Client(server) as client:
                check(client.echo(b"x", timeout=PATIENCE) == b"x", "no answer at %s", host)


def stopping():
    with served("127.0.0.1:0", "grace=60000") as server, Client(server) as client:
        waiting = client.park.future(b"", timeout=2)
        client.wait_counts(1, 0)
        server.stop()
        wait_for("the end of listening", lambda: refuses(server))
        error = fails(waiting.result, PATIENCE)  # it goes on, until its own deadline; and then there is nothing to wait for
        check(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, "a call that goes on while the server stops: %s", error.code())
    with served("127.0.0.1:0", "grace=0") as server, Client(server) as client:
        waiting = client.park.future(b"", timeout=PATIENCE)
        client.wait_counts(1, 0)
        server.stop()
        error = fails(waiting.result, PATIENCE)
        check(error.code() == grpc.StatusCode.UNAVAILABLE and "the server is stopping" in error.details(), "it says %s", error.details())


def refuses(server):
    with Client(server) as client:
        return fails_quietly(client)


def fails_quietly(client):
    try:
        client.echo(b"", timeout=PATIENCE)
        return False
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE


def health():
    """grpc.health.v1, whose messages are one field each."""
    with served() as server, Client(server) as client:
        probe = client.channel.unary_unary("/grpc.health.v1.Health/Check")
        watch = client.channel.unary_stream("/grpc.health.v1.Health/Watch")
        for service in b"", b"mu.test.Test", b"grpc.health.v1.Health":
            check(probe(b"\x0a%c%s" % (len(service), service)) == b"\x08\1", "%s is not healthy", service)
        check(probe(b"") == b"\x08\1" and probe(b"\x0a\0\x0a\x0cmu.test.Test") == b"\x08\1", "the server is not healthy")
        for service in b"mu.test.Tes", b"mu.test.Test2", b"x":
            error = fails(probe, b"\x0a%c%s" % (len(service), service))
            check(error.code() == grpc.StatusCode.NOT_FOUND, "%s: %s", service, error.code())
        check(probe(b"\x12\0") == b"\x08\1", "a field that is not known was not skipped")
        for wrong in b"\x0a", b"\x0a\2x", b"\x0a\xff\xff\xff\xff\xff\xff", b"\x0a\1\xff", b"x":
            check(fails(probe, wrong).code() == grpc.StatusCode.INVALID_ARGUMENT, "%r is taken", wrong)
            check(fails(next, watch(wrong)).code() == grpc.StatusCode.INVALID_ARGUMENT, "%r is taken", wrong)
        watches = [watch(b"") for _ in range(100)]
        check(all(next(one) == b"\x08\1" for one in watches), "a watcher is not told")
        unknown = watch(b"\x0a\1x")
        check(next(unknown) == b"\x08\3", "who watches a service that is not there is not told")
        watches.pop().cancel()
        short = watch(b"", timeout=0.1)
        check(next(short) == b"\x08\1" and fails(next, short).code() == grpc.StatusCode.DEADLINE_EXCEEDED, "a watch with a deadline")
        server.stop()
        for one in watches + [unknown]:
            check(list(one) == [b"\x08\2"], "a watcher is not told of the end")


def threads():
    """Many threads and connections at once, each with its own bytes."""
    def work(server, number, wrong):
        with Client(server) as client:
            for i in range(100):
                message = b"%d-%d-" % (number, i) * (i * 7 % 300)
                if client.echo(message, timeout=PATIENCE) != message:
                    wrong.append(i)
    with served() as server:
        wrong = []
        workers = [threading.Thread(target=work, args=(server, n, wrong)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        check(not wrong, "calls got each other's answers")


sizes()
errors()
compression()
deadlines()
many(10000 if os.environ.get("VARIANT", "").startswith("release") else 2000)
sockets()
stopping()
health()
threads()
