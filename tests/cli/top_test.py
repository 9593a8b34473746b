#!/usr/bin/env python3
"""muster top on a real terminal: keys in, the screen read as a person would. The job is real: eight tasks in barrier
after barrier, of which one is then stopped."""
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time

import screen

MUSTER = os.environ["MUSTER"]
WORKER = os.environ["BUILD"] + "/tests/cli/worker"
JOB = "t%d-top" % os.getpid()
DOWN, UP, ESCAPE, HOME, END = "\x1bOB", "\x1bOA", "\x1b", "\x1bOH", "\x1bOF"  # as xterm does for curses
ROW = re.compile(r"^ +(\d+) (?:CONNECTED|ERROR|DISCONNECTED) +(\w+|-) ", re.M)


def top(*options, **how):
    s = screen.Session([MUSTER, "top", "--job", JOB, "--every=50ms", *options], **how)
    s.wait_for(r"^muster top  %s  8 tasks" % JOB)
    return s


def rows(text):
    """The numbers of the tasks shown, from above."""
    return [int(number) for number, _ in ROW.findall(text)]


def wait_rows(s, want):
    s.wait("the tasks shown are %r" % want, lambda text: rows(text) == want)


def given_back(s):
    """The terminal is as it was before."""
    if termios.tcgetattr(s.master) != s.before:
        s.fail("the terminal's modes are not as they were")
    if s.screen.alternate:
        s.fail("the alternate screen was not left")
    if "?25" not in s.screen.modes:
        s.fail("the cursor is not back")


def look_around(pid):
    s = top(rows=24, columns=130)
    # The diagnosis stands above all, and the tasks below it.
    s.wait_for(r"\A.*\ntask 3 \(pid %d\) has been stopped for .*: 7 tasks wait for it in barrier epoch \(instance \d+\)" % pid)
    s.wait_for(r"^ +3 CONNECTED +stopped +%d +1 " % pid)
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    s.wait_for(r"^ +0 CONNECTED +sleeping .* barrier epoch::\d+, for ")
    if not s.screen.coloured:
        s.fail("no colours")
    # Sorting.
    s.type("p")
    wait_rows(s, [3, 0, 1, 2, 4, 5, 6, 7])
    s.wait_for(r"s sort: state")
    s.type("r")
    wait_rows(s, [0, 1, 2, 4, 5, 6, 7, 3])
    s.type("ri")
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    s.type("s")
    s.wait_for(r"s sort: state")
    s.type("w")
    s.wait("task 3, which does not wait, is last", lambda text: rows(text)[-1:] == [3] and len(rows(text)) == 8)
    s.type("i")
    # Filters.
    s.type("/stopp")
    s.wait_for(r"^filter: stopp")
    wait_rows(s, [3])
    s.type("\x7f\x7f\r")
    s.wait_for(r"/ filter: sto$")
    s.type("/ no such  \x17")
    s.wait_for(r"^filter: sto no _ \(")
    s.type("\x17\x17")
    s.wait_for(r"^filter: +_ +\(Enter")
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    s.type("sto no\x15stopped\r")
    s.wait_for(r"/ filter: stopped$")
    wait_rows(s, [3])
    s.type("/\x1b")
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    s.type("f")
    wait_rows(s, [3])
    s.wait_for(r"f state: trouble")
    s.type("f")
    wait_rows(s, [0, 1, 2, 4, 5, 6, 7])
    s.type("f")
    s.wait_for(r"no task passes the filter")
    s.type("f")
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    # One task.
    s.type(HOME + DOWN * 4 + UP * 2 + DOWN)
    s.type("\r")
    s.wait_for(r"^task 3: CONNECTED")
    s.wait_for(r"^process +stopped, pid %d on " % pid)
    s.wait_for(r"^holds up +7 in barrier epoch, for ")
    s.wait_for(r"^heartbeats +\d+, the last one >")
    s.type(UP)
    s.wait_for(r"^task 2: CONNECTED")
    s.wait_for(r"^waits +in barrier epoch::\d+, for ")
    s.wait_for(r"^\d+ waits? at barriers")
    s.type(END)
    s.wait_for(r"^task 7: CONNECTED")
    # Barriers, and how long the waits were.
    s.type("b")
    s.wait_for(r"^epoch +\d+ +WAITING +7/8")
    s.wait_for(r"^  missing: task 3, stopped, pid %d" % pid)
    s.wait_for(r"^ <[ 0-9.]+ [um]?s +\d+ #+$")
    s.type("?")
    s.wait_for(r"^q, \^C +quit")
    s.type(ESCAPE)
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    # A pause holds the picture.
    s.wait_for(r"; 0 keys")
    s.type(" ")
    s.wait_for(r"PAUSED")
    subprocess.run([MUSTER, "kv", "set", "--job", JOB, "seen", "later"], check=True)
    end = time.monotonic() + 0.5  # ten times as long as it waits between two looks
    while time.monotonic() < end:
        for key, page in ("b", r"^BARRIER, GROUP"), ("t", r"^ TASK STATE"):
            s.type(key)
            s.wait_for(page)
            if not re.search("; 0 keys", s.screen.text()):
                s.fail("a pause does not hold the picture")
    s.type(" ")
    s.wait_for(r"; 1 keys")
    s.wait_gone(r"PAUSED")
    subprocess.run([MUSTER, "kv", "delete", "--job", JOB, "seen"], check=True)
    return s


def change_size(s):
    s.resize(12, 60)
    s.wait("the foot is on the last line", lambda text: s.screen.lines()[11].startswith("q quit"))
    s.type(END)
    s.wait("the last task is in sight", lambda text: 7 in rows(text))
    s.type(HOME)
    s.wait("the first task is in sight", lambda text: 0 in rows(text))
    # What a task waits for goes before what else there is to say of it; and the smallest screens show tasks.
    s.resize(24, 80)
    s.wait_for(r"^ TASK STATE        PROCESS       PID   CPU%      LAST  WAITING$")
    s.wait_for(r"^    0 CONNECTED    sleeping +\d+ .*  barrier epoch::\d+, for ")
    s.resize(20, 40)
    s.wait_for(r"^    0 sleeping  barrier epoch::\d+, ")
    s.resize(5, 20)
    s.wait_for(r"^    0 sleeping  barr$")
    s.type(DOWN * 3)
    s.wait_for(r"^    3 stopped$")
    s.type(HOME)
    for size in (3, 20), (1, 12), (2, 5), (1, 1):
        s.resize(*size)
        want = "task 3 (pid"[:size[1]]
        s.wait("the diagnosis is what stays at %r" % (size,), lambda text: s.screen.lines()[0].startswith(want.rstrip()))
    for page in "b", "?", "\r", ESCAPE:
        s.type(page)
        s.resize(5, 17)
        s.wait("the title is there", lambda text: text.startswith("muster top"))
        s.resize(1, 1)
    s.resize(30, 140)
    wait_rows(s, [0, 1, 2, 3, 4, 5, 6, 7])
    s.wait("the foot is on the last line", lambda text: s.screen.lines()[29].startswith("q quit"))


def signals():
    for keys, number, status in (("\x03", None, 130), ("\x1c", None, 131), (None, signal.SIGTERM, 143),
                                 (None, signal.SIGHUP, 129), ("q", None, 0)):
        s = top()
        if keys:
            s.type(keys)
        else:
            os.kill(s.pid, number)
        s.ends_with(status)
        given_back(s)
        s.close()
    # A hang-up: nothing is left behind that looks on.
    s = top()
    os.close(s.master)
    end = time.monotonic() + screen.PATIENCE
    while os.waitpid(s.pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            sys.exit("it outlives its terminal")
        time.sleep(0.02)  # sleep: between two looks


def stop_and_go_on():
    """^Z gives the terminal to the shell, fg takes it again."""
    s = screen.Session(["/bin/bash", "-mc", '"$MUSTER" top --job %s --every=50ms; echo in-the-shell; read -r line; fg; '
                        'echo again-$?' % JOB])
    s.wait_for(r"^muster top  %s" % JOB)
    s.type("\x1a")
    s.wait_for(r"^in-the-shell")
    if s.screen.alternate:
        s.fail("the shell is on the alternate screen")
    s.type("\n")
    s.wait_for(r"^muster top  %s" % JOB)
    s.type("q")
    s.wait_for(r"^again-0")
    s.ends_with(0)
    s.close()


def stop_while_it_draws():
    """A SIGTSTP that comes when it does not sleep is not lost: here it draws, held up by ^S, and then takes a key. The
    window is another when it goes on."""
    s = screen.Session(["/bin/bash", "-mc", '"$MUSTER" top --job %s --every=50ms; echo in-the-shell; read -r line; fg; '
                        'echo again-$?' % JOB])
    s.wait_for(r"^muster top  %s" % JOB)
    s.type("\x13")
    while select.select([s.master], [], [], 0.5)[0]:
        s.pump(0)
    os.killpg(os.tcgetpgrp(s.master), signal.SIGTSTP)
    s.type("b\x11")
    s.wait_for(r"^in-the-shell")
    if s.screen.alternate:
        s.fail("the shell is on the alternate screen")
    s.resize(30, 110)
    s.type("\n")
    s.wait("the foot is on the last line", lambda text: s.screen.lines()[29].startswith("q quit"))
    s.type("q")
    s.wait_for(r"^again-0")
    s.ends_with(0)
    s.close()


def options():
    s = top("--sort=state", "--state", "trouble", rows=10)
    wait_rows(s, [3])
    s.type("q")
    s.ends_with(0)
    s.close()
    s = top("-f", "STOPPED", env={"NO_COLOR": "1"})
    wait_rows(s, [3])
    s.type("q")
    s.ends_with(0)
    if s.screen.coloured:
        s.fail("colours in spite of NO_COLOR")
    s.close()
    s = screen.Session([MUSTER, "top", "--job", JOB], env={"TERM": "no-such-terminal"})
    s.wait_for(r"^muster top: the terminal 'no-such-terminal' is not known")
    s.ends_with(1)
    s.close()
    s = screen.Session([MUSTER, "top", "--job", JOB], env={"TERM": "dumb"})
    s.wait_for(r"^muster top: the terminal 'dumb' cannot place its cursor: 'muster status --watch' needs lines alone$")
    s.ends_with(1)
    if termios.tcgetattr(s.master) != s.before:
        s.fail("the terminal's modes are not as they were")
    s.close()
    done = subprocess.run([MUSTER, "top", "--job", JOB], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode != 2 or done.stdout or "needs a terminal" not in done.stderr:
        sys.exit("without a terminal: %r" % (done,))


def stop_outside_of_waits(pid):
    """Woken and not run yet, it would seem to wait for what has passed."""
    for _ in range(1000):
        os.kill(pid, signal.SIGSTOP)
        if not screen.wait_for_tasks(JOB, 8)[3]["waiting"]:
            return
        os.kill(pid, signal.SIGCONT)
    sys.exit("task 3 seems to wait for ever")


def hosts():
    """The page of a job of three hosts; and of this one, which has one."""
    s = top(rows=24, columns=150)
    s.type("h")
    s.wait_for(r"^this job has one host$")
    s.type("q")
    s.ends_with(0)
    s.close()
    with subprocess.Popen([os.environ["BUILD"] + "/tests/cli/hosts", JOB + "-hosts"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as made:
        while made.stdout.readline() not in (b"ready\n", b""):
            pass
        s = screen.Session([MUSTER, "top", "--job", JOB + "-hosts", "--every=50ms"], rows=24, columns=150)
        s.wait_for(r"^host 1 \(beta \"2\"\) has not been connected for ")
        s.type("h")
        s.wait_for(r"^hosts 3: 1 up, 1 down, 1 awaited; this is host 0$")
        s.wait_for(r"^1 +beta \"2\" +down +0/3 .* 52\.3 us +41\.0 us .* 17/18 +3 +2$")
        s.type("t")
        s.wait_for(r"^ +5 DISCONNECTED ")
        s.type("q")
        s.ends_with(0)
        given_back(s)
        s.close()
        made.stdin.close()


run = subprocess.Popen([MUSTER, "run", "-n", "8", "--job", JOB, "--heartbeat-timeout=10m", WORKER, "epochs"],
                       stdin=subprocess.DEVNULL)
try:
    pid = screen.wait_for_tasks(JOB, 8)[3]["pid"]
    live = top()
    live.wait_for(r"no wait is longer than 0.1 s: 8 of 8 tasks connected|is running elsewhere|sleeps elsewhere|blocked")
    live.type("b")
    live.wait_for(r"^ <[ 0-9.]+ [um]?s +\d+ #+$")
    stop_outside_of_waits(pid)
    live.wait_for(r"^task 3 \(pid %d\) has been stopped" % pid)
    live.type("q")
    live.ends_with(0)
    live.close()
    long = look_around(pid)
    change_size(long)
    signals()
    stop_and_go_on()
    stop_while_it_draws()
    options()
    hosts()
    # The job ends while it is shown: the last picture stays until a key.
    run.send_signal(signal.SIGTERM)
    long.wait_for(r"THE JOB HAS ENDED")
    run.wait()
    wait_rows(long, [0, 1, 2, 3, 4, 5, 6, 7])
    last = long.screen.text()
    time.sleep(0.3)  # its ages stay, too
    long.type("b")
    long.wait_for(r"^BARRIER, GROUP")
    long.type("t")
    wait_rows(long, [0, 1, 2, 3, 4, 5, 6, 7])
    long.wait("the picture is the last one", lambda text: text == last)
    long.type("q")
    long.ends_with(0)
    given_back(long)
finally:
    run.terminate()
    run.wait()
print("ok")
sys.exit(0)
