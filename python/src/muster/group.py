"""Groups (muster/group.h): a fixed set of tasks with a fast barrier and small collectives.

>>> task = muster.join("doc-group", task=0, num_tasks=1)
>>> with task.group("workers") as workers:
...     workers.barrier()
...     workers.allgather(b"me")
...     workers.allreduce(3, "max")
[b'me']
3
>>> task.leave()

With numpy an array goes as it lies in memory, without pickling: `allgather(array)` gives one array with a row for each
member, in the order of their ranks.
"""
from __future__ import annotations

import ctypes
import struct
from types import TracebackType

from muster import _wait
from muster._lib import Membership, deadline_of, ids_of, int_of, lib
from muster.errors import check

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Iterable, Optional, Tuple, Type, Union

_OPS = {"sum": 0, "min": 1, "max": 2, "band": 3, "bor": 4, "prod": 5}
_TYPES = {"int64": 0, "uint64": 1, "float64": 2}
DATA_MAX = 16384
_HEAD = struct.Struct("<Q")  # the length in front of bytes that are shorter than the longest


class Group:
    """Made by task.group(). A member that dies, leaves or gives up fails it for good: make a new one then."""

    def __init__(self, task: Any, name: str, tasks: Optional[Iterable[int]], data_bytes: int,
                 timeout: Optional[float], epoch: Optional[Membership] = None) -> None:
        if "\0" in name:
            raise ValueError("a group's name has no NUL in it")
        made, (ids, count) = ctypes.c_void_p(), ids_of(tasks)
        self._g: Optional[int] = None
        self._task, self.name = task, name
        _wait.prepare()
        deadline = deadline_of(timeout)
        length = int_of(data_bytes, 64, False)
        if epoch is None:
            check(_wait.wait_in_group(task._m, lambda: int(lib.muster_group_create(
                task._m, name.encode(), ids, count, length, deadline, ctypes.byref(made)))))
        else:
            check(_wait.wait_in_group(task._m, lambda: int(lib.muster_group_of_epoch(
                task._m, ctypes.byref(epoch), name.encode(), length, deadline, ctypes.byref(made)))))
        self._g = made.value
        task._groups.add(self)
        self.rank = int(lib.muster_group_rank(made))
        self.size = int(lib.muster_group_size(made))
        self.data_bytes = data_bytes or 256

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Wait for all. `Unavailable` names who is lost, `DeadlineExceeded` who had not arrived; either is the end of
        the group, and so is a Ctrl-C."""
        deadline = deadline_of(timeout)
        status = _wait.wait_in_group(self._task._m, lambda: int(lib.muster_group_barrier(self._g, deadline)))
        if status:
            check(status)

    def _allgather(self, address: int, length: int, timeout: Optional[float], all_: int) -> None:
        deadline = deadline_of(timeout)
        check(_wait.wait_in_group(self._task._m,
                                  lambda: int(lib.muster_group_allgather(self._g, address, length, all_, deadline))))

    def allgather(self, value: Any, timeout: Optional[float] = None) -> Any:
        """Each gives a value, all get all of them by rank.

        bytes: a list of bytes. The lengths may differ; each is data_bytes - 8 at most. A numpy array: an array with one
        axis more in front. All members give the same shape and type, and data_bytes at most.
        """
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._gather_bytes(bytes(value), timeout)
        return self._gather_array(_array(value), timeout)

    def _gather_bytes(self, value: bytes, timeout: Optional[float]) -> Any:
        room = self.data_bytes - _HEAD.size
        if len(value) > room:
            raise ValueError("%d bytes; group %s takes %d (data_bytes less 8)" % (len(value), self.name, room))
        mine = ctypes.create_string_buffer(_HEAD.pack(len(value)) + value, self.data_bytes)
        got = ctypes.create_string_buffer(self.data_bytes * self.size)
        self._allgather(ctypes.addressof(mine), self.data_bytes, timeout, ctypes.addressof(got))
        whole, values = memoryview(got), []
        for at in range(0, len(got), self.data_bytes):
            length = _HEAD.unpack_from(whole, at)[0]
            values.append(bytes(whole[at + _HEAD.size:at + _HEAD.size + length]))
        return values

    def _gather_array(self, array: Any, timeout: Optional[float]) -> Any:
        import numpy
        got = numpy.empty((self.size,) + array.shape, array.dtype)
        self._fits(array.nbytes)
        self._allgather(array.ctypes.data, array.nbytes, timeout, got.ctypes.data)
        return got

    def _fits(self, length: int) -> None:
        if length > self.data_bytes:
            raise ValueError("%d bytes; group %s takes %d (data_bytes)" % (length, self.name, self.data_bytes))

    def broadcast(self, value: Any, root: int = 0, timeout: Optional[float] = None) -> Any:
        """The value of the member `root`. bytes: what the others give does not count (None). A numpy array: the others
        give one of the same shape and type, and it is filled."""
        if value is None or isinstance(value, (bytes, bytearray, memoryview)):
            return self._broadcast_bytes(value, root, timeout)
        array = _array(value)
        if self.rank != root and array is not value:
            raise ValueError("the array is filled in place: it must be contiguous")
        if self.rank != root and not array.flags.writeable:
            raise ValueError("the array is filled in place: it must be writeable")
        self._fits(array.nbytes)
        self._broadcast(root, array.ctypes.data, array.nbytes, timeout)
        return value

    def _broadcast(self, root: int, address: int, length: int, timeout: Optional[float]) -> None:
        deadline = deadline_of(timeout)
        if not 0 <= root < self.size:
            raise ValueError("there is no rank %d in group %s of %d" % (root, self.name, self.size))
        check(_wait.wait_in_group(self._task._m,
                                  lambda: int(lib.muster_group_broadcast(self._g, root, address, length, deadline))))

    def _broadcast_bytes(self, value: Any, root: int, timeout: Optional[float]) -> bytes:
        given, room = b"", self.data_bytes - _HEAD.size
        if self.rank == root:
            given = bytes(value) if value is not None else b""
            if len(given) > room:
                raise ValueError("%d bytes; group %s takes %d (data_bytes less 8)" % (len(given), self.name, room))
        buffer = ctypes.create_string_buffer(_HEAD.pack(len(given)) + given, self.data_bytes)
        self._broadcast(root, ctypes.addressof(buffer), self.data_bytes, timeout)
        whole = memoryview(buffer)
        return bytes(whole[_HEAD.size:_HEAD.size + _HEAD.unpack_from(whole)[0]])

    def allreduce(self, value: Any, op: str = "sum", timeout: Optional[float] = None) -> Any:
        """Element by element: "sum", "min", "max", "prod", and of integers "band", "bor". An int (64 bits), a float, or a
        numpy array of int64, uint64 or float64, of which a new one is returned. The same bits for all."""
        if op not in _OPS:
            raise ValueError("no such operation: %s; there are %s" % (op, ", ".join(_OPS)))
        if isinstance(value, (int, float)) and not hasattr(value, "dtype"):
            return self._reduce_scalar(value, op, timeout)
        array = _array(value).copy()
        if array.dtype.name not in _TYPES or not array.dtype.isnative:
            raise TypeError("arrays of int64, uint64 and float64 are reduced, not of %s" % array.dtype)
        self._fits(array.nbytes)
        self._reduce(array.ctypes.data, array.size, _TYPES[array.dtype.name], op, timeout)
        return array

    def _reduce_scalar(self, value: Union[int, float], op: str, timeout: Optional[float]) -> Union[int, float]:
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 63:
                raise OverflowError("%d does not fit into 64 bits" % value)
            cell: Any = ctypes.c_int64(value)
        else:
            cell = ctypes.c_double(value)
        self._reduce(ctypes.addressof(cell), 1, 0 if isinstance(value, int) else 2, op, timeout)
        return cell.value  # type: ignore[no-any-return]

    def _reduce(self, address: int, count: int, kind: int, op: str, timeout: Optional[float]) -> None:
        deadline = deadline_of(timeout)
        check(_wait.wait_in_group(
            self._task._m, lambda: int(lib.muster_group_allreduce(self._g, address, count, kind, _OPS[op], deadline))))

    def missing(self) -> Tuple[int, ...]:
        """Who has not arrived at the instance that this member waits in, or would. From any thread."""
        ids, count = (ctypes.c_int32 * self.size)(), ctypes.c_size_t()
        check(lib.muster_group_missing(self._g, ids, self.size, ctypes.byref(count)))
        return tuple(ids[:min(count.value, self.size)])

    def close(self) -> None:
        """Take part no more; the others' next wait fails. No other thread may be in a call on the group."""
        g = self._hide()
        if g:
            lib.muster_group_free(g)

    def _hide(self) -> Optional[int]:
        """No call begins on it any more. What is to be freed."""
        g, self._g = self._g, None
        self._task._groups.discard(self)
        return g

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<group %s: rank %d of %d>" % (self.name, self.rank, self.size)


def _array(value: Any) -> Any:
    """A contiguous array of plain numbers: what can go as it lies in memory."""
    try:
        import numpy
    except ImportError:
        raise TypeError("bytes are given, or arrays where numpy is installed, not %s" % type(value).__name__) from None
    if isinstance(value, numpy.generic):
        value = numpy.asarray(value)
    if not isinstance(value, numpy.ndarray):
        raise TypeError("bytes or a numpy array are given, not %s" % type(value).__name__)
    if value.dtype.hasobject:
        raise TypeError("an array of Python objects cannot go as it lies in memory")
    return numpy.ascontiguousarray(value) if value.ndim else value
