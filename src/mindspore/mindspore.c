/*
 * mindspore/mindspore.c: start, the clock, the end.
 */
#include "mindspore/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"

#define TICK_MS    200
#define BACKLOG    511
#define SCALE_NS   60000000000ull
#define SILENCE_NS 30000000000ull
#define SENTENCES  20u /* of strangers, in ten seconds */

void mu_ms_said(struct mu_mindspore *server, const char *format, ...)
{
    char sentence[MU_MS_SENTENCE];
    uint64_t now = mu_now();
    va_list args;

    if (now - server->sentences_from > 10000000000ull) {
        server->sentences_from = now;
        server->sentences = 0;
    }
    if (++server->sentences > SENTENCES || !server->options.said)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    server->options.said(server->options.arg, sentence);
}

/* ---- how the cluster speaks -------------------------------------------------------------------------------------- */

static void on_push(void *arg, struct mu_ms_node *node, Mu__Ms__Command command, const void *body, size_t len)
{
    mu_ms_link_push(arg, node, command, body, len);
}

static void on_unasked_beat(void *arg, struct mu_ms_node *node, const void *body, size_t len)
{
    uint8_t head[MU_MS_HEAD_MAX];

    (void)arg;
    mu_ms_conn_send(node->conn, head, mu_ms_head_of(head, MU__MS__COMMAND__HEARTBEAT, 0, len), body, len);
}

static void on_gone(void *arg, struct mu_ms_node *node)
{
    struct mu_mindspore *server = arg;

    mu_ms_link_drop(node);
    for (struct mu_ms_conn *conn = server->conns; conn; conn = conn->next)
        if (conn->node == node) {
            conn->node = NULL;
            conn->is_broken = !server->is_stopping; /* closed soon: the node is no member */
        }
}

static void on_said(void *arg, const char *sentence)
{
    struct mu_mindspore *server = arg;

    if (server->options.said)
        server->options.said(server->options.arg, sentence);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void server_free(struct mu_mindspore *server)
{
    for (int i = 0; i < 2; i++)
        mu_listen_close(&server->listens[i]);
    mu_peers_close(&server->peers);
    free(server);
}

void mu_ms_released(struct mu_mindspore *server)
{
    void (*stopped)(void *arg) = server->stopped;
    void *arg = server->stopped_arg;

    if (--server->handles > 0)
        return;
    server_free(server);
    if (stopped)
        stopped(arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    mu_ms_released(handle->data);
}

void mu_mindspore_stop(struct mu_mindspore *server, void (*stopped)(void *arg), void *arg)
{
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    server->stopped = stopped;
    server->stopped_arg = arg;
    while (server->conns)
        mu_ms_conn_close(server->conns);
    mu_ms_links_end(server);
    mu_ms_cluster_free(&server->cluster);
    mu_ms_topology_free(&server->topology);
    for (unsigned i = 0; i < server->num_listeners; i++)
        uv_close((uv_handle_t *)&server->listeners[i], on_handle_closed);
    uv_close((uv_handle_t *)&server->clock, on_handle_closed);
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static void on_clock(uv_timer_t *timer)
{
    struct mu_mindspore *server = timer->data;

    for (struct mu_ms_conn *conn = server->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->is_broken || mu_ms_conn_is_mute(conn)) {
            mu_ms_conn_close(conn);
            next = server->conns; /* more may have gone with it */
        }
    }
    for (unsigned i = 0; server->is_deaf && i < server->num_listeners; i++)
        mu_ms_conn_accept(server, (uv_stream_t *)&server->listeners[i]);
    mu_ms_cluster_tick(&server->cluster, mu_now());
    mu_ms_topology_tick(&server->topology, mu_now());
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static void on_connection(uv_stream_t *listener, int status)
{
    struct mu_mindspore *server = listener->data;

    if (status == 0)
        mu_ms_conn_accept(server, listener);
    else
        mu_ms_said(server, "MindSpore: a node has to wait: %s", uv_strerror(status));
}

static enum muster_status listen_at(struct mu_mindspore *server, const char *address, struct mu_listen *listen)
{
    enum muster_status status;

    if (strncmp(address, "unix:", 5) == 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "MindSpore's nodes come over TCP, not to %.120s", address);
    status = mu_listen_open(address, true, listen);
    if (status)
        return status;
    if (!listen->is_loopback && !server->options.insecure)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "%.120s can be reached from other machines, and MindSpore's protocol has no password; say that "
                       "it is meant to be insecure (--mindspore-insecure)",
                       address);
    for (unsigned i = 0; i < listen->count; i++) {
        uv_tcp_t *tcp = &server->listeners[server->num_listeners];
        int rc;

        uv_tcp_init(server->options.loop, tcp);
        tcp->data = server;
        uv_unref((uv_handle_t *)tcp);
        server->num_listeners++;
        server->handles++;
        rc = uv_tcp_open(tcp, listen->fds[i]);
        if (!rc) {
            listen->fds[i] = -1; /* it is the loop's */
            rc = uv_listen((uv_stream_t *)tcp, BACKLOG, on_connection);
        }
        if (rc)
            return mu_fail(MUSTER_UNAVAILABLE, "cannot listen at %.120s: %s", address, uv_strerror(rc));
    }
    return MUSTER_OK;
}

static enum muster_status numbers_check(const struct mu_mindspore_options *o)
{
    if (o->servers + o->workers == 0 || o->servers > MU_MS_NODES_MAX || o->workers > MU_MS_NODES_MAX - o->servers)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a cluster of MindSpore has 1 to %u nodes", MU_MS_NODES_MAX);
    return MUSTER_OK;
}

enum muster_status mu_mindspore_start(const struct mu_mindspore_options *options, struct mu_mindspore **ret_server)
{
    struct mu_mindspore *server;
    enum muster_status status = numbers_check(options);

    if (status)
        return status;
    server = calloc(1, sizeof *server);
    if (!server)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for MindSpore's scheduler");
    server->options = *options;
    server->cluster = (struct mu_ms_cluster){
        .out = {.push = on_push, .beat = on_unasked_beat, .gone = on_gone, .said = on_said, .arg = server},
        .want = {options->servers, options->workers},
        .wanted_first = {options->servers, options->workers},
        .scale_ns = options->scale_ns ? options->scale_ns : SCALE_NS,
        .silence_ns = options->silence_ns ? options->silence_ns : SILENCE_NS,
    };
    server->topology = (struct mu_ms_topology){.want = {options->servers, options->workers},
                                               .found = options->found ? options->found : 11,
                                               .is_fixed = options->found != 0};
    mu_peers_open(&server->peers);
    uv_timer_init(options->loop, &server->clock);
    server->clock.data = server;
    uv_unref((uv_handle_t *)&server->clock);
    server->handles = 1;
    status = listen_at(server, options->address, &server->listens[0]);
    if (!status && options->rest)
        status = listen_at(server, options->rest, &server->listens[1]);
    if (status) { /* what was begun is closed by the loop's next turns */
        char kept[MU_SENTENCE_MAX];

        mu_error_keep(kept);
        mu_mindspore_stop(server, NULL, NULL);
        mu_error_restore(kept);
        return status;
    }
    uv_timer_start(&server->clock, on_clock, TICK_MS, TICK_MS);
    *ret_server = server;
    return MUSTER_OK;
}

const char *mu_mindspore_address(const struct mu_mindspore *server)
{
    return server->listens[0].address;
}

void mu_mindspore_describe(const struct mu_mindspore *server, char *text, size_t size)
{
    const struct mu_ms_cluster *c = &server->cluster;
    const struct mu_ms_topology *t = &server->topology;
    const char *state = mu_ms_state_name(c->state);

    if (t->count > 0) {
        snprintf(text, size, "%s servers %u/%u workers %u/%u scalings 0",
                 t->count == t->want[0] + t->want[1] ? "READY" : "STARTING",
                 mu_ms_topology_count(t, MU__MS__ROLE__SERVER), t->want[0],
                 mu_ms_topology_count(t, MU__MS__ROLE__WORKER), t->want[1]);
        return;
    }
    snprintf(text, size, "%s servers %u/%u workers %u/%u scalings %u",
             strncasecmp(state, "cluster_", 8) == 0 ? state + 8 : state, mu_ms_cluster_count(c, MU__MS__ROLE__SERVER),
             c->want[MU__MS__ROLE__SERVER], mu_ms_cluster_count(c, MU__MS__ROLE__WORKER), c->want[MU__MS__ROLE__WORKER],
             c->scalings);
}

bool mu_mindspore_is_over(const struct mu_mindspore *server)
{
    return server->cluster.is_over || server->topology.is_over;
}
