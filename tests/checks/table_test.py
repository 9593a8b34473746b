#!/usr/bin/env python3
"""table.txt is whole: 282 sentences, each with a test or the reason why it has none, never both.

variants: release
"""
import glob
import importlib
import os
import sys

import harness

NUMBER = 282

for path in sorted(glob.glob(os.path.join(harness.HERE, "*_test.py"))):
    name = os.path.basename(path)[:-len(".py")]
    if name != "table_test":
        importlib.import_module(name)
table, tested = harness.sentences(), {}
for number, dialect, *_ in harness.CHECKS:
    if dialect in tested.setdefault(number, ""):
        sys.exit("FAIL: %d is checked twice in %s" % (number, dialect))
    tested[number] += dialect
wrong = ["%d is not in the table" % number for number in range(1, NUMBER + 1) if number not in table]
wrong += ["%d is more than there are" % number for number in set(table) | set(tested) if not 1 <= number <= NUMBER]
for number, (how, sentence, reason) in sorted(table.items()):
    if how not in ("S", "W", "C") or not sentence:
        wrong.append("%d: not a row" % number)
    if (reason is None) == (number not in tested):
        wrong.append("%d has %s: %s" % (number, "neither a test nor a reason" if reason is None else "a test, and a reason not to",
                                        sentence))
print("\n".join("FAIL: " + line for line in wrong) or "%d sentences: %d with tests (%s), %d with a reason" % (
    len(table), len(tested), ", ".join("%s %d" % (one, sum(one in all for all in tested.values())) for one in "ABC"),
    sum(reason is not None for _, _, reason in table.values())))
sys.exit(bool(wrong))
