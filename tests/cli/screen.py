"""A program on a terminal of its own, and what a person would see there: keystrokes in, a grid of characters out.

The terminal is a pty and a small emulator of what TERM=xterm promises and curses uses. A sequence that it does not
know ends the test: nothing is guessed. Every wait ends after half a minute with the screen printed.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 30
_SEQUENCE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@A-Za-z`])|\x1b\][^\x07]*\x07|\x1b[()][AB0]|\x1b[=>78MDEc]")


def wait_for_tasks(job, count):
    """Until so many tasks of the job are connected."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = subprocess.run([os.environ["MUSTER"], "task", "list", "--job", job, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, universal_newlines=True)
        tasks = json.loads(done.stdout)["tasks"] if done.returncode == 0 else []
        if sum(task["state"] == "CONNECTED" for task in tasks) == count:
            return tasks
        time.sleep(0.02)  # sleep: between two looks
    sys.exit("waited in vain for %d tasks of %s" % (count, job))


class Screen:
    """The grid, fed with what the program writes."""

    def __init__(self, rows, columns):
        self.rest = ""
        self.modes = set()
        self.alternate = None
        self.coloured = False
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.clear()
        self.row = self.column = 0
        self.top, self.bottom = 0, rows - 1
        self.saved = (0, 0)
        self.attributes = ()

    def clear(self):
        self.grid = [self.blank() for _ in range(self.rows)]
        self.marks = [[()] * self.columns for _ in range(self.rows)]

    def blank(self):
        return [" "] * self.columns

    def lines(self):
        return ["".join(line).rstrip() for line in self.grid]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        text = self.rest + data
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = _SEQUENCE.match(text, at)
                if not match:
                    if len(text) - at > 40:
                        sys.exit("the emulator does not know %r" % text[at:at + 40])
                    self.rest = text[at:]
                    return
                self.sequence(match)
                at = match.end()
            else:
                self.character(text[at])
                at += 1

    def character(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            self.line_feed()
        elif c == "\b":
            self.column = max(0, self.column - 1)
        elif c == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
        elif c in "\x07\x0e\x0f\x00":
            pass
        else:
            if self.column >= self.columns:
                if "?7" in self.modes:
                    self.column = self.columns - 1
                else:
                    self.column = 0
                    self.line_feed()
            self.grid[self.row][self.column] = c
            self.marks[self.row][self.column] = self.attributes
            self.column += 1

    def line_feed(self):
        if self.row == self.bottom:
            self.scroll(self.top, 1)
        elif self.row < self.rows - 1:
            self.row += 1

    def scroll(self, top, n):
        """The lines from `top` to the region's end: up by n, or down by -n."""
        for _ in range(abs(n)):
            for grid, blank in ((self.grid, self.blank()), (self.marks, [()] * self.columns)):
                grid.pop(top if n > 0 else self.bottom)
                grid.insert(self.bottom if n > 0 else top, blank)

    def erase(self, row, first, last):
        for column in range(max(0, first), min(last, self.columns)):
            self.grid[row][column] = " "
            self.marks[row][column] = ()

    def sequence(self, match):
        if match.group(3) is None:
            return self.escape(match.group(0))
        private, final = match.group(1), match.group(3)
        numbers = [int(n) if n else 0 for n in match.group(2).split(";")]
        n = max(1, numbers[0])
        if private:
            if private == "?" and final in "hl":
                self.mode(numbers, final == "h")
            elif final not in "hlcm":
                sys.exit("the emulator does not know %r" % match.group(0))
        elif final in "Hf":
            self.row = min(self.rows, n) - 1
            self.column = min(self.columns, max(1, numbers[1] if len(numbers) > 1 else 1)) - 1
        elif final in "ABCD":
            self.row = min(self.rows - 1, max(0, self.row + {"A": -n, "B": n}.get(final, 0)))
            self.column = min(self.columns - 1, max(0, self.column + {"C": n, "D": -n}.get(final, 0)))
        elif final in "G`":
            self.column = min(self.columns, n) - 1
        elif final == "d":
            self.row = min(self.rows, n) - 1
        elif final == "J":
            self.erase_screen(numbers[0])
        elif final == "K":
            self.erase(self.row, self.column if numbers[0] == 0 else 0, self.column + 1 if numbers[0] == 1 else self.columns)
        elif final == "X":
            self.erase(self.row, self.column, self.column + n)
        elif final in "LM":
            self.scroll(self.row, n if final == "M" else -n)
        elif final in "ST":
            self.scroll(self.top, n if final == "S" else -n)
        elif final in "P@":
            self.shift(n, final == "P")
        elif final == "b":
            for _ in range(n):
                self.character(self.grid[self.row][self.column - 1])
        elif final == "r":
            self.top, self.bottom = n - 1, (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.row = self.column = 0
        elif final == "m":
            self.coloured |= any(30 <= k <= 37 or 40 <= k <= 47 or 90 <= k <= 97 for k in numbers)
            self.attributes = () if numbers == [0] else self.attributes + tuple(numbers)
        elif final not in "hltnc":
            sys.exit("the emulator does not know %r" % match.group(0))

    def escape(self, text):
        if text == "\x1bM":
            if self.row == self.top:
                self.scroll(self.top, -1)
            else:
                self.row = max(0, self.row - 1)
        elif text == "\x1bD":
            self.line_feed()
        elif text == "\x1b7":
            self.saved = (self.row, self.column)
        elif text == "\x1b8":
            self.row, self.column = self.saved

    def erase_screen(self, how):
        for row in range(self.rows):
            if how == 2 or (how == 0 and row > self.row) or (how == 1 and row < self.row):
                self.erase(row, 0, self.columns)
        if how == 0:
            self.erase(self.row, self.column, self.columns)
        elif how == 1:
            self.erase(self.row, 0, self.column + 1)

    def shift(self, n, left):
        for line, blank in ((self.grid[self.row], " "), (self.marks[self.row], ())):
            for _ in range(n):
                line.pop(self.column if left else self.columns - 1)
                line.insert(self.columns - 1 if left else self.column, blank)

    def mode(self, numbers, on):
        for n in numbers:
            name = "?%d" % n
            if n == 7:
                on, name = not on, "?7"  # in the set: no wrapping
            if n == 1049 and on:
                self.alternate = (self.grid, self.marks, self.row, self.column)
                self.clear()
            elif n == 1049 and self.alternate:
                if len(self.alternate[0]) == self.rows:
                    self.grid, self.marks, self.row, self.column = self.alternate
                self.alternate = None
            (self.modes.add if on else self.modes.discard)(name)


class Session:
    """A command on such a terminal."""

    def __init__(self, argv, rows=24, columns=100, env=None):
        self.screen = Screen(rows, columns)
        self.raw = b""
        self.status = None
        ready, go = os.pipe()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.close(go)
            os.read(ready, 1)  # until the terminal has been looked at as it was before
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8"})
            os.environ.pop("NO_COLOR", None)
            os.environ.update(env or {})
            os.execv(argv[0], argv)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.master)
        os.close(go)
        os.close(ready)

    def resize(self, rows, columns):
        self.pump(0.05)
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys.encode())

    def pump(self, seconds):
        """Take what the program writes; False when it has hung up."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.screen.feed(data.decode("utf-8", "replace"))
        return bool(data)

    def wait(self, what, condition):
        """Until condition(screen text) holds."""
        end = time.monotonic() + PATIENCE
        while not condition(self.screen.text()):
            if time.monotonic() > end or not self.pump(0.2):
                self.fail("waited in vain until " + what)
        return self.screen.text()

    def wait_for(self, pattern):
        return self.wait("there is %r" % pattern, lambda text: re.search(pattern, text, re.M))

    def wait_gone(self, pattern):
        return self.wait("there is no %r" % pattern, lambda text: not re.search(pattern, text, re.M))

    def ends_with(self, want):
        end = time.monotonic() + PATIENCE
        while self.pump(0.2) and time.monotonic() < end:
            pass
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.02)  # sleep: between two looks
        if self.status != want:
            self.fail("exit status %r instead of %r" % (self.status, want))

    def fail(self, sentence):
        print("FAIL: " + sentence)
        print("the screen:")
        print("\n".join("|" + line for line in self.screen.lines()))
        self.close()
        sys.exit(1)

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except OSError:
                pass
        os.close(self.master)
