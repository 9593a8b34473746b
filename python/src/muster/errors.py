"""What the library's statuses are in Python: an exception class each, all of them `muster.Error`.

>>> import muster
>>> issubclass(muster.NotFound, KeyError), issubclass(muster.DeadlineExceeded, TimeoutError)
(True, True)
"""
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type

from muster import _lib


class Culprit(NamedTuple):
    """A task that an error names. `name` is as the sentence has it: "task 2 (pid 4711 on host a)"."""
    task: int
    name: str
    pid: Optional[int] = None
    host: Optional[str] = None


_NAMED = re.compile(r"\btask (\d+) \((?:(?:pid (\d+)|a guest) )?on host ([^\s)]+)\)")
_BARE = re.compile(r"\btask (\d+)(?=: | had not | is | has | gave )")
_PATIENCE = "the deadline passed while waiting for "
_INTERRUPTED = "interrupted while waiting for "
_PRODUCER = re.compile(_PATIENCE + r"(?:object 0x[0-9a-f]+|[\d of]+ objects): 0x[0-9a-f]+, of (?=task \d+ \()")
_LIST = re.compile(r"; [a-z][a-z0-9 ,.]*: (?=task \d+ \()")  # of who could have ended the wait


def _culprits(sentence: str) -> Tuple[Culprit, ...]:
    """The tasks that the sentence names, each once, in its order. Those that have a process come first."""
    found: Dict[int, Culprit] = {}
    if sentence.startswith((_PATIENCE, _INTERRUPTED)):  # what was waited for has a name of its own
        lists = list(_LIST.finditer(sentence)) or list(_PRODUCER.finditer(sentence))
        sentence = sentence[lists[-1].end():] if lists else ""
    for match in _NAMED.finditer(sentence):
        task, pid, host = int(match.group(1)), match.group(2), match.group(3)
        found.setdefault(task, Culprit(task, match.group(0), int(pid) if pid else None, host))
    for match in _BARE.finditer(sentence):
        found.setdefault(int(match.group(1)), Culprit(int(match.group(1)), match.group(0)))
    return tuple(found.values())


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

    @property
    def culprit(self) -> Optional[Culprit]:
        return self.culprits[0] if self.culprits else None

    @property
    def code(self) -> str:
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


def is_interruption(status: int, sentence: str) -> bool:
    return status == _lib.CANCELLED and sentence.startswith(_INTERRUPTED)


__all__ = ["Aborted", "AlreadyExists", "Cancelled", "Culprit", "DataLoss", "DeadlineExceeded", "Error",
           "FailedPrecondition", "Internal", "InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied",
           "ResourceExhausted", "Timeout", "Unavailable", "Unimplemented"]
