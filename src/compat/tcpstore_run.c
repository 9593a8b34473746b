/*
 * compat/tcpstore_run.c: one request after another, step by step, for a turn; what all requests have in common.
 */
#include "compat/tcpstore_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void validate(struct mu_ts_conn *conn)
{
    mu_ts_finish(conn);
}

static void ping(struct mu_ts_conn *conn)
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
    [MU_TS_VALIDATE] = validate,
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
    [MU_TS_PING] = ping,
    [MU_TS_QUEUE_PUSH] = mu_ts_queue_push,
    [MU_TS_QUEUE_POP] = mu_ts_queue_pop,
    [MU_TS_QUEUE_LEN] = mu_ts_queue_len,
    [MU_TS_LIST_KEYS] = mu_ts_list_keys,
    [MU_TS_BARRIER] = mu_ts_barrier,
    [MU_TS_WATCH_KEY] = watch_key,
};

/* ---- fields ------------------------------------------------------------------------------------------------------ */

struct mu_ts_field mu_ts_next_field(struct mu_ts_conn *conn)
{
    struct mu_ts_field f = {conn->cursor + 8, (size_t)mu_ts_u64(conn->bytes + conn->at + conn->cursor)};

    conn->cursor = f.at + f.len;
    return f;
}

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

const struct mu_ts_name *mu_ts_name_of(struct mu_ts_conn *conn, enum mu_ts_place place, struct mu_ts_field f)
{
    mu_ts_name(&conn->store->key, place, mu_ts_at(conn, f), f.len);
    return &conn->store->key;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool mu_ts_value(const struct mu_ts_conn *conn, struct mu_ts_field key, bool is_hash, const void **value, size_t *len)
{
    const uint8_t *bytes = *value;

    if (!is_hash)
        return true;
    if (*len < 8 + key.len || mu_ts_u64(bytes) != key.len || memcmp(bytes + 8, mu_ts_at(conn, key), key.len) != 0)
        return false;
    *value = bytes + 8 + key.len;
    *len -= 8 + key.len;
    return true;
}

const void *mu_ts_stored(struct mu_ts_conn *conn, struct mu_ts_field key, bool is_hash, const void *value, size_t *len,
                         void **ret_memory)
{
    uint8_t *bytes;

    *ret_memory = NULL;
    if (!is_hash)
        return value;
    bytes = *ret_memory = malloc(8 + key.len + *len);
    if (!bytes) {
        mu_ts_dismiss(conn, "no memory for a value of %zu bytes", *len);
        return NULL;
    }
    memcpy(bytes, mu_ts_at(conn, key) - 8, 8 + key.len);
    if (*len)
        memcpy(bytes + 8 + key.len, value, *len);
    *len += 8 + key.len;
    return bytes;
}

bool mu_ts_number(const void *text, size_t len, int64_t *ret_number)
{
    char copy[100], *end; /* no number that fits has more digits; zeros in front of it may */
    const char *from = text;

    for (; len > 0 && (*from == ' ' || (*from >= '\t' && *from <= '\r')); len--)
        from++;
    len = len < sizeof copy - 1 ? len : sizeof copy - 1;
    if (len)
        memcpy(copy, from, len);
    copy[len] = 0;
    errno = 0;
    *ret_number = strtoll(copy, &end, 10);
    return end != copy && errno == 0;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void mu_ts_out_u8(struct mu_ts_conn *conn, uint8_t v)
{
    uint8_t *to = mu_ts_out(conn, 1);

    if (to)
        *to = v;
}

void mu_ts_out_i64(struct mu_ts_conn *conn, int64_t v)
{
    uint8_t *to = mu_ts_out(conn, 8);

    if (to)
        mu_ts_put_u64(to, (uint64_t)v);
}

void mu_ts_out_bytes(struct mu_ts_conn *conn, const void *bytes, size_t len)
{
    uint8_t *to = mu_ts_out(conn, 8 + len);

    if (!to)
        return;
    mu_ts_put_u64(to, len);
    if (len)
        memcpy(to + 8, bytes, len);
    mu_ts_cost(conn, len);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

void mu_ts_cost(struct mu_ts_conn *conn, size_t bytes)
{
    conn->units -= (int32_t)(bytes >> 10);
}

static void answered(struct mu_ask *ask)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)((char *)ask - offsetof(struct mu_ts_conn, ask));

    conn->is_answered = true;
    if (ask->status == MUSTER_INTERNAL || ask->status == MUSTER_CANCELLED)
        mu_ts_close(conn); /* the engine has closed */
    else
        conn->take(conn);
    if (!conn->is_running)
        mu_ts_turn(conn);
}

struct mu_ask *mu_ts_ask(struct mu_ts_conn *conn, mu_ts_step take)
{
    struct mu_ask *ask = &conn->ask;

    ask->answered = answered;
    ask->write = NULL;
    ask->line = conn->line;
    ask->value = NULL;
    ask->len = 0;
    ask->entries = NULL;
    ask->num_entries = 0;
    ask->counter = ask->version = 0;
    ask->parked = NULL;
    ask->is_bare = ask->is_favoured = false;
    conn->take = take;
    return ask;
}

void mu_ts_then(struct mu_ts_conn *conn, mu_ts_step next)
{
    conn->step = next;
    conn->is_answered = true;
}

void mu_ts_finish(struct mu_ts_conn *conn)
{
    free(conn->kept);
    conn->kept = NULL;
    conn->step = NULL;
    conn->is_answered = true;
    conn->at += conn->scan.at;
    conn->len -= conn->scan.at;
    mu_ts_scan_next(&conn->scan);
}

void mu_ts_refused(struct mu_ts_conn *conn)
{
    char why[200];

    snprintf(why, sizeof why, "%s", conn->ask.text ? conn->ask.text : "");
    mu_ts_dismiss(conn, "%s: %s", mu_ts_op_name(conn->scan.op), why);
}

bool mu_ts_count(struct mu_ts_conn *conn, uint64_t *ret_count)
{
    const struct mu_ask *ask = &conn->ask;
    int64_t count = 0;

    if (ask->status && ask->status != MUSTER_NOT_FOUND)
        mu_ts_refused(conn);
    else if (!ask->status && (!mu_ts_number(ask->value, ask->len, &count) || count < 0))
        mu_ts_dismiss(conn, "%s: a count below its key is no number any more", mu_ts_op_name(conn->scan.op));
    *ret_count = (uint64_t)count;
    return !conn->is_closed;
}

/* The next request, if it is whole. */
static bool begin(struct mu_ts_conn *conn)
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
        if (!conn->step && (conn->len == 0 || !begin(conn)))
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
