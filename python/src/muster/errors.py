"""What the library's statuses are in Python: an exception class each, all of them `muster.Error`.

>>> import muster
>>> issubclass(muster.NotFound, KeyError), issubclass(muster.DeadlineExceeded, TimeoutError)
(True, True)
"""
from __future__ import annotations

import types
import weakref

from muster import _joined, _lib
from muster._joined import deaths

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import NamedTuple, Any, Callable, Dict, Optional, Tuple, Type
else:
    from muster._named import NamedTuple


class Culprit(NamedTuple):
    """A task that an error names. `name` is as the sentence has it: "task 2 (pid 4711 on host a)"."""
    task: int
    name: str
    pid: Optional[int] = None
    host: Optional[str] = None


_NAMED = r"\btask (\d+) \((?:(?:pid (\d+)|a guest) )?on host ([^\s)]+)\)"
_BARE = r"\btask (\d+)(?=: | had not | is | has | gave )"
_WORKER = r"\bits worker \(pid (\d+) on host "
_TOLD_WITHIN = 1.0
_PATIENCE = "the deadline passed while waiting for "
_INTERRUPTED = "interrupted while waiting for "
_PRODUCER = _PATIENCE + r"(?:object 0x[0-9a-f]+|[\d of]+ objects): 0x[0-9a-f]+, of (?=task \d+ \()"
_LIST = r"; [a-z][a-z0-9 ,.]*: (?=task \d+ \()"  # of who could have ended the wait


def _culprits(sentence: str) -> Tuple[Culprit, ...]:
    """The tasks that the sentence names, each once, in its order. Those that have a process come first."""
    import re  # which takes long, and most programs see no error
    found: Dict[int, Culprit] = {}
    if sentence.startswith((_PATIENCE, _INTERRUPTED)):  # what was waited for has a name of its own
        lists = list(re.finditer(_LIST, sentence)) or list(re.finditer(_PRODUCER, sentence))
        sentence = sentence[lists[-1].end():] if lists else ""
    for match in re.finditer(_NAMED, sentence):
        task, pid, host = int(match.group(1)), match.group(2), match.group(3)
        found.setdefault(task, Culprit(task, match.group(0), int(pid) if pid else None, host))
    for match in re.finditer(_BARE, sentence):
        found.setdefault(int(match.group(1)), Culprit(int(match.group(1)), match.group(0)))
    return tuple(found.values())


class _Computed:
    """A property that an attribute of the exception's own, as a user's class may have, stands before."""

    def __init__(self, compute: "Callable[[Any], Any]") -> None:
        self.compute = compute

    def __get__(self, error: Any, kind: Any = None) -> Any:
        return self if error is None else self.compute(error)


class Error(Exception):
    """A call of the library failed.

    status    its code, a number of muster/status.h;  code: the name of it, "NOT_FOUND"
    message   the library's sentence: what happened, why, who and, where there is one, the remedy
    culprits  the tasks that the sentence names, as `Culprit`s;  culprit: the first of them, or None
    version   of `compare_and_set` only: the version that the key has (0: there is no such key)
    """
    status: int = _lib.UNKNOWN
    version: Optional[int] = None

    def __init__(self, message: str = "", status: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = type(self).status if status is None else status
        self.culprits = () if self.status == _lib.INVALID_ARGUMENT else _culprits(message)

    @_Computed
    def culprit(self) -> Any:  # Optional[Culprit]
        return self.culprits[0] if self.culprits else None

    @_Computed
    def code(self) -> Any:  # str
        return str(_lib.lib.muster_status_name(self.status).decode())

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> "Tuple[Any, ...]":
        return type(self), (self.message, self.status)


class Cancelled(Error):
    """The wait was interrupted, the barrier cancelled, or the job closed."""
    status = _lib.CANCELLED


class InvalidArgument(Error, ValueError):
    status = _lib.INVALID_ARGUMENT


class DeadlineExceeded(Error, TimeoutError):
    """The timeout passed; of a barrier or group the sentence names who was missing."""
    status = _lib.DEADLINE_EXCEEDED


Timeout = DeadlineExceeded


class NotFound(Error, KeyError):
    status = _lib.NOT_FOUND


class AlreadyExists(Error):
    status = _lib.ALREADY_EXISTS


class PermissionDenied(Error, PermissionError):
    status = _lib.PERMISSION_DENIED


class ResourceExhausted(Error, MemoryError):
    """The segment, /dev/shm or the table of threads is full; nothing was changed."""
    status = _lib.RESOURCE_EXHAUSTED


class FailedPrecondition(Error):
    status = _lib.FAILED_PRECONDITION


class Aborted(Error):
    """The key has another version, or the task is in error already."""
    status = _lib.ABORTED


class OutOfRange(Error, LookupError):
    status = _lib.OUT_OF_RANGE


class Unimplemented(Error, NotImplementedError):
    status = _lib.UNIMPLEMENTED


class Internal(Error):
    """A barrier failed, because a task of it did: `culprit` says which."""
    status = _lib.INTERNAL


class Unavailable(Error, ConnectionError):
    """A task that was needed died, left or is in error: `culprit` says which."""
    status = _lib.UNAVAILABLE


class DataLoss(Error):
    status = _lib.DATA_LOSS


class WorkerDied(Unavailable):
    """The worker that ran the call died before it had ended. `pid` and `signal`: of the worker, where they are known.
    `end`: how a worker of `muster run --workers` ended, as its launcher says, with the last lines of its stderr."""
    _end: Optional[str] = None

    @property
    def pid(self) -> Optional[int]:
        import re
        found = re.search(_WORKER, self.message)
        return int(found.group(1)) if found else self.culprit.pid if self.culprit else None

    @property
    def end(self) -> str:
        if self._end is None:
            import re
            self._end = _end_of(self.pid) if re.search(_WORKER, self.message) else ""
        return self._end

    @property
    def signal(self) -> Optional[int]:
        import re
        found = re.search(r" signal (\d+)", self.end.partition("\n")[0])
        if found:
            return int(found.group(1))
        status = deaths.status(self.pid) if self.pid else None
        return status & 127 or None if status is not None else None

    def __str__(self) -> str:
        if self.end:
            return "%s: it %s" % (self.message, self.end.partition(") ")[2])
        return self.message + (" (signal %d)" % self.signal if self.signal else "")


def _end_of(pid: Optional[int]) -> str:
    """What the launcher says of a worker, which it learns a little later than everybody that waits for the call."""
    try:
        told = _joined.current().kv.get("muster/workers/%s" % pid, wait=_TOLD_WITHIN)
        return bytes(told).decode(errors="replace")
    except Error:
        return ""


class ActorDied(Unavailable):
    """The actor was killed, or its worker died: calls of it that had not ended by then, and all later ones."""


class TaskError(Error):
    """A call raised: this is an exception of the same class, too.

    cause      the exception itself          function  the name of what was called
    traceback  where it was raised, as text
    """
    status = _lib.UNKNOWN
    cause: BaseException
    function = ""
    traceback = ""
    _call: "Tuple[BaseException, str, str]"  # the three, whatever attributes the cause's class has

    def __str__(self) -> str:
        return str(self._call[0])

    def __repr__(self) -> str:
        return "TaskError(%s: %r)" % (self._call[1], self._call[0])

    def __reduce__(self) -> "Tuple[Any, ...]":
        cause, function, traceback = self._call
        return _task_error_load, (type(cause), _arguments_of(cause), cause.args, getattr(cause, "__dict__", {}), function, traceback)


class RemoteTraceback(Exception):
    """What stands above a TaskError where it is shown: where the call raised."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def _arguments_of(e: BaseException) -> "Tuple[Any, ...]":
    """What it was made with: of an OSError more than its `args`."""
    reduced: Any = e.__reduce__()
    return tuple(reduced[1]) if reduced[0] is type(e) else e.args


def _exception_make(kind: "Type[BaseException]", given: "Tuple[Any, ...]", args: "Tuple[Any, ...]",
                    contents: Dict[str, Any]) -> BaseException:
    """Such an exception, without a constructor of Python's being called: what that takes need not be what it keeps."""
    try:
        made = kind.__new__(kind, *given)
        if not isinstance(_constructor(kind), types.FunctionType):
            _constructor(kind)(made, *given)
    except Exception:  # its __new__ wants something else
        made = Exception.__new__(kind) if issubclass(kind, Exception) else BaseException.__new__(kind)
    made.args = args
    made.__dict__.update(contents)
    return made


def _constructor(kind: Any) -> Any:
    """The first in its order that is none of this module."""
    return next(c.__dict__["__init__"] for c in kind.__mro__ if "__init__" in c.__dict__ and not issubclass(c, Error))


def _task_error_load(kind: "Type[BaseException]", given: "Tuple[Any, ...]", args: "Tuple[Any, ...]",
                     contents: Dict[str, Any], function: str, traceback: str) -> TaskError:
    return task_error_of(_exception_make(kind, given, args, contents), function, traceback)


def task_error_of(cause: BaseException, function: str, traceback: str) -> TaskError:
    """A TaskError that is an instance of the cause's class, where there can be such a class."""
    kind = type(cause) if isinstance(cause, Exception) else TaskError  # a SystemExit there is none here
    both = _BOTH.get(kind)
    if both is None:
        try:
            both = kind if kind is TaskError else type(kind.__name__, (TaskError, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
        except TypeError:  # that class can have no other beside it
            both = TaskError
        _BOTH[kind] = both
    error = _exception_make(both, _arguments_of(cause), cause.args, getattr(cause, "__dict__", {}))
    assert isinstance(error, TaskError)
    error._call = cause, function, traceback
    for name, value in (("message", str(cause)), ("culprits", ()), ("status", _lib.UNKNOWN), ("cause", cause),
                        ("function", function), ("traceback", traceback)):
        if name not in error.__dict__ and (kind is TaskError or not hasattr(kind, name)):
            setattr(error, name, value)
    error.__cause__ = RemoteTraceback(traceback)
    return error


_BOTH: "weakref.WeakKeyDictionary[type, Type[TaskError]]" = weakref.WeakKeyDictionary()

_CLASSES: Dict[int, Type[Error]] = {c.status: c for c in (
    Cancelled, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied, ResourceExhausted,
    FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss)}


def last_sentence() -> str:
    """The sentence of this thread's last failed call."""
    return str(_lib.lib.muster_last_error().decode(errors="replace"))


def error_of(status: int) -> Error:
    """The exception for a status that a call in this thread has just returned."""
    return _CLASSES.get(status, Error)(last_sentence(), status)


def check(status: int) -> None:
    """Raise unless the status is good."""
    if status:
        raise error_of(status)


def is_impatience(status: int, sentence: str) -> bool:
    """Did the call end by its own deadline? A barrier whose own timeout has passed says it otherwise."""
    return status == _lib.DEADLINE_EXCEEDED and sentence.startswith(_PATIENCE)


def is_short(status: int, sentence: str) -> bool:
    """Did a wait end that may be taken up again?"""
    return is_impatience(status, sentence) or is_interruption(status, sentence)


def is_interruption(status: int, sentence: str) -> bool:
    return status == _lib.CANCELLED and sentence.startswith(_INTERRUPTED)


__all__ = ["Aborted", "ActorDied", "AlreadyExists", "Cancelled", "Culprit", "DataLoss", "DeadlineExceeded", "Error",
           "FailedPrecondition", "Internal", "InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied",
           "ResourceExhausted", "TaskError", "Timeout", "Unavailable", "Unimplemented", "WorkerDied"]
