/* cli/trace/timeline.h: a job's trace, put together: where each task was from when to when, and which came last to
 * which barrier. */
#ifndef MU_CLI_TRACE_TIMELINE_H
#define MU_CLI_TRACE_TIMELINE_H

#include <stdio.h>

#include <muster/muster.h>

#include "segment/trace.h"

/* One instance of a barrier, as far as the trace knows the arrivals. */
struct mu_cli_barrier {
    const char *name; /* "" when it is not known any more */
    uint64_t object, instance;
    int is_group;
    uint32_t count;                        /* arrivals */
    uint32_t open;                         /* of them, without an end */
    int32_t last_task;                     /* the last arrival's */
    uint64_t first_ns, before_ns, last_ns; /* the first arrival, the last but one, the last */
    uint64_t left_ns;                      /* the first return with OK; 0: none */
    uint64_t remote_ns;                    /* all arrivals here waited so long for other hosts'; 0: for none */
    int passed;                            /* somebody returned with OK */
    enum muster_status status;             /* OK then; else the first that is not, of those that have left */
};

/* One call, from coming to going. */
struct mu_cli_span {
    const struct mu_traced *enter;
    uint64_t end_ns;
    enum muster_status status;
    int open;     /* it has not returned, or died in there: it ends where the trace or its thread does */
    int dead;     /* the latter */
    int unknown;  /* it is over, for its slot entered another call: then it ends here; how is not known */
    int again;    /* its task came to this barrier before, in another call */
    long barrier; /* of a barrier; else -1 */
    uint64_t version;
};

struct mu_cli_timeline {
    struct mu_traced *events; /* in order of time */
    size_t num_events;
    uint64_t lost; /* were overwritten before they could be read */
    struct mu_cli_span *spans;
    size_t num_spans;
    struct mu_cli_barrier *barriers;
    size_t num_barriers;
    int is_part; /* of a job of several hosts, of which this is one */
};

/* Calls without an end last until `now_ns`, or the last event. */
enum muster_status mu_cli_timeline_read(const struct muster_segment *segment, uint64_t now_ns,
                                        struct mu_cli_timeline *ret);
void mu_cli_timeline_done(struct mu_cli_timeline *timeline);

/* stragglers.c: which task came last and by how much: a line for each barrier of several, then one for each task. */
enum muster_status mu_cli_print_stragglers(const struct mu_cli_timeline *timeline, uint32_t num_tasks, FILE *out);

#endif
