#!/usr/bin/env python3
"""NVIDIA's own NVSHMEM bootstraps over muster: its host library loads the plugin, and finds out through it who is on
which node. Without a GPU it gets no further, and says so. The library is the one that NVSHMEM_LIB names, or that
of the Python package nvidia-nvshmem-cu12 or -cu13; without one this is skipped.
variants: release
"""
import ctypes
import glob
import os
import site
import subprocess
import sys
import sysconfig

BUILD = os.environ["BUILD"]
PLUGIN = os.path.join(BUILD, "muster_nvshmem_bootstrap.so")
GROUP_BARRIERS = 4  # the place of that count in struct muster_stats


def library():
    named = os.environ.get("NVSHMEM_LIB")
    if named:
        return named
    folders = {sysconfig.get_path("platlib"), site.getusersitepackages(), *site.getsitepackages()}
    found = [f for folder in sorted(folders)
             for f in sorted(glob.glob(os.path.join(folder, "nvidia/nvshmem/lib/libnvshmem_host.so.3")))]
    found += sorted(glob.glob("/usr/lib/*/libnvshmem_host.so.3")) + sorted(glob.glob("/usr/lib/*/nvshmem/*/libnvshmem_host.so.3"))
    return found[0] if found else None


def member(path):
    muster = ctypes.CDLL(os.path.join(BUILD, "libmuster.so.0"))
    me = ctypes.c_void_p()
    stats = (ctypes.c_uint64 * 64)()
    assert muster.muster_join(None, ctypes.byref(me)) == 0
    ctypes.CDLL(PLUGIN).muster_nvshmem_bootstrap_use(me)
    rc = ctypes.CDLL(path).nvshmemx_hostlib_init_attr(0, None)
    assert muster.muster_stats_get(me, muster.muster_task_id(me), stats) == 0
    print("init gave %d after %d collectives" % (rc, stats[GROUP_BARRIERS]), flush=True)
    if stats[GROUP_BARRIERS] < 1:
        os._exit(9)


def main():
    path = library()
    if not path:
        print("skipped: no libnvshmem_host.so.3 (NVSHMEM_LIB may name one; Python package nvidia-nvshmem-cu12)")
        sys.exit(77)
    environment = dict(os.environ, NVSHMEM_BOOTSTRAP="plugin", NVSHMEM_BOOTSTRAP_PLUGIN=PLUGIN)
    done = subprocess.run([os.environ["MUSTER"], "run", "-n", "4", "--label", "--kill-on-fail=no", "--", sys.executable,
                           os.path.abspath(__file__), path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100, env=environment)
    print(done.stdout)
    if done.returncode or done.stdout.count(" collectives") != 4:
        print("exit status %d" % done.returncode)
        sys.exit(1)
    print("%s bootstrapped 4 PEs" % path)


if len(sys.argv) > 1:
    member(sys.argv[1])
else:
    main()
