#!/bin/bash
# What the completion file offers behind what has been typed.
. "$(dirname "$0")/common.sh"
TOP=${TOP:-$(dirname "$0")/../..}
source "$TOP/completions/muster"

# What bash is told: +o default, where no files are meant.
compopt() { OPTIONS_SET+=" $*"; }

# type_line LINE [BREAKS]: fills COMPREPLY. BREAKS: what bash makes words of, as COMP_WORDBREAKS has it.
type_line()
{
    local rest=$1 breaks=${2-=:}
    COMP_LINE=$1 COMP_WORDS=() COMPREPLY=() OPTIONS_SET=
    while [[ $rest =~ ^[[:space:]]*([$breaks]+|[^[:space:]$breaks]+) ]]; do
        COMP_WORDS+=("${BASH_REMATCH[1]}")
        rest=${rest#"${BASH_REMATCH[0]}"}
    done
    [[ $1 != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _muster
}
# offers LINE WORD...: these, and no files.
offers()
{
    local line=$1
    shift
    type_line "$line"
    [ "${COMPREPLY[*]-}" = "$*" ] || fail "'$line' is completed to '${COMPREPLY[*]-}', not to '$*'"
    [[ $OPTIONS_SET = *'+o default'* ]] || fail "'$line' is completed to files"
}
# offers_files LINE: those that bash finds.
offers_files()
{
    type_line "$1"
    [[ ${#COMPREPLY[@]} -eq 0 && -z $OPTIONS_SET ]] || fail "'$1' is not completed to files: ${COMPREPLY[*]-}"
}
# offers_command LINE: commands, true among them, but no options of ours.
offers_command()
{
    type_line "$1"
    [[ " ${COMPREPLY[*]-} " = *" true "* ]] || fail "'$1' is not completed to true"
    [[ " ${COMPREPLY[*]-} " != *" --job "* ]] || fail "'$1' is completed to options of muster's"
}

# Verbs, commands, options.
offers 'muster st' status
offers 'muster -' -h --help --version
offers 'muster kv in' insert increment
offers 'muster kv --job x in' insert increment
offers 'muster run --he' --heap --heartbeat-timeout --help
offers 'muster kv get --w' --wait
offers 'muster status ' -w --watch --job --json -h --help
offers 'muster help st' status
offers 'muster help kv in' insert increment
offers 'muster help run '
type_line 'muster help '
[ "${COMPREPLY[0]}" = run ] || fail "verbs behind help: ${COMPREPLY[*]}"
type_line 'muster run -'
[[ " ${COMPREPLY[*]} " = *" -n -np --num-tasks "*" -l --label "* ]] || fail "short options: ${COMPREPLY[*]}"

# Words behind an option that needs one; its options again behind the value.
offers 'muster run --bind-to c' core
offers 'muster run --bind-to ' none core gpu l3 numa package hwthread
offers 'muster run --map-by s' slot
offers 'muster run --stdin ' all none
offers 'muster run --restart-policy ' job task
offers 'muster run -n c' core
offers 'muster run -np g' gpu
offers 'muster agent --mpi p' pmi1 port pmix
offers 'muster top --sort s' state
offers 'muster top -s w' wait
offers 'muster bench --only kv-get,kv-' kv-get,kv-get kv-get,kv-set kv-get,kv-wait
offers 'muster task error --code ABO' ABORTED
offers 'muster run --bind-to core --std' --stdin
offers 'muster run --metrics :9464 --env A=b -n 4 --hosts a:8,b:8 --std' --stdin

# Behind '=', which bash makes a word of, or does not; a value that is optional is there alone.
offers 'muster run --bind-to=c' core
offers 'muster run --bind-to=' none core gpu l3 numa package hwthread
offers 'muster run --kill-on-fail=' yes no
offers 'muster run --kill-on-fail --std' --stdin
offers 'muster run --kill-on-fail=no --std' --stdin
offers 'muster topo --proto=x' xla
type_line 'muster run --bind-to=c' ':'
[ "${COMPREPLY[*]}" = --bind-to=core ] || fail "one word: ${COMPREPLY[*]}"
type_line 'muster run --env A=b:c --bind-to=c' ':'
[ "${COMPREPLY[*]}" = --bind-to=core ] || fail "one word behind another: ${COMPREPLY[*]}"

# Nothing where nobody can guess; files and folders.
for option in --timeout --grace --restarts --heap --job --address --env; do
    offers "muster run $option "
    offers "muster run $option=--"
done
offers_files 'muster run --hostfile '
offers_files 'muster run --output x'
offers_files 'muster trace -o '
mkdir -p "$TMPDIR/in/folder"
touch "$TMPDIR/in/file"
offers "muster run --chdir $TMPDIR/in/f" "$TMPDIR/in/folder"
[[ $OPTIONS_SET = *'-o filenames'* ]] || fail "a folder gets no slash"

# The command and its words are not ours.
offers_command 'muster run tru'
offers_command 'muster run -- tru'
offers_command 'muster run -- '
offers_command 'muster run -n 2 --label tru'
offers_command 'muster agent tru'
offers_files 'muster run ./tru'
offers_files 'muster run true '
offers_files 'muster run true --he'
offers_files 'muster run -- true --job '
offers_files 'muster run -n 2 --env A=b true --bind-to c'
type_line 'muster run '
[[ " ${COMPREPLY[*]} " = *" --job "* && " ${COMPREPLY[*]} " != *" true "* ]] || fail "no options behind 'run'"
_command_offset() { COMPREPLY=("at $1"); }
type_line 'muster run --env A=b true --he'
[ "${COMPREPLY[*]}" = 'at 6' ] || fail "bash-completion is asked: ${COMPREPLY[*]}"
unset -f _command_offset

# Jobs, by what is there.
start_job 1 sleep 100
offers "muster kv get --job ${JOB%-*}" "$JOB"
offers "muster kv --job=${JOB%-*}" "$JOB"
offers "muster agent --adopt ${JOB%-*}" "$JOB"
for command in rm info check; do
    offers "muster segment $command ${JOB%-*}" "$JOB"
done
offers "muster run --job ${JOB%-*}"
offers_files 'muster status --job /dev/sh'
exit 0
