/*
 * compat/pmix_private.h: what the files of the PMIx back end share.
 *
 * pmix.c          the server's life; a job's registration
 * pmix_facts.c    what libpmix is told of a job
 * pmix_calls.c    what libpmix calls on its thread, on the way to the loop's
 * pmix_remote.c      fences and values across hosts
 * pmix_publish.c  what tasks publish and look up
 */
#ifndef MU_COMPAT_PMIX_PRIVATE_H
#define MU_COMPAT_PMIX_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "compat/pmix.h"
#include "compat/pmix_library.h"

#define MU_PMIX_BLOB_MAX (256u << 20) /* bytes that all hosts together give to a fence */

enum mu_pmix_kind {
    MU_PMIX_CALL_ABORT,
    MU_PMIX_CALL_FENCE,
    MU_PMIX_CALL_MODEX,
    MU_PMIX_CALL_PUBLISH,
    MU_PMIX_CALL_LOOKUP,
    MU_PMIX_CALL_UNPUBLISH,
    MU_PMIX_CALL_BEGUN,
    MU_PMIX_CALL_MODEX_HAD, /* not a call: an answer to what we asked libpmix for another host */
};

/* What libpmix has asked, until it is answered. The loop's, once it is taken from the list. */
struct mu_pmix_call {
    struct mu_pmix_call *next;
    enum mu_pmix_kind kind;
    uint32_t id;           /* by which another host's answer finds it */
    uint32_t task;         /* the asking one; of a modex: the one with the values */
    int status;            /* of an abort; of a modex that was had */
    int timeout_s;         /* 0: none */
    uint64_t expires_at;   /* uv_now(); 0: never */
    uint32_t host, remote; /* of a modex that was had: for which host, and its id there */
    struct mu_pack who;    /* of a fence: the tasks, as u32 sorted; empty: all */
    struct mu_pack what;   /* bytes: a fence's part; what is published, or looked up; a text */
    union {
        mu_pmix_done *op;
        mu_pmix_modex_done *modex;
        mu_pmix_lookup_done *lookup;
    } done;
    void *data; /* for `done` */
};

enum mu_pmix_state { MU_PMIX_OUTSIDE, MU_PMIX_WITHIN, MU_PMIX_PAST };

/* Of a task of this host. */
struct mu_pmix_client {
    _Atomic int state; /* process-local: before PMIx_Init, after it, after PMIx_Finalize */
};

struct mu_pmix_search;

struct mu_pmix {
    struct mu_pmix_options options;
    struct mu_pmix_library library;
    char directory[256];
    uv_async_t async;
    uv_timer_t timer;
    int handles; /* of the loop, that are not closed yet */

    pthread_mutex_t lock; /* over the next, which libpmix's thread changes, and the job, which it reads */
    struct mu_pmix_call *first, *last;
    pthread_cond_t has_settled;
    bool settled, halted;
    bool broken, frozen; /* the loop's own: libpmix's lists may be; its thread is stopped */
    bool hangs;          /* it does not answer any more */
    pthread_t loops;     /* the loop's thread, for on_library_frozen() */

    struct mu_pmix_call *waiting; /* answers of other hosts are awaited */
    uint32_t next_id;

    bool has_job; /* to `clients`: changed by the loop alone, under the lock */
    char nspace[MU_PMIX_NSPACE_MAX + 1];
    uint32_t num_tasks, first_task, local_tasks, host, num_hosts;
    uint32_t *host_tasks;
    struct mu_pmix_client *clients; /* of local_tasks */
    uint32_t left;                  /* a task of any host that has ended without PMIx; UINT32_MAX: none */
    struct muster *m;
    struct mu_pmix_search *searches; /* host 0: calls that wait for something to be published */
    struct mu_pmix_stats stats;
};

/* ---- pmix.c ---- */
extern struct mu_pmix *mu_pmix_serving; /* the one; set before libpmix calls anything */
uint32_t mu_pmix_host_of(const struct mu_pmix *pmix, uint32_t task);
struct mu_pmix_proc mu_pmix_proc_of(const struct mu_pmix *pmix, uint32_t task);
enum mu_pmix_state mu_pmix_state_of(const struct mu_pmix *pmix, uint32_t task);

/* ---- pmix_calls.c ---- */
extern struct mu_pmix_module mu_pmix_module;
/* In the loop: whatever came. */
void mu_pmix_take_calls(uv_async_t *async);
void mu_pmix_push(struct mu_pmix *pmix, struct mu_pmix_call *call);
void mu_pmix_free_call(struct mu_pmix_call *call);
/* Answer and free. The bytes (malloc()ed; NULL: none) are libpmix's from then on. */
void mu_pmix_answer_op(struct mu_pmix_call *call, mu_pmix_status status);
void mu_pmix_answer_modex(struct mu_pmix_call *call, mu_pmix_status status, void *bytes, size_t len);

/* ---- pmix_facts.c ---- */
#define MU_PMIX_INFOS_MAX 24

struct mu_pmix_facts {
    const struct mu_pmix_library *library;
    struct mu_pmix_info *infos;
    size_t count, room;
    mu_pmix_status status; /* the first that was not good */
};
struct mu_pmix_facts mu_pmix_facts_new(const struct mu_pmix *pmix, size_t room);
void mu_pmix_facts_add(struct mu_pmix_facts *facts, const char *key, const void *data, uint16_t type);
struct mu_pmix_facts mu_pmix_facts_of_job(struct mu_pmix *pmix, const struct mu_pmix_job *job);
void mu_pmix_facts_free(struct mu_pmix_facts *facts);

/* ---- pmix_remote.c ---- */
/* It is answered when another host says so: it gets an id. */
void mu_pmix_await(struct mu_pmix *pmix, struct mu_pmix_call *call);
/* To this host's own server, or another's. Frees what `p` holds. */
void mu_pmix_say(struct mu_pmix *pmix, uint32_t host, struct mu_pack *p);
void mu_pmix_fence(struct mu_pmix *pmix, struct mu_pmix_call *call);
void mu_pmix_modex(struct mu_pmix *pmix, struct mu_pmix_call *call);
void mu_pmix_modex_had(struct mu_pmix *pmix, struct mu_pmix_call *call);
/* A task of this host is within PMIx. */
void mu_pmix_begun(struct mu_pmix *pmix, struct mu_pmix_call *call);
/* Those that have waited for too long, or (all) will not be answered any more. */
void mu_pmix_expire(struct mu_pmix *pmix, bool all);

/* Messages begin with a u8 of these. */
enum mu_pmix_word {
    MU_PMIX_SAYS_MODEX = 1,   /* u32 from host, u32 id, u32 task: by host 0 to the task's */
    MU_PMIX_SAYS_HAD = 2,     /* u32 to host, u32 id, u32 status, blob: by host 0 */
    MU_PMIX_SAYS_PUBLISH = 3, /* u32 id, blob: to host 0, as pmix_publish.c has it; so are the next two */
    MU_PMIX_SAYS_LOOKUP = 4,
    MU_PMIX_SAYS_UNPUBLISH = 5,
    MU_PMIX_SAYS_FOUND = 6, /* u32 id, u32 status, blob */
    MU_PMIX_SAYS_LEFT = 7,  /* u32 task: it has ended without PMIx; host 0 says it to the others, too */
};

/* ---- pmix_publish.c ---- */
/* Of libpmix's arguments (on its thread) a message. 0, or a status. */
mu_pmix_status mu_pmix_pack_published(struct mu_pmix_call *call, const struct mu_pmix_info *info, size_t count);
mu_pmix_status mu_pmix_pack_keys(struct mu_pmix_call *call, char **keys, const struct mu_pmix_info *info, size_t count);
void mu_pmix_ask_store(struct mu_pmix *pmix, struct mu_pmix_call *call);
/* Host 0: what host `host` asks of the store. */
void mu_pmix_asked_store(struct mu_pmix *pmix, uint32_t host, enum mu_pmix_word word, struct mu_unpack *u);
/* An answer to `call`, which is freed. */
void mu_pmix_found(struct mu_pmix *pmix, struct mu_pmix_call *call, mu_pmix_status status, const void *bytes,
                   size_t len);
void mu_pmix_forget_searches(struct mu_pmix *pmix);

#endif
