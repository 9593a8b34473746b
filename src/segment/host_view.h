/* segment/host_view.h: what the table of hosts says of one of them, for people. */
#ifndef MU_SEGMENT_HOST_VIEW_H
#define MU_SEGMENT_HOST_VIEW_H

#include "segment/hosts.h"

struct mu_host_view {
    uint32_t host, first_task, num_tasks;
    char name[64];
    enum mu_host_state state;
    uint64_t since, heard; /* CLOCK_MONOTONIC ns; 0: not known */
    uint64_t rtt, rtt_min; /* ns; 0: not measured */
    uint64_t bytes_in, bytes_out, frames_in, frames_out, connects;
    uint64_t asking; /* calls of its tasks that are not answered */
    uint32_t agent_pid;
};

/* One moment of each word, not one of all; waits for nobody. */
void mu_host_look(const struct muster_segment *seg, uint32_t host, struct mu_host_view *ret_view);
/* "up", "down", ... */
const char *mu_host_state_name(enum mu_host_state state);

#endif
