/*
 * mindspore/link.c: the connections to the nodes, by which they are told.
 *
 * One for each node, made when there is something to tell. What is told waits for the connection, not for answers: a
 * node acknowledges each frame, and that is stepped over. A node that cannot be reached is lost.
 */
#include "mindspore/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"

#define PIECE 4096u

struct mu_ms_link {
    uv_tcp_t tcp; /* first */
    uv_connect_t connect;
    struct mu_mindspore *server;
    struct mu_ms_link *next, *prev;
    struct mu_ms_node *node; /* NULL: it is not its link any more */
    uint32_t waiting;        /* frames that have not gone */
    bool is_closing, is_connected;
    char ip[64];
    uint32_t port;
    char piece[PIECE];
};

static void on_link_closed(uv_handle_t *handle)
{
    struct mu_ms_link *link = (struct mu_ms_link *)handle;
    struct mu_mindspore *server = link->server;

    free(link);
    mu_ms_released(server);
}

static void link_close(struct mu_ms_link *link)
{
    if (link->is_closing)
        return;
    link->is_closing = true;
    MU_LIST_DROP(link->server->links, link);
    if (link->node)
        link->node->link = NULL;
    link->node = NULL;
    uv_close((uv_handle_t *)&link->tcp, on_link_closed);
}

/* It could not be told. */
static void link_fail(struct mu_ms_link *link, int error)
{
    struct mu_mindspore *server = link->server;
    struct mu_ms_node *node = link->node;
    char why[160];

    snprintf(why, sizeof why, "cannot be told anything at %s:%u: %s", link->ip, link->port, uv_strerror(error));
    link_close(link);
    if (node && node->is_alive && !server->is_stopping)
        mu_ms_cluster_lost(&server->cluster, node, why, mu_now());
}

void mu_ms_link_drop(struct mu_ms_node *node)
{
    struct mu_ms_link *link = node->link;

    node->link = NULL;
    if (!link)
        return;
    link->node = NULL;
    if (link->waiting == 0)
        link_close(link);
}

void mu_ms_links_end(struct mu_mindspore *server)
{
    while (server->links)
        link_close(server->links);
}

static void on_piece(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room)
{
    struct mu_ms_link *link = (struct mu_ms_link *)handle;

    (void)suggested;
    *ret_room = uv_buf_init(link->piece, sizeof link->piece);
}

static void on_acknowledged(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
    (void)room;
    if (n < 0) /* the node's own connection says whether it has ended */
        link_close((struct mu_ms_link *)stream);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct mu_ms_link *link = connect->data;

    if (link->is_closing)
        return;
    if (status < 0)
        link_fail(link, status);
    else
        link->is_connected = uv_read_start((uv_stream_t *)&link->tcp, on_piece, on_acknowledged) == 0;
}

/* NULL: no memory, or no way there. */
static struct mu_ms_link *link_new(struct mu_mindspore *server, struct mu_ms_node *node)
{
    struct sockaddr_storage to;
    struct mu_ms_link *link;

    if (uv_ip4_addr(node->ip, (int)node->port, (struct sockaddr_in *)&to) &&
        uv_ip6_addr(node->ip, (int)node->port, (struct sockaddr_in6 *)&to))
        return NULL;
    link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->server = server;
    link->node = node;
    link->port = node->port;
    snprintf(link->ip, sizeof link->ip, "%s", node->ip);
    uv_tcp_init(server->options.loop, &link->tcp);
    server->handles++;
    MU_LIST_PUSH(server->links, link);
    node->link = link;
    uv_unref((uv_handle_t *)&link->tcp);
    uv_tcp_nodelay(&link->tcp, 1);
    link->connect.data = link;
    if (uv_tcp_connect(&link->connect, &link->tcp, (struct sockaddr *)&to, on_connected)) {
        link_close(link);
        return NULL;
    }
    return link;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

struct ms_push {
    uv_write_t request;
    uint8_t bytes[];
};

static void on_pushed(uv_write_t *request, int status)
{
    struct mu_ms_link *link = (struct mu_ms_link *)request->handle;

    free(request->data);
    link->waiting--;
    if (link->is_closing)
        return;
    if (status < 0)
        link_fail(link, status);
    else if (!link->node && link->waiting == 0)
        link_close(link);
}

void mu_ms_link_push(struct mu_mindspore *server, struct mu_ms_node *node, Mu__Ms__Command command, const void *body,
                     size_t len)
{
    struct mu_ms_link *link = node->link;
    struct ms_push *push;
    uint8_t head[MU_MS_HEAD_MAX];
    size_t head_len = mu_ms_head_of(head, command, ++server->request_id, len);
    uv_buf_t buf;

    if (link && (link->port != node->port || strcmp(link->ip, node->ip) != 0)) { /* it has come again, elsewhere */
        if (link->is_connected)
            mu_ms_link_drop(node);
        else
            link_close(link);
        link = NULL;
    }
    if (!link)
        link = link_new(server, node);
    push = link && uv_stream_get_write_queue_size((uv_stream_t *)&link->tcp) <= MU_MS_OUT_MAX
               ? malloc(sizeof *push + head_len + len)
               : NULL;
    node->is_untold |= !push;
    if (!push)
        return;
    memcpy(push->bytes, head, head_len);
    if (len)
        memcpy(push->bytes + head_len, body, len);
    push->request.data = push;
    buf = uv_buf_init((char *)push->bytes, (unsigned)(head_len + len));
    link->waiting++;
    if (uv_write(&push->request, (uv_stream_t *)&link->tcp, &buf, 1, on_pushed)) {
        link->waiting--;
        node->is_untold = true;
        free(push);
        link_close(link);
    }
}
