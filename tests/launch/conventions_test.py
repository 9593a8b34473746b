#!/usr/bin/env python3
"""What people expect of a launcher, and what others were caught at, in one table.

A row is run here with real processes, or names the test beside this one that proves it and a line which stands there.
After each run nothing may be left: no process of the job, however it hides, no segment.
timeout: 180
"""
import collections
import glob
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTER = os.environ["MUSTER"]
EARS = os.path.join(os.environ["BUILD"], "tests/launch/ears")
MARK = "MUSTER_TEST_MARK=conventions-%d" % os.getpid()
PATIENCE = 30
STAY = ["sleep", "900"]

Run = collections.namedtuple("Run", "what words status err out provoke stdin")
Run.__new__.__defaults__ = ("", "", None, "null")
Elsewhere = collections.namedtuple("Elsewhere", "what test line")


# The shell of a job in the background.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
with open(sys.argv[1], "w") as f:
    print(pid, file=f)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        os._exit(os.waitstatus_to_exitcode(status) & 0xff)
    os.write(1, b"stopped by %s\\n" % signal.Signals(os.WSTOPSIG(status)).name.encode())
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""


class Broken(Exception):
    pass


def require(holds, sentence):
    if not holds:
        raise Broken(sentence)


def await_(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        require(time.monotonic() < end, "waited in vain until " + what)
        time.sleep(0.005)  # sleep: between two looks at the condition


def stat(pid):
    """The fields of /proc/PID/stat from the state on; [] when it is gone."""
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid):
    return (stat(pid) or ["X"])[0]


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


def marked():
    """The living processes that were started from here, as pids."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as f:
                if MARK.encode() in f.read().split(b"\0") and state(pid) not in "ZX":
                    found.append(pid)
        except OSError:
            pass
    return found


class Job:
    """One `muster run`, its words being told {folder} and {ears}."""

    def __init__(self, row, folder):
        self.folder, self.name = folder, os.path.basename(folder)
        words = [word.replace("{folder}", folder).replace("{ears}", EARS) for word in row.words]
        self.command = [MUSTER, "run", "--job", self.name, *words]
        self.environment = dict(os.environ, **dict([MARK.split("=")]))
        self.input = self.master = None
        if row.stdin == "background":
            self.start_in_background()
            return
        self.files = [open(os.path.join(folder, n), "wb") for n in ("stdout", "stderr")]
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=self.files[0], stderr=self.files[1],
                                        stdin=subprocess.PIPE if row.stdin == "pipe" else subprocess.DEVNULL,
                                        process_group=0)  # of its own, as a shell does it: it can be stopped
        self.input, self.pid = self.process.stdin, self.process.pid

    def start_in_background(self):
        """As a job that a shell has started with '&' on a terminal, in a group that is not the foreground. Should it
        stop, that is written to the terminal, and it is brought to the foreground."""
        leader, self.master = pty.fork()
        if leader == 0:
            os.environ.update(self.environment)
            os.execvp(sys.executable, [sys.executable, "-c", SHELL, self.path("pid"), *self.command])
        self.leader = leader
        await_("the launcher's pid is known", lambda: self.text("pid").endswith("\n"))
        self.pid = int(self.text("pid"))

    def kill(self, number):
        os.kill(self.pid, number)

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        try:
            with open(self.path(name), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def wait(self):
        if self.master is not None:
            return self.wait_in_background()
        if self.input:
            self.input.close()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken("it does not end")
        for file in self.files:
            file.close()
        return status if status >= 0 else 128 - status  # as a shell says it

    def wait_in_background(self):
        said = b""
        try:
            while chunk := os.read(self.master, 4096):
                said += chunk
        except OSError:  # the last process has closed the terminal
            pass
        os.close(self.master)
        with open(self.path("stdout"), "wb") as f:
            f.write(said.replace(b"\r\n", b"\n"))
        return os.waitstatus_to_exitcode(os.waitpid(self.leader, 0)[1])


# ---- how a job is provoked ------------------------------------------------------------------------------------------

def listening(job, tasks=2):
    """Until every task and its child hear signals."""
    for who in ["%s%d" % pair for pair in (("task", i) for i in range(tasks))] + ["child%d" % i for i in range(tasks)]:
        await_("%s listens" % who, lambda who=who: job.text("ready." + who))


def heard(job, name, tasks=2):
    for i in range(tasks):
        for who in ("task%d" % i, "child%d" % i):
            await_("%s hears %s" % (who, name), lambda who=who: name in job.text("heard." + who).split())


def forwards(*names):
    def provoke(job):
        listening(job)
        for name in names:
            job.kill(getattr(signal, "SIG" + name))
            heard(job, name)
        job.kill(signal.SIGTERM)
    return provoke


def ends_by(name):
    def provoke(job):
        listening(job)
        job.kill(getattr(signal, "SIG" + name))
    return provoke


def late_second_interrupt(job):
    """Signals come in the order of their numbers, so who hears USR1 lives after the SIGINT before it was acted on."""
    listening(job)
    job.kill(signal.SIGINT)
    heard(job, "INT")
    await_("it is said", lambda: "SIGINT: ending" in job.text("stderr"))
    time.sleep(1.05)  # sleep: the second one is to come later than a second
    job.kill(signal.SIGINT)
    job.kill(signal.SIGUSR1)
    heard(job, "USR1")
    interrupts(job)


def interrupts(job):
    """SIGINT until it has ended: on a slow machine the second may come too late, the third does not."""
    def again():
        job.kill(signal.SIGINT)
        end = time.monotonic() + 0.5
        while job.process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)  # sleep: between two looks whether it has ended
        return job.process.poll() is not None
    await_("two SIGINT have ended it", again)


def two_interrupts(job):
    listening(job)
    interrupts(job)


def stop_and_continue(job):
    listening(job)
    await_("the guard is there", lambda: guard(job))
    everyone = [pid for pid in marked() if pid not in (os.getpid(), guard(job))]
    require(len(everyone) == 5, "not the launcher, two tasks and their children: %s" % everyone)
    job.kill(signal.SIGTSTP)
    await_("all are stopped", lambda: all(state(pid) == "T" for pid in everyone))
    job.kill(signal.SIGCONT)
    await_("all go on", lambda: all(state(pid) != "T" for pid in everyone))
    job.kill(signal.SIGTERM)


def guard(job):
    for pid in children(job.pid):
        with open("/proc/%d/comm" % pid) as f:
            if f.read().strip() == "mu-guard":
                return pid
    return 0


def launcher_dies_by(name):
    def provoke(job):
        await_("the tasks run", lambda: len(children(job.pid)) == 3 and guard(job))
        job.kill(getattr(signal, "SIG" + name))
    return provoke


def reads_ends_while_open(job):
    """Task 1 met the end of its input, while the launcher's own is open, and the launcher sleeps meanwhile."""
    await_("task 1 has seen the end", lambda: "end of 1" in job.text("stdout"))
    sleeps(job)
    job.input.write(b"to 0\n")
    job.input.flush()
    await_("task 0 has the line", lambda: "0 got to 0" in job.text("stdout"))


def copies_while_open(job):
    for line in (b"one", b"two"):
        job.input.write(line + b"\n")
        job.input.flush()
        for task in range(3):
            wanted = "%d got %s" % (task, line.decode())
            await_(wanted, lambda wanted=wanted: wanted in job.text("stdout"))
    sleeps(job)


def sleeps(job):
    """Less than a quarter of a second of processor time in one second: who polls takes most of it."""
    before = sum(map(int, stat(job.pid)[11:13]))
    time.sleep(1)  # sleep: what is measured is what the launcher uses while nothing happens
    used = (sum(map(int, stat(job.pid)[11:13])) - before) / os.sysconf("SC_CLK_TCK")
    require(used < 0.25, "the launcher has used %.2f s in a second of nothing" % used)


def no_zombies(job):
    """Three tasks and the orphan of one have ended, one runs on: nothing of them is left in the process table."""
    await_("three have ended", lambda: len(glob.glob(job.path("done.*"))) == 3 and os.path.exists(job.path("orphan")))
    await_("they are reaped", lambda: len(children(job.pid)) == 2)
    require(all(state(pid) != "Z" for pid in children(job.pid)), "a zombie is left")
    open(job.path("go"), "w").close()


def type_a_line(job):
    os.write(job.master, b"typed\n")


READ = 'while read -r line; do echo "$RANK got $line"; done; echo "end of $RANK"'
DEAF = ["-n", "2", "--grace", "200ms", "--", "{ears}", "{folder}", "deaf"]
PATIENT = ["-n", "2", "--grace", "10m", "--", "{ears}", "{folder}", "deaf"]
MILD = ["-n", "2", "--grace", "10m", "--", "{ears}", "{folder}", "mild"]

NAMES = """
same()
{
    for name in $2; do
        eval "value=\\$$name"
        [ "$value" = "$1" ] || { echo "$name=$value, not $1"; exit 9; }
    done
}
same $MUSTER_TASK_ID "RANK LOCAL_RANK ROLE_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK
    OMPI_COMM_WORLD_NODE_RANK MPI_LOCALRANKID JAX_PROCESS_ID"
same 3 "WORLD_SIZE LOCAL_WORLD_SIZE ROLE_WORLD_SIZE OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS
    JAX_NUM_PROCESSES"
same 0 "GROUP_RANK TORCHELASTIC_RESTART_COUNT"
same 4 TORCHELASTIC_MAX_RESTARTS
same $JAX_COORDINATOR_ADDRESS JAX_COORDINATOR_BIND_ADDRESS
echo $MASTER_ADDR $MASTER_PORT $JAX_COORDINATOR_ADDRESS
"""

TABLE = [
    # -- standard input. hydra: with piped input, ranks other than 0 never meet the end and its proxy takes 70 % of a
    #    processor; Open MPI 4.1: --stdin all gives no line and no end to anybody.
    Run("stdin: others than task 0 meet its end though the pipe is open; the launcher sleeps",
        ["-n", "2", "sh", "-c", READ], 0, out="^end of 0$", provoke=reads_ends_while_open, stdin="pipe"),
    Run("stdin: --stdin all gives each line at once, then the end, to all; the launcher sleeps",
        ["-n", "3", "--stdin", "all", "sh", "-c", READ], 0, out="^end of 0$(.|\n)*", provoke=copies_while_open,
        stdin="pipe"),
    Run("stdin: a task that has ended does not keep the launcher, whose input stays open",
        ["-n", "2", "--stdin", "all", "true"], 0, stdin="pipe"),
    Elsewhere("stdin: 0, K, none and all, by a file and by a pipe, with the end", "stdin_test.sh",
              "all [0] one two,[1] one two,[2] one two."),
    Elsewhere("stdin: a task that never reads does not keep the end from others", "stdin_test.sh",
              'await "task 0 has seen the end"'),
    # -- what became of the tasks. hydra: the bitwise OR of all, a bare signal number. Open MPI 4.1: the lowest rank's.
    Run("status: 5 and 3 make 5, not 7",
        ["-n", "2", "--kill-on-fail=no", "sh", "-c", "exit $((5 - 2 * RANK))"], 5),
    Run("status: 3 and 5 make 5, whoever has the lower number",
        ["-n", "2", "--kill-on-fail=no", "sh", "-c", "exit $((3 + 2 * RANK))"], 5),
    Run("status: 139 for SIGSEGV, also beside a 7",
        ["-n", "2", "--kill-on-fail=no", "sh", "-c", "ulimit -c 0; [ $RANK = 0 ] && exit 7; kill -SEGV $$"], 139),
    Elsewhere("status: 128 + signal", "exit_status_test.sh", "check 139 run sh -c 'kill -SEGV $$'"),
    Elsewhere("status: the first failure ends the job, of a program that knows no muster, too", "exit_status_test.sh",
              "check 3 run -n 4 sh -c '[ $RANK = 2 ] && exit 3; exec sleep 900'"),
    Elsewhere("status: --kill-on-fail=no", "exit_status_test.sh", "check 9 run -n 4 --kill-on-fail=no"),
    Elsewhere("status: 126, 127 and 125", "exit_status_test.sh", "check 126 run /etc/passwd"),
    Elsewhere("status: who failed first is named, though others were reaped before", "failure_test.sh",
              "err_has \"^muster run: task 1 (pid $2) was killed by signal 9 (SIGKILL)\""),
    # -- told to end. hydra: TERM once and never KILL; ranks that ignore it run on, and at last it returns 0.
    Run("end: who ignores SIGTERM is killed after the grace; not 0", DEAF, 143,
        err="^muster run: SIGTERM: ending 2 tasks$", provoke=ends_by("TERM")),
    Run("end: SIGHUP too", DEAF, 129, err="^muster run: SIGHUP: ending 2 tasks$", provoke=ends_by("HUP")),
    Run("end: SIGINT too, and no second one is needed", DEAF, 130, provoke=ends_by("INT")),
    Run("end: --timeout too", ["--timeout", "300ms", *DEAF], 124,
        err="timed out after 0.3 s with 2 of 2 tasks running"),
    Run("end: one failure too",
        ["-n", "2", "--grace", "200ms", "sh", "-c",
         'if [ $RANK = 0 ]; then until [ -e "$0/ready.child1" ]; do :; done; exit 5; fi; exec "$1" "$0" deaf',
         "{folder}", "{ears}"], 5),
    Run("end: two SIGINT within a second do not wait for the grace", PATIENT, 130, provoke=two_interrupts),
    Run("end: a second SIGINT later than that kills nobody", PATIENT, 130, provoke=late_second_interrupt),
    Elsewhere("end: INT, TERM, HUP end mild tasks", "signals_test.sh", "for triple in INT:130:INT TERM:143:TERM HUP:129:TERM; do"),
    Elsewhere("end: nohup stays nohup", "signals_test.sh", "# nohup stays nohup."),
    Elsewhere("end: a stopped task hears SIGTERM", "exit_status_test.sh", "the stopped task did not hear SIGTERM"),
    # -- passed on.
    Run("signals: USR1, USR2, WINCH, QUIT reach the process groups, not the tasks alone", MILD, 143,
        provoke=forwards("USR1", "USR2", "WINCH", "QUIT")),
    Run("signals: TSTP stops launcher, tasks and their children, CONT continues them", MILD, 143,
        provoke=stop_and_continue),
    # -- nothing is left. Open MPI 4.1: both ranks of a killed launcher run on; torchrun: the same.
    Run("death: of the launcher by SIGKILL: no orphan, of a program that knows no muster", ["-n", "2", *STAY],
        137, err="was killed: its tasks are ended, its segment is removed", provoke=launcher_dies_by("KILL")),
    Run("death: by a crash of its own", ["-n", "2", *STAY], 134, provoke=launcher_dies_by("ABRT")),
    Run("death: of a launcher whose tasks ignore what can be ignored", PATIENT, 137,
        provoke=ends_by("KILL")),
    Elsewhere("death: descendants in other sessions, without the mark", "killed_launcher_test.sh",
              "env -u MUSTER_RUN_ID sleep 1000 &"),
    Elsewhere("death: at many moments of its start", "killed_launcher_test.sh", "# Killed as early as can be"),
    Elsewhere("death: the guard first", "killed_launcher_test.sh", "# The guard is killed first"),
    Elsewhere("death: --survive, the other way", "survive_test.sh", "# By themselves, to the end"),
    Elsewhere("death: the terminal closes", "terminal_test.py", "# The terminal hangs up: nothing stays."),
    Elsewhere("end: what the tasks leave behind is ended", "leftovers_test.sh",
              "the tasks left [0-9]* processes behind"),
    Run("reaped: tasks and their orphans, while others run",
        ["-n", "4", "sh", "-c",
         'cd "$0"; [ $RANK != 1 ] || (sh -c "kill -0 $$; : > orphan" &); [ $RANK != 0 ] || '
         'until [ -e go ]; do sleep 0.05; done; : > done.$RANK', "{folder}"], 0, provoke=no_zombies),
    # -- a shell's '&' on a terminal.
    Run("background: it is not stopped for an input that nobody reads", ["-n", "2", "sh", "-c", "echo up"], 0,
        out=r"\Aup\nup\n\Z", stdin="background"),
    Run("background: where a task reads it stops, as any program does, and goes on in the foreground",
        ["-n", "2", "sh", "-c", "read line; echo got $line"], 0, out="^stopped by SIGTTIN$(.|\n)*^got typed$",
        provoke=type_a_line, stdin="background"),
    Run("background: and where the launcher reads for all",
        ["-n", "2", "--stdin", "all", "sh", "-c", "read line; echo got $line"], 0,
        out="^stopped by SIGTTIN$(.|\n)*^got typed\ngot typed$", provoke=type_a_line, stdin="background"),
    Elsewhere("foreground: the terminal is task 0's once it reads", "terminal_test.py",
              'read_until(master, b"got <typed>")'),
    Elsewhere("foreground: ^C ends a job that does not read", "terminal_test.py", 'b"SIGINT: ending 2 tasks"'),
    # -- the rest of the man page.
    Elsewhere("--label: whole lines", "label_test.sh", 'fail "a line without its label"'),
    Elsewhere("--output", "output_test.sh", 'fail "stderr of task $i"'),
    Elsewhere("--restarts", "restart_test.sh", "run -n 2 --restarts 3"),
    Elsewhere("the end of the failed task's stderr", "stderr_test.sh", "the last 2 lines of task 2's stderr"),
    Elsewhere("several commands", "apps_test.sh", "-n 1 --env B=own --chdir / sh -c"),
    Elsewhere("--dry-run", "dry_run_test.sh", 'fail "RANK of $i"'),
    Run("environment: what torchrun, MPI and JAX call the task, the number of tasks, 0",
        ["-n", "3", "--restarts", "4", "sh", "-c", NAMES], 0, out=r"\A(127.0.0.1 \d+ 127.0.0.1:\d+\n)\1\1\Z"),
    Elsewhere("environment: nothing of a job around", "environment_test.sh", "the outer job shows through"),
    Elsewhere("many tasks", "many_test.sh", "-n 4096"),
]


def check_run(row):
    with tempfile.TemporaryDirectory(prefix="conventions-") as folder:
        job = Job(row, folder)
        try:
            if row.provoke:
                row.provoke(job)
            elif row.stdin == "pipe":
                require(job.process.wait(PATIENCE) == row.status, "status")  # with its input open
            status = job.wait()
            require(status == row.status, "exit status %d instead of %d" % (status, row.status))
            await_("nothing of it lives", lambda: not [pid for pid in marked() if pid != os.getpid()])
            segment = "/dev/shm/muster-%d-%s" % (os.geteuid(), job.name)
            await_("its segment is gone", lambda: not os.path.exists(segment))
            for name in ("stdout", "stderr"):
                wanted = row.out if name == "stdout" else row.err
                require(re.search(wanted, job.text(name), re.M), "%s lacks: %s" % (name, wanted))
        except (Broken, OSError, subprocess.TimeoutExpired) as error:
            if job.pid in marked():
                job.kill(signal.SIGKILL)  # the guard does the rest
            return "%s\nstdout: %s\nstderr: %s" % (error, job.text("stdout")[-2000:], job.text("stderr")[-2000:])
    return ""


def check_elsewhere(row):
    with open(os.path.join(HERE, row.test)) as f:
        return "" if row.line in f.read() else "tests/launch/%s has no line: %s" % (row.test, row.line)


def main():
    failed = 0
    for row in TABLE:
        started = time.monotonic()
        problem = check_run(row) if isinstance(row, Run) else check_elsewhere(row)
        where = "%.2f s" % (time.monotonic() - started) if isinstance(row, Run) else row.test
        print("%s %s (%s)%s" % ("FAIL" if problem else "ok  ", row.what, where, problem and ":\n" + problem))
        failed += problem != ""
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
