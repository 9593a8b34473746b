#!/bin/bash
# The Kubernetes jobs of docs/HOSTS.md and packaging/: their parts fit together, and two agents find each other with what its pods are given:
# the variables of an indexed job, and the line of /etc/hosts that a pod has whose subdomain is a headless service.
. "$(dirname "$0")/../cli/common.sh"
"$PYTHON" -c 'import yaml' 2> /dev/null || skip "no YAML for Python: apt-get install python3-yaml"
[ -n "${INSIDE-}" ] || unshare --mount --net true 2> /dev/null || skip "network and mounts of our own need root"
[ -n "${INSIDE-}" ] || INSIDE=1 exec unshare --mount --net "$0"
ip link set lo up || skip "no loopback device"

# One line for each pod: its name and its full name; then its variables, and the command with the tasks' own left out.
cat > "$TMPDIR/pods.py" << 'EOS'
import re, sys, yaml
text = open(sys.argv[1]).read()
if sys.argv[1].endswith(".md"):
    text, = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
parts = {part["kind"]: part for part in yaml.safe_load_all(text)}
if "JobSet" in parts:  # its controller makes the service, named like the set, and names the job
    whole, made = parts["JobSet"], parts["JobSet"]["spec"]["replicatedJobs"]
    assert whole["apiVersion"] == "jobset.x-k8s.io/v1alpha2" and len(made) == made[0]["replicas"] == 1
    assert whole["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    name, domain = "%s-%s-0" % (whole["metadata"]["name"], made[0]["name"]), whole["metadata"]["name"]
    spec, pod = made[0]["template"]["spec"], made[0]["template"]["spec"]["template"]["spec"]
else:
    service, job = parts["Service"], parts["Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    name, domain = job["metadata"]["name"], service["metadata"]["name"]
    assert (service["apiVersion"], job["apiVersion"]) == ("v1", "batch/v1")
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}
    assert service["spec"]["publishNotReadyAddresses"] and pod["subdomain"] == domain
if "LocalQueue" in parts:
    queue, flavours = parts["LocalQueue"], parts["ClusterQueue"]["spec"]["resourceGroups"][0]["flavors"]
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": queue["metadata"]["name"]} and spec["suspend"]
    assert job["metadata"]["namespace"] == queue["metadata"]["namespace"]
    assert queue["spec"]["clusterQueue"] == parts["ClusterQueue"]["metadata"]["name"]
    assert [one["name"] for one in flavours] == [parts["ResourceFlavor"]["metadata"]["name"]]
assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] == 0
assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] > 1
box, = pod["containers"]
variables = {one["name"]: one.get("value") for one in box["env"]}
assert sorted(variables) == ["MUSTER_KEY", "MUSTER_NODES"] and int(variables["MUSTER_NODES"]) == spec["completions"]
assert box["volumeMounts"][0]["mountPath"] == "/dev/shm" and pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
command = box["command"]
assert all(isinstance(word, str) for word in command) and command[0] == "muster" and command[-2:] == ["--", "./train"]
for index in range(spec["completions"]):
    own = "%s-%d" % (name, index)
    print(own, "%s.%s.default.svc.cluster.local" % (own, domain), index, variables["MUSTER_NODES"], *command[1:-1])
EOS
KEY=$(printf %064d 7)
cd "$TMPDIR" || exit 1
: > "$TMPDIR/hosts"
mount --bind "$TMPDIR/hosts" /etc/hosts || fail "no /etc/hosts of our own"
agents=()
trap 'kill "${agents[@]}" 2> /dev/null; wait' EXIT
for manifest in docs/HOSTS.md packaging/jobset.yaml packaging/kueue.yaml; do
    "$PYTHON" "$TMPDIR/pods.py" "$TOP/$manifest" > "$TMPDIR/pods" || fail "$manifest"
    rm -f "$TMPDIR"/*.out "$TMPDIR"/*.err
    while read -r name full index nodes words; do # the name server's part, the pods' addresses, is one file for all
        echo "127.0.0.1 $full $name"
    done < "$TMPDIR/pods" > "$TMPDIR/hosts"
    agents=()
    while read -r name full index nodes words; do
        env -i PATH="$PATH" HOME="$TMPDIR" HOSTNAME="$name" JOB_COMPLETION_INDEX="$index" MUSTER_NODES="$nodes" MUSTER_KEY="$KEY" \
            KUBERNETES_SERVICE_HOST=10.0.0.1 "$MUSTER" $words sh -c 'echo $MUSTER_NODE_ID $RANK/$WORLD_SIZE $LOCAL_RANK' \
            > "$TMPDIR/$name.out" 2> "$TMPDIR/$name.err" < /dev/null &
        agents+=($!)
    done < "$TMPDIR/pods"
    for pid in "${agents[@]}"; do
        wait "$pid" || fail "an agent: $(cat "$TMPDIR"/*.err)"
    done
    cat "$TMPDIR"/*.out | sort > "$OUT"
    for rank in $(seq 0 15); do
        echo "$((rank / 8)) $rank/16 $((rank % 8))"
    done | sort | cmp -s - "$OUT" || fail "the tasks"
done
exit 0
