"""Between-graph replication over a session's master: two clients, each with its own graph, and a ps's variables.

    graphs_between.py TARGET
"""
import os
import subprocess
import sys
import tempfile

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
STEPS = 120


def client(target, task, folder):
    cluster = tf.train.ClusterSpec({"ps": ["p:1"], "worker": ["w:1", "w:2"]})
    with v1.device(v1.train.replica_device_setter(worker_device="/job:worker/task:%d" % task, cluster=cluster)):
        steps = v1.train.get_or_create_global_step()
        point = v1.get_variable("point", [3], initializer=v1.zeros_initializer())
        wanted = v1.placeholder(tf.float32, [3])
        loss = tf.reduce_sum(tf.square(point - wanted))
        train = v1.train.AdagradOptimizer(0.5).minimize(loss, global_step=steps)
    config = v1.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
    count = 0
    with v1.train.MonitoredTrainingSession(
            master=target, is_chief=task == 0, checkpoint_dir=folder if task == 0 else None, config=config,
            hooks=[v1.train.StopAtStepHook(last_step=STEPS)], save_checkpoint_steps=40, log_step_count_steps=None,
            save_summaries_steps=None) as session:
        while not session.should_stop():
            left, _ = session.run([loss, train], {wanted: [1, -2, 3]})
            count += 1
    assert count > 0 and left < 0.1, (count, left)


if len(sys.argv) > 2:
    client(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    sys.exit()
with tempfile.TemporaryDirectory() as folder:
    clients = [subprocess.Popen([sys.executable, __file__, sys.argv[1], str(task), folder]) for task in range(2)]
    codes = [one.wait() for one in clients]
    last = v1.train.latest_checkpoint(folder)
    saved = v1.train.load_checkpoint(last)
    names = saved.get_variable_to_shape_map()
    steps = saved.get_tensor("global_step")
    assert codes == [0, 0], codes
    assert steps >= STEPS and {"point", "point/Adagrad", "global_step"} <= set(names), (last, steps, names)
print("worker 0 of 1, tensorflow %s: two clients have made %d steps together, saved in %s" % (
    tf.__version__, steps, os.path.basename(last)), flush=True)
