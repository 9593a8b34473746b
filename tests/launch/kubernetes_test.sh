#!/bin/bash
# The Kubernetes job of docs/HOSTS.md: its parts fit together, and two agents find each other with what its pods are given:
# the variables of an indexed job, and the line of /etc/hosts that a pod has whose subdomain is a headless service.
. "$(dirname "$0")/../cli/common.sh"
"$PYTHON" -c 'import yaml' 2> /dev/null || skip "no YAML for Python: apt-get install python3-yaml"
[ -n "${INSIDE-}" ] || unshare --mount --net true 2> /dev/null || skip "network and mounts of our own need root"
[ -n "${INSIDE-}" ] || INSIDE=1 exec unshare --mount --net "$0"
ip link set lo up || skip "no loopback device"

# One line for each pod: its name and its full name; then its variables, and the command with the tasks' own left out.
"$PYTHON" - "$TOP/docs/HOSTS.md" > "$TMPDIR/pods" << 'EOS' || fail "the example"
import re, sys, yaml
text, = re.findall(r"^```yaml\n(.*?)^```", open(sys.argv[1]).read(), re.M | re.S)
service, job = yaml.safe_load_all(text)
pod, spec = job["spec"]["template"]["spec"], job["spec"]
assert (service["apiVersion"], service["kind"], job["apiVersion"], job["kind"]) == ("v1", "Service", "batch/v1", "Job")
assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
assert pod["subdomain"] == service["metadata"]["name"] and pod["restartPolicy"] == "Never"
assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] > 1
box, = pod["containers"]
variables = {one["name"]: one.get("value") for one in box["env"]}
assert sorted(variables) == ["MUSTER_KEY", "MUSTER_NODES"] and int(variables["MUSTER_NODES"]) == spec["completions"]
assert box["volumeMounts"][0]["mountPath"] == "/dev/shm" and pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
command = box["command"]
assert all(isinstance(word, str) for word in command) and command[0] == "muster" and command[-2:] == ["--", "./train"]
for index in range(spec["completions"]):
    name = "%s-%d" % (job["metadata"]["name"], index)
    print(name, "%s.%s.default.svc.cluster.local" % (name, pod["subdomain"]), index, variables["MUSTER_NODES"], *command[1:-1])
EOS
KEY=$(printf %064d 7)
cd "$TMPDIR" || exit 1
while read -r name full index nodes words; do # the name server's part, the pods' addresses, is one file for all
    echo "127.0.0.1 $full $name" >> "$TMPDIR/hosts"
done < "$TMPDIR/pods"
mount --bind "$TMPDIR/hosts" /etc/hosts || fail "no /etc/hosts of our own"
agents=()
trap 'kill "${agents[@]}" 2> /dev/null; wait' EXIT
while read -r name full index nodes words; do
    env -i PATH="$PATH" HOME="$TMPDIR" HOSTNAME="$name" JOB_COMPLETION_INDEX="$index" MUSTER_NODES="$nodes" MUSTER_KEY="$KEY" \
        KUBERNETES_SERVICE_HOST=10.0.0.1 "$MUSTER" $words sh -c 'echo $MUSTER_NODE_ID $RANK/$WORLD_SIZE $LOCAL_RANK' \
        > "$TMPDIR/$name.out" 2> "$TMPDIR/$name.err" < /dev/null &
    agents+=($!)
done < "$TMPDIR/pods"
for pid in "${agents[@]}"; do
    wait "$pid" || fail "an agent: $(cat "$TMPDIR"/*.err)"
done
cat "$TMPDIR"/train-*.out | sort > "$OUT"
for rank in $(seq 0 15); do
    echo "$((rank / 8)) $rank/16 $((rank % 8))"
done | sort | cmp -s - "$OUT" || fail "the tasks"
exit 0
