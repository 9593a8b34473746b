/*
 * barrier/failure.c: what can go wrong with the participants of a named barrier, and the sentences about it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "barrier/call.h"

int32_t mu_named_find_failed(const struct mu_named *n, const struct mu_barrier *b, char *name, size_t size, char *why)
{
    const struct muster_segment *seg = n->seg;
    struct mu_cluster cluster;

    if (mu_cluster_look(seg, &cluster) || !cluster.root.errors)
        return -1;
    for (uint32_t i = 0; i < b->h.num; i++) {
        struct mu_task_record r;
        uint32_t id = mu_barrier_id(b, i);

        if (id >= seg->num_tasks || mu_cluster_task(seg, id, &r, why, &cluster))
            continue;
        if (r.state == MUSTER_TASK_ERROR && !(r.flags & MU_TASK_RECOVERABLE)) {
            mu_cluster_name(seg, id, &r, name, size);
            return (int32_t)id;
        }
    }
    return -1;
}

/*
 * In error, or gone since the instance began, also when another incarnation has come in the place of one that had
 * arrived. *ret_fatal: the instance fails by it, or only an arrival is taken back.
 */
static bool is_out(const struct mu_barrier *b, uint32_t i, const struct mu_task_record *r, bool *ret_fatal)
{
    bool left = (r->state == MUSTER_TASK_DISCONNECTED && r->version > b->h.opened) ||
                ((b->marks[i] & MU_MARK_ARRIVED) && !MU_MARK_OF(b->marks[i], r));

    *ret_fatal = !(r->flags & (left ? MU_TASK_RECOVERABLE | MU_TASK_TRANSIENT : MU_TASK_RECOVERABLE));
    return left || r->state == MUSTER_TASK_ERROR;
}

bool mu_named_find_fatal(struct mu_named *n, const struct mu_barrier *b, bool *ret_out)
{
    struct muster_segment *seg = n->seg;

    *ret_out = false;
    for (uint32_t i = 0; i < b->h.num && mu_barrier_id(b, i) < seg->num_tasks; i++) {
        uint32_t id = mu_barrier_id(b, i);
        const struct mu_task_record *r = &n->records[id];
        bool fatal;
        char name[MU_NAME_MAX], why[MU_TEXT_MAX] = "";
        struct mu_task_record again;
        struct mu_cluster cluster;

        if (!is_out(b, i, r, &fatal))
            continue;
        if (!fatal) {
            *ret_out = true;
            continue;
        }
        mu_cluster_task(seg, id, &again, why, &cluster);
        mu_cluster_name(seg, id, r, name, sizeof name);
        n->fail_code = MUSTER_INTERNAL;
        snprintf(n->fail_text, sizeof n->fail_text,
                 "Barrier failed because: %s %s. Barrier Id: %.120s::%" PRIu64 "%s%s", name,
                 r->state == MUSTER_TASK_ERROR          ? "is in error"
                 : r->state == MUSTER_TASK_DISCONNECTED ? "has disconnected"
                                                        : "was replaced by another process",
                 n->id, b->h.counter, why[0] ? ": " : "", why);
        return true;
    }
    return false;
}

bool mu_named_unmark_failed(const struct mu_named *n, struct mu_barrier *b)
{
    bool any = false;

    for (uint32_t i = 0; i < b->h.num && mu_barrier_id(b, i) < n->seg->num_tasks; i++) {
        const struct mu_task_record *r = &n->records[mu_barrier_id(b, i)];
        bool fatal;

        if (is_out(b, i, r, &fatal) && !fatal && (b->marks[i] & MU_MARK_ARRIVED)) {
            b->marks[i] &= ~MU_MARK_ARRIVED;
            any = true;
        }
    }
    return any;
}

enum muster_status mu_named_read_records(struct mu_named *n, struct mu_cluster *ret_cluster)
{
    enum muster_status status;

    if (!n->records)
        n->records = calloc(n->seg->num_tasks, sizeof *n->records);
    if (!n->records)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", n->id);
    status = mu_cluster_look(n->seg, ret_cluster);
    if (status || (n->records_version && ret_cluster->root.version == n->records_version))
        return status; /* they are as now still */
    n->records_version = 0;
    status = mu_cluster_all(n->seg, n->records, NULL, ret_cluster);
    if (!status)
        n->records_version = ret_cluster->root.version;
    return status;
}

/* Up to two of the missing, and what each is doing. */
static void name_missing(const struct mu_named *n, const struct mu_barrier *b, char *text, size_t size)
{
    const struct muster_segment *seg = n->seg;
    size_t len = 0, named = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < b->h.num && named < 2 && len < size; i++) {
        struct mu_task_record r;
        struct mu_cluster cluster;
        char name[MU_NAME_MAX];
        uint32_t id = mu_barrier_id(b, i);
        const char *state = "never joined";

        if ((b->marks[i] & MU_MARK_ARRIVED) || mu_cluster_task(seg, id, &r, NULL, &cluster))
            continue;
        mu_cluster_name(seg, id, &r, name, sizeof name);
        if (r.state == MUSTER_TASK_CONNECTED)
            state = mu_cluster_alive(seg, id, &r) || !r.slot ? "running, not at the barrier" : "dead";
        else if (r.state == MUSTER_TASK_ERROR)
            state = "in error";
        else if (r.attempt)
            state = "has left";
        len += (size_t)snprintf(text + len, size - len, "\n%s: %s", name, state);
        named++;
    }
}

void mu_named_compose_timeout(struct mu_named *n, const struct mu_barrier *b)
{
    char missing[400];

    name_missing(n, b, missing, sizeof missing);
    n->fail_code = MUSTER_DEADLINE_EXCEEDED;
    snprintf(n->fail_text, sizeof n->fail_text,
             "Barrier timed out. Id: %.120s::%" PRIu64
             ". # of tasks that reached the barrier: %u/%u. The first task at "
             "the barrier: %s. Some timed out task names:%s",
             n->id, b->h.counter, mu_barrier_arrived(b), b->h.num, MU_BARE_LABEL(n->seg, b->h.first), missing);
}
