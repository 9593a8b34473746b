"""A JAX program that computes until it is stopped: what happens to it when one of its processes dies?

    stays.py ADDRESS PROCESSES PROCESS HEARTBEAT_SECONDS
"""
import inspect
import sys
import time

import jax

jax.config.update("jax_platforms", "cpu")
given = {"heartbeat_timeout_seconds": int(sys.argv[4])}
if "heartbeat_timeout_seconds" not in inspect.signature(jax.distributed.initialize).parameters:
    given = {}
jax.distributed.initialize(sys.argv[1], num_processes=int(sys.argv[2]), process_id=int(sys.argv[3]), **given)
jax.devices()
print("computes", flush=True)
while True:
    jax.numpy.ones(4).sum().block_until_ready()
    time.sleep(0.1)  # sleep: its work
