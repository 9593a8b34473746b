/*
 * bridge/core/listener.h: the bell of a job of several hosts for a second listener: the agent's own loop, where calls
 * wait.
 *
 * The bell has one word and one sleeper, a thread of the bridge. What that takes off the word, a ring or an arming, it
 * passes on here; so do modules that change the segment without ringing. The listener arms before it looks, and is told
 * of what changes later: at once, or 100 ms later if a ringer has died. While nothing is armed nobody is told, and a
 * core that nobody listens to has no listener.
 */
#ifndef MU_BRIDGE_CORE_LISTENER_H
#define MU_BRIDGE_CORE_LISTENER_H

#include <pthread.h>

#include "bridge/core/core.h"

struct mu_core_listener {
    struct muster_segment *seg;
    pthread_mutex_t lock; /* over what follows; the innermost of all */
    void (*rung)(void *arg);
    void *arg;
    bool armed;
    uint64_t told_at;
};

void mu_core_listener_make(struct mu_core_listener *listener, struct muster_segment *seg);
void mu_core_listener_done(struct mu_core_listener *listener);

/* ---- for the listener ---- */
void mu_core_listener_listen(struct mu_core_listener *listener, void (*rung)(void *arg), void *arg);
void mu_core_listener_arm(struct mu_core_listener *listener);
void mu_core_listener_tell(struct mu_core_listener *listener); /* armed or not */

/* ---- for the driver of a core, with its owner's lock held ---- */
/* Instead of mu_bell_arm() and mu_bell_disarm(). */
void mu_core_listener_bell_on(struct mu_core *core);
void mu_core_listener_bell_off(struct mu_core *core);
/* After each mu_bell_wait(), and after a change that rings no bell. */
void mu_core_listener_changed(struct mu_core *core);
/* Again and again while nobody sleeps on the bell. */
void mu_core_listener_look(struct mu_core *core);

#endif
