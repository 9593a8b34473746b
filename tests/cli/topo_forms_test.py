#!/usr/bin/env python3
"""muster topo --json and --svg: both say what the text says; nothing in the picture leaves its box, or the picture."""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import forks
import screen

MUSTER, TOP, TMPDIR = os.environ["MUSTER"], os.environ["TOP"], os.environ["TMPDIR"]
SVG = "{http://www.w3.org/2000/svg}"
LETTER = 0.602  # of the size: the widest of the fonts that the picture names
SIZES = {"f9": 9, "f10": 10, "f15": 15}


def topo(*arguments):
    done = subprocess.run([MUSTER, "topo"] + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit("muster topo %s: exit status %d" % (arguments, done.returncode))
    return done.stdout.decode()


def expect(condition, *what):
    if not condition:
        sys.exit("FAIL: " + " ".join(str(part) for part in what))


# ---- the text and the JSON ----


def json_says_what_the_text_says(machine):
    text, page = topo(*machine), json.loads(topo("--json", *machine))
    tree, matrix, legend = (text + "\n").split("\n\n")[:3]
    boxes = {box["id"]: box for box in page["boxes"]}
    first = page["boxes"][0]
    expect(first["parent"] is None and first["kind"] == "machine", machine, "the first box is not the machine")
    for box in page["boxes"][1:]:
        expect(box["parent"] in boxes, machine, "box", box["id"], "hangs nowhere")
        children = [b for b in page["boxes"] if b["parent"] == box["id"]]
        if box["kind"] in ("package", "numa", "l3") and any(b["processors"] for b in children):
            expect(box["processors"] == sum(b["processors"] for b in children), machine, "processors of", box)
    for device in page["devices"]:
        holders = [box for box in page["boxes"] if box["device"] == device["index"]]
        expect(len(holders) == 1, machine, device["label"], "is in", len(holders), "boxes")
        if device["kind"] != "cpu":
            line = [line for line in tree.splitlines() if re.match(r" +%s " % re.escape(device["label"]), line)]
            expect(len(line) == 1 and device["pci"] in line[0], machine, device["label"], "is not in the tree once")
    whole = [d for d in page["devices"] if d["kind"] != "part"]
    rows = [line.split() for line in matrix.splitlines()]
    expect(rows[0] == [d["label"] for d in whole] + ["NUMA%d" % n["number"] for n in page["numas"]] + ["CPUs"], rows[0])
    for device, row in zip(whole, rows[1:]):
        levels = [page["links"][device["index"]][other["index"]]["level"] for other in whole]
        expect(row == [device["label"]] + levels + page["numa_links"][device["index"]] + [device["cpus"] or "-"],
               machine, "the matrix and the JSON differ:", row)
    shown = {re.sub(r"^NV\d+$", "NV#", level) for row in rows[1:] for level in row[1:-1]}
    expect(shown == {line.split()[0] for line in legend.splitlines()}, machine, "the legend explains others:", legend)
    return page


# ---- the picture ----


def number(element, name):
    return int(element.get(name))


def rectangle(element):
    return [number(element, name) for name in ("x", "y", "width", "height")]


def holds(outer, inner):
    return (outer[0] <= inner[0] and outer[1] <= inner[1] and outer[0] + outer[2] >= inner[0] + inner[2] and
            outer[1] + outer[3] >= inner[1] + inner[3])


def apart(one, other):
    return (one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0] or one[1] + one[3] <= other[1] or
            other[1] + other[3] <= one[1])


def letters(text):
    return sum(1 if ord(letter) < 128 else 2 for letter in text)


def text_fits(box, element):
    """A text of a box begins and ends in it, by the widest letters."""
    classes = element.get("class").split()
    size = [SIZES[name] for name in classes if name in SIZES][0]
    width = letters(element.text or "") * LETTER * size
    left = number(element, "x") - (width / 2 if "m" in classes else 0)
    top = number(element, "y") - size
    return box[0] <= left and left + width <= box[0] + box[2] and box[1] <= top and number(element, "y") <= box[1] + box[3]


def check_group(group, around, page):
    """A group is a box, the texts in it, and the groups in it, none upon another."""
    title, boxes = group.find(SVG + "title"), [rectangle(e) for e in group.findall(SVG + "rect")]
    expect(title is not None and title.text.strip(), page, "a box has no tooltip")
    if not boxes:
        return []
    expect(holds(around, boxes[0]), page, title.text, "leaves what it is in:", boxes[0], around)
    for pill in boxes[1:]:
        expect(holds(boxes[0], pill), page, "a pill leaves", title.text)
    for element in group.findall(SVG + "text"):
        if "link" in element.get("class") and "m" in element.get("class"):
            continue  # of an arc
        expect(text_fits(boxes[0], element), page, "text leaves its box:", element.text, boxes[0])
    inner = group.findall(SVG + "g")
    places = [rectangle(g.find(SVG + "rect")) for g in inner]
    for i, place in enumerate(places):
        for other in places[:i]:
            expect(apart(place, other), page, title.text, "has boxes upon each other:", place, other)
    titles = [title.text]
    for below in inner:
        titles += check_group(below, boxes[0], page)
    return titles


def picture_shows_all(machine, page):
    text = topo("--svg", *machine)
    expect(text == topo("--svg", *machine), machine, "two pictures differ")
    root = ElementTree.fromstring(text)
    for word in ("<script", "http://www.w3.org/1999", "url(", "@import", "<image", "href"):
        expect(word not in text, machine, "the picture has", word)
    expect("prefers-color-scheme:dark" in text, machine, "one look for light and dark")
    sheet = [0, 0, number(root, "width"), number(root, "height")]
    expect(root.get("viewBox") == "0 0 %d %d" % (sheet[2], sheet[3]), "viewBox")
    titles, tops = [], []
    for group in root.findall(SVG + "g"):
        titles += check_group(group, sheet, machine)
        if group.find(SVG + "rect") is not None:
            tops.append(rectangle(group.find(SVG + "rect")))
    for i, place in enumerate(tops):
        for other in tops[:i]:
            expect(apart(place, other), machine, "boxes upon each other", place, other)
    for element in root.findall(SVG + "text"):
        expect(text_fits(sheet, element), machine, "text leaves the picture:", element.text)
    for device in page["devices"]:
        if device["kind"] != "cpu":
            found = [t for t in titles if re.match(re.escape(device["label"]) + r"(:|\n|$)", t)]
            expect(len(found) == 1 and device["pci"] in found[0] and device["uuid"] in found[0], machine, device["label"],
                   "has", len(found), "tooltips")
    used = {name for e in root.iter() for name in (e.get("class") or "").split()}
    style = root.find(SVG + "style").text
    for name in used:
        expect("." + name in style, machine, "no look for the class", name)
    return text, root, titles


def check(machine):
    page = json_says_what_the_text_says(machine)
    return (page,) + picture_shows_all(machine, page)


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

# Without accelerators; of many; of this one.
for words in ("package:2 numa:4 l3:3 core:8 pu:2", "package:8 [numa] core:64 pu:4", "numa:2 package:2 pu:3",
              "package:1 core:600 pu:1", "group:3 [numa(memory=1GB)] [numa(memory=2GB)] core:2 pu:1", "pu:1"):
    check(["--input", words])
check([])

# Real machines, where there are their files.
folder = os.environ.get("MUSTER_TEST_TOPOLOGIES")
for name in sorted(os.listdir(folder)) if folder else []:
    if name.endswith(".xml") and not name.startswith("nccl_"):
        check(["--input", os.path.join(folder, name)])

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
