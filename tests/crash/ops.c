/*
 * tests/crash/ops.c: the table of operations, the interferences, and the second operation of every kind.
 */
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops_kv.h"
#include "segment/entry.h"
#include "step.h"
#include "task/task.h"

const struct op ops[] = {
    /* name, kind, setup, run, after, key, size, commits, flags */
    {"insert", KV, kv_setup, kv_insert, NULL, "k/new", 90, 1, 0},
    {"insert existing", KV, kv_setup, kv_insert, NULL, "k/a", 90, 0, 0},
    {"overwrite inline", KV, kv_setup, kv_set, NULL, "k/a", 90, 1, 0},
    {"inline to external", KV, kv_setup, kv_set, NULL, "k/a", 700, 1, 0},
    {"external to external", KV, kv_setup, kv_set, NULL, "k/x", 700, 1, 0},
    {"external to inline", KV, kv_setup, kv_set, NULL, "k/x", 20, 1, 0},
    {"new in parts", KV, kv_setup, kv_set, NULL, "k/new", BIG, 1, 0},
    {"parts to parts", KV, kv_setup, kv_set, NULL, "k/big", BIG, 1, 0},
    {"parts to inline", KV, kv_setup, kv_set, NULL, "k/big", 8, 1, 0},
    {"increment", KV, kv_setup, kv_increment, NULL, "k/n", 0, 1, 0},
    {"append inline", KV, kv_setup, kv_append, NULL, "k/a", 30, 1, 0},
    {"append external", KV, kv_setup, kv_append, NULL, "k/x", 600, 1, 0},
    {"compare and set", KV, kv_setup, kv_cas, NULL, "k/a", 90, 1, 0},
    {"compare and fail", KV, kv_setup, kv_cas_stale, NULL, "k/a", 90, 0, 0},
    {"delete", KV, kv_setup, kv_delete, NULL, "k/a", 0, 1, 0},
    {"delete the only key", KV, kv_setup_alone, kv_delete, NULL, "k/a", 0, 1, 0},
    {"delete when full", KV, kv_setup_full, kv_delete, NULL, "k/a", 0, 1, OP_FULL},
    {"set when full", KV, kv_setup_full, kv_set, NULL, "k/new", 3000, 0, OP_FULL},
    {"delete parts", KV, kv_setup, kv_delete, NULL, "k/big", 0, 1, 0},
    {"delete directory", KV, kv_setup, kv_delete, NULL, "d", 0, 4, OP_SEVERAL},
    {"get", KV, kv_setup, kv_get, NULL, "k/a", 0, 0, 0},
    {"get external", KV, kv_setup, kv_get, NULL, "k/x", 0, 0, 0},
    {"get parts", KV, kv_setup, kv_get, NULL, "k/big", 0, 0, 0},
    {"get directory", KV, kv_setup, kv_get_dir, NULL, "d", 0, 0, 0},
    {"get pinned", KV, kv_setup, kv_get_pinned, NULL, "k/big", 0, 0, 0},
    {"get waiting", KV, kv_setup, kv_get_waiting, NULL, "k/absent", 0, 0, OP_SLEEPS},
    {"a call of another host", KV, kv_setup_call, kv_call, kv_call_after, "k/n", 0, 1, 0},
    {"join", TASK, NULL, task_join, NULL, NULL, 0, 1, OP_OWNMAP},
    {"register", TASK, NULL, task_register, NULL, NULL, 0, 1, 0},
    {"process ended", TASK, NULL, task_ended, NULL, NULL, 0, 1, 0},
    {"leave", TASK, NULL, task_leave, NULL, NULL, 0, 1, OP_SEVERAL},
    {"report error", TASK, NULL, task_report, NULL, NULL, 0, 1, 0},
    {"report of another", TASK, task_setup_served, task_report_other, NULL, NULL, 0, 1, 0},
    {"reset", TASK, task_setup_served, task_reset, NULL, NULL, 0, 1, 0},
    {"heartbeat for it", TASK, task_setup_served, task_beat_known, NULL, NULL, 0, 0, 0},
    {"heartbeat, stale", TASK, task_setup_served, task_beat_stale, NULL, NULL, 0, 1, 0},
    {"heartbeat", TASK, NULL, task_heartbeat, NULL, NULL, 0, 0, 0},
    {"alive, first", TASK, NULL, task_alive, NULL, NULL, 0, 0, 0},
    {"alive, last", TASK, task_setup_alive, task_alive, NULL, NULL, 0, 0, 0},
    {"death wait", TASK, NULL, task_death_wait, NULL, NULL, 0, 0, 0},
    {"guest comes", TASK, NULL, guest_come, guest_after, NULL, 0, 1, 0},
    {"guest comes again", TASK, guest_setup, guest_come, guest_after, NULL, 0, 0, 0},
    {"guest, another", TASK, guest_setup, guest_come_anew, guest_after, NULL, 0, 1, 0},
    {"guest goes", TASK, guest_setup, guest_go, guest_after, NULL, 0, 1, 0},
    {"guest is lost", TASK, guest_setup, guest_lose, guest_after, NULL, 0, 1, 0},
    {"slot claim", SLOT, slot_setup, slot_claim, NULL, NULL, 0, 0, 0},
    {"claim after a death", SLOT, slot_setup_dead_mutex, slot_claim, NULL, NULL, 0, 0, 0},
    {"claim and release", SLOT, slot_setup, slot_claim_release, NULL, NULL, 0, 0, 0},
    {"slot release", SLOT, NULL, slot_release, NULL, NULL, 0, 0, 0},
    {"scavenge", SLOT, slot_setup_spare_dead, slot_scavenge, NULL, NULL, 0, 0, 0},
    {"scavenge an agent", SLOT, slot_setup_agent_dead, slot_scavenge, guest_after, NULL, 0, 1, 0},
    {"barrier first", BARRIER, NULL, barrier_arrive, barrier_after, NULL, 0, 1, OP_SEVERAL},
    {"barrier last", BARRIER, barrier_setup_others, barrier_arrive, barrier_after, NULL, 0, 1, 0},
    {"barrier next", BARRIER, barrier_setup_passed, barrier_arrive, barrier_after, NULL, 0, 1, OP_SEVERAL},
    {"barrier conflict", BARRIER, barrier_setup_others, barrier_conflict, barrier_after, NULL, 0, 1, 0},
    {"barrier cancel", BARRIER, barrier_setup_others, barrier_cancel, barrier_after, NULL, 0, 1, 0},
    {"barrier timeout", BARRIER, barrier_setup_expired, barrier_arrive, barrier_after, NULL, 0, 2, OP_SEVERAL},
    {"group create", GROUP, NULL, group_create, group_after, NULL, 0, 0, OP_SEVERAL},
    {"group create last", GROUP, group_setup_others_came, group_create, group_after, NULL, 0, 0, OP_SEVERAL},
    {"group create again", GROUP, group_setup, group_create, group_after, NULL, 0, 0, OP_SEVERAL},
    {"group barrier last", GROUP, group_setup_others_arrived, group_barrier, group_after, NULL, 0, 0, 0},
    {"group gives up", GROUP, group_setup, group_barrier, group_after, NULL, 0, 0, OP_SEVERAL},
    {"group allgather", GROUP, group_setup_others_arrived, group_allgather, group_after, NULL, 0, 0, 0},
    {"group free", GROUP, group_setup, group_free, group_after, NULL, 0, 0, OP_SEVERAL},
    {"group free last", GROUP, group_setup_others_left, group_free, group_after, NULL, 0, 0, OP_SEVERAL},
    {"event first", EVENT, NULL, event_send, NULL, NULL, 0, 1, 0},
    {"event overwriting", EVENT, event_setup_full, event_send, NULL, NULL, 0, 1, 0},
    {"event read", EVENT, event_setup_full, event_read, NULL, NULL, 0, 0, 0},
    {"object put", OBJECT, object_setup, object_put, object_after, NULL, 0, 0, 0},
    {"object create", OBJECT, object_setup, object_create, object_after, NULL, 3000, 0, 0},
    {"object put, large", OBJECT, object_setup, object_put, object_after, NULL, 70000, 0, 0},
    {"object create, large", OBJECT, object_setup, object_create, object_after, NULL, 70000, 0, 0},
    {"object drop, large", OBJECT, object_setup_large, object_drop_own, object_after, NULL, 0, 0, 0},
    {"object seal", OBJECT, object_setup, object_seal, object_after, NULL, 0, 1, 0},
    {"object fail", OBJECT, object_setup, object_fail, object_after, NULL, 0, 1, 0},
    {"object retain", OBJECT, object_setup, object_retain, object_after, NULL, 0, 0, 0},
    {"object drop, shared", OBJECT, object_setup, object_drop_shared, object_after, NULL, 0, 0, 0},
    {"object drop, the last", OBJECT, object_setup, object_drop_own, object_after, NULL, 0, 0, 0},
    {"object drop, unsealed", OBJECT, object_setup, object_drop_open, object_after, NULL, 0, 0, 0},
    {"object drop, unsealed last", OBJECT, object_setup, object_drop_lone, object_after, NULL, 0, 0, 0},
    {"object get", OBJECT, object_setup, object_get, object_after, NULL, 0, 0, 0},
    {"ps push", PS, ps_setup, ps_push, ps_after, NULL, 0, 1, 0},
    {"ps push, kept", PS, ps_setup, ps_push, ps_after, NULL, 2, 1, 0},
    {"ps push, of a round the last", PS, ps_setup_pushed, ps_push, ps_after, NULL, 2, 1, 0},
    {"ps rows", PS, ps_setup, ps_rows, ps_after, NULL, 0, 2, OP_SEVERAL},
    {"ps create", PS, ps_setup, ps_create, ps_after, NULL, 0, 0, 0},
    {"call submit", CALL, call_setup, call_submit, call_after, NULL, 1, 9, OP_SEVERAL},
    {"call submit, several", CALL, call_setup, call_submit, call_after, NULL, 2, 99, OP_SEVERAL},
    {"call submit, large", CALL, call_setup, call_submit_large, call_after, NULL, 0, 9, OP_SEVERAL},
    {"call submit, waiting", CALL, call_setup, call_submit_waiting, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call submit, placed", CALL, call_setup, call_submit_placed, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call, seal an argument", CALL, call_setup, call_seal, call_after, NULL, 0, 9, OP_SEVERAL},
    {"call, drop an argument", CALL, call_setup, call_drop, call_after, NULL, 0, 0, OP_SEVERAL},
    {"call take", CALL, call_setup_queued, call_take, call_after, NULL, 0, 0, OP_SEVERAL},
    {"call take, placed", CALL, call_setup_place, call_take_placed, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call take leased", CALL, call_setup_asking, call_take, call_after, NULL, 0, 0, OP_SEVERAL},
    {"call done leased", CALL, call_setup_lent, call_end, call_after, NULL, 1, 9, OP_SEVERAL},
    {"call fail leased", CALL, call_setup_lent, call_fail, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call done", CALL, call_setup_taken, call_end, call_after, NULL, 1, 9, OP_SEVERAL},
    {"call done, several", CALL, call_setup_taken_two, call_end, call_after, NULL, 2, 99, OP_SEVERAL},
    {"call forward", CALL, call_setup_taken, call_forward, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call fail", CALL, call_setup_taken, call_fail, call_after, NULL, 0, 99, OP_SEVERAL},
    {"call cancel", CALL, call_setup_queued, call_cancel, call_after, NULL, 1, 9, OP_SEVERAL},
    {"call cancel, waiting", CALL, call_setup_queued, call_cancel, call_after, NULL, 0, 9, OP_SEVERAL},
    {"function export", CALL, call_setup, call_export, call_after, NULL, 0, 99, OP_SEVERAL},
    {"place open", CALL, call_setup, call_open_place, call_after, NULL, 0, 0, OP_SEVERAL},
    {"place close", CALL, call_setup_place, call_close_place, call_after, NULL, 0, 99, OP_SEVERAL},
    {"queue write", QUEUE, queue_setup, queue_write, queue_after, NULL, 20, 2, OP_SEVERAL},
    {"queue write, long", QUEUE, queue_setup, queue_write, queue_after, NULL, QUEUE_OBJECT, 2, OP_SEVERAL},
    {"queue write, with the anchor", QUEUE, queue_setup_anchor, queue_write, queue_after, NULL, 20, 2, OP_SEVERAL},
    {"queue publish, long", QUEUE, queue_setup, queue_publish, queue_after, NULL, QUEUE_OBJECT, 2, OP_SEVERAL},
    {"queue read", QUEUE, queue_setup, queue_read, queue_after, NULL, 0, 0, OP_SEVERAL},
    {"queue read, with the anchor", QUEUE, queue_setup_read, queue_read, queue_after, NULL, 0, 0, OP_SEVERAL},
    {"queue create", QUEUE, queue_setup, queue_create, queue_after, NULL, 0, 0, OP_SEVERAL},
    {"queue open", QUEUE, queue_setup, queue_open, queue_after, NULL, 0, 0, OP_SEVERAL},
    {"queue close, a reader's", QUEUE, queue_setup, queue_close, queue_after, NULL, 0, 0, OP_SEVERAL},
    {"queue close, the writer's", QUEUE, queue_setup, queue_close, queue_after, NULL, 1, 1, OP_SEVERAL},
    {"membership begin", MEMBERS, NULL, members_begin, members_after, NULL, 0, 1, OP_SEVERAL},
    {"membership, propose", MEMBERS, members_setup, members_propose, members_after, NULL, 0, 1, 0},
    {"membership, ready first", MEMBERS, members_setup_change, members_ready, members_after, NULL, 0, 0, 0},
    {"membership, ready last", MEMBERS, members_setup_others_ready, members_ready, members_after, NULL, 0, 0, 0},
    {"membership, done last", MEMBERS, members_setup_others_done, members_done, members_after, NULL, 0, 1, 0},
    {"membership, cancel", MEMBERS, members_setup_change, members_cancel, members_after, NULL, 0, 0, 0},
    {"membership, wish", MEMBERS, members_setup_anew, members_wish, members_after_anew, NULL, 0, 1, 0},
    {"membership, take", MEMBERS, members_setup_wish, members_take, members_after_anew, NULL, 0, 1, 0},
    {"membership, a loss", MEMBERS, members_setup_served, task_report_other, members_after, NULL, 0, 2, OP_SEVERAL},
    {"exchange first", TOPOLOGY, NULL, topology_exchange, topology_after, NULL, 0, 1, OP_SEVERAL},
    {"exchange last", TOPOLOGY, topology_setup_others, topology_exchange, topology_after, NULL, 0, 2, OP_SEVERAL},
};
const unsigned num_ops = sizeof ops / sizeof ops[0];

/* ---- what a peer does while the victim is paused ---- */

static void note(enum muster_status status, uint64_t a)
{
    board->outcome[1] = (struct outcome){status, a, 0};
}

static uint8_t bytes[BIG];

static void in_set(const struct op *op)
{
    crash_fill(bytes, 64, 21);
    note(muster_kv_set(world.m[PEER], op->key, MUSTER_NTS, bytes, 64, NULL), 0);
}

static void in_set_large(const struct op *op)
{
    crash_fill(bytes, BIG, 22);
    note(muster_kv_set(world.m[PEER], op->key, MUSTER_NTS, bytes, BIG, NULL), 0);
}

static void in_delete(const struct op *op)
{
    size_t n = 0;
    enum muster_status status = muster_kv_delete(world.m[PEER], op->key, MUSTER_NTS, &n);

    note(status, n);
}

static void in_increment(const struct op *op)
{
    int64_t sum = 0;
    enum muster_status status = muster_kv_increment(world.m[PEER], op->key, MUSTER_NTS, 10, &sum);

    note(status, (uint64_t)sum);
}

static void in_append(const struct op *op)
{
    size_t len = 0;
    enum muster_status status = muster_kv_append(world.m[PEER], op->key, MUSTER_NTS, "tail", 4, &len);

    note(status, len);
}

/* Away and back again, as before, and so often that blocks and words come round. */
static void in_churn(const struct op *op)
{
    static struct mu_key a, b;
    struct mu_table t = mu_table_kv(&world.seg);
    char name[32];

    mu_key_make(&a, &world.seg, op->key, strlen(op->key));
    for (unsigned i = 0, found = 0; found < 2; i++) {
        snprintf(name, sizeof name, "churn/%u", i);
        mu_key_make(&b, &world.seg, name, strlen(name));
        if (mu_table_bucket(&t, &a) != mu_table_bucket(&t, &b))
            continue;
        found++;
        crash_fill(bytes, 700, found);
        for (int k = 0; k < 4; k++) {
            muster_kv_set(world.m[PEER], name, MUSTER_NTS, bytes, k % 2 ? 700 : 30, NULL);
            muster_kv_delete(world.m[PEER], name, MUSTER_NTS, NULL);
        }
        muster_kv_set(world.m[PEER], name, MUSTER_NTS, bytes, 12, NULL);
    }
    note(MUSTER_OK, 0);
}

/* So often that the blocks of the first value are written again. */
static void in_set_large_often(const struct op *op)
{
    for (unsigned i = 0; i < 6; i++) {
        crash_fill(bytes, BIG, 30 + i);
        note(muster_kv_set(world.m[PEER], op->key, MUSTER_NTS, bytes, BIG, NULL), 0);
    }
}

/* The root of the operation's bucket is replaced, and its block becomes the root of another bucket. */
static void in_recycle(const struct op *op)
{
    static struct mu_key a, b;
    struct mu_table t = mu_table_kv(&world.seg);
    char near[32], far[32];
    mu_a64 *word, *other;
    uint64_t root, meta;
    size_t len;

    mu_key_make(&a, &world.seg, op->key, strlen(op->key));
    word = mu_table_bucket(&t, &a);
    root = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
    for (unsigned i = 0;; i++) {
        snprintf(near, sizeof near, "recycle/%u", i);
        mu_key_make(&b, &world.seg, near, strlen(near));
        if (mu_table_bucket(&t, &b) == word)
            break;
    }
    for (unsigned i = 0;; i++) { /* a bucket of its own, so that its page can be made as long */
        snprintf(far, sizeof far, "elsewhere/%u", i);
        mu_key_make(&b, &world.seg, far, strlen(far));
        other = mu_table_bucket(&t, &b);
        if (other != word && !MU_WORD_INDEX(mu_load_acquire(other))) /* acquire: a look */
            break;
    }
    note(MUSTER_OK, 0);
    if (!MU_WORD_INDEX(root))
        return;
    meta = mu_load_relaxed(&mu_heap_block(&world.seg, MU_WORD_INDEX(root), NULL)->meta); /* relaxed: not replaced yet */
    len = MU_META_BYTES(meta) + 8 * MU_META_REFS(meta) - 8 * (MU_PAGE_WORDS + MU_ENTRY_WORDS + mu_words(b.len));
    muster_kv_set(world.m[PEER], near, MUSTER_NTS, "", 0, NULL);
    crash_fill(bytes, len, 40);
    for (int i = 0; i < 200 && MU_WORD_INDEX(mu_load_acquire(other)) != MU_WORD_INDEX(root); i++) /* acquire: a look */
        muster_kv_set(world.m[PEER], far, MUSTER_NTS, bytes, len, NULL);
}

static void replace_as_spare(void *arg)
{
    const struct op *op = arg;

    crash_become(getpid(), 1u << SPARE);
    crash_fill(bytes, 64, 23);
    muster_kv_set(world.m[SPARE], op->key, MUSTER_NTS, bytes, 64, NULL);
}

/* A writer replaces the value, and is killed when it has changed this word; or in the end, if it never does. */
static bool spare_dies(const struct op *op, const mu_a64 *word)
{
    uint64_t seen = mu_load_acquire(word); /* acquire, as below: a look */
    struct stepper s;

    if (!step_start(&s, replace_as_spare, (void *)(uintptr_t)op))
        return false;
    step_guard(&s, world.base, world.size);
    while (mu_load_acquire(word) == seen && (step_clone_refused() ? step_one(&s) : step_on(&s)))
        continue;
    step_kill(&s);
    crash_die(s.pid, 1u << SPARE);
    return true;
}

static size_t length_of(const struct op *op)
{
    size_t len = 0;

    muster_kv_try_get(world.m[PEER], op->key, MUSTER_NTS, bytes, sizeof bytes, &len, NULL);
    return len;
}

/* The peer uses every block of that size that it can get. */
static void use_all(size_t size)
{
    static uint8_t other[64000];
    char key[32];

    if (size > sizeof other)
        size = sizeof other;
    crash_fill(other, size, 24);
    for (unsigned i = 0; size && i < 4096; i++) {
        snprintf(key, sizeof key, "recycled/%u", i);
        if (muster_kv_set(world.m[PEER], key, MUSTER_NTS, other, size, NULL))
            break;
    }
    muster_kv_delete(world.m[PEER], "recycled", MUSTER_NTS, NULL);
}

/* Killed between its commit and its frees; the peer cleans up. Who reads the old value in place must not notice. */
static void in_commit_and_die(const struct op *op)
{
    static struct mu_key k;
    struct mu_table t = mu_table_kv(&world.seg);
    size_t size = length_of(op);

    mu_key_make(&k, &world.seg, op->key, strlen(op->key));
    if (!spare_dies(op, mu_table_bucket(&t, &k)))
        return crash_bad("the writer cannot be stepped");
    note(muster_scavenge(world.m[PEER], NULL), 0);
    use_all(size);
}

/* The word of the value's first part; else of its bucket. */
static const mu_a64 *first_part(const struct op *op)
{
    static struct mu_key k;
    static uint64_t body[MU_CHUNK / 8];
    struct mu_table t = mu_table_kv(&world.seg);
    bool corrupt = false;
    struct mu_root root;
    struct mu_page page;
    struct mu_entry e;
    uint64_t parts[2];
    uint32_t i = 0;

    mu_key_make(&k, &world.seg, op->key, strlen(op->key));
    if (mu_object_read(&world.seg, mu_table_bucket(&t, &k), body, &root) == MU_READ_OK && mu_page_open(&page, &root))
        while (mu_page_next(&page, &i, &e, &corrupt))
            if (e.hash == k.hash && (e.flags & MU_ENTRY_EXTERNAL) &&
                mu_heap_refs(&world.seg, body[e.ref_at], parts, 2) == 2)
                return &mu_heap_block(&world.seg, MU_REF_INDEX(parts[0]), NULL)->word;
    return mu_table_bucket(&t, &k);
}

/* Killed when it has freed one part of several. What lists them is alive until somebody cleans up, which comes later.
 */
static void in_die_freeing(const struct op *op)
{
    size_t size = length_of(op);

    if (!spare_dies(op, first_part(op))) /* it leaves the parts to a reader who pins them, and then ends */
        return crash_bad("the writer cannot be stepped");
    use_all(size);
    note(MUSTER_OK, 0);
}

/* So often with as many bytes that the blocks of the first value are written again. */
static void in_set_alike(const struct op *op)
{
    size_t size = length_of(op);

    for (unsigned i = 0; i < 20; i++) {
        crash_fill(bytes, size, 40 + i);
        note(muster_kv_set(world.m[PEER], op->key, MUSTER_NTS, bytes, size, NULL), 0);
    }
}

static void in_scavenge(const struct op *op)
{
    (void)op;
    crash_die(0, 1u << SPARE);
    note(muster_scavenge(world.m[PEER], NULL), 0);
}

static void in_report(const struct op *op)
{
    (void)op;
    note(muster_error_report(world.m[PEER], 1, MUSTER_ABORTED, "of the peer"), 0);
}

static void in_report_served(const struct op *op)
{
    (void)op;
    note(muster_error_report(world.m[PEER], 3, MUSTER_ABORTED, "by the peer"), 0);
}

static void in_leave(const struct op *op)
{
    (void)op;
    note(muster_leave(world.m[PEER]), 0);
}

static void in_beat(const struct op *op)
{
    (void)op;
    note(muster_task_heartbeat(world.m[PEER], 3, 5), 0);
}

static void in_claim(const struct op *op)
{
    struct muster *m = mu_handle_new(&world.seg, MUSTER_JOIN_OBSERVER);
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(m, &ctx);

    (void)op;
    if (!status)
        mu_exit(ctx);
    muster_thread_detach(m);
    note(status, 0);
}

static const int32_t trio[] = {0, 1, 2};

static void in_arrive(const struct op *op)
{
    (void)op;
    note(muster_barrier_wait(world.m[PEER], "meet", 0, trio, 3, 0, 0), 0);
}

static void in_cancel(const struct op *op)
{
    (void)op;
    note(muster_barrier_cancel(world.m[PEER], "meet", 0), 0);
}

static void in_close(const struct op *op)
{
    (void)op;
    if (world.g[PEER])
        note(mu_group_close(world.g[PEER], 1, MU_ARRIVED_TIMEOUT) ? MUSTER_DEADLINE_EXCEEDED : MUSTER_OK, 0);
}

static void in_group_leave(const struct op *op)
{
    (void)op;
    if (world.g[PEER])
        muster_group_free(world.g[PEER]);
    note(MUSTER_OK, 0);
}

static void in_group_create(const struct op *op)
{
    struct muster_group *g;

    (void)op;
    note(muster_group_create(world.m[PEER], "team", trio, 3, 64, 0, &g), 0);
}

static void in_send(const struct op *op)
{
    uint64_t sequence = 0;
    enum muster_status status = muster_event_send(world.m[PEER], 8, "of the peer", MUSTER_NTS, &sequence);

    (void)op;
    note(status, sequence);
}

static void in_send_many(const struct op *op)
{
    for (int i = 0; i < 2 * EVENTS + 1; i++)
        in_send(op);
}

#define ONLY(kind) (1u << (kind))
#define ALL        (ONLY(KINDS) - 1)
const struct interference interferences[] = {
    {"set", ONLY(KV), in_set, 0, false},
    {"set in parts", ONLY(KV), in_set_large, 0, false},
    {"delete", ONLY(KV), in_delete, 0, false},
    {"increment", ONLY(KV), in_increment, 0, false},
    {"append", ONLY(KV), in_append, 0, false},
    {"churn", ONLY(KV), in_churn, 0, false},
    {"set in parts, often", ONLY(KV), in_set_large_often, 0, false},
    {"recycle", ONLY(KV), in_recycle, 0, false},
    {"commit and death", ONLY(KV), in_commit_and_die, IN_PARTS, false},
    {"death while freeing", ONLY(KV), in_die_freeing, IN_PARTS, false},
    {"set alike, often", ONLY(KV), in_set_alike, IN_BLOCKS, false},
    {"death and scavenge", ALL, in_scavenge, 0, false},
    {"report error", ONLY(TASK) | ONLY(BARRIER) | ONLY(GROUP), in_report, 0, false},
    {"report of task 3", ONLY(TASK), in_report_served, 0, false},
    {"leave", ONLY(TASK) | ONLY(BARRIER), in_leave, 0, true},
    {"heartbeat", ONLY(TASK), in_beat, 0, false},
    {"slot claim", ONLY(SLOT) | ONLY(TASK), in_claim, 0, false},
    {"arrive", ONLY(BARRIER), in_arrive, 0, false},
    {"cancel", ONLY(BARRIER), in_cancel, 0, false},
    {"close", ONLY(GROUP), in_close, 0, false},
    {"group leave", ONLY(GROUP), in_group_leave, 0, true},
    {"group create", ONLY(GROUP), in_group_create, OP_SEVERAL, false},
    {"send", ONLY(EVENT), in_send, 0, false},
    {"send many", ONLY(EVENT), in_send_many, OP_SEVERAL, false},
    {"exchange", ONLY(TOPOLOGY), topology_interfere, 0, false},
    {"object retain", ONLY(OBJECT), object_in_retain, 0, false},
    {"object drop", ONLY(OBJECT), object_in_drop, 0, false},
    {"object put", ONLY(OBJECT), object_in_put, 0, false},
    {"ps push", ONLY(PS), ps_in_push, 0, false},
    {"ps rows", ONLY(PS), ps_in_rows, 0, false},
    {"membership ready", ONLY(MEMBERS), members_in_ready, 0, false},
    {"membership propose", ONLY(MEMBERS), members_in_propose, 0, false},
    {"call take", ONLY(CALL), call_in_take, OP_SEVERAL, false},
    {"call submit", ONLY(CALL), call_in_submit, OP_SEVERAL, false},
    {"call cancel", ONLY(CALL), call_in_cancel, OP_SEVERAL, false},
    {"queue churn", ONLY(QUEUE), queue_in_churn, OP_SEVERAL, false},
    {"queue read", ONLY(QUEUE), queue_in_read, OP_SEVERAL, false},
    {"queue open", ONLY(QUEUE), queue_in_open, OP_SEVERAL, false},
};
const unsigned num_interferences = sizeof interferences / sizeof interferences[0];

bool crash_applies(const struct interference *in, const struct op *op)
{
    if (!(in->kinds & 1u << op->kind))
        return false;
    if ((in->flags & IN_BLOCKS) && op->key && !strcmp(op->key, "k/x"))
        return true;
    return !(in->flags & (IN_PARTS | IN_BLOCKS)) || (op->key && !strcmp(op->key, "k/big"));
}
