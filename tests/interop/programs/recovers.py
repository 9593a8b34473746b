"""A job whose process 1 is killed, is started again by itself and takes its place again: the others go on meanwhile.

    muster run --grpc --restart-policy task --restarts 1 -- recovers.py
"""
import os
import signal

import jax
from jax._src import distributed  # where JAX's own libraries get the client from

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_recoverability", True)
jax.distributed.initialize()
client, me, count = (getattr(distributed.global_state, name) for name in ("client", "process_id", "num_processes"))
first, everybody = os.environ["MUSTER_ATTEMPT"] == "0", list(range(count))
if first:
    client.wait_at_barrier("begun", 60000, everybody)
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    without = [task for task in everybody if task != 1]
    client.wait_at_barrier("without 1", 60000, without)
client.wait_at_barrier("with 1", 60000, everybody)
alive = client.get_live_nodes(everybody)
assert sorted(alive) == everybody, alive
assert jax.device_count() == count, jax.devices()
client.wait_at_barrier("the end", 60000, everybody)
jax.distributed.shutdown()
os.write(1, b"process %d of %d, %s attempt: recovered\n" % (me, count, b"first" if first else b"second"))
