/*
 * compat/pmi1.h: PMI-1 for the MPI programs of a job: what MPICH and its kin ask their launcher, served in the agent's
 * loop.
 *
 * Each task talks over a socket of its own, one line each way: its number, keys and values, a barrier behind which all
 * see what was put before, the end, an abort. With several hosts each host's server serves its own tasks; what was put
 * goes to the others with the barrier, by `exchange`. Nothing is done for a task that never says a word but to keep its
 * socket.
 */
#ifndef MU_COMPAT_PMI1_H
#define MU_COMPAT_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <uv.h>

#include <muster/status.h>

#define MU_PMI1_KVSNAME_MAX 256u /* as the clients are told; so are those below */
#define MU_PMI1_KEY_MAX     64u
#define MU_PMI1_VALUE_MAX   1024u /* never more: older clients have lines of so many bytes, and look at none */
#define MU_PMI1_PUTS_MAX    4096u /* keys of one task */
#define MU_PMI1_LINE_MAX    8192u

struct mu_account;
struct mu_pmi1;

struct mu_pmi1_options {
    uv_loop_t *loop;
    struct mu_account *account; /* of lines and keys that are held; outlives the server. NULL: they are not counted */
    uint32_t num_tasks, first_task, local_tasks;
    bool has_others;     /* other hosts: a barrier needs them */
    const char *kvsname; /* a word */
    const char *mapping; /* which task is on which host: PMI_process_mapping; "": clients find out */
    bool port;           /* tasks connect over TCP, on the loopback */
    void *arg;
    uint32_t (*app_of)(void *arg, uint32_t task);
    void (*begins)(void *arg); /* a task says init; NULL: nothing to be done */
    /* All tasks here are at the barrier, or cannot all come any more: mu_pmi1_exchanged() answers. */
    void (*exchange)(void *arg, const void *bytes, size_t len);
    /* To all other hosts' servers, at once: mu_pmi1_told() takes it. NULL: with the next barrier. */
    void (*tell)(void *arg, const void *bytes, size_t len);
    /* Tasks here wait for others, as mu_pmi1_describe() says; NULL: nobody wants to know. */
    void (*waits)(void *arg);
    void (*aborted)(void *arg, uint32_t task, int code, const char *message);
    /* It waits for a task that does not come: in the barrier, of which it has been told, but MPICH does not listen; or
     * somewhere between init and finalize, for one that has ended without init. */
    void (*stranded)(void *arg, uint32_t task, const char *why);
    /* What was put, for people that look; NULL: nobody does. */
    void (*shown)(void *arg, const char *key, size_t key_len, const char *value, size_t value_len);
    void (*said)(void *arg, const char *sentence);
};

enum muster_status mu_pmi1_start(const struct mu_pmi1_options *options, struct mu_pmi1 **ret_server);
/* With port: "127.0.0.1:4711". */
const char *mu_pmi1_address(const struct mu_pmi1 *server);
/* The task's socket, the server's from now on. The task is new: what one of its number did before is forgotten. */
enum muster_status mu_pmi1_take(struct mu_pmi1 *server, uint32_t task, int fd);
/* The task's own end: kept open here until it speaks, so that the end of one that never does wakes nobody. */
void mu_pmi1_hold(struct mu_pmi1 *server, uint32_t task, int fd);
/* Of what the hosts gave to an exchange; a failure of that itself says why. */
void mu_pmi1_exchanged(struct mu_pmi1 *server, enum muster_status status, uint32_t num_parts, const struct iovec *parts,
                       const char *why);

/* What another host's server tells. */
void mu_pmi1_told(struct mu_pmi1 *server, const void *bytes, size_t len);
/* The tasks that wait here, and what they wait for; "": none. */
void mu_pmi1_describe(const struct mu_pmi1 *server, char *text, size_t size);

enum mu_pmi1_end {
    MU_PMI1_NEVER,     /* it said nothing, or nothing that matters */
    MU_PMI1_FINALIZED, /* it has said that it may end */
    MU_PMI1_OPEN,      /* it is still one of the others' MPI world */
    MU_PMI1_ABORTED,
};
/* The task's process has ended: what it had said is heard, and its socket closed. mu_pmi1_look() tells those that wait
 * for it in vain, once the task's own end has been told. */
enum mu_pmi1_end mu_pmi1_task_ended(struct mu_pmi1 *server, uint32_t task);
/* All that can come to the barrier may be there now, or one of them never will. NULL is allowed. */
void mu_pmi1_look(struct mu_pmi1 *server);
/* Frees; the loop runs on. NULL is allowed. */
void mu_pmi1_stop(struct mu_pmi1 *server);

/* ---- pmi1_line.c: what a client's line says --------------------------------------------------------------------- */

enum { MU_PMI1_FIELDS_MAX = 24 };

struct mu_pmi1_line {
    uint32_t count;
    struct mu_pmi1_field {
        const char *name, *value; /* NULs behind both; a word without '=' has "" */
    } fields[MU_PMI1_FIELDS_MAX];
};

/* `text` is taken apart in place: NAME=VALUE divided by blanks, of which a last value= may have some itself. More than
 * there is room for is left out. */
void mu_pmi1_parse(char *text, struct mu_pmi1_line *ret_line);
/* NULL: it has no such word. */
const char *mu_pmi1_field(const struct mu_pmi1_line *line, const char *name);
/* A whole number; `otherwise` where it is none. */
long mu_pmi1_number(const struct mu_pmi1_line *line, const char *name, long otherwise);

/* ---- pmi1_map.c ------------------------------------------------------------------------------------------------- */

/* "task 3" or "tasks 0-2,5": those of so many for which it is true; shortened to fit. Their number. */
uint32_t mu_pmi1_list(char *text, size_t size, uint32_t first, uint32_t count,
                      bool (*is)(const void *arg, uint32_t task), const void *arg);

/* "(vector,(0,2,4))": host after host its tasks. "" where that is longer than a value. */
void mu_pmi1_map(const uint32_t *tasks, uint32_t num_hosts, char *ret_text, size_t size);

#endif
