"""What a worker does: it takes calls of Python functions from the job, and runs them.

muster.init() starts workers by itself. `muster run --workers 4 --worker-command 'python3 -m muster.worker'` starts them beside
a job's tasks. A task that is `python -m muster.worker` is a worker, too, until the tasks that are none have left.
"""
from __future__ import annotations

import ctypes
import os
import sys
import time

from muster import _lib, _pack, errors, object as objects_
from muster._lib import CallInfo, ObjectInfo, ObjectRoom, ObjectView, lib
from muster._workers import _RECORD, ACTOR, BLOCKED, ENDED, GOES_ON, READY, TICK
from muster.errors import check
from muster.object import _READ, ObjectRef, _bytes_at, fill
from muster.calls import KIND_CLASS, KIND_FUNCTION, KIND_METHOD, actor_key, decode
from muster.task import Task, join

try:  # what pickle is made of: it imports much besides
    import _pickle as pickle
except ImportError:
    import pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Callable, Dict, List, Tuple

_byref, _memmove, _string_at, _loads, _dumps = ctypes.byref, ctypes.memmove, ctypes.string_at, pickle.loads, pickle.dumps
_next, _get, _argument, _result, _done = (lib.muster_worker_next, lib.muster_call_get, lib.muster_call_argument,
                                          lib.muster_call_result, lib.muster_call_done)
_PICKLED = _pack.META + _pack.PICKLE


def main(config: Dict[str, Any], number: int, tell: int, marks: Any) -> None:
    """In a process that the helper has forked."""
    sys.path[:] = config["path"]
    sys.argv[:] = config["argv"]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    task = _join(config, number)
    worker = Worker(task, lambda what: os.write(tell, _RECORD.pack(number, what)))
    worker.tell(READY)
    objects_.on_block = lambda blocks: worker.tell(BLOCKED if blocks else GOES_ON)
    while not worker.is_over() and (not marks[number] or task.objects._reap()):
        worker.turn(0)
    _leave(worker)


def _leave(worker: "Worker") -> None:
    """One that keeps GPUs gives them back with its process: it stays in the job until then."""
    if not worker.is_spent:
        worker.task.leave()


def _join(config: Dict[str, Any], number: int) -> Task:
    def once() -> Task:
        return join(config["job"], task=number, num_tasks=config["num_tasks"], recoverable=True, create=False)

    try:
        return once()
    except errors.Aborted:  # the worker that had this number has died
        observer = join(config["job"], observer=True, create=False)
        observer.reset(number)
        observer.leave()
        return once()


class Worker:
    def __init__(self, task: Task, tell: Callable[[bytes], Any], keeps: bool = True) -> None:
        """`keeps`: the GPUs of a call are lent again when this process has ended; it does after that call."""
        self.task, self.tell, self.keeps = task, tell, keeps
        self.functions: Dict[int, Tuple[int, str, str, Any]] = {}
        self.instance: Any = None
        self.until = 0
        self.is_spent = False  # it has begun to use GPUs, and the next call may have others: a process keeps its first ones
        self.gpus = ctypes.create_string_buffer(2048)
        self.has_gpus = _has_gpus(task)
        _pack.turn.task = task

    def turn(self, place: int) -> bool:
        """One call, of a place or of none, where there is one within a tick."""
        call, info = ctypes.c_void_p(), CallInfo()
        status = _next(self.task._m, place, self.until, _byref(call))
        if status == _lib.DEADLINE_EXCEEDED:
            self.until = _lib.deadline_of(TICK)
            status = _next(self.task._m, place, self.until, _byref(call))
            if status == _lib.DEADLINE_EXCEEDED:
                self.task.objects._reap()
                return False
        check(status)
        _get(call, _byref(info))
        name = "a call"
        try:
            if self.has_gpus:
                self._see_gpus(call, place)
            kind, name, symbol, value = self.functions.get(info.function) or self._load(info.function)
            args, kwargs = self._arguments(call, info.num_arguments)
            if kind == KIND_CLASS:
                self._become(call, info, lambda: value(*args, **kwargs))
            else:
                got = (getattr(self.instance, symbol) if kind == KIND_METHOD else value)(*args, **kwargs)
                self._results(call, info, got)
        except BaseException as e:
            self._fail(call, name, e)
            return True
        check(_done(call))
        if kind == KIND_CLASS:
            self.tell(ENDED)
        return True

    def _see_gpus(self, call: Any, place: int) -> None:
        """The call sees those that it has: none, where it has asked for none. An actor's calls see the actor's."""
        if place:
            return
        check(lib.muster_call_resource(call, b"GPU", None, self.gpus))
        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus.value.decode()
        if self.gpus.value and self.keeps:
            check(lib.muster_call_keep(call))
            self.is_spent = True

    def is_over(self) -> bool:
        """It has used GPUs; or CUDA has been loaded in a call without any: it may have begun there, and this process has none then for good."""
        return self.is_spent or self.has_gpus and _has_cuda()

    # ---- what comes ----

    def _load(self, function: int) -> "Tuple[int, str, str, Any]":
        info = _lib.FunctionInfo()
        check(lib.muster_function_info(self.task._m, function, _byref(info)))
        name, value = info.name.decode().partition("#")[0], None
        if info.kind not in (KIND_FUNCTION, KIND_CLASS, KIND_METHOD):
            raise TypeError("function %s is none of Python's, and this worker runs no others" % name)
        if info.kind != KIND_METHOD:
            code = self.task.objects.get(ObjectRef(info.code, self.task))
            value = _with_site(lambda: _loads(code))
        self.functions[function] = found = (info.kind, name, info.symbol.decode(), value)
        return found

    def _arguments(self, call: Any, count: int) -> "Tuple[Any, Dict[str, Any]]":
        view = ObjectView()
        check(_argument(call, 0, _byref(view)))
        if count == 1 and not view.object:
            try:
                args, kwargs, places = _loads(_bytes_at(view.data, view.len, _READ))
            except ImportError:
                args, kwargs, places = self._value(view)
            if not places:
                return args, kwargs
        values = [self._value(view)]
        for i in range(1, count):
            check(_argument(call, i, _byref(view)))
            values.append(self._value(view))
        return decode(values[0], values[1:])

    def _value(self, view: Any) -> Any:
        if view.object:  # as everybody gets it: what lies in it may be kept beyond the call
            return _with_site(lambda: self.task.objects.get(ObjectRef(view.object, self.task), 0))
        return _with_site(lambda: _loads(_string_at(view.data, view.len)))

    # ---- what goes ----

    def _results(self, call: Any, info: Any, got: Any) -> None:
        """All are packed before the first one is made: what cannot be pickled is the call's error."""
        count = info.num_results
        if type(got) in _pack.SIMPLE and count == 1 and type(got) is not bytes:
            data, room = _dumps(got, 5), ObjectRoom()
            check(_result(call, 0, len(data), 8, _byref(room)))
            _memmove(room.data, data, len(data))
            _memmove(room.meta, _PICKLED, 8)
            return
        if count == 1:
            values = [got]
        elif not count:
            values = []
        else:
            try:
                values = list(got)
            except TypeError:
                raise TypeError("num_returns is %d, and it returned %s" % (count, type(got).__name__)) from None
            if len(values) != count:
                raise ValueError("num_returns is %d, and it returned %d values" % (count, len(values)))
        packed = [_pack.pack(value) for value in values]
        room = ObjectRoom()
        for i, one in enumerate(packed):
            self._room(call, i, one, room)
            fill(room, one)
        refs = [ref for one in packed for ref in one.refs]
        if refs:  # the call is there as long as one of its results is
            self.task.objects._contain(info.result, refs)

    def _room(self, call: Any, i: int, one: Any, room: Any) -> None:
        """For a result; where there is none it is waited for, as put() does."""
        status, until = _result(call, i, one.size, len(one.meta), _byref(room)), time.monotonic() + objects_.PATIENCE
        while status == _lib.RESOURCE_EXHAUSTED and time.monotonic() < until:
            self.task.objects.room(one.size, len(one.meta), until - time.monotonic())
            status = _result(call, i, one.size, len(one.meta), _byref(room))
        check(status)

    def _fail(self, call: Any, name: str, e: BaseException) -> None:
        said, detail = "%s raised %s" % (name, type(e).__name__), 0
        for make in (self._error_whole, self._error_bare, self._error_plain):
            try:  # a user's exception may raise when it is shown, made, or pickled
                error = make(e, name)
                said = "%s raised %s: %s" % (name, type(error).__name__, error)
                kept = self.task.objects.put(error)
                detail = kept.number
                break
            except Exception:
                continue
        check(lib.muster_call_fail(call, _lib.ABORTED, said[:700].encode(errors="replace").replace(b"\0", b" "), detail))

    def _traceback(self, e: BaseException, name: str) -> str:
        import traceback
        trace = e.__traceback__.tb_next if e.__traceback__ else None  # without the line of this file
        text = "".join(traceback.format_exception(type(e), e, trace)).rstrip()
        return "in %s, %s:\n%s" % (name, os.getpid(), text)

    def _error_whole(self, e: BaseException, name: str) -> BaseException:
        if isinstance(e, errors.TaskError):  # of a call that this one has waited for
            return e
        return errors.task_error_of(e, name, self._traceback(e, name))

    def _error_bare(self, e: BaseException, name: str) -> BaseException:
        """Of what it has, what can be pickled."""
        def can(value: Any) -> bool:
            try:
                _pack.pack(value)
            except Exception:
                return False
            return True

        args = tuple(a if can(a) else repr(a) for a in e.args)
        bare = errors._exception_make(type(e), args, args, {k: v for k, v in e.__dict__.items() if can(v)})
        return errors.task_error_of(bare, name, self._traceback(e, name))

    def _error_plain(self, e: BaseException, name: str) -> BaseException:
        try:
            text = str(e)
        except Exception:
            text = "an exception that cannot be shown"
        return errors.task_error_of(RuntimeError("%s raised %s: %s" % (name, type(e).__name__, text)), name, "")

    # ---- an actor ----

    def _become(self, call: Any, info: Any, make: Callable[[], Any]) -> None:
        """This worker is the actor from now on, until nobody has a handle of it. The call by which it was made does not end
        before: if the worker dies it runs again, in another one, where it may be restarted."""
        place, kv, m = ctypes.c_uint64(), self.task.kv, self.task._m
        key = actor_key(info.result, info.retries_left)
        try:
            if kv.get(key) is not None:
                raise errors.ActorDied("its place is gone: it was killed", _lib.UNAVAILABLE)
            self.instance = make()
            check(lib.muster_place_open(m, _byref(place)))
        except BaseException:
            kv[key] = ""
            raise
        kv[key] = str(place.value)
        self.tell(ACTOR)
        try:
            while self.turn(place.value) or self._is_wanted(info.result, 0) or self._is_wanted(place.value, 1):
                pass
        except BaseException:
            os._exit(1)  # nobody would serve its place
        self.instance = None
        kv.delete(key)
        check(lib.muster_place_close(m, place, _lib.UNAVAILABLE, b"its place is closed: nobody had a handle of it any more"))

    def _is_wanted(self, number: int, own: int) -> bool:
        """By more than so many: handles of the actor, calls that are under way to its place."""
        info = ObjectInfo()
        return not lib.muster_object_info(self.task._m, number, _byref(info)) and info.holders > own


def _has_gpus(task: Task) -> bool:
    """The job offers some, and so says which are visible."""
    found: List[bool] = []
    visit = _lib.VISIT_RESOURCE(lambda _, look: found.append(look.contents.name == b"GPU") or 0)
    check(lib.muster_resource_list(task._m, visit, None))
    return any(found)


def _has_cuda() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _with_site(load: Callable[[], Any]) -> Any:
    """The helper starts without `site`, which takes long and is rarely needed: an import may want what it sets up."""
    try:
        return load()
    except ImportError:
        if "site" in sys.modules:
            raise
        import site
        site.main()
        return load()


def _main() -> None:
    if "MUSTER_TASK_ID" not in os.environ:
        _work_until_closed(join(worker=True, create=False))
        return
    task = join(recoverable=True)
    task.kv["muster.workers/%s" % task.id] = ""
    worker = Worker(task, lambda what: None, keeps=False)
    try:
        while worker.turn(0) or not _have_left(task):
            pass
    except errors.Cancelled:
        pass  # the job was closed
    task.leave()


def _work_until_closed(task: Task) -> None:
    """Of a process without a number, which 'muster run --workers' ends when the tasks have."""
    worker = Worker(task, lambda what: None)
    try:
        while not worker.is_over():
            worker.turn(0)
    except errors.Cancelled:
        pass
    _leave(worker)
    if worker.is_over():
        os.execv(sys.executable, getattr(sys, "orig_argv", [sys.executable, "-m", "muster.worker"]))


def _have_left(task: Task) -> bool:
    """All that have joined and are no workers."""
    workers = task.kv.directory("muster.workers")
    others = [s for s in task.states() if s.attempt and "muster.workers/%d" % s.task not in workers]
    return bool(others) and not any(s.state == "CONNECTED" for s in others)


if __name__ == "__main__":
    _main()
