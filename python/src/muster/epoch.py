"""Epochs of a job with tasks that come and go (muster/membership.h): muster run --elastic MIN:MAX --live.

    with muster.join(recoverable=True) as task:
        for epoch in task.epochs():
            try:
                with epoch.group("steps") as group:
                    while not group.allreduce(int(epoch.changed()), "max"):
                        ...  # a step
            except muster.Unavailable:
                pass  # the epoch is over: a member was lost

The loop goes on with the next epoch, and ends when the task is a member no more.
"""
from __future__ import annotations

import ctypes

from muster import _wait
from muster._lib import Membership, deadline_of, lib
from muster.errors import check
from muster.group import Group

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Iterator, Optional


class Epoch:
    """An epoch of which this task is a member. `number` from 1 on; `rank` and `size` of its members; the job may have `least`
    to `most`. `text` says why the last change was rolled back, or which member was lost."""

    def __init__(self, task: Any, now: Membership) -> None:
        self._task, self._now = task, now
        self.number, self.rank, self.size = int(now.epoch), int(now.rank), int(now.size)
        self.least, self.most = int(now.least), int(now.most)
        self.text = str(now.text.decode(errors="replace"))

    def __repr__(self) -> str:
        return "<epoch %d: rank %d of %d>" % (self.number, self.rank, self.size)

    def changed(self) -> bool:
        """Whether the epoch is over, or a change is pending. Members may find it at different times: let them agree by an
        allreduce."""
        return bool(lib.muster_membership_changed(self._task._m, ctypes.byref(self._now)))

    def group(self, name: str, data_bytes: int = 256, timeout: Optional[float] = None) -> Group:
        """The group of the epoch's members, by their ranks. `Unavailable` at once when the epoch is over, or when a member
        is ready for a change."""
        return Group(self._task, name, None, data_bytes, timeout, self._now)


def epochs(task: Any, timeout: Optional[float]) -> Iterator[Epoch]:
    """Those of task.epochs()."""
    now = Membership()
    while True:
        check(_wait.wait(task._m, deadline_of(timeout),
                         lambda until: int(lib.muster_membership_next(task._m, ctypes.byref(now), until))))
        if now.rank < 0:
            return
        yield Epoch(task, Membership.from_buffer_copy(now))
