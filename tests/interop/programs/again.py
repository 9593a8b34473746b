"""initialize(), work and shutdown(), three times in one process, with the same keys and barriers each time.

    again.py [ADDRESS PROCESSES PROCESS]      without them jax.distributed.initialize() finds out by itself
"""
import sys

import jax
import jax.extend.backend
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils

ROUNDS = 3

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
for turn in range(1, ROUNDS + 1):
    if len(sys.argv) > 1:
        jax.distributed.initialize(sys.argv[1], num_processes=int(sys.argv[2]), process_id=int(sys.argv[3]))
    else:
        jax.distributed.initialize()
    me, count = jax.process_index(), jax.process_count()
    client = distributed.global_state.client
    client.key_value_set("again/%d" % me, str(turn))
    client.wait_at_barrier("written", 60000)
    values = sorted(value for _, value in client.key_value_dir_get("again"))
    assert values == [str(turn)] * count, values
    gathered = multihost_utils.process_allgather(np.array([me], dtype=np.int32))
    assert sorted(np.asarray(gathered).reshape(-1).tolist()) == list(range(count)), gathered
    jax.distributed.shutdown()
    jax.clear_caches()
    jax.extend.backend.clear_backends()
print("process %d of %d: came %d times" % (me, count, ROUNDS), flush=True)
