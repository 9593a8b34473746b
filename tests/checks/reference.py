#!/usr/bin/env python3
"""JAX's own coordination service behind the lines of serve_main.c: run by an interpreter that has jaxlib.

What its Python interface cannot set is left at JAX's: the register barrier is on, times are whole seconds.
"""
import math
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import ports

try:
    from jaxlib import _jax as native
except ImportError:
    from jaxlib import xla_extension as native


kept = []  # sockets that keep ports


def free_address():
    kept.append(ports.keep_port())
    return "127.0.0.1:%d" % ports.port_of(kept[-1])


def seconds(text):
    return math.ceil(int(text) / 1000)


def begin(options):
    address = options.pop("address", None) or free_address()
    made = native.get_distributed_runtime_service.__doc__
    old = "use_coordination_service" in made
    given = {"shutdown_timeout": seconds(options.pop("shutdown", "60000" if old else "0"))}
    tasks = int(options.pop("tasks"))
    heartbeat = seconds(options.pop("heartbeat", "60000"))
    if "heartbeat_interval" in made:
        given.update(heartbeat_interval=max(1, heartbeat // 2), max_missing_heartbeats=2)
    else:
        given["heartbeat_timeout"] = heartbeat
    if "register" in options:
        given["cluster_register_timeout"] = seconds(options.pop("register"))
    if options.pop("recoverable", "0") == "1":
        given["recoverable"] = True
    options.pop("barrier", None)
    if options:
        raise ValueError("jaxlib has no option %s" % ", ".join(options))
    # Of JAX before 0.4.15: its oldest protocol.
    return address, native.get_distributed_runtime_service(address, tasks, *([False] if old else []), **given)


def main():
    services = {}
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "open":
                address, services[words[1]] = begin(dict(word.split("=", 1) for word in words[2:]))
                print(address, flush=True)
            else:
                services.pop(words[1]).shutdown()
                print("closed", flush=True)
        except Exception as error:  # the other side decides what to do about it
            print("error: %s" % error, flush=True)
    print("clean")


main()
