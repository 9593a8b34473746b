/*
 * compat/tcpstore_wait.c: WAIT, BARRIER and CANCEL_WAIT.
 *
 * A wait counts the keys that are missing when it is asked; each that comes is taken off, also when it has gone again
 * by the time the last one comes; on a host that is not the leader's one that goes at once may be missed. While it
 * waits its connection is served on. For each key two asks are at the engine: a get of the key itself, and one of what
 * tells of the queue of that name (tcpstore_await.c).
 *
 * At a barrier the key counts the arrivals, and .../passes how often it has been passed. A client that arrives reads
 * the passes, then counts the key up. The client that finds that all have come counts the passes up and leaves a sign
 * under that number. The others wait for that sign: it is the next after the passes that they had read, and so never
 * one of an earlier time. A sign goes two passes later. A client that comes back without setting the key back passes at
 * once, so some may not have seen the sign by then: they look at the passes, too (tcpstore_await.c).
 */
#include "compat/tcpstore_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define WAITS_MAX 64u /* of one connection: clients have one */

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void free_wait(struct mu_ts_wait *w)
{
    struct mu_ts_conn *conn = w->conn;
    struct mu_coord *coord = conn->store->options.coord;

    for (uint32_t i = 0; i < w->num; i++) {
        mu_coord_drop(coord, &w->items[i].plain);
        mu_ts_await_end(&w->items[i]);
    }
    MU_LIST_DROP(conn->waits, w);
    if (--conn->num_waits == 0)
        conn->store->stats.waiting--;
    mu_ts_unhold(conn, w->bytes);
    free(w);
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

void mu_ts_came(struct mu_ts_item *item)
{
    struct mu_ts_wait *w = item->wait;
    struct mu_coord *coord = w->conn->store->options.coord;

    if (item->has_come)
        return;
    item->has_come = true;
    mu_coord_drop(coord, &item->plain);
    mu_ts_await_end(item);
    w->missing--;
    wake_if_all_have_come(w);
}

/* Too many wait, or the engine has closed. */
void mu_ts_cannot_wait(struct mu_ts_item *item, const struct mu_coord_request *request)
{
    struct mu_ts_conn *conn = item->wait->conn;
    char why[200];

    snprintf(why, sizeof why, "%s", request->text);
    if (request->status == MUSTER_INTERNAL || request->status == MUSTER_CANCELLED)
        mu_ts_close(conn);
    else
        mu_ts_dismiss(conn, "it cannot wait: %s", why);
}

/* ---- the key itself ---------------------------------------------------------------------------------------------- */

static void key_answered(struct mu_coord_request *request)
{
    struct mu_ts_item *item = (struct mu_ts_item *)((char *)request - offsetof(struct mu_ts_item, plain));

    if (request->status)
        mu_ts_cannot_wait(item, request);
    else
        mu_ts_came(item);
}

void mu_ts_prepare(struct mu_coord_request *request, void (*answered)(struct mu_coord_request *request))
{
    request->answered = answered;
    request->pending = NULL;
    request->value = NULL;
    request->len = 0;
    request->is_bare = request->is_favoured = false;
}

/* ---- WAIT -------------------------------------------------------------------------------------------------------- */

/* Of so many keys. NULL: the client is sent away. */
static struct mu_ts_wait *new_wait(struct mu_ts_conn *conn, uint64_t num)
{
    size_t bytes = sizeof(struct mu_ts_wait) + num * sizeof(struct mu_ts_item) + conn->scan.at;
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
    w->drop = free_wait;
    w->bytes = bytes;
    w->request = (uint8_t *)&w->items[num];
    memcpy(w->request, conn->bytes + conn->at, conn->scan.at);
    MU_LIST_PUSH(conn->waits, w);
    if (conn->num_waits++ == 0)
        conn->store->stats.waiting++;
    return w;
}

static struct mu_ts_item *new_item(struct mu_ts_wait *w, struct mu_ts_field key)
{
    struct mu_ts_item *item = &w->items[w->num++];

    w->missing++;
    item->wait = w;
    item->key = key;
    item->plain.line = item->queue.line = w->conn->line;
    mu_ts_prepare(&item->plain, key_answered);
    return item;
}

/* One key after another. */
static void wait_next(struct mu_ts_conn *conn)
{
    struct mu_ts_wait *w = conn->waits;
    const struct mu_ts_name *name;
    struct mu_ts_item *item;

    if (conn->left == 0) {
        w->is_whole = true;
        wake_if_all_have_come(w);
        mu_ts_finish(conn);
        return;
    }
    conn->left--;
    item = new_item(w, mu_ts_next_field(conn));
    name = mu_ts_name_of(conn, MU_TS_KEYS, item->key);
    item->plain.is_bare = !name->is_hash;
    mu_coord_get(conn->store->options.coord, &item->plain, name->text, name->len);
    if (conn->is_closed)
        return;
    if (!item->has_come)
        mu_ts_await(item);
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

static const struct mu_ts_name *sign_of(struct mu_ts_conn *conn, uint64_t pass)
{
    mu_ts_name_of(conn, MU_TS_BARRIERS, conn->f[0]);
    mu_ts_name_number(&conn->store->key, pass);
    return &conn->store->key;
}

static const struct mu_ts_name *passes_of(struct mu_ts_conn *conn)
{
    mu_ts_name_of(conn, MU_TS_BARRIERS, conn->f[0]);
    mu_ts_name_under(&conn->store->key, "passes");
    return &conn->store->key;
}

static void wait_for_others(struct mu_ts_conn *conn)
{
    struct mu_ts_wait *w = new_wait(conn, 1);
    const struct mu_ts_name *name;
    struct mu_ts_item *item;

    if (!w)
        return;
    item = new_item(w, conn->f[0]);
    name = sign_of(conn, conn->passes + 1);
    mu_coord_get(conn->store->options.coord, &item->plain, name->text, name->len);
    if (conn->is_closed)
        return;
    w->is_whole = true;
    if (item->has_come)
        wake_if_all_have_come(w);
    else
        mu_ts_await_pass(item, conn->passes);
    mu_ts_finish(conn);
}

static void has_let_pass(struct mu_ts_conn *conn)
{
    if (conn->request.status) {
        mu_ts_refused(conn);
        return;
    }
    mu_ts_out_u8(conn, 0);
    mu_ts_finish(conn);
}

static void drop_sign(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = sign_of(conn, conn->passes - 2);

    mu_coord_erase(conn->store->options.coord, mu_ts_request(conn, has_let_pass), name->text, name->len);
}

static void has_put_sign(struct mu_ts_conn *conn)
{
    if (conn->request.status || conn->passes <= 2)
        has_let_pass(conn);
    else
        mu_ts_then(conn, drop_sign);
}

static void put_sign(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = sign_of(conn, conn->passes);

    mu_coord_insert(conn->store->options.coord, mu_ts_request(conn, has_put_sign), name->text, name->len, "passed", 6,
                    true);
}

static void has_counted_pass(struct mu_ts_conn *conn)
{
    if (mu_ts_count(conn, &conn->passes))
        mu_ts_then(conn, put_sign);
}

static void count_pass(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = passes_of(conn);

    mu_coord_increment(conn->store->options.coord, mu_ts_request(conn, has_counted_pass), name->text, name->len, 1);
}

static void has_come(struct mu_ts_conn *conn)
{
    mu_ts_then(conn, conn->sum >= conn->world ? count_pass : wait_for_others);
}

static void on_key_come(struct mu_ts_conn *conn)
{
    conn->world = conn->number;
    conn->number = 1;
    mu_ts_sum(conn, has_come);
}

static void has_read_passes(struct mu_ts_conn *conn)
{
    if (mu_ts_count(conn, &conn->passes))
        mu_ts_then(conn, on_key_come);
}

/* In a job of several hosts what lies here may be of an earlier time, and so would the sign be that is waited for:
 * adding nothing asks the leader. */
void mu_ts_barrier(struct mu_ts_conn *conn)
{
    struct mu_coord *coord = conn->store->options.coord;
    struct mu_coord_request *request = mu_ts_request(conn, has_read_passes);
    const struct mu_ts_name *name = passes_of(conn);

    if (mu_coord_options(coord)->lanes)
        mu_coord_increment(coord, request, name->text, name->len, 0);
    else
        mu_coord_try_get(coord, request, name->text, name->len);
}
