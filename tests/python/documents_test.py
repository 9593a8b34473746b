#!/usr/bin/env python3
"""What is written keeps its word: the examples in docstrings, every program and session of docs/PYTHON.md and docs/TASKS.md, the lines of
README.md, and the long example, under `muster run` and alone.
variants: release
timeout: 300
"""
import ast
import doctest
import fcntl
import glob
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import common
import muster

# Jobs have the names that stand there: one of these tests at a time.
lock = open(__file__)
fcntl.flock(lock, fcntl.LOCK_EX)


def test_docstrings():
    seen = 0
    for path in sorted(glob.glob(os.path.join(common.SOURCE, "muster", "*.py"))):
        name = os.path.basename(path)[:-3]
        if name in ("torch", "joblib") or (name == "ps" and importlib.util.find_spec("numpy") is None):
            continue  # that may not be here; its own tests run it
        module = importlib.import_module("muster" if name == "__init__" else "muster." + name)
        done = doctest.testmod(module, extraglobs={"muster": muster})
        assert not done.failed, "%s: %d of %d examples fail" % (name, done.failed, done.attempted)
        seen += done.attempted
    assert seen > 20, seen


def page(name):
    with open(os.path.join(common.TOP, name)) as f:
        return f.read()


def test_the_programs_of_the_page():
    programs = re.findall(r"^```python\n(.*?)^```", page("docs/PYTHON.md"), re.M | re.S)
    assert len(programs) >= 6
    for program in programs:
        common.run(4, program)


def test_the_programs_of_the_page_of_tensors():
    programs = re.findall(r"^```python\n(.*?)^```", page("docs/PS.md"), re.M | re.S)
    assert len(programs) >= 3
    if importlib.util.find_spec("numpy") is None:
        return
    for program in programs:
        common.run(4, program)


def bare(text):
    """Lines that may come in any order, and what is another each time: pids, hosts, and who was the first to see a
    death (the launcher knows the signal, a peer does not)."""
    lines = [re.sub(r"\bpid \d+|host [\w.-]+(?=\))|(?<=in error: ).*", "N", line) for line in text.splitlines()]
    return sorted(line for line in lines if line.strip())


def play(session):
    """`$ cat FILE` and what it shows make a file; of any other command the output must be what is shown."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(sys.executable, os.path.join(folder, "python"))
        os.symlink(common.MUSTER, os.path.join(folder, "muster"))
        environment = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], CPATH=os.path.join(common.TOP, "include"),
                           LIBRARY_PATH=common.BUILD, LD_LIBRARY_PATH=common.BUILD)
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.M):
            written = re.fullmatch(r"cat ([\w.]+)", command)
            if written:
                with open(os.path.join(folder, written.group(1)), "w") as f:
                    f.write(shown)
                continue
            done = subprocess.run(command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=common.PATIENCE)
            assert bare(done.stdout) == bare(shown), "%s\nshows:\n%s\ngives:\n%s" % (command, shown, done.stdout)


def test_the_sessions_of_the_page():
    for name in ("docs/PYTHON.md", "docs/TASKS.md"):
        sessions = re.findall(r"^```console\n(.*?)^```", page(name), re.M | re.S)
        assert len(sessions) >= 2
        for session in sessions:
            play(session)


def test_the_lines_of_the_readme():
    sessions = [re.sub("^    ", "", s, flags=re.M)
                for s in re.findall(r"(?:^    .*\n)+", page("README.md"), re.M) if "import muster\n" in s]
    assert len(sessions) == 1
    play(sessions[0])


def test_the_long_example():
    example = os.path.join(common.TOP, "python", "examples", "parameter_search.py")
    for n, command in ((4, [common.MUSTER, "run", "-n", "4", "--job", common.job_name(), "--"]), (1, [])):
        done = subprocess.run(command + [sys.executable, example], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=common.PATIENCE)
        assert not done.returncode, done.stdout
        assert done.stdout.startswith("%d processes\n289 points\n" % n) and "(1.0, 1.0) with 0\n" in done.stdout
        assert done.stdout.endswith("all have told their share: True\n"), done.stdout


def test_the_sources_are_python_3_9():
    for path in glob.glob(os.path.join(common.SOURCE, "muster", "*.py")):
        with open(path) as f:
            compile(f.read(), path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True, _feature_version=9)


common.main(sys.modules[__name__])
