/*
 * bridge/bridge_lanes.c: what the agent's loop says by its bridge: messages to other agents, and by lanes
 * (bridge/call/lanes.h). Those are made and freed under the bridge's lock, which its threads hold whenever they are at
 * work with them. So their owner hears nothing more once it has freed them.
 */
#include "base/clock.h"
#include "bridge/bridge_private.h"
#include "bridge/core/control.h"

enum muster_status mu_bridge_lanes(struct mu_bridge *bridge, struct mu_lanes **ret_lanes)
{
    enum muster_status status;

    pthread_mutex_lock(&bridge->lock);
    status = mu_lanes_make(&bridge->core, ret_lanes);
    pthread_mutex_unlock(&bridge->lock);
    return status;
}

void mu_bridge_end_lanes(struct mu_bridge *bridge, struct mu_lanes *lanes)
{
    pthread_mutex_lock(&bridge->lock);
    mu_lanes_free(lanes);
    pthread_mutex_unlock(&bridge->lock);
}

void mu_bridge_give_up(struct mu_bridge *bridge, uint32_t host, const char *why)
{
    pthread_mutex_lock(&bridge->lock);
    if (bridge->has_core && bridge->options.leader) {
        mu_link_drop(bridge->link, host, why);
        mu_core_lost(&bridge->core, host, why, mu_now());
    }
    pthread_mutex_unlock(&bridge->lock);
    mu_link_poke(bridge->link);
}

void mu_bridge_control(struct mu_bridge *bridge, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    pthread_mutex_lock(&bridge->lock);
    if (bridge->has_core)
        mu_control_send(&bridge->core, host, kind, bytes, len);
    pthread_mutex_unlock(&bridge->lock);
    mu_link_poke(bridge->link);
}
