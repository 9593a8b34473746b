"""Numbered broadcast events (muster/event.h): `task.events`. Numbers start at 0 and have no holes."""
from __future__ import annotations

import ctypes

from muster import _lib, _wait
from muster._lib import deadline_of, int_of, lib
from muster.errors import OutOfRange, check, error_of
from muster.kv import value_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import NamedTuple, Any, Optional
    from muster.kv import Value
else:
    from muster._named import NamedTuple

PAYLOAD_MAX = 16384


class Event(NamedTuple):
    """`task` is the sender (-1: an observer), `type` its own number, `position` where the next one is read."""
    sequence: int
    type: int
    task: int
    payload: bytes
    time_ns: int
    position: int


class Events:
    def __init__(self, task: Any) -> None:
        self._task = task

    def send(self, type: int, payload: Value = b"") -> int:
        """Send to all, without waiting for them; the event's number. 16384 bytes at most."""
        p, type, number = value_bytes(payload), int_of(type, 32, False), ctypes.c_uint64()
        check(lib.muster_event_send(self._task._m, type, p, len(p), ctypes.byref(number)))
        return number.value

    def next(self) -> int:
        """The number that the next event will get: who wants only what comes reads from there."""
        number = ctypes.c_uint64()
        check(lib.muster_event_next(self._task._m, ctypes.byref(number)))
        return number.value

    def read(self, position: int, timeout: Optional[float] = None) -> Event:
        """The event of this number, waiting for it. Too slow, and it has been overwritten: `OutOfRange`, whose `.version`
        is the oldest that is left."""
        at, lost, info = ctypes.c_uint64(int_of(position, 64, False)), ctypes.c_uint64(), _lib.EventInfo()
        buffer = ctypes.create_string_buffer(PAYLOAD_MAX)
        status = _wait.wait(self._task._m, deadline_of(timeout),
                            lambda until: int(lib.muster_event_read(
                                self._task._m, ctypes.byref(at), until, ctypes.byref(info), buffer, PAYLOAD_MAX,
                                ctypes.byref(lost))))
        if status:
            error = error_of(status)
            if isinstance(error, OutOfRange):
                error.version = at.value
            raise error
        return Event(info.sequence, info.type, info.task_id, ctypes.string_at(buffer, info.len), info.time_ns, at.value)
