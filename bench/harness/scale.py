"""The rows that show how muster grows on one node, what its agents cost, and what operations are made of."""
import os
import shutil
import sys

from harness.rows import Contender, Group, own

HARNESS = os.path.dirname(os.path.abspath(__file__))


def script(who, name, *arguments, **more):
    return Contender(who, [sys.executable, os.path.join(HARNESS, name), *map(str, arguments)], **more)


def able(tools, *programs):
    """Why these cannot be had, or ""."""
    if not (tools.muster and os.access(tools.muster, os.X_OK)):
        return "the muster command is not built"
    absent = [name for name in programs if not tools.program(name)]
    return "%s/%s is not built" % (tools.folder, absent[0]) if absent else ""


def tasks_group(tools, effort):
    status = [] if able(tools) else [tools.muster]
    return Group("tasks", [own(tools, "muster", "tasks", size, min(effort.slice / 2, 1), 16, *status, repeats=3, timeout=150)
                           for size in ((2, 16) if effort.quick else (2, 8, 32, 128, 512))])


def keys_group(tools, effort):
    each = min(effort.slice / 3, 0.5)
    found = []
    for keys in (1, 100, 2000) if effort.quick else (1, 10, 100, 1000, 10000, 100000, 1000000):
        found.append(own(tools, "muster", "volume", each, keys, 0, "muster", repeats=2))
        if keys > 30000:  # below, the index is as large anyhow
            found.append(own(tools, "muster-sized", "volume", each, keys, keys, "muster-sized", repeats=2))
    return Group("keys", found)


def late_group(tools, effort):
    return Group("late", [own(tools, "muster", "late", size, rounds, repeats=3)
                          for size, rounds in (((8, 2), (16, 1)) if effort.quick else ((8, 40), (64, 15)))])


def memory_contenders(tools):
    missing = able(tools)
    return [script("muster" if not missing else "memory of the agent", "agent.py", "memory", tools.muster, size, missing=missing,
                   repeats=1) for size in (1, 64, 512)]


def agent_group(tools, effort):
    missing, tenant = able(tools, "tenant"), tools.program("tenant")
    idle, busy = (0.3, 0.3) if effort.quick else (12, 4)
    return Group("agent", [script("muster", "agent.py", "idle", tools.muster, tenant, idle, missing=missing, repeats=1),
                           script("muster", "agent.py", "busy", tools.muster, tenant, busy, missing=missing, repeats=1)])


def count_group(tools, effort):
    """Counts do not change from one run to the next, or with what others do."""
    hot, spawn = tools.program("hot"), tools.program("spawn")
    unbuilt = "" if hot else "%s/hot is not built" % tools.folder
    no_valgrind = unbuilt or ("" if shutil.which("valgrind") else "valgrind is not installed")
    no_strace = "" if shutil.which("strace") else "strace is not installed"
    some = (10, 30, "get", "group") if effort.quick else (200, 600)
    return Group("count", [
        script("valgrind", "counted.py", "instructions", hot, *some, missing=no_valgrind, repeats=1, timeout=180),
        script("strace", "counted.py", "calls", hot, *some, missing=unbuilt or no_strace, repeats=1, timeout=180),
        script("strace", "counted.py", "launch", tools.muster, spawn, missing=able(tools, "spawn") or no_strace, repeats=1)])


def task_group(tools, effort):
    return Group("task", [own(tools, "muster", "task", effort.slice / 4, effort.objects, timeout=180), *memory_contenders(tools)])


def groups(tools, effort):
    return [task_group(tools, effort), tasks_group(tools, effort), keys_group(tools, effort), late_group(tools, effort), agent_group(tools, effort),
            count_group(tools, effort)]
