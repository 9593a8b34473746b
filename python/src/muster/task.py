"""Taking part in a job (muster/task.h): muster.join() gives a Task.

>>> task = muster.join("doc-task", task=0, num_tasks=2)
>>> task
<task 0 of 2 in job doc-task>
>>> [state.state for state in task.states()]
['CONNECTED', 'DISCONNECTED']
>>> task.events.send(7, b"saved")
0
>>> task.events.read(0).payload
b'saved'
>>> task.leave()
"""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import weakref
from types import TracebackType

from muster import _joined, _lib, _wait
from muster._lib import Options, SegmentConfig, deadline_of, ids_of, int_of, lib
from muster.errors import DeadlineExceeded, Error, FailedPrecondition, check
from muster.object import Objects

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import NamedTuple, Any, Iterable, Iterator, List, Optional, Tuple, Type

    from muster.barrier import Barriers
    from muster.epoch import Epoch
    from muster.event import Events
    from muster.group import Group
    from muster.kv import KeyValue
else:
    from muster._named import NamedTuple

STATES = ("DISCONNECTED", "CONNECTED", "ERROR")
CAUSES = ("", "REPORTED", "DIED", "HEARTBEAT", "RESTARTED", "EXITED", "SERVICE")


class TaskState(NamedTuple):
    """A task as the others see it. `state` is a word of STATES, `cause` one of CAUSES, `error` a status."""
    task: int
    state: str
    cause: str
    error: int
    message: str
    alive: bool
    recoverable: bool
    pid: int
    attempt: int
    incarnation: int
    host: str
    waiting: str


class JobError(NamedTuple):
    """The error that was told to all: who, and what."""
    task: int
    code: int
    cause: str
    pid: int
    host: str
    message: str


def _state(i: Any) -> TaskState:
    return TaskState(i.task_id, STATES[i.state], CAUSES[i.cause], i.error, i.message.decode(errors="replace"),
                     bool(i.alive), bool(i.recoverable), i.pid, i.attempt, i.incarnation,
                     i.host.decode(errors="replace"), i.waiting.decode(errors="replace"))


class Task:
    """This process's part in a job. Made by join(); every method may be called from any thread.

    As a context manager it leaves at the end; if the body fails, the others are told why first, so that their waits end.
    A child made by os.fork() is no task: its calls fail until it joins itself.

    kv       the keys of the job, a mapping              barrier  named barriers, called with a name
    events   numbered broadcast events                   group()  a fast barrier, allgather, broadcast, allreduce
    objects  values in shared memory
    job, id, num_tasks, incarnation                      id is None for an observer, and for a worker
    """

    kv: KeyValue
    barrier: Barriers
    events: Events

    def __init__(self, handle: int, is_worker: bool = False) -> None:
        self.is_worker = is_worker
        self._m: Optional[int] = handle
        self._pid = os.getpid()
        self._cell = ctypes.c_void_p(handle)  # for who reads it in C: NULL once it is left
        self._groups: "weakref.WeakSet[Group]" = weakref.WeakSet()
        number = int(lib.muster_task_id(handle))
        self.job = str(lib.muster_job(handle).decode())
        self.id: Optional[int] = number if number >= 0 else None
        self.num_tasks = int(lib.muster_num_tasks(handle))
        self.incarnation = int(lib.muster_incarnation(handle))
        self.objects = Objects(self)
        _joined.add(self)
        _wait.joined(handle)

    def __getattr__(self, name: str) -> Any:
        """What a worker rarely needs is imported with its first use."""
        made: Any
        if name == "kv":
            from muster.kv import KeyValue
            made = KeyValue(self)
        elif name == "barrier":
            from muster.barrier import Barriers
            made = Barriers(self)
        elif name == "events":
            from muster.event import Events
            made = Events(self)
        else:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        return self.__dict__.setdefault(name, made)  # another thread may have been first

    # ---- going ----

    def leave(self) -> None:
        """Leave the job; also when called again. Waits of other threads end with `Cancelled` before; what else they have
        called comes to its end, and what they call later fails with `InvalidArgument`."""
        m, self._m = self._m, None
        self._cell.value = None
        if m is None:
            return
        _joined.tasks.pop(self, None)
        groups = [group._hide() for group in list(self._groups)]
        if not _wait.leaving(m) or not _wait.let_calls_end(m):
            raise FailedPrecondition("threads of this process are still in calls of job %s: it cannot be left" % self.job)
        groups += [group._hide() for group in list(self._groups)]  # that were about to be made
        for g in filter(None, groups):
            lib.muster_group_free(g)
        status = lib.muster_leave(m)
        if self._pid == os.getpid():  # a forked child's copy is only freed
            check(status)

    def _finish(self, why: Optional[BaseException]) -> None:
        """Leave, and tell the others before if that is no good end; of an error of the job they know already."""
        good = why is None or isinstance(why, Error) or (isinstance(why, SystemExit) and not why.code)
        if self._m is not None and self.id is not None and not good:
            text = ("%s: %s" % (type(why).__name__, why)).encode(errors="replace").replace(b"\0", b" ")
            lib.muster_error_report(self._m, self.id, _lib.ABORTED, text[:250])
        self.leave()

    def __enter__(self) -> "Task":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._finish(value)

    def interrupt(self) -> None:
        """End every wait of this process with `Cancelled`, those to come as well, until resume(). From any thread. A
        group that waits fails."""
        if self._m is not None:
            _wait.interrupted.add(self._m)
            lib.muster_interrupt(self._m)

    def resume(self) -> None:
        if self._m is not None:
            _wait.interrupted.discard(self._m)
            lib.muster_resume(self._m)

    def heartbeat(self) -> None:
        """One sign of life, for a task that joined with heartbeat=False."""
        check(lib.muster_heartbeat(self._m))

    # ---- the others ----

    def group(self, name: str, tasks: Optional[Iterable[int]] = None, data_bytes: int = 256,
              timeout: Optional[float] = None) -> Group:
        """Meet the others and make a group: all with the same name, the same tasks in the same order (None: all), and the
        same data_bytes, the most that one gives to a collective (16384 at most)."""
        from muster.group import Group
        return Group(self, name, tasks, data_bytes, timeout)

    def epochs(self, timeout: Optional[float] = None) -> Iterator[Epoch]:
        """The epochs of a job with a membership, as long as this task is a member (muster.epoch)."""
        from muster.epoch import epochs
        return epochs(self, timeout)

    def state(self, task: Optional[int] = None) -> TaskState:
        """Of one task; None: of this one."""
        info = _lib.TaskInfo()
        number = self.id if task is None else int_of(task, 32)
        check(lib.muster_task_get(self._m, -1 if number is None else number, ctypes.byref(info)))
        return _state(info)

    def states(self) -> List[TaskState]:
        """Of all tasks, in the order of their ids."""
        return self.watch_states(0)[1]

    def watch_states(self, version: int, timeout: Optional[float] = None) -> Tuple[int, List[TaskState]]:
        """Wait until the job's state is newer than `version` (0: at once): every registration, departure and error makes
        it newer. The version now, and the states. Errors do not end this wait, they are what it waits for."""
        version = int_of(version, 64, False)
        infos, count, now = (_lib.TaskInfo * self.num_tasks)(), ctypes.c_size_t(), ctypes.c_uint64()
        check(_wait.wait(self._m, deadline_of(timeout),
                         lambda until: int(lib.muster_task_watch(self._m, version, until, infos, self.num_tasks,
                                                                 ctypes.byref(count), ctypes.byref(now)))))
        return now.value, [_state(i) for i in infos[:count.value]]

    def alive(self, tasks: Optional[Iterable[int]] = None, timeout: Optional[float] = None) -> List[int]:
        """Which of the tasks are alive, as agreed by all of them: each that is calls with the same set."""
        ids, count = ids_of(range(self.num_tasks) if tasks is None else tasks)
        got, n = (ctypes.c_int32 * count)(), ctypes.c_size_t()
        check(_wait.wait(self._m, deadline_of(timeout),
                         lambda until: int(lib.muster_task_alive(self._m, ids, count, until, got, None,
                                                                 ctypes.byref(n)))))
        return list(got[:n.value])

    def report_error(self, message: str, code: int = _lib.ABORTED, task: Optional[int] = None) -> None:
        """Put a task (None: this one) in error: the waits of all that need it end, with this message."""
        number = self.id if task is None else int_of(task, 32)
        check(lib.muster_error_report(self._m, -1 if number is None else number, int_of(code, 32),
                                      message.replace("\0", " ").encode()))

    def wait_error(self, timeout: Optional[float] = None) -> JobError:
        """Wait until some task that cannot recover is in error: the first such error. `DeadlineExceeded`: none is."""
        e = _lib.ErrorInfo()
        check(_wait.wait(self._m, deadline_of(timeout),
                         lambda until: int(lib.muster_error_wait(self._m, until, ctypes.byref(e)))))
        return JobError(e.task_id, e.code, CAUSES[e.cause], e.pid, e.host.decode(errors="replace"),
                         e.message.decode(errors="replace"))

    async def wait_error_async(self, timeout: Optional[float] = None) -> JobError:
        """The same for asyncio: run it beside the work, and the work can be cancelled when a peer fails."""
        def turn(until: int) -> Any:
            e = _lib.ErrorInfo()
            status = lib.muster_error_wait(self._m, until, ctypes.byref(e))
            if status and _wait.sliced(status) and self._m not in _wait.interrupted:
                return _wait.NotYet
            check(status)
            return JobError(e.task_id, e.code, CAUSES[e.cause], e.pid, e.host.decode(errors="replace"),
                             e.message.decode(errors="replace"))

        found = await _wait.wait_async(self, timeout, turn)
        return self.wait_error(0) if found is _wait.NotYet else found

    def error(self) -> Optional[JobError]:
        """The first error of the job; None when there is none."""
        try:
            return self.wait_error(0)
        except DeadlineExceeded:
            return None

    def reset(self, task: int) -> None:
        """Disconnect a task, clearing its error, so that it may join anew."""
        check(lib.muster_task_reset(self._m, int_of(task, 32)))

    # ---- NCCL, topology ----

    def nccl_unique_id(self, name: str, size: int, rank: int, timeout: Optional[float] = None) -> Tuple[bytes, int]:
        """The 128 bytes of ncclUniqueId of the communicator `name` for this rank, and its generation (muster/nccl.h)."""
        got, generation = ctypes.create_string_buffer(128), ctypes.c_uint64()
        size, rank = int_of(size, 32, False), int_of(rank, 32, False)
        check(_wait.wait(self._m, deadline_of(timeout),
                         lambda until: int(lib.muster_nccl_unique_id(self._m, name.encode(), size, rank, None, until,
                                                                     got, ctypes.byref(generation)))))
        return got.raw, generation.value

    def exchange_topology(self, name: Optional[str] = None, timeout: Optional[float] = None) -> bytes:
        """Give this node's topology and get that of the job: xla.GlobalTopologyProto, the same bytes for all tasks."""
        topology, local, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        check(lib.muster_topology_get(self._m, ctypes.byref(topology)))
        try:
            who = _lib.Local(process_id=self.id or 0)
            check(lib.muster_topology_local(topology, ctypes.byref(who), 0, ctypes.byref(local), ctypes.byref(size)))
        finally:
            lib.muster_topology_free(topology)
        mine, got = _lib.take(local, size.value), ctypes.c_void_p()
        check(_wait.wait(self._m, deadline_of(timeout),
                         lambda until: int(lib.muster_topology_exchange(
                             self._m, name.encode() if name else None, 0, mine, len(mine), until, ctypes.byref(got),
                             ctypes.byref(size)))))
        return _lib.take(got, size.value)

    def __repr__(self) -> str:
        who = "worker" if self.is_worker else "observer" if self.id is None else "task %d of %d" % (self.id, self.num_tasks)
        return "<%s in job %s%s>" % (who, self.job, "" if self._m is not None else ", left")


def _at_exit() -> None:
    """The end of the program is that of its tasks; an exception that ended it is what the others are told."""
    for task in list(_joined.tasks) + _joined.lingering:
        try:
            task._finish(getattr(sys, "last_value", None))
        except Error:
            pass  # nobody is left to be told


atexit.register(_at_exit)


def join(job: Optional[str] = None, task: Optional[int] = None, num_tasks: Optional[int] = None, *,
         recoverable: bool = False, observer: bool = False, read_only: bool = False, transient: bool = False, worker: bool = False,
         create: bool = True, heartbeat: bool = True, timeout: Optional[float] = None, incarnation: int = 0,
         heap_bytes: int = 0, heartbeat_timeout: float = 0, object_bytes: int = 0) -> Task:
    """Join the job. Under `muster run` nothing need be given; without it, two processes that name the same job meet.

    job, task, num_tasks   None: MUSTER_JOB, MUSTER_TASK_ID, MUSTER_NUM_TASKS of the environment
    recoverable            this task's errors end only the waits that need it
    observer, read_only    take part without being a task; look only
    worker                 take part without a number: hold objects and run calls, and be missed by nobody
    transient              come and go several times; that it leaves fails no barrier
    create                 False: `NotFound` rather than create the job
    heartbeat              False: heartbeat() is called by the program
    timeout                seconds for a dead predecessor to be settled (None: 10)
    heap_bytes, heartbeat_timeout, object_bytes  of the job, for whoever creates it

    Errors: `AlreadyExists` (a live process is that task), `Aborted` (the task is in error: reset it first),
    `InvalidArgument` (no job, no task id), `ResourceExhausted`.
    """
    options, config, handle = Options(), SegmentConfig(), ctypes.c_void_p()
    lib.muster_options_init(ctypes.byref(options))
    options.job = job.encode() if job is not None else None
    if task is not None:
        if task < 0:
            raise ValueError("task %d: tasks are numbered from 0" % task)
        options.task_id = int_of(task, 32)
    options.num_tasks = int_of(num_tasks or 0, 32, False)
    options.incarnation = int_of(incarnation, 64, False)
    options.deadline = 0 if timeout is None else max(1, deadline_of(timeout))
    for wanted, flag in ((recoverable, _lib.JOIN_RECOVERABLE), (observer, _lib.JOIN_OBSERVER),
                         (read_only, _lib.JOIN_READ_ONLY), (transient, _lib.JOIN_TRANSIENT), (worker, _lib.JOIN_WORKER),
                         (not create, _lib.JOIN_NO_CREATE), (not heartbeat, _lib.JOIN_NO_HEARTBEAT)):
        options.flags |= flag if wanted else 0
    if heap_bytes or heartbeat_timeout or object_bytes:
        config.object_bytes = int_of(object_bytes, 64, False)
        config.heap_bytes = int_of(heap_bytes, 64, False)
        config.heartbeat_timeout_ns = int_of(int(heartbeat_timeout * 1e9), 64, False)
        options.config = ctypes.pointer(config)
    check(lib.muster_join(ctypes.byref(options), ctypes.byref(handle)))
    assert handle.value
    return Task(handle.value, worker)


_wait.COUNTED.add(join.__code__)  # it has no handle yet that could go

