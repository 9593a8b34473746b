#!/bin/bash
# Several commands in one job, behind ':', each with its own number of tasks, variables and directory.
. "$(dirname "$0")/../cli/common.sh"
run() { "$MUSTER" run --job "$JOB" --label "$@"; }
sorted_is() { [ "$(sort "$OUT")" = "$1" ] || fail "not: $1"; }

check 0 run -n 2 --env A=all sh -c 'echo $RANK of $WORLD_SIZE: $MUSTER_APP $A $B' : \
    -n 1 --env B=own --chdir / sh -c 'echo $RANK of $WORLD_SIZE: $MUSTER_APP $A $B $PWD' : sh -c 'echo $RANK: $MUSTER_APP'
sorted_is "$(printf '[0] 0 of 4: 0 all\n[1] 1 of 4: 0 all\n[2] 2 of 4: 1 all own /\n[3] 3: 2')"

# -np, as mpirun has it; a variable of one's own goes over the common one.
check 0 run -np 2 true : -np=1 --env A=b --env A=c sh -c 'echo $A' : -np 1 echo d
sorted_is "$(printf '[2] c\n[3] d')"
check 0 run --env A=a -n 1 sh -c 'echo $A' : --env A=b sh -c 'echo $A'
sorted_is "$(printf '[0] a\n[1] b')"

# Each command is looked for in its own PATH.
mkdir "$TMPDIR/bin"
printf '#!/bin/sh\necho tool\n' > "$TMPDIR/bin/tool$$"
chmod +x "$TMPDIR/bin/tool$$"
check 0 run echo a : --env PATH="$TMPDIR/bin:$PATH" "tool$$"
sorted_is "$(printf '[0] a\n[1] tool')"
check 127 run true : "tool$$"

# A ':' that is not lone, is the last word, or is written '\:' is the command's.
check 0 run echo a:b :
out_is '[0] a:b :'
check 0 run echo '\:' x : echo y
sorted_is "$(printf '[0] : x\n[1] y')"

# One command that cannot be run ends the others.
check 127 run sleep 60 : "no-such-command-$$"
err_has "^muster run: no-such-command-$$: command not found$"
no_segment "$JOB" || fail "a segment is left"

# Wrong words.
check 2 run true : --label true
err_has '^muster run: --label holds for the whole job: say it before the first command, '
check 2 run true : -l true
err_has '^muster run: -l holds for the whole job'
check 2 run true : --lable true
err_has 'unknown option --lable'
check 2 run true : --chdir '' true
err_has -- '--chdir: the name is empty'
check 2 run true : -n 2
err_has 'missing'
check 2 run true : : true
err_has "a command is missing"
check 2 run true : -n 0 true
err_has "'0' is no number of tasks"
check 2 run -n 4096 true : true
err_has '4097 tasks are too many'
check 2 run true : --env RANK=1 true
err_has 'RANK is set by muster itself'
exit 0
