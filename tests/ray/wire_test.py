#!/usr/bin/env python3
"""`muster serve --ray` before drivers, workers and object stores of Ray's protocol of 2016, over Python's gRPC."""
# timeout: 240
import os
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import Driver, Net, Scheduler, Store, Worker, grpc, m, wait_for

FUNCTIONS = {
    "same": lambda w, x: x,
    "two": lambda w: [b"1", b"2"],
    "none": lambda w: None,
    "fail": lambda w: 1 // 0,
    "chain": lambda w: w.submit("same", b"end")[0],
    "chain2": lambda w: w.submit("chain")[0],
    "nested": lambda w: nested(w),
}
RETURNS = [("same", 1), ("two", 2), ("none", 0), ("fail", 1), ("chain", 1), ("chain2", 1), ("nested", 1)]


def nested(worker):
    (inner,) = worker.submit("same", b"inner")
    value = worker.get(inner)
    worker.drop(inner)
    return b"outer " + value


class Wire(unittest.TestCase):
    def begin(self, stores=1, workers=2, functions=FUNCTIONS):
        self.net = Net()
        self.addCleanup(self.net.program.kill)
        for _ in range(stores):
            self.net.store()
        self.driver = Driver(self.net)
        for name, returns in RETURNS:
            self.driver.export(name, returns)
        self.workers = [Worker(self.net, functions) for _ in range(workers)]
        wait_for("all functions are registered", lambda: self.registered() == {name: list(
            range(1, 1 + workers)) for name, _ in RETURNS} if workers else True)

    def registered(self):
        return {name: list(e.workerid) for name, e in self.driver.s.SchedulerInfo().functions.items()}

    def refused(self, code, call, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            call(**fields)
        self.assertEqual(caught.exception.code().name, code, caught.exception.details())
        return caught.exception.details()

    def counted(self, expected, *ids):
        wait_for("counts %r of %r" % (expected, ids), lambda: self.driver.s.counts(*ids) == expected)

    def test_values_tasks_aliases_and_what_is_freed(self):
        self.begin()
        d = self.driver
        x = d.put(b"x" * 100000)
        self.assertEqual(d.get(x), b"x" * 100000)
        (same,) = d.submit("same", x)
        self.assertEqual(d.get(same), b"x" * 100000)
        self.counted([1, 1], x, same)
        d.drop(x)
        self.counted([-1, 1], x, same)
        (outer,) = d.submit("chain2")
        self.assertEqual(d.get(outer), b"end")
        self.counted([1, 0, 0], outer, outer + 1, outer + 2)
        d.drop(outer)
        self.counted([-1, -1, -1], outer, outer + 1, outer + 2)
        one, two = d.submit("two")
        inside = d.put(b"two of them")
        d.own(one, two)
        d.s.AddContainedObjectIDs(objectid=inside, contained=[one, two])
        self.assertEqual((d.get(one), d.get(two)), (b"1", b"2"))
        self.counted([2, 2, 1], one, two, inside)
        d.drop(one, two)
        d.drop(inside)
        self.counted([-1, -1, -1], one, two, inside)
        (result,) = d.submit("nested")
        self.assertEqual(d.get(result), b"outer inner")
        d.drop(result, same)
        wait_for("everything is freed", lambda: set(d.s.counts(*range(len(d.s.SchedulerInfo().counts)))) == {-1})
        wait_for("the store has nothing but names", lambda: len(d.store.values) == len(d.store.aliases))
        self.assertEqual(self.net.end(), "muster serve: SIGTERM: ending the job\n")

    def test_a_task_that_fails_says_why(self):
        self.begin()
        d = self.driver
        failed = [d.submit("fail")[0] for _ in range(2)]
        self.assertEqual(d.submit("none"), [])
        for one in failed:
            self.assertTrue(d.get(one).startswith(b"error:fail: "))
        wait_for("all have ended", lambda: len(d.s.TaskInfo().failed) + d.s.TaskInfo().succeeded == 3)
        info = d.s.TaskInfo()
        self.assertEqual((len(info.running), info.succeeded), (0, 1))
        for status in info.failed:
            self.assertIn("division", status.error)
            self.assertEqual(status.function, "fail")
            self.assertIn(status.worker, [w.address for w in self.workers])
        self.assertEqual(len({status.operation for status in info.failed}), 2)
        graph = d.s.SchedulerInfo().graph.operation
        self.assertEqual([graph[s.operation].task.name for s in info.failed], ["fail", "fail"])

    def test_objects_cross_stores_once(self):
        self.begin(stores=2)
        first, second = self.net.stores
        one, two = Driver(self.net, first), Driver(self.net, second)
        self.assertIs(one.store, first)
        x, empty = one.put(b"y" * 50000), one.put(b"")
        self.assertEqual((two.get(x), two.get(empty), two.get(x)), (b"y" * 50000, b"", b"y" * 50000))
        self.assertEqual(second.pulled, [x, empty])
        alias = one.s.PutObj(objectid=one.id).objectid
        one.own(alias)
        one.s.RequestObj(first=two.id, second=alias)
        one.s.AliasObjectIDs(first=alias, second=x)
        self.assertEqual(second.read(alias), b"y" * 50000)
        self.assertEqual((first.aliases, second.aliases), ([], [(alias, x)]))
        one.drop(x)
        self.counted([1, 0], alias, x)
        one.drop(alias)
        one.drop(empty)
        self.counted([-1, -1, -1], alias, x, empty)
        for store in self.net.stores:
            wait_for("it is freed there", lambda: sorted(store.freed) == [x, empty])

    def test_an_invalid_request_is_refused_and_nothing_ends(self):
        self.begin(workers=1)
        s, d = self.driver.s, self.driver
        x = d.put(b"x")
        self.refused("NOT_FOUND", s.RequestObj, first=d.id, second=x + 1)
        self.refused("NOT_FOUND", s.RequestObj, first=99, second=x)
        self.refused("NOT_FOUND", s.ObjReady, first=x, second=9)
        self.refused("NOT_FOUND", s.DecrementRefCount, objectid=[x, 1 << 40])
        self.refused("FAILED_PRECONDITION", s.DecrementRefCount, objectid=[x, x])
        self.refused("INVALID_ARGUMENT", s.DecrementRefCount)
        self.refused("INVALID_ARGUMENT", s.IncrementRefCount)
        self.refused("INVALID_ARGUMENT", s.AliasObjectIDs, first=x, second=x)
        self.refused("INVALID_ARGUMENT", s.SubmitTask, workerid=d.id)
        self.refused("INVALID_ARGUMENT", s.RegisterObjStore, address="nowhere")
        self.refused("INVALID_ARGUMENT", s.RegisterWorker, ip="")
        self.refused("FAILED_PRECONDITION", s.ReadyForNewTask, workerid=d.id)
        self.refused("FAILED_PRECONDITION", s.ReadyForNewTask, workerid=1, outcome={"succeeded": True})
        self.assertFalse(s.SubmitTask(workerid=d.id, task={"name": "unheard"}).function_registered)
        s.IncrementCount(objectid=x)
        self.counted([2], x)
        s.DecrementCount(objectid=x)
        s.DecrementCount(objectid=x)
        self.counted([-1], x)
        self.refused("FAILED_PRECONDITION", s.IncrementRefCount, objectid=[x])
        self.refused("FAILED_PRECONDITION", s.RequestObj, first=d.id, second=x)
        (result,) = d.submit("same", b"still there")
        self.assertEqual(d.get(result), b"still there")

    def test_a_worker_that_registers_waits_for_its_store(self):
        net = Net()
        self.addCleanup(net.program.kill)
        replies, s = [], Scheduler(net.address)
        waits = threading.Thread(target=lambda: replies.append(s.RegisterWorker(ip=net.ip, is_driver=True)))
        waits.start()
        s.TaskInfo()
        store = net.store()
        waits.join()
        self.assertEqual(replies[0].store_address, store.address)
        self.assertEqual(replies[0].address, net.ip + ":40000")
        named = threading.Thread(target=lambda: replies.append(s.RegisterWorker(ip=net.ip, store=net.ip + ":1")))
        named.start()
        self.refused("UNAVAILABLE", s.RegisterWorker, ip="127.0.0.99")
        named.join()
        self.assertEqual(replies[1].store_address, store.address)  # the host's, as the named one has not come

    def test_exports_come_once_and_before_the_answer(self):
        self.begin(workers=1)
        d = self.driver
        d.s.ExportReusableVariable(what={"data": b"variable"})
        self.assertEqual(self.workers[0].imports[-1], b"variable")
        late = Worker(self.net, FUNCTIONS, begin=False)
        d.export("same", 1)
        late.begin()
        self.assertEqual(late.imports, self.workers[0].imports)
        self.assertEqual(len(late.imports), len(RETURNS) + 2)

    def test_a_worker_that_imports_slowly_is_waited_for(self):
        class Slow(Worker):
            def ImportFunction(self, q):
                threading.Event().wait(0.5)
                super().ImportFunction(q)
        self.begin(workers=0)
        slow = Slow(self.net, FUNCTIONS)
        self.assertEqual(len(slow.imports), len(RETURNS))

    def test_a_store_that_does_not_listen_is_asked_for_nothing_but_is_there(self):
        net = Net()
        self.addCleanup(net.program.kill)
        s = Scheduler(net.address)
        store = s.RegisterObjStore(address=net.ip + ":1").objectid
        driver = s.RegisterWorker(ip=net.ip, is_driver=True).workerid
        one, two = [s.PutObj(objectid=driver).objectid for _ in range(2)]
        s.IncrementRefCount(objectid=[one, two])
        for each in one, two:
            s.ObjReady(first=each, second=store)
        s.DecrementRefCount(objectid=[one])
        self.refused("UNAVAILABLE", s.RegisterWorker, ip="127.0.0.99")  # 3 s: more than a peer has to be reached
        s.RequestObj(first=driver, second=two)
        self.assertEqual(net.end(), "muster serve: SIGTERM: ending the job\n")

    def test_a_worker_that_was_never_called_is_told_to_end(self):
        net = Net()
        self.addCleanup(net.program.kill)
        net.store()
        worker = Worker(net, FUNCTIONS)
        self.assertTrue(worker.s.KillWorkers().success)
        self.assertTrue(worker.died.wait(60))

    def test_a_worker_that_does_not_answer_harms_only_itself(self):
        class Stuck(Worker):
            is_stuck = threading.Event()

            def ImportFunction(self, q):
                self.is_stuck.wait(200)
        self.begin(workers=1)
        stuck = Stuck(self.net, FUNCTIONS)
        for _ in range(100):  # the first one waits for it, the others do not
            self.driver.export("same", 1)
        self.assertEqual(len(self.workers[0].imports), len(RETURNS) + 100)
        for _ in range(3):
            (result,) = self.driver.submit("same", b"goes on")
            self.assertEqual(self.driver.get(result), b"goes on")
        stuck.is_stuck.set()

    def test_a_worker_that_ends_fails_its_task_alone(self):
        hold, begun = threading.Event(), threading.Event()

        def held(worker, *_):
            begun.set()
            hold.wait(200)
            return b"too late"
        self.begin(workers=0, functions=None)
        RETURNS_BEFORE = len(RETURNS)
        one = Worker(self.net, {"same": held})
        self.assertEqual(len(one.imports), RETURNS_BEFORE)
        wait_for("it has its functions", lambda: len(self.registered()) == RETURNS_BEFORE)
        d = self.driver
        (result,) = d.submit("same", b"")
        (needs,) = d.submit("same", result)
        begun.wait(200)
        one.leave()
        wait_for("both have failed", lambda: len(d.s.TaskInfo().failed) == 2)
        self.assertIn("is gone", d.s.TaskInfo().failed[0].error)
        self.assertIn("is gone", self.refused("DATA_LOSS", d.s.RequestObj, first=d.id, second=result))
        self.refused("DATA_LOSS", d.s.RequestObj, first=d.id, second=needs)
        self.refused("FAILED_PRECONDITION", d.s.ReadyForNewTask, workerid=one.id)
        d.drop(result, needs)
        self.counted([-1, -1], result, needs)
        Worker(self.net, FUNCTIONS)
        (again,) = d.submit("same", b"and on")
        self.assertEqual(d.get(again), b"and on")
        hold.set()
        self.assertIn("worker 1 at %s:40001 is gone, and its task has failed" % self.net.ip, self.net.end())

    def test_a_worker_that_is_idle_and_ends_costs_no_task(self):
        self.begin(workers=2)
        self.workers[0].leave()
        for i in range(4):
            (result,) = self.driver.submit("same", b"%d" % i)
            self.assertEqual(self.driver.get(result), b"%d" % i)
        self.assertEqual(len(self.driver.s.TaskInfo().failed), 0)

    def test_workers_are_killed_when_idle_and_come_anew(self):
        hold = threading.Event()
        self.begin(workers=1, functions=dict(FUNCTIONS, none=lambda w: hold.wait(200) and None))
        d = self.driver
        d.submit("none")
        self.assertFalse(d.s.KillWorkers().success)
        hold.set()
        wait_for("it is idle", lambda: d.s.SchedulerInfo().idle == [1])
        self.assertTrue(d.s.KillWorkers().success)
        self.assertTrue(self.workers[0].died.wait(60))
        self.assertEqual(self.registered(), {})
        d.export("same", 1)
        new = Worker(self.net, FUNCTIONS)
        self.assertEqual(len(new.imports), len(RETURNS) + 1)
        wait_for("it has its functions", lambda: "same" in self.registered())
        (result,) = d.submit("same", b"anew")
        self.assertEqual(d.get(result), b"anew")

    def test_a_store_that_ends_loses_what_only_it_had(self):
        self.begin(stores=2, workers=0)
        first, second = self.net.stores
        one, two = Driver(self.net, first), Driver(self.net, second)
        both, lost = one.put(b"both"), one.put(b"lost")
        self.assertEqual(two.get(both), b"both")
        first.leave()
        wait_for("it is given up", lambda: self.is_lost(two, lost))
        self.assertEqual(two.get(both), b"both")

    def is_lost(self, driver, object_id):
        try:
            driver.s.RequestObj(first=driver.id, second=object_id)
        except grpc.RpcError as error:
            return error.code().name == "DATA_LOSS"
        return False

    def test_a_job_has_it_beside_its_tasks(self):
        ip = "127.1.%d.%d" % divmod(os.getpid() % 60000, 250)
        job = 'while ! muster status --job "$MUSTER_JOB" | grep "^ray "; do :; done'
        path = os.path.dirname(os.environ["MUSTER"]) + ":" + os.environ["PATH"]
        out = subprocess.run([os.environ["MUSTER"], "run", "--ray=%s:0" % ip, "--", "sh", "-c", job],
                             env=dict(os.environ, PATH=path), stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertRegex(out, r"^ray      %s:\d+ drivers 0 workers 0 stores 0 queued 0 " % re.escape(ip))

    def test_a_thousand_tasks(self):
        self.begin()
        d = self.driver
        results = [d.submit("same", b"%d" % i)[0] for i in range(1000)]
        self.assertEqual([d.get(r) for r in results], [b"%d" % i for i in range(1000)])
        d.drop(*results)
        wait_for("all are freed", lambda: set(d.s.counts(*results)) == {-1})
        self.assertEqual(d.s.TaskInfo().succeeded, 1000)


if __name__ == "__main__":
    unittest.main()
