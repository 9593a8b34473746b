"""What JAX's libraries ask of its client beside initialize(): keys of text and of bytes, counters, directories, barriers of some.

    keys.py ADDRESS PROCESSES PROCESS
"""
import sys

import jax
from jax._src import distributed  # where JAX's own libraries get the client from

jax.config.update("jax_platforms", "cpu")
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(coordinator_address=address, num_processes=count, process_id=me)
client, done = distributed.global_state.client, ["key_value_set", "key_value_dir_get", "wait_at_barrier"]


def has(name):
    if hasattr(client, name):
        done.append(name)
    return hasattr(client, name)


def refused(code, call, *arguments, **named):
    """The call is refused, with this code in its text."""
    try:
        answer = call(*arguments, **named)
    except Exception as error:
        assert code in str(error), error
        return
    sys.exit("%s is not refused: %r" % (arguments, answer))


odd = bytes(range(256)) * 300 + b"\0"
client.key_value_set("text/%d" % me, "from %d, été" % me)
if has("key_value_set_bytes"):
    client.key_value_set_bytes("bytes/%d" % me, odd + bytes([me]))
for other in range(count):
    assert client.blocking_key_value_get("text/%d" % other, 60000) == "from %d, été" % other
    if "key_value_set_bytes" in done:
        assert client.blocking_key_value_get_bytes("bytes/%d" % other, 60000) == odd + bytes([other])
client.wait_at_barrier("read", 60000)
refused("ALREADY_EXISTS", client.key_value_set, "text/%d" % me, "again")
newer = "allow_overwrite" in client.key_value_set.__doc__  # the oldest can neither delete nor wait for some
if newer:
    client.key_value_set("text/%d" % me, "again", allow_overwrite=True)
refused("DEADLINE_EXCEEDED", client.blocking_key_value_get, "nobody's", 200)
client.wait_at_barrier("written", 60000)
assert sorted(client.key_value_dir_get("text")) == [
    ("text/%d" % task, "again" if newer else "from %d, été" % task) for task in range(count)]
if "key_value_set_bytes" in done:
    assert sorted(client.key_value_dir_get_bytes("bytes")) == [("bytes/%d" % task, odd + bytes([task])) for task in range(count)]
if has("key_value_try_get"):
    assert client.key_value_try_get("text/0") == "again"
    refused("NOT_FOUND", client.key_value_try_get, "nobody's")
if has("key_value_increment"):
    client.key_value_increment("counter", me + 1)
    client.wait_at_barrier("counted", 60000)
    assert client.key_value_increment("counter", 0) == count * (count + 1) // 2
for length in (4096, 5303, 100000):  # JAX's own name a clique's devices, all of them
    directory = "%d/" % length + "d" * (length - 10)
    name = directory + "/n%03d"
    client.key_value_set(name % me, "long, from %d" % me)
    for other in range(count):
        assert client.blocking_key_value_get(name % other, 60000) == "long, from %d" % other
    client.wait_at_barrier("read/%d" % length, 60000)
    assert sorted(client.key_value_dir_get(directory)) == [(name % task, "long, from %d" % task) for task in range(count)]
    refused("ALREADY_EXISTS", client.key_value_set, name % me, "again")
    if "key_value_increment" in done:
        client.key_value_increment(directory + "s", me + 1)
    client.wait_at_barrier("listed/%d" % length + "b" * 5000, 60000)
    if "key_value_increment" in done:
        assert client.key_value_increment(directory + "s", 0) == count * (count + 1) // 2
    if newer and me == 0:
        client.key_value_delete(directory + "/")
    client.wait_at_barrier("long/%d" % length, 60000)
    assert not newer or client.key_value_dir_get(directory) == []
done.append("names of 100,000 bytes")
client.wait_at_barrier("looked", 60000)
if newer:
    if me == 0:
        client.key_value_delete("text/")
    client.wait_at_barrier("deleted", 60000)
    assert client.key_value_dir_get("text") == []
if newer and me > 0:
    client.wait_at_barrier("all but the first", 60000, list(range(1, count)))
if has("get_live_nodes"):
    assert sorted(client.get_live_nodes(list(range(count)))) == list(range(count))
client.wait_at_barrier("the end", 60000)
jax.distributed.shutdown()
print("process %d of %d, jax %s: %s" % (me, count, jax.__version__, ", ".join(done)), flush=True)
