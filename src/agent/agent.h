/*
 * agent/agent.h: runs a job on this node: its segment, its tasks, their supervision, their end.
 */
#ifndef MU_AGENT_AGENT_H
#define MU_AGENT_AGENT_H

#include <stdint.h>
#include <stdio.h>

#define MU_AGENT_TASKS_MAX 4096u

/* Exit statuses of the launcher itself; a task's own status may be the same number. */
#define MU_AGENT_EXIT_TIMEOUT  124
#define MU_AGENT_EXIT_FAILED   125
#define MU_AGENT_EXIT_NOT_EXEC 126
#define MU_AGENT_EXIT_NO_FILE  127

/* One command of the job. Its tasks follow those of the command before it. */
struct mu_agent_app {
    uint32_t num_tasks;
    char *const *argv;
    const char *directory; /* NULL: the caller's */
    char *const *env;      /* NAME=VALUE..., over the inherited; NULL: none */
};

/* The task that gets the launcher's standard input: its number, or one of these. */
#define MU_AGENT_STDIN_NONE (-1)
#define MU_AGENT_STDIN_ALL  (-2)

struct muster;
struct mu_launch_plan;
struct mu_agent_hosts;

/* The coordination service over gRPC: rpc/service.h. Strings may be NULL where it is said what that means. */
struct mu_agent_grpc {
    const char *address;          /* "127.0.0.1:0", "unix:/path" */
    const char *jobs;             /* "worker:2,ps:1"; NULL: the tasks are of one job, whatever its name */
    const char *workers;          /* where tasks are servers themselves: "a:2222,b:2222"; NULL: as TF_CONFIG says */
    uint64_t register_timeout_ns; /* within which all tasks have registered */
    uint64_t shutdown_timeout_ns; /* the same of their end; 0: they do not wait for each other */
    int register_barrier;         /* registrations wait for each other */
    int recoverable;              /* a task's error ends only waits that need it */
    const char *cert, *key, *ca;  /* files of TLS; NULL: none, and no client needs to prove itself */
    const char *peer_uri;         /* what a client's certificate has a URI that begins with; NULL: any, or none */
    int insecure;                 /* without TLS at an address that other machines reach */
    int any_user;                 /* of this machine may be a client, not this one and root alone */
    int once;                     /* mu_agent_serve(): until all tasks have shut down */
};

/* The key in which the job says where that is, and what it does: "ADDRESS connections N parked M". */
#define MU_AGENT_GRPC_KEY "muster/grpc"
/* Of other hosts than the leader's: the same under this and the host's number, as in "muster/grpc-hosts/3". */
#define MU_AGENT_GRPC_HOSTS_KEY "muster/grpc-hosts"

/* PyTorch's store: compat/tcpstore.h. Its tasks are told of it, so that none of them makes one itself. */
struct mu_agent_tcpstore {
    const char *address; /* "127.0.0.1:0" */
    int insecure;        /* at an address that other machines reach */
};

/* The same of that: "ADDRESS connections N waiting M". */
#define MU_AGENT_TCPSTORE_KEY       "muster/tcpstore"
#define MU_AGENT_TCPSTORE_HOSTS_KEY "muster/tcpstore-hosts"

/* MindSpore's scheduler: mindspore/mindspore.h. */
struct mu_agent_mindspore {
    const char *address, *rest; /* "127.0.0.1:0"; rest: for HTTP; NULL: no listener of its own */
    uint32_t servers;           /* of the tasks; the others are workers */
    uint64_t scale_ns;          /* for a scaling; 0: the scheduler's default */
    unsigned dialect;           /* RPC0's answer of a key that is there: 10, 11; 0: found out */
    int insecure;               /* at an address that other machines reach */
    int once;                   /* mu_agent_serve(): until all nodes of a cluster have finished */
};
/* The variables by which its nodes know it, which the launcher sets; ended by NULL. */
extern const char *const mu_agent_mindspore_variables[];
#define MU_AGENT_MINDSPORE_KEY "muster/mindspore"

/* The keys below this name the tasks that wait in MPI on a host, in words: "muster/mpi/3"; "": none. */
#define MU_AGENT_MPI_WAITS "muster/mpi"

/* The scheduler of Ray's protocol of 2016: ray/service.h. */
struct mu_agent_ray {
    const char *address; /* "127.0.0.1:10001" */
    int insecure;        /* at an address that other machines reach */
};

/* The keys below this say how workers have ended: "muster/workers/4711": "worker (pid 4711 on host a) was killed by
 * signal 11 (SIGSEGV)", and the last lines of its stderr. */
#define MU_AGENT_WORKERS_KEY "muster/workers"
#define MU_AGENT_WORKERS_MAX 1024u

/* The same of that: "ADDRESS drivers N workers N stores N queued N running N succeeded N failed N". */
#define MU_AGENT_RAY_KEY       "muster/ray"
#define MU_AGENT_RAY_HOSTS_KEY "muster/ray-hosts"

/* TensorFlow's master: session/session.h. */
struct mu_agent_tf {
    const char *address;       /* "127.0.0.1:2222" */
    const char *workers;       /* "HOST:PORT,...": servers of WorkerService that others run; NULL: an executor a task */
    const char *jobs;          /* "ps:1,worker:2": the tasks' names, in order; NULL: one job */
    const char *libtensorflow; /* for executors; NULL: found */
    int own_kernels;           /* no executors but muster's own kernels, in the agent: session/inner.h */
    int insecure;              /* at an address that other machines reach */
};
/* "ADDRESS sessions N running N steps N failed N created N closed N reset N collected N executors N direct N". */
#define MU_AGENT_TF_KEY "muster/tf"

/* A job with a number of tasks that changes. What a lost task does: */
enum mu_agent_on_failure {
    MU_AGENT_SHRINK,  /* the job goes on without it */
    MU_AGENT_REPLACE, /* another takes its place, where there is room */
    MU_AGENT_RESTART, /* all tasks are started again, as many as before */
    MU_AGENT_END,     /* the job ends */
};
struct mu_agent_elastic {
    uint32_t least, most; /* tasks that it may have; options->num_tasks: at first */
    enum mu_agent_on_failure on_failure;
    int live; /* tasks that stay are not started again: they wait for each epoch themselves (muster/membership.h) */
};

/* Checkpoints in memory that are kept on a disk, too: agent/checkpoint/keep.c. */
#define MU_AGENT_CHECKPOINT_KEY       "muster/checkpoints"
#define MU_AGENT_CHECKPOINT_EVERY     1u
#define MU_AGENT_CHECKPOINT_EVERY_MAX 1000000u
#define MU_AGENT_CHECKPOINT_KEEP      3u
#define MU_AGENT_CHECKPOINT_KEEP_MAX  1000u
struct mu_agent_checkpoint {
    const char *dir;
    uint32_t every, keep; /* each so manieth generation; so many of each name */
};

enum mu_agent_report { MU_AGENT_REPORT_NONE, MU_AGENT_REPORT_TABLE, MU_AGENT_REPORT_JSON };

/* What MPI programs find in their environment. */
enum mu_agent_mpi {
    MU_AGENT_MPI_AUTO, /* PMI-1 by a socket that they inherit; without it, and said, where there is no room for them */
    MU_AGENT_MPI_PMI1,
    MU_AGENT_MPI_PORT, /* PMI-1 by a port on the loopback */
    MU_AGENT_MPI_PMIX, /* by libpmix */
    MU_AGENT_MPI_NONE,
};

struct mu_agent_options {
    const char *job; /* NULL: run-<pid>-<random> */
    const struct mu_agent_app *apps;
    uint32_t num_apps, num_tasks; /* num_tasks: of all of them */
    struct mu_agent_hosts *hosts; /* NULL: this one alone; see agent/hosts/hosts.h */
    int32_t stdin_to;
    int label;
    int pty;            /* the tasks write to terminals of their own */
    const char *output; /* template of the output files; NULL: none */
    int keep_going;     /* a task's failure does not end the job */
    int survive;        /* the tasks outlive the launcher's death */
    int memfd;
    uint32_t restarts;         /* how often the job, or each task, may be started again after a failure */
    int restart_tasks;         /* the failing task alone, in the same job */
    uint64_t restart_delay_ns; /* before the first; doubled each time */
    uint64_t timeout_ns;       /* 0: none */
    uint64_t grace_ns;         /* between SIGTERM and SIGKILL */
    uint64_t heap_bytes, object_bytes, heartbeat_timeout_ns; /* 0: the segment's defaults */
    uint64_t client_bytes;             /* that are held for clients, by all servers; 0: see agent.c */
    uint32_t threads;                  /* of a task that may write at once; 0: the segment's default */
    uint32_t trace_events;             /* kept for each thread; 0: no trace */
    const struct mu_launch_plan *plan; /* where this host's tasks run; NULL: anywhere */
    enum mu_agent_report report_bindings;
    const char *metrics;                        /* address to serve them at; NULL: nowhere */
    const struct mu_agent_grpc *grpc;           /* NULL: the coordination service is not served */
    const struct mu_agent_tcpstore *tcpstore;   /* NULL: PyTorch's store is not */
    const struct mu_agent_mindspore *mindspore; /* NULL: MindSpore's scheduler is not */
    const struct mu_agent_ray *ray;             /* NULL: nor is Ray's */
    uint32_t workers;                           /* beside the tasks; 0: none */
    char *const *worker_argv;                   /* what one is; NULL: 'muster worker' */
    const struct mu_agent_resource *resources;  /* that calls may ask for */
    uint32_t num_resources;
    const struct mu_agent_tf *tf;                 /* NULL: nor is TensorFlow's master */
    const struct mu_agent_elastic *elastic;       /* NULL: the number of tasks is fixed */
    const struct mu_agent_checkpoint *checkpoint; /* NULL: checkpoints are in memory alone */
    enum mu_agent_mpi mpi;
    /* Prints the state of every task; at the timeout. NULL: nothing is printed. */
    void (*report)(struct muster *muster, FILE *out);
};

/* See muster_resource_offer(). */
struct mu_agent_resource {
    const char *name, *units;
    double amount;
};

/* Run the job to its end. The exit status of `muster run`; everything that went wrong is said on stderr. */
int mu_agent_run(const struct mu_agent_options *options);

/* Where services listen; NULL of what is not served. */
struct mu_agent_addresses {
    const char *grpc, *tcpstore, *mindspore, *ray, *tf;
};

/*
 * Serve the coordination service, PyTorch's store, schedulers of MindSpore and Ray to tasks that others start, until a
 * signal comes. Once they are served, `ready` is called with the job's name and their addresses. Exit status of `muster
 * serve`.
 */
typedef void (*mu_agent_ready_fn)(const char *job, const struct mu_agent_addresses *at);
int mu_agent_serve(const struct mu_agent_options *options, mu_agent_ready_fn ready);

/* What mu_agent_run() would do, on `out`. Exit status. */
int mu_agent_dry_run(const struct mu_agent_options *options, FILE *out);

/* Supervise a job after its launcher has died and its tasks have survived it. Exit status of `muster agent`. */
int mu_agent_adopt(const char *job, const struct mu_agent_options *options);

#endif
