/*
 * tests/crash/ops_kv.c: operations on the key-value store.
 *
 * Before each, "k/a" holds 90 bytes (inline), "k/x" 5000 (a block of its own), "k/big" 70000 (in parts), "k/n" a
 * number, "d/1" to "d/3" one of each form (the last only to be deleted), and a neighbour lies in the bucket of the
 * operation's key.
 */
#include "ops_kv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "segment/entry.h"

/* What the victim writes is made beforehand: filling it is not worth stepping through. */
static uint8_t bytes[2 * BIG];

static void put(const char *key, unsigned size, unsigned seed)
{
    static uint8_t filled[BIG];

    crash_fill(filled, size, seed);
    if (muster_kv_set(world.m[PEER], key, MUSTER_NTS, filled, size, &world.version))
        crash_bad("setup of %s: %s", key, muster_last_error());
}

/* A key of this kind that falls into the same bucket. */
static void near_as(const char *key, const char *kind, char *name, size_t size)
{
    static struct mu_key a, b;
    struct mu_table t = mu_table_kv(&world.seg);

    mu_key_make(&a, &world.seg, key, strlen(key));
    for (unsigned i = 0;; i++) {
        snprintf(name, size, "%s/%u", kind, i);
        mu_key_make(&b, &world.seg, name, strlen(name));
        if (mu_table_bucket(&t, &a) == mu_table_bucket(&t, &b))
            return;
    }
}

static void near(const char *key, char *name, size_t size)
{
    near_as(key, "near", name, size);
}

void kv_setup(const struct op *op)
{
    char name[32];

    put("k/a", 90, 1);
    put("k/x", 5000, 2);
    put("k/big", BIG, 3);
    muster_kv_set(world.m[PEER], "k/n", MUSTER_NTS, "99", MUSTER_NTS, NULL);
    put("d/1", 10, 4);
    put("d/2", 900, 5);
    if (op->commits > 1)
        put("d/3", BIG, 6);
    if (op->key) {
        near(op->key, name, sizeof name);
        put(name, 40, 7);
        put(op->key, !strcmp(op->key, "k/a") ? 90 : !strcmp(op->key, "k/x") ? 5000 : 100, 8);
    }
    if (op->key && (!strcmp(op->key, "k/new") || op->run == kv_get_waiting))
        muster_kv_delete(world.m[PEER], op->key, MUSTER_NTS, NULL);
    if (op->key && !strcmp(op->key, "k/n"))
        muster_kv_set(world.m[PEER], "k/n", MUSTER_NTS, "99", MUSTER_NTS, NULL);
    if (op->key && !strcmp(op->key, "k/big"))
        put("k/big", BIG, 3);
    crash_fill(bytes, op->size, 9);
}

/* No chunk and hardly a block is left. */
void kv_setup_full(const struct op *op)
{
    static uint8_t filled[MU_CHUNK];
    char key[32];

    kv_setup(op);
    for (size_t size = 60000; size > 8; size /= 2)
        for (unsigned i = 0;; i++) {
            snprintf(key, sizeof key, "fill/%zu/%u", size, i);
            if (muster_kv_set(world.m[PEER], key, MUSTER_NTS, filled, size, NULL))
                break;
        }
}

/* The bucket has this key only. */
void kv_setup_alone(const struct op *op)
{
    char name[32];

    kv_setup(op);
    near(op->key, name, sizeof name);
    muster_kv_delete(world.m[PEER], name, MUSTER_NTS, NULL);
}

static void note(enum muster_status status, uint64_t a)
{
    board->outcome[0] = (struct outcome){status, a, 0};
}

void kv_set(const struct op *op)
{
    note(muster_kv_set(world.m[VICTIM], op->key, MUSTER_NTS, bytes, op->size, NULL), 0);
}

void kv_insert(const struct op *op)
{
    note(muster_kv_insert(world.m[VICTIM], op->key, MUSTER_NTS, bytes, op->size), 0);
}

void kv_increment(const struct op *op)
{
    int64_t sum = 0;
    enum muster_status status = muster_kv_increment(world.m[VICTIM], op->key, MUSTER_NTS, 1, &sum);

    note(status, (uint64_t)sum);
}

void kv_append(const struct op *op)
{
    size_t len = 0;
    enum muster_status status;

    status = muster_kv_append(world.m[VICTIM], op->key, MUSTER_NTS, bytes, op->size, &len);
    note(status, len);
}

void kv_cas(const struct op *op)
{
    note(muster_kv_compare_and_set(world.m[VICTIM], op->key, MUSTER_NTS, world.version, bytes, op->size, NULL), 0);
}

void kv_cas_stale(const struct op *op)
{
    note(muster_kv_compare_and_set(world.m[VICTIM], op->key, MUSTER_NTS, world.version + 1000, bytes, op->size, NULL),
         0);
}

void kv_delete(const struct op *op)
{
    size_t count = 0;
    enum muster_status status = muster_kv_delete(world.m[VICTIM], op->key, MUSTER_NTS, &count);

    note(status, op->commits > 1 ? 0 : count);
}

static uint64_t digest(const uint8_t *p, size_t len)
{
    uint64_t h = len, w;

    for (size_t i = 0; i + 8 <= len; i += 8) {
        memcpy(&w, p + i, 8);
        h = (h ^ w) * 0x100000001b3ull;
    }
    return h;
}

void kv_get(const struct op *op)
{
    size_t len = 0;
    enum muster_status status =
        muster_kv_try_get(world.m[VICTIM], op->key, MUSTER_NTS, bytes, sizeof bytes, &len, NULL);

    note(status, digest(bytes, status ? 0 : len));
}

void kv_get_dir(const struct op *op)
{
    struct muster_kv_list *list;
    enum muster_status status = muster_kv_get_dir(world.m[VICTIM], op->key, MUSTER_NTS, &list);
    uint64_t h = 0;

    for (size_t i = 0; !status && i < list->count; i++)
        h = h * 31 + digest(list->entries[i].value, list->entries[i].value_len);
    if (!status)
        muster_kv_list_free(list);
    note(status, h);
}

/* As the reader of a value that changes faster than it can be copied: look, pin, copy, unpin. */
void kv_get_pinned(const struct op *op)
{
    static struct mu_key k;
    static uint64_t body[MU_CHUNK / 8];
    struct mu_table t = mu_table_kv(&world.seg);
    mu_a64 *bucket;
    enum mu_fetch rc = MU_FETCH_CHANGED;
    struct mu_ctx *ctx;
    size_t len = 0;

    if (mu_enter(world.m[VICTIM], &ctx))
        return note(MUSTER_UNKNOWN, 0);
    mu_key_make(&k, &world.seg, op->key, strlen(op->key));
    bucket = mu_table_bucket(&t, &k);
    while (rc == MU_FETCH_CHANGED) {
        struct mu_root root;
        struct mu_page page;
        struct mu_entry e;
        uint32_t index = 0;
        bool corrupt = false, found = false;

        if (mu_object_read(&world.seg, bucket, body, &root) == MU_READ_CORRUPT || !mu_page_open(&page, &root))
            break;
        while (!found && mu_page_next(&page, &index, &e, &corrupt))
            found = e.hash == k.hash;
        if (!found) {
            mu_exit(ctx);
            return note(MUSTER_NOT_FOUND, digest(bytes, 0));
        }
        len = e.value_len;
        if (e.flags & MU_ENTRY_EXTERNAL) {
            struct mu_external x = {&world.seg, bucket, root.word, body[e.ref_at], e.key_len, e.value_len};

            rc = mu_external_get(&x, ctx, &k, NULL, bytes, sizeof bytes);
        } else {
            memcpy(bytes, &page.data[e.at + MU_ENTRY_WORDS + mu_words(k.len)], len);
            rc = MU_FETCH_OK;
        }
    }
    mu_exit(ctx);
    note(rc == MU_FETCH_OK ? MUSTER_OK : MUSTER_DATA_LOSS, digest(bytes, rc == MU_FETCH_OK ? len : 0));
}

void kv_get_waiting(const struct op *op)
{
    size_t len = 0;
    enum muster_status status =
        muster_kv_get(world.m[VICTIM], op->key, MUSTER_NTS, mu_now() + 150000000u, bytes, sizeof bytes, &len, NULL);

    note(status, digest(bytes, status ? 0 : len));
}

/* ---- a call that another host made: counted up once, however often it is carried out ---- */

static struct mu_key counter;

void kv_setup_call(const struct op *op)
{
    char name[32];

    kv_setup(op);
    near_as(op->key, "call", name, sizeof name);
    mu_key_make(&counter, &world.seg, name, strlen(name));
}

static enum mu_verdict count_up(struct mu_edit *e)
{
    uint64_t *sum = e->arg;

    *sum = 1;
    if (e->version)
        *sum += *(const uint64_t *)e->old;
    e->value = sum;
    e->len = sizeof *sum;
    e->done->result[0] = *sum;
    return MU_PUT;
}

static enum muster_status carry_out(int who, struct mu_done *done, bool *ret_before)
{
    struct mu_table t = mu_table_kv(&world.seg);
    uint64_t sum;
    struct mu_edit e = {.arg = &sum, .done = done};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(world.m[who], &ctx);

    if (status)
        return status;
    status = mu_table_edit(&t, ctx, &counter, MU_EDIT_WANTS_OLD, count_up, &e, NULL);
    mu_exit(ctx);
    *ret_before = e.was_done;
    return status;
}

void kv_call(const struct op *op)
{
    struct mu_done done = {.id = MU_DONE_ID(3, 4), .number = 9};
    bool before;
    enum muster_status status = carry_out(VICTIM, &done, &before);

    (void)op;
    note(status, done.result[0]);
}

/* Whoever takes over from the dead carries the call out again. */
void kv_call_after(const struct op *op)
{
    (void)op;
    for (int i = 0; i < 2; i++) {
        struct mu_done done = {.id = MU_DONE_ID(3, 4), .number = 9};
        bool before = false;
        enum muster_status status = carry_out(PEER, &done, &before);

        if (status || done.result[0] != 1)
            crash_bad("a call carried out again gives %s and %llu", muster_status_name(status),
                      (unsigned long long)done.result[0]);
        else if (i && !before)
            crash_bad("a call was carried out twice");
    }
}
