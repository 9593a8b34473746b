/*
 * bench/grpc_client.h: a client of gRPC that costs little, so that what is measured is the service.
 *
 * Unary calls and streams over h2c on blocking sockets. What a connection has said in headers it refers to afterwards
 * (HPACK, as gRPC's own clients do), so a call is two frames made in place and one send(); an answer is read by one
 * recv() and its frames where they lie. Headers of answers are read by nghttp2. No compression, no retries: what a
 * service says that this does not understand ends the program.
 */
#ifndef BENCH_GRPC_CLIENT_H
#define BENCH_GRPC_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <nghttp2/nghttp2.h>

#include "measure.h"

#define CLIENT_OPEN   64 /* calls of a connection, at once */
#define CLIENT_PATHS  16 /* methods that one connection calls */
#define CLIENT_WINDOW (4 << 20)
#define CLIENT_FIXED  4 /* headers of every call that are no method's */

struct client_call {
    char answer[512]; /* its beginning */
    size_t got;
    int code; /* grpc-status; -1: not yet */
    int32_t id;
    uint64_t asked; /* ticks */
};

struct client_request { /* a message that is written */
    char bytes[1024];
    size_t len;
};

struct client_conn {
    int fd;
    int32_t next_id;
    nghttp2_hd_inflater *inflater;
    struct client_call *open[CLIENT_OPEN];
    int num_open;
    const char *paths[CLIENT_PATHS]; /* that it has said, in this order, after the headers of every call */
    int num_paths;
    int64_t window; /* bytes that the service takes */
    size_t taken;   /* that we have, and not said so */
    char out[16384], in[32768];
    size_t out_len, in_len;
};

/* ---- protocol buffers ---- */

static inline void client_put(struct client_request *r, const void *bytes, size_t len)
{
    if (r->len + len > sizeof r->bytes)
        bench_die("a request of more than %zu bytes", sizeof r->bytes);
    memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
}

static inline void client_varint(struct client_request *r, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));

        client_put(r, &byte, 1);
        value >>= 7;
    } while (value);
}

static inline void client_number(struct client_request *r, unsigned field, uint64_t value)
{
    client_varint(r, field << 3);
    client_varint(r, value);
}

static inline void client_fixed(struct client_request *r, unsigned field, uint64_t value)
{
    client_varint(r, field << 3 | 1);
    client_put(r, &value, 8); /* little-endian, as the machines that this runs on */
}

static inline void client_bytes(struct client_request *r, unsigned field, const void *bytes, size_t len)
{
    client_varint(r, field << 3 | 2);
    client_varint(r, len);
    client_put(r, bytes, len);
}

/* ---- frames that leave ---- */

static inline void client_flush(struct client_conn *c)
{
    for (size_t at = 0; at < c->out_len;) {
        ssize_t n = send(c->fd, c->out + at, c->out_len - at, MSG_NOSIGNAL);

        if (n < 0)
            bench_die("send: %s", strerror(errno));
        at += (size_t)n;
    }
    c->out_len = 0;
}

static inline char *client_room(struct client_conn *c, size_t len)
{
    char *at;

    if (c->out_len + len > sizeof c->out)
        client_flush(c);
    at = c->out + c->out_len;
    c->out_len += len;
    return at;
}

static inline void client_frame(struct client_conn *c, size_t len, int type, int flags, int32_t id, const void *bytes)
{
    char *at = client_room(c, 9 + len);
    uint32_t where = htonl((uint32_t)id);
    const char head[] = {(char)(len >> 16), (char)(len >> 8), (char)len, (char)type, (char)flags};

    memcpy(at, head, 5);
    memcpy(at + 5, &where, 4);
    if (len)
        memcpy(at + 9, bytes, len);
}

/* A header in words. first: its number among HPACK's, if it has one, and whether it is to be remembered. */
static inline void client_say(struct client_request *h, unsigned char first, const char *name, const char *value)
{
    client_put(h, &first, 1);
    if (name) {
        client_varint(h, strlen(name));
        client_put(h, name, strlen(name));
    }
    client_varint(h, strlen(value));
    client_put(h, value, strlen(value));
}

/* One that was said: 62 is the latest. */
static inline void client_refer(struct client_request *h, int number)
{
    unsigned char byte = (unsigned char)(0x80 | number);

    client_put(h, &byte, 1);
}

static inline struct client_request client_headers(struct client_conn *c, const char *path)
{
    struct client_request h = {.len = 0};
    int at = 0;

    client_refer(&h, 3); /* :method POST */
    client_refer(&h, 6); /* :scheme http */
    if (c->next_id == 1) {
        client_say(&h, 0x04, NULL, path);
        client_say(&h, 0x41, NULL, "localhost");
        client_say(&h, 0x40, "te", "trailers");
        client_say(&h, 0x5f, NULL, "application/grpc");
        client_say(&h, 0x7a, NULL, "muster-bench");
        return h;
    }
    while (at < c->num_paths && c->paths[at] != path)
        at++;
    if (at == CLIENT_PATHS)
        bench_die("more than %d methods", CLIENT_PATHS);
    if (at < c->num_paths) {
        client_refer(&h, 61 + c->num_paths - at);
    } else {
        client_say(&h, 0x44, NULL, path);
        c->paths[c->num_paths++] = path;
    }
    for (int i = CLIENT_FIXED; i > 0; i--)
        client_refer(&h, 61 + c->num_paths + i);
    return h;
}

/* A call, or the first message of a stream, is in `out`; `call` lives until it is answered. */
static inline void client_ask(struct client_conn *c, struct client_call *call, const char *path,
                              const struct client_request *r, bool is_stream)
{
    struct client_request h = client_headers(c, path);
    uint32_t len = htonl((uint32_t)r->len);
    char body[5 + sizeof r->bytes];

    if (c->num_open == CLIENT_OPEN || c->window < (int64_t)r->len + 5)
        bench_die("a connection takes no more calls");
    call->got = 0;
    call->code = -1;
    call->id = c->next_id;
    c->next_id += 2;
    c->open[c->num_open++] = call;
    c->window -= (int64_t)r->len + 5;
    body[0] = 0;
    memcpy(body + 1, &len, 4);
    memcpy(body + 5, r->bytes, r->len);
    client_frame(c, h.len, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, call->id, h.bytes);
    client_frame(c, r->len + 5, NGHTTP2_DATA, is_stream ? 0 : NGHTTP2_FLAG_END_STREAM, call->id, body);
}

static inline void client_open(struct client_conn *c, const struct sockaddr_in *address)
{
    static const char settings[] = {0, 2, 0, 0, 0, 0, 0, 4, 0, CLIENT_WINDOW >> 16, 0, 0}; /* no push; the window */
    uint32_t more = htonl(CLIENT_WINDOW);
    int one = 1;

    *c = (struct client_conn){.next_id = 1, .window = 65535};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)address, sizeof *address))
        bench_die("connect: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (nghttp2_hd_inflate_new(&c->inflater))
        bench_die("no memory");
    memcpy(client_room(c, NGHTTP2_CLIENT_MAGIC_LEN), NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    client_frame(c, sizeof settings, NGHTTP2_SETTINGS, 0, 0, settings);
    client_frame(c, 4, NGHTTP2_WINDOW_UPDATE, 0, 0, &more);
    client_flush(c);
}

/* ---- frames that come ---- */

static inline int client_find(const struct client_conn *c, int32_t id)
{
    for (int i = 0; i < c->num_open; i++)
        if (c->open[i]->id == id)
            return i;
    return -1;
}

/* Every block is read, for the sake of the next. The code of the call that it ends; -1: it says none. */
static inline int client_read_headers(struct client_conn *c, const uint8_t *bytes, size_t len)
{
    int code = -1, flags = 0;

    for (;;) {
        nghttp2_nv nv;
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, bytes, len, 1);

        if (n < 0)
            bench_die("headers that are none");
        bytes += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && nv.namelen == 11 && !memcmp(nv.name, "grpc-status", 11))
            code = (int)strtol((const char *)nv.value, NULL, 10);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
    return code;
}

static inline void client_taken(struct client_conn *c, size_t len)
{
    uint32_t more;

    c->taken += len;
    if (c->taken < CLIENT_WINDOW / 2)
        return;
    more = htonl((uint32_t)c->taken);
    client_frame(c, 4, NGHTTP2_WINDOW_UPDATE, 0, 0, &more);
    c->taken = 0;
}

static inline void client_frame_of_call(struct client_conn *c, int type, int flags, int32_t id, const char *bytes,
                                        size_t len)
{
    int at = client_find(c, id), code = -1;
    struct client_call *call = at < 0 ? NULL : c->open[at];
    bool is_over = flags & NGHTTP2_FLAG_END_STREAM;

    if (flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY))
        bench_die("frames with padding or a priority are not understood");
    if (type == NGHTTP2_HEADERS && !(flags & NGHTTP2_FLAG_END_HEADERS))
        bench_die("headers in several frames are not understood");
    if (type == NGHTTP2_HEADERS)
        code = client_read_headers(c, (const uint8_t *)bytes, len);
    if (type == NGHTTP2_DATA)
        client_taken(c, len);
    if (!call)
        return;
    if (type == NGHTTP2_DATA && call->got < sizeof call->answer)
        memcpy(call->answer + call->got, bytes,
               len < sizeof call->answer - call->got ? len : sizeof call->answer - call->got);
    call->got += type == NGHTTP2_DATA ? len : 0;
    if (type == NGHTTP2_RST_STREAM || is_over) {
        call->code = code >= 0 ? code : 1000; /* it ended without a status */
        c->open[at] = c->open[--c->num_open];
    }
}

static inline void client_one_frame(struct client_conn *c, int type, int flags, int32_t id, const char *bytes,
                                    size_t len)
{
    uint32_t word = 0;

    switch (type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
    case NGHTTP2_RST_STREAM: client_frame_of_call(c, type, flags, id, bytes, len); break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
        if (!(flags & NGHTTP2_FLAG_ACK))
            client_frame(c, type == NGHTTP2_PING ? len : 0, type, NGHTTP2_FLAG_ACK, 0, bytes);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        memcpy(&word, bytes, 4);
        c->window += id ? 0 : ntohl(word);
        break;
    case NGHTTP2_GOAWAY: bench_die("the service sent a connection away");
    default: break;
    }
}

/* What is there, or, if it is to wait, what comes; then what that asks us to say. */
static inline void client_take(struct client_conn *c, bool waits)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, waits ? 0 : MSG_DONTWAIT);
    size_t at = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        bench_die("the service closed a connection");
    c->in_len += (size_t)n;
    while (c->in_len - at >= 9) {
        const uint8_t *f = (const uint8_t *)c->in + at;
        size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        uint32_t id;

        if (len > 16384)
            bench_die("a frame of %zu bytes", len);
        if (c->in_len - at < 9 + len)
            break;
        memcpy(&id, f + 5, 4);
        client_one_frame(c, f[3], f[4], (int32_t)(ntohl(id) & INT32_MAX), c->in + at + 9, len);
        at += 9 + len;
    }
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    client_flush(c);
}

/* Until it is answered; the program's alarm is the bound. */
static inline void client_await(struct client_conn *c, const struct client_call *call)
{
    while (call->code < 0)
        client_take(c, true);
}

#endif
