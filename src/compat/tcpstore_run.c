/*
 * compat/tcpstore_run.c: one request after another, step by step, for a turn.
 */
#include "compat/tcpstore_private.h"

#include <string.h>

static void client_validate(struct mu_ts_conn *conn)
{
    mu_ts_finish(conn);
}

static void client_ping(struct mu_ts_conn *conn)
{
    uint8_t *to = mu_ts_out(conn, 4);

    if (to)
        memcpy(to, conn->bytes + conn->at + 1, 4);
    mu_ts_finish(conn);
}

static void watch_key(struct mu_ts_conn *conn)
{
    mu_ts_dismiss(conn, "watchKey, which later versions do not have, is not served");
}

static const mu_ts_step steps[MU_TS_OPS] = {
    [MU_TS_VALIDATE] = client_validate,
    [MU_TS_SET] = mu_ts_set,
    [MU_TS_COMPARE_SET] = mu_ts_compare_set,
    [MU_TS_GET] = mu_ts_get,
    [MU_TS_ADD] = mu_ts_add,
    [MU_TS_CHECK] = mu_ts_check,
    [MU_TS_WAIT] = mu_ts_wait,
    [MU_TS_NUM_KEYS] = mu_ts_num_keys,
    [MU_TS_DELETE] = mu_ts_delete,
    [MU_TS_APPEND] = mu_ts_append,
    [MU_TS_MULTI_GET] = mu_ts_get,
    [MU_TS_MULTI_SET] = mu_ts_set,
    [MU_TS_CANCEL_WAIT] = mu_ts_cancel_wait,
    [MU_TS_PING] = client_ping,
    [MU_TS_QUEUE_PUSH] = mu_ts_queue_push,
    [MU_TS_QUEUE_POP] = mu_ts_queue_pop,
    [MU_TS_QUEUE_LEN] = mu_ts_queue_len,
    [MU_TS_LIST_KEYS] = mu_ts_list_keys,
    [MU_TS_BARRIER] = mu_ts_barrier,
    [MU_TS_WATCH_KEY] = watch_key,
};

/* What the request begins with. */
static void read_fields(struct mu_ts_conn *conn)
{
    const char *shape = mu_ts_op_fields(conn->scan.op);

    conn->cursor = 1;
    conn->left = 1;
    if (*shape == '*') {
        conn->left = mu_ts_u64(conn->bytes + conn->at + 1);
        conn->cursor = 9;
        return;
    }
    if (conn->scan.op == MU_TS_SET || conn->scan.op == MU_TS_GET)
        return; /* lists of one */
    for (int i = 0; *shape == 'k' || *shape == 'v'; i++, shape++)
        conn->f[i] = mu_ts_next_field(conn);
    if (*shape == '8')
        conn->number = (int64_t)mu_ts_u64(conn->bytes + conn->at + conn->cursor);
}

/* The next request, if it is whole. */
static bool request_begin(struct mu_ts_conn *conn)
{
    int rc = mu_ts_scan(&conn->scan, conn->bytes + conn->at, conn->len);

    if (rc < 0)
        mu_ts_dismiss(conn, "%s", conn->scan.fault);
    if (rc <= 0)
        return false;
    read_fields(conn);
    conn->step = steps[conn->scan.op];
    conn->is_answered = true;
    conn->store->stats.calls[conn->scan.op]++;
    mu_ts_cost(conn, conn->scan.at);
    return true;
}

void mu_ts_run(struct mu_ts_conn *conn)
{
    conn->units = MU_TS_SLICE;
    conn->is_running = true;
    while (!conn->is_closed) {
        if ((conn->step && !conn->is_answered) || conn->wants)
            break; /* it waits for the engine, or for memory */
        if (conn->is_lost && !conn->step) {
            mu_ts_close(conn);
            break;
        }
        if (conn->out_len > MU_TS_OUT_MAX || conn->value.blob) {
            conn->is_full = true;
            break;
        }
        if (!conn->step && (conn->len == 0 || !request_begin(conn)))
            break;
        if (conn->units <= 0) {
            mu_ts_turn(conn);
            break;
        }
        conn->units--;
        conn->is_answered = false;
        conn->step(conn);
    }
    conn->is_running = false;
}
