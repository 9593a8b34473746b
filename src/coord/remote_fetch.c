/*
 * coord/remote_fetch.c: fetches of keys of which there is no copy here, on a host that is not the leader's.
 *
 * However many wire clients want a key, it is asked for by one call: a key wait (coord/key_wait.c) has one fetch, which
 * is under way, or waits for its turn, or rests: then the leader has said that there is no such key, and will send it
 * when it comes, until a new round of the bridge begins. What it sends is found as what others write is found.
 *
 * An answer serves the wire clients that had asked before the fetch began. One that asks later may know of something
 * newer, so the key is fetched anew for it, and for all others that have come meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kv/remote.h"
#include "coord/remote.h"
#include "base/list.h"
#include "segment/hosts.h"

enum { FETCHING_MOST = 256 /* at a time */ };

struct mu_key_fetch {
    struct mu_coord_call call;
    struct mu_kv_read read;
    struct mu_key_wait *wait;
    struct mu_key_fetch *prev, *next; /* in the queue */
    bool queued;
    bool rests;            /* there is no such key, and the leader knows that somebody here waits for it, */
    uint32_t round;        /* in this round */
    bool whole;            /* no copy of it lasts */
    bool full;             /* there was no room for its value */
    struct mu_blob *value; /* that comes */
};

const size_t mu_key_fetch_bytes = sizeof(struct mu_key_fetch);

static void fetch_enqueue(struct mu_coord_remote *remote, struct mu_key_fetch *f)
{
    if (f->queued || f->call.open)
        return;
    f->queued = true;
    f->rests = false;
    MU_QUEUE_APPEND(remote->queue, remote->queue_end, f);
}

static void fetch_dequeue(struct mu_coord_remote *remote, struct mu_key_fetch *f)
{
    if (!f->queued)
        return;
    MU_QUEUE_DROP(remote->queue, remote->queue_end, f);
    f->queued = false;
}

static void fetch_drop_value(struct mu_key_fetch *f)
{
    mu_coord_call_hold(&f->call, 0);
    mu_blob_drop(f->value);
    f->value = NULL;
}

void mu_coord_key_fetch_drop(struct mu_coord *coord, struct mu_key_fetch *f)
{
    if (!f)
        return;
    coord->remote->fetching -= f->call.open;
    mu_coord_call_end(&f->call);
    fetch_dequeue(coord->remote, f);
    fetch_drop_value(f);
    mu_coord_call_free(&f->call);
}

/* ---- answers to waiters ---- */

static void list_fail(struct mu_coord *coord, struct mu_coord_pending_list *l, enum muster_status status,
                      const char *text)
{
    while (l->first)
        mu_coord_pending_answer(coord, l->first, status, MU_PAYLOAD_NONE, text);
}

/* All of them; the wait is gone. */
static void key_wait_fail(struct mu_coord *coord, struct mu_key_wait *w, enum muster_status status, const char *text)
{
    list_fail(coord, &w->requests, status, text);
    list_fail(coord, &w->tries, status, text);
    mu_coord_key_wait_drop(coord, w);
}

/* The waiters know the key by the name that they called it. */
static void try_deny(struct mu_coord *coord, struct mu_coord_pending *p)
{
    char text[1100];

    snprintf(text, sizeof text, "Config key %s not found.", p->owned[0] ? (char *)p->owned[0] : "");
    mu_coord_pending_answer(coord, p, MUSTER_NOT_FOUND, mu_coord_key_payload(MUSTER_NOT_FOUND), text);
}

static void key_wait_deny_tries(struct mu_coord *coord, struct mu_key_wait *w)
{
    for (struct mu_coord_pending *p = w->tries.first, *next; p; p = next) {
        next = p->next;
        if (!p->late)
            try_deny(coord, p);
    }
}

static void list_give(struct mu_coord *coord, struct mu_coord_pending_list *l, struct mu_blob *value, uint64_t version)
{
    for (struct mu_coord_pending *p = l->first, *next; p; p = next) {
        next = p->next;
        if (!p->late)
            mu_coord_key_wait_grant(coord, p, value, version);
    }
}

/* ---- beginning ---- */

/* The round first: what is forgotten after it begins another. */
static enum muster_status fetch_begin(struct mu_coord *coord, struct mu_key_fetch *f)
{
    struct mu_key_wait *w = f->wait;
    enum muster_status status;

    fetch_drop_value(f);
    f->round = mu_host_bridge_round(coord->seg);
    for (struct mu_coord_pending *p = w->requests.first; p; p = p->next)
        p->late = false;
    for (struct mu_coord_pending *p = w->tries.first; p; p = p->next)
        p->late = false;
    mu_kv_read_begin(&f->read, (uint8_t)((f->whole ? MU_READ_WHOLE : 0) | (w->requests.count ? MU_READ_WAITS : 0)));
    status = mu_coord_call_make(coord, &f->call);
    coord->remote->fetching += !status;
    return status;
}

static void fetches_go(struct mu_coord *coord)
{
    struct mu_coord_remote *remote = coord->remote;
    char text[MU_COORD_TEXT];

    while (remote->queue && remote->fetching < FETCHING_MOST) {
        struct mu_key_fetch *f = remote->queue;
        enum muster_status status;

        fetch_dequeue(remote, f);
        status = fetch_begin(coord, f);
        if (status == MUSTER_RESOURCE_EXHAUSTED) { /* no lane, or no memory: at the next look, 100 ms later at most */
            fetch_enqueue(remote, f);
            return;
        }
        if (status) {
            snprintf(text, sizeof text, "%s", muster_last_error());
            key_wait_fail(coord, f->wait, status, text);
        }
    }
}

/* ---- what the leader says ---- */

/* There is no such key. */
static void fetch_absent(struct mu_coord *coord, struct mu_key_fetch *f)
{
    struct mu_key_wait *w = f->wait;

    fetch_drop_value(f);
    key_wait_deny_tries(coord, w);
    if (!w->requests.count && !w->tries.count) {
        mu_coord_key_wait_drop(coord, w);
        return;
    }
    f->rests = !w->tries.count && (f->read.flags & MU_READ_WAITS) && f->round == mu_host_bridge_round(coord->seg);
    f->whole = false;
    if (!f->rests)
        fetch_enqueue(coord->remote, f);
}

/* There is a copy of it here; unless that went as fast as it came. */
static void fetch_copied(struct mu_coord *coord, struct mu_key_fetch *f)
{
    if (mu_coord_key_wait_look(coord, f->wait))
        return;
    f->whole = true;
    fetch_enqueue(coord->remote, f);
}

/* All of it is here. */
static void fetch_complete(struct mu_coord *coord, struct mu_key_fetch *f)
{
    struct mu_key_wait *w = f->wait;

    list_give(coord, &w->requests, f->value, f->read.version);
    list_give(coord, &w->tries, f->value, f->read.version);
    fetch_drop_value(f);
    if (!w->requests.count && !w->tries.count) {
        mu_coord_key_wait_drop(coord, w);
    } else {
        f->whole = false;
        fetch_enqueue(coord->remote, f);
    }
}

/* Where its value goes. A fetch that finds no room begins anew when others are done. */
static enum muster_status fetch_room(struct mu_kv_read *r)
{
    struct mu_key_fetch *f = r->arg;
    enum muster_status status;

    fetch_drop_value(f);
    f->full = true;
    status = mu_coord_call_hold(&f->call, r->len);
    if (status)
        return status;
    f->value = mu_blob_new_in(f->call.coord->o.account, false, r->len);
    if (!f->value)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: no memory for its value", r->steps.about);
    f->full = false;
    r->to = f->value->bytes;
    return MUSTER_OK;
}

static void fetch_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    struct mu_key_fetch *f = (struct mu_key_fetch *)call;
    struct mu_coord *coord = call->coord;
    bool full = f->full;

    coord->remote->fetching--;
    f->full = false;
    if (full)
        fetch_enqueue(coord->remote, f);
    else if (status)
        key_wait_fail(coord, f->wait, status, text);
    else if (f->read.what == MU_READ_ABSENT)
        fetch_absent(coord, f);
    else if (f->read.what == MU_READ_COPIED)
        fetch_copied(coord, f);
    else
        fetch_complete(coord, f);
}

/* ---- waits ---- */

void mu_coord_key_fetch_want(struct mu_coord *coord, struct mu_key_wait *w, struct mu_coord_pending *p)
{
    struct mu_key_fetch *f = w->fetch;

    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f) {
            key_wait_fail(coord, w, MUSTER_RESOURCE_EXHAUSTED, "no memory for a question about a key");
            return;
        }
        f->wait = w;
        f->call.coord = coord;
        f->call.steps = &f->read.steps;
        f->call.ended = fetch_ended;
        f->read.key = w->key;
        f->read.key_len = w->len;
        f->read.room = fetch_room;
        f->read.arg = f;
        w->fetch = f;
    }
    if (f->call.open)
        p->late = true;
    else if (!f->rests || p->list == &w->tries)
        fetch_enqueue(coord->remote, f);
    fetches_go(coord);
}

static void fetches_fail(struct mu_coord *coord, enum muster_status status, const char *text)
{
    char words[MU_COORD_TEXT];

    while (coord->first_spot) {
        struct mu_key_wait *w = coord->first_spot->waits;

        snprintf(words, sizeof words, "key %.*s: %s", (int)(w->len < 120 ? w->len : 120), w->key, text);
        key_wait_fail(coord, w, status, words);
    }
}

static void fetches_renew(struct mu_coord *coord)
{
    for (const struct mu_key_wait_spot *s = coord->first_spot; s; s = s->next)
        for (const struct mu_key_wait *w = s->waits; w; w = w->next)
            if (w->fetch && w->fetch->rests)
                fetch_enqueue(coord->remote, w->fetch);
}

/* "the leader of the job, host a, is lost": as a task of the C library is told. */
static void words_of_loss(const struct mu_coord *coord, char *text, size_t size)
{
    char name[64];

    mu_host_name(coord->seg, 0, name, sizeof name);
    snprintf(text, size, "the leader of the job, host %s, is lost", name);
}

/* Has the leader been lost, has a new round begun? */
static void fetches_look(struct mu_coord *coord)
{
    struct mu_coord_remote *remote = coord->remote;
    uint32_t round;
    char text[128];

    if (!remote)
        return;
    round = mu_host_bridge_round(coord->seg);
    if (mu_host_bridge_state(coord->seg) == MU_BRIDGE_LOST) {
        words_of_loss(coord, text, sizeof text);
        fetches_fail(coord, MUSTER_UNAVAILABLE, text);
        return;
    }
    if (round != remote->round) {
        remote->round = round;
        fetches_renew(coord);
    }
    fetches_go(coord);
}

const struct mu_coord_feature mu_key_fetches_feature = {.look = fetches_look};
