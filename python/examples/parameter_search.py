# %% [markdown]
# # A search for parameters, by several processes that may fail
#
# Every process of the job takes parameters from one list, tries them, and tells the others what it found. The list, the
# best so far and the records are keys of the job; nobody is the server, and nothing is polled. Run it as
#
#     muster run -n 4 -- python parameter_search.py
#
# or cell by cell in a notebook: outside of a launcher it is a job of one process.

# %%
import asyncio
import json
import os

import muster

if "MUSTER_JOB" in os.environ:
    task = muster.join()
else:
    task = muster.join("parameter-search-%d" % os.getpid(), task=0, num_tasks=1)
first = task.id == 0


def say(text):
    """The first process speaks for all."""
    if first:
        print(text, flush=True)


say("%d processes" % task.num_tasks)

# %% [markdown]
# ## The work
#
# What is tried: the minimum of a function of two parameters. The first process writes the list once; the others wait
# for it, and would hear of its death instead.

# %%
GRID = [(x / 4, y / 4) for x in range(-8, 9) for y in range(-8, 9)]


def loss(x, y):
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2  # Rosenbrock's valley: least at (1, 1)


if first:
    task.kv["search/grid"] = json.dumps(GRID)
grid = json.loads(task.kv.get("search/grid", wait=60))
say("%d points" % len(grid))

# %% [markdown]
# ## Each takes the next point
#
# A counter deals them out: whoever is faster takes more. The best is replaced only by a better one, by
# compare-and-set, so that no update is lost whoever comes in between.


# %%
def offer(value, point):
    """Make it the best, if it is."""
    while True:
        try:
            entry = task.kv.read("search/best")
            version, best = entry.version, json.loads(entry.value)[0]
        except muster.NotFound:
            version, best = 0, float("inf")
        if value >= best:
            return
        try:
            task.kv.compare_and_set("search/best", version, json.dumps([value, point]))
            return
        except muster.Aborted:
            continue  # another was first: look again


tried = 0
while True:
    number = task.kv.increment("search/dealt") - 1
    if number >= len(grid):
        break
    x, y = grid[number]
    offer(loss(x, y), [x, y])
    tried += 1

task.kv["search/tried/%d" % task.id] = str(tried)
task.barrier("tried", timeout=120)
best, point = json.loads(task.kv["search/best"])
total = sum(int(v) for v in task.kv.directory("search/tried").values())
say("tried %d points; the best is %r with %g" % (total, tuple(point), best))
assert total == len(grid) and point == [1.0, 1.0] and best == 0

# %% [markdown]
# ## Together, step by step
#
# Now all refine one point by descent, each with the share of the gradient that is its own, as data-parallel training
# does. A group is the fast barrier, and adds numbers up: the same bits in every process.

# %%
SAMPLES = 64


def gradient(w, sample):
    """Of (w - sample)^2: the mean of the samples is the best w."""
    return 2 * (w - sample)


with task.group("descent", timeout=120) as group:
    mine = range(group.rank, SAMPLES, group.size)
    w = 0.0
    for step in range(50):
        w -= 0.1 * group.allreduce(sum(gradient(w, s) for s in mine)) / SAMPLES
    everyone = group.allgather(repr(w).encode())
    assert len(set(everyone)) == 1, everyone
say("after 50 steps w is %.3f in every process; the mean of the samples is %.3f" % (w, (SAMPLES - 1) / 2))
assert abs(w - (SAMPLES - 1) / 2) < 0.01

# %% [markdown]
# ## Many waits at once
#
# With asyncio a process waits for several keys, and for news of failures, at the same time.


# %%
async def results():
    failed = asyncio.ensure_future(task.wait_error_async())
    keys = [asyncio.ensure_future(task.kv.wait("search/tried/%d" % i, timeout=60)) for i in range(task.num_tasks)]
    values = await asyncio.gather(*keys)
    failed.cancel()
    return [int(v) for v in values]


# A notebook has a running loop: there it is `shares = await results()`.
shares = asyncio.run(results())
say("all have told their share: %s" % (sum(shares) == len(grid)))
assert sum(shares) == len(grid)

# %% [markdown]
# ## The end
#
# All leave together, so that the last words are read by all.

# %%
task.barrier("end", timeout=120)
task.leave()
