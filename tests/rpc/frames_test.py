#!/usr/bin/env python3
"""Requests as bytes: what is no call of gRPC is refused in words, and how a message is cut into frames does not matter."""
import gzip
import os
import socket
import struct
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from frames import (ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE, PRIORITY, PROTOCOL_ERROR,
                    PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, Raw, block, frame, message, request, settings)
from serving import check, served, wait_for

OTHER = 65534  # a user
OK, INVALID, LATE, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 3, 4, 8, 12, 13


def refused(one, number, status, words):
    got, text = one.status(number)
    check(got == status and words in text, "wanted %d \"%s\", got %d \"%s\"", status, words, got, text)


def with_message(one, payload, *more):
    number = one.begin("Echo", *more)
    one.send(frame(DATA, END_STREAM, number, payload))
    return number


def cut_anyhow(one):
    body = os.urandom(300)
    whole = message(body)
    number = one.begin("Echo")
    for i in range(len(whole)):
        one.send(frame(DATA, 0, number, whole[i:i + 1]))
    one.send(frame(DATA, END_STREAM, number))
    check(one.answer(number)[1] == whole, "a message cut into bytes came back otherwise")
    number = one.begin("Echo")
    one.send(frame(DATA, PADDED, number, b"\x07" + whole[:3] + b"\0" * 7), frame(DATA, PADDED, number, b"\x00" + whole[3:7]))
    one.send(frame(DATA, 0, number), frame(DATA, PADDED | END_STREAM, number, b"\xff" + whole[7:] + b"\0" * 255))
    check(one.answer(number)[1] == whole, "a padded message came back otherwise")
    number, one.next = one.next, one.next + 2
    head = request("Echo")
    one.send(frame(HEADERS, 0, number, head[:20]), frame(CONTINUATION, 0, number, head[20:50]),
             frame(CONTINUATION, END_HEADERS, number, head[50:]), frame(DATA, 0, number, whole),
             frame(HEADERS, END_HEADERS | END_STREAM, number, block(("trailer", "x"))))
    check(one.answer(number)[1] == whole, "headers in pieces, and trailers, were not understood")


def no_calls(one):
    number = one.begin("Echo", content="application/json")
    refused(one, number, INVALID, "wants POST, and content-type application/grpc")
    check(one.answers[number][0][":status"] == "415", "a strange content type got HTTP's %s", one.answers[number][0][":status"])
    refused(one, one.begin("Echo", content="application/grpcx"), INVALID, "content-type")
    refused(one, one.begin("Echo", method="GET"), INVALID, "wants POST")
    for content in "application/grpc+proto", "application/grpc;charset=utf-8":
        number = one.begin("Echo", content=content)
        one.send(frame(DATA, END_STREAM, number, message(b"x")))
        check(one.status(number)[0] == OK, "%s was refused", content)
    refused(one, one.ask("Echo2"), UNIMPLEMENTED, "no such method")
    refused(one, one.ask("Ech"), UNIMPLEMENTED, "no such method")
    for late in "", "1", "S", "1s", "-1S", "123456789S", "1.0S":
        refused(one, one.ask("Echo", b"", ("grpc-timeout", late)), INVALID, "grpc-timeout")
    number = one.begin("Echo", ("custom-bin", "AAECAw"), ("x" * 100, "y" * 8000))
    one.send(frame(DATA, END_STREAM, number, message(b"x")))
    check(one.status(number)[0] == OK, "headers of 8 KB were refused")


def no_messages(one):
    refused(one, with_message(one, b""), INTERNAL, "without a message")
    refused(one, with_message(one, b"\0\0\0"), INTERNAL, "within a message")
    refused(one, with_message(one, message(b"abc")[:-1]), INTERNAL, "within a message")
    refused(one, with_message(one, message(b"abc") + b"\0"), INTERNAL, "a second message")
    refused(one, with_message(one, message(b"abc") * 2), INTERNAL, "a second message")
    number = one.begin("Echo")
    one.send(frame(DATA, 0, number, message(b"abc")), frame(DATA, END_STREAM, number, b"\0\0"))
    check(one.status(number)[0] == INTERNAL, "two bytes behind a message were taken")
    refused(one, with_message(one, message(b"abc", 2)), INTERNAL, "flags 2")
    refused(one, with_message(one, message(b"abc", 1)), INTERNAL, "no grpc-encoding")
    refused(one, with_message(one, message(b"abc", 1), ("grpc-encoding", "zstd")), UNIMPLEMENTED, "gzip or deflate")
    check(one.status(with_message(one, message(b"abc"), ("grpc-encoding", "zstd")))[0] == OK, "nothing was compressed, and refused")
    squeezed = gzip.compress(b"x" * 100000)
    for wrong in b"", b"abc", squeezed[:-1], squeezed + b"x", zlib.compress(b"abc"), squeezed[:20] + b"\xff" * 20 + squeezed[40:]:
        refused(one, with_message(one, message(wrong, 1), ("grpc-encoding", "gzip")), INTERNAL, "cannot be inflated")
    for name, bytes_ in ("gzip", squeezed), ("deflate", zlib.compress(b"x" * 100000)):
        number = with_message(one, message(bytes_, 1), ("grpc-encoding", name))
        check(one.answer(number)[1] == message(b"x" * 100000), "%s was not understood", name)
    number = one.begin("Echo")
    one.send(frame(DATA, 0, number, struct.pack(">BI", 0, 0xffffffff)))
    refused(one, number, EXHAUSTED, "4294967295 bytes; 1000000 are the most")
    check(one.take()[:1] == (RST_STREAM,), "the rest of a refused request is still wanted")


def own_clock(one):
    """The client's deadline is kept by the server, whatever the client does; in any order."""
    late = [one.ask("Park", b"", ("grpc-timeout", text)) for text in ("300m", "100000u", "200m", "0n", "50000000n")]
    for number in late:
        refused(one, number, LATE, "deadline has passed")
    half = one.begin("Echo", ("grpc-timeout", "50m"))
    refused(one, half, LATE, "deadline has passed")


def what_means_nothing(one):
    one.send(settings((0xFE03, 1), (0x7777, 5), (2, 0)), frame(PING, 0, 0, b"12345678"), frame(0x42, 0xff, 0, b"unknown"),
             frame(PRIORITY, 0, 99, b"\0\0\0\0\x10"), frame(WINDOW_UPDATE, 0, 0, b"\0\1\0\0"))
    check(one.echo(b"x") and one.pings == 1 and one.acks == 2, "PING or SETTINGS were not answered: %d, %d", one.pings, one.acks)


def cancelled(one):
    number = one.ask("Park")
    one.send(frame(RST_STREAM, 0, number, struct.pack(">I", CANCEL)))
    number = one.ask("Echo", b"x")  # begun and taken back by one write: it need not begin
    one.send(frame(RST_STREAM, 0, number, struct.pack(">I", CANCEL)))
    wait_for("the end of a call", lambda: one.answer(one.ask("Count"))[1][5:].split()[0] == b"0")


def against_the_protocol(server):
    """GOAWAY, and nobody else hears of it."""
    bad = [
        frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS, 2, request("Echo")), frame(HEADERS, END_HEADERS, 0, request("Echo")),
        frame(CONTINUATION, 0, 1, b"x"), frame(PING, 0, 0, b"short"), frame(PING, 0, 1, b"12345678"), frame(SETTINGS, 0, 0, b"12345"),
        frame(SETTINGS, ACK, 0, b"123456"), frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2,
        frame(RST_STREAM, 0, 1, b"\0\0\0\0"), frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2"), b"\xff" * 9,
        frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"), frame(HEADERS, END_HEADERS, 1, b"\x00"),
        frame(HEADERS, 0, 1, request("Echo")) + frame(DATA, 0, 1, b"x"), settings((4, 0x80000000)), settings((5, 1)),
    ]
    for i, bytes_ in enumerate(bad):
        with Raw(server.address) as one:
            one.send(bytes_)
            check(one.to_the_end() is not None, "no GOAWAY for the bad bytes %d", i)
    with Raw(server.address) as one:  # of one call only
        number, one.next = one.next, one.next + 2
        one.send(frame(HEADERS, END_HEADERS, number, request("Echo", ("Upper-Case", "x"))))
        one.answer(number)
        check(one.resets.get(number) == PROTOCOL_ERROR and one.echo(b"x"), "bad headers of one call were not its own")


def bad_headers():
    """A call whose headers are refused before they end is over; its connection does not wait for their end."""
    with served("127.0.0.1:0", "handshake=300") as server, Raw(server.address) as one:
        number = one.begin("Echo", ("Upper-Case", "x"))
        one.answer(number)
        check(one.resets.get(number) == PROTOCOL_ERROR, "bad headers were answered with %s", one.resets)
        with Raw(server.address, greet=False) as late:  # who came later than those headers is sent away for its silence
            late.to_the_end()
        check(one.echo(b"x"), "bad headers of one call took its connection with them")


def bye(server):
    with Raw(server.address) as one:
        number = one.ask("Park")
        one.send(frame(GOAWAY, 0, 0, b"\0" * 8))
        with Raw(server.address) as other:
            wait_for("a parked call", lambda: other.answer(other.ask("Count"))[1][5:].split()[0] == b"1")
            other.answer(other.ask("Release"))
        check(one.answer(number)[1] == message(b"released"), "a client that says goodbye loses what it waits for")
        check(one.to_the_end() is None or one.goaway[0] == 0, "the end after a goodbye: %s", one.goaway)


def streams(server):
    with Raw(server.address) as one:
        numbers = [one.ask("Park") for _ in range(50)]
        one.send(frame(RST_STREAM, 0, numbers[7], struct.pack(">I", CANCEL)))
        check(one.echo(b"x"), "a place that became free was not given")
        one.ask("Park")
        one.ask("Park")
        check(one.to_the_end() == (PROTOCOL_ERROR, "request HEADERS: max concurrent streams exceeded"), "one call too many: %s", one.goaway)
    with Raw(server.address, greet=False) as one:  # who has not read that there is a bound is not cut off for it
        one.send(PREFACE, settings((4, 1 << 20)))
        for _ in range(51):
            one.ask("Park")
        one.answer(101)
        check(one.resets == {101: REFUSED_STREAM}, "one call too many: %s", one.resets)


def as_other(work, folder="/"):
    """The text that it returns in a process of another user, there: this user may not enter what is above."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.write(writes, work().encode())
        except Exception as error:
            os.write(writes, repr(error).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def what_tcp_says(address):
    with Raw(address, greet=False) as one:
        return str(one.to_the_end())


def what_unix_says(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(path)
        return b"".join(iter(lambda: one.recv(4096), b"")).decode(errors="replace")


def echo_says(address):
    with Raw(address) as one:
        return str(one.echo(b"x"))


def users():
    """Loopback and Unix sockets serve this user; another one is refused in words, which are said once."""
    if os.geteuid() != 0:
        print("not tested: other users' clients (needs root)")
        return
    words = "it is of user %d, and the job of user 0" % OTHER
    with served("127.0.0.1:0") as server:
        for _ in range(3):
            said = as_other(lambda: what_tcp_says(server.address))
            check(words in said, "another user was told %s", said)
        check(echo_says(server.address) == "True", "this user is not served")
        wait_for("a word of it", lambda: "a client is refused: " + words in server.said())
    check(server.words.count("a client is refused: " + words) == 1, "the server said %s", server.words)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with served("unix:" + path) as server:
            os.chmod(folder, 0o755)
            os.chmod(path, 0o666)
            said = as_other(lambda: what_unix_says("s"), folder)
            check(words in said, "another user was told %s", said)
            wait_for("a word of it", lambda: words in server.said())
    with served("127.0.0.1:0", "any_user") as server:
        said = as_other(lambda: echo_says(server.address))
        check(said == "True", "another user may come, and was told %s", said)


with served("127.0.0.1:0", "message=1000000", "streams=50") as server:
    with Raw(server.address) as first:
        for part in cut_anyhow, no_calls, no_messages, own_clock, what_means_nothing, cancelled:
            part(first)
        for part in against_the_protocol, bye, streams:
            part(server)
            check(first.echo(part.__name__.encode()), "another client was harmed by %s", part.__name__)
bad_headers()
users()
