#!/bin/bash
# Installs the Debian 12 packages that a goal needs and that are missing; says which, and why. Silent when all are there.
#   scripts/deps.sh GROUP...        install what is missing of these groups (build, check, bench)
#   scripts/deps.sh --say GROUP...  only say what is missing, and how to get it; always succeeds
# Uses sudo when not root. Where it may not install, it prints the one command to run and exits 1.
set -euo pipefail

packages() {
    cat <<'TABLE'
build  gcc                 compiles muster
build  libc6-dev           the C library's headers
build  make                reads the Makefile
build  libncurses-dev      the screen of muster top, linked statically
build  libuv1-dev          the event loop of the muster command, linked statically
build  libssl-dev          OpenSSL's types; the library itself is opened when hosts are connected by TLS
build  libnghttp2-dev      HTTP/2 under gRPC, linked statically
build  zlib1g-dev          inflates what clients of gRPC compress, linked statically
build  libhwloc-dev        hwloc's types; the library itself is opened when it is needed
build  libprotobuf-c-dev   reads and writes protobuf messages; in the command linked statically
build  protobuf-c-compiler makes C of the .proto files
check  libcmocka-dev       the unit tests are written with cmocka
check  hwloc               lstopo and hwloc-calc, to compare what is read of machines with
check  python3             runs the tests, checks the house rules
check  g++                 the public headers must compile as C++ too
check  clang               second compiler of every source; fuzz targets
check  libclang-rt-14-dev  clang's sanitizers and libFuzzer
check  clang-format        the sources must be formatted
check  spin                checks the models in tests/model
check  mandoc              checks the man pages
check  pkgconf             checks muster.pc
check  protobuf-compiler   another reader of the messages that muster writes
check  python3-protobuf    another writer of them, to compare with
check  python3-grpcio      clients of gRPC that are not muster's own
check  openssl             makes certificates for clients of gRPC
check  python3-yaml        reads the Kubernetes job of docs/HOSTS.md
check  slurmctld           Slurm's controller: jobs that srun starts are tested
check  slurmd              Slurm's node daemon, several on this machine
check  slurm-client        srun, sinfo, scancel
check  munge               Slurm's daemons trust each other by it
check  iproute2            makes the hosts that the bridge is tested on: ip, ss
check  openssh-client      the ssh that jobs of several hosts are started by
check  openssh-server      the sshd that they are started through
check  libpmix2            programs of PMIx are served through it, and the tests' own speak it
bench  mpich               barrier of MPICH, to compare with
bench  libmpich-dev        compiles the MPICH side
bench  openmpi-bin         barrier of Open MPI, to compare with
bench  libopenmpi-dev      compiles the Open MPI side
bench  redis-server        Redis over a Unix socket, to compare with
bench  etcd-server         etcd, to compare with across hosts
bench  python3-torch       PyTorch's TCPStore, to compare with
bench  valgrind            counts instructions
bench  strace              counts system calls
TABLE
}

only_say=no
if [ "${1:-}" = --say ]; then
    only_say=yes
    shift
fi
[ $# -gt 0 ] || { echo "usage: scripts/deps.sh [--say] build|check|bench ..." >&2; exit 2; }

wanted=$(for group in "$@"; do packages | awk -v g="$group" '$1 == g { print $2 }'; done)
if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is not Debian, so what is installed cannot be checked; needed here:" $wanted >&2
    exit 0
fi
have=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' $wanted 2>/dev/null | sed -n 's/^ii *//p' || true)
missing=$(comm -23 <(sort -u <<<"$wanted") <(sort -u <<<"$have"))
[ -n "$missing" ] || exit 0

echo "deps: missing Debian packages:"
packages | awk -v m=" $(echo $missing) " 'index(m, " " $2 " ") { p = $2; $1 = $2 = ""; printf "    %-20s %s\n", p, substr($0, 3) }'
install="apt-get install -y --no-install-recommends $(echo $missing)"
if [ "$only_say" = yes ]; then
    echo "deps: to have them: sudo apt-get update && sudo $install"
    exit 0
fi

refuse() {
    echo "deps: $1. Run this, then try again:" >&2
    echo "    sudo apt-get update && sudo $install" >&2
    exit 1
}
as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || refuse "not root, and there is no sudo"
    sudo -n true 2>/dev/null || [ -t 0 ] || refuse "not root, and sudo wants a password"
    as_root=(sudo)
fi
echo "deps: installing them with apt-get"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt update >"$log" 2>&1 || echo "deps: apt-get update failed; trying with the lists that are here" >&2
apt install -y --no-install-recommends $missing >"$log" 2>&1 || { tail -n 15 "$log" >&2; refuse "apt-get could not install them"; }
