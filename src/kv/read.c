/*
 * kv/read.c: reads of single keys: at once, waiting, watching.
 *
 * A wait looks, and sleeps on the key's bucket until something there changes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kv/key.h"
#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/trace.h"
#include "segment/wait.h"

/* One look. A value that needs a pin is read with the thread's slot, when the handle may have one. */
static enum muster_status look(struct muster *m, struct mu_ctx *ctx, const struct mu_key *k, void *buffer,
                               size_t capacity, struct mu_found *f)
{
    struct mu_table t = mu_table_kv(m->seg);
    enum muster_status status = mu_table_get(&t, ctx, k, buffer, capacity, f);

    if (status == MUSTER_ABORTED && !ctx && m->seg->writable) {
        status = mu_handle_context(m, &ctx);
        if (!status)
            status = mu_table_get(&t, ctx, k, buffer, capacity, f);
    }
    return status;
}

static enum muster_status deliver(const struct mu_found *f, size_t capacity, size_t *ret_len, uint64_t *ret_version)
{
    if (ret_len)
        *ret_len = f->len;
    if (ret_version)
        *ret_version = f->version;
    if (f->len > capacity)
        return mu_fail(MUSTER_OUT_OF_RANGE, "the value is %zu bytes long, the buffer %zu", f->len, capacity);
    return MUSTER_OK;
}

enum muster_status muster_kv_try_get(struct muster *muster, const char *key, size_t key_len, void *buffer,
                                     size_t capacity, size_t *ret_len, uint64_t *ret_version)
{
    struct mu_key k;
    struct mu_found f;
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    status = mu_kv_key(muster->seg, key, key_len, &k);
    if (!status)
        status = look(muster, NULL, &k, buffer, capacity, &f);
    mu_exit_read();
    if (status)
        return status;
    if (!f.version)
        return mu_fail(MUSTER_NOT_FOUND, "key %.*s not found", MU_KEY_SHOWN(&k));
    return deliver(&f, capacity, ret_len, ret_version);
}

/* When traced: a wait for the key begins, or ends with a status at a version. */
static void note(struct mu_ctx *ctx, enum mu_trace_kind kind, const struct mu_key *k, enum muster_status status,
                 uint64_t version)
{
    if (status != MUSTER_DATA_LOSS) /* truncated: the ring may be gone */
        mu_trace_note(ctx, mu_trace_now(ctx), kind, status, mu_trace_name(ctx, k->hash, (const char *)k->words, k->len),
                      k->hash, version);
}

/* Wait until the key is there with a version above `after`. With `alloc`, *alloc grows to fit the value. */
static enum muster_status wait_for(struct muster *m, const char *key, size_t key_len, uint64_t after,
                                   muster_deadline deadline, void *buffer, size_t capacity, void **alloc,
                                   struct mu_found *f)
{
    struct mu_ctx *ctx;
    struct mu_key k;
    struct mu_wait w;
    struct mu_table t;
    char what[160];
    bool noted = false;
    enum muster_status status = mu_enter_wait(m, &ctx);

    if (status)
        return status;
    status = mu_kv_key(m->seg, key, key_len, &k);
    if (status) {
        mu_exit(ctx);
        return status;
    }
    t = mu_table_kv(m->seg);
    snprintf(what, sizeof what, "key %.*s", MU_KEY_SHOWN(&k));
    mu_wait_begin(&w, m->seg, ctx, deadline, what);
    w.interrupt = &m->interrupt;
    w.kind = MU_WAIT_KEY;
    for (;;) {
        mu_wait_look(&w);
        status = mu_table_get(&t, ctx, &k, alloc ? *alloc : buffer, capacity, f);
        if (status)
            break;
        if (alloc && f->version > after && f->len > capacity) {
            void *more = realloc(*alloc, f->len + 1);

            if (more) {
                *alloc = more;
                capacity = f->len;
                continue;
            }
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", f->len);
        } else if (!f->version && after) {
            status = mu_fail(MUSTER_NOT_FOUND, "%s was deleted", what);
        }
        if (status || f->version > after)
            break;
        status = mu_cluster_error(m->seg, what);
        if (!noted && ctx && mu_is_traced(ctx)) {
            noted = true;
            note(ctx, MU_TRACE_KEY_ENTER, &k, MUSTER_OK, after);
        }
        if (!status)
            status = mu_wait_on(&w, mu_table_bucket(&t, &k), f->word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    if (noted)
        note(ctx, MU_TRACE_KEY_LEAVE, &k, status, status ? 0 : f->version);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_kv_get(struct muster *muster, const char *key, size_t key_len, muster_deadline deadline,
                                 void *buffer, size_t capacity, size_t *ret_len, uint64_t *ret_version)
{
    struct mu_found f;
    enum muster_status status = wait_for(muster, key, key_len, 0, deadline, buffer, capacity, NULL, &f);

    return status ? status : deliver(&f, capacity, ret_len, ret_version);
}

enum muster_status muster_kv_watch(struct muster *muster, const char *key, size_t key_len, uint64_t after,
                                   muster_deadline deadline, void *buffer, size_t capacity, size_t *ret_len,
                                   uint64_t *ret_version)
{
    struct mu_found f;
    enum muster_status status = wait_for(muster, key, key_len, after, deadline, buffer, capacity, NULL, &f);

    return status ? status : deliver(&f, capacity, ret_len, ret_version);
}

enum muster_status muster_kv_get_alloc(struct muster *muster, const char *key, size_t key_len, muster_deadline deadline,
                                       void **ret_value, size_t *ret_len, uint64_t *ret_version)
{
    struct mu_found f;
    void *value = malloc(256);
    enum muster_status status;

    if (!value)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    status = wait_for(muster, key, key_len, 0, deadline, NULL, 255, &value, &f);
    if (!status)
        status = deliver(&f, f.len, ret_len, ret_version);
    if (status) {
        free(value);
        return status;
    }
    ((char *)value)[f.len] = 0;
    *ret_value = value;
    return MUSTER_OK;
}
