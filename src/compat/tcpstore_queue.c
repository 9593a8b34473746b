/*
 * compat/tcpstore_queue.c: queues.
 *
 * A queue is a number of items: how many have been pushed, ever (.../tail), how many of these have been popped
 * (.../head), and each of the others under its number, from 1. A push counts the tail up and so has a number of its
 * own, then sets that item, which wakes its waiters. A pop reads the head's item, then counts the head up, if nobody
 * else has; only then the item is popped.
 */
#include "compat/tcpstore_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mu_ts_name *part_of(struct mu_ts_conn *conn, const char *part)
{
    mu_ts_name_of(conn, MU_TS_QUEUES, conn->f[0]);
    mu_ts_name_under(&conn->store->key, part);
    return &conn->store->key;
}

static const struct mu_ts_name *queue_item_name(struct mu_ts_conn *conn, uint64_t number)
{
    mu_ts_name_of(conn, MU_TS_QUEUES, conn->f[0]);
    mu_ts_name_number(&conn->store->key, number);
    return &conn->store->key;
}

/* ---- how many there are ------------------------------------------------------------------------------------------ */

static void has_read_head(struct mu_ts_conn *conn)
{
    conn->version = conn->request.status ? 0 : (uint64_t)conn->request.version;
    if (mu_ts_count(conn, &conn->head))
        conn->looked(conn);
}

static void read_head(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = part_of(conn, "head");

    mu_coord_try_get(conn->store->options.coord, mu_ts_request(conn, has_read_head), name->text, name->len);
}

static void has_read_tail(struct mu_ts_conn *conn)
{
    conn->head = 0;
    if (!mu_ts_count(conn, &conn->tail))
        return;
    if (conn->tail)
        mu_ts_then(conn, read_head);
    else
        conn->looked(conn);
}

void mu_ts_queue_look(struct mu_ts_conn *conn, mu_ts_step take)
{
    const struct mu_ts_name *name = part_of(conn, "tail");

    conn->looked = take;
    mu_coord_try_get(conn->store->options.coord, mu_ts_request(conn, has_read_tail), name->text, name->len);
}

static void answer_length(struct mu_ts_conn *conn)
{
    mu_ts_out_i64(conn, (int64_t)(conn->tail - conn->head));
    mu_ts_finish(conn);
}

void mu_ts_queue_len(struct mu_ts_conn *conn)
{
    mu_ts_queue_look(conn, answer_length);
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static void queue_has_failed(struct mu_ts_conn *conn)
{
    mu_ts_dismiss(conn, "%s: %.*s", mu_ts_op_name(conn->scan.op), (int)conn->kept_len, (const char *)conn->kept);
}

static void lower_tail(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = part_of(conn, "tail");
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, conn->tail - 1);

    mu_coord_compare_and_set(conn->store->options.coord, mu_ts_request(conn, queue_has_failed), name->text, name->len,
                             conn->version, text, (size_t)len);
}

static void has_read_own(struct mu_ts_conn *conn)
{
    uint64_t last;

    conn->version = (uint64_t)conn->request.version;
    if (mu_ts_count(conn, &last)) /* another's: there are items behind it */
        mu_ts_then(conn, last == conn->tail ? lower_tail : queue_has_failed);
}

/* Its number, for which there is no item now, unless others have pushed behind it: each pop would stop there. */
static void give_back_number(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = part_of(conn, "tail");

    mu_coord_try_get(conn->store->options.coord, mu_ts_request(conn, has_read_own), name->text, name->len);
}

static void has_pushed(struct mu_ts_conn *conn)
{
    if (!conn->request.status) {
        mu_ts_finish(conn);
        return;
    }
    conn->kept = (uint8_t *)strdup(conn->request.text ? conn->request.text : "");
    if (!conn->kept) {
        mu_ts_refused(conn);
        return;
    }
    conn->kept_len = strlen((const char *)conn->kept);
    mu_ts_then(conn, give_back_number);
}

static void queue_push(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = queue_item_name(conn, conn->tail);

    mu_coord_insert(conn->store->options.coord, mu_ts_request(conn, has_pushed), name->text, name->len,
                    mu_ts_at(conn, conn->f[1]), conn->f[1].len, true);
}

static void has_number(struct mu_ts_conn *conn)
{
    if (mu_ts_count(conn, &conn->tail))
        mu_ts_then(conn, queue_push);
}

void mu_ts_queue_push(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = part_of(conn, "tail");

    mu_coord_increment(conn->store->options.coord, mu_ts_request(conn, has_number), name->text, name->len, 1);
}

/* ---- pop --------------------------------------------------------------------------------------------------------- */

static void has_dropped(struct mu_ts_conn *conn)
{
    if (conn->request.status)
        mu_ts_refused(conn);
    else
        mu_ts_finish(conn);
}

static void queue_drop(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = queue_item_name(conn, conn->head + 1);

    mu_coord_erase(conn->store->options.coord, mu_ts_request(conn, has_dropped), name->text, name->len);
}

/* It is ours. */
static void has_claimed(struct mu_ts_conn *conn)
{
    if (conn->request.status == MUSTER_ABORTED) {
        mu_ts_then(conn, mu_ts_queue_pop);
    } else if (conn->request.status) {
        mu_ts_refused(conn);
    } else {
        mu_ts_out_i64(conn, (int64_t)(conn->tail - conn->head));
        mu_ts_out_bytes(conn, conn->kept, conn->kept_len);
        mu_ts_then(conn, queue_drop);
    }
}

static void queue_claim(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = part_of(conn, "head");
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, conn->head + 1);

    mu_coord_compare_and_set(conn->store->options.coord, mu_ts_request(conn, has_claimed), name->text, name->len,
                             conn->version, text, (size_t)len);
}

static void read_item(struct mu_ts_conn *conn);

static void has_looked_again(struct mu_ts_conn *conn)
{
    if (conn->tail > conn->head && conn->head != (uint64_t)conn->number) {
        mu_ts_then(conn, read_item);
        return;
    }
    mu_ts_out_i64(conn, 0);
    mu_ts_finish(conn);
}

static void look_again(struct mu_ts_conn *conn)
{
    mu_ts_queue_look(conn, has_looked_again);
}

static void has_read_item(struct mu_ts_conn *conn)
{
    const struct mu_coord_request *request = &conn->request;

    if (request->status && request->status != MUSTER_NOT_FOUND) {
        mu_ts_refused(conn);
        return;
    }
    if (request->status) { /* somebody has popped it just now, or it is being pushed still */
        conn->number = (int64_t)conn->head;
        mu_ts_then(conn, look_again);
        return;
    }
    free(conn->kept);
    conn->kept = malloc(request->len + 1);
    if (!conn->kept) {
        mu_ts_dismiss(conn, "no memory for an item of %zu bytes", request->len);
        return;
    }
    conn->kept_len = request->len;
    if (request->len)
        memcpy(conn->kept, request->value, request->len);
    mu_ts_then(conn, queue_claim);
}

static void read_item(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = queue_item_name(conn, conn->head + 1);

    mu_coord_try_get(conn->store->options.coord, mu_ts_request(conn, has_read_item), name->text, name->len);
}

static void queue_has_looked(struct mu_ts_conn *conn)
{
    if (conn->tail > conn->head) {
        mu_ts_then(conn, read_item);
        return;
    }
    mu_ts_out_i64(conn, 0);
    mu_ts_finish(conn);
}

void mu_ts_queue_pop(struct mu_ts_conn *conn)
{
    mu_ts_queue_look(conn, queue_has_looked);
}
