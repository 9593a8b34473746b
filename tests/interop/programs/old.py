"""The client of a JAX whose initialize() always hosts the service itself: its library's calls, in either protocol.

    old.py ADDRESS PROCESSES PROCESS new|old
"""
import sys

from jax._src.lib import xla_extension

address, count, me, newer = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "new"
client = xla_extension.get_distributed_runtime_client(address, me, newer, init_timeout=60)
client.connect()
client.key_value_set("k/%d" % me, "from %d" % me)
for other in range(count):
    assert client.blocking_key_value_get("k/%d" % other, 60000) == "from %d" % other
if newer:
    assert len(client.key_value_dir_get("k")) == count
client.wait_at_barrier("b", 60000)
try:
    client.wait_at_barrier("b", 1000)
    sys.exit("an id served twice")
except Exception as error:
    print(str(error).splitlines()[0][:120])
client.shutdown()
print("process %d of %d: keys, a barrier, shutdown" % (me, count), flush=True)
