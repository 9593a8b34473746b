#!/usr/bin/env python3
"""Every command that the man pages, README.md and docs/ show is run as it stands there, or is listed below with the reason why not; so is
every program that they show. One that is in neither place fails this test, and so does a reason for what is not shown any more.

The commands of one block are one session of bash, in a folder where the programs that they start are (./train, ...: shell scripts that
end at once). ssh, srun and python are scripts, too: other hosts are this one, and JAX's and PyTorch's own programs are run by `make
interop`. A session that names hosts or ports has a network of its own, where hosts called a and b are; that needs root.
"""
# variants: release
# timeout: 300
import glob
import os
import re
import shutil
import subprocess
import sys

MUSTER, TOP, FOLDER = os.environ["MUSTER"], os.environ["TOP"], os.environ["TMPDIR"]

# What is not run, and why. A command by how it begins.
NOT_RUN = {
    "make demo": "it installs packages; tests/fresh runs it",
    "make check": "this is a part of it",
    "make && sudo make install": "it installs; tests/tidy/install_test.sh does in a folder of its own",
    "make wheel": "tests/packages/wheel_test.sh makes it",
    "pip install build/wheel/": "it installs; tests/packages/wheel_test.sh does in an environment of its own",
    "pip install ./python": "it installs; tests/python/install_test.sh does in an environment of its own",
    "mpicc.mpich": "it needs MPICH; tests/launch/mpi_test.sh builds programs where that is",
    "TASKS=8 sbatch": "it needs Slurm; tests/launch/slurm_test.sh runs that script",
    "grpcurl": "it is no package of Debian; tests/rpc/reflect_test.py asks the same",
    "muster agent --adopt JOB": "JOB stands for a name; muster-agent(1)'s example is run",
    "cp --sparse=always": "it writes to /tmp; tests/cli/segment_test.sh reads such copies",
    "muster object show": "the reference is another in each run; tests/cli/object_test.sh shows one",
    "muster segment check /tmp": "likewise",
    "muster status --job /tmp": "likewise",
    "muster kv list --job /tmp": "likewise",
    "muster session": "the job needs a TensorFlow master; tests/session/people_test.py asks one",
}
# Programs and files in fences, by file and language.
FENCES = {
    ("README.md", "c"): "a piece of a program; examples/ has whole ones, which are tests",
    ("docs/ELASTIC.md", "c"): "a piece of a program; tests/launch/epochs_main.c is a whole one",
    ("docs/ELASTIC.md", "python"): "tests/python/epochs_test.py runs such a program",
    ("docs/HOSTS.md", "yaml"): "tests/launch/kubernetes_test.sh reads it",
    ("docs/JAX.md", "python"): "JAX and TensorFlow: tests/interop runs such programs",
    ("docs/METRICS.md", "yaml"): "Prometheus reads it; tests/agent/metrics_test.py reads what that fetches",
    ("docs/PS.md", "python"): "tests/python/documents_test.py runs it",
    ("docs/PYTHON.md", "python"): "tests/python/documents_test.py runs it",
    ("docs/PYTORCH.md", "python"): "PyTorch: tests/interop runs such programs",
}
# Statuses other than 0, with what the output has then.
STATUS = {
    "muster run -n 4 -- sh -c 'test $RANK != 2": (3, "task 2 .* exited with status 3; ending the other 3 tasks"),
    "muster run --hosts localhost:2,10.77.0.2:2 -- sh -c 'sleep 2": (3, r"task 3 \(host 10.77.0.2, pid \d+\) exited with status 3; ending"),
    "muster task error --job train --wait": (0, ""),
}
# Where this machine lacks something, as GPUs, that is said.
MAY_LACK = {"-n gpu": "GPU", "--libtensorflow": "TensorFlow", "--mpi pmix": "libpmix", "| grep sum": "", "| grep -v ^ok": ""}
# These end when they are told to.
STAYS = ("muster serve -n 4", "muster serve --jobs", "muster serve --ray=127.0.0.1:10001", "muster event read", "muster status --job train --watch")
BEFORE = {
    "muster segment list": ": > /dev/shm/muster-$(id -u)-train",
    "muster task error": "{ sleep 0.5; muster task error --job train 2 broken; } &",  # sleep: it waits for that
    "muster run --survive": "export TRAIN=3",
    "muster run -n 4 --job train": "export TRAIN=3",
    "muster run -n 8 --job train --trace": "export TRAIN=3",
    "muster run --job train --elastic": "export TRAIN=60",
}
BESIDE = ("muster run -n 4 --job train",)  # the next command is another terminal's
AFTER = {  # until it is there
    "muster run -n 4 --job train": "until muster status --job train > /dev/null 2>&1; do sleep 0.05; done",
    "muster serve -n 2": "sleep 0.5",  # sleep: a wrong one ends meanwhile
    "muster serve -n 3 --servers 1": "until curl -s http://127.0.0.1:8118/state > /dev/null; do sleep 0.05; done",
    "muster run --survive": "until muster status --job training > /dev/null 2>&1; do sleep 0.05; done; sleep 0.5",
    "muster run -n 8 --job train --trace": "until muster status --job train > /dev/null 2>&1; do sleep 0.05; done",
    "muster run --job train --elastic": "until muster status --job train > /dev/null 2>&1; do sleep 0.05; done",
    "kill -9 $!": "wait $! 2> /dev/null",
}
FIXTURE = """muster run -n 4 --job train --trace -- %s epochs > /dev/null 2>&1 &
until [ "$(muster task list --job train 2> /dev/null | grep -c ' CONNECTED ')" = 4 ]; do sleep 0.05; done
muster kv set --job train result x && muster kv set --job train ready/0 x
""" % os.path.join(os.environ["BUILD"], "tests/cli/worker")
END = """for pid in $pids; do  # those in the background
    kill $pid 2> /dev/null; wait $pid 2> /dev/null
    case $? in 0 | 127 | 137 | 143) ;; *) echo; echo "one in the background has failed" ;; esac
done
kill $(jobs -p) 2> /dev/null; wait 2> /dev/null"""
PROGRAMS = "train prepare work server worker page-me ring program".split()
PATIENCE = 60
used = set()


def one_of(table, command):
    """The entry by which the command begins, or that is in it."""
    for key in table:
        if command.startswith(key) or (table is MAY_LACK and key in command):
            used.add(key)
            return key
    return None


# ---- what is shown ----


def man_blocks(text):
    block, inside, before_dl = [], False, False
    for line in text.splitlines() + [".end"]:
        shown = line[4:] if line.startswith(".Dl ") else line if inside and not line.startswith(".") else None
        if shown is not None:
            block.append(re.sub(r"\\\(dq", '"', re.sub(r"\\&", "", shown)).replace("\\e", "\\"))
            before_dl = line.startswith(".Dl ")
            continue
        inside = line.startswith(".Bd -literal") or (inside and not line.startswith(".Ed"))
        if block and (not before_dl or line != ".Pp"):
            yield block
        if block and before_dl and line == ".Pp":
            yield block
        block, before_dl = [], False


def page_blocks(name, text):
    """Indented blocks, and fences that are sessions."""
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
        if language in ("", "console", "sh"):
            yield body.splitlines()
        elif (name, language) in FENCES:
            used.add((name, language))
        else:
            yield ["$ no reason for a fence of %s in %s" % (language, name)]
    for body in re.findall(r"(?:^    .*\n|^\n(?=    ))+", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        yield [line[4:] for line in body.splitlines()]


COMMAND = re.compile(r"(?:[ab]?\$ +|(?=(?:build/release/)?muster \w+ |make (?:demo|check)|pip install|cp --sparse))(.*)")


def session(block):
    """[(host, command, shown)]: a quote that is open goes on in the next line."""
    found, lines = [], list(block)
    while lines:
        line = lines.pop(0)
        match = COMMAND.match(line)
        if not match or re.match(r"muster \w+: ", line):
            if found:
                found[-1][2].append(line)
            continue
        command = re.sub(r"\s{2,}#.*", "", match.group(1))
        while command.count("'") % 2 and lines:
            command += "\n" + lines.pop(0)
        found.append((line[0] if re.match(r"[ab]\$", line) else "", command, []))
    return found


def blocks():
    for path in sorted(glob.glob(os.path.join(TOP, "man/*.1"))):
        with open(path) as f:
            for block in man_blocks(f.read()):
                yield os.path.basename(path), session(block)
    for name in ["README.md"] + ["docs/" + os.path.basename(p) for p in sorted(glob.glob(os.path.join(TOP, "docs/*.md")))]:
        if name == "docs/EVIDENCE.md":
            continue  # programs of the tests, of which tests/tidy/docs_test.py knows that they are there
        with open(os.path.join(TOP, name)) as f:
            for block in page_blocks(name, f.read()):
                yield name, session(block)


# ---- running it ----


def script_of(commands):
    lines = ["mark() { local status=$?; printf '\\n@@ %d\\n' $status; return $status; }", "set -m"]
    text = "\n".join(command for _, command, _ in commands)
    if re.search(r"--job train|muster status$|muster kv list", text) and not re.search(r"muster run .*--job train|segment rm", text):
        lines.append(FIXTURE)
    for host, command, shown in commands:
        written = re.fullmatch(r"cat ([\w.]+)", command)
        if written:
            lines.append("cat > %s <<'EOS'\n%s\nEOS" % (written.group(1), "\n".join(shown)))
            lines.append("mark")
            continue
        before, after = one_of(BEFORE, command), one_of(AFTER, command)
        lines += [BEFORE[before]] if before else []
        if command.startswith("muster top "):
            lines.append("TERM=xterm timeout -s TERM 2 script -qec '%s' /dev/null > /dev/null < /dev/null; [ $? -eq 124 ]" % command)
        elif one_of(STAYS, command):
            lines.append("timeout -s INT 2 %s; [ $? -eq 124 ]" % command)
        else:
            lines.append(command + (" &" if host == "a" or one_of(BESIDE, command) else ""))
        lines += ["mark", "pids=\"$pids $!\""]
        lines += [AFTER[after]] if after else []
        lines += ["wait; mark"] if host == "b" else []
    return "\n".join(lines + [END])


def make_folder():
    scripts = {
        "bin/ssh": 'while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done; shift; exec sh -c "$*"',
        "bin/srun": "shift\nexec env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=1 "
                    'SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=1 "$@"',
        "bin/python": "exit 0",
        "bin/protoc": "exec cat > /dev/null",
        "alone": 'ip link set lo up && ip addr add 10.77.0.1/24 dev lo && mount --bind "$1" /etc/hosts && shift && exec "$@"',
    }
    if not shutil.which("jq"):
        scripts["bin/jq"] = "exec cat > /dev/null"
    scripts.update({name: 'exec sleep "${TRAIN:-0}"' for name in PROGRAMS})
    os.makedirs(os.path.join(FOLDER, "bin"))
    os.makedirs(os.path.join(FOLDER, "build"))
    os.symlink(os.path.dirname(MUSTER), os.path.join(FOLDER, "build/release"))
    for name, text in scripts.items():
        with open(os.path.join(FOLDER, name), "w") as f:
            f.write("#!/bin/sh\n%s\n" % text)
        os.chmod(f.name, 0o755)
    for name in ("config.json", "protocol.proto", "train.py"):
        open(os.path.join(FOLDER, name), "w").close()
    with open(os.path.join(FOLDER, "hosts"), "w") as f:
        f.write("127.0.0.1 localhost %s\n10.77.0.1 a\n10.77.0.3 b\n" % os.uname().nodename)


ALONE = ["unshare", "-n", "-m", os.path.join(FOLDER, "alone"), os.path.join(FOLDER, "hosts")]


def run_block(commands):
    """What is wrong; or ''."""
    text = "\n".join(command for _, command, _ in commands)
    is_alone = re.search(r"--hosts|--join|:4711|:29500|srun", text) is not None
    if is_alone and not can_be_alone:
        return "not run: it needs a network of its own"
    environment = dict(os.environ, PATH="%s/bin:%s:%s" % (FOLDER, os.path.dirname(MUSTER), os.environ["PATH"]), MUSTER_KEY="0" * 63 + "1",
                       CPATH=os.path.join(TOP, "include"), LIBRARY_PATH=os.environ["BUILD"], LD_LIBRARY_PATH=os.environ["BUILD"])
    try:
        done = subprocess.run((ALONE if is_alone else []) + ["bash", "-c", script_of(commands)], cwd=FOLDER, env=environment, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except subprocess.TimeoutExpired as late:
        return "does not end:\n%s\n%s" % (text, (late.stdout or b"").decode(errors="replace"))
    if "one in the background has failed" in done.stdout:
        return "%s\n%s" % (text, done.stdout)
    parts = re.split(r"\n@@ (\d+)\n", done.stdout)
    if len(parts) < 2 * len(commands) + 1:
        return "it ended early:\n" + done.stdout
    for i, (_, command, _) in enumerate(commands):
        output, status, key = parts[2 * i], int(parts[2 * i + 1]), one_of(STATUS, command)
        want, pattern = STATUS[key] if key else (0, "")
        lacks = one_of(MAY_LACK, command)
        if status != want and not (lacks and MAY_LACK[lacks] in output):
            return "%s\nexit status %d instead of %d:\n%s" % (command, status, want, output)
        if not re.search(pattern, output):
            return "%s\nlacks '%s':\n%s" % (command, pattern, output)
    return ""


make_folder()
can_be_alone = os.geteuid() == 0 and subprocess.run(ALONE + ["true"], stderr=subprocess.DEVNULL).returncode == 0
count = failed = 0
for page, commands in blocks():
    commands = [each for each in commands if not one_of(NOT_RUN, each[1])]
    if not commands:
        continue
    problem = run_block(commands)
    count += len(commands)
    if problem:
        print("%s: %s" % (page, problem), flush=True)
        failed += not problem.startswith("not run")
for table in NOT_RUN, FENCES, STATUS, STAYS, BESIDE, BEFORE, AFTER, MAY_LACK:
    for key in table:
        if key not in used:
            print("%r is not shown any more" % (key,))
            failed += 1
print("%d commands" % count)
sys.exit(1 if failed or count < 60 else 0)
