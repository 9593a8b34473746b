#!/usr/bin/env python3
"""tests/packages/wheel.py WHEEL FLOOR: is the wheel as PEP 427 has it, and may each file of it run where glibc is FLOOR?

Of an ELF file its libraries and the versions of their symbols are read by readelf: auditwheel does likewise, where it is.
"""
import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile

GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2",
         "ld-linux-aarch64.so.1"}
OURS = {"libmuster.so.0"}
LARGEST = 12 << 20


def record_check(wheel):
    record, = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
    names, rows = wheel.namelist(), list(csv.reader(io.StringIO(wheel.read(record).decode())))
    assert len(set(names)) == len(names) and names == sorted(set(names) - {record}) + [record], "the order of files"
    assert sorted(row[0] for row in rows) == sorted(names), set(names) ^ {row[0] for row in rows}
    for name, digest, size in rows:
        data = wheel.read(name)
        if name == record:
            assert (digest, size) == ("", ""), name
            continue
        own = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert (digest, size) == ("sha256=" + own, str(len(data))), name


def elf_check(name, data, floor):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        text = subprocess.run(["readelf", "-dVW", file.name], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    assert needed <= GLIBC | OURS, "%s needs %s" % (name, needed - GLIBC - OURS)
    paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
    assert not paths or paths == ["$ORIGIN"], "%s looks for libraries in %s" % (name, paths)
    assert "TEXTREL" not in text, name
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([0-9.]+)", text)}
    assert all(version <= floor for version in versions), "%s wants glibc %s" % (name, max(versions))
    return max(versions, default=())


def main(path, floor_text):
    floor = tuple(map(int, floor_text.split(".")))
    newest, elves = (), 0
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        record_check(wheel)
        size = sum(entry.compress_size for entry in wheel.infolist())
        assert size <= LARGEST, "%d bytes" % size
        for entry in wheel.infolist():
            data = wheel.read(entry)
            if data[:4] == b"\x7fELF":
                elves += 1
                newest = max(newest, elf_check(entry.filename, data, floor))
                assert entry.external_attr >> 16 & 0o777 == 0o755, entry.filename
    assert elves == 8 and newest, elves
    print("%d files of ELF want glibc %s" % (elves, ".".join(map(str, newest))))


main(*sys.argv[1:])
