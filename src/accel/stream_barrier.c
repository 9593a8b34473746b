/*
 * accel/stream_barrier.c: making, using and ending a stream barrier.
 *
 * Making. The members meet in a group, which lives only for that: it knows which come, are missing or die meanwhile.
 * Each brings a card (can it take part, and if not, why); the first has made the memory and says on its card
 * where it is. When all are fit, all map the memory, let their driver register it, and start their watchdog; a second
 * round of cards tells whether that worked for everybody. So all get the barrier or none, with the same reason.
 *
 * Using. Enqueueing is a number, a few operations and one call of the driver; nothing in it waits for other members.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "accel/stream.h"
#include "base/clock.h"
#include "base/process.h"
#include "segment/cluster.h"
#include "segment/file.h"

/* How long a killed process may need to end, its other threads after the first. */
#define DYING_NS 5000000000u

/* What a member brings to the meeting. */
struct card {
    uint32_t status;
    uint32_t pad;
    uint64_t incarnation;
    struct mu_stream_share share;
    char reason[400];
};

static struct card fill_card(const struct muster_stream_barrier *b, enum muster_status status)
{
    struct card c = {.status = (uint32_t)status, .incarnation = b->muster->incarnation};

    c.share.pid = (int32_t)getpid();
    c.share.pid_namespace = mu_namespace("pid");
    c.share.fd = -1;
    if (status)
        snprintf(c.reason, sizeof c.reason, "%s", muster_last_error());
    return c;
}

/* Give our card and read all: OK when everybody's is, else the first bad one's status and reason. */
static enum muster_status cards_exchange(struct muster_stream_barrier *b, struct muster_group *group,
                                         const struct card *mine, struct card *all, muster_deadline deadline)
{
    enum muster_status status = muster_group_allgather(group, mine, sizeof *mine, all, deadline);

    for (uint32_t i = 0; !status && i < b->size; i++)
        if (all[i].status)
            status = mu_fail((enum muster_status)all[i].status, "stream barrier %s: task %u cannot take part: %.399s",
                             b->name, b->members[i].task, all[i].reason);
    return status;
}

/* What makes a barrier impossible though each member is fit. All see the same cards, so all decide the same. */
static enum muster_status cards_judge(struct muster_stream_barrier *b, const struct card *all)
{
    for (uint32_t i = 0; i < b->size; i++) {
        b->members[i].incarnation = all[i].incarnation;
        if (all[i].share.pid_namespace != all[0].share.pid_namespace)
            return mu_fail(
                MUSTER_FAILED_PRECONDITION,
                "stream barrier %s: tasks %u and %u are in different pid namespaces, and its memory is handed "
                "over through /proc: let their containers share one",
                b->name, b->members[0].task, b->members[i].task);
        for (uint32_t k = 0; k < i; k++)
            if (all[k].share.pid == all[i].share.pid)
                return mu_fail(MUSTER_FAILED_PRECONDITION,
                               "stream barrier %s: tasks %u and %u are one process, whose streams may share a hardware "
                               "queue: there a wait can lie before the write that would end it",
                               b->name, b->members[k].task, b->members[i].task);
    }
    return MUSTER_OK;
}

/*
 * The memory of the first member, which may have died since it said where that is: then this is the reason. Of a
 * process that is killed /proc forgets the descriptors when its first thread has ended; that it is lost is seen when
 * the last one has.
 */
static enum muster_status memory_adopt(struct muster_stream_barrier *b, const struct card *first)
{
    enum muster_status status = mu_stream_adopt(&first->share, b->size, &b->page);
    uint64_t end = mu_now() + DYING_NS;
    char lost[300] = "", why[400];

    if (!status)
        return MUSTER_OK;
    snprintf(why, sizeof why, "%s", muster_last_error());
    for (;;) {
        bool ending = mu_process_is_ending(first->share.pid); /* before the look, or its end may fall in between */

        mu_stream_name_lost(b, lost, sizeof lost);
        if (*lost)
            return mu_fail(MUSTER_UNAVAILABLE, "%s", lost);
        if (!ending || mu_now() > end)
            return mu_fail(status, "%s", why);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* The memory is there: everything that may still fail here. */
static enum muster_status barrier_settle(struct muster_stream_barrier *b, const struct card *first)
{
    enum muster_status status = MUSTER_OK;

    if (b->rank)
        status = memory_adopt(b, first);
    if (!status)
        status = b->executor->map(b->state, b->page, mu_stream_bytes(), b->rank, &b->base);
    if (!status)
        status = mu_stream_watch(b);
    return status;
}

/* From the first card to the last. */
static enum muster_status members_meet(struct muster_stream_barrier *b, struct muster_group *group,
                                       enum muster_status fit, muster_deadline deadline)
{
    struct card mine = fill_card(b, fit), *all = calloc(b->size, sizeof *all);
    struct mu_stream_share *share = &mine.share;
    enum muster_status status;

    if (!fit && !b->rank) {
        fit = mu_stream_make(b->size, b->first, share, &b->page);
        if (fit) {
            mine = fill_card(b, fit);
            share->fd = -1;
        }
    }
    status = all ? cards_exchange(b, group, &mine, all, deadline)
                 : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for stream barrier %s", b->name);
    if (!status)
        status = cards_judge(b, all);
    if (!status) {
        struct card second = fill_card(b, barrier_settle(b, &all[0]));

        status = cards_exchange(b, group, &second, all, deadline);
    }
    if (share->fd >= 0)
        close(share->fd);
    free(all);
    return status;
}

/* Undo whatever was done, in the other order. */
static void barrier_done(struct muster_stream_barrier *b)
{
    bool unused = true;

    mu_stream_unwatch(b);
    if (b->state)
        unused = b->executor->close(b->state, b->page);
    if (b->page && unused)
        munmap(b->page, mu_stream_bytes());
    if (b->seg)
        mu_segment_unref(b->seg);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->words_lock);
    free(b);
}

static void take_members(struct muster_stream_barrier *b, struct muster_group *group, const int32_t *task_ids,
                         size_t count)
{
    b->rank = muster_group_rank(group);
    b->size = muster_group_size(group);
    for (uint32_t i = 0; i < b->size; i++)
        b->members[i].task = count ? (uint32_t)task_ids[i] : i;
}

enum muster_status mu_stream_create(struct muster *muster, const char *name, const int32_t *task_ids, size_t count,
                                    uint64_t first, const struct mu_stream_executor *executor, muster_deadline deadline,
                                    struct muster_stream_barrier **ret_barrier)
{
    char group_name[MUSTER_GROUP_NAME_MAX + 1];
    struct muster_group *group = NULL;
    struct muster_stream_barrier *b;
    enum muster_status status, fit;
    size_t members = count || !muster ? count : muster_num_tasks(muster);

    if (!name || !*name || strlen(name) > MUSTER_STREAM_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a stream barrier's name is 1 to %u bytes long",
                       MUSTER_STREAM_NAME_MAX);
    if (members > MUSTER_STREAM_SIZE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "stream barrier %s: %zu members; %u is the most", name, members,
                       MUSTER_STREAM_SIZE_MAX);
    b = calloc(1, sizeof *b);
    if (!b)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for stream barrier %s", name);
    b->muster = muster;
    b->executor = executor;
    b->first = first;
    atomic_store_explicit(&b->enqueued, first - 1, memory_order_relaxed); /* process-local: nobody else has it yet */
    snprintf(b->name, sizeof b->name, "%s", name);
    snprintf(group_name, sizeof group_name, "stream:%s", name);
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->words_lock, NULL);
    fit = executor->open(&b->state);
    /* the others wait for us in the group: a member that cannot take part tells them so there */
    status = muster_group_create(muster, group_name, task_ids, count, sizeof(struct card), deadline, &group);
    if (!status) {
        take_members(b, group, task_ids, count);
        b->seg = muster->seg;
        mu_segment_ref(b->seg);
        status = members_meet(b, group, fit, deadline);
        muster_group_free(group);
    }
    if (status)
        barrier_done(b);
    else
        *ret_barrier = b;
    return status;
}

enum muster_status muster_stream_barrier_create(struct muster *muster, const char *name, const int32_t *task_ids,
                                                size_t count, muster_deadline deadline,
                                                struct muster_stream_barrier **ret_barrier)
{
    return mu_stream_create(muster, name, task_ids, count, 1, &mu_stream_cuda, deadline, ret_barrier);
}

static enum muster_status barrier_refuse(const struct muster_stream_barrier *b)
{
    if (!b)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the stream barrier is NULL");
    if (!mu_handle_is_ours(b->muster))
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "stream barrier %s: this is a forked child; the barrier stayed with the parent", b->name);
    return MUSTER_OK;
}

/* relaxed, process-local: the caller's own count, and for others a number near it */
static uint64_t enqueued_by(const struct muster_stream_barrier *b)
{
    return atomic_load_explicit(&b->enqueued, memory_order_relaxed); /* process-local: as said above */
}

/* The sentence of a barrier that has failed. */
static enum muster_status failure_tell(struct muster_stream_barrier *b, uint64_t failed)
{
    enum mu_stream_cause cause = MU_STREAM_CAUSE(failed);
    enum muster_status status = cause == MU_STREAM_GIVEN_UP   ? MUSTER_ABORTED
                                : cause == MU_STREAM_JOB_GONE ? MUSTER_CANCELLED
                                                              : MUSTER_UNAVAILABLE;

    mu_stream_note_culprit(b, failed);
    pthread_mutex_lock(&b->words_lock);
    status = mu_fail(status, "stream barrier %s failed after round %llu: %s", b->name,
                     (unsigned long long)MU_STREAM_GOOD(failed), b->words);
    pthread_mutex_unlock(&b->words_lock);
    return status;
}

static enum muster_status barrier_submit(struct muster_stream_barrier *b, struct CUstream_st *stream)
{
    /* acquire: pairs with the CAS of mu_stream_fail() */
    uint64_t failed = mu_load_acquire(&b->page->failed), before = enqueued_by(b);
    uint64_t arrived = mu_stream_arrived(b->page, b->rank, before);
    struct mu_stream_op ops[MU_STREAM_OPS_MAX];
    enum muster_status status;

    if (failed)
        return failure_tell(b, failed);
    if (arrived != before && stream != b->stream)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "stream barrier %s: rounds %llu to %llu are still to be executed in another stream: synchronize "
                       "with it first",
                       b->name, (unsigned long long)arrived + 1, (unsigned long long)before);
    if (before - arrived >= MU_STREAM_AHEAD)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "stream barrier %s: %llu rounds are enqueued and not executed",
                       b->name, (unsigned long long)(before - arrived));
    /* before the round can be executed: from then on the others' words may be one further. relaxed, process-local */
    atomic_store_explicit(&b->enqueued, before + 1, memory_order_relaxed);
    status = b->executor->submit(b->state, stream, ops, mu_stream_plan(b->rank, b->size, before + 1, ops));
    if (status)
        atomic_store_explicit(&b->enqueued, before, memory_order_relaxed); /* process-local: nothing was enqueued */
    else
        b->stream = stream;
    return status;
}

enum muster_status muster_stream_barrier_enqueue(struct muster_stream_barrier *barrier, struct CUstream_st *stream)
{
    enum muster_status status = barrier_refuse(barrier);

    if (status)
        return status;
    pthread_mutex_lock(&barrier->lock);
    status = barrier_submit(barrier, stream);
    pthread_mutex_unlock(&barrier->lock);
    return status;
}

enum muster_status muster_stream_barrier_status(struct muster_stream_barrier *barrier, uint64_t *ret_good)
{
    enum muster_status status = barrier_refuse(barrier);
    uint64_t failed, good;

    if (status)
        return status;
    failed = mu_load_acquire(&barrier->page->failed); /* acquire: pairs with the CAS of mu_stream_fail() */
    good = failed ? MU_STREAM_GOOD(failed) : mu_stream_good(barrier->page, barrier->size, enqueued_by(barrier));
    if (ret_good)
        *ret_good = good;
    return failed && enqueued_by(barrier) > good ? failure_tell(barrier, failed) : MUSTER_OK;
}

enum muster_status muster_stream_barrier_missing(struct muster_stream_barrier *barrier, int32_t *ret_task_ids,
                                                 size_t capacity, size_t *ret_count)
{
    enum muster_status status = barrier_refuse(barrier);
    uint64_t arrived[MUSTER_STREAM_SIZE_MAX], furthest = 0, enqueued;
    size_t n = 0;

    if (status)
        return status;
    enqueued = enqueued_by(barrier);
    for (uint32_t i = 0; i < barrier->size; i++) {
        arrived[i] = mu_stream_arrived(barrier->page, i, enqueued);
        furthest = arrived[i] > furthest ? arrived[i] : furthest;
    }
    for (uint32_t i = 0; i < barrier->size; i++) {
        if (arrived[i] == furthest)
            continue;
        if (n < capacity)
            ret_task_ids[n] = (int32_t)barrier->members[i].task;
        n++;
    }
    *ret_count = n;
    return MUSTER_OK;
}

enum muster_status muster_stream_barrier_abort(struct muster_stream_barrier *barrier, const char *message)
{
    enum muster_status status = barrier_refuse(barrier);
    uint64_t text[MU_STREAM_NOTE / 8] = {0};

    if (status)
        return status;
    snprintf((char *)text, sizeof text, "%s", message && *message ? message : "no reason was given");
    pthread_mutex_lock(&barrier->words_lock);
    /* relaxed: published by the CAS of `failed`; a second caller of this process does not write over it */
    if (!mu_load_relaxed(&barrier->page->notes[barrier->rank].text[0]))
        mu_copy_in(barrier->page->notes[barrier->rank].text, text, MU_STREAM_NOTE / 8);
    pthread_mutex_unlock(&barrier->words_lock);
    mu_stream_fail(barrier->page, barrier->size, enqueued_by(barrier), barrier->rank, MU_STREAM_GIVEN_UP);
    return MUSTER_OK;
}

uint64_t muster_stream_barrier_failed_word(const struct muster_stream_barrier *barrier)
{
    return barrier->base + offsetof(struct mu_stream_page, failed);
}

/* In a forked child: there is no thread, no memory and no registration, only the copy of the object. */
static enum muster_status free_copy(struct muster_stream_barrier *b)
{
    free(b);
    return MUSTER_OK;
}

enum muster_status muster_stream_barrier_free(struct muster_stream_barrier *barrier)
{
    uint64_t enqueued, arrived;

    if (!barrier)
        return MUSTER_OK;
    if (!mu_handle_is_ours(barrier->muster))
        return free_copy(barrier);
    enqueued = enqueued_by(barrier);
    arrived = mu_stream_arrived(barrier->page, barrier->rank, enqueued);
    /* our last write is done, and the waits behind it are open: by all arrivals, or by force */
    if (arrived == enqueued && !mu_load_acquire(&barrier->page->failed)) /* acquire: pairs with mu_stream_fail() */
        arrived = mu_stream_good(barrier->page, barrier->size, enqueued);
    if (arrived < enqueued)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "stream barrier %s: rounds %llu to %llu have not been executed: synchronize with the stream "
                       "first (or give up by muster_stream_barrier_abort(), then synchronize)",
                       barrier->name, (unsigned long long)arrived + 1, (unsigned long long)enqueued);
    mu_stream_fail(barrier->page, barrier->size, enqueued, barrier->rank, MU_STREAM_FREED);
    barrier_done(barrier);
    return MUSTER_OK;
}
