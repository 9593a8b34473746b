/*
 * tests/crash/ops_topology.c: operations of the exchange of topologies: the first who comes, and the last, who makes
 * the outcome. The world's fourth task is spoken for by an observer.
 */
#include <stdlib.h>
#include <string.h>

#include "ops_kv.h"
#include "topology/exchange.h"

/* Each has two devices, and a boot id of its own. */
static uint8_t locals[TASKS][13] = {
    {0x08, 0, 0x12, 1, 'a', 0x1a, 2, 0x08, 0, 0x1a, 2, 0x08, 1},
    {0x08, 1, 0x12, 1, 'b', 0x1a, 2, 0x08, 0, 0x1a, 2, 0x08, 1},
    {0x08, 2, 0x12, 1, 'a', 0x1a, 2, 0x08, 0, 0x1a, 2, 0x08, 1},
    {0x08, 3, 0x12, 1, 'c', 0x1a, 2, 0x08, 0, 0x1a, 2, 0x08, 1},
};

/* One look, no waiting. What is delivered is right. */
static enum muster_status exchange(int holder, int32_t task)
{
    const void *all[TASKS] = {locals[0], locals[1], locals[2], locals[3]};
    const size_t sizes[TASKS] = {sizeof locals[0], sizeof locals[1], sizeof locals[2], sizeof locals[3]};
    void *got, *wanted;
    size_t size, size_wanted;
    enum muster_status status =
        mu_topology_exchange(world.m[holder], task, 1 + (uint64_t)task, "crash", MUSTER_FORM_XLA, locals[task],
                             sizeof locals[task], 1, &got, &size);

    if (status)
        return status;
    if (muster_topology_global(MUSTER_FORM_XLA, all, sizes, TASKS, &wanted, &size_wanted) || size != size_wanted ||
        memcmp(got, wanted, size) != 0)
        crash_bad("the global topology is another one");
    free(got);
    free(wanted);
    return MUSTER_OK;
}

void topology_setup_others(const struct op *op)
{
    (void)op;
    exchange(PEER, PEER);
    exchange(THIRD, THIRD);
    exchange(SPARE, 3);
}

void topology_exchange(const struct op *op)
{
    (void)op;
    board->outcome[0] = (struct outcome){exchange(VICTIM, VICTIM), 0, 0};
}

void topology_interfere(const struct op *op)
{
    (void)op;
    board->outcome[1] = (struct outcome){exchange(PEER, PEER), 0, 0};
}

/* All have it, or all have the name of the dead one. */
void topology_after(const struct op *op)
{
    enum muster_status a = exchange(PEER, PEER), b = exchange(THIRD, THIRD), c = exchange(PEER, PEER);

    (void)op;
    if (a != b || b != c || (a && a != MUSTER_UNAVAILABLE))
        crash_bad("one exchange gave %s, %s and %s", muster_status_name(a), muster_status_name(b),
                  muster_status_name(c));
    if (a && !strstr(muster_last_error(), "task 0"))
        crash_bad("the dead one is not named: %s", muster_last_error());
}
