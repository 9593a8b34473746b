"""The tasks that this process is, in the order it joined them."""
from __future__ import annotations

import threading

from muster import _lib

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Dict, List, Optional


class Deaths:
    """How workers of this process ended: the helper, whose children they are, tells it some instants after the death."""

    def __init__(self) -> None:
        self.are_told = False  # this process has a helper that does
        self.change = threading.Condition()
        self.statuses: Dict[int, int] = {}

    def add(self, pid: int, status: int) -> None:
        with self.change:
            self.statuses.pop(pid, None)
            self.statuses[pid] = status
            if len(self.statuses) > 1000:
                del self.statuses[next(iter(self.statuses))]
            self.change.notify_all()

    def status(self, pid: int) -> Optional[int]:
        """None: it is no worker of this process's, as far as is known within a second."""
        with self.change:
            self.change.wait_for(lambda: pid in self.statuses, 1 if self.are_told else 0)
            return self.statuses.get(pid)


deaths = Deaths()
tasks: Dict[Any, None] = {}
lingering: List[Any] = []  # that are left with the process: values lie in their memory


_latest: Any = None


def current() -> Any:
    """The one that it joined last, of those that are no observers."""
    global _latest
    if _latest is not None and _latest._m is not None and _latest in tasks:
        return _latest
    for task in reversed(list(tasks)):
        if task._m is not None and (task.id is not None or task.is_worker):
            _latest = task
            return task
    from muster.errors import FailedPrecondition
    raise FailedPrecondition("this process has not joined a job: call muster.init() or muster.join() first",
                             _lib.FAILED_PRECONDITION)


def add(task: Any) -> None:
    global _latest
    tasks[task] = None
    _latest = None
