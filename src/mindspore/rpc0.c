/*
 * mindspore/rpc0.c: RPC0, what MindSpore 1.10 to 2.10 speak to their scheduler: ranks, a few keys, the names of hosts.
 *
 *   "RPC0", four lengths of 4 bytes, big endian: name, to, from, body; then those four. A name is a number.
 *
 * Two dialects differ in the answer of a key that is there: 10, and 11 of one that is not, up to 2.7.0; 11 and 12 from
 * 2.7.2 on. A node of the other dialect takes "there" for "not there", and asks for the same key again and again, and
 * for nothing else: the second time it gets the other dialect's answer, and so do all others from then on.
 *
 * Half a second after its connection has ended a node is lost, unless it is heard again: the next beats say so.
 */
#include "mindspore/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"

#define HEAD      20u
#define WORD_MAX  4096u /* bytes, of a name, or of to, or of from */
#define PATIENCE  500000000ull
#define FOUND_NEW 11u
#define AGAIN     500000000ull /* ns: a node that did not understand asks again then, not before */
#define FOUND_OLD 10u
#define ROLE_MAX  31u

enum rpc0_request {
    RPC0_REGISTER = 0,
    RPC0_UNREGISTER = 1,
    RPC0_BEAT = 2,
    RPC0_SUCCESS = 3,
    RPC0_WRITE = 6,
    RPC0_READ = 7,
    RPC0_DELETE = 8,
    RPC0_HOSTS = 9,
};

struct mu_ms_peer {
    struct mu_ms_peer *next, *prev;
    struct mu_ms_conn *conn; /* the one that it registered on; NULL: it has ended */
    uint64_t lost_ns;        /* since when */
    uint32_t rank;
    bool is_done;    /* it has unregistered */
    bool is_mourned; /* it was said that it is lost */
    char role[ROLE_MAX + 1], host[MU_MS_NAME_MAX + 1], id[MU_MS_NAME_MAX + 1];
};

static Mu__Ms__Role role_of(const char *role)
{
    return strcmp(role, "MS_WORKER") == 0 ? MU__MS__ROLE__WORKER : MU__MS__ROLE__SERVER;
}

void mu_ms_topology_free(struct mu_ms_topology *t)
{
    mu_ms_keys_free(t);
    while (t->peers) {
        struct mu_ms_peer *peer = t->peers;

        MU_LIST_DROP(t->peers, peer);
        free(peer);
    }
    t->count = 0;
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static struct mu_ms_peer *peer_find(const struct mu_ms_topology *t, const char *id)
{
    for (struct mu_ms_peer *peer = t->peers; peer; peer = peer->next)
        if (strcmp(peer->id, id) == 0)
            return peer;
    return NULL;
}

uint32_t mu_ms_topology_count(const struct mu_ms_topology *t, Mu__Ms__Role role)
{
    uint32_t count = 0;

    for (const struct mu_ms_peer *peer = t->peers; peer; peer = peer->next)
        count += role_of(peer->role) == role;
    return count;
}

static bool is_complete(const struct mu_ms_topology *t)
{
    return t->count == t->want[0] + t->want[1];
}

/* An id that is a number is the rank. */
static uint32_t rank_of(const struct mu_ms_topology *t, const char *role, const char *id)
{
    bool taken[MU_MS_NODES_MAX] = {false};
    char *end;
    unsigned long claim = strtoul(id, &end, 10);

    for (const struct mu_ms_peer *peer = t->peers; peer; peer = peer->next)
        if (strcmp(peer->role, role) == 0)
            taken[peer->rank] = true;
    if (id[0] < '0' || id[0] > '9' || *end || claim >= MU_MS_NODES_MAX)
        claim = MU_MS_NO_RANK;
    return mu_ms_rank_choose(taken, t->want[role_of(role)], (uint32_t)claim);
}

/* All are there: from now on each finds its rank. */
static bool ranks_publish(struct mu_ms_topology *t)
{
    char name[ROLE_MAX + MU_MS_NAME_MAX + 1], rank[16];

    for (const struct mu_ms_peer *peer = t->peers; peer; peer = peer->next) {
        snprintf(name, sizeof name, "%s%s", peer->role, peer->id);
        if (!mu_ms_key_put(t, name, rank, (size_t)snprintf(rank, sizeof rank, "%u", peer->rank)))
            return false;
    }
    return true;
}

/* NULL: refused. */
static struct mu_ms_peer *peer_new(struct mu_ms_topology *t, const Mu__Ms__TopologyRegister *r)
{
    Mu__Ms__Role role = role_of(r->role);
    uint32_t rank = rank_of(t, r->role, r->node_id);
    struct mu_ms_peer *peer;

    if (rank == MU_MS_NO_RANK || mu_ms_topology_count(t, role) >= t->want[role])
        return NULL;
    peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    snprintf(peer->id, sizeof peer->id, "%s", r->node_id);
    snprintf(peer->host, sizeof peer->host, "%s", r->host_name);
    snprintf(peer->role, sizeof peer->role, "%s", r->role);
    peer->rank = rank;
    MU_LIST_PUSH(t->peers, peer);
    t->count++;
    return peer;
}

static bool is_lost(const struct mu_ms_peer *peer, uint64_t now)
{
    return !peer->conn && !peer->is_done && now - peer->lost_ns > PATIENCE;
}

/* Somebody is lost. It is said once. */
static bool is_abnormal(struct mu_mindspore *server, uint64_t now)
{
    bool is_any = false;

    for (struct mu_ms_peer *peer = server->topology.peers; peer; peer = peer->next) {
        if (!is_lost(peer, now))
            continue;
        is_any = true;
        if (!peer->is_mourned)
            mu_ms_said(server, "MindSpore: %s %u (%.60s on %.60s) has closed its connection", peer->role, peer->rank,
                       peer->id, peer->host);
        peer->is_mourned = true;
    }
    return is_any;
}

/* Nobody's connection is left, since when: then the next cluster may come. */
static bool is_deserted(const struct mu_ms_topology *t, uint64_t since)
{
    for (const struct mu_ms_peer *peer = t->peers; peer; peer = peer->next)
        if (peer->conn || (!peer->is_done && peer->lost_ns > since))
            return false;
    return t->count > 0;
}

void mu_ms_topology_tick(struct mu_ms_topology *t, uint64_t now)
{
    if (is_deserted(t, now - PATIENCE))
        mu_ms_topology_free(t);
}

void mu_ms_rpc0_closed(struct mu_ms_topology *t, struct mu_ms_conn *conn, uint64_t now)
{
    bool is_all_done = t->count > 0;

    for (struct mu_ms_peer *peer = t->peers; peer; peer = peer->next) {
        if (peer->conn == conn) {
            peer->conn = NULL;
            peer->lost_ns = now;
        }
        is_all_done &= peer->is_done && !peer->conn;
    }
    t->is_over |= is_all_done && is_complete(t);
    if (is_all_done)
        mu_ms_topology_free(t);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

struct rpc0_frame {
    unsigned name;
    const uint8_t *to, *body;
    uint32_t to_len, len;
};

static void head_put(uint8_t **at, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *(*at)++ = (uint8_t)(number >> shift);
}

/* `to` is the scheduler's name, in answers, too. */
static void rpc0_answer(struct mu_ms_conn *conn, const struct rpc0_frame *f, unsigned name, const void *body,
                        size_t len)
{
    uint8_t head[HEAD + 16 + WORD_MAX + 1], *at = head;
    char number[16];
    int digits = snprintf(number, sizeof number, "%u", name);

    memcpy(at, "RPC0", 4);
    at += 4;
    head_put(&at, (uint32_t)digits);
    head_put(&at, f->to_len);
    head_put(&at, 1);
    head_put(&at, (uint32_t)len);
    memcpy(at, number, (size_t)digits);
    at += digits;
    memcpy(at, f->to, f->to_len);
    at += f->to_len;
    *at++ = '@';
    mu_ms_conn_send(conn, head, (size_t)(at - head), body, len);
}

static void message_answer(struct mu_ms_conn *conn, const struct rpc0_frame *f, unsigned name,
                           const ProtobufCMessage *message)
{
    size_t len = 0;
    void *body = mu_ms_pack(message, &len);

    if (body)
        rpc0_answer(conn, f, name, body, len);
    else
        mu_ms_conn_refuse(conn, "there is no memory for an answer");
    free(body);
}

static const char *peer_check(const struct mu_ms_topology *t, const Mu__Ms__TopologyRegister *r,
                              const struct mu_ms_conn *conn)
{
    const struct mu_ms_peer *peer = peer_find(t, r->node_id);

    if (!r->node_id[0] || strlen(r->node_id) > MU_MS_NAME_MAX || strlen(r->host_name) > MU_MS_NAME_MAX)
        return "a node's id has 1 to 255 bytes, its host's name at most as many";
    if (!r->role[0] || strlen(r->role) > ROLE_MAX)
        return "its role is none";
    if (peer && (peer->conn ? peer->conn != conn : peer->is_done))
        return "a node with its id is there, or was";
    return NULL;
}

static void on_rpc0_register(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    struct mu_ms_topology *t = &conn->server->topology;
    Mu__Ms__TopologyRegister *r = mu__ms__topology_register__unpack(NULL, f->len, f->body);
    Mu__Ms__TopologyState state = MU__MS__TOPOLOGY_STATE__INIT;
    struct mu_ms_peer *peer = NULL;
    const char *why;

    if (!r) {
        mu_ms_conn_refuse(conn, "what it registers with cannot be read");
        return;
    }
    why = peer_check(t, r, conn);
    if (!why) {
        peer = peer_find(t, r->node_id);
        peer = peer ? peer : peer_new(t, r);
        if (!peer)
            why = "all nodes of its role are there";
        else if (is_complete(t) && !ranks_publish(t))
            why = "there is no memory for the ranks";
    }
    if (why)
        mu_ms_said(conn->server, "MindSpore: %.60s from %s is refused: %s", r->node_id, conn->name, why);
    else
        peer->conn = conn;
    state.success = !why;
    state.rank_or_state = peer ? peer->rank : 0;
    state.node_num = t->want[0] + t->want[1];
    mu__ms__topology_register__free_unpacked(r, NULL);
    message_answer(conn, f, RPC0_SUCCESS, &state.base);
}

static struct mu_ms_peer *peer_named(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    Mu__Ms__Named *named = mu__ms__named__unpack(NULL, f->len, f->body);
    struct mu_ms_peer *peer = named ? peer_find(&conn->server->topology, named->node_id) : NULL;

    if (named)
        mu__ms__named__free_unpacked(named, NULL);
    return peer;
}

static void on_rpc0_beat(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    Mu__Ms__TopologyState state = MU__MS__TOPOLOGY_STATE__INIT;
    struct mu_ms_peer *peer = peer_named(conn, f);

    if (peer && !peer->conn && !peer->is_done) /* its connection broke, and this is the next */
        peer->conn = conn;
    state.success = peer != NULL;
    state.rank_or_state = is_complete(&conn->server->topology);
    state.node_num = conn->server->topology.want[0] + conn->server->topology.want[1];
    state.abnormal = is_abnormal(conn->server, mu_now());
    message_answer(conn, f, RPC0_SUCCESS, &state.base);
}

static void on_rpc0_unregister(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    struct mu_ms_peer *peer = peer_named(conn, f);

    if (peer)
        peer->is_done = true;
    rpc0_answer(conn, f, RPC0_SUCCESS, "3", 1); /* the number of the answer is the answer */
}

/* The node asks for a key that it was told just before, on this connection: it did not understand. */
static void dialect_learn(struct mu_ms_topology *t, struct mu_ms_conn *conn, const char *name, uint64_t now)
{
    bool is_again = conn->told == t->found && strcmp(conn->told_key, name) == 0;

    if (t->is_fixed || strlen(name) >= sizeof conn->told_key)
        return;
    if (conn->told == t->found && !is_again && strncmp(conn->told_key, "MS_", 3) != 0)
        t->is_fixed = true; /* it was told another key, and understood */
    if (is_again && now - conn->told_ns > AGAIN)
        t->found = t->found == FOUND_NEW ? FOUND_OLD : FOUND_NEW;
    if (!is_again || t->found != conn->told)
        conn->told_ns = now;
    snprintf(conn->told_key, sizeof conn->told_key, "%s", name);
    conn->told_next = t->found;
}

static void on_rpc0_read(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    struct mu_ms_topology *t = &conn->server->topology;
    Mu__Ms__TopologyValue *asked = mu__ms__topology_value__unpack(NULL, f->len, f->body);
    Mu__Ms__TopologyValue value = MU__MS__TOPOLOGY_VALUE__INIT;
    struct mu_ms_key *key;

    if (!asked) {
        mu_ms_conn_refuse(conn, "the key that it asks for cannot be read");
        return;
    }
    value.name = asked->name;
    key = mu_ms_key_find(t, asked->name);
    if (key) {
        value.value.len = key->len;
        value.value.data = key->value;
        if (f->name == RPC0_READ)
            dialect_learn(t, conn, asked->name, mu_now());
    }
    message_answer(conn, f, key ? t->found : t->found + 1, &value.base);
    if (key && f->name == RPC0_DELETE)
        mu_ms_key_drop(t, key);
    mu__ms__topology_value__free_unpacked(asked, NULL);
}

static void on_rpc0_write(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    Mu__Ms__TopologyValue *value = mu__ms__topology_value__unpack(NULL, f->len, f->body);

    if (!value)
        mu_ms_conn_refuse(conn, "the key that it writes cannot be read");
    else if (!mu_ms_key_put(&conn->server->topology, value->name, value->value.data, value->value.len))
        mu_ms_conn_refuse(conn, "its key does not fit: keys may have %u MiB together", MU_MS_KEYS_MAX >> 20);
    if (value)
        mu__ms__topology_value__free_unpacked(value, NULL);
}

/* Of that role, by rank. */
static void on_rpc0_hosts(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    struct mu_ms_topology *t = &conn->server->topology;
    const struct mu_ms_peer *by_rank[MU_MS_NODES_MAX] = {NULL};
    const char *comma = "";
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);

    if (!to) {
        mu_ms_conn_refuse(conn, "there is no memory for an answer");
        return;
    }
    for (const struct mu_ms_peer *peer = t->peers; peer; peer = peer->next)
        if (strlen(peer->role) == f->len && memcmp(peer->role, f->body, f->len) == 0)
            by_rank[peer->rank] = peer;
    fputs("{\"hostnames\":[", to);
    for (uint32_t rank = 0; rank < MU_MS_NODES_MAX; rank++)
        if (by_rank[rank]) {
            fputs(comma, to);
            mu_ms_quoted_put(to, by_rank[rank]->host);
            comma = ",";
        }
    fputs("]}", to);
    if (fclose(to))
        mu_ms_conn_refuse(conn, "there is no memory for an answer");
    else
        rpc0_answer(conn, f, t->found, text, len);
    free(text);
}

static void rpc0_serve(struct mu_ms_conn *conn, const struct rpc0_frame *f)
{
    switch (f->name) {
    case RPC0_REGISTER: on_rpc0_register(conn, f); break;
    case RPC0_UNREGISTER: on_rpc0_unregister(conn, f); break;
    case RPC0_BEAT: on_rpc0_beat(conn, f); break;
    case RPC0_WRITE: on_rpc0_write(conn, f); break;
    case RPC0_READ:
    case RPC0_DELETE: on_rpc0_read(conn, f); break;
    case RPC0_HOSTS: on_rpc0_hosts(conn, f); break;
    default: mu_ms_conn_refuse(conn, "it asks for %u, which no node asks a scheduler for", f->name); break;
    }
}

static uint32_t length_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

size_t mu_ms_rpc0_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len)
{
    uint32_t lens[4];
    struct rpc0_frame f = {.name = 0};
    size_t total = HEAD;

    if (len < HEAD)
        return 0;
    for (int i = 0; i < 4; i++) {
        lens[i] = length_at(bytes + 4 + 4 * i);
        if (lens[i] > (i < 3 ? WORD_MAX : MU_MS_FRAME_MAX))
            return mu_ms_conn_refuse(conn, "a part of a message has %u bytes", lens[i]);
        total += lens[i];
    }
    if (memcmp(bytes, "RPC0", 4) != 0)
        return mu_ms_conn_refuse(conn, "a message does not begin with RPC0");
    if (len < total)
        return 0;
    for (uint32_t i = 0; i < lens[0]; i++) {
        uint8_t digit = bytes[HEAD + i];

        if (digit < '0' || digit > '9' || f.name > 999)
            return mu_ms_conn_refuse(conn, "a message's name is no number");
        f.name = f.name * 10 + digit - '0';
    }
    f.to = bytes + HEAD + lens[0];
    f.to_len = lens[1];
    f.body = f.to + lens[1] + lens[2];
    f.len = lens[3];
    conn->told_next = 0;
    rpc0_serve(conn, &f);
    if (!conn->is_closing)
        conn->told = conn->told_next;
    return conn->is_closing ? MU_MS_BAD : total;
}
