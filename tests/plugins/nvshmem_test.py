#!/usr/bin/env python3
"""NVSHMEM's bootstrap over muster: real processes drive the plugin through its binary interface, as NVSHMEM does.

The table of functions is declared here a second time, with ctypes, and compared with NVIDIA's header where NVSHMEM_HOME
has it. Members run under 'muster run'; each checks every byte that it gets. A member's death is an error for the others, which names it. NVIDIA's own library takes part where it
is installed: see nvshmem_library_test.py.
variants: release
timeout: 240
"""
import ctypes
import os
import signal
import subprocess
import sys

BUILD = os.environ["BUILD"]
MUSTER = os.environ["MUSTER"]
PLUGIN = os.path.join(BUILD, "muster_nvshmem_bootstrap.so")
VERSION = 30000


class Handle(ctypes.Structure):
    """bootstrap_handle of NVSHMEM 3."""


Exchange = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Handle))
Simple = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Handle))
Exit = ctypes.CFUNCTYPE(None, ctypes.c_int)
Show = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Handle), ctypes.c_int)
Handle._fields_ = [
    ("version", ctypes.c_int), ("pg_rank", ctypes.c_int), ("pg_size", ctypes.c_int), ("mype_node", ctypes.c_int),
    ("npes_node", ctypes.c_int), ("allgather", Exchange), ("alltoall", Exchange), ("barrier", Simple),
    ("global_exit", Exit), ("finalize", Simple), ("show_info", Show), ("pre_init_ops", ctypes.c_void_p),
    ("comm_state", ctypes.c_void_p),
]


# ---- members ----

def expect(holds, what):
    if not holds:
        print("PE %s: %s" % (os.environ.get("MUSTER_TASK_ID"), what), flush=True)
        os._exit(9)


def load():
    return ctypes.CDLL(PLUGIN)


def start(plugin, version=VERSION):
    handle = Handle()
    ctypes.memset(ctypes.byref(handle), 0xa5, ctypes.sizeof(handle))  # the caller clears nothing
    status = plugin.nvshmemi_bootstrap_plugin_init(None, ctypes.byref(handle), version)
    return status, handle


def content(sender, receiver, size, seed):
    return bytes((sender * 31 + receiver * 17 + i * 7 + seed) % 251 for i in range(min(size, 997))) * (size // 997 + 1)


def allgather(handle, size, seed):
    send = ctypes.create_string_buffer(content(handle.pg_rank, 0, size, seed)[:size], size or 1)
    receive = ctypes.create_string_buffer(b"\xee" * (size * handle.pg_size + 1), size * handle.pg_size + 1)
    status = handle.allgather(ctypes.addressof(send), ctypes.addressof(receive), size, ctypes.byref(handle))
    if status:
        return status
    wanted = b"".join(content(i, 0, size, seed)[:size] for i in range(handle.pg_size)) + b"\xee"
    expect(receive.raw == wanted, "allgather of %d bytes is wrong" % size)
    return 0


def alltoall(handle, size, seed):
    send = b"".join(content(handle.pg_rank, i, size, seed)[:size] for i in range(handle.pg_size))
    send = ctypes.create_string_buffer(send, len(send) or 1)
    receive = ctypes.create_string_buffer(b"\xee" * (size * handle.pg_size + 1), size * handle.pg_size + 1)
    status = handle.alltoall(ctypes.addressof(send), ctypes.addressof(receive), size, ctypes.byref(handle))
    if status:
        return status
    wanted = b"".join(content(i, handle.pg_rank, size, seed)[:size] for i in range(handle.pg_size)) + b"\xee"
    expect(receive.raw == wanted, "alltoall of %d bytes is wrong" % size)
    return 0


def check_table(handle):
    expect(handle.version == VERSION, "version %d" % handle.version)
    expect(handle.pg_rank == int(os.environ["MUSTER_TASK_ID"]), "rank %d" % handle.pg_rank)
    expect(handle.pg_size == int(os.environ["MUSTER_NUM_TASKS"]), "size %d" % handle.pg_size)
    expect(handle.pre_init_ops is None, "pre_init_ops is not empty")
    for name in ("allgather", "alltoall", "barrier", "global_exit", "finalize", "show_info"):
        expect(bool(getattr(handle, name)), name + " is missing")


def exchange(handle):
    for seed, size in enumerate((0, 1, 4, 8, 63, 128, 1000, 16384, 16385, 40000)):
        expect(allgather(handle, size, seed) == 0, "allgather failed")
        expect(alltoall(handle, size, seed) == 0, "alltoall failed")
        expect(handle.barrier(ctypes.byref(handle)) == 0, "barrier failed")
    expect(handle.show_info(ctypes.byref(handle), 0) == 0, "show_info failed")


def member_exchange():
    plugin = load()
    for _ in range(2):  # NVSHMEM may be initialised again
        status, handle = start(plugin)
        expect(status == 0, "init failed")
        check_table(handle)
        exchange(handle)
        expect(handle.finalize(ctypes.byref(handle)) == 0, "finalize failed")


def member_joined():
    """A program that is a task by itself."""
    muster = ctypes.CDLL(os.path.join(BUILD, "libmuster.so.0"))
    me = ctypes.c_void_p()
    expect(muster.muster_join(None, ctypes.byref(me)) == 0, "join failed")
    plugin = load()
    expect(start(plugin)[0] != 0, "a task was joined twice")
    plugin.muster_nvshmem_bootstrap_use(me)
    status, handle = start(plugin)
    expect(status == 0, "init failed")
    exchange(handle)
    expect(handle.finalize(ctypes.byref(handle)) == 0, "finalize failed")
    muster.muster_task_id.argtypes = [ctypes.c_void_p]
    expect(muster.muster_task_id(me) == handle.pg_rank, "the program's handle was left")
    muster.muster_leave.argtypes = [ctypes.c_void_p]
    expect(muster.muster_leave(me) == 0, "leave failed")


def member_dies():
    status, handle = start(load())
    expect(status == 0, "init failed")
    for seed in range(100000):
        if seed == 50 and handle.pg_rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        status = (allgather, alltoall)[seed % 2](handle, 512, seed % 100) or handle.barrier(ctypes.byref(handle))
        if status:
            print("PE %d was told" % handle.pg_rank, flush=True)
            expect(handle.finalize(ctypes.byref(handle)) == 0, "finalize failed")
            return
    expect(False, "nobody noticed the death")


def member_exits():
    status, handle = start(load())
    expect(status == 0, "init failed")
    if handle.pg_rank == 1:
        handle.global_exit(5)
    if handle.barrier(ctypes.byref(handle)):
        print("PE %d was told" % handle.pg_rank, flush=True)


def member_old():
    expect(start(load(), 20800)[0] != 0, "an interface of NVSHMEM 2 was served")


# ---- the director ----

def run(count, member, *options):
    command = [MUSTER, "run", "-n", str(count), *options, "--", sys.executable, os.path.abspath(__file__), member]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=100)


def check_header():
    """Offsets of the members in the header of NVSHMEM's sources: packages of the library do not bring it."""
    found = [os.path.join(folder, "internal/bootstrap_host_transport/nvshmemi_bootstrap_defines.h")
             for folder in (os.environ.get("NVSHMEM_HOME", "") + "/include", os.environ.get("NVSHMEM_HOME", "") + "/src/include")]
    found = [name for name in found if os.path.exists(name)]
    if not found:
        print("not compared with NVIDIA's header: NVSHMEM_HOME names no folder with it")
        return
    lines = ['#include "%s"' % found[0], "#include <stddef.h>"]
    lines += ["_Static_assert(offsetof(bootstrap_handle_t, %s) == %d, \"%s\");" % (name, getattr(Handle, name).offset, name)
              for name, _ in Handle._fields_]
    lines += ["_Static_assert(sizeof(bootstrap_handle_t) == %d, \"size\");" % ctypes.sizeof(Handle)]
    subprocess.run([os.environ.get("CC", "gcc"), "-x", "c", "-fsyntax-only", "-"], input="\n".join(lines) + "\n",
                   text=True, check=True)
    print("agrees with " + found[0])


def fail(done, why):
    print("%s\nstdout: %s\nstderr: %s" % (why, done.stdout, done.stderr))
    sys.exit(1)


def main():
    check_header()
    for count in (1, 2, 3, 8):
        done = run(count, "exchange")
        if done.returncode:
            fail(done, "%d members: exit status %d" % (count, done.returncode))
    done = run(3, "joined")
    if done.returncode or "muster_nvshmem_bootstrap_use" not in done.stderr:
        fail(done, "joined: exit status %d" % done.returncode)
    # --kill-on-fail=no: the launcher lets the others find out by themselves
    for count in (2, 5):
        done = run(count, "dies", "--kill-on-fail=no")
        if done.stdout.count("was told") != count - 1 or "task 1 (pid" not in done.stderr:
            fail(done, "dies: %d of %d were told" % (done.stdout.count("was told"), count - 1))
    done = run(3, "exits", "--kill-on-fail=no")
    if done.returncode != 5 or done.stdout.count("was told") != 2 or "nvshmem_global_exit(5)" not in done.stderr:
        fail(done, "exits: exit status %d" % done.returncode)
    done = run(1, "old")
    if done.returncode or "interface (NVSHMEM 3.x)" not in done.stderr:
        fail(done, "old: exit status %d" % done.returncode)
    print("1 to 8 members exchanged, were told of a death and of a global exit")


if len(sys.argv) > 1:
    globals()["member_" + sys.argv[1]]()
else:
    main()
