"""A parameter server without a server (muster/ps.h): tensors in shared memory, which the tasks of a host push to and pull
from. The calling task does the work; rounds, the optimizer and waits are the library's. Needs numpy; tensors of torch on
the CPU are taken and filled, too.

>>> import numpy
>>> task = muster.join("doc-ps", task=0, num_tasks=1)
>>> weights = muster.ps.Tensor(task, "weights", (2, 3), optimizer="sgd", rate=0.5)
>>> weights.push(numpy.ones((2, 3)))
1
>>> weights.pull().tolist()
[[-0.5, -0.5, -0.5], [-0.5, -0.5, -0.5]]
>>> rows = muster.ps.Table(task, "words", (4,), rows=1000)
>>> rows.push([7, 1 << 40, 7], numpy.ones((3, 4)))
>>> rows.pull([7, 8])[:, 0].tolist()
[2.0, 0.0]
>>> weights.close(), rows.close()
(None, None)
>>> task.leave()
"""
import ctypes
import os
from types import TracebackType
from typing import Any, Optional, Sequence, Tuple, Type, Union

from muster import _lib, _wait
from muster._lib import deadline_of, int_of, lib
from muster.errors import check
from muster.object import _pin

_TYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3}
_OPTIMIZERS = {"add": 0, "sgd": 1, "momentum": 2, "adam": 3}
_AVERAGE = 1


class _Shared:
    """What tensors and tables have in common: the handle, the configuration, files."""
    _ps: Optional[int] = None

    def __init__(self, task: Any, name: str, shape: "Optional[Sequence[int]]", timeout: Optional[float], initial: Any,
                 **options: Any) -> None:
        import numpy
        made = ctypes.c_void_p()
        if "\0" in name:
            raise ValueError("a tensor's name has no NUL in it")
        self._task, self.name = task, name
        if shape is None:
            check(_wait.wait(task._m, deadline_of(timeout), lambda deadline: int(
                lib.muster_ps_open(task._m, name.encode(), deadline, ctypes.byref(made)))))
        else:
            config = _config(tuple(shape), **options)
            if initial is not None:
                initial = numpy.broadcast_to(_plain(initial), tuple(shape))
                initial = numpy.ascontiguousarray(initial, list(_TYPES)[config.type])
            check(lib.muster_ps_create(task._m, name.encode(), ctypes.byref(config),
                                       None if initial is None else initial.ctypes.data, ctypes.byref(made)))
        self._ps = made.value
        config = self._info().config
        self.shape: Tuple[int, ...] = tuple(config.dims[:config.num_dims])
        self.dtype = numpy.dtype(list(_TYPES)[config.type])
        self.optimizer = list(_OPTIMIZERS)[config.optimizer]
        self._config = config

    def _info(self) -> Any:
        info = _lib.PsInfo()
        check(lib.muster_ps_info(self._ps, ctypes.byref(info)))
        return info

    def _given(self, value: Any, shape: Tuple[int, ...]) -> Any:
        """The numbers as they are to lie in memory."""
        import numpy
        array = numpy.ascontiguousarray(_plain(value), self.dtype).reshape(numpy.shape(value))
        if array.shape != shape:
            raise ValueError("%s takes an array of shape %s, not %s" % (self.name, shape, array.shape))
        return array

    @property
    def rate(self) -> float:
        """Of the optimizer; set, it is that of all tasks' pushes from then on."""
        return float(self._info().config.rate)

    @rate.setter
    def rate(self, rate: float) -> None:
        check(lib.muster_ps_set_rate(self._ps, rate))

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Values and the optimizer's state, to a file that replaces `path` when it is whole."""
        check(lib.muster_ps_save(self._ps, os.fsencode(path)))

    def load(self, path: "Union[str, os.PathLike[str]]") -> None:
        """What was saved of a tensor of the same type, shape and optimizer."""
        check(lib.muster_ps_load(self._ps, os.fsencode(path)))

    def close(self) -> None:
        """Have it open no more. With the last task that has it open it goes. No thread may be in a call on it."""
        ps, self._ps = self._ps, None
        if ps:
            lib.muster_ps_close(ps)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> "Any":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<%s %s: %s of %s>" % (type(self).__name__.lower(), self.name, self.shape, self.dtype)


def _plain(value: Any) -> Any:
    """A tensor of torch as an array; of others nothing is known."""
    return value.detach().numpy() if hasattr(value, "detach") else value


def _config(shape: Tuple[int, ...], dtype: Any, rows: int, shards: int, pushers: int, staleness: int, average: bool,
            optimizer: str, rate: float, momentum: float, beta2: float, epsilon: float) -> Any:
    import numpy
    name = str(dtype).replace("torch.", "") if str(dtype).startswith("torch.") else numpy.dtype(dtype).name
    if name not in _TYPES:
        raise TypeError("tensors are of %s, not of %s" % (", ".join(_TYPES), name))
    if optimizer not in _OPTIMIZERS:
        raise ValueError("no such optimizer: %s; there are %s" % (optimizer, ", ".join(_OPTIMIZERS)))
    if len(shape) > 8:
        raise ValueError("a tensor has at most 8 dimensions, not %d" % len(shape))
    config = _lib.PsConfig(type=_TYPES[name], num_dims=len(shape), rows=int_of(rows, 64, False),
                           shards=int_of(shards, 32, False), pushers=int_of(pushers, 32, False),
                           staleness=int_of(staleness, 32, False), flags=_AVERAGE if average else 0,
                           optimizer=_OPTIMIZERS[optimizer], rate=rate, momentum=momentum, beta2=beta2,
                           epsilon=epsilon)
    for i, n in enumerate(shape):
        config.dims[i] = int_of(n, 64, False)
    return config


class Tensor(_Shared):
    """A dense tensor. All tasks may make it with the same arguments: the first one does, with its `initial` (zeros), and
    the others open it. Without a shape it is opened when it is there.

    optimizer: "add", "sgd", "momentum", "adam" (beta1 is `momentum`). pushers: how many tasks' pushes make a round; 0:
    each push is applied at once. staleness: by how many rounds a task may be ahead. average: a round counts with the mean
    of its pushes. shards: parts with commits of their own.
    """

    def __init__(self, task: Any, name: str, shape: "Optional[Sequence[int]]" = None, dtype: Any = "float32", *,
                 initial: Any = None, optimizer: str = "add", rate: float = 0.01, momentum: float = 0.9,
                 beta2: float = 0.999, epsilon: float = 1e-8, pushers: int = 0, staleness: int = 0,
                 average: bool = False, shards: int = 1, timeout: Optional[float] = None) -> None:
        super().__init__(task, name, shape, timeout, initial, dtype=dtype, rows=0, shards=shards, pushers=pushers,
                         staleness=staleness, average=average, optimizer=optimizer, rate=rate, momentum=momentum,
                         beta2=beta2, epsilon=epsilon)

    @property
    def version(self) -> int:
        return int(self._info().version)

    def push(self, value: Any, timeout: Optional[float] = None) -> int:
        """Add, or step by the gradient. The version that has it: to wait for, where its round is open still."""
        array, version = self._given(value, self.shape), ctypes.c_uint64()

        def step() -> int:
            return int(lib.muster_ps_push(self._ps, array.ctypes.data, deadline, ctypes.byref(version)))

        deadline = deadline_of(timeout)
        check(_wait.wait_in_group(self._task._m, step) if self._config.pushers else step())
        return version.value

    def set(self, value: Any) -> int:
        """The values, whatever the round. Its version."""
        array, version = self._given(value, self.shape), ctypes.c_uint64()
        check(lib.muster_ps_set(self._ps, array.ctypes.data, ctypes.byref(version)))
        return version.value

    def pull(self, out: Any = None) -> Any:
        """A copy of the values; into `out`, an array or a tensor of the same type and shape, which is returned."""
        import numpy
        if out is None:
            array = numpy.empty(self.shape, self.dtype)
        else:
            array = _plain(out)
            if array.dtype != self.dtype or array.shape != self.shape or not array.flags.c_contiguous \
                    or not array.flags.writeable:
                raise ValueError("out must be a contiguous, writeable array of %s, %s" % (self.dtype, self.shape))
        check(lib.muster_ps_pull(self._ps, array.ctypes.data, None))
        return array if out is None else out

    def view(self, shard: int = 0) -> Any:
        """A read-only array of a shard's values as they are now, without a copy: flat where there are several. Later
        pushes do not change it."""
        import numpy
        view = _lib.ObjectView()
        check(lib.muster_ps_view(self._ps, int_of(shard, 32, False), ctypes.byref(view), None, None))
        array = numpy.frombuffer(_pin(self._task, view), self.dtype)
        return array.reshape(self.shape) if self._config.shards == 1 else array

    def wait(self, version: int, timeout: Optional[float] = None) -> int:
        """Until every shard has this version. The lowest that one has."""
        got = ctypes.c_uint64()
        check(_wait.wait(self._task._m, deadline_of(timeout), lambda deadline: int(lib.muster_ps_wait(
            self._ps, int_of(version, 64, False), deadline, ctypes.byref(got)))))
        return got.value


class Table(_Shared):
    """A sparse tensor: rows of numbers by 64-bit keys, at most `rows` of them; the shape is that of a row. A row that is
    not there is zeros."""

    def __init__(self, task: Any, name: str, shape: "Optional[Sequence[int]]" = None, dtype: Any = "float32", *,
                 rows: int = 0, optimizer: str = "add", rate: float = 0.01, momentum: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, timeout: Optional[float] = None) -> None:
        if shape is not None and rows < 1:
            raise ValueError("how many rows at most? (rows)")
        super().__init__(task, name, shape, timeout, None, dtype=dtype, rows=rows, shards=1, pushers=0, staleness=0,
                         average=False, optimizer=optimizer, rate=rate, momentum=momentum, beta2=beta2, epsilon=epsilon)

    def __len__(self) -> int:
        return int(self._info().rows)

    def _keys(self, keys: Any) -> Any:
        import numpy
        if isinstance(keys, (list, tuple, range)):
            return numpy.fromiter((int_of(key, 64, False) for key in keys), numpy.uint64, len(keys))
        array = numpy.asarray(_plain(keys))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise TypeError("keys are a list of whole numbers of 64 bits, without a sign")
        if array.size and array.dtype.kind == "i" and array.min() < 0:
            raise OverflowError("keys have no sign: %d" % array.min())
        return numpy.ascontiguousarray(array, numpy.uint64)

    def push(self, keys: Any, values: Any) -> None:
        """Add to the rows, or step them by their gradients; keys may come several times."""
        array = self._keys(keys)
        rows = self._given(values, (len(array),) + self.shape)
        check(lib.muster_ps_rows_push(self._ps, array.ctypes.data, len(array), rows.ctypes.data, None))

    def set(self, keys: Any, values: Any) -> None:
        array = self._keys(keys)
        rows = self._given(values, (len(array),) + self.shape)
        check(lib.muster_ps_rows_set(self._ps, array.ctypes.data, len(array), rows.ctypes.data, None))

    def pull(self, keys: Any) -> Any:
        """The rows, in the order of the keys."""
        import numpy
        array = self._keys(keys)
        rows = numpy.empty((len(array),) + self.shape, self.dtype)
        check(lib.muster_ps_rows_pull(self._ps, array.ctypes.data, len(array), rows.ctypes.data, None))
        return rows

    def has(self, keys: Any) -> Any:
        """For each key whether its row is there."""
        import numpy
        array = self._keys(keys)
        rows, there = numpy.empty((len(array),) + self.shape, self.dtype), numpy.empty(len(array), numpy.bool_)
        check(lib.muster_ps_rows_pull(self._ps, array.ctypes.data, len(array), rows.ctypes.data, there.ctypes.data))
        return there
