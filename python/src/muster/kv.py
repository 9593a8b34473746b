"""The key-value store of the job as a mapping (muster/kv.h).

Keys are str or bytes, paths of 1 to 4096 bytes: "config/model". Leading and trailing '/' do not count. Values are bytes;
a str is stored as UTF-8. Every change is made at one instant and wakes whoever waits for the key.

>>> task = muster.join("doc-kv", task=0, num_tasks=1)
>>> task.kv["config/model"] = "resnet"
>>> task.kv["config/model"]
b'resnet'
>>> task.kv.increment("steps", 5)
5
>>> list(task.kv)
['config/model', 'steps']
>>> task.kv.get("nobody/sets/this", wait=0.01)
Traceback (most recent call last):
...
muster.errors.DeadlineExceeded: the deadline passed while waiting for key nobody/sets/this
>>> task.kv.delete("config")
1
>>> task.leave()
"""
from __future__ import annotations

import ctypes
from collections.abc import ItemsView, MutableMapping, ValuesView

from muster import _lib, _wait
from muster._lib import FOREVER, NOT_FOUND, OUT_OF_RANGE, SCRATCH, Out, borrow, deadline_of, give_back, int_of, lib
from muster.errors import Aborted, check, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import NamedTuple, Any, Dict, Iterator, List, Optional, Tuple, Union
    Key = Union[str, bytes]
    Value = Union[bytes, str, bytearray, memoryview]
    Wait = Union[bool, float]
else:
    from muster._named import NamedTuple



class Entry(NamedTuple):
    """A key, its value, and the version that each change makes larger."""
    key: str
    value: bytes
    version: int


def key_bytes(key: Key) -> bytes:
    if type(key) is bytes:
        return key
    if isinstance(key, str):
        return key.encode("utf-8", "surrogateescape")
    raise TypeError("a key is str or bytes, not %s" % type(key).__name__)


def value_bytes(value: Any) -> bytes:
    """Bytes as they are, str as UTF-8, and the bytes of whatever has a buffer. A number is none of them."""
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError("a value is bytes or str, not %s" % type(value).__name__) from None


def _deadline(wait: Wait) -> int:
    return FOREVER if wait is True else deadline_of(wait)


class _Items(ItemsView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Tuple[str, bytes]]:
        return iter([(e.key, e.value) for e in self._mapping.list()])  # type: ignore[attr-defined]


class _Values(ValuesView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[bytes]:
        return iter([e.value for e in self._mapping.list()])  # type: ignore[attr-defined]


class KeyValue(MutableMapping):  # type: ignore[type-arg]
    """`task.kv`. Iteration, len(), items() and values() see all keys of the job, each as one snapshot."""

    def __init__(self, task: Any) -> None:
        self._task = task

    # ---- reading ----

    def _try(self, key: bytes) -> Optional[Tuple[bytes, int]]:
        """The value and its version; None when there is no such key."""
        s = borrow()
        status = lib.muster_kv_try_get(self._task._m, key, len(key), s.address, SCRATCH, s.len_ref, s.version_ref)
        if not status:
            found = s.buffer[:s.len.value], s.version.value
            give_back(s)
            return found
        while status == OUT_OF_RANGE:
            room = s.len.value
            buffer = ctypes.create_string_buffer(room)
            status = lib.muster_kv_try_get(self._task._m, key, len(key), ctypes.addressof(buffer), room, s.len_ref,
                                           s.version_ref)
            if not status:
                found = ctypes.string_at(buffer, s.len.value), s.version.value
                give_back(s)
                return found
        if status != NOT_FOUND:
            raise error_of(status)
        give_back(s)
        return None

    def __getitem__(self, key: Key) -> bytes:
        found = self._try(key_bytes(key))
        if found is None:
            raise error_of(NOT_FOUND)
        return found[0]

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, bytes)):
            return False
        k = key_bytes(key)
        status = lib.muster_kv_try_get(self._task._m, k, len(k), None, 0, None, None)
        if status not in (_lib.OK, OUT_OF_RANGE, NOT_FOUND):
            raise error_of(status)
        return bool(status != NOT_FOUND)

    def get(self, key: Key, default: Any = None, *, wait: Wait = False) -> Any:
        """The value; `default` when there is none. wait=True: wait until there is one, which a task's death ends with
        `Unavailable`; wait=SECONDS: for so long, then `DeadlineExceeded`."""
        k = key_bytes(key)
        found = self._try(k)
        if found is not None:
            return found[0]
        if wait is False:
            return default
        return self._await(k, 0, _deadline(wait)).value

    def read(self, key: Key, *, wait: Wait = False) -> Entry:
        """The value with its version. `NotFound` when there is none, unless it is waited for as by get()."""
        k = key_bytes(key)
        found = self._try(k)
        if found is not None:
            return Entry(_text(k), *found)
        if wait is False:
            raise error_of(NOT_FOUND)
        return self._await(k, 0, _deadline(wait))

    def watch(self, key: Key, after: int = 0, timeout: Optional[float] = None) -> Entry:
        """Wait until the key has a version above `after`. `NotFound` when it has been deleted since."""
        return self._await(key_bytes(key), int_of(after, 64, False), deadline_of(timeout))

    def _await(self, key: bytes, after: int, deadline: int) -> Entry:
        s = borrow()

        def step(until: int) -> int:
            return int(lib.muster_kv_watch(self._task._m, key, len(key), after, until, s.address, SCRATCH, s.len_ref,
                                           s.version_ref))
        while True:
            found = self._entry(key, after, _wait.wait(self._task._m, deadline, step), s)
            if found:
                give_back(s)
                return found

    def _entry(self, key: bytes, after: int, status: int, s: Out) -> Optional[Entry]:
        """What a watch has found. None: it was too long for the buffer and has gone since."""
        if not status:
            return Entry(_text(key), s.buffer[:s.len.value], s.version.value)
        if status != OUT_OF_RANGE:
            raise error_of(status)
        found = self._try(key)
        return Entry(_text(key), *found) if found is not None and found[1] > after else None

    async def wait(self, key: Key, timeout: Optional[float] = None) -> bytes:
        """Await the key's value, for asyncio; errors as of get(). Cancelling it takes effect at once."""
        return (await self.wait_change(key, 0, timeout)).value

    async def wait_change(self, key: Key, after: int = 0, timeout: Optional[float] = None) -> Entry:
        """As watch(), for asyncio."""
        k, after = key_bytes(key), int_of(after, 64, False)

        def step(until: int) -> Any:
            s = borrow()
            status = lib.muster_kv_watch(self._task._m, k, len(k), after, until, s.address, SCRATCH, s.len_ref,
                                         s.version_ref)
            if status and _wait.sliced(status) and self._task._m not in _wait.interrupted:
                return _wait.NotYet
            found = self._entry(k, after, status, s)
            give_back(s)
            return found or _wait.NotYet

        found = await _wait.wait_async(self._task, timeout, step)
        if found is _wait.NotYet:
            return self._await(k, after, 0)  # the sentence, or what has come this moment
        return found  # type: ignore[no-any-return]

    # ---- changing ----

    def __setitem__(self, key: Key, value: Value) -> None:
        k, v = key_bytes(key), value if type(value) is bytes else value_bytes(value)
        status = lib.muster_kv_set(self._task._m, k, len(k), v, len(v), None)
        if status:
            raise error_of(status)

    def set(self, key: Key, value: Value) -> int:
        """Insert or replace; the new version."""
        k, v, version = key_bytes(key), value_bytes(value), ctypes.c_uint64()
        check(lib.muster_kv_set(self._task._m, k, len(k), v, len(v), ctypes.byref(version)))
        return version.value

    def insert(self, key: Key, value: Value) -> None:
        """`AlreadyExists` when the key is there; its value is kept."""
        k, v = key_bytes(key), value_bytes(value)
        check(lib.muster_kv_insert(self._task._m, k, len(k), v, len(v)))

    def setdefault(self, key: Key, default: Any = b"") -> Any:
        """The value that is there, or else this one, which is now: in one step, whoever else calls."""
        k, v = key_bytes(key), value_bytes(default)
        while True:
            status = lib.muster_kv_insert(self._task._m, k, len(k), v, len(v))
            if not status:
                return v
            if status != _lib.ALREADY_EXISTS:
                raise error_of(status)
            found = self._try(k)
            if found is not None:
                return found[0]

    def increment(self, key: Key, by: int = 1) -> int:
        """Add to the decimal number; absent counts as 0. The sum. `FailedPrecondition`: it is no number."""
        k, by, total = key_bytes(key), int_of(by, 64), ctypes.c_int64()
        check(lib.muster_kv_increment(self._task._m, k, len(k), by, ctypes.byref(total)))
        return total.value

    def append(self, key: Key, value: Value) -> int:
        """Append to the value; absent counts as empty. Its length then."""
        k, v, length = key_bytes(key), value_bytes(value), ctypes.c_size_t()
        check(lib.muster_kv_append(self._task._m, k, len(k), v, len(v), ctypes.byref(length)))
        return length.value

    def compare_and_set(self, key: Key, expected: int, value: Value) -> int:
        """Replace the value if its version is `expected` (0: only if absent); the new version. `Aborted` when it is
        another, which the exception has as `.version`."""
        k, v, version = key_bytes(key), value_bytes(value), ctypes.c_uint64()
        expected = int_of(expected, 64, False)
        status = lib.muster_kv_compare_and_set(self._task._m, k, len(k), expected, v, len(v), ctypes.byref(version))
        if status:
            error = error_of(status)
            if isinstance(error, Aborted):
                error.version = version.value
            raise error
        return version.value

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def delete(self, key: Key) -> int:
        """Delete the key and everything below "key/"; how many went. "" or "/": all keys."""
        k, count = key_bytes(key), ctypes.c_size_t()
        check(lib.muster_kv_delete(self._task._m, k, len(k), ctypes.byref(count)))
        return count.value

    def clear(self) -> None:
        self.delete("")

    # ---- many ----

    def list(self, directory: Key = "") -> "List[Entry]":
        """All that is below "directory/" at one instant, in the order of the keys."""
        d = key_bytes(directory)
        got = ctypes.POINTER(_lib.KvList)()
        check(lib.muster_kv_get_dir(self._task._m, d, len(d), ctypes.byref(got)))
        try:
            return [Entry(_text(ctypes.string_at(e.key, e.key_len)), ctypes.string_at(e.value, e.value_len), e.version)
                    for e in got.contents.entries[:got.contents.count]]
        finally:
            lib.muster_kv_list_free(got)

    def directory(self, directory: Key = "") -> Dict[str, bytes]:
        """The same as a dict of values."""
        return {e.key: e.value for e in self.list(directory)}

    def count(self, directory: Key = "") -> int:
        """How many keys are below "directory/"."""
        d, count = key_bytes(directory), ctypes.c_size_t()
        check(lib.muster_kv_count(self._task._m, d, len(d), ctypes.byref(count)))
        return count.value

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter([e.key for e in self.list()])

    def items(self) -> Any:
        return _Items(self)

    def values(self) -> Any:
        return _Values(self)

    def sync(self, timeout: Optional[float] = None) -> None:
        """In a job of several hosts: reads after it see everything that was committed anywhere before it."""
        check(_wait.wait(self._task._m, deadline_of(timeout),
                         lambda until: int(lib.muster_kv_sync(self._task._m, until))))

    def __repr__(self) -> str:
        return "<the keys of job %s>" % self._task.job


def _text(key: bytes) -> str:
    """As the store has it, without the strokes that do not count."""
    return "/".join(p for p in key.decode("utf-8", "surrogateescape").split("/") if p)

