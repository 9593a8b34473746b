"""In-graph replication over a session's master: one graph over a ps and two workers.

    graphs_replicas.py TARGET
"""
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
target = sys.argv[1]
NAMES = ["/job:%s/replica:0/task:%d/device:CPU:0" % task for task in (("ps", 0), ("worker", 0), ("worker", 1))]


def devices():
    with v1.Session(target) as session:
        assert sorted(d.name for d in session.list_devices()) == NAMES, session.list_devices()


def train(resource):
    """The slope and the height of a line, by the gradients of two workers' halves; the last loss."""
    random = np.random.RandomState(7)
    at = random.rand(80, 1).astype(np.float32)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            slope = v1.get_variable("slope", [1, 1], initializer=v1.zeros_initializer(), use_resource=resource)
            height = v1.get_variable("height", [1], initializer=v1.zeros_initializer(), use_resource=resource)
        x, y = v1.placeholder(tf.float32, [None, 1]), v1.placeholder(tf.float32, [None, 1])
        halves = []
        for i in range(2):
            with tf.device("/job:worker/task:%d" % i):
                halves.append(tf.reduce_mean(tf.square(tf.matmul(x[i::2], slope) + height - y[i::2])))
        loss = (halves[0] + halves[1]) / 2
        step = v1.train.GradientDescentOptimizer(0.5).minimize(loss, colocate_gradients_with_ops=True)
        feed = {x: at, y: 3 * at - 1}
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            for _ in range(200):
                session.run(step, feed)
            got = session.run([slope, height, loss], feed)
    assert abs(got[0][0, 0] - 3) < 0.01 and abs(got[1][0] + 1) < 0.01, got
    return got[2]


def flow():
    """Branches and a loop of one task; and a loop the body of which names another."""
    with tf.Graph().as_default():
        n = v1.placeholder(tf.int32, [])
        with tf.device("/job:worker/task:1"):
            _, product = tf.while_loop(lambda i, a: i <= n, lambda i, a: (i + 1, a * i), [tf.constant(1), tf.constant(1)])
            size = tf.cond(product > 100, lambda: tf.constant("large"), lambda: tf.constant("small"))

        def body(i, a):
            with tf.device("/job:worker/task:1"):
                return i + 1, a + 2 * i
        with tf.device("/job:worker/task:0"):
            _, total = v1.while_loop(lambda i, a: i < 10, body, [tf.constant(0), tf.constant(0)])
        with v1.Session(target) as session:
            assert session.run([product, size], {n: 6}) == [720, b"large"]
            assert session.run([product, size], {n: 3}) == [6, b"small"]
            assert session.run(total) == 90


devices()
losses = [train(resource) for resource in (False, True)]
flow()
print("worker 0 of 1, tensorflow %s: devices, both kinds of variables, branches and loops; loss %.6f" % (
    tf.__version__, max(losses)), flush=True)
