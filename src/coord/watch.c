/*
 * coord/watch.c: the tasks' states, now or when they change. The version is that of the job's state, which counts
 * every change of any task. Waiters are answered when a look at the tasks is over, all with one listing.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "coord/private.h"

enum { STATES_MAX = 65536 }; /* that one call may ask for */

/* All tasks. NULL: a sentence says why. */
static struct mu_blob *tasks_list(struct mu_coord *coord, uint64_t *ret_version)
{
    struct mu_blob *s = mu_blob_new(coord->num_tasks * sizeof(struct muster_task_info));
    size_t count;

    if (!s)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list %u tasks", coord->num_tasks);
    if (!s || !muster_task_list(coord->m, (struct muster_task_info *)s->bytes, coord->num_tasks, &count, ret_version))
        return s;
    mu_blob_drop(s);
    return NULL;
}

static void answer_point_tasks(struct mu_coord_request *request, const struct mu_coord *coord, const struct mu_blob *s,
                               uint64_t version)
{
    request->tasks = (const struct muster_task_info *)s->bytes;
    request->num_tasks = coord->num_tasks;
    request->version = (int64_t)version;
}

static void watchers_look(struct mu_coord *coord)
{
    struct mu_blob *s = NULL;
    uint64_t version = 0;

    for (struct mu_coord_pending *p = coord->watchers.first, *next; p; p = next) {
        next = p->next;
        if (p->version >= coord->version)
            continue;
        s = s ? s : tasks_list(coord, &version);
        if (!s)
            return; /* no memory: the next look tries again */
        mu_coord_pending_answer(coord, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
        p->shared = mu_blob_hold(s);
        answer_point_tasks(p->request, coord, s, version);
    }
    mu_blob_drop(s);
}

static void watcher_answer(struct mu_coord *coord, struct mu_coord_request *request)
{
    uint64_t version;
    struct mu_blob *s = tasks_list(coord, &version);

    if (s) {
        answer_point_tasks(request, coord, s, version);
        mu_coord_answer(request, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    } else {
        mu_coord_fail(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
    }
    mu_blob_drop(s);
}

void mu_coord_watch(struct mu_coord *coord, struct mu_coord_request *request, int64_t version)
{
    struct mu_coord_pending *p;

    if (mu_coord_refuses(coord, request))
        return;
    mu_coord_look_tasks(coord);
    if (version > (int64_t)coord->version) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "version %" PRId64 " is from the future: the job is at %" PRIu64, version,
                coord->version);
        mu_coord_fail(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
    } else if (version < (int64_t)coord->version) {
        watcher_answer(coord, request);
    } else {
        p = mu_coord_pending_new(coord, request, &coord->watchers, 0);
        if (p)
            p->version = coord->version;
        else
            mu_coord_fail(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
    }
    mu_coord_deliver(coord);
}

static void watchers_stop(struct mu_coord *coord)
{
    while (coord->watchers.first) {
        struct mu_coord_pending *p = coord->watchers.first;

        mu_coord_pending_answer(coord, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
        p->request->tasks = NULL;
        p->request->num_tasks = 0;
        p->request->version = -1;
    }
}

void mu_coord_state(struct mu_coord *coord, struct mu_coord_request *request, const int32_t *tasks, size_t count)
{
    struct muster_task_info *infos = NULL;
    enum muster_status status = MUSTER_OK;

    if (mu_coord_refuses(coord, request))
        return;
    if (count > STATES_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the states of %zu tasks; %d is the most", count, STATES_MAX);
    for (size_t i = 0; i < count && !status; i++)
        if (!mu_coord_has(coord, tasks[i]))
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "Unexpected task (%d) that is not in the cluster", tasks[i]);
    if (!status) {
        infos = calloc(count + 1, sizeof *infos);
        status = infos ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the states of %zu tasks", count);
    }
    for (size_t i = 0; i < count && !status; i++)
        status = muster_task_get(coord->m, tasks[i], &infos[i]);
    request->tasks = infos;
    request->num_tasks = count;
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    free(infos);
}

const struct mu_coord_feature mu_watchers_feature = {.looked = watchers_look, .stop = watchers_stop};
