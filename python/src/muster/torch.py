"""A store of PyTorch's (torch.distributed.Store) in the job's shared memory: no server, no connections, no round trips.

One line of a program changes; which of them is a matter of taste:

    dist.init_process_group("gloo", init_method="muster://")            # after import muster.torch
    dist.init_process_group("gloo", store=muster.torch.Store(), rank=rank, world_size=size)

and none with `python -m muster.torch train.py`, or with MUSTER_TORCH=1 in the environment where PyTorch is 2.5 or newer
and the package is installed: then env:// is this store. The keys are those of the TCPStore that `muster run --tcpstore`
serves, in the same store and under the same names, so both kinds of ranks are in one job, and `muster kv list tcpstore`
shows what they have written. What is waited for and cannot come, because a task of the job has died, is an error at
once, with the name of the dead: `StoreError.culprit`.

A call costs what its C call costs and the way to it: by muster._fast, which is compiled where the package is installed
and a C compiler and Python's headers are there, or else by ctypes.
"""
import ctypes
import datetime
import functools
import importlib
import os
import re
import runpy
import sys
import urllib.parse
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist

import muster
from muster import _lib, _wait, errors
from muster._joined import tasks
from muster._torch_checkpoint import Checkpointer as Checkpointer
from muster.kv import key_bytes, value_bytes

try:
    from muster import _fast
    _wait.bystanders.append(_fast.lingers)
    os.register_at_fork(after_in_child=_fast.forget)
except ImportError:  # not compiled: ctypes does the same, slower
    _fast = None

_rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # dist has a function of that name
Bytes = Union[str, bytes]
DIRECTORY = b"tcpstore"
QUEUES = b"tcpstore-queue"
BARRIERS = b"tcpstore-barrier"
PART_MAX = 3990
QUEUE_FIRST_NS, QUEUE_LAST_NS = 1000000, 100000000  # between two looks whether something is in a queue, or was popped
_NUMBER = re.compile(rb"[ \t\n\v\f\r]*([+-]?\d+)")  # as C's strtoll() reads
_Base: Any = getattr(dist, "DistStoreError", RuntimeError)
_Empty: Any = getattr(dist, "QueueEmptyError", _Base)  # older ones have none


class StoreError(_Base):  # type: ignore[misc]
    """A wait that timed out, or that cannot end: `culprit` is the task that died, None of a timeout."""

    def __init__(self, message: str, culprit: Optional[errors.Culprit] = None) -> None:
        super().__init__(message)
        self.culprit = culprit


def _escape(match: "re.Match[bytes]") -> bytes:
    return b"%%%02X" % match.group()[0]


_ODD = re.compile(rb"[:%\x00-\x1f\x7f]")


def name_of(directory: bytes, key: Bytes) -> bytes:
    """The name in the job's store of a key of TCPStore's clients, as the server of --tcpstore writes it."""
    raw = key_bytes(key)
    part = b":" + _ODD.sub(_escape, raw).replace(b"/", b":")
    if len(part) > PART_MAX:
        raise ValueError("a key of %d bytes, %d as it is written; %d is the most" % (len(raw), len(part), PART_MAX))
    return directory + b"/" + part


def key_of(name: bytes) -> Optional[str]:
    """The key of such a name; None: of a name that no client of TCPStore's gives, as "init/"."""
    part = name.rsplit(b"/", 1)[-1]
    if not part.startswith(b":"):
        return None
    text = re.sub(rb"%([0-9A-F]{2})", lambda match: bytes([int(match.group(1), 16)]), part[1:].replace(b":", b"/"))
    return text.decode(errors="surrogateescape")


_named = functools.lru_cache(4096)(functools.partial(name_of, DIRECTORY))


def _bytes(value: Any) -> bytes:
    """A list of numbers is what C++ of PyTorch 1.13 gives compare_set()."""
    return bytes(value) if type(value) is list else value_bytes(value)


def _shown(key: Bytes) -> str:
    return "/" + key_bytes(key).decode(errors="replace")


def _seconds(timeout: Any) -> float:
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)


# What C++ holds of a store is not its Python object, without which it has no methods: process groups would lose theirs.
_kept: "List[Store]" = []


class Store(dist.Store):  # type: ignore[misc]
    """The job's keys as a store of torch.distributed.

    task      a `muster.Task`; without it the one that this process has joined, or now joins
    timeout   of get() and wait(): a timedelta or seconds, 300 s as PyTorch has it; set_timeout() sets it too
    """

    def __init__(self, task: "Optional[muster.Task]" = None, timeout: Any = 300) -> None:
        super().__init__()
        self._task = task if task is not None else joined()
        self._cell = self._task._cell
        self.set_timeout(timeout if isinstance(timeout, datetime.timedelta) else datetime.timedelta(seconds=timeout))
        if _fast is not None and type(self) is Store:  # what is derived may have methods of its own
            self._hurry()
        _kept.append(self)

    def _hurry(self) -> None:
        """Calls of the compiled module in place of the methods, which it falls back on. Bare, C++ would not see them."""
        names = ["get", "multi_get", "check", "wait"]
        used = ["kv_try_get", "kv_set", "kv_increment", "kv_compare_and_set"]
        here = os.environ.get("MUSTER_NUM_NODES") == "1" and os.environ.get("MUSTER_JOB") == self._task.job
        if here:  # elsewhere a change, and a wait, may ask another host, and that takes longer
            names += ["set", "add", "compare_set"]
            used += ["kv_get", "after_ns"]
        addresses = {name.replace("kv_", ""): ctypes.cast(getattr(_lib.lib, "muster_" + name), ctypes.c_void_p).value
                     for name in used}
        calls = _fast.Calls(self._cell, ctypes.addressof(self._cell), addresses,
                            {name: getattr(self, name) for name in names})
        for name in names:
            setattr(self, name, functools.partial(getattr(calls, name)))

    @property
    def _handle(self) -> int:
        handle = self._cell.value
        if not handle:
            raise errors.FailedPrecondition("this process has left the job: its store is closed")
        return handle

    # one key

    def set(self, key: Bytes, value: Bytes) -> None:
        name, data = _named(key), _bytes(value)
        errors.check(_lib.lib.muster_kv_set(self._handle, name, len(name), data, len(data), None))

    def get(self, key: Bytes) -> bytes:
        name = _named(key)
        value = self._look(name)
        while value is None:
            self._wait_for([(key, name)], self.timeout)
            value = self._look(name)
        return value[0]

    def _look(self, name: bytes) -> Optional[Tuple[bytes, int]]:
        """Value and version of a key, or None."""
        s = _lib.borrow()
        buffer, capacity = s.buffer, _lib.SCRATCH
        while True:
            status = _lib.lib.muster_kv_try_get(self._handle, name, len(name), buffer, capacity, s.len_ref, s.version_ref)
            if status == _lib.OUT_OF_RANGE:
                capacity = s.len.value
                buffer = ctypes.create_string_buffer(capacity)
                continue
            if status not in (_lib.OK, _lib.NOT_FOUND):
                raise errors.error_of(status)
            found = (buffer[:s.len.value], s.version.value) if status == _lib.OK else None
            _lib.give_back(s)
            return found

    def add(self, key: Bytes, by: int) -> int:
        name, by, total = _named(key), _lib.int_of(by, 64), ctypes.c_int64()
        status = _lib.lib.muster_kv_increment(self._handle, name, len(name), by, ctypes.byref(total))
        if status == _lib.OK:
            return total.value
        if status != _lib.FAILED_PRECONDITION:
            raise errors.error_of(status)
        return self._add_to_text(name, by)

    def _add_to_text(self, name: bytes, by: int) -> int:
        """As TCPStore: the number that the text begins with counts, the rest is gone, and a sum past 64 bits goes round."""
        while True:
            found = self._look(name)
            number = _NUMBER.match(found[0]) if found else None
            if found and not number:
                raise StoreError("%s holds no number to add to" % name.decode(errors="replace"))
            total = (int(number.group(1)) if number else 0) + by
            total = (total + (1 << 63)) % (1 << 64) - (1 << 63)
            if self._swap(name, found[1] if found else 0, b"%d" % total):
                return total

    def _swap(self, name: bytes, version: int, value: bytes) -> bool:
        """Replace that version. False: it is another by now."""
        status = _lib.lib.muster_kv_compare_and_set(self._handle, name, len(name), version, value, len(value), None)
        if status not in (_lib.OK, _lib.ABORTED):
            raise errors.error_of(status)
        return bool(status == _lib.OK)

    def compare_set(self, key: Bytes, expected: Bytes, desired: Bytes) -> bytes:
        name, old, new = _named(key), _bytes(expected), _bytes(desired)
        while True:
            found = self._look(name)
            if found is None and old:
                return old  # TCPStore's answer: nothing is made
            if found is not None and found[0] != old:
                return found[0]
            if self._swap(name, found[1] if found else 0, new):
                return new

    def append(self, key: Bytes, value: Bytes) -> None:
        name, data = _named(key), _bytes(value)
        errors.check(_lib.lib.muster_kv_append(self._handle, name, len(name), data, len(data), None))

    def delete_key(self, key: Bytes) -> bool:
        name, count = _named(key), ctypes.c_size_t()
        errors.check(_lib.lib.muster_kv_delete(self._handle, name, len(name), ctypes.byref(count)))
        return bool(count.value)

    # several

    def multi_get(self, keys: Sequence[Bytes]) -> List[bytes]:
        whole = type(self).get is Store.get  # what is derived may have one of its own
        found = [self._look(_named(key)) if whole else None for key in keys]
        if None in found:
            self.wait([key for key, one in zip(keys, found) if one is None])
        return [self.get(key) if one is None else one[0] for key, one in zip(keys, found)]

    def multi_set(self, keys: Sequence[Bytes], values: Sequence[Bytes]) -> None:
        if len(keys) != len(values):
            raise ValueError("%d keys and %d values" % (len(keys), len(values)))
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def num_keys(self) -> int:
        count = ctypes.c_size_t()
        errors.check(_lib.lib.muster_kv_count(self._handle, DIRECTORY, len(DIRECTORY), ctypes.byref(count)))
        return count.value

    def list_keys(self) -> List[str]:
        return [key for key in map(key_of, self._names(DIRECTORY)) if key is not None]

    def _names(self, directory: bytes) -> List[bytes]:
        listed = ctypes.POINTER(_lib.KvList)()
        errors.check(_lib.lib.muster_kv_get_dir(self._handle, directory, len(directory), ctypes.byref(listed)))
        try:
            rows = listed.contents
            return [ctypes.string_at(rows.entries[i].key, rows.entries[i].key_len) for i in range(rows.count)]
        finally:
            _lib.lib.muster_kv_list_free(listed)

    # waiting

    def _is_there(self, name: bytes) -> bool:
        status = _lib.lib.muster_kv_try_get(self._handle, name, len(name), None, 0, None, None)
        if status not in (_lib.OK, _lib.OUT_OF_RANGE, _lib.NOT_FOUND):
            raise errors.error_of(status)
        return bool(status != _lib.NOT_FOUND)

    def check(self, keys: Sequence[Bytes]) -> bool:
        return all(self._is_there(_named(key)) or self.queue_len(key) > 0 for key in keys)

    def wait(self, keys: Sequence[Bytes], timeout: Any = None) -> None:
        """Also until something is in a queue of such a name: that is looked for in between."""
        missing = [(key, _named(key)) for key in keys if not self._is_there(_named(key)) and not self.queue_len(key)]
        if missing:
            timeout = self.timeout if timeout is None else timeout
            self._wait_until(_lib.deadline_of(max(_seconds(timeout), 1e-9)), timeout, missing, lambda key: self.queue_len(key) > 0)

    def _wait_for(self, names: Sequence[Tuple[Bytes, bytes]], timeout: Any) -> None:
        self._wait_until(_lib.deadline_of(max(_seconds(timeout), 1e-9)), timeout, names)

    def _wait_until(self, deadline: int, timeout: Any, names: Sequence[Tuple[Bytes, bytes]],
                    is_over: Optional[Callable[[Bytes], bool]] = None) -> None:
        """Until each of the names is there, or the wait for it is over, which is looked for in between; the keys before them
        are what people call them."""
        for key, name in names:
            slice_ns, status = QUEUE_FIRST_NS, _lib.DEADLINE_EXCEEDED
            while status == _lib.DEADLINE_EXCEEDED:
                until = min(deadline, int(_lib.lib.muster_after_ns(slice_ns))) if is_over else deadline
                status = _wait.wait(self._handle, until, lambda until: int(_lib.lib.muster_kv_get(
                    self._handle, name, len(name), until, None, 0, None, None)))
                if is_over and status == _lib.DEADLINE_EXCEEDED and is_over(key):
                    status = _lib.OK
                if until == deadline:
                    break
                slice_ns = min(2 * slice_ns, QUEUE_LAST_NS)
            if status == _lib.DEADLINE_EXCEEDED:
                raise StoreError("wait timeout after %dms, keys: %s" % (
                    round(_seconds(timeout) * 1000), ", ".join(_shown(one) for one, _ in names)))
            if status == _lib.UNAVAILABLE:
                cause = errors.error_of(status)
                raise StoreError("key %s: %s" % (_shown(key), cause), cause.culprit) from cause
            if status not in (_lib.OK, _lib.OUT_OF_RANGE):
                raise errors.error_of(status)

    def _pass(self, key: Bytes, by: int) -> int:
        """How often the barrier has been passed, then; asked of the leader, for a copy may be of an earlier time."""
        name, number = name_of(BARRIERS, key) + b"/passes", ctypes.c_int64()
        errors.check(_lib.lib.muster_kv_increment(self._handle, name, len(name), by, ctypes.byref(number)))
        return number.value

    def barrier(self, key: str, world_size: int, timeout: Any = None) -> None:
        """All that come count the key up; the last leaves the sign of the next pass, for which the others wait."""
        sign, passes = name_of(BARRIERS, key), self._pass(key, 0)
        if self.add(key, 1) < world_size:
            timeout = self.timeout if timeout is None else timeout
            end = _lib.deadline_of(max(_seconds(timeout), 1e-9))  # a sign that others have taken away again may have been missed
            self._wait_until(end, timeout, [(key, sign + b"/%d" % (passes + 1))], lambda _: self._pass(key, 0) > passes)
            return
        passes = self._pass(key, 1)
        name, old = sign + b"/%d" % passes, sign + b"/%d" % (passes - 2)
        errors.check(_lib.lib.muster_kv_set(self._handle, name, len(name), b"passed", 6, None))
        if passes > 2:
            errors.check(_lib.lib.muster_kv_delete(self._handle, old, len(old), None))

    # queues: so many were pushed, so many of these popped, and each of the others under its number, from 1

    def _count(self, key: Bytes, part: bytes) -> Tuple[int, int]:
        """The number and its version; 0, 0: there is none."""
        found = self._look(name_of(QUEUES, key) + part)
        return (int(found[0]), found[1]) if found else (0, 0)

    def queue_len(self, key: Bytes) -> int:
        tail = self._count(key, b"/tail")[0]
        return tail - self._count(key, b"/head")[0] if tail else 0

    def queue_push(self, key: Bytes, value: Bytes) -> None:
        queue, data, number = name_of(QUEUES, key), _bytes(value), ctypes.c_int64()
        tail = queue + b"/tail"
        errors.check(_lib.lib.muster_kv_increment(self._handle, tail, len(tail), 1, ctypes.byref(number)))
        item = queue + b"/%d" % number.value
        try:
            errors.check(_lib.lib.muster_kv_set(self._handle, item, len(item), data, len(data), None))
        except errors.Error:  # its number goes back, or whoever pops would wait for the item
            last, version = self._count(key, b"/tail")
            if last == number.value:
                self._swap(tail, version, b"%d" % (last - 1))
            raise

    def queue_pop(self, key: Bytes, block: bool = True) -> bytes:
        queue, end = name_of(QUEUES, key), _lib.deadline_of(max(_seconds(self.timeout), 1e-9))
        while True:
            head, version = self._count(key, b"/head")
            item = queue + b"/%d" % (head + 1)
            found = self._look(item)
            if found is None and self._count(key, b"/head")[0] == head:  # else somebody has popped it just now
                if not block:
                    raise _Empty("queue %s is empty" % _shown(key))
                # another may pop just that item
                self._wait_until(end, self.timeout, [(key, item)], lambda _: self._count(key, b"/head")[0] != head)
            elif found is not None and self._swap(queue + b"/head", version, b"%d" % (head + 1)):
                errors.check(_lib.lib.muster_kv_delete(self._handle, item, len(item), None))
                return found[0]

    def clone(self) -> "Store":
        return Store(self._task, self.timeout)

    # as C++ calls them
    getNumKeys = num_keys
    deleteKey = delete_key

    def __repr__(self) -> str:
        return "muster.torch.Store(job %s)" % self._task.job


_born = os.getpid()
_joined: "dict[int, muster.Task]" = {}


def joined() -> Any:
    """The task that this process is in its environment's job, or now becomes. Where another process is that task (this
    one is its child, of torch.multiprocessing as a rule), an observer: it has its part in the store, but its death is
    not told to the others."""
    job, pid = os.environ.get("MUSTER_JOB"), os.getpid()
    known = list(tasks) if pid == _born else []
    for task in [_joined.get(pid)] + known:
        if task is not None and task._cell.value and job in (None, task.job):
            return task
    try:
        _joined[pid] = muster.join()
    except errors.AlreadyExists:
        _joined[pid] = muster.join(observer=True)
    return _joined[pid]


def _store_of_job(timeout: Any) -> dist.Store:
    """Under the prefix that PyTorch up to 2.5 gives an agent's store, for the sake of ranks that have that."""
    store = Store(timeout=timeout)
    release = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if release >= (2, 6):
        return store
    return dist.PrefixStore("/worker/attempt_" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)


def _meet(url: str, timeout: Any = datetime.timedelta(minutes=30), **_: Any) -> Iterator[Tuple[dist.Store, int, int]]:
    """What init_method="muster://" does; rank and size are those of the environment unless they are given."""
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(url).query))
    if not os.environ.get("MUSTER_JOB"):
        raise ValueError("muster://: MUSTER_JOB is not set: start the program with muster run -n N -- python ...")
    rank = int(query.get("rank", os.environ.get("RANK", -1)))
    size = int(query.get("world_size", os.environ.get("WORLD_SIZE", -1)))
    if not 0 <= rank < size:
        raise ValueError("muster://: rank %d of %d: RANK and WORLD_SIZE say it, or rank= and world_size=" % (rank, size))
    yield _store_of_job(timeout), rank, size
    raise RuntimeError("muster:// meets once")


def use_for_env() -> None:
    """From now on env:// is this store too, in processes of a job."""
    before = _rendezvous._rendezvous_handlers["env"]
    if getattr(before, "is_of_muster", False):
        return

    def meet(url: str, **more: Any) -> Any:
        return (_meet if os.environ.get("MUSTER_JOB") else before)(url, **more)
    setattr(meet, "is_of_muster", True)
    _rendezvous._rendezvous_handlers["env"] = meet


if __name__ != "__main__" and "muster" not in _rendezvous._rendezvous_handlers:
    dist.register_rendezvous_handler("muster", _meet)


def main() -> None:
    """python -m muster.torch PROGRAM ARGUMENTS...: an unmodified program whose env:// is this store."""
    if len(sys.argv) < 2:
        sys.exit("usage: muster run -n N -- python -m muster.torch PROGRAM [ARGUMENT...]")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    use_for_env()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":  # of this module there is one more now: the program's is the one that it can import
    importlib.import_module("muster.torch").main()
