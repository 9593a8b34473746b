#!/bin/bash
# What gRPC's reflection tells of our services, from the .proto files that our own C is made of:
#   scripts/descriptors.sh FOLDER FILE.proto... > descriptors.inc
# A file that is served says under which names, in lines "// reflection: PACKAGE FILE NOT-TEXT...". It is described as
# clients know it: in that package, with `string` where our C has `bytes`, but for fields of the names NOT-TEXT. The
# bytes of a google.protobuf.FileDescriptorSet come out as the numbers of a C array. FOLDER is for what lies in between.
set -euo pipefail

folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder"
names=()
for proto; do
    if grep -q '^import ' "$proto"; then
        echo "$proto imports another: reflection hands out files that stand alone" >&2
        exit 1
    fi
    while read -r package name not_text; do
        mkdir -p "$folder/$(dirname "$name")"
        awk -v package="$package" -v not_text=" $not_text " '
            /^package / { $0 = "package " package ";" }
            match($0, /^ *(repeated )?bytes [a-z_]+/) {
                split(substr($0, RSTART, RLENGTH), words, " ")
                field = words[1] == "repeated" ? words[3] : words[2]
                if (!index(not_text, " " field " "))
                    sub(/bytes/, "string")
            }
            { print }' "$proto" > "$folder/$name"
        names+=("$name")
    done < <(sed -n 's|^// reflection: ||p' "$proto")
done
(cd "$folder" && protoc-c -I. --descriptor_set_out=set "${names[@]}")
od -An -v -tu1 "$folder/set" | sed -E 's/([0-9]+)/\1,/g'
