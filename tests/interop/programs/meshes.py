"""DTensor of several clients, whose coordination service is not a client's.

    meshes.py ADDRESS CLIENTS CLIENT PORT...     the ports on which the clients serve each other
"""
import os
import sys

address, count, me, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
clients = ",".join("127.0.0.1:" + port for port in ports)
os.environ.update(DTENSOR_CLIENT_ID=str(me), DTENSOR_NUM_CLIENTS=str(count), DTENSOR_JOB_NAME="worker")
os.environ["DTENSOR_JOBS"] = clients + "," + address  # one more than there are clients: who serves them

import tensorflow as tf
from tensorflow.experimental import dtensor
from tensorflow.python.eager import context

context.context().configure_coordination_service(
    service_type="standalone", service_leader="/job:worker/replica:0/task:%d" % count,
    coordinated_jobs=[context.coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=count)],
    heartbeat_timeout_in_ms=10000, cluster_register_timeout_in_ms=60000, shutdown_barrier_timeout_in_ms=60000)
dtensor.initialize_accelerator_system("CPU", enable_coordination_service=False)  # it is configured
os.environ["DTENSOR_JOBS"] = clients
mesh = dtensor.create_distributed_mesh([("all", count)], device_type="CPU")
ones = dtensor.call_with_layout(tf.ones, dtensor.Layout(["all"], mesh), shape=(count * 2,))
assert float(tf.reduce_sum(ones)) == count * 2
dtensor.barrier(mesh)
print("worker %d of %d, tensorflow %s: a sum over a mesh, a barrier" % (me, count, tf.__version__), flush=True)
