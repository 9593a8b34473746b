/*
 * topology/exchange_remote.c: an exchange of topologies on a follower's host: by calls to the leader's store.
 *
 * The keys, their values and the steps are those of exchange.c; the leader's host does not tell the two apart. What
 * differs: ours is put by compare-and-set, all locals are read as one listing, and the outcome is waited for in slices,
 * between which it is looked whether all have given by now: the last to give may have died before it could settle.
 *
 * In a large job thousands of tasks find at the same moment that all have given. All locals to each of them would be
 * gigabytes, so one does it: the task that inserts muster/topology/NAME/turn/0. The others wait a slice; if the outcome
 * is not there then, that one has died or has no memory, and the next has a turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "base/clock.h"
#include "topology/exchange_private.h"

#define SLICE_NS 500000000u

static void key_of(const struct mu_key *k, char key[MUSTER_KEY_MAX + 1])
{
    snprintf(key, MUSTER_KEY_MAX + 1, "%.*s", (int)k->len, (const char *)k->words);
}

/* Put ours, or find that it is there. Most often nothing is: that is tried first, with one call for three. */
static enum muster_status remote_give(struct muster *m, struct mu_exchange *x, const char *own, const char *global)
{
    enum muster_status first = muster_kv_compare_and_set(m, own, MUSTER_NTS, 0, x->given, x->given_size, &x->version);

    if (first != MUSTER_ABORTED)
        return first;
    for (;;) {
        size_t len = 0;
        uint64_t version = 0;
        void *old = NULL;
        enum muster_status verdict = MUSTER_OK, status;
        enum mu_verdict what;

        status = muster_kv_try_get(m, global, MUSTER_NTS, NULL, 0, &len, NULL);
        x->outcome_there = status == MUSTER_OK || status == MUSTER_OUT_OF_RANGE;
        status = muster_kv_try_get(m, own, MUSTER_NTS, NULL, 0, &len, &version);
        if (status == MUSTER_OK || status == MUSTER_OUT_OF_RANGE)
            status = muster_kv_get_alloc(m, own, MUSTER_NTS, muster_after_ns(SLICE_NS), &old, &len, &version);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            continue; /* deleted in between */
        if (status && status != MUSTER_NOT_FOUND)
            return status;
        what = mu_giving_judge(x, status ? 0 : version, old, len, &verdict);
        free(old);
        if (what == MU_KEEP)
            return verdict;
        status = muster_kv_compare_and_set(m, own, MUSTER_NTS, x->version, x->given, x->given_size, &x->version);
        if (status != MUSTER_ABORTED)
            return status;
    }
}

/* The listing's entries into their tasks' places; how many there are. */
static uint32_t sort_locals(const struct muster_kv_list *list, size_t prefix, struct mu_givens *l)
{
    uint32_t found = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct muster_kv_entry *e = &list->entries[i];
        char *end;
        unsigned long task = strtoul(e->key + prefix, &end, 10);

        if (*end || task >= l->count || l->values[task] || e->value_len < sizeof(struct local_head))
            continue;
        l->values[task] = malloc(e->value_len);
        if (!l->values[task])
            continue;
        memcpy(l->values[task], e->value, e->value_len);
        l->bytes[task] = (const uint8_t *)l->values[task] + sizeof(struct local_head);
        l->sizes[task] = e->value_len - sizeof(struct local_head);
        l->versions[task] = e->version;
        found++;
    }
    return found;
}

/* Whether it is for this task to make the outcome: *turn moves on when it is another's. */
static enum muster_status maker_take_turn(struct muster *m, const char *global, uint32_t *turn, bool *ret_ours)
{
    char key[MUSTER_KEY_MAX + 32];
    enum muster_status status;

    snprintf(key, sizeof key, "%.*s/turn/%u", (int)(strrchr(global, '/') - global), global, *turn);
    status = muster_kv_insert(m, key, MUSTER_NTS, "", 0);
    *turn += 1;
    *ret_ours = status == MUSTER_OK;
    return status == MUSTER_ALREADY_EXISTS ? MUSTER_OK : status;
}

/* If all have given, and nobody else does it: make the outcome, and insert it. */
static enum muster_status remote_settle(struct muster *m, struct mu_exchange *x, const char *own, const char *global,
                                        uint32_t *turn)
{
    struct muster_kv_list *list;
    struct mu_givens l = {0};
    char directory[MUSTER_KEY_MAX + 1];
    void *value = NULL;
    size_t len = 0, count = 0, prefix = (size_t)(strrchr(own, '/') - own);
    enum muster_status status;
    bool ours = false;

    memcpy(directory, own, prefix);
    status = muster_kv_count(m, directory, prefix, &count);
    if (!status && count >= x->seg->num_tasks)
        status = maker_take_turn(m, global, turn, &ours);
    if (status || !ours)
        return status;
    status = muster_kv_get_dir(m, directory, prefix, &list);
    if (status)
        return status;
    status = mu_givens_begin(x, &l);
    if (!status && sort_locals(list, prefix + 1, &l) == l.count)
        status = mu_giving_compose(x, &l, &value, &len);
    muster_kv_list_free(list);
    mu_givens_done(&l);
    if (!status && value)
        status = muster_kv_insert(m, global, MUSTER_NTS, value, len);
    free(value);
    return status == MUSTER_ALREADY_EXISTS ? MUSTER_OK : status; /* the first one counts */
}

static enum muster_status remote_late(struct muster *m, const struct mu_exchange *x, const char *own)
{
    size_t count = 0, prefix = (size_t)(strrchr(own, '/') - own);

    if (muster_kv_count(m, own, prefix, &count))
        count = 0;
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s: the deadline passed, and %zu of %u tasks are missing", x->what,
                   count < x->seg->num_tasks ? x->seg->num_tasks - count : 0, x->seg->num_tasks);
}

enum muster_status mu_giving_remote(struct muster *m, struct mu_exchange *x, muster_deadline deadline,
                                    void **ret_global, size_t *ret_size)
{
    char own[MUSTER_KEY_MAX + 1], global[MUSTER_KEY_MAX + 1];
    enum muster_status failure = MUSTER_OK, status;
    uint32_t turn = 0;

    key_of(&x->own, own);
    key_of(&x->global, global);
    status = remote_give(m, x, own, global);
    while (!status) {
        muster_deadline slice = muster_after_ns(SLICE_NS);
        size_t len = 0;

        status = remote_settle(m, x, own, global, &turn);
        if (status)
            break;
        free(x->value);
        x->value = NULL;
        status = muster_kv_get_alloc(m, global, MUSTER_NTS, slice < deadline ? slice : deadline, &x->value, &len, NULL);
        if (!status)
            return mu_giving_deliver(x, len, ret_global, ret_size);
        if (failure)
            return failure;
        if (status == MUSTER_DEADLINE_EXCEEDED || status == MUSTER_UNAVAILABLE) {
            failure = mu_giving_look_for_failure(x); /* then once more whether it is there by now */
            if (status == MUSTER_UNAVAILABLE && !failure)
                return status;
            status = failure || mu_now() < deadline ? MUSTER_OK : remote_late(m, x, own);
        }
    }
    return status;
}
