#!/usr/bin/env python3
"""Clients that are slow, greedy or hostile: each is bounded in bytes, work and time, and another client is still served."""
# timeout: 240
import gzip
import os
import random
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from frames import (CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, PATIENCE, PING, PREFACE,
                    RST_STREAM, SETTINGS, Gone, Raw, block, frame, literal, message, request, settings)
from serving import check, served, wait_for

LATE, EXHAUSTED = 4, 8
MIB = 1 << 20
RELEASE = os.environ.get("VARIANT", "").startswith("release")


def is_served(server):
    with Raw(server.address) as other:
        check(other.echo(b"others"), "another client is not served")


def is_small(server, most):
    if RELEASE:  # sanitizers keep what is freed
        check(server.bytes_resident() < most, "the server has grown to %d bytes, not %d", server.bytes_resident(), most)


def calmed(one, words):
    check(one.to_the_end() is not None, "no GOAWAY")
    check(one.goaway[0] == ENHANCE_YOUR_CALM and words in one.goaway[1], "GOAWAY says %s", one.goaway)


def begun(server):
    with Raw(server.address) as other:
        return int(other.answer(other.ask("Count"))[1][5:].split()[3])


def resets():
    """Calls that are begun and reset at once, for ever: never more than were allowed, and then the end."""
    with served("127.0.0.1:0", "streams=100") as server:
        with Raw(server.address) as one:
            head, cancel = request("Park"), struct.pack(">I", CANCEL)
            calls = b"".join(frame(HEADERS, END_HEADERS, n, head) + frame(DATA, END_STREAM, n, message(b"")) +
                             frame(RST_STREAM, 0, n, cancel) for n in range(1, 40000, 2))
            try:
                for at in range(0, len(calls), 100000):
                    one.send(calls[at:at + 100000])
            except Gone:
                pass
            calmed(one, "too many calls that were reset")
        check(begun(server) < 15000, "%d calls were begun for one that resets them all", begun(server))
        is_served(server)


def frames_for_nothing():
    with served() as server:
        for kind, payload in (PING, b"12345678"), (SETTINGS, b""), (DATA, b""):
            with Raw(server.address) as one:
                number = one.begin("Echo")
                flood = frame(kind, 0, number if kind == DATA else 0, payload) * 1000
                try:
                    for _ in range(200):
                        one.send(flood)
                        if kind != DATA and RELEASE:
                            while one.pings + one.acks < 900 and kind == PING:
                                one.take()
                except Gone:
                    pass
                check(one.to_the_end() is not None, "frames of kind %d for nothing may go on for ever", kind)
            is_served(server)


def headers_without_end():
    with served("127.0.0.1:0", "handshake=1000") as server:
        before = server.bytes_resident()
        for value in "y" * 4000, "\x01" + "y" * 4000:  # 4 KB in the table, good and bad, then named a million times,
            for number in range(3):  # in a call's headers, in its trailers, and in those of a call that is over
                with Raw(server.address) as one:
                    bomb = b"\x40" + literal("x") + literal(value) + b"\xbe" * 10000
                    if number:
                        one.send(frame(HEADERS, END_HEADERS, 1, request("Park" if number == 1 else "Nothing")))
                    try:
                        one.send(frame(HEADERS, END_HEADERS | (END_STREAM if number else 0), 1,
                                       (b"" if number else request("Echo")) + bomb))
                    except Gone:
                        pass
                    calmed(one, "the headers of a call have more than 16384 bytes")
        with Raw(server.address) as one:
            one.send(frame(HEADERS, 0, 1, request("Echo")))
            try:
                for _ in range(10000):
                    one.send(frame(CONTINUATION, 0, 1, b""))
            except Gone:
                pass
            check(one.to_the_end() is not None, "CONTINUATION may go on for ever")
        with Raw(server.address) as one:
            one.send(frame(HEADERS, 0, 1, request("Echo")))
            calmed(one, "headers did not end within 1000 ms")
        with Raw(server.address, greet=False) as one:
            one.send(PREFACE[:10])
            one.to_the_end()
        with Raw(server.address, greet=False) as one:
            one.to_the_end()
        wait_for("words for those who do not greet", lambda: server.said().count("it did not greet within 1000 ms") >= 2)
        is_small(server, before + 32 * MIB)
        is_served(server)


def strangers():
    with served() as server:
        with Raw(server.address, greet=False) as one:
            one.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            check(b"505" in one.exactly(20), "a client of HTTP/1 gets no answer that it reads")
        with Raw(server.address, greet=False) as one:
            one.send(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1" + os.urandom(160))
            one.to_the_end()
        wait_for("words about TLS", lambda: "it speaks TLS, and this server has no certificate" in server.said())
        is_served(server)


def bombs():
    with served("127.0.0.1:0", "message=%d" % MIB, "held=%d" % (4 * MIB)) as server:
        before = server.bytes_resident()
        bomb = gzip.compress(b"\0" * (64 * MIB), 9)[:MIB]
        with Raw(server.address) as one:
            for _ in range(3):
                number = one.begin("Echo", ("grpc-encoding", "gzip"))
                one.send(frame(DATA, 0, number, message(bomb, 1)[:10]))
                whole = message(bomb, 1)[10:]
                for at in range(0, len(whole), 16384):
                    one.send(frame(DATA, END_STREAM if at + 16384 >= len(whole) else 0, number, whole[at:at + 16384]))
                status, words = one.status(number)
                check(status == EXHAUSTED and "more than %d bytes" % MIB in words, "a bomb: %d %s", status, words)
        is_small(server, before + 64 * MIB)
        is_served(server)


def halves():
    """Requests of which everything comes but the last byte, in many calls."""
    with served("127.0.0.1:0", "message=%d" % MIB, "held=%d" % (4 * MIB), "stall=1000") as server:
        with Raw(server.address) as one:
            numbers = []
            for _ in range(30):
                numbers.append(one.begin("Echo"))
                one.send(frame(DATA, 0, numbers[-1], struct.pack(">BI", 0, MIB)))
                for _ in range(63):
                    one.send(frame(DATA, 0, numbers[-1], b"x" * 16384))
            got = [one.status(number) for number in numbers]
            check({status for status, _ in got} == {LATE, EXHAUSTED}, "halves of requests: %s", got)
            check(any("too much is held for this client" in words for _, words in got), "nobody was told: %s", got)
            check(any("nothing of the request came within 1000 ms" in words for _, words in got), "nobody was told: %s", got)
        is_served(server)


def many_halves():
    """The same by so many connections that they could hold all that may be held: who comes then is served."""
    with served("127.0.0.1:0", "message=%d" % MIB, "held=%d" % (MIB + MIB // 4), "total=%d" % (10 * MIB)) as server:
        kept = [Raw(server.address) for _ in range(14)]
        for _ in range(20):
            for one in kept:
                number = one.begin("Echo")
                one.send(frame(DATA, 0, number, struct.pack(">BI", 0, MIB)), *[frame(DATA, 0, number, b"x" * 16000)] * 4)
        for one in kept:  # it has all of that
            one.answer(one.ask("Count"))
        with Raw(server.address) as other:
            number, whole = other.begin("Echo"), message(b"y" * 100000)
            for at in range(0, len(whole), 16000):
                other.send(frame(DATA, END_STREAM if at + 16000 >= len(whole) else 0, number, whole[at:at + 16000]))
            check(other.answer(number)[1] == whole, "who comes has no room: %s", other.status(number))
        for one in kept:
            one.socket.close()


def closed_windows():
    """Answers that the client's windows do not let out: held up to a bound, and not for ever."""
    with served("127.0.0.1:0", "held=%d" % (16 * MIB), "message=%d" % MIB, "stall=1500") as server:
        before = server.bytes_resident()
        with Raw(server.address, window=0) as one:
            numbers = [one.ask("Burst", b"%d" % (MIB - i)) for i in range(100)]
            status, words = one.status(numbers[-1])
            check(status == EXHAUSTED and "no room for an answer" in words, "a client that takes nothing: %d %s", status, words)
            is_small(server, before + 64 * MIB)
            is_served(server)
            calmed(one, "took nothing of what it had asked for within 1500 ms")
        is_served(server)


def same_answers():
    """The same large answer for many: it is held once."""
    with served("127.0.0.1:0", "held=%d" % (4 * MIB), "message=%d" % MIB, "total=%d" % (8 * MIB)) as server:
        clients = [Raw(server.address) for _ in range(10)]
        calls = [(one, one.ask("Big", b"%d" % MIB)) for one in clients for _ in range(10)]
        for one, number in calls:
            status, words = one.status(number)
            check(status == 0 and len(one.answers[number][1]) == MIB + 5, "the same for many: %d %s", status, words)
        for one in clients:
            one.socket.close()
        with Raw(server.address) as one:  # and when nobody has it any more, it is not held
            numbers = [one.ask("Big", b"%d" % (MIB - i)) for i in range(3)]
            check([one.status(number)[0] for number in numbers] == [0, 0, 0], "what was the same for many is held for ever")


def closed_sockets():
    """Answers that the client's socket does not take."""
    with served("127.0.0.1:0", "held=%d" % (64 * MIB), "message=%d" % MIB, "stall=1500") as server:
        before = server.bytes_resident()
        with Raw(server.address, receive_buffer=4096) as one:
            for _ in range(40):
                one.ask("Big", b"%d" % (2 * MIB))
            is_served(server)
            is_small(server, before + 160 * MIB)
            wait_for("its end", lambda: "sent away: it took nothing of what it had asked for within 1500 ms" in server.said())
        with Raw(server.address, receive_buffer=4096) as one:
            one.ask("Big", b"%d" % (2 * MIB))
            is_served(server)
            try:
                for _ in range(40):  # and whose answers to these it does not take either
                    one.send(frame(PING, 0, 0, b"12345678") * 100)
            except Gone:
                pass
            wait_for("its end", lambda: "sent away: Flooding was detected" in server.said())
        is_served(server)


def slow_reader():
    """A large answer, taken slowly: it comes whole, and others are served meanwhile."""
    size = 64 * MIB if RELEASE else 8 * MIB
    with served("127.0.0.1:0", "stall=60000") as server:
        before = server.bytes_resident()
        with Raw(server.address, receive_buffer=65536) as one:
            number = one.ask("Big", b"%d" % size)
            taken = 0
            while taken < size + 5:
                kind, _, stream, payload = one.take()
                if kind == DATA and stream == number:
                    taken += len(payload)
                    one.answers[number] = ({}, b"", False)
                    if random.random() < 0.003:
                        is_served(server)
            check(one.status(number)[0] == 0, "a large answer does not end well")
        is_small(server, before + 2 * size + 32 * MIB)


def too_many():
    with served("127.0.0.1:0", "connections=3") as server:
        kept = [Raw(server.address) for _ in range(3)]
        check(all(one.echo(b"x") for one in kept), "one of three is not served")
        with Raw(server.address, greet=False) as one:
            check(one.to_the_end() == (ENHANCE_YOUR_CALM, "too many connections are open here"), "the fourth: %s", one.goaway)
        check(all(one.echo(b"x") for one in kept), "one of three is not served any more")
        kept.pop().socket.close()
        wait_for("the end of one", lambda: server.said().count("closed: ") == 1)
        is_served(server)
        for one in kept:
            one.socket.close()
    with served("127.0.0.1:0") as server:  # and where descriptors end before that
        subprocess.run(["prlimit", "--pid", str(server.process.pid), "--nofile=40"], check=True)
        kept = [Raw(server.address, greet=False) for _ in range(60)]
        wait_for("words about descriptors", lambda: "no file descriptor is left" in server.said())
        for one in kept:
            one.socket.close()
        wait_for("room", lambda: server.said().count("closed: ") >= 20)
        is_served(server)


def long_answers():
    """A thousand long answers are asked for in one breath, and not taken: they are made one behind the other, as they are."""
    with served() as server:
        before = server.bytes_resident()
        with Raw(server.address, receive_buffer=65536) as one:
            numbers, one.next = list(range(1, 2001, 2)), 2001
            one.send(b"".join(frame(HEADERS, END_HEADERS, n, request("Big")) + frame(DATA, END_STREAM, n, message(b"1000000"))
                              for n in numbers))
            is_served(server)
            check(one.echo(b"short"), "what is short waits for what is long")
            check(begun(server) < 30, "%d long answers have been made for one that takes none", begun(server))
            is_small(server, before + 64 * MIB)
            for n in numbers[:50]:
                check(len(one.answer(n)[1]) == 1000005, "an answer is missing: %s", one.status(n))
        is_served(server)


def resets_by_tcp():
    """Connections that break in every state: what they waited for is told so."""
    with served() as server:
        for i in range(50):
            one = Raw(server.address)
            if i % 3:
                one.ask("Park")
            if i % 3 == 2:
                one.ask("Big", b"1000000")
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.socket.close()
        with Raw(server.address) as other:
            wait_for("the end of all calls", lambda: other.answer(other.ask("Count"))[1][5:].split()[0::2] == [b"0", b"1"])


for part in (resets, frames_for_nothing, headers_without_end, strangers, bombs, halves, many_halves, closed_windows, same_answers, closed_sockets, slow_reader,
             too_many, long_answers, resets_by_tcp):
    part()
