/*
 * cli/run/run.h: what `muster run` and `muster agent` share: a job's commands and its options, from words to
 * agent/agent.h.
 */
#ifndef MU_CLI_RUN_RUN_H
#define MU_CLI_RUN_RUN_H

#include "agent/agent.h"
#include "agent/hosts/hosts.h"
#include "cli/cli.h"
#include "launch/binding/bind.h"
#include "launch/binding/gpu.h"
#include "launch/launch.h"

#define MU_CLI_GRACE_NS         5000000000ull
#define MU_CLI_RESTART_DELAY_NS 1000000000ull

/* ---- apps.c: the commands of a job ------------------------------------------------------------------------------ */

struct mu_cli_apps {
    struct mu_agent_app *list;
    struct mu_cli_call **calls; /* of the commands behind a ':'; they hold their words */
    uint32_t num_calls;
    uint32_t count, num_tasks;
    uint32_t by_default;               /* tasks of a command that says no number; 0: 1, and this host alone is meant */
    struct mu_launch_machine *machine; /* loaded when first needed */
    struct mu_launch_gpus *gpus;       /* the same */
    uint32_t gpus_per_task;            /* 0: not given */
    int dry_run;
};

int mu_cli_take_apps(const struct mu_cli_call *call, struct mu_cli_apps *apps);
void mu_cli_free_apps(struct mu_cli_apps *apps);
/* A machine that hwloc is shown instead of this one. */
int mu_cli_refuse_foreign(const struct mu_cli_apps *apps, const struct mu_cli_call *call);

struct mu_cli_hosts;

/* ---- run.c ------------------------------------------------------------------------------------------------------ */

/* A job as a command line says it. */
struct mu_cli_job {
    struct mu_cli_apps apps;
    struct mu_agent_options options;
    struct mu_launch_plan *plan;
    struct mu_cli_hosts *hosts;       /* of those that this one leads; NULL: none */
    uint32_t first_task, local_tasks; /* of this host */
};

/* Tasks that the job may have. */
static inline uint32_t mu_cli_most_tasks(const struct mu_cli_job *job)
{
    return job->options.elastic ? job->options.elastic->most : job->apps.num_tasks;
}

/*
 * Take it all; `place`: where there are several hosts, called once it is known how many tasks there are. 0, or an exit
 * status with the reason said. mu_cli_job_done() is due in every case.
 */
int mu_cli_job_take(struct mu_cli_call *call, struct mu_cli_job *job,
                    int (*place)(struct mu_cli_call *call, struct mu_cli_job *job));
void mu_cli_job_done(struct mu_cli_job *job);
/* What run and agent have both: the timeout, the grace, whether a failure ends the job; the metrics' address. */
int mu_cli_take_end(const struct mu_cli_call *call, struct mu_agent_options *options);
/* What run and serve have both: the job's name, its segment. */
int mu_cli_take_segment(struct mu_cli_call *call, uint32_t local_tasks, struct mu_agent_options *options);
/* output.c: --output and --survive. 0, or 2 with a complaint printed. */
int mu_cli_take_output(struct mu_cli_call *call, struct mu_agent_options *options);
/* What the values of their options may be. */
mu_cli_words mu_cli_report_form, mu_cli_visibility, mu_cli_mpi_way;
/* At the timeout: the state of every task. */
void mu_cli_say_who(struct muster *muster, FILE *out);

/* ---- run/hosts.c ------------------------------------------------------------------------------------------------ */

/* What `muster run` says of other hosts. */
struct mu_cli_hosts {
    struct mu_launch_hosts list;
    struct mu_agent_hosts hosts;
    struct mu_agent_orders orders;
    char here[256], directory[4096];
};

/* Whether the call names hosts; if so, they are read, and are the job's. 0, or 2 with a complaint printed. */
int mu_cli_hosts_take(struct mu_cli_call *call, struct mu_cli_job *job, struct mu_cli_hosts *hosts);
/* The tasks are put on them. 0, or an exit status with the reason said, here and below. */
int mu_cli_hosts_place(struct mu_cli_call *call, struct mu_cli_job *job);
/* The key, and what the others are told: when nothing else can go wrong any more. */
int mu_cli_hosts_finish(struct mu_cli_call *call, struct mu_cli_hosts *hosts);
void mu_cli_hosts_done(struct mu_cli_hosts *hosts);

/* What run and agent have both. */
#define MU_CLI_END_OPTIONS                                                                                             \
    {MU_OPT_TIMEOUT, 0, "timeout", "D", NULL, "after D say who does what, end the job, exit with 124"},                \
        {MU_OPT_KILL_ON_FAIL, 0,                                                                                       \
         "kill-on-fail",      "[=no]",                                                                                 \
         mu_cli_answers,      "a failing task ends the job at once (default), or does not"},                           \
    {                                                                                                                  \
        MU_OPT_GRACE, 0, "grace", "D", NULL, "from SIGTERM to SIGKILL when the job is ended (default 5s)"              \
    }
#define MU_CLI_SEGMENT_OPTIONS                                                                                         \
    {MU_OPT_HEAP, 0, "heap", "SIZE", NULL, "address space of the segment's heap (default 1G)"},                        \
        {MU_OPT_OBJECTS, 0,    "objects",                                                                              \
         "SIZE",         NULL, "address space for objects above 64 KiB (default: the machine's memory)"},              \
        {MU_OPT_THREADS, 0, "threads", "N", NULL, "how many threads of each task may write at once (default 16)"},     \
    {                                                                                                                  \
        MU_OPT_HEARTBEAT_TIMEOUT, 0, "heartbeat-timeout", "D", NULL,                                                   \
            "a task silent for D is in error (default 10s; with --grpc 100s)"                                          \
    }
#define MU_CLI_MPI                                                                                                     \
    {                                                                                                                  \
        MU_OPT_MPI, 0, "mpi", "WHAT", mu_cli_mpi_way,                                                                  \
            "how MPI programs find each other: auto (default), pmi1, port, pmix, none"                                 \
    }
#define MU_CLI_METRICS                                                                                                 \
    {                                                                                                                  \
        MU_OPT_METRICS, 0, "metrics", "ADDR", NULL, "serve the job's metrics to Prometheus at ADDR, as in :9464"       \
    }

#endif
