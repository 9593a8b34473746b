"""Hosts for tests of the bridge, on one machine: what they are made of, and what may happen between them.

    with Field(3) as field:                     # the best kind that is allowed here; field.words says which
        one = field.hosts[1]                    # .address, .name; .popen(), .socket()
        field.cut(0, 1)                         # both ways; cut(0, 1, back=False): only what 0 sends to 1 is lost
        field.path(delay=0.2, loss=0.05)        # everywhere, or of one direction: path(0, 1, delay=0.2)
        field.reset(0, 1)                       # every TCP connection of the two, as by a firewall that forgot them
        field.heal()

Kinds, from best to least:
  switch    each host is a network namespace with a TUN device, and a process (wires.py) is the network between them:
            delay, loss, cuts by direction. It needs no module of the kernel besides TUN, so no sch_netem
  veth      namespaces too, veth pairs into a bridge in a namespace of its own: the kernel's speed, for benchmarks;
            a host can be cut off, nothing finer
  loopback  addresses 127.x.y.1 and up of the machine itself, where namespaces are not allowed: resets (as root) alone

The namespaces have no names. What keeps one is a descriptor of this process, a TUN device or a process in it; all of
these end with this process, however it ends: SIGKILL leaves nothing behind. A process started by popen() dies with us.
"""
import ctypes
import fcntl
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8916, 0x891C, 0x8913, 0x8914
IFF_UP, PR_SET_PDEATHSIG = 1, 1
KINDS = ("switch", "veth", "loopback")
HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)


class NotHere(Exception):
    """This kind of field, or this fault in it, cannot be had here; the text says why."""


def kernel(call, *arguments):
    if getattr(LIBC, call)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (call, os.strerror(code)))


def aside(work, *arguments):
    """work() in a thread of its own, which may go to other namespaces; its result, or what it raised."""
    got = []

    def body():
        try:
            got.append((work(*arguments), None))
        except BaseException as error:  # it is raised again below
            got.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if got[0][1]:
        raise got[0][1]
    return got[0][0]


def die_with(parent):
    """For children, before exec: they end when their parent does."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def interface_up(name, address=None):
    """By ioctl, in the namespace of this thread: a hundred hosts are made without a hundred programs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        def ask(request, data):
            return fcntl.ioctl(one, request, struct.pack("16s24s", name.encode(), data))

        if address:
            for request, text in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.0.0")):
                ask(request, struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(text)))
        flags = struct.unpack("16xH", ask(SIOCGIFFLAGS, b"")[:18])[0]
        ask(SIOCSIFFLAGS, struct.pack("H", flags | IFF_UP))


class Host:
    """One host: where processes and sockets are made. Outside namespaces these are the machine's own."""

    def __init__(self, index, address):
        self.index, self.address, self.name = index, address, "h%d" % index
        self.net = self.uts = self.tun = None  # descriptors

    def open(self):
        """In a thread that is given up afterwards: new namespaces of network and host name."""
        kernel("unshare", CLONE_NEWNET | CLONE_NEWUTS)
        folder = "/proc/self/task/%d/ns/" % threading.get_native_id()
        self.net, self.uts = (os.open(folder + kind, os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "uts"))
        kernel("sethostname", self.name.encode(), len(self.name))
        interface_up("lo")

    def open_tun(self):
        self.open()
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH22x", b"mu0", IFF_TUN | IFF_NO_PI))
        interface_up("mu0", self.address)

    def enter(self):
        """This thread, or a child before exec, goes there."""
        if self.net is not None:
            kernel("setns", self.net, CLONE_NEWNET)
            kernel("setns", self.uts, CLONE_NEWUTS)

    def close(self):
        for fd in (self.tun, self.net, self.uts):
            if fd is not None:
                os.close(fd)
        self.net = self.uts = self.tun = None

    def prefix(self):
        """Words before a command, by which any process of this machine starts it there."""
        if self.net is None:
            return []
        where = "/proc/%d/fd/" % os.getpid()
        return ["nsenter", "--net=%s%d" % (where, self.net), "--uts=%s%d" % (where, self.uts), "--"]

    def popen(self, command, **more):
        """A process on this host, which dies with this one."""
        parent = os.getpid()

        def before():
            die_with(parent)
            self.enter()

        return subprocess.Popen(command, preexec_fn=before, **more)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        def make():
            self.enter()
            return socket.socket(family, kind)

        return aside(make)


class Field:
    def __init__(self, count, kind=None, folder=None):
        """kind: None: the best for faults that is allowed here; else this one, or NotHere."""
        self.folder = tempfile.TemporaryDirectory(prefix="field-", dir=folder)
        self.hosts, self.middle, self.switch, self.control, self.kind = [], None, None, None, None
        refusals = []
        for name in [kind] if kind else ["switch", "loopback"]:
            try:
                getattr(self, "make_" + name)(count)
                self.kind = name
                break
            except (OSError, NotHere) as error:
                refusals.append("%s: %s" % (name, error))
                self.clear()
        if not self.kind:
            self.folder.cleanup()
            raise NotHere("; ".join(refusals))
        self.words = {"switch": "network namespaces with TUN devices and a switch of our own",
                      "veth": "network namespaces with veth pairs into a bridge",
                      "loopback": "addresses of the loopback interface"}[self.kind]
        if refusals:
            self.words += " (%s)" % "; ".join(refusals)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- making it ----

    def make_switch(self, count):
        self.hosts = [Host(i, "10.77.%d.%d" % (i // 200, i % 200 + 1)) for i in range(count)]
        for host in self.hosts:
            aside(host.open_tun)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fds = [host.tun for host in self.hosts]
        parent = os.getpid()
        with theirs:
            self.switch = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "wires.py"), str(theirs.fileno()), *map(str, fds)],
                pass_fds=[theirs.fileno(), *fds], preexec_fn=lambda: die_with(parent), stdin=subprocess.DEVNULL)
        ours.settimeout(30)
        self.control = ours
        self.tell()

    def make_veth(self, count):
        self.hosts = [Host(i, "10.77.%d.%d" % (i // 200, i % 200 + 1)) for i in range(count)]
        for host in self.hosts:
            aside(host.open)
        self.middle = Host(count, "")
        lines = ["link add switch type bridge", "link set switch up"]
        for host in self.hosts:
            lines += ["link add p%d type veth peer name mu0 netns /proc/%d/fd/%d" % (host.index, os.getpid(), host.net),
                      "link set p%d master switch up" % host.index]

        def connect():
            self.middle.open()
            self.ip(lines)

        def address(host):
            host.enter()
            interface_up("mu0", host.address)

        aside(connect)
        for host in self.hosts:
            aside(address, host)

    def make_loopback(self, count):
        place = random.randrange(1 << 8, 1 << 16)  # apart from other tests at the same time
        if count > 250:
            raise NotHere("at most 250 addresses")
        self.hosts = [Host(i, "127.%d.%d.%d" % (place >> 8, place & 255, i + 1)) for i in range(count)]

    @staticmethod
    def ip(lines):
        try:
            done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=60)
        except FileNotFoundError:
            raise NotHere("the command ip is not installed") from None
        if done.returncode:
            raise NotHere("ip: " + done.stdout.strip())

    def clear(self):
        if self.control:
            self.control.close()  # the switch ends by that
            self.control = None
        if self.switch:
            try:
                self.switch.wait(10)
            except subprocess.TimeoutExpired:
                self.switch.kill()
                self.switch.wait()
            self.switch = None
        for host in self.hosts + ([self.middle] if self.middle else []):
            host.close()
        self.hosts, self.middle = [], None

    def close(self):
        self.clear()
        self.folder.cleanup()

    # ---- what happens to it ----

    def tell(self, **words):
        """To the switch; back when it has taken effect. Returns its counts."""
        if self.kind not in (None, "switch"):
            raise NotHere("hosts made of %s have no such fault" % self.words)
        self.control.send(json.dumps(words).encode())
        answer = json.loads(self.control.recv(65536) or b'{"error": "the switch has ended"}')
        if "error" in answer:
            raise RuntimeError("field: " + answer["error"])
        return answer

    def pairs(self, one, other, back):
        every = range(len(self.hosts))
        ends = [(a, b) for a in (every if one is None else [one]) for b in (every if other is None else [other]) if a != b]
        return ends + ([(b, a) for a, b in ends] if back else [])

    def path(self, one=None, other=None, back=True, **how):
        """delay, jitter: seconds; loss: 0 to 1; cut: True. Between two hosts, of one and all, or everywhere."""
        self.tell(pairs=self.pairs(one, other, back), how=how)

    def cut(self, one=None, other=None, back=True):
        """Packets are lost, silently: nobody is told."""
        if self.kind == "veth" and other is None and back:
            aside(self.plug, one, "down")
        else:
            self.path(one, other, back, cut=True)

    def heal(self):
        if self.kind == "veth":
            for host in self.hosts:
                aside(self.plug, host.index, "up")
        elif self.kind == "switch":
            self.path(cut=False, delay=0, jitter=0, loss=0)

    def plug(self, index, state):
        self.middle.enter()
        self.ip(["link set p%d %s" % (index, state)])

    def partition(self, *sides):
        """Whole groups of hosts that hear nothing of each other."""
        self.tell(pairs=[(a, b) for one in sides for other in sides if one is not other for a in one for b in other],
                  how={"cut": True})

    def counts(self):
        """Of the switch: packets passed, lost by chance, cut, delayed."""
        return self.tell()

    def reset(self, one, other):
        """Destroy every TCP connection from `one` to `other`, at the end of `one`; the other gets a RST. How many it were."""
        a, b = self.hosts[one], self.hosts[other]
        ends = ["src", a.address] if self.kind != "loopback" else []  # there a client's is 127.0.0.1
        command = ["ss", "-KHtn", "state", "connected", *ends, "dst", b.address]
        try:
            done = a.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except FileNotFoundError:
            raise NotHere("the command ss is not installed") from None
        said, wrong = done.communicate(timeout=30)
        if done.returncode or wrong:
            raise NotHere("ss -K: " + wrong.strip())
        return len(said.splitlines())

    def rsh(self):
        """A command like ssh, 'RSH HOST COMMAND...': HOST is a name or an address of this field."""
        path = os.path.join(self.folder.name, "rsh")
        cases = []
        for host in self.hosts:
            words = " ".join(host.prefix() + ["sh"])
            cases.append('%s | %s) exec %s -c "$*" ;;' % (host.name, host.address, words))
        with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o700)) as f:
            f.write('#!/bin/sh\nhost=$1\nshift\ncase $host in\n%s\nesac\n' % "\n".join(cases) +
                    'echo "rsh: no host $host in this field" >&2\nexit 255\n')
        return path
