#!/usr/bin/env python3
"""--pty: what each task writes to is a terminal, as large as the launcher's, which changes with it, also on other hosts;
what comes out is what went in, to the last byte, labelled or in files; and nothing of it outlives anybody.
"""
import fcntl
import glob
import hashlib
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

MUSTER, TMPDIR, HERE = os.environ["MUSTER"], os.environ["TMPDIR"], os.path.dirname(os.path.abspath(__file__))
JOB = "t%d-pty" % os.getpid()
PATIENCE = 30
clean = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
BYTES = bytes(range(256)) * 3000
open(os.path.join(TMPDIR, "bytes"), "wb").write(BYTES)


def fail(*words):
    sys.exit("FAIL: " + " ".join(str(word) for word in words))


def run(*words, code=0, more=None, join=False):
    """A job without a terminal: what it wrote to stdout and stderr."""
    done = subprocess.run([MUSTER, "run", "--job", JOB, "--pty", *words], env={**clean, **(more or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT if join else subprocess.PIPE, timeout=PATIENCE * 2)
    if done.returncode != code:
        fail(words, "exits with", done.returncode, done.stdout[-500:], (done.stderr or b"")[-500:])
    return done.stdout, done.stderr


def equal(what, got, wanted):
    if got != wanted:
        fail(what, "is", repr(got)[:500], "and not", repr(wanted)[:500])


# Both streams are terminals, standard input is what it always is, and the size is what can be known.
KINDS = 'for i in 0 1 2; do test -t $i && echo "$i is one"; done; stty size <&1; stty size <&2; stty -a <&2 | grep -o -e "-opost"'
equal("a task's terminals", run("-n", "1", "sh", "-c", KINDS)[0], b"1 is one\n2 is one\n24 80\n24 80\n-opost\n")
equal("a size of the environment", run("stty", "-F", "/dev/stdout", "size", more={"LINES": "33", "COLUMNS": "101"})[0], b"33 101\n")
equal("room beside the label", run("-l", "stty", "-F", "/dev/stdout", "size")[0], b"[0] 24 76\n")

# Bytes are bytes, the streams are two, or one where the launcher's are; none is lost at the end.
out, err = run("-n", "1", "sh", "-c", 'cat "$0"; echo to stderr >&2', os.path.join(TMPDIR, "bytes"))
equal("what came out", hashlib.sha256(out).hexdigest(), hashlib.sha256(BYTES).hexdigest())
equal("stderr", err, b"to stderr\n")
joined, _ = run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done", join=True)
equal("the order of both streams in one", joined, b"".join(b"%d\n%d\n" % (i, i) for i in range(1, 10)))
counts = [out.count(b"\n") for out in [run("-n", "8", "-l", "sh", "-c", "seq 5000")[0]]]
equal("lines of eight tasks", counts, [40000])

# In files, and there alone unless they are labelled.
for template, label in (("{rank}.{stream}", ()), ("{rank}.both", ()), ("{rank}.both", ("-l",)), ("{rank}.{stream}", ("-l",))):
    for old in glob.glob(TMPDIR + "/f/*"):
        os.unlink(old)
    out, err = run("-n", "2", *label, "--output", TMPDIR + "/f/" + template, "sh", "-c",
                   'test -t 1 && test -t 2 && echo "out $RANK"; echo "err $RANK" >&2')
    for rank in "01":
        if "stream" in template:
            for stream in ("out", "err"):
                equal(template, open(TMPDIR + "/f/%s.std%s" % (rank, stream)).read(), "%s %s\n" % (stream, rank))
        else:
            lines = open(TMPDIR + "/f/%s.both" % rank).read().splitlines()
            equal(template, sorted(lines), ["err " + rank, "out " + rank])
    equal("stdout beside files", sorted(out.split(b"\n")), sorted(b"[0] out 0\n[1] out 1\n".split(b"\n")) if label else [b""])
out, err = run("-n", "1", "--output", TMPDIR + "/f/{rank}.{stream}", "sh", "-c", "echo why >&2; exit 3", code=3)
if b"    why\n" not in err:
    fail("the last line of stderr is not said again:", err)

# A task that is started again has another; one that leaves a process behind is not waited for longer than without.
out, _ = run("--restarts", "1", "--restart-policy", "task", "--restart-delay", "0s", "sh", "-c",
             'test -t 1 && echo "attempt $MUSTER_ATTEMPT"; [ $MUSTER_ATTEMPT = 1 ] || exit 4')
equal("both attempts", out, b"attempt 0\nattempt 1\n")
run("sh", "-c", "(exec sleep 900) & exit 0")

# C's stdio: what would come at the end comes at once.
job = subprocess.Popen([MUSTER, "run", "--job", JOB, "--pty", "--", "sh", "-c", "(echo x; exec sleep 900) | sed s/x/seen/"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
if not select.select([job.stdout], [], [], PATIENCE)[0] or os.read(job.stdout.fileno(), 100) != b"seen\n":
    fail("sed keeps its line back")
# The launcher is killed: its tasks find no terminal, and are ended.
job.kill()
job.wait()
job.stdout.close()

# --survive cannot be.
done = subprocess.run([MUSTER, "run", "--pty", "--survive", "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
if done.returncode != 2 or b"--survive and --pty exclude each other" not in done.stdout:
    fail("--survive:", done)


# On a terminal: its size, and what becomes of it.
def set_size(master, rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_until(master, wanted):
    """Until each of the lines has come so often."""
    data, end = "", time.monotonic() + PATIENCE
    while any(len(re.findall("(?m)^%s\r?$" % line, data)) < count for line, count in wanted.items()):
        if time.monotonic() > end:
            fail("waited in vain for", wanted, "have", repr(data))
        if select.select([master], [], [], 0.1)[0]:
            data += os.read(master, 4096).decode()


def on_terminal(words, first, second):
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(clean, TERM="xterm")
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execv(MUSTER, [MUSTER, "run", "--job", JOB, "--pty", *words, "--", "bash", "-c",
                          'trap "stty size <&1" WINCH; stty size <&1; echo "$RANK on $TERM"; while :; do sleep 900 & wait; kill $!; done'])
    read_until(master, first)
    set_size(master, 50, 150)
    read_until(master, second)
    os.write(master, b"\x03")  # ^C is the launcher's
    try:
        while os.read(master, 4096):
            pass
    except OSError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    equal("the status after ^C", status, 130)


on_terminal(["-n", "1"], {"40 120": 1, "0 on xterm": 1}, {"50 150": 1})
label = r"(?:\x1b\[3.m)?\[[01]\](?:\x1b\[0m)? "  # in colours
on_terminal(["-n", "2", "-l"], {label + "40 116": 2, label + "[01] on xterm": 2}, {label + "50 146": 2})
rsh = os.path.join(TMPDIR, "rsh")  # the other host is this machine again, and has not our terminal's name
with open(rsh, "w") as script:
    script.write('#!/bin/sh\nshift\neval "exec env -u TERM $*"\n')
os.chmod(rsh, 0o755)
on_terminal(["--hosts", "localhost:1,b:1", "--rsh", rsh], {"40 120": 2, "[01] on xterm": 2}, {"50 150": 2})
