#!/usr/bin/env python3
"""The house rules catch what they are for: each offence below, alone in a small tree, is named with its place."""
import os
import subprocess
import sys

import house

FOLDER = os.environ.get("TMPDIR", "/tmp")
OPENING = "/*\n * what it owns,\n * and how.\n */\n"
FIND = "static int key_find(void)\n{\n    return 0;\n}\n"
LONG = "int f(void)\n{\n" + "    g();\n" * 70 + "}\n"
# path, text below the opening comment, what must be said (with its line), or "" when nothing may be; other files.
CASES = [
    ("src/kv/a.c", '#include "sync/shm.h"\n#include "segment/heap.h"\n#include <muster/task.h>\n', ""),
    ("src/kv/a.c", '#include "launch/spawn.h"\n', "src/kv/a.c:5: kv (floor 2) may not use launch/spawn.h (floor 7)"),
    ("src/kv/a.c", '#include "task/task.h"\n', "src/kv/a.c:5: kv (floor 2) may not use task/task.h (floor 2)"),
    ("src/kv/a.c", '#include "segment/internal.h"\n', "segment/internal.h is private to the room segment"),
    ("src/kv/a.c", '#include "shm_layout/layout.h"\n', "only the segment room sees the format"),
    ("src/segment/a.c", '#include "shm_layout/layout.h"\n', ""),
    ("src/base/a.c", "#include <muster/kv.h>\n", "base (floor 0) may not use muster/kv.h (floor 2)"),
    ("src/attic/a.c", "int x;\n", "is in no room"),
    ("src/kv/a.c", "int x;\n" * 600, "src/kv/a.c: has 604 lines"),
    ("src/kv/a.c", LONG, "src/kv/a.c:5: f() has 73 lines"),
    ("src/kv/a.c", "/* long function: a table in code */\n" + LONG, ""),
    ("src/kv/a.c", "int f(void)\n{\n    return sprintf(0, 0);\n}\n", "src/kv/a.c:7: sprintf() does not look"),
    ("src/kv/a.c", "int f(void)\n{\n    return mu_kv_atoi(0) + m.system(0); /* atoi(x) */\n}\n", ""),
    ("src/kv/a.c", "int f(void)\n{\n    exit(1);\n}\n", "src/kv/a.c:7: exit() the library never exits"),
    ("src/cli/a.c", "int f(void)\n{\n    exit(1);\n}\n", ""),
    ("src/cli/a.c", "int f(void)\n{\n    return kill(pid, 0);\n}\n", "src/cli/a.c:7: kill(pid, 0)"),
    ("src/cli/a.c", "int f(void)\n{\n    return kill(pid, SIGKILL);\n}\n", ""),
    ("tests/kv/a_test.c", "int f(void)\n{\n    usleep(1);\n}\n", "tests/kv/a_test.c:7: a sleep in a test"),
    ("tests/kv/a_test.c", "int f(void)\n{\n    usleep(1); /* sleep: the victim's work */\n}\n", ""),
    ("tests/kv/a_test.c", "TEST(a)\n{\n}\n\nint main(void)\n{\n    return 0;\n}\n", "tests/kv/a_test.c: its main() does not call"),
    ("tests/kv/a_test.c", "TEST(a)\n{\n}\n\nint main(void)\n{\n    return test_run(0, 0);\n}\n", ""),
    ("tests/kv/a_test.sh", "sleep 1\n", "tests/kv/a_test.sh:5: a sleep in a test"),
    ("src/kv/a.c", "/* TO" "DO */\n", "src/kv/a.c:5: marks something unfinished"),
    ("src/kv/a.c", "\tint x;\n", "src/kv/a.c:5: has a tab"),
    ("src/kv/a.c", "int x; \n", "src/kv/a.c:5: ends in white space"),
    ("src/kv/a.c", "int f(void)\n{\n    int x;\n\n    mu_load_acquire(p);\n}\n", "src/kv/a.c:9: an atomic without a comment"),
    ("src/kv/a.c", "int f(void)\n{\n    mu_load_acquire(p); /* acquire: pairs with the setter */\n}\n", ""),
    ("src/kv/a.c", "/* why */\nint x = atomic_load(&y);\n", "src/kv/a.c:6: shared memory is touched through"),
    ("src/kv/a.c", "/* process-local: the reference count */\nint x = atomic_load(&y);\n", ""),
    ("src/kv/a.c", "/* as mu_nowhere_put() does */\nint x;\n", "src/kv/a.c:5: its comment names mu_nowhere_put"),
    ("src/kv/a.c", "/* as mu_here_put() does */\nint mu_here_put(void);\n", ""),
    ("src/kv/a.c", "static int find(void)\n{\n    return 0;\n}\n", "src/kv/a.c:5: find() names no subject"),
    ("src/kv/a.c", "static __attribute__((format(printf, 1, 2))) int find(void)\n{\n}\n", "src/kv/a.c:5: find() names no subject"),
    ("src/kv/a.c", FIND, "src/kv/a.c:5: key_find() is also a static function of src/kv/0.c",
     ("src/kv/0.c", FIND)),
    ("src/kv/a.c", FIND, "", ("src/task/0.c", FIND)),
    ("src/kv/a.c", "struct hit {\n    int x;\n};\n", "src/kv/a.c:5: the tag hit is that of src/cli/b.c",
     ("src/cli/b.c", "enum hit { A };\n")),
    ("src/kv/a.c", "struct hit *next;\n", "", ("src/cli/b.c", "struct hit {\n    int x;\n};\n")),
    ("src/kv/a.c", "int mu_hit_add(void)\n{\n}\n", "src/kv/a.c:5: mu_hit_add() has a prefix of the room cli",
     ("src/cli/b.c", "int mu_hit_drop(void)\n{\n}\n")),
    ("src/kv/a.c", "int mu_is_good(void)\n{\n}\n", "", ("src/cli/b.c", "int mu_is_bad(void)\n{\n}\n")),
    ("src/kv/a.c", "/* as struct mu_nowhere has it */\nint x;\n", "src/kv/a.c:5: its comment names mu_nowhere"),
    ("src/kv/a.c", "/* as struct nowhere has it */\nint x;\n", "src/kv/a.c:5: its comment names nowhere"),
    ("src/kv/a.c", "/* see kv/nowhere.c */\nint x;\n", "src/kv/a.c:5: its comment names kv/nowhere.c"),
    ("src/kv/a.c", "/* see kv/a.c, not hwloc.h */\nint x;\n", ""),
    ("src/kv/a.c", "/* for whoever waits */\n", "src/kv/a.c:5: 1 lines of comments of kv say who, whoever, whose or whom"),
    ("src/compat/a.c", "/* for whoever waits */\n", ""),
    ("src/compat/a.c", "/* Who waits */\n" * 3, "src/compat/a.c:7: 3 lines of comments of compat say who"),
    ("src/kv/a.c", "const char *who = \"who waits\";\n", ""),
    ("src/kv/a.h", "int x;\n", "src/kv/a.h: no file includes it"),
    ("build/a.c", "int x;\n", "build/a.c: is built, not written"),
    ("man/a.1", "x" * 600000, "man/a.1: is 585 KiB, more than 512"),
]

for number, (path, text, expected, *others) in enumerate(CASES):
    top = os.path.join(FOLDER, str(number))
    subprocess.run(["git", "init", "-q", top], check=True)
    for name, content in [(path, text), *others]:
        os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
        with open(os.path.join(top, name), "w") as f:
            f.write(OPENING + content)
        os.chmod(os.path.join(top, name), 0o755)
    run = subprocess.run([sys.executable, os.path.join(house.TOP, "tests/tidy/tidy_test.py")], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, env=dict(os.environ, TOP=top))
    said = [line for line in run.stdout.splitlines() if "is not formatted" not in line]
    if expected and (run.returncode != 1 or not any(expected in line for line in said)):
        house.broken("case %d" % number, "expected %s, got (%d):\n%s" % (expected, run.returncode, run.stdout))
    if not expected and any(line.startswith(path) for line in said):
        house.broken("case %d" % number, "nothing is wrong with it, but:\n" + run.stdout)
house.done("%d cases" % len(CASES))
