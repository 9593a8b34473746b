/*
 * tests/fuzz/h2.c: connections of arbitrary bytes, one after the other, to one server: rpc/.
 *
 * Methods answer at once, never, or refuse. When the client is gone, every call that was begun was answered or told of
 * its end, and the server holds nothing: no byte, no call, no deadline, no connection.
 */
#include "h2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/private.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define ROUNDS  20000 /* of the loop; a connection takes a dozen */

static struct mu_rpc *server;
static uv_loop_t loop;
static uv_timer_t alive; /* no handle of the server keeps the loop alive */
static unsigned long begun, open_calls;
static char path[100];

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the server: %s\n", what);
    abort();
}

static void begin_echo(struct mu_rpc_call *call, const void *body, size_t len)
{
    begun++;
    mu_rpc_answer(call, body, len);
}

static void begin_refuse(struct mu_rpc_call *call, const void *body, size_t len)
{
    char text[300];

    begun++;
    snprintf(text, sizeof text, "%.*s", (int)(len < 200 ? len : 200), (const char *)body);
    mu_rpc_refuse(call, MUSTER_NOT_FOUND, text, body, len);
}

static void on_ended(void *arg)
{
    (*(unsigned long *)arg)--;
}

static void begin_park(struct mu_rpc_call *call, const void *body, size_t len)
{
    (void)body;
    (void)len;
    begun++;
    open_calls++;
    mu_rpc_wait(call, on_ended, &open_calls);
}

/* A stream: each message comes back, until the client has no more. */
static void begin_each(struct mu_rpc_call *call, const void *body, size_t len)
{
    begun++;
    mu_rpc_send(call, body, len);
}

static void last_of_each(struct mu_rpc_call *call)
{
    mu_rpc_finish(call);
}

static const struct mu_rpc_method methods[] = {
    {.path = "/mu.test.Fuzz/Echo", .begin = begin_echo},
    {.path = "/mu.test.Fuzz/Park", .begin = begin_park},
    {.path = "/mu.test.Fuzz/Refuse", .begin = begin_refuse},
    {.path = "/mu.test.Fuzz/Each", .begin = begin_each, .last = last_of_each},
    {.path = NULL},
};

static void on_alive(uv_timer_t *timer)
{
    (void)timer;
}

static void stop(void)
{
    uv_close((uv_handle_t *)&alive, NULL);
    mu_rpc_stop(server, 0, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&loop) == 0, "it leaves handles in the loop");
}

static void start(void)
{
    const char *folder = getenv("TMPDIR");
    struct mu_rpc_options options = {.loop = &loop, .methods = methods, .message_max = 4096, .streams_max = 30};
    char address[120];

    snprintf(path, sizeof path, "%.60s/h2.%d", folder ? folder : "/tmp", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    options.address = address;
    must(uv_loop_init(&loop) == 0 && mu_rpc_start(&options, &server) == MUSTER_OK, muster_last_error());
    uv_timer_init(&loop, &alive);
    uv_timer_start(&alive, on_alive, 1u << 30, 0);
    atexit(stop);
}

unsigned long h2_try(const uint8_t *data, size_t size)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    unsigned long before = begun;
    uint8_t greeting[100];
    int fd, rounds = 0;
    size_t len;

    if (!server)
        start();
    memcpy(greeting, PREFACE, strlen(PREFACE));
    len = strlen(PREFACE);
    len += h2_frame(greeting + len, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    snprintf(where.sun_path, sizeof where.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(fd >= 0 && connect(fd, (const struct sockaddr *)&where, sizeof where) == 0, "it takes no connection");
    must((size > 0 && data[0] == 'P') || send(fd, greeting, len, MSG_NOSIGNAL) == (ssize_t)len, "no greeting is sent");
    must(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size, "the bytes are not sent"); /* a socket holds more */
    shutdown(fd, SHUT_WR);
    do
        uv_run(&loop, UV_RUN_NOWAIT);
    while ((rounds < 3 || server->open > 6) && rounds++ < ROUNDS); /* its own five handles, and the listener */
    must(server->open == 6 && server->count == 0, "a connection stays");
    must(server->account->held == 0, "bytes stay");
    must(server->num_deadlines == 0 && !server->dirty, "a call stays");
    must(open_calls == 0, "a call was not told of its end");
    close(fd);
    return begun - before;
}

/* ---- what a client says ------------------------------------------------------------------------------------------ */

size_t h2_frame(uint8_t *to, uint8_t kind, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           kind,           flags,
        (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    memcpy(to, head, sizeof head);
    if (len > 0)
        memmove(to + sizeof head, payload, len);
    return sizeof head + len;
}

static size_t literal(uint8_t *to, const char *text)
{
    size_t len = strlen(text);

    must(len < 127, "the test's header is too long");
    to[0] = (uint8_t)len;
    memcpy(to + 1, text, len);
    return len + 1;
}

static size_t header(uint8_t *to, const char *name, const char *value)
{
    size_t n = 1;

    to[0] = 0;
    n += literal(to + n, name);
    return n + literal(to + n, value);
}

size_t h2_request(uint8_t *to, const char *method, const char *name, const char *value)
{
    char whole[100];
    size_t n = 0;

    snprintf(whole, sizeof whole, "/mu.test.Fuzz/%s", method);
    to[n++] = 0x83; /* :method POST */
    to[n++] = 0x86; /* :scheme http */
    n += header(to + n, ":path", whole);
    n += header(to + n, ":authority", "x");
    n += header(to + n, "content-type", "application/grpc");
    return n + header(to + n, name, value);
}
