/*
 * tests/tcpstore/wire.c: clients of a TCPStore server in the same thread.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 4096 };

struct mu_tcpstore *store;
char wire_said[4096];
unsigned wire_sentences;
static struct client clients[CLIENTS];
static unsigned num_clients;
static struct sockaddr_in address, other_address;
static struct mu_tcpstore *other_store;
extern struct mu_coord *pair_coords[]; /* tests/coord/pair.h */

static void on_said(void *arg, const char *sentence)
{
    (void)arg;
    wire_sentences++;
    snprintf(wire_said, sizeof wire_said, "%s", sentence);
}

static struct mu_tcpstore *start(struct mu_tcpstore_options o, struct sockaddr_in *ret_address)
{
    struct mu_tcpstore *started;
    const char *port;

    o.loop = &counter_loop;
    o.address = o.address ? o.address : "127.0.0.1:0";
    o.said = on_said;
    wire_said[0] = 0;
    wire_sentences = 0;
    if (mu_tcpstore_start(&o, &started))
        fail_msg("no server: %s", muster_last_error());
    port = strrchr(mu_tcpstore_address(started), ':');
    assert_non_null(port);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return started;
}

void wire_start(const struct mu_tcpstore_options *options)
{
    struct mu_tcpstore_options o = options ? *options : (struct mu_tcpstore_options){0};

    o.coord = coord;
    store = start(o, &address);
}

void wire_start_other(void)
{
    other_store = start((struct mu_tcpstore_options){.coord = counter_is_far ? pair_coords[0] : coord}, &other_address);
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

static void close_clients(void)
{
    for (unsigned i = 0; i < num_clients; i++)
        client_close(&clients[i]);
    num_clients = 0;
}

static void stop(struct mu_tcpstore **which)
{
    bool stopped = false;

    if (!*which)
        return;
    mu_tcpstore_stop(*which, on_stopped, &stopped);
    *which = NULL;
    counter_await(stopped, "the server has stopped");
}

void wire_stop(void)
{
    stop(&store);
    stop(&other_store);
    close_clients();
}

static void strike(void)
{
    if (store && coord)
        wire_stop();
    store = other_store = NULL;
    close_clients();
}

int wire_strike(void)
{
    strike();
    return counter_strike();
}

int wire_strike_far(void)
{
    store = other_store = NULL;
    close_clients();
    return counter_strike_far();
}

struct mu_tcpstore_stats wire_stats(void)
{
    struct mu_tcpstore_stats stats;

    mu_tcpstore_stats(store, &stats);
    return stats;
}

/* ---- clients ---- */

static struct client *connect_to(const struct sockaddr_in *server)
{
    struct client *c = &clients[num_clients++];
    int one = 1;

    assert_true(num_clients < CLIENTS);
    c->dialect = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(c->fd >= 0);
    assert_int_equal(connect(c->fd, (const struct sockaddr *)server, sizeof *server), 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
    return c;
}

struct client *client_new(void)
{
    return connect_to(&address);
}

static struct client *begin(struct client *c, char dialect)
{

    c->dialect = dialect;
    if (dialect == 'B')
        say_bytes(c, "\x00\xCE\xF7\x85\x3C", 5);
    return c;
}

struct client *client_of(char dialect)
{
    return begin(client_new(), dialect);
}

struct client *client_of_other(void)
{
    return begin(connect_to(&other_address), 'B');
}

void client_close(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* ---- what is said ---- */

static size_t put(uint8_t *to, size_t room, size_t at, const void *bytes, size_t len)
{
    assert_true(len <= room - at);
    memcpy(to + at, bytes, len);
    return at + len;
}

static size_t put_number(uint8_t *to, size_t room, size_t at, uint64_t number, size_t len)
{
    uint8_t bytes[8];

    mu_ts_put_u64(bytes, number);
    return put(to, room, at, bytes, len);
}

static size_t spell_fields(uint8_t *to, size_t room, size_t at, const char *shape, va_list list)
{
    for (; *shape; shape++) {
        const char *text;
        size_t len;

        switch (*shape) {
        case 's':
        case 'b':
            text = va_arg(list, const char *);
            len = *shape == 's' ? strlen(text) : va_arg(list, size_t);
            at = put_number(to, room, at, len, 8);
            at = put(to, room, at, text, len);
            break;
        case '8': at = put_number(to, room, at, (uint64_t)va_arg(list, int64_t), 8); break;
        case '4': at = put_number(to, room, at, va_arg(list, uint32_t), 4); break;
        default: at = put_number(to, room, at, va_arg(list, unsigned), 1); break;
        }
    }
    return at;
}

static uint8_t number_of(char dialect, enum call call)
{
    static const uint8_t of_a[] = {[SET] = 0,  [COMPARE_SET] = 1, [GET] = 2,   [ADD] = 3,   [CHECK] = 4,
                                   [WAIT] = 5, [NUM] = 6,         [WATCH] = 7, [DELETE] = 8};

    return dialect == 'A' ? of_a[call] : (uint8_t)call;
}

static size_t spell_list(char dialect, uint8_t *to, size_t room, enum call call, const char *shape, va_list list)
{
    to[0] = number_of(dialect, call);
    return spell_fields(to, room, 1, shape, list);
}

size_t spell(char dialect, uint8_t *to, size_t room, enum call call, const char *shape, ...)
{
    va_list list;
    size_t len;

    va_start(list, shape);
    len = spell_list(dialect, to, room, call, shape, list);
    va_end(list);
    return len;
}

struct sending {
    struct client *c;
    const uint8_t *bytes;
    size_t len;
};

static bool has_sent(struct sending *s)
{
    ssize_t n = send(s->c->fd, s->bytes, s->len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail_msg("cannot send: %s", strerror(errno));
    s->bytes += n < 0 ? 0 : n;
    s->len -= n < 0 ? 0 : (size_t)n;
    return s->len == 0;
}

void say_bytes(struct client *c, const void *bytes, size_t len)
{
    struct sending s = {c, bytes, len};

    counter_await(has_sent(&s), "everything is sent");
    counter_turn();
}

void say(struct client *c, enum call call, const char *shape, ...)
{
    static uint8_t bytes[4 << 20];
    va_list list;
    size_t len;

    va_start(list, shape);
    len = spell_list(c->dialect, bytes, sizeof bytes, call, shape, list);
    va_end(list);
    say_bytes(c, bytes, len);
}

/* ---- what is heard ---- */

struct hearing {
    struct client *c;
    uint8_t *bytes;
    size_t len;
    bool ended;
};

static bool has_heard(struct hearing *h)
{
    while (h->len > 0) {
        ssize_t n = recv(h->c->fd, h->bytes, h->len, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (n <= 0) {
            h->ended = true;
            return true;
        }
        h->bytes += n;
        h->len -= (size_t)n;
    }
    return true;
}

void hear_bytes(struct client *c, void *bytes, size_t len)
{
    struct hearing h = {c, bytes, len, false};

    counter_await(has_heard(&h), "the answer has come");
    if (h.ended)
        fail_msg("the connection was closed, %zu bytes before the answer's end: %s", h.len, wire_said);
}

void hear(struct client *c, const char *shape, ...)
{
    static uint8_t expected[1 << 20], heard[1 << 20];
    va_list list;
    size_t len;

    va_start(list, shape);
    len = spell_fields(expected, sizeof expected, 0, shape, list);
    va_end(list);
    hear_bytes(c, heard, len);
    assert_memory_equal(heard, expected, len);
}

void hear_the_end(struct client *c)
{
    uint8_t byte;
    struct hearing h = {c, &byte, 1, false};

    counter_await(has_heard(&h), "the connection is closed");
    if (!h.ended)
        fail_msg("byte %u was answered", byte);
}

bool hears_now(struct client *c, void *bytes, size_t len)
{
    return recv(c->fd, bytes, len, MSG_DONTWAIT) == (ssize_t)len;
}

/* Another client's question goes the same ways, and later. */
void hear_nothing(struct client *c)
{
    struct client *other = client_of('B');
    uint8_t byte;

    say(other, DELETE, "s", "nothing");
    hear(other, "8", INT64_C(0));
    client_close(other);
    assert_int_equal(recv(c->fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

void wire_until_waiting(uint32_t count)
{
    counter_await(wire_stats().waiting == count, "so many connections wait");
}
