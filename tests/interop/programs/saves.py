"""A program that saves an array that lies on all processes with Orbax, and restores it: its barriers and its manager's go through us.

    saves.py ADDRESS PROCESSES PROCESS FOLDER
"""
import sys

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
address, count, me, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
jax.distributed.initialize(coordinator_address=address, num_processes=count, process_id=me)

import numpy as np
import orbax.checkpoint as ocp

sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), "all"), jax.sharding.PartitionSpec("all"))
values = np.arange(8 * count, dtype=np.float32)


def at_step(step):
    return {"x": jax.make_array_from_callback(values.shape, sharding, lambda index: values[index] + step), "step": step}


options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=True)
with ocp.CheckpointManager(folder, options=options) as manager:
    for step in range(3):
        manager.save(step, args=ocp.args.StandardSave(at_step(step)))
    manager.wait_until_finished()
    assert manager.all_steps() == [1, 2], manager.all_steps()
    state = manager.restore(2, args=ocp.args.StandardRestore(at_step(0)))
for shard in state["x"].addressable_shards:
    assert (np.asarray(shard.data) == values[shard.index] + 2).all(), shard
jax.distributed.shutdown()
print("process %d of %d, jax %s, orbax %s: saved 3 steps, restored the last" % (me, count, jax.__version__, ocp.__version__), flush=True)
