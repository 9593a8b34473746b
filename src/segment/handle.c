/*
 * segment/handle.c: handles, threads' contexts, fork and signal rules.
 *
 * A thread's context is claimed at its first writing call and found again through thread-local storage; the thread's
 * end gives the slot back. A forked child shares the parent's memory but not its slots: every handle older than the
 * fork is refused. A call that finds its thread inside another call can only come from a signal handler: refused, for
 * it would overwrite the intent of the interrupted one. Handles that were left are kept a while, so that a late call
 * is answered instead of crashing.
 */
#include "segment/handle.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "segment/file.h"
#include "segment/claim.h"
#include "base/list.h"
#include "segment/slot.h"
#include "segment/work.h"

enum { QUARANTINE = 1024 };

/* One thread's context on one handle. */
struct mu_use {
    struct muster *handle; /* kept a while after it was left; by then it may be another's */
    uint64_t handle_id;
    struct mu_use *next; /* of the same thread */
    struct mu_use *peer; /* of the same handle */
    bool freed;          /* by mu_handle_end(): the slot is nobody's, only its liveness mutex is still locked by us */
    struct mu_ctx ctx;
};

static _Thread_local struct mu_use *uses;
_Thread_local struct mu_last_use mu_last_use MU_TLS_FAST;
_Thread_local volatile uint32_t mu_inside MU_TLS_FAST;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
_Atomic uint32_t mu_forks;
static _Atomic uint64_t next_id = 1;                     /* process-local */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of handles that were left, and of handles' uses */
static struct muster *left_first, **left_end = &left_first;
static unsigned left_count;

/* Out of its handle's list. False: mu_handle_end() has taken it out before, and freed its slot. */
static bool use_withdraw(struct mu_use *u)
{
    bool freed;

    pthread_mutex_lock(&lock);
    freed = u->freed;
    if (!freed)
        MU_CHAIN_DROP(u->handle->uses, u, peer);
    pthread_mutex_unlock(&lock);
    return !freed;
}

/* Whether the process has left through this use's handle. */
static bool is_left(const struct mu_use *u)
{
    /* relaxed, process-local: the handle's memory stays, also when it is another handle by now */
    return u->handle->id != u->handle_id ||
           atomic_load_explicit(&u->handle->state, memory_order_relaxed) == MU_HANDLE_LEFT;
}

static void use_give_back(struct mu_use *u)
{
    struct muster_segment *seg = u->ctx.seg;
    bool freed = !use_withdraw(u);

    if (!mu_segment_is_whole(seg)) { /* nothing there can be given back */
        mu_segment_unref(seg);
        free(u);
        return;
    }
    if (!freed)
        mu_work_leave(&u->ctx);
    mu_slot_unlock(&u->ctx);
    /* Ours may have been the last slot while the process was leaving: slot first, then the state; mu_handle_end() does
     * it the other way round, so one of us sees to the end. relaxed, process-local, ordered by the fences */
    mu_fence_seq_cst();
    if (!freed && is_left(u))
        mu_segment_last_out(seg);
    mu_segment_unref(seg);
    free(u);
}

/* A signal handler that comes meanwhile is refused, as in any call. */
static void give_back_those(bool (*which)(const struct mu_use *u))
{
    uint32_t before = mu_inside;

    mu_inside = 1;
    mu_last_use.handle_id = 0;
    for (struct mu_use **at = &uses; *at;) {
        struct mu_use *u = *at;

        if (which && !which(u)) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        use_give_back(u);
    }
    mu_inside = before;
}

static void thread_ends(void *arg)
{
    (void)arg;
    give_back_those(NULL);
}

/* The child has none of the parent's slots: forget the contexts, without touching the segment. */
static void in_child(void)
{
    /* relaxed, process-local: the child has one thread */
    atomic_fetch_add_explicit(&mu_forks, 1, memory_order_relaxed);
    while (uses) {
        struct mu_use *u = uses;

        uses = u->next;
        free(u);
    }
    mu_last_use.handle_id = 0;
    mu_inside = 0;
    pthread_mutex_unlock(&lock);
}

/* The forking thread holds the lock meanwhile: held by another, the child would wait for its unlocking in vain. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void handles_initialise(void)
{
    pthread_key_create(&key, thread_ends);
    pthread_atfork(before_fork, in_parent, in_child);
}

struct muster *mu_handle_new(struct muster_segment *seg, uint32_t flags)
{
    struct muster *m = NULL;

    pthread_once(&once, handles_initialise);
    pthread_mutex_lock(&lock);
    if (left_count > QUARANTINE) {
        m = left_first;
        left_first = m->next_left;
        if (!left_first)
            left_end = &left_first;
        left_count--;
    }
    pthread_mutex_unlock(&lock);
    if (!m)
        m = malloc(sizeof *m);
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    m->seg = seg;
    m->flags = flags;
    m->task_id = -1;
    mu_random(&m->member, sizeof m->member);
    m->member |= 1;
    /* relaxed, process-local: the number only has to be unique, and the fork count is this process's */
    m->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    m->forks = atomic_load_explicit(&mu_forks, memory_order_relaxed);
    atomic_store_explicit(&m->state, MU_HANDLE_OPEN, memory_order_relaxed); /* process-local: handed over by return */
    return m;
}

bool mu_handle_is_ours(const struct muster *m)
{
    return m->forks == atomic_load_explicit(&mu_forks, memory_order_relaxed); /* relaxed, process-local */
}

void mu_handle_put_away(struct muster *m)
{
    struct muster_segment *seg = m->seg;
    struct mu_heartbeat *heartbeat = m->heartbeat;
    bool ours = mu_handle_is_ours(m);

    /* relaxed, process-local: other threads must not be inside a call */
    atomic_store_explicit(&m->state, MU_HANDLE_LEFT, memory_order_relaxed);
    m->seg = NULL;
    m->heartbeat = NULL;
    m->uses = NULL;
    /* process-local: a handler's muster_interrupt(), or a fork, finds nothing half gone */
    atomic_signal_fence(memory_order_seq_cst);
    if (ours) {
        mu_segment_unref(seg);
    } else { /* the parent's heartbeat thread and others do not exist here */
        free(heartbeat);
        mu_segment_abandon(seg);
    }
    pthread_mutex_lock(&lock);
    m->next_left = NULL;
    *left_end = m;
    left_end = &m->next_left;
    left_count++;
    pthread_mutex_unlock(&lock);
}

enum muster_status mu_handle_refuse_handler(void)
{
    return mu_fail(MUSTER_FAILED_PRECONDITION,
                   "called from a signal handler that interrupted another muster call of this thread");
}

enum muster_status mu_handle_refuse(const struct muster *m)
{
    if (!m)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the muster handle is NULL");
    if (atomic_load_explicit(&m->state, memory_order_relaxed) != MU_HANDLE_OPEN) /* process-local */
        return mu_fail(MUSTER_FAILED_PRECONDITION, "this process has left the job: join again");
    if (m->forks != atomic_load_explicit(&mu_forks, memory_order_relaxed)) /* process-local */
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "this is a forked child of the task: its slot stayed with the parent; join again here");
    return mu_inside ? mu_handle_refuse_handler() : MUSTER_OK;
}

enum muster_status mu_handle_refuse_removed(const struct muster *m)
{
    if (!m->seg->writable) /* a reader may: nothing changes there any more */
        return MUSTER_OK;
    mu_inside = 0;
    return mu_segment_say_closed(m->seg, "");
}

static enum muster_status thread_attach(struct muster *m, struct mu_ctx **ret_ctx)
{
    struct mu_use *u;
    enum muster_status status;

    for (u = uses; u; u = u->next)
        if (u->handle_id == m->id)
            break;
    if (!u) {
        give_back_those(is_left); /* of jobs that the process has left while this thread lived on */
        u = malloc(sizeof *u);
        if (!u)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the thread's context");
        status = mu_claim(m->seg, m->task_id < 0 ? 0 : (uint64_t)m->task_id + 1, &u->ctx);
        if (status) {
            free(u);
            return status;
        }
        u->handle = m;
        u->handle_id = m->id;
        u->freed = false;
        u->ctx.interrupt = &m->interrupt;
        mu_store_release(&u->ctx.own->member, m->member); /* release: pairs with member_lives() */
        mu_segment_ref(m->seg);
        pthread_mutex_lock(&lock);
        u->peer = m->uses;
        m->uses = u;
        pthread_mutex_unlock(&lock);
        u->next = uses;
        uses = u;
        pthread_setspecific(key, &uses); /* any value: its destructor gives the slots back */
    }
    mu_last_use.handle_id = m->id;
    mu_last_use.ctx = &u->ctx;
    *ret_ctx = &u->ctx;
    return MUSTER_OK;
}

enum muster_status mu_handle_claim(struct muster *m, struct mu_ctx **ret_ctx)
{
    if (!m->seg->writable)
        return mu_fail(MUSTER_PERMISSION_DENIED, "job %s is open read-only here", m->seg->job);
    return thread_attach(m, ret_ctx);
}

struct mu_ctx *mu_handle_find(struct muster *m)
{
    for (struct mu_use *u = uses; u; u = u->next)
        if (u->handle_id == m->id) {
            mu_last_use.handle_id = m->id;
            mu_last_use.ctx = &u->ctx;
            return &u->ctx;
        }
    return NULL;
}

enum muster_status mu_enter_wait(struct muster *m, struct mu_ctx **ret_ctx)
{
    enum muster_status status = mu_enter_read(m);

    if (status)
        return status;
    *ret_ctx = NULL;
    status = m->seg->writable ? mu_handle_context(m, ret_ctx) : MUSTER_OK;
    if (status)
        mu_exit_read();
    return status;
}

bool mu_handle_holds(const struct muster *m, const struct mu_slot *slot)
{
    for (const struct mu_use *u = uses; u; u = u->next)
        if (u->handle_id == m->id)
            return u->ctx.own == slot;
    return false;
}

void mu_handle_detach_thread(struct muster *m)
{
    uint32_t before = mu_inside;

    mu_inside = 1;
    for (struct mu_use **at = &uses; *at; at = &(*at)->next) {
        struct mu_use *u = *at;

        if (u->handle_id != m->id)
            continue;
        mu_last_use.handle_id = 0;
        *at = u->next;
        use_give_back(u);
        break;
    }
    mu_inside = before;
}

struct mu_ctx *mu_handle_borrow(struct muster *m)
{
    pthread_mutex_lock(&lock);
    for (struct mu_use *u = m->uses; u; u = u->peer)
        if (mu_slot_is_held(&u->ctx))
            return &u->ctx;
    pthread_mutex_unlock(&lock);
    return NULL;
}

void mu_handle_return(void)
{
    pthread_mutex_unlock(&lock);
}

void mu_handle_end(struct muster *m)
{
    mu_handle_detach_thread(m);
    /* relaxed, process-local: pairs with use_give_back(), by the fences */
    atomic_store_explicit(&m->state, MU_HANDLE_LEFT, memory_order_relaxed);
    mu_fence_seq_cst();
    if (!mu_segment_is_whole(m->seg))
        return;
    pthread_mutex_lock(&lock);
    for (struct mu_use *u = m->uses; u; u = u->peer) {
        mu_work_leave(&u->ctx);
        u->freed = true;
    }
    m->uses = NULL;
    pthread_mutex_unlock(&lock);
}
