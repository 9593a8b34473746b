/*
 * tests/stream/band.c: the players of stream barriers.
 *
 * Each member's stream does, round after round: its "work" (its place on the engine gets the round's number), the
 * barrier, a look whether all have done theirs. The engine's words are relaxed: only the barrier orders them.
 */
#include "band.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct coord *coord;
static struct muster_stream_barrier *barrier;
static struct CUstream_st *stream;
static uint64_t first, enqueued;
static _Atomic uint64_t early;

void band_open(uint32_t tasks)
{
    if (!coord) {
        coord = mmap(NULL, sizeof *coord, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(coord, MAP_FAILED);
    }
    memset(coord, 0, sizeof *coord);
    stage_open(tasks, NULL);
    stage_enter_all();
}

void band_close(void)
{
    uint32_t n = muster_num_tasks(stage_observer);

    for (uint32_t i = 0; i < n; i++)
        if (stage_pid((int)i))
            assert_status(do_plain((int)i, act_stream_free), MUSTER_OK);
    stage_close();
}

int act_stream_create(void *arg, struct reply *reply)
{
    const struct create_act *a = arg;
    int status;

    (void)reply;
    if (!stream)
        stream = cpu_stream_open();
    cpu_executor_is_absent = a->absent;
    first = a->first ? a->first : 1;
    status = mu_stream_create(me, a->name, a->count ? a->tasks : NULL, a->count, first, &cpu_executor,
                              a->patience_ns ? muster_after_ns(a->patience_ns) : MUSTER_FOREVER, &barrier);
    if (status)
        barrier = NULL;
    enqueued = first - 1;
    atomic_store(&early, 0);
    return status;
}

int act_stream_free_hastily(void *arg, struct reply *reply)
{
    int status = muster_stream_barrier_free(barrier);

    (void)arg;
    (void)reply;
    if (!status)
        barrier = NULL;
    return status;
}

int act_stream_free(void *arg, struct reply *reply)
{
    if (stream) {
        cpu_stream_hold(stream, false);
        cpu_stream_synchronize(stream);
        cpu_stream_close(stream);
        stream = NULL;
    }
    return act_stream_free_hastily(arg, reply);
}

static void work(void *arg, uint64_t round)
{
    /* relaxed: the barrier's write, which comes after it in the stream, is what orders it */
    atomic_store_explicit(&coord->at[*(uint32_t *)arg], round, memory_order_relaxed);
}

static void look(void *arg, uint64_t round)
{
    uint64_t none = 0;

    (void)arg;
    for (uint32_t i = 0; i < barrier->size; i++)
        if (atomic_load_explicit(&coord->at[i], memory_order_relaxed) < round)
            atomic_compare_exchange_strong(&early, &none, round);
}

int act_stream_result(void *arg, struct reply *reply)
{
    struct play_answer answer = {0};
    int status;

    (void)arg;
    cpu_stream_synchronize(stream);
    status = muster_stream_barrier_status(barrier, &answer.good);
    answer.enqueued = enqueued;
    answer.early = atomic_load(&early);
    memcpy(reply->data, &answer, sizeof answer);
    reply->len = sizeof answer;
    return status;
}

int act_stream_play(void *arg, struct reply *reply)
{
    const struct play_act *a = arg;
    int status = MUSTER_OK, result;

    for (uint64_t i = 0; !status && (!a->rounds || i < a->rounds); i++) {
        cpu_stream_launch(stream, work, &barrier->rank, enqueued + 1);
        status = muster_stream_barrier_enqueue(barrier, stream);
        if (status)
            break;
        cpu_stream_launch(stream, look, NULL, ++enqueued);
    }
    if (!a->wait)
        return status;
    result = act_stream_result(NULL, reply); /* all that was enqueued may be sound, and the next round refused */
    return result ? result : status;
}

int act_stream_hold(void *arg, struct reply *reply)
{
    (void)reply;
    cpu_stream_hold(stream, *(bool *)arg);
    return MUSTER_OK;
}

int act_stream_missing(void *arg, struct reply *reply)
{
    size_t count;
    int status = muster_stream_barrier_missing(barrier, (int32_t *)(void *)reply->data, BAND_MAX, &count);

    (void)arg;
    reply->len = count * sizeof(int32_t);
    return status;
}

int act_stream_abort(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_stream_barrier_abort(barrier, arg);
}

int act_stream_die_failing(void *arg, struct reply *reply)
{
    uint32_t steps = *(uint32_t *)arg;
    struct mu_stream_page *page = barrier->page;
    uint64_t none = 0;

    (void)reply;
    if (steps)
        atomic_compare_exchange_strong(
            &page->failed, &none, MU_STREAM_FAILED(mu_stream_good(page, barrier->size, enqueued), 0, MU_STREAM_LOST));
    for (uint32_t i = 1; i < steps; i++)
        atomic_store(&page->lines[(i - 1) / 2].words[(i - 1) % 2].released, 1);
    kill(getpid(), SIGKILL);
    return MUSTER_OK;
}

void tell_create(int player, const struct create_act *a)
{
    stage_tell(player, act_stream_create, a, sizeof *a);
}

void band_create(uint32_t count, uint64_t first_round)
{
    struct create_act a = {.name = "b", .count = count, .first = first_round};

    for (uint32_t i = 0; i < count; i++)
        a.tasks[i] = (int32_t)i;
    for (uint32_t i = 0; i < count; i++)
        tell_create((int)i, &a);
    for (uint32_t i = 0; i < count; i++)
        assert_status(stage_hear((int)i), MUSTER_OK);
}

struct play_answer answer_of(const struct reply *r)
{
    struct play_answer a;

    assert_int_equal(r->len, sizeof a);
    memcpy(&a, r->data, sizeof a);
    return a;
}
