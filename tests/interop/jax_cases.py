"""The cases of `make interop` for JAX: unmodified programs (programs/*.py), and what must come of each."""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import environments
import kit
from kit import crowd, service, verdict

sys.path.append(os.path.join(os.path.dirname(kit.HERE), "bridge"))
from field import Field, NotHere  # noqa: E402

REFERENCE = {"newest": "A", "0.9.2": "B", "0.4.13": "C"}  # versions whose own services are asked the checks, too


def sums(version, python, count):
    code, text = kit.under_run("%s-run%d" % (version, count), count, python, "train.py")
    said = re.findall(r"process \d+ of \d+, jax [\d.]+: ([a-z_, ]+)", text.replace("process ", "\nprocess "))
    verdict(version, "muster run -n %d --grpc -- train.py, which calls initialize() alone" % count,
            None if code == 0 and len(said) == count else "exit status %s\n%s" % (code, text),
            said[0] if said else "")


def again(version, python):
    code, text = kit.under_run(version + "-again", 2, python, "again.py")
    right = code == 0 and text.count("came 3 times") == 2
    verdict(version, "muster run -n 2 --grpc: shutdown() then initialize(), the same keys and barriers each time",
            None if right else "exit status %s\n%s" % (code, text))
    with service(version + "-served-again", 2) as address:
        for turn in ("first", "second"):
            with crowd("%s-served-%s" % (version, turn), python, "train.py", address, 2) as programs:
                kit.all_end_well(version, "muster serve without --once: the %s run" % turn, programs)


def rsh_to_here(folder):
    """What stands for ssh: the other host is this machine again."""
    path = os.path.join(folder, "rsh")
    with open(path, "w") as script:
        script.write("#!/bin/sh\nshift\neval \"exec $*\"\n")
    os.chmod(path, 0o755)
    return path


def two_hosts(version, python):
    with tempfile.TemporaryDirectory() as folder:
        code, text = kit.under_run(version + "-hosts", 4, python, "train.py", "--hosts", "localhost:2,b:2", "--rsh",
                                   rsh_to_here(folder))
        said = re.findall(r"process \d+ of 4, jax [\d.]+: ([a-z_, ]+)", text.replace("process ", "\nprocess "))
        verdict(version, "muster run --hosts localhost:2,b:2 --grpc -- train.py: each host's agent serves its own",
                None if code == 0 and len(said) == 4 else "exit status %s\n%s" % (code, text), said[0] if said else "")


def two_networks(version, python):
    """Two hosts that are network namespaces, with names of their own."""
    what = "the same on two hosts with networks of their own: JAX's gloo goes between them"
    try:
        field = Field(2, "switch")
    except (NotHere, OSError) as error:
        kit.skip(version, "%s: %s" % (what, error))
        return
    with field:
        names = os.path.join(field.folder.name, "hosts")
        with open(names, "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join("%s %s\n" % (host.address, host.name) for host in field.hosts))
        first, second = field.hosts
        command = [*first.prefix(), "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', names, kit.MUSTER,
                   "run", "--grpc", "--hosts", "localhost:2,%s:2" % second.address, "--address", first.address, "--rsh", field.rsh(),
                   "--timeout", "%ds" % kit.MINUTES, "--", python, os.path.join(kit.HERE, "programs/train.py")]
        log, process = kit.start(version + "-networks", command)
        text = kit.until(log, process, lambda text: False)
        process.kill()
        code = process.wait()
    said = re.findall(r"process \d+ of 4, jax [\d.]+: ([a-z_, ]+)", text.replace("process ", "\nprocess "))
    verdict(version, what, None if code == 0 and len(said) == 4 else "exit status %s\n%s" % (code, text), said[0] if said else "")


def one_of_two_hosts_killed(version, python):
    name = "%s-hosts-killed" % version
    job = "interop-%d" % os.getpid()
    program = "exec '%s' '%s' $MUSTER_GRPC_ADDRESS 4 $RANK 10" % (python, os.path.join(kit.HERE, "programs/stays.py"))
    with tempfile.TemporaryDirectory() as folder:
        log, process = kit.start(name, [kit.MUSTER, "run", "--job", job, "--grpc", "--label", "--kill-on-fail=no", "--hosts",
                                        "localhost:2,b:2", "--rsh", rsh_to_here(folder), "--", "sh", "-c", program])
        try:
            text = kit.until(log, process, lambda text: text.count("computes") == 4)
            tasks = json.loads(subprocess.run([kit.MUSTER, "task", "list", "--job", job, "--json"], capture_output=True,
                                              env=kit.clean_environment()).stdout or "{}").get("tasks", [])
            if len(tasks) == 4 and tasks[2]["pid"]:
                os.kill(tasks[2]["pid"], signal.SIGKILL)
            text = kit.until(log, process, lambda text: False)
        finally:
            process.kill()
            process.wait()
    told = [task for task in (0, 1, 3) if re.search(r"(?m)^\[%d\].*task[ :]2 \(pid \d+ on host b\)" % task, text)]
    verdict(version, "one of 4 killed, on the other of two hosts: each survivor is told its name",
            None if told == [0, 1, 3] else "those who said so: %s\n%s" % (told, text))


def by_arguments(version, python):
    name, address = version + "-keys", kit.free_address()
    with service(name, 3, address=address), crowd(name, python, "keys.py", address, 3) as programs:
        kit.all_end_well(version, "initialize() by arguments, a port of our choice; what JAX's client is asked for", programs)


def thousand_devices(version, python):
    what, name = "1,200 devices of two processes, initialize() twice", version + "-devices"
    with service(name, 2) as address, crowd(name, python, "devices.py", address, 2) as programs:
        kit.all_end_well(version, what, programs)
    for program, count in ("devices.py", 2), ("keys.py", 3):
        with crowd("%s-own-%s" % (version, program), python, program, kit.free_address(), count, own=True) as programs:
            kit.all_end_well(version, "the same with JAX's own service: %s" % program, programs)


def long_names(version, python):
    """A sum of 600 devices, each two of which gloo joins: of more, with JAX's own service as well, files or time run out."""
    count, name = 69, version + "-clique"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 19000:
        return kit.skip(version, "a sum of 600 devices: gloo opens 18,000 files a process, and %d may be" % hard)
    for own in False, True:
        begun = time.monotonic()
        with service(name, count) as address:
            program = [python, os.path.join(kit.HERE, "programs/cliques.py"), kit.free_address() if own else address, count]
            log, process = kit.start(name + "-own" * own, program, **({} if own else {"JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0"}))
            try:
                code = process.wait(5 * kit.MINUTES)
            except subprocess.TimeoutExpired:
                code = None
                process.terminate()
                process.wait()
        with open(log, errors="replace") as lines:
            text = lines.read()
        right = code == 0 and text.count("the sum over 600 devices is 179700, with names of 4199 bytes") == 20
        after = "after %.0f s" % (time.monotonic() - begun)
        if own:
            kit.say("     %-7s with JAX's own service: %s, %s" % (version, "the same" if right else "exit status %s" % code, after))
        else:
            verdict(version, "a sum of 600 devices, whose keys have more than 4,200 bytes",
                    None if right else "exit status %s\n%s" % (code, text), after)


def late_joiner(version, python):
    name = version + "-late"
    program = "train.py" if version != "0.4.26" else "keys.py"
    with service(name, 2) as address:
        first = kit.Program(name + "0", python, program, address, 2, 0)
        time.sleep(3)  # sleep: what makes the other late
        second = kit.Program(name + "1", python, program, address, 2, 1)
        kit.all_end_well(version, "a process that comes 3 s late", [first, second])


def straggler(version, python):
    name = version + "-straggler"
    with service(name, 3) as address, crowd(name, python, "straggler.py", address, 3) as programs:
        codes = [program.end() for program in programs]
        texts = [program.text for program in programs]
    named = [re.search(r"DEADLINE_EXCEEDED: Barrier timed out.*task[ :]2", text) for text in texts[:2]]
    wrong = None if set(codes) == {0} and all(named) else "exit statuses %s\n%s" % (codes, "\n".join(texts))
    verdict(version, "a barrier with a straggler; one that times out names it", wrong)


def killed(name, python, address, own=False, count=4, victim=2):
    """Seconds until each survivor says that it ends, and all that they said (writing a core may take longer)."""
    with crowd(name, python, "stays.py", address, count, 10, own=own) as programs:
        if not all(program.says("computes") for program in programs):
            return [], [program.text for program in programs]
        programs[victim].process.send_signal(signal.SIGKILL)
        start, times = time.monotonic(), {}
        while len(times) < count - 1 and time.monotonic() < start + kit.MINUTES:
            for task, program in enumerate(programs):
                if task != victim and task not in times and re.search("(?i)Terminating process because", program.text):
                    times[task] = time.monotonic() - start
            time.sleep(0.005)  # sleep: between two looks
        for program in programs:
            program.end()
        return sorted(times.values()), [program.text for task, program in enumerate(programs) if task != victim]


def one_killed(version, python, compare):
    with service(version + "-killed", 4) as address:
        times, texts = killed(version + "-killed-muster", python, address)
    named = len(times) == 3 and all(re.search(r"task[ :]2\b", text) for text in texts)
    wrong = None if named else "%s survivors said so\n%s" % (len(times), "\n".join(texts))
    verdict(version, "one of 4 killed: each survivor is told that it was task 2", wrong,
            "after %s" % " ".join("%.3f s" % one for one in times))
    if compare:
        own, texts = killed(version + "-killed-own", python, kit.free_address(), own=True)
        kit.say("     %-7s with JAX's own service, heartbeat_timeout_seconds=10 (its default is 100): %s" % (
            version, "after " + " ".join("%.3f s" % one for one in own) if own else "it did not come up"))


def outlives(version, python):
    name = version + "-outlives"
    with service(name, 3, "--grpc-recoverable") as address, crowd(name, python, "outlives.py", address, 3) as programs:
        if all(program.says("begun") for program in programs):
            programs[0].process.kill()
        kit.all_end_well(version, "process 0 killed, serve --grpc-recoverable: get_live_nodes and barriers of the others",
                         programs, (-9, 0, 0))


def recovers(version, python):
    code, text = kit.under_run(version + "-recovers", 3, python, "recovers.py", "--restart-policy", "task", "--restarts", "1")
    said = sorted(re.findall(r"process (\d) of 3, (\w+) attempt: recovered", text))
    right = code == 0 and said == [("0", "first"), ("1", "second"), ("2", "first")]
    verdict(version, "jax_enable_recoverability, --restart-policy task: process 1 killed, started again, takes its place",
            None if right else "exit status %s\n%s" % (code, text))


def preempted(version, python):
    name = version + "-preempted"
    with service(name, 2) as address, crowd(name, python, "preempted.py", address, 2) as programs:
        if all(program.says("computes") for program in programs):
            programs[1].process.send_signal(signal.SIGTERM)
        codes = [program.end() for program in programs]
        texts = [program.text for program in programs]
    said = [re.findall(r"saves at step \d+", text) for text in texts]
    wrong = None if set(codes) == {0} and said[0] and said[0] == said[1] else "exit statuses %s\n%s" % (codes, "\n".join(texts))
    verdict(version, "SIGTERM to one: both reach the same step to save at", wrong, said[0][0] if said[0] else "")


def saves(version, python):
    if not environments.can(python, "import orbax.checkpoint"):
        return kit.skip(version, "Orbax is not in this environment")
    name = version + "-saves"
    with tempfile.TemporaryDirectory() as folder, service(name, 2) as address:
        with crowd(name, python, "saves.py", address, 2, os.path.join(folder, "saved")) as programs:
            kit.all_end_well(version, "Orbax %s, by CheckpointManager" % environments.number(python, "orbax-checkpoint"), programs)


def beside(version, python):
    if not environments.can(python, "import cloudpickle"):
        return kit.skip(version, "cloudpickle, which colocated_python needs, is not in this environment")
    name = version + "-beside"
    with service(name, 2) as address, crowd(name, python, "beside.py", address, 2) as programs:
        kit.all_end_well(version, "jax.experimental.colocated_python", programs)


def certificates(folder):
    """ca.pem, and cert.pem with key.pem of 127.0.0.1. False: they cannot be made."""
    def openssl(*words):
        return subprocess.run(["openssl", *words], cwd=folder, capture_output=True).returncode == 0
    with open(os.path.join(folder, "names"), "w") as names:
        names.write("subjectAltName=IP:127.0.0.1\n")
    try:
        return (openssl(*"req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca".split()) and
                openssl(*"req -newkey rsa:2048 -nodes -keyout key.pem -out asked.pem -subj /CN=localhost".split()) and
                openssl(*"x509 -req -in asked.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names "
                        "-out cert.pem".split()))
    except FileNotFoundError:
        return False


def by_tls(version, python):
    if not environments.can(python, "import inspect, jax; inspect.signature(jax.distributed.initialize).parameters['mtls_cert_file']"):
        return kit.skip(version, "this JAX has no mutual TLS")
    with tempfile.TemporaryDirectory() as folder:
        if not certificates(folder):
            return kit.skip(version, "openssl, which makes the certificates, is not here")
        name = version + "-tls"
        paths = [os.path.join(folder, one + ".pem") for one in ("cert", "key", "ca")]
        with service(name, 2, "--grpc-cert", paths[0], "--grpc-key", paths[1], "--grpc-ca", paths[2]) as address:
            stranger = kit.Program(name + "-stranger", python, "secret.py", address, 2, 1)
            kit.all_end_well(version, "a process without certificates is refused by --grpc-ca", [stranger], (-signal.SIGABRT,))
            with crowd(name, python, "secret.py", address, 2, folder) as programs:
                kit.all_end_well(version, "JAX's mutual TLS (mtls_cert_file and the others)", programs)


def old_client(version, python):
    for protocol, words in (("new", "tensorflow.CoordinationService"), ("old", "xla.DistributedRuntimeService")):
        name = "%s-%s" % (version, protocol)
        with service(name, 2) as address, crowd(name, python, "old.py", address, 2, protocol) as programs:
            kit.all_end_well(version, "the library's client, by " + words, programs)


def ask_reference(version, python, protocol):
    """The checks, with JAX's own service in muster's place."""
    number = environments.number(python, "jaxlib")
    if protocol == "A" and number.startswith(("0.10.", "0.11.")):
        return kit.skip(version, "the checks, asked of JAX's own service: they are of jaxlib 0.12, and this is %s" % number)
    folder = os.path.join(kit.TOP, "tests/checks")
    for name in sorted(one for one in os.listdir(folder) if one.endswith("_test.py")):
        if name == "table_test.py" or (name == "old_test.py") != (protocol == "C"):
            continue
        with open(os.path.join(kit.LOGS, "%s-reference-%s.log" % (version, name)), "w+") as log:
            code = subprocess.run([sys.executable, os.path.join(folder, name)], stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.DEVNULL, timeout=600,
                                  env=kit.clean_environment(TOP=kit.TOP, VARIANT="release", BUILD=os.path.dirname(kit.MUSTER),
                                                            MUSTER_TEST_CHECKS_DIALECTS=protocol, MUSTER_TEST_CHECKS_SERVER=(
                                                                "'%s' '%s/reference.py'" % (python, folder)))).returncode
            log.seek(0)
            text = log.read()
        last = (text.strip().splitlines() or [""])[-1]
        if last.startswith("0 checks"):  # none that a JAX can be asked
            continue
        if code == 77:
            return kit.skip(version, "the checks, asked of JAX's own service: " + last)
        verdict(version, "JAX's own service, asked by %s" % name, (text or "exit status %d" % code) if code else None, last)


def without_service(version, python):
    """JAX's own service under the launcher: it takes the job for none of Open MPI 5's, and within Slurm for none of Slurm's."""
    for how, outside in (("explicit", {}), ("explicit", kit.STEP), ("bare", kit.STEP)):
        where = "in a step of Slurm" if outside else "bare"
        code, text = kit.run("%s-without-%s-%s" % (version, how, where.split()[0]), [
            "-n", 2, "--label", "--", python, os.path.join(kit.HERE, "programs/without.py"), how], **outside)
        said = re.findall(r"(?m)^\[\d\] process \d of 2, jax [\d.]+: .*", text)
        verdict(version, "muster run -n 2 -- without.py %s, %s" % (how, where),
                None if code == 0 and len(said) == 2 else "exit status %s\n%s" % (code, text))


def all_cases(version, python, ask):
    if version == "0.4.13":
        old_client(version, python)
    else:
        without_service(version, python)
        if version != "0.4.26":  # whose CPUs have no collectives
            sums(version, python, 2)
            sums(version, python, 4)
            again(version, python)
            two_hosts(version, python)
            two_networks(version, python)
            one_of_two_hosts_killed(version, python)
        by_arguments(version, python)
        late_joiner(version, python)
        straggler(version, python)
        one_killed(version, python, compare=version in ("newest", "0.9.2"))
        if version in ("newest", "0.9.2"):  # whose clients have get_live_nodes
            outlives(version, python)
            recovers(version, python)
        if version != "0.4.26":
            preempted(version, python)
        if version == "newest":
            saves(version, python)
            kit.goes_on_alike(version, python, "checkpoint_jax.py", 2, 8, "a pytree in muster.Checkpoint goes on, bit for bit")
            beside(version, python)
            by_tls(version, python)
            thousand_devices(version, python)
            long_names(version, python)
    if ask and version in REFERENCE:
        ask_reference(version, python, REFERENCE[version])
