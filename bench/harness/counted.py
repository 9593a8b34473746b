#!/usr/bin/env python3
"""Instructions and system calls of single operations: what explains a time, and does not change with the machine's load.

    counted.py instructions HOT FEWER MORE [OPERATION...]     by valgrind's callgrind
    counted.py calls HOT FEWER MORE [OPERATION...]            by strace
    counted.py wakes ELASTIC                                  by strace: FUTEX_WAKEs of a change of the membership
    counted.py launch MUSTER SPAWN                            by strace: `muster run -n 8 -- true`, and eight posix_spawn

HOT is bench/hot.c's program. It runs with fewer and with more operations, and the difference is divided by theirs: what
comes before and after the operations is in both. Instructions are those of the first task within the public call; system
calls are those of all the job's processes, but not the sleeps by which the program itself waits for the other task.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

CALL = {"get": "muster_kv_try_get", "get-any": "muster_kv_try_get", "set": "muster_kv_set", "set-any": "muster_kv_set",
        "insert": "muster_kv_insert", "increment": "muster_kv_increment", "group": "muster_group_barrier",
        "named": "muster_barrier_wait", "named-alone": "muster_barrier_wait", "parked": "muster_kv_get",
        "heartbeat": "muster_heartbeat"}
SHOWN = 6  # functions


def emit(metric, value, unit, who="muster"):
    print(json.dumps({"metric": metric, "who": who, "value": value, "unit": unit}))


def emit_fact(fact, text):
    print(json.dumps({"fact": fact, "text": text}))


def run(command):
    """(pid, what it says to stderr)"""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate()
    said = said.decode(errors="replace")
    if process.returncode:
        raise SystemExit("%s ended with %d: %s" % (" ".join(command), process.returncode, (said.splitlines() or [""])[-1]))
    return process.pid, said


# ---- instructions ----

def by_function(path):
    """{function: instructions of its own} of a callgrind file."""
    done = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        match = re.match(r"\s*([\d,]+) (?:\([^)]*\))?\s+\S*?:([\w.@']+)", line)
        if match:
            name = re.sub(r"'\d+$", "", match.group(2))
            found[name] = found.get(name, 0) + int(match.group(1).replace(",", ""))
    return found


def instructions_of(hot, operation, count, folder):
    out = os.path.join(folder, "%d" % count)
    pid, said = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=%s.%%p" % out, "--toggle-collect=" + CALL[operation],
                     hot, operation, str(count)])
    match = re.search(r"==%d== Collected : (\d+)" % pid, said)
    if not match:
        raise SystemExit("callgrind tells no sum of %s" % operation)
    return int(match.group(1)), by_function("%s.%d" % (out, pid))


def count_instructions(hot, fewer, more, operations):
    for operation in operations:
        with tempfile.TemporaryDirectory() as folder:
            (low, low_by), (high, high_by) = (instructions_of(hot, operation, count, folder) for count in (fewer, more))
        times = more - fewer
        emit("count.%s.instructions" % operation, (high - low) / times, "instructions")
        each = sorted(((high_by[name] - low_by.get(name, 0)) / times, name) for name in high_by)
        emit_fact("instructions: " + operation,
                  ", ".join("%s %.0f" % (name, value) for value, name in each[:-1 - SHOWN:-1] if value >= 0.5))


# ---- system calls ----

def calls_of(command):
    """{system call: how often} by all processes."""
    with tempfile.NamedTemporaryFile("r") as f:
        run(["strace", "-f", "-c", "-o", f.name, *command])
        lines = f.read().splitlines()
    found = {}
    for line in lines:
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            found[words[-1]] = int(words[3])
    return found


def count_calls(hot, fewer, more, operations):
    for operation in operations:
        low, high = (calls_of([hot, operation, str(count)]) for count in (fewer, more))
        each = {name: (high[name] - low.get(name, 0)) / (more - fewer) for name in high if name != "clock_nanosleep"}
        each = {name: value for name, value in each.items() if value >= 0.05}
        emit("count.%s.calls" % operation, sum(each.values()), "system calls")
        if each:
            emit_fact("system calls: " + operation, words_of(each, "%.1f"))


def words_of(each, form):
    return ", ".join(("%s " + form) % (name, value) for name, value in sorted(each.items(), key=lambda item: (-item[1], item[0])))


def count_launch(muster, spawn):
    for who, command in (("muster", [muster, "run", "-n", "8", "--", "true"]),
                         ("posix_spawn", [spawn, "count", "posix_spawn", "1", "8", "true"])):
        each = calls_of(command)
        if who == "posix_spawn":
            each = {name: count / 2 for name, count in each.items()}  # it warms up by one round more
        emit("count.run.8.calls", sum(each.values()), "system calls", who)
        most = dict(sorted(each.items(), key=lambda item: -item[1])[:8])
        emit_fact("system calls: run, %s" % who, words_of(most, "%.0f"))


def wakes_of(command):
    """(how often somebody was woken by the futex of another process, how often somebody slept on two)"""
    with tempfile.NamedTemporaryFile("r") as f:
        run(["strace", "-f", "-e", "trace=futex,futex_waitv", "-o", f.name, *command])
        said = f.read()
    return len(re.findall(r"FUTEX_WAKE,", said)), len(re.findall(r"futex_waitv\(", said))


def count_wakes(elastic, fewer=20, more=100):
    low, high = (wakes_of([elastic, "change", "8", "0", str(count)]) for count in (fewer, more))
    for name, less, all_of_them in zip(("wakes", "sleeps"), low, high):
        emit("elastic.change.8." + name, (all_of_them - less) / (more - fewer), "a change")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "wakes":
        count_wakes(sys.argv[2])
        return
    if len(sys.argv) < 4 or sys.argv[1] not in ("instructions", "calls", "launch"):
        raise SystemExit("usage: counted.py instructions|calls HOT FEWER MORE [OPERATION...] | wakes ELASTIC | launch MUSTER SPAWN")
    if sys.argv[1] == "launch":
        count_launch(*sys.argv[2:4])
        return
    count = count_instructions if sys.argv[1] == "instructions" else count_calls
    count(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:] or list(CALL))


if __name__ == "__main__":
    main()
