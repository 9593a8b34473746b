#!/usr/bin/env python3
"""Calls in workers that muster.init() starts: results, arguments, errors, deaths, actors, nested calls, and what is left.
variants: release
timeout: 300
"""
import abc
import collections
import dataclasses
import enum
import functools
import glob
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import xml.etree
import xml.etree.ElementTree

import common
from common import raises

import muster

CONSTANT = 7


@muster.remote
def add(a, b=2, *more, c=0):
    return a + b + c + sum(more)


@muster.remote(num_returns=2)
def two(x):
    return x if isinstance(x, list) else (x, -x)


@muster.remote(num_returns=0)
def nothing():
    pass


@muster.remote
def fail(kind, *args):
    raise kind(*args)


@muster.remote
def pid_of(*_):
    return os.getpid()


@muster.remote
def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)
    signal.pause()


@muster.remote
def die_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


@muster.remote
def sleep(seconds, value=None):
    time.sleep(seconds)
    return value


@muster.remote
def fib(n):
    return n if n < 2 else sum(muster.get([fib.remote(n - 1), fib.remote(n - 2)]))


@muster.remote
def depth(n):
    return 0 if n == 0 else 1 + muster.get(depth.remote(n - 1))


class Odd(Exception):
    def __init__(self, first, second):
        super().__init__("odd %s" % first)
        self.second = second


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def sum(self):
        return self.first + self.second


@muster.remote
class Counter:
    """Counts."""
    def __init__(self, start=0):
        self.n = start
        self.seen = []

    def add(self, by=1):
        self.n += by
        return self.n

    def keep(self, value):
        self.seen.append(value)
        return len(self.seen)

    def kept(self, i):
        return self.seen[i]

    def fail(self):
        raise ValueError("of the actor")

    def pid(self):
        return os.getpid()

    def nothing(self):
        return self.n

    def wait(self):
        time.sleep(600)


class Base:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Derived(Base):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    @property
    def sum(self):
        return self.a + self.b

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def make(cls):
        return cls(1, 2)

    def classes(self):
        return Derived, __class__


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Data:
    a: int
    b: list = dataclasses.field(default_factory=list)


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    def low(self):
        return self.name.lower()


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self):
        pass


class Concrete(Abstract):
    def f(self):
        return "concrete"


@functools.lru_cache(maxsize=3)
def cached(x):
    return x + 1


@muster.remote
def of_all_kinds():
    d = Derived.make()
    assert d.sum == 3 and d.double(4) == 8 and d.classes() == (Derived, Derived) and not hasattr(Base(1), "__dict__")
    assert Point(1, 2).x == 1 and Point(1, y=2)._replace(x=5) == (5, 2)
    assert Data(1) == Data(1) and Data(1).b == [] and dataclasses.replace(Data(1), a=2).a == 2
    assert repr(Data(2)).endswith("Data(a=2, b=[])"), repr(Data(2))
    assert Color.RED.low() == "red" and Color("b") is Color.BLUE and list(Color) == [Color.RED, Color.BLUE] and Flag.A | Flag.B == 3
    assert raises(TypeError, Abstract) and Concrete().f() == "concrete" and isinstance(Concrete(), Abstract)
    assert cached(2) == 3 and cached.cache_info().maxsize == 3 and xml.etree.ElementTree.fromstring("<a/>").tag == "a"
    assert [(lambda q: q + CONSTANT)(1) for _ in range(2)] == [8, 8]
    return Odd(1, 2).second, Color.RED, Point(3, 4), Data(7), Derived(1, 2), Flag.B


PATIENCE = common.PATIENCE
task = muster.init(workers=2, store=64 << 20)


def get(refs):
    return muster.get(refs, timeout=PATIENCE)


def test_results_and_arguments():
    assert get(add.remote(1)) == 3 and get(add.remote(1, 2, 3, 4, c=5)) == 15 and get(add.remote(b=1, a=4)) == 5
    one = muster.put(10)
    assert get(add.remote(one, add.remote(one), c=muster.put(100))) == 122
    assert get([add.remote(i) for i in range(300)]) == [i + 2 for i in range(300)]
    a, b = two.remote(5)
    assert get([b, a]) == [-5, 5]
    assert nothing.remote() is None
    x, y, z = two.options(num_returns=3).remote([1, 2, 3])
    assert get([x, y, z]) == [1, 2, 3]
    assert "3 values" in str(raises(ValueError, get, two.remote([1, 2, 3])[0]))
    assert "returned int" in str(raises(TypeError, get, add.options(num_returns=2).remote(1)[1]))
    assert get(muster.remote(lambda a, b: len(a + b)).remote("x" * 20000, b="y" * 20000)) == 40000
    assert len(get(muster.remote(lambda data: data + b"!").remote(bytes(5 << 20)))) == (5 << 20) + 1
    raises(TypeError, get, add.remote())
    raises(TypeError, add, 1)
    raises(TypeError, add.remote, threading.Lock())
    raises(TypeError, muster.remote, 5)
    raises(TypeError, muster.remote, num_workers=1)
    raises(ValueError, muster.remote, num_returns=65)
    raises(TypeError, muster.remote, add)


def test_functions_of_all_kinds():
    scale = 3
    cell = [1]

    @muster.remote
    def closed(x):
        global CONSTANT
        CONSTANT += 1  # of the worker's copy
        return scale * x + cell[0] + CONSTANT - 8

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert get(closed.remote(2)) == 7 and CONSTANT == 7
    assert get(muster.remote(lambda x: even(x)).remote(10)) is True
    assert get(muster.remote(max).remote([1, 5, 3])) == 5
    f = muster.remote(lambda: 1)
    g = muster.remote(lambda: 10)
    assert get([f.remote(), g.remote()]) == [1, 10]
    made = get(muster.remote(lambda: Pair(1, 2)).remote())
    assert type(made) is Pair and made.second == 2 and made.sum() == 3


def test_classes_of_all_kinds():
    second, color, point, data, derived, flag = get(of_all_kinds.remote())
    assert second == 2 and color is Color.RED and point == Point(3, 4) and data == Data(7) and flag is Flag.B
    assert type(point) is Point and type(derived) is Derived and derived.sum == 3
    assert get(muster.remote(lambda *values: [type(v).__name__ for v in values]).remote(color, point, Data, Derived(1, 2))) == [
        "Color", "Point", "type", "Derived"]


def test_references_stay_inside_values():
    inner = muster.put("inner")
    assert get(muster.remote(lambda refs: [type(r).__name__ for r in refs]).remote([inner])) == ["ObjectRef"]
    assert get(muster.remote(lambda refs: muster.get(refs)).remote([inner, add.remote(1)])) == ["inner", 3]
    outer = get(muster.remote(lambda: [muster.put("made"), add.remote(5)]).remote())
    assert get(outer) == ["made", 7]


def test_a_call_that_raises():
    error = raises(ValueError, get, fail.remote(ValueError, "bad", 3))
    assert isinstance(error, muster.TaskError) and error.args == ("bad", 3) and "fail" in error.function, error
    assert "in fail" in error.traceback and isinstance(error.cause, ValueError)
    error = raises(Odd, get, fail.remote(Odd, "one", 2))
    assert error.second == 2 and str(error) == "odd one" and isinstance(error, muster.TaskError)
    error = raises(OSError, get, fail.remote(FileNotFoundError, 2, "gone", "/x"))
    assert isinstance(error, FileNotFoundError) and error.errno == 2 and error.filename == "/x"
    raises(KeyError, get, fail.remote(KeyError, "k"))
    raises(UnicodeError, get, fail.remote(UnicodeDecodeError, "utf-8", b"x", 0, 1, "why"))
    error = raises(muster.TaskError, get, fail.remote(SystemExit, 3))
    assert not isinstance(error, SystemExit) and isinstance(error.cause, SystemExit)
    raises(muster.TaskError, get, fail.remote(KeyboardInterrupt))

    def strange():
        e = RuntimeError("with a lock")
        e.lock = threading.Lock()
        raise e

    assert "with a lock" in str(raises(RuntimeError, get, muster.remote(strange).remote()))
    assert "pickle" in str(raises(TypeError, get, muster.remote(lambda: threading.Lock()).remote()))
    first, second = two.remote("x")
    raises(TypeError, get, first)
    raises(TypeError, get, second)


def test_an_error_is_that_of_all_that_needs_it():
    bad = fail.remote(Odd, "root", 1)
    error = raises(Odd, get, add.remote(add.remote(bad), 1))
    assert error.args == ("odd root",), error
    caught = muster.remote(lambda: _catch(bad))
    assert get(caught.remote()) == "odd root"


def _catch(ref):
    try:
        muster.get(ref)
    except Odd as e:
        return str(e)


def test_a_worker_that_dies():
    before = [add.remote(i) for i in range(20)]
    dead = die.remote()
    after = [add.remote(i) for i in range(20)]
    error = raises(muster.WorkerDied, get, dead)
    assert error.pid and error.signal == signal.SIGKILL and isinstance(error, muster.Unavailable), (error, error.signal)
    assert get(before) == get(after) == [i + 2 for i in range(20)]
    assert get(die_once.options(max_retries=1).remote(os.path.join(os.environ["TMPDIR"], "once"))) == "second"
    raises(muster.WorkerDied, get, die.options(max_retries=2).remote(signal.SIGSEGV))
    caught = muster.remote(lambda: _dies())
    assert get([caught.remote() for _ in range(3)]) == ["caught"] * 3
    assert get([add.remote(i) for i in range(20)]) == [i + 2 for i in range(20)]


def _dies():
    try:
        muster.get(die.remote())
    except muster.WorkerDied:
        return "caught"


def test_workers_of_a_launcher():
    said = common.run(2, """
        import os, signal, sys, muster

        @muster.remote
        def square(x):
            return x * x

        @muster.remote
        def die():
            print("out of luck", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        @muster.remote
        def told():
            try:
                muster.get(die.remote())
            except muster.WorkerDied as e:
                return e.signal, "out of luck" in str(e)

        @muster.remote
        class Counter:
            n = 0
            def add(self):
                self.n += 1
                return self.n, os.environ.get("RANK")

        with muster.join() as task:
            assert muster.get([square.remote(i) for i in range(task.id + 4)])[-1] == (task.id + 3) ** 2
            if task.id == 0:
                try:
                    muster.get(die.remote())
                except muster.WorkerDied as e:
                    assert e.pid and e.signal == signal.SIGKILL and "was killed by signal 9 (SIGKILL)\\nout of luck" in str(e), e
                assert muster.get(told.remote()) == (9, True)
                counter = Counter.remote()
                assert muster.get([counter.add.remote() for _ in range(3)]) == [(1, None), (2, None), (3, None)]
            task.barrier("done")
        print("whole")
        """, options=("--workers", "3", "--worker-command", sys.executable + " -m muster.worker"))
    assert said.count("whole") == 2, said


def test_nested_calls_with_all_workers_busy():
    assert get(fib.remote(8)) == 21 and get(depth.remote(15)) == 15
    assert get([depth.remote(4) for _ in range(6)]) == [4] * 6


def test_waiting():
    slow, fast = sleep.remote(600), sleep.remote(0.01, "fast")
    assert muster.wait([slow, fast], timeout=PATIENCE) == ([fast], [slow])
    raises(muster.Timeout, muster.get, slow, timeout=0.01)
    assert muster.wait([slow], timeout=0.01) == ([], [slow])


def test_actors():
    c = Counter.remote(5)
    assert get([c.add.remote() for _ in range(100)]) == list(range(6, 106))
    d = Counter.remote(start=0)
    assert get(d.add.remote(c.add.remote(0))) == 105
    error = raises(ValueError, get, c.fail.remote())
    assert "of the actor" in str(error) and get(c.add.remote(0)) == 105
    raises(AttributeError, get, c.no_such.remote())
    many = muster.remote(lambda actor, n: muster.get([actor.add.remote() for _ in range(n)]))
    parts = get([many.remote(d, 50) for _ in range(4)])
    assert all(p == sorted(p) for p in parts) and sorted(sum(parts, [])) == list(range(106, 306))
    assert get(c.keep.remote({"n": [1]})) == 1 and get(c.kept.remote(0)) == {"n": [1]}
    assert len({get(c.pid.remote()), get(d.pid.remote()), os.getpid()}) == 3
    raises(TypeError, c.add)


def test_an_actor_that_ends():
    c, d = Counter.remote(), Counter.remote()
    waits = c.wait.remote()
    queued = c.add.remote()
    assert get(d.add.remote()) == 1
    muster.kill(c)
    for ref in (waits, queued, c.add.remote()):
        assert isinstance(raises(muster.ActorDied, get, ref), muster.Unavailable)
    muster.kill(c)
    assert get(d.add.remote()) == 2
    bad = Counter.remote(1, 2, 3)
    error = raises(muster.ActorDied, get, bad.add.remote())
    assert "TypeError" in str(error) or "positional" in str(error), error
    number = d._ref.number
    del d
    deadline = time.monotonic() + PATIENCE
    while task.objects._exists(number):
        assert time.monotonic() < deadline
        time.sleep(0.02)  # until the actor that nobody has has ended
    again = Counter.options(max_restarts=1).remote(100)
    for _ in range(2):
        assert first(again.nothing) == 100
        pid, waits = get(again.pid.remote()), again.wait.remote()
        os.kill(pid, signal.SIGKILL)
        raises(muster.ActorDied, get, waits)
    raises(muster.ActorDied, get, again.add.remote())


def first(method):
    """What a call gives once the actor is there again: one that comes before that is known to be gone dies with it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return get(method.remote())
        except muster.ActorDied:
            assert time.monotonic() < deadline


def program(text, *args, **more):
    return common.python(text, *args, **more)


def test_nothing_is_left():
    for number in (signal.SIGTERM, signal.SIGKILL) * 3:  # what is left depends on which process dies first
        driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
            import os, time, muster
            @muster.remote
            def who(): return os.getpid()
            @muster.remote
            def sleep(): time.sleep(0.001)
            @muster.remote
            class Actor:
                def pid(self): return os.getpid()
            task = muster.init(workers=2)
            actor = Actor.remote()
            pids = {muster.get(actor.pid.remote()), *muster.get([who.remote() for _ in range(50)])}
            refs = [sleep.remote() for _ in range(2000)]
            print(task.job, *pids, flush=True)
            muster.get(refs)
            time.sleep(600)
            """)], stdout=subprocess.PIPE, text=True)
        out = driver.stdout.readline()
        driver.send_signal(number)
        driver.communicate()
        _gone(out)
    _gone(program("""
        import os, sys, muster
        @muster.remote
        def who(): return os.getpid()
        task = muster.init(workers=2)
        print(task.job, *set(muster.get([who.remote() for _ in range(50)])))
        """))


def _gone(out):
    job, *pids = out.split()
    assert pids
    deadline = time.monotonic() + PATIENCE
    while glob.glob("/dev/shm/*%s*" % job) or any(os.path.exists("/proc/%s" % pid) for pid in pids):
        assert time.monotonic() < deadline, (out, glob.glob("/dev/shm/*%s*" % job))
        time.sleep(0.01)  # until they have died with the driver


def test_results_outlive_the_job():
    out = program("""
        import pickle, muster
        class Pages:
            def __init__(self, memory): self.memory = memory
            def __reduce_ex__(self, protocol): return Pages, (pickle.PickleBuffer(self.memory),)
        @muster.remote
        def pages(n): return Pages(bytes([n]) * 1000)
        for n in (1, 2):
            muster.init(workers=1)
            try: muster.init(workers=1)
            except muster.FailedPrecondition: pass
            kept = muster.get(pages.remote(n))
            ref = muster.put(5)
            muster.shutdown()
            muster.shutdown()
            print(bytes(kept.memory)[-1])
        try: pages.remote(1)
        except muster.FailedPrecondition as e: print(e)
        """)
    assert out == "1\n2\nthis process has not joined a job: call muster.init() or muster.join() first\n", out


def test_the_helper_that_dies_ends_what_waits():
    out = program("""
        import os, signal, time, muster
        @muster.remote
        def parent(): return os.getppid()
        @muster.remote
        def sleep(): time.sleep(600)
        muster.init(workers=1)
        helper = muster.get(parent.remote())
        ref = sleep.remote()
        os.kill(helper, signal.SIGKILL)
        try: muster.get(ref)
        except (muster.Cancelled, muster.WorkerDied) as e: print("ended")
        """)
    assert "ended\n" in out, out


def test_what_a_task_prints_is_seen():
    assert "from a worker\n" in program("""
        import muster
        @muster.remote
        def say(): print("from a worker")
        muster.init(workers=1)
        muster.get(say.remote())
        """)


def test_tasks_that_are_workers():
    out = common.run(3, """
        import os, runpy, muster
        if os.environ["MUSTER_TASK_ID"] != "0":
            runpy.run_module("muster.worker", run_name="__main__")
            raise SystemExit
        @muster.remote
        def square(x): return x * x, os.environ["MUSTER_TASK_ID"]
        task = muster.join()
        got = muster.get([square.remote(i) for i in range(50)], timeout=60)
        print([n for n, _ in got] == [i * i for i in range(50)], {w for _, w in got} <= {"1", "2"})
        task.leave()
        """)
    assert out == "True True\n", out


if __name__ == "__main__":
    common.main(sys.modules[__name__])
    muster.shutdown()
