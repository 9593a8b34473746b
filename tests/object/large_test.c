/*
 * tests/object/large_test.c: objects whose bytes lie in the arena: their sizes, the full arena, its pieces, what the
 * dead leave, and threads that take and free runs at once.
 */
#include "stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "child.h"
#include "job.h"
#include "shm.h"
#include "shm_layout/layout.h"

enum { MIB = 1 << 20, SMALL = 65472 /* the most that lies in a block */ };

static struct muster *alone(uint64_t object_bytes)
{
    struct muster_segment_config config = {.heap_bytes = 32 * MIB, .object_bytes = object_bytes};
    struct muster *m;

    stage_open(1, &config);
    m = test_join(stage_job, 0, 0);
    assert_non_null(m);
    return m;
}

static void strike(struct muster *m)
{
    assert_int_equal(stage_audit().problems, 0);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

static void pattern_write(uint64_t *words, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len / 8; i++)
        words[i] = seed + i * 0x9e3779b97f4a7c15u;
}

static bool pattern_is(const uint64_t *words, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len / 8; i++)
        if (words[i] != seed + i * 0x9e3779b97f4a7c15u)
            return false;
    return true;
}

/* An object of so many bytes; 0: `status` says why not. */
static muster_object make(struct muster *m, size_t len, uint64_t seed, enum muster_status *ret_status)
{
    struct muster_object_room room;
    muster_object object = 0;
    enum muster_status status = muster_object_create(m, len, 0, 0, &object, &room);

    if (!status) {
        pattern_write(room.data, len, seed);
        status = muster_object_seal(m, object);
    }
    *ret_status = status;
    return status ? 0 : object;
}

static muster_object must_make(struct muster *m, size_t len, uint64_t seed)
{
    enum muster_status status;
    muster_object object = make(m, len, seed, &status);

    assert_int_equal(status, MUSTER_OK);
    return object;
}

static bool is_whole(struct muster *m, muster_object object, size_t len, uint64_t seed)
{
    struct muster_object_view v;
    bool is;

    if (muster_object_get(m, &object, 1, 0, &v, NULL))
        return false;
    is = v.len == len && pattern_is(v.data, len, seed);
    muster_object_unview(m, &v, 1);
    return is;
}

STAGE_TEST(sizes_and_metadata_come_back)
{
    static const size_t sizes[] = {0, 8, SMALL, SMALL + 8, 65536, 5 * MU_UNIT - 8, 5 * MU_UNIT, MIB, 64 * MIB};
    static const size_t metas[] = {0, 1, 24, 100000};
    uint64_t *bytes = malloc(64 * MIB);
    struct muster *m = alone(0);

    assert_non_null(bytes);
    pattern_write(bytes, 64 * MIB, 5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < sizeof metas / sizeof metas[0]; k++) {
            struct muster_object_view v;
            struct muster_object_info info;
            muster_object object;

            assert_int_equal(muster_object_put(m, bytes, sizes[i], bytes, metas[k], 0, &object), MUSTER_OK);
            assert_int_equal(muster_object_info(m, object, &info), MUSTER_OK);
            assert_int_equal(info.len, sizes[i]);
            assert_int_equal(muster_object_get(m, &object, 1, 0, &v, NULL), MUSTER_OK);
            assert_int_equal((uintptr_t)v.data % ((v.len + 7) / 8 * 8 + metas[k] <= 48 ? 16 : 64), 0);
            assert_int_equal(v.len, sizes[i]);
            assert_int_equal(v.meta_len, metas[k]);
            assert_int_equal(memcmp(v.data ? v.data : "", bytes, v.len), 0);
            assert_int_equal(memcmp(v.meta ? v.meta : "", bytes, v.meta_len), 0);
            assert_int_equal(muster_object_drop(m, &object, 1), MUSTER_OK);
            assert_int_equal(stage_audit().problems, 0); /* the view holds it */
            muster_object_unview(m, &v, 1);
            assert_int_equal(muster_object_get(m, &object, 1, 0, &v, NULL), MUSTER_NOT_FOUND);
        }
    free(bytes);
    strike(m);
}

/* Sort objects of the same length by where they lie; that many fill the arena. */
static void sort_by_place(struct muster *m, muster_object *objects, size_t count, size_t len)
{
    struct muster_object_view views[8];
    uintptr_t first = UINTPTR_MAX;

    assert_int_equal(muster_object_get(m, objects, count, 0, views, NULL), MUSTER_OK);
    for (size_t i = 0; i < count; i++)
        first = (uintptr_t)views[i].data < first ? (uintptr_t)views[i].data : first;
    for (size_t i = 0; i < count; i++)
        objects[((uintptr_t)views[i].data - first) / len] = views[i].object;
    muster_object_unview(m, views, count);
}

STAGE_TEST(a_full_arena_says_so_and_pieces_join)
{
    enum { PIECE = 16 * MU_UNIT, PIECES = 8, WHOLE = PIECE * PIECES };
    struct muster *m = alone(WHOLE);
    muster_object objects[PIECES];
    enum muster_status status;

    assert_int_equal(make(m, WHOLE + 1, 0, &status), 0);
    assert_int_equal(status, MUSTER_OUT_OF_RANGE);
    assert_non_null(strstr(muster_last_error(), "2048 KiB for objects above 65472 bytes"));
    for (uint64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < PIECES; i++)
            objects[i] = must_make(m, PIECE, round);
        sort_by_place(m, objects, PIECES, PIECE);
        assert_int_equal(make(m, PIECE, 0, &status), 0);
        assert_int_equal(status, MUSTER_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(muster_last_error(), "no 256 KiB in a row are free"));
        for (size_t i = 0; i < PIECES; i += 2) /* every second one: half is free, in pieces */
            assert_int_equal(muster_object_drop(m, &objects[i], 1), MUSTER_OK);
        assert_int_equal(make(m, PIECE + MU_UNIT, 0, &status), 0);
        assert_int_equal(status, MUSTER_RESOURCE_EXHAUSTED);
        assert_int_equal(muster_object_drop(m, &objects[3], 1), MUSTER_OK); /* between two of them */
        objects[3] = must_make(m, 3 * PIECE, 7);
        assert_true(is_whole(m, objects[3], 3 * PIECE, 7));
        for (size_t i = 5; i < PIECES; i += 2)
            assert_true(is_whole(m, objects[i], PIECE, round));
        assert_int_equal(stage_audit().problems, 0);
        for (size_t i = 1; i < PIECES; i += 2)
            assert_int_equal(muster_object_drop(m, &objects[i], 1), MUSTER_OK);
        objects[0] = must_make(m, WHOLE, round);
        assert_true(is_whole(m, objects[0], WHOLE, round));
        assert_int_equal(muster_object_drop(m, objects, 1), MUSTER_OK);
    }
    strike(m);
}

/* What was freed last is used next: its pages are there, and warm. */
STAGE_TEST(a_run_is_used_again)
{
    struct muster *m = alone(64 * MIB);
    struct muster_object_room room;
    muster_object keeps = must_make(m, MIB, 1), object;
    void *first = NULL;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(muster_object_create(m, MIB, 0, 0, &object, &room), MUSTER_OK);
        if (!i)
            first = room.data;
        assert_ptr_equal(room.data, first);
        assert_int_equal(muster_object_drop(m, &object, 1), MUSTER_OK);
    }
    assert_true(is_whole(m, keeps, MIB, 1));
    strike(m);
}

/* ---- room ---- */

struct filling {
    struct muster *m;
    size_t len;
    muster_object drops, object;
};

/* A thread of its own: what it frees, and where it was last, no other thread remembers. */
static void *fill_and_drop(void *arg)
{
    struct filling *f = arg;

    if (f->len)
        f->object = must_make(f->m, f->len, 1);
    assert_int_equal(muster_object_drop(f->m, &f->drops, 1), MUSTER_OK);
    return NULL;
}

/* Holes that lie before where a thread was last, and behind the first extents, are used before the arena grows. */
STAGE_TEST(a_hole_is_found_before_the_arena_grows)
{
    enum { EXTENTS = 300, UNITS = 5, HOLE = 280 };
    struct muster *m = alone(2ull * MU_UNITS_RANGE * MU_UNIT);
    struct filling f = {.m = m, .len = (MU_UNITS_RANGE - (EXTENTS + 1) * UNITS) * (size_t)MU_UNIT};
    static muster_object objects[EXTENTS + 1];
    struct muster_object_room room;
    muster_object again;
    void *hole = NULL;
    pthread_t thread;

    for (int i = 0; i <= EXTENTS; i++) {
        assert_int_equal(muster_object_create(m, UNITS * MU_UNIT, 0, 0, &objects[i], &room), MUSTER_OK);
        if (i == HOLE)
            hole = room.data;
    }
    f.drops = objects[HOLE];
    assert_int_equal(pthread_create(&thread, NULL, fill_and_drop, &f), 0);
    pthread_join(thread, NULL);
    assert_int_equal(muster_object_create(m, UNITS * MU_UNIT, 0, 0, &again, &room), MUSTER_OK);
    assert_ptr_equal(room.data, hole);
    strike(m);
}

static uint64_t committed(struct muster *m)
{
    struct muster_segment_info info;

    CHECK(!muster_segment_info(muster_segment_of(m), &info));
    return info.committed_bytes;
}

/* What does not fit leaves the room that it found; and where nobody has a page, those of dropped objects serve. */
static int put_in_a_small_shm(void *arg)
{
    enum { EXTENTS = 300, UNITS = 5, HOLE = 280 };
    static muster_object objects[EXTENTS];
    struct muster_segment_config config = {.num_tasks = 1, .heap_bytes = 1 << 20, .object_bytes = 64 * MIB};
    char directory[64], path[128];
    struct test_job job;
    struct filling f = {0};
    enum muster_status status;
    muster_object object;
    pthread_t thread;
    uint64_t before;

    (void)arg;
    if (!test_small_shm(40 * MIB, directory))
        return TEST_NOT_ALLOWED;
    CHECK(!test_job_create(&job, &config));
    f.m = test_join(job.name, 0, 0);
    CHECK(f.m);
    for (int i = 0; i < EXTENTS; i++)
        objects[i] = must_make(f.m, UNITS * MU_UNIT, 1);
    before = committed(f.m);
    CHECK(!make(f.m, 36 * MIB, 0, &status) && status == MUSTER_RESOURCE_EXHAUSTED);
    CHECK(strstr(muster_last_error(), "is full: no room for 36864 KiB"));
    CHECK(committed(f.m) == before);
    test_fill_shm(directory, path);
    CHECK(!make(f.m, UNITS * MU_UNIT, 0, &status) && status == MUSTER_RESOURCE_EXHAUSTED);
    CHECK(committed(f.m) == before);
    f.drops = objects[HOLE];
    CHECK(!pthread_create(&thread, NULL, fill_and_drop, &f)); /* so that this one looks behind its last first */
    pthread_join(thread, NULL);
    object = must_make(f.m, UNITS * MU_UNIT, 2);
    CHECK(is_whole(f.m, object, UNITS * MU_UNIT, 2));
    CHECK(!muster_leave(f.m));
    CHECK(test_job_end(&job) == 0);
    test_small_shm_end(directory);
    return 0;
}

TEST(a_full_shm_is_an_error_that_takes_no_room)
{
    test_with_small_shm(put_in_a_small_shm);
}

/* The arena is address space: mapping it makes no page, not even where the process locks all of its memory to come. */
STAGE_TEST(locked_memory_is_not_all_of_the_arena)
{
    struct muster *m = alone(64 * MIB);
    uint64_t before = committed(m);
    muster_object object;

    if (mlockall(MCL_FUTURE)) {
        strike(m);
        print_message("skipped: mlockall() is refused\n");
        skip();
    }
    object = must_make(m, MIB, 1);
    assert_true(is_whole(m, object, MIB, 1));
    munlockall();
    assert_true(committed(m) < before + 8 * MIB);
    strike(m);
}

/* Where no file may be as large as the machine's memory, the job starts all the same, and a large put says why not. */
STAGE_TEST(without_large_files_there_is_no_arena)
{
    struct rlimit before, small;
    enum muster_status status;
    struct muster *m;

    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){200 * MIB, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    m = alone(0);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(make(m, SMALL + 8, 0, &status), 0);
    assert_int_equal(status, MUSTER_OUT_OF_RANGE);
    assert_non_null(strstr(muster_last_error(), "ulimit -f"));
    strike(m);
}

/* ---- others ---- */

static struct muster_object_room room_of_act;

static int act_fill(void *arg, struct reply *reply)
{
    muster_object object = 0;
    int status = muster_object_create(me, *(size_t *)arg, 0, 0, &object, &room_of_act);

    if (status)
        return status;
    pattern_write(room_of_act.data, *(size_t *)arg, 3);
    memcpy(reply->data, &object, sizeof object);
    reply->len = sizeof object;
    return MUSTER_OK;
}

static int act_seal(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_seal(me, *(muster_object *)arg);
}

static int act_check(void *arg, struct reply *reply)
{
    (void)reply;
    return is_whole(me, *(muster_object *)arg, 4 * MIB, 3) ? MUSTER_OK : MUSTER_DATA_LOSS;
}

static int act_scribble(void *arg, struct reply *reply)
{
    struct muster_object_view v;
    int status = muster_object_get(me, arg, 1, 0, &v, NULL);

    (void)reply;
    signal(SIGSEGV, SIG_DFL); /* not cmocka's */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!status)
        *(volatile char *)(uintptr_t)v.data = 'x';
    return status;
}

static muster_object fill(int player)
{
    size_t len = 4 * MIB;
    struct reply r = stage_do(player, act_fill, &len, sizeof len);
    muster_object object;

    assert_int_equal(r.status, MUSTER_OK);
    memcpy(&object, r.data, sizeof object);
    return object;
}

STAGE_TEST(others_see_it_and_the_dead_leave_nothing)
{
    struct muster_segment_config config = {.object_bytes = 8 * MIB};
    size_t len = 4 * MIB;
    muster_object sealed;
    int status;

    stage_open(3, &config);
    stage_enter_all();
    sealed = fill(0);
    assert_int_equal(stage_do(0, act_seal, &sealed, sizeof sealed).status, MUSTER_OK);
    assert_int_equal(stage_do(1, act_check, &sealed, sizeof sealed).status, MUSTER_OK);
    fill(0); /* not sealed */
    assert_int_equal(stage_do(1, act_fill, &len, sizeof len).status, MUSTER_RESOURCE_EXHAUSTED);
    stage_tell(2, act_scribble, &sealed, sizeof sealed);
    status = stage_end(2);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(stage_do(1, act_check, &sealed, sizeof sealed).status, MUSTER_OK);
    stage_kill(0);
    assert_int_equal(stage_audit().problems, 0); /* which cleans up first */
    fill(1);
    fill(1);
    stage_close();
}

/* ---- waiting for room ---- */

struct wanting {
    size_t len;
    muster_deadline deadline;
};

static int act_await_room(void *arg, struct reply *reply)
{
    const struct wanting *w = arg;
    muster_object object;
    int status = muster_object_create(me, w->len, 0, w->deadline, &object, &room_of_act);

    (void)reply;
    return status;
}

static int act_drop_one(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_drop(me, arg, 1);
}

STAGE_TEST(a_create_waits_until_its_room_is_free)
{
    struct muster_segment_config config = {.object_bytes = 8 * MIB};
    struct wanting w = {4 * MIB, MUSTER_FOREVER};
    muster_object first;

    stage_open(2, &config);
    stage_enter_all();
    first = fill(0);
    fill(0);
    stage_tell(1, act_await_room, &w, sizeof w);
    stage_until_waiting(1, "room for an object of 4194304 bytes");
    assert_int_equal(stage_do(0, act_drop_one, &first, sizeof first).status, MUSTER_OK);
    assert_int_equal(stage_hear(1).status, MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_wait_for_room_ends_with_the_holders_of_the_most)
{
    struct muster_segment_config config = {.object_bytes = 8 * MIB};
    struct wanting w = {4 * MIB, 0};
    struct reply r;

    stage_open(2, &config);
    stage_enter_all();
    fill(0);
    fill(0);
    w.deadline = muster_now_ns() + 50000000;
    r = stage_do(1, act_await_room, &w, sizeof w);
    assert_int_equal(r.status, MUSTER_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(r.text, "held by task 0 (pid "));
    assert_non_null(strstr(r.text, "8192 KiB in 2 objects"));
    w.deadline = MUSTER_FOREVER;
    stage_tell(1, act_await_room, &w, sizeof w);
    stage_until_waiting(1, "room for an object of 4194304 bytes");
    stage_kill(0); /* its error ends the wait, or its room is there first */
    r = stage_hear(1);
    assert_true(r.status == MUSTER_UNAVAILABLE || r.status == MUSTER_OK);
    stage_close();
}

static int act_fill_heap(void *arg, struct reply *reply)
{
    static const uint8_t bytes[30000];
    muster_object object, last = 0;
    int status;

    (void)arg;
    while (!(status = muster_object_put(me, bytes, sizeof bytes, NULL, 0, 0, &object)))
        last = object;
    memcpy(reply->data, &last, sizeof last);
    reply->len = sizeof last;
    return status;
}

/* Objects that lie in the heap, too. */
STAGE_TEST(a_full_heap_is_waited_for)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    struct wanting w = {30000, MUSTER_FOREVER};
    muster_object last;
    struct reply r;

    stage_open(2, &config);
    stage_enter_all();
    r = stage_do(0, act_fill_heap, NULL, 0);
    assert_int_equal(r.status, MUSTER_RESOURCE_EXHAUSTED);
    memcpy(&last, r.data, sizeof last);
    stage_tell(1, act_await_room, &w, sizeof w);
    stage_until_waiting(1, "room for an object of 30000 bytes");
    assert_int_equal(stage_do(0, act_drop_one, &last, sizeof last).status, MUSTER_OK);
    assert_int_equal(stage_hear(1).status, MUSTER_OK);
    stage_close();
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 400, KEPT = 6 };

static _Atomic int bad;

struct worker {
    struct muster *m;
    uint64_t seed;
};

static uint32_t next(struct worker *w)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->seed >> 33);
}

static void *take_and_free(void *arg)
{
    struct worker *w = arg;
    muster_object kept[KEPT] = {0};
    uint64_t seeds[KEPT];
    size_t lens[KEPT];

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t at = next(w) % KEPT;
        enum muster_status status;

        if (kept[at]) {
            if (!is_whole(w->m, kept[at], lens[at], seeds[at]))
                atomic_fetch_add(&bad, 1); /* any order will do */
            muster_object_drop(w->m, &kept[at], 1);
        }
        lens[at] = (SMALL / 8 + 1 + next(w) % (next(w) % 4 ? 8000 : 40000)) * 8ul;
        seeds[at] = next(w);
        kept[at] = make(w->m, lens[at], seeds[at], &status);
        if (status && status != MUSTER_RESOURCE_EXHAUSTED)
            atomic_fetch_add(&bad, 1);
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i]) {
            if (!is_whole(w->m, kept[i], lens[i], seeds[i]))
                atomic_fetch_add(&bad, 1);
            muster_object_drop(w->m, &kept[i], 1);
        }
    return NULL;
}

/* In an arena that is full at times. */
STAGE_TEST(threads_never_share_a_unit)
{
    struct muster *m = alone(3 * MIB);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    muster_object whole;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){m, 77u + (unsigned)i};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_free, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(bad, 0);
    assert_int_equal(stage_audit().problems, 0);
    whole = must_make(m, 3 * MIB, 9);
    assert_true(is_whole(m, whole, 3 * MIB, 9));
    strike(m);
}
