/*
 * tests/schedule/schedule_threads_test.c: calls, places and workers in several threads of one process, and what these
 * leave behind.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <muster/ps.h>
#include <muster/queue.h>

#include "child.h"
#include "job.h"
#include "test.h"

#include "schedule/private.h"
#include "segment/handle.h"

static struct test_job job;
static struct muster *me;
static muster_function f;

#define OK(call) assert_status((call), MUSTER_OK, #call)

static void assert_status(enum muster_status got, enum muster_status wanted, const char *what)
{
    if (got != wanted)
        fail_msg("%s: %s, not %s: %s", what, muster_status_name(got), muster_status_name(wanted), muster_last_error());
}

static int stage_open(void)
{
    struct muster_segment_config config = {.num_tasks = 2, .num_slots = 200, .heap_bytes = 64 << 20};
    struct muster_function_text text = {.name = "f", .kind = MUSTER_FUNCTION_OWN, .num_results = 1};

    OK(test_job_create(&job, &config));
    me = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    assert_non_null(me);
    OK(muster_function_export(me, &text, &f));
    return 0;
}

static int stage_close(void)
{
    OK(muster_leave(me));
    return test_job_end(&job);
}

#define THREADS_TEST(name) TEST_WITH(name, stage_open, stage_close)

static pthread_t thread_start(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

static void *thread_end(pthread_t thread)
{
    void *result;

    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static muster_object call_of(muster_object argument, muster_object place)
{
    struct muster_argument a = {.object = argument};
    struct muster_submit_options options = {.max_retries = -1, .place = place};
    muster_object o = 0;

    OK(muster_submit(me, f, &a, argument ? 1 : 0, &options, &o));
    return o;
}

static enum muster_status outcome_of(muster_object o)
{
    struct muster_object_view view;
    enum muster_status status = muster_object_get(me, &o, 1, muster_after_ms(60000), &view, NULL);

    if (!status)
        muster_object_unview(me, &view, 1);
    OK(muster_object_drop(me, &o, 1));
    return status;
}

/* ---- places ---- */

static void *place_serve(void *arg)
{
    struct muster_call *call;
    enum muster_status status;

    do
        status = muster_worker_next(me, *(muster_object *)arg, MUSTER_FOREVER, &call);
    while (!status && !muster_call_done(call));
    return (void *)(intptr_t)status;
}

static uint32_t workers_there(void)
{
    struct muster_workers_info info;

    OK(muster_workers_get(me, &info));
    return info.workers;
}

THREADS_TEST(a_place_closes_under_the_thread_that_serves_it)
{
    for (int round = 0; round < 20; round++) {
        struct muster_object_room room;
        muster_object place, open, waits, more;
        pthread_t server;

        OK(muster_place_open(me, &place));
        OK(muster_object_create(me, 8, 0, 0, &open, &room));
        waits = call_of(round % 2 ? open : 0, place); /* that the server has taken, or has run */
        more = call_of(open, place);
        server = thread_start(place_serve, &place);
        if (round % 4 > 1)
            await(workers_there() == 1, "no worker");
        OK(muster_place_close(me, place, MUSTER_ABORTED, "closed"));
        assert_int_equal((intptr_t)thread_end(server), MUSTER_FAILED_PRECONDITION);
        assert_status(outcome_of(more), MUSTER_ABORTED, "a call of a place that was closed");
        outcome_of(waits);
        OK(muster_object_drop(me, &open, 1));
        OK(muster_object_drop(me, &place, 1));
    }
}

THREADS_TEST(one_thread_at_a_time_serves_a_place)
{
    muster_object place;
    struct muster_call *call;
    pthread_t server;

    OK(muster_place_open(me, &place));
    server = thread_start(place_serve, &place);
    await(workers_there() == 1, "no worker");
    assert_status(muster_worker_next(me, place, 0, &call), MUSTER_FAILED_PRECONDITION, "a second server");
    assert_non_null(strstr(muster_last_error(), "another thread"));
    assert_status(outcome_of(call_of(0, place)), MUSTER_OK, "a call of the place");
    OK(muster_place_close(me, place, MUSTER_ABORTED, "closed"));
    thread_end(server);
    OK(muster_object_drop(me, &place, 1));
}

static enum muster_status object_fails(struct mu_object *o, void *arg)
{
    (void)arg;
    o->state = MU_OBJECT_ERROR;
    o->code = MUSTER_ABORTED;
    return MUSTER_OK;
}

/* As a death would leave it: the place is closed, and its chain is lost. */
static void place_lose(muster_object place)
{
    struct mu_ctx *ctx;

    OK(mu_enter(me, &ctx));
    OK(mu_object_change_quietly(ctx, place, object_fails, NULL));
    mu_work_rescan(ctx->seg);
    mu_exit(ctx);
}

THREADS_TEST(each_wait_for_a_call_finds_what_a_death_has_lost)
{
    for (int way = 0; way < 2; way++) {
        muster_object place, o;
        unsigned char ready;
        size_t count;

        OK(muster_place_open(me, &place));
        o = call_of(0, place);
        place_lose(place);
        if (way)
            OK(muster_object_wait(me, &o, 1, 1, muster_after_ms(60000), &ready, &count));
        assert_status(outcome_of(o), MUSTER_ABORTED, "a call of a place that is gone");
        OK(muster_object_drop(me, &place, 1));
    }
}

/* ---- threads that end ---- */

static void *call_take(void *arg)
{
    static struct muster_call *call; /* for ever: its thread never ends it */

    (void)arg;
    return (void *)(intptr_t)muster_worker_next(me, 0, muster_after_ms(60000), &call);
}

THREADS_TEST(a_thread_that_ends_without_ending_its_call_fails_it)
{
    struct muster_workers_info before, after;
    muster_object o = call_of(0, 0);
    pthread_t thread;

    OK(muster_workers_get(me, &before));
    assert_int_equal(before.workers, 0);
    thread = thread_start(call_take, NULL);
    assert_int_equal((intptr_t)thread_end(thread), MUSTER_OK);
    assert_status(outcome_of(o), MUSTER_UNAVAILABLE, "a call whose thread has ended");
    OK(muster_workers_get(me, &after));
    assert_int_equal(after.workers, 0);
}

static void *call_none(void *arg)
{
    struct muster_call *call;

    CHECK(muster_worker_next(me, 0, 0, &call) == MUSTER_DEADLINE_EXCEEDED);
    test_gate_arrive(arg);
    test_gate_pass(arg);
    return NULL;
}

THREADS_TEST(a_worker_that_goes_is_a_change_of_the_workers)
{
    struct muster_workers_info with, without;
    struct test_gate gate;
    pthread_t thread;

    assert_int_equal(test_gate_open(&gate), 0);
    thread = thread_start(call_none, &gate);
    test_gate_await(&gate);
    OK(muster_workers_get(me, &with));
    assert_int_equal(with.workers, 1);
    test_gate_release(&gate);
    thread_end(thread);
    OK(muster_workers_wait(me, with.change, muster_after_ms(60000), &without));
    assert_int_equal(without.workers, 0);
    test_gate_close(&gate);
}

/* ---- threads of muster_worker_run() ---- */

MUSTER_API enum muster_status threads_tree(struct muster *m, struct muster_call *call);
MUSTER_API enum muster_status threads_serve(struct muster *m, struct muster_call *call);

/* A call that waits for two of its kind, so deep. */
enum muster_status threads_tree(struct muster *m, struct muster_call *call)
{
    struct muster_object_view view;
    struct muster_call_info info;
    muster_object both[2];
    enum muster_status status = muster_call_argument(call, 0, &view);
    uint8_t depth = status ? 0 : *(const uint8_t *)view.data;

    muster_call_get(call, &info);
    if (!depth)
        return status;
    depth--;
    for (int i = 0; !status && i < 2; i++)
        status =
            muster_submit(m, info.function, &(struct muster_argument){.data = &depth, .len = 1}, 1, NULL, &both[i]);
    for (int i = 0; !status && i < 2; i++) {
        status = muster_object_get(m, &both[i], 1, MUSTER_FOREVER, &view, NULL);
        if (!status)
            muster_object_unview(m, &view, 1);
    }
    return status ? status : muster_object_drop(m, both, 2);
}

static _Atomic muster_object place_of_call;

/* A call that serves a place: one call of it. */
enum muster_status threads_serve(struct muster *m, struct muster_call *call)
{
    struct muster_call *served;
    muster_object place;
    enum muster_status status = muster_place_open(m, &place);

    (void)call;
    atomic_store(&place_of_call, status ? 0 : place);
    if (!status)
        status = muster_worker_next(m, place, MUSTER_FOREVER, &served);
    if (!status)
        status = muster_call_done(served);
    if (!status)
        status = muster_place_close(m, place, MUSTER_ABORTED, "it has served");
    return status ? status : muster_object_drop(m, &place, 1);
}

static muster_function symbol_of(const char *symbol)
{
    struct muster_function_text text = {
        .name = symbol, .kind = MUSTER_FUNCTION_LIBRARY, .symbol = symbol, .num_results = 1};
    muster_function function = 0;

    OK(muster_function_export(me, &text, &function));
    return function;
}

static void *crew_run(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)muster_worker_run(me, NULL);
}

static void crew_end(pthread_t crew)
{
    muster_interrupt(me);
    assert_int_equal((intptr_t)thread_end(crew), MUSTER_CANCELLED);
    muster_resume(me);
}

THREADS_TEST(a_crew_whose_threads_come_and_go_always_has_one_that_runs_calls)
{
    muster_function tree = symbol_of("threads_tree");
    pthread_t crew = thread_start(crew_run, NULL);
    uint8_t depth = 4;
    muster_object o;

    for (int i = 0; i < 200; i++) {
        OK(muster_submit(me, tree, &(struct muster_argument){.data = &depth, .len = 1}, 1, NULL, &o));
        assert_status(outcome_of(o), MUSTER_OK, "a call that waits for calls");
    }
    crew_end(crew);
}

THREADS_TEST(a_call_that_serves_a_place_leaves_the_others_a_thread)
{
    pthread_t crew = thread_start(crew_run, NULL);
    muster_object serves, served;
    uint8_t depth = 0;

    atomic_store(&place_of_call, 0);
    OK(muster_submit(me, symbol_of("threads_serve"), NULL, 0, NULL, &serves));
    await(atomic_load(&place_of_call), "no place");
    OK(muster_submit(me, symbol_of("threads_tree"), &(struct muster_argument){.data = &depth, .len = 1}, 1, NULL,
                     &served));
    assert_status(outcome_of(served), MUSTER_OK, "a call beside one that serves a place");
    assert_status(outcome_of(call_of(0, atomic_load(&place_of_call))), MUSTER_OK, "a call of the place");
    assert_status(outcome_of(serves), MUSTER_OK, "the call that serves it");
    crew_end(crew);
}

/* What a call waits for until the next one, of the same number, does it. */
enum { TENSOR_IS_MADE, TENSOR_IS_PUSHED, READER_IS_THERE, WAITS };
static const struct muster_ps_config one_float;
static struct muster_ps *waited_tensor;
static struct muster_queue *waited_queue;
static muster_object waited_reference;
static _Atomic bool call_waits;

MUSTER_API enum muster_status threads_wait(struct muster *m, struct muster_call *call);
MUSTER_API enum muster_status threads_act(struct muster *m, struct muster_call *call);

static uint8_t number_of(struct muster_call *call)
{
    struct muster_object_view view;

    return muster_call_argument(call, 0, &view) ? WAITS : *(const uint8_t *)view.data;
}

enum muster_status threads_wait(struct muster *m, struct muster_call *call)
{
    uint8_t number = number_of(call);

    atomic_store(&call_waits, true);
    if (number == TENSOR_IS_MADE)
        return muster_ps_open(m, "tensor", muster_after_ms(60000), &waited_tensor);
    if (number == TENSOR_IS_PUSHED)
        return muster_ps_wait(waited_tensor, 1, muster_after_ms(60000), NULL);
    return muster_queue_wait(waited_queue, 1, muster_after_ms(60000));
}

enum muster_status threads_act(struct muster *m, struct muster_call *call)
{
    static struct muster_ps *tensor;
    static struct muster_queue *reader;
    uint8_t number = number_of(call);
    float one = 1;

    if (number == TENSOR_IS_MADE)
        return muster_ps_create(m, "tensor", &one_float, NULL, &tensor);
    if (number == TENSOR_IS_PUSHED)
        return muster_ps_push(tensor, &one, 0, NULL);
    if (number == READER_IS_THERE)
        return muster_queue_open(m, waited_reference, &reader);
    muster_ps_close(tensor);
    return muster_queue_close(reader);
}

THREADS_TEST(a_call_that_waits_for_a_tensor_or_a_reader_leaves_the_others_a_thread)
{
    muster_function waits = symbol_of("threads_wait"), acts = symbol_of("threads_act");
    pthread_t crew = thread_start(crew_run, NULL);
    muster_object wait, act;
    uint8_t number;

    OK(muster_queue_create(me, NULL, &waited_queue, &waited_reference));
    for (number = 0; number <= WAITS; number++) {
        struct muster_argument argument = {.data = &number, .len = 1};

        atomic_store(&call_waits, false);
        wait = 0;
        if (number < WAITS) {
            OK(muster_submit(me, waits, &argument, 1, NULL, &wait));
            await(atomic_load(&call_waits), "no call runs");
        }
        OK(muster_submit(me, acts, &argument, 1, NULL, &act));
        assert_status(outcome_of(act), MUSTER_OK, "a call beside one that waits");
        if (wait)
            assert_status(outcome_of(wait), MUSTER_OK, "a call that waits");
    }
    muster_ps_close(waited_tensor);
    OK(muster_queue_close(waited_queue));
    crew_end(crew);
}

/* The C library's mathematics as an image: its fegetround() takes nothing and returns 0. */
static size_t image_read(char *bytes, size_t most)
{
    void *library = dlopen("libm.so.6", RTLD_NOW);
    Dl_info info;
    FILE *file;
    size_t len;

    assert_non_null(library);
    assert_int_not_equal(dladdr(dlsym(library, "fegetround"), &info), 0);
    file = fopen(info.dli_fname, "rb");
    assert_non_null(file);
    len = fread(bytes, 1, most, file);
    assert_in_range(len, 1, most - 1);
    fclose(file);
    dlclose(library);
    return len;
}

THREADS_TEST(an_image_runs_however_long_its_name_is)
{
    static char bytes[8 << 20];
    char name[MUSTER_FUNCTION_NAME_MAX + 1] = {0};
    struct muster_function_text text = {
        .name = name, .kind = MUSTER_FUNCTION_IMAGE, .symbol = "fegetround", .num_results = 1, .code = bytes};
    pthread_t crew = thread_start(crew_run, NULL);

    memset(name, 'n', MUSTER_FUNCTION_NAME_MAX);
    text.code_len = image_read(bytes, sizeof bytes);
    OK(muster_function_export(me, &text, &f));
    assert_status(outcome_of(call_of(0, 0)), MUSTER_OK, "a call of an image");
    text.symbol = "no_such_symbol";
    OK(muster_function_export(me, &text, &f));
    assert_status(outcome_of(call_of(0, 0)), MUSTER_NOT_FOUND, "a call of a symbol that the image has not");
    text.code_len = 100;
    OK(muster_function_export(me, &text, &f));
    assert_status(outcome_of(call_of(0, 0)), MUSTER_FAILED_PRECONDITION, "a call of what is no image");
    crew_end(crew);
}
