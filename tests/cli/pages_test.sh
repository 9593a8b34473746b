#!/bin/bash
# Every option, short or long, and every command that --help shows is in the man page and in the completion file, and
# nothing else is; so are the words that the completion file has for values. What it does is in completion_test.sh.
. "$(dirname "$0")/common.sh"
TOP=${TOP:-$(dirname "$0")/../..}

check 0 "$MUSTER" help --completion
cmp "$OUT" "$TOP/completions/muster" || fail "completions/muster is not what 'muster help --completion' prints"
bash -n "$TOP/completions/muster" || fail "completions/muster is no bash"

options_of() { sed -n '/^Options:/,/^$/p' "$1" | grep -oE -- '--[a-z][a-z-]*' | sort -u; }
# "-n -np --num-tasks", a line for each option that has short names.
shorts_of() { sed -n '/^Options:/,/^$/s/^  \(-[a-z]\(, -[a-z]*\)*, --[a-z-]*\).*/\1/p' "$1" | tr -d ,; }
# The same as mdoc writes it.
shorts_in() { sed -n 's/^\.It Fl \([a-z]\)/\1/p' "$1" | sed 's/ , Fl / /g; s/ \(Ar\|Ns\) .*//; s/[^ ]*/-&/g' | sort -u; }

# is_completed PATH HELP: the completion file has the options of this --help, as a line, and no others.
is_completed()
{
    local line shown
    line=$(sed -n "/^    '$1')/{n;s/.*options='\(.*\)'/\1/p}" "$TOP/completions/muster" | tr ' ' '\n' | sort)
    shown=$({ options_of "$2"; shorts_of "$2" | tr ' ' '\n' | grep -v ^--; } | sort)
    [ "$line" = "$shown" ] || fail "other options are completed behind '$1':" $line
}
# Words that are completed as values of the verb's options; yes is what one of [=no] means by itself.
words_of() { sed -n "/^    '$1\( [a-z]*\)\?')/,/^        ;;/s/.*value='[^ ]* \([^@].*\)' ;;/\1/p" "$TOP/completions/muster"; }

check 0 "$MUSTER" --help
for verb in $(sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT"); do
    page=$TOP/man/muster-$verb.1
    case $verb in version | help) page=$TOP/man/muster.1 ;; esac
    [ -e "$page" ] || fail "$page is not there"
    check 0 "$MUSTER" "$verb" --help
    cp "$OUT" "$OUT.verb"
    subs=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$OUT.verb")
    shown=$(options_of "$OUT.verb")
    shorts=$(shorts_of "$OUT.verb")
    [ -n "$subs" ] || is_completed "$verb" "$OUT.verb"
    for sub in $subs; do
        check 0 "$MUSTER" "$verb" "$sub" --help
        shown="$shown $(options_of "$OUT")"
        shorts="$shorts"$'\n'"$(shorts_of "$OUT")"
        is_completed "$verb $sub" "$OUT"
        grep -q "^\.It Cm $sub" "$page" || fail "$page does not explain $sub"
    done
    for option in $shown; do
        grep -qE -- "Fl (-|[a-z] , Fl -)?${option#--}\b|Fl $(printf %s "$option" | cut -c2-)" "$page" ||
            fail "$page lacks $option"
    done
    for option in $(grep -oE 'Fl -[a-z][a-z-]+' "$page" | sed 's/Fl /-/' | sort -u); do
        [ "$page" = "$TOP/man/muster.1" ] || [[ " $(echo $shown) " = *" $option "* ]] ||
            fail "$page explains $option, which $verb does not have"
    done
    [ "$page" = "$TOP/man/muster.1" ] || [ "$(sort -u <<< "$shorts" | grep .)" = "$(shorts_in "$page")" ] ||
        fail "$page has other short options: $(shorts_in "$page")"
    for word in $(words_of "$verb"); do # for the agent's its page refers to the other
        [ "$word" = yes ] || grep -qwF -- "$word" "$page" "${page/agent/run}" ||
            fail "$page lacks $word, which is completed"
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
exit 0
