/*
 * tests/object/dead_test.c: what the dead held, looked at from inside the segment: which process drops it, and when.
 */
#include "acts.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "segment/handle.h"
#include "segment/heap.h"

/* Of the slots that the player's task holds, the one that has its ledger (or, without one, its first). */
static struct mu_slot *slot_of_task(uint64_t task, bool has_ledger)
{
    struct muster_segment *seg = stage_observer->seg;

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        struct mu_slot *s = &seg->slots[i];

        if (MU_SLOT_STATE(mu_load_acquire(&s->word)) == MU_SLOT_LIVE && mu_load_relaxed(&s->task) == task + 1 &&
            (!has_ledger || MU_LEDGER_IS_BLOCK(mu_load_acquire(&s->ledger))))
            return s;
    }
    fail_msg("task %llu has no such slot", (unsigned long long)task);
    return NULL;
}

STAGE_TEST(the_heir_of_an_older_death_delays_nothing)
{
    struct muster_segment *seg;
    muster_object object;

    stage_open(2, NULL);
    seg = stage_observer->seg;
    for (uint32_t i = 0; i < seg->num_slots; i++) /* as after some 40000 owners of each */
        mu_store_relaxed(&seg->slots[i].heir,
                         MU_HEIR(MU_SLOT_INCARNATION(mu_load_relaxed(&seg->slots[i].word)) + 25000, 5, 1));
    stage_enter_all();
    object = put(0, "held by both");
    assert_int_equal(do_with(1, act_retain, object), MUSTER_OK);
    stage_kill(0);
    until_holders(object, 1);
    stage_close();
}

static bool is_gone_once_scavenged(muster_object object)
{
    muster_scavenge(stage_observer, NULL);
    return !holders(object);
}

static bool is_failed_once_scavenged(muster_object object)
{
    struct muster_object_info info;

    muster_scavenge(stage_observer, NULL);
    return muster_object_info(stage_observer, object, &info) == MUSTER_OK && info.code == MUSTER_UNAVAILABLE;
}

STAGE_TEST(a_heir_that_is_stopped_delays_no_wait)
{
    struct muster_segment_config config = {.heartbeat_timeout_ns = 600000000000};
    struct mu_slot *dead, *heir;
    muster_object sealed, open;
    struct reply r;

    stage_open(3, &config);
    stage_enter_all();
    sealed = put(0, "goes when the heir gives up");
    open = create(0, "never sealed");
    assert_int_equal(do_with(1, act_retain, open), MUSTER_OK);
    dead = slot_of_task(0, true);
    put(2, "so that its main slot is known");
    heir = slot_of_task(2, true);
    stage_signal(2, SIGSTOP);
    mu_store_release(&dead->heir,
                     MU_HEIR(MU_SLOT_INCARNATION(mu_load_acquire(&dead->word)), heir - stage_observer->seg->slots,
                             MU_SLOT_INCARNATION(mu_load_acquire(&heir->word))));
    stage_kill(0);
    r = get(1, open);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "will not come: task 0 (");
    await(is_failed_once_scavenged(open), "the object is an error, also for a later process of the task");
    assert_int_equal(holders(sealed), 1); /* the heir alone drops it */
    mu_store_release(&dead->heir, MU_HEIR(MU_SLOT_INCARNATION(mu_load_acquire(&dead->word)), MU_HEIR_NOBODY, 0));
    await(is_gone_once_scavenged(sealed), "the object is gone");
    stage_signal(2, SIGCONT);
    stage_close();
}

static int act_put_many(void *arg, struct reply *reply)
{
    uint32_t count = *(uint32_t *)arg;
    muster_object object;
    int status = MUSTER_OK;

    (void)reply;
    for (uint32_t i = 0; !status && i < count; i++)
        status = muster_object_put(me, &i, sizeof i, NULL, 0, 0, &object);
    return status;
}

static int object_count(void *arg, const struct muster_object_info *info)
{
    (void)info;
    ++*(uint32_t *)arg;
    return 0;
}

static uint32_t objects_left(void)
{
    uint32_t count = 0;

    assert_int_equal(muster_object_list(stage_observer, object_count, &count), MUSTER_OK);
    return count;
}

/* So that a scavenger has time for its other duties, its own heartbeat for one. */
STAGE_TEST(much_that_the_dead_held_goes_in_several_passes)
{
    uint32_t count = 30000, left, before, round = 0;
    struct muster *others[2];

    stage_open(1, NULL);
    others[0] = stage_observer;
    others[1] = test_join(stage_job, -1, 0);
    stage_enter(0, 0);
    assert_int_equal(stage_do(0, act_put_many, &count, sizeof count).status, MUSTER_OK);
    stage_kill(0);
    for (left = count; left; before = left) {
        before = left;
        /* in turn: each leaves the rest to the other */
        assert_int_equal(muster_scavenge(others[round++ % 2], NULL), MUSTER_OK);
        left = objects_left();
        assert_in_range(before - left, 1, 8192); /* one pass, and one behind what else it finished */
    }
    assert_true(round > 2);
    assert_int_equal(muster_leave(others[1]), MUSTER_OK);
    assert_int_equal(stage_audit().problems, 0);
    stage_close();
}

/* Small objects, until not one more finds room. */
static int act_fill(void *arg, struct reply *reply)
{
    static char bytes[40000];
    muster_object object;
    int status = MUSTER_OK;

    (void)arg;
    (void)reply;
    for (size_t size = sizeof bytes; size; size /= 3)
        while (!(status = muster_object_put(me, bytes, size, NULL, 0, 0, &object)))
            ;
    return status;
}

STAGE_TEST(a_full_segment_keeps_nobody_from_dropping)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    muster_object shared[20];

    stage_open(2, &config);
    stage_enter_all();
    for (int i = 0; i < 20; i++) {
        shared[i] = create(0, "shared");
        assert_int_equal(do_with(1, act_retain, shared[i]), MUSTER_OK);
        if (i < 15)
            assert_int_equal(do_with(0, act_seal, shared[i]), MUSTER_OK);
    }
    assert_int_equal(stage_do(0, act_fill, NULL, 0).status, MUSTER_RESOURCE_EXHAUSTED);
    for (int i = 15; i < 18; i++)
        assert_int_equal(do_with(0, act_seal, shared[i]), MUSTER_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(do_with(1, act_drop, shared[i]), MUSTER_OK);
        assert_int_equal(holders(shared[i]), 1);
    }
    assert_int_equal(stage_audit().problems, 0);
    stage_kill(0);
    for (int i = 0; i < 20; i++)
        until_holders(shared[i], i < 10 ? 0 : 1);
    await(objects_left() == 10, "only what the other one holds is left");
    assert_status(get(1, shared[19]), MUSTER_UNAVAILABLE);
    assert_int_equal(stage_audit().problems, 0);
    stage_close();
}

static uint64_t taken[40000];
static uint32_t num_taken;

/* Every free block of the heap, of its reserve too where `flags` say so. */
static void heap_take_all(struct muster *m, uint32_t flags)
{
    struct mu_block *block;
    struct mu_ctx *ctx;

    assert_int_equal(mu_handle_context(m, &ctx), MUSTER_OK);
    for (size_t bytes = 40000; bytes > 8; bytes /= 3)
        while (num_taken < 40000 && !mu_heap_alloc(ctx, bytes, flags, &taken[num_taken], &block))
            num_taken++;
    assert_int_equal(mu_heap_alloc(ctx, 8, flags, &taken[num_taken], &block), MUSTER_RESOURCE_EXHAUSTED);
}

static void heap_give_back(struct muster *m)
{
    struct mu_ctx *ctx;

    assert_int_equal(mu_handle_context(m, &ctx), MUSTER_OK);
    while (num_taken)
        mu_heap_discard(ctx, taken[--num_taken]);
}

STAGE_TEST(a_producer_ends_its_writing_without_a_block_to_be_had)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    struct muster_object_room room;
    muster_object object;
    struct muster *m;

    stage_open(1, &config);
    m = test_join(stage_job, 0, 0);
    assert_int_equal(muster_object_create(m, 100, 0, 0, &object, &room), MUSTER_OK);
    heap_take_all(m, 0);
    assert_int_equal(muster_object_seal(m, object), MUSTER_OK);
    heap_give_back(m);
    assert_int_equal(muster_object_drop(m, &object, 1), MUSTER_OK);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(what_could_not_be_dropped_goes_with_a_later_drop)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    muster_object shared, later, gone = 0;
    struct muster *m;

    stage_open(2, &config);
    stage_enter(0, 0);
    m = test_join(stage_job, 1, 0);
    assert_int_equal(muster_object_put(m, "shared", 6, NULL, 0, 0, &shared), MUSTER_OK);
    assert_int_equal(muster_object_put(m, "later", 5, NULL, 0, 0, &later), MUSTER_OK);
    assert_int_equal(do_with(0, act_retain, shared), MUSTER_OK);
    heap_take_all(m, MU_HEAP_RESERVE);
    gone = shared + (1u << 20);
    assert_int_equal(muster_object_drop(m, &gone, 1), MUSTER_NOT_FOUND);
    assert_int_equal(muster_object_drop(m, &shared, 1), MUSTER_OK);
    assert_says(muster_last_error(), "has no reference"); /* a call that succeeds leaves it as it was */
    assert_int_equal(holders(shared), 2);
    heap_give_back(m);
    assert_int_equal(muster_object_drop(m, &later, 1), MUSTER_OK);
    assert_int_equal(holders(shared), 1);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(last_references_of_the_dead_go_without_a_block_to_be_had)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    muster_object shared[3], own;
    struct muster *m;

    stage_open(3, &config);
    stage_enter(0, 0);
    stage_enter(1, 0);
    m = test_join(stage_job, 2, 0);
    for (int i = 0; i < 3; i++) {
        shared[i] = put(0, "shared");
        assert_int_equal(do_with(1, act_retain, shared[i]), MUSTER_OK);
    }
    own = put(0, "the dead one's alone");
    heap_take_all(m, MU_HEAP_RESERVE);
    stage_kill(0);
    await(is_gone_once_scavenged(own), "the last reference is dropped");
    for (int i = 0; i < 3; i++)
        until_holders(shared[i], 1); /* in what that made free */
    heap_give_back(m);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

struct joined {
    struct muster *m;
    muster_object object;
    atomic_int step;
};

static void *join_and_put(void *arg)
{
    struct joined *j = arg;

    j->m = test_join(stage_job, 0, MUSTER_JOIN_NO_HEARTBEAT);
    assert_int_equal(muster_object_put(j->m, "x", 1, NULL, 0, 0, &j->object), MUSTER_OK);
    atomic_store(&j->step, 1);
    await(atomic_load(&j->step) == 2, "the other thread holds it, too");
    return NULL;
}

STAGE_TEST(what_the_joining_thread_held_goes_with_the_last_thread)
{
    struct joined j = {0};
    muster_object second;
    pthread_t t;

    stage_open(1, NULL);
    assert_int_equal(pthread_create(&t, NULL, join_and_put, &j), 0);
    await(atomic_load(&j.step) == 1, "the thread has put it");
    assert_int_equal(muster_object_retain(j.m, &j.object, 1, NULL), MUSTER_OK);
    atomic_store(&j.step, 2);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(muster_object_put(j.m, "x", 1, NULL, 0, 0, &second), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "the thread that joined");
    muster_scavenge(stage_observer, NULL);
    assert_int_equal(holders(j.object), 1); /* this thread could still be at the ledger */
    assert_int_equal(muster_leave(j.m), MUSTER_OK);
    await(is_gone_once_scavenged(j.object), "the object is gone");
    stage_close();
}
