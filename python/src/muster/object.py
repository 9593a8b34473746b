"""Objects in shared memory (muster/object.h): values that tasks of one host hand to each other without copying them.

>>> task = muster.join("doc-object", task=0, num_tasks=1)
>>> ref = muster.put({"step": 7, "loss": 0.25})
>>> muster.get(ref)
{'step': 7, 'loss': 0.25}
>>> ready, rest = muster.wait([ref, muster.put("other")], num_returns=1)
>>> ready == [ref], len(rest)
(True, 1)
>>> del ref, ready, rest
>>> task.objects.count()
0
>>> task.leave()
"""
from __future__ import annotations

import ctypes

from muster import _joined, _lib, _pack, _wait
from muster._lib import deadline_of, int_of, lib
from muster.errors import Error, check, error_of, is_impatience, is_short, last_sentence

try:  # what pickle is made of: it imports much besides
    import _pickle as pickle
except ImportError:
    import pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Dict, Generator, Iterator, List, Optional, Sequence, Tuple, Type

_get, _put, _drop, _unview = (lib.muster_object_get, lib.muster_object_put, lib.muster_object_drop,
                              lib.muster_object_unview)
_byref, _Number, _View = ctypes.byref, ctypes.c_uint64, _lib.ObjectView
PATIENCE = 10.0  # seconds that a put waits for room
_INSTANT, _after_ns = 1000000, lib.muster_after_ns
_SMALL = 4096  # up to here a value is joined and put by one call


class ObjectRef:
    """A reference to an object. The object lives as long as some process has one, or a value that lies in its memory.

    `number` is what travels: ObjectRef(number) in another process holds the object there. The sender keeps its own until
    then. In a value that is put, a reference is an ObjectRef again for the one that gets it.
    """
    __slots__ = ("_task", "_cell", "_died", "__weakref__")

    def __init__(self, number: int, task: Any = None, died: "Optional[Type[Error]]" = None) -> None:
        self._task = task or _pack.turn.task or _joined.current()
        self._died = died  # what it is called that its producer is gone: of a call's result
        cell = _Number(int_of(number, 64, False))
        check(lib.muster_object_retain(self._task._m, _byref(cell), 1, None))
        self._cell = cell  # from here on there is something to drop

    @property
    def number(self) -> int:
        return int(self._cell.value)

    def __del__(self, drop: Any = _drop, byref: Any = _byref) -> None:
        try:
            task = self._task
            if task._m is not None:
                drop(task._m, byref(self._cell), 1)
                if task.objects._inner:
                    task.objects._dropped(self._cell.value)
        except AttributeError:
            pass  # it was never held

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ObjectRef) and self.number == other.number and self._task is other._task

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return "ObjectRef(0x%016x)" % self.number

    def __reduce__(self) -> "Tuple[Any, ...]":
        refs = _pack.turn.refs
        if refs is not None:
            refs.append(self)
        return ObjectRef, (self.number, None, self._died)

    def __await__(self) -> "Generator[Any, None, Any]":
        got: Generator[Any, None, Any] = self._task.objects.get_async(self).__await__()
        return got


def _own(task: Any, cell: Any, died: "Optional[Type[Error]]" = None) -> ObjectRef:
    """The reference that a call of the library has given us."""
    ref = ObjectRef.__new__(ObjectRef)
    ref._task, ref._cell, ref._died = task, cell, died
    return ref


class _Pin:
    """What keeps a view until the last value that lies in it goes: the classes of pin_class()."""
    task: Any
    view: Any

    def __del__(self, unview: Any = _unview, byref: Any = _byref) -> None:
        m = self.task._m
        self.task.objects.pins.pop(id(self), None)
        if m is not None:
            unview(m, byref(self.view), 1)


_pins: Dict[int, Any] = {}


def _pin(task: Any, view: Any) -> memoryview:
    """The view's bytes, read-only; it is given back when they, and all that is made of them, are gone."""
    bits = view.len.bit_length()
    kind: Any = _pins.get(bits)
    if kind is None:  # one for all lengths up to a power of two: ctypes keeps each class for ever
        kind = _pins[bits] = type("Pin", (_Pin, ctypes.c_ubyte * (1 << bits)), {})
    pin = kind.from_address(view.data)
    pin.task, pin.view = task, view
    task.objects.pins[id(pin)] = None
    return memoryview(pin).cast("B")[:view.len].toreadonly()


_bytes_at = ctypes.pythonapi.PyMemoryView_FromMemory
_bytes_at.restype = ctypes.py_object
_bytes_at.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_READ = 0x100  # PyBUF_READ


def _value(task: Any, view: Any) -> Any:
    """What the view shows. Where it must stay, it is taken over: its object is 0 then."""
    size = view.len
    data = _bytes_at(view.data, size, _READ) if size else b""
    meta = _string_at(view.meta, view.meta_len) if view.meta_len else b""
    if meta == _PICKLED:
        return _loads(data)

    def pinned() -> memoryview:
        mine = _View()
        ctypes.pointer(mine)[0] = view
        memory = _pin(task, mine)
        view.object = 0
        return memory

    return _pack.unpack(meta, data, pinned)


def values_of(task: Any, views: Any, count: int) -> "List[Any]":
    """Of all, which are given back when nothing needs them."""
    turn = _pack.turn
    before, turn.task = turn.task, task
    try:
        return [_value(task, view) for view in views]
    finally:
        turn.task = before
        _unview(task._m, views, count)


_PICKLED, _loads, _string_at = _pack.META + _pack.PICKLE, pickle.loads, ctypes.string_at


on_block: "Optional[Callable[[bool], None]]" = None  # in a worker: its call begins to wait, and goes on


class blocking:
    """What is done inside may wait long: in a worker another one takes its place meanwhile."""

    def __enter__(self) -> None:
        if on_block is not None:
            on_block(True)

    def __exit__(self, *_: Any) -> None:
        if on_block is not None:
            on_block(False)


def _wait_outside(m: Optional[int], timeout: Optional[float], step: "Callable[[int], int]") -> int:
    with blocking():
        return _wait.wait(m, deadline_of(timeout), step)


def _list_of(refs: Any, what: str) -> "List[ObjectRef]":
    if not isinstance(refs, (list, tuple)):
        raise TypeError("%s takes a list of references, not %s" % (what, type(refs).__name__))
    for ref in refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError("%s takes references, not %s" % (what, type(ref).__name__))
    return list(refs)


def fill(room: Any, packed: _pack.Packed) -> None:
    for at, part in packed.parts:
        if isinstance(part, bytes):
            ctypes.memmove(room.data + at, part, len(part)) if part else None
        elif part.nbytes:
            _bytes_at(room.data + at, part.nbytes, 0x200)[:] = part  # PyBUF_WRITE
    if packed.meta:
        ctypes.memmove(room.meta, packed.meta, len(packed.meta))


class Objects:
    """`task.objects`. muster.put(), get() and wait() are those of the task that this process is."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._inner: Dict[int, Sequence[ObjectRef]] = {}  # of each object that has references: those
        self.pins: Dict[int, None] = {}  # views that values lie in
        self._many = 64  # so many of them, and it is looked which objects are gone

    def put(self, value: Any, timeout: Optional[float] = PATIENCE) -> ObjectRef:
        """A new object with the value. Where the job has no room for it, wait until others are dropped, so many seconds
        (None: for ever); `ResourceExhausted` then says who has the most. `OutOfRange`: it is too large for the job."""
        return self._put_packed(_pack.pack(value), timeout)

    def _put_packed(self, packed: _pack.Packed, timeout: Optional[float] = PATIENCE) -> ObjectRef:
        cell, room, m = _Number(), _lib.ObjectRoom(), self._task._m
        meta, is_small = packed.meta, packed.size <= _SMALL and len(packed.parts) == 1
        data = packed.parts[0][1]

        def step(until: int) -> int:
            if is_small:
                return int(_put(m, data, len(data), meta, len(meta), until, _byref(cell)))
            return int(lib.muster_object_create(m, packed.size, len(meta), until, _byref(cell), _byref(room)))

        status = step(0)
        if status == _lib.RESOURCE_EXHAUSTED and self._inner:
            self._reap()
            status = step(0)
        if status == _lib.RESOURCE_EXHAUSTED and timeout != 0:
            status = _wait_outside(m, timeout, self._reaping(step))
        if status:
            raise error_of(status)
        ref = _own(self._task, cell)  # which drops it, should the rest fail
        if not is_small:
            fill(room, packed)
            check(lib.muster_object_seal(m, cell))
        if packed.refs:
            self._contain(ref.number, packed.refs)
        return ref

    def room(self, size: int, meta: int, timeout: float) -> None:
        """Wait until there is room for such an object, which somebody else may take."""
        cell, room, m = _Number(), _lib.ObjectRoom(), self._task._m
        self._reap()
        status = _wait_outside(m, timeout, self._reaping(
            lambda until: int(lib.muster_object_create(m, size, meta, until, _byref(cell), _byref(room)))))
        if status:
            raise error_of(status)
        _own(self._task, cell)  # which drops it at once

    def _reaping(self, step: "Callable[[int], int]") -> "Callable[[int], int]":
        """What is kept for objects that are gone goes while this process waits: others may need the room."""
        def turn(until: int) -> int:
            if self._inner:
                self._reap()
            return step(until)

        return turn

    def _contain(self, outer: int, refs: Sequence[ObjectRef]) -> None:
        """This process holds what the object refers to for as long as the object is there, and the process."""
        if len(self._inner) >= self._many:
            self._reap()
            self._many = max(64, 2 * len(self._inner))
        self._inner[outer] = tuple(refs)

    def _reap(self) -> int:
        """How many objects of this process are there that refer to others."""
        for number in list(self._inner):
            self._dropped(number)
        return len(self._inner)

    def _dropped(self, outer: int) -> None:
        """A reference of this process to the object went: with the last one of all, what it refers to goes, too."""
        if outer in self._inner and not self._exists(outer):
            self._inner.pop(outer, None)

    def _exists(self, number: int) -> bool:
        info = _lib.ObjectInfo()
        return int(lib.muster_object_info(self._task._m, number, _byref(info))) != _lib.NOT_FOUND

    def get(self, refs: Any, timeout: Optional[float] = None) -> Any:
        """The value of a reference, or the values of a list of them, waiting until all are there.

        Arrays lie in the object's memory and cannot be written to. Errors: `Timeout` (which is `DeadlineExceeded`),
        `Unavailable` (the producer died before), `NotFound` (nobody held it any more).
        """
        if isinstance(refs, ObjectRef):
            return self._values([refs], timeout)[0]
        return self._values(_list_of(refs, "get()"), timeout)

    def _values(self, refs: "List[ObjectRef]", timeout: Optional[float]) -> List[Any]:
        count, m, at = len(refs), self._task._m, ctypes.c_size_t()
        views, numbers = (_View * count)(), (_Number * count)(*[ref._cell.value for ref in refs])
        # most are there, or come in an instant: that is not worth being interrupted, nor another worker
        until = 0 if timeout is not None and timeout <= 0 else _after_ns(_INSTANT)
        status = _get(m, numbers, count, until, views, _byref(at))
        if status and timeout != 0 and is_short(status, last_sentence()):
            status = _wait_outside(m, timeout, self._reaping(
                lambda until: int(_get(m, numbers, count, until, views, _byref(at)))))
        if status:
            raise self._error(status, refs[at.value] if at.value < count else None)
        return values_of(self._task, views, count)

    def _error(self, status: int, ref: Optional[ObjectRef]) -> BaseException:
        """What a failed get of this object raises: the exception of the call that was to make it, where it is a call's."""
        error, detail = error_of(status), _Number()
        if ref is None:
            return error
        if not lib.muster_object_detail(self._task._m, ref.number, _byref(detail)):
            try:
                found = self.get(_own(self._task, detail), 0)
            except Exception as e:  # it cannot be unpickled here
                error.__cause__ = e
                return error
            return found if isinstance(found, BaseException) else error
        return ref._died(error.message, status) if ref._died and status == _lib.UNAVAILABLE else error

    async def get_async(self, ref: ObjectRef, timeout: Optional[float] = None) -> Any:
        """The same for asyncio; `await ref` waits for ever."""
        m, numbers, ready, count = self._task._m, (_Number * 1)(ref.number), ctypes.c_ubyte(), ctypes.c_size_t()

        def turn(until: int) -> Any:
            status = lib.muster_object_wait(m, numbers, 1, 1, until, _byref(ready), _byref(count))
            if status and _wait.sliced(status) and m not in _wait.interrupted:
                return _wait.NotYet
            check(status)
            return True

        if lib.muster_object_wait(m, numbers, 1, 1, 0, _byref(ready), _byref(count)):
            await _wait.wait_async(self._task, timeout, turn)
        return self.get(ref, 0)

    def wait(self, refs: Any, num_returns: int = 1, timeout: Optional[float] = None
             ) -> "Tuple[List[ObjectRef], List[ObjectRef]]":
        """Wait until `num_returns` of the references are ready, or the timeout has passed: (ready, the others), both in
        the order given. No more than num_returns are returned as ready. An error is ready."""
        refs = _list_of(refs, "wait()")
        count = len(refs)
        if len({ref._cell.value for ref in refs}) != count:
            raise ValueError("wait() takes each reference once")
        if not 0 < num_returns <= count:
            raise ValueError("num_returns is %d of %d references" % (num_returns, count))
        ready, num_ready, m = (ctypes.c_ubyte * count)(), ctypes.c_size_t(), self._task._m
        numbers = (_Number * count)(*[ref._cell.value for ref in refs])

        def step(until: int) -> int:
            return int(lib.muster_object_wait(m, numbers, count, num_returns, until, ready, _byref(num_ready)))

        status = step(0)
        if status and timeout != 0 and is_impatience(status, last_sentence()):
            status = _wait_outside(m, timeout, self._reaping(step))
        if status and not is_impatience(status, last_sentence()):
            raise error_of(status)
        done: List[ObjectRef] = []
        left: List[ObjectRef] = []
        for ref, is_ready in zip(refs, ready):
            (done if is_ready and len(done) < num_returns else left).append(ref)
        return done, left

    def infos(self) -> "List[Any]":
        """Every object of this host, as muster/object.h's muster_object_info."""
        found: List[Any] = []

        def visit(_: Any, info: Any) -> int:
            copy = _lib.ObjectInfo()
            ctypes.pointer(copy)[0] = info[0]
            found.append(copy)
            return 0

        check(lib.muster_object_list(self._task._m, _lib.VISIT_OBJECT(visit), None))
        return found

    def count(self) -> int:
        """How many objects this host has."""
        return len(self.infos())


def put(value: Any, timeout: Optional[float] = PATIENCE) -> ObjectRef:
    """Objects.put() of the task that this process is."""
    objects: Objects = _joined.current().objects
    return objects.put(value, timeout)


def get(refs: Any, timeout: Optional[float] = None) -> Any:
    """Objects.get(): the value of a reference, or of each of a list."""
    return _objects_of(refs).get(refs, timeout)


def wait(refs: Any, num_returns: int = 1, timeout: Optional[float] = None
         ) -> "Tuple[List[ObjectRef], List[ObjectRef]]":
    """Objects.wait(): (ready, the others)."""
    return _objects_of(refs).wait(refs, num_returns, timeout)


def _objects_of(refs: Any) -> Objects:
    first = refs[0] if isinstance(refs, (list, tuple)) and refs else refs
    task = first._task if isinstance(first, ObjectRef) else _joined.current()
    objects: Objects = task.objects
    return objects
