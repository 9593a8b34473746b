/*
 * bench/grpc.c: what clients of the coordination service wait for, over gRPC: one process with a connection for each of
 * 256 tasks, in today's protocol (xla.coordination), against whatever service listens at ADDRESS.
 *
 * Registering: all tasks at once, until the last is answered. Keys: a call at a time on one connection. Wake: from the
 * set until the get that waits on another connection is answered. Barriers: all their calls sent, until all are
 * answered. Death: a process that holds the last task is killed, until task 0's poll for errors is answered; the
 * others' heartbeats go on. The client is the same for every service: nghttp2 on blocking sockets, no compression.
 *
 * Usage: grpc WHO HOST PORT SECONDS
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <nghttp2/nghttp2.h>

#include "measure.h"

#define TASKS    256
#define MOST     20000
#define PATIENCE 120000 /* ms */

struct call {
    char *body;
    size_t len, sent;
    char answer[16384]; /* of which only what was asked for counts */
    size_t got;
    int code; /* grpc-status; -1: not yet */
};

struct conn {
    int fd;
    nghttp2_session *session;
};

struct request { /* a gRPC message that is written */
    char bytes[1024];
    size_t len;
};

static struct conn conns[TASKS];
static uint64_t service;
static const char *who;
static double tick_ns;

static void put(struct request *r, const void *bytes, size_t len)
{
    if (r->len + len > sizeof r->bytes)
        bench_die("a request of more than %zu bytes", sizeof r->bytes);
    memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
}

static void put_varint(struct request *r, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));

        put(r, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_number(struct request *r, unsigned field, uint64_t value)
{
    put_varint(r, field << 3);
    put_varint(r, value);
}

static void put_fixed(struct request *r, unsigned field, uint64_t value)
{
    put_varint(r, field << 3 | 1);
    put(r, &value, 8); /* little-endian, as the machines that this runs on */
}

static void put_bytes(struct request *r, unsigned field, const void *bytes, size_t len)
{
    put_varint(r, field << 3 | 2);
    put_varint(r, len);
    put(r, bytes, len);
}

/* A request with its Incarnations, which all but the first have. */
static struct request begin_request(void)
{
    struct request r = {.len = 0}, inner = {.len = 0};

    put_fixed(&inner, 3, service);
    put_bytes(&r, 1, inner.bytes, inner.len);
    return r;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *data)
{
    struct call *call = source->ptr;
    size_t len = call->len - call->sent < room ? call->len - call->sent : room;

    (void)session;
    (void)stream;
    (void)data;
    memcpy(buf, call->body + call->sent, len);
    call->sent += len;
    if (call->sent == call->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t len, uint8_t flags, void *data)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)len;
    (void)flags;
    (void)data;
    if (call && name_len == 11 && !memcmp(name, "grpc-status", 11))
        call->code = (int)strtol((const char *)value, NULL, 10);
    return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len,
                    void *data)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)data;
    if (call && call->got + len <= sizeof call->answer) {
        memcpy(call->answer + call->got, bytes, len);
        call->got += len;
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *data)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)data;
    if (call && call->code < 0)
        call->code = 1000 + (int)error; /* it ended without a status */
    return 0;
}

static void flush(struct conn *c)
{
    const uint8_t *bytes;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(c->session, &bytes)) > 0)
        for (ssize_t sent = 0; sent < len;) {
            ssize_t n = send(c->fd, bytes + sent, (size_t)(len - sent), MSG_NOSIGNAL);

            if (n < 0)
                bench_die("send: %s", strerror(errno));
            sent += n;
        }
}

static void open_conn(struct conn *c, const struct sockaddr_in *address)
{
    nghttp2_session_callbacks *calls;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4 << 20}};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)address, sizeof *address))
        bench_die("connect: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (nghttp2_session_callbacks_new(&calls))
        bench_die("no memory");
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    if (nghttp2_session_client_new(&c->session, calls, c))
        bench_die("no memory");
    nghttp2_session_callbacks_del(calls);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 2);
    nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, 4 << 20);
    flush(c);
}

#define PAIR(name, value)                                                                                              \
    {                                                                                                                  \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, strlen(value), NGHTTP2_NV_FLAG_NONE                   \
    }

/* Send it; `call` lives until it is answered. */
static void ask(struct conn *c, struct call *call, const char *path, const struct request *r)
{
    nghttp2_nv headers[] = {
        PAIR(":method", "POST"),           PAIR(":scheme", "http"), PAIR(":path", path),
        PAIR(":authority", "localhost"),   PAIR("te", "trailers"),  PAIR("content-type", "application/grpc"),
        PAIR("user-agent", "muster-bench")};
    nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};

    free(call->body);
    *call = (struct call){.body = malloc(r->len + 5), .len = r->len + 5, .code = -1};
    call->body[0] = 0;
    for (int i = 0; i < 4; i++)
        call->body[1 + i] = (char)(r->len >> (24 - 8 * i));
    memcpy(call->body + 5, r->bytes, r->len);
    if (nghttp2_submit_request(c->session, NULL, headers, sizeof headers / sizeof *headers, &body, call) < 0)
        bench_die("a request was not taken");
    flush(c);
}

static void take(struct conn *c)
{
    uint8_t bytes[65536];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        bench_die("the service closed a connection");
    if (n > 0 && nghttp2_session_mem_recv(c->session, bytes, (size_t)n) < 0)
        bench_die("not HTTP/2");
    flush(c);
}

/* Until all these calls, of the first connections in turn, are answered. timeout: ms; false when it was over before. */
static bool wait_all(struct call *calls, int count, int timeout)
{
    struct pollfd fds[TASKS];
    uint64_t end = bench_now_ns() + (uint64_t)timeout * 1000000;

    for (int left = 0; left < count;) {
        int num = 0;

        if (calls[left].code >= 0) {
            left++;
            continue;
        }
        for (int i = left; i < count; i++)
            if (calls[i].code < 0)
                fds[num++] = (struct pollfd){.fd = conns[i].fd, .events = POLLIN};
        if (bench_now_ns() > end)
            return false;
        poll(fds, (nfds_t)num, 100);
        for (int i = left, k = 0; i < count; i++)
            if (calls[i].code < 0 && fds[k++].revents)
                take(&conns[i]);
    }
    return true;
}

static void all_ok(struct call *calls, int count, const char *what)
{
    if (!wait_all(calls, count, PATIENCE))
        bench_die("%s: no answer", what);
    for (int i = 0; i < count; i++)
        if (calls[i].code)
            bench_die("%s: status %d", what, calls[i].code);
}

#define PATH(rpc) "/xla.coordination.CoordinationService/" rpc

static void ask_register(int task, struct call *call)
{
    struct request r = {.len = 0};

    put_fixed(&r, 3, (uint64_t)task + 1);
    put_number(&r, 5, (uint64_t)task);
    ask(&conns[task], call, PATH("RegisterTask"), &r);
}

static void emit_one(const char *metric, uint64_t ticks)
{
    struct bench_samples samples;

    bench_samples_init(&samples, 1);
    bench_add(&samples, ticks);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void measure_register(struct call *calls)
{
    uint64_t start = bench_ticks();

    for (int task = 0; task < TASKS; task++)
        ask_register(task, &calls[task]);
    all_ok(calls, TASKS, "register");
    emit_one("grpc.register", bench_ticks() - start);
    memcpy(&service, calls[0].answer + 6, 8); /* 5 of gRPC, the field's tag */
}

static struct request of_key(const char *key)
{
    struct request r = begin_request();

    put_bytes(&r, 2, key, strlen(key));
    return r;
}

static struct request of_insert(const char *key)
{
    struct request r = begin_request(), entry = {.len = 0};
    char value[64] = {0};

    memset(value, 'v', sizeof value);
    put_bytes(&entry, 1, key, strlen(key));
    put_bytes(&entry, 2, value, sizeof value);
    put_bytes(&r, 2, entry.bytes, entry.len);
    put_number(&r, 3, 1);
    return r;
}

static void measure_call(const char *metric, const char *path, struct request r, struct call *call, double seconds)
{
    struct bench_samples samples;
    uint64_t end;

    bench_samples_init(&samples, MOST);
    for (int i = 0; i < 50; i++) { /* warm */
        ask(&conns[0], call, path, &r);
        all_ok(call, 1, metric);
    }
    for (end = bench_now_ns() + (uint64_t)(seconds * 1e9); bench_goes_on(&samples, end);) {
        uint64_t start = bench_ticks();

        ask(&conns[0], call, path, &r);
        all_ok(call, 1, metric);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

/* calls[0]: the get, on connection 0; calls[1]: the set, on connection 1. */
static void measure_wake(struct call *calls, double seconds)
{
    struct bench_samples samples;
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct request r;
    char key[32];

    bench_samples_init(&samples, MOST);
    for (int i = 0; bench_goes_on(&samples, end); i++) {
        uint64_t start;

        snprintf(key, sizeof key, "wake/%d", i);
        r = of_key(key);
        ask(&conns[0], &calls[0], PATH("GetKeyValue"), &r);
        usleep(500); /* until the get waits there */
        r = of_insert(key);
        start = bench_ticks();
        ask(&conns[1], &calls[1], PATH("InsertKeyValue"), &r);
        all_ok(calls, 1, "a get that waits");
        bench_add(&samples, bench_ticks() - start);
        all_ok(calls, 2, "the set");
    }
    bench_emit("grpc.wake", who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void measure_barrier(struct call *calls, int count, double seconds)
{
    struct bench_samples samples;
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    char name[32], members[TASKS * 2], metric[32];
    struct request list = {.len = 0};

    snprintf(name, sizeof name, "b%d", count);
    snprintf(metric, sizeof metric, "grpc.barrier.%d", count);
    for (int i = 0; i < count; i++)
        put_varint(&list, (uint64_t)i);
    memcpy(members, list.bytes, list.len);
    bench_samples_init(&samples, MOST);
    for (uint64_t counter = 0; bench_goes_on(&samples, end); counter++) {
        uint64_t start = bench_ticks();

        for (int task = 0; task < count; task++) {
            struct request r = begin_request();

            put_bytes(&r, 2, name, strlen(name));
            put_number(&r, 3, 60000);
            put_bytes(&r, 4, members, list.len);
            put_number(&r, 5, (uint64_t)task);
            put_number(&r, 6, counter);
            ask(&conns[task], &calls[task], PATH("Barrier"), &r);
        }
        all_ok(calls, count, metric);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void ask_poll(int task, struct call *call)
{
    struct request r = begin_request();

    put_number(&r, 2, (uint64_t)task);
    ask(&conns[task], call, PATH("PollForError"), &r);
}

static void beat_all(struct call *calls)
{
    for (int task = 1; task < TASKS - 1; task++) {
        struct request r = begin_request();

        put_fixed(&r, 2, (uint64_t)task + 1);
        put_number(&r, 3, (uint64_t)task);
        ask(&conns[task], &calls[task], PATH("Heartbeat"), &r);
    }
}

/* The last task's connection goes over to a process that is killed. */
static void measure_death(struct call *calls)
{
    static struct call poll_call, beats[TASKS], own;
    pid_t pid;
    uint64_t start;

    ask_poll(0, &poll_call);
    ask_poll(TASKS - 1, &calls[TASKS - 1]);
    pid = bench_fork(120);
    if (pid == 0) {
        for (;;)
            pause();
    }
    close(conns[TASKS - 1].fd);
    usleep(200000); /* until both polls wait there */
    start = bench_ticks();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 120 && !wait_all(&poll_call, 1, 1000); i++) {
        struct request r = begin_request();

        put_fixed(&r, 2, 1);
        put_number(&r, 3, 0);
        ask(&conns[0], &own, PATH("Heartbeat"), &r);
        beat_all(beats);
        for (int task = 1; task < TASKS - 1; task++)
            take(&conns[task]);
    }
    if (poll_call.code != 14)
        bench_die("death: status %d", poll_call.code);
    emit_one("grpc.death", bench_ticks() - start);
}

int main(int argc, char **argv)
{
    static struct call calls[TASKS];
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct bench_cpus cpus;
    double seconds;

    if (argc != 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
        bench_die("usage: grpc WHO HOST PORT SECONDS");
    who = argv[1];
    address.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
    seconds = strtod(argv[4], NULL);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    for (int task = 0; task < TASKS; task++)
        open_conn(&conns[task], &address);
    measure_register(calls);
    measure_call("grpc.set", PATH("InsertKeyValue"), of_insert("key"), calls, seconds);
    measure_call("grpc.get", PATH("GetKeyValue"), of_key("key"), calls, seconds);
    measure_wake(calls, seconds);
    measure_barrier(calls, 2, seconds);
    measure_barrier(calls, 8, seconds);
    measure_barrier(calls, 64, seconds);
    measure_death(calls);
    return 0;
}
