#!/bin/bash
# make gpu-bundle: what `make gpu-check` runs, in a folder that needs nothing but glibc, a shell and NVIDIA's driver.
# usage: bundle.sh BUILD OUT
set -euo pipefail
build=$1 out=$2 limit_mib=48

rm -rf "$out"
mkdir -p "$out/lib"
cp "$build/whole/muster" "$build/tests/gpu/check" "$build/tests/gpu/device" "$out"
cp "$build/tests/stream/gpu_test" "$out/stream"
cp "$build/tests/accel/nccl_gpu_test" "$out/nccl"
[ ! -f "$build/mu-guard" ] || cp "$build/mu-guard" "$out"
strip "$out"/{muster,check,device,stream,nccl}

# What they are linked with and what they open, with what that needs; glibc is the machine's own.
hwloc=$(ldconfig -p | sed -n 's/.*libhwloc\.so\.15 .* => //p' | head -n 1)
[ -z "$hwloc" ] || cp -L "$hwloc" "$out/lib"
ldd "$out"/{muster,check,device,stream,nccl} ${hwloc:+"$hwloc"} | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | xargs -r cp -L -t "$out/lib"

commit=$(git rev-parse --short HEAD 2> /dev/null || true)
cat > "$out/run.sh" << EOF
#!/bin/sh
# Runs what wants a GPU of NVIDIA, prints a table, and writes report.md (or \$1) beside this file.
# Exit status: 0, 1 (something failed), 77 (no GPU here).
here=\$(cd "\$(dirname "\$0")" && pwd) || exit 1
export LD_LIBRARY_PATH="\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" GPU_COMMIT="${commit:+ of $commit}"
export MUSTER="\$here/muster" GPU_DEVICE="\$here/device" GPU_STREAM="\$here/stream" GPU_NCCL="\$here/nccl"
exec "\$here/check" --report "\${1:-\$here/report.md}"
EOF
chmod +x "$out/run.sh"
size=$(du -sm "$out" | cut -f 1)
echo "$out: $size MiB; run.sh runs it"
[ "$size" -lt "$limit_mib" ] || { echo "that is not below $limit_mib MiB" >&2; exit 1; }
