#!/usr/bin/env python3
"""On a terminal: task 0 gets the foreground when it reads, jobs that do not read leave ^C with the launcher."""
import os
import pty
import select
import signal
import sys
import tempfile
import termios

MUSTER = os.environ["MUSTER"]


def session(*argv):
    """muster run on a terminal of its own; returns (pid, master)."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(MUSTER, [MUSTER, "run", *argv])
    return pid, master


def read_until(master, text, seconds=30):
    data = b""
    while text not in data:
        ready, _, _ = select.select([master], [], [], seconds)
        if not ready:
            sys.exit("waited in vain for %r, have %r" % (text, data))
        try:
            data += os.read(master, 4096)
        except OSError:
            break
    if text not in data:
        sys.exit("the terminal closed before %r, had %r" % (text, data))
    return data


def ends_with(pid, master, want):
    while True:  # drain, so that nobody blocks on output
        try:
            if not os.read(master, 4096):
                break
        except OSError:
            break
    _, status = os.waitpid(pid, 0)
    got = os.waitstatus_to_exitcode(status)
    if got != want:
        sys.exit("exit status %d instead of %d" % (got, want))


# Task 0 reads a line.
pid, master = session("-n", "2", "sh", "-c", '[ $RANK = 1 ] && exit; read -r line; echo "got <$line>"')
os.write(master, b"typed\n")
read_until(master, b"got <typed>")
ends_with(pid, master, 0)

# It stays a terminal for it, and after a first read ^C is task 0's.
pid, master = session("-n", "2", "bash", "-c",
                      '[ $RANK = 1 ] && exec sleep 900; test -t 0 || exit 9; trap "echo int; exit 4" INT; '
                      'read -r line; echo "ready"; read -r line')
os.write(master, b"x\n")
read_until(master, b"ready")
os.write(master, b"\x03")
read_until(master, b"int")
ends_with(pid, master, 4)

# A task that fails in raw mode does not leave the terminal so; what one that ends well has set is meant.
for way, want in (("kill -KILL $$", 137), ("exit 7", 7), ("exit 0", 0)):
    pid, master = session("sh", "-c", "read -r line; stty raw -echo; " + way)
    before = termios.tcgetattr(master)
    os.write(master, b"go\n")
    ends_with(pid, master, want)
    if (termios.tcgetattr(master) == before) != (want != 0):
        sys.exit("the terminal's settings after '%s'" % way)
    os.close(master)

# Nobody reads: ^C ends the job.
pid, master = session("-n", "2", "sh", "-c", "echo up; exec sleep 900")
read_until(master, b"up")
os.write(master, b"\x03")
read_until(master, b"SIGINT: ending 2 tasks")
ends_with(pid, master, 130)

# The terminal hangs up: nothing stays.
pid, master = session("-n", "2", "sh", "-c", "echo up; exec sleep 900")
read_until(master, b"up")
os.close(master)
_, status = os.waitpid(pid, 0)
if os.waitstatus_to_exitcode(status) not in (129, -signal.SIGHUP):
    sys.exit("after a hang-up: %r" % status)

# Labels are coloured on a terminal, unless NO_COLOR is set; each task's own.
os.environ["TERM"] = "xterm"
os.environ.pop("NO_COLOR", None)
pid, master = session("--label", "-n", "2", "echo", "shown")
seen = read_until(master, b"[1]\x1b[0m shown")
ends_with(pid, master, 0)
os.environ["NO_COLOR"] = "1"
pid, master = session("--label", "echo", "shown")
if b"\x1b" in read_until(master, b"[0] shown"):
    sys.exit("colour in spite of NO_COLOR")
ends_with(pid, master, 0)

# The task that --stdin names gets the terminal; with "all", each gets what is typed.
pid, master = session("-n", "2", "--stdin", "1", "sh", "-c", '[ $RANK = 0 ] && exec cat; read -r line; echo "$RANK got <$line>"')
os.write(master, b"typed\n")
read_until(master, b"1 got <typed>")
ends_with(pid, master, 0)
pid, master = session("-n", "2", "--label", "--stdin", "all", "sh", "-c", 'read -r line; echo "got <$line>"')
os.write(master, b"typed\n")
data = read_until(master, b"got <typed>")
if data.count(b"got <typed>") < 2:
    read_until(master, b"got <typed>")
ends_with(pid, master, 0)

# ^Z while a task has the terminal stops all of the job, and a shell has the terminal; after fg it goes on.
pid, master = pty.fork()
if pid == 0:
    os.environ["PS1"] = "ready> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
read_until(master, b"ready> ")
os.write(master, b"'%s' run sh -c 'read -r line; echo got $line; read -r line; echo then $line'\n" % MUSTER.encode())
os.write(master, b"one\n")
read_until(master, b"got one")
os.write(master, b"\x1a")
read_until(master, b"Stopped")
os.write(master, b"echo the shell $((40 + 2))\n")
read_until(master, b"the shell 42")
os.write(master, b"fg\n")
read_until(master, b"run sh")
os.write(master, b"two\n")
read_until(master, b"then two")
os.write(master, b"exit\n")
ends_with(pid, master, 0)

# The same with another host, which is this machine again, whose task has no terminal.
with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False, dir=os.environ.get("TMPDIR")) as rsh:
    rsh.write('#!/bin/sh\nshift; eval "exec $*"\n')
os.chmod(rsh.name, 0o700)
pid, master = pty.fork()
if pid == 0:
    os.environ["PS1"] = "ready> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
read_until(master, b"ready> ")
os.write(master, b"'%s' run --rsh '%s' --hosts localhost:1,b:1 sh -c '[ $RANK = 1 ] && exec sleep 900; read -r line; "
         b"echo got $line; read -r line; echo then $line; exit 3'\n" % (MUSTER.encode(), rsh.name.encode()))
os.write(master, b"one\n")
read_until(master, b"got one")
os.write(master, b"\x1a")
read_until(master, b"Stopped")
os.write(master, b"echo the shell $((40 + 2))\n")
read_until(master, b"the shell 42")
os.write(master, b"fg\n")
read_until(master, b"run --rsh")
os.write(master, b"two\n")
read_until(master, b"then two")
os.write(master, b"echo status $?\n")
read_until(master, b"status 3")
os.write(master, b"exit\n")
ends_with(pid, master, 0)
os.unlink(rsh.name)

# stderr is the terminal itself for the tasks, so that they may know.
pid, master = session("sh", "-c", "test -t 2 && echo it is")
read_until(master, b"it is")
ends_with(pid, master, 0)
print("ok")
