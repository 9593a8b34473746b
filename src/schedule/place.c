/*
 * schedule/place.c: queues that one worker serves, in order.
 *
 * A place is an object that its worker never seals. Calls for it form a chain, which begins in the place's root; the
 * worker takes the whole chain by one commit, and serves it from its end. The calls' words stay what they were until
 * the worker claims one. Where the chain is broken, by a call that was cancelled or a death, all calls of the place are
 * looked for instead, and ordered by when they were submitted.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/private.h"
#include "segment/wait.h"

enum { TEXT_MAX = 800 };

/* What this process has taken of a place's chain. */
struct place {
    struct place *next;
    uint64_t handle, ref;
    uint64_t *calls; /* the next one last */
    size_t count, room;
    bool full;   /* no memory */
    bool served; /* a thread is in mu_place_next() with it, which alone may use `calls` */
    bool closed; /* that thread frees it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places; /* process-local; the lock is held for the list, `served` and `closed` */

static struct place **place_find(const struct muster *m, uint64_t ref)
{
    struct place **at = &places;

    while (*at && ((*at)->handle != m->id || (*at)->ref != ref))
        at = &(*at)->next;
    return at;
}

static void place_free(struct place *p)
{
    free(p->calls);
    free(p);
}

/* The place, for this thread alone until place_give_back(). */
static enum muster_status place_take(const struct muster *m, uint64_t ref, struct place **ret_place)
{
    bool served;

    pthread_mutex_lock(&lock);
    *ret_place = *place_find(m, ref);
    served = *ret_place && (*ret_place)->served;
    if (*ret_place)
        (*ret_place)->served = true;
    pthread_mutex_unlock(&lock);
    if (!*ret_place)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "this process has opened no place 0x%016llx",
                       (unsigned long long)ref);
    return served ? mu_fail(MUSTER_FAILED_PRECONDITION, "place 0x%016llx is served by another thread",
                            (unsigned long long)ref)
                  : MUSTER_OK;
}

static void place_give_back(struct place *p)
{
    bool closed;

    pthread_mutex_lock(&lock);
    p->served = false;
    closed = p->closed;
    pthread_mutex_unlock(&lock);
    if (closed)
        place_free(p);
}

/* It is closed: out of the list, and freed by this thread or by the one that serves it. */
static void place_remove(const struct muster *m, uint64_t ref)
{
    struct place **at, *p;

    pthread_mutex_lock(&lock);
    at = place_find(m, ref);
    p = *at;
    if (p) {
        *at = p->next;
        p->closed = p->served;
        if (p->closed)
            p = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (p)
        place_free(p);
}

enum muster_status muster_place_open(struct muster *muster, muster_object *ret_place)
{
    struct mu_object o = {.state = MU_OBJECT_PLACE};
    struct place *p = calloc(1, sizeof *p);
    struct mu_ledger *ledger;
    struct mu_holding *h;
    struct mu_ctx *ctx;
    enum muster_status status =
        p ? mu_enter(muster, &ctx) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a place");

    if (status) {
        free(p);
        return status;
    }
    status = mu_queue_commit(muster->seg);
    if (!status)
        status = mu_ledger_lock(muster, &ledger);
    if (!status) {
        o.task = (uint32_t)muster->task_id + 1;
        status = mu_holding_new(ledger, ctx, &o, true, &h);
        mu_ledger_unlock(ledger);
    }
    mu_exit(ctx);
    if (status) {
        free(p);
        return status;
    }
    p->handle = muster->id;
    p->ref = *ret_place = o.ref;
    pthread_mutex_lock(&lock);
    p->next = places;
    places = p;
    pthread_mutex_unlock(&lock);
    return MUSTER_OK;
}

/* ---- its end ---- */

struct closing {
    uint64_t maker;
    struct mu_object end;
};

static enum muster_status place_closed(struct mu_object *o, void *arg)
{
    const struct closing *c = arg;

    if (o->state != MU_OBJECT_PLACE || o->maker != c->maker)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is no place of this process, or closed",
                       (unsigned long long)o->ref);
    o->state = MU_OBJECT_ERROR;
    o->code = c->end.code;
    o->data = c->end.data;
    o->bytes = c->end.bytes;
    return MUSTER_OK;
}

static void call_recheck(void *arg, uint64_t ref)
{
    mu_work_recheck(arg, ref, MU_OBJECT_CALL_PLACED);
}

enum muster_status muster_place_close(struct muster *muster, muster_object place, enum muster_status code,
                                      const char *text)
{
    struct closing c;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (code <= MUSTER_OK || code > MUSTER_DATA_LOSS)
        code = MUSTER_CANCELLED;
    if (!text || !*text)
        text = "the place was closed";
    status = mu_schedule_maker(muster, &c.maker);
    if (!status)
        status = mu_work_error(ctx, code, text, strnlen(text, TEXT_MAX), 0, &c.end);
    if (!status)
        status = mu_object_change(ctx, place, c.end.data, place_closed, &c, true);
    if (!status) {
        mu_work_each(ctx, MU_OBJECT_CALL_PLACED, place, call_recheck, ctx); /* taken, and not begun */
        place_remove(muster, place);
    }
    mu_exit(ctx);
    return status;
}

/* ---- serving it ---- */

static void call_add(void *arg, uint64_t ref)
{
    struct place *p = arg;

    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        uint64_t *grown = realloc(p->calls, room * sizeof *grown);

        if (!grown) {
            p->full = true;
            return;
        }
        p->calls = grown;
        p->room = room;
    }
    p->calls[p->count++] = ref;
}

/* When the call was submitted; 0: it waits for the place no more. */
static uint64_t call_stamp(struct mu_ctx *ctx, uint64_t ref)
{
    uint64_t words[3], stamp;
    struct mu_object o;
    uint32_t count;

    if (mu_object_peek(ctx->seg, ref, ctx->scratch, &o) || o.state != MU_OBJECT_CALL_PLACED ||
        !mu_bundle_read(ctx->seg, &o, 0, words, 0, &count) || !mu_bundle_read(ctx->seg, &o, count, words, 3, &count) ||
        !mu_bundle_read(ctx->seg, &o, count + 3 + MU_CALL_ARGUMENTS(words[2]), &stamp, 1, &count))
        return 0;
    return stamp;
}

struct stamped {
    uint64_t stamp, ref;
};

static int stamped_compare(const void *a, const void *b)
{
    const struct stamped *x = a, *y = b;

    return x->stamp < y->stamp ? 1 : x->stamp > y->stamp ? -1 : 0; /* the first one last */
}

/* All calls of the place, anew. */
static enum muster_status calls_collect(struct mu_ctx *ctx, struct place *p)
{
    struct stamped *all;

    p->count = 0;
    mu_work_each(ctx, MU_OBJECT_CALL_PLACED, p->ref, call_add, p);
    all = malloc((p->count + 1) * sizeof *all);
    if (!all || p->full) {
        free(all);
        p->full = false;
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the calls of a place");
    }
    for (size_t i = 0; i < p->count; i++)
        all[i] = (struct stamped){call_stamp(ctx, p->calls[i]), p->calls[i]};
    qsort(all, p->count, sizeof *all, stamped_compare);
    for (size_t i = 0; i < p->count; i++)
        p->calls[i] = all[i].ref;
    free(all);
    return MUSTER_OK;
}

static enum muster_status place_closed_already(uint64_t ref)
{
    return mu_fail(MUSTER_FAILED_PRECONDITION, "place 0x%016llx is closed", (unsigned long long)ref);
}

static enum muster_status chain_taken(struct mu_object *o, void *arg)
{
    if (o->state != MU_OBJECT_PLACE)
        return place_closed_already(o->ref);
    *(uint64_t *)arg = o->waiting;
    o->waiting = 0;
    return MUSTER_OK;
}

/* What has come since, while the list is empty: the chain begins with the last one, and the list ends with the first.
 */
static enum muster_status calls_take(struct mu_ctx *ctx, struct place *p)
{
    uint64_t waiting = 0, left = ctx->seg->num_objects;
    enum muster_status status = mu_object_change_quietly(ctx, p->ref, chain_taken, &waiting);
    bool whole = !(waiting & MU_WAITING_ALL);

    if (status)
        return status;
    p->count = 0;
    for (waiting = MU_WAITING(waiting); whole && waiting && left; left--) {
        uint64_t ref = MU_OBJECT_REF(ctx->seg->host, 0, 0) | waiting;
        struct mu_object o;

        whole = !mu_object_peek(ctx->seg, ref, ctx->scratch, &o) && o.state == MU_OBJECT_CALL_PLACED;
        waiting = whole ? MU_WAITING(o.bytes) : 0;
        if (whole)
            call_add(p, ref);
    }
    return whole && !p->full ? MUSTER_OK : calls_collect(ctx, p);
}

static enum muster_status place_claim(struct muster *m, struct mu_ctx *ctx, uint64_t ref, uint64_t maker,
                                      struct muster_call **ret_call)
{
    struct mu_object o;
    enum muster_status status = mu_object_peek(m->seg, ref, ctx->scratch, &o);

    if (status || o.state != MU_OBJECT_CALL_PLACED)
        return MUSTER_OK;
    status = mu_work_claim(ctx, ref, MU_OBJECT_CALL_PLACED, 1, maker, (uint32_t)m->task_id + 1);
    if (!status)
        status = mu_schedule_begin(m, ctx, &o, 1, maker, ret_call);
    return status == MUSTER_NOT_FOUND ? MUSTER_OK : status;
}

/* Until the argument has come, or the place has closed. */
static enum muster_status argument_await(struct mu_ctx *ctx, const struct place *p, struct mu_wait *w,
                                         const struct mu_object *argument)
{
    mu_a64 *words[2] = {mu_object_word(ctx->seg, argument->ref), mu_object_word(ctx->seg, p->ref)};
    uint64_t seen[2] = {argument->word, 0};
    struct mu_object o;
    enum muster_status status = mu_object_look(ctx->seg, p->ref, ctx->scratch, &o);

    if (status)
        return status;
    if (o.state != MU_OBJECT_PLACE)
        return place_closed_already(p->ref);
    seen[1] = o.word;
    return mu_wait_on_any(w, words, seen, 2, true);
}

/* One step: *ret_call, or a wait for the next call, or for its arguments. */
static enum muster_status place_step(struct muster *m, struct mu_ctx *ctx, struct place *p, uint64_t maker,
                                     struct mu_wait *w, struct muster_call **ret_call)
{
    enum muster_status status;
    struct mu_object o;

    if (p->count) {
        uint64_t ref = p->calls[p->count - 1];
        enum mu_work_readiness readiness = mu_work_look(ctx, ref, MU_OBJECT_CALL_PLACED, &o);

        if (readiness == MU_WORK_BLOCKED)
            return argument_await(ctx, p, w, &o);
        p->count--;
        status = readiness == MU_WORK_READY ? place_claim(m, ctx, ref, maker, ret_call) : MUSTER_OK;
        if (status == MUSTER_RESOURCE_EXHAUSTED || status == MUSTER_UNAVAILABLE)
            p->count++;
        return status;
    }
    status = mu_object_look(m->seg, p->ref, ctx->scratch, &o);
    if (status)
        return status;
    if (o.waiting || o.state != MU_OBJECT_PLACE)
        return calls_take(ctx, p);
    return mu_wait_on(w, mu_object_word(m->seg, p->ref), o.word);
}

enum muster_status mu_place_next(struct muster *m, struct mu_ctx *ctx, uint64_t place, muster_deadline deadline,
                                 uint64_t maker, struct muster_call **ret_call)
{
    struct place *p;
    enum muster_status status = place_take(m, place, &p);
    struct mu_wait w;

    *ret_call = NULL;
    if (status)
        return status;
    mu_wait_begin(&w, m->seg, ctx, deadline, "a call of a place");
    while (!status && !*ret_call) {
        mu_wait_look(&w);
        mu_work_rescan_if_asked(ctx, false);
        status = place_step(m, ctx, p, maker, &w, ret_call);
    }
    mu_wait_end(&w);
    place_give_back(p);
    return status;
}
