#!/usr/bin/python3
"""Tasks of old_clients_test.sh, which speak xla.DistributedRuntimeService: twice.py FILE.

Task 1 connects twice, as a client that was started again does: the newer one stays, and the older is told so. Then FILE is there, and
task 0 connects.
"""
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rpc"))
from clients import MINUTE, Client, Refused, runtime  # noqa: E402

go, me = sys.argv[1], int(os.environ["RANK"])
client = Client(os.environ["MUSTER_GRPC_ADDRESS"], runtime)


def connect(number, node=me):
    return client.begin("Connect", protocol_version=3, timeout_milliseconds=MINUTE * 1000, node_id=node, client_id=number)


def settle():
    """A call that is refused at once: those before it are there."""
    try:
        connect(1, node=-1).answer()
    except Refused as refused:
        assert refused.code == "INVALID_ARGUMENT", refused


if me == 1:
    settle()
    older = connect(11)
    settle()
    newer = connect(12)
    try:
        older.answer()
    except Refused as refused:
        print("the older: %s: %s" % (refused.code, refused.text), flush=True)
    open(go, "w").close()
else:
    end = time.monotonic() + MINUTE
    while not os.path.exists(go) and time.monotonic() < end:
        time.sleep(0.02)  # sleep: between two looks
    newer = connect(13)
session = newer.answer().session_id
client.Shutdown(session_id=session)
print("connected and shut down", flush=True)
client.close()
