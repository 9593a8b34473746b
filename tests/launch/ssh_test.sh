#!/bin/bash
# A job of several hosts whose other hosts are this machine again, reached by the real ssh and an sshd of our own: tasks,
# words, input, statuses, signals, a connection that is cut, what ssh cannot do, and that nobody sees the job's key.
# timeout: 300
. "$(dirname "$0")/../cli/common.sh"
PATH=$PATH:/usr/sbin:/sbin
command -v ssh > /dev/null && command -v sshd > /dev/null || skip "no ssh and sshd: apt-get install openssh-client openssh-server"
MARK=MUSTER_TEST_MARK=$$-$RANDOM
export "${MARK?}"
AWAY=127.0.0.2 # an address of this machine that no interface has: muster takes it for another host's
ME=$(id -un) || skip "who runs this has no name, and ssh wants one"
D=$TMPDIR/ssh.$$
mkdir -m 700 "$D"
mkdir "$D/home" # the shells at the other end read nothing of this machine's user

# ---- the other hosts' sshd: its own keys, its own port, nothing of this machine's ----
ssh-keygen -q -t ed25519 -N '' -f "$D/host_key" && ssh-keygen -q -t ed25519 -N '' -f "$D/id" || fail "no keys"
cp "$D/id.pub" "$D/authorized_keys"
cat > "$D/sshd_config" << EOS
ListenAddress 127.0.0.1
HostKey $D/host_key
AuthorizedKeysFile $D/authorized_keys
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv $MARK HOME=$D/home
EOS
SSHD=$(command -v sshd)
PREPARE=:
if [ "$(id -u)" = 0 ]; then # root's sshd wants that folder; the machine's /run stays as it is
    PREPARE='mount -t tmpfs muster-test /run && mkdir -m 755 /run/sshd'
    unshare --mount sh -c "$PREPARE" 2> /dev/null || { [ -d /run/sshd ] && PREPARE=:; } ||
        skip "root's sshd needs /run/sshd, and it can be neither seen nor mounted here"
fi
"$SSHD" -T -f "$D/sshd_config" 2> /dev/null | grep -qi '^persourcepenalties' && echo "PerSourcePenalties no" >> "$D/sshd_config"
listens() { grep -q 'Server listening' "$D/log" || is_gone "$SERVER"; }
keep_ports 1
next_port
if [ "$PREPARE" = : ]; then
    "$SSHD" -D -e -p "$PORT" -f "$D/sshd_config" 2> "$D/log" &
else
    unshare --mount sh -c "$PREPARE && exec \"\$@\"" sh "$SSHD" -D -e -p "$PORT" -f "$D/sshd_config" 2> "$D/log" &
fi
SERVER=$!
trap 'kill $SERVER 2> /dev/null; wait $SERVER 2> /dev/null' EXIT
await "sshd listens" listens
is_gone $SERVER && skip "sshd does not start here: $(head -n 1 "$D/log")"

# config NAME KEY LINE...: for ssh -F. The first value of an option counts.
config()
{
    local name=$1 key=$2
    shift 2
    printf '%s\n' "$@" "Host *" "HostName 127.0.0.1" "Port $PORT" "IdentityFile $D/$key" "IdentitiesOnly yes" \
        "IdentityAgent none" "UserKnownHostsFile $D/known" "GlobalKnownHostsFile none" "StrictHostKeyChecking yes" > "$D/$name"
}
config config id
config stranger host_key
config unknown id "UserKnownHostsFile $D/nobody"
config closed id "Port 1"
echo "[127.0.0.1]:$PORT $(cut -d' ' -f1,2 "$D/host_key.pub")" > "$D/known"
timeout 60 ssh -F "$D/config" -o BatchMode=yes $AWAY true > "$ERR" 2>&1 < /dev/null ||
    skip "who runs this may not log in here: $(tail -n 1 "$ERR")"
[ ! -s "$ERR" ] || skip "the login shell here says something of its own: $(head -n 1 "$ERR")"

# As a user has it: 'ssh' alone, whose options are in its configuration; and the whole command by --rsh.
mkdir "$D/bin"
printf '#!/bin/sh\nexec %s -F "$SSH_TEST_CONFIG" "$@"\n' "$(command -v ssh)" > "$D/bin/ssh"
chmod +x "$D/bin/ssh"
RSH="$(command -v ssh) -x -T -o BatchMode=yes -F"
export SSH_TEST_CONFIG=$D/config PATH=$D/bin:$PATH
run() { "$MUSTER" run --job "$JOB" "$@"; }
no_segments() { [ -z "$(compgen -G "$(segment_file "$JOB")*")" ]; }
others() # but not by a filter behind a pipe: that would bear the mark, too
{
    local p
    for p in $(with_mark "$MARK"); do
        [ "$p" = "$SERVER" ] || [ "$p" = "${1-}" ] || echo "$p"
    done
}
only_sshd() { [ -z "$(others)" ]; }
clean()
{
    await "no process is left" only_sshd
    await "no segment is left" no_segments
}
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "sorted, stdout is not: $1"; }

# Tasks, with ssh as it is found, and with all of its command given; the user, where one is named, is ssh's.
WORDS='echo $MUSTER_NODE_ID/$MUSTER_NUM_NODES $RANK/$WORLD_SIZE $LOCAL_RANK'
check 0 run --hosts localhost:2,$AWAY:2 sh -c "$WORDS"
ALL="0/2 0/4 0
0/2 1/4 1
1/2 2/4 0
1/2 3/4 1"
sorted_is "$ALL"
check 0 run --hosts localhost:2,$AWAY:2 --rsh "$RSH $D/config" sh -c "$WORDS"
sorted_is "$ALL"
check 0 run --hosts localhost:2,alias:2 --address 127.0.0.1 --rsh "$RSH $D/config" sh -c "$WORDS" # a name that only ssh knows
sorted_is "$ALL"
printf '# two of them\nlocalhost slots=2\n%s@%s slots=2\n' "$ME" $AWAY > "$D/hosts"
check 0 run --hostfile "$D/hosts" sh -c "$WORDS"
sorted_is "$ALL"
printf 'no-such-user@%s\n' $AWAY > "$D/hosts"
check 125 run --hostfile "$D/hosts" true
err_has "^muster run: host no-such-user@$AWAY has not come: its command (ssh) exited with status 255: no-such-user@127.0.0.1: Permission denied"

# Words arrive as they are, whatever a shell on the way would make of them; so do variables, and the folder.
cat > "$D/words.py" << 'EOS'
import os, sys
print(ascii([sys.argv[1:], os.environ["ODD"], os.path.basename(os.getcwd())]))
EOS
mkdir "$D/a b"
ODD=$'two\nlines; $HOME `id` "x" \'y\''
(cd "$D/a b" && check 0 run --hosts $AWAY:1 --env "ODD=$ODD" "$PYTHON" "$D/words.py" \
    'a b' "it's" '$HOME' '"dq"' $'new\nline' '*' '' '`id`' '\' ';' '-x' $'\xc3\xa9') || exit 1
WANT=$(ODD=$ODD "$PYTHON" -c 'import os
print(ascii([["a b", "it\x27s", "$HOME", "\"dq\"", "new\nline", "*", "", "`id`", "\\", ";", "-x", "\u00e9"], os.environ["ODD"], "a b"]))')
out_is "$WANT"

# Standard input; its end; both streams of output.
seq 1 20000 > "$D/in"
STDIN=$D/in check 0 run --hosts $AWAY:1,localhost:1 --stdin all sh -c 'wc -l'
sorted_is "$(printf '20000\n20000')"
STDIN=$D/in check 0 run --hosts $AWAY:1 sh -c 'cat; echo woe >&2'
cmp -s "$D/in" "$OUT" || fail "what was put in did not come out"
err_has '^woe$'

# Exit statuses, and which task it was.
check 3 run --hosts localhost:1,$AWAY:2 sh -c 'if [ $RANK = 2 ]; then echo woe >&2; exit 3; fi; exec sleep 900'
err_has "^muster run: task 2 (host $AWAY, pid [0-9]*) exited with status 3; ending the other 2 tasks$"
check 139 run --hosts $AWAY:1 sh -c 'kill -SEGV $$'
check 127 run --hosts $AWAY:1 nosuchcommand
clean

# What ssh cannot do is said in one line with the host and ssh's own reason.
come() { # come CONFIG REASON
    check 125 run --hosts localhost:1,$AWAY:1 --rsh "$RSH $D/$1" true
    err_has "^muster run: host $AWAY has not come: its command ([^ ]*ssh) exited with status 255: .*$2"
}
come stranger 'Permission denied'
come unknown 'Host key verification failed'
come closed 'Connection refused'
come nowhere "Can't open user config file"
[ ! -e "$(dirname "$MUSTER")/whole" ] || cp -r "$(dirname "$MUSTER")/whole" "$D/"
cp "$MUSTER" "$D/mine" # which the other side does not have by that name when it looks for it
printf '#!/bin/sh\nrm -fr %s/mine %s/whole\nexec %s %s/config "$@"\n' "$D" "$D" "$RSH" "$D" > "$D/late"
chmod +x "$D/late"
check 125 "$D/mine" run --job "$JOB" --hosts localhost:1,$AWAY:1 --rsh "$D/late" true
err_has "^muster run: host $AWAY has not come: its command (.*/late) exited with status 127: muster was not found there, or could not be run: .*/\(mine\|whole/muster\)"
clean

# ---- while it runs ----
begin()
{
    : > "$OUT"
    env --default-signal=INT "$MUSTER" run --job "$JOB" --grace 500ms --hosts localhost:1,$AWAY:2 "$@" \
        sh -c 'echo up; sleep 900 & exec sleep 900' > "$OUT" 2> "$ERR" < /dev/null &
    RUN=$!
    all_up() { [ "$(grep -c up "$OUT")" -eq 3 ]; }
    await "all tasks are up" all_up
}
ends_with()
{
    local got=0
    wait $RUN || got=$?
    [ $got -eq "$1" ] || fail "exit status $got instead of $1"
}
ssh_pid() { for p in $(with_mark "$MARK"); do [ "$(cat "/proc/$p/comm")" = ssh ] && echo "$p"; done 2> /dev/null; }
# The processes of sshd that serve connections: children of the one that listens, and theirs.
sessions()
{
    local p
    for p in $(cat "/proc/$SERVER/task/$SERVER/children"); do
        cat "/proc/$p/task/$p/children"
        echo "$p"
    done 2> /dev/null
}

# Nobody reads the key: on no command line, and in the environment of nothing that is not told it.
KEY=$("$PYTHON" -c 'print("".join("%02x" % (i * 37 % 256) for i in range(32)))')
seen() { "$PYTHON" - "$1" "$2" << 'EOS'
import glob, re, sys
for path in glob.glob("/proc/[0-9]*/" + sys.argv[1]):
    try:
        text = open(path, "rb").read()
    except OSError:
        continue
    words = text.replace(b"\0", b" ")
    ours = b"muster" in words and (b"agent" in words or b" run " in words)
    if ours and re.search(sys.argv[2].encode(), text):
        print(path, text)
EOS
}
begin
[ -n "$(seen cmdline -- )" ] || fail "no command line was looked at"
[ -z "$(seen cmdline '[0-9a-f]{64}')" ] || fail "a key on a command line: $(seen cmdline '[0-9a-f]{64}')"
kill -INT $RUN
ends_with 130
err_has '^muster run: SIGINT: ending 3 tasks$'
clean
export MUSTER_KEY=$KEY
begin
unset MUSTER_KEY
[ -z "$(seen cmdline "$KEY")" ] || fail "the key that was given is on a command line"
[ -n "$(ssh_pid)" ] || fail "no ssh"
for p in $(sessions) $(others $RUN); do
    grep -qz "$KEY" "/proc/$p/environ" 2> /dev/null && fail "the key is in the environment of $(tr '\0' ' ' < "/proc/$p/cmdline")"
done
kill -TERM $RUN
ends_with 143
clean

# The connection is cut in the middle, at either end; the launcher dies.
begin
kill -KILL $(sessions)
ends_with 125
err_has "^muster run: host $AWAY is lost: .*; ending the other 1 task$"
clean
begin
kill -KILL $(ssh_pid)
ends_with 125
err_has "^muster run: host $AWAY is lost: .*; ending the other 1 task$"
clean
begin
disown $RUN
kill -KILL $RUN
clean
exit 0
