"""What the checks of the coordination service are driven with: real gRPC clients, one vocabulary over its dialects.

    @check(12, "AB")                            # the number in table.txt; the dialects that have it
    def _(dialect):
        with served(dialect, tasks=2, heartbeat=500) as service:
            first, second = service.tasks()     # each on a connection of its own
            joined(first, second)
            poll = first.poll()                 # a Call: begun, not awaited
            expect(poll, "UNAVAILABLE")         # awaits it, for a minute at most

The services are in a program of tests/checks (serve_main.c), many in one process, opened and closed by lines. With
MUSTER_TEST_CHECKS_SERVER that is another command that speaks the same lines: reference.py runs JAX's own service, which
says whether a check is right (`make interop` asks it). MUSTER_TEST_CHECKS_DIALECTS then limits the dialects. No check
says how long something takes; each wait ends after a minute.
"""
import concurrent.futures
import contextlib
import functools
import itertools
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import traceback

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails on purpose would fill the log
try:
    import grpc
    import google.protobuf
except ImportError as missing:
    print("there is no %s: apt-get install python3-grpcio python3-protobuf" % missing.name)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(HERE))
REFERENCE = os.environ.get("MUSTER_TEST_CHECKS_SERVER", "")
DIALECTS = os.environ.get("MUSTER_TEST_CHECKS_DIALECTS", "ABC")
SERVICES = {"A": "xla.coordination.CoordinationService", "B": "tensorflow.CoordinationService",
            "C": "xla.DistributedRuntimeService"}
MINUTE = 60
CHECKS = []
ids = itertools.count()


class Failed(Exception):
    pass


def fail(sentence, *args):
    raise Failed(sentence % args if args else sentence)


def that(condition, sentence, *args):
    if not condition:
        fail(sentence, *args)


def check(number, dialects, reference="AB"):
    """reference: the dialects in which JAX's own service is asked, too. Where it is not, a comment says why."""
    def take(body):
        for dialect in dialects:
            CHECKS.append((number, dialect, body, dialect in reference))
        return body
    return take


@functools.lru_cache(maxsize=None)
def stubs():
    """The messages of src/rpc/*.proto, by protoc: {"A": module, "B": module, "C": module, "payload": module}."""
    names = {"A": "xla_coordination", "B": "tsl_coordination", "C": "xla_runtime", "payload": "payload"}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(TOP, "src/rpc")
        subprocess.run(["protoc", "-I", source, "--python_out", folder] +
                       [os.path.join(source, name + ".proto") for name in names.values()], check=True)
        sys.path.insert(0, folder)
        try:
            return {key: __import__(name + "_pb2") for key, name in names.items()}
        finally:
            sys.path.remove(folder)


class Host:
    """The program that runs the services."""

    def __init__(self, environment=None):
        program = shlex.split(REFERENCE) or [os.path.join(os.environ["BUILD"], "tests/checks/serve")]
        self.lock = threading.Lock()
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **environment or {}))

    def ask(self, line):
        with self.lock:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        that(answer and not answer.startswith("error"), "the host of the services, asked to %s: %s", line, answer or "is gone")
        return answer

    def end(self):
        self.process.stdin.close()
        said = self.process.stdout.read()
        return self.process.wait(MINUTE) == 0 and said.strip() == "clean", said


host = None


class Call:
    """An answer that may still be on its way. .code and the rest await it."""

    def __init__(self, future, errors):
        self.future, self.errors = future, errors

    @property
    def done(self):
        return self.future.done()

    @property
    def code(self):
        return self.future.code().name

    @property
    def text(self):
        return self.future.details() or ""

    @property
    def value(self):
        return self.future.result()

    def cancel(self):
        self.future.cancel()

    @property
    def trailers(self):
        self.future.code()
        return {key: value for key, value in self.future.trailing_metadata() or ()}

    @property
    def payload(self):
        """{"CoordinationServiceError": message, ...}, by what follows the dot in its type URL."""
        details = self.trailers.get("grpc-status-details-bin")
        if details is None:
            return {}
        found = {}
        for entry in stubs()["payload"].Container.FromString(details).payloads:
            url = entry.key.decode()
            that(url.startswith("type.googleapis.com/tensorflow."), "a payload of type %s", url)
            name = url.rpartition(".")[2]
            found[name] = getattr(self.errors, name).FromString(entry.value)
        return found

    def __repr__(self):
        return "%s: %s" % (self.code, self.text) if self.done else "a call that waits"


class Wire:
    """A client's connection: calls by name with any fields."""

    def __init__(self, service, dialect, credentials=None, **options):
        self.service, self.dialect, self.messages = service, dialect, stubs()[dialect]
        settings = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
                    ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)]
        arguments = dict(options=settings, **options)
        self.channel = (grpc.secure_channel(service.address, credentials, **arguments) if credentials
                        else grpc.insecure_channel(service.address, **arguments))
        self.calls, self.incarnation = [], None  # the incarnation: of the service

    def call(self, rpc, timeout=MINUTE, wait=True, **fields):
        """wait: for a connection, where there is none."""
        if self.dialect == "A" and rpc != "RegisterTask":
            if "incarnations" not in fields:
                fields["incarnations"] = {"service_incarnation": self.service_incarnation()}
        request = getattr(self.messages, rpc + "Request")(**fields)
        return self.send(rpc, request.SerializeToString(), timeout, wait)

    def send(self, rpc, data, timeout=MINUTE, wait=True):
        """The bytes of a request, right or not."""
        method = self.channel.unary_unary("/%s/%s" % (SERVICES[self.dialect], rpc), request_serializer=None,
                                          response_deserializer=getattr(self.messages, rpc + "Response").FromString)
        call = Call(method.future(data, timeout=timeout, wait_for_ready=wait and timeout > 5), self.messages)
        self.calls.append(call)  # one that nobody holds is cancelled
        return call

    def service_incarnation(self):
        """As a client would: it is told when it is wrong, or when it registers."""
        if self.incarnation is None:
            told = self.call("TryGetKeyValue", key=b"none", incarnations={"service_incarnation": 0})
            expect(told, "INTERNAL", "wrong service incarnation")
            self.incarnation = told.payload["ServiceMismatchError"].service_incarnation
        return self.incarnation

    def close(self):
        self.channel.close()


def raw(text):
    return text if isinstance(text, bytes) else text.encode()


class Keys:
    """The calls on keys, which are no task's. Of A and B."""

    def __init__(self, wire):
        self.wire, self.dialect = wire, wire.dialect

    def insert(self, key, value, overwrite=False):
        return self.wire.call("InsertKeyValue", kv={"key": raw(key), "value": raw(value)}, allow_overwrite=overwrite)

    def get(self, key, timeout=MINUTE):
        return self.wire.call("GetKeyValue", timeout, key=raw(key))

    def try_get(self, key):
        return self.wire.call("TryGetKeyValue", key=raw(key))

    def increment(self, key, by):
        return self.wire.call("IncrementKeyValue", key=raw(key), increment=by)

    def dir(self, key):
        return self.wire.call("GetKeyValueDir", directory_key=raw(key))

    def delete(self, key, is_directory=True):
        return self.wire.call("DeleteKeyValue", key=raw(key), is_directory=is_directory)

    def settle(self):
        """What was begun on this connection has come to the service: it takes calls in order, and this one is answered."""
        self.try_get("settle").code
        if REFERENCE:
            time.sleep(0.1)  # sleep: JAX's service hands calls to several threads


def listing(call):
    return [(entry.key.decode(), entry.value.decode()) for entry in call.value.kv]


class Task(Keys):
    """A task that speaks A or B."""

    def __init__(self, wire, task, job="jax_worker", incarnation=None, recoverable=False):
        super().__init__(wire)
        self.task, self.job, self.recoverable = task, job, recoverable
        self.incarnation = random.getrandbits(64) if incarnation is None else incarnation

    def name(self, task=None, job=None):
        """A task's name in a request: a number in A, a message in B."""
        task = self.task if task is None else task
        if self.dialect == "A":
            return task
        return {"job_name": raw(self.job if job is None else job), "task_id": task, "recoverable": self.recoverable}

    def names(self, tasks):
        return [self.name(task) for task in tasks]

    def mine(self, b="source_task"):
        return {"source_task_id" if self.dialect == "A" else b: self.name()}

    def restarted(self, wire=None):
        return Task(wire or self.wire, self.task, self.job, recoverable=self.recoverable)

    def register(self, incarnation=None, timeout=MINUTE):
        return self.wire.call("RegisterTask", timeout, incarnation=self.incarnation if incarnation is None else incarnation,
                              **self.mine())

    def heartbeat(self, incarnation=None, wait=True):
        return self.wire.call("Heartbeat", wait=wait, incarnation=self.incarnation if incarnation is None else incarnation,
                              **self.mine())

    def poll(self):
        return self.wire.call("PollForError", **self.mine())

    def report(self, code, text):
        return self.wire.call("ReportErrorToService", error_code=code, error_message=raw(text), **self.mine("error_origin"))

    def shutdown(self):
        return self.wire.call("ShutdownTask", **self.mine())

    def leave(self):
        """Be disconnected at once: ResetTask where there is one; in A a shutdown without its barrier."""
        return self.wire.call("ResetTask" if self.dialect == "B" else "ShutdownTask", **self.mine())

    def watch(self, version):
        if self.dialect == "A":
            return self.wire.call("WatchTasks", version_number=version)
        return self.wire.call("WatchJobState", job_name=raw(self.job), version_number=version)

    def barrier(self, name, tasks=None, counter=0, timeout_ms=60000, timeout=MINUTE):
        field = {"task_ids" if self.dialect == "A" else "tasks": self.names(tasks or [])}
        return self.wire.call("Barrier", timeout, barrier_id=raw(name), barrier_timeout_in_ms=timeout_ms, counter=counter,
                              **field, **self.mine())

    def cancel(self, name, counter=0):
        return self.wire.call("CancelBarrier", barrier_id=raw(name), counter=counter, **self.mine())

    def alive(self, tasks, timeout=MINUTE):
        if self.dialect == "A":
            return self.wire.call("GetAliveTasks", timeout, requesting_task_id=self.task, task_ids=tasks)
        return self.wire.call("GetAliveTasks", timeout, requesting_task=self.name(), tasks=self.names(tasks))


def alive_of(call):
    """{task: incarnation} of an answer to GetAliveTasks."""
    value = call.value
    tasks = value.alive_task_ids if hasattr(value, "alive_task_ids") else [task.task_id for task in value.alive_tasks]
    that(len(tasks) == len(value.incarnations), "as many incarnations as tasks: %s", value)
    return dict(zip(tasks, value.incarnations))


STATES = ("UNSPECIFIED", "UNINITIALIZED", "DISCONNECTED", "CONNECTED", "ERROR")


def states_of(call):
    """{task: (state, incarnation)} of an answer to WatchTasks, WatchJobState or GetTaskState."""
    found = {}
    for info in call.value.task_state:
        task = info.task_id if hasattr(info, "task_id") else info.task.task_id
        found[task] = (STATES[info.state], info.incarnation)
    return found


class Service:
    def __init__(self, dialect, tasks, **options):
        self.dialect, self.num, self.name, self.wires = dialect, tasks, "s%d" % next(ids), []
        words = ["%s=%s" % (key, value) for key, value in sorted(options.items())]
        self.address = host.ask(" ".join(["open", self.name, "tasks=%d" % tasks] + words))
        self.open = True

    def wire(self, dialect=None, **options):
        wire = Wire(self, dialect or self.dialect, **options)
        self.wires.append(wire)
        return wire

    def task(self, task, **options):
        return Task(self.wire(), task, **options)

    def tasks(self, **options):
        return [self.task(task, **options) for task in range(self.num)]

    def stop(self):
        if self.open:
            self.open = False
            host.ask("close " + self.name)

    def restart(self, **options):
        """Another service at the same address: nobody is registered, another incarnation."""
        self.stop()
        words = ["%s=%s" % (key, value) for key, value in sorted(options.items())]
        host.ask(" ".join(["open", self.name, "tasks=%d" % self.num, "address=" + self.address] + words))
        self.open = True


@contextlib.contextmanager
def served(dialect, tasks=2, **options):
    """Options are serve_main.c's: heartbeat, register, shutdown (milliseconds), barrier=1, recoverable=1, jobs=a:1,b:2, workers=HOST:PORT,..."""
    service = Service(dialect, tasks, **options)
    try:
        yield service
    finally:
        for wire in service.wires:
            wire.close()
        service.stop()


def expect(call, code, *fragments):
    """Await it: this code, and a text with all these regular expressions."""
    codes = code.split("|")
    that(call.code in codes, "%s instead of %s: %s", call.code, code, call.text)
    for fragment in fragments:
        that(re.search(fragment, call.text), "no %r in the text: %s", fragment, call.text)
    return call


def stopped(*calls):
    """What waits when the service stops. (JAX's tears its server down beside, so that clients may see that first.)"""
    for call in calls:
        expect(call, "CANCELLED|UNAVAILABLE" if REFERENCE else "CANCELLED")


def names(text, task):
    """Does a text name the task? As /job:worker/replica:0/task:1, or plainly as 1."""
    return re.search(r"(?m)(task:|(^|[ :(]))%d\b" % task, text) is not None


def joined(*tasks):
    """Register all of them, at the same time: some services make them wait for each other."""
    for call in [task.register() for task in tasks]:
        expect(call, "OK")


def until(what, probe):
    """Its first true result."""
    end = time.monotonic() + MINUTE
    while True:
        result = probe()
        if result:
            return result
        that(time.monotonic() < end, "waited in vain until %s", what)
        time.sleep(0.02)  # sleep: between two looks


def in_error(task, who=None):
    """Until the service holds the task to be in error, by its own list: nothing is said that would keep it alive."""
    version, who = -1, task.task if who is None else who
    end = time.monotonic() + MINUTE
    while True:
        seen = expect(task.watch(version), "OK")
        if states_of(seen)[who][0] == "ERROR":
            return
        version = seen.value.version_number
        that(time.monotonic() < end, "task %d is not in error", who)


@contextlib.contextmanager
def beating(*tasks, every=0.05):
    """Heartbeats of these, from a thread. .late: some came late, perhaps too late (the machine was busy)."""
    stop = threading.Event()

    def body():
        while not stop.wait(every):
            for call in [task.heartbeat() for task in tasks]:
                call.code
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def sentences():
    """{number: (how it is driven, sentence, why it does not apply or None)} of table.txt."""
    found = {}
    with open(os.path.join(HERE, "table.txt")) as table:
        for line in table:
            words = line.rstrip("\n")
            if words.startswith("    n/a: "):
                found[number] = found[number][:2] + (words[9:],)
            elif words and not words.startswith("#"):
                number, how, sentence = words.split(" ", 2)
                number = int(number)
                that(number not in found, "table.txt has %s twice", number)
                found[number] = (how, sentence, None)
    return found


def run(number, dialect, body):
    try:
        body(dialect)
    except Failed as failed:
        lines = [frame.lineno for frame in traceback.extract_tb(failed.__traceback__) if frame.filename.endswith("_test.py")]
        return "line %s: %s" % (lines[-1] if lines else "?", failed)
    except Exception:
        return traceback.format_exc(limit=-4)
    return None


def main(workers=6):
    """Run the checks of the program, or those whose numbers are its arguments."""
    global host
    table, chosen = sentences(), [int(word) for word in sys.argv[1:]]
    checks = [one for one in CHECKS if one[1] in DIALECTS and (one[3] or not REFERENCE) and (not chosen or one[0] in chosen)]
    stubs()
    host = Host()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [(number, dialect, pool.submit(run, number, dialect, body)) for number, dialect, body, _ in checks]
        for number, dialect, future in futures:
            wrong = future.result()
            failed += wrong is not None
            print("%s %d %s %s" % ("ok" if wrong is None else "FAIL", number, dialect, table[number][1]), flush=True)
            if wrong is not None:
                print("    " + wrong.strip().replace("\n", "\n    "), flush=True)
    clean, said = host.end()
    if not clean:
        print("FAIL: the host of the services ended badly: %s" % said)
    print("%d checks, %d failed" % (len(checks), failed))
    sys.stdout.flush()
    os._exit(0 if not failed and clean else 1)  # not through gRPC's own clean-up, which may wait for its threads
