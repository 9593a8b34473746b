#!/bin/bash
# `pip install ./python`, offline, into a fresh virtual environment; and the sdist.
# variants: release
. "$TOP/tests/cli/common.sh"
PYTHON=$(command -v /usr/bin/python3 || command -v python3)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INDEX=1 PYTHONDONTWRITEBYTECODE=1 HOME=$TMPDIR
unset PYTHONPATH PIP_CONFIG_FILE MUSTER_LIBRARY

"$PYTHON" -c 'import venv' 2> /dev/null || skip "there is no venv: no environment to install into"
"$PYTHON" -c 'import setuptools, wheel; assert int(setuptools.__version__.split(".")[0]) >= 61' 2> /dev/null ||
    skip "setuptools 61 or newer and wheel are not installed: nothing to build the package with offline"
"$PYTHON" -m pip --version > /dev/null 2>&1 || skip "pip is not installed"

# A copy: what building leaves behind does not belong into the tree. The environment sees the system's setuptools and pip.
cp -r "$TOP/python" "$TMPDIR/python"
"$PYTHON" -m venv --system-site-packages --without-pip "$TMPDIR/venv" || fail "no virtual environment"
BIN=$TMPDIR/venv/bin

check 0 "$BIN/python" -m pip install --no-build-isolation --no-deps --no-compile "$TMPDIR/python"
out_has "Successfully installed muster-0.1.0"

# It is the installed one that is used, and it is whole: all modules, typed.
check 0 env -C "$TMPDIR" MUSTER_LIBRARY="$BUILD/libmuster.so.0" "$MUSTER" run -n 2 -- "$BIN/python" -c '
import os, sys, muster
folder = os.path.dirname(muster.__file__)
assert folder.startswith(sys.prefix), folder
with muster.join() as task:
    task.kv["from/%d" % task.id] = "x"
    task.barrier("all")
    assert len(task.kv) == 2
    task.barrier("seen")
    print("sound\n" if task.id else "", end="")'
out_is sound
(cd "$TOP/python/src/muster" && git -c safe.directory='*' ls-files . 2> /dev/null || ls) | sort > "$TMPDIR/ours"
for file in $(cat "$TMPDIR/ours"); do
    cmp -s "$TOP/python/src/muster/$file" "$(echo "$TMPDIR"/venv/lib/python3*/site-packages/muster)/$file" ||
        fail "not installed as it is: $file"
done

# The sdist has all that it takes to build it again.
(cd "$TMPDIR/python" && "$BIN/python" -c 'import sys
from setuptools import build_meta
build_meta.build_sdist(sys.argv[1])' "$TMPDIR") > "$OUT" 2> "$ERR" || fail "no sdist"
tar tzf "$TMPDIR/muster-0.1.0.tar.gz" > "$OUT"
for file in pyproject.toml README.md $(sed 's|^|src/muster/|' "$TMPDIR/ours"); do
    grep -qx "muster-0.1.0/$file" "$OUT" || fail "the sdist lacks $file"
done
