"""Training by MultiWorkerMirroredStrategy: real steps on processors. Nothing but TF_CONFIG says who serves: the cluster's ps 0.

    trains.py ADDRESS WORKERS WORKER PORT...     the ports on which the workers serve each other
"""
import json
import os
import sys

address, count, me, ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": ["127.0.0.1:" + port for port in ports], "ps": [address]},
                                      "task": {"type": "worker", "index": me}})

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
assert strategy.num_replicas_in_sync == count
with strategy.scope():
    model = tf.Variable(tf.zeros([4]))


def learn(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(x, model) - y) ** 2)
    [gradient] = tape.gradient(loss, [model])
    model.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradient))
    return loss


@tf.function
def step(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(learn, args=(x, y)), axis=None)


wanted = tf.constant([1.0, -2.0, 3.0, 0.5])
x = tf.random.stateless_normal([64, 4], seed=[me, 7])  # each worker has its own
y = tf.linalg.matvec(x, wanted)
losses = [float(step(x, y)) for _ in range(50)]
assert losses[-1] < losses[0] / 1000, losses
print("worker %d of %d, tensorflow %s: loss %.3f, after 50 steps %.6f" % (me, count, tf.__version__, losses[0], losses[-1]),
      flush=True)
