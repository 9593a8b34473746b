#!/usr/bin/env python3
"""Stubs of glibc as it was at a given version, to link with: what is linked so runs on every glibc since then.

    packaging/floor.py FOLDER LIMIT READELF LIBC LIBM      (2.28, readelf, …/libc.so.6, …/libm.so.6)

glibc keeps every version of each of its symbols for ever, but a linker only binds to the newest. FOLDER gets a source
in assembler and a version script for each library, in which each symbol has the newest version that is at most LIMIT,
and a symbol that is younger than LIMIT is missing. glibc 2.34 moved libpthread, libdl and librt into libc: what moved is
put back, so that older ones find it there; newer ones have these three as empty libraries. Symbols of data that share
an address go on sharing it, and the weak stay weak: so the linker knows that they are one, and copies it into a program.
"""
import collections
import os
import re
import subprocess
import sys

LINE = re.compile(r"^ *\d+: ([0-9a-f]+) +(\d+|0x[0-9a-f]+) (FUNC|IFUNC|OBJECT) +(GLOBAL|WEAK|UNIQUE) +DEFAULT +(\d+) "
                  r"(\S+?)@@?(GLIBC_[0-9.]+)(?: |$)")
MOVED = (("libpthread", ("pthread_", "sem_", "__pthread_")), ("libdl", ("dl",)),
         ("librt", ("shm_", "timer_", "mq_", "aio_", "lio_")))
FILES = {"libc": "libc.so.6", "libm": "libm.so.6", "libpthread": "libpthread.so.0", "libdl": "libdl.so.2",
         "librt": "librt.so.1"}


def number(version):
    return tuple(int(part) for part in version.replace("GLIBC_", "").split("."))


def symbols_of(readelf, path):
    """name -> [(its number, version, kind, value, size, binding)] of what the library defines."""
    text = subprocess.run([readelf, "--dyn-syms", "--wide", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = collections.defaultdict(list)
    for match in filter(None, map(LINE.match, text.splitlines())):
        value, size, kind, binding, section, name, version = match.groups()
        if section != "0":
            found[name].append((number(version), version, kind, int(value, 16), int(size, 0), binding))
    return found


def home_of(library, name, newest, limit):
    """The library that had the symbol at the limit."""
    if library == "libc" and newest > limit and newest[:2] >= (2, 32):
        for home, prefixes in MOVED:
            if name.startswith(prefixes):
                return home
    return library


def stub_text(symbols):
    """The assembler's lines for [(name, version, kind, value, size, binding)]."""
    lines, objects = [".text"], collections.defaultdict(list)
    for count, (name, version, kind, value, size, binding) in enumerate(symbols):
        if kind == "OBJECT":
            objects[value].append((count, name, version, size, binding))
            continue
        lines += ["s%d: .byte 0" % count, ".globl s%d" % count,
                  ".type s%d, %%function" % count, ".symver s%d, %s@@%s, remove" % (count, name, version)]
    lines += [".data"]
    for aliases in objects.values():
        lines.append(".balign 64")
        for count, name, version, size, binding in aliases:
            lines += ["s%d:" % count, (".weak s%d" if binding == "WEAK" else ".globl s%d") % count,
                      ".type s%d, %%object" % count,
                      ".size s%d, %d" % (count, size), ".symver s%d, %s@@%s, remove" % (count, name, version)]
        lines.append(".zero %d" % max(1, *(alias[3] for alias in aliases)))
    return "\n".join(lines + ['.section .note.GNU-stack,"",%progbits', ""])


def main(folder, limit_text, readelf, libc, libm):
    limit = number(limit_text)
    stubs = {library: [] for library in FILES}
    for library, path in (("libc", libc), ("libm", libm)):
        for name, versions in sorted(symbols_of(readelf, path).items()):
            old = [one for one in versions if one[0] <= limit]
            if old:
                stubs[home_of(library, name, max(versions)[0], limit)].append((name, *max(old)[1:]))
    os.makedirs(folder, exist_ok=True)
    for library, symbols in stubs.items():
        with open(os.path.join(folder, library + ".s"), "w") as f:
            f.write(stub_text(symbols))
        with open(os.path.join(folder, library + ".map"), "w") as f:
            f.writelines("%s { };\n" % version for version in sorted({one[1] for one in symbols}, key=number))


if __name__ == "__main__":
    main(*sys.argv[1:])
