"""Much of everything over a session's master: 120 MB fed and fetched, all types, what is saved, threads, a trace.

    graphs_large.py TARGET
"""
import os
import sys
import tempfile
import threading

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
target = sys.argv[1]
MANY = 30 << 20
TYPES = (tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64, tf.float16, tf.bfloat16,
         tf.float32, tf.float64, tf.complex64, tf.complex128)


def large():
    numbers = np.arange(MANY, dtype=np.float32)
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None])
        with tf.device("/job:worker/task:1"):
            y = x + 1
        kept = tf.constant(numbers[:25 << 20])
        with v1.Session(target) as session:
            got = session.run(y, {x: numbers})
            assert got.nbytes == 120 << 20 and np.array_equal(got, numbers + 1)
            assert session.run(kept[-1]) == numbers[(25 << 20) - 1]


def types():
    with tf.Graph().as_default():
        for kind in TYPES:
            x = v1.placeholder(kind, [None, 2])
            some = np.array([[0, 1], [1, 1]]).astype(kind.as_numpy_dtype)
            with v1.Session(target) as session:
                assert np.array_equal(session.run(tf.identity(x), {x: some}), some), kind
        x = v1.placeholder(tf.string, [None])
        words = [b"", b"a\0b", "\u00fc\u20ac".encode(), b"x" * 100000]
        with v1.Session(target) as session:
            assert list(session.run(tf.identity(x), {x: np.array(words, object)})) == words
            assert session.run(tf.zeros([0, 3])).shape == (0, 3)


def saved():
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        with tf.device("/job:ps/task:0"):
            a = v1.get_variable("a", [1000], initializer=v1.ones_initializer(), use_resource=True)
            b = v1.get_variable("b", [3], initializer=v1.zeros_initializer(), use_resource=False)
        saver = v1.train.Saver()
        more, set_b = a.assign_add(tf.ones([1000]), read_value=False), b.assign([1, 2, 3])
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            session.run([more, set_b])
            path = saver.save(session, os.path.join(folder, "s"), global_step=3)
        v1.Session.reset(target)
        with v1.Session(target) as session:
            saver.restore(session, path)
            assert (session.run(a) == 2).all() and list(session.run(b)) == [1, 2, 3]
            threads = [threading.Thread(target=lambda: [session.run(more) for _ in range(25)]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (session.run(a) == 202).all(), session.run(a)
            told = v1.RunMetadata()
            session.run(a + 1, options=v1.RunOptions(trace_level=3, output_partition_graphs=True), run_metadata=told)
            assert told.step_stats.dev_stats and told.partition_graphs


large()
types()
saved()
print("worker 0 of 1, tensorflow %s: 120 MB there and back, %d types and strings, a checkpoint, 8 threads, a trace" % (
    tf.__version__, len(TYPES)), flush=True)
