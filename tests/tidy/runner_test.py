#!/usr/bin/env python3
"""The runner itself: it must fail what hangs, crashes, or leaves something behind, and count right.

It is run on small scripts that do each of these, in a folder of their own.
"""
# timeout: 200
import os
import re
import subprocess
import sys

import house

FOLDER = os.environ.get("TMPDIR", "/tmp")
CASES = {
    # name: (script, expected result, expected text in its line)
    "passes": ("exit 0", "ok", ""),
    "skips": ("echo first; echo no GPU here; exit 77", "skip", "no GPU here"),
    "fails": ("echo what went wrong; exit 3", "FAIL", "exit status 3"),
    "crashes": ("kill -SEGV $$", "FAIL", "SIGSEGV"),
    "hangs": ("# timeout: 1\ntail -f /dev/null", "FAIL", "no end after 1 s"),
    "leaves_a_process": ("(exec tail -f /dev/null) & exit 0", "FAIL", "left running"),
    "skips_but_leaves": ("(exec tail -f /dev/null) & exit 77", "FAIL", "left running"),
    "leaves_a_session": ("setsid tail -f /dev/null & exit 0", "FAIL", "left running"),
    "has_its_folder": ('[ -d "$TMPDIR" ] && [ -z "$(ls -A "$TMPDIR")" ] && [ -n "$BUILD$MUSTER$TOP" ]', "ok", ""),
}
if os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0:
    CASES["leaves_a_segment"] = (": >/dev/shm/muster-$(id -u)-left; exit 0", "FAIL", "left behind: /dev/shm/muster-")
    CASES["sees_no_other_segment"] = ("! ls /dev/shm/muster-* 2>/dev/null", "ok", "")

# On a machine where twenty want each processor a second of a test's time is five.
sys.path.insert(0, os.path.join(house.TOP, "tests"))
sys.dont_write_bytecode = True
import runtests

runtests.LOADAVG = os.path.join(FOLDER, "loadavg")
for wanting, want in ((1, 1.0), (2, 1.0), (4, 0.5), (40, 0.2), (0, 1.0)):
    with open(runtests.LOADAVG, "w") as f:
        f.write("0.00 0.00 0.00 %d/400 17\n" % wanting)
    if runtests.pace(2) != want:
        house.broken("pace", "with %d on 2 processors is %r" % (wanting, runtests.pace(2)))
with open(runtests.LOADAVG, "w") as f:
    f.write("0.00 0.00 0.00 4000/4000 17\n")
if runtests.wait_for(subprocess.Popen(["sleep", "2"]), 1) != 0:  # sleep: longer than its time on an idle machine
    house.broken("wait_for", "a test is given up too soon")
os.remove(runtests.LOADAVG)

names = []
for name, (script, _, _) in CASES.items():
    path = os.path.join(FOLDER, name + "_test.sh")
    with open(path, "w") as f:
        f.write("#!/bin/bash\n" + script + "\n")
    os.chmod(path, 0o755)
    names.append(os.path.relpath(path, house.TOP) + "=release")

build = os.path.join(FOLDER, "build")
done = subprocess.run([sys.executable, "tests/runtests.py", "-j", str(len(CASES)), "--random", "7", "--build", build] + names,
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for name, (_, result, text) in CASES.items():
    line = re.search(r"^(\S+) +[\d.]+s  release  \S*/%s_test\.sh(.*)$" % name, done.stdout, re.M)
    if not line:
        house.broken(name, "has no line")
    elif line.group(1) != result or text not in line.group(2):
        house.broken(name, "expected %s %s, got: %s" % (result, text, line.group(0)))
results = [result for _, result, _ in CASES.values()]
summary = "%d passed, %d failed, %d skipped" % tuple(results.count(r) for r in ("ok", "FAIL", "skip"))
if done.stdout.splitlines()[-1] != summary or house.read(os.path.join(build, "check.summary")) != summary + "\n":
    house.broken("summary", "expected last: %s" % summary)
if "what went wrong" not in done.stdout:
    house.broken("log", "of a failing test is not printed")
if done.returncode != 1:
    house.broken("exit status", "is %d though tests failed" % done.returncode)
if house.is_broken():
    print(done.stdout)
house.done("%d cases" % len(CASES))
