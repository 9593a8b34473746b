/*
 * bridge/bridge_threads.c: the two threads that drive a bridge.
 *
 * Everything happens under one lock. The first thread sleeps in epoll: for what comes from other hosts, for what time
 * makes due at the link, and for a poke. The second sleeps on the segment's bell: for what the tasks of this
 * host do, and what time makes due at the core; the first wakes up for that only where it comes before the second does.
 * Whichever wakes does all there is to do and sends it, so nothing is handed from one to the other. After work the
 * first does not sleep for a moment, in which an answer, or the next call, is likely to come: being woken takes longer
 * than most answers. The second rests meanwhile, and the bell is off, so that tasks pay nothing for ringing it. With
 * latency the moment is longer, and lasts for as long as somebody waits for an answer that will come soon.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bridge/bridge_private.h"
#include "bridge/core/listener.h"
#include "segment/wait.h"

#define RECHECK_NS MU_BRIDGE_RECHECK_NS
#define LONGEST_NS 2000000000u /* no thread sleeps for longer */
#define LINGER_NS  2000000u    /* with latency: polling goes on for so long after nobody waits */
#define MOMENT_NS  100000u     /* without: after work; two round trips of a fast network */

/* ---- turns, under the lock ---- */

/* Everything that the segment, and frames that have been taken, ask for. True: there was something. */
bool mu_bridge_drive_core(struct mu_bridge *b)
{
    bool worked = false;

    for (int i = 0; i < 64 && b->has_core; i++) {
        b->now = mu_now();
        if (!mu_core_turn(&b->core, b->now))
            break;
        worked = b->worked = true;
        mu_link_flush(b->link);
    }
    mu_link_flush(b->link); /* what was said outside of turns */
    return worked;
}

static void bridge_drive(struct mu_bridge *b)
{
    for (int i = 0; i < 16; i++) { /* then others may have the lock */
        b->now = mu_now();
        mu_link_turn(b->link, b->now);
        mu_bridge_drive_core(b);
        if (mu_link_next(b->link) > 0 || b->is_stopping)
            break;
    }
    if (b->has_core && b->now - b->told_at > RECHECK_NS)
        mu_bridge_tell_hosts(b);
}

/* ---- the first thread ---- */

/* What is due at the core is the other thread's, which sleeps until then; unless it sleeps for longer. */
static void sleep_in_epoll(struct mu_bridge *b)
{
    uint64_t link = mu_link_next(b->link), core = b->has_core ? mu_core_next(&b->core) : UINT64_MAX, now = mu_now();
    uint64_t rows = mu_bridge_rows_at(b), until = core < b->bell_until ? core : UINT64_MAX;
    int ms;

    until = link < until ? link : until;
    until = until < rows ? until : rows;
    until = until < now + LONGEST_NS ? until : now + LONGEST_NS;
    ms = until <= now ? 0 : (int)((until - now + 999999) / 1000000);
    b->sleeps_until = until;
    pthread_mutex_unlock(&b->lock);
    mu_link_wait(b->link, ms);
    pthread_mutex_lock(&b->lock);
    b->sleeps_until = 0;
    b->core.is_calm = true; /* until something comes: the bell was armed meanwhile */
}

static bool should_poll(struct mu_bridge *b)
{
    uint64_t now = mu_now();

    if (!b->has_core)
        return false;
    if (b->worked || (b->options.latency && mu_core_busy(&b->core)))
        b->poll_until = now + (b->options.latency ? LINGER_NS : MOMENT_NS);
    b->worked = false;
    return now < b->poll_until;
}

/* Until nobody has waited for a moment. Other threads get the lock, and the processor when more of them want it. Where
 * they keep the processor, being woken is quicker. */
static void poll_for_a_while(struct mu_bridge *b)
{
    bool is_free;

    b->is_polling = true;
    mu_core_listener_bell_off(&b->core);
    do {
        pthread_mutex_unlock(&b->lock);
        is_free = mu_wait_yield();
        pthread_mutex_lock(&b->lock);
        mu_core_listener_look(&b->core);
        bridge_drive(b);
    } while (!b->is_stopping && is_free && should_poll(b));
    b->is_polling = false;
    pthread_cond_signal(&b->rest);
    mu_core_listener_bell_on(&b->core); /* the other may be asleep on it, unarmed */
    bridge_drive(b);
}

static void *run_epoll(void *arg)
{
    struct mu_bridge *b = arg;

    pthread_mutex_lock(&b->lock);
    while (!b->is_stopping) {
        bridge_drive(b);
        if (should_poll(b) && !mu_wait_is_crowded())
            poll_for_a_while(b);
        if (!b->is_stopping)
            sleep_in_epoll(b);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- the second thread ---- */

/* What the link has to do earlier than the other one sleeps, that one must know. */
bool mu_bridge_answer_bell(struct mu_bridge *b)
{
    bool worked = mu_bridge_drive_core(b);

    if (b->sleeps_until && (mu_link_next(b->link) < b->sleeps_until || worked)) /* the first is the one that polls */
        mu_link_poke(b->link);
    return worked;
}

static void *run_bell(void *arg)
{
    struct mu_bridge *b = arg;
    struct muster_segment *seg = b->core.seg;
    uint64_t until, look;

    pthread_mutex_lock(&b->lock);
    while (!b->is_stopping) {
        if (b->is_polling) {
            pthread_cond_wait(&b->rest, &b->lock);
            continue;
        }
        mu_core_listener_bell_on(&b->core);
        if (mu_bridge_answer_bell(b)) {
            mu_core_listener_bell_off(&b->core);
            continue;
        }
        until = mu_core_next(&b->core);
        look = b->now + (b->is_looked_after ? LONGEST_NS : RECHECK_NS);
        b->bell_until = until = until < look ? until : look;
        pthread_mutex_unlock(&b->lock);
        mu_bell_wait(seg, until);
        pthread_mutex_lock(&b->lock);
        b->bell_until = 0;
        mu_core_listener_changed(&b->core);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- begin and end ---- */

/* Without signals: those are for the agent's other threads. */
static enum muster_status bridge_thread_begin(struct mu_bridge *b, void *(*run)(void *))
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&b->threads[b->num_threads], NULL, run, b);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no thread for the bridge: %s", strerror(error));
    b->num_threads++;
    return MUSTER_OK;
}

enum muster_status mu_bridge_begin_first(struct mu_bridge *b)
{
    return bridge_thread_begin(b, run_epoll);
}

enum muster_status mu_bridge_begin_second(struct mu_bridge *b)
{
    return bridge_thread_begin(b, run_bell);
}

/* The first one arms the bell again when it ends its polling: before that the other could not be rung out of its sleep.
 */
void mu_bridge_end_threads(struct mu_bridge *b)
{
    for (unsigned i = 0; i < b->num_threads; i++) {
        if (i > 0)
            mu_bell_ring_always(b->core.seg);
        pthread_join(b->threads[i], NULL);
    }
    b->num_threads = 0;
}
