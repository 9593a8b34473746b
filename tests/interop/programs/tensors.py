"""An ordinary TensorFlow program of several workers, whose coordination service is a task of the cluster by itself.

    tensors.py ADDRESS WORKERS WORKER PORT...     the ports on which the workers serve each other
"""
import sys

import tensorflow as tf
from tensorflow.python.eager import context

address, count, me, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
cluster = tf.train.ClusterSpec({"worker": ["127.0.0.1:" + port for port in ports], "coordinator": [address]})
jobs = [context.coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=count)]
context.context().configure_coordination_service(
    service_type="standalone", service_leader="/job:coordinator/replica:0/task:0", coordinated_jobs=jobs,
    heartbeat_timeout_in_ms=10000, cluster_register_timeout_in_ms=60000, shutdown_barrier_timeout_in_ms=60000)
definition = tf.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="worker", task_index=me, protocol="grpc",
                                default_session_config=context.context().config)
context.context().enable_collective_ops(definition)
context.context().ensure_initialized()
context.context().set_config_key_value("k/%d" % me, "from %d" % me)
for other in range(count):
    assert context.context().get_config_key_value("k/%d" % other) == "from %d" % other
devices = [device.name for device in tf.config.list_logical_devices()]
print("worker %d of %d, tensorflow %s: keys; devices %s" % (me, count, tf.__version__, devices), flush=True)
