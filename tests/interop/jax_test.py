#!/usr/bin/env python3
"""The shortest of `make interop`, where a JAX is at hand: its initialize() under the launcher, and one of four killed.

That is the one which `make interop` has installed, or of the environment that MUSTER_TEST_JAX names, or this Python's own.
"""
# variants: release asan
# timeout: 300
import os
import subprocess
import sys

sys.dont_write_bytecode = True
os.environ["MUSTER_TEST_INTEROP"] = os.environ["TMPDIR"]  # for logs

import jax_cases
import kit


def candidates():
    if os.environ.get("MUSTER_TEST_JAX"):
        yield os.path.join(os.environ["MUSTER_TEST_JAX"], "bin/python")
    else:
        yield os.path.join(os.path.dirname(os.environ["BUILD"]), "interop/jax-newest/bin/python")
        yield sys.executable


def version_of(python):
    """jaxlib's, or None."""
    code = "import jax, importlib.metadata as m; print(m.version('jaxlib'))"
    try:
        run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=kit.clean_environment())
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def main():
    found = [(version, python) for python in candidates() for version in [version_of(python)] if version]
    if not found:
        print("no JAX here: make interop installs some, MUSTER_TEST_JAX names a virtual environment that has one")
        sys.exit(77)
    version, python = found[0]
    kit.begin()
    jax_cases.sums(version, python, 2)
    jax_cases.again(version, python)
    jax_cases.one_killed(version, python, compare=False)
    sys.exit(bool(kit.failures))


main()
