#!/usr/bin/env python3
"""docs/LIMITS.md says what the sources say: each number is read from the constant beside it, and a client's from its header,
where that is installed; and no limit of the public headers or of a dialect is missing there.
variants: release
"""
import glob
import os
import re
import sys

TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFINED = r"(?m)(?:^#define[ \t]+|\b)%s(?:[ \t]*=|[ \t])[ \t]*(\(?[\dxa-fA-FuUlL<>+* ()]*\d[uUlL]*\)?)"
# Where limits of clients stand: each must have its row.
MUST = {"include/muster/*.h": r"MUSTER_\w+_MAX", "src/compat/tcpstore_scan.h": r"MU_TS_\w+_MAX", "src/compat/pmi1.h": r"MU_PMI1_\w+_MAX",
        "src/compat/pmix_abi.h": r"MU_PMIX_\w+_MAX", "src/coord/private.h": r"MU_WIRE_\w+_MAX"}
# Not a client's: an operation of a group; what the parser of a line has room for; ranks and names derived from others.
APART = {"MUSTER_OP_MAX", "MU_PMI1_FIELDS_MAX", "MUSTER_NCCL_RANKS_MAX", "MUSTER_NCCL_IDS_MAX", "MUSTER_STREAM_NAME_MAX"}
problems = []


def value_of(name, path):
    """The constant's number; None: it is not there."""
    with open(path) as f:
        found = re.search(DEFINED % re.escape(name), f.read())
    return eval(re.sub(r"[uUlL]+\b", "", found.group(1)), {"__builtins__": {}}) if found else None  # digits, << and * alone


def check(row, said, name, path):
    number = value_of(name, path)
    if number != int(said.replace(",", "")):
        problems.append("%s: %s in %s is %s, not %s" % (row, name, path, number, said))


with open(os.path.join(TOP, "docs/LIMITS.md")) as f:
    text = f.read()
rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| `(\w+)` in (\S+) \|(.*)$", text, re.M)
told = [line for line in text.splitlines() if re.match(r"\| .*\d", line)]
if len(rows) != len(told) or len(rows) < 20:
    problems.append("%d rows of %d name a constant" % (len(rows), len(told)))
for row, said, name, path, rest in rows:
    check(row, said, name, os.path.join(TOP, path))
    theirs = re.search(r"`(\w+)` in (\S+): ([\d,]+)", rest)
    header = glob.glob("/usr/lib/*/pmix2/include/" + theirs.group(2)) if theirs else []
    if header:
        check(row, theirs.group(3), theirs.group(1), header[0])
    if theirs and theirs.group(3) != said:
        problems.append("%s: muster's is %s, the client's %s" % (row, said, theirs.group(3)))
named = {name for _, _, name, _, _ in rows}
for pattern, names in MUST.items():
    for path in glob.glob(os.path.join(TOP, pattern)):
        with open(path) as f:
            for name in sorted(set(re.findall(r"(?m)^#define\s+(%s)\s" % names, f.read())) - named - APART):
                problems.append("docs/LIMITS.md has no row for %s in %s" % (name, os.path.relpath(path, TOP)))
for sentence in problems:
    print(sentence)
sys.exit(1 if problems else 0)
