/*
 * compat/tcpstore_change.c: requests that make a new value of the one that is there: ADD, COMPARE_SET, APPEND.
 *
 * Where the engine has no call that does it at one instant the value is read, and replaced if its version is the same
 * still; else it is read again. So it is where a number's text is not clean, and where a key is stored under a hash.
 */
#include "compat/tcpstore_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of f[0], to `take`. */
static void read_value(struct mu_ts_conn *conn, mu_ts_step take)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);

    conn->is_hash = name->is_hash;
    mu_coord_try_get(conn->store->options.coord, mu_ts_request(conn, take), name->text, name->len);
}

/* What that has brought; version 0: it is absent. False: it could not be read, and the client is sent away. */
static bool take_value(struct mu_ts_conn *conn, const void **ret_value, size_t *ret_len)
{
    const struct mu_coord_request *request = &conn->request;

    *ret_value = request->value;
    *ret_len = request->len;
    conn->version = request->status ? 0 : (uint64_t)request->version;
    if (request->status == MUSTER_NOT_FOUND)
        return true;
    if (request->status)
        mu_ts_refused(conn);
    else if (!mu_ts_value(conn, conn->f[0], conn->is_hash, ret_value, ret_len))
        mu_ts_dismiss(conn, "two of its keys, longer than the job's store has them, have one hash");
    return !conn->is_closed;
}

/* Replace what was read. */
static void value_replace(struct mu_ts_conn *conn, const void *value, size_t len, mu_ts_step take)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);
    void *memory;
    const void *stored = mu_ts_stored(conn, conn->f[0], name->is_hash, value, &len, &memory);

    if (stored)
        mu_coord_compare_and_set(conn->store->options.coord, mu_ts_request(conn, take), name->text, name->len,
                                 conn->version, stored, len);
    free(memory);
}

/* It was, or everything is to be done again. False: not. */
static bool has_replaced(struct mu_ts_conn *conn, mu_ts_step again)
{
    if (conn->request.status == MUSTER_ABORTED)
        mu_ts_then(conn, again);
    else if (conn->request.status)
        mu_ts_refused(conn);
    return conn->request.status == MUSTER_OK;
}

/* ---- ADD --------------------------------------------------------------------------------------------------------- */

static void answer_sum(struct mu_ts_conn *conn)
{
    mu_ts_out_i64(conn, conn->sum);
    mu_ts_finish(conn);
}

static void add_slowly(struct mu_ts_conn *conn);

static void has_replaced_sum(struct mu_ts_conn *conn)
{
    if (has_replaced(conn, add_slowly))
        conn->summed(conn);
}

static void replace_sum(struct mu_ts_conn *conn)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRId64, conn->sum);

    value_replace(conn, text, (size_t)len, has_replaced_sum);
}

static void has_read_number(struct mu_ts_conn *conn)
{
    const void *value;
    int64_t number = 0;
    size_t len;

    if (!take_value(conn, &value, &len))
        return;
    if (conn->version && !mu_ts_number(value, len, &number)) {
        mu_ts_dismiss(conn, "ADD to a value that is no number");
        return;
    }
    conn->sum = (int64_t)((uint64_t)number + (uint64_t)conn->number); /* it goes round, as it does in PyTorch */
    mu_ts_then(conn, replace_sum);
}

static void add_slowly(struct mu_ts_conn *conn)
{
    read_value(conn, has_read_number);
}

static void has_added(struct mu_ts_conn *conn)
{
    if (conn->request.status == MUSTER_FAILED_PRECONDITION)
        mu_ts_then(conn, add_slowly);
    else if (conn->request.status)
        mu_ts_refused(conn);
    else if (mu_ts_number(conn->request.value, conn->request.len, &conn->sum))
        conn->summed(conn);
    else
        mu_ts_dismiss(conn, "ADD has made a value that is no number");
}

void mu_ts_sum(struct mu_ts_conn *conn, mu_ts_step take)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);

    conn->summed = take;
    if (name->is_hash)
        add_slowly(conn);
    else
        mu_coord_increment(conn->store->options.coord, mu_ts_request(conn, has_added), name->text, name->len,
                           conn->number);
}

void mu_ts_add(struct mu_ts_conn *conn)
{
    mu_ts_sum(conn, answer_sum);
}

/* ---- COMPARE_SET ------------------------------------------------------------------------------------------------- */

static void answer_field(struct mu_ts_conn *conn, int i)
{
    mu_ts_out_bytes(conn, mu_ts_at(conn, conn->f[i]), conn->f[i].len);
    mu_ts_finish(conn);
}

static void has_swapped(struct mu_ts_conn *conn)
{
    if (has_replaced(conn, mu_ts_compare_set))
        answer_field(conn, 2);
}

static void value_swap(struct mu_ts_conn *conn)
{
    value_replace(conn, mu_ts_at(conn, conn->f[2]), conn->f[2].len, has_swapped);
}

static void has_compared(struct mu_ts_conn *conn)
{
    const struct mu_ts_field expected = conn->f[1];
    const void *value;
    size_t len;

    if (!take_value(conn, &value, &len))
        return;
    if (conn->version ? len == expected.len && (!len || !memcmp(value, mu_ts_at(conn, expected), len))
                      : !expected.len) {
        mu_ts_then(conn, value_swap);
    } else if (conn->version) {
        mu_ts_out_bytes(conn, value, len);
        mu_ts_finish(conn);
    } else {
        answer_field(conn, 1); /* as if that were there: clients rely on it */
    }
}

void mu_ts_compare_set(struct mu_ts_conn *conn)
{
    read_value(conn, has_compared);
}

/* ---- APPEND ------------------------------------------------------------------------------------------------------ */

static void has_appended(struct mu_ts_conn *conn)
{
    if (conn->request.status)
        mu_ts_refused(conn);
    else
        mu_ts_finish(conn);
}

static void append_slowly(struct mu_ts_conn *conn);

static void has_replaced_whole(struct mu_ts_conn *conn)
{
    if (has_replaced(conn, append_slowly))
        mu_ts_finish(conn);
}

static void replace_whole(struct mu_ts_conn *conn)
{
    value_replace(conn, conn->kept, conn->kept_len, has_replaced_whole);
}

static void has_read_whole(struct mu_ts_conn *conn)
{
    const void *value;
    size_t len;

    if (!take_value(conn, &value, &len))
        return;
    len = conn->version ? len : 0;
    free(conn->kept);
    conn->kept_len = len + conn->f[1].len;
    conn->kept = malloc(conn->kept_len + 1);
    if (!conn->kept) {
        mu_ts_dismiss(conn, "no memory for a value of %zu bytes", conn->kept_len);
        return;
    }
    if (len)
        memcpy(conn->kept, value, len);
    memcpy(conn->kept + len, mu_ts_at(conn, conn->f[1]), conn->f[1].len);
    mu_ts_then(conn, replace_whole);
}

static void append_slowly(struct mu_ts_conn *conn)
{
    read_value(conn, has_read_whole);
}

void mu_ts_append(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);

    if (name->is_hash)
        append_slowly(conn);
    else
        mu_coord_append(conn->store->options.coord, mu_ts_request(conn, has_appended), name->text, name->len,
                        mu_ts_at(conn, conn->f[1]), conn->f[1].len);
}
