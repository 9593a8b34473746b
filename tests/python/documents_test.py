#!/usr/bin/env python3
"""The docstrings of the package keep their word: every example in them is run.
variants: release
"""
import doctest
import fcntl
import glob
import importlib
import os
import sys

import common
import muster

# Jobs have the names that stand there: one of these tests at a time.
lock = open(__file__)
fcntl.flock(lock, fcntl.LOCK_EX)


def test_docstrings():
    seen = 0
    for path in sorted(glob.glob(os.path.join(common.SOURCE, "muster", "*.py"))):
        name = os.path.basename(path)[:-3]
        if name == "torch":
            continue  # PyTorch may not be here; its own tests run it
        module = importlib.import_module("muster" if name == "__init__" else "muster." + name)
        done = doctest.testmod(module, extraglobs={"muster": muster})
        assert not done.failed, "%s: %d of %d examples fail" % (name, done.failed, done.attempted)
        seen += done.attempted
    assert seen > 20, seen


common.main(sys.modules[__name__])
