/*
 * compat/tcpstore_wait.c: WAIT, BARRIER and CANCEL_WAIT.
 *
 * A wait counts the keys that are missing when it is asked; each that comes is taken off, also when it has gone again
 * by the time the last one comes; on a host that is not the leader's one that goes at once may be missed. While it
 * waits its connection is served on. For each key two asks are at the desk: a get of the key itself, and one of the
 * next item of the queue of that name. Whoever waits for a queue that has something is told so at once; who was there
 * before is told of an item only if nobody else has been.
 *
 * At a barrier the key counts who has come; the last one leaves a sign, for which the others wait.
 */
#include "compat/tcpstore_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_MAX 64u /* of one connection: clients have one */

struct item {
    struct mu_ask plain, queue;
    struct mu_ts_wait *wait;
    struct mu_ts_field key; /* in the wait's copy of the request */
    uint64_t tail, head;    /* of the queue; the head's next item is waited for */
    bool has_come;
};

struct mu_ts_wait {
    struct mu_ts_wait *next, *before;
    struct mu_ts_conn *conn;
    uint32_t num, missing;
    bool is_whole; /* every key has been asked for */
    size_t bytes;
    uint8_t *request;
    struct item items[];
};

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void free_wait(struct mu_ts_wait *w)
{
    struct mu_ts_conn *conn = w->conn;
    struct mu_desk *desk = conn->store->options.desk;

    for (uint32_t i = 0; i < w->num; i++) {
        mu_desk_drop(desk, &w->items[i].plain);
        mu_desk_drop(desk, &w->items[i].queue);
    }
    *(w->before ? &w->before->next : &conn->waits) = w->next;
    if (w->next)
        w->next->before = w->before;
    if (--conn->num_waits == 0)
        conn->store->stats.waiting--;
    mu_ts_unhold(conn, w->bytes);
    free(w);
}

void mu_ts_drop_waits(struct mu_ts_conn *conn)
{
    while (conn->waits)
        free_wait(conn->waits);
}

static void wake_if_all_have_come(struct mu_ts_wait *w)
{
    struct mu_ts_conn *conn = w->conn;

    if (!w->is_whole || w->missing > 0)
        return;
    free_wait(w);
    mu_ts_out_u8(conn, 0);
    if (!conn->is_running)
        mu_ts_dirty(conn);
}

static void came(struct item *item)
{
    struct mu_ts_wait *w = item->wait;
    struct mu_desk *desk = w->conn->store->options.desk;

    if (item->has_come)
        return;
    item->has_come = true;
    mu_desk_drop(desk, &item->plain);
    mu_desk_drop(desk, &item->queue);
    w->missing--;
    wake_if_all_have_come(w);
}

/* Too many wait, or the desk has closed. */
static void failed(struct item *item, const struct mu_ask *ask)
{
    struct mu_ts_conn *conn = item->wait->conn;
    char why[200];

    snprintf(why, sizeof why, "%s", ask->text);
    if (ask->status == MUSTER_INTERNAL || ask->status == MUSTER_CANCELLED)
        mu_ts_close(conn);
    else
        mu_ts_dismiss(conn, "it cannot wait: %s", why);
}

/* ---- the key itself ---------------------------------------------------------------------------------------------- */

static void key_answered(struct mu_ask *ask)
{
    struct item *item = (struct item *)((char *)ask - offsetof(struct item, plain));

    if (ask->status)
        failed(item, ask);
    else
        came(item);
}

static void prepare(struct mu_ask *ask, void (*answered)(struct mu_ask *ask))
{
    ask->answered = answered;
    ask->parked = NULL;
    ask->value = NULL;
    ask->len = 0;
}

/* ---- the queue of that name -------------------------------------------------------------------------------------- */

static struct mu_ts_name *queue_of(struct item *item)
{
    struct mu_ts_name *name = &item->wait->conn->store->key;

    mu_ts_name(name, MU_TS_QUEUES, item->wait->request + item->key.at, item->key.len);
    return name;
}

static void wait_for_item(struct item *item);

/* One client is told of an item. */
static bool is_told_already(struct item *item)
{
    struct mu_tcpstore *store = item->wait->conn->store;
    struct mu_ts_name *name = queue_of(item);

    mu_ts_queue_item(name, item->head + 1);
    if (store->told.len == name->len && memcmp(store->told.text, name->text, name->len) == 0)
        return true;
    store->told.len = name->len;
    memcpy(store->told.text, name->text, name->len);
    return false;
}

static void item_answered(struct mu_ask *ask)
{
    struct item *item = (struct item *)((char *)ask - offsetof(struct item, queue));

    if (ask->status) {
        failed(item, ask);
    } else if (is_told_already(item)) {
        item->head++;
        wait_for_item(item);
    } else {
        came(item);
    }
}

static void wait_for_item(struct item *item)
{
    struct mu_ts_name *name = queue_of(item);

    mu_ts_queue_item(name, item->head + 1);
    prepare(&item->queue, item_answered);
    mu_desk_get(item->wait->conn->store->options.desk, &item->queue, name->text, name->len);
}

static uint64_t count_in(const struct mu_ask *ask)
{
    int64_t count;

    return ask->status == MUSTER_OK && mu_ts_number(ask->value, ask->len, &count) && count > 0 ? (uint64_t)count : 0;
}

static void head_answered(struct mu_ask *ask)
{
    struct item *item = (struct item *)((char *)ask - offsetof(struct item, queue));

    if (ask->status && ask->status != MUSTER_NOT_FOUND) {
        failed(item, ask);
        return;
    }
    item->head = count_in(ask);
    if (item->tail > item->head)
        came(item);
    else
        wait_for_item(item);
}

/* One of the queue's counts. In a job of several hosts what lies here may be older than what its clients have done
 * elsewhere, and who waited for an item that is gone would wait for ever: adding nothing asks the leader. */
static void read_count(struct item *item, const char *part, bool is_old, void (*answered)(struct mu_ask *ask))
{
    struct mu_tcpstore *store = item->wait->conn->store;
    struct mu_ts_name *name = queue_of(item);

    mu_ts_name_under(name, part);
    prepare(&item->queue, answered);
    if (is_old && mu_desk_options(store->options.desk)->lanes)
        mu_desk_increment(store->options.desk, &item->queue, name->text, name->len, 0);
    else
        mu_desk_try_get(store->options.desk, &item->queue, name->text, name->len);
}

static void true_tail_answered(struct mu_ask *ask)
{
    struct item *item = (struct item *)((char *)ask - offsetof(struct item, queue));

    if (ask->status && ask->status != MUSTER_NOT_FOUND) {
        failed(item, ask);
        return;
    }
    item->tail = count_in(ask);
    read_count(item, "head", true, head_answered);
}

static void tail_answered(struct mu_ask *ask)
{
    struct item *item = (struct item *)((char *)ask - offsetof(struct item, queue));

    if (ask->status && ask->status != MUSTER_NOT_FOUND)
        failed(item, ask);
    else if (count_in(ask))
        read_count(item, "tail", true, true_tail_answered);
    else
        wait_for_item(item); /* the leader has no such queue either */
}

static void look_at_queue(struct item *item)
{
    read_count(item, "tail", false, tail_answered);
}

/* ---- WAIT -------------------------------------------------------------------------------------------------------- */

/* Of so many keys. NULL: the client is sent away. */
static struct mu_ts_wait *new_wait(struct mu_ts_conn *conn, uint64_t num)
{
    size_t bytes = sizeof(struct mu_ts_wait) + num * sizeof(struct item) + conn->scan.at;
    struct mu_ts_wait *w;

    if (conn->num_waits >= WAITS_MAX) {
        mu_ts_dismiss(conn, "it waits %u times at once already", WAITS_MAX);
        return NULL;
    }
    w = mu_ts_hold(conn, bytes) ? calloc(1, bytes) : NULL;
    if (!w) {
        mu_ts_dismiss(conn, "no memory for a wait for %" PRIu64 " keys", num);
        return NULL;
    }
    w->conn = conn;
    w->bytes = bytes;
    w->request = (uint8_t *)&w->items[num];
    memcpy(w->request, conn->bytes + conn->at, conn->scan.at);
    w->next = conn->waits;
    if (w->next)
        w->next->before = w;
    conn->waits = w;
    if (conn->num_waits++ == 0)
        conn->store->stats.waiting++;
    return w;
}

static struct item *new_item(struct mu_ts_wait *w, struct mu_ts_field key)
{
    struct item *item = &w->items[w->num++];

    w->missing++;
    item->wait = w;
    item->key = key;
    prepare(&item->plain, key_answered);
    return item;
}

/* One key after another. */
static void wait_next(struct mu_ts_conn *conn)
{
    struct mu_ts_wait *w = conn->waits;
    const struct mu_ts_name *name;
    struct item *item;

    if (conn->left == 0) {
        w->is_whole = true;
        wake_if_all_have_come(w);
        mu_ts_finish(conn);
        return;
    }
    conn->left--;
    item = new_item(w, mu_ts_next_field(conn));
    name = mu_ts_name_of(conn, MU_TS_KEYS, item->key);
    mu_desk_get(conn->store->options.desk, &item->plain, name->text, name->len);
    if (conn->is_closed)
        return;
    if (!item->has_come)
        look_at_queue(item);
    mu_ts_then(conn, wait_next);
}

void mu_ts_wait(struct mu_ts_conn *conn)
{
    if (new_wait(conn, conn->left))
        mu_ts_then(conn, wait_next);
}

void mu_ts_cancel_wait(struct mu_ts_conn *conn)
{
    mu_ts_drop_waits(conn);
    mu_ts_out_u8(conn, 1);
    mu_ts_finish(conn);
}

/* ---- BARRIER ----------------------------------------------------------------------------------------------------- */

static void wait_for_others(struct mu_ts_conn *conn)
{
    struct mu_ts_wait *w = new_wait(conn, 1);
    const struct mu_ts_name *name;
    struct item *item;

    if (!w)
        return;
    item = new_item(w, conn->f[0]);
    w->is_whole = true;
    name = mu_ts_name_of(conn, MU_TS_BARRIERS, conn->f[0]);
    mu_desk_get(conn->store->options.desk, &item->plain, name->text, name->len);
    if (!conn->is_closed)
        mu_ts_finish(conn);
}

static void has_let_pass(struct mu_ts_conn *conn)
{
    if (conn->ask.status) {
        mu_ts_refused(conn);
        return;
    }
    mu_ts_out_u8(conn, 0);
    mu_ts_finish(conn);
}

static void let_pass(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_BARRIERS, conn->f[0]);

    conn->store->has_barriers = true;
    mu_desk_insert(conn->store->options.desk, mu_ts_ask(conn, has_let_pass), name->text, name->len, "passed", 6, true);
}

static void has_come(struct mu_ts_conn *conn)
{
    mu_ts_then(conn, conn->sum >= conn->world ? let_pass : wait_for_others);
}

void mu_ts_barrier(struct mu_ts_conn *conn)
{
    conn->world = conn->number;
    conn->number = 1;
    mu_ts_sum(conn, has_come);
}
