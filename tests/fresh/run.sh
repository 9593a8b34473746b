#!/bin/bash
# README's first two commands in a fresh Debian 12, as a stranger types them: `make check-fresh`, as root.
#
#   tests/fresh/run.sh [--names named|nameless]... [K]
#
# A root of debootstrap's smallest kind, with make, git and ca-certificates, is made once in build/fresh/base. For each
# kind of name a copy of it gets this checkout, uncommitted changes too, below root's home; there `make demo` and `make
# check` run, in namespaces of their own (mounts, processes, IPC, the machine's name), with the network as it is. The
# machine's name has a line in /etc/hosts (named), or resolves nowhere (nameless), as in many containers. With K, a REGEX,
# `make check-release K=REGEX` takes the place of `make check`, behind its packages. A run is bounded by FRESH_LIMIT
# seconds (default 7200); nothing of it outlives it, and its root is removed. MIRROR is Debian's, or another.
set -euo pipefail
cd "$(dirname "$0")/../.."
FOLDER=${FRESH_FOLDER:-build/fresh}
LIMIT=${FRESH_LIMIT:-7200}

die() {
    echo "check-fresh: $*" >&2
    exit 2
}

make_base() {
    [ ! -e "$FOLDER/base.made" ] || return 0
    rm -rf "$FOLDER/base"
    debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$FOLDER/base" \
        "${MIRROR:-http://deb.debian.org/debian}" > "$FOLDER/base.log" ||
        die "debootstrap has failed; its last words: $(tail -n 1 "$FOLDER/base.log")"
    : > "$FOLDER/base.made"
}

# The checkout: what git tracks and what it does not ignore, as it lies here, in a clone.
copy_checkout() {
    git clone --quiet --no-hardlinks . "$1"
    git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar --null --files-from=- --create | tar --extract --directory "$1"
}

# In the namespaces: the root's own /proc, /dev and /dev/shm, then the commands in it.
enter() {
    local root=$1 name=$2

    hostname "$name"
    mount --bind "$root" "$root" # a mount of its own: tests may then mount in it
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mkdir "$root/.old"
    cd "$root"
    pivot_root . .old
    exec chroot . env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        bash -c "umount --lazy /.old && cd /root/muster && $3"
}

run_in() {
    local kind=$1 root=$FOLDER/$1 rc=0 commands="make demo && make check"

    [ -z "$K" ] || commands="make demo && scripts/deps.sh build check && make check-release K='$K'"
    rm -rf "$root"
    cp -a "$FOLDER/base" "$root"
    copy_checkout "$root/root/muster"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo "127.0.0.1 localhost" > "$root/etc/hosts"
    [ "$kind" = nameless ] || echo "127.0.1.1 fresh-$kind" >> "$root/etc/hosts"
    echo "fresh-$kind" > "$root/etc/hostname"
    timeout --kill-after=10 "$LIMIT" unshare --mount --pid --fork --kill-child --ipc --uts \
        tests/fresh/run.sh --enter "$root" "fresh-$kind" "$commands" < /dev/null > "$FOLDER/$kind.log" 2>&1 || rc=$?
    cp "$root/root/muster/build/check.summary" "$FOLDER/$kind.summary" 2> /dev/null || rm -f "$FOLDER/$kind.summary"
    [ $rc -eq 0 ] || tail -n 40 "$FOLDER/$kind.log"
    rm -rf "$root"
    echo "check-fresh: $kind: $([ $rc -eq 0 ] && echo passed || echo "failed ($rc)"): $(tail -n 1 "$FOLDER/$kind.log")"
    return $rc
}

[ "${1:-}" != --enter ] || enter "${@:2}"
kinds=()
while [ "${1:-}" = --names ]; do
    [[ ${2:-} =~ ^(named|nameless)$ ]] || die "--names is named or nameless"
    kinds+=("$2")
    shift 2
done
K=${1:-}
[[ $K != *\'* ]] || die "K must have no quote"
[ "$(id -u)" -eq 0 ] || die "only root can make a root: run it as root"
command -v debootstrap > /dev/null || die "debootstrap is missing: apt-get install debootstrap"
mkdir -p "$FOLDER"
FOLDER=$(realpath "$FOLDER")
make_base
failed=0
[ ${#kinds[@]} -gt 0 ] || kinds=(named nameless)
for kind in "${kinds[@]}"; do
    run_in "$kind" || failed=1
done
exit $failed
