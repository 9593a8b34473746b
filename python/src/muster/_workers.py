"""The helper process of muster.init(), and the workers that it forks: started as `python -S -c "... _workers.main(...)"`.

The helper is one thread that has imported what a worker needs, and joins no job: a fork of it is a worker some
milliseconds later. It keeps so many workers running as are wanted: for one that dies, is blocked in its call, or has become
an actor it forks another, and of those that are too many, once calls go on, it marks some, which end when they have no call.
It ends, and all of them, when the driver ends: by the pidfd of that, or when the pipe from it closes.

A worker takes calls, one after the other, in its main thread. Each dies with the helper.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import select
import struct
import sys

try:  # what pickle is made of: it imports much besides
    import _pickle as pickle
except ImportError:
    import pickle  # type: ignore[no-redef]

try:  # what signal is made of: it imports much besides
    import _signal as signal
except ImportError:
    import signal  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Dict, Optional

MORE = 400  # workers beyond those wanted, for calls that are blocked and for actors
DEATH = struct.Struct("<iI")  # to the driver: of a worker, its pid and wait status; 0, 0: one is ready
_RECORD = struct.Struct("<Hc")
READY, BLOCKED, GOES_ON, ACTOR, ENDED = b"r", b"b", b"g", b"a", b"e"
_PDEATHSIG = 1
TICK = 1.0  # how often an idle worker looks whether it is one too many, and an actor whether anybody has it yet


def main(down: int, up: int, driver: int, job: str) -> None:
    """Of the helper: `down` ends when the driver does, `up` is told of each worker that is ready, and of each death."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the terminal is the driver's
    os.close(null)
    size, = struct.unpack("<Q", _read(down, 8, job))
    config = pickle.loads(_read(down, size, job))
    import muster.worker  # noqa: F401 (before the forks)
    Helper(config, down, up, driver).run()


def _read(fd: int, size: int, job: str) -> bytes:
    got = b""
    while len(got) < size:
        more = os.read(fd, size - len(got))
        if not more:  # the driver has ended before it has begun
            _clean(job)
            os._exit(0)
        got += more
    return got


def _clean(job: str) -> None:
    """The job's file, once all that were in it have been killed: nobody is left that could leave it."""
    from muster._lib import lib
    lib.muster_segment_remove(job.encode())


class _Worker:
    def __init__(self, pid: int) -> None:
        self.pid, self.blocked, self.is_actor, self.is_ready = pid, 0, False, False


class Helper:
    def __init__(self, config: Dict[str, Any], down: int, up: int, driver: int) -> None:
        self.config, self.down, self.up, self.driver = config, down, up, driver
        self.want = int(config["workers"])
        self.most = self.want + MORE
        self.tell_read, self.tell = os.pipe()
        os.set_blocking(self.tell_read, False)
        self.has_warned = False
        self.marks = mmap.mmap(-1, self.most + 1)  # 1: this worker is one too many
        self.workers: Dict[int, _Worker] = {}
        self.last_id = 0
        self.failures = 0  # workers in a row that have died before they were ready
        self.poll = select.poll()

    def run(self) -> None:
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for fd in (self.down, self.tell_read, woken):
            self.poll.register(fd, select.POLLIN)
        pidfd = _pidfd(self.driver)
        if pidfd is not None:
            self.poll.register(pidfd, select.POLLIN)
        self.balance()
        while True:
            ready = [fd for fd, _ in self.poll.poll()]
            if self.down in ready:
                self.end(not os.read(self.down, 1))
            if pidfd in ready:
                self.end(True)
            if self.tell_read in ready:
                self.hear()
            if woken in ready:
                os.read(woken, 4096)
                self.reap()
            self.balance()

    def hear(self) -> None:
        """All that workers have told so far."""
        while True:
            try:
                records = os.read(self.tell_read, _RECORD.size * 1000)
            except BlockingIOError:
                return
            for number, what in _RECORD.iter_unpack(records):
                self.hear_one(self.workers[number], what)

    def hear_one(self, worker: _Worker, what: bytes) -> None:
        if what == READY:
            worker.is_ready, self.failures = True, 0
            self.say(0, 0)
        elif what in (ACTOR, ENDED):
            worker.is_actor = what == ACTOR
        else:
            worker.blocked += 1 if what == BLOCKED else -1

    def say(self, pid: int, status: int) -> None:
        """To the driver, which may have died a moment ago."""
        try:
            os.write(self.up, DEATH.pack(pid, status))
        except BrokenPipeError:
            self.end(True)

    def reap(self) -> None:
        while self.workers:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                break
            self.hear()  # what it has told, before its number is another's
            pid, status = os.waitpid(ended.si_pid, 0)
            for number, worker in list(self.workers.items()):
                if worker.pid == pid:
                    del self.workers[number]
                    self.failures += not worker.is_ready
            self.say(pid, status)
        if self.failures > 8:
            sys.stderr.write("muster: workers end before they are ready: no more are started\n")
            self.end()

    def balance(self) -> None:
        running = [n for n, w in self.workers.items() if not w.blocked and not w.is_actor]
        for _ in range(self.want - len(running)):
            if len(self.workers) < self.most:
                self.start()
            elif not self.has_warned:
                self.has_warned = True
                sys.stderr.write("muster: %d workers are actors, or wait in their calls for other calls: no more are started\n" %
                                 (self.most - len(running)))
        too_many = set(running[self.want:])
        for number in self.workers:
            self.marks[number] = number in too_many

    def start(self) -> None:
        number = self.last_id % self.most + 1
        while number in self.workers:
            number = number % self.most + 1
        self.last_id = number
        self.marks[number] = 0
        helper = os.getpid()
        pid = os.fork()
        if pid:
            self.workers[number] = _Worker(pid)
            return
        try:
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != helper:
                os._exit(0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (self.down, self.up, self.tell_read):
                os.close(fd)
            from muster import worker
            worker.main(self.config, number, self.tell, self.marks)
        except SystemExit:
            pass
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(0)

    def end(self, is_alone: bool = False) -> None:
        """Of all workers; and of the job's file, where the driver is dead and cannot see to it."""
        for worker in self.workers.values():
            os.kill(worker.pid, signal.SIGKILL)
        for worker in self.workers.values():
            os.waitpid(worker.pid, 0)
        if is_alone:
            _clean(self.config["job"])
        os._exit(0)


def _pidfd(pid: int) -> Optional[int]:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel: the pipe says it
        return None
