/*
 * rpc/desk_watch.c: the tasks' states, now or when they change. The version is that of the job's state, which counts
 * every change of any task. Those who wait are answered when a look at the tasks is over, all with one listing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/desk_private.h"

enum { STATES_MAX = 65536 }; /* that one call may ask for */

/* All tasks. NULL: a sentence says why. */
static struct mu_blob *list(struct mu_desk *desk, uint64_t *ret_version)
{
    struct mu_blob *s = mu_blob_new(desk->num_tasks * sizeof(struct muster_task_info));
    size_t count;

    if (!s)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list %u tasks", desk->num_tasks);
    if (!s || !muster_task_list(desk->m, (struct muster_task_info *)s->bytes, desk->num_tasks, &count, ret_version))
        return s;
    mu_blob_drop(s);
    return NULL;
}

static void point(struct mu_ask *ask, const struct mu_desk *desk, const struct mu_blob *s, uint64_t version)
{
    ask->tasks = (const struct muster_task_info *)s->bytes;
    ask->num_tasks = desk->num_tasks;
    ask->version = (int64_t)version;
}

void mu_watchers_look(struct mu_desk *desk)
{
    struct mu_blob *s = NULL;
    uint64_t version = 0;

    for (struct mu_parked *p = desk->watchers.first, *next; p; p = next) {
        next = p->next;
        if (p->version >= desk->version)
            continue;
        s = s ? s : list(desk, &version);
        if (!s)
            return; /* no memory: the next look tries again */
        mu_parked_answer(desk, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
        p->shared = mu_blob_hold(s);
        point(p->ask, desk, s, version);
    }
    mu_blob_drop(s);
}

static void answer_list(struct mu_desk *desk, struct mu_ask *ask)
{
    uint64_t version;
    struct mu_blob *s = list(desk, &version);

    if (s) {
        point(ask, desk, s, version);
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    } else {
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
    }
    mu_blob_drop(s);
}

void mu_desk_watch(struct mu_desk *desk, struct mu_ask *ask, int64_t version)
{
    struct mu_parked *p;

    if (mu_desk_refuses(desk, ask))
        return;
    mu_desk_look_tasks(desk);
    if (version > (int64_t)desk->version) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "version %" PRId64 " is from the future: the job is at %" PRIu64, version,
                desk->version);
        mu_desk_fail(ask, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
    } else if (version < (int64_t)desk->version) {
        answer_list(desk, ask);
    } else {
        p = mu_desk_park(desk, ask, &desk->watchers, 0);
        if (p)
            p->version = desk->version;
        else
            mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
    }
    mu_desk_deliver(desk);
}

void mu_watchers_stop(struct mu_desk *desk)
{
    while (desk->watchers.first) {
        struct mu_parked *p = desk->watchers.first;

        mu_parked_answer(desk, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
        p->ask->tasks = NULL;
        p->ask->num_tasks = 0;
        p->ask->version = -1;
    }
}

void mu_desk_state(struct mu_desk *desk, struct mu_ask *ask, const int32_t *tasks, size_t count)
{
    struct muster_task_info *infos = NULL;
    enum muster_status status = MUSTER_OK;

    if (mu_desk_refuses(desk, ask))
        return;
    if (count > STATES_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the states of %zu tasks; %d is the most", count, STATES_MAX);
    for (size_t i = 0; i < count && !status; i++)
        if (!mu_desk_has(desk, tasks[i]))
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "Unexpected task (%d) that is not in the cluster", tasks[i]);
    if (!status) {
        infos = calloc(count + 1, sizeof *infos);
        status = infos ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the states of %zu tasks", count);
    }
    for (size_t i = 0; i < count && !status; i++)
        status = muster_task_get(desk->m, tasks[i], &infos[i]);
    ask->tasks = infos;
    ask->num_tasks = count;
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_SERVICE);
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    free(infos);
}
