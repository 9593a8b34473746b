"""A program that saves its state when one of its processes is to be moved: all of them at the same step.

    preempted.py ADDRESS PROCESSES PROCESS
"""
import sys
import time

import jax

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(address, num_processes=count, process_id=me)

from jax.experimental import multihost_utils

print("computes", flush=True)
for step in range(100000):
    if multihost_utils.reached_preemption_sync_point(step):
        print("saves at step %d" % step, flush=True)
        break
    time.sleep(0.01 * (1 + me))  # sleep: its work: some are slower
jax.distributed.shutdown()
