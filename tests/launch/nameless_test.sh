#!/bin/bash
# A machine whose own name does not resolve, as in many containers: the other hosts find it by its address. A host that
# cannot find its leader says why at once, and is not waited for.
# timeout: 120
. "$(dirname "$0")/../cli/common.sh"
[ -n "${INSIDE-}" ] || unshare --uts --net true 2> /dev/null || skip "a name and a network of our own need root"
[ -n "${INSIDE-}" ] || INSIDE=1 exec unshare --uts --net "$0"
echo no-such-host.invalid > /proc/sys/kernel/hostname || fail "the name of this host"
PYTHONPATH=$(dirname "$0")/../bridge "$PYTHON" -c 'import field; field.interface_up("lo")' || skip "no loopback device"
. "$(dirname "$0")/three_hosts.sh"
run() { "$MUSTER" run --job "$JOB" --rsh "$TMPDIR/rsh" "$@"; }

# With nothing but a loopback there is no other machine.
check 0 run --hosts localhost:1,b:1,c:1 sh -c 'echo $MASTER_ADDR'
err_is_empty
out_is "$(printf '127.0.0.1\n127.0.0.1\n127.0.0.1')"

# Where routing knows an address of this host, it is that one; by an interface, or by the way to anywhere.
if ip address add 198.51.100.7/32 dev lo 2> /dev/null && ip route add default dev lo src 198.51.100.7 2> /dev/null; then
    : > "$RSH_LOG"
    check 0 run --hosts localhost:1,b:1 sh -c 'echo $MASTER_ADDR'
    err_is_empty
    out_is "$(printf '198.51.100.7\n198.51.100.7')"
    grep -q -- '--join 198.51.100.7:[0-9]* ' "$RSH_LOG" || fail "what rsh was given: $(cat "$RSH_LOG")"
    ip route del default
else
    echo "not tested: routing (no ip, or no way to add an address)"
fi
if ip link add muster0 type dummy 2> /dev/null && ip address add 203.0.113.9/24 dev muster0 && ip link set muster0 up; then
    check 0 run --hosts localhost:1,b:1 sh -c 'echo $MASTER_ADDR'
    err_is_empty
    out_is "$(printf '203.0.113.9\n203.0.113.9')"
fi

# A host that cannot find the leader: its reason is said at once, and ends the job long before the join timeout.
check 125 run --hosts localhost:1,b:1 --address nowhere.invalid --join-timeout 1h true
err_has "^muster agent (host b): cannot reach the leader (nowhere.invalid:[0-9]*) yet: the name 'nowhere.invalid' does not resolve: "
err_has "^muster run: host b has not come: .*: muster agent (host b): the leader (nowhere.invalid:[0-9]*) could not be reached for .* s: the name "
printf '#!/bin/sh\nshift 5; exec muster agent --join 127.0.0.1:1 "$@"\n' > "$TMPDIR/elsewhere"
chmod +x "$TMPDIR/elsewhere"
check 125 run --hosts localhost:1,b:1 --rsh "$TMPDIR/elsewhere" --join-timeout 1h true
err_has '^muster agent (host b): cannot reach the leader (127.0.0.1:1) yet: 127.0.0.1:1: Connection refused$'
err_has '^muster run: host b has not come: .*Connection refused$'
clean
exit 0
