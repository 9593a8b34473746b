"""A pytree of JAX, saved in memory after each step; task 1 kills itself once."""
import os
import signal

import jax
import jax.numpy as np

import muster

with muster.join() as task, muster.Checkpoint("model") as checkpoint:
    saved = checkpoint.load()
    key = jax.random.PRNGKey(task.id)
    state = saved.state if saved else {"weights": [jax.random.normal(key, (5, 3)), np.zeros(3, np.bfloat16)], "key": key}
    step = saved.step if saved else 0
    print("attempt %s from step %d" % (os.environ["MUSTER_ATTEMPT"], step), flush=True)
    while step < 8:
        step += 1
        key, part = jax.random.split(state["key"])
        slope = jax.grad(lambda weights: ((jax.random.normal(part, (4, 5)) @ weights[0] + weights[1]) ** 2).mean())(state["weights"])
        if step == 5 and task.id == 1 and os.environ["MUSTER_ATTEMPT"] == "0" and "KILLED" in os.environ:
            checkpoint.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        state = {"weights": jax.tree_util.tree_map(lambda one, by: one - by, state["weights"], slope), "key": key}
        checkpoint.save(state, step)
        print("process %d of 2: step %d %s %s" % (task.id, step, float(state["weights"][0].sum()).hex(),
                                                  float(state["weights"][1].sum()).hex()), flush=True)
