/*
 * compat/tcpstore_room.c: memory for connections, and those that wait for it.
 *
 * Memory in use counts against the account that all listeners share. A connection that finds no room for its request is
 * not read until there is some: its client is slowed, and nobody is sent away for having come with others. The first in
 * the queue may have what the account keeps, for all the rest of its request, and no second one until that is over. So
 * one after another comes to an end, however many wait with halves of requests. A connection that has room, and does
 * not move for stall_ms while others wait for it, is closed.
 */
#include "compat/tcpstore_private.h"

#include "base/list.h"

#define HELD_MAX (512u << 20) /* bytes, of a connection */

bool mu_ts_hold(struct mu_ts_conn *conn, size_t bytes)
{
    if (bytes > HELD_MAX - conn->held || !mu_account_take(conn->store->account, conn->held, bytes))
        return false;
    conn->held += bytes;
    conn->store->held += bytes;
    return true;
}

/* A part of what is kept: the rest is for the beginnings of requests, so that the waiters can wait. */
size_t mu_ts_room_for_one(const struct mu_tcpstore *store)
{
    return store->account->kept - store->account->kept / 4;
}

bool mu_ts_hold_rest(struct mu_ts_conn *conn, size_t bytes)
{
    struct mu_tcpstore *store = conn->store;

    if (mu_ts_hold(conn, bytes))
        return true;
    if (!mu_account_take_kept(store->account, bytes, mu_ts_room_for_one(store)))
        return false;
    conn->held += bytes;
    store->held += bytes;
    return true;
}

void mu_ts_unhold(struct mu_ts_conn *conn, size_t bytes)
{
    conn->held -= bytes;
    conn->store->held -= bytes;
    mu_account_give(conn->store->account, bytes);
}

void mu_ts_room_moved(struct mu_ts_conn *conn)
{
    conn->moved_ms = uv_now(conn->store->options.loop);
}

bool mu_ts_room_wait(struct mu_ts_conn *conn, size_t bytes)
{
    struct mu_tcpstore *store = conn->store;

    if (bytes > mu_ts_room_for_one(store))
        return false;
    conn->wants = bytes;
    conn->next_short = NULL;
    *store->last_short = conn;
    store->last_short = &conn->next_short;
    mu_ts_room_moved(conn);
    if (!uv_is_active((uv_handle_t *)&store->shortage))
        uv_timer_again(&store->shortage);
    return true;
}

void mu_ts_room_leave(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    if (store->favoured == conn)
        store->favoured = NULL;
    if (conn->wants)
        MU_LINE_DROP(store->first_short, store->last_short, conn, next_short);
    conn->wants = 0;
}

/* The first of the queue; or the one that has had the kept share already, wherever it stands. */
static struct mu_ts_conn *next_short(struct mu_tcpstore *store)
{
    return store->favoured && store->favoured->wants ? store->favoured : store->first_short;
}

static bool may_have(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    if (mu_account_take(store->account, conn->held, conn->wants))
        return true;
    if ((store->favoured && store->favoured != conn) || !mu_account_take_kept(store->account, conn->wants, 0))
        return false;
    store->favoured = conn;
    return true;
}

/* What it was favoured for is over. */
static bool is_done(const struct mu_ts_conn *conn)
{
    return !conn->wants && !conn->step && !conn->own && !conn->value.blob && !conn->going_value;
}

struct mu_ts_conn *mu_ts_room_next(struct mu_tcpstore *store, size_t *ret_bytes)
{
    struct mu_ts_conn *conn, *favoured;

    if (store->favoured && is_done(store->favoured))
        store->favoured = NULL;
    if (!store->first_short)
        uv_timer_stop(&store->shortage);
    conn = next_short(store);
    if (!conn || !may_have(conn))
        return NULL;
    *ret_bytes = conn->wants;
    conn->held += conn->wants;
    store->held += conn->wants;
    favoured = store->favoured;
    mu_ts_room_leave(conn); /* the queue */
    store->favoured = favoured;
    mu_ts_room_moved(conn);
    return conn;
}

bool mu_ts_room_stalled(struct mu_ts_conn *conn)
{
    size_t left = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);

    if (left != conn->left_seen || conn->wants || conn->step || conn->has_turn)
        mu_ts_room_moved(conn);
    conn->left_seen = left;
    return (conn->own || conn->going) &&
           uv_now(conn->store->options.loop) - conn->moved_ms >= conn->store->options.stall_ms;
}

void mu_ts_room_begin(struct mu_tcpstore *store)
{
    store->own.most = 1u << 30;
    store->own.kept = store->own.most / 2;
    store->account = store->options.account ? store->options.account : &store->own;
    store->last_short = &store->first_short;
    if (!store->options.stall_ms)
        store->options.stall_ms = 10000;
}
