#!/usr/bin/env python3
"""muster topo with GPUs, their parts and fabric, and a job's ranks on them.

The GPUs are those of our fake libnvidia-ml and libcuda (tests/topology/fake_*.c); no GPU is asked. The processors are this
machine's.
"""
import json
import os
import re
import subprocess
import sys
import time

from pages import MUSTER, SVG, check, expect, topo

TMPDIR, BUILD = os.environ["TMPDIR"], os.environ["BUILD"]
JOB = "t%d-gpus" % os.getpid()
if any(device["kind"] != "cpu" for device in json.loads(topo("--json"))["devices"]):
    print("this machine has accelerators of its own, of which the fake library does not tell")
    sys.exit(77)
os.environ["MUSTER_NVML"] = BUILD + "/tests/topology/libfake_nvml.so"
os.environ["MUSTER_FAKE_NVML"] = TMPDIR + "/facts"
os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def tell(facts):
    with open(os.environ["MUSTER_FAKE_NVML"], "w") as f:
        f.write(facts)


def gpu(bus, rest=""):
    return ("gpu 0000:%s:00.0\nuuid GPU-%s%s-1111\nname NVIDIA A100-SXM4-80GB\nmemory 85899345920\nnuma 0\n" % (bus, bus, bus)
            + rest)


def lines_with(text, word):
    return [line.strip() for line in text.splitlines() if word in line and "  X  " not in line]


# Parts, below their GPU in the tree and in its box in the picture; two links between the others.
tell(gpu("3b", "slots 7\nmig 0 MIG-11111111-2222 1 0 14 1 1 9728\nmig 1 MIG-21111111-2222 9 0 42 4 3 40192\n") +
     gpu("86") + gpu("87", "link 0 gpu 0000:86:00.0\nlink 1 gpu 0000:86:00.0\n"))
page, _, root, titles = check()
text = topo()
expect(re.search(r"^\S+: .*, 3 GPUs, 2 parts$", text.splitlines()[0]), text)
expect(lines_with(text.split("\n\n")[0], "GPU0") == [
    "GPU0  0000:3b:00.0  NVIDIA A100-SXM4-80GB, 80 GiB", "GPU0.0  1g.10gb, 9.5 GiB  MIG-11111111-2222",
    "GPU0.1  3c.4g.40gb, 39.2 GiB  MIG-21111111-2222"], text)
expect([d["parent"] for d in page["devices"]] == [None, 0, 0, None, None], [d["parent"] for d in page["devices"]])
words = [e.text for e in root.iter(SVG + "text")]
for word in ("GPU0", "GPU1", "GPU2", "1g.10gb", "3c.4g.40gb", "80 GiB"):
    expect(word in words, word, "is not in the picture:", words)
expect(sum(title.startswith("GPU1 to GPU2: NV2") for title in [e.text for e in root.iter(SVG + "title")]) == 1, "no arc")

# Ranks: by a UUID's beginning, by a part's, by numbers up to the first that there is none of, and without restriction.
visible = ["GPU-8686", "MIG-2111", "1,0,9,2", ""]
script = "".join("[ $RANK = %d ] && export CUDA_VISIBLE_DEVICES=%s\n" % (k, v) for k, v in enumerate(visible))
run = subprocess.Popen([MUSTER, "run", "-n", "5", "--job", JOB, "sh", "-c", script + "exec muster barrier wait of-$RANK"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, PATH=os.path.dirname(MUSTER) + ":" + os.environ["PATH"]))
try:
    end = time.monotonic() + 30
    while True:
        done = subprocess.run([MUSTER, "topo", "--job", JOB, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        tasks = json.loads(done.stdout)["tasks"] if done.returncode == 0 else []
        if len(tasks) == 5 and all(task["pid"] for task in tasks):
            break
        expect(time.monotonic() < end, "waited in vain for five tasks:", tasks)
        time.sleep(0.02)  # sleep: between two looks
    page, _, root, titles = check(["--job", JOB])
    expect([task["devices"] for task in page["tasks"]] == [[3], [2], [3, 0], [], None], page["tasks"])
    expect(all(task["box"] == 0 and task["unknown"] is None for task in page["tasks"]), page["tasks"])
    text = topo("--job", JOB)
    expect(text.splitlines()[0].endswith("  <- tasks 0-4"), text.splitlines()[0])
    for label, ranks in (("GPU0 ", "task 2"), ("GPU0.1 ", "task 1"), ("GPU1 ", "tasks 0,2")):
        expect(lines_with(text, label)[0].endswith("  <- " + ranks), label, lines_with(text, label))
    for label in ("GPU0.0", "GPU2 "):
        expect("<-" not in lines_with(text, label)[0], lines_with(text, label))
    gpus = [line.split()[-1] for line in text[text.index("\nTASK"):].splitlines()[2:]]
    expect(gpus == ["GPU1", "GPU0.1", "GPU1,GPU0", "none", "all"], gpus)
    words = [e.text for e in root.iter(SVG + "text")]
    for word in ("tasks 0-4 anywhere", "T0,2", "T1", "T2"):
        expect(words.count(word) == 1, word, words)
    for k in range(5):
        expect(any("\ntask %d (pid %d)" % (k, page["tasks"][k]["pid"]) in title for title in titles), "task", k, titles)
finally:
    run.terminate()
    run.wait()

# Sixteen on switches are one bar with sixteen lines.
tell("".join(gpu("%02x" % (16 + k), "link 0 switch bad\nlink 1 switch bad\nspeed 25000\n") for k in range(16)))
page, text, root, _ = check()
bars = [e.text for e in root.iter(SVG + "text") if (e.text or "").startswith("NVSwitch: ")]
expect(bars == ["NVSwitch: NV2 between every two of 16 GPUs, 50 GB/s each way"], bars)
expect(text.count('<path d="M') == 16, "lines from GPUs:", text.count('<path d="M'))
expect(topo("--matrix").count("NV2 ") == 16 * 15, "cells of the matrix")

# A hybrid cube mesh: 16 pairs have links, each an arc with its name; what a GPU has is in its box.
mesh = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
        (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2}
tell("".join(gpu("1%d" % k, "".join("link %d gpu 0000:1%d:00.0\n" % (n, peer) for n, peer in enumerate(
    peer for pair, lanes in mesh.items() if k in pair for peer in [sum(pair) - k] * lanes))) for k in range(8)))
page, text, root, _ = check()
arcs = sorted(re.findall("<title>GPU(.) to GPU(.): NV(.)", text))
expect(arcs == sorted((str(a), str(b), str(lanes)) for (a, b), lanes in mesh.items()), arcs)
names = [e.text for e in root.iter(SVG + "text")]
expect([names.count(name) for name in ("NV1", "NV2", "NV1-2")] == [8, 8, 8], names)

# The CUDA driver (our fake one) is asked only by --cuda; its numbers stand in the JSON, and what it lacks is a note.
os.environ.update(MUSTER_CUDA=BUILD + "/tests/topology/libfake_cuda.so", MUSTER_FAKE_CUDA="2")
tell(gpu("01") + gpu("02"))
page, _, _, _ = check()
expect([(d["cuda_ordinal"], "cuda" in d["sources"]) for d in page["devices"]] == [(None, False)] * 2, page["devices"])
page, _, _, _ = check(["--cuda"])
expect([(d["pci"], d["cuda_ordinal"]) for d in page["devices"]] == [("0000:01:00.0", 0), ("0000:02:00.0", 1)],
       page["devices"])
os.environ["MUSTER_FAKE_CUDA"] = "fail 100"
note = topo("--cuda").splitlines()[-1]
expect(note.startswith("note: CUDA: ") and note.endswith("; so CUDA's numbers of GPUs and their multiprocessors are not known"),
       note)

# One that has fallen off the bus is said to be lost.
tell(gpu("01", "fail nvmlDeviceGetSerial 15\n") + gpu("02"))
page, text, _, titles = check()
expect([device["health"] for device in page["devices"]] == [-1, 0], page["devices"])
expect([title.endswith("\nlost") for title in titles if title.startswith("GPU")] == [True, False], titles)
expect(text.count('class="bad"') == 1, "boxes of GPUs that are lost:", text.count('class="bad"'))
expect([", lost" in line for line in lines_with(topo().split("\n\n")[0], "NVIDIA")] == [True, False], topo())

# NVML that does not answer is a note, with what it costs.
tell("fail nvmlInitWithFlags 9\n")
note = topo().splitlines()[-1]
expect(note.startswith("note: NVML: ") and note.endswith("; so NVLinks, MIG parts, UUIDs and the health of NVIDIA's GPUs "
                                                          "are not known"), note)
check()
print("ok")
sys.exit(0)
