"""A client as JAX's library is one: it connects with retries, beats, polls for errors, counts its barriers."""
import threading
import time

from harness import *


class Agent:
    """.error is what it was told ("CODE: text"), or None: such a client would end its process."""

    def __init__(self, service, task, heartbeat=60000, recoverable=False, poll=True, compression=None):
        self.service = service
        self.at = Task(service.wire(compression=compression), task, recoverable=recoverable)
        self.period, self.polls, self.silent = heartbeat / 2000, poll, False
        self.error, self.told, self.over = None, threading.Event(), threading.Event()
        self.counters, self.thread, self.connected = {}, None, False

    def told_of(self, call):
        if call.code not in ("OK", "CANCELLED") and not self.over.is_set():
            self.error = self.error or str(call)
            self.told.set()

    def connect(self, timeout=30):
        """The code of its last attempt: others than those that it gives up at are tried again until the timeout."""
        end, pause = time.monotonic() + timeout, 0.05
        while True:
            call = self.at.register(timeout=max(0.1, end - time.monotonic()))
            final = "CoordinationServiceError" in call.payload and call.code not in ("ABORTED", "INTERNAL")
            if call.code == "OK" or final or time.monotonic() + pause > end:
                break
            time.sleep(pause)  # sleep: before the next attempt, as the real client
            pause *= 1.5
        if call.code == "OK":
            self.at.wire.incarnation = getattr(call.value, "service_incarnation", None)
            self.connected = True
            self.thread = threading.Thread(target=self.beat, daemon=True)
            self.thread.start()
            if self.polls:
                poll = self.at.poll()
                poll.future.add_done_callback(lambda _: self.told_of(poll))
        return call

    def beat(self):
        while not self.over.wait(self.period):
            try:
                if not self.silent:
                    self.told_of(self.at.heartbeat(wait=False))
            except ValueError:  # its connection was closed in between
                return

    def barrier(self, name, tasks=None, timeout_ms=60000):
        """Begun; .settled() takes its counter."""
        call = self.at.barrier(name, tasks, counter=self.counters.get(name, -1) + 1, timeout_ms=timeout_ms)

        def settled():
            if call.code == "OK":
                self.counters[name] = call.value.counter
            elif "BarrierError" in call.payload:
                self.counters[name] = call.payload["BarrierError"].counter
            return call
        call.settled = settled
        return call

    def shutdown(self):
        """The code: a client that was told of an error refuses by itself."""
        if self.error:
            self.destroy()
            return "FAILED_PRECONDITION"
        call = self.at.shutdown()
        code = call.code
        self.destroy()
        return code

    def destroy(self, shutdown=False):
        """Gone. With its process, unless it says so: no shutdown is sent."""
        if shutdown and self.connected:
            self.at.shutdown().code
        self.over.set()
        if self.thread:
            self.thread.join()
        self.at.wire.close()


def all_at_once(*works):
    """Their results, each from a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]


def connected(*agents):
    for call in all_at_once(*[agent.connect for agent in agents]):
        expect(call, "OK")


@contextlib.contextmanager
def agents(dialect, tasks, heartbeat=60000, recoverable=False, poll=True, **options):
    """A service as JAX configures one, with connected clients."""
    options = dict({"barrier": 1, "shutdown": 60000}, **options)
    if recoverable:
        options["recoverable"] = 1
    with served(dialect, tasks, heartbeat=heartbeat, **options) as service:
        all = [Agent(service, task, heartbeat, recoverable, poll) for task in range(tasks)]
        connected(*all)
        service.agents = all
        try:
            yield service
        finally:
            for agent in all:
                agent.over.set()


def met(name, *all, tasks=None, code="OK"):
    """All of them call the barrier."""
    calls = [agent.barrier(name, tasks) for agent in all]
    for call in calls:
        expect(call.settled(), code)


def shut_down(*all):
    codes = all_at_once(*[agent.shutdown for agent in all])
    that(set(codes) == {"OK"}, "shutdowns: %s", codes)
