/*
 * tests/barrier/named.c: named barriers as the players of the stage use them.
 */
#include "named.h"

#include <stdio.h>
#include <string.h>

struct reply named_wait(int player, const char *id, uint64_t counter, uint64_t timeout_ns, uint64_t patience_ns)
{
    struct barrier_act a = {.counter = counter, .timeout_ns = timeout_ns, .patience_ns = patience_ns};

    snprintf(a.id, sizeof a.id, "%s", id);
    return stage_do(player, act_barrier, &a, sizeof a);
}

void named_pass(const char *id, uint64_t counter, int tasks)
{
    for (int i = 0; i < tasks; i++)
        tell_barrier(i, id, counter);
    for (int i = 0; i < tasks; i++)
        assert_status(stage_hear(i), MUSTER_OK);
}

static int find(void *arg, const struct muster_barrier_info *info)
{
    struct muster_barrier_info *wanted = arg;

    if (strcmp(info->id, wanted->id) != 0)
        return 0;
    *wanted = *info;
    return 1;
}

struct muster_barrier_info named_info(const char *id)
{
    struct muster_barrier_info i = {.counter = 4711};

    snprintf(i.id, sizeof i.id, "%s", id);
    assert_int_equal(muster_barrier_list(stage_observer, find, &i), MUSTER_OK);
    assert_int_not_equal(i.counter, 4711);
    return i;
}
