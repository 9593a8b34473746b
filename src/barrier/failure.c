/*
 * barrier/failure.c: what can go wrong with the participants of a named barrier, and the sentences about it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "barrier/call.h"

bool mu_named_find_failed(const struct mu_named *n, const struct mu_barrier *b, char *text, size_t size)
{
    const struct muster_segment *seg = n->seg;
    struct mu_cluster cluster;
    char name[MU_NAME_MAX], why[MU_TEXT_MAX];

    if (mu_cluster_look(seg, &cluster) || (!cluster.root.errors && !cluster.root.ended))
        return false;
    for (uint32_t i = 0; i < b->h.num; i++) {
        struct mu_task_record r;
        uint32_t id = mu_barrier_id(b, i);

        if (id >= seg->num_tasks || mu_cluster_task(seg, id, &r, why, &cluster))
            continue;
        mu_cluster_name(seg, id, &r, name, sizeof name);
        if (mu_cluster_is_propagated(&r))
            snprintf(text, size, "%s was already in error before the barrier was called: %s", name, why);
        else if (mu_cluster_is_over(&r))
            snprintf(text, size, "%s %s, before the barrier was called", name, mu_cluster_end(&r, why));
        else
            continue;
        return true;
    }
    return false;
}

/*
 * In error, ended, or gone since the instance began, also when another incarnation has come in the place of one that
 * had arrived. *ret_fatal: the instance fails by it, or only an arrival is taken back. An end is fatal even of one that
 * could have come again: its launcher starts it no more.
 */
static bool is_out(const struct mu_barrier *b, uint32_t i, const struct mu_task_record *r, bool *ret_fatal)
{
    bool left = (r->state == MUSTER_TASK_DISCONNECTED && r->version > b->h.opened) ||
                ((b->marks[i] & MU_MARK_ARRIVED) && !MU_MARK_OF(b->marks[i], r));

    *ret_fatal =
        mu_cluster_is_over(r) || !(r->flags & (left ? MU_TASK_RECOVERABLE | MU_TASK_TRANSIENT : MU_TASK_RECOVERABLE));
    return left || r->state == MUSTER_TASK_ERROR || mu_cluster_is_over(r);
}

bool mu_named_find_fatal(struct mu_named *n, const struct mu_barrier *b, bool *ret_out)
{
    struct muster_segment *seg = n->seg;

    *ret_out = false;
    for (uint32_t i = 0; i < b->h.num && mu_barrier_id(b, i) < seg->num_tasks; i++) {
        uint32_t id = mu_barrier_id(b, i);
        const struct mu_task_record *r = &n->records[id];
        bool fatal;
        char name[MU_NAME_MAX], end[MU_DOING_MAX], why[MU_TEXT_MAX] = "";
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
                 : mu_cluster_is_over(r)                ? mu_cluster_end(r, end)
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
        char name[MU_NAME_MAX], doing[MU_DOING_MAX];
        const char *state;
        uint32_t id = mu_barrier_id(b, i);

        if ((b->marks[i] & MU_MARK_ARRIVED) || mu_cluster_task(seg, id, &r, NULL, &cluster))
            continue;
        mu_cluster_place(seg, id, &r, name);
        state = mu_cluster_doing(seg, id, &r, doing);
        len += (size_t)snprintf(text + len, size - len, "\n%s: %s%s", name, state,
                                state[0] == 'r' ? ", not at the barrier" : "");
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

static bool is_missing(void *arg, uint32_t task)
{
    const struct mu_barrier *b = arg;
    int32_t place = mu_barrier_find(b, task);

    return place >= 0 && !(b->marks[place] & MU_MARK_ARRIVED);
}

enum muster_status mu_named_say_missing(struct mu_named *n, enum muster_status status)
{
    char text[MU_LIST_MAX];

    mu_cluster_list(n->seg, is_missing, &n->b, text);
    return text[0] ? mu_fail(status, "%s; not there: %s", muster_last_error(), text) : status;
}
