#!/bin/bash
# `muster topo --proto`: bytes that protoc reads in both forms, and writes again; the ids of devices that N tasks share.
. "$(dirname "$0")/common.sh"
TOP=${TOP:-$(dirname "$0")/../..}
MACHINE=$TOP/tests/topology/machines/switched.xml
PROTOS=$TOP/tests/topology

# decoded FORM MESSAGE OPTION...: what protoc reads is in $OUT, and what it writes is what it read.
decoded()
{
    local proto=of2020 package=xla.of2020 message=$2
    [ "$1" = xla ] && proto=today package=xla.today
    check 0 "$MUSTER" topo "--proto=$1" "${@:3}"
    err_is_empty
    mv "$OUT" "$TMPDIR/bytes"
    check 0 sh -c 'protoc -I"$1" --decode "$2" "$3" < "$4"' - "$PROTOS" "$package.$message" "$proto.proto" "$TMPDIR/bytes"
    protoc -I"$PROTOS" --encode "$package.$message" "$proto.proto" < "$OUT" | cmp - "$TMPDIR/bytes" ||
        fail "protoc writes other bytes than it has read"
}
count() { [ "$(grep -cE "$1" "$OUT")" -eq "$2" ] || fail "not $2 times $1"; }

grep -q '^package xla.of2020;' "$PROTOS/of2020.proto" && grep -q '^package xla.today;' "$PROTOS/today.proto" ||
    fail "the messages of the tests have other names"
decoded xla LocalTopologyProto -i "$MACHINE"
count '^devices {$' 4
count '^  name: "NVIDIA H100 80GB HBM3"$' 4
count '^  numa_node: 8$' 2
count '^  device_memory_bytes_limit: 85899345920$' 1
count '^process_id' 0
decoded xla LocalTopologyProto -i "$MACHINE" --task 7
count '^process_id: 7$' 1
decoded 2020 LocalTopologyProto -i "$MACHINE" --task 7
count '^node_id: 7$' 1
count '^  name: "NVIDIA H100 80GB HBM3"$' 4
count 'numa_node' 0

# Three tasks have one, one and two of four; a fifth of five has none left.
decoded xla GlobalTopologyProto -i "$MACHINE" --global 3
count '^processes {$' 3
count '^  process_id: [12]$' 2
count '^  devices {$' 4
[ "$(sed -n 's/^ *global_device_id: //p' "$OUT" | sort -n | tr '\n' ' ')" = "1 2 3 " ] || fail "ids: not 0 to 3"
count 'local_device_ordinal: 1' 1
decoded 2020 GlobalTopologyProto -i "$MACHINE" --global 5
count '^nodes {$' 5
count '^  devices {$' 4

# This machine, of which also the boot is known.
decoded xla LocalTopologyProto
count "^boot_id: \"$(cat /proc/sys/kernel/random/boot_id)\"\$" 1
check 0 "$MUSTER" topo --json
count_here=$(json 'len(it["devices"])')
decoded xla LocalTopologyProto
count '^devices {$' "$count_here"

# ---- what is typed wrong ----

is_refused()
{
    check 2 "$MUSTER" topo "${@:2}"
    out_is_empty
    err_is_one_line
    err_has "$1"
}
is_refused "\-\-proto is xla or 2020, not 'xlb'; did you mean 'xla'" --proto=xlb
is_refused "\-\-global goes with --proto" --global 2
is_refused "\-\-task goes with --proto" --task 2
is_refused "\-\-global or --task, not both" --proto --global 2 --task 1
is_refused "of one task or more" --proto --global 0
is_refused "" --proto --global 65537
is_refused "" --proto --task -1
is_refused "\-\-json or --proto, not both" --proto --json

# A terminal would obey bytes; nothing of them gets there.
check 0 "$PYTHON" - "$(dirname "$0")" "$MACHINE" << 'END'
import os, sys
sys.path.insert(0, sys.argv[1])
import screen
session = screen.Session([os.environ["MUSTER"], "topo", "--proto", "-i", sys.argv[2]], columns=200)
session.ends_with(2)
if b"NVIDIA" in session.raw or b"--output FILE, or a pipe" not in session.raw:
    sys.exit("on a terminal: %r" % session.raw)
session.close()
file = os.environ["TMPDIR"] + "/bytes"
session = screen.Session([os.environ["MUSTER"], "topo", "--proto", "-i", sys.argv[2], "-o", file])
session.ends_with(0)
session.close()
END
[ -s "$TMPDIR/bytes" ] || fail "--output on a terminal has written nothing"
exit 0
