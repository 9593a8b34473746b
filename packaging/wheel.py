#!/usr/bin/env python3
"""Makes a wheel of the Python package and of files that were built: packaging/wheel.py FOLDER VERSION TAG NAME=FILE...

The package's modules, name, description and entry points come from python/; each further NAME in the wheel is a FILE,
a program where FILE is one. Names are sorted and times those of SOURCE_DATE_EPOCH (or 1980), so that the same files
make the same wheel. The licences of what is linked in come from Debian's packages of it.
"""
import base64
import hashlib
import os
import sys
import time
import tomllib
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINKED = ("libc6-dev", "libhwloc-dev", "libncurses-dev", "libnghttp2-dev", "libprotobuf-c-dev", "libuv1-dev", "zlib1g-dev")
EARLIEST = 315532800  # 1980, the first time that a zip file can say


def content_of(path):
    with open(path, "rb") as f:
        return f.read()


def metadata_of(project, version):
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + version,
             "Summary: " + project["description"], "License: " + project["license"]["text"],
             "Requires-Python: " + project["requires-python"], "Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + content_of(os.path.join(TOP, "python", project["readme"])).decode()


def entry_points_of(project):
    return "".join("[%s]\n%s\n" % (group, "".join("%s = %s\n" % one for one in sorted(points.items())))
                   for group, points in sorted(project["entry-points"].items()))


def licences():
    text = []
    for package in LINKED:
        path = "/usr/share/doc/%s/copyright" % package
        if not os.path.exists(path):
            sys.exit("wheel: %s is not there, which says how what is linked in may be passed on: install %s with its "
                     "documents" % (path, package))
        text.append("==== %s ====\n\n%s\n" % (package, content_of(path).decode()))
    return "".join(text)


def main(folder, version, tag, *named):
    tool = tomllib.loads(content_of(os.path.join(TOP, "python/pyproject.toml")).decode())
    project, info = tool["project"], "muster-%s.dist-info/" % version
    if project["version"] != version:
        sys.exit("wheel: python/pyproject.toml says %s, include/muster/muster.h %s" % (project["version"], version))
    files, programs = {}, set()
    source = os.path.join(TOP, "python/src")
    for module in tool["tool"]["setuptools"]["py-modules"]:
        files[module + ".py"] = content_of(os.path.join(source, module + ".py"))
    for package in tool["tool"]["setuptools"]["packages"]:
        for name in os.listdir(os.path.join(source, package)):
            if name.endswith(".py") or name == "py.typed":
                files[package + "/" + name] = content_of(os.path.join(source, package, name))
    for one in named:
        name, path = one.split("=", 1)
        files[name] = content_of(path)
        if os.access(path, os.X_OK):
            programs.add(name)
    files[info + "METADATA"] = metadata_of(project, version).encode()
    files[info + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode()
    files[info + "entry_points.txt"] = entry_points_of(project).encode()
    files[info + "LICENSE"] = content_of(os.path.join(TOP, "LICENSE"))
    files[info + "LICENSES-LINKED"] = licences().encode()
    record = info + "RECORD"
    rows = ["%s,sha256=%s,%d\n" % (name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="),
                                   len(data)) for name, data in sorted(files.items())]
    files[record] = ("".join(rows) + record + ",,\n").encode()

    moment = time.gmtime(max(EARLIEST, int(os.environ.get("SOURCE_DATE_EPOCH") or EARLIEST)))[:6]
    path = os.path.join(folder, "muster-%s-%s.whl" % (version, tag))
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in sorted(set(files) - {record}) + [record]:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, files[name])
    os.replace(path + ".part", path)
    print("%s: %.2f MiB" % (path, os.path.getsize(path) / 1048576))


if __name__ == "__main__":
    main(*sys.argv[1:])
