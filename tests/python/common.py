"""What the tests of the Python package share: the package of this tree on the library of this variant, jobs of real
processes under `muster run`, and a runner for functions test_*(). All waits are bounded by PATIENCE."""
import os
import subprocess
import sys
import textwrap
import time

TOP = os.environ["TOP"]
BUILD = os.environ["BUILD"]
MUSTER = os.environ["MUSTER"]
PATIENCE = 100
SOURCE = os.path.join(TOP, "python", "src")

for name in [n for n in os.environ if n.startswith("MUSTER") and not n.startswith("MUSTER_TEST_") and n != "MUSTER"]:
    del os.environ[name]
os.environ["MUSTER_LIBRARY"] = os.path.join(BUILD, "libmuster.so.0")
os.environ["PYTHONPATH"] = SOURCE
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
os.environ["PYTHONUNBUFFERED"] = ""  # what tasks print comes in whole lines: the launcher would set it
sys.dont_write_bytecode = True
sys.path.insert(0, SOURCE)

_count = 0


def job_name():
    """One that no other test has."""
    global _count
    _count += 1
    return "py%d-%d" % (os.getpid(), _count)


def python(program, *args, status=0, environment=None, command=()):
    """Runs a program's text in an interpreter of its own; what it has printed, both streams together."""
    done = subprocess.run([*command, sys.executable, "-c", textwrap.dedent(program), *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                          env=dict(os.environ, **(environment or {})))
    assert status is None or done.returncode == status, "exit status %d instead of %s:\n%s" % (
        done.returncode, status, done.stdout)
    return done.stdout


def run(n, program, *args, status=0, options=(), environment=None):
    """The same in each of n tasks of a job."""
    return python(program, *args, status=status, environment=environment,
                  command=(MUSTER, "run", "-n", str(n), "--job", job_name(), *options, "--"))


def raises(kind, call, *args, **kwargs):
    """The exception of that kind that the call raises."""
    try:
        got = call(*args, **kwargs)
    except kind as e:
        return e
    raise AssertionError("%s: nothing was raised; it gave %r" % (kind.__name__, got))


def main(module):
    """Every function test_*() of the test, in the order they stand in."""
    tests = [(n, f) for n, f in vars(module).items() if n.startswith("test_") and callable(f)]
    assert tests
    for name, test in tests:
        print("# " + name[5:].replace("_", " "), end="", flush=True)
        began = time.monotonic()
        test()
        print(": %.2f s" % (time.monotonic() - began), flush=True)
    print("%d tests passed" % len(tests))
