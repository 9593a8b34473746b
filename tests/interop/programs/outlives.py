"""A job that goes on without its process 0, when who serves it lets tasks recover.

    outlives.py ADDRESS PROCESSES PROCESS
"""
import sys
import time

import jax
from jax._src import distributed  # where JAX's own libraries get the client from

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(address, num_processes=count, process_id=me)
client, everybody = distributed.global_state.client, list(range(count))
client.wait_at_barrier("begun", 60000, everybody)
print("begun", flush=True)
if me == 0:
    time.sleep(600)  # sleep: it is killed
alive = client.get_live_nodes(everybody)  # answers once all who live have asked
assert sorted(alive) == everybody[1:], alive
client.wait_at_barrier("go on", 60000, everybody[1:])
client.key_value_set("done/%d" % me, "yes")
client.wait_at_barrier("done", 60000, everybody[1:])
assert len(client.key_value_dir_get("done")) == count - 1
print("process %d goes on with %s" % (me, sorted(alive)), flush=True)
jax.distributed.shutdown()
