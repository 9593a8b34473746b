"""jax.experimental.colocated_python: each process runs a function of Python beside its own devices.

    beside.py ADDRESS PROCESSES PROCESS
"""
import sys

import jax

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(address, num_processes=count, process_id=me)

import numpy as np
from jax.experimental import colocated_python

[device] = colocated_python.colocated_cpu_devices(jax.local_devices())
add_one = colocated_python.colocated_python(lambda x: x + 1).specialize(out_specs_fn=lambda x: x)
assert add_one(jax.device_put(np.array(me), device)) == me + 1
jax.distributed.shutdown()
print("process %d of %d, jax %s: colocated_python" % (me, count, jax.__version__), flush=True)
