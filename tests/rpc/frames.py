"""HTTP/2 frame by frame, as a client that keeps no rule writes it; headers of answers are read by nghttp2's HPACK."""
import ctypes
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 1, 7, 8, 11
PATIENCE = 60


class NV(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_char)), ("value", ctypes.POINTER(ctypes.c_char)),
                ("namelen", ctypes.c_size_t), ("valuelen", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class Inflater:
    library = ctypes.CDLL("libnghttp2.so.14")

    def __init__(self):
        self.handle = ctypes.c_void_p()
        self.library.nghttp2_hd_inflate_new(ctypes.byref(self.handle))

    def read(self, block):
        at, found = 0, []
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        while True:
            nv, flags = NV(), ctypes.c_int(0)
            n = self.library.nghttp2_hd_inflate_hd2(self.handle, ctypes.byref(nv), ctypes.byref(flags), block[at:],
                                                    ctypes.c_size_t(len(block) - at), 1)
            if n < 0:
                raise ValueError("headers that are none")
            at += n
            if flags.value & 2:
                found.append((nv.name[:nv.namelen].decode(), nv.value[:nv.valuelen].decode(errors="replace")))
            if flags.value & 1:
                self.library.nghttp2_hd_inflate_end_headers(self.handle)
                return dict(found)
            if n == 0 and not flags.value & 2:
                raise ValueError("headers without an end")


def literal(text):
    """A string of HPACK, as it is."""
    text = text.encode() if isinstance(text, str) else text
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, size = len(text) - 127, b"\x7f"
    while rest >= 128:
        size += bytes([rest & 127 | 128])
        rest >>= 7
    return size + bytes([rest]) + text


def block(*headers):
    return b"".join(b"\0" + literal(name) + literal(value) for name, value in headers)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def request(path, *more, method="POST", content="application/grpc"):
    return block((":method", method), (":scheme", "http"), (":path", "/mu.test.Test/" + path), (":authority", "x"),
                 ("content-type", content), ("te", "trailers"), *more)


def message(body, flag=0):
    return struct.pack(">BI", flag, len(body)) + body


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", number, value) for number, value in pairs))


class Gone(Exception):
    """The server has closed the connection."""


class Raw:
    """A connection. What comes is read only when asked for."""

    def __init__(self, address, greet=True, window=1 << 30, settled=(), receive_buffer=0):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, int(port)))
        self.inflater, self.next, self.goaway, self.resets, self.acks, self.data = Inflater(), 1, None, {}, 0, b""
        self.pings = 0
        self.answers = {}
        if greet:
            self.send(PREFACE + settings((4, window), *settled))
            if window:
                self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", window)))
            while self.take()[:2] != (SETTINGS, 0):
                pass
            self.send(frame(SETTINGS, ACK, 0))  # from then on its windows hold

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *pieces):
        try:
            self.socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError):
            raise Gone

    def exactly(self, size):
        while len(self.data) < size:
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                raise Gone
            if not more:
                raise Gone
            self.data += more
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def take(self):
        """One frame, noted: (kind, flags, stream, payload)."""
        head = self.exactly(9)
        size, kind, flags = struct.unpack(">I", b"\0" + head[:3])[0], head[3], head[4]
        stream = struct.unpack(">I", head[5:])[0]
        payload = self.exactly(size)
        if kind == GOAWAY:
            self.goaway = (struct.unpack(">I", payload[4:8])[0], payload[8:].decode())
        elif kind == RST_STREAM:
            self.resets[stream] = struct.unpack(">I", payload)[0]
        elif kind == SETTINGS and flags & ACK:
            self.acks += 1
        elif kind == PING and flags & ACK:
            self.pings += 1
        elif kind in (DATA, HEADERS):
            headers, body, _ = self.answers.get(stream, ({}, b"", False))
            if kind == HEADERS:
                headers.update(self.inflater.read(payload))
            else:
                body += payload
            self.answers[stream] = (headers, body, bool(flags & END_STREAM))
        return kind, flags, stream, payload

    def begin(self, path, *more, **how):
        """The headers of a call; its number."""
        number, self.next = self.next, self.next + 2
        self.send(frame(HEADERS, END_HEADERS, number, request(path, *more, **how)))
        return number

    def ask(self, path, body=b"", *more):
        number = self.begin(path, *more)
        self.send(frame(DATA, END_STREAM, number, message(body)))
        return number

    def answer(self, number):
        """(headers, messages' bytes) of a call, or what it was reset with."""
        while number not in self.resets and not self.answers.get(number, ({}, b"", False))[2]:
            self.take()
        return self.answers.get(number, ({}, self.resets.get(number), True))[:2]

    def status(self, number):
        headers = self.answer(number)[0]
        return int(headers.get("grpc-status", -1)), headers.get("grpc-message", "")

    def echo(self, body):
        return self.answer(self.ask("Echo", body))[1] == message(body)

    def to_the_end(self):
        """Read until the server closes; what its GOAWAY said, if there was one."""
        try:
            while True:
                self.take()
        except Gone:
            return self.goaway
