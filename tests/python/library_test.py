#!/usr/bin/env python3
"""muster._lib: the declarations are those of the headers, and a library that is not there, or another one, is one
clear line with the fix.
variants: release
"""
import ctypes
import ctypes.util
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import common
from muster import _lib

CC = os.environ.get("CC", "cc").split()
STRUCTS = {"muster_segment_config": _lib.SegmentConfig, "muster_options": _lib.Options, "muster_kv_entry": _lib.KvEntry,
           "muster_kv_list": _lib.KvList, "muster_task_info": _lib.TaskInfo, "muster_error": _lib.ErrorInfo,
           "muster_event": _lib.EventInfo, "muster_membership": _lib.Membership, "muster_barrier_info": _lib.BarrierInfo,
           "muster_nccl_options": _lib.NcclOptions, "muster_object_room": _lib.ObjectRoom,
           "muster_object_view": _lib.ObjectView, "muster_object_info": _lib.ObjectInfo, "muster_function_text": _lib.FunctionText,
           "muster_function_info": _lib.FunctionInfo, "muster_argument": _lib.Argument,
           "muster_submit_options": _lib.SubmitOptions, "muster_resource": _lib.Resource, "muster_resource_look": _lib.ResourceLook,
           "muster_call_look": _lib.CallLook, "muster_call_info": _lib.CallInfo, "muster_ps_config": _lib.PsConfig,
           "muster_ps_info": _lib.PsInfo, "muster_local": _lib.Local,
           "muster_checkpoint_tensor": _lib.CheckpointTensor, "muster_checkpoint_info": _lib.CheckpointInfo,
           "muster_checkpoint_view": _lib.CheckpointView}


def compile_(text, to, *flags):
    subprocess.run(CC + ["-x", "c", "-", "-o", to, *flags], input=text, text=True, check=True, timeout=common.PATIENCE)


def test_structs_lie_as_the_compiler_lays_them():
    rows, wanted = [], []
    for name, struct in STRUCTS.items():
        rows.append('printf("%s %%zu\\n", sizeof(struct %s));' % (name, name))
        wanted.append("%s %d" % (name, ctypes.sizeof(struct)))
        for field, kind in struct._fields_:
            rows.append('printf("%s.%s %%zu %%zu\\n", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));' %
                        (name, field, name, field, name, field))
            wanted.append("%s.%s %d %d" % (name, field, getattr(struct, field).offset, ctypes.sizeof(kind)))
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "lay")
        compile_("#include <stddef.h>\n#include <stdio.h>\n#include <muster/muster.h>\n#include <muster/schedule.h>\nint main(void)\n{\n%s\n}\n" %
                 "\n".join(rows), program, "-I" + os.path.join(common.TOP, "include"))
        got = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert got == wanted, sorted(set(got) ^ set(wanted))


def prototypes():
    """name: (whether it returns a pointer or what kind of number, parameters) of all public headers."""
    found = {}
    for header in glob.glob(os.path.join(common.TOP, "include", "muster", "*.h")):
        with open(header) as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        for match in re.finditer(r"MUSTER_API\s+([\w\s*]+?)\s*\b(muster_\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
            parameters = re.sub(r"\([^()]*\)", "()", re.sub(r"\(\*\w+\)\([^()]*\)", "callback*", match.group(3)))
            found[match.group(2)] = (match.group(1).strip(),
                                     [] if parameters.strip() == "void" else [p.strip() for p in parameters.split(",")])
    return found


def c_size(type_):
    """What a value of this C type takes, as the ABI passes it."""
    if "*" in type_:
        return 8
    word = re.sub(r"\bconst\b", "", type_).split()[0]
    return {"enum": 4, "int": 4, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "double": 8, "uint64_t": 8, "muster_object": 8,
            "muster_function": 8, "size_t": 8, "muster_deadline": 8}[word]


def test_calls_are_declared_as_the_headers_say():
    headers = prototypes()
    assert len(headers) > 60
    for name, (restype, argtypes) in _lib.CALLS.items():
        assert name in headers, name + " is in no header"
        returns, parameters = headers[name]
        assert len(parameters) == len(argtypes), name
        assert (restype is None) == (returns == "void"), name
        assert restype is None or ctypes.sizeof(restype) == c_size(returns), name
        for parameter, kind in zip(parameters, argtypes):
            assert ctypes.sizeof(kind) == c_size(parameter), "%s: %s" % (name, parameter)


def test_statuses_have_the_headers_numbers():
    for number in range(16):
        assert getattr(_lib, _lib.lib.muster_status_name(number).decode()) == number


def test_a_path_that_leads_nowhere():
    out = common.python("import muster", status=1, environment={"MUSTER_LIBRARY": "/nowhere/libmuster.so.0"})
    assert "LibraryNotFound: /nowhere/libmuster.so.0 cannot be loaded" in out and "MUSTER_LIBRARY names it" in out, out


def test_a_library_that_is_something_else():
    with tempfile.TemporaryDirectory() as folder:
        fake = os.path.join(folder, "libfake.so")
        compile_("int x;", fake, "-shared", "-fPIC")
        out = common.python("import muster", status=1, environment={"MUSTER_LIBRARY": fake})
        assert "libfake.so is not the libmuster that this package speaks to" in out, out
        text = 'const char *muster_version(void) { return "9.0.0"; }\n' + "".join(
            "void %s(void) {}\n" % name for name in _lib.CALLS if name != "muster_version")
        compile_(text, fake, "-shared", "-fPIC", "-w")
        out = common.python("import muster", status=1, environment={"MUSTER_LIBRARY": fake})
        assert "libfake.so is version 9.0.0, and this package speaks to libmuster.so.0" in out, out


def test_a_worker_starts_with_little():
    """What takes longest of all that it could import."""
    names = "typing", "re", "enum", "pickle", "contextlib", "muster.kv", "muster.group"
    out = subprocess.run([sys.executable, "-S", "-c", "import sys, muster.worker; print([m for m in %r if m in sys.modules])" % (names,)],
                         stdout=subprocess.PIPE, text=True, timeout=common.PATIENCE).stdout
    assert out == "[]\n", out


def test_where_it_is_looked_for():
    show = "import muster; print(muster.library_path)"
    library = os.path.join(common.BUILD, _lib.SONAME)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "a", "b", "src", "muster")
        shutil.copytree(os.path.join(common.SOURCE, "muster"), copy)
        bare = {"PYTHONPATH": os.path.dirname(copy), "PATH": "/nowhere", "MUSTER_LIBRARY": ""}
        shutil.copy(library, copy)
        assert common.python(show, environment=bare).strip() == os.path.join(copy, _lib.SONAME)
        os.remove(os.path.join(copy, _lib.SONAME))
        installed = ctypes.util.find_library("muster") or os.path.exists("/usr/local/lib/" + _lib.SONAME)
        if installed:
            print("a libmuster is installed on this machine: how one that is nowhere is told of is not tried")
        else:
            out = common.python("import muster", status=1, environment=bare)
            assert "libmuster.so.0 is not here; run `make && sudo make install && sudo ldconfig`" in out, out
            os.makedirs(os.path.join(folder, "prefix", "bin"))
            os.makedirs(os.path.join(folder, "prefix", "lib"))
            shutil.copy(library, os.path.join(folder, "prefix", "lib"))
            shutil.copy(common.MUSTER, os.path.join(folder, "prefix", "bin"))
            bare["PATH"] = os.path.join(folder, "prefix", "bin")
            assert common.python(show, environment=bare).strip() == os.path.join(folder, "prefix", "lib", _lib.SONAME)
        bare["LD_LIBRARY_PATH"] = common.BUILD
        assert common.python(show, environment=bare).strip() == _lib.SONAME


common.main(sys.modules[__name__])
