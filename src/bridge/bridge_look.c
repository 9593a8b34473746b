/*
 * bridge/bridge_look.c: an agent's own thread that does for the bridge's two what only time asks for; and the hosts'
 * rows.
 *
 * Where a process was killed, or stopped, after a change and before it rang, a look every 100 ms finds the change (I3).
 * The agent's watcher wakes up as often anyway: so it looks here, too, sends the heartbeats that are due, and writes
 * the hosts' rows; and neither of the bridge's threads wakes up for that. A wake-up of an idle processor takes longer
 * than all that is looked at.
 */
#include "base/clock.h"
#include "bridge/bridge_private.h"
#include "bridge/core/listener.h"

#define RECHECK_NS MU_BRIDGE_RECHECK_NS

/* What is measured of the connections, for status, top and metrics. */
void mu_bridge_tell_hosts(struct mu_bridge *b)
{
    struct muster_segment *seg = b->core.seg;
    uint32_t hosts = b->options.leader ? b->shape.num_hosts : 1;

    b->told_at = b->now;
    for (uint32_t i = b->options.leader; i < hosts; i++) {
        struct mu_host *host = &seg->hosts[i];
        struct mu_link_stats s;

        if (!mu_link_stats(b->link, i, &s) || !s.connects)
            continue;
        /* relaxed, all of them: figures to be shown, each for itself; pairs with mu_host_*() of the reader */
        mu_store_relaxed(&host->heard, s.heard_ns);
        mu_store_relaxed(&host->rtt, s.rtt_ns);
        mu_store_relaxed(&host->rtt_min, s.rtt_min_ns);
        mu_store_relaxed(&host->bytes_in, s.bytes_in);
        mu_store_relaxed(&host->bytes_out, s.bytes_out);
        mu_store_relaxed(&host->frames_in, s.frames_in);
        mu_store_relaxed(&host->frames_out, s.frames_out);
        mu_store_relaxed(&host->connects, s.connects);
    }
}

/* There are none before the core; and the thread that looks after the bridge writes them, too. */
uint64_t mu_bridge_rows_at(const struct mu_bridge *b)
{
    return b->has_core && !b->is_looked_after ? b->told_at + 10 * (uint64_t)RECHECK_NS : UINT64_MAX;
}

void mu_bridge_be_looked_after(struct mu_bridge *bridge, bool is)
{
    bool wake;

    pthread_mutex_lock(&bridge->lock);
    bridge->is_looked_after = is;
    wake = !is && bridge->has_core;
    pthread_mutex_unlock(&bridge->lock);
    if (wake)
        mu_bell_ring_always(bridge->core.seg); /* or it sleeps on */
}

void mu_bridge_look(struct mu_bridge *bridge)
{
    if (pthread_mutex_trylock(&bridge->lock)) { /* not to be waited for, and not to be relied on */
        mu_link_poke(bridge->link);
        return;
    }
    if (bridge->has_core && !bridge->is_stopping && !bridge->is_polling) {
        mu_link_beat(bridge->link, mu_now());
        bridge->core.is_calm = true;
        mu_bridge_answer_bell(bridge);
        mu_core_listener_changed(&bridge->core);
        if (bridge->bell_until)
            mu_bell_wake(bridge->core.seg);
        if (bridge->now - bridge->told_at > 10 * (uint64_t)RECHECK_NS)
            mu_bridge_tell_hosts(bridge);
    }
    pthread_mutex_unlock(&bridge->lock);
}
