#!/usr/bin/env python3
"""`muster session`, `muster status` and the metrics of a job that has a TensorFlow master."""
# timeout: 60
import json
import os
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernels_test import Graph
from workers import FLOAT, PATIENCE, Client, grpc, m

MUSTER = os.environ["MUSTER"]


class Test(unittest.TestCase):
    def setUp(self):
        self.job = "people-%d" % os.getpid()
        self.program = subprocess.Popen(
            [MUSTER, "serve", "--tf-master=127.0.0.1:0", "--job", self.job, "--metrics=127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.program.stdout.readline().strip()
        self.metrics = self.program.stderr.readline().split()[-1]
        self.client = Client(self)

    def tearDown(self):
        self.program.terminate()
        self.program.stdout.close()
        self.program.stderr.close()
        self.assertEqual(self.program.wait(), 0)

    def muster(self, *words, code=0):
        done = subprocess.run([MUSTER, *words, "--job", self.job], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def sessions(self):
        return json.loads(self.muster("session", "ls", "--json"))["sessions"]

    def test_sessions_are_listed_shown_and_closed(self):
        self.assertEqual(self.sessions(), [])
        self.assertEqual(self.muster("session", "ls"), "")
        made = Graph().const("a", [3]).node("q", "FIFOQueueV2", component_types=[FLOAT])
        made.node("get", "QueueDequeueV2", ["q"], component_types=[FLOAT])
        s = self.client.create(made.made)
        self.client.run(s, ["a:0"])
        self.assertEqual(self.client.run(s, ["b:0"]).status_code, 5)
        late = self.client.later("RunStep", self.client.request(s, ["get:0"]))
        end = time.monotonic() + PATIENCE
        while self.sessions()[0]["running"] == 0:  # heard of, though said later
            self.assertLess(time.monotonic(), end)
        is_ = self.sessions()[0]
        self.assertEqual((is_["session"], is_["state"], is_["tasks"], is_["nodes"], is_["version"], is_["steps"],
                          is_["running"], is_["connections"]), (s, "open", "/job:local/task:0", 3, 0, 2, 1, 1))
        self.assertIn("FetchOutputs node b:0: not found", is_["error"])
        self.assertRegex(is_["client"], r"^127\.0\.0\.1:\d+")
        self.assertIn(s + "  open", self.muster("session", "ls"))
        self.assertIn("session      %s\n" % s, self.muster("session", "show", s))
        self.assertEqual(json.loads(self.muster("session", "show", s, "--json"))["session"], s)
        self.assertIn("there is no session no", self.muster("session", "show", "no", code=3))
        self.assertIn("there is no session no", self.muster("session", "close", "no", code=3))
        self.assertEqual(self.muster("session", "close", s), "")
        reply = m.RunStepResponse.FromString(late.result())
        self.assertEqual((reply.status_code, reply.status_error_message),
                         (10, "the session was closed by 'muster session close'"))
        self.assertEqual(self.sessions(), [])

    def test_how_sessions_ended_is_counted(self):
        closed, reset = self.client.create(), self.client.create()
        self.client.call("CloseSession", session_handle=closed)
        self.client.call("Reset")
        with self.assertRaises(grpc.RpcError):
            self.client.call("CloseSession", session_handle=reset)
        wanted = "%s sessions 0 running 0 steps 0 failed 0 created 2 closed 1 reset 1 collected 0 executors 1 direct 0" % self.address
        end = time.monotonic() + PATIENCE
        while json.loads(self.muster("status", "--json"))["tf"] != wanted:  # it is noted once a second
            self.assertLess(time.monotonic(), end, self.muster("status"))
        self.assertIn("tf       " + wanted, self.muster("status"))
        with urllib.request.urlopen("http://%s/metrics" % self.metrics.split("//")[-1].rstrip("/metrics")) as page:
            self.assertIn('muster_session{count="closed"} 1\n', page.read().decode())

    def test_a_job_without_a_master_says_so(self):
        done = subprocess.run([MUSTER, "run", "-n", "1", "--", "sh", "-c", MUSTER + " session ls --job $MUSTER_JOB"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("the job has no TensorFlow master here: see --tf-master in muster-run(1)", done.stderr)


if __name__ == "__main__":
    unittest.main()
