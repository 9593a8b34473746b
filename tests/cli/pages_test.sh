#!/bin/bash
# Every option and command that --help shows is in the man page and in the completion file, and nothing else is.
. "$(dirname "$0")/common.sh"
TOP=${TOP:-$(dirname "$0")/../..}

check 0 "$MUSTER" help --completion
cmp "$OUT" "$TOP/completions/muster" || fail "completions/muster is not what 'muster help --completion' prints"
bash -n "$TOP/completions/muster" || fail "completions/muster is no bash"

# in_page PAGE WORD: as mdoc writes it, behind Fl or Cm.
options_of() { sed -n '/^Options:/,/^$/p' "$1" | grep -oE -- '--[a-z][a-z-]*' | sort -u; }

check 0 "$MUSTER" --help
for verb in $(sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT"); do
    page=$TOP/man/muster-$verb.1
    case $verb in version | help) page=$TOP/man/muster.1 ;; esac
    [ -e "$page" ] || fail "$page is not there"
    check 0 "$MUSTER" "$verb" --help
    cp "$OUT" "$OUT.verb"
    subs=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT.verb")
    shown=$(options_of "$OUT.verb")
    for sub in $subs; do
        check 0 "$MUSTER" "$verb" "$sub" --help
        shown="$shown $(options_of "$OUT")"
        grep -q "^\.It Cm $sub" "$page" || fail "$page does not explain $sub"
        for option in $(options_of "$OUT"); do
            sed -n "/^    '$verb $sub')/{n;p}" "$TOP/completions/muster" | grep -qe "[' ]$option[' ]" ||
                fail "$verb $sub $option is not completed"
        done
    done
    for option in $shown; do
        grep -qE -- "Fl (-|[a-z] , Fl -)?${option#--}\b|Fl $(printf %s "$option" | cut -c2-)" "$page" ||
            fail "$page lacks $option"
    done
    for option in $(grep -oE 'Fl -[a-z][a-z-]+' "$page" | sed 's/Fl /-/' | sort -u); do
        [ "$page" = "$TOP/man/muster.1" ] || [[ " $(echo $shown) " = *" $option "* ]] ||
            fail "$page explains $option, which $verb does not have"
    done
    for section in 'EXIT STATUS' EXAMPLES; do
        grep -qx ".Sh $section" "$page" || fail "$page has no $section"
    done
done

# One table of exit statuses: --help's, muster(1)'s, and no page knows another.
exits_of() { sed -n '/^\.Sh EXIT STATUS/,/^\.Sh [^E]/s/^\.It \([0-9].*\)$/\1/p' "$1" | sed 's/Ar //'; }
check 0 "$MUSTER" --help
shown=$(sed -n '/^Exit status:/,/^$/s/^  \([0-9]*\( + n\)\?\) .*/\1/p' "$OUT")
[ "$(echo "$shown" | wc -l)" -ge 10 ] || fail "--help shows the exit statuses: $shown"
[ "$shown" = "$(exits_of "$TOP/man/muster.1")" ] || fail "muster.1 and --help differ in: $(exits_of "$TOP/man/muster.1")"
for page in "$TOP"/man/muster-*.1; do
    [ -n "$(exits_of "$page")" ] || fail "$page has no exit statuses"
    while read -r status; do
        grep -qxF -- "$status" <<< "$shown" || fail "$page has the exit status $status, which muster.1 lacks"
    done < <(exits_of "$page")
done

# The completion at work.
source "$TOP/completions/muster"
complete_words()
{
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _muster
    echo "${COMPREPLY[@]:-}"
}
[ "$(complete_words muster st)" = status ] || fail "completion of 'st'"
[ "$(complete_words muster kv in)" = "insert increment" ] || fail "completion of 'kv in'"
[ "$(complete_words muster run --he)" = "--heap --heartbeat-timeout --help" ] || fail "completion of 'run --he'"
[ "$(complete_words muster kv get --w)" = --wait ] || fail "completion of 'kv get --w'"
start_job 1 sleep 100
[ "$(complete_words muster kv get --job "$JOB")" = "$JOB" ] || fail "completion of a job's name"
exit 0
