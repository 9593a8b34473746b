#!/usr/bin/env python3
"""muster status --watch on a terminal: drawn in place, cut to the screen, ended by ^C."""
import os
import signal
import subprocess
import sys

import screen

MUSTER = os.environ["MUSTER"]
WORKER = os.environ["BUILD"] + "/tests/cli/worker"
JOB = "t%d-watch" % os.getpid()

run = subprocess.Popen([MUSTER, "run", "-n", "4", "--job", JOB, WORKER, "away", "2", "sleep"], stdin=subprocess.DEVNULL)
try:
    screen.wait_for_tasks(JOB, 4)
    s = screen.Session([MUSTER, "status", "--job", JOB, "--watch=50ms"])
    s.wait_for(r"^task 2 \(pid \d+\) has slept elsewhere for .*: 3 tasks wait for it in barrier late, for")
    s.wait_for(r"^job +%s, made by pid %d" % (JOB, run.pid))
    s.wait_for(r"^2 +CONNECTED +sleeping")
    if not s.screen.coloured:
        s.fail("no colours on a terminal")
    # In place: seconds go by, the first line stays the first.
    first = s.screen.text()
    s.wait("the picture has changed", lambda text: text != first)
    if s.screen.text().count("made by pid") != 1 or not s.screen.lines()[0].startswith("task 2 (pid"):
        s.fail("it is not drawn in place")
    # A screen of six lines shows the diagnosis and says that there is more.
    s.resize(6, 40)
    s.wait("it is cut to the screen", lambda text: text.startswith("task 2 (pid") and text.rstrip().endswith("..."))
    # One row is the diagnosis, and nothing scrolls it away.
    s.resize(1, 40)
    s.wait("the diagnosis is drawn three times without a newline", lambda text: text.startswith("task 2 (pid") and not
           any(b"\n" in frame for frame in s.raw.split(b"\x1b[?7l\x1b[H")[-4:-1]))
    s.type("\x03")
    s.ends_with(130)
    if "?7" in s.screen.modes:
        s.fail("the terminal was left without wrapping")
    plain = screen.Session([MUSTER, "status", "--job", JOB, "--watch"], env={"NO_COLOR": "1"})
    plain.wait_for(r"^job +%s" % JOB)
    run.send_signal(signal.SIGTERM)
    plain.ends_with(0)
    if plain.screen.coloured:
        plain.fail("colours in spite of NO_COLOR")
    if "has ended" not in plain.screen.text():
        plain.fail("the job's end is not said")
finally:
    run.terminate()
    run.wait()
print("ok")
sys.exit(0)
