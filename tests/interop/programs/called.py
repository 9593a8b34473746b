"""A worker that does not ask for errors waits for its peer in a collective operation, and the peer is killed: nothing but the
service can tell it, for no connection to the peer is open yet, and its heartbeats are minutes apart.

    called.py PORT...     under muster run --grpc, which knows by --grpc-workers or TF_CONFIG where the workers serve
"""
import os
import signal
import sys

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import collective_ops

me, count, ports = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1:]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
cluster = tf.train.ClusterSpec({"worker": ["127.0.0.1:" + port for port in ports],
                                "coordinator": [os.environ["MUSTER_GRPC_ADDRESS"]]})
jobs = [context.coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=count)]
context.context().configure_coordination_service(
    service_type="standalone", service_leader="/job:coordinator/replica:0/task:0", coordinated_jobs=jobs,
    heartbeat_timeout_in_ms=600000, cluster_register_timeout_in_ms=60000, shutdown_barrier_timeout_in_ms=60000)
definition = tf.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="worker", task_index=me, protocol="grpc",
                                default_session_config=context.context().config)
context.context().enable_collective_ops(definition)
context.context().ensure_initialized()
if me == 1:
    context.context().get_config_key_value("waits")
    os.kill(os.getpid(), signal.SIGKILL)
context.context().set_config_key_value("waits", "worker 0")
try:
    collective_ops.all_reduce_v2(tf.ones([4]), group_size=2, group_key=7, instance_key=7)
except tf.errors.OpError as error:
    print("worker 0 of %d, tensorflow %s: its operation ended: %s" % (count, tf.__version__, error.message), flush=True)
os._exit(0)  # its end would wait for the peer
