"""An ordinary JAX program: a sum over all processes, what multihost_utils offers, and an end. Nothing of muster's in it.

    train.py [ADDRESS PROCESSES PROCESS]      without them jax.distributed.initialize() finds out by itself
"""
import sys

import jax

jax.config.update("jax_platforms", "cpu")
try:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
except AttributeError:
    pass  # of a version that has no other
if len(sys.argv) > 1:
    jax.distributed.initialize(sys.argv[1], num_processes=int(sys.argv[2]), process_id=int(sys.argv[3]))
else:
    jax.distributed.initialize()

import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

me, count = jax.process_index(), jax.process_count()
total = jax.pmap(lambda x: jax.lax.psum(x, "all"), axis_name="all")(jnp.full((1,), float(me + 1)))
assert float(np.asarray(total.addressable_data(0)).reshape(-1)[0]) == count * (count + 1) / 2, total
assert len(jax.devices()) == count, jax.devices()
mesh, across = jax.sharding.Mesh(np.array(jax.devices()), "all"), jax.sharding.PartitionSpec("all")
told = multihost_utils.broadcast_one_to_all(np.float32(42 + me))
assert float(told) == 42, told
gathered = multihost_utils.process_allgather(np.array([me], dtype=np.int32))
assert sorted(np.asarray(gathered).reshape(-1).tolist()) == list(range(count)), gathered
row = multihost_utils.host_local_array_to_global_array(np.full((1, 2), me, np.float32), mesh, across)
assert row.shape == (count, 2), row
column = multihost_utils.global_array_to_host_local_array(row, mesh, across)
assert np.asarray(column).tolist() == [[me, me]], column
multihost_utils.assert_equal({"a": np.arange(3), "b": np.float32(1)}, "all have the same")
try:
    multihost_utils.assert_equal(np.float32(me), "they differ")
    assert me == 0, "assert_equal() lets differences pass"  # what process 0 has is compared with
except AssertionError as different:
    if "lets differences" in str(different):
        raise
multihost_utils.sync_global_devices("all here")
done = ["psum", "broadcast_one_to_all", "process_allgather", "global arrays", "assert_equal", "sync_global_devices"]
if hasattr(multihost_utils, "live_devices"):
    try:
        with multihost_utils.live_devices(jax.devices()) as alive:
            assert len(alive) == count, alive
        done.append("live_devices")
    except (NotImplementedError, ValueError) as refused:  # a version whose CPU client does not have it
        done.append("no live_devices (%s)" % str(refused).splitlines()[0][:60])
jax.distributed.shutdown()
print("process %d of %d, jax %s: %s" % (me, count, jax.__version__, ", ".join(done)), flush=True)
