/*
 * accel/stream_watch.c: the thread that opens the waits of a stream barrier when a member is lost.
 *
 * It sleeps on the segment's epoch (every change of a task's record moves it), on the word `failed` (another member's
 * thread was faster) and on the liveness words of the members' main slots, of which the kernel wakes one sleeper at a
 * death: so it learns of one directly, in a job without an agent too, and wakes the others through `failed`. It needs
 * no slot and writes nothing in the segment but the waiters' bit of those words. It takes no lock that the enqueueing
 * thread holds: that one may be blocked in the driver by a queue full of rounds that only we can let go.
 */
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "accel/stream.h"
#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "segment/slot.h"
#include "sync/futex.h"

/* Nothing is missed for long, whatever wake-up was lost. */
#define SLEEP_NS 50000000u
/* The threads of a process die one after the other: after the first to go we look again soon, then less and less. */
#define FIRST_NS 100000u
enum { WORDS = MUSTER_STREAM_SIZE_MAX + 3 };

enum condition { FINE, ERRED, DEAD, GONE, REPLACED };

static enum condition look_at(const struct muster_stream_barrier *b, uint32_t rank, struct mu_task_record *r,
                              char *text)
{
    const struct mu_stream_member *m = &b->members[rank];
    struct mu_cluster cluster;

    if (mu_cluster_task(b->seg, m->task, r, text, &cluster))
        return FINE; /* a damaged record proves nothing about its task */
    if (r->incarnation != m->incarnation)
        return REPLACED;
    if (r->state == MUSTER_TASK_ERROR)
        return ERRED;
    if (r->state != MUSTER_TASK_CONNECTED)
        return GONE;
    return mu_cluster_alive(b->seg, m->task, r) ? FINE : DEAD;
}

void mu_stream_name_lost(const struct muster_stream_barrier *b, char *words, size_t size)
{
    uint32_t named = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < b->size && n < size && named < 4; i++) {
        struct mu_task_record r;
        char text[MU_TEXT_MAX] = "", name[MU_NAME_MAX];
        enum condition c = look_at(b, i, &r, text);

        if (c == FINE)
            continue;
        mu_cluster_name(b->seg, b->members[i].task, &r, name, sizeof name);
        if (named++ == 3)
            n += (size_t)snprintf(words + n, size - n, "; and others");
        else
            n += (size_t)snprintf(words + n, size - n, "%s%s is lost: %s", n ? "; " : "", name,
                                  c == REPLACED         ? "it is another process by now"
                                  : c == GONE           ? "it left"
                                  : c == ERRED && *text ? text
                                                        : "its process died");
    }
}

static void name_one(struct muster_stream_barrier *b, uint32_t rank, char *name, size_t size)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (mu_cluster_task(b->seg, b->members[rank].task, &r, NULL, &cluster))
        snprintf(name, size, "task %u", b->members[rank].task);
    else
        mu_cluster_name(b->seg, b->members[rank].task, &r, name, size);
}

void mu_stream_note_culprit(struct muster_stream_barrier *b, uint64_t failed)
{
    uint32_t rank = MU_STREAM_CULPRIT(failed);
    char name[MU_NAME_MAX];

    rank = rank < b->size ? rank : 0;
    pthread_mutex_lock(&b->words_lock);
    if (!b->words[0] && !mu_segment_is_whole(b->seg)) {
        snprintf(b->words, sizeof b->words, "the segment of the job was truncated while in use");
    } else if (!b->words[0]) {
        uint64_t note[MU_STREAM_NOTE / 8];

        name_one(b, rank, name, sizeof name);
        switch (MU_STREAM_CAUSE(failed)) {
        case MU_STREAM_FREED:
            snprintf(b->words, sizeof b->words, "%s took part in fewer rounds and freed its barrier", name);
            break;
        case MU_STREAM_GIVEN_UP:
            mu_copy_out(note, b->page->notes[rank].text, MU_STREAM_NOTE / 8); /* relaxed: before `failed`, acquired */
            snprintf(b->words, sizeof b->words, "%s gave up: %.*s", name, (int)MU_STREAM_NOTE, (const char *)note);
            break;
        case MU_STREAM_JOB_GONE: snprintf(b->words, sizeof b->words, "the job was closed"); break;
        default:
            mu_stream_name_lost(b, b->words, sizeof b->words);
            if (!b->words[0]) /* seen by another member before us, and reset since */
                snprintf(b->words, sizeof b->words, "%s was lost", name);
        }
    }
    pthread_mutex_unlock(&b->words_lock);
}

/* The first that is lost; the size when none is. */
static uint32_t find_lost(const struct muster_stream_barrier *b)
{
    for (uint32_t i = 0; i < b->size; i++) {
        struct mu_task_record r;
        enum condition c = look_at(b, i, &r, NULL);

        if (c == DEAD) /* we may have taken the kernel's one wake-up from an agent: this one is for all */
            mu_epoch_move(b->seg);
        if (c != FINE)
            return i;
    }
    return b->size;
}

static void barrier_fail(struct muster_stream_barrier *b, uint32_t rank, enum mu_stream_cause cause)
{
    /* relaxed, process-local: near enough whenever it is read; see mu_stream_arrived() */
    uint64_t enqueued = atomic_load_explicit(&b->enqueued, memory_order_relaxed);

    mu_stream_fail(b->page, b->size, enqueued, rank, cause);
    mu_stream_note_culprit(b, mu_load_acquire(&b->page->failed)); /* acquire: the winner's, which may be another's */
}

/* Words to sleep on, with what they were when they gave no reason to act. *ret_dying: a main slot's thread has gone. */
static size_t words_collect(struct muster_stream_barrier *b, mu_a32 **words, uint32_t *values, bool *ret_dying)
{
    size_t n = 0;

    for (uint32_t i = 0; i < b->size; i++) {
        struct mu_task_record r;
        struct mu_cluster cluster;
        mu_a32 *word;
        uint32_t v;

        if (i == b->rank || mu_cluster_task(b->seg, b->members[i].task, &r, NULL, &cluster) || !r.slot ||
            r.slot > b->seg->num_slots)
            continue;
        word = mu_slot_liveness(b->seg, r.slot - 1);
        v = mu_load32_acquire(word); /* acquire: pairs with the kernel's write */
        if (!(v & FUTEX_TID_MASK)) { /* others of its process live still, or the look that follows tells */
            *ret_dying = true;
            continue;
        }
        if (!(v & FUTEX_WAITERS))
            mu_cas32(word, v, v | FUTEX_WAITERS); /* pairs with the kernel, as in muster_death_wait() */
        words[n] = word;
        values[n++] = v | FUTEX_WAITERS;
    }
    return n;
}

/* True when there is nothing left to watch. */
static bool barrier_look(struct muster_stream_barrier *b)
{
    uint32_t lost;

    if (mu_load32_acquire(&b->stop)) /* acquire: pairs with mu_stream_unwatch() */
        return true;
    if (!mu_segment_is_whole(b->seg) || mu_segment_is_closed(b->seg)) {
        barrier_fail(b, b->rank, MU_STREAM_JOB_GONE);
        return true;
    }
    lost = find_lost(b);
    if (lost < b->size)
        barrier_fail(b, lost, MU_STREAM_LOST);
    else if (mu_load_acquire(&b->page->failed))   /* acquire: pairs with the CAS of mu_stream_fail() */
        barrier_fail(b, b->rank, MU_STREAM_LOST); /* the cause is there already: this opens what its finder has not */
    else
        return false;
    return true;
}

static void *barriers_watch(void *arg)
{
    struct muster_stream_barrier *b = arg;
    uint64_t turn = FIRST_NS;

    for (;;) {
        bool dying = false;
        mu_a32 *words[WORDS], *failed = (mu_a32 *)&b->page->failed; /* its low half */
        uint32_t values[WORDS];
        size_t n = 3;

        words[0] = &b->seg->header->epoch;
        values[0] = mu_load32_acquire(words[0]); /* acquire: pairs with mu_epoch_move(); before the look */
        words[1] = failed;
        values[1] = 0;
        words[2] = &b->stop;
        values[2] = 0;
        n += words_collect(b, words + 3, values + 3, &dying);
        if (barrier_look(b))
            return NULL;
        turn = !dying ? FIRST_NS : turn < SLEEP_NS / 2 ? turn * 2 : SLEEP_NS;
        mu_futex_wait_any(words, values, n, mu_now() + (dying ? turn : SLEEP_NS));
        if (!mu_segment_is_whole(b->seg)) {
            barrier_fail(b, b->rank, MU_STREAM_JOB_GONE);
            return NULL;
        }
    }
}

enum muster_status mu_stream_watch(struct muster_stream_barrier *b)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all); /* the program's signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&b->watchdog, NULL, barriers_watch, b);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot start the thread that watches it: %s", strerror(rc));
    b->watched = true;
    return MUSTER_OK;
}

void mu_stream_unwatch(struct muster_stream_barrier *b)
{
    if (!b->watched)
        return;
    mu_store32_release(&b->stop, 1); /* release: pairs with barrier_look() */
    mu_futex_wake32(&b->stop);
    pthread_join(b->watchdog, NULL);
    b->watched = false;
}
