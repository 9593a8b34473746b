"""JAX's own mutual TLS: initialize() with certificates, or without them, which must be refused.

    secret.py ADDRESS PROCESSES PROCESS FOLDER      of ca.pem, cert.pem, key.pem
    secret.py ADDRESS PROCESSES PROCESS             has none: JAX aborts it
"""
import os
import sys

import jax
from jax._src import distributed  # where JAX's own libraries get the client from

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if len(sys.argv) == 4:
    jax.distributed.initialize(address, num_processes=count, process_id=me, initialization_timeout=3)
    sys.exit("a client without certificates was let in")
files = {"mtls_%s_file" % name: os.path.join(sys.argv[4], name + ".pem") for name in ("cert", "key", "ca")}
jax.distributed.initialize(address, num_processes=count, process_id=me, verify_secure_credentials=True, **files)
client = distributed.global_state.client
client.key_value_set("k/%d" % me, "v")
client.wait_at_barrier("written", 60000)
assert len(client.key_value_dir_get("k")) == count
assert jax.device_count() == count
jax.distributed.shutdown()
print("process %d of %d, jax %s: by TLS" % (me, count, jax.__version__), flush=True)
