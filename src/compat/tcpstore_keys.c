/*
 * compat/tcpstore_keys.c: requests about keys: SET, GET and their forms for several keys, CHECK, the number of keys and
 * their list, DELETE_KEY.
 */
#include "compat/tcpstore_private.h"

#include <stdlib.h>
#include <string.h>

enum { SURVEY = 1024 /* what a look at the whole store costs, in steps */ };

/* ---- SET, MULTI_SET ---------------------------------------------------------------------------------------------- */

static void has_set(struct mu_ts_conn *conn)
{
    if (conn->request.status)
        mu_ts_refused(conn);
    else if (--conn->left == 0)
        mu_ts_finish(conn);
}

void mu_ts_set(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name;
    struct mu_ts_field key, f;
    const void *value;
    void *memory;
    size_t len;

    if (conn->left == 0) {
        mu_ts_finish(conn);
        return;
    }
    key = mu_ts_next_field(conn);
    f = mu_ts_next_field(conn);
    len = f.len;
    name = mu_ts_name_of(conn, MU_TS_KEYS, key);
    value = mu_ts_stored(conn, key, name->is_hash, mu_ts_at(conn, f), &len, &memory);
    if (value)
        mu_coord_insert(conn->store->options.coord, mu_ts_request(conn, has_set), name->text, name->len, value, len,
                        true);
    free(memory);
}

/* ---- GET, MULTI_GET ---------------------------------------------------------------------------------------------- */

/* What is absent is empty. */
static void has_got(struct mu_ts_conn *conn)
{
    const struct mu_coord_request *request = &conn->request;
    const void *value = request->value;
    size_t len = request->len;
    bool is_there = !request->status && mu_ts_value(conn, conn->f[0], conn->is_hash, &value, &len);

    if (request->status == MUSTER_RESOURCE_EXHAUSTED && request->len) {
        conn->cursor = conn->f[0].at - 8; /* again, when there is room */
        mu_ts_want(conn, request->len);
        return;
    }
    if (request->status && request->status != MUSTER_NOT_FOUND) {
        mu_ts_refused(conn);
        return;
    }
    if (is_there && request->blob && len >= MU_TS_LONG)
        mu_ts_out_value(
            conn, &(struct mu_slice){request->blob, (size_t)((const uint8_t *)value - request->blob->bytes), len});
    else
        mu_ts_out_bytes(conn, value, is_there ? len : 0);
    if (--conn->left == 0)
        mu_ts_finish(conn);
}

void mu_ts_get(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name;

    if (conn->left == 0) {
        mu_ts_finish(conn);
        return;
    }
    conn->f[0] = mu_ts_next_field(conn);
    name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);
    conn->is_hash = name->is_hash;
    mu_ts_request(conn, has_got)->is_favoured = conn->store->favoured == conn;
    mu_coord_try_get(conn->store->options.coord, &conn->request, name->text, name->len);
}

/* ---- CHECK ------------------------------------------------------------------------------------------------------- */

static void check_next(struct mu_ts_conn *conn)
{
    if (--conn->left > 0) {
        mu_ts_then(conn, mu_ts_check);
        return;
    }
    mu_ts_out_u8(conn, 0);
    mu_ts_finish(conn);
}

static void key_has_looked(struct mu_ts_conn *conn)
{
    if (conn->tail > conn->head) {
        check_next(conn);
        return;
    }
    mu_ts_out_u8(conn, 1);
    mu_ts_finish(conn);
}

static void key_look(struct mu_ts_conn *conn)
{
    mu_ts_queue_look(conn, key_has_looked);
}

static void has_checked(struct mu_ts_conn *conn)
{
    const void *value = conn->request.value;
    size_t len = conn->request.len;

    if (conn->request.status && conn->request.status != MUSTER_NOT_FOUND)
        mu_ts_refused(conn);
    else if (!conn->request.status && mu_ts_value(conn, conn->f[0], conn->is_hash, &value, &len))
        check_next(conn);
    else
        mu_ts_then(conn, key_look); /* a queue that is not empty is there, too */
}

void mu_ts_check(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name;

    if (conn->left == 0) {
        mu_ts_out_u8(conn, 0);
        mu_ts_finish(conn);
        return;
    }
    conn->f[0] = mu_ts_next_field(conn);
    name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);
    conn->is_hash = name->is_hash;
    mu_ts_request(conn, has_checked)->is_bare = !name->is_hash;
    mu_coord_try_get(conn->store->options.coord, &conn->request, name->text, name->len);
}

/* ---- the number of keys, and their list -------------------------------------------------------------------------- */

static void has_counted(struct mu_ts_conn *conn)
{
    if (conn->request.status) {
        mu_ts_refused(conn);
        return;
    }
    mu_ts_out_i64(conn, conn->request.counter);
    mu_ts_finish(conn);
}

void mu_ts_num_keys(struct mu_ts_conn *conn)
{
    const char *directory = mu_ts_directory[MU_TS_KEYS];

    conn->units -= SURVEY;
    mu_coord_count(conn->store->options.coord, mu_ts_request(conn, has_counted), directory, strlen(directory));
}

/* An entry of the list: the key, and its length. */
static size_t write_key(const struct muster_kv_entry *entry, uint8_t *to)
{
    size_t skip = strlen(mu_ts_directory[MU_TS_KEYS]) + 1, len;
    const char *name = entry->key + skip;
    const uint8_t *value = entry->value;
    uint8_t key[MUSTER_KEY_MAX];

    if (mu_ts_key(name, entry->key_len - skip, key, &len)) {
        if (to) {
            mu_ts_put_u64(to, len);
            memcpy(to + 8, key, len);
        }
        return 8 + len;
    }
    len = entry->value_len < 8 ? 0 : mu_ts_u64(value);
    if (entry->value_len < 8 || len > entry->value_len - 8)
        return 0; /* not of our making */
    if (to)
        memcpy(to, value, 8 + len);
    return 8 + len;
}

/* On a host that is not the leader's the engine has entries, elsewhere what was written of them. */
static size_t write_entries(const struct mu_coord_request *request, uint8_t *to)
{
    size_t len = 0;

    for (size_t i = 0; i < request->num_entries; i++)
        len += write_key(&request->entries[i], to ? to + len : NULL);
    return len;
}

static void has_listed(struct mu_ts_conn *conn)
{
    const struct mu_coord_request *request = &conn->request;
    uint8_t *to;
    size_t len;
    int64_t count = 0;

    if (request->status) {
        mu_ts_refused(conn);
        return;
    }
    len = request->entries ? write_entries(request, NULL) : request->len;
    to = mu_ts_out(conn, 8 + len);
    if (!to)
        return;
    if (request->entries)
        write_entries(request, to + 8);
    else if (len)
        memcpy(to + 8, request->value, len);
    for (size_t at = 0; at < len; at += 8 + (size_t)mu_ts_u64(to + 8 + at))
        count++;
    mu_ts_put_u64(to, (uint64_t)count);
    mu_ts_cost(conn, len);
    mu_ts_finish(conn);
}

void mu_ts_list_keys(struct mu_ts_conn *conn)
{
    const char *directory = mu_ts_directory[MU_TS_KEYS];
    struct mu_coord_request *request = mu_ts_request(conn, has_listed);

    conn->units -= SURVEY;
    request->write = write_key;
    mu_coord_get_dir(conn->store->options.coord, request, directory, strlen(directory));
}

/* ---- DELETE_KEY -------------------------------------------------------------------------------------------------- */

static void has_deleted(struct mu_ts_conn *conn)
{
    if (conn->request.status) {
        mu_ts_refused(conn);
        return;
    }
    mu_ts_out_i64(conn, conn->request.counter > 0);
    mu_ts_finish(conn);
}

void mu_ts_delete(struct mu_ts_conn *conn)
{
    const struct mu_ts_name *name = mu_ts_name_of(conn, MU_TS_KEYS, conn->f[0]);

    mu_coord_erase(conn->store->options.coord, mu_ts_request(conn, has_deleted), name->text, name->len);
}
