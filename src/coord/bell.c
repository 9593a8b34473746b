/*
 * coord/bell.c: the thread that sleeps on the bell.
 *
 * The bell's word is armed by the loop's thread, behind a fence, so that the loop's own look is ordered behind it; the
 * listener sleeps on the word and turns it off. What it turns off may be an arming that came meanwhile, and a ring may
 * be overwritten by one: both are harmless, for after each sleep comes a rung(), and by it another arming and a look.
 */
#include "coord/bell.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/hosts.h"

#ifndef MU_LISTENER_RECHECK_NS
#define MU_LISTENER_RECHECK_NS 100000000u /* as every wait; a test that wants no ring made good has another */
#endif

struct mu_listener {
    struct muster_segment *seg;
    void (*rung)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool armed, stopping; /* under the lock */
};

/* False: to stop. */
static bool await_arming(struct mu_listener *l)
{
    bool stopping;

    pthread_mutex_lock(&l->lock);
    while (!l->armed && !l->stopping)
        pthread_cond_wait(&l->changed, &l->lock);
    stopping = l->stopping;
    pthread_mutex_unlock(&l->lock);
    return !stopping;
}

static bool take_arming(struct mu_listener *l)
{
    bool stopping;

    pthread_mutex_lock(&l->lock);
    l->armed = false; /* all that came until now are answered by the rung() that follows */
    stopping = l->stopping;
    pthread_mutex_unlock(&l->lock);
    return !stopping;
}

static void *bell_listen(void *arg)
{
    struct mu_listener *l = arg;

    mu_own_thread(1);
    while (await_arming(l)) {
        mu_bell_wait(l->seg, mu_now() + MU_LISTENER_RECHECK_NS);
        if (take_arming(l))
            l->rung(l->arg);
    }
    mu_own_thread(-1);
    return NULL;
}

enum muster_status mu_listener_start(struct muster_segment *seg, void (*rung)(void *arg), void *arg,
                                     struct mu_listener **ret_listener)
{
    struct mu_listener *l;
    sigset_t all, old;
    int rc;

    if (!seg->listened || mu_is_bridged(seg))
        return mu_fail(MUSTER_FAILED_PRECONDITION, "the segment of job %s was not made for one that listens", seg->job);
    l = calloc(1, sizeof *l);
    if (!l)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a listener");
    l->seg = seg;
    l->rung = rung;
    l->arg = arg;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&l->thread, NULL, bell_listen, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        free(l);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot start a listener: %s", strerror(rc));
    }
    *ret_listener = l;
    return MUSTER_OK;
}

void mu_listener_arm(struct mu_listener *l)
{
    bool was;

    mu_bell_arm(l->seg);
    pthread_mutex_lock(&l->lock);
    was = l->armed;
    l->armed = true;
    pthread_mutex_unlock(&l->lock);
    if (!was)
        pthread_cond_signal(&l->changed);
}

void mu_listener_stop(struct mu_listener *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_mutex_unlock(&l->lock);
    pthread_cond_signal(&l->changed);
    mu_bell_ring_always(l->seg); /* or it sleeps its 100 ms out */
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
