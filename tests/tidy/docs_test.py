#!/usr/bin/env python3
"""The documents keep their word: links lead somewhere, targets and files that they name exist, man pages are clean."""
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
pages()
house.done("%d documents, %d man pages" % (len(MARKDOWN), len(MAN)))
