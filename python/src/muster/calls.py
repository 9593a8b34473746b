"""Functions and classes whose calls run in the workers of the job: @muster.remote.

    muster.init(workers=4)

    @muster.remote
    def square(x):
        return x * x

    @muster.remote
    class Counter:
        def __init__(self): self.n = 0
        def add(self, by=1): self.n += by; return self.n

    print(muster.get([square.remote(i) for i in range(8)]))
    counter = Counter.remote()
    print(muster.get(counter.add.remote(5)))
    muster.shutdown()

A call gives a reference to its result at once. A reference that is an argument of its own is the value for the function,
which runs when it is there; one inside a list stays a reference.
"""
from __future__ import annotations

import ctypes
import os
import threading
import time

from muster import _joined, _lib, _pack, object as objects_
from muster._lib import Argument, SubmitOptions, int_of, lib
from muster.errors import ActorDied, AlreadyExists, DeadlineExceeded, Error, FailedPrecondition, NotFound, WorkerDied, check, error_of
from muster.object import ObjectRef, _own

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

KIND_FUNCTION, KIND_CLASS, KIND_METHOD = 16, 17, 18  # MUSTER_FUNCTION_OWN and above: what the code is, for muster.worker
ARGUMENTS = 250  # references of one call, at most
INLINE = 3500  # a call's pickled arguments lie in it up to so many bytes, and in an object above

_byref, _Number = ctypes.byref, ctypes.c_uint64
_submit = lib.muster_submit
_count = 0
_names = threading.Lock()


def _new_name(value: Any) -> str:
    """What `muster task ls` shows, and no other function of the job has: it is redefined under another one."""
    global _count
    with _names:
        _count += 1
        number = _count
    named = value if hasattr(value, "__qualname__") else type(value)
    return "%s.%s#%x.%d" % (getattr(value, "__module__", None) or "builtins", named.__qualname__, os.getpid(), number)


def _export(task: Any, name: str, kind: int, num_results: int, code: Optional[bytes], symbol: str = "") -> int:
    text, function = _lib.FunctionText(), ctypes.c_uint64()
    text.name, text.kind, text.num_results, text.symbol = name.encode()[-255:], kind, num_results, symbol.encode() or None
    if code is not None:
        text.code, text.code_len = ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p), len(code)
    check(lib.muster_function_export(task._m, _byref(text), _byref(function)))
    return function.value


def _encode(task: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> "Tuple[Any, int, Any]":
    """The arguments of the call: first the pickle of all, then the references that are arguments of their own; how many;
    and what must live until the submission."""
    refs: List[ObjectRef] = []
    places: List[Any] = []
    for i, value in enumerate(args):
        if type(value) is ObjectRef:
            places.append(i)
            refs.append(value)
    for key, value in kwargs.items():
        if type(value) is ObjectRef:
            places.append(key)
            refs.append(value)
    tuples: List[Any] = []
    if len(refs) > ARGUMENTS:  # a call takes no more: other calls put them together
        tuples = [_gather.remote(*refs[i:i + ARGUMENTS]) for i in range(0, len(refs), ARGUMENTS)]
    if refs:
        args = [None if type(value) is ObjectRef else value for value in args]
        kwargs = {key: None if type(value) is ObjectRef else value for key, value in kwargs.items()}
    packed = _pack.pack((args, kwargs, ("gathered", places) if tuples else places))
    refs = tuples or refs
    made = (Argument * (1 + len(refs)))()
    kept: Any
    if packed.refs or packed.size > INLINE or len(packed.parts) > 1:
        kept = task.objects._put_packed(packed)
        made[0].object = kept._cell.value
    else:
        kept = packed.parts[0][1]
        made[0].data, made[0].len = kept, packed.size
    for i, ref in enumerate(refs):
        made[1 + i].object = ref._cell.value
    return made, 1 + len(refs), (kept, tuples)


def decode(data: Any, values: Sequence[Any]) -> "Tuple[List[Any], Dict[str, Any]]":
    """The reverse, in the worker: the pickle's value, and those of the references."""
    args, kwargs, places = data
    if type(places) is tuple:
        places, values = places[1], [value for group in values for value in group]
    if places:
        args, kwargs = list(args), dict(kwargs)
        for place, value in zip(places, values):
            if isinstance(place, int):
                args[place] = value
            else:
                kwargs[place] = value
    return args, kwargs


def submit(task: Any, function: int, num_results: int, args: Sequence[Any], kwargs: Dict[str, Any],
           options: Any = None, died: Type[Error] = WorkerDied) -> Any:
    """One reference, a list of them, or None: as many as the function has results."""
    data = _pack.dumps_simple(args, kwargs)  # type: ignore[arg-type]
    if data is not None and len(data) <= INLINE:
        made, count = Argument(0, data, len(data)), 1
    else:
        made, count, kept = _encode(task, args, kwargs)  # `kept` until it is submitted
    if num_results == 1:
        cell = _Number()
        status = _submit(task._m, function, made, count, options, _byref(cell))
        if status:
            raise error_of(status)
        return _own(task, cell, died)
    results = (ctypes.c_uint64 * (num_results or 1))()
    status = _submit(task._m, function, made, count, options, results)
    if status:
        raise error_of(status)
    refs = [_own(task, ctypes.c_uint64(number), died) for number in results]
    return refs if num_results else None


_DEFAULTS: Dict[str, Any] = {"num_returns": 1, "max_retries": 0, "max_restarts": 0, "resources": None, "num_cpus": 0, "num_gpus": 0}


def _options_of(given: Dict[str, Any], defaults: Dict[str, Any]) -> Dict[str, Any]:
    for name in given:
        if name not in _DEFAULTS:
            raise TypeError("%s is no option of a remote function or class: %s are" % (name, ", ".join(_DEFAULTS)))
    made = dict(defaults, **given)
    if not 0 <= int_of(made["num_returns"], 32) <= 64:
        raise ValueError("num_returns is %d: 0 to 64 can be" % made["num_returns"])
    for name in ("max_retries", "max_restarts"):
        if not 0 <= int_of(made[name], 32) <= 250:
            raise ValueError("%s is %d: 0 to 250 can be" % (name, made[name]))
    asks_of(made)  # a name or an amount that cannot be
    return made


def asks_of(options: Dict[str, Any]) -> Dict[str, float]:
    """Of the options, also of init(): what is asked for, by name."""
    asks = {str(name): float(amount) for name, amount in (options["resources"] or {}).items()}
    for name, option in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
        if options[option]:
            if name in asks:
                raise ValueError("resources names %s, and %s says it, too" % (name, option))
            asks[name] = float(options[option])
    for name, amount in asks.items():
        if not 0 <= amount <= 1e9:
            raise ValueError("%r of resource %s: a number from 0 to 10^9 can be" % (amount, name))
    return {name: amount for name, amount in asks.items() if amount}


class _Remote:
    """A function or class, its name in the job, and how it is called. Copies by options() share what is exported."""

    def __init__(self, value: Any, name: str, options: Dict[str, Any], shared: "Optional[Dict[Any, int]]" = None) -> None:
        self._value, self._name, self._options = value, name, options
        self._exported: Dict[Any, int] = {} if shared is None else shared  # (task, num_results): the function
        self._made: Any = None
        self.__name__, self.__doc__ = getattr(value, "__name__", name), getattr(value, "__doc__", None)

    def options(self, **options: Any) -> Any:
        """The same with other options."""
        return type(self)(self._value, self._name, _options_of(options, self._options), self._exported)

    def _submit_options(self, retries: str = "max_retries") -> Any:
        made = self._made
        if made is None:
            made = SubmitOptions(0, self._options[retries], 0)
            asks = asks_of(self._options)
            if asks:
                made.resources = (_lib.Resource * len(asks))(*[(name.encode(), n) for name, n in asks.items()])
                made.num_resources = len(asks)
            self._made = made  # whole: another thread may take it
        return made

    def _function(self, task: Any, kind: int, num_results: int) -> int:
        """Exported by this process or by another, at the first call."""
        key = (task, num_results)
        found = self._exported.get(key)
        if found is None:
            found = self._exported[key] = _find(task, self._suffixed(num_results))
        if not found:
            self._exported[key] = 0
            if self._value is None:
                raise NotFound("function %s was exported by no task of job %s" % (self._name, task.job), _lib.NOT_FOUND)
            code, refs = _pack.flat(self._value)
            _kept.extend(refs)
            found = self._exported[key] = _export(task, self._suffixed(num_results), kind, num_results, code)
        return found

    def _suffixed(self, num_results: int) -> str:
        return self._name if num_results == 1 else "%s/%d" % (self._name, num_results)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("%s is called by .remote()" % self.__name__)

    def __repr__(self) -> str:
        return "<remote %s>" % self._name


_kept: List[Any] = []  # references in the globals of what was exported: functions stay for as long as the job


def _find(task: Any, name: str) -> int:
    function = ctypes.c_uint64()
    status = lib.muster_function_find(task._m, name.encode()[-255:], _byref(function))
    if status == _lib.NOT_FOUND:
        return 0
    check(status)
    return function.value


class RemoteFunction(_Remote):
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call: a reference to its result (num_returns=N: a list of N; 0: None)."""
        task, num_results = _joined.current(), self._options["num_returns"]
        function = self._exported.get((task, num_results)) or self._function(task, KIND_FUNCTION, num_results)
        return submit(task, function, num_results, args, kwargs, self._submit_options())

    def __reduce__(self) -> "Tuple[Any, ...]":
        _exported_too(self, KIND_FUNCTION)
        return _function_of, (self._name, self.__name__, self._options)


def _exported_too(remote: _Remote, kind: int) -> None:
    """What goes to another process must be there by its name; not the one that is being exported."""
    task, num_results = _joined.current(), remote._options["num_returns"]
    if (task, num_results) not in remote._exported:
        remote._function(task, kind, num_results)


def _function_of(name: str, short: str, options: Dict[str, Any]) -> RemoteFunction:
    made = RemoteFunction(None, name, options)
    made.__name__ = short
    return made


class RemoteClass(_Remote):
    def remote(self, *args: Any, **kwargs: Any) -> "ActorHandle":
        """Make an instance in a worker of its own: an actor."""
        task = _joined.current()
        restarts = self._options["max_restarts"]
        ref = submit(task, self._function(task, KIND_CLASS, 1), 1, args, kwargs, self._submit_options("max_restarts"))
        return ActorHandle(ref, self._name, restarts)

    def __reduce__(self) -> "Tuple[Any, ...]":
        _exported_too(self, KIND_CLASS)
        return _class_of, (self._name, self.__name__, self._options)


def _class_of(name: str, short: str, options: Dict[str, Any]) -> RemoteClass:
    made = RemoteClass(None, name, options)
    made.__name__ = short
    return made


class ActorHandle:
    """An actor: `handle.method.remote()` submits a call of it. Calls of one caller run in their order. It ends when the
    last handle, of all processes, is gone and what was called has run, or by muster.kill()."""

    def __init__(self, ref: ObjectRef, name: str, restarts: int) -> None:
        self._ref, self._class, self._restarts = ref, name, restarts
        self._options: Any = None

    def _where(self) -> Any:
        """The options of its calls. It is waited for until its constructor has run."""
        if self._options is None:
            place = self._place_find()
            self._options = SubmitOptions(0, -1, place)
        return self._options

    def _place_find(self) -> int:
        """Its place, once its constructor has run; raises what the constructor did."""
        objects, kv = self._ref._task.objects, self._ref._task.kv
        with objects_.blocking():
            while True:
                try:
                    told = kv.get(actor_key(self._ref.number, self._restarts), wait=0.05)
                    if told:
                        return int(told)
                    objects.get(self._ref)
                except DeadlineExceeded:
                    if objects.wait([self._ref], timeout=0)[0]:  # its worker has died before it could tell
                        objects.get(self._ref)

    def _restarted(self) -> bool:
        """Its place is closed: is there another one?"""
        self._options = None
        if not self._restarts:
            return False
        self._restarts -= 1
        return True

    def __getattr__(self, name: str) -> "ActorMethod":
        if name.startswith("_"):
            raise AttributeError(name)
        return ActorMethod(self, name)

    def __reduce__(self) -> "Tuple[Any, ...]":
        return ActorHandle, (self._ref, self._class, self._restarts)

    def __repr__(self) -> str:
        return "<actor of %s>" % self._class.partition("#")[0]


def actor_key(result: int, restarts: int) -> str:
    """The key of an actor's place, and "" where its constructor has failed, while it may be restarted so often."""
    return "muster.actors/%x/%d" % (result, restarts)


_methods: Dict[Any, int] = {}  # (task, class, method, num_results): the function


class ActorMethod:
    def __init__(self, actor: ActorHandle, name: str, num_returns: int = 1) -> None:
        self._actor, self._name, self._num_returns = actor, name, num_returns

    def options(self, num_returns: int = 1) -> "ActorMethod":
        return ActorMethod(self._actor, self._name, num_returns)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        actor, count = self._actor, self._num_returns
        task = actor._ref._task
        key = (task, actor._class, self._name, count)
        function = _methods.get(key)
        if function is None:
            name = "%s.%s/%d" % (actor._class, self._name, count)
            function = _methods[key] = _find(task, name) or _export(task, name, KIND_METHOD, count, None, self._name)
        while True:
            try:
                options = actor._where()
            except Error as e:
                return _failed(task, count, "%r has not begun: %s" % (actor, e))
            try:
                return submit(task, function, count, args, kwargs, options, ActorDied)
            except (NotFound, FailedPrecondition):
                if not _is_closed(task, options.place):
                    raise
                if not actor._restarted():
                    return _failed(task, count, "%r has ended" % actor)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("%s is called by .remote()" % self._name)


def _is_closed(task: Any, place: int) -> bool:
    info = _lib.ObjectInfo()
    return bool(lib.muster_object_info(task._m, place, _byref(info)) or info.sealed)


def _failed(task: Any, count: int, text: str) -> Any:
    """References to errors: what a call gives that cannot be submitted, for its actor is gone."""
    refs = []
    for _ in range(count or 1):
        cell, room = ctypes.c_uint64(), _lib.ObjectRoom()
        check(lib.muster_object_create(task._m, 0, 0, 0, _byref(cell), _byref(room)))
        refs.append(_own(task, cell, ActorDied))
        check(lib.muster_object_fail(task._m, cell, _lib.UNAVAILABLE, text.encode(errors="replace")[:800]))
    return refs[0] if count == 1 else refs if count else None


def remote(*args: Any, **options: Any) -> Any:
    """Of a function or class: one whose calls run in workers. @remote, or @remote(num_returns=, max_retries=, max_restarts=,
    num_gpus=, num_cpus=, resources=).

    num_returns   how many results a call has: it returns so many, each with a reference of its own
    max_retries   how often a call is run again whose worker died
    max_restarts  how often an actor is made anew whose worker died; calls that had not ended are ActorDied all the same
    num_gpus      whole ones that nobody else has while the call runs, or the actor lives; CUDA_VISIBLE_DEVICES names them there
    num_cpus, resources   likewise of the job's CPUs, one a worker where nothing else was said, and of what else was offered: {"disk": 0.5}
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _remote(args[0], dict(_DEFAULTS))
    if args:
        raise TypeError("@remote takes a function or class, or options by name")
    made = _options_of(options, _DEFAULTS)
    return lambda value: _remote(value, made)


def _remote(value: Any, options: Dict[str, Any]) -> Any:
    if isinstance(value, (RemoteFunction, RemoteClass)):
        raise TypeError("%r is remote already" % value)
    return (RemoteClass if isinstance(value, type) else RemoteFunction)(value, _new_name(value), options)


def kill(actor: ActorHandle) -> None:
    """End an actor at once, in the midst of a call or of its constructor: what was called and has not ended is `ActorDied`."""
    if not isinstance(actor, ActorHandle):
        raise TypeError("kill() takes an actor, not %s" % type(actor).__name__)
    ref, task = actor._ref, actor._ref._task
    until = time.monotonic() + 10
    places = [place for place in (_place_barred(task.kv, actor_key(ref.number, n)) for n in range(actor._restarts + 1)) if place]
    # the actor is a call that has not ended: one that nobody runs is cancelled, also one that would be run again
    while lib.muster_call_cancel(task._m, ref.number) and not _is_closed(task, ref.number) and time.monotonic() < until:
        _runner_kill(task, ref.number)
        task.objects.wait([ref], timeout=0.01)
    actor._restarts = 0
    closed, ready, count = ctypes.c_uint64(), ctypes.c_ubyte(), ctypes.c_size_t()
    for closed.value in places:
        lib.muster_object_wait(task._m, _byref(closed), 1, 1, _lib.deadline_of(10), _byref(ready), _byref(count))


def _place_barred(kv: Any, key: str) -> int:
    """The actor's place under that key; where it has none it will have none: its constructor does not run any more."""
    try:
        kv.insert(key, "")
        return 0
    except AlreadyExists:
        return int(kv.get(key) or 0)


def _runner_kill(task: Any, call: int) -> None:
    """The process that runs the call, if one does: it is looked at again once its number cannot become another's."""
    import signal
    look = _lib.CallLook()

    def pid() -> int:
        return 0 if lib.muster_call_look_at(task._m, call, _byref(look)) else look.pid

    runner = pid()
    if not runner:
        return
    try:
        fd = os.pidfd_open(runner)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # an old Python, or kernel
        os.kill(runner, signal.SIGKILL)
        return
    try:
        if pid() == runner:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


__all__ = ["ActorHandle", "RemoteClass", "RemoteFunction", "kill", "remote"]


def _gathered(*values: Any) -> Any:
    return values


_gather = _remote(_gathered, dict(_DEFAULTS))
