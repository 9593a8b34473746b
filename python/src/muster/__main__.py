"""`python -m muster WORDS`: the muster command that was installed with this package, else the first in PATH."""
import os
import shutil
import sys
from importlib import metadata
from typing import List, Optional


def find_command() -> Optional[str]:
    """The command's path. What pip has installed lists it, wherever its scheme has put commands."""
    try:
        files = metadata.files("muster") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "muster" and file.parent.name == "bin" and os.access(file.locate(), os.X_OK):
            return os.path.realpath(file.locate())
    return shutil.which("muster")


def main(words: List[str]) -> None:
    command = find_command()
    if command is None:
        sys.exit("python -m muster: there is no muster command: it came neither with this package, as a wheel brings it, "
                 "nor is one in PATH")
    os.execv(command, ["muster"] + words)


if __name__ == "__main__":
    main(sys.argv[1:])
