"""Named barriers (muster/barrier.h): `task.barrier("ready")`.

>>> task = muster.join("doc-barrier", task=0, num_tasks=1)
>>> task.barrier("ready", timeout=30)
<barrier ready>
>>> with task.barrier("load"):           # all come in together, and go on together
...     pass
>>> task.leave()
"""
from __future__ import annotations

from types import TracebackType

from muster import _lib, _wait
from muster._lib import NEXT, deadline_of, ids_of, int_of, lib
from muster.errors import check

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import NamedTuple, Any, Iterable, List, Optional, Tuple, Type
else:
    from muster._named import NamedTuple

_MOST = 10 ** 10  # seconds: longer is for ever


class BarrierState(NamedTuple):
    """A barrier as it stands. `missing` has sixteen tasks at most."""
    id: str
    counter: int
    passed: bool
    result: int
    participants: int
    arrived: int
    missing: Tuple[int, ...]


class Passed:
    """What a call at a barrier gives: all have come. As a context manager, all meet at its end, too, at the barrier
    "NAME/end"; where the body fails, those who wait there, or will, get `Cancelled`."""

    def __init__(self, barrier: "Barriers", name: str, end: "Tuple[Any, ...]") -> None:
        self._barrier, self._name, self._end = barrier, name, end

    def __enter__(self) -> "Passed":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self._barrier(*self._end)
        else:
            self._barrier._spoil(*self._end)

    def __repr__(self) -> str:
        return "<barrier %s>" % self._name


def _ns(timeout: Optional[float]) -> int:
    """A barrier's own timeout. 0 is none for the library, so the shortest is one nanosecond."""
    if timeout is None or timeout >= _MOST:
        return 0
    if timeout != timeout:
        raise ValueError("a timeout is a number of seconds, not nan")
    return max(1, int(timeout * 1e9))


class Barriers:
    """`task.barrier`: called, it arrives at the barrier of that name and waits for all."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def __call__(self, name: str, timeout: Optional[float] = None, tasks: Optional[Iterable[int]] = None, *,
                 patience: Optional[float] = None, counter: Optional[int] = None) -> Passed:
        """Arrive and wait until all `tasks` (None: all of the job) have.

        timeout   seconds from the first arrival, after which the barrier fails for all with `DeadlineExceeded`, which
                  names the missing; the first to arrive says which
        patience  seconds after which this call alone gives up, with `DeadlineExceeded`; the arrival stands
        counter   the instance; None: the one after the last that this task has passed

        A participant that dies or leaves fails it for all: `Internal`, with the culprit.
        """
        step = self._step(name, timeout, tasks, counter)
        check(_wait.wait(self._task._m, deadline_of(patience), step))
        return Passed(self, name, (name + "/end", timeout, tasks))

    def _step(self, name: str, timeout: Optional[float], tasks: Optional[Iterable[int]],
              counter: Optional[int]) -> _wait.Step:
        if "\0" in name:
            raise ValueError("a barrier's name has no NUL in it")
        id_, (ids, count), ns = name.encode(), ids_of(tasks), _ns(timeout)
        number = NEXT if counter is None else int_of(counter, 64, False)
        return lambda until: int(lib.muster_barrier_wait(self._task._m, id_, number, ids, count, ns, until))

    async def wait_async(self, name: str, timeout: Optional[float] = None, tasks: Optional[Iterable[int]] = None, *,
                         patience: Optional[float] = None, counter: Optional[int] = None) -> None:
        """The same for asyncio. It may be cancelled, as if its patience had ended: the arrival stands."""
        step = self._step(name, timeout, tasks, counter)

        def turn(until: int) -> Any:
            status = step(until)
            if status and _wait.sliced(status) and self._task._m not in _wait.interrupted:
                return _wait.NotYet
            check(status)
            return None

        if await _wait.wait_async(self._task, patience, turn) is _wait.NotYet:
            check(step(0))

    def cancel(self, name: str, counter: Optional[int] = None) -> None:
        """All who wait at it get `Cancelled`. `FailedPrecondition` when it has passed."""
        check(lib.muster_barrier_cancel(self._task._m, name.encode(), NEXT if counter is None else int_of(counter, 64, False)))

    def _spoil(self, name: str, timeout: Optional[float], tasks: Optional[Iterable[int]]) -> None:
        """Cancel the instance that the others wait in; where nobody does yet, arrive at it before. Then be told of it,
        so that the next call is for the next instance."""
        step = self._step(name, timeout, tasks, None)
        waited_in = any(b.id == name and not b.passed for b in self.list())
        if not waited_in and step(0) != _lib.DEADLINE_EXCEEDED:
            return  # the last to come, or in error
        if not lib.muster_barrier_cancel(self._task._m, name.encode(), NEXT):
            step(0)

    def list(self) -> List[BarrierState]:
        """Every barrier of the job, by name."""
        found: List[BarrierState] = []

        def visit(_: Any, info: Any) -> int:
            b = info.contents
            found.append(BarrierState(b.id.decode(errors="replace"), b.counter, bool(b.passed), b.result,
                                      b.participants, b.arrived, tuple(b.missing[:min(b.missing_count, 16)])))
            return 0

        check(lib.muster_barrier_list(self._task._m, _lib.VISIT_BARRIER(visit), None))
        return found
