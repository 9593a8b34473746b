/* agent/launching.h: what a launcher needs to start its tasks and to pass on what they write and read. */
#ifndef MU_AGENT_LAUNCHING_H
#define MU_AGENT_LAUNCHING_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <uv.h>

#include "launch/launch.h"

struct mu_agent_launching {
    sigset_t mask_before, handled, defaults; /* the mask that we were started with; ours; what tasks get back */
    struct rlimit files_before;
    int null_fd;
    struct mu_launch_env *envs; /* one an app */
    struct mu_launch_guard *guard;
    unsigned guard_restarts;
    struct mu_launch_output *output;
    uv_poll_t relay; /* waits for what the thread of `output` will be needed for */
    int relays;
    struct mu_launch_feed *feed;
    int catch_err;  /* stderr passes through the launcher, though it needs no label */
    int catch_both; /* and stdout with it: they are one file */
    struct mu_launch_terminal terminal;
    int memory_said;    /* that memory cannot be preferred */
    uint64_t oom_kills; /* of the machine, when the tasks were started */
    int has_no_room_for_mpi;
    unsigned long long files_for_mpi; /* where there is no room: how many open files there would have to be */
};

#endif
