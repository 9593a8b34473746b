"""Without muster's coordination service: without.py explicit | bare. JAX's own service, by its number or by its cluster's."""
import os
import sys

import jax

if sys.argv[1] == "explicit":
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
else:
    jax.distributed.initialize()
print("process %d of %d, jax %s: initialize()" % (jax.process_index(), jax.process_count(), jax.__version__), flush=True)
