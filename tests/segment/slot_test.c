/*
 * tests/segment/slot_test.c: slots: claims, the kernel's word of death, scavenging, pins of the dead, at the level of
 * the mechanism.
 */
#include "cm.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "segment/file.h"
#include "segment/heap.h"
#include "segment/object.h"
#include "segment/pin.h"
#include "segment/scavenge.h"
#include "segment/slot.h"
#include "segment/table.h"

static struct test_job job;
static struct muster_segment *seg;
static struct mu_ctx *ctx;
static struct test_gate gate;

static int setup(void)
{
    const struct muster_segment_config config = {.num_slots = 6};

    ctx = malloc(sizeof *ctx);
    return test_gate_open(&gate) || test_job_create(&job, &config) || mu_segment_open(job.name, true, &seg) ||
                   mu_slot_claim(seg, 0, ctx)
               ? -1
               : 0;
}

static int teardown(void)
{
    mu_slot_release(ctx);
    free(ctx);
    muster_segment_close(seg);
    test_gate_close(&gate);
    return test_job_end(&job) ? -1 : 0;
}

/* In a child: a mapping and a slot of its own. */
static struct mu_ctx *enter_child(void)
{
    struct muster_segment *mine;
    struct mu_ctx *own = malloc(sizeof *own);

    CHECK(mu_segment_open(job.name, true, &mine) == MUSTER_OK);
    CHECK(mu_slot_claim(mine, 5, own) == MUSTER_OK);
    return own;
}

static uint64_t word_of(uint32_t slot)
{
    return mu_load_acquire(&seg->slots[slot].word);
}

TEST_WITH(a_claimed_slot_says_whose_it_is_and_a_released_one_has_a_new_incarnation, setup, teardown)
{
    struct mu_ctx *other = malloc(sizeof *other);
    uint16_t incarnation;

    assert_ok(mu_slot_claim(seg, 3, other));
    assert_int_not_equal(other->slot, ctx->slot);
    assert_int_equal(MU_SLOT_STATE(word_of(other->slot)), MU_SLOT_LIVE);
    assert_int_equal(MU_SLOT_PID(word_of(other->slot)), getpid());
    assert_int_equal(mu_load_relaxed(&seg->slots[other->slot].task), 3);
    assert_false(mu_slot_is_dead(seg, other->slot, word_of(other->slot)));
    incarnation = other->incarnation;
    mu_slot_release(other);
    assert_ok(mu_slot_claim(seg, 3, other));
    assert_int_equal(other->incarnation, (uint16_t)(incarnation + 1));
    mu_slot_release(other);
    assert_true(mu_slot_high(seg) <= 2);
    free(other);
}

TEST_WITH(six_slots_are_six_and_no_more, setup, teardown)
{
    struct mu_ctx *others[6];

    for (int i = 0; i < 5; i++) {
        others[i] = malloc(sizeof *others[i]);
        assert_ok(mu_slot_claim(seg, 0, others[i]));
    }
    others[5] = malloc(sizeof *others[5]);
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_slot_claim(seg, 0, others[5]));
    assert_says("6 slots");
    for (int i = 0; i < 5; i++)
        mu_slot_release(others[i]);
    for (int i = 0; i < 6; i++)
        free(others[i]);
}

static int claims_and_waits(void *arg)
{
    struct mu_ctx *own = enter_child();

    (void)arg;
    CHECK(own != NULL);
    test_gate_arrive(&gate);
    while (pause() < 0)
        ;
    return 0;
}

static int claims_and_execs(void *arg)
{
    (void)arg;
    enter_child();
    test_gate_arrive(&gate);
    test_gate_pass(&gate);
    execl("/bin/sleep", "sleep", "1000", NULL);
    return 1;
}

static void note_death(void *arg, struct mu_ctx *by, const struct mu_death *death)
{
    (void)by;
    assert_int_equal(MU_SLOT_STATE(death->slot_word), MU_SLOT_DEAD);
    assert_int_equal(death->task_word, 5);
    assert_false(death->is_known);
    ++*(int *)arg;
}

/* Waits for the kernel to say so. */
static void until_dead(uint32_t slot)
{
    while (!mu_slot_is_dead(seg, slot, word_of(slot)))
        usleep(100); /* sleep: between looks; the kernel wakes nobody here */
}

static uint32_t childs_slot(void)
{
    for (uint32_t i = 0; i < seg->num_slots; i++)
        if (i != ctx->slot && MU_SLOT_STATE(word_of(i)) == MU_SLOT_LIVE)
            return i;
    fail_msg("the child holds no slot");
    return 0;
}

TEST_WITH(a_killed_process_is_dead_by_the_kernels_word_and_scavenged_once, setup, teardown)
{
    pid_t pid = test_fork(claims_and_waits, NULL);
    uint32_t slot, deaths = 0;
    int told = 0;

    test_gate_await(&gate);
    slot = childs_slot();
    assert_false(mu_slot_is_dead(seg, slot, word_of(slot)));
    assert_int_equal(mu_scavenge(ctx, note_death, &told), 0); /* the living are left alone */
    kill(pid, SIGSTOP);
    assert_int_equal(mu_scavenge(ctx, note_death, &told), 0); /* the stopped too */
    kill(pid, SIGKILL);
    until_dead(slot); /* before it is reaped: a zombie is dead */
    deaths = mu_scavenge(ctx, note_death, &told);
    assert_int_equal(deaths, 1);
    assert_int_equal(told, 1);
    assert_int_equal(MU_SLOT_STATE(word_of(slot)), MU_SLOT_FREE);
    assert_int_equal(mu_scavenge(ctx, note_death, &told), 0);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
}

TEST_WITH(a_process_that_execs_is_dead_while_its_pid_lives_on, setup, teardown)
{
    pid_t pid = test_fork(claims_and_execs, NULL);
    uint32_t slot;
    int told = 0;

    test_gate_await(&gate);
    slot = childs_slot();
    test_gate_release(&gate);
    until_dead(slot);
    assert_int_equal(mu_scavenge(ctx, note_death, &told), 1);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it has not ended */
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
}

/* A process that claimed, was killed and reaped: its pid. */
static pid_t killed(int (*claims)(void *arg), uint32_t *ret_slot)
{
    pid_t pid = test_fork(claims, NULL);

    test_gate_await(&gate);
    *ret_slot = childs_slot();
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    return pid;
}

TEST_WITH(what_pidfd_said_scavenges_by_pid, setup, teardown)
{
    uint32_t slot;
    pid_t pid = killed(claims_and_waits, &slot);
    int told = 0;

    assert_int_equal(mu_scavenge_process(ctx, (uint32_t)pid + 1, 5, note_death, &told), 0);
    assert_int_equal(mu_scavenge_process(ctx, (uint32_t)pid, 4, note_death, &told), 1);
    assert_int_equal(told, 1);
    assert_int_equal(MU_SLOT_STATE(word_of(slot)), MU_SLOT_FREE);
}

TEST_WITH(a_living_slot_of_the_same_pid_number_is_left_alone, setup, teardown)
{
    pid_t pid = test_fork(claims_and_waits, NULL); /* as if of another pid namespace: only the number is the same */
    uint32_t slot;
    int told = 0;

    test_gate_await(&gate);
    slot = childs_slot();
    assert_int_equal(mu_scavenge_process(ctx, (uint32_t)pid, 4, note_death, &told), 0);
    assert_int_equal(told, 0);
    assert_int_equal(MU_SLOT_STATE(word_of(slot)), MU_SLOT_LIVE);
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    assert_int_equal(mu_scavenge(ctx, note_death, &told), 1);
}

static int claims_and_ruins_its_list(void *arg)
{
    static struct robust_list_head none = {.list = {&none.list}};
    struct mu_ctx *own = enter_child();

    (void)arg;
    CHECK(own != NULL && syscall(SYS_set_robust_list, &none, sizeof none) == 0);
    test_gate_arrive(&gate);
    while (pause() < 0)
        ;
    return 0;
}

TEST_WITH(a_ruined_liveness_word_is_settled_once_the_process_is_said_to_have_ended, setup, teardown)
{
    struct mu_ctx *other;
    uint32_t slot;
    pid_t pid = killed(claims_and_ruins_its_list, &slot);
    int told = 0;

    assert_int_equal(mu_scavenge(ctx, note_death, &told), 0);
    assert_int_equal(mu_scavenge_process(ctx, (uint32_t)pid, 4, note_death, &told), 1);
    assert_int_equal(told, 1);
    assert_int_equal(MU_SLOT_STATE(word_of(slot)), MU_SLOT_FREE);
    other = malloc(sizeof *other);
    assert_ok(mu_slot_claim(seg, 5, other)); /* its mutex is nobody's any more */
    assert_int_equal(other->slot, slot);
    mu_slot_release(other);
    free(other);
}

TEST_WITH(a_slot_whose_owner_the_kernel_does_not_know_is_an_orphan_in_its_own_pid_namespace_only, setup, teardown)
{
    struct mu_ctx *other = malloc(sizeof *other);
    mu_a32 *liveness;
    uint32_t owner;
    uint64_t namespace;

    assert_ok(mu_slot_claim(seg, 0, other));
    liveness = mu_slot_liveness(seg, other->slot);
    assert_false(mu_slot_is_orphan(seg, other->slot, word_of(other->slot)));
    owner = mu_load32_acquire(liveness);
    mu_store32_release(liveness, 0x3ffffff0); /* as an exec leaves it; no machine has that many threads */
    assert_true(mu_slot_is_orphan(seg, other->slot, word_of(other->slot)));
    namespace = mu_load_relaxed(&other->own->pid_namespace);
    mu_store_relaxed(&other->own->pid_namespace, namespace + 1);
    assert_false(mu_slot_is_orphan(seg, other->slot, word_of(other->slot)));
    assert_false(mu_slot_settle(seg, other->slot));
    assert_int_equal(mu_load32_acquire(liveness), 0x3ffffff0);
    mu_store_relaxed(&other->own->pid_namespace, namespace);
    mu_store32_release(liveness, owner);
    mu_slot_release(other);
    free(other);
}

static enum mu_verdict put(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

static void put_key(struct mu_ctx *by, const void *value, size_t len)
{
    struct mu_table t = mu_table_kv(by->seg);
    struct mu_edit e = {.value = value, .len = len};
    struct mu_key k;

    mu_key_make(&k, by->seg, "pinned", 6);
    CHECK(mu_table_edit(&t, by, &k, 0, put, &e, NULL) == MUSTER_OK);
}

/* The bucket of the key and the reference to its value outside the page. */
static mu_a64 *find_value(struct muster_segment *in, uint64_t *ret_word, uint64_t *ret_ref)
{
    struct mu_table t = mu_table_kv(in);
    struct mu_block *page;
    mu_a64 *bucket;
    struct mu_key k;

    mu_key_make(&k, in, "pinned", 6);
    bucket = mu_table_bucket(&t, &k);
    *ret_word = mu_load_acquire(bucket);
    page = mu_heap_block(in, MU_WORD_INDEX(*ret_word), NULL);
    *ret_ref = mu_load_relaxed(&page->body[0]);
    return bucket;
}

static int pins_and_waits(void *arg)
{
    struct mu_ctx *own = enter_child();
    uint64_t word, ref;
    mu_a64 *bucket = find_value(own->seg, &word, &ref);

    CHECK(mu_pin(own, bucket, word, ref));
    test_gate_arrive(&gate);
    test_gate_pass(&gate);
    if (arg) { /* dies with its pin */
        while (pause() < 0)
            ;
    }
    CHECK(mu_heap_is_live(own->seg, ref)); /* replaced meanwhile, and still there */
    mu_unpin(own);
    CHECK(!mu_heap_is_live(own->seg, ref)); /* who unpins last frees it */
    mu_slot_release(own);
    return 0;
}

TEST_WITH(a_pinned_value_outlives_its_replacement_until_the_pin_or_its_owner_ends, setup, teardown)
{
    static uint8_t value[100000];

    for (int dies = 0; dies < 2; dies++) {
        uint64_t word, ref;
        int told = 0;
        pid_t pid;

        put_key(ctx, value, sizeof value);
        find_value(seg, &word, &ref);
        pid = test_fork(pins_and_waits, dies ? &gate : NULL);
        test_gate_await(&gate);
        put_key(ctx, value, sizeof value - 1);
        assert_true(mu_heap_is_live(seg, ref));
        assert_int_equal(test_audit(job.name), 0); /* named by a pin: no leak */
        test_gate_release(&gate);
        if (dies) {
            uint32_t slot = childs_slot();

            kill(pid, SIGKILL);
            until_dead(slot);
            assert_true(mu_heap_is_live(seg, ref));
            assert_int_equal(mu_scavenge(ctx, note_death, &told), 1);
        }
        assert_int_equal(test_reap(pid), dies ? 1000 + SIGKILL : 0);
        assert_false(mu_heap_is_live(seg, ref));
    }
}

TEST_WITH(a_pin_that_came_too_late_is_refused, setup, teardown)
{
    static uint8_t value[100000];
    uint64_t word, ref;
    mu_a64 *bucket;

    put_key(ctx, value, sizeof value);
    bucket = find_value(seg, &word, &ref);
    put_key(ctx, value, sizeof value - 1);
    assert_false(mu_pin(ctx, bucket, word, ref));
    assert_int_equal(mu_load_relaxed(&ctx->own->pin), 0);
}

TEST_WITH(offsets_that_are_no_object_are_refused, setup, teardown)
{
    uint64_t buckets = mu_offset_of(seg, seg->buckets);

    assert_ptr_equal(mu_slot_object(seg, offsetof(struct mu_header, cluster)), &seg->header->cluster);
    assert_ptr_equal(mu_slot_object(seg, buckets + 8), &seg->buckets[1]);
    assert_null(mu_slot_object(seg, buckets + 4));
    assert_null(mu_slot_object(seg, 0));
    assert_null(mu_slot_object(seg, buckets + seg->num_buckets * 8ull));
    assert_null(mu_slot_object(seg, seg->size));
    assert_null(mu_slot_object(seg, UINT64_MAX & ~7ull));
}

/* libc's list of this thread's robust mutexes is empty again. */
static bool is_list_empty(void)
{
    struct robust_list_head *head;
    size_t size;

    return !syscall(SYS_get_robust_list, 0, &head, &size) && head->list.next == &head->list;
}

static int releases_slots_that_were_scribbled_over(void *arg)
{
    struct mu_ctx *first = enter_child(), *second = malloc(sizeof *second);
    __pthread_list_t *list, *other = &first->own->liveness.__data.__list;
    uint32_t slot = first->slot;

    (void)arg;
    for (int i = 0; i < 24; i++) {
        static const uintptr_t garbage[] = {0, 1, 0x4141414141414141, 4096, UINTPTR_MAX, 0xdead0000};
        void *const wrong = i / 4 == 1 ? (void *)&list : (void *)garbage[i / 4];

        CHECK(mu_slot_claim(first->seg, 5, second) == MUSTER_OK);
        list = &(i & 1 ? first : second)->own->liveness.__data.__list; /* one with a neighbour before, and one behind */
        if (i & 2)
            list->__next = wrong;
        list->__prev = wrong;
        mu_slot_release(i & 1 ? first : second);
        mu_slot_release(i & 1 ? second : first);
        CHECK(is_list_empty());
        CHECK(mu_slot_claim(second->seg, 5, first) == MUSTER_OK && first->slot == slot);
    }
    CHECK(mu_slot_claim(first->seg, 5, second) == MUSTER_OK);
    list = &second->own->liveness.__data.__list;
    list->__prev = list->__next = other->__prev = other->__next = (void *)0x4141414141414141;
    mu_slot_release(first); /* beyond help: it stays locked, and that is all */
    mu_slot_release(second);
    return 0;
}

TEST_WITH(a_slot_whose_mutex_was_scribbled_over_is_released_all_the_same, setup, teardown)
{
    assert_int_equal(test_reap(test_fork(releases_slots_that_were_scribbled_over, NULL)), 0);
}
