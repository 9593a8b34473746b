/*
 * compat/tcpstore_turn.c: turns of connections, and what people are told of them. Nothing here reads or writes.
 */
#include "compat/tcpstore_private.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

#define SENTENCES_NS 500000000u /* between two, after the first */

void mu_ts_say(struct mu_tcpstore *store, const char *format, ...)
{
    uint64_t now = mu_now(), more = (now - store->sentences_at) / SENTENCES_NS;
    char sentence[400];
    va_list list;

    if (more) {
        store->sentences =
            more < MU_TS_SENTENCES - store->sentences ? store->sentences + (uint32_t)more : MU_TS_SENTENCES;
        store->sentences_at = now;
    }
    if (!store->options.said || !store->sentences)
        return;
    store->sentences--;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    store->options.said(store->options.arg, sentence);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* the loop does not sleep: that is all */
}

void mu_ts_turn(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    if (conn->has_turn || conn->is_closed)
        return;
    conn->has_turn = true;
    conn->next_turn = NULL;
    *store->last_turn = conn;
    store->last_turn = &conn->next_turn;
    uv_idle_start(&store->idle, on_idle);
}

void mu_ts_dirty(struct mu_ts_conn *conn)
{
    if (conn->is_dirty || conn->is_closed)
        return;
    conn->is_dirty = true;
    conn->next_dirty = conn->store->dirty;
    conn->store->dirty = conn;
}

void mu_ts_cost(struct mu_ts_conn *conn, size_t bytes)
{
    conn->units -= (int32_t)(bytes >> 10);
}
