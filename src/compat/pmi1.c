/*
 * compat/pmi1.c: the connections of the tasks.
 *
 * All sockets are in one epoll set, which the loop waits for. A task that never speaks wakes nobody, also by its end:
 * its own end of the socket is held here until then. Buffers are made when it says its first word. A client has one
 * request on its way: while its answer is not taken, or it waits in the barrier, what it says further stays in its
 * buffer, and a full one is not read on. One that says too long a line, or a NUL, is given up: its connection is
 * closed, which is what its own program gets.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/account.h"
#include "base/error.h"
#include "compat/pmi1_private.h"

enum { EVENTS_AT_ONCE = 64, AT_MOST = 64, COMPLETE = 0, INCOMPLETE = 1 };

/* ---- clients ---- */

struct mu_pmi1_client *mu_pmi1_client_new(struct mu_pmi1 *server, uint32_t task, int fd)
{
    struct mu_pmi1_client *client = calloc(1, sizeof *client);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

    if (!client)
        return NULL;
    *client = (struct mu_pmi1_client){.server = server, .task = task, .fd = fd, .held = -1, .events = EPOLLIN};
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return client;
    free(client);
    return NULL;
}

static struct mu_pmi1_task *task_of(const struct mu_pmi1_client *client)
{
    struct mu_pmi1 *server = client->server;

    return client->task == UINT32_MAX ? NULL : &server->tasks[client->task - server->options.first_task];
}

void mu_pmi1_unlink_stranger(struct mu_pmi1_client *client)
{
    struct mu_pmi1_client **link = &client->server->strangers;

    while (*link && *link != client)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = client->next;
    client->server->num_strangers--;
}

static void client_let_go(struct mu_pmi1_client *client)
{
    if (client->held >= 0)
        close(client->held);
    client->held = -1;
}

static void client_forget(struct mu_pmi1_client *client)
{
    struct mu_pmi1_task *task = task_of(client);

    if (client->in_barrier)
        client->server->waiting--;
    if (task && task->client == client) {
        task->client = NULL;
        task->state = client->state; /* that it is gone is for its process's end to say: mu_pmi1_task_ended() */
    }
    mu_pmi1_unlink_stranger(client);
    /* Said, for a close alone is not enough: a process that is on its way to exec has it, too. */
    epoll_ctl(client->server->epoll_fd, EPOLL_CTL_DEL, client->fd, NULL);
    close(client->fd);
    client_let_go(client);
    if (client->text && client->server->options.account)
        mu_account_give(client->server->options.account, sizeof *client->text);
    free(client->text);
    free(client);
}

void mu_pmi1_give_up(struct mu_pmi1_client *client, const char *why)
{
    char line[200];

    if (client->is_closed)
        return;
    client->is_closed = true;
    if (why && client->task != UINT32_MAX) {
        snprintf(line, sizeof line, "task %u %s: its PMI connection is closed", client->task, why);
        client->server->options.said(client->server->options.arg, line);
    }
    shutdown(client->fd, SHUT_RDWR); /* its end is heard as any other's */
    client->in_len = 0;
    client->out_len = client->out_at = 0;
}

void mu_pmi1_expect(struct mu_pmi1_client *client)
{
    uint32_t events = (client->in_len < sizeof client->text->in ? EPOLLIN : 0) | (client->out_len ? EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (events == client->events)
        return;
    client->events = events;
    epoll_ctl(client->server->epoll_fd, EPOLL_CTL_MOD, client->fd, &event);
}

/* ---- to the client ---- */

void mu_pmi1_flush(struct mu_pmi1_client *client)
{
    ssize_t n = 0;

    while (client->out_len > 0 && n >= 0) {
        n = send(client->fd, client->text->out + client->out_at, client->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            client->out_len = 0; /* there is nobody: so says the next read */
        if (n < 0 && errno == EINTR)
            n = 0;
        client->out_at += n > 0 ? (size_t)n : 0;
        client->out_len -= n > 0 ? (size_t)n : 0;
    }
    if (client->out_len == 0)
        client->out_at = 0;
}

void mu_pmi1_reply(struct mu_pmi1_client *client, const char *format, ...)
{
    size_t at = client->out_at + client->out_len, room = sizeof client->text->out - at;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(client->text->out + at, room, format, args);
    va_end(args);
    if (len < 0 || (size_t)len + 1 > room) { /* an answer is shorter than that, and waits for none */
        mu_pmi1_give_up(client, "has an answer of no length that PMI-1 knows");
        return;
    }
    client->text->out[at + (size_t)len] = '\n';
    client->out_len += (size_t)len + 1;
}

/* ---- from the client ---- */

static bool may_speak(const struct mu_pmi1_client *client)
{
    return client->out_len == 0 && !client->in_barrier && !client->is_closed && client->state != MU_PMI1_GIVEN_UP;
}

/* Each whole line, for as long as its answers are taken. */
void mu_pmi1_hear_lines(struct mu_pmi1_client *client)
{
    struct mu_pmi1_text *text = client->text;
    size_t at = 0;
    char *end;

    if (client->is_hearing) /* the barrier that it came to is over already: its own round goes on */
        return;
    client->is_hearing = true;
    while (may_speak(client) && (end = memchr(text->in + at, '\n', client->in_len - at))) {
        char *line = text->in + at;

        at = (size_t)(end - text->in) + 1;
        *end = 0;
        if (strlen(line) != (size_t)(end - line)) {
            mu_pmi1_give_up(client, "has said a line with a NUL in it");
            break;
        }
        if (end > line && end[-1] == '\r')
            end[-1] = 0;
        mu_pmi1_hear(client, line);
        mu_pmi1_flush(client);
        if (client->in_len == 0) /* given up */
            break;
    }
    client->is_hearing = false;
    client->in_len -= client->in_len ? at : 0;
    memmove(text->in, text->in + at, client->in_len);
    if (client->in_len == sizeof text->in && !memchr(text->in, '\n', client->in_len))
        mu_pmi1_give_up(client, "has said a line of more than 8191 bytes");
}

static bool take_text(struct mu_pmi1_client *client)
{
    struct mu_account *account = client->server->options.account;

    if (account && !mu_account_take(account, 0, sizeof *client->text)) {
        mu_pmi1_give_up(client, "finds no room for what it says: too much is held already for clients");
        return false;
    }
    client->text = malloc(sizeof *client->text);
    if (account && !client->text)
        mu_account_give(account, sizeof *client->text);
    return client->text != NULL;
}

/* COMPLETE: there is more where that came from. */
static int read_some(struct mu_pmi1_client *client)
{
    ssize_t n;

    if (!client->text && !take_text(client))
        return -1;
    if (client->in_len == sizeof client->text->in)
        return INCOMPLETE;
    do
        n = recv(client->fd, client->text->in + client->in_len, sizeof client->text->in - client->in_len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? INCOMPLETE : -1;
    if (n == 0)
        return -1;
    client->in_len += client->is_closed ? 0 : (size_t)n;
    client_let_go(client);
    mu_pmi1_hear_lines(client);
    return COMPLETE;
}

/* The other end is closed. A task that had said init, and not finalize, is missed: by a barrier, or at its end. */
static void hear_end(struct mu_pmi1_client *client)
{
    struct mu_pmi1 *server = client->server;

    client_forget(client);
    mu_pmi1_look(server);
}

static void client_serve(struct mu_pmi1_client *client, uint32_t events)
{
    if (events & EPOLLOUT) {
        mu_pmi1_flush(client);
        if (client->out_len == 0 && client->text)
            mu_pmi1_hear_lines(client);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && read_some(client) < 0) {
        hear_end(client);
        return;
    }
    if (events & (EPOLLHUP | EPOLLERR) && client->text && client->in_len == sizeof client->text->in) {
        hear_end(client); /* it will not hear the answers for which the rest waits */
        return;
    }
    if (client->text)
        mu_pmi1_expect(client);
}

/* A connection that ends may be followed by another's that is served in the same round: events of one that is gone
 * must not be. Nobody is forgotten but by his own event, or by his process's end, which comes between rounds. */
static void on_client_ready(uv_poll_t *poll, int status, int what)
{
    struct mu_pmi1 *server = poll->data;
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(server->epoll_fd, events, EVENTS_AT_ONCE, 0);

    (void)status;
    (void)what;
    for (int i = 0; i < count; i++)
        client_serve(events[i].data.ptr, events[i].events);
}

/* ---- the server ---- */

enum muster_status mu_pmi1_take(struct mu_pmi1 *server, uint32_t task_id, int fd)
{
    struct mu_pmi1_task *task = &server->tasks[task_id - server->options.first_task];

    if (task->client)
        client_forget(task->client);
    task->client = mu_pmi1_client_new(server, task_id, fd);
    task->state = MU_PMI1_NEW;
    server->num_gone -= task->gone;
    task->gone = false;
    return task->client ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "epoll_ctl: %s", strerror(errno));
}

void mu_pmi1_hold(struct mu_pmi1 *server, uint32_t task_id, int fd)
{
    server->tasks[task_id - server->options.first_task].client->held = fd;
}

enum mu_pmi1_end mu_pmi1_task_ended(struct mu_pmi1 *server, uint32_t task_id)
{
    struct mu_pmi1_task *task = &server->tasks[task_id - server->options.first_task];

    for (int i = 0; i < AT_MOST && task->client && read_some(task->client) == COMPLETE; i++)
        ; /* a descendant may have it, too */
    if (task->client)
        client_forget(task->client);
    server->num_gone += !task->gone;
    task->gone = true;
    switch (task->state) {
    case MU_PMI1_IN: return MU_PMI1_OPEN;
    case MU_PMI1_OUT: return MU_PMI1_FINALIZED;
    case MU_PMI1_GIVEN_UP: return MU_PMI1_ABORTED;
    case MU_PMI1_NEW: break;
    }
    return MU_PMI1_NEVER;
}

const char *mu_pmi1_address(const struct mu_pmi1 *server)
{
    return server->address;
}

static void free_server(struct mu_pmi1 *server)
{
    server->waiting = 0; /* nobody is answered any more */
    for (uint32_t i = 0; server->tasks && i < server->options.local_tasks; i++)
        if (server->tasks[i].client)
            client_forget(server->tasks[i].client);
    while (server->strangers)
        client_forget(server->strangers);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    mu_pmi1_keys_done(&server->keys);
    mu_pmi1_keys_done(&server->names);
    mu_pack_done(&server->fresh);
    free(server->tasks);
    free(server);
}

static void on_client_closed(uv_handle_t *handle)
{
    struct mu_pmi1 *server = handle->data;

    if (--server->handles == 0)
        free_server(server);
}

void mu_pmi1_stop(struct mu_pmi1 *server)
{
    if (!server)
        return;
    uv_close((uv_handle_t *)&server->poll, on_client_closed);
    mu_pmi1_stop_listening(server, on_client_closed);
}

enum muster_status mu_pmi1_start(const struct mu_pmi1_options *options, struct mu_pmi1 **ret_server)
{
    struct mu_pmi1 *server = calloc(1, sizeof *server);
    enum muster_status status;
    int error;

    if (!server)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    server->options = *options;
    server->keys.account = server->names.account = options->account;
    server->listen_fd = server->peers.fd = -1;
    server->tasks = calloc(options->local_tasks + 1, sizeof *server->tasks);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    error = !server->tasks ? UV_ENOMEM : server->epoll_fd < 0 ? -errno : 0;
    if (error == 0)
        error = uv_poll_init(options->loop, &server->poll, server->epoll_fd);
    if (error) {
        free_server(server);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s", uv_strerror(error));
    }
    server->poll.data = server;
    server->handles = 1;
    uv_poll_start(&server->poll, UV_READABLE, on_client_ready);
    status = options->port ? mu_pmi1_listen(server) : MUSTER_OK;
    if (status == MUSTER_OK)
        *ret_server = server;
    else
        mu_pmi1_stop(server);
    return status;
}
