"""muster in Python: the processes of a job, their barriers, keys and collectives, over libmuster and shared memory.

    import muster

    with muster.join() as task:                      # under `muster run -n 8 -- python train.py`
        task.kv["config/model"] = "resnet"
        task.barrier("ready", timeout=60)
        with task.group("workers") as workers:
            workers.barrier()

Errors are exceptions, all of them `muster.Error`, and say who failed: `error.culprit`. muster.torch is a store for
torch.distributed. The contracts (threads, fork, what blocks) stand in muster's headers, include/muster.
"""
from __future__ import annotations

from muster import errors
from muster._pool import init, shutdown
from muster._lib import LibraryNotFound, lib as _library, path as library_path
from muster.calls import ActorHandle, RemoteClass, RemoteFunction, kill, remote
from muster.errors import *  # noqa: F401,F403 (the exceptions, one for each status)
from muster.object import ObjectRef, Objects, get, put, wait
from muster.task import JobError, Task, TaskState, join

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any

    from muster.barrier import Barriers, BarrierState
    from muster.event import Event, Events
    from muster.group import Group
    from muster.kv import Entry, KeyValue
    from muster.queue import Queue, QueueReader

__version__ = "0.1.0"


def library_version() -> str:
    """The version of libmuster, which lies at `library_path`."""
    return str(_library.muster_version().decode())


__all__ = ["ActorHandle", "BarrierState", "Barriers", "Checkpoint", "Entry", "Event", "Events", "Executor", "Group", "JobError",
           "KeyValue", "LibraryNotFound", "ObjectRef", "Objects", "Queue", "QueueReader", "RemoteClass",
           "RemoteFunction", "Task", "TaskState", "get", "init", "join", "kill", "library_path", "library_version",
           "put", "remote", "shutdown", "wait"]
__all__ += errors.__all__


_LATER = {"BarrierState": "barrier", "Barriers": "barrier", "Checkpoint": "checkpoint", "Entry": "kv", "Event": "event",
          "Events": "event", "Executor": "executor", "Group": "group", "KeyValue": "kv", "Queue": "queue", "QueueReader": "queue"}


def __getattr__(name: str) -> Any:
    """What not every program needs, and a worker rarely, is imported with its first use: of names, and of modules."""
    import importlib
    if name in ("ps", "epoch") or name in _LATER.values():
        return importlib.import_module("muster." + name)
    if name not in _LATER:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    found = globals()[name] = getattr(importlib.import_module("muster." + _LATER[name]), name)
    return found
