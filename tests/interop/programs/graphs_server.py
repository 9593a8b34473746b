"""A server of TensorFlow's own, which a session's master drives: graphs_server.py JOB TASK PS WORKER WORKER"""
import sys

import tensorflow as tf

tf.distribute.Server({"ps": sys.argv[3:4], "worker": sys.argv[4:]}, job_name=sys.argv[1], task_index=int(sys.argv[2])).join()
