"""What the tests of the house share: the list of files, C without its comments, and how a broken rule is reported."""
import os
import re
import subprocess
import sys

TOP = os.environ.get("TOP") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(TOP)
_broken = []


def broken(where, sentence):
    """Says that a rule is broken, and goes on: one run shows everything there is to mend."""
    _broken.append(where)
    print("%s: %s" % (where, sentence))


def is_broken():
    return bool(_broken)


def done(what):
    if _broken:
        print("%d places to mend" % len(_broken))
        sys.exit(1)
    print("clean: " + what)
    sys.exit(0)


def files():
    """Every file of the project, tracked or about to be, without what git ignores. Sorted."""
    git = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if git.returncode == 0:
        found = git.stdout.decode().split("\0")
    else:  # unpacked from an archive
        found = [os.path.relpath(os.path.join(folder, name)) for folder, _, names in os.walk(".") for name in names]
        found = [f for f in found if not f.startswith(("build/", ".git/"))]
    return sorted(f for f in found if f and os.path.exists(f))


def under(names, folders, endings):
    return [f for f in names if f.startswith(folders) and f.endswith(endings)]


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """The same lines, with comments gone and strings emptied. An #include keeps its name."""
    def blank(match):
        word = match.group(0)
        if word[0] == '"' and re.search(r"#\s*include\s*$", text[text.rfind("\n", 0, match.start()) + 1:match.start()]):
            return word
        lines = "\n" * word.count("\n")
        return lines if word[0] == "/" else word[0] + word[0] + lines
    return _TOKEN.sub(blank, text)


def comment_lines(text):
    """The numbers of the lines that hold some part of a comment."""
    lines = set()
    for match in _TOKEN.finditer(text):
        if match.group(0)[0] == "/":
            first = text.count("\n", 0, match.start()) + 1
            lines.update(range(first, first + match.group(0).count("\n") + 1))
    return lines
