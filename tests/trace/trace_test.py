#!/usr/bin/env python3
"""`muster trace` of a job of which it is known who waited for whom: the JSON, the table, post mortem and stopped.

No duration is compared with what should be quick: only with each other, and with who has to have been there first.
"""
import collections
import json
import os
import signal
import subprocess
import sys

BUILD = os.environ["BUILD"]
MUSTER = os.environ["MUSTER"]
TRACED = os.path.join(BUILD, "tests/trace/traced")
JOB = "t%d-trace" % os.getpid()
OUT = os.path.join(os.environ.get("TMPDIR", "/tmp"), "trace.json")
problems = []


def expect(holds, sentence):
    if not holds:
        problems.append(sentence)


def muster(*words, status=0):
    done = subprocess.run([MUSTER, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    expect(done.returncode == status, "muster %s: exit status %d, not %d: %s" %
           (" ".join(words), done.returncode, status, done.stderr))
    return done


def of_kind(document, phase):
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def meetings(document, category):
    """(name, instance) -> its spans in order of arrival."""
    found = collections.defaultdict(list)
    for span in of_kind(document, "X"):
        if span["cat"] == category:
            found[span["name"], span["args"]["instance"]].append(span)
    return {key: sorted(spans, key=lambda span: span["ts"]) for key, spans in found.items()}


def check_meeting(where, spans, last=None):
    expect(sorted(span["pid"] for span in spans) == [0, 1, 2], "%s: came: %s" % (where, [s["pid"] for s in spans]))
    expect({span["args"]["status"] for span in spans} == {"OK"}, "%s is not OK for all" % (where,))
    latest, first = spans[-1], spans[0]
    if last is not None:
        expect(latest["pid"] == last, "%s: task %d came last, not %d" % (where, latest["pid"], last))
    for span in spans:
        expect(span["args"]["last_task"] == latest["pid"], "%s: last_task" % (where,))
        expect(span["args"]["arrivals"] == 3, "%s: arrivals" % (where,))
        expect(abs(span["args"]["after_first_us"] - (span["ts"] - first["ts"])) < 0.01, "%s: after_first_us" % (where,))
        # nobody leaves before the last has come: what a barrier is
        expect(span["ts"] + span["dur"] >= latest["ts"], "%s: task %d left before the last came" % (where, span["pid"]))


def check_threads(document):
    """On one thread, spans follow each other."""
    threads = collections.defaultdict(list)
    for span in of_kind(document, "X"):
        threads[span["pid"], span["tid"]].append((span["ts"], span["ts"] + span["dur"], span["name"]))
        expect(span["dur"] >= 0, "%s lasts %f" % (span["name"], span["dur"]))
    for spans in threads.values():
        spans.sort()
        for one, next_one in zip(spans, spans[1:]):
            expect(one[1] <= next_one[0] + 0.001, "%s and %s overlap" % (one[2], next_one[2]))
    names = {(event["pid"], event["tid"]) for event in of_kind(document, "M") if event["name"] == "thread_name"}
    expect(set(threads) <= names, "threads without a name")


def check_acts(document):
    named, groups = meetings(document, "barrier"), meetings(document, "group")
    for i in range(4):
        check_meeting(("epoch", i), named[("epoch", i)], i % 3)
        check_meeting(("ring", i + 1), groups[("ring", i + 1)], 1)
        check_meeting(("between", i), named[("between", i)])
    check_meeting(("end", 0), named[("end", 0)])
    expect(len(groups) == 4, "group barriers: %s" % list(groups))
    keys = [span for span in of_kind(document, "X") if span["cat"] == "key"]
    expect([(k["name"], k["pid"], k["args"]) for k in keys] == [('go/"now"', 0, {"status": "OK", "version": 1})],
           "waits for keys: %s" % keys)
    processes = {event["pid"]: event["args"]["name"] for event in of_kind(document, "M")
                 if event["name"] == "process_name"}
    for task in range(3):
        expect(processes.get(task, "").startswith("task %d (pid " % task), "processes: %s" % processes)
    connected = [event for event in of_kind(document, "i") if event["name"].endswith(" CONNECTED")]
    expect(sorted(event["pid"] for event in connected) == [0, 1, 2], "joins: %s" % connected)
    check_threads(document)
    return named


def without_times(document):
    """Times are the better known the later they are read: a counter's rate is."""
    return json.loads(json.dumps(document), object_hook=lambda it: {
        key: value for key, value in it.items() if key not in ("ts", "dur", "after_first_us")})


def post_mortem():
    subprocess.run([TRACED, JOB, "1024", "4"], check=True, timeout=60)
    plain = muster("trace", "--job", JOB)
    document = json.loads(plain.stdout)
    named = check_acts(document)
    expect(document["otherData"] == {"job": JOB, "tasks": 3, "events_lost": 0}, "otherData: %s" % document["otherData"])
    never = named[("never", 0)]
    expect(sorted(span["pid"] for span in never) == [0, 1], "never: %s" % never)
    expect({span["args"]["status"] for span in never} == {"INTERNAL"}, "never: %s" % never)
    instants = of_kind(document, "i")
    errors = [event for event in instants if event["name"] == "task 2 ERROR"]
    expect(len(errors) == 1 and errors[0]["args"]["cause"] == "died" and errors[0]["s"] == "g", "errors: %s" % errors)
    deaths = [event for event in instants if event["cat"] == "death"]
    expect(deaths and all(event["pid"] == 2 and event["args"]["pid"] == errors[0]["args"]["pid"] for event in deaths),
           "deaths: %s" % deaths)
    # the others return from the barrier because of the error
    for span in never:
        expect(errors and span["ts"] + span["dur"] >= errors[0]["ts"], "never ended before the error")
    muster("trace", "--job", JOB, "--output", OUT)
    with open(OUT) as f:
        expect(without_times(json.load(f)) == without_times(document), "the file holds something else")
    return document


def table(document):
    text = muster("trace", "--job", JOB, "--stragglers").stdout
    rows = [line.split() for line in text.splitlines()]
    epochs = [row for row in rows if row[:1] == ["epoch"]]
    expect([(row[1], row[2], row[3]) for row in epochs] == [("0", "3", "0"), ("1", "3", "1"), ("2", "3", "2"),
                                                            ("3", "3", "0")], "epochs: %s" % epochs)
    expect([row[3] for row in rows if row[:1] == ["ring"]] == ["1"] * 4, "ring: %s" % text)
    totals = {row[0]: row for row in rows[rows.index([]) + 2:] if row}
    last = collections.Counter(spans[-1]["pid"] for category in ("barrier", "group")
                               for spans in meetings(document, category).values())
    for task in range(3):
        expect(int(totals[str(task)][2]) == last[task], "totals of task %d: %s" % (task, text))
    expect(totals["0"][1] == "14" and totals["2"][1] == "13", "barriers: %s" % text)


def wrapped():
    """A ring that cannot hold all: less is told, all of it right, and what is missing is counted."""
    subprocess.run([TRACED, JOB, "1", "40"], check=True, timeout=60)  # rounded up to 64 a thread
    document = json.loads(muster("trace", "--job", JOB).stdout)
    expect(document["otherData"]["events_lost"] > 200, "lost: %s" % document["otherData"])
    check_threads(document)
    groups = meetings(document, "group")
    expect(groups and min(instance for _, instance in groups) > 20, "the oldest are kept: %s" % list(groups))
    for key, spans in groups.items():
        if key[1] > 30:
            check_meeting(key, spans, 1)
    never = meetings(document, "barrier")[("never", 0)]
    expect(sorted(span["pid"] for span in never) == [0, 1], "never: %s" % never)
    expect("have been overwritten" in muster("trace", "--job", JOB, "--stragglers").stdout, "the table does not say so")


def stopped():
    """Every process is stopped, two of them inside a barrier."""
    play = subprocess.Popen([TRACED, JOB, "256", "4", "stop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        expect(play.stdout.readline() == "waiting\n", "the job did not come so far")
        tasks = [row["pid"] for row in json.loads(muster("task", "list", "--job", JOB, "--json").stdout)["tasks"]]
        for pid in tasks + [play.pid]:
            os.kill(pid, signal.SIGSTOP)
        document = json.loads(muster("trace", "--job", JOB).stdout)
        never = check_acts(document)[("never", 0)]
        expect(sorted((span["pid"], span["args"]["status"]) for span in never) ==
               [(0, "has not returned"), (1, "has not returned")], "never: %s" % never)
        row = [line.split() for line in muster("trace", "--job", JOB, "--stragglers").stdout.splitlines()
               if line.startswith("never ")][0]
        expect(row[2] == "2" and row[-1] == "open", "never: %s" % row)
        for pid in tasks + [play.pid]:
            os.kill(pid, signal.SIGCONT)
        play.communicate("\n", timeout=60)
        expect(play.returncode == 0, "the job ended with %d" % play.returncode)
    finally:
        if play.poll() is None:
            os.kill(play.pid, signal.SIGCONT)
            play.kill()
            play.wait()
    # all are dead, nobody has buried them
    never = meetings(json.loads(muster("trace", "--job", JOB).stdout), "barrier")[("never", 0)]
    expect({span["args"]["status"] for span in never} == {"has not returned"}, "post mortem: %s" % never)


def usage():
    expect("without a trace" in muster("trace", "--job", JOB, status=1).stderr, "an untraced job is not said to be one")
    with open(OUT, "w") as f:
        f.write("of an earlier job")
    for more in [], ["--stragglers"]:
        muster("trace", "--job", JOB, "--output", OUT, *more, status=1)
        with open(OUT) as f:
            expect(f.read() == "of an earlier job", "a file is lost to a trace that cannot be read")
    expect(muster("trace", "--job", JOB, "--output", "/no/such/folder/x", status=1).stderr.count("\n") == 1,
           "a file that cannot be made")
    muster("trace", "operand", status=2)
    muster("trace", "--no-such-option", status=2)
    muster("trace", "--output", status=2)
    muster("trace", "--job", JOB + "-not-there", status=3)


def launched():
    """As `muster run --trace` starts it, from the outside."""
    job = subprocess.Popen([MUSTER, "run", "-n", "2", "--job", JOB, "--trace", "--", "sh", "-c",
                            "muster barrier wait ready && echo up && exec sleep 1000"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, text=True,
                           env=dict(os.environ, PATH=os.path.dirname(MUSTER) + ":" + os.environ["PATH"]))
    try:
        for _ in range(2):
            expect(job.stdout.readline() == "up\n", "the tasks of the launched job are not up")
        spans = meetings(json.loads(muster("trace", "--job", JOB).stdout), "barrier").get(("ready", 0), [])
        expect(sorted(span["pid"] for span in spans) == [0, 1], "launched: %s" % spans)
    finally:
        job.terminate()
        job.wait(60)


for act in (post_mortem, wrapped, stopped):
    try:
        document = act()
        if act is post_mortem:
            table(document)
    finally:
        muster("segment", "rm", JOB, "--force")
job = subprocess.Popen([MUSTER, "run", "-n", "1", "--job", JOB, "--", "sh", "-c", "echo up; exec sleep 1000"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
try:
    job.stdout.readline()
    usage()
finally:
    job.terminate()
    job.wait(60)
launched()
for problem in problems:
    print(problem)
print("%d problems" % len(problems))
sys.exit(1 if problems else 0)
