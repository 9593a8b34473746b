/*
 * agent/agent.h: runs a job on this node: its segment, its tasks, their supervision, their end.
 */
#ifndef MU_AGENT_AGENT_H
#define MU_AGENT_AGENT_H

#include <stdint.h>

#define MU_AGENT_TASKS_MAX 4096u

/* Exit statuses of the launcher itself; a task's own status may be the same number. */
#define MU_AGENT_EXIT_TIMEOUT  124
#define MU_AGENT_EXIT_FAILED   125
#define MU_AGENT_EXIT_NOT_EXEC 126
#define MU_AGENT_EXIT_NO_FILE  127

struct mu_agent_options {
    const char *job; /* NULL: run-<pid>-<random> */
    uint32_t num_tasks;
    char *const *argv;
    const char *directory; /* NULL: the caller's */
    int label;
    int keep_going; /* a task's failure does not end the job */
    int memfd;
    uint64_t timeout_ns;                       /* 0: none */
    uint64_t grace_ns;                         /* between SIGTERM and SIGKILL */
    uint64_t heap_bytes, heartbeat_timeout_ns; /* 0: the segment's defaults */
};

/* Run the job to its end. The exit status of `muster run`; everything that went wrong is said on stderr. */
int mu_agent_run(const struct mu_agent_options *options);

#endif
