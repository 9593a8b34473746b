/*
 * compat/tcpstore_step.c: what all requests have in common: the fields of a request, values, answers, steps.
 */
#include "compat/tcpstore_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ------------------------------------------------------------------------------------------------------ */

struct mu_ts_field mu_ts_next_field(struct mu_ts_conn *conn)
{
    struct mu_ts_field f = {conn->cursor + 8, (size_t)mu_ts_u64(conn->bytes + conn->at + conn->cursor)};

    conn->cursor = f.at + f.len;
    return f;
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

static void on_request_answered(struct mu_coord_request *request)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)((char *)request - offsetof(struct mu_ts_conn, request));

    conn->is_answered = true;
    if (request->status == MUSTER_INTERNAL || request->status == MUSTER_CANCELLED)
        mu_ts_close(conn); /* the engine has closed */
    else
        conn->take(conn);
    if (!conn->is_running)
        mu_ts_turn(conn);
}

struct mu_coord_request *mu_ts_request(struct mu_ts_conn *conn, mu_ts_step take)
{
    struct mu_coord_request *request = &conn->request;

    request->answered = on_request_answered;
    request->write = NULL;
    request->line = conn->line;
    request->value = NULL;
    request->len = 0;
    request->entries = NULL;
    request->num_entries = 0;
    request->counter = request->version = 0;
    request->pending = NULL;
    request->is_bare = request->is_favoured = false;
    conn->take = take;
    return request;
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

    snprintf(why, sizeof why, "%s", conn->request.text ? conn->request.text : "");
    mu_ts_dismiss(conn, "%s: %s", mu_ts_op_name(conn->scan.op), why);
}

bool mu_ts_count(struct mu_ts_conn *conn, uint64_t *ret_count)
{
    const struct mu_coord_request *request = &conn->request;
    int64_t count = 0;

    if (request->status && request->status != MUSTER_NOT_FOUND)
        mu_ts_refused(conn);
    else if (!request->status && (!mu_ts_number(request->value, request->len, &count) || count < 0))
        mu_ts_dismiss(conn, "%s: a count below its key is no number any more", mu_ts_op_name(conn->scan.op));
    *ret_count = (uint64_t)count;
    return !conn->is_closed;
}
