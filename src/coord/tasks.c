/*
 * coord/tasks.c: what the engine knows of its job's tasks, and its words for them.
 */
#include <stdio.h>
#include <string.h>

#include "coord/private.h"

enum { SAY_SLOWER = 6 /* times as long as at first, when it is said again */ };

const struct mu_coord_options *mu_coord_options(const struct mu_coord *coord)
{
    return &coord->o;
}

uint64_t mu_coord_incarnation(const struct mu_coord *coord)
{
    return coord->incarnation;
}

uint32_t mu_coord_num_tasks(const struct mu_coord *coord)
{
    return coord->num_tasks;
}

void mu_coord_record(const struct mu_coord *coord, int32_t task, struct mu_task_record *ret_record, char *text)
{
    struct mu_cluster cluster;

    if (!mu_cluster_task(coord->seg, (uint32_t)task, ret_record, text, &cluster))
        return;
    memset(ret_record, 0, sizeof *ret_record);
    if (text)
        text[0] = 0;
}

void mu_coord_name(const struct mu_coord *coord, int32_t task, char *name, size_t size)
{
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, NULL);
    mu_cluster_name(coord->seg, (uint32_t)task, &r, name, size);
}

enum muster_status mu_coord_refuse_other(const struct mu_coord *coord, int32_t task)
{
    char host[64];

    mu_host_name(coord->seg, mu_host_of(coord->seg, (uint32_t)task), host, sizeof host);
    return mu_fail(MUSTER_INVALID_ARGUMENT,
                   "%s is a task of host %s: its client is to connect to the service there, whose address its "
                   "process was given in MUSTER_GRPC_ADDRESS",
                   MU_LABEL(coord->seg, task), host);
}

/* ---- words for a barrier of the engine's own ---- */

uint32_t mu_coord_name_missing(const struct mu_coord *coord, mu_there_fn there, const char *between, char *text,
                               size_t size)
{
    size_t len = 0;
    uint32_t missing = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        char name[MU_NAME_MAX];

        if (there(coord, i))
            continue;
        if (missing++ >= 2 || len >= size)
            continue;
        mu_coord_name(coord, (int32_t)i, name, sizeof name);
        len += (size_t)snprintf(text + len, size - len, "%s%s", between, name);
    }
    return missing;
}

void mu_coord_words_of_timeout(const struct mu_coord *coord, const char *id, mu_there_fn there, int32_t first,
                               char *text, size_t size)
{
    char names[2 * MU_NAME_MAX];
    uint32_t missing = mu_coord_name_missing(coord, there, "\n", names, sizeof names);

    snprintf(
        text, size,
        "Barrier timed out. Id: %s::0. This usually happens because a task triggered the barrier too early or too "
        "slowly, or died before it. # of tasks that reached the barrier: %u/%u.\nThe first task at the barrier: %s. "
        "Some timed out task names:%s",
        id, coord->num_tasks - missing, coord->num_tasks, MU_BARE_LABEL(coord->seg, first), names);
}

uint64_t mu_coord_say_missing(struct mu_coord *coord, mu_there_fn there, const char *what, int32_t waits, uint64_t now)
{
    char names[2 * MU_NAME_MAX], own[MU_NAME_MAX] = "", text[3 * MU_NAME_MAX + 140];
    uint32_t missing = mu_coord_name_missing(coord, there, ", ", names, sizeof names);

    if (waits >= 0)
        mu_coord_name(coord, waits, own, sizeof own);
    snprintf(text, sizeof text, "%s%s%u of %u tasks %s:%s%s", own, waits >= 0 ? " waits in the shutdown: " : "",
             missing, coord->num_tasks, what, names + (missing > 0), missing > 2 ? " ..." : "");
    if (coord->o.said && missing)
        coord->o.said(coord->o.arg, waits, text);
    return now + SAY_SLOWER * coord->o.say_ns;
}
