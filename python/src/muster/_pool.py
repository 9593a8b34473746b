"""A job of this process's own: muster.init() makes it, and starts its workers; muster.shutdown() ends both."""
from __future__ import annotations

import atexit
import ctypes
import os
import struct
import sys
import threading

from muster import _joined, _lib, _wait
from muster._joined import deaths
from muster._workers import DEATH, MORE
from muster.errors import FailedPrecondition, Unavailable, check
from muster.task import Task, join

try:  # what pickle is made of: it imports much besides
    import _pickle as pickle
except ImportError:
    import pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Dict, Optional

_count = 0
_pool: "Optional[_Pool]" = None


class _Pool:
    def __init__(self, task: Task, helper: int, down: int, up: int) -> None:
        self.task, self.helper, self.down, self.up, self.pid = task, helper, down, up, os.getpid()
        self.workers = 0
        self.is_ending = False

    def watch(self) -> None:
        """In a thread: the helper's end, where it was not told to, ends what waits."""
        while True:
            records = os.read(self.up, 800)
            if not records:
                break
            for pid, status in DEATH.iter_unpack(records):
                if pid:
                    deaths.add(pid, status)
        if not self.is_ending:
            sys.stderr.write("muster: the process that starts the workers of job %s has ended, and they with it\n" % self.task.job)
            self.task.interrupt()

    def bury(self) -> None:
        """In a thread: a worker's death is known at once, where no launcher looks for it."""
        m, count = self.task._m, ctypes.c_size_t()
        while not _wait.wait(m, _lib.FOREVER, lambda until: int(_lib.lib.muster_death_wait(m, until, ctypes.byref(count)))):
            pass


def init(workers: Optional[int] = None, store: Optional[int] = None, num_gpus: int = 0, num_cpus: float = 0,
         resources: "Optional[Dict[str, float]]" = None) -> Task:
    """Make a job with so many workers (None: one for each CPU), which run what muster.remote() submits. The task that this
    process is in it. Workers, and all that is left of the job, end with this process.

    store   bytes for its large objects (None: the machine's memory, taken as it is used)
    num_gpus, num_cpus, resources   what calls may ask for, by the same names: GPUs are those of CUDA_VISIBLE_DEVICES where
            that is set; num_cpus is the number of workers if it is not said
    """
    global _pool
    if _pool is not None and _pool.pid == os.getpid():
        raise FailedPrecondition("this process has workers already: muster.shutdown() ends them", _lib.FAILED_PRECONDITION)
    count = _lib.int_of(len(os.sched_getaffinity(0)) if workers is None else workers, 16)
    if not 0 < count <= 1024:
        raise ValueError("%d workers: 1 to 1024 can be" % count)
    from muster.calls import asks_of
    offers = {"CPU": float(count), **asks_of({"resources": resources, "num_cpus": num_cpus, "num_gpus": num_gpus})}
    gpus = _gpus(offers.get("GPU", 0))
    global _count
    _count += 1
    # a random part: processes of several pid namespaces may have one /dev/shm
    job, num_tasks = "py-%d-%d-%s" % (os.getpid(), _count, os.urandom(6).hex()), 1 + count + MORE
    helper, down, up = _spawn(job)
    task: Optional[Task] = None
    try:
        task = join(job, task=0, num_tasks=num_tasks, object_bytes=store or 0)
        for name, amount in offers.items():
            check(_lib.lib.muster_resource_offer(task._m, name.encode(), amount, gpus if name == "GPU" else None))
        config = pickle.dumps({"job": job, "num_tasks": num_tasks, "workers": count, "path": sys.path, "argv": sys.argv})
        os.write(down, struct.pack("<Q", len(config)) + config)
        from muster import _code  # noqa: F401 (what the first call needs, while the helper starts)
        if not os.read(up, DEATH.size):
            raise Unavailable("no worker of job %s could be started: the process that starts them has ended" % job,
                              _lib.UNAVAILABLE)
    except BaseException:
        os.close(down)
        os.close(up)
        has_ended_them = not os.waitpid(helper, 0)[1]
        if task is not None:
            task.leave()
        if not has_ended_them:
            _remove(job)
        raise
    _pool = _Pool(task, helper, down, up)
    _pool.workers = count
    deaths.are_told = True
    for work in (_pool.watch, _pool.bury):
        threading.Thread(target=work, name="muster-workers", daemon=True).start()
    return task


def _gpus(count: float) -> Optional[bytes]:
    """Their numbers, or what they are called here."""
    if not count:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(i) for i in range(int(count))] if visible is None else [name for name in visible.split(",") if name]
    if count != int(count) or len(names) < count:
        raise ValueError("num_gpus is %g: whole ones can be, and of those that CUDA_VISIBLE_DEVICES names" % count)
    return ",".join(names[:int(count)]).encode()


def _spawn(job: str) -> "tuple[int, int, int]":
    """The helper: its pid, the pipe to it, and that from it. In a group of its own: a terminal's Ctrl-C is the driver's."""
    theirs, down = os.pipe()
    up, told = os.pipe()
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = "import sys; sys.path.insert(0, %r); from muster import _workers; _workers.main(%d, %d, %d, %r)" % (
        source, theirs, told, os.getpid(), job)
    environment = dict(os.environ, MUSTER_LIBRARY=os.path.abspath(_lib.path) if os.sep in _lib.path else _lib.path)
    for name in ("MUSTER_JOB", "MUSTER_TASK_ID", "MUSTER_NUM_TASKS"):
        environment.pop(name, None)
    os.set_inheritable(theirs, True)
    os.set_inheritable(told, True)
    try:
        helper = os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", program], environment, setpgroup=0)
    except OSError:
        os.close(down)
        os.close(up)
        raise
    finally:
        os.close(theirs)
        os.close(told)
    return helper, down, up


def _remove(job: str) -> None:
    """The job's file. The helper has died, and its workers die at this moment: who leaves finds them alive, perhaps, and
    leaves the file to them."""
    _lib.lib.muster_segment_remove(job.encode())


def number_of_workers() -> int:
    return _pool.workers if _pool is not None else 1


def is_of(task: Task) -> bool:
    return _pool is not None and _pool.task is task


def shutdown() -> None:
    """End the workers, in the midst of their calls, and the job. Also when called again. Arrays that lie in objects stay."""
    global _pool
    pool, _pool = _pool, None
    if pool is None or pool.pid != os.getpid():
        return
    pool.is_ending = True
    try:
        os.write(pool.down, b"q")  # that it ends without this is the driver's death
    except BrokenPipeError:
        pass  # the helper has died
    os.close(pool.down)
    has_ended_them = not os.waitpid(pool.helper, 0)[1]
    deaths.are_told = False
    if pool.task.objects.pins:  # their memory must stay: the job goes with this process
        _joined.tasks.pop(pool.task, None)
        _joined.lingering.append(pool.task)
        pool.task.interrupt()
    else:
        pool.task.leave()
    if not has_ended_them:
        _remove(pool.task.job)


atexit.register(shutdown)
