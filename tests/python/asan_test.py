#!/usr/bin/env python3
"""The other tests of the package that take seconds, with the library built for AddressSanitizer: what Python gives it, and keeps.

Interpreters that do not end by themselves lose memory, so leaks are not looked for."""
# variants: asan
# timeout: 300
import os
import shutil
import subprocess
import sys

TESTS = ("library", "kv", "errors", "group", "async", "object")


def compilers_own(name):
    """A library of the compiler that has built ours."""
    compiler = shutil.which(os.environ.get("CC", "cc").split()[0])
    found = subprocess.run([compiler, "-print-file-name=" + name], capture_output=True, text=True).stdout.strip() if compiler else ""
    return found if os.path.isabs(found) and os.path.exists(found) else ""


# The sanitizer looks for C++'s throw when it starts: PyTorch, which is loaded later, throws.
library = " ".join(filter(None, map(compilers_own, ("libasan.so", "libstdc++.so.6"))))
if not compilers_own("libasan.so") or " " in compilers_own("libasan.so"):
    print("no libasan.so of the compiler is here, in a path that LD_PRELOAD can say")
    sys.exit(77)
options = os.environ.get("ASAN_OPTIONS", "")
environment = dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS=options + ":detect_leaks=0" if options else "detect_leaks=0")
for name in TESTS:
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + "_test.py")], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "AddressSanitizer" not in done.stdout, "%s: exit status %d\n%s" % (name, done.returncode, done.stdout)
    print("# %s: %s" % (name, done.stdout.splitlines()[-1]))
