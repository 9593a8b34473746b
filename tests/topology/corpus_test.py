#!/usr/bin/env python3
"""Real machines: every file of the folder that MUSTER_TEST_TOPOLOGIES names is what the table below says.

The files are hwloc's XML of public machines, and some of NCCL's, which must be refused in words. The table was written
by hand from the files. What hwloc's own tools say of them, where they are installed, is compared, too: which devices
there are, and what lies around each. A file that the table lacks must be read, or be refused in one line.
"""
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

FOLDER = os.environ.get("MUSTER_TEST_TOPOLOGIES")
DESCRIBE = os.path.join(os.environ["BUILD"], "tests/topology/describe")


class Machine:
    """gpus: (addresses, ids, memory node, package, processors) a group of like ones, in order; links: rows of levels;
    numas: (number, package, processors, bytes)."""

    def __init__(self, host, gpus, links, numas, cpus=()):
        self.host, self.gpus, self.links, self.numas, self.cpus = host, gpus, links, numas, cpus


V100, P100, T4 = "10de:1db1/0302", "10de:15f9/0302", "10de:1eb8/0302"
MI250, MI50 = "1002:7408/0380", "1002:66a1/0380"


def all_pairs(count, level):
    return [" ".join("X" if i == j else level for j in range(count)) for i in range(count)]


def of_two_packages(near):
    """The first package's and the second's GPUs are alike connected, and far from each other."""
    half = len(near)
    return [row + " SYS" * half for row in near] + ["SYS " * half + row for row in near]


MACHINES = {
    # 16 GPUs with 6 links of 25 GB/s to the switches each
    "nvidiaDGX2.xml": Machine("", [
        ("0000:34:00.0 0000:36:00.0 0000:39:00.0 0000:3b:00.0 0000:57:00.0 0000:59:00.0 0000:5c:00.0 0000:5e:00.0",
         "10de:1db8/0302", 0, 0, "0-1"),
        ("0000:b7:00.0 0000:b9:00.0 0000:bc:00.0 0000:be:00.0 0000:e0:00.0 0000:e2:00.0 0000:e5:00.0 0000:e7:00.0",
         "10de:1db8/0302", 1, 1, "24-25")], all_pairs(16, "NV6/150000"),
        [(0, 0, "0-1", 810234351616), (1, 1, "24-25", 811737923584)]),
    # pairs with 2 links of 20 GB/s; the other two of each GPU go to its processor
    "power8gpudistances.xml": Machine("drac-12.grenoble.grid5000.fr", [
        ("0002:01:00.0 0003:01:00.0", P100, 0, 0, "0-1,8-9,16-17,24-25"),
        ("000a:01:00.0 000b:01:00.0", P100, 1, 1, "80-81,88-89,96-97,104-105")],
        of_two_packages(["X NV2/40000", "NV2/40000 X"]),
        [(0, 0, "0-1,8-9,16-17,24-25", 68556816384), (1, 1, "80-81,88-89,96-97,104-105", 68450713600)]),
    "nvidia-dgx-gb10.xml": Machine("cfarm107", [], [], [(0, 0, "0-19", 128520671232)], ["0-19"]),
    # eight dies, each beside an L3 cache of its own
    "mb_eas-tioga.xml": Machine("tioga29", [
        ("0000:c1:00.0", MI250, 3, 0, "48-55,112-119"), ("0000:c6:00.0", MI250, 3, 0, "56-63,120-127"),
        ("0000:c9:00.0", MI250, 1, 0, "16-23,80-87"), ("0000:ce:00.0", MI250, 1, 0, "24-31,88-95"),
        ("0000:d1:00.0", MI250, 0, 0, "0-7,64-71"), ("0000:d6:00.0", MI250, 0, 0, "8-15,72-79"),
        ("0000:d9:00.0", MI250, 2, 0, "32-39,96-103"), ("0000:de:00.0", MI250, 2, 0, "40-47,104-111")],
        all_pairs(8, "XGMI/100000"),
        [(0, 0, "0-15,64-79", 134731067392), (1, 0, "16-31,80-95", 135237062656),
         (2, 0, "32-47,96-111", 135282954240), (3, 0, "48-63,112-127", 135265234944)]),
    # memory nodes 0 and 8; pairs below one switch; the console is no GPU
    "mb_coral-lassen.xml": Machine("lassen28", [
        ("0004:04:00.0 0004:05:00.0", V100, 0, 0, "8-87"), ("0035:03:00.0 0035:04:00.0", V100, 8, 1, "96-175")],
        of_two_packages(["X PIX", "PIX X"]),
        [(0, 0, "8-87", 137100066816), (8, 1, "96-175", 137166913536)]),
    "mb_cts1-pascal.xml": Machine("pascal4", [
        ("0000:04:00.0 0000:07:00.0", "10de:15f8/0302", 0, 0, "0-17,36-53")], ["X PIX", "PIX X"],
        [(0, 0, "0-17,36-53", 134756204544), (1, 1, "18-35,54-71", 135268511744)]),
    # each below a host bridge of its own
    "mb_epyc-corona-p2.xml": Machine("corona282", [
        ("0000:03:00.0 0000:27:00.0 0000:43:00.0 0000:63:00.0", MI50, 0, 0, "0-23,48-71"),
        ("0000:83:00.0 0000:a3:00.0 0000:c3:00.0 0000:e3:00.0", MI50, 1, 1, "24-47,72-95")],
        of_two_packages(all_pairs(4, "NODE")),
        [(0, 0, "0-23,48-71", 134734184448), (1, 1, "24-47,72-95", 135238852608)]),
    # pairs below one host bridge, on root ports of their own
    "mb_g4dnmetal.xml": Machine("gpu-st-g4dnmetal-1", [
        ("0000:18:00.0 0000:19:00.0 0000:35:00.0 0000:36:00.0", T4, 0, 0, "0-23,48-71"),
        ("0000:e7:00.0 0000:e8:00.0 0000:f4:00.0 0000:f5:00.0", T4, 1, 1, "24-47,72-95")],
        of_two_packages(["X PHB NODE NODE", "PHB X NODE NODE", "NODE NODE X PHB", "NODE NODE PHB X"]),
        [(0, 0, "0-23,48-71", 202438238208), (1, 1, "24-47,72-95", 202924285952)]),
}
OF_NCCL = {"nccl_ndv4-topo.xml", "nccl_ndv5-topo.xml", "nccl_p4d-24xl-topo.xml"}

failures = []


def expect(name, what, wanted, got):
    if wanted != got:
        failures.append("%s: %s\n    expected %s\n    got      %s" % (name, what, wanted, got))


def describe(paths):
    """Lines by file."""
    output = subprocess.run([DESCRIBE] + paths, stdout=subprocess.PIPE, check=True, text=True).stdout
    found = {}
    for part in output.split("== ")[1:]:
        lines = part.splitlines()
        found[lines[0]] = lines[1:]
    return found


def numbers(text):
    """Of a list "0-2,8"."""
    found = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


# ---- the table ----

GPU = re.compile(r"(\w+:\w+:\w+\.\w) (\S+) numa (\d+) package (\d+) cpus (\S+) ")


def compare_with_table(name, machine, lines):
    expect(name, "host", "host " + machine.host, lines[0])
    gpus = [(a, ids, str(numa), str(package), cpus) for addresses, ids, numa, package, cpus in machine.gpus
            for a in addresses.split()]
    devices = [line for line in lines if GPU.match(line)]
    expect(name, "GPUs", gpus, [GPU.match(line).groups() for line in devices])
    for line in devices:
        expect(name, "who told of it", True, line.endswith(" by hwloc"))
    expect(name, "processors as devices", ["CPU numa 0 package 0 cpus " + c for c in machine.cpus],
           [re.match(r"CPU .*cpus \S+", line).group(0) for line in lines if line.startswith("CPU")])
    count = len(gpus)
    expect(name, "links", machine.links, lines[1 + count:1 + 2 * count] if count > 1 else [])
    expect(name, "memory nodes", ["numa %d package %d cpus %s memory %d" % numa for numa in machine.numas],
           [line for line in lines if line.startswith("numa ")])
    expect(name, "notes", [], [line for line in lines if line.startswith("note")])


# ---- independent readings ----

INFOS = {"NVIDIAUUID": "%s", "NVIDIASerial": "serial %s", "AMDUUID": "GPU-%s", "AMDSerial": "serial %s"}


def compare_with_file(name, path, lines):
    """What drivers had said stands below each GPU in the file."""
    devices = {line.split()[0]: line for line in lines if GPU.match(line)}
    for pci in ElementTree.parse(path).iter("object"):
        line = devices.get(pci.get("pci_busid"))
        if pci.get("type") != "PCIDev" or not line:
            continue
        models = []
        for os_device in pci.findall("object"):
            infos = {i.get("name"): i.get("value") for i in os_device.findall("info")}
            models.append(infos.get("GPUModel", ""))
            for key in INFOS.keys() & infos.keys():
                value = infos[key].rjust(16, "0") if key == "AMDUUID" else infos[key]
                expect(name, "%s of %s" % (key, pci.get("pci_busid")), True, " %s " % (INFOS[key] % value) in line)
        expect(name, "a model of %s" % pci.get("pci_busid"), True, any('"%s"' % m in line for m in models))


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def compare_with_tools(name, path, lines):
    """hwloc's lstopo: the same devices (a VGA card in these files is a console); hwloc-calc: the same surroundings."""
    listed = re.findall(r"PCI (\S+) \((?:3D|Display|ProcessingAccelerator)\)", run("lstopo-no-graphics", "-i", path, "-"))
    full = [a if a.count(":") == 2 else "0000:" + a for a in listed]
    devices = {m.group(1): m for m in map(GPU.match, lines) if m}
    expect(name, "devices, as lstopo has them", sorted(full), sorted(devices))
    for address, match in devices.items():
        def around(kind, order="--po"):
            return {int(n) for n in run("hwloc-calc", "-i", path, order, "-I", kind, "pci=" + address).split(",") if n}
        expect(name, "processors around %s" % address, around("PU"), numbers(match.group(5)))
        expect(name, "memory node of %s" % address, around("NUMAnode"), {int(match.group(3))})
        expect(name, "package of %s" % address, around("Package", "--lo"), {int(match.group(4))})
    cpus = set().union(*[numbers(re.search(r"cpus (\S+)", line).group(1)) for line in lines if line.startswith("CPU")])
    if not devices:
        expect(name, "processors", {int(n) for n in run("hwloc-calc", "-i", path, "--po", "-I", "PU", "all").split(",")},
               cpus)


def main():
    if not FOLDER:
        print("MUSTER_TEST_TOPOLOGIES is not set: it names a folder with topologies of real machines, in XML")
        return 77
    files = sorted(f for f in os.listdir(FOLDER) if f.endswith(".xml"))
    if not files:
        print("MUSTER_TEST_TOPOLOGIES=%s has no file *.xml" % FOLDER)
        return 77
    has_tools = shutil.which("lstopo-no-graphics") and shutil.which("hwloc-calc")
    if not has_tools:
        print("lstopo-no-graphics and hwloc-calc are not installed (Debian: hwloc): not compared with them")
    described = describe([os.path.join(FOLDER, f) for f in files])
    unknown = 0
    for name in files:
        path = os.path.join(FOLDER, name)
        lines = described[path]
        if name in OF_NCCL:
            expect(name, "refusal", True, len(lines) == 1 and lines[0].startswith(
                "INVALID_ARGUMENT: %s is a topology of NCCL's (its first element is <system>), not one of hwloc's" % path))
        elif name in MACHINES:
            compare_with_table(name, MACHINES[name], lines)
            compare_with_file(name, path, lines)
            if has_tools:
                compare_with_tools(name, path, lines)
        else:
            unknown += 1
            expect(name, "an answer", True, lines[0].startswith("host") or (len(lines) == 1 and path in lines[0]))
    print("\n".join(failures))
    print("%d files: %d machines by the table, %d of NCCL's refused, %d others; %d differences"
          % (len(files), len(MACHINES.keys() & set(files)), len(OF_NCCL & set(files)), unknown, len(failures)))
    return 1 if failures else 0


sys.exit(main())
