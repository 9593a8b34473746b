/*
 * mindspore/seed.c: ps core's frames, and what nodes ask of the cluster by them.
 *
 *   0   4 bytes   the body: 0 raw, 1 protobuf, 2 flatbuffers
 *   4   4         length of the meta
 *   8   8         length of meta and body
 *   16            meta, body
 *
 * Little endian. An answer has the meta of its request as it came. What a node asks that a scheduler has no answer to
 * gets an empty one: a connection is closed for what is no frame, and never ends anything else.
 */
#include "mindspore/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define HEAD 16u

static uint64_t number_at(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = bytes; i-- > 0;)
        number = number << 8 | at[i];
    return number;
}

static void number_put(uint8_t *at, unsigned bytes, uint64_t number)
{
    for (unsigned i = 0; i < bytes; i++, number >>= 8)
        at[i] = (uint8_t)number;
}

size_t mu_ms_head(uint8_t *to, uint32_t proto, const void *meta, size_t meta_len, size_t body_len)
{
    number_put(to, 4, proto);
    number_put(to + 4, 4, meta_len);
    number_put(to + 8, 8, meta_len + body_len);
    memcpy(to + HEAD, meta, meta_len);
    return HEAD + meta_len;
}

size_t mu_ms_head_of(uint8_t *to, Mu__Ms__Command command, uint64_t request_id, size_t body_len)
{
    Mu__Ms__Meta meta = MU__MS__META__INIT;
    uint8_t packed[64];

    meta.cmd = command;
    meta.request_id = request_id;
    return mu_ms_head(to, 1, packed, mu__ms__meta__pack(&meta, packed), body_len);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct ms_frame {
    const uint8_t *meta, *body;
    size_t meta_len, len;
    Mu__Ms__Meta *said;
};

static void frame_answer(struct mu_ms_conn *conn, const struct ms_frame *f, const void *body, size_t len)
{
    uint8_t head[MU_MS_HEAD_MAX];

    mu_ms_conn_send(conn, head, mu_ms_head(head, 1, f->meta, f->meta_len, len), body, len);
}

/* malloc()ed, or NULL: no memory. */
static void frame_answer_made(struct mu_ms_conn *conn, const struct ms_frame *f, void *body, size_t len)
{
    if (body)
        frame_answer(conn, f, body, len);
    else
        mu_ms_conn_refuse(conn, "there is no memory for an answer");
    free(body);
}

static void registered_answer(struct mu_ms_conn *conn, const struct ms_frame *f, char *id, uint32_t rank)
{
    Mu__Ms__Registered registered = MU__MS__REGISTERED__INIT;
    size_t len = 0;
    void *body;

    registered.node_id = id;
    registered.rank_id = rank;
    body = mu_ms_pack(&registered.base, &len);
    frame_answer_made(conn, f, body, len);
}

static void on_register(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    struct mu_ms_cluster *c = &conn->server->cluster;
    Mu__Ms__Register *r = mu__ms__register__unpack(NULL, f->len, f->body);
    struct mu_ms_node *node = NULL;
    const char *why;

    if (!r) {
        mu_ms_conn_refuse(conn, "what it registers with cannot be read");
        return;
    }
    if (conn->node && strcmp(conn->node->id, r->node_id) != 0)
        why = "the connection is another node's";
    else
        why = mu_ms_cluster_register(
            c,
            &(struct mu_ms_register){
                .id = r->node_id, .ip = r->ip, .port = r->port, .role = r->role, .claim = f->said->rank_id},
            conn, mu_now(), &node);
    if (why) {
        mu_ms_said(conn->server, "MindSpore: %.60s from %s is refused: %s", r->node_id, conn->name, why);
        conn->is_last = true;
    } else {
        conn->node = node;
    }
    registered_answer(conn, f, r->node_id, why ? MU_MS_NO_RANK : node->next_rank);
    mu__ms__register__free_unpacked(r, NULL);
    if (!why)
        mu_ms_cluster_go_on(c, mu_now());
}

/* The node that says its name; a connection that is nobody's yet is its own from then on. */
static struct mu_ms_node *node_of(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    Mu__Ms__Named *named = mu__ms__named__unpack(NULL, f->len, f->body);
    struct mu_ms_node *node = named ? mu_ms_cluster_find(&conn->server->cluster, named->node_id) : NULL;

    if (named)
        mu__ms__named__free_unpacked(named, NULL);
    return node;
}

static void on_heartbeat(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    struct mu_ms_cluster *c = &conn->server->cluster;
    struct mu_ms_node *node = node_of(conn, f);
    size_t len = 0;
    void *body;

    if (!node) {
        mu_ms_conn_refuse(conn, "it beats for a node that has not registered");
        return;
    }
    if (!conn->node && !node->conn)
        conn->node = node;
    mu_ms_cluster_beat(c, node, conn, mu_now());
    body = mu_ms_body_beat(c, &len);
    frame_answer_made(conn, f, body, len);
}

static void on_fetch(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    size_t len = 0;
    void *body = mu_ms_body_servers(&conn->server->cluster, &len);

    frame_answer_made(conn, f, body, len);
}

/* The body is the id itself. */
static void on_finish(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    char id[MU_MS_NAME_MAX + 1] = "";
    struct mu_ms_node *node;

    if (f->len <= MU_MS_NAME_MAX)
        memcpy(id, f->body, f->len);
    frame_answer(conn, f, f->body, f->len);
    node = mu_ms_cluster_find(&conn->server->cluster, id);
    if (node)
        mu_ms_cluster_finish(&conn->server->cluster, node);
}

static void on_done(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    struct mu_ms_node *node = node_of(conn, f);

    frame_answer(conn, f, f->body, f->len);
    if (node)
        mu_ms_scale_done(&conn->server->cluster, node, mu_now());
}

static void on_event(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    Mu__Ms__Event *event = mu__ms__event__unpack(NULL, f->len, f->body);

    if (!event || !conn->node) {
        mu_ms_conn_refuse(conn, event ? "it is no node's, and sends an event" : "its event cannot be read");
        if (event)
            mu__ms__event__free_unpacked(event, NULL);
        return;
    }
    mu_ms_cluster_event(&conn->server->cluster, event->event);
    mu__ms__event__free_unpacked(event, NULL);
    frame_answer(conn, f, f->body, f->len);
}

static void frame_serve(struct mu_ms_conn *conn, const struct ms_frame *f)
{
    switch (f->said->cmd) {
    case MU__MS__COMMAND__REGISTER: on_register(conn, f); break;
    case MU__MS__COMMAND__HEARTBEAT: on_heartbeat(conn, f); break;
    case MU__MS__COMMAND__FETCH_METADATA: on_fetch(conn, f); break;
    case MU__MS__COMMAND__FINISH: on_finish(conn, f); break;
    case MU__MS__COMMAND__SCALE_OUT_DONE:
    case MU__MS__COMMAND__SCALE_IN_DONE: on_done(conn, f); break;
    case MU__MS__COMMAND__SEND_EVENT: on_event(conn, f); break;
    default: frame_answer(conn, f, "", 0); break;
    }
}

size_t mu_ms_seed_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len)
{
    struct ms_frame f;
    uint64_t total;

    if (len < HEAD)
        return 0;
    f.meta_len = (size_t)number_at(bytes + 4, 4);
    total = number_at(bytes + 8, 8);
    if (number_at(bytes, 4) > 2)
        return mu_ms_conn_refuse(conn, "a frame is of kind %u; there are 0 to 2", (unsigned)number_at(bytes, 4));
    if (f.meta_len > total || f.meta_len > MU_MS_META_MAX)
        return mu_ms_conn_refuse(conn, "a frame's meta has %zu bytes", f.meta_len);
    if (total > MU_MS_FRAME_MAX)
        return mu_ms_conn_refuse(conn, "a frame has %llu bytes, more than %u", (unsigned long long)total,
                                 MU_MS_FRAME_MAX);
    if (len - HEAD < total)
        return 0;
    f.meta = bytes + HEAD;
    f.body = f.meta + f.meta_len;
    f.len = (size_t)total - f.meta_len;
    f.said = mu__ms__meta__unpack(NULL, f.meta_len, f.meta);
    if (!f.said)
        return mu_ms_conn_refuse(conn, "a frame's meta cannot be read");
    frame_serve(conn, &f);
    mu__ms__meta__free_unpacked(f.said, NULL);
    return conn->is_closing ? MU_MS_BAD : HEAD + (size_t)total;
}
