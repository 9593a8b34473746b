"""Waiting in the library so that Ctrl-C, other signals and asyncio's cancellation end it.

The main thread. A signal's handler in Python runs when the interpreter runs again, and a wait in the library would not
let it. So the process has one thread that reads what the interpreter writes at the instant of a signal
(signal.set_wakeup_fd(), held while a task is joined and handed back to whoever had it), and interrupts the wait. The
handler runs, and unless it raises, the wait goes on as if nothing had been. A wait in a group would not survive that:
there only a SIGINT that will raise KeyboardInterrupt counts.

An interrupt ends all waits of the process. Those of other threads go on by themselves, unless in a group, which fails
then; the program is on its way out.

asyncio. A wait is made in slices by a few threads; more waits than threads take turns, in shorter slices. Who is
cancelled is so at once; the slice under way ends unheard.

Leaving. Who leaves the job ends the waits that other threads are in, and waits for them: the handle goes after that.
"""
from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType

from muster import _lib
from muster._lib import lib
from muster.errors import is_impatience, is_interruption, last_sentence

try:  # what signal is made of: it imports much besides
    import _signal as signal
except ImportError:
    import signal  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple
    Step = Callable[[int], int]  # makes the call with this deadline; its status

if TYPE_CHECKING:  # they take as long to import as all else together
    import concurrent.futures


THREADS = 4
SLICE = 0.1
_SHORT = 0.002


class _Main:
    """What the main thread waits in, for the thread that interrupts it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a handler that waits, too, may have interrupted the one that holds it
        self.handle: Optional[int] = None
        self.is_group = False
        self.sent = False
        self.ears = -1
        self.mouth = -1
        self.before = -1
        self.has_fd = False

    def install(self) -> None:
        """Have the interpreter's signals written to us. Called by the main thread before it waits."""
        if self.mouth < 0:
            self.ears, self.mouth = os.pipe()
            os.set_blocking(self.mouth, False)
            threading.Thread(target=self.listen, args=(self.ears,), name="muster-signals", daemon=True).start()
        mine = self.mouth
        before = signal.set_wakeup_fd(mine, warn_on_full_buffer=False)
        if before != mine:
            self.before = before
        self.has_fd = True

    def give_back(self) -> None:
        """To whoever had it: at once where there is somebody, else when the job is left."""
        if not self.has_fd or self.mouth < 0 or threading.current_thread() is not threading.main_thread():
            return
        before, self.before, self.has_fd = self.before, -1, False
        now = signal.set_wakeup_fd(-1)
        if now != self.mouth:
            before = now  # somebody has taken it from us
        if before >= 0:
            try:
                signal.set_wakeup_fd(before)
            except (OSError, ValueError):
                pass  # it was closed, or made to block, meanwhile

    def listen(self, ears: int) -> None:
        while True:
            numbers = os.read(ears, 256)
            with self.lock:
                if self.handle is not None and (not self.is_group or self.will_raise(numbers)):
                    self.sent = True
                    lib.muster_interrupt(self.handle)
                before = self.before
            if before >= 0:
                try:
                    os.write(before, numbers)
                except OSError:
                    pass  # theirs, and full or closed: as if the interpreter had written it

    @staticmethod
    def will_raise(numbers: bytes) -> bool:
        return signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def enter(self, handle: int, is_group: bool) -> None:
        with self.lock:
            if self.sent and self.handle is not None:
                self.sent = False  # a second signal cut the last leave() off
                lib.muster_resume(self.handle)
            self.is_group = is_group
            self.handle = handle

    def leave(self) -> None:
        with self.lock:
            handle, self.handle = self.handle, None
            if self.sent:
                self.sent = False
                if handle is not None and handle not in interrupted:
                    lib.muster_resume(handle)


class _Users:
    """How many threads besides the main one are in waits on each handle that is still joined."""

    def __init__(self) -> None:
        self.change = threading.Condition()
        self.count: Dict[int, int] = {}

    def begin(self, handle: Optional[int]) -> bool:
        """False: it has been left."""
        with self.change:
            if handle not in self.count:
                return False
            self.count[handle] += 1
            return True

    def end(self, handle: int) -> None:
        with self.change:
            self.count[handle] -= 1
            self.change.notify_all()


_main = _Main()
_users = _Users()
interrupted: Set[int] = set()  # handles whose owner wants all their waits ended
bystanders: List[Callable[[int], bool]] = []  # others that know of calls on a handle, short ones: are there any?
PATIENCE = 10.0
_HERE = os.path.dirname(__file__)


def _after_fork() -> None:
    """A child has neither the thread nor a right to what the parent listens to."""
    global _main, _users, _pool
    if _main.has_fd:
        signal.set_wakeup_fd(-1)
    for fd in (_main.ears, _main.mouth):
        if fd >= 0:
            os.close(fd)
    _main = _Main()
    _users = _Users()
    _pool = None
    interrupted.clear()


os.register_at_fork(after_in_child=_after_fork)


def joined(handle: int) -> None:
    _users.count[handle] = 0


def _calls_of_others() -> List[Tuple[int, FrameType]]:
    """Calls of other threads that do not wait, or are on their way into it: the thread, and the outermost of its frames that
    are of this package down to the innermost. Those that wait are counted, and the listener makes none."""
    found = []
    for ident, innermost in sys._current_frames().items():
        frame: Optional[FrameType] = innermost if ident != threading.get_ident() else None
        call: Optional[FrameType] = None
        while frame is not None and os.path.dirname(frame.f_code.co_filename) == _HERE:
            if frame.f_code in COUNTED:
                call = None
                break
            call, frame = frame, frame.f_back
        if call is not None:
            found.append((ident, call))
    return found


def _is_under_way(call: FrameType, innermost: Optional[FrameType]) -> bool:
    while innermost is not None and innermost is not call:
        innermost = innermost.f_back
    return innermost is call


def let_calls_end(handle: int) -> bool:
    """Of other threads, daemons at the program's end, say: the handle goes after it. Only those that are under way now: it is
    hidden from those that come, which are on another or fail. False: some do not end. One that asks another host may take
    long, and is ended."""
    begin, told = time.monotonic(), False
    calls = _calls_of_others()
    while calls and time.monotonic() < begin + PATIENCE:
        time.sleep(0.0005)
        if not told and time.monotonic() > begin + 1:
            told = True
            lib.muster_interrupt(handle)
        frames = sys._current_frames()
        calls = [(ident, call) for ident, call in calls if _is_under_way(call, frames.get(ident))]
        del frames  # this one is among them
    return not calls


def leaving(handle: int) -> bool:
    """No wait begins on the handle any more, and those of other threads are ended. False: they do not end."""
    def is_quiet() -> bool:
        other = threading.current_thread() is not threading.main_thread()
        return (not _users.count.get(handle) and not (other and _main.handle == handle) and
                not any(is_in(handle) for is_in in bystanders))

    end = time.monotonic() + PATIENCE
    with _users.change:
        if not is_quiet():
            interrupted.add(handle)
            lib.muster_interrupt(handle)
        while not is_quiet():
            if time.monotonic() > end:
                return False
            _users.change.wait(0.01)  # the main thread does not notify
        _users.count.pop(handle, None)
        interrupted.discard(handle)
        is_last = not _users.count
    if is_last:
        _main.give_back()
    return True


def prepare() -> None:
    """Before a group is made, whose waits do not renew it each time."""
    if threading.current_thread() is threading.main_thread():
        _main.install()


def wait(handle: Optional[int], deadline: int, step: Step) -> int:
    """The status of the step, which waits until the deadline; signals are handled meanwhile."""
    if threading.current_thread() is threading.main_thread():
        return _wait_in_main(handle, deadline, step)
    if handle is None or not _users.begin(handle):
        return step(0)  # which says so
    try:
        status = step(deadline)
        while status == _lib.CANCELLED and handle not in interrupted and is_interruption(status, last_sentence()):
            time.sleep(0.001)  # until the main thread has taken the interrupt back
            status = step(deadline)
        return status
    finally:
        _users.end(handle)


def _wait_in_main(handle: Optional[int], deadline: int, step: Step) -> int:
    if handle is None:
        return step(0)
    while True:
        _main.install()
        try:
            _main.enter(handle, False)
            status = step(deadline)
        finally:
            _main.leave()
            if _main.before >= 0:
                _main.give_back()
        if status != _lib.CANCELLED or handle in interrupted or not is_interruption(status, last_sentence()):
            return status


def wait_in_group(handle: Optional[int], step: Callable[[], int]) -> int:
    """The same for a group, where a wait can be ended but not taken up again."""
    if threading.current_thread() is threading.main_thread() and handle is not None:
        try:
            _main.enter(handle, True)
            return step()
        finally:
            _main.leave()
    if not _users.begin(handle):
        return int(lib.muster_group_barrier(None, 0))  # the group went with the task: which this says
    try:
        return step()
    finally:
        assert handle is not None
        _users.end(handle)


# ---- asyncio ----

_pool: "Optional[concurrent.futures.ThreadPoolExecutor]" = None
_waiting = 0


def _executor() -> "concurrent.futures.ThreadPoolExecutor":
    import concurrent.futures
    global _pool
    if _pool is None:
        _pool = concurrent.futures.ThreadPoolExecutor(THREADS, "muster-wait")
    return _pool


def _turn(task: Any, step: Callable[[int], Any], deadline: int, length: float) -> Tuple[bool, Any]:
    """One slice, in a thread of the pool: (over, result). Its slot in the segment is given back after it."""
    handle = task._m
    if not _users.begin(handle):
        return True, step(0)  # which says that it was left
    try:
        result = step(min(deadline, _lib.deadline_of(length)))
        return result is not NotYet, result
    finally:
        lib.muster_thread_detach(handle)
        _users.end(handle)


COUNTED = {one.__code__ for one in (wait, _wait_in_main, wait_in_group, _turn, _Main.listen, let_calls_end)}


class NotYet:
    """What a step says when its deadline has passed without an answer."""


async def wait_async(task: Any, timeout: Optional[float], step: Callable[[int], Any]) -> Any:
    """Await step(deadline), which returns NotYet when it has only waited in vain until that."""
    import asyncio
    global _waiting
    deadline = _lib.deadline_of(timeout)
    loop = asyncio.get_running_loop()
    _waiting += 1
    try:
        while True:
            length = SLICE if _waiting <= THREADS else max(_SHORT, SLICE * THREADS / _waiting)
            over, result = await loop.run_in_executor(_executor(), _turn, task, step, deadline, length)
            if over:
                return result
            if lib.muster_now_ns() >= deadline:
                return NotYet
    finally:
        _waiting -= 1


def sliced(status: int) -> bool:
    """Did this slice end without an answer: by its own deadline, or by an interrupt that another thread was meant by?"""
    sentence = last_sentence()
    return is_impatience(status, sentence) or is_interruption(status, sentence)
