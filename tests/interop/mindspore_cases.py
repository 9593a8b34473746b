"""Cases of `make interop` for MindSpore: its workers and parameter servers, unmodified, with muster as their scheduler."""
import os
import re
import subprocess
import tempfile

import kit
from kit import verdict

# MindSpore's nodes refuse a host that has no address but 127.0.0.1: as root they get a network of their own.
NETWORK = ["unshare", "-n", "sh", "-c", "ip link set lo up; ip link add ms0 type veth peer name ms1; ip addr add 10.77.0.1/24 dev ms0; "
           "ip link set ms0 up; exec \"$@\"", "sh"] if os.geteuid() == 0 else []
LIBRARY = re.compile(r"NEEDED.*\[(lib(?:cu|nv)\w*\.so[.0-9]*)\]")


def run(name, options, python, program, **more):
    """Exit status, and all that was said."""
    with tempfile.TemporaryDirectory() as folder:
        environment = kit.clean_environment(GLOG_v="3", OMP_NUM_THREADS="1", **more)
        result = subprocess.run(NETWORK + [kit.MUSTER, "run", "--mindspore", "--timeout", "%ds" % kit.MINUTES, *options, "--",
                                           os.path.abspath(python), os.path.join(kit.HERE, "programs", program)], cwd=folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", env=environment)
    with open(os.path.join(kit.LOGS, name + ".log"), "w") as log:
        log.write(result.stdout)
    return result.returncode, result.stdout


def reduces(version, python, dialect):
    status, said = run("%s-%s" % (version, dialect), ["-n", "3", "--mindspore-dialect", dialect], python, "mindspore_reduce.py")
    lines = sorted(re.findall(r"rank \d of \d: [^\n]*", said))
    right = ["rank %d of 3: [6.0, 6.0, 6.0, 6.0]" % rank for rank in range(3)]
    verdict(version, "a sum of 3 workers, dialect %s" % dialect, None if status == 0 and lines == right else said)


def stand_ins(package, folder):
    """Libraries in place of CUDA's, which a wheel for GPUs is linked with: each function of theirs answers with an error."""
    wheels = [os.path.join(at, name) for at, _, names in os.walk(package) for name in names if ".so" in name]
    needed, wanted = set(), {}
    for wheel in wheels:
        needed |= set(LIBRARY.findall(subprocess.run(["readelf", "-d", wheel], capture_output=True, text=True).stdout))
        for line in subprocess.run(["nm", "-D", "--undefined-only", wheel], capture_output=True, text=True).stdout.splitlines():
            name, _, version = line.split()[-1].partition("@")
            if re.match(r"cu|nvrtc|__cuda", name):
                wanted[name] = version.lstrip("@")
    for library in needed:
        base = library[3:].partition(".so")[0]
        mine = [n for n, v in wanted.items() if (v == library if v in needed else
                                                 n.startswith({"cuda": "cu", "cudart": ("cuda", "__cuda")}.get(base, base)))]
        text = "static long some[64];\n" + "".join(
            "void *%s(void) { return some; }\n" % n if "RegisterFatBinary" in n and "Unregister" not in n and "End" not in n
            else "int %s(void) { return %d; }\n" % (n, 0 if n.startswith("__cuda") else 100) for n in mine)
        versions = "%s { global: *; };\n" % library if any(wanted[n] == library for n in mine) else "{ global: *; };\n"
        with open(os.path.join(folder, "map"), "w") as out:
            out.write(versions)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname," + library, "-Wl,--version-script=%s/map" % folder,
                        "-o", os.path.join(folder, library)], input=text, text=True, check=True)


def trains(version, python, ends):
    package = subprocess.run([python, "-c", "import importlib.util as u; print(u.find_spec('mindspore').submodule_search_locations[0])"],
                             capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        stand_ins(package, folder)
        status, said = run(version, ["-n", "4", "--servers", "2", "--kill-on-fail=no"], python, "mindspore_train.py", LD_LIBRARY_PATH=folder)
    right = re.findall(r"2.30384 2.30089 2.29540 2.28781 2.27856", said)
    verdict(version, "2 servers and 2 workers train to the losses of their own scheduler",
            None if len(right) == 2 and status in ends else said)


def all_cases(version, python):
    if version.startswith("mindspore-1"):
        trains(version, python, (0,) if version == "mindspore-1.5.0" else (0, 139))  # 1.8.1's servers: with their own, too
        return
    for dialect in ("auto", "old" if version == "mindspore-2.7.0" else "new"):
        reduces(version, python, dialect)
