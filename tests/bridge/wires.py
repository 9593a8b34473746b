#!/usr/bin/env python3
"""The network between the hosts of a field (field.py): packets from one TUN device to another, late or never.

    wires.py CONTROL TUN...      descriptors

Each ordered pair of hosts has {cut, delay, jitter, loss}; a command on CONTROL is {"pairs": [[from, to]...], "how": {}}
and is answered by the counts once it holds. It ends when CONTROL does. Packets of a pair keep their order whatever their
jitter: a network that reorders is the affair of TCP. The losses are drawn from MUSTER_TEST_FIELD_SEED (default 1).
"""
import heapq
import json
import os
import random
import select
import socket
import sys
import time

QUEUED_MAX = 100000
PACKET = 65536


class Wires:
    def __init__(self, control, tuns):
        self.control, self.tuns = control, tuns
        self.index = {fd: i for i, fd in enumerate(tuns)}
        self.how = {}  # (from, to) -> settings; absent: a perfect wire
        self.queue, self.number, self.last = [], 0, {}
        self.counts = {"passed": 0, "lost": 0, "cut": 0, "delayed": 0, "full": 0, "strange": 0}
        self.chance = random.Random(int(os.environ.get("MUSTER_TEST_FIELD_SEED", "1")))

    def command(self):
        """False: the other end has gone."""
        data = self.control.recv(1 << 20)
        if not data:
            return False
        try:
            words = json.loads(data)
            for pair in words.get("pairs", []):
                self.how.setdefault(tuple(pair), {}).update(words["how"])
            self.control.send(json.dumps(self.counts).encode())
        except (ValueError, KeyError, TypeError) as error:
            self.control.send(json.dumps({"error": "not understood: %s" % error}).encode())
        return True

    def deliver(self, to, packet):
        try:
            os.write(self.tuns[to], packet)
            self.counts["passed"] += 1
        except OSError:
            self.counts["full"] += 1

    def packet(self, source, packet):
        if len(packet) < 20 or packet[0] >> 4 != 4 or packet[16:18] != b"\x0a\x4d":
            self.counts["strange"] += 1  # IPv6 solicitations, multicast
            return
        to = packet[18] * 200 + packet[19] - 1
        if not 0 <= to < len(self.tuns):
            self.counts["strange"] += 1
            return
        how = self.how.get((source, to))
        if not how:
            self.deliver(to, packet)
        elif how.get("cut"):
            self.counts["cut"] += 1
        elif how.get("loss") and self.chance.random() < how["loss"]:
            self.counts["lost"] += 1
        else:
            self.later(source, to, packet, how)

    def later(self, source, to, packet, how):
        delay = how.get("delay", 0) + how.get("jitter", 0) * self.chance.random()
        last = self.last.get((source, to), 0)
        if not delay and time.monotonic() >= last:
            self.deliver(to, packet)
        elif len(self.queue) >= QUEUED_MAX:
            self.counts["full"] += 1
        else:
            due = self.last[source, to] = max(time.monotonic() + delay, last)
            self.number += 1
            self.counts["delayed"] += 1
            heapq.heappush(self.queue, (due, self.number, source, to, packet))

    def release(self):
        """What is due; what was on its way when its path was cut is lost with it. Seconds until the next, or None."""
        now = time.monotonic()
        while self.queue and self.queue[0][0] <= now:
            _, _, source, to, packet = heapq.heappop(self.queue)
            if self.how.get((source, to), {}).get("cut"):
                self.counts["cut"] += 1
            else:
                self.deliver(to, packet)
        return max(self.queue[0][0] - now, 0) if self.queue else None

    def run(self):
        poll = select.epoll()
        for fd in [self.control.fileno(), *self.tuns]:
            poll.register(fd, select.EPOLLIN)
        while True:
            for fd, _ in poll.poll(self.release()):
                if fd == self.control.fileno():
                    if not self.command():
                        return
                    continue
                for _ in range(64):  # of one host, before the others' turn
                    try:
                        self.packet(self.index[fd], os.read(fd, PACKET))
                    except BlockingIOError:
                        break


if __name__ == "__main__":
    Wires(socket.socket(fileno=int(sys.argv[1])), [int(word) for word in sys.argv[2:]]).run()
