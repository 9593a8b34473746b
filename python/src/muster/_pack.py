"""Values as the bytes of an object, and back: pickle's protocol 5, its buffers beside the pickle.

An object without metadata is bytes, as a C program puts them; `bytes` are put like that. Any other value has 8 bytes of
metadata, whose last is its KIND. The data of PICKLE is a pickle; that of BUFFERS is a table of 64-bit numbers (how many
buffers, and of the pickle and of each buffer the offset and the length), then these, each at a multiple of 64.
"""
from __future__ import annotations

import struct
import sys
import threading
import types

try:  # what pickle is made of: it imports much besides
    import _pickle as pickle
except ImportError:
    import pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple
    Part = Tuple[int, Any]  # the offset, and bytes or a memoryview

META = b"mupy\x01\0\0"
PICKLE, BUFFERS = b"p", b"b"
ALIGN = 64



class Packed:
    """What is to be written: `size` bytes, `parts` of them at their offsets, and the references that the value has."""
    __slots__ = ("meta", "size", "parts", "refs")

    def __init__(self, meta: bytes, size: int, parts: Sequence[Part], refs: Sequence[Any]) -> None:
        self.meta, self.size, self.parts, self.refs = meta, size, parts, refs


class _Turn(threading.local):
    """What this thread is at: the references met in the value that it packs, and the task whose object it unpacks."""
    refs: Optional[List[Any]] = None
    task: Any = None


turn = _Turn()


def _tensor_reduce(tensor: Any) -> Any:
    """A tensor of the CPU through numpy, whose buffer lies beside the pickle; any other as torch does it."""
    torch = sys.modules["torch"]
    if type(tensor) is not torch.Tensor or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return NotImplemented
    if tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return NotImplemented
    try:
        return tensor_of, (tensor.contiguous().numpy(), None)
    except TypeError:  # numpy has no such numbers (bfloat16): as bytes
        flat = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        return tensor_of, (flat, (str(tensor.dtype).rsplit(".", 1)[1], tuple(tensor.shape)))


def tensor_of(array: Any, was: "Optional[Tuple[str, Any]]") -> Any:
    """The tensor over the array's memory, which is read-only: torch has no word for that, and warns."""
    import warnings

    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(array)
    return tensor if was is None else tensor.view(getattr(torch, was[0])).reshape(was[1])


class _Pickler(pickle.Pickler):
    """Functions and classes that only this process has go by value: _code.py."""
    reducers: Any = None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return NotImplemented
        if kind is types.FunctionType or isinstance(value, type):
            from muster import _code
            if self.reducers is None:
                self.reducers = _code.Reducers()
            return self.reducers.function(value) if kind is types.FunctionType else self.reducers.class_(value)
        if kind.__module__ == "torch" and kind.__name__ == "Tensor":
            return _tensor_reduce(value)
        if kind.__module__ in _SPECIAL:
            from muster import _code
            reducer = _code.reducer_of(value)
            return NotImplemented if reducer is None else reducer(value)
        return NotImplemented


_PLAIN = {types.BuiltinFunctionType, types.MethodType}
_SPECIAL = {"builtins", "functools", "dataclasses", "types", "typing"}


class _Writer:
    """A pickler's file: what it writes in one piece stays one."""
    __slots__ = ("pieces", "write")

    def __init__(self) -> None:
        self.pieces: List[bytes] = []
        self.write = self.pieces.append


def _up(offset: int) -> int:
    return offset + ALIGN - 1 & -ALIGN


SIMPLE = {int, float, str, bool, type(None), bytes}
_PICKLED = META + PICKLE
_dumps = pickle.dumps


def dumps_simple(values: "Tuple[Any, ...]", kwargs: "Dict[str, Any]") -> Optional[bytes]:
    """The pickle of a call's arguments where none of them can have a buffer, a reference or code in it."""
    if kwargs or not SIMPLE.issuperset(map(type, values)):
        return None
    return _dumps((values, kwargs, None), 5)


def pack(value: Any) -> Packed:
    kind = type(value)
    if kind is bytes:
        return Packed(b"", len(value), ((0, value),), ())
    if kind in SIMPLE:
        data = _dumps(value, 5)
        return Packed(_PICKLED, len(data), ((0, data),), ())
    writer, buffers, refs = _Writer(), [], []  # type: Tuple[_Writer, List[pickle.PickleBuffer], List[Any]]
    before, turn.refs = turn.refs, refs
    try:
        _Pickler(writer, 5, buffer_callback=buffers.append).dump(value)
    finally:
        turn.refs = before
    data = writer.pieces[0] if len(writer.pieces) == 1 else b"".join(writer.pieces)
    if not buffers:
        return Packed(_PICKLED, len(data), ((0, data),), refs)
    return _beside(data, [b.raw() for b in buffers], refs)


def flat(value: Any) -> "Tuple[bytes, Sequence[Any]]":
    """As one pickle, arrays and all, and the references that it has: for what is unpickled by pickle.loads()."""
    writer, refs = _Writer(), []  # type: Tuple[_Writer, List[Any]]
    before, turn.refs = turn.refs, refs
    try:
        _Pickler(writer, 5).dump(value)
    finally:
        turn.refs = before
    return b"".join(writer.pieces), refs


def _beside(data: bytes, buffers: "List[memoryview]", refs: Sequence[Any]) -> Packed:
    at = _up(8 + 16 * (1 + len(buffers)))
    numbers, parts, size = [len(buffers)], [], 0  # type: Tuple[List[int], List[Part], int]
    for part in [memoryview(data), *buffers]:
        length = part.nbytes
        numbers += [at, length]
        parts.append((at, part))
        size, at = at + length, _up(at + length)
    return Packed(META + BUFFERS, size, [(0, struct.pack("<%dQ" % len(numbers), *numbers)), *parts], refs)


def unpack(meta: bytes, data: Any, pinned: "Callable[[], memoryview]") -> Any:
    """The value. `pinned` gives the same memory for as long as somebody has it, read-only."""
    if not meta:
        return bytes(data)
    if meta == _PICKLED:
        return pickle.loads(data)
    if meta != META + BUFFERS:
        raise ValueError("an object with this metadata was not made by this version of muster for Python: %r" % meta[:64])
    count, at, length = struct.unpack_from("<3Q", data)
    table = struct.unpack_from("<%dQ" % (2 * count), data, 24)
    memory = pinned()
    return pickle.loads(data[at:at + length],
                        buffers=[memory[table[i]:table[i] + table[i + 1]] for i in range(0, 2 * count, 2)])
