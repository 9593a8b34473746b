#!/usr/bin/env python3
"""muster topo in all its forms, of machines with and without accelerators, and on terminals of any width."""
import os
import re

import forks
import screen
from pages import MUSTER, SVG, check, expect, topo

TOP, TMPDIR = os.environ["TOP"], os.environ["TMPDIR"]
FORKS = TMPDIR + "/forks.xml"
with open(FORKS, "w", encoding="utf-8") as f:
    f.write(forks.machine().replace("'", '"'))

# Names that would end an element or leave a box, a fork in a fork, and a fabric's switches.
page, text, root, titles = check(["--input", FORKS])
kinds = [box["kind"] for box in page["boxes"]]
expect(kinds.count("host bridge") == 1 and kinds.count("bridge") == 1, "bridges that lead nowhere or on:", kinds)
expect(kinds.count("core") == 4 and kinds.count("l3") == 2, kinds)
boxes = {box["id"]: box for box in page["boxes"]}
by_pci = {d["pci"]: next(b for b in page["boxes"] if b["device"] == d["index"]) for d in page["devices"]}
expect(boxes[by_pci["0000:23:00.0"]["parent"]]["name"] == "0000:21:00.0", "GPU 23 does not hang at the switch 21")
expect(by_pci["0000:23:00.0"]["parent"] == by_pci["0000:25:00.0"]["parent"], "23 and 25 hang apart")
expect(boxes[by_pci["0000:27:00.0"]["parent"]]["kind"] == "host bridge", "27 does not hang at the host bridge")
expect([box["count"] for box in page["boxes"] if box["kind"] == "nvswitch"] == [2], "two NVSwitches")
expect(any(forks.EVIL in title for title in titles), "the name that means harm is not shown as it is")
expect(any(forks.WIDE in title for title in titles), "the long name is not whole in its tooltip")
expect(page["devices"][0]["name"] == forks.EVIL, "the name that means harm is another one in the JSON")

# A fabric is a bar, links between two are arcs.
_, text, root, _ = check(["--input", TOP + "/tests/topology/machines/switched.xml"])
bars = [e for e in root.iter(SVG + "text") if (e.text or "").startswith("NVSwitch: ")]
expect([e.text for e in bars] == ["NVSwitch: NV13 to NV18 between every two of 4 GPUs"], [e.text for e in bars])
expect(text.count('<path d="M') == 4, "not one line down from each GPU")
_, text, _, _ = check(["--input", TOP + "/tests/topology/machines/row.xml"])
expect("<title>GPU0 to GPU1: NV2" in text and "<title>GPU1 to GPU2: NV2" in text, "an arc is missing")
expect("GPU0 to GPU2" not in text, "an arc too many")
check(["--input", TOP + "/tests/topology/machines/makers.xml"])

# Cores of two kinds: each kind has its colour, its word, and no fold with the other.
page, text, root, _ = check(["--input", TOP + "/tests/topology/machines/kinds.xml"])
cores = [box["name"] for box in page["boxes"] if box["kind"] == "core"]
expect(cores == ["performance", "performance", "efficiency", "efficiency"], "the cores are %s" % cores)
for look in "core", "ecore":
    count = sum(1 for e in root.iter(SVG + "rect") if e.get("class") == look)
    expect(count == 3, "%d times %s, not two cores and the legend" % (count, look))

# Without accelerators; of many; of this one.
for words in ("package:2 numa:4 l3:3 core:8 pu:2", "package:8 [numa] core:64 pu:4", "numa:2 package:2 pu:3",
              "package:1 core:600 pu:1", "group:3 [numa(memory=1GB)] [numa(memory=2GB)] core:2 pu:1", "pu:1"):
    check(["--input", words])
check([])

# A last row of few is no wider than the rows above it.
_, _, root, _ = check(["--input", "package:1 group:23 [numa] core:4 pu:1"])
widths = [int(group.find(SVG + "rect").get("width")) for group in root.iter(SVG + "g")
          if (group.findtext(SVG + "title") or "").startswith("NUMA")]
expect(len(widths) == 23 and max(widths) - min(widths) < 20, "of 23 alike NUMA nodes some are wider:", widths)

# ---- a terminal of any width, and no colours elsewhere ----

plain = topo("--input", FORKS, "--matrix")
expect("\x1b" not in plain, "colours on a pipe")
for columns in (200, 40, 20, 5):
    session = screen.Session([MUSTER, "topo", "--matrix", "-i", "package:6 [numa] core:1 pu:1"], rows=100, columns=columns)
    session.ends_with(0)
    shown = re.sub(r"\x1b\[\d*m", "", session.raw.decode()).replace("\r", "")
    session.close()
    head = [line for line in shown.splitlines() if re.match(r" +(CPU|NUMA)\d", line)]
    expect(" ".join(head).split() == ["CPU%d" % i for i in range(6)] + ["NUMA%d" % i for i in range(6)] + ["CPUs"], head)
    for line in shown.split("\n\n  X")[0].splitlines():
        expect(columns < 14 or len(line) <= columns or "CPUs" in head[-1] and len(line) < columns + 8, columns, line)
    cells = {(name.group(), column): level for part in shown.split("\n\n") if re.match(r" +(CPU|NUMA)\d", part)
             for line in part.splitlines()[1:] for name in [re.match(r"CPU\d", line)]
             for column, level in zip(part.splitlines()[0].split(), line.split()[1:])}
    expect(len(cells) == 6 * 13 and cells["CPU4", "NUMA4"] == "PHB" and cells["CPU5", "CPU2"] == "SYS", columns, cells)
print("ok")
