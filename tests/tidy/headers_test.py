#!/usr/bin/env python3
"""What the library shows to the outside.

Each public header compiles alone, as C and as C++, with both compilers; each internal header compiles alone. The shared
library exports exactly the functions that the public headers declare, needs libc and protobuf-c alone, and its version is
the header's. Nothing in the archive is named outside muster_ and mu_.
"""
import concurrent.futures
import ctypes
import os
import re
import subprocess

import house
from house import broken

BUILD = os.environ.get("BUILD", "build/release")
ALL = house.files()
PROTO = os.path.join(os.path.dirname(BUILD), "proto")
PUBLIC = house.under(ALL, ("include/",), (".h",))
INTERNAL = house.under(ALL, ("src/", "shm_layout/"), (".h",))
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
# What the library links with beyond libc.
NEEDED = {"libprotobuf-c.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def alone():
    jobs = []
    for header in PUBLIC:
        text = '#include "%s"\n' % header[len("include/"):]
        for compiler in (["gcc", "-std=c11", "-x", "c"], ["clang", "-std=c11", "-x", "c"],
                         ["g++", "-std=c++11", "-x", "c++"], ["clang++", "-std=c++11", "-x", "c++"]):
            jobs.append((header, text, compiler + WARNINGS + ["-Iinclude"]))
    for header in INTERNAL:
        text = '#include "%s"\n' % (header[len("src/"):] if header.startswith("src/") else header)
        jobs.append((header, text, ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-x", "c", "-Wall", "-Wextra", "-Werror",
                                    "-Wno-unused-function", "-fsyntax-only", "-Iinclude", "-Isrc", "-I.", "-I" + PROTO]))

    def compile_one(job):
        header, text, command = job
        return header, command[0], run(*command, "-", input=text)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, compiler, result in pool.map(compile_one, jobs):
            if result.returncode:
                broken(header, "does not compile alone with %s:\n%s" % (compiler, result.stdout))
    return len(jobs)


def declared():
    found = set()
    for header in PUBLIC:
        code = house.code_only(house.read(header))
        code = re.sub(r"^\s*#.*(?:\\\n.*)*", "", code, flags=re.M)
        for statement in re.split(r"[;{}]", code):
            match = re.search(r"\b(muster_\w+)\s*\(", statement)
            if not match or "typedef" in statement:
                continue
            if "MUSTER_API" not in statement:
                broken(header, "%s() is declared without MUSTER_API" % match.group(1))
            if "static" in statement:
                broken(header, "%s() has a body; public headers have none" % match.group(1))
            found.add(match.group(1))
    return found


def symbols():
    library = os.path.join(BUILD, "libmuster.so")
    if not os.path.exists(library):
        broken(library, "is not built")
        return 0
    listed = [line.split() for line in run("nm", "-D", "--defined-only", library).stdout.splitlines()]
    exported = {words[2].split("@")[0] for words in listed if words[1] in "TtWwDBR"}
    wanted = declared()
    for name in sorted(wanted - exported):
        broken(library, "does not export %s(), which a public header declares" % name)
    for name in sorted(exported - wanted):
        broken(library, "exports %s, which no public header declares" % name)
    dynamic = run("readelf", "-d", library).stdout
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if name not in NEEDED:
            broken(library, "needs " + name)
    major = re.search(r"MUSTER_VERSION_MAJOR (\d+)", house.read("include/muster/muster.h")).group(1)
    if "[libmuster.so.%s]" % major not in dynamic:
        broken(library, "its soname is not libmuster.so." + major)
    version = ".".join(re.findall(r"define MUSTER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                  house.read("include/muster/muster.h")))
    if "muster_version" in exported:
        call = ctypes.CDLL(os.path.abspath(library)).muster_version
        call.restype = ctypes.c_char_p
        if call().decode() != version:
            broken(library, "says version %s, the header says %s" % (call().decode(), version))
    for line in run("nm", "-g", "--defined-only", os.path.join(BUILD, "libmuster.a")).stdout.splitlines():
        words = line.split()
        if len(words) == 3 and not words[2].startswith(("muster_", "mu_")):
            broken("libmuster.a", "defines %s outside its own names" % words[2])
    return len(exported)


compiled = alone()
house.done("%d headers compiled alone in %d ways, %d functions exported" % (len(PUBLIC + INTERNAL), compiled, symbols()))
