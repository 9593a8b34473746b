#!/usr/bin/env python3
"""The house rules that can be read off the text: who may include whom, how long things are, what is never called.

Each rule is a function below, and each exception a row in a table, with its reason.
"""
import ast
import os
import re
import subprocess

import house
from house import broken

ALL = house.files()
C_FILES = house.under(ALL, ("src/", "include/", "shm_layout/", "tests/", "bench/", "examples/", "plugins/"), (".c", ".h"))
OWN = house.under(C_FILES, ("src/", "include/", "shm_layout/"), (".c", ".h"))

# ---- floors ----

FLOOR = {
    "base": 0, "sync": 0,
    "segment": 1,
    "task": 2, "kv": 2, "barrier": 2, "event": 2,
    "topology": 3, "accel": 3, "object": 3, "kernel": 3,
    "schedule": 4, "queue": 4, "ps": 4, "checkpoint": 4, "bridge": 4,
    "coord": 5,
    "rpc": 6, "compat": 6, "ray": 6, "mindspore": 6, "session": 6,
    "launch": 7, "agent": 7,
    "cli": 8,
}
PUBLIC = {
    "status": "base", "segment": "segment", "stats": "segment", "task": "task", "membership": "task", "kv": "kv", "barrier": "barrier", "group": "barrier",
    "event": "event", "topology": "topology", "nccl": "accel", "stream": "accel", "object": "object", "schedule": "schedule", "ps": "ps",
    "queue": "queue", "checkpoint": "checkpoint",
    "bridge": "bridge",
}
# (who, whom) on one floor, and why it may.
NEIGHBOURS = {
    ("sync", "base"): "waits have deadlines, and base owns the clock",
    ("agent", "launch"): "the agent's loop drives the launcher",
    ("compat", "rpc"): "the rule of which users' processes may connect is one",
    ("ray", "rpc"): "its wire is a gRPC server, and calls by rpc's client",
    ("mindspore", "rpc"): "listeners and HTTP's heads are one",
    ("session", "rpc"): "its wire is a gRPC server, and calls by rpc's client",
}
# (room, public header of a higher floor): the handle and the states that shared records hold are declared there.
DECLARED_ABOVE = {("segment", "muster/task.h"), ("segment", "muster/membership.h")}
# Who may see the format. "Nothing outside segment/ computes an address."
LAYOUT_ROOMS = {
    "segment": "owns it",
    "sync": "the words that it waits on",
}


def floors():
    for path in house.under(OWN, ("src/", "shm_layout/"), (".c", ".h")):
        parts = path.split("/")
        room = "segment" if parts[0] == "shm_layout" else parts[1]
        if room not in FLOOR:
            broken(path, "is in no room; the rooms are: " + " ".join(sorted(FLOOR)))
            continue
        for number, line in enumerate(house.code_only(house.read(path)).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                for sentence in may_not_include(path, room, match.group(1)):
                    broken("%s:%d" % (path, number), sentence)


def may_not_include(path, room, name):
    head, _, tail = name.partition("/")
    if head == "muster":
        if tail == "muster.h":
            if FLOOR[room] <= 3:
                yield "a library room includes only what it uses, not the umbrella"
            return
        owner = PUBLIC.get(tail[:-2])
        if owner is None:
            yield "%s belongs to no room; say whose it is in tests/tidy/tidy_test.py" % name
        elif FLOOR[owner] > FLOOR[room] and (room, name) not in DECLARED_ABOVE:
            yield "%s (floor %d) may not use %s (floor %d)" % (room, FLOOR[room], name, FLOOR[owner])
    elif head == "shm_layout":
        if room not in LAYOUT_ROOMS:
            yield "only the segment room sees the format (%s)" % name
    elif head in FLOOR:
        if head != room and re.search(r"internal|private", tail):
            yield "%s is private to the room %s" % (name, head)
        if head != room and FLOOR[head] >= FLOOR[room] and (room, head) not in NEIGHBOURS:
            yield "%s (floor %d) may not use %s (floor %d)" % (room, FLOOR[room], name, FLOOR[head])
    elif name.endswith(".h") and ("../" in name or os.path.exists(os.path.join(os.path.dirname(path), name))):
        yield 'write it as "room/header.h": %s' % name


# ---- lengths ----

FILE_LINES = 500
OTHER_LINES = 600  # of what is not in src: a test, a benchmark, the one header of the layout
FUNCTION_LINES = 70


def lengths():
    for path in house.under(ALL, ("src/", "include/", "shm_layout/", "tests/", "bench/", "examples/", "plugins/", "scripts/", "mk/"),
                            (".c", ".h", ".py", ".sh", ".mk")):
        lines = house.read(path).count("\n")
        most = FILE_LINES if path.startswith("src/") else OTHER_LINES
        if lines > most:
            broken(path, "has %d lines; more than %d is two files" % (lines, most))
    for path in house.under(C_FILES, ("",), (".c", ".h")):
        text = house.read(path)
        original, code = text.splitlines(), house.code_only(text).splitlines()
        for first, last, name in functions(code):
            if last - first + 1 > FUNCTION_LINES and "long function:" not in comment_above(original, first):
                broken("%s:%d" % (path, first), "%s() has %d lines, more than %d, and no comment \"long function: why\" "
                       "above it" % (name, last - first + 1, FUNCTION_LINES))


def functions(code):
    """(first line, last line, name) of each function: its brace stands alone in column 0, as clang-format puts it."""
    start = None
    for number, line in enumerate(code, 1):
        if line == "{" and number > 1 and not code[number - 2].rstrip().endswith("="):
            start = number
            while start > 1 and code[start - 2].strip() and not re.search(r"[;}]\s*$|^#", code[start - 2]):
                start -= 1
        elif line.startswith("}") and start:
            name = re.search(r"(\w+)\s*\(", " ".join(code[start - 1:number]))
            yield start, number, name.group(1) if name else "?"
            start = None


def comment_above(lines, first):
    above, i = [], first - 2
    while i >= 0 and lines[i].strip():
        above.append(lines[i])
        i -= 1
    return "\n".join(above)


# ---- names ----

TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
STATIC = re.compile(r"^static\s[^;{}()=]*?\b(\w+)\((?=[^;{}]*\)\s*\{)", re.M)
GLOBAL = re.compile(r"^(?!static (?!inline)|typedef|extern|return|else|#)[A-Za-z_][\w ]*[ *](mu_[a-z0-9]+_\w+)\("
                    r"(?=[^;{}]*\)\s*\{)", re.M)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
ANY_ROOM = {"mu_is"}  # a question's beginning


def names():
    """A tag is unique in the tree, a prefix belongs to one room; a static function has two words, and is unique in its room."""
    tags, prefixes, statics = {}, {}, {}
    for path in OWN:
        code = ATTRIBUTE.sub("", house.code_only(house.read(path)))
        room = path.split("/")[1] if path.startswith("src/") else path.split("/")[0]
        for pattern, owners in ((TAG, tags), (GLOBAL, prefixes), (STATIC, statics)):
            for match in pattern.finditer(code):
                name, where = match.group(1), "%s:%d" % (path, 1 + code.count("\n", 0, match.start(1)))
                if pattern is STATIC and "_" not in name:
                    broken(where, "%s() names no subject: a static function has two words or more" % name)
                owner, key = path, (room, name) if pattern is STATIC else name
                if pattern is GLOBAL:
                    owner, key = room, "_".join(name.split("_")[:2])
                first = owners.setdefault(key, owner)
                if first == owner or key in ANY_ROOM or pattern is STATIC and name.startswith("mu_"):
                    continue
                broken(where, {TAG: "the tag %s is that of %s, too", STATIC: "%s() is also a static function of %s",
                               GLOBAL: "%s() has a prefix of the room %s"}[pattern] % (name, first))


# ---- words ----

BANNED = {
    "strcpy": "does not look at the size; use snprintf or memcpy", "strcat": "does not look at the size",
    "stpcpy": "does not look at the size", "sprintf": "does not look at the size; use snprintf",
    "vsprintf": "does not look at the size; use vsnprintf", "gets": "does not look at the size",
    "strncpy": "may leave no NUL; use snprintf or memcpy", "strtok": "has hidden state; use strtok_r or strcspn",
    "atoi": "hides errors; use the checked parser of base", "atol": "hides errors", "atoll": "hides errors",
    "atof": "hides errors", "tmpnam": "races", "mktemp": "races", "tempnam": "races", "alloca": "has no bound",
    "system": "runs a shell", "popen": "runs a shell", "vfork": "shares the stack",
}
# In what muster itself is made of: a sleep is no synchronisation.
BANNED_IN_SRC = {"usleep": "is no synchronisation", "sleep": "is no synchronisation", "sched_yield": "use the wait of sync",
                 "rand": "is not seeded by us", "srand": "changes the program's state"}
# In the library, besides: no call exits, prints, or installs a signal handler.
BANNED_IN_LIBRARY = {"exit": "the library never exits", "_exit": "the library never exits", "abort": "the library never exits",
                     "quick_exit": "the library never exits", "printf": "the library never prints",
                     "puts": "the library never prints", "putchar": "the library never prints",
                     "perror": "the library never prints", "signal": "the library installs no handler",
                     "sigaction": "the library installs no handler", "assert": "the library never exits",
                     "setenv": "the library leaves the environment alone",
                     "putenv": "the library leaves the environment alone"}
# (start of the path, call): why it may.
MAY_CALL = {
    ("src/topology/apart.c", "_exit"): "ends the child that it has made",
    ("src/topology/apart.c", "signal"): "in that child",
    ("src/topology/by_cuda.c", "setenv"): "in a child",
    ("src/sync/", "sched_yield"): "this is the wait of sync",
}


def calls():
    for path in C_FILES:
        room = path.split("/")[1] if path.startswith("src/") else ""
        rules = dict(BANNED)
        if path.startswith(("src/", "shm_layout/")):
            rules.update(BANNED_IN_SRC)
        if path.startswith("shm_layout/") or FLOOR.get(room, 9) <= 3:
            rules.update(BANNED_IN_LIBRARY)
        pattern = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(rules))
        text = house.read(path)
        comments, lines = house.comment_lines(text), text.splitlines()
        for number, line in enumerate(house.code_only(text).splitlines(), 1):
            for match in pattern.finditer(line):
                call = match.group(1)
                if not any(path.startswith(p) and c == call for p, c in MAY_CALL):
                    broken("%s:%d" % (path, number), "%s() %s" % (call, rules[call]))
            if re.search(r"\bkill\s*\([^;]*,\s*0\s*\)", line):
                broken("%s:%d" % (path, number), "kill(pid, 0) cannot tell a pid from the next owner of its number")
            if path.startswith("tests/") and re.search(r"(?<!\w)(u?sleep|nanosleep)\s*\(", line):
                near = "\n".join(lines[i - 1] for i in range(max(1, number - 3), number + 1) if i in comments)
                if "sleep:" not in near:
                    broken("%s:%d" % (path, number), "a sleep in a test is no synchronisation; where it is meant as "
                           "something else, say so: /* sleep: why */")
    for path in house.under(ALL, ("tests/", "examples/", "bench/"), (".sh",)):
        lines = house.read(path).splitlines()
        for number, line in enumerate(lines, 1):
            if re.match(r"\s*sleep\s", line) and "sleep:" not in "\n".join(lines[max(0, number - 4):number]):
                broken("%s:%d" % (path, number), "a sleep in a test is no synchronisation; else say: # sleep: why")


MARKERS = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]
# TensorFlow has tensors of that name, which a graph's text and a client's call must be able to say.
MARKER = re.compile(r"\b(%s)\b|\bplace%s\b(?! tensor|\()|\bnot yet imple%s\b" % ("|".join(MARKERS), "holder", "mented"))
TEXT = (".c", ".h", ".proto", ".md", ".sh", ".py", ".mk", ".txt", ".pml", ".in", ".map", ".yml", ".json",
        ".1", ".3", ".5", ".7", ".8", "Makefile", "run")


def words():
    for path in ALL:
        if not path.endswith(TEXT):
            continue
        for number, line in enumerate(house.read(path).splitlines(), 1):
            where = "%s:%d" % (path, number)
            if MARKER.search(line):
                broken(where, "marks something unfinished: finish it, or write an issue")
            if "\t" in line and not path.endswith(("Makefile", ".mk")):
                broken(where, "has a tab")
            if line.endswith((" ", "\t")) or "\r" in line:
                broken(where, "ends in white space")


# ---- comments ----

# mu_recheck() is not among them: it has one partner, named where it is defined.

ATOMIC = re.compile(r"\bmu_(?:load|store|cas|fetch|fence|exchange)\w*\s*\(|\bmemory_order_\w+|\batomic_\w+\s*\(|"
                    r"__atomic_\w+|__sync_\w+")
RAW = re.compile(r"\batomic_\w+\s*\(|__atomic_\w+|__sync_\w+|\bmemory_order_\w+")
# Where C11 atomics themselves may stand; everywhere else they go through the shim.
RAW_ATOMICS = ("src/sync/",)


def atomics():
    """STYLE: each atomic carries a line naming its partner. On its line, or at most four lines above."""
    for path in house.under(OWN, ("src/", "shm_layout/"), (".c", ".h")):
        if path == "src/sync/shm.h":
            continue
        text = house.read(path)
        comments, lines = house.comment_lines(text), text.splitlines()
        covered = ""
        for number, line in enumerate(house.code_only(text).splitlines(), 1):
            if line == "}":
                covered = ""
            if number in comments and re.search(r"\bas all\b|\ball of them\b|\ball here\b", lines[number - 1]):
                covered = lines[number - 1]  # "relaxed, as all below: ..." speaks for the rest of the function
            near = "".join(lines[n - 1] for n in range(max(1, number - 4), number + 1) if n in comments) or covered
            if RAW.search(line) and not path.startswith(RAW_ATOMICS) and "process-local" not in near:
                broken("%s:%d" % (path, number), "shared memory is touched through src/sync/shm.h alone; of a word that "
                       "is not shared, say: process-local")
            if ATOMIC.search(line) and not near:
                broken("%s:%d" % (path, number), "an atomic without a comment that names its partner")


# What comments name that is nobody's here.
FOREIGN = {"ncclCommInitRank", "initialize", "vfork"}
FOREIGN_FILES = {"hwloc.h", "pmi.h", "nvshmemi_bootstrap_defines.h", "xla/pjrt/distributed/protocol.proto"}


def named():
    """What a comment calls by its name is there: functions, types, constants and files of the tree."""
    words, comments = set(FOREIGN), []
    ends = FOREIGN_FILES | {path[at:] for path in ALL for at in range(len(path)) if at == 0 or path[at - 1] == "/"}
    for path in house.under(ALL, ("src/", "shm_layout/", "include/", "plugins/", "tests/", "bench/"), (".c", ".h", ".proto")):
        text = house.read(path)
        code = house.code_only(text)
        words.update(re.findall(r"\w+", code), [os.path.basename(path).partition(".")[0]])
        words.update(w for s in re.findall(r'"(?:\\.|[^"\\\n])*"', text) for w in re.findall(r"\w+", s))
        if path.startswith(("src/", "shm_layout/", "include/", "plugins/")):
            comments += [(path, text[:m.start()].count("\n") + 1, m.group(0)) for m in re.finditer(r"/\*.*?\*/", text, re.S)]
    for path, first, text in comments:
        for match in re.finditer(r"\b((?:mu|muster|MU|MUSTER)_\w*\w)\b(?![_*])|\b([a-z]\w+)\(\)|\bstruct (\w+)|"
                                 r"(?<![\w./<>-])((?:[\w-]+/)*[\w-]+\.(?:c|h|py|sh|md|proto|pml))\b(?![\w(])", text):
            name = match.group(1) or match.group(2) or match.group(3) or match.group(4)
            if name not in (ends if match.group(4) else words) and not name.endswith("_"):
                broken("%s:%d" % (path, first + text[:match.start()].count("\n")), "its comment names %s, which is nowhere" % name)


# STYLE: a comment names its subject ("the waiter"), not "who waits". Lines that may say who, whoever, whose or whom; it only falls.
WHO = re.compile(r"\b(?:who|whoever|whose|whom)\b", re.I)
WHO_MOST = {"barrier": 1, "compat": 2, "include": 1, "segment": 1}


def subjects():
    lines = {}
    for path in OWN:
        text = house.read(path)
        room, comments = path.split("/")[path.startswith("src/")], house.comment_lines(text)
        for number, line in enumerate(text.splitlines(), 1):
            if number in comments and WHO.search(line):
                lines.setdefault(room, []).append("%s:%d" % (path, number))
    for room in sorted(lines):
        if len(lines[room]) > WHO_MOST.get(room, 0):
            broken(lines[room][-1], "%d lines of comments of %s say who, whoever, whose or whom, more than %d: name the subject"
                   % (len(lines[room]), room, WHO_MOST.get(room, 0)))


def openings():
    for path in house.under(OWN, ("src/", "shm_layout/", "include/"), (".c", ".h")):
        text = house.read(path)
        first = re.match(r"/\*.*?\*/", text, re.S)
        if not first:
            broken(path, "opens without a comment that says what it owns")
        elif path.endswith(".c") and first.group(0).count("\n") < 2:
            broken(path, "its opening comment is too short to say what it owns and how it goes")


def dead_headers():
    included = set()
    for path in C_FILES:
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', house.read(path), re.M):
            if path != name:
                included.update({name, os.path.basename(name)})
    for path in house.under(C_FILES, ("src/", "shm_layout/", "tests/", "bench/"), (".h",)):
        short = path[4:] if path.startswith("src/") else path
        if short not in included and (path.startswith("src/") or os.path.basename(path) not in included):
            broken(path, "no file includes it")


def tests_run():
    """What lists itself is run, where a program has a main() of its own. (TEST(), tests/common/test.h)"""
    for path in house.under(C_FILES, ("tests/",), ("_test.c",)):
        code = house.code_only(house.read(path))
        if re.search(r"^([A-Z]+_)?TEST(_\w+)?\(", code, re.M) and re.search(r"^int main\(", code, re.M) and "test_run(" not in code:
            broken(path, "its main() does not call test_run(), so its tests do not run")


def named_once():
    """In Python the second function of a name takes the first one's place: a test of that name would never run."""
    for path in house.under(ALL, ("tests/", "python/", "bench/", "scripts/"), (".py",)):
        for block in ast.walk(ast.parse(house.read(path))):
            made = {}
            for one in block.body if isinstance(block, (ast.Module, ast.ClassDef)) else ():
                if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and not one.decorator_list:
                    if one.name in made:
                        broken("%s:%d" % (path, one.lineno), "%s() is defined at line %d, too" % (one.name, made[one.name]))
                    made[one.name] = one.lineno


# ---- the tree ----

def tree():
    for path in ALL:
        if path.startswith("build/") or path.endswith((".o", ".a", ".so", ".d", ".pyc", ".trail")):
            broken(path, "is built, not written")
        elif os.path.islink(path):
            broken(path, "is a symbolic link")
        elif os.path.getsize(path) > 512 * 1024:
            broken(path, "is %d KiB, more than 512" % (os.path.getsize(path) // 1024))
        if path.endswith(("_test.sh", "_test.py", "run.sh")) and not os.access(path, os.X_OK):
            broken(path, "is not executable")


def formatted():
    try:
        version = subprocess.run(["clang-format", "--version"], stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        print("clang-format is not installed: the format is not checked")
        return
    if not re.search(r"version 14\.", version):
        print("the format is that of clang-format 14, so it is not checked by: " + version.strip())
        return
    done = subprocess.run(["clang-format", "--dry-run"] + C_FILES, stderr=subprocess.PIPE, text=True)
    bad = re.findall(r"^(\S+?):(\d+):\d+: \w+: code should be clang-formatted", done.stderr, re.M)
    for path in sorted({path for path, _ in bad}):
        broken("%s:%s" % (path, min(int(n) for p, n in bad if p == path)), "is not formatted; make format")


for rule in (floors, lengths, names, calls, words, atomics, named, subjects, openings, dead_headers, tests_run, named_once, tree, formatted):
    rule()
house.done("%d files, %d of them C" % (len(ALL), len(C_FILES)))
