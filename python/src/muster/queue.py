"""Queues of messages in shared memory (muster/queue.h): one writer, any number of readers of its host, each gets all.

>>> task = muster.join("doc-queue", task=0, num_tasks=1)
>>> queue = muster.Queue(depth=16)
>>> reader = muster.QueueReader(queue.number)
>>> queue.write(b"step 1")
>>> bytes(reader.read(timeout=10))
b'step 1'
>>> queue.close()
>>> list(reader)
[]
>>> reader.close(); task.leave()
"""
from __future__ import annotations

import ctypes

from muster import _joined, _lib, _wait
from muster._lib import deadline_of, int_of, lib
from muster.errors import check, error_of, is_impatience, last_sentence
from muster.object import _pin, blocking

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Iterator, Optional


class _End:
    """One end. Used by one thread at a time; closed before its task leaves."""

    def __init__(self, task: Any) -> None:
        self._task = task or _joined.current()
        self._q = ctypes.c_void_p()

    def _call(self, timeout: Optional[float], step: "Callable[[int], int]") -> int:
        """Asks without waiting first; then waits so that signals are seen."""
        if not self._q:
            raise ValueError("the queue is closed")
        m = self._task._m
        status = step(0)
        if status and timeout != 0 and (is_impatience(status, last_sentence()) or status == _lib.RESOURCE_EXHAUSTED):
            with blocking():
                status = _wait.wait(m, deadline_of(timeout), step)
        return status

    def close(self) -> None:
        """Give the end back. The writer's is the end of the queue. What was read stays."""
        q, self._q = self._q, ctypes.c_void_p()
        if q and self._task._m is not None:
            check(lib.muster_queue_close(q))

    def __enter__(self) -> "Any":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Queue(_End):
    """A new queue, and its writer. `number` is what readers open."""

    def __init__(self, depth: int = 0, readers: int = 0, max_bytes: int = 0, task: Any = None) -> None:
        super().__init__(task)
        options = _lib.QueueOptions(int_of(depth, 32, False), int_of(readers, 32, False), int_of(max_bytes, 64, False))
        number = ctypes.c_uint64()
        check(lib.muster_queue_create(self._task._m, ctypes.byref(options), ctypes.byref(self._q), ctypes.byref(number)))
        self.number = int(number.value)

    def wait(self, readers: int, timeout: Optional[float] = None) -> None:
        """Wait until there are so many readers."""
        status = self._call(timeout, lambda until: int(lib.muster_queue_wait(self._q, readers, until)))
        if status:
            raise error_of(status)

    def write(self, data: Any, timeout: Optional[float] = None) -> None:
        """Write a copy of these bytes. Past the timeout the error names the reader that has not read enough."""
        sent = data if isinstance(data, bytes) else memoryview(data).tobytes()
        status = self._call(timeout, lambda until: int(lib.muster_queue_write(self._q, sent, len(sent), until)))
        if status:
            raise error_of(status)


class QueueReader(_End):
    """A reader of the queue of this number: of what is written from now on."""

    def __init__(self, number: int, task: Any = None) -> None:
        super().__init__(task)
        check(lib.muster_queue_open(self._task._m, int_of(number, 64, False), ctypes.byref(self._q)))

    def read(self, timeout: Optional[float] = None) -> Any:
        """The next message: bytes, or, of more than 4,096, a read-only memoryview of the very bytes that were written,
        which lasts as long as anything that is made of it. EOFError: the writer has closed the queue."""
        message, m = _lib.QueueMessage(), self._task._m
        status = self._call(timeout, lambda until: int(lib.muster_queue_read(self._q, until, ctypes.byref(message))))
        if status == _lib.OUT_OF_RANGE:
            raise EOFError(last_sentence())
        if status:
            raise error_of(status)
        if not message.object:
            return ctypes.string_at(message.data, message.len) if message.len else b""
        view, number = _lib.ObjectView(), ctypes.c_uint64(message.object)
        check(lib.muster_object_get(m, ctypes.byref(number), 1, 0, ctypes.byref(view), None))
        return _pin(self._task, view)

    def __iter__(self) -> "Iterator[Any]":
        """All messages until the queue ends."""
        while True:
            try:
                message = self.read()
            except EOFError:
                return
            yield message
