/*
 * bridge/core/ear.c: the second listener to the bell, besides the bridge.
 *
 * The word may be armed by both, and only the bridge's threads take it off. The listener says first, under its lock,
 * that it has armed; then it arms the word, unless that is armed or rung already. A thread that takes a ring or an
 * arming off the word looks behind that, under the same lock, whether it has: so one of the two sees the other.
 */
#include "bridge/core/ear.h"

#include "base/clock.h"

#ifndef MU_EAR_RECHECK_NS
#define MU_EAR_RECHECK_NS 100000000u /* as every wait; a test that wants no ring made good has another */
#endif

void mu_ear_make(struct mu_bell_listener *ear, struct muster_segment *seg)
{
    *ear = (struct mu_bell_listener){.seg = seg};
    pthread_mutex_init(&ear->lock, NULL);
}

void mu_ear_done(struct mu_bell_listener *ear)
{
    pthread_mutex_destroy(&ear->lock);
}

void mu_ear_listen(struct mu_bell_listener *ear, void (*rung)(void *arg), void *arg)
{
    pthread_mutex_lock(&ear->lock);
    ear->rung = rung;
    ear->arg = arg;
    pthread_mutex_unlock(&ear->lock);
}

void mu_ear_arm(struct mu_bell_listener *ear)
{
    pthread_mutex_lock(&ear->lock);
    ear->armed = true;
    pthread_mutex_unlock(&ear->lock);
    mu_bell_arm_if_off(ear->seg);
}

/* With the lock held. */
static void listener_tell(struct mu_bell_listener *ear)
{
    ear->armed = false;
    ear->told_at = mu_now();
    if (ear->rung)
        ear->rung(ear->arg);
}

void mu_ear_tell(struct mu_bell_listener *ear)
{
    pthread_mutex_lock(&ear->lock);
    listener_tell(ear);
    pthread_mutex_unlock(&ear->lock);
}

void mu_ear_changed(struct mu_core *core)
{
    struct mu_bell_listener *ear = core->ear;

    if (!ear)
        return;
    pthread_mutex_lock(&ear->lock);
    if (ear->armed)
        listener_tell(ear);
    pthread_mutex_unlock(&ear->lock);
}

void mu_ear_bell_on(struct mu_core *core)
{
    if (!mu_bell_arm_again(core->seg)) /* it was rung, or off for a while */
        mu_ear_changed(core);
}

static bool is_armed(struct mu_bell_listener *ear)
{
    bool armed;

    pthread_mutex_lock(&ear->lock);
    armed = ear->armed;
    pthread_mutex_unlock(&ear->lock);
    return armed;
}

void mu_ear_bell_off(struct mu_core *core)
{
    /* a listener that arms between the two is told when it is turned on again, or by a look meanwhile */
    if (!core->ear || !is_armed(core->ear))
        mu_bell_disarm(core->seg);
}

void mu_ear_look(struct mu_core *core)
{
    struct mu_bell_listener *ear = core->ear;

    if (!ear)
        return;
    pthread_mutex_lock(&ear->lock);
    if (ear->armed && (!mu_bell_is_armed(ear->seg) || mu_now() - ear->told_at > MU_EAR_RECHECK_NS))
        listener_tell(ear);
    pthread_mutex_unlock(&ear->lock);
}
