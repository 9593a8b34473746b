/*
 * coord/work.c: what may take longer than one turn of the loop: deleting a directory, listing or counting one.
 *
 * The first piece is done at once, and most ask no more. What is left goes on piece by piece, each about a millisecond,
 * when the loop has nothing else to do. A few works take turns, so that a small one does not wait for a large one;
 * those behind them have not begun, and hold nothing. A delete that has begun goes on to its end, also when its client
 * has gone or may not wait: what others see of it is not to depend on that. One that has not is forgotten with its
 * client, as a listing is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/change.h"
#include "kv/survey.h"
#include "coord/remote.h"
#include "segment/hosts.h"
#include "base/list.h"
#include "segment/stats.h"

#define LOOKS     8192u /* at buckets and keys, of a piece */
#define RUNNING   4u    /* works that have begun */
#define LEAST     4096u /* bytes of an answer, at first */
#define AN_ENTRY  2u    /* what it costs to write one, in looks, */
#define ITS_BYTES 1024u /* and so many of its bytes */

struct mu_work {
    struct mu_work *prev, *next;
    struct mu_coord_pending *p; /* the request that waits for it; NULL: none any more */
    bool lists, begun, surveyed;
    bool counts; /* a listing of which the number alone is wanted */
    /* a delete */
    struct mu_kv_change change;
    struct mu_kv_tree tree;
    /* a listing, and its answer's bytes where they are made here */
    struct mu_survey survey;
    size_t (*write)(const struct muster_kv_entry *entry, uint8_t *to);
    size_t written; /* entries */
    struct mu_blob *answer;
    size_t len, counted; /* of the answer; of what was surveyed, in the account */
    char *path;          /* of the directory, with a '/' behind it */
    size_t path_len;
    struct mu_key key;
};

static void free_work(struct mu_coord *coord, struct mu_work *w)
{
    if (coord->o.account)
        mu_account_give(coord->o.account, w->counted);
    mu_kv_tree_done(&w->tree);
    mu_survey_done(&w->survey);
    mu_blob_drop(w->answer);
    free(w->path);
    free(w);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static bool make_room(struct mu_coord *coord, struct mu_work *w, size_t more)
{
    size_t room = w->answer ? w->answer->len : LEAST;
    struct mu_blob *larger;

    while (room - w->len < more)
        room *= 2;
    if (w->answer && room == w->answer->len)
        return true;
    larger = mu_blob_grow(coord->o.account, w->answer, room);
    if (larger)
        w->answer = larger;
    return larger != NULL;
}

/* What the survey has read is counted. */
static bool count_survey(struct mu_coord *coord, struct mu_work *w)
{
    const struct mu_snapshot *s = &w->survey.snapshot;
    size_t bytes = s->size + s->capacity * sizeof *s->entries;

    if (!coord->o.account || bytes <= w->counted)
        return true;
    if (!mu_account_take(coord->o.account, w->counted, bytes - w->counted))
        return false;
    w->counted = bytes;
    return true;
}

/* True: the whole answer is there, or there is no memory for it. */
static bool write_piece(struct mu_coord *coord, struct mu_work *w, enum muster_status *ret_status)
{
    const struct mu_snapshot *s = &w->survey.snapshot;

    for (size_t spent = 0; w->written < s->count && spent < LOOKS; w->written++) {
        const struct muster_kv_entry *e = &s->entries[w->written];
        size_t len = w->write(e, NULL);

        if (!make_room(coord, w, len)) {
            *ret_status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an answer of %zu keys", s->count);
            return true;
        }
        w->len += len > 0 ? w->write(e, w->answer->bytes + w->len) : 0;
        spent += AN_ENTRY + len / ITS_BYTES;
    }
    return w->written == s->count;
}

static bool list_piece(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_work *w, enum muster_status *ret_status)
{
    bool ended = true;

    if (!w->surveyed) {
        if (!mu_survey_step(coord->seg, ctx, &w->survey, LOOKS, ret_status))
            ended = false;
        if (!*ret_status && !count_survey(coord, w))
            *ret_status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no room for so many keys: too much is held already for "
                                                             "clients");
        if (*ret_status || !ended)
            return *ret_status != MUSTER_OK;
        w->surveyed = true;
        w->survey.snapshot.count =
            mu_coord_below(w->survey.snapshot.entries, w->survey.snapshot.count, w->path, w->path_len);
    }
    return !w->write || write_piece(coord, w, ret_status);
}

/* True: it has ended, with *ret_status. */
static bool work_piece(struct mu_coord *coord, struct mu_work *w, enum muster_status *ret_status)
{
    struct mu_ctx *ctx;
    bool ended;

    *ret_status = mu_enter(coord->m, &ctx);
    if (*ret_status)
        return true;
    w->begun = true;
    if (w->lists)
        ended = list_piece(coord, ctx, w, ret_status);
    else
        ended = mu_kv_delete_piece(coord->seg, ctx, &w->tree, LOOKS, ret_status);
    if (ended && w->change.result)
        mu_count(&ctx->own->kv_writes, 1);
    if (!w->lists && mu_is_leader(coord->seg))
        mu_bell_ring_always(coord->seg); /* other hosts are told */
    mu_exit(ctx);
    return ended;
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void works_go(uv_idle_t *idle);

static void work_append(struct mu_coord *coord, struct mu_work *w)
{
    MU_QUEUE_APPEND(coord->first_work, coord->last_work, w);
    coord->num_works++;
    uv_idle_start(&coord->idle, works_go);
}

static void take_out(struct mu_coord *coord, struct mu_work *w)
{
    MU_QUEUE_DROP(coord->first_work, coord->last_work, w);
    coord->num_works--;
    if (!coord->num_works)
        uv_idle_stop(&coord->idle);
}

/* Its client waits no more. */
static void work_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct mu_work *w = p->at;

    w->p = NULL;
    if (w->begun && !w->lists)
        return;
    take_out(coord, w);
    free_work(coord, w);
}

/* It cannot wait; a delete that has begun goes on without it. */
static void turn_away(struct mu_coord *coord, struct mu_coord_request *request, struct mu_work *w)
{
    bool goes_on = w->begun && !w->lists;
    char text[400];

    snprintf(text, sizeof text, "%s%s", muster_last_error(), goes_on ? "; this delete has begun, and goes on" : "");
    if (goes_on)
        work_append(coord, w);
    else
        free_work(coord, w);
    mu_coord_answer(request, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, text);
}

/* What is left of it waits for its turn. */
static void put_off(struct mu_coord *coord, struct mu_coord_request *request, struct mu_work *w)
{
    struct mu_coord_pending *p = mu_coord_pending_new(coord, request, &coord->work, sizeof *w + w->path_len);

    if (!p) {
        turn_away(coord, request, w);
        return;
    }
    p->at = w;
    p->dropped = work_dropped;
    w->p = p;
    work_append(coord, w);
}

static void answer_point_work(struct mu_coord_request *request, const struct mu_work *w)
{
    if (!w->lists)
        mu_coord_result(request, w->change.op, w->change.result);
    if (w->counts)
        request->counter = (int64_t)w->survey.snapshot.count;
    if (!w->lists || w->counts)
        return;
    if (w->answer)
        mu_blob_cut(w->answer, w->len);
    request->blob = w->answer;
    request->value = w->answer ? w->answer->bytes : NULL;
    request->len = w->len;
    request->entries = w->write ? NULL : w->survey.snapshot.entries;
    request->num_entries = w->write ? 0 : w->survey.snapshot.count;
}

static void work_begin(struct mu_coord *coord, struct mu_coord_request *request, struct mu_work *w)
{
    enum muster_status status;

    if (coord->num_works >= RUNNING || !work_piece(coord, w, &status)) {
        put_off(coord, request, w);
        return;
    }
    if (status) {
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
    } else {
        answer_point_work(request, w);
        mu_coord_answer(request, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    }
    free_work(coord, w);
}

/* It has ended; what the answer points to goes with that. */
static void work_answer(struct mu_coord *coord, struct mu_work *w, enum muster_status status)
{
    struct mu_coord_pending *p = w->p;

    if (!p)
        return;
    mu_coord_pending_answer(coord, p, status, MU_PAYLOAD_NONE, status ? muster_last_error() : NULL);
    if (status)
        return;
    answer_point_work(p->request, w);
    if (!w->lists || w->counts)
        return;
    if (w->write) {
        p->shared = w->answer;
        w->answer = NULL;
        return;
    }
    p->owned[0] = w->survey.snapshot.entries;
    p->owned[1] = w->survey.snapshot.bytes;
    w->survey.snapshot.entries = NULL;
    w->survey.snapshot.bytes = NULL;
}

static void works_go(uv_idle_t *idle)
{
    struct mu_coord *coord = idle->data;
    struct mu_work *w = coord->first_work;
    uint32_t running = coord->num_works < RUNNING ? coord->num_works : RUNNING;
    enum muster_status status;

    for (uint32_t n = running ? coord->work_turn++ % running : 0; n > 0; n--)
        w = w->next;
    if (w && work_piece(coord, w, &status)) {
        work_answer(coord, w, status);
        take_out(coord, w);
        free_work(coord, w);
    }
    mu_coord_deliver(coord);
}

static void works_stop(struct mu_coord *coord)
{
    struct mu_work *w;

    while ((w = coord->first_work)) {
        if (w->p)
            mu_coord_pending_answer(coord, w->p, MUSTER_CANCELLED, MU_PAYLOAD_NONE, "KeyValueStore destructed");
        take_out(coord, w);
        free_work(coord, w);
    }
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

/* NULL: it was answered. */
static struct mu_work *work_of(struct mu_coord *coord, struct mu_coord_request *request, const char *key,
                               size_t key_len)
{
    struct mu_work *w;
    enum muster_status status;

    request->counter = 0;
    if (mu_coord_refuses(coord, request))
        return NULL;
    w = malloc(sizeof *w);
    if (w)
        memset(w, 0, offsetof(struct mu_work, key));
    status = w ? mu_coord_directory(key, key_len, &w->path, &w->path_len)
               : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a directory");
    if (!status && w->path_len) {
        w->survey.snapshot.prefix = w->path;
        w->survey.snapshot.prefix_len = mu_coord_listed(w->path_len);
        return w;
    }
    if (w)
        free(w->path);
    free(w);
    if (status)
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
    else /* nothing is under the root: no key begins with a '/' */
        mu_coord_answer(request, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    return NULL;
}

void mu_coord_get_dir(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_work *w;

    request->entries = NULL;
    request->num_entries = 0;
    request->value = NULL;
    request->len = 0;
    w = work_of(coord, request, key, key_len);
    if (!w)
        return;
    if (coord->remote) {
        mu_coord_remote_list(coord, request, w->path, w->path_len);
        w->path = NULL;
        free_work(coord, w);
        mu_coord_deliver(coord);
        return;
    }
    w->lists = true;
    w->write = request->write;
    w->survey.snapshot.of = MU_SNAPSHOT_VALUES;
    work_begin(coord, request, w);
}

void mu_coord_count(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_work *w = work_of(coord, request, key, key_len);

    if (!w)
        return;
    if (w->path_len > MU_KV_LONG_BEGINS) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "keys are not counted below a name of %zu bytes; %u is the most",
                w->path_len - 1, MU_KV_LONG_BEGINS - 1);
        mu_coord_fail(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_NONE);
        free_work(coord, w);
        return;
    }
    if (coord->remote) {
        mu_coord_remote_count(coord, request, w->path, w->path_len);
        free_work(coord, w);
        mu_coord_deliver(coord);
        return;
    }
    w->lists = w->counts = true;
    w->survey.snapshot.of = MU_SNAPSHOT_KEYS;
    work_begin(coord, request, w);
}

static bool is_root(const char *key, size_t len)
{
    size_t i = 0;

    while (i < len && key[i] == '/')
        i++;
    return i == len || !key[i];
}

void mu_coord_delete(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_coord_head head = {0};
    enum muster_status status;
    struct mu_work *w;

    if (is_root(key, key_len)) { /* nothing is below it, but it is a key */
        mu_coord_erase(coord, request, key, key_len);
        return;
    }
    w = work_of(coord, request, key, key_len);
    if (!w)
        return;
    w->change.op = MU_OP_KV_DELETE;
    w->change.key = &w->key;
    w->tree.change = &w->change;
    if (w->path_len > MU_KV_LONG_BEGINS) {
        w->change.value = w->path;
        w->change.len = w->path_len;
    }
    status = mu_coord_key(coord, w->path, w->path_len - 1, &w->key, &head);
    free(head.key);
    if (!status && !coord->remote) {
        work_begin(coord, request, w);
        return;
    }
    if (status)
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
    else
        mu_coord_remote_change(coord, request, MU_OP_KV_DELETE, &w->key, 0, w->change.value, w->change.len);
    free_work(coord, w);
    mu_coord_deliver(coord);
}

const struct mu_coord_feature mu_work_feature = {.stop = works_stop};
