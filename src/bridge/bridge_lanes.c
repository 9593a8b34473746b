/*
 * bridge/bridge_lanes.c: the lanes of a bridge (bridge/lanes.h): made and freed under the bridge's lock, which its
 * threads hold whenever they are at work with them. So whoever has freed them hears nothing more.
 */
#include "bridge/bridge_private.h"

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
