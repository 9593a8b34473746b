"""A relay of TCP connections with faults that a network cannot be asked for: a reset after so many bytes, silence.

    relay = Relay(host, target, up=100)    # listens on `host`, at relay.address; each connection goes on to `target`

up, down: after so many bytes from the client, from the target, both sides get a RST (None: never); only the first
connection is broken so, later ones pass. hold(): nothing is read any more, so what is sent piles up and nobody is told,
as by a peer that is stopped; go_on(). drop(): reset whatever is open.
"""
import os
import selectors
import socket
import struct
import threading


def end_with_reset(one):
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    one.close()


class Pair:
    """One connection: its ends, and what is still to be written to each."""

    def __init__(self, client, target, limits):
        self.ends, self.limits = [client, target], limits
        for one in self.ends:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Relay:
    def __init__(self, host, target, up=None, down=None):
        self.host, self.target, self.limits = host, target, [up, down]
        self.passed = [0, 0]  # bytes of all connections, by direction
        self.pairs, self.held = [], False
        self.listener = host.socket()
        self.listener.bind((host.address, 0))
        self.listener.listen()
        self.address = self.listener.getsockname()
        self.bell_out, self.bell_in = os.pipe()
        self.lock = threading.Lock()
        self.orders = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def order(self, word):
        """Done when this returns."""
        done = threading.Event()
        with self.lock:
            self.orders.append((word, done))
        os.write(self.bell_in, b"x")
        done.wait(60)

    def hold(self):
        self.order("hold")

    def go_on(self):
        self.order("go on")

    def drop(self):
        self.order("drop")

    def close(self):
        if self.thread.is_alive():
            self.order("close")
            self.thread.join(60)
            os.close(self.bell_in)

    # ---- the thread ----

    def accept(self):
        client, _ = self.listener.accept()
        target = self.host.socket()
        try:
            target.connect(self.target)
        except OSError:
            end_with_reset(client)
            target.close()
            return
        self.pairs.append(Pair(client, target, self.limits))
        self.limits = [None, None]

    def break_pair(self, pair):
        self.pairs.remove(pair)
        for one in pair.ends:
            end_with_reset(one)

    def move(self, pair, side):
        """What one end has said, to the other. A limit reached, or either end gone, breaks both."""
        limit = pair.limits[side]
        try:
            data = pair.ends[side].recv(65536 if limit is None else max(1, min(limit, 65536)))
            if data and limit is not None:
                data = data[:limit]
                pair.limits[side] = limit - len(data)
            if data:
                pair.ends[1 - side].sendall(data)
                self.passed[side] += len(data)
        except OSError:
            data = b""
        if not data or pair.limits[side] == 0:
            self.break_pair(pair)

    def obey(self):
        """False: it is to end."""
        os.read(self.bell_out, 100)
        goes_on = True
        with self.lock:
            orders, self.orders = self.orders, []
        for word, done in orders:
            if word in ("hold", "go on"):
                self.held = word == "hold"
            else:
                for pair in list(self.pairs):
                    self.break_pair(pair)
                goes_on = goes_on and word != "close"
            done.set()
        return goes_on

    def run(self):
        goes_on = True
        while goes_on:
            with selectors.DefaultSelector() as waits:
                waits.register(self.bell_out, selectors.EVENT_READ, ("bell",))
                waits.register(self.listener, selectors.EVENT_READ, ("accept",))
                for pair in self.pairs if not self.held else []:
                    for side in (0, 1):
                        waits.register(pair.ends[side], selectors.EVENT_READ, ("move", pair, side))
                ready = [key.data for key, _ in waits.select()]
            for what in ready:
                if what[0] == "bell":
                    goes_on = self.obey() and goes_on
                elif what[0] == "accept":
                    self.accept()
                elif what[1] in self.pairs and not self.held:
                    self.move(what[1], what[2])
        self.listener.close()
        os.close(self.bell_out)
