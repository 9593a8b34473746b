"""Libraries for LD_PRELOAD, whose paths can hold neither blanks nor colons."""
import atexit
import os
import shutil
import tempfile


def preloadable(path):
    """The library's path, or that of a copy of it, which lives as long as this process."""
    if not set(path) & set(" :"):
        return path
    folder = tempfile.mkdtemp(prefix="muster-preload.")
    if set(folder) & set(" :"):
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="muster-preload.", dir="/tmp")
    atexit.register(shutil.rmtree, folder, True)
    return shutil.copy(path, folder)
