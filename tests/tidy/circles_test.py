#!/usr/bin/env python3
"""No circle of source files that call each other is larger than LIMIT. The linker's symbols say who calls whom."""
# variants: release
import collections
import glob
import os
import subprocess

import house

LIMIT = 6


def circles(calls):
    """The strongly connected components of {file: files that it calls} with more than one file, by Tarjan."""
    number, low, stack, found = {}, {}, [], []

    def visit(v):
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in calls.get(v, ()):
            if w not in number:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == number[v]:
            part = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(part) > 1:
                found.append(sorted(part))

    for v in sorted(calls):
        if v not in number:
            visit(v)
    return found


def symbols(folder):
    """{file: files whose symbols its object leaves undefined}."""
    defined, wanted = {}, collections.defaultdict(set)
    objects = glob.glob(os.path.join(folder, "obj", "src", "**", "*.o"), recursive=True)
    names = {path: os.path.relpath(path, os.path.join(folder, "obj", "src"))[:-2] for path in objects}
    names = {path: name for path, name in names.items() if os.path.exists(os.path.join("src", name + ".c"))}
    for path, name in names.items():
        for line in subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
            words = line.split()
            if len(words) == 2:
                wanted[name].add(words[1])
            elif words[1] in "TDBRVWC":
                defined[words[2]] = name
    return {name: {defined[s] for s in wanted[name] if defined.get(s, name) != name} for name in names.values()}


def check(calls):
    for circle in circles(calls):
        if len(circle) > LIMIT:
            house.broken("src/" + circle[0], "%d files call each other in a circle, more than %d: %s" % (
                len(circle), LIMIT, " ".join(circle)))


# The rule catches what it is for: a circle of seven, and not one of six, nor seven in a row.
for size, closed, caught in ((7, True, True), (6, True, False), (7, False, False)):
    ring = {"kv/%d" % i: {"kv/%d" % ((i + 1) % size)} for i in range(size - (not closed))}
    if any(len(c) > LIMIT for c in circles(ring)) != caught:
        house.broken("tests/tidy/circles_test.py", "a planted %s of %d is judged wrongly" % (
            "circle" if closed else "row", size))

calls = symbols(os.environ.get("BUILD", "build/release"))
if len(calls) < 300:
    house.broken("build/release", "has %d objects: what is checked has not been built" % len(calls))
check(calls)
house.done("%d files, the largest circle has %d" % (len(calls), max(map(len, circles(calls)), default=0)))
