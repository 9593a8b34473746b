/*
 * bridge/core/ear.h: the bell of a job of several hosts for a second listener: the agent's own loop, where calls wait.
 *
 * The bell has one word and one sleeper, a thread of the bridge. What that takes off the word, a ring or an arming, it
 * passes on here; so do modules that change the segment without ringing. The listener arms before it looks, and is told
 * of what changes later: at once, or 100 ms later if a ringer has died. While nothing is armed nobody is told, and a
 * core that nobody listens to has no ear.
 */
#ifndef MU_BRIDGE_CORE_EAR_H
#define MU_BRIDGE_CORE_EAR_H

#include <pthread.h>

#include "bridge/core/core.h"

struct mu_bell_listener {
    struct muster_segment *seg;
    pthread_mutex_t lock; /* over what follows; the innermost of all */
    void (*rung)(void *arg);
    void *arg;
    bool armed;
    uint64_t told_at;
};

void mu_ear_make(struct mu_bell_listener *ear, struct muster_segment *seg);
void mu_ear_done(struct mu_bell_listener *ear);

/* ---- for the listener ---- */
void mu_ear_listen(struct mu_bell_listener *ear, void (*rung)(void *arg), void *arg);
void mu_ear_arm(struct mu_bell_listener *ear);
void mu_ear_tell(struct mu_bell_listener *ear); /* armed or not */

/* ---- for the driver of a core, with its owner's lock held ---- */
/* Instead of mu_bell_arm() and mu_bell_disarm(). */
void mu_ear_bell_on(struct mu_core *core);
void mu_ear_bell_off(struct mu_core *core);
/* After each mu_bell_wait(), and after a change that rings no bell. */
void mu_ear_changed(struct mu_core *core);
/* Again and again while nobody sleeps on the bell. */
void mu_ear_look(struct mu_core *core);

#endif
