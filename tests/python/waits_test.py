#!/usr/bin/env python3
"""Waits that end before their time: Ctrl-C, other signals, task.interrupt(), and forks in between.
variants: release
timeout: 300
"""
import os
import signal
import sys
import threading
import time
import traceback

import common
from common import raises

import muster
from muster import _wait

task = muster.join(common.job_name(), task=0, num_tasks=2)

WAITS = {
    "key": lambda: task.kv.get("never", wait=True),
    "change": lambda: task.kv.watch("never", 0, 900),
    "barrier": lambda: task.barrier("never"),
    "event": lambda: task.events.read(task.events.next()),
    "error": lambda: task.wait_error(),
    "states": lambda: task.watch_states(task.watch_states(0)[0]),
    "group": lambda: task.group("never"),
}


def when_waiting(act, words):
    """Calls act() in another thread once the task sleeps in a wait of these words."""
    def look():
        end = time.monotonic() + common.PATIENCE
        with muster.join(task.job, read_only=True) as eyes:
            while words not in eyes.state(0).waiting:
                assert time.monotonic() < end, eyes.state(0)
                time.sleep(0.002)  # sleep: between two looks
        act()
    thread = threading.Thread(target=look)
    thread.start()
    return thread


def interrupt_process():
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_when_waiting():
    """The same, for Ctrl-C, where other threads wait as well or the task is another."""
    def look():
        while _wait._main.handle is None:
            time.sleep(0.002)  # sleep: between two looks
        interrupt_process()
    thread = threading.Thread(target=look)
    thread.start()
    return thread


def test_ctrl_c_ends_each_wait():
    for name, call in WAITS.items():
        thread = when_waiting(interrupt_process, WORDS[name])
        raises(KeyboardInterrupt, call)
        thread.join()
        task.kv["sound"] = name  # and nothing is left interrupted
        raises(muster.DeadlineExceeded, task.kv.get, "never", wait=0.01)


WORDS = {"key": "key never", "change": "key never", "barrier": "barrier never", "event": "event", "error": "error",
         "states": "change of any task", "group": "group never"}


def test_a_handler_that_does_not_raise_lets_the_wait_go_on():
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: (heard.append(1), task.kv.set("by/handler", "x")))
    try:
        thread = when_waiting(lambda: os.kill(os.getpid(), signal.SIGUSR1), "key by/handler")
        assert task.kv.get("by/handler", wait=True) == b"x" and heard == [1]
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_signals_do_not_fail_a_group():
    out = common.run(2, """
        import os, signal, threading, time, muster
        task = muster.join()
        heard = []
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        def act(words, key):
            with muster.join(task.job, read_only=True) as eyes:
                while words not in eyes.state(0).waiting:
                    time.sleep(0.002)  # sleep: between two looks
            os.kill(os.getpid(), signal.SIGUSR1)
            task.kv[key] = ""
        if task.id == 0:
            thread = threading.Thread(target=act, args=("group g", "made"))
            thread.start()
        else:
            task.kv.get("made", wait=True)
        group = task.group("g")
        if task.id == 0:
            thread.join()
            thread = threading.Thread(target=act, args=("group g", "there"))
            thread.start()
        else:
            task.kv.get("there", wait=True)
        group.barrier()
        if task.id == 0:
            thread.join()
            print(heard)
        task.barrier("end")
        task.leave()
    """)
    assert out == "[1, 1]\n", out


def test_other_threads_waits_go_on():
    got = []
    thread = threading.Thread(target=lambda: got.append(task.kv.get("for/thread", wait=True)))
    thread.start()
    when_waiting(lambda: None, "key for/thread").join()

    again = interrupt_when_waiting()
    raises(KeyboardInterrupt, task.kv.get, "never", wait=common.PATIENCE)
    again.join()
    assert thread.is_alive() and not got
    task.kv["for/thread"] = "there"
    thread.join(common.PATIENCE)
    assert got == [b"there"]


def test_who_had_the_signals_gets_them_back():
    ears, mouth = os.pipe()
    os.set_blocking(mouth, False)
    before = signal.set_wakeup_fd(mouth)
    try:
        thread = when_waiting(interrupt_process, "key never")
        raises(KeyboardInterrupt, task.kv.get, "never", wait=True)
        thread.join()
        assert signal.set_wakeup_fd(mouth) == mouth
        assert os.read(ears, 16) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(before)
        os.close(ears)
        os.close(mouth)


def test_interrupt_and_resume():
    thread = when_waiting(task.interrupt, "barrier never")
    error = raises(muster.Cancelled, task.barrier, "never")
    assert "interrupted" in str(error)
    thread.join()
    raises(muster.Cancelled, task.kv.get, "never", wait=True)
    task.resume()
    raises(muster.DeadlineExceeded, task.kv.get, "never", wait=0)


def test_a_forked_child_is_no_task():
    raises(muster.DeadlineExceeded, task.kv.get, "never", wait=0.01)
    child = os.fork()
    if not child:
        try:
            assert raises(muster.FailedPrecondition, task.kv.set, "from/child", "x")
            raises(muster.FailedPrecondition, task.kv.get, "from/child", wait=True)
            task.leave()
            with muster.join(task.job, task=1) as mine:
                mine.kv["from/child"] = "joined"
                raises(muster.DeadlineExceeded, mine.kv.get, "never", wait=0.01)
                thread = interrupt_when_waiting()
                raises(KeyboardInterrupt, mine.kv.get, "never", wait=common.PATIENCE)
                thread.join()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert task.kv["from/child"] == b"joined"


def test_ctrl_c_ends_a_group_barrier():
    out = common.run(2, """
        import os, signal, threading, time, muster
        task = muster.join()
        group = task.group("g")
        group.barrier()
        if task.id == 0:
            def interrupt():
                while "group g" not in muster.join(task.job, read_only=True).state(0).waiting:
                    time.sleep(0.002)  # sleep: between two looks
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt).start()
            try:
                group.barrier()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                task.kv["over"] = ""
        else:
            task.kv.get("over", wait=True)
            try:
                group.barrier()
            except muster.Unavailable as e:
                assert "group g failed" in e.message, e
                print("told", flush=True)
        task.leave()
    """)
    assert "interrupted" in out and "told" in out, out


CALLS = """
import sys, threading, time
import muster
task = muster.join()
begun, ends = threading.Semaphore(0), []
def work(call):
    begun.release()
    try:
        while True:
            call()
    except muster.Error as error:
        ends.append(error.code)
for i in range(2000):
    task.kv["key/%d" % i] = b"1"
big = b"x" * (1 << 22)
task.kv["big"] = big
calls = [lambda: list(task.kv), lambda: task.kv.set("big", big), lambda: task.kv["big"], lambda: task.kv.read("big"), task.states,
         lambda: task.kv.append("log", b"x"), lambda: task.events.send(1, b"x")]
threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls for _ in (0, 1)]
for one in threads:
    one.start()
for one in threads:
    begun.acquire()
time.sleep(float(sys.argv[2]))  # sleep: they go round meanwhile
if sys.argv[1] == "leave":
    task.leave()
    for one in threads:
        one.join(60)
    assert ends == ["INVALID_ARGUMENT"] * len(threads), ends
print("sound", flush=True)
"""


def test_the_job_is_left_and_the_program_ends_while_threads_make_calls():
    """Daemons: at the program's end nobody waits for them but muster."""
    for turn in range(6):
        for way in ("leave", "exit"):
            out = common.run(1, CALLS, way, str(turn / 100))
            assert out.endswith("sound\n") or way == "exit" and "sound\n" in out, out  # then each may say that the job is left


PACKAGE = """
import os, threading, time
from muster import _wait
def of_the_package(text, **names):
    "A function of this text in a file of the package."
    exec(compile(text, os.path.join(_wait._HERE, "made.py"), "exec"), names)
    return names["call"]
"""


def test_who_leaves_waits_for_calls_under_way_and_for_no_others():
    out = common.python(PACKAGE + """
ended, stop, begun = [], [], threading.Semaphore(0)
long = of_the_package("def call(): begun.release(); sleep(2); ended.append(1)", begun=begun, sleep=time.sleep, ended=ended)
short = of_the_package("def call(): begun.release(); sleep(0.01)", begun=begun, sleep=time.sleep)
def again_and_again():
    while not stop:
        short()
one = threading.Thread(target=long)
one.start()
begun.acquire()
assert _wait.let_calls_end(0) and ended  # it lasts longer than most
one.join()
_wait.PATIENCE = 1.0
one = threading.Thread(target=again_and_again)
one.start()
begun.acquire()
assert _wait.let_calls_end(0)  # on another handle, as far as we can know: each of them ends
_wait.PATIENCE = 0.05
two = threading.Thread(target=long)
two.start()
for _ in range(5):
    begun.acquire()
assert not _wait.let_calls_end(0)
stop.append(1)
one.join()
two.join()
print("sound")
""")
    assert out == "sound\n", out


def test_groups_go_after_the_calls_on_them():
    out = common.run(1, PACKAGE + """
import muster, muster.group
order, begun, lib = [], threading.Semaphore(0), muster.group.lib
task = muster.join()
group = task.group("g")
free = lib.muster_group_free
lib.muster_group_free = lambda g: (order.append("freed"), free(g))
call = of_the_package("def call(): g = group._g; begun.release(); sleep(0.2); order.append('called' if g else 'closed')",
                      begun=begun, sleep=time.sleep, order=order, group=group)
one = threading.Thread(target=call)
one.start()
begun.acquire()
task.leave()
one.join()
assert order == ["called", "freed"], order
print("sound")
""")
    assert out == "sound\n", out


common.main(sys.modules[__name__])
