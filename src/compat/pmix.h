/*
 * compat/pmix.h: PMIx for unmodified programs: libpmix's server, fed by a loop.
 *
 * libpmix speaks to the tasks of this host, on a thread of its own; what it asks (a fence that reaches other hosts, a
 * value that one of their tasks has put, what was published, an abort) comes into the loop's thread and is answered
 * from there. One server a process, for libpmix has its state in globals.
 *
 * Life: open (the library, its thread, its files), then for each attempt of the job begin, with a name space of its own
 * in which all of this host's tasks are registered before any is started; end; and close. What the servers of several
 * hosts say to each other is carried by the opener, in order, each message once; host 0's is the middle.
 */
#ifndef MU_COMPAT_PMIX_H
#define MU_COMPAT_PMIX_H

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/pack.h"

struct muster;
struct mu_pmix;

struct mu_pmix_options {
    uv_loop_t *loop;
    const char *library;   /* NULL: the system's */
    const char *directory; /* an empty one: libpmix's files, and those of the programs that ask where to put theirs */
    const char *host_name; /* what this host is called; no two hosts alike */
    /* In the loop's thread. To the server of another host; only host 0's tells others than host 0's. */
    void (*tell)(void *arg, uint32_t host, const void *bytes, size_t len);
    /*
     * Each of these hosts, this one among them, gives bytes to the fence of that name; once all have come,
     * mu_pmix_gathered() is due with all parts in a row, perhaps before this returns.
     */
    void (*gather)(void *arg, const uint32_t *hosts, uint32_t num_hosts, const char *name, const void *bytes,
                   size_t len, uint32_t id);
    /* A task has asked for the end of the job. `text` may be NULL. */
    void (*aborted)(void *arg, uint32_t task, int status, const char *text);
    /* A task of this host speaks PMIx, which waits for all, and another has ended without it. */
    void (*stranded)(void *arg, uint32_t task, uint32_t missing);
    /* Tasks here may wait for others, as mu_pmix_describe() says; NULL: nobody wants to know. */
    void (*waits)(void *arg);
    void *arg;
};

/* An attempt of a job. Strings and arrays are used until it begins. */
struct mu_pmix_job {
    const char *nspace; /* a name that none had before */
    uint32_t num_tasks, num_apps;
    uint32_t host, num_hosts;
    const char *const *host_names; /* of each host */
    const uint32_t *host_tasks;    /* how many of them each has, in order */
    const uint32_t *apps;          /* of each task: which command it runs; NULL: the first */
    struct muster *m;              /* host 0: what is published is kept there */
};

enum muster_status mu_pmix_open(const struct mu_pmix_options *options, struct mu_pmix **ret_pmix);
enum muster_status mu_pmix_begin(struct mu_pmix *pmix, const struct mu_pmix_job *job);
/* What a task of this host needs in its environment: NAME=VALUE..., malloc()ed each and all. */
enum muster_status mu_pmix_environment(struct mu_pmix *pmix, uint32_t task, char ***ret_vars);
/* A message of another host's server. */
void mu_pmix_told(struct mu_pmix *pmix, uint32_t host, const void *bytes, size_t len);
/* The bytes are malloc()ed (NULL: none), and freed here. */
void mu_pmix_gathered(struct mu_pmix *pmix, uint32_t id, bool failed, void *bytes, size_t len);

/* Whether a task of this host speaks PMIx: it has begun to (PMIx_Init) and not ended it (PMIx_Finalize). Exact once its
 * process has ended, from any thread. */
bool mu_pmix_is_within(const struct mu_pmix *pmix, uint32_t task);

enum mu_pmix_end {
    MU_PMIX_NEVER,     /* it has not begun PMIx; others that will, on any host, are stranded() */
    MU_PMIX_MISSED,    /* nor that, and another task of this host is within PMIx */
    MU_PMIX_OPEN,      /* it was within PMIx */
    MU_PMIX_FINALIZED, /* it had ended it */
};
/* The process of a task of this host has ended. MU_PMIX_MISSED: `ret_other` is a task that misses it. May be NULL. */
enum mu_pmix_end mu_pmix_task_ended(struct mu_pmix *pmix, uint32_t task, uint32_t *ret_other);

/* The tasks that wait here, as far as libpmix lets us know, and what they wait for; "": none that we know of. */
void mu_pmix_describe(const struct mu_pmix *pmix, char *text, size_t size);

struct mu_pmix_stats {
    uint64_t connected, finalized, fences, modexes, published;
};
void mu_pmix_stats(const struct mu_pmix *pmix, struct mu_pmix_stats *ret_stats);

/* The attempt's tasks have ended, or are to end. Waiters are answered that the others are lost. */
void mu_pmix_end(struct mu_pmix *pmix);
/*
 * The same, and libpmix is stopped: before tasks are killed that may be in a fence, for it (4.2 to 6.0) takes the loss
 * of two of one fence for two ends of the fence, and uses freed memory. Nothing but close may follow. May be called
 * from within the loop, and NULL is allowed, also below. It does not wait for a libpmix that hangs. Where a task may
 * have gone in the midst of PMIx_Init libpmix is not ended, but its thread is stopped, until the process ends.
 */
void mu_pmix_halt(struct mu_pmix *pmix);
/* Runs the loop until nothing of it is left there. */
void mu_pmix_close(struct mu_pmix *pmix);

#endif
