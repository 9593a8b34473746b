#!/bin/bash
# `make install` into an empty folder gives what pkg-config, a C compiler and a C++ compiler need; `make uninstall`
# leaves no file of it.
# variants: release
set -euo pipefail
command -v pkg-config >/dev/null || { echo "pkg-config is not installed"; exit 77; }

root=$TMPDIR/root
quiet_make() {
    # make cannot have spaces in the names of what it builds; the folder that all lies in may
    make -s -C "$TOP" BUILD="$(realpath --relative-to="$TOP" "$(dirname "$BUILD")")" VARIANT=release DESTDIR="$root" PREFIX=/usr "$@" >"$TMPDIR/log" 2>&1 || {
        cat "$TMPDIR/log"
        exit 1
    }
}
quiet_make install
quiet_make install DESTDIR="$TMPDIR/a blank"
diff -r "$root" "$TMPDIR/a blank" || { echo "another folder got something else"; exit 1; }
quiet_make install DESTDIR= PREFIX="$TMPDIR/a blank/pre fix"
said=$(PKG_CONFIG_PATH="$TMPDIR/a blank/pre fix/lib/pkgconfig" pkg-config --cflags --libs muster)
eval "words=($said)" # as make's and autoconf's shells do
[ "${words[*]}" = "-I$TMPDIR/a blank/pre fix/include -L$TMPDIR/a blank/pre fix/lib -lmuster" ] && [ ${#words[@]} -eq 3 ] || {
    echo "pkg-config says: $said"
    exit 1
}
(cd "$TMPDIR/a blank" && mv "pre fix" usr2 && diff -r usr usr2 --exclude muster.pc) || { echo "another prefix got something else"; exit 1; }
mv "$TMPDIR/a blank/usr2" "$TMPDIR/a blank/pre fix"
quiet_make uninstall DESTDIR= PREFIX="$TMPDIR/a blank/pre fix"
quiet_make uninstall DESTDIR="$TMPDIR/a blank"
[ -z "$(find "$TMPDIR/a blank" -type f)" ] || { echo "left behind:"; find "$TMPDIR/a blank" -type f; exit 1; }

for file in lib/libmuster.a lib/libmuster.so lib/muster_nvshmem_bootstrap.so include/muster/muster.h lib/pkgconfig/muster.pc; do
    [ -e "$root/usr/$file" ] || { echo "not installed: $file"; exit 1; }
done
for header in include/muster/*.h; do
    cmp "$header" "$root/usr/$header"
done
for proto in src/topology/*.proto; do
    cmp "$proto" "$root/usr/share/muster/proto/${proto#src/}"
done
for page in man/*.[1-8]; do
    [ ! -e "$page" ] || cmp "$page" "$root/usr/share/man/man${page##*.}/${page##*/}"
done

export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
export PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
version=$(pkg-config --modversion muster)
cat >"$TMPDIR/user.c" <<'END'
#include <muster/muster.h>
#include <stdio.h>
int main(void)
{
    printf("%d.%d.%d %s\n", MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH,
           muster_status_name(MUSTER_NOT_FOUND));
    return 0;
}
END
cp "$TMPDIR/user.c" "$TMPDIR/user.cc"
for compiler in gcc g++; do
    source=$TMPDIR/user.c
    [ "$compiler" = gcc ] || source=$TMPDIR/user.cc
    "$compiler" -Wall -Werror -o "$TMPDIR/user" "$source" $(pkg-config --cflags --libs muster)
    said=$(LD_LIBRARY_PATH=$root/usr/lib "$TMPDIR/user")
    [ "$said" = "$version NOT_FOUND" ] || { echo "$compiler: the program said: $said"; exit 1; }
done
gcc -static -o "$TMPDIR/user" "$TMPDIR/user.c" $(pkg-config --static --cflags --libs muster)
[ "$("$TMPDIR/user")" = "$version NOT_FOUND" ]

quiet_make uninstall
left=$(find "$root" -type f -o -type l)
[ -z "$left" ] || { echo "left after uninstall:"; echo "$left"; exit 1; }
echo "installed, used and uninstalled muster $version"
