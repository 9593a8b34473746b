/*
 * tests/crash/ops_object.c: operations on objects.
 *
 * Before each, the victim and the peer hold `shared`; the victim alone holds `own`; the victim has made `open`, not
 * sealed it, and the peer holds it, too; `lone` is like it, but nobody else holds it; and the peer alone holds `other`.
 */
#include <stdio.h>
#include <string.h>

#include "ops_kv.h"
#include "segment/ledger.h"

static muster_object shared, own, open_one, lone, other;

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

static muster_object put(int who, unsigned size, unsigned seed)
{
    uint8_t filled[600];
    muster_object object = 0;

    crash_fill(filled, size, seed);
    if (muster_object_put(world.m[who], filled, size, "meta", 4, 0, &object))
        crash_bad("setup of an object: %s", muster_last_error());
    return object;
}

static muster_object create(void)
{
    struct muster_object_room room;
    muster_object object = 0;

    if (muster_object_create(world.m[VICTIM], 100, 0, 0, &object, &room))
        crash_bad("setup of an object: %s", muster_last_error());
    else
        crash_fill(room.data, 100, 5);
    return object;
}

void object_setup(const struct op *op)
{
    (void)op;
    shared = put(PEER, 20, 1);
    own = put(VICTIM, 600, 2);
    open_one = create();
    lone = create();
    other = put(PEER, 20, 3);
    if (muster_object_retain(world.m[VICTIM], &shared, 1, NULL) ||
        muster_object_retain(world.m[PEER], &open_one, 1, NULL))
        crash_bad("setup of an object: %s", muster_last_error());
}

/* And `own` lies in the arena. */
void object_setup_large(const struct op *op)
{
    static const uint8_t bytes[70000];

    object_setup(op);
    if (muster_object_drop(world.m[VICTIM], &own, 1) ||
        muster_object_put(world.m[VICTIM], bytes, sizeof bytes, NULL, 0, 0, &own))
        crash_bad("setup of a large object: %s", muster_last_error());
}

void object_put(const struct op *op)
{
    static const uint8_t bytes[70000];
    muster_object object;

    note(muster_object_put(world.m[VICTIM], op->size ? bytes : (const uint8_t *)"twenty bytes",
                           op->size ? op->size : 12, NULL, 0, 0, &object));
}

void object_create(const struct op *op)
{
    struct muster_object_room room;
    muster_object object;

    note(muster_object_create(world.m[VICTIM], op->size, 0, 0, &object, &room));
}

void object_seal(const struct op *op)
{
    (void)op;
    note(muster_object_seal(world.m[VICTIM], open_one));
}

void object_fail(const struct op *op)
{
    (void)op;
    note(muster_object_fail(world.m[VICTIM], open_one, MUSTER_ABORTED, "as it must"));
}

void object_retain(const struct op *op)
{
    (void)op;
    note(muster_object_retain(world.m[VICTIM], &other, 1, NULL));
}

void object_drop_shared(const struct op *op)
{
    (void)op;
    note(muster_object_drop(world.m[VICTIM], &shared, 1));
}

void object_drop_own(const struct op *op)
{
    (void)op;
    note(muster_object_drop(world.m[VICTIM], &own, 1));
}

void object_drop_open(const struct op *op)
{
    (void)op;
    note(muster_object_drop(world.m[VICTIM], &open_one, 1));
}

void object_drop_lone(const struct op *op)
{
    (void)op;
    note(muster_object_drop(world.m[VICTIM], &lone, 1));
}

void object_get(const struct op *op)
{
    struct muster_object_view v;

    (void)op;
    note(muster_object_get(world.m[VICTIM], &other, 1, 0, &v, NULL));
    muster_object_unview(world.m[VICTIM], &v, 1);
}

/* The peer still has what it held, whole, and can end with it. */
void object_after(const struct op *op)
{
    struct muster_object_info info;
    struct muster_object_view v;
    uint8_t want[20];

    (void)op;
    crash_fill(want, sizeof want, 1);
    if (muster_object_get(world.m[PEER], &shared, 1, 0, &v, NULL))
        crash_bad("the peer's object is lost: %s", muster_last_error());
    else if (v.len != 20 || memcmp(v.data, want, 20) || v.meta_len != 4 || memcmp(v.meta, "meta", 4))
        crash_bad("the peer's object is torn");
    muster_object_unview(world.m[PEER], &v, 1);
    if (muster_object_get(world.m[PEER], &own, 1, 0, &v, NULL) != MUSTER_NOT_FOUND ||
        muster_object_get(world.m[PEER], &lone, 1, 0, &v, NULL) != MUSTER_NOT_FOUND)
        crash_bad("what the dead one alone held is still there");
    if (muster_object_info(world.m[PEER], open_one, &info))
        crash_bad("the object that the peer holds, too, is lost: %s", muster_last_error());
    else if (!info.sealed)
        crash_bad("what the dead one had not sealed is waited for without end");
}

void object_in_retain(const struct op *op)
{
    (void)op;
    board->outcome[1].status = muster_object_retain(world.m[PEER], &own, 1, NULL);
    if (!board->outcome[1].status)
        board->outcome[1].status = muster_object_drop(world.m[PEER], &own, 1);
}

void object_in_drop(const struct op *op)
{
    (void)op;
    board->outcome[1].status = muster_object_drop(world.m[PEER], &shared, 1);
    muster_object_retain(world.m[PEER], &shared, 1, NULL); /* into the same record */
}

/* All are dropped again: this process ends, and what its successor knows of the ledger is from before. */
void object_in_put(const struct op *op)
{
    muster_object objects[20];

    (void)op;
    for (unsigned i = 0; i < 20; i++)
        objects[i] = put(PEER, 20 + i, 7);
    board->outcome[1].status = muster_object_drop(world.m[PEER], objects, 20);
}

/* ---- what is looked at ---- */

static int count_all(void *arg, const struct muster_object_info *info)
{
    uint64_t *sum = arg;

    sum[0]++;
    sum[1] += info->holders;
    sum[2] += info->len;
    sum[3] += info->sealed;
    sum[4] += info->code;
    return 0;
}

void crash_see_objects(struct muster *m, char *text, size_t size)
{
    uint64_t sum[5] = {0};

    if (muster_object_list(m, count_all, sum))
        crash_bad("cannot list the objects: %s", muster_last_error());
    snprintf(text, size, "%llu objects, %llu holders, %llu bytes, %llu sealed, codes %llu\n",
             (unsigned long long)sum[0], (unsigned long long)sum[1], (unsigned long long)sum[2],
             (unsigned long long)sum[3], (unsigned long long)sum[4]);
}

uint32_t crash_ledger_blocks(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < world.seg.num_slots; i++) {
        const struct mu_slot *s = &world.seg.slots[i];
        uint64_t w = mu_load_acquire(&s->word), block = mu_load_acquire(&s->ledger); /* acquire: nobody else runs */
        uint32_t count;

        while (MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_LEDGER_IS_BLOCK(block) &&
               mu_ledger_records(&world.seg, block, i, MU_SLOT_INCARNATION(w), &count, &block))
            n++;
    }
    return n;
}

/* One object from hand to hand, on fresh memory. */
void crash_object_second(int who, int to)
{
    muster_object object = 0;
    struct muster_object_view v;
    uint8_t want[90];

    crash_fill(want, sizeof want, 77);
    if (muster_object_put(world.m[who], want, sizeof want, NULL, 0, 0, &object))
        return crash_bad("second: put: %s", muster_last_error());
    if (to < SPARE) {
        if (muster_object_get(world.m[to], &object, 1, 0, &v, NULL))
            crash_bad("second: get: %s", muster_last_error());
        else if (v.len != sizeof want || memcmp(v.data, want, sizeof want))
            crash_bad("second: the object is torn");
    }
    if (muster_object_drop(world.m[who], &object, 1))
        crash_bad("second: drop: %s", muster_last_error());
    if (to < SPARE)
        muster_object_unview(world.m[to], &v, 1);
    if (muster_object_info(world.m[who], object, &(struct muster_object_info){0}) != MUSTER_NOT_FOUND)
        crash_bad("second: the object is still there");
}
