"""One collective of 600 devices, whose clique's keys list them all: cliques.py ADDRESS COUNT.

The processes are forked off one, which has imported JAX. The first IDLE of them take no part, so that the numbers of the
others' devices have seven bytes each: a key of 600 has 4,200.
"""
import ctypes
import os
import resource
import signal
import sys

import jax
import numpy as np
from jax._src import distributed
from jax.sharding import Mesh, NamedSharding, PartitionSpec

IDLE, EACH = 49, 30
address, count = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)  # gloo joins each two devices
children = []
for me in range(count):
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: none outlives the first
        break
    children.append(child)
else:
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print("exit statuses %s" % sorted(set(ended)))
    sys.exit(any(ended))

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", EACH if me >= IDLE else 1)
jax.distributed.initialize(address, count, me)
devices = [device for device in jax.devices() if device.process_index >= IDLE]
if me >= IDLE:
    mesh = Mesh(np.array(devices), ("all",))
    numbers = np.arange(len(devices), dtype=np.float32)
    each = jax.make_array_from_callback(numbers.shape, NamedSharding(mesh, PartitionSpec("all")), lambda at: numbers[at])
    add = jax.jit(jax.shard_map(lambda one: jax.lax.psum(one, "all"), mesh=mesh, in_specs=PartitionSpec("all"), out_specs=PartitionSpec()))
    print("the sum over %d devices is %d, with names of %d bytes\n" % (len(devices), np.asarray(add(each).addressable_data(0))[0],
                                                                     len(",".join(str(device.id) for device in devices))), end="", flush=True)
distributed.global_state.client.wait_at_barrier("added", 900000)  # a shutdown waits for five minutes at most
jax.distributed.shutdown()
