/*
 * object/room.c: waiting for room. A waiter asks to be told of frees (the header's `wanted`, segment/heap.h), tries
 * again, and sleeps on that word. What others freed while it tried, and what nobody told of, it finds at the recheck.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "object/holding.h"
#include "segment/cluster.h"
#include "segment/heap.h"
#include "segment/names.h"
#include "segment/slot.h"
#include "segment/wait.h"

enum { WHAT_MAX = 64, NAMED = 3 };

/* ---- the holders of the most bytes ---- */

struct holder {
    uint32_t task, objects; /* task: + 1 */
    uint64_t bytes;
};

static struct holder slot_holds(struct mu_ctx *ctx, uint32_t slot)
{
    const struct muster_segment *seg = ctx->seg;
    const struct mu_slot *s = &seg->slots[slot];
    uint64_t word = mu_load_acquire(&s->word); /* acquire: pairs with the claim */
    struct holder h = {0};
    struct mu_ledger_walk walk;
    mu_a64 *records;
    uint32_t n;

    if (MU_SLOT_STATE(word) == MU_SLOT_FREE)
        return h;
    h.task = (uint32_t)mu_load_relaxed(&s->task); /* relaxed: for a sentence */
    mu_ledger_walk(&walk, seg, slot, MU_SLOT_INCARNATION(word));
    while ((records = mu_ledger_next(&walk, &n)) != NULL)
        for (uint32_t i = 0; i < n; i++) {
            uint64_t ref = mu_load_acquire(&records[i]); /* acquire: pairs with the stores of the record */
            struct mu_object o;

            if (!MU_OBJECT_GENERATION(ref) || mu_object_peek(seg, ref, ctx->scratch, &o))
                continue;
            h.objects++;
            h.bytes += mu_object_whole(&o);
        }
    return h;
}

static void place_add(char *text, size_t size, const struct muster_segment *seg, const struct holder *h)
{
    char name[MU_NAME_MAX];
    struct mu_task_record r;
    struct mu_cluster cluster;
    size_t at = strlen(text);

    if (h->task && !mu_cluster_task(seg, h->task - 1, &r, NULL, &cluster))
        mu_cluster_place(seg, h->task - 1, &r, name);
    else
        snprintf(name, sizeof name, "a process that has left");
    snprintf(text + at, size - at, "%s%s %llu KiB in %u object%s", at ? ", " : "", name,
             (unsigned long long)(h->bytes + 1023) / 1024, h->objects, h->objects == 1 ? "" : "s");
}

/* RESOURCE_EXHAUSTED, with `why` and the tasks that hold the most bytes; an object counts for each of its holders. */
static enum muster_status room_none(struct mu_ctx *ctx, const char *why)
{
    struct holder most[NAMED + 1] = {{0}};
    uint32_t high = mu_slot_high(ctx->seg);
    char text[MU_SENTENCE_MAX / 2] = "";

    for (uint32_t i = 0; i < high; i++) {
        uint32_t at = NAMED;

        most[at] = slot_holds(ctx, i);
        for (; at && most[at].bytes > most[at - 1].bytes; at--) {
            struct holder less = most[at - 1];

            most[at - 1] = most[at];
            most[at] = less;
        }
    }
    for (uint32_t i = 0; i < NAMED && most[i].bytes; i++)
        place_add(text, sizeof text, ctx->seg, &most[i]);
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%.450s; nothing that is dropped made room by the deadline; held by %s",
                   why, *text ? text : "nobody");
}

/* ---- the wait ---- */

static enum muster_status room_await(struct mu_ctx *ctx, uint64_t bytes, muster_deadline deadline, mu_room_fn fn,
                                     void *arg)
{
    bool large = MU_OBJECT_PAD + bytes > MU_BODY_MAX;
    uint32_t class_index = large ? MU_WANTED_RUNS : mu_heap_class(mu_object_pad(bytes) + bytes);
    struct muster_segment *seg = ctx->seg;
    enum muster_status status;
    char what[WHAT_MAX], why[MU_SENTENCE_MAX];
    struct mu_wait w;

    snprintf(what, sizeof what, "room for an object of %llu bytes", (unsigned long long)bytes);
    mu_wait_begin(&w, seg, ctx, deadline, what);
    for (;;) {
        uint64_t seen;

        mu_wait_look(&w);
        seen = mu_heap_want(seg, class_index);
        status = fn(ctx, arg);
        if (status != MUSTER_RESOURCE_EXHAUSTED)
            break;
        mu_error_keep(why);
        status = mu_cluster_error(seg, what);
        if (status)
            break;
        if (!large) /* what the try took and gave back has changed the word */
            seen = mu_heap_want(seg, class_index);
        status = mu_wait_on(&w, &seg->header->wanted, seen);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            status = room_none(ctx, why);
        if (status)
            break;
    }
    mu_wait_end(&w);
    return status;
}

enum muster_status mu_room_wait(struct mu_ctx *ctx, uint64_t bytes, muster_deadline deadline, mu_room_fn fn, void *arg)
{
    enum muster_status status = fn(ctx, arg);

    if (status != MUSTER_RESOURCE_EXHAUSTED || (deadline != MUSTER_FOREVER && deadline <= mu_now()))
        return status;
    return room_await(ctx, bytes, deadline, fn, arg);
}
