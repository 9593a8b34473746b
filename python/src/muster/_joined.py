"""The tasks that this process is, in the order it joined them."""
from typing import Any, Dict

from muster import _lib
from muster.errors import FailedPrecondition

tasks: Dict[Any, None] = {}


def current() -> Any:
    """The one that it joined last, of those that are no observers."""
    for task in reversed(list(tasks)):
        if task._m is not None and task.id is not None:
            return task
    raise FailedPrecondition("this process has not joined a job: call muster.join() first", _lib.FAILED_PRECONDITION)
