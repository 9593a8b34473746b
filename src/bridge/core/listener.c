/*
 * bridge/core/listener.c: the second listener to the bell, besides the bridge.
 *
 * The word may be armed by both, and only the bridge's threads take it off. The listener says first, under its lock,
 * that it has armed; then it arms the word, unless that is armed or rung already. A thread that takes a ring or an
 * arming off the word looks behind that, under the same lock, whether it has: so one of the two sees the other.
 */
#include "bridge/core/listener.h"

#include "base/clock.h"

#ifndef MU_CORE_LISTENER_RECHECK_NS
#define MU_CORE_LISTENER_RECHECK_NS 100000000u /* as every wait; a test that wants no ring made good has another */
#endif

void mu_core_listener_make(struct mu_core_listener *listener, struct muster_segment *seg)
{
    *listener = (struct mu_core_listener){.seg = seg};
    pthread_mutex_init(&listener->lock, NULL);
}

void mu_core_listener_done(struct mu_core_listener *listener)
{
    pthread_mutex_destroy(&listener->lock);
}

void mu_core_listener_listen(struct mu_core_listener *listener, void (*rung)(void *arg), void *arg)
{
    pthread_mutex_lock(&listener->lock);
    listener->rung = rung;
    listener->arg = arg;
    pthread_mutex_unlock(&listener->lock);
}

void mu_core_listener_arm(struct mu_core_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener->armed = true;
    pthread_mutex_unlock(&listener->lock);
    mu_bell_arm_if_off(listener->seg);
}

/* With the lock held. */
static void listener_tell(struct mu_core_listener *listener)
{
    listener->armed = false;
    listener->told_at = mu_now();
    if (listener->rung)
        listener->rung(listener->arg);
}

void mu_core_listener_tell(struct mu_core_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener_tell(listener);
    pthread_mutex_unlock(&listener->lock);
}

void mu_core_listener_changed(struct mu_core *core)
{
    struct mu_core_listener *listener = core->listener;

    if (!listener)
        return;
    pthread_mutex_lock(&listener->lock);
    if (listener->armed)
        listener_tell(listener);
    pthread_mutex_unlock(&listener->lock);
}

void mu_core_listener_bell_on(struct mu_core *core)
{
    if (!mu_bell_arm_again(core->seg)) /* it was rung, or off for a while */
        mu_core_listener_changed(core);
}

static bool is_armed(struct mu_core_listener *listener)
{
    bool armed;

    pthread_mutex_lock(&listener->lock);
    armed = listener->armed;
    pthread_mutex_unlock(&listener->lock);
    return armed;
}

void mu_core_listener_bell_off(struct mu_core *core)
{
    /* a listener that arms between the two is told when it is turned on again, or by a look meanwhile */
    if (!core->listener || !is_armed(core->listener))
        mu_bell_disarm(core->seg);
}

void mu_core_listener_look(struct mu_core *core)
{
    struct mu_core_listener *listener = core->listener;

    if (!listener)
        return;
    pthread_mutex_lock(&listener->lock);
    if (listener->armed &&
        (!mu_bell_is_armed(listener->seg) || mu_now() - listener->told_at > MU_CORE_LISTENER_RECHECK_NS))
        listener_tell(listener);
    pthread_mutex_unlock(&listener->lock);
}
