#!/bin/bash
# The wheel and Debian's packages in bare systems, as a stranger installs them: `make check-packages`, as root.
#
#   tests/packages/run.sh WHEEL FOLDER_OF_DEBS [SUITE[=MIRROR]]...
#
# For each suite (bullseye, bookworm, trixie, if none is named) debootstrap makes a root of its smallest kind with Python,
# once, in build/packages. In copies of it, which are gone afterwards, in namespaces of their own (mounts, processes, IPC,
# the machine's name) and, for the wheel, without a network, packages are installed and README's lines are run. The wheel
# is also installed for each Python from 3.9 on that pyenv has here. auditwheel and lintian look at them where
# they are; the steps of packaging/Containerfile are done in a Debian 12.
set -euo pipefail
cd "$(dirname "$0")/../.."
FOLDER=$(realpath -m "${PACKAGES_FOLDER:-build/packages}")
LIMIT=600
TOP=$PWD

die() {
    echo "check-packages: $*" >&2
    exit 2
}

make_base() {
    local suite=${1%%=*} mirror=http://deb.debian.org/debian

    [[ $1 != *=* ]] || mirror=${1#*=}
    [ ! -e "$FOLDER/$suite.made" ] || return 0
    rm -rf "${FOLDER:?}/$suite"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$FOLDER/$suite" "$mirror" > "$FOLDER/$suite.log" ||
        die "debootstrap has failed for $suite; its last words: $(tail -n 1 "$FOLDER/$suite.log")"
    : > "$FOLDER/$suite.made"
}

# In the namespaces: a root that is thrown away above the suite's, then the commands in it.
enter() {
    local base=$1 packages=$2 upper=$FOLDER/upper

    mkdir -p "$upper"
    mount -t tmpfs tmpfs "$upper"
    mkdir "$upper/changes" "$upper/work" "$upper/root"
    mount -t overlay -o "lowerdir=$base,upperdir=$upper/changes,workdir=$upper/work" overlay "$upper/root"
    cd "$upper/root"
    hostname bare
    echo "127.0.0.1 localhost bare" > etc/hosts
    [ -n "${NO_NETWORK:-}" ] || cp /etc/resolv.conf etc/resolv.conf
    mkdir root/packages .old
    cp $packages root/packages
    cp "$TOP/README.md" root
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    pivot_root . .old
    exec chroot . env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8 \
        bash -euo pipefail -c "umount --lazy /.old && cd /root && $3"
}

# in_root SUITE NAME NAMESPACES PACKAGES COMMANDS
in_root() {
    local rc=0

    timeout --kill-after=10 $LIMIT unshare --mount --pid --fork --kill-child --ipc --uts $3 \
        tests/packages/run.sh --enter "$FOLDER/$1" "$4" "$5" < /dev/null > "$FOLDER/$1-$2.log" 2>&1 || rc=$?
    [ $rc -eq 0 ] || tail -n 40 "$FOLDER/$1-$2.log"
    echo "$1: $2: $([ $rc -eq 0 ] && echo passed || echo "failed ($rc)")$(sed -n 's/^took /, /p' "$FOLDER/$1-$2.log")"
    return $rc
}

# The Containerfile's steps, which compile all of muster, in a Debian 12; then a job in the image.
image_build() {
    local rc=0

    timeout --kill-after=10 $((3 * LIMIT)) unshare --mount --pid --fork --kill-child --ipc --uts \
        tests/packages/image.py packaging/Containerfile "$FOLDER/bookworm" "$FOLDER/upper" \
        'muster run -n 2 --label -- python -c "import muster; print(muster.join().group(\"all\").allgather(b\"\"))"' \
        < /dev/null > "$FOLDER/image.log" 2>&1 || rc=$?
    [ $rc -eq 0 ] || tail -n 40 "$FOLDER/image.log"
    echo "bookworm: packaging/Containerfile: $([ $rc -eq 0 ] && echo passed || echo "failed ($rc)")"
    return $rc
}

# README's lines that need nothing but what is installed, and what it shows.
LINES='
muster run -n 4 --label -- sh -c '\''echo rank $RANK of $WORLD_SIZE'\'' | sort | tee said
[ "$(sed -n 4p said)" = "[3] rank 3 of 4" ]
muster topo | tee said
grep -q "NUMA node 0" said
muster doctor || true
muster run -n 4 -- sh -c "muster barrier wait b > /dev/null && muster status > /dev/null"
muster segment list
'
PYTHON_LINES='
sed -n "/^    \$ cat meet.py/,/^    \$ muster/p" README.md | sed "1d;\$d;s/^    //" > meet.py
muster run -n 2 --job meet --label -- python meet.py | tee said
grep -c "1 squared is 1" said | grep -qx 2
python -m muster version
'
WHEEL_LINES='
python3 -m venv v && . v/bin/activate
begin=$(date +%s%N)
pip install --no-index packages/*.whl
muster run -n 2 true
echo "took $((($(date +%s%N) - begin) / 1000000)) ms from pip install to the end of the first job"
'"$LINES$PYTHON_LINES"'
pip uninstall -y muster
! find v -name "*muster*" -not -type d | grep .
'
DEB_LINES='
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends ./packages/*.deb libhwloc15 gcc libc6-dev pkg-config
'"$LINES"'
printf "#include <muster/muster.h>\n#include <stdio.h>\nint main(void)\n{\n    struct muster *m;\n    return muster_join(NULL, &m) != MUSTER_OK || puts(muster_job(m)) < 0;\n}\n" > train.c
cc train.c $(pkg-config --cflags --libs muster)
muster run -n 2 --job built -- ./a.out | tee said
[ "$(sort -u said)" = built ]
cc -static train.c $(pkg-config --static --cflags --libs muster)
muster run -n 2 --job built -- ./a.out
DEBIAN_FRONTEND=noninteractive apt-get -qq purge -y libmuster0 libmuster-dev muster
! find / -xdev -name "*muster*" -not -path "/root/*" -not -path "/proc/*" -not -type d | grep .
'

[ "${1:-}" != --enter ] || enter "${@:2}"
[ $# -ge 2 ] || die "usage: tests/packages/run.sh WHEEL FOLDER_OF_DEBS [SUITE[=MIRROR]]..."
WHEEL=$(realpath "$1") DEBS=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- bullseye bookworm trixie
[ "$(id -u)" -eq 0 ] || die "only root can make a root: run it as root"
command -v debootstrap > /dev/null || die "debootstrap is missing: apt-get install debootstrap"
mkdir -p "$FOLDER"
failed=0
python3 tests/packages/wheel.py "$WHEEL" "$(sed 's/.*manylinux_\([0-9]*\)_\([0-9]*\).*/\1.\2/' <<< "${WHEEL##*/}")" || failed=1
if command -v auditwheel > /dev/null; then
    auditwheel show "$WHEEL" | tr '\n' ' ' | grep -q "consistent with the following platform tag: \"$(sed 's/.*-\(manylinux.*\)\.whl/\1/' <<< "${WHEEL##*/}")\"" &&
        echo "auditwheel: as it is named" || { echo "auditwheel: another tag"; failed=1; }
else
    echo "auditwheel: not here (pip install auditwheel)"
fi
if command -v lintian > /dev/null; then
    said=$(lintian --allow-root "$DEBS"/*.changes 2>&1) && [ -z "$said" ] && echo "lintian: clean" || { echo "lintian: $said"; failed=1; }
else
    echo "lintian: not here (apt-get install lintian)"
fi
for python in ~/.pyenv/versions/3.*/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    place=$(mktemp -d)
    ("$python" -m venv "$place/v" && . "$place/v/bin/activate" && pip -q install --no-index "$WHEEL" && cd "$place" &&
        [ "$(muster run -n 2 --label -- python -c 'import muster; print(len(muster.join().group("all").allgather(b"")))' | sort)" = $'[0] 2\n[1] 2' ]) &&
        echo "$("$python" --version): passed" || { echo "$("$python" --version): failed"; failed=1; }
    rm -rf "$place"
done
for suite in "$@"; do
    make_base "$suite"
    suite=${suite%%=*}
    NO_NETWORK=1 in_root "$suite" wheel --net "$WHEEL" "$WHEEL_LINES" || failed=1
    # Packages are built for the Debian that they are built on, and newer ones.
    glibc=$(chroot "$FOLDER/$suite" dpkg-query -W -f '${Version}' libc6)
    if dpkg --compare-versions "$glibc" ge "$(dpkg-query -W -f '${Version}' libc6 | sed 's/-.*//')"; then
        in_root "$suite" deb "" "$(echo "$DEBS"/*.deb)" "$DEB_LINES" || failed=1
        [ "$suite" != bookworm ] || image_build || failed=1
    else
        echo "$suite: deb: its glibc is older than that which the packages are built with"
    fi
done
exit $failed
