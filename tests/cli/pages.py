"""What must hold of `muster topo` for any machine: its text, its JSON and its picture say the same, each object is in
each of them once, and nothing in the picture leaves its box, or the picture.
"""
import collections
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

# A line of the tree: the kind, how many it stands for (or their numbers), what it counts.
LINES = (
    ("package", r"package (?P<numbers>\d+)\b"), ("numa", r"NUMA nodes? (?P<numbers>[\d,-]+)\b"),
    ("l3", r"(?:(?P<many>\d+) x )?L3 cache\b"), ("core", r"core (?P<numbers>\d+)\b"),
    ("bridge", r"PCI switch (?P<name>\S+)$"), ("host bridge", r"PCI (?P<name>\S+)$"),
    ("nvswitch", r"(?P<many>\d+) NVSwitch(?:es)?$"), ("device", r"(?P<name>GPU\d+(?:\.\d+)?)(?: |$)"))


def numbers_of(text):
    return [n for part in text.split(",") for a, _, b in [part.partition("-")] for n in range(int(a), int(b or a) + 1)]


def last_number(pattern, line):
    found = re.findall(pattern, line)
    return int(found[-1]) if found else 0


def objects_of_line(line, machine):
    """(kind, name or number, cores, processors) of each object that the line stands for."""
    for kind, pattern in LINES:
        match = re.match(pattern, line)
        if not match:
            continue
        groups = match.groupdict()
        cores = processors = 0
        if kind in ("package", "numa", "l3"):
            cores = last_number(r", (\d+) (?:performance |efficiency )?cores?\b", line)
            processors = last_number(r", (\d+) processors?\b", line) or cores
        names = numbers_of(groups["numbers"]) if groups.get("numbers") else [groups.get("name")] * int(groups.get("many") or 1)
        return [(kind, name, cores, processors) for name in names]
    sys.exit("FAIL: %s: a line that stands for nothing: %r" % (machine, line))


def objects_of_tree(tree, machine):
    """How often the tree tells of each object. Within a line that stands for several each stands for as many."""
    found, times = collections.Counter(), [1]
    for line in tree.splitlines()[1:]:
        text = line.lstrip(" ").partition("  <- ")[0]
        depth = (len(line) - len(line.lstrip(" "))) // 2
        objects = objects_of_line(re.sub(r"  \(CPU\d+\)$", "", text), machine)
        del times[depth:]
        for one in objects:
            found[one] += times[-1]
        times.append(times[-1] * len(objects))
    return found


def objects_of_json(page):
    """The same of the JSON. Cores in which nothing is are counted by what holds them."""
    found, holders = collections.Counter(), {box["parent"] for box in page["boxes"]}
    for box in page["boxes"]:
        counts = (box["cores"], box["processors"] or box["cores"]) if box["kind"] in ("package", "numa", "l3") else (0, 0)
        name = (box["number"] if box["kind"] in ("package", "numa", "core") else
                page["devices"][box["device"]]["label"] if box["kind"] == "device" else
                box["name"] if "bridge" in box["kind"] else None)
        if box["kind"] != "machine" and (box["kind"] != "core" or box["id"] in holders):
            found[(box["kind"], name) + counts] += box["count"]
    return found


def every_object_is_in_the_tree_once(machine, tree, page):
    told, there = objects_of_tree(tree, machine), objects_of_json(page)
    expect(told == there, machine, "\n  not in the tree:", *sorted(map(str, there - told))[:8],
           "\n  too often in it:", *sorted(map(str, told - there))[:8])
    first = page["boxes"][0]
    for count, word in ((sum(box["kind"] == "package" for box in page["boxes"]), "package"), (first["cores"], "core"),
                        (first["processors"], "processor")):
        expect(count == 0 and word != "package" or re.search(r"[ :]%d %ss?\b" % (count, word), tree.splitlines()[0]),
               machine, count, word, "are not in", tree.splitlines()[0])



def json_says_what_the_text_says(machine):
    text, page = topo(*machine), json.loads(topo("--json", *machine))
    tree, matrix, legend = (text + "\n").split("\n\n")[:3]
    every_object_is_in_the_tree_once(machine, tree, page)
    boxes = {box["id"]: box for box in page["boxes"]}
    first = page["boxes"][0]
    expect(first["parent"] is None and first["kind"] == "machine", machine, "the first box is not the machine")
    for box in page["boxes"][1:]:
        expect(box["parent"] in boxes, machine, "box", box["id"], "hangs nowhere")
        children = [b for b in page["boxes"] if b["parent"] == box["id"]]
        if box["kind"] in ("package", "numa", "l3") and any(b["processors"] for b in children):
            expect(box["processors"] >= sum(b["processors"] for b in children), machine, "processors of", box)
    for box in page["boxes"]:
        beside = [b["device"] for b in page["boxes"] if b["parent"] == box["id"] and b["kind"] == "device"]
        expect(beside == sorted(beside), machine, "devices side by side are not in order:", beside)
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
    for device in page["devices"]:
        for numa, level in zip(page["numas"], page["numa_links"][device["index"]]):
            if device["kind"] == "cpu" and None not in (device["package"], numa["package"]):
                expect(level == ("PHB" if device["package"] == numa["package"] or device["numa_node"] == numa["number"]
                                 else "SYS"), machine, device["label"], "to memory node", numa["number"], "is", level)
        expect(device["kind"] != "cpu" or device["cpus"] or not machine, machine, device["label"], "has no processors")
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
    for kind, pattern in (("package", r"package %d(  |\n|$)"), ("numa", r"NUMA %d(  |\n|$)"), ("core", r"core %d(  |\n|$)")):
        numbers = collections.Counter(box["number"] for box in page["boxes"] if box["kind"] == kind)
        shown = {n: sum(bool(re.match(pattern % n, t)) for t in titles) for n in numbers}
        expect(shown == dict(numbers) or kind == "core" and len(numbers) > 512, machine, kind, "in the picture:", shown)
    expect(sum(box["kind"] == "l3" for box in page["boxes"]) == sum(t.startswith("L3 ") for t in titles), machine, "L3 caches")
    used = {name for e in root.iter() for name in (e.get("class") or "").split()}
    style = root.find(SVG + "style").text
    for name in used:
        expect("." + name in style, machine, "no look for the class", name)
    return text, root, titles


def check(machine=()):
    """(JSON, picture as text, as elements, its tooltips)"""
    page = json_says_what_the_text_says(machine)
    return (page,) + picture_shows_all(machine, page)
