#!/usr/bin/env python3
"""tests/packages/image.py CONTAINERFILE BASE FOLDER WORDS...: builds an image's stages as podman would, in chroots above BASE.

BASE is a Debian's root, which stands for every debian:12 of the file; FOLDER is for the stages' changes. RUN, COPY, WORKDIR, ENV and CMD are
known, as the file has them: another instruction, or a copy of what is not there, fails. In the last stage the image's command is run, then
WORDS by a shell. It is called in mounts and processes of its own, which go with it; the network is the machine's.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def instructions(path):
    with open(path) as f:
        text = re.sub(r"^#.*\n", "", f.read(), flags=re.M)
    for line in filter(str.strip, text.replace("\\\n", " ").split("\n")):
        word, rest = line.split(None, 1)
        yield word, rest.strip()


class Stage:
    def __init__(self, folder, base):
        self.root, self.folder, self.command = os.path.join(folder, "root"), "/", None
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                    "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        parts = [os.path.join(folder, name) for name in ("changes", "work", "root")]
        for part in parts:
            os.makedirs(part)
        mount("-t", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (base, *parts[:2]), "overlay", self.root)
        mount("-t", "proc", "proc", self.root + "/proc")
        mount("--rbind", "/dev", self.root + "/dev")
        mount("-t", "tmpfs", "-o", "size=64m,mode=1777", "tmpfs", self.root + "/dev/shm")
        shutil.copy("/etc/resolv.conf", self.root + "/etc/resolv.conf")

    def inside(self, path):
        return self.root + os.path.join(self.folder, path)

    def run(self, words):
        entered = ["chroot", self.root, "env", "-C", self.folder, *words]
        subprocess.run(entered, env=self.env, check=True, stdin=subprocess.DEVNULL)

    def copy(self, rest, stages):
        option, *words = rest.split() if rest.startswith("--") else [None] + rest.split()
        *sources, to = words
        if option is None:
            assert sources == ["."], "only the whole checkout is copied"
            os.makedirs(self.inside(to), exist_ok=True)
            listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                                     "--deduplicate"], cwd=TOP, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
            there = [name for name in listed if name and os.path.exists(os.path.join(TOP, name))]
            packed = subprocess.run(["tar", "-c", "--null", "-T", "-"], cwd=TOP, input="\0".join(there).encode(), check=True,
                                    stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "-x", "-C", self.inside(to)], input=packed, check=True)
            return
        of = stages[re.fullmatch(r"--from=(\w+)", option).group(1)]
        found = [path for source in sources for path in glob.glob(of.inside(source))]
        assert found and to.endswith("/"), "nothing to copy: " + rest
        os.makedirs(self.inside(to), exist_ok=True)
        for path in found:
            shutil.copy(path, self.inside(to))


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def main(path, base, folder, *words):
    stages, stage = {}, None
    os.makedirs(folder, exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", folder)
    for word, rest in instructions(path):
        print("%s %s" % (word, rest), flush=True)
        if word == "FROM":
            name = re.fullmatch(r"docker\.io/library/debian:12(?:-slim)?(?: AS (\w+))?", rest).group(1)
            stage = stages[name] = Stage(os.path.join(folder, str(len(stages))), base)
        elif word == "RUN":
            stage.run(["sh", "-c", rest])
        elif word == "COPY":
            stage.copy(rest, stages)
        elif word == "WORKDIR":
            stage.folder = rest
        elif word == "ENV":
            name, value = rest.split("=", 1)
            stage.env[name] = value
        elif word == "CMD":
            stage.command = json.loads(rest)
        else:
            sys.exit("image: no instruction: " + word)
    stage.run(stage.command)
    stage.run(["sh", "-ec", *words])


main(*sys.argv[1:])
