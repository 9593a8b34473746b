#!/usr/bin/env python3
"""muster.torch: PyTorch's own checks of a store, and the name of a rank that died. More of it is in make interop.

Where a C compiler and Python's headers are there the checks go by muster._fast, the rest by ctypes."""
# variants: release
# timeout: 300
import os
import shutil
import subprocess
import sys
import sysconfig

import common
from common import MUSTER, SOURCE, TOP, job_name


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed as d; d.Store"], capture_output=True).returncode == 0


def compiled():
    """A copy of the package, with muster._fast in it where that can be."""
    folder = os.path.join(os.environ["TMPDIR"], "src")
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    compiler = shutil.which("cc")
    headers = sysconfig.get_paths()["include"]
    if not compiler or not os.path.exists(os.path.join(headers, "Python.h")):
        print("# without muster._fast: no compiler, or no headers of Python's in %s" % headers)
        return folder
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I" + headers,
                    os.path.join(folder, "muster/_fast.c"), "-o", os.path.join(folder, "muster/_fast.so")], check=True)
    return folder


def test_the_checks_of_pytorch_hold_on_the_segment():
    fast = os.path.exists(os.path.join(COMPILED, "muster/_fast.so"))
    done = subprocess.run([MUSTER, "run", "-n", "1", "--job", job_name(), "--", sys.executable,
                           os.path.join(TOP, "tests/interop/programs/torch_checks.py"), "muster"], capture_output=True,
                          text=True, env=dict(os.environ, PYTHONPATH=COMPILED, MUSTER_CHECKS_FAST=str(int(fast))))
    assert done.returncode == 0 and "0 checks of PyTorch" in done.stdout, done.stdout + done.stderr


STORE = r"""
import os, sys
import muster.torch

def raises(kind, call, *args):
    try:
        got = call(*args)
    except kind:
        return
    raise AssertionError("%s: nothing was raised; it gave %r" % (kind.__name__, got))

def check(store):
    for value in (5, None, 1.5):
        raises(TypeError, store.set, "k", value)
    raises(TypeError, store.set, 5, "v")
    assert not store.check(["k"])
    raises(OverflowError, store.add, "n", 1 << 63)
    assert store.add("n", (1 << 63) - 1) == (1 << 63) - 1 and store.add("n", 2) == 1 - (1 << 63)
    assert store.get("n") == b"-%d" % ((1 << 63) - 1)
    store.set(b"odd/\xff", b"1")
    odd = [key for key in muster.torch.Store.list_keys(store) if key.startswith("odd")]
    assert odd == ["odd/\udcff"] and store.get(odd[0]) == b"1" and store.delete_key(odd[0]), odd
    store.set(key="k", value="v")
    assert store.get(key="k") == b"v" and store.add(key="n", by=1) == 2 - (1 << 63) and store.check(keys=["k"])
    assert store.compare_set("k", expected="v", desired="w") == b"w" and store.wait(["k"], timeout=1) is None
    store.delete_key("k"), store.delete_key("n")

class Derived(muster.torch.Store):
    def get(self, key):
        return b"derived " + super().get(key)

store = muster.torch.Store(timeout=50)
hurried = {"get", "multi_get", "check", "wait"} & set(vars(store)), {"set", "add", "compare_set"} & set(vars(store))
assert hurried == (({"get", "multi_get", "check", "wait"}, {"set", "add", "compare_set"}) if muster.torch._fast else (set(), set()))
check(store)
store.set("d", "1")
assert Derived().get("d") == b"derived 1" and Derived().multi_get(["d"]) == [b"derived 1"]
os.environ["MUSTER_JOB"] += "-other"  # of whose hosts this one knows nothing
assert "set" not in vars(muster.torch.Store(store._task))
check(muster.torch.Store(store._task))
muster.torch._fast = None
check(muster.torch.Store(store._task))
print("sound")
"""


def test_what_a_store_takes_by_either_way():
    program = os.path.join(os.environ["TMPDIR"], "store.py")
    with open(program, "w") as file:
        file.write(STORE)
    said = common.python("import runpy, sys; runpy.run_path(sys.argv[1])", program, environment={"PYTHONPATH": COMPILED},
                         command=(MUSTER, "run", "-n", "1", "--job", job_name(), "--"))
    assert said == "sound\n", said


LINGER = r"""
import ctypes, datetime, os, sys, threading, time
import muster.torch
from muster import _lib

def ended(call, *arguments):
    "It ends with an error, and not by itself."
    try:
        call(*arguments)
    except (muster.FailedPrecondition, muster.Cancelled, muster.torch.StoreError):
        return
    raise AssertionError("nothing was raised")

def loop(store, number, ends):
    begun = False
    while True:
        try:
            if not begun:  # the job may have been left before
                store.wait(["begin"])
                begun = True
            store.wait(["never/%d" % number], 1e-9)
        except muster.torch.StoreError:
            pass
        except (muster.FailedPrecondition, muster.Cancelled):
            return ends.append(number)

store = muster.torch.Store(timeout=50)
store.set("there", "1")
assert store.multi_get(["there", "there"]) == [b"1", b"1"] and store.multi_get([]) == []
threading.Timer(0.05, store.set, ("late", "2")).start()
assert store.multi_get(["there", "late"]) == [b"1", b"2"]

for by in ("queue", "key"):  # wait() of what is a queue in the end, or a key
    waiter = threading.Thread(target=store.wait, args=(["some " + by],))
    waiter.start()
    time.sleep(0.05)  # sleep: so that it waits as a rule; it may also come late
    assert waiter.is_alive()
    store.queue_push("some queue", "x") if by == "queue" else store.set("some key", "x")
    waiter.join(20)
    assert not waiter.is_alive(), by
assert store.queue_pop("some queue") == b"x"
try:
    store.wait(["some queue"], 0.01)
    raise AssertionError("the queue is empty")
except muster.torch.StoreError as error:
    assert "timeout" in str(error)

# an item that was counted and has not come, for its sender was killed between the two, is waited for as long as any
count = ctypes.c_int64()
tail = muster.torch.name_of(muster.torch.QUEUES, "half queue") + b"/tail"
assert not _lib.lib.muster_kv_increment(store._handle, tail, len(tail), 1, ctypes.byref(count)) and count.value == 1
store.set_timeout(datetime.timedelta(milliseconds=50))
try:
    store.queue_pop("half queue")
    raise AssertionError("there is no item")
except muster.torch.StoreError as error:
    assert "timeout" in str(error)
store.set_timeout(datetime.timedelta(seconds=50))

# who pops sleeps for an item that another one pops as soon as it is pushed: it gets the next one that stays
got, missed = [], 0
popper = threading.Thread(target=lambda: got.append(store.queue_pop("shared queue")))
popper.start()
time.sleep(0.05)  # sleep: so that it waits as a rule
while not got and missed < 50:
    store.queue_push("shared queue", "gone")
    try:
        store.queue_pop("shared queue", False)
        missed += 1
    except muster.torch._Empty:
        break
store.queue_push("shared queue", "stays")
popper.join(20)
assert got in ([b"gone"], [b"stays"]), (got, missed)

# a barrier is passed again when its key is deleted, or set back, and at once
others = []
for turn in range(40):
    other = threading.Thread(target=lambda: others.append(store.barrier("bar", 2)))
    other.start()
    store.barrier("bar", 2)
    store.delete_key("bar") if turn % 2 else store.set("bar", "0")
    other.join(20)
    assert len(others) == turn + 1
late = threading.Thread(target=lambda: others.append(store.barrier("bar", 2)))
late.start()
time.sleep(0.02)  # sleep: nothing lets it pass meanwhile
assert late.is_alive() and len(others) == 40
store.barrier("bar", 2)
late.join(20)
assert len(others) == 41

# who leaves waits for calls of other threads, also for those that are in the library for a moment
ends = []
threads = [threading.Thread(target=loop, args=(store, number, ends)) for number in range(4)]
for thread in threads:
    thread.start()
store.set("begin", "")
time.sleep(float(sys.argv[1]))  # sleep: they go round meanwhile
store._task.leave()
for thread in threads:
    thread.join(20)
assert sorted(ends) == [0, 1, 2, 3], ends
ended(store.get, "there"), ended(store.wait, ["never"])
print("sound")
"""


def test_waits_of_queues_and_threads_that_wait_when_the_job_is_left():
    for milliseconds in (0, 1, 3, 10, 30):
        said = common.python(LINGER, str(milliseconds / 1000), environment={"PYTHONPATH": COMPILED},
                             command=(MUSTER, "run", "-n", "1", "--job", job_name(), "--"))
        assert said == "sound\n", said


ASKS = r"""
import os, signal, subprocess, sys, threading, time
import muster.torch

def state(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]

store = muster.torch.Store(timeout=50)
if os.environ["RANK"] == "0":
    store.set("agent", str(os.getppid()))
    store.get("over")
else:
    agent, begun, seen = int(store.get("agent")), threading.Event(), []
    def look():
        begun.wait()
        time.sleep(0.1)  # sleep: so that the other thread asks meanwhile
        seen.append(state(agent))
        os.kill(agent, signal.SIGCONT)
    thread = threading.Thread(target=look)
    thread.start()
    rescue = subprocess.Popen([sys.executable, "-c", "import os, time; time.sleep(4); os.kill(%d, 18)" % agent])
    os.kill(agent, signal.SIGSTOP)
    while state(agent) != "T":
        pass
    begun.set()
    assert not store.check(["missing"])
    thread.join()
    rescue.kill()
    rescue.wait()
    assert seen == ["T"], seen
    store.set("over", "")
    print("sound")
"""


def test_other_threads_run_while_another_host_is_asked():
    rsh = os.path.join(os.environ["TMPDIR"], "rsh")
    with open(rsh, "w") as file:
        file.write('#!/bin/sh\nshift\neval "$*"\n')
    os.chmod(rsh, 0o755)
    said = common.python(ASKS, environment={"PYTHONPATH": COMPILED},
                         command=(MUSTER, "run", "--hosts", "localhost:1,b:1", "--rsh", rsh, "--job", job_name(), "--"))
    assert said == "sound\n", said


def test_an_unmodified_program_meets_the_module_that_it_imports():
    program = os.path.join(os.environ["TMPDIR"], "train.py")
    with open(program, "w") as file:
        file.write("""
import torch.distributed as dist, muster.torch
dist.init_process_group("gloo")
try:
    dist.distributed_c10d._get_default_store().wait(["owed"], __import__("datetime").timedelta(milliseconds=1))
except muster.torch.StoreError as error:
    print("caught: %s" % error)
assert [type(store) for store in muster.torch._kept] == [muster.torch.Store]
""")
    done = subprocess.run([MUSTER, "run", "-n", "1", "--job", job_name(), "--", sys.executable, "-m", "muster.torch", program],
                          capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=COMPILED))
    assert done.returncode == 0 and "caught: wait timeout after 1ms" in done.stdout, done.stdout + done.stderr


def test_a_rank_that_dies_is_named_and_others_see_the_same_keys():
    said = common.run(2, """
        import os, signal, sys
        import muster
        if os.environ["RANK"] == "1":
            task = muster.join()
            assert task.kv.get("tcpstore/:a:b%3A", wait=50) == b"1"
            task.kv["tcpstore/:from:C"] = b"hello"
            task.kv.get("tcpstore/:waits", wait=50)
            os.kill(os.getpid(), signal.SIGKILL)
        import muster.torch
        muster.torch._fast = None
        store = muster.torch.Store(timeout=50)
        assert store.add("a/b:", 1) == 1
        assert store.get("from/C") == b"hello" and sorted(store.list_keys() if hasattr(store, "list_keys") else []) == [
            "a/b:", "from/C"]
        store.set("n", " 12 apples")
        assert store.add("n", 3) == 15 and store.compare_set("n", "15", "x") == b"x"
        big = os.urandom(100000)
        store.set("big", big)
        assert store.get("big") == big and store.check(["big", "n"]) and not store.check(["none"])
        store.set("waits", "")
        try:
            store.get("never")
        except muster.torch.StoreError as error:
            assert error.culprit.task == 1 and "task 1 (pid" in str(error), error
            print("named: %s" % error)
        muster.torch.joined().leave()
        try:
            store.get("n")
        except muster.FailedPrecondition as error:
            print("closed: %s" % error)
        """, options=("--kill-on-fail=no",), status=None)
    assert "named: key /never" in said and "closed: this process has left the job" in said, said


if not has_torch():
    print("PyTorch is not here: apt-get install python3-torch, and a python3 that sees it")
    sys.exit(77)
COMPILED = compiled()
common.main(sys.modules[__name__])
