#!/usr/bin/env python3
"""muster.torch: PyTorch's own checks of a store, and the name of a rank that died. More of it is in make interop.

Where a C compiler and Python's headers are there the checks go by muster._fast, the rest by ctypes."""
# variants: release
# timeout: 300
import os
import shutil
import subprocess
import sys
import sysconfig

import common
from common import MUSTER, SOURCE, TOP, job_name


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed as d; d.Store"], capture_output=True).returncode == 0


def compiled():
    """A copy of the package with muster._fast in it, or the package as it is."""
    folder = os.path.join(os.environ["TMPDIR"], "src")
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    compiler = shutil.which("cc")
    headers = sysconfig.get_paths()["include"]
    if not compiler or not os.path.exists(os.path.join(headers, "Python.h")):
        print("# without muster._fast: no compiler, or no headers of Python's in %s" % headers)
        return SOURCE
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I" + headers,
                    os.path.join(folder, "muster/_fast.c"), "-o", os.path.join(folder, "muster/_fast.so")], check=True)
    return folder


def test_the_checks_of_pytorch_hold_on_the_segment():
    source = compiled()
    done = subprocess.run([MUSTER, "run", "-n", "1", "--job", job_name(), "--", sys.executable,
                           os.path.join(TOP, "tests/interop/programs/torch_checks.py"), "muster"], capture_output=True,
                          text=True, env=dict(os.environ, PYTHONPATH=source, MUSTER_CHECKS_FAST=str(int(source != SOURCE))))
    assert done.returncode == 0 and "0 checks of PyTorch" in done.stdout, done.stdout + done.stderr


def test_a_rank_that_dies_is_named_and_others_see_the_same_keys():
    said = common.run(2, """
        import os, signal, sys
        import muster
        if os.environ["RANK"] == "1":
            task = muster.join()
            assert task.kv.get("tcpstore/:a:b%3A", wait=50) == b"1"
            task.kv["tcpstore/:from:C"] = b"hello"
            task.kv.get("tcpstore/:waits", wait=50)
            os.kill(os.getpid(), signal.SIGKILL)
        import muster.torch
        store = muster.torch.Store(timeout=50)
        assert muster.torch._fast is None and store.add("a/b:", 1) == 1
        assert store.get("from/C") == b"hello" and sorted(store.list_keys() if hasattr(store, "list_keys") else []) == [
            "a/b:", "from/C"]
        store.set("n", " 12 apples")
        assert store.add("n", 3) == 15 and store.compare_set("n", "15", "x") == b"x"
        big = os.urandom(100000)
        store.set("big", big)
        assert store.get("big") == big and store.check(["big", "n"]) and not store.check(["none"])
        store.set("waits", "")
        try:
            store.get("never")
        except muster.torch.StoreError as error:
            assert error.culprit.task == 1 and "task 1 (pid" in str(error), error
            print("named: %s" % error)
        muster.torch.joined().leave()
        try:
            store.get("n")
        except muster.FailedPrecondition as error:
            print("closed: %s" % error)
        """, options=("--kill-on-fail=no",), status=None)
    assert "named: key /never" in said and "closed: this process has left the job" in said, said


if not has_torch():
    print("PyTorch is not here: apt-get install python3-torch, and a python3 that sees it")
    sys.exit(77)
common.main(sys.modules[__name__])
