/*
 * object/get.c: views of sealed objects, and waiting until they are.
 *
 * A view holds its object from before the wait, so what is waited for cannot go meanwhile. A waiter for one sleeps
 * on its word; for several, on as many of their words as the kernel takes at once, and looks at the others every
 * millisecond. A producer's death is a commit of its objects, which wakes like any.
 */
#include <stdio.h>
#include <string.h>

#include "object/holding.h"
#include "segment/work.h"
#include "segment/cluster.h"
#include "segment/names.h"
#include "segment/remote.h"
#include "segment/wait.h"

enum { WHAT_MAX = 64 };

/* Whether the task's record is still that of the process that made the object. */
static bool is_makers(const struct mu_task_record *r, uint64_t maker)
{
    return r->slot && MU_OBJECT_MAKER(r->slot - 1, r->slot_incarnation) == maker;
}

/* Of one on its way from another host no more is known here than that; of one that has come, its task's number. */
static const char *replica_producer(const struct muster_segment *seg, const struct mu_object *o, uint64_t ref,
                                    char name[MU_NAME_MAX])
{
    char host[MU_HERE_HOST];

    mu_here_host(seg, ref, host);
    if (o->task)
        snprintf(name, MU_NAME_MAX, "%s on %s", MU_LABEL(seg, o->task - 1), host);
    else
        snprintf(name, MU_NAME_MAX, "%s", host);
    return name;
}

/* "task 2 (pid 4711 on host n1)", or, when another process is that task by now, "task 2". `ref`: as the caller has it.
 */
static const char *producer_name(const struct muster_segment *seg, const struct mu_object *o, uint64_t ref,
                                 char name[MU_NAME_MAX])
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (o->maker == MU_OBJECT_REMOTE)
        return replica_producer(seg, o, ref, name);
    if (!o->task || mu_cluster_task(seg, o->task - 1, &r, NULL, &cluster))
        snprintf(name, MU_NAME_MAX, "its producer");
    else if (is_makers(&r, o->maker))
        mu_cluster_place(seg, o->task - 1, &r, name);
    else
        snprintf(name, MU_NAME_MAX, "%s", MU_LABEL(seg, o->task - 1));
    return name;
}

static const char *how_ended(const struct mu_object *o)
{
    if (o->meta == MU_ENDED_RUNNING)
        return ", its worker, ended in the midst of the call";
    return o->meta == MU_ENDED_SERVING ? ", its place's worker, ended" : " ended before it was sealed";
}

/* The reference by which sentences name the object: a replica has the caller's. */
static unsigned long long shown_ref(const struct mu_object *o, uint64_t given)
{
    return o->maker == MU_OBJECT_REMOTE ? given : o->ref;
}

static enum muster_status error_of(struct mu_ctx *ctx, const struct mu_object *o, uint64_t given)
{
    char name[MU_NAME_MAX];
    uint64_t detail;
    size_t len;
    const char *text = mu_work_error_text(ctx->seg, o, &len, &detail);

    if (len && !o->task)
        return mu_fail(o->code ? (enum muster_status)o->code : MUSTER_UNKNOWN, "object 0x%016llx is an error: %.*s",
                       shown_ref(o, given), (int)len, text);
    producer_name(ctx->seg, o, given, name);
    if (!len)
        return mu_fail(o->code ? (enum muster_status)o->code : MUSTER_UNKNOWN, "object 0x%016llx will not come: %s%s",
                       shown_ref(o, given), name, how_ended(o));
    return mu_fail(o->code ? (enum muster_status)o->code : MUSTER_UNKNOWN, "object 0x%016llx is an error, of %s: %.*s",
                   shown_ref(o, given), name, (int)len, text);
}

static void show_view(const struct mu_holding *h, struct muster_object_view *v)
{
    *v = (struct muster_object_view){.object = h->ref, .len = h->num_bytes, .meta_len = h->num_meta};
    if (v->len)
        v->data = h->bytes;
    if (v->meta_len)
        v->meta = h->bytes + (h->num_bytes + 7) / 8 * 8;
}

/* Some of the objects that are not sealed: on their words a wait sleeps. */
struct pending {
    mu_a64 *words[MU_WAIT_ANY];
    uint64_t seen[MU_WAIT_ANY];
    struct mu_object first;
    uint64_t first_given; /* the reference by which the caller names that one */
    uint32_t count;
    bool all; /* those are all that is not sealed */
    /* of the object before: its maker, and whether that one is in error */
    uint32_t task;
    uint64_t maker;
    bool in_error;
};

static void pending_begin(struct pending *p)
{
    p->count = p->task = 0;
    p->all = true;
}

/*
 * Whether the object will not be sealed, for its producer is in error, a recoverable one too. A look at the word after
 * that at the task: what was sealed before the error shows.
 */
static bool producer_failed(const struct muster_segment *seg, struct pending *p, const struct mu_object *o)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (!o->task || o->state != MU_OBJECT_WRITING) /* a call may be run again by another worker */
        return false;
    if (o->task != p->task || o->maker != p->maker) {
        p->task = o->task;
        p->maker = o->maker;
        p->in_error = !mu_cluster_task(seg, o->task - 1, &r, NULL, &cluster) && r.state == MUSTER_TASK_ERROR &&
                      is_makers(&r, o->maker);
    }
    return p->in_error && mu_word_same(mu_recheck(mu_object_word(seg, o->ref)), o->word);
}

static enum muster_status producer_error(const struct muster_segment *seg, const struct mu_object *o)
{
    char text[MU_TEXT_MAX] = "", name[MU_NAME_MAX];
    struct mu_task_record r;
    struct mu_cluster cluster;

    producer_name(seg, o, o->ref, name);
    mu_cluster_task(seg, o->task - 1, &r, text, &cluster);
    return mu_fail(MUSTER_UNAVAILABLE, "object 0x%016llx will not come: %s is in error: %s", (unsigned long long)o->ref,
                   name, text);
}

static void pending_add(struct mu_ctx *ctx, struct pending *p, const struct mu_object *o, uint64_t given)
{
    if (p->count == MU_WAIT_ANY) {
        p->all = false;
        return;
    }
    if (!p->count) {
        p->first = *o;
        p->first_given = given;
    }
    p->words[p->count] = mu_object_word(ctx->seg, o->ref);
    p->seen[p->count++] = o->word;
}

/* Sleep until one of them may have changed. */
static enum muster_status pending_wait(struct mu_ctx *ctx, struct mu_wait *w, const struct pending *p)
{
    enum muster_status status = p->count == 1 && p->all ? mu_wait_on(w, p->words[0], p->seen[0])
                                                        : mu_wait_on_any(w, p->words, p->seen, p->count, p->all);
    char name[MU_NAME_MAX];

    if (status == MUSTER_DEADLINE_EXCEEDED)
        mu_fail(status, "the deadline passed while waiting for %s: 0x%016llx, of %s, is not %s", w->what,
                shown_ref(&p->first, p->first_given), producer_name(ctx->seg, &p->first, p->first_given, name),
                p->first.maker == MU_OBJECT_REMOTE ? "here yet" : "sealed");
    return status;
}

/* Show what is sealed of those that are not shown yet; *ret_at: the first that is an error, or not sealed. */
static enum muster_status show_sealed(struct muster *m, struct mu_ctx *ctx, const struct mu_here *here,
                                      struct muster_object_view *views, struct pending *p, size_t *ret_at)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    pending_begin(p);
    if (status)
        return status;
    for (size_t i = 0; !status && i < here->count; i++) {
        struct mu_holding *h;
        struct mu_object o = {0};

        if (views[i].object)
            continue;
        h = mu_ledger_find(ledger, here->local[i]);
        if (!h->bytes || h->state == MU_OBJECT_ERROR)
            status = mu_holding_look(ctx, h, &o);
        if (!status && o.state == MU_OBJECT_ERROR)
            status = error_of(ctx, &o, here->given[i]);
        else if (!status && !h->bytes && producer_failed(ctx->seg, p, &o))
            status = producer_error(ctx->seg, &o);
        if (status)
            *ret_at = i;
        else if (h->bytes)
            show_view(h, &views[i]);
        else {
            if (!p->count)
                *ret_at = i;
            pending_add(ctx, p, &o, here->given[i]);
        }
    }
    mu_ledger_unlock(ledger);
    return status;
}

/* What ends a wait besides the objects: an error of a task; of one that has remote objects, that nobody brings them. */
static enum muster_status wait_ended(struct mu_ctx *ctx, const struct mu_here *here, const char *what,
                                     uint64_t *dead_since)
{
    enum muster_status status = mu_cluster_error(ctx->seg, what);

    return status || !here->any ? status : mu_remote_abandoned(ctx->seg, what, dead_since);
}

/* All of them, each of which has a view that counts already. */
static enum muster_status get_all(struct muster *m, struct mu_ctx *ctx, const struct mu_here *here,
                                  muster_deadline deadline, struct muster_object_view *views, size_t *ret_at)
{
    enum muster_status status = MUSTER_OK;
    struct pending p;
    char what[WHAT_MAX];
    bool waits = false, blocks = false;
    uint64_t dead_since = 0;
    struct mu_wait w;

    while (!status) {
        if (waits) {
            mu_wait_look(&w);
            mu_work_rescan_if_asked(ctx, false); /* where a death took the last worker, too */
        }
        status = show_sealed(m, ctx, here, views, &p, ret_at);
        if (status || !p.count)
            break;
        if (waits) {
            status = wait_ended(ctx, here, what, &dead_since);
            if (!status)
                status = pending_wait(ctx, &w, &p);
            continue;
        }
        if (here->count == 1)
            snprintf(what, sizeof what, "object 0x%016llx", (unsigned long long)here->given[0]);
        else
            snprintf(what, sizeof what, "%zu objects", here->count);
        mu_wait_begin(&w, ctx->seg, ctx, deadline, what);
        waits = true;
        blocks = mu_crew_block(ctx);
    }
    if (waits)
        mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    return status;
}

static void views_end(struct muster *m, struct mu_ctx *ctx, const muster_object *objects, size_t count)
{
    struct mu_ledger *ledger;

    if (mu_ledger_lock(m, &ledger))
        return;
    for (size_t i = 0; i < count; i++) {
        struct mu_holding *h = objects[i] ? mu_ledger_find(ledger, objects[i]) : NULL;

        if (h && h->views) {
            h->views--;
            mu_holding_let_go(ledger, ctx, h);
        }
    }
    mu_ledger_unlock(ledger);
}

/* Count a view of each; what is sealed is shown at once, and *ret_shown says whether that was all of them. */
static enum muster_status views_begin(struct muster *m, struct mu_ctx *ctx, const muster_object *objects, size_t count,
                                      struct muster_object_view *ret_views, size_t *ret_held, bool *ret_shown)
{
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    *ret_held = 0;
    *ret_shown = true;
    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        struct mu_holding *h;

        status = mu_holding_find(ledger, ctx, objects[i], &h);
        if (status)
            break;
        h->views++;
        ++*ret_held;
        if (h->bytes && h->state == MU_OBJECT_SEALED) {
            show_view(h, &ret_views[i]);
        } else {
            ret_views[i] = (struct muster_object_view){0};
            *ret_shown = false;
        }
    }
    mu_ledger_unlock(ledger);
    return status;
}

static enum muster_status object_get(struct muster *m, struct mu_ctx *ctx, const struct mu_here *here,
                                     muster_deadline deadline, struct muster_object_view *ret_views, size_t *ret_at)
{
    size_t held, at = 0;
    bool shown;
    enum muster_status status = views_begin(m, ctx, here->local, here->count, ret_views, &held, &shown);

    at = held < here->count ? held : 0;
    if (!status && !shown)
        status = get_all(m, ctx, here, deadline, ret_views, &at);
    for (size_t i = 0; !status && here->any && i < here->count; i++)
        ret_views[i].object = here->given[i];
    if (!status)
        return MUSTER_OK;
    if (ret_at)
        *ret_at = at;
    views_end(m, ctx, here->local, held);
    memset(ret_views, 0, here->count * sizeof *ret_views);
    return status;
}

enum muster_status muster_object_get(struct muster *muster, const muster_object *objects, size_t count,
                                     muster_deadline deadline, struct muster_object_view *ret_views, size_t *ret_at)
{
    struct mu_here here;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_here_begin(muster, ctx, objects, count, deadline, &here, ret_at);
    if (status) {
        memset(ret_views, 0, count * sizeof *ret_views);
    } else {
        status = object_get(muster, ctx, &here, deadline, ret_views, ret_at);
        mu_here_end(muster, ctx, &here);
    }
    mu_exit(ctx);
    return status;
}

void muster_object_unview(struct muster *muster, struct muster_object_view *views, size_t count)
{
    struct mu_ctx *ctx;

    if (mu_enter(muster, &ctx))
        return;
    for (size_t i = 0; i < count; i++) {
        uint64_t local = mu_here_of(muster, ctx, views[i].object);

        views_end(muster, ctx, &local, 1);
        views[i] = (struct muster_object_view){0};
    }
    mu_exit(ctx);
}

/* ---- some of many ---- */

struct some {
    const struct mu_here *here;
    size_t want;
    unsigned char *ready; /* NULL: one is wanted, and */
    size_t at;            /* gets its number */
    size_t num_ready;
};

/* Look at those that were not ready before: at all, or, where one is wanted, as far as that. */
static enum muster_status look_at_some(struct mu_ctx *ctx, struct some *s, struct pending *p)
{
    pending_begin(p);
    for (size_t i = 0; i < s->here->count && (s->ready || !s->num_ready); i++) {
        struct mu_object o;
        enum muster_status status;

        if (s->ready && s->ready[i])
            continue;
        status = mu_object_resolve(ctx->seg, s->here->local[i], ctx->scratch, &o);
        if (status && status != MUSTER_NOT_FOUND)
            return status;
        if (!status && mu_object_is_open(o.state) && !producer_failed(ctx->seg, p, &o)) {
            pending_add(ctx, p, &o, s->here->given[i]);
            continue;
        }
        if (s->ready)
            s->ready[i] = 1;
        s->at = i;
        s->num_ready++;
    }
    return MUSTER_OK;
}

static enum muster_status object_wait(struct mu_ctx *ctx, struct some *s, muster_deadline deadline)
{
    struct pending p;
    char what[WHAT_MAX];
    enum muster_status status = MUSTER_OK;
    uint64_t dead_since = 0;
    bool blocks = false;
    struct mu_wait w;

    snprintf(what, sizeof what, "%zu of %zu objects", s->want, s->here->count);
    mu_wait_begin(&w, ctx->seg, ctx, deadline, what);
    while (!status) {
        mu_wait_look(&w);
        mu_work_rescan_if_asked(ctx, false); /* as in get_all() */
        status = look_at_some(ctx, s, &p);
        if (status || s->num_ready >= s->want)
            break;
        blocks = blocks || mu_crew_block(ctx);
        status = wait_ended(ctx, s->here, what, &dead_since);
        if (!status)
            status = pending_wait(ctx, &w, &p);
    }
    mu_wait_end(&w);
    if (blocks)
        mu_crew_unblock(ctx);
    return status;
}

enum muster_status muster_object_wait(struct muster *muster, const muster_object *objects, size_t count, size_t want,
                                      muster_deadline deadline, unsigned char *ret_ready, size_t *ret_count)
{
    struct mu_here here;
    struct some s = {.here = &here, .want = want, .ready = ret_ready};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (want > count) {
        mu_exit(ctx);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu of %zu objects are wanted", want, count);
    }
    memset(ret_ready, 0, count);
    *ret_count = 0;
    status = mu_here_begin(muster, ctx, objects, count, deadline, &here, NULL);
    if (!status) {
        status = object_wait(ctx, &s, deadline);
        *ret_count = s.num_ready;
        mu_here_end(muster, ctx, &here);
    }
    mu_exit(ctx);
    return status;
}

enum muster_status muster_object_wait_any(struct muster *muster, const muster_object *objects, size_t count,
                                          muster_deadline deadline, size_t *ret_at)
{
    struct mu_here here;
    struct some s = {.here = &here, .want = 1};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = count ? mu_here_begin(muster, ctx, objects, count, deadline, &here, NULL)
                   : mu_fail(MUSTER_INVALID_ARGUMENT, "one of no objects is wanted");
    if (!status) {
        status = object_wait(ctx, &s, deadline);
        mu_here_end(muster, ctx, &here);
    }
    if (!status)
        *ret_at = s.at;
    mu_exit(ctx);
    return status;
}
