#!/bin/bash
# The installed command has no loader and does the plain things itself; all else is done by the whole one that lies
# beside it, whatever the way to the command; where that is missing, one line says so.
# variants: release
set -euo pipefail
fail() { echo "FAIL: $*"; exit 1; }
whole=$(dirname "$MUSTER")/whole/muster
[ -x "$whole" ] || { echo "this command is the whole one"; exit 77; }

# who ARGUMENT...: the program that a launcher of these words is
who() { "$1" run "${@:2}" -- sh -c 'readlink "/proc/$PPID/exe"'; }

for words in "-n 2" "-n2" "-np 2" "-l" "--job quick-$$" "--env A=1 --chdir=/" "--timeout 9s" "--survive --kill-on-fail=no"; do
    # shellcheck disable=SC2086
    is_quick_out=$(who "$MUSTER" $words | sed 's/^\[[0-9]*\] //' | sort -u)
    [ "$is_quick_out" = "$(realpath "$MUSTER")" ] || fail "run $words is done by $is_quick_out"
done
for words in "--num-tasks 2" "--bind-to none" "-n auto" "--mpi none"; do
    # shellcheck disable=SC2086
    [ "$(who "$MUSTER" $words | sort -u)" = "$(realpath "$whole")" ] || fail "run $words is not done by the whole one"
done
[ "$(LD_PRELOAD=libc.so.6 who "$MUSTER" -n 1)" = "$(realpath "$whole")" ] || fail "what is preloaded is not"
[ "$("$MUSTER" run true : true 2>&1)" = "" ] || fail "two commands are not started"
"$MUSTER" version >/dev/null || fail "version"
"$MUSTER" help >/dev/null || fail "help"

# Installed, in a folder with a blank, and by a link.
root="$TMPDIR/a root"
mkdir -p "$root/bin" "$root/lib/muster"
cp "$MUSTER" "$root/bin/muster"
cp "$whole" "$root/lib/muster/muster"
ln -s "$root/bin/muster" "$TMPDIR/link"
[ "$(who "$TMPDIR/link" -n 1)" = "$root/bin/muster" ] || fail "by a link"
[ "$(who "$TMPDIR/link" --mpi none)" = "$root/lib/muster/muster" ] || fail "by a link, the whole one"
# Something of that name beside it is not the other part, and does not hide it.
touch "$root/bin/whole"
[ "$(who "$root/bin/muster" --mpi none)" = "$root/lib/muster/muster" ] || fail "beside a file 'whole'"
rm "$root/bin/whole"
mkdir -p "$root/bin/whole/muster"
[ "$(who "$root/bin/muster" --mpi none)" = "$root/lib/muster/muster" ] || fail "beside a folder 'whole'"
rm -r "$root/bin/whole"

# Other hosts are told of the command, not of its other part.
printf '#!/bin/sh\necho "$2" > "%s/told"\nexit 1\n' "$TMPDIR" > "$TMPDIR/rsh"
chmod +x "$TMPDIR/rsh"
for muster in "$MUSTER" "$root/bin/muster"; do
    "$muster" run --hosts localhost:1,b:1 --rsh "$TMPDIR/rsh" true > /dev/null 2>&1 && fail "a host came that is none"
    [ "$(eval "echo $(cat "$TMPDIR/told")")" = "$(realpath "$muster")" ] || fail "told of $(cat "$TMPDIR/told")"
done

# What a stranger has put beside a command, where everybody may put files, is not run; nor does the command run itself.
open="$TMPDIR/open"
refused() {
    code=0
    said=$("$open/bin/muster" help 2>&1) || code=$?
    [[ $code -eq 127 && $said == "muster: these words need its other part, $open/bin/$1: $2; "* ]] || fail "$1: $code, $said"
}
mkdir -p "$open/bin/whole" "$open/lib"
cp "$MUSTER" "$open/bin/muster"
cp "$whole" "$open/bin/whole/muster"
"$open/bin/muster" help > /dev/null || fail "beside a copy"
chmod o+w "$open/bin/whole/muster"
refused whole/muster "another user has put it there, or may"
chmod o-w "$open/bin/whole/muster"
chmod o+w "$open/bin/whole"
refused whole/muster "another user has put it there, or may"
chmod +t "$open/bin/whole"
"$open/bin/muster" help > /dev/null || fail "in a folder as /tmp is"
chmod o-w,-t "$open/bin/whole"
printf '#!/no/interpreter\n' > "$open/bin/whole/muster"
refused whole/muster "it is there: what is not is its loader"
cp "$whole" "$open/bin/whole/muster"
if chown 65534 "$open/bin/whole/muster" 2> /dev/null; then
    refused whole/muster "another user has put it there, or may"
    chown 0 "$open/bin/whole/muster"
    if cp "$(dirname "$MUSTER")/libpmi.so.0" "$open/bin/" 2> /dev/null; then # which MPI programs load
        [[ $("$open/bin/muster" run env) == *"FLUX_PMI_LIBRARY_PATH=$open/bin/libpmi.so.0"* ]] || fail "libpmi"
        chown 65534 "$open/bin/libpmi.so.0"
        [[ $("$open/bin/muster" run env) != *FLUX_PMI_LIBRARY_PATH* ]] || fail "a stranger's libpmi"
    fi
    chown 65534 "$open/bin/whole"
    refused whole/muster "another user has put it there, or may"
    # Other hosts are not told of a command that a stranger has put beside the whole one, nor of a folder of that name.
    for what in stranger folder; do
        mkdir "$TMPDIR/$what" "$TMPDIR/$what/whole"
        cp "$whole" "$TMPDIR/$what/whole/muster"
        if [ $what = stranger ]; then
            printf '#!/bin/sh\nexit 3\n' > "$TMPDIR/$what/muster"
            chmod +x "$TMPDIR/$what/muster"
            chown 65534 "$TMPDIR/$what/muster"
        else
            mkdir "$TMPDIR/$what/muster"
        fi
        "$TMPDIR/$what/whole/muster" run --hosts localhost:1,b:1 --rsh "$TMPDIR/rsh" true > /dev/null 2>&1 && fail "a host came"
        [ "$(eval "echo $(cat "$TMPDIR/told")")" = "$TMPDIR/$what/whole/muster" ] || fail "a $what: told of $(cat "$TMPDIR/told")"
    done
    # Nor is a link that a stranger has put there the guard.
    cp "$(dirname "$MUSTER")/mu-guard" "$TMPDIR/stranger/guard"
    cp "$MUSTER" "$TMPDIR/stranger/muster"
    chown 0 "$TMPDIR/stranger/muster"
    for owner in 0 65534; do
        ln -sf guard "$TMPDIR/stranger/mu-guard"
        chown -h $owner "$TMPDIR/stranger/mu-guard"
        guard=$("$TMPDIR/stranger/muster" run -- sh -c 'for p in $(pgrep -P "$PPID"); do readlink "/proc/$p/exe"; done' | grep stranger)
        [ "$guard" = "$TMPDIR/stranger/$([ $owner = 0 ] && echo guard || echo muster)" ] || fail "the guard, a link of $owner, is $guard"
    done
    mv "$open/bin/whole" "$open/lib/muster"
    refused ../lib/muster/muster "another user has put it there, or may"
    ln -s "$open/lib/muster" "$open/bin/whole"
    chown 0 "$open/lib/muster"
    "$open/bin/muster" help > /dev/null || fail "by a link to the folder"
    chown -h 65534 "$open/bin/whole"
    [ "$(who "$open/bin/muster" --mpi none)" = "$open/lib/muster/muster" ] || fail "a stranger's link hides the other part"
    mv "$open/lib/muster" "$open/lib/elsewhere"
    ln -sfT "$open/lib/elsewhere" "$open/bin/whole"
    chown -h 65534 "$open/bin/whole"
    refused whole/muster "another user has put it there, or may"
    rm "$open/bin/whole"
    mv "$open/lib/elsewhere" "$open/lib/muster"
    chown -R 65534 "$open" # who installs for others
    "$open/bin/muster" help > /dev/null || fail "another user's, all of it"
fi
rm -rf "$open/bin/whole" "$open/lib"
mkdir "$open/bin/whole"
ln -s ../muster "$open/bin/whole/muster"
refused whole/muster "that is this one"

rm "$root/lib/muster/muster"
[ "$(who "$root/bin/muster" -n 1)" = "$root/bin/muster" ] || fail "alone"
code=0
said=$("$root/bin/muster" run --mpi none true 2>&1) || code=$?
[ $code -eq 125 ] || fail "without the whole one: $code, $said"
[[ $said == "muster: these words need its other part, $root/bin/../lib/muster/muster: No such file"*"copies that, too"* ]] ||
    fail "without the whole one: $said"
# Nor is a GPU watched without it, which is said, and no more.
MUSTER_NVML=/no/nvml "$root/bin/muster" run --timeout 60s \
    sh -c 'until [ -s "$0" ]; do sleep 0.01; done' "$TMPDIR/said" 2> "$TMPDIR/said" || fail "of the GPUs nothing was said"
[[ $(cat "$TMPDIR/said") == "muster run: GPUs are not watched any more: muster's other part (No such file or directory): "* ]] ||
    fail "of the GPUs it said: $(cat "$TMPDIR/said")"
echo "plain words are done without a loader, others by the whole one"
