"""Queues of a session's master: two clients' one, a runner's, one that blocks.

    graphs_queues.py TARGET
"""
import subprocess
import sys
import threading

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
target = sys.argv[1]
COUNT = 25


def shared():
    with tf.device("/job:ps/task:0"):
        return v1.FIFOQueue(2, [tf.int64, tf.string], shapes=[[], []], shared_name="shared")


def produce():
    queue = shared()
    number = v1.placeholder(tf.int64, [])
    put, close = queue.enqueue([number, tf.constant(b"a\0b")]), queue.close()
    with v1.Session(target) as session:
        for i in range(COUNT):
            session.run(put, {number: i})
        session.run(close)


def consume():
    v1.Session.reset(target)
    with tf.Graph().as_default():
        take = shared().dequeue()
        other = subprocess.Popen([sys.executable, __file__, target, "produce"])
        with v1.Session(target) as session:
            got = [session.run(take) for _ in range(COUNT)]
            try:
                session.run(take)
                raise AssertionError("a closed queue has more")
            except tf.errors.OutOfRangeError:
                pass
    assert got == [[i, b"a\0b"] for i in range(COUNT)] and other.wait() == 0, got


def runner():
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            count = v1.get_variable("count", initializer=0, use_resource=True)
            following = count.assign_add(1, read_value=True)
        queue = v1.FIFOQueue(4, tf.int32, shared_name="run")
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(following)]))
        take, close = queue.dequeue(), queue.close(cancel_pending_enqueues=True)
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            coordinator = v1.train.Coordinator()
            threads = v1.train.start_queue_runners(session, coord=coordinator)
            got = [int(session.run(take)) for _ in range(30)]
            coordinator.request_stop()
            session.run(close)
            coordinator.join(threads)
    assert got == list(range(1, 31)), got


def outcome(session, fetch, into, **more):
    try:
        into.append(session.run(fetch, **more))
    except tf.errors.OpError as e:
        into.append(e)


def blocked():
    with tf.Graph().as_default():
        queue = v1.FIFOQueue(1, tf.float32, shared_name="blocked")
        take, put, came = queue.dequeue(), queue.enqueue(np.float32(7)), []
        session = v1.Session(target)
        outcome(session, take, came, options=v1.RunOptions(timeout_in_ms=300))
        assert isinstance(came.pop(), tf.errors.DeadlineExceededError)
        thread = threading.Thread(target=outcome, args=(session, take, came))
        thread.start()
        session.run(put)
        thread.join()
        assert came == [7], came
        session.close()


if len(sys.argv) > 2:
    produce()
else:
    consume()
    runner()
    blocked()
    print("worker 0 of 1, tensorflow %s: queues of two clients, of a runner, and one that blocks" % tf.__version__, flush=True)
