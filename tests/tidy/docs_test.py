#!/usr/bin/env python3
"""The documents keep their word: links lead somewhere, targets and files that they name exist, man pages are clean; and
every invariant has its evidence, whose files, tests and programs are there, as are the functions that are named."""
import os
import re
import shutil
import subprocess

import house
from house import broken

ALL = house.files()
MARKDOWN = house.under(ALL, ("",), (".md",))
MAN = [f for f in ALL if re.match(r"man/[\w.-]+\.[1-8]$", f)]


def targets():
    """What can be typed after make, in this tree."""
    found = set()
    for path in ["Makefile"] + house.under(ALL, ("mk/", "tests/", "bench/"), (".mk",)):
        text = house.read(path).replace("\\\n", " ")
        for line in re.findall(r"^\.PHONY:(.*)$", text, re.M):
            found.update(line.split())
    return found


def slug(title):
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).strip().replace(" ", "-")


def links():
    for path in MARKDOWN:
        text = re.sub(r"^```.*?^```", "", house.read(path), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(to):
                broken(path, "links to %s, which is not there" % target)
            elif anchor and to.endswith(".md"):
                titles = re.findall(r"^#+ +(.*)$", house.read(to), re.M)
                if anchor not in {slug(t) for t in titles}:
                    broken(path, "links to %s, which has no such title" % target)


def commands():
    known = targets()
    for path in MARKDOWN:
        for shown in re.findall(r"`make ([a-z][\w-]*)", house.read(path)) + \
                re.findall(r"^(?:\$ )?(?:CC=\w+ )?make ([a-z][\w-]*)", house.read(path), re.M):
            if shown not in known:
                broken(path, "shows `make %s`, which is no target" % shown)
    if not os.path.exists("README.md"):
        broken("README.md", "is not there")
        return
    text = house.read("README.md")
    for shown in ("make demo", "make check"):
        if shown not in text:
            broken("README.md", "does not show `%s`" % shown)
    for shown in re.findall(r"^make ([a-z][\w-]*)", house.read("scripts/help.txt"), re.M):
        if shown not in known:
            broken("scripts/help.txt", "shows `make %s`, which is no target" % shown)


INVARIANT = re.compile(r"\*\*(I\d+) ")
EVIDENCE, INTERNALS = "docs/EVIDENCE.md", "docs/INTERNALS.md"
BASENAMES = {os.path.basename(f) for f in ALL}
FILE = re.compile(r"(?<![\w/.<*-])[\w./-]+\.(?:c|h|md|py|sh|pml|txt|mk|proto|map)(?![\w.*])")
FOLDER = re.compile(r"(?<![\w/.<])(?:src|tests|docs|bench|include|shm_layout|plugins|python)/[\w/]*(?![\w.*<{])")
STANDS_FOR_ANY = re.compile(r"(?:^|/)[DXY](?:$|[/._])")  # tests/D/X_test.c


def invariants():
    """Those of docs/DESIGN.md have a section each in docs/EVIDENCE.md, which has the command and the breaks tried."""
    stated = INVARIANT.findall(house.read("docs/DESIGN.md"))
    sections = dict(re.findall(r"^## (I\d+) [^\n]*\n(.*?)(?=^## |\Z)", house.read(EVIDENCE), re.M | re.S))
    if len(stated) < 16 or len(set(stated)) != len(stated):
        broken("docs/DESIGN.md", "states %d invariants, %d of them different" % (len(stated), len(set(stated))))
    for one in stated:
        if one not in sections:
            broken(EVIDENCE, "has no section of %s" % one)
            continue
        for words in ("Tested by", "Broken:", "Not covered:"):
            if words not in sections[one]:
                broken(EVIDENCE, "%s: does not say '%s'" % (one, words))
    for one in sections:
        if one not in stated:
            broken(EVIDENCE, "has a section of %s, which docs/DESIGN.md does not state" % one)


def is_file(name):
    """A path from the top, or the end of one: the tables name a room's files without their room."""
    return os.path.exists(name) or name in BASENAMES if "/" not in name else \
        os.path.exists(name) or any(f.endswith("/" + name) for f in ALL)


def words_of_c():
    """Every name in the sources, whatever it means there."""
    found = set()
    for path in house.under(ALL, ("src/", "include/", "shm_layout/", "tests/", "plugins/", "bench/"),
                            (".c", ".h", ".py", ".sh", ".pml")):
        found.update(re.findall(r"\w+", house.read(path)))
    return found


def programs(path, text):
    """What is to be typed: scripts that are there, and programs that some source makes."""
    for line in re.findall(r"^    (\S.*)$", text, re.M):
        for name in FILE.findall(line) + FOLDER.findall(line):
            if not is_file(name):
                broken(path, "shows %s, which is not there" % name)
        for name in re.findall(r"\bbuild/[\w-]+/((?:tests|bench)/[\w/]+)", line):
            if not any(os.path.exists(name + end) for end in (".c", "_main.c")):
                broken(path, "shows build/…/%s, of which there is no source" % name)


def names():
    """What stands in `code` in the two documents that name most: files, functions, cases of tests, models' flags."""
    words = words_of_c()
    for path in (EVIDENCE, INTERNALS):
        text = re.sub(r"^```.*?^```", "", house.read(path), flags=re.M | re.S)
        programs(path, text)
        for code in re.findall(r"`([^`\n]+)`", text):
            for name in FILE.findall(code) + FOLDER.findall(code):
                if not STANDS_FOR_ANY.search(name) and not is_file(name):
                    broken(path, "names %s, which is not there" % name)
            for name in re.findall(r"\b((?:mu|muster|MU|MUSTER)_\w+)\b", code) + re.findall(r"\b([a-z]\w+)\(\)", code):
                if name not in words and not (name.endswith("_") and any(w.startswith(name) for w in words)):
                    broken(path, "names %s, which is nowhere in the sources" % name)
            for name in re.findall(r"-D([A-Z]\w+)", code):
                if name not in words:
                    broken(path, "names the flag %s, which no model has" % name)
            if re.fullmatch(r"[a-z]+(?:_[a-z0-9]+){2,}", code) and code not in words:  # a case of a test
                broken(path, "names %s, which is nowhere in the sources" % code)


def pages():
    if MAN and not shutil.which("mandoc"):
        print("mandoc is not installed: the man pages are not checked")
        return
    for path in MAN:
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        for line in lint.stdout.splitlines():
            broken(path, line)


links()
commands()
invariants()
names()
pages()
house.done("%d documents, %d man pages" % (len(MARKDOWN), len(MAN)))
