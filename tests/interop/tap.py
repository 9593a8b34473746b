#!/usr/bin/env python3
"""What a gRPC client says, in words: a TCP proxy that prints each call and its answer as it passes.

    tap.py LISTEN_PORT SERVER_HOST SERVER_PORT > calls.txt

Each connection is a letter, each line "connection stream direction what": headers, messages (inflated; fields by number
as the wire has them), trailers, resets. It needs the package hpack, as the environments of `make interop` have it.
"""
import gzip
import socket
import struct
import sys
import threading

import hpack

FRAMES = {0: "DATA", 1: "HEADERS", 3: "RST_STREAM", 4: "SETTINGS", 6: "PING", 7: "GOAWAY", 8: "WINDOW_UPDATE"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LOCK = threading.Lock()


def say(*words):
    with LOCK:
        print(*words, flush=True)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """A message as text: number:value; nested where it parses as one and is not plain text."""
    at, words = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("no field")
        if kind == 0:
            value, at = varint(data, at)
            words.append("%d:%d" % (number, value))
        elif kind == 1:
            words.append("%d:fixed64" % number)
            at += 8
        elif kind == 5:
            words.append("%d:fixed32" % number)
            at += 4
        elif kind == 2:
            size, at = varint(data, at)
            part = data[at:at + size]
            if len(part) != size:
                raise ValueError("short")
            at += size
            words.append("%d:%s" % (number, inner(part)))
        else:
            raise ValueError("kind %d" % kind)
    return "{" + " ".join(words) + "}"


def inner(part):
    try:
        text = part.decode()
        if part and all(c.isprintable() or c == "\n" for c in text):
            return repr(text if len(text) < 120 else text[:117] + "...")
    except UnicodeDecodeError:
        pass
    try:
        return fields(part)
    except (ValueError, IndexError):
        return "<%d bytes>" % len(part)


class Way:
    """One direction of a connection: bytes in, lines out."""

    def __init__(self, name, arrow, preface):
        self.name, self.arrow, self.preface = name, arrow, preface
        self.buffer, self.decoder = b"", hpack.Decoder()
        self.headers, self.bodies, self.encodings = {}, {}, {}

    def feed(self, data):
        self.buffer += data
        if self.preface:
            if len(self.buffer) < len(PREFACE):
                return
            self.buffer, self.preface = self.buffer[len(PREFACE):], False
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big") & 0x7FFFFFFF
            self.frame(kind, flags, stream, self.buffer[9:9 + size])
            self.buffer = self.buffer[9 + size:]

    def frame(self, kind, flags, stream, body):
        if kind == 1 or kind == 9:
            if kind == 1 and flags & 8:
                body = body[1:len(body) - body[0]]
            if kind == 1 and flags & 32:
                body = body[5:]
            self.headers[stream] = self.headers.get(stream, b"") + body
            if flags & 4:
                pairs = self.decoder.decode(self.headers.pop(stream))
                self.line(stream, " ".join("%s=%s" % pair for pair in pairs))
        elif kind == 0:
            self.bodies[stream] = self.bodies.get(stream, b"") + body
            self.messages(stream)
        elif kind == 3:
            self.line(stream, "RST_STREAM %d" % struct.unpack(">I", body))
        elif kind == 4 and not flags & 1:
            settings = [struct.unpack(">HI", body[i:i + 6]) for i in range(0, len(body), 6)]
            self.line(stream, "SETTINGS " + " ".join("%x=%d" % pair for pair in settings))
        elif kind == 7:
            self.line(stream, "GOAWAY %r" % body)
        elif kind == 6:
            self.line(stream, "PING %s" % ("ACK" if flags & 1 else ""))

    def messages(self, stream):
        data = self.bodies[stream]
        while len(data) >= 5:
            flag, size = data[0], int.from_bytes(data[1:5], "big")
            if len(data) < 5 + size:
                break
            message = gzip.decompress(data[5:5 + size]) if flag else data[5:5 + size]
            try:
                words = fields(message)
            except (ValueError, IndexError):
                words = message.hex()
            self.line(stream, ("gzip %d->%d " % (size, len(message)) if flag else "plain %d " % size) + words)
            data = data[5 + size:]
        self.bodies[stream] = data

    def line(self, stream, text):
        say(self.name, stream, self.arrow, text)


def pump(source, sink, way):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            try:
                way.feed(data)
            except Exception as error:  # the tap must not break what it watches
                say(way.name, "?", way.arrow, "unread:", repr(error))
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError as error:
        say(way.name, "-", way.arrow, "ends:", error)
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main():
    port, host, server_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", port))
    count = 0
    while True:
        client, _ = listener.accept()
        name = chr(ord("a") + count % 26) * (1 + count // 26)
        count += 1
        try:
            server = socket.create_connection((host, server_port))
        except OSError:
            client.close()
            continue
        say(name, "-", "-", "connected")
        threading.Thread(target=pump, args=(client, server, Way(name, ">", True)), daemon=True).start()
        threading.Thread(target=pump, args=(server, client, Way(name, "<", False)), daemon=True).start()


if __name__ == "__main__":
    main()
