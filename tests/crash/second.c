/*
 * tests/crash/second.c: one operation of every kind, to see that everything still works after a death.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_kv.h"

static uint8_t bytes[BIG], back[BIG];

static void need(enum muster_status got, enum muster_status want, const char *what)
{
    if (got != want)
        crash_bad("afterwards, %s gives %s (%s)", what, muster_status_name(got), got ? muster_last_error() : "");
}

/* The state must not be broken, whatever the answer is. */
static void sound(enum muster_status got, const char *what)
{
    if (got == MUSTER_DATA_LOSS || got == MUSTER_RESOURCE_EXHAUSTED || got == MUSTER_UNKNOWN)
        crash_bad("afterwards, %s gives %s (%s)", what, muster_status_name(got), muster_last_error());
}

static void kv(const struct op *op, struct muster *m)
{
    static const size_t sizes[] = {40, 3000, BIG};
    uint64_t version = 0;
    int64_t sum = 0;
    size_t len = 0, count = 0;

    for (unsigned i = 0; i < 3; i++) {
        crash_fill(bytes, sizes[i], 50 + i);
        need(muster_kv_set(m, "second/a", MUSTER_NTS, bytes, sizes[i], &version), MUSTER_OK, "set");
        need(muster_kv_get(m, "second/a", MUSTER_NTS, 0, back, sizeof back, &len, NULL), MUSTER_OK, "get");
        if (len != sizes[i] || memcmp(bytes, back, len))
            crash_bad("afterwards, a value of %zu bytes comes back torn", sizes[i]);
    }
    need(muster_kv_insert(m, "second/a", MUSTER_NTS, "", 0), MUSTER_ALREADY_EXISTS, "insert");
    need(muster_kv_compare_and_set(m, "second/a", MUSTER_NTS, version, "x", 1, NULL), MUSTER_OK, "compare and set");
    need(muster_kv_append(m, "second/a", MUSTER_NTS, "yz", 2, &len), MUSTER_OK, "append");
    need(muster_kv_increment(m, "second/n", MUSTER_NTS, 5, &sum), MUSTER_OK, "increment");
    if (len != 3 || sum != 5)
        crash_bad("afterwards, append gives length %zu and increment %lld", len, (long long)sum);
    need(muster_kv_delete(m, "second", MUSTER_NTS, &count), MUSTER_OK, "delete");
    if (count != 2)
        crash_bad("afterwards, %zu keys were deleted instead of 2", count);
    if (!op->key)
        return;
    sound(muster_kv_try_get(m, op->key, MUSTER_NTS, back, sizeof back, &len, NULL), "get of the same key");
    sound(muster_kv_append(m, op->key, MUSTER_NTS, "more", 4, NULL), "append to the same key");
    need(muster_kv_set(m, op->key, MUSTER_NTS, "12", 2, NULL), MUSTER_OK, "set of the same key");
    need(muster_kv_increment(m, op->key, MUSTER_NTS, 1, &sum), MUSTER_OK, "increment of the same key");
    need(muster_kv_delete(m, op->key, MUSTER_NTS, NULL), MUSTER_OK, "delete of the same key");
}

/* Every slot that nobody living holds can be claimed. */
static void slots(void)
{
    struct muster *handles[SLOTS];
    unsigned free_slots = 0, n = 0;
    struct mu_ctx *ctx;

    for (uint32_t i = 0; i < world.seg.num_slots - world.seg.reserved_slots; i++)
        free_slots += MU_SLOT_STATE(mu_load_acquire(&world.seg.slots[i].word)) == MU_SLOT_FREE; /* acquire: a look */
    while (n < SLOTS) {
        handles[n] = mu_handle_new(&world.seg, MUSTER_JOIN_OBSERVER);
        if (mu_enter(handles[n], &ctx))
            break;
        if (mu_load_relaxed(&ctx->own->act) || mu_load_relaxed(&ctx->own->pin) ||
            mu_load_relaxed(&ctx->own->wait_since))
            crash_bad("afterwards, slot %u is handed out unclean", ctx->slot);
        mu_exit(ctx);
        n++;
    }
    if (n != free_slots)
        crash_bad("afterwards, %u of %u free slots can be claimed", n, free_slots);
    while (n--)
        muster_thread_detach(handles[n]);
}

static void meet(struct muster *m, int who)
{
    struct muster_group *g = NULL;
    struct muster_task_info info = {0};
    int32_t self = who;

    /* a peer's operation may have put the task itself in error: then the barrier says so, and that is its answer */
    need(muster_task_get(m, who, &info), MUSTER_OK, "looking at a task");
    need(muster_barrier_wait(m, "second", MUSTER_BARRIER_NEXT, &self, 1, 0, 0),
         info.state == MUSTER_TASK_ERROR ? MUSTER_INTERNAL : MUSTER_OK, "a barrier");
    need(muster_barrier_cancel(m, "second cancelled", 0), MUSTER_OK, "cancelling a barrier");
    sound(muster_barrier_cancel(m, "meet", MUSTER_BARRIER_NEXT), "cancelling the same barrier");
    need(muster_group_create(m, "second", &self, 1, 0, 0, &g), MUSTER_OK, "a group");
    if (g) {
        need(muster_group_barrier(g, 0), MUSTER_OK, "the group's barrier");
        muster_group_free(g);
    }
}

static void events(struct muster *m, struct muster *reader)
{
    struct muster_event e = {0};
    uint64_t sequence = 0, next = 0;
    char payload[16] = "";

    for (unsigned i = 0; i < EVENTS + 1; i++) {
        need(muster_event_send(m, 99, "second", MUSTER_NTS, &sequence), MUSTER_OK, "an event");
        if (i && sequence != next)
            crash_bad("afterwards, event %llu follows %llu", (unsigned long long)sequence,
                      (unsigned long long)next - 1);
        next = sequence + 1;
    }
    need(muster_event_read(reader, &sequence, 0, &e, payload, sizeof payload, NULL), MUSTER_OK, "reading an event");
    if (e.type != 99 || memcmp(payload, "second", 6))
        crash_bad("afterwards, an event comes back torn");
}

static void tasks(struct muster *m)
{
    struct muster_task_info info;
    int32_t task = 0;

    if (muster_task_get(m, task, &info))
        return crash_bad("afterwards, the task's record cannot be read: %s", muster_last_error());
    if (info.state != MUSTER_TASK_DISCONNECTED && !info.alive)
        need(muster_task_reset(m, task), MUSTER_OK, "resetting the victim");
    sound(muster_task_reset(m, 3), "resetting task 3");
    need(muster_heartbeat(m), MUSTER_OK, "a heartbeat");
    sound(muster_task_heartbeat(m, 3, 1), "a heartbeat for task 3");
}

void crash_second(const struct op *op, int who, int other)
{
    struct muster *m = world.m[who];

    if (op->flags & OP_FULL)
        need(muster_kv_delete(m, "fill", MUSTER_NTS, NULL), MUSTER_OK, "making room");
    kv(op, m);
    slots();
    meet(m, who);
    events(m, world.m[other]);
    crash_object_second(who, other);
    tasks(m);
    sound(muster_error_report(m, who, MUSTER_ABORTED, "the second operation"), "reporting an error");
    crash_audit("after a second operation of every kind");
    crash_idle("after a second operation of every kind");
    crash_background(world.m[other]);
}
