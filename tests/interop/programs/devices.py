"""1,200 devices of two processes: all see all, twice; one of each adds: devices.py ADDRESS PROCESSES PROCESS.

A sum over all of them is beyond JAX on one machine: its gloo joins each two devices, 719,400 connections.
"""
import sys

import jax
import jax.extend.backend
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

EACH, ROUNDS = 600, 2
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", EACH)
for turn in range(ROUNDS):
    jax.distributed.initialize(address, count, me)
    assert jax.device_count() == count * EACH and jax.local_device_count() == EACH, jax.device_count()
    assert [device.process_index for device in jax.devices()] == [i // EACH for i in range(count * EACH)]
    mesh = Mesh(np.array(jax.devices()[::EACH]), ("one",))
    numbers = np.arange(1, count + 1, dtype=np.float32)
    each = jax.make_array_from_callback(numbers.shape, NamedSharding(mesh, PartitionSpec("one")), lambda at: numbers[at])
    add = jax.jit(jax.shard_map(lambda one: jax.lax.psum(one, "one"), mesh=mesh, in_specs=PartitionSpec("one"), out_specs=PartitionSpec()))
    assert np.asarray(add(each).addressable_data(0))[0] == count * (count + 1) / 2
    jax.distributed.shutdown()
    jax.clear_caches()
    jax.extend.backend.clear_backends()
print("process %d of %d, jax %s: %d devices, %d times" % (me, count, jax.__version__, count * EACH, ROUNDS), flush=True)
