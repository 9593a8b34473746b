"""What must hold of `muster topo` for any machine: its text, its JSON and its picture say the same, and nothing in
the picture leaves its box, or the picture.
"""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

MUSTER = os.environ["MUSTER"]
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
            expect(len(line) == 1 and (device["pci"] if device["kind"] == "gpu" else device["part_profile"]) in line[0], machine, device["label"], "is not in the tree once")
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


def check(machine=()):
    """(JSON, picture as text, as elements, its tooltips)"""
    page = json_says_what_the_text_says(machine)
    return (page,) + picture_shows_all(machine, page)
