#!/bin/bash
# `make wheel`: made twice it is the same in every byte; what it holds runs on the glibc that its name says; installed
# into an empty environment it runs a job with its own command, guard, library and hwloc; and pip takes all of it away.
# variants: release
. "$TOP/tests/cli/common.sh"
PYTHON=$(command -v /usr/bin/python3 || command -v python3)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INDEX=1 PYTHONDONTWRITEBYTECODE=1 HOME=$TMPDIR
unset PYTHONPATH PIP_CONFIG_FILE MUSTER_LIBRARY LD_LIBRARY_PATH
"$PYTHON" -c 'import venv, tomllib' 2> /dev/null || skip "Python has no venv, or is older than 3.11: no wheel is made"
"$PYTHON" -m pip --version > /dev/null 2>&1 || skip "pip is not installed"
[ -e "$BUILD/whole/muster" ] || skip "the command is not static here"
[ -e /usr/share/doc/libuv1-dev/copyright ] || skip "the machine has no documents of packages, so no licences for a wheel"

MADE=$(realpath --relative-to="$TOP" "$(dirname "$BUILD")")/wheel
for again in "" "WHEEL=$MADE/again WHEEL_OUT=$MADE/again"; do
    # shellcheck disable=SC2086
    make -s -C "$TOP" BUILD="${MADE%/wheel}" VARIANT=release wheel $again > "$OUT" 2>&1 || fail "make wheel"
done
WHEEL=$(echo "$TOP/$MADE"/muster-*_"$(uname -m)".whl)
cmp "$WHEEL" "$TOP/$MADE/again/${WHEEL##*/}" || fail "made again, the wheel is another"
check 0 "$PYTHON" "$TOP/tests/packages/wheel.py" "$WHEEL" 2.28
out_has '^8 files'

"$PYTHON" -m venv --system-site-packages --without-pip "$TMPDIR/venv" || fail "no virtual environment"
BIN=$TMPDIR/venv/bin
check 0 "$BIN/python" -m pip install --no-compile --ignore-installed "$WHEEL"
out_has "Successfully installed muster-"
here() { (cd "$TMPDIR" && exec env -i PATH="$BIN:/usr/bin:/bin" HOME="$HOME" PYTHONDONTWRITEBYTECODE=1 "$@"); }

# The command is the program itself, and each part of it is the installed one.
cmp -s -n 4 "$BIN/muster" "$MUSTER" || fail "$BIN/muster is a script"
check 0 here muster run -n 2 -- sh -c 'for guard in /proc/[0-9]*; do
    [ "$(tr "\0" " " < "$guard/cmdline" 2> /dev/null)" != "mu-guard $MUSTER_JOB " ] || readlink "$guard/exe"; done'
[ "$(sort -u "$OUT")" = "$TMPDIR/venv/lib/muster/mu-guard" ] || fail "the guard is another"
check 0 here muster run -n 2 -- python -c '
import muster
with muster.join() as task, task.group("all") as group:
    print("%s %s\n" % (group.allgather(b"%d" % group.rank), muster.library_path), end="")'
[ "$(sort -u "$OUT")" = "[b'0', b'1'] $(echo "$TMPDIR"/venv/lib/python3*/site-packages/muster/libmuster.so.0)" ] ||
    fail "the library is another"
check 0 here python -m muster version
cp "$OUT" "$TMPDIR/said"
check 0 here muster version
cmp -s "$OUT" "$TMPDIR/said" || fail "python -m muster says another version"
check 3 here python -m muster run -n 1 -- sh -c 'exit 3'
check 0 here man -w -M "$TMPDIR/venv/share/man" muster-run

# A machine whose hwloc cannot be used has the wheel's; without that, none.
mkdir "$TMPDIR/none"
: > "$TMPDIR/none/libhwloc.so.15"
check 0 here LD_LIBRARY_PATH="$TMPDIR/none" muster topo
out_has 'L[0-9] cache\|core 0'
grep -q 'note: hwloc' "$OUT" && fail "the wheel's hwloc is not used"
rm "$TMPDIR/venv/lib/muster/libhwloc-muster.so.15"
check 0 here LD_LIBRARY_PATH="$TMPDIR/none" muster topo
out_has 'note: hwloc: cannot load hwloc (.*libhwloc.so.15: file too short); install the package libhwloc15'

check 0 "$BIN/python" -m pip uninstall -y muster
[ -z "$(find "$TMPDIR/venv" -name '*muster*' -not -type d)" ] || fail "left behind: $(find "$TMPDIR/venv" -name '*muster*')"
exit 0
