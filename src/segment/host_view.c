/*
 * segment/host_view.c: reading the table of hosts: words that one agent writes, each for itself, so that a row is not
 * one moment's; it is for people and for counts that only grow.
 */
#include "segment/host_view.h"

void mu_host_look(const struct muster_segment *seg, uint32_t host, struct mu_host_view *ret_view)
{
    const struct mu_host *h = &seg->hosts[host];
    uint64_t state = mu_load_acquire(&h->state); /* acquire: pairs with the agent's store; what belongs to it follows */

    *ret_view = (struct mu_host_view){
        .host = host,
        .first_task = h->first_task,
        .num_tasks = h->num_tasks,
        .state = state <= MU_HOST_LEFT ? (enum mu_host_state)state : MU_HOST_AWAITED,
        /* relaxed, all of them: each is told as it is now; partner is the agent that writes the row */
        .since = mu_load_relaxed(&h->since),
        .heard = mu_load_relaxed(&h->heard),
        .rtt = mu_load_relaxed(&h->rtt),
        .rtt_min = mu_load_relaxed(&h->rtt_min),
        .bytes_in = mu_load_relaxed(&h->bytes_in),
        .bytes_out = mu_load_relaxed(&h->bytes_out),
        .frames_in = mu_load_relaxed(&h->frames_in),
        .frames_out = mu_load_relaxed(&h->frames_out),
        .connects = mu_load_relaxed(&h->connects),
        .asking = mu_load_relaxed(&h->asking),
        .agent_pid = (uint32_t)mu_load_relaxed(&h->agent_pid),
    };
    mu_host_name(seg, host, ret_view->name, sizeof ret_view->name);
}

const char *mu_host_state_name(enum mu_host_state state)
{
    static const char *const names[] = {[MU_HOST_AWAITED] = "awaited",
                                        [MU_HOST_UP] = "up",
                                        [MU_HOST_DOWN] = "down",
                                        [MU_HOST_LOST] = "lost",
                                        [MU_HOST_LEFT] = "left"};

    return names[state];
}
