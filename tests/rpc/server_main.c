/*
 * tests/rpc/server_main.c: a real server with methods that tests need. Prints its address, serves until its stdin ends,
 * then stops; what it says and what it learns of connections goes to stderr.
 *
 *   server ADDRESS [cert=FILE key=FILE authority=FILE] [insecure] [any_user] [BOUND=N ...] [grace=MS]
 *
 * /mu.test.Test/Echo    the message            Big     as many bytes as the number says
 *               Burst   the same, of which the server is not told that it may be long
 *               Park    never, or Release      Release every call that is parked answers; says how many these were
 *               Refuse  "CODE DETAILS TEXT"    Count   "PARKED ENDED CONNECTIONS BEGUN", of all calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "rpc/server.h"

struct parked {
    struct parked *next, *before;
    struct mu_rpc_call *call;
};

static struct mu_rpc *rpc;
static struct parked *first;
static unsigned long num_parked, num_ended, num_begun;
static uint64_t grace_ms;

static void begin_echo(struct mu_rpc_call *call, const void *body, size_t len)
{
    num_begun++;
    mu_rpc_answer(call, body, len);
}

/* A number in a body, which is not ended by a zero. */
static unsigned long number(const void *body, size_t len)
{
    char text[24];

    snprintf(text, sizeof text, "%.*s", (int)(len < 20 ? len : 20), (const char *)body);
    return strtoul(text, NULL, 10);
}

static void begin_big(struct mu_rpc_call *call, const void *body, size_t len)
{
    unsigned long size = number(body, len);
    char *bytes = malloc(size + 1);

    num_begun++;
    memset(bytes, 'b', size);
    mu_rpc_answer(call, bytes, size);
    free(bytes);
}

static void forget(struct parked *p)
{
    if (p->before)
        p->before->next = p->next;
    else
        first = p->next;
    if (p->next)
        p->next->before = p->before;
    num_parked--;
    free(p);
}

static void on_ended(void *arg)
{
    forget(arg);
    num_ended++;
}

static void begin_park(struct mu_rpc_call *call, const void *body, size_t len)
{
    struct parked *p = calloc(1, sizeof *p);

    (void)body;
    (void)len;
    num_begun++;
    p->call = call;
    p->next = first;
    if (first)
        first->before = p;
    first = p;
    num_parked++;
    mu_rpc_wait(call, on_ended, p);
}

static void begin_release(struct mu_rpc_call *call, const void *body, size_t len)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lu", num_parked);

    (void)body;
    (void)len;
    num_begun++;
    while (first) {
        mu_rpc_answer(first->call, "released", 8);
        forget(first);
    }
    mu_rpc_answer(call, text, (size_t)n);
}

static void begin_refuse(struct mu_rpc_call *call, const void *body, size_t len)
{
    char *text = calloc(1, len + 1), *details, *words;

    num_begun++;
    memcpy(text, body, len);
    details = (char *)memchr(text, ' ', len) + 1;
    words = (char *)memchr(details, ' ', len - (size_t)(details - text)) + 1;
    mu_rpc_refuse(call, (enum muster_status)number(text, 2), words, details, (size_t)(words - details - 1));
    free(text);
}

static void begin_count(struct mu_rpc_call *call, const void *body, size_t len)
{
    char text[100];
    int n = snprintf(text, sizeof text, "%lu %lu %u %lu", num_parked, num_ended, mu_rpc_connections(rpc), num_begun);

    (void)body;
    (void)len;
    mu_rpc_answer(call, text, (size_t)n);
}

static const struct mu_rpc_method methods[] = {
    {.path = "/mu.test.Test/Echo", .begin = begin_echo},
    {.path = "/mu.test.Test/Big", .begin = begin_big, .is_long = true},
    {.path = "/mu.test.Test/Burst", .begin = begin_big},
    {.path = "/mu.test.Test/Park", .begin = begin_park},
    {.path = "/mu.test.Test/Release", .begin = begin_release},
    {.path = "/mu.test.Test/Refuse", .begin = begin_refuse},
    {.path = "/mu.test.Test/Count", .begin = begin_count},
    {.path = NULL},
};

static const uint8_t described[] = {
#include "rpc/descriptors.inc"
};

static void on_conn_closed(void *arg, struct mu_rpc_conn *conn, const char *why)
{
    (void)arg;
    fprintf(stderr, "closed: %s: %s\n", mu_rpc_peer_name(conn), why);
}

static void on_said(void *arg, const char *sentence)
{
    (void)arg;
    fprintf(stderr, "said: %s\n", sentence);
}

static void on_stopped(void *arg)
{
    (void)arg;
    fprintf(stderr, "stopped\n");
}

static void on_stdin(uv_poll_t *poll, int status, int events)
{
    char byte;

    (void)status;
    (void)events;
    if (read(0, &byte, 1) > 0)
        return;
    uv_close((uv_handle_t *)poll, NULL);
    mu_rpc_stop(rpc, grace_ms * 1000000, on_stopped);
}

static void take_option(const char *word, struct mu_rpc_options *o, struct mu_rpc_tls *tls)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    unsigned long n = strtoul(value, NULL, 10);

    o->tls = strncmp(word, "cert=", 5) == 0 ? tls : o->tls;
    tls->certificate = strncmp(word, "cert=", 5) == 0 ? value : tls->certificate;
    tls->private_key = strncmp(word, "key=", 4) == 0 ? value : tls->private_key;
    tls->authority = strncmp(word, "authority=", 10) == 0 ? value : tls->authority;
    tls->peer_uri = strncmp(word, "uri=", 4) == 0 ? value : tls->peer_uri;
    o->insecure = o->insecure || strcmp(word, "insecure") == 0;
    o->any_user = o->any_user || strcmp(word, "any_user") == 0;
    grace_ms = strncmp(word, "grace=", 6) == 0 ? n : grace_ms;
    o->message_max = strncmp(word, "message=", 8) == 0 ? n : o->message_max;
    o->held_max = strncmp(word, "held=", 5) == 0 ? n : o->held_max;
    o->total_max = strncmp(word, "total=", 6) == 0 ? n : o->total_max;
    o->streams_max = strncmp(word, "streams=", 8) == 0 ? (uint32_t)n : o->streams_max;
    o->connections_max = strncmp(word, "connections=", 12) == 0 ? (uint32_t)n : o->connections_max;
    o->handshake_ms = strncmp(word, "handshake=", 10) == 0 ? (uint32_t)n : o->handshake_ms;
    o->stall_ms = strncmp(word, "stall=", 6) == 0 ? (uint32_t)n : o->stall_ms;
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    struct mu_rpc_tls tls = {0};
    struct mu_rpc_options options = {.loop = loop,
                                     .methods = methods,
                                     .closed = on_conn_closed,
                                     .said = on_said,
                                     .described = described,
                                     .described_len = sizeof described};
    uv_poll_t input;

    options.address = argc > 1 ? argv[1] : ":0";
    for (int i = 2; i < argc; i++)
        take_option(argv[i], &options, &tls);
    if (mu_rpc_start(&options, &rpc)) {
        fprintf(stderr, "refused: %s\n", muster_last_error());
        uv_run(loop, UV_RUN_DEFAULT);
        uv_loop_close(loop);
        return 1;
    }
    printf("%s\n", mu_rpc_address(rpc));
    fflush(stdout);
    uv_poll_init(loop, &input, 0);
    uv_poll_start(&input, UV_READABLE, on_stdin);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) != 0;
}
