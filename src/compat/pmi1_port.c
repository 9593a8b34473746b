/*
 * compat/pmi1_port.c: tasks that come over TCP: PMI_PORT and PMI_ID instead of a socket that they inherit.
 *
 * For programs with a starter that closes what it does not know (Python's subprocess), or that run where descriptors do
 * not come along. The protocol has nothing by which a client could prove its identity, so only the loopback is listened
 * at, only processes of this user are heard, and each task is one connection's, once.
 *
 * Asking for a connection's owner costs descriptors. They are held from the start, since other threads may take what is
 * let go for it, and nobody is accepted without: where none is left the listener rests a while, for a connection that
 * nobody takes would wake the loop for ever.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "compat/pmi1_private.h"

enum { STRANGERS_MAX = 256, BACKLOG = 1024, AT_ONCE = 64, REST_MS = 100 };

static void refuse_stranger(struct mu_pmi1 *server, int fd, const char *why)
{
    server->options.said(server->options.arg, why);
    close(fd);
}

/* What can be held for it is held. */
static bool may_ask(struct mu_pmi1 *server)
{
    int error;

    if (server->peers.fd >= 0 && server->peers.table)
        return true;
    mu_peers_close(&server->peers);
    if (mu_peers_open(&server->peers))
        return true;
    error = errno;
    mu_peers_close(&server->peers);
    errno = error;
    return false;
}

static void accept_one(struct mu_pmi1 *server, int fd)
{
    struct mu_pmi1_client *client;
    int on = 1;
    uid_t user;

    if (!mu_rpc_peer_may_come(&server->peers, fd, &user)) {
        refuse_stranger(server, fd,
                        "a process that is not known to be this user's wanted to be a task of this job's MPI: it is "
                        "refused");
        return;
    }
    if (server->num_strangers >= STRANGERS_MAX) {
        refuse_stranger(server, fd,
                        "256 connections to the PMI server have not said which task they are: one more is "
                        "refused");
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    client = mu_pmi1_client_new(server, UINT32_MAX, fd);
    if (!client) {
        close(fd);
        return;
    }
    client->next = server->strangers;
    server->strangers = client;
    server->num_strangers++;
}

static void somebody_comes(uv_poll_t *poll, int status, int events);

static void go_on(uv_timer_t *timer)
{
    struct mu_pmi1 *server = timer->data;

    uv_poll_start(&server->listener, UV_READABLE, somebody_comes);
}

static void accept_rest(struct mu_pmi1 *server, int error)
{
    char line[160];

    snprintf(line, sizeof line, "tasks that come to the PMI port have to wait: %s", strerror(error));
    if (!server->has_rested)
        server->options.said(server->options.arg, line);
    server->has_rested = true;
    uv_poll_stop(&server->listener);
    uv_timer_start(&server->rest, go_on, REST_MS, 0);
}

/* The network's own errors are of connections that have broken before they were accepted. */
static bool is_of_nobody(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void somebody_comes(uv_poll_t *poll, int status, int events)
{
    struct mu_pmi1 *server = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = may_ask(server) ? accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;

        if (fd < 0 && is_of_nobody(errno))
            accept_rest(server, errno);
        if (fd < 0)
            return;
        server->has_rested = false;
        accept_one(server, fd);
    }
}

void mu_pmi1_stop_listening(struct mu_pmi1 *server, uv_close_cb closed)
{
    if (server->listen_fd < 0)
        return;
    mu_peers_close(&server->peers);
    uv_close((uv_handle_t *)&server->listener, closed);
    uv_close((uv_handle_t *)&server->rest, closed);
}

void mu_pmi1_introduce(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    struct mu_pmi1 *server = client->server;
    const char *cmd = mu_pmi1_field(line, "cmd");
    long id = mu_pmi1_number(line, "pmiid", -1);
    uint32_t i = (uint32_t)id - server->options.first_task;

    if (!cmd || strcmp(cmd, "initack") != 0 || id < 0 || i >= server->options.local_tasks || server->tasks[i].client) {
        mu_pmi1_reply(client, "cmd=initack rc=-1 msg=%s",
                      id >= 0 && i < server->options.local_tasks ? "that_task_is_there_already" : "who_are_you");
        client->state = MU_PMI1_GIVEN_UP;
        return;
    }
    mu_pmi1_unlink_stranger(client);
    client->task = (uint32_t)id;
    server->tasks[i].client = client;
    server->tasks[i].gone = false;
    mu_pmi1_reply(client, "cmd=initack rc=0");
    mu_pmi1_reply(client, "cmd=set size=%u", server->options.num_tasks);
    mu_pmi1_reply(client, "cmd=set rank=%u", client->task);
    mu_pmi1_reply(client, "cmd=set debug=0");
}

enum muster_status mu_pmi1_listen(struct mu_pmi1 *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int error = 0;

    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0 || bind(server->listen_fd, (struct sockaddr *)&address, sizeof address) ||
        listen(server->listen_fd, BACKLOG) || getsockname(server->listen_fd, (struct sockaddr *)&address, &len))
        error = -errno;
    if (error == 0)
        error = uv_poll_init(server->options.loop, &server->listener, server->listen_fd);
    if (error) {
        if (server->listen_fd >= 0)
            close(server->listen_fd);
        server->listen_fd = -1;
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "the loopback cannot be listened at: %s", uv_strerror(error));
    }
    uv_timer_init(server->options.loop, &server->rest);
    server->listener.data = server->rest.data = server;
    server->handles += 2;
    may_ask(server);
    uv_poll_start(&server->listener, UV_READABLE, somebody_comes);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", ntohs(address.sin_port));
    return MUSTER_OK;
}
