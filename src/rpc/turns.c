/*
 * rpc/turns.c: what any file may do to a connection: bytes are held for it, it is marked, it waits for its turn, and
 * what happens to it is said. Nothing here reads, writes or calls a method.
 */
#include "rpc/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCES_MS 500          /* between two, after the first */
#define TAKES_MAX    (256u << 10) /* bytes of answers that a connection has not taken: no long one is made for it */

bool mu_rpc_spend(const struct mu_rpc *rpc, struct mu_rpc_budget *budget, uint32_t burst, uint32_t each_ms)
{
    uint64_t now = mu_rpc_now(rpc), more = (now - budget->filled_ms) / each_ms;

    if (more > 0) {
        budget->left = more < burst - budget->left ? budget->left + (uint32_t)more : burst;
        budget->filled_ms = now;
    }
    if (budget->left == 0)
        return false;
    budget->left--;
    return true;
}

void mu_rpc_say(struct mu_rpc *rpc, const char *format, ...)
{
    char sentence[400];
    va_list list;

    if (!rpc->options.said || !mu_rpc_spend(rpc, &rpc->sentences, MU_RPC_SENTENCES, SENTENCES_MS))
        return;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    rpc->options.said(rpc->options.arg, sentence);
}

/* ---- what is held ---- */

bool mu_conn_hold(struct mu_rpc_conn *conn, size_t bytes)
{
    struct mu_rpc *rpc = conn->rpc;

    if (bytes > rpc->options.held_max || conn->held > rpc->options.held_max - bytes ||
        !mu_account_take(rpc->account, conn->held, bytes))
        return false;
    conn->held += bytes;
    return true;
}

void mu_conn_unhold(struct mu_rpc_conn *conn, size_t bytes)
{
    conn->held -= bytes;
    mu_account_give(conn->rpc->account, bytes);
}

bool mu_conn_takes(const struct mu_rpc_conn *conn)
{
    return conn->pieces + conn->out_len <= TAKES_MAX;
}

/* ---- marks and turns ---- */

void mu_conn_dirty(struct mu_rpc_conn *conn)
{
    struct mu_rpc *rpc = conn->rpc;

    if (conn->is_dirty)
        return;
    conn->is_dirty = true;
    conn->next_dirty = rpc->dirty;
    rpc->dirty = conn;
}

void mu_conn_dismiss(struct mu_rpc_conn *conn, uint32_t error, const char *format, ...)
{
    va_list list;

    if (conn->is_leaving || conn->is_closed)
        return;
    va_start(list, format);
    vsnprintf(conn->why, sizeof conn->why, format, list);
    va_end(list);
    conn->is_leaving = true;
    conn->since_ms = mu_rpc_now(conn->rpc);
    mu_rpc_say(conn->rpc, "gRPC: %s is sent away: %s", conn->name, conn->why);
    nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(conn->session),
                          error, (const uint8_t *)conn->why, strlen(conn->why));
    mu_conn_dirty(conn);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* the loop does not sleep: that is all */
}

void mu_rpc_turn(struct mu_rpc_conn *conn, enum mu_rpc_turn what)
{
    struct mu_rpc *rpc = conn->rpc;

    if (conn->has_turn[what] || conn->is_closed)
        return;
    conn->has_turn[what] = true;
    conn->next_turn[what] = NULL;
    *rpc->last_turn[what] = conn;
    rpc->last_turn[what] = &conn->next_turn[what];
    if (!uv_is_closing((uv_handle_t *)&rpc->idle))
        uv_idle_start(&rpc->idle, on_idle);
}

struct mu_rpc_conn *mu_rpc_next_turn(struct mu_rpc *rpc, enum mu_rpc_turn what)
{
    struct mu_rpc_conn *conn = rpc->first_turn[what];

    if (!conn)
        return NULL;
    rpc->first_turn[what] = conn->next_turn[what];
    if (!rpc->first_turn[what])
        rpc->last_turn[what] = &rpc->first_turn[what];
    conn->has_turn[what] = false;
    return conn;
}
