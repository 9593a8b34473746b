"""muster.Executor: a concurrent.futures.Executor whose calls run in the workers of the job.

    with muster.Executor(max_workers=4) as executor:
        print(list(executor.map(pow, range(5), range(5))))

A worker that dies fails the future that it ran, and no other; another worker takes its place.
"""
import concurrent.futures
import ctypes
import threading
import types
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from muster import _code, _joined, _lib, _pool
from muster._lib import FOREVER, deadline_of, lib
from muster.calls import RemoteFunction, remote
from muster.object import ObjectRef, _own
from muster.task import Task

MOMENT = 0.05  # seconds between looks where there is no room for a bell


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """Of one call: `ref` is the reference to its result. It can be cancelled until a worker has taken it."""
    ref: ObjectRef
    results: "_Results"

    def cancel(self) -> bool:
        if not self.results.take(self):  # it has ended, or was cancelled before
            return super().cancel()
        if lib.muster_call_cancel(self.ref._task._m, self.ref.number):
            self.results.add(self)
            return False
        super().cancel()
        return not self.set_running_or_notify_cancel()


class _Results(threading.Thread):
    """Waits for the results of all futures of an executor, and sets them."""

    def __init__(self, task: Task) -> None:
        super().__init__(name="muster-executor", daemon=True)
        self.task = task
        self.lock = threading.Lock()
        self.futures: Dict[int, Future] = {}
        self.has_ended = False
        self.bell: Optional[ObjectRef] = None  # is sealed when there is more to wait for: the thread has not seen it yet
        self.idle = threading.Condition(self.lock)

    def add(self, future: Future) -> None:
        with self.lock:
            self.futures[future.ref.number] = future
            self._ring()

    def take(self, future: Future) -> bool:
        """From here on it is the caller's to settle."""
        with self.lock:
            return self.futures.pop(future.ref.number, None) is not None

    def end(self) -> None:
        """When all futures are done."""
        with self.lock:
            self.has_ended = True
            self._ring()

    def _ring(self) -> None:
        bell, self.bell = self.bell, None
        if bell is not None:
            lib.muster_object_seal(self.task._m, bell.number)
        self.idle.notify()

    def run(self) -> None:
        while True:
            with self.lock:
                while not self.futures and not self.has_ended:
                    self.idle.wait()
                if not self.futures:
                    break
                self.bell = bell = _unsealed(self.task)
                numbers = list(self.futures)
            self._wait(numbers, bell)
        lib.muster_thread_detach(self.task._m)

    def _wait(self, futures: List[int], bell: Optional[ObjectRef]) -> None:
        """Until one of them is ready, or the bell rings; for a moment where there is no bell."""
        numbers = futures if bell is None else [*futures, bell.number]
        count, ready, num_ready = len(numbers), (ctypes.c_ubyte * len(numbers))(), ctypes.c_size_t()
        status = lib.muster_object_wait(self.task._m, (ctypes.c_uint64 * count)(*numbers), count, 1,
                                        deadline_of(MOMENT) if bell is None else FOREVER, ready, ctypes.byref(num_ready))
        with self.lock:
            # nothing more comes, and a get says why; a bell that is ready and was not rung is that of a task in error
            is_over = status not in (_lib.OK, _lib.DEADLINE_EXCEEDED) or bool(bell and ready[-1] and self.bell is bell)
            done = [number for number, is_ready in zip(futures, ready) if is_ready or is_over]
            settled = [self.futures.pop(number, None) for number in done]
        for future in settled:
            if future is not None:
                _settle(future)


def _unsealed(task: Task) -> Optional[ObjectRef]:
    """None: there is no room for it now."""
    cell, room = ctypes.c_uint64(), _lib.ObjectRoom()
    status = lib.muster_object_create(task._m, 0, 0, 0, ctypes.byref(cell), ctypes.byref(room))
    return None if status else _own(task, cell)


def _settle(future: Future) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = future.ref._task.objects.get(future.ref, 0)
    except BaseException as e:
        future.set_exception(e)
    else:
        future.set_result(value)


@remote
def _call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


_seen: "weakref.WeakSet[Any]" = weakref.WeakSet()
_remotes: "weakref.WeakKeyDictionary[Any, RemoteFunction]" = weakref.WeakKeyDictionary()


_live: "weakref.WeakSet[Executor]" = weakref.WeakSet()


def _finish() -> None:
    """At the end of the program, before its threads are waited for: what was submitted is done, as in concurrent.futures."""
    for executor in list(_live):
        executor.shutdown()


threading._register_atexit(_finish)  # type: ignore[attr-defined]


def _chunk(f: Callable[..., Any], rows: List[Any]) -> List[Any]:
    return [f(*row) for row in rows]


class Executor(concurrent.futures.Executor):
    """max_workers, store   as muster.init() has them; where this process has workers already, those are used.

    What is submitted is pickled: functions that cannot be imported, lambdas too, by value, once.
    """

    def __init__(self, max_workers: Optional[int] = None, store: Optional[int] = None) -> None:
        self._owns = _pool._pool is None
        self._task: Task = _pool.init(max_workers, store) if self._owns else _joined.current()
        self._max_workers = _pool.number_of_workers() if max_workers is None else max_workers
        self._results = _Results(self._task)
        self._results.start()
        self._lock = threading.Lock()
        self._is_shut = False
        _live.add(self)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """A future of fn(*args, **kwargs)."""
        future = Future()
        future.results = self._results
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future.ref = self._submit(fn, args, kwargs)
            self._results.add(future)
        return future

    def _submit(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> ObjectRef:
        """What can be imported goes by its name, each time; a lambda, or a function of the main program, as code: with its
        first call, and from the second on once for all, for what is exported stays for as long as the job."""
        made = None
        if type(fn) is types.FunctionType:
            made = _remotes.get(fn)
            if made is None and not _code.is_importable(fn, fn.__qualname__):
                if fn in _seen:
                    made = _remotes[fn] = remote(fn)
                _seen.add(fn)
        ref: ObjectRef = _call.remote(fn, *args, **kwargs) if made is None else made.remote(*args, **kwargs)
        return ref

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None,
            chunksize: int = 1) -> Iterator[Any]:
        """As the base class; chunksize > 1: so many of them in one call."""
        if chunksize < 1:
            raise ValueError("chunksize is %d: 1 is the least" % chunksize)
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        rows = list(zip(*iterables))
        chunks = super().map(_chunk, [fn] * len(range(0, len(rows), chunksize)),
                             [rows[i:i + chunksize] for i in range(0, len(rows), chunksize)], timeout=timeout)
        return (value for chunk in chunks for value in chunk)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            was, self._is_shut = self._is_shut, True
        if cancel_futures:
            for future in list(self._results.futures.values()):
                future.cancel()
        if not was:
            self._results.end()
            if not wait and self._owns:
                threading.Thread(target=self._end_later, name="muster-shutdown", daemon=True).start()
        if wait:
            self._end_later()

    def _end_later(self) -> None:
        self._results.join()
        if self._owns and _pool.is_of(self._task):
            _pool.shutdown()
