/*
 * accel/nccl_id.c: an id for each communicator, by name and generation, through one cell of the segment.
 *
 * A rank asks by an edit of the cell: it takes the ids, or becomes who makes them, or must wait for another who does.
 * libnccl is called outside of any edit and of any muster call, then a second edit hands out what was made. Between the
 * two the maker may die, or be taken for dead: whoever asks next begins another generation, and the second edit of the
 * late one finds so, and its roots end. Roots of this process are looked after at each call and when it leaves.
 */
#include "accel/nccl_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_roots.h"
#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/wait.h"

#define EXPIRY_NS      600000000000u
#define UNPINNED_TRIES 1000u

/* ---- the cell ---------------------------------------------------------------------------------------------------- */

static enum mu_nccl_presence presence(void *arg, int32_t task, uint64_t incarnation)
{
    const struct mu_nccl_call *call = arg;
    struct mu_task_record r;
    struct mu_cluster c;

    if (task < 0 || mu_cluster_task(call->m->seg, (uint32_t)task, &r, NULL, &c))
        return MU_NCCL_LOST;
    if (r.incarnation != incarnation || r.state == MUSTER_TASK_ERROR)
        return MU_NCCL_LOST;
    if (r.state == MUSTER_TASK_DISCONNECTED)
        return MU_NCCL_LEFT;
    return mu_cluster_alive(call->m->seg, (uint32_t)task, &r) ? MU_NCCL_HERE : MU_NCCL_LOST;
}

enum muster_status mu_nccl_call_begin(struct mu_nccl_call *call, struct muster *m, const char *name)
{
    char key[MUSTER_NCCL_NAME_MAX + 2];
    size_t len = name ? strlen(name) : 0;
    enum muster_status status;

    call->room = NULL;
    call->room_size = 0;
    call->generation = 0;
    call->nccl = NULL;
    call->m = m;
    call->name = name;
    if (!len || len > MUSTER_NCCL_NAME_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a communicator's name has 1 to %u bytes, not %zu",
                       MUSTER_NCCL_NAME_MAX, len);
    status = mu_enter_read(m);
    if (status)
        return status;
    key[0] = 'U';
    memcpy(key + 1, name, len);
    mu_key_make(&call->key, m->seg, key, len + 1);
    snprintf(call->what, sizeof call->what, "NCCL id %s", name);
    call->asker = (struct mu_nccl_asker){
        .task = m->task_id, .incarnation = m->incarnation, .now = mu_now(), .presence = presence, .arg = call};
    mu_exit_read();
    return MUSTER_OK;
}

void mu_nccl_call_done(struct mu_nccl_call *call)
{
    free(call->room);
}

static bool make_room(struct mu_nccl_call *call, size_t size)
{
    void *more;

    if (size <= call->room_size)
        return true;
    more = realloc(call->room, size);
    if (!more)
        return false;
    call->room = more;
    call->room_size = size;
    return true;
}

static enum muster_status no_memory(const struct mu_nccl_call *call)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %s", call->what);
}

static enum muster_status corrupt(const struct mu_nccl_call *call)
{
    return mu_fail(MUSTER_DATA_LOSS, "%s in the segment of job %s is not well formed", call->what, call->m->seg->job);
}

/* A private copy of what an edit found, with room for the asker's shape besides. */
static enum muster_status copy_old(struct mu_nccl_call *call, const struct mu_edit *e)
{
    size_t own = mu_nccl_record_size(call->asker.nranks, call->asker.nids);

    if (!make_room(call, own > e->old_len ? own : e->old_len))
        return no_memory(call);
    memcpy(call->room, e->old, e->old_len);
    call->asker.now = mu_now();
    return mu_nccl_record_view(&call->record, call->room, e->old_len) ? MUSTER_OK : corrupt(call);
}

static enum mu_verdict put(struct mu_nccl_call *call, struct mu_edit *e)
{
    e->value = call->room;
    e->len = mu_nccl_record_size(call->record.head->nranks, call->record.head->nids);
    return MU_PUT;
}

/* Read the record within a call; *ret_there false: there is none. *ret_word: to sleep on. */
static enum muster_status read_record(struct mu_nccl_call *call, struct mu_ctx *ctx, uint64_t *ret_word,
                                      bool *ret_there)
{
    struct mu_table t = mu_table_cells(call->m->seg);
    struct mu_found f;
    enum muster_status status;

    for (uint32_t tries = 0;; tries++) {
        status = mu_table_get(&t, ctx, &call->key, call->room, call->room_size, &f);
        if (status == MUSTER_ABORTED && tries < UNPINNED_TRIES) /* without a slot nothing can be pinned */
            continue;
        if (status || f.len <= call->room_size)
            break;
        if (!make_room(call, f.len))
            return no_memory(call);
    }
    if (status == MUSTER_ABORTED)
        return mu_fail(MUSTER_UNAVAILABLE, "%s changes faster than it can be read", call->what);
    if (status)
        return status;
    *ret_there = f.version != 0;
    *ret_word = f.word;
    call->asker.now = mu_now();
    return f.version && !mu_nccl_record_view(&call->record, call->room, f.len) ? corrupt(call) : MUSTER_OK;
}

static enum muster_status edit(struct mu_nccl_call *call, mu_edit_fn fn, void *arg)
{
    struct mu_table t;
    struct mu_ctx *ctx;
    struct mu_edit e = {.arg = arg};
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    t = mu_table_cells(call->m->seg);
    status = mu_table_edit(&t, ctx, &call->key, MU_EDIT_WANTS_OLD, fn, &e, NULL);
    mu_exit(ctx);
    return status;
}

/* ---- roots of this process --------------------------------------------------------------------------------------- */

static struct mu_nccl_root_key root_key(const struct mu_nccl_call *call)
{
    struct mu_nccl_root_key key = {.handle = call->m->id, .generation = call->generation};

    snprintf(key.name, sizeof key.name, "%s", call->name);
    return key;
}

struct judging {
    struct muster *m;
    bool leaving; /* then what not all have taken is dead */
};

/* Within a call: the generation of a root of ours. */
static bool is_dead(void *arg, const struct mu_nccl_root_key *key)
{
    const struct judging *j = arg;
    struct mu_nccl_call *call = malloc(sizeof *call); /* large: it holds a key */
    char text[MUSTER_NCCL_NAME_MAX + 2], reason[120];
    uint64_t word;
    bool there = false, dead = false;

    if (!call)
        return false;
    memset(call, 0, sizeof *call);
    call->m = j->m;
    call->asker.presence = presence;
    call->asker.arg = call;
    snprintf(text, sizeof text, "U%s", key->name);
    mu_key_make(&call->key, j->m->seg, text, strlen(text));
    if (!read_record(call, NULL, &word, &there) && there)
        dead = mu_nccl_is_dead(&call->record, &call->asker, key->generation, reason) ||
               (j->leaving && call->record.head->generation == key->generation &&
                call->record.head->taken < call->record.head->nranks);
    free(call->room);
    free(call);
    return dead;
}

static void leave(struct muster *m)
{
    struct judging j = {m, true};

    mu_nccl_roots_reap(m->id, is_dead, &j);
}

enum muster_status mu_nccl_look_after_roots(struct muster *m)
{
    struct judging j = {m, false};
    enum muster_status status = mu_enter_read(m);

    if (status)
        return status;
    mu_nccl_roots_reap(m->id, is_dead, &j);
    mu_exit_read();
    return MUSTER_OK;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

struct question {
    struct mu_nccl_call *call;
    enum mu_nccl_answer answer;
};

static enum mu_verdict ask(struct mu_edit *e)
{
    struct question *q = e->arg;
    struct mu_nccl_call *call = q->call;

    if (!e->version) {
        size_t size = mu_nccl_record_size(call->asker.nranks, call->asker.nids);

        e->status = make_room(call, size) ? MUSTER_OK : no_memory(call);
        if (e->status)
            return MU_KEEP;
        memset(call->room, 0, size);
        call->asker.now = mu_now();
        mu_nccl_first(&call->record, call->room, &call->asker);
        q->answer = MU_NCCL_MAKE;
        return put(call, e);
    }
    e->status = copy_old(call, e);
    if (!e->status && call->generation && call->record.head->generation == call->generation &&
        call->record.head->state == MUSTER_NCCL_FAILED) /* that we waited for */
        e->status = mu_fail(MUSTER_UNAVAILABLE, "%s: %s", call->what, call->record.head->reason);
    if (e->status)
        return MU_KEEP;
    q->answer = mu_nccl_ask(&call->record, &call->asker);
    return q->answer == MU_NCCL_MAKE || q->answer == MU_NCCL_TAKE || q->answer == MU_NCCL_OTHER_VERSION ? put(call, e)
                                                                                                        : MU_KEEP;
}

static enum muster_status refuse(struct mu_nccl_call *call, enum mu_nccl_answer answer)
{
    const struct mu_nccl_head *h = call->record.head;
    const struct mu_nccl_asker *a = &call->asker;
    char ours[MU_NCCL_VERSION_TEXT], theirs[MU_NCCL_VERSION_TEXT];

    switch (answer) {
    case MU_NCCL_TWICE:
        return mu_fail(MUSTER_ALREADY_EXISTS,
                       "%s: rank %u has taken generation %" PRIu64
                       " already, and %u of %u ranks have not: an id is for "
                       "one communicator; give it up first (muster_nccl_abandon) if that one failed",
                       call->what, a->rank, h->generation, h->nranks - h->taken, h->nranks);
    case MU_NCCL_CLAIMED:
        return mu_fail(MUSTER_ALREADY_EXISTS,
                       "%s: task %d has taken generation %" PRIu64 " as rank %u; task %d says it is "
                       "that rank, too",
                       call->what, call->record.takers[a->rank].task, h->generation, a->rank, a->task);
    case MU_NCCL_OTHER_COUNT:
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: %u ranks and %u ids here; task %d, rank %u, said %u and %u",
                       call->what, a->nranks, a->nids, h->owner_task, h->owner_rank, h->nranks, h->nids);
    default:
        return mu_fail(
            MUSTER_FAILED_PRECONDITION,
            "%s: this libnccl is version %s (%s), that of task %d, which made the id, is %s: all ranks need the "
            "same",
            call->what, mu_nccl_version_text(a->version, ours), call->nccl->path, h->owner_task,
            mu_nccl_version_text(h->version, theirs));
    }
}

/* The maker that we wait for: how it stands with it. MUSTER_OK: ask again or, with *ret_wait, go on waiting. */
static enum muster_status look_at_maker(struct mu_nccl_call *call, struct mu_ctx *ctx, uint64_t *ret_word,
                                        bool *ret_wait)
{
    const struct mu_nccl_head *h;
    bool there;
    enum muster_status status = read_record(call, ctx, ret_word, &there);

    *ret_wait = false;
    if (status || !there)
        return status;
    h = call->record.head;
    *ret_wait = h->state == MUSTER_NCCL_MAKING && presence(call, h->owner_task, h->owner_incarnation) == MU_NCCL_HERE;
    if (*ret_wait)
        call->generation = h->generation;
    return MUSTER_OK;
}

static enum muster_status ask_until_answered(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w,
                                             enum mu_nccl_answer *ret_answer)
{
    struct mu_table t = mu_table_cells(call->m->seg);
    struct question q = {call, MU_NCCL_WAIT};
    enum muster_status status;

    for (;;) {
        struct mu_edit e = {.arg = &q};
        uint64_t word;
        bool waits;

        mu_wait_look(w);
        status = mu_cluster_error(call->m->seg, call->what);
        if (!status && presence(call, call->asker.task, call->asker.incarnation) != MU_NCCL_HERE)
            status = mu_fail(MUSTER_FAILED_PRECONDITION, "%s: task %d, the caller, is in error itself, or was replaced",
                             call->what, call->asker.task);
        if (!status)
            status = mu_table_edit(&t, ctx, &call->key, MU_EDIT_WANTS_OLD, ask, &e, NULL);
        *ret_answer = q.answer;
        if (status || q.answer != MU_NCCL_WAIT)
            return status;
        status = look_at_maker(call, ctx, &word, &waits);
        if (!status && waits)
            status = mu_wait_on(w, mu_table_bucket(&t, &call->key), word);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            return mu_fail(status, "the deadline passed while task %d made the %s, for %.1f s now",
                           call->record.head->owner_task, call->what,
                           (double)(mu_now() - call->record.head->since) / 1e9);
        if (status)
            return status;
    }
}

/* One look, or as many as it takes until the deadline. */
static enum muster_status get_answer(struct mu_nccl_call *call, muster_deadline deadline,
                                     enum mu_nccl_answer *ret_answer)
{
    struct mu_ctx *ctx;
    struct mu_wait w;
    enum muster_status status = mu_enter(call->m, &ctx);

    if (status)
        return status;
    mu_wait_begin(&w, call->m->seg, ctx, deadline, call->what);
    w.interrupt = &call->m->interrupt;
    status = ask_until_answered(call, ctx, &w, ret_answer);
    mu_wait_end(&w);
    mu_exit(ctx);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct delivery {
    struct mu_nccl_call *call;
    const struct mu_nccl_id *ids; /* NULL: none could be made, for this reason */
    const char *reason;
    bool accepted;
};

static enum mu_verdict deliver(struct mu_edit *e)
{
    struct delivery *d = e->arg;
    struct mu_nccl_call *call = d->call;

    d->accepted = false;
    if (!e->version)
        return MU_KEEP;
    e->status = copy_old(call, e);
    if (e->status)
        return MU_KEEP;
    d->accepted = d->ids ? mu_nccl_made(&call->record, &call->asker, call->generation, d->ids->bytes)
                         : mu_nccl_fail(&call->record, call->generation, call->asker.now, d->reason);
    return d->accepted ? put(call, e) : MU_KEEP;
}

/* Neither ids nor a failure can be said, for the segment is full. Deleting has a reserve: who waits makes its own. */
static enum mu_verdict withdraw(struct mu_edit *e)
{
    struct mu_nccl_call *call = e->arg;

    if (!e->version)
        return MU_KEEP;
    e->status = copy_old(call, e);
    return !e->status && mu_nccl_is_maker(&call->record, &call->asker, call->generation) ? MU_DELETE : MU_KEEP;
}

/* We own call->generation. Outside of any muster call, for libnccl is foreign. */
static enum muster_status make_ids(struct mu_nccl_call *call, struct mu_nccl_id *ret_ids)
{
    struct mu_nccl_root_key key = root_key(call);
    uint64_t now = mu_now(), expires = now + call->asker.expiry < now ? UINT64_MAX : now + call->asker.expiry;
    enum muster_status made = mu_nccl_roots_make(call->nccl, &key, expires, call->asker.nids, ret_ids);
    struct delivery d = {.call = call, .ids = made ? NULL : ret_ids};
    char reason[120];
    enum muster_status status;

    if (made) {
        snprintf(reason, sizeof reason, "task %d: %.100s", call->asker.task, muster_last_error());
        d.reason = reason;
    }
    status = edit(call, deliver, &d);
    if (status == MUSTER_RESOURCE_EXHAUSTED && edit(call, withdraw, call) == MUSTER_OK)
        status = mu_fail(status, "%s: the segment is full, so it cannot be handed out", call->what);
    if (made)
        return mu_fail(made, "%s: %s", call->what, reason);
    if (!status && d.accepted)
        return MUSTER_OK;
    mu_nccl_roots_end(&key);
    return status ? status
                  : mu_fail(MUSTER_ABORTED, "%s: generation %" PRIu64 " was given up while this task made it: %s",
                            call->what, call->generation, call->record.head->reason);
}

enum muster_status mu_nccl_take(struct mu_nccl_call *call, muster_deadline deadline, struct mu_nccl_id *ret_ids)
{
    enum mu_nccl_answer answer;
    enum muster_status status = mu_nccl_look_after_roots(call->m);

    if (!status)
        status = get_answer(call, deadline, &answer);
    if (status)
        return status;
    call->generation = call->record.head->generation;
    if (answer == MU_NCCL_MAKE)
        return make_ids(call, ret_ids);
    if (answer != MU_NCCL_TAKE)
        return refuse(call, answer);
    memcpy(ret_ids, call->record.ids, (size_t)call->asker.nids * sizeof *ret_ids);
    return MUSTER_OK;
}

/* ---- afterwards -------------------------------------------------------------------------------------------------- */

enum muster_status mu_nccl_watch(struct mu_nccl_call *call, uint64_t wait_ns)
{
    struct mu_ctx *ctx = NULL;
    struct mu_wait w;
    char reason[120];
    uint64_t word;
    bool there;
    enum muster_status status = mu_enter_wait(call->m, &ctx);

    if (status)
        return status;
    mu_wait_begin(&w, call->m->seg, ctx, mu_now() + wait_ns, call->what);
    w.interrupt = &call->m->interrupt;
    for (;;) {
        struct mu_table t = mu_table_cells(call->m->seg);

        mu_wait_look(&w);
        status = mu_cluster_error(call->m->seg, call->what);
        if (!status)
            status = read_record(call, ctx, &word, &there);
        if (!status && there && mu_nccl_is_dead(&call->record, &call->asker, call->generation, reason))
            status = mu_fail(MUSTER_ABORTED, "%s, generation %" PRIu64 ": %s", call->what, call->generation, reason);
        if (status || !wait_ns)
            break;
        status = mu_wait_on(&w, mu_table_bucket(&t, &call->key), word);
        if (status == MUSTER_DEADLINE_EXCEEDED) {
            status = MUSTER_OK;
            break;
        }
        if (status)
            break;
    }
    mu_wait_end(&w);
    mu_exit(ctx);
    return status;
}

struct farewell {
    struct mu_nccl_call *call;
    const char *reason;
    uint64_t generation; /* given up */
};

static enum mu_verdict give_up(struct mu_edit *e)
{
    struct farewell *f = e->arg;

    if (!e->version)
        return MU_KEEP;
    e->status = copy_old(f->call, e);
    if (e->status)
        return MU_KEEP;
    f->generation = f->call->record.head->generation;
    return mu_nccl_fail(&f->call->record, f->call->generation, f->call->asker.now, f->reason) ? put(f->call, e)
                                                                                              : MU_KEEP;
}

enum muster_status mu_nccl_give_up(struct mu_nccl_call *call, const char *reason)
{
    struct farewell f = {.call = call, .reason = reason, .generation = call->generation};
    struct mu_nccl_root_key key;
    enum muster_status status = edit(call, give_up, &f);

    if (!call->generation)
        call->generation = f.generation;
    key = root_key(call);
    mu_nccl_roots_end(&key);
    return status;
}

static enum mu_verdict finish(struct mu_edit *e)
{
    struct mu_nccl_call *call = e->arg;

    if (!e->version)
        return MU_KEEP;
    e->status = copy_old(call, e);
    if (e->status || !mu_nccl_done(&call->record, call->generation, call->asker.rank))
        return MU_KEEP;
    return call->record.head->done == call->record.head->nranks && !mu_nccl_has_died(&call->record) ? MU_DELETE
                                                                                                    : put(call, e);
}

enum muster_status mu_nccl_finish(struct mu_nccl_call *call)
{
    return edit(call, finish, call);
}

enum muster_status mu_nccl_read(struct mu_nccl_call *call, bool *ret_there)
{
    uint64_t word;
    enum muster_status status = mu_enter_read(call->m);

    if (status)
        return status;
    status = read_record(call, NULL, &word, ret_there);
    mu_exit_read();
    return status;
}

void mu_nccl_missing(struct mu_nccl_call *call, char *text, size_t size)
{
    uint32_t missing = 0, shown = 0;
    size_t at = 0;
    bool there = false;

    text[0] = 0;
    if (!mu_nccl_read(call, &there) && there && call->record.head->generation == call->generation)
        for (uint32_t i = 0; i < call->record.head->nranks; i++) {
            if (call->record.takers[i].flags & MU_NCCL_TAKEN)
                continue;
            if (++missing <= 8 && at < size) {
                at += (size_t)snprintf(text + at, size - at, "%s%u", shown ? ", " : "rank ", i);
                shown++;
            }
        }
    if (missing > shown && at < size)
        snprintf(text + at, size - at, " and %u more", missing - shown);
}

/* ---- who asks ---------------------------------------------------------------------------------------------------- */

static enum muster_status check_options(const struct muster_nccl_options *options)
{
    if (options && options->flags)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "there are no flags 0x%x of NCCL options", options->flags);
    return MUSTER_OK;
}

/* What a rank says of itself. */
enum muster_status mu_nccl_introduce(struct mu_nccl_call *call, const struct mu_nccl *nccl, uint32_t nranks,
                                     uint32_t rank, uint32_t count, const struct muster_nccl_options *options)
{
    enum muster_status status = check_options(options);

    if (status)
        return status;
    if (!nranks || nranks > MUSTER_NCCL_RANKS_MAX || rank >= nranks)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: rank %u of %u; there may be 1 to %u ranks, numbered from 0",
                       call->what, rank, nranks, MUSTER_NCCL_RANKS_MAX);
    if (!count || count > nranks || count > MUSTER_NCCL_IDS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: %u ids; there may be 1 to %u, and no more than ranks", call->what,
                       count, MUSTER_NCCL_IDS_MAX);
    if (call->m->task_id < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s: only tasks can be ranks, this process is an observer",
                       call->what);
    if (mu_is_bridged(call->m->seg) && nranks > call->m->seg->local_tasks)
        return mu_fail(MUSTER_UNIMPLEMENTED,
                       "%s: %u ranks, and this host has %u tasks of job %s: ids are handed out among the tasks of one "
                       "host; to others, give the id by a key (muster_kv_set)",
                       call->what, nranks, call->m->seg->local_tasks, call->m->seg->job);
    call->asker.nranks = nranks;
    call->asker.rank = rank;
    call->asker.nids = count;
    call->asker.expiry = options && options->expiry_ns ? options->expiry_ns : EXPIRY_NS;
    call->nccl = nccl;
    call->asker.version = nccl->version;
    call->m->at_leave = leave;
    return MUSTER_OK;
}
