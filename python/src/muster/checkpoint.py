"""Checkpoints in memory (muster/checkpoint.h): what a task saves outlives it, and the attempt of its job.

    with muster.join() as task, muster.Checkpoint("model") as checkpoint:
        saved = checkpoint.load()                    # None: the first attempt
        step, state = (saved.step, saved.state) if saved else (0, begin())
        while step < 1000:
            step, state = step + 1, train(state)
            checkpoint.save(state, step=step)

A state is anything that pickle takes: bytes, numbers, arrays of numpy, tensors of PyTorch, arrays of JAX, and what holds
them, dictionaries, lists, pytrees of any class. Arrays and tensors are copied at the speed of memory, each with its
type and shape; the rest is pickled. What a job saves it alone can load, so nothing of a stranger is unpickled.
"""
import ctypes
import io
import pickle
import sys
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from muster import _joined, _lib, _wait
from muster._lib import deadline_of, int_of, lib
from muster.errors import NotFound, check, error_of

_TREE = "/tree"  # what is pickled
_OWN = -1
_open: "Dict[Tuple[int, str], weakref.ref[Checkpoint]]" = {}


class Info(NamedTuple):
    """The newest whole generation."""
    generation: int
    step: int
    ranks: int


class Saved(NamedTuple):
    """What a rank has saved of a generation."""
    generation: int
    step: int
    rank: int
    ranks: int
    state: Any


class Shard(NamedTuple):
    """What a rank has saved of a tensor that is sharded over ranks (PyTorch's DTensor, as fully_shard() makes them). A load
    gives this instead of the tensor, which needs the process group of its job: `muster.torch.Checkpointer` makes it anew."""
    local: Any                    # the rank's own tensor
    shape: "Tuple[int, ...]"      # of the whole, as its stride
    stride: "Tuple[int, ...]"
    placements: "Tuple[Any, ...]"  # one a dimension of the mesh
    mesh: "Tuple[int, ...]"       # its shape
    at: "Tuple[int, ...]"         # the rank's place in it


def _torch_of(value: Any) -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _is_plain_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject and value.dtype.names is None


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array) and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


class _Tensor:
    """One that is to be saved: what it is, and memory that holds it until then."""
    shard: Any = None  # a Shard without its tensor: the memory is this rank's part

    def __init__(self, name: str, kind: str, dtype: str, shape: "Tuple[int, ...]", address: int, size: int, keep: Any):
        self.name, self.kind, self.dtype, self.shape = name, kind, dtype, shape
        self.address, self.size, self.keep = address, size, keep


def _tensor_of(name: str, value: Any) -> Optional[_Tensor]:
    """None: it is pickled."""
    torch = _torch_of(value)
    if torch is not None:
        if hasattr(value, "to_local"):
            part = _tensor_of(name, value.to_local())
            if part is None:
                raise NotImplementedError("%s is a sharded tensor of a layout that is not saved: save its to_local()" % name)
            mesh = value.device_mesh
            part.shard = Shard(None, tuple(value.shape), tuple(value.stride()), tuple(value.placements), tuple(mesh.shape),
                               tuple(mesh.get_coordinate() or ()))
            return part
        if value.layout is not torch.strided or value.is_quantized:
            return None
        there = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        size = there.numel() * there.element_size()
        return _Tensor(name, "torch", str(there.dtype)[6:], tuple(there.shape), there.data_ptr() if size else 0, size, there)
    kind = "numpy" if _is_plain_numpy(value) else "jax" if _is_jax(value) else None
    if kind is None:
        return None
    import numpy
    array = numpy.ascontiguousarray(value) if getattr(value, "ndim", 0) else numpy.asarray(value)
    return _Tensor(name, kind, array.dtype.name if array.dtype.kind not in "SUMm" else array.dtype.str, tuple(array.shape),
                   array.ctypes.data if array.nbytes else 0, array.nbytes, array)


def _names_of(state: Any, name: str, into: Dict[int, str], depth: int = 0) -> None:
    """What arrays in dictionaries and lists are called: "model/layer.weight". Elsewhere a number must do."""
    if depth > 20:
        return
    if isinstance(state, dict):
        for key, value in state.items():
            _names_of(value, "%s/%s" % (name, key) if name else str(key), into, depth + 1)
    elif isinstance(state, (list, tuple)):
        for at, value in enumerate(state):
            _names_of(value, "%s/%d" % (name, at) if name else str(at), into, depth + 1)
    else:
        into.setdefault(id(state), name)


class _Pickler(pickle.Pickler):
    """Leaves tensors out, and lists them."""

    def __init__(self, file: io.BytesIO, names: Dict[int, str]) -> None:
        super().__init__(file, protocol=5)
        self.names, self.tensors = names, []  # type: Tuple[Dict[int, str], List[_Tensor]]
        self.numbers: "Dict[int, Tuple[Any, int]]" = {}  # of values, which are kept so that no other has the id
        self.taken: "Dict[str, None]" = {_TREE: None}

    def persistent_id(self, value: Any) -> "Optional[Tuple[Any, ...]]":
        if id(value) not in self.numbers:
            name = self.names.get(id(value), "")
            name = name if name and len(name.encode()) < 1000 and "\0" not in name and name not in self.taken else \
                "tensor %d" % len(self.tensors)
            tensor = _tensor_of(name, value)
            if tensor is None:
                return None
            while tensor.name in self.taken:
                tensor.name += "'"
            self.taken[tensor.name] = None
            self.numbers[id(value)] = value, len(self.tensors)
            self.tensors.append(tensor)
        number = self.numbers[id(value)][1]
        tensor = self.tensors[number]
        return (tensor.kind, number) if tensor.shard is None else (tensor.kind, number, tuple(tensor.shard))


class _View:
    """A part that is viewed, until the last array that lies in it goes."""

    def __init__(self) -> None:
        self.c = _lib.CheckpointView()

    def __del__(self, unload: Any = lib.muster_checkpoint_unload, byref: Any = ctypes.byref) -> None:
        unload(byref(self.c))


class _Unpickler(pickle.Unpickler):
    def __init__(self, view: _View, data: bytes, copies: bool) -> None:
        super().__init__(io.BytesIO(data))
        self.view, self.copies = view, copies
        self.made: "Dict[int, Any]" = {}

    def persistent_load(self, pid: "Tuple[Any, ...]") -> Any:
        kind, number = pid[:2]
        if number not in self.made:
            value = _value_of(self.view, self.view.c.tensors[number], kind, self.copies)
            self.made[number] = Shard(*pid[2])._replace(local=value) if len(pid) > 2 else value
        return self.made[number]


class _Memory:
    """A part's bytes from some tensor on, which keep the view."""
    view: _View


_kinds: "Dict[int, Any]" = {}


def _memory_of(view: _View, tensor: Any) -> Any:
    bits = tensor.len.bit_length()
    if bits not in _kinds:  # one for all lengths up to a power of two: ctypes keeps each class for ever
        _kinds[bits] = type("Memory", (_Memory, ctypes.c_ubyte * (1 << bits)), {})
    memory = _kinds[bits].from_address(tensor.data)
    memory.view = view
    return memory


def _array_of(view: _View, tensor: Any, dtype: Any) -> Any:
    import numpy
    shape = tuple(tensor.shape[:tensor.num_dims])
    if not tensor.len:
        return numpy.empty(shape, dtype)
    array = numpy.frombuffer(_memory_of(view, tensor), dtype, tensor.len // dtype.itemsize).reshape(shape)
    array.flags.writeable = False
    return array


def _value_of(view: _View, tensor: Any, kind: str, copies: bool) -> Any:
    dtype = tensor.dtype.decode()
    if kind == "torch":
        import torch
        shape, of = tuple(tensor.shape[:tensor.num_dims]), getattr(torch, dtype)
        if not tensor.len:
            return torch.empty(shape, dtype=of)
        there = torch.frombuffer(_memory_of(view, tensor), dtype=of,
                                 count=tensor.len // torch.empty(0, dtype=of).element_size()).reshape(shape)
        return there.clone() if copies else there
    if kind == "jax":
        import jax.numpy
        return jax.numpy.array(_array_of(view, tensor, jax.numpy.dtype(dtype)), copy=True)
    import numpy
    array = _array_of(view, tensor, numpy.dtype(dtype))
    return array.copy() if copies else array


class Checkpoint:
    """This task's part in the checkpoints of a name, one open at a time. Used by one thread at a time."""

    def __init__(self, name: str = "model", task: Any = None) -> None:
        self._task = task or _joined.current()
        self.name = name
        self._c = ctypes.c_void_p()
        key = (id(self._task), name)
        other = _open.get(key)
        if other is not None and other() is not None:
            raise ValueError("checkpoint %s is open already in this process" % name)
        check(lib.muster_checkpoint_open(self._task._m, name.encode(), ctypes.byref(self._c)))
        _open[key] = weakref.ref(self)

    def _handle(self) -> Any:
        if not self._c or self._task._m is None:
            raise ValueError("the checkpoint is closed")
        return self._c

    def save(self, state: Any, step: int = 0, timeout: Optional[float] = None) -> int:
        """Copy this task's part of the next generation: its number. The generation before must be whole; that is waited
        for up to the timeout, and nothing else: `wait()` is until this one is."""
        c, names = self._handle(), {}  # type: Tuple[Any, Dict[int, str]]
        _names_of(state, "", names)
        file = io.BytesIO()
        pickler = _Pickler(file, names)
        pickler.dump(state)
        tree = file.getvalue()
        tensors = pickler.tensors + [_Tensor(_TREE, "", "bytes", (), 0, len(tree), tree)]
        table = (_lib.CheckpointTensor * len(tensors))()
        for at, tensor in enumerate(tensors):
            if len(tensor.shape) > 8:
                raise ValueError("%s has %d dimensions; 8 are the most" % (tensor.name, len(tensor.shape)))
            table[at] = _lib.CheckpointTensor(tensor.name.encode(), tensor.dtype.encode(), len(tensor.shape),
                                              tensor.shape, tensor.address, tensor.size)
        table[len(tensors) - 1].data = ctypes.cast(tree, ctypes.c_void_p).value
        m, number, step = self._task._m, ctypes.c_uint64(), int_of(step, 64, False)
        status = _wait.wait(m, deadline_of(timeout),
                            lambda until: int(lib.muster_checkpoint_begin(c, step, table, len(tensors), until)))
        if status:
            raise error_of(status)
        check(lib.muster_checkpoint_copy(c, (1 << 64) - 1, None))
        check(lib.muster_checkpoint_commit(c, ctypes.byref(number)))
        return int(number.value)

    def wait(self, generation: int = 0, timeout: Optional[float] = None) -> None:
        """Until that generation is whole; 0: the one that was saved last."""
        c, number = self._handle(), int_of(generation, 64, False)
        status = _wait.wait(self._task._m, deadline_of(timeout),
                            lambda until: int(lib.muster_checkpoint_wait(c, number, until)))
        if status:
            raise error_of(status)

    def newest(self) -> Optional[Info]:
        """The newest whole generation; None: there is none."""
        info = _lib.CheckpointInfo()
        check(lib.muster_checkpoint_info(self._handle(), ctypes.byref(info)))
        return Info(info.generation, info.step, info.ranks) if info.generation else None

    def load(self, rank: Optional[int] = None, copy: bool = True) -> Optional[Saved]:
        """What this rank, or another, has saved of the newest whole generation; None: there is none. With copy=False arrays
        and tensors are the very memory, which must not be written to, and stays as it is."""
        if self.newest() is None:
            return None
        view = _View()
        check(lib.muster_checkpoint_load(self._handle(), _OWN if rank is None else int_of(rank, 31, False),
                                         ctypes.byref(view.c)))
        c = view.c
        tree = c.tensors[c.count - 1] if c.count else None
        if tree is None or tree.name != _TREE.encode():
            raise NotFound("generation %d of checkpoint %s was not saved by Python" % (c.generation, self.name))
        state = _Unpickler(view, ctypes.string_at(tree.data, tree.len), copy).load()
        return Saved(c.generation, c.step, c.rank, c.ranks, state)

    def reserve(self, size: int) -> None:
        """Have warm memory for so many bytes, before the first save."""
        check(lib.muster_checkpoint_reserve(self._handle(), int_of(size, 63, False)))

    def close(self) -> None:
        """Give the memory's mappings back; what was saved stays."""
        c, self._c = self._c, ctypes.c_void_p()
        _open.pop((id(self._task), self.name), None)
        if c and self._task._m is not None:
            lib.muster_checkpoint_close(c)

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
