"""Runs tests/rpc/server_main.c for a test, and looks at how it ended: its loop clean, under asan nothing leaked."""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.join(os.environ["BUILD"], "tests/rpc/server")
PATIENCE = 60  # seconds; far more than anything here takes


def check(condition, sentence, *args):
    if not condition:
        print("FAIL: " + (sentence % args if args else sentence))
        sys.exit(1)


def wait_for(what, condition, sleep=0.02):
    """Until it is true, and then what it is."""
    end = time.monotonic() + PATIENCE
    while True:
        got = condition()
        if got:
            return got
        check(time.monotonic() < end, "%s did not come about in %d s", what, PATIENCE)
        time.sleep(sleep)  # sleep: between two looks


class Server:
    def __init__(self, address, *options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, address] + list(options), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.address = self.process.stdout.readline().decode().strip()
        check(self.address, "the server did not start: %s", self.said())

    def said(self):
        """All of it; the server shares the file's position, which stays where it is."""
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode(errors="replace")

    def bytes_resident(self):
        with open("/proc/%d/statm" % self.process.pid) as f:
            return int(f.read().split()[1]) * 4096

    def stop(self):
        self.process.stdin.close()

    def ended(self):
        self.process.wait(PATIENCE)
        self.words = self.said()
        check(self.process.returncode == 0, "the server ended with %s: %s", self.process.returncode, self.said())
        check("stopped\n" in self.said(), "the server did not say that it stopped: %s", self.said())


@contextlib.contextmanager
def served(address="127.0.0.1:0", *options):
    server = Server(address, *options)
    try:
        yield server
        if not server.process.stdin.closed:
            server.stop()
        server.ended()
    except SystemExit:
        print("the server's words:\n" + server.said())
        raise
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.process.stdout.close()
        server.log.close()
