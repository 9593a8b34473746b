/*
 * cli/status/picture.h: one look at a job: all that `muster status` and `muster top` show.
 *
 * A picture is read through any handle, a read-only one best, and waits for nobody: it can be taken when every process
 * of the job is stopped, and of a segment that killed processes have left. What needs two looks (CPU in percent, the
 * age of heartbeats) comes from the picture before.
 */
#ifndef MU_CLI_STATUS_PICTURE_H
#define MU_CLI_STATUS_PICTURE_H

#include <stdbool.h>
#include <stdio.h>

#include "barrier/view.h"
#include "cli/cli.h"
#include "cli/status/calls.h"
#include "cli/status/epoch.h"
#include "segment/host_view.h"

struct mu_cli_task {
    struct muster_task_info info; /* of one that is unjoined, "pid" and "alive" are its process's */
    bool unjoined;                /* the launcher has started its process, which lives and has not joined (again) */
    char letter;                  /* of its first thread, from /proc, or as its host's agent says; 0: not known here */
    uint64_t start;               /* of the process, in ticks since boot; 0: not known */
    uint64_t cpu_ns;              /* user and system, so far */
    double cpu_percent;           /* of one processor; below 0: not known */
    int cpu_is_recent;            /* since the picture before, else of its whole life */
    uint64_t last_ran;            /* when its first thread last ran (CLOCK_MONOTONIC); 0: not known */
    uint64_t beat_after;          /* the last heartbeat came after this; 0: not known */
    uint64_t beat_until;          /* and not later than this */
};

/* How telling it is of a task that others wait for it, the most telling first. */
enum mu_cli_kind {
    MU_CLI_DEAD,
    MU_CLI_STOPPED,
    MU_CLI_IN_ERROR,
    MU_CLI_GONE,   /* left */
    MU_CLI_ABSENT, /* never joined */
    MU_CLI_BLOCKED,
    MU_CLI_SLEEPS,
    MU_CLI_RUNS,
    MU_CLI_WAITS,
    MU_CLI_FINE,
};

struct mu_cli_finding {
    enum mu_cli_kind kind;
    uint32_t waiters;
    char text[640];
};

/* The coordination service, PyTorch's store: as its agent noted it. */
enum { MU_CLI_GRPC, MU_CLI_TCPSTORE, MU_CLI_SERVED };
struct mu_cli_served {
    char address[160]; /* "": none is served */
    unsigned connections, waiting;
    unsigned leaves; /* the task, + 1, that waits in the shutdown while most do not; 0: none. Host 0's alone knows */
};

/* MindSpore's cluster: members that are there, and how many are wanted. */
struct mu_cli_cluster {
    char address[160]; /* "": none is served */
    char state[32];    /* "READY" */
    unsigned servers, servers_wanted, workers, workers_wanted, scalings;
};

struct mu_cli_host {
    struct mu_host_view view;
    uint32_t connected, in_error; /* of its tasks */
    struct mu_cli_served served[MU_CLI_SERVED];
};

struct mu_cli_picture {
    struct muster_segment_info segment;
    uint64_t now_ns, heartbeat_timeout_ns;
    int foreign;      /* the pids are of another pid namespace */
    int creator_gone; /* the process that made the segment is no more */
    struct mu_cli_task *tasks;
    size_t count;
    uint32_t states[3], alive;
    struct mu_barrier_view *barriers;
    size_t num_barriers;
    uint64_t keys, key_bytes;
    struct mu_cli_served served[MU_CLI_SERVED]; /* of several hosts this one's */
    struct mu_cli_cluster mindspore;
    struct mu_cli_calls calls;
    struct mu_cli_epoch epoch;
    unsigned leaves;           /* host 0's */
    struct mu_cli_host *hosts; /* NULL: the job has this one alone */
    uint32_t num_hosts, own_host;
    struct muster_kv_list *mpi; /* the waiters in MPI, by host; NULL: not known here */
    char tf[224];               /* TensorFlow's master, likewise */
    char disk[224];             /* where checkpoints are written, and how many; "": nowhere, or elsewhere */
    char ray[224];              /* Ray's scheduler, where it is and what it does; "": it is not served, or elsewhere */
    int in_error;               /* some non-recoverable task is: */
    struct muster_error error;
    struct mu_cli_finding *findings; /* the most telling first; at least one */
    size_t num_findings;
};

/*
 * `before` may be NULL. On failure nothing is to be freed. ABORTED: something changed faster than it could be read; a
 * caller that looks again and again keeps the picture before.
 */
enum muster_status mu_cli_picture_take(struct muster *muster, const struct mu_cli_picture *before,
                                       struct mu_cli_picture *ret_picture);
void mu_cli_picture_free(struct mu_cli_picture *picture);

#define MU_CLI_IDLE_NS 1000000000u /* a process that has not run for so long sleeps; a shorter pause says nothing */

/* Some thread of it uses a processor now, whatever its first one does. */
bool mu_cli_is_busy(const struct mu_cli_task *task);

/* diagnose.c: fill in the findings. -1: no memory. */
int mu_cli_diagnose(struct mu_cli_picture *picture);
enum mu_cli_kind mu_cli_kind_of(const struct mu_cli_picture *picture, const struct mu_cli_task *task);
/* Why a task has not arrived, in a few words. */
const char *mu_cli_why_missing(const struct mu_cli_picture *picture, int32_t task_id, char buffer[192]);

/* picture_hosts.c: the hosts of a job that has several; what is wrong with one, if anything is. */
void mu_cli_take_hosts(const struct muster_segment *seg, struct mu_cli_picture *picture);
/* What other hosts' agents have said of their tasks; the hosts are taken. */
void mu_cli_take_status(struct muster *muster, struct mu_cli_picture *picture);
/* Where the task is, if not on the host that is looked at; else NULL. */
const struct mu_cli_host *mu_cli_other_host(const struct mu_cli_picture *picture, int32_t task_id);
/* The name of the task's host, of a job that has several. */
const char *mu_cli_host_of(const struct mu_cli_picture *picture, int32_t task_id);
enum mu_cli_kind mu_cli_host_kind(const struct mu_cli_host *host);
void mu_cli_accuse_host(const struct mu_cli_picture *picture, const struct mu_cli_host *host, char *text, size_t size);
/* "3: 2 up, 1 lost" */
const char *mu_cli_host_summary(const struct mu_cli_picture *picture, char buffer[160]);
/* A host as a line of the table, and the table's head. */
void mu_cli_host_row(const struct mu_cli_picture *picture, const struct mu_cli_host *host, char *text, size_t size);
const char *mu_cli_host_head(void);

/* "running", "sleeping", "stopped", "dead", "left", ... */
const char *mu_cli_process_word(const struct mu_cli_task *task);
/* As mu_cli_age() behind the mark ">" or "<" when only that much is known; "-" when nothing is. */
const char *mu_cli_beat_age(const struct mu_cli_picture *picture, const struct mu_cli_task *task, char buffer[32]);
const char *mu_cli_barrier_word(const struct mu_barrier_view *barrier);
/* Some have come and wait for the others. */
bool mu_cli_barrier_is_open(const struct mu_barrier_view *barrier);

/* report.c, report_json.c. Colours only on stdout, and on a stream (NULL: none) that the text will go to. */
void mu_cli_report_colours(FILE *out);
void mu_cli_print_findings(const struct mu_cli_picture *picture, FILE *out);
void mu_cli_print_tasks(const struct mu_cli_picture *picture, FILE *out);
void mu_cli_print_hosts(const struct mu_cli_picture *picture, FILE *out);
void mu_cli_print_barriers(const struct mu_cli_picture *picture, FILE *out);
void mu_cli_print_picture(const struct mu_cli_picture *picture, FILE *out);

/* The arrays "barriers" and "groups"; and the whole as one object and a newline. */
void mu_cli_json_barriers(struct mu_cli_json *json, const struct mu_cli_picture *picture);
void mu_cli_json_picture(const struct mu_cli_picture *picture, FILE *out);

/*
 * Take a picture and print its findings and tasks, those that wait in barriers included: for a launcher that gives up
 * on a job (`muster run --timeout`). The status says why nothing was printed.
 */
enum muster_status mu_cli_report(struct muster *muster, FILE *out);

#endif
