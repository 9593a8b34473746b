"""A barrier of all processes to which the last comes late, then one to which it does not come in time.

    straggler.py ADDRESS PROCESSES PROCESS
"""
import sys
import time

import jax
from jax._src import distributed  # where JAX's own libraries get the client from

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(address, num_processes=count, process_id=me)
client = distributed.global_state.client
if me == count - 1:
    time.sleep(2)  # sleep: what makes it late
client.wait_at_barrier("late", 60000)
client.key_value_set("arrived/%d" % me, "yes")
client.wait_at_barrier("arrived", 60000)
assert len(client.key_value_dir_get("arrived")) == count
if me == count - 1:
    client.blocking_key_value_get("others have given up", 60000)
else:
    try:
        client.wait_at_barrier("never", 1000)
        sys.exit("the barrier let go without process %d" % (count - 1))
    except Exception as error:
        print(str(error).replace("\n", " "), flush=True)
    if me == 0:
        client.key_value_set("others have given up", "yes")
jax.distributed.shutdown()
