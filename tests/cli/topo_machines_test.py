#!/usr/bin/env python3
# timeout: 1800
"""muster topo of many machines: what pages.py asks of any, and that hwloc's own tools count the same objects.

Always of machines in hwloc's words and of the exports in tests/topology/machines. With MUSTER_TEST_TOPOLOGIES=DIR also
of all that lies in this folder: hwloc's XML (*.xml) and what hwloc-gather-topology has gathered (*.tar.bz2: the files of
/sys and /proc, or of the x86 instruction cpuid, or both). A file that is refused must be so in one line, and must be one
that hwloc's tools refuse, too.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

from pages import MUSTER, check, expect

TOP, TMPDIR = os.environ["TOP"], os.environ["TMPDIR"]
PROTOS = TOP + "/tests/topology"
FOLDER = os.environ.get("MUSTER_TEST_TOPOLOGIES")
HAS_TOOLS = shutil.which("lstopo-no-graphics") is not None
VARIABLES = ("HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM")
WORDS = (
    # hwloc hangs each NUMA node into a cache, beside one, at a core, or around packages
    "package:1 numa:4 l3:1 core:4 pu:1", "package:1 numa:8 l3:2 core:4 pu:1", "package:2 core:2 [numa] pu:2",
    "package:2 l3:2 [numa] core:4 pu:2", "numa:2 package:2 l3:2 core:2 pu:1", "[numa] package:2 core:1 pu:1",
    # common and fast memory side by side, as KNL has them, and one of each package
    "package:1 group:4 [numa(memory=1GB)] [numa(memory=2GB)] core:4 pu:4",
    "package:2 [numa(memory=8GB)] group:2 [numa(memory=1GB)] core:2 pu:1", "package:2 group:2 [numa] core:2 pu:1",
    "package:3 [numa(indexes=16,0,8)] core:1 pu:1", "package:2 numa:70 core:1 pu:1", "numa:1 core:3 pu:1", "pu:7",
    "group:2 group:2 group:2 l3:1 l2:2 l1d:1 core:2 pu:2", "package:1 core:700 pu:1")


def kinds_by_tools(arguments):
    """How many of each hwloc's own tools count; None: they refuse the machine."""
    counts = {}
    for kind, name in (("package", "package"), ("numa", "numa"), ("l3", "l3"), ("core", "core"), ("processor", "pu")):
        done = subprocess.run(["lstopo-no-graphics"] + arguments + ["--of", "console", "--only", name, "-"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode:
            return None
        counts[kind] = len(done.stdout.splitlines())
    return counts


def counts_are_those_of_tools(name, page, arguments):
    counts = kinds_by_tools(arguments)
    ours = {kind: sum(box["kind"] == kind for box in page["boxes"]) for kind in ("package", "numa", "l3", "core")}
    ours["processor"] = page["boxes"][0]["processors"]
    expect(counts == ours, name, "\n  hwloc counts", counts, "\n  muster topo", ours)


def proto_has_all_devices(name, page, arguments):
    message = subprocess.run([MUSTER, "topo", "--proto"] + arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             check=True).stdout
    text = subprocess.run(["protoc", "-I" + PROTOS, "--decode", "xla.today.LocalTopologyProto", "today.proto"],
                          input=message, stdout=subprocess.PIPE, check=True).stdout.decode()
    expect(len(re.findall(r"^devices \{$", text, re.M)) == len(page["devices"]), name, "devices in the message:", text)


def check_machine(name, arguments=(), tool_arguments=()):
    """What does not hold of one machine is said, and the next one is looked at."""
    try:
        page = check(list(arguments))[0]
        proto_has_all_devices(name, page, list(arguments))
        if HAS_TOOLS:
            counts_are_those_of_tools(name, page, list(tool_arguments))
    except SystemExit as fault:
        print("%s: %s" % (name, fault), flush=True)
        failed.append(name)


def is_refused(path, arguments=(), tool_arguments=()):
    """In one line, and by hwloc, too."""
    done = subprocess.run([MUSTER, "topo"] + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return False
    expect(done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, path, done.returncode, done.stderr)
    expect(not HAS_TOOLS or kinds_by_tools(list(tool_arguments)) is None, "hwloc reads what is refused:", done.stderr)
    print("refused:", done.stderr.strip())
    return True


def variables_of(folder):
    """What shows hwloc the machine in a folder, as hwloc's own tests do."""
    inner = [os.path.join(folder, name) for name in os.listdir(folder)]
    folder = inner[0] if len(inner) == 1 else folder
    parts = [os.path.join(folder, name) for name in ("fsroot", "cpuid")]
    if all(map(os.path.isdir, parts)):
        return {"HWLOC_FSROOT": parts[0], "HWLOC_CPUID_PATH": parts[1], "HWLOC_COMPONENTS": "x86,linux,stop"}
    if any(re.match(r"pu\d+$", name) for name in os.listdir(folder)):
        return {"HWLOC_CPUID_PATH": folder, "HWLOC_COMPONENTS": "x86,stop"}
    return {"HWLOC_FSROOT": folder, "HWLOC_COMPONENTS": "linux,stop"}


def check_gathered(path):
    folder = TMPDIR + "/gathered"
    with tarfile.open(path) as archive:
        archive.extractall(folder, members=[m for m in archive if m.isfile() or m.isdir() or m.issym()])
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
    os.environ.update(variables_of(folder), HWLOC_THISSYSTEM="0")
    refused = is_refused(path)
    if not refused:
        check_machine(path)
    for name in VARIABLES:
        os.environ.pop(name, None)
    shutil.rmtree(folder)
    return refused


failed = []
for variable in VARIABLES:
    os.environ.pop(variable, None)
for words in WORDS:
    check_machine(words, ["--input", words], ["-i", words])
exports = [os.path.join(TOP, "tests/topology/machines", name) for name in os.listdir(TOP + "/tests/topology/machines")]
exports += [os.path.join(FOLDER, name) for name in os.listdir(FOLDER)] if FOLDER else []
counts = {"read": 0, "gathered": 0, "refused": 0}
for path in sorted(exports):
    if path.endswith(".tar.bz2"):
        counts["refused" if check_gathered(path) else "gathered"] += 1
    elif path.endswith(".xml") and is_refused(path, ["--input", path], ["-i", path]):
        counts["refused"] += 1
    elif path.endswith(".xml"):
        check_machine(path, ["--input", path], ["-i", path])
        counts["read"] += 1
print("%d in words, %s; %d failed" % (len(WORDS), json.dumps(counts), len(failed)))
if not HAS_TOOLS:
    print("lstopo-no-graphics is not installed (Debian: hwloc): not compared with it")
sys.exit(1 if failed else 0)
