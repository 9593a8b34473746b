/*
 * kv/read.c: reads of single keys: at once, waiting, watching.
 *
 * A wait looks, and sleeps on the key's bucket until something there changes.
 *
 * On a follower the table holds copies (kv/remote.h): what is found there is the answer; where nothing is, the leader
 * is asked. A waiter has asked it to send the key when it comes, so it sleeps here as well, until a copy comes or a
 * new round begins, in which the leader may have forgotten what it was asked (mu_host_bridge_round()).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kv/remote.h"
#include "kv/setters.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/trace.h"

/* With the thread's slot, for a value that needs a pin. Not inline: a read without one pays nothing for this. */
static __attribute__((noinline)) enum muster_status look_pinned(struct muster *m, const struct mu_key *k, void *buffer,
                                                                size_t capacity, struct mu_found *f)
{
    struct mu_table t = mu_table_kv(m->seg);
    struct mu_ctx *ctx;
    enum muster_status status = mu_handle_context(m, &ctx);

    return status ? status : mu_table_get(&t, ctx, k, buffer, capacity, f);
}

/* One look. A value that needs a pin is read with the thread's slot, when the handle may have one. */
static inline enum muster_status key_look(struct muster *m, struct mu_ctx *ctx, const struct mu_key *k, void *buffer,
                                          size_t capacity, struct mu_found *f)
{
    struct mu_table t = mu_table_kv(m->seg);
    enum muster_status status = mu_table_get(&t, ctx, k, buffer, capacity, f);

    if (status == MUSTER_ABORTED && !ctx && m->seg->writable)
        return look_pinned(m, k, buffer, capacity, f);
    return status;
}

static enum muster_status found_deliver(const struct mu_found *f, size_t capacity, size_t *ret_len,
                                        uint64_t *ret_version)
{
    if (ret_len)
        *ret_len = f->len;
    if (ret_version)
        *ret_version = f->version;
    if (f->len > capacity)
        return mu_fail(MUSTER_OUT_OF_RANGE, "the value is %zu bytes long, the buffer %zu", f->len, capacity);
    return MUSTER_OK;
}

/* A wait for a key. With `alloc`, *alloc grows to fit the value. */
struct key_search {
    struct muster *m;
    struct mu_ctx *ctx;
    struct mu_key k;
    uint64_t after; /* the version must be above it */
    muster_deadline deadline;
    void *buffer;
    size_t capacity;
    void **alloc;
    char what[160];
    struct mu_wait w;
    /* a follower's: the leader has said in this round that the key is at this version, of which there is no copy */
    bool asked;
    uint32_t round;
    uint64_t told;
};

/* Where a value that comes with the leader's answer goes: nowhere, if it is not newer, or too long. */
static enum muster_status search_room(struct mu_kv_read *r)
{
    struct key_search *s = r->arg;

    if (r->version <= s->after)
        return MUSTER_OK;
    if (s->alloc && r->len > s->capacity) {
        void *more = malloc(r->len + 1);

        if (!more)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %" PRIu64 " bytes", r->len);
        free(*s->alloc);
        *s->alloc = more;
        s->capacity = r->len;
    }
    if (r->len <= s->capacity)
        r->to = s->alloc ? *s->alloc : s->buffer;
    return MUSTER_OK;
}

/* What the leader says of the key: f->version, 0 when there is none. *ret_copied: by a copy, which was looked up. */
static enum muster_status search_remote(struct key_search *s, uint8_t flags, struct mu_found *f, bool *ret_copied)
{
    struct mu_kv_read r = {.key = s->k.words, .key_len = s->k.len, .room = search_room, .arg = s};
    enum muster_status status;

    do {
        mu_kv_read_begin(&r, flags);
        status = mu_kv_read_run(s->m, s->ctx, &r, s->deadline);
        *ret_copied = !status && r.what == MU_READ_COPIED;
        if (*ret_copied)
            status = key_look(s->m, s->ctx, &s->k, s->alloc ? *s->alloc : s->buffer, s->capacity, f);
        flags |= MU_READ_WHOLE; /* the copy went as fast as it had come */
    } while (!status && *ret_copied && !f->version);
    if (!status && r.what == MU_READ_VALUE) {
        f->version = r.version;
        f->len = r.len;
    }
    return status;
}

/* A follower's table does not have it: what the leader says. Not inline: a read that finds it pays nothing for this. */
static __attribute__((noinline)) enum muster_status try_remote(struct muster *m, const struct mu_key *k, void *buffer,
                                                               size_t capacity, struct mu_found *f)
{
    struct key_search s = {.m = m, .k = *k, .deadline = MUSTER_FOREVER, .buffer = buffer, .capacity = capacity};
    bool copied;
    enum muster_status status = mu_enter_wait(m, &s.ctx);

    if (status)
        return status;
    status = search_remote(&s, 0, f, &copied);
    mu_exit(s.ctx);
    return status;
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
        status = key_look(muster, NULL, &k, buffer, capacity, &f);
    mu_exit_read();
    if (!status && !f.version && mu_is_follower(muster->seg))
        status = try_remote(muster, &k, buffer, capacity, &f);
    if (status)
        return status;
    if (!f.version)
        return mu_fail(MUSTER_NOT_FOUND, "key %.*s not found", MU_KEY_SHOWN(&k));
    return found_deliver(&f, capacity, ret_len, ret_version);
}

/* When traced: a wait for the key begins, or ends with a status at a version. */
static void wait_note(struct mu_ctx *ctx, enum mu_trace_kind kind, const struct mu_key *k, enum muster_status status,
                      uint64_t version)
{
    if (status != MUSTER_DATA_LOSS) /* truncated: the ring may be gone */
        mu_trace_note(ctx, mu_trace_now(ctx), kind, status, mu_trace_name(ctx, k->hash, (const char *)k->words, k->len),
                      k->hash, version);
}

static void search_begin(struct key_search *s)
{
    mu_wait_begin(&s->w, s->m->seg, s->ctx, s->deadline, s->what);
    s->w.interrupt = &s->m->interrupt;
    s->w.kind = MU_WAIT_KEY;
}

/* The follower's table does not have it. f->version: what the leader says; f->word stays as it was before it was asked.
 */
static enum muster_status ask_leader(struct key_search *s, uint32_t round, struct mu_found *f)
{
    uint64_t word = f->word;
    uint32_t epoch = s->w.epoch;
    bool copied = false;
    enum muster_status status;

    if (s->asked && s->round == round) {
        f->version = s->told;
        return MUSTER_OK;
    }
    mu_wait_end(&s->w); /* asking is a wait of its own */
    status = search_remote(s, MU_READ_WAITS, f, &copied);
    search_begin(s);
    s->w.epoch = epoch; /* what happened since the look is not slept through */
    if (status || copied)
        return status;
    f->word = word;
    s->asked = true;
    s->round = round;
    s->told = f->version;
    return status;
}

static enum muster_status search_find(struct key_search *s, struct mu_found *f)
{
    struct mu_table t = mu_table_kv(s->m->seg);
    bool follows = mu_is_follower(s->m->seg);
    uint32_t round = follows ? mu_host_bridge_round(s->m->seg) : 0;
    enum muster_status status = mu_table_get(&t, s->ctx, &s->k, s->alloc ? *s->alloc : s->buffer, s->capacity, f);

    if (status || !follows)
        return status;
    if (f->version)
        s->asked = false;
    return f->version ? MUSTER_OK : ask_leader(s, round, f);
}

/* Look, and sleep, until the key is there with a version above `after`. */
static enum muster_status search_await(struct key_search *s, struct mu_found *f)
{
    struct mu_table t = mu_table_kv(s->m->seg);
    bool noted = false;
    enum muster_status status;

    search_begin(s);
    for (;;) {
        mu_wait_look(&s->w);
        status = search_find(s, f);
        if (status)
            break;
        if (s->alloc && f->version > s->after && f->len > s->capacity) {
            void *more = realloc(*s->alloc, f->len + 1);

            if (more) {
                *s->alloc = more;
                s->capacity = f->len;
                continue;
            }
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", f->len);
        } else if (!f->version && s->after) {
            status = mu_fail(MUSTER_NOT_FOUND, "%s was deleted", s->what);
        }
        if (status || f->version > s->after)
            break;
        status = mu_cluster_error(s->m->seg, s->what);
        if (!status)
            status = mu_setters_look(s->m, s->what);
        if (!noted && s->ctx && mu_is_traced(s->ctx)) {
            noted = true;
            wait_note(s->ctx, MU_TRACE_KEY_ENTER, &s->k, MUSTER_OK, s->after);
        }
        if (!status)
            status = mu_wait_on(&s->w, mu_table_bucket(&t, &s->k), f->word);
        if (status)
            break;
    }
    mu_wait_end(&s->w);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        status = mu_cluster_say_others(s->m, "who could set it");
    if (noted)
        wait_note(s->ctx, MU_TRACE_KEY_LEAVE, &s->k, status, status ? 0 : f->version);
    return status;
}

/* Wait until the key is there with a version above `after`. With `alloc`, *alloc grows to fit the value. */
static enum muster_status wait_for(struct muster *m, const char *key, size_t key_len, uint64_t after,
                                   muster_deadline deadline, void *buffer, size_t capacity, void **alloc,
                                   struct mu_found *f)
{
    struct key_search s;
    enum muster_status status = mu_enter_wait(m, &s.ctx);

    if (status)
        return status;
    status = mu_kv_key(m->seg, key, key_len, &s.k);
    if (!status) {
        s.m = m;
        s.after = after;
        s.deadline = deadline;
        s.buffer = buffer;
        s.capacity = capacity;
        s.alloc = alloc;
        s.asked = false;
        snprintf(s.what, sizeof s.what, "key %.*s", MU_KEY_SHOWN(&s.k));
        status = search_await(&s, f);
    }
    mu_exit(s.ctx);
    return status;
}

enum muster_status muster_kv_get(struct muster *muster, const char *key, size_t key_len, muster_deadline deadline,
                                 void *buffer, size_t capacity, size_t *ret_len, uint64_t *ret_version)
{
    struct mu_found f;
    enum muster_status status = wait_for(muster, key, key_len, 0, deadline, buffer, capacity, NULL, &f);

    return status ? status : found_deliver(&f, capacity, ret_len, ret_version);
}

enum muster_status muster_kv_watch(struct muster *muster, const char *key, size_t key_len, uint64_t after,
                                   muster_deadline deadline, void *buffer, size_t capacity, size_t *ret_len,
                                   uint64_t *ret_version)
{
    struct mu_found f;
    enum muster_status status = wait_for(muster, key, key_len, after, deadline, buffer, capacity, NULL, &f);

    return status ? status : found_deliver(&f, capacity, ret_len, ret_version);
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
        status = found_deliver(&f, f.len, ret_len, ret_version);
    if (status) {
        free(value);
        return status;
    }
    ((char *)value)[f.len] = 0;
    *ret_value = value;
    return MUSTER_OK;
}
