/*
 * task/heartbeat.c: the heartbeat thread, and watching everybody's heartbeats.
 *
 * The thread owns the task's main slot: its liveness word is the task's pulse for the kernel, its counter for the
 * others. Between beats it looks for the dead and the silent, so that a job without an agent notices them too. A task
 * that opted out of the thread has its joining thread's slot as its main slot and beats by hand.
 *
 * Counters only: the observer times their changes with its own clock.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/file.h"
#include "segment/claim.h"
#include "segment/slot.h"
#include "task/task.h"

struct mu_heartbeat {
    struct muster *muster;
    struct muster_segment *seg;
    pthread_t thread;
    uint64_t period_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int state; /* 0 starting, 1 running, 2 failed, 3 asked to stop */
    uint32_t slot;
    uint32_t slot_incarnation;
    bool leaving; /* when asked to stop: unregister the task */
    enum muster_status left;
    char why[256];
    struct mu_ctx ctx;
};

uint64_t mu_task_beats(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record)
{
    uint64_t n = mu_load_relaxed(&seg->beats[task]); /* relaxed, as all here: only the change counts */

    if (!(record->flags & MU_TASK_GUEST) &&
        mu_cluster_main_alive(seg, record)) /* else the line may be another's by now */
        n += mu_load_relaxed(&seg->slots[record->slot - 1].heartbeat);
    return n;
}

/* The slots of a task that is dead or silent may be orphans: see mu_slot_settle(). The next scavenger buries them. */
static void slots_settle(struct muster_segment *seg, uint32_t task)
{
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i < high; i++)
        if (mu_load_relaxed(&seg->slots[i].task) == (uint64_t)task + 1) /* relaxed: looked at again there */
            mu_slot_settle(seg, i);
}

void mu_beats_check(struct mu_ctx *ctx, struct mu_beat *beats, uint64_t *last_check_ns)
{
    struct muster_segment *seg = ctx->seg;
    uint64_t now = mu_now(), timeout = seg->heartbeat_timeout;
    bool late = *last_check_ns && now - *last_check_ns > timeout / 2;

    *last_check_ns = now;
    for (uint32_t i = seg->first_task; i < seg->first_task + seg->local_tasks; i++) {
        struct mu_cluster cluster;
        struct mu_task_record r;
        struct mu_beat *b = &beats[i];
        uint64_t counter;

        if (mu_cluster_task(seg, i, &r, NULL, &cluster) || r.state != MUSTER_TASK_CONNECTED)
            continue;
        /* A net below the scavengers: the one that buried the main slot found another thread alive, and that has ended
         * since in a way that nobody looked at. */
        if (r.slot && !mu_cluster_alive(seg, i, &r)) {
            slots_settle(seg, i);
            mu_task_bury_dead(ctx, i, NULL);
            continue;
        }
        counter = mu_task_beats(seg, i, &r);
        if (late || !b->changed_ns || counter != b->counter || r.incarnation != b->incarnation) {
            *b = (struct mu_beat){counter, r.incarnation, now};
        } else if (now - b->changed_ns > timeout) {
            slots_settle(seg, i);
            mu_task_fail(ctx, i, r.incarnation, MU_EVENT_SILENCE, MUSTER_UNAVAILABLE, MUSTER_CAUSE_HEARTBEAT,
                         "no heartbeat within the timeout: stopped, hung or starved");
        }
    }
}

static void signal_state(struct mu_heartbeat *k, int state)
{
    pthread_mutex_lock(&k->lock);
    if (k->state != 3)
        k->state = state;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* True when asked to stop. */
static bool pause_for(struct mu_heartbeat *k, uint64_t ns)
{
    uint64_t until = mu_now() + ns;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    bool stop;

    pthread_mutex_lock(&k->lock);
    while (k->state != 3 && pthread_cond_timedwait(&k->changed, &k->lock, &t) != ETIMEDOUT)
        ;
    stop = k->state == 3;
    pthread_mutex_unlock(&k->lock);
    return stop;
}

static void *heartbeat_keep(void *arg)
{
    struct mu_heartbeat *k = arg;
    struct mu_beat *beats = calloc(k->seg->num_tasks, sizeof *beats);
    uint64_t last_check = 0, next_beat = 0, tick = k->seg->heartbeat_timeout / 8;

    mu_own_thread(1); /* not before it is there: that of another would be taken for ours */
    if (k->period_ns < tick)
        tick = k->period_ns;
    if (mu_claim(k->seg, (uint64_t)k->muster->task_id + 1, &k->ctx)) {
        free(beats);
        mu_own_thread(-1);
        signal_state(k, 2);
        return NULL;
    }
    mu_store_release(&k->ctx.own->member, k->muster->member); /* release: pairs with member_lives() */
    k->slot = k->ctx.slot;
    k->slot_incarnation = k->ctx.incarnation;
    signal_state(k, 1);
    do {
        uint64_t now = mu_now();

        if (now >= next_beat) {
            /* relaxed: a counter of one writer; its change is all that matters */
            mu_store_relaxed(&k->ctx.own->heartbeat, mu_load_relaxed(&k->ctx.own->heartbeat) + 1);
            next_beat = now + k->period_ns;
        }
        mu_task_scavenge(&k->ctx);
        if (beats)
            mu_beats_check(&k->ctx, beats, &last_check);
    } while (!pause_for(k, tick) && mu_segment_is_whole(k->seg));
    if (mu_segment_is_whole(k->seg)) {
        if (k->leaving) {
            k->left = mu_task_unregister(&k->ctx, (uint32_t)k->muster->task_id, k->muster->incarnation);
            snprintf(k->why, sizeof k->why, "%s", k->left ? muster_last_error() : "");
        }
        mu_slot_release(&k->ctx);
    }
    free(beats);
    mu_own_thread(-1);
    return NULL;
}

enum muster_status mu_heartbeat_start(struct muster *m, uint64_t period_ns, uint32_t *ret_slot,
                                      uint32_t *ret_slot_incarnation)
{
    struct mu_heartbeat *k = calloc(1, sizeof *k);
    pthread_condattr_t attr;
    sigset_t all, old;
    int rc, state;

    if (!k)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the heartbeat thread");
    k->muster = m;
    k->seg = m->seg;
    k->period_ns = period_ns;
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* the program's signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&k->thread, NULL, heartbeat_keep, k);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        free(k);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot start the heartbeat thread: %s", strerror(rc));
    }
    pthread_mutex_lock(&k->lock);
    while (!k->state)
        pthread_cond_wait(&k->changed, &k->lock);
    state = k->state;
    pthread_mutex_unlock(&k->lock);
    m->heartbeat = k;
    if (state == 2) {
        mu_heartbeat_stop(m, false);
        return mu_slot_none_free(m->seg);
    }
    *ret_slot = k->slot;
    *ret_slot_incarnation = k->slot_incarnation;
    return MUSTER_OK;
}

enum muster_status mu_heartbeat_stop(struct muster *m, bool leaving)
{
    struct mu_heartbeat *k = m->heartbeat;
    enum muster_status status;

    if (!k)
        return MUSTER_OK;
    k->leaving = leaving; /* read by the thread after the lock that signal_state() takes */
    signal_state(k, 3);
    pthread_join(k->thread, NULL);
    status = k->left ? mu_fail(k->left, "%s", k->why) : MUSTER_OK;
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    m->heartbeat = NULL;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: as in mu_handle_put_away() */
    free(k);
    return status;
}
