#!/usr/bin/env python3
"""A task that speaks to PyTorch's TCPStore as PyTorch 2's own client does, by a socket and nothing else.

    store.py [--address HOST:PORT] WORD...

The words are done in order: set K V, add K N (prints the sum), get K (waits for it, prints the value), wait K, check K
(prints yes or no), count (prints how many keys there are), delete K, barrier K (of all tasks), ask K (a wait whose
answer is not awaited), hold (until the connection ends; then "ended"), say TEXT, await FILE (until it is there), kill
(itself, by SIGKILL), exit N. By default the address is that of the environment. Where the server ends the connection
that is said, "ended", and the status is 9. Every wait is bounded.
"""
import os
import signal
import socket
import struct
import sys
import time

PATIENCE = 60  # seconds that any answer may take
SET, GET, ADD, CHECK, WAIT, COUNT, DELETE, PING, BARRIER = 1, 3, 4, 5, 6, 7, 8, 13, 18


def tell(text):
    os.write(1, (str(text) + "\n").encode())  # at once: others write to the same file


def string(value):
    return struct.pack("<Q", len(value)) + value


class Store:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, int(port)), PATIENCE)
        self.socket.sendall(b"\0\xce\xf7\x85\x3c" + struct.pack("<BI", PING, os.getpid()))
        if self.number("<I") != os.getpid():
            sys.exit("the ping came back as something else")

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def ask(self, call, *parts):
        self.socket.sendall(bytes([call]) + b"".join(parts))

    def wait(self, key):
        self.ask(WAIT, struct.pack("<Q", 1), string(key))
        if self.number("<B") != 0:
            sys.exit("the wait was cancelled, and nobody did that")

    def do(self, words):
        words = iter(words)
        for word in words:
            if word == "say":
                tell(next(words))
            elif word == "await":
                path, end = next(words), time.monotonic() + PATIENCE
                while not os.path.exists(path):
                    if time.monotonic() > end:
                        sys.exit("%s did not come" % path)
                    time.sleep(0.01)  # sleep: between two looks at the condition
            elif word == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif word == "exit":
                os._exit(int(next(words)))
            elif word == "hold":
                self.read(1)
            elif word == "count":
                self.ask(COUNT)
                tell(self.number("<q"))
            else:
                self.do_key(word, b"/" + next(words).encode(), words)

    def do_key(self, word, key, words):
        if word == "set":
            self.ask(SET, string(key), string(next(words).encode()))
        elif word == "add":
            self.ask(ADD, string(key), struct.pack("<q", int(next(words))))
            tell(self.number("<q"))
        elif word == "get":
            self.wait(key)
            self.ask(GET, string(key))
            tell(self.read(self.number("<Q")).decode())
        elif word == "wait":
            self.wait(key)
        elif word == "ask":
            self.ask(WAIT, struct.pack("<Q", 1), string(key))
        elif word == "check":
            self.ask(CHECK, struct.pack("<Q", 1), string(key))
            tell("no" if self.number("<B") else "yes")
        elif word == "delete":
            self.ask(DELETE, string(key))
            self.number("<q")
        elif word == "barrier":
            self.ask(BARRIER, string(key), struct.pack("<q", int(os.environ["WORLD_SIZE"])))
            self.number("<B")
        else:
            sys.exit("no word: " + word)


def main():
    words = sys.argv[1:]
    address = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
    if words[:1] == ["--address"]:
        address = words[1].rsplit(":", 1)
        words = words[2:]
    try:
        Store(*address).do(words)
    except (ConnectionResetError, BrokenPipeError):
        tell("ended")
        sys.exit(9)


main()
