#!/bin/bash
# `muster object`: what a job's tasks hold, for people and as JSON.
. "$(dirname "$0")/common.sh"
WORKER=$BUILD/tests/cli/worker
[ -x "$WORKER" ] || fail "$WORKER is not built"
start_job 1 "$WORKER" objects
object() { "$MUSTER" object "$@" --job "$JOB"; }
holds_all() { object list 2> /dev/null | grep -q '^3 objects'; }

await "the task holds its objects" holds_all
check 0 object list
out_has '^OBJECT  *STATE  *TASK  *BYTES  *METADATA  *HOLDERS$'
out_has '^0x[0-9a-f]*  SEALED  *0  *20  *4  *1$'
out_has '^0x[0-9a-f]*  WRITING  *0  *1000  *0  *1$'
out_has '^0x[0-9a-f]*  ABORTED  *0  *12  *0  *1$'
out_has '^3 objects of 1036 bytes: 1 not sealed, 1 errors$'
reference=$(sed -n 's/^\(0x[0-9a-f]*\)  SEALED .*/\1/p' "$OUT")
check 0 object list --json
json_is 'sorted(o["state"] for o in it["objects"])' '["ERROR", "SEALED", "WRITING"]'
json_is '[o["error"] for o in it["objects"] if o["state"] == "ERROR"]' '["ABORTED"]'

check 0 object show "$reference"
out_has '^state  *SEALED$'
out_has '^bytes  *20$'
check 0 object show --json "$reference"
json_is 'it["object"] + str(it["holders"]) + str(it["metadata_bytes"])' "${reference}14"
check 3 object show 0x1234
err_has 'object 0x0000000000001234 is gone'
check 1 object show 0xffff000000000001
err_has 'is no reference to an object of this job'
check 2 object show four
err_has "'four' is no reference to an object: write it as 'muster object list' does"
err_is_one_line
exit 0
