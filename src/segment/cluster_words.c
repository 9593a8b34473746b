/*
 * segment/cluster_words.c: task records in sentences: names, what a task is doing, how it ended, the first error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <muster/task.h>

#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/hosts.h"

void mu_cluster_name(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record, char *name,
                     size_t size)
{
    char host[64];

    mu_host_name(seg, mu_host_of(seg, task), host, sizeof host);
    if (record->pid)
        snprintf(name, size, "%s (pid %u on host %s)", MU_LABEL(seg, task), record->pid, host);
    else if (record->flags & MU_TASK_GUEST)
        snprintf(name, size, "%s (a guest on host %s)", MU_LABEL(seg, task), host);
    else
        snprintf(name, size, "%s", MU_LABEL(seg, task));
}

void mu_cluster_place(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record,
                      char name[MU_NAME_MAX])
{
    char host[64];

    mu_cluster_name(seg, task, record, name, MU_NAME_MAX);
    if (strchr(name, '('))
        return;
    mu_host_name(seg, mu_host_of(seg, task), host, sizeof host);
    snprintf(name, MU_NAME_MAX, "%s (on host %s)", MU_LABEL(seg, task), host);
}

const char *mu_cluster_end(const struct mu_task_record *record, char text[MU_DOING_MAX])
{
    int how = (int)MU_TASK_HOW(record->flags);
    const char *unjoined = record->attempt ? "" : " without joining";

    if (record->flags & MU_TASK_HOW_UNKNOWN)
        snprintf(text, MU_DOING_MAX, "has ended%s", unjoined);
    else if (WIFSIGNALED(how))
        snprintf(text, MU_DOING_MAX, "has ended (killed by signal %d, %.30s)%s", WTERMSIG(how),
                 strsignal(WTERMSIG(how)), unjoined);
    else
        snprintf(text, MU_DOING_MAX, "has ended (exited with status %d)%s", WEXITSTATUS(how), unjoined);
    return text;
}

const char *mu_cluster_doing(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record,
                             char text[MU_DOING_MAX])
{
    if (mu_cluster_is_over(record))
        return mu_cluster_end(record, text);
    if (record->state == MUSTER_TASK_CONNECTED)
        return mu_cluster_alive(seg, task, record) || !record->slot ? "running" : "dead";
    if (record->state == MUSTER_TASK_ERROR)
        return "in error";
    return record->attempt ? "has left" : "never joined";
}

const char *mu_cluster_list(const struct muster_segment *seg, mu_task_pick picks, void *arg, char text[MU_LIST_MAX])
{
    enum { NAMED = 3 };
    struct mu_task_record r;
    struct mu_cluster cluster;
    char name[MU_NAME_MAX], doing[MU_DOING_MAX];
    size_t len = 0;

    text[0] = 0;
    if (mu_cluster_look(seg, &cluster))
        return text;
    for (uint32_t i = 0, named = 0, end = cluster.root.ended ? 2 * seg->num_tasks : seg->num_tasks; i < end; i++) {
        uint32_t task = i % seg->num_tasks;

        if (!picks(arg, task) || mu_cluster_task(seg, task, &r, NULL, &cluster) ||
            mu_cluster_is_over(&r) != (i >= seg->num_tasks))
            continue;
        if (named++ == NAMED) { /* to count them all would be to read them all */
            snprintf(text + len, MU_LIST_MAX - len, "; ...");
            break;
        }
        mu_cluster_place(seg, task, &r, name);
        len += (size_t)snprintf(text + len, MU_LIST_MAX - len, "%s%s: %s", named > 1 ? "; " : "", name,
                                mu_cluster_doing(seg, task, &r, doing));
    }
    return text;
}

int64_t mu_cluster_own(const struct muster *m)
{
    const char *text = m->task_id < 0 ? getenv("MUSTER_TASK_ID") : NULL;
    char *end = NULL;
    long task = text ? strtol(text, &end, 10) : m->task_id;

    return text && (end == text || *end) ? -1 : task;
}

static bool is_another(void *arg, uint32_t task)
{
    return *(const int64_t *)arg != task;
}

const char *mu_cluster_others(const struct muster *m, char text[MU_LIST_MAX])
{
    int64_t own = mu_cluster_own(m);

    return mu_cluster_list(m->seg, is_another, &own, text);
}

enum muster_status mu_cluster_say_others(const struct muster *m, const char *which)
{
    char text[MU_LIST_MAX];

    return *mu_cluster_others(m, text)
               ? mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s; %s: %s", muster_last_error(), which, text)
               : MUSTER_DEADLINE_EXCEEDED;
}

enum muster_status mu_cluster_error(const struct muster_segment *seg, const char *doing)
{
    struct mu_cluster c;
    struct mu_task_record r;
    char text[MU_TEXT_MAX], name[MU_NAME_MAX];
    enum muster_status status = mu_cluster_look(seg, &c);
    uint32_t task;

    if (status || !c.root.first_error)
        return status;
    task = (uint32_t)c.root.first_error - 1;
    if (task >= seg->num_tasks)
        return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: its first error is no task's", seg->job);
    status = mu_cluster_task(seg, task, &r, text, &c);
    if (status || !mu_cluster_is_propagated(&r))
        return status; /* reset meanwhile */
    mu_cluster_name(seg, task, &r, name, sizeof name);
    return mu_fail(MUSTER_UNAVAILABLE, "%s: %s is in error: %s", doing, name, text);
}
