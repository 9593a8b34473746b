/*
 * bench/store.c: what clients of PyTorch's TCPStore wait for, and how many of them a server can have: one process that
 * speaks the protocol on the wire, with today's numbers or with those of PyTorch 1.13, to whatever listens at ADDRESS.
 *
 * One at a time: SET, a send each; ADD; a get, which is WAIT and GET; COMPARE_SET of 64 bytes; from a SET until the
 * WAIT of another connection is answered. Pipelined: 16, 128, 1,024 ADDs in one write, then their answers. Streamed:
 * SETs of 64 bytes to 512 keys, which have no answer, an ADD behind them. Scaling: so many clients connect, VALIDATE
 * and PING, at most 256 of them on the way; ADD while all of them are idle; one SET that all of them wait for; a
 * barrier of all of them as PyTorch makes it: ADD, the last one SETs, all WAIT.
 *
 * The server is on the second processor. Where many requests are on the way the client is on the first; for those of
 * one at a time it goes to the server's: between two processors they would be two wake-ups of an idle one, tens of
 * microseconds on a virtual machine, in which a server's work does not show.
 *
 * Usage: store WHO HOST PORT SECONDS PID MOST new|old      (PID as in bench/service.h; MOST: clients of the last step)
 */
#include "measure.h"
#include "service.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define SAMPLES    200000
#define ALARM      200 /* seconds */
#define VALUE_LEN  64
#define BLOCK      512 /* SETs of one write */
#define SENDS      16  /* SETs of a sample */
#define ON_THE_WAY 256 /* connections that await their first answer */
#define ROUNDS     3

enum { CLIENT, SERVER };                                                                          /* processors */
enum op { OP_VALIDATE, OP_SET, OP_COMPARE_SET, OP_GET, OP_ADD, OP_CHECK, OP_WAIT, OP_PING = 13 }; /* 1.13: one less */

struct request {
    size_t len, size;
    char *bytes;
};

static struct sockaddr_in server;
static const char *who;
static bool is_old;
static double tick_ns, seconds;
static int ones[2]; /* the two connections of the rows of one client */
static char value[VALUE_LEN];
static struct bench_cpus cpus;

/* ---- requests ---- */

static struct request request_of(size_t size)
{
    struct request r = {.size = size, .bytes = malloc(size)};

    if (!r.bytes)
        bench_die("malloc of %zu bytes", size);
    return r;
}

static void add_raw(struct request *r, const void *bytes, size_t len)
{
    if (len > r->size - r->len)
        bench_die("a request is too long");
    memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
}

static void add_op(struct request *r, enum op op)
{
    char byte = (char)(is_old ? op - 1 : op);

    add_raw(r, &byte, 1);
}

static void add_number(struct request *r, uint64_t number)
{
    add_raw(r, &number, sizeof number); /* in the order of the host, as PyTorch does */
}

static void add_bytes(struct request *r, const void *bytes, size_t len)
{
    add_number(r, len);
    add_raw(r, bytes, len);
}

static void add_key(struct request *r, const char *key)
{
    add_bytes(r, key, strlen(key));
}

static void add_add(struct request *r, const char *key)
{
    add_op(r, OP_ADD);
    add_key(r, key);
    add_number(r, 1);
}

static void add_wait(struct request *r, const char *key)
{
    add_op(r, OP_WAIT);
    add_number(r, 1);
    add_key(r, key);
}

static void add_set(struct request *r, const char *key)
{
    add_op(r, OP_SET);
    add_key(r, key);
    add_bytes(r, value, sizeof value);
}

static void add_get(struct request *r, const char *key)
{
    add_op(r, OP_GET);
    add_key(r, key);
}

/* ---- the connection ---- */

static void give(int fd, const struct request *r)
{
    for (size_t sent = 0; sent < r->len;) {
        ssize_t n = send(fd, r->bytes + sent, r->len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            bench_die("send: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
}

static void take(int fd, void *answer, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = recv(fd, (char *)answer + got, len - got, 0);

        if (n == 0 || (n < 0 && errno != EINTR))
            bench_die("the server %s", n ? strerror(errno) : "closed the connection");
        got += n > 0 ? (size_t)n : 0;
    }
}

/* Answers of this length, and what they must be. */
static void take_zero(int fd)
{
    char byte;

    take(fd, &byte, 1);
    if (byte)
        bench_die("a WAIT was answered by %d", byte);
}

static int64_t take_sum(int fd)
{
    int64_t sum;

    take(fd, &sum, sizeof sum);
    return sum;
}

static void take_value(int fd)
{
    char answer[8 + VALUE_LEN];
    uint64_t len;

    take(fd, answer, sizeof answer);
    memcpy(&len, answer, sizeof len);
    if (len != VALUE_LEN || memcmp(answer + 8, value, VALUE_LEN))
        bench_die("the value is not the one that was set");
}

/* Connected, and the first request is sent; the old dialect has none of its own, its clients count themselves in. */
static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct request r = request_of(64);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&server, sizeof server))
        bench_die("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (is_old) {
        add_add(&r, "init/");
    } else {
        add_op(&r, OP_VALIDATE);
        add_raw(&r, "\xce\xf7\x85\x3c", 4);
        add_op(&r, OP_PING);
        add_raw(&r, "ping", 4);
    }
    give(fd, &r);
    free(r.bytes);
    return fd;
}

static void is_open(int fd)
{
    char nonce[4];

    if (is_old) {
        take_sum(fd);
        return;
    }
    take(fd, nonce, sizeof nonce);
    if (memcmp(nonce, "ping", 4))
        bench_die("a PING was answered by something else");
}

/* By a reset: thousands of ports must not stay in TIME_WAIT. */
static void close_connection(int fd)
{
    struct linger at_once = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* ---- one client ---- */

typedef void (*exchange)(const struct request *requests);

static void exchange_add(const struct request *requests)
{
    give(ones[0], &requests[0]);
    take_sum(ones[0]);
}

static void exchange_get(const struct request *requests)
{
    give(ones[0], &requests[0]);
    take_zero(ones[0]);
    give(ones[0], &requests[1]);
    take_value(ones[0]);
}

static void exchange_compare_set(const struct request *requests)
{
    give(ones[0], &requests[0]);
    take_value(ones[0]);
}

static void measure(const char *metric, exchange once, const struct request *requests)
{
    struct bench_samples samples;
    struct bench_used before;
    uint64_t end;

    bench_pin(&cpus, SERVER);
    bench_samples_init(&samples, SAMPLES);
    for (int i = 0; i < 50; i++) /* warm */
        once(requests);
    before = bench_used_now();
    for (end = bench_now_ns() + (uint64_t)(seconds * 1e9); bench_goes_on(&samples, end);) {
        uint64_t start = bench_ticks();

        once(requests);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit_service(metric, before, samples.count);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
    bench_pin(&cpus, CLIENT);
}

/* As PyTorch's client has it: each SET is one send, and waits for nothing. An ADD, not timed, lets the server come
 * after.
 */
static void measure_sets(const struct request *set, const struct request *add)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct bench_samples samples;

    bench_pin(&cpus, SERVER);
    bench_samples_init(&samples, SAMPLES);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < SENDS; i++)
            give(ones[0], set);
        bench_add(&samples, bench_ticks() - start);
        exchange_add(add);
    }
    bench_emit("store.set", who, &samples, tick_ns, SENDS, SENDS);
    bench_samples_free(&samples);
    bench_pin(&cpus, CLIENT);
}

static void measure_one_client(void)
{
    struct request two[2] = {request_of(256), request_of(256)};

    add_set(&two[0], "/bench/0//key");
    give(ones[0], &two[0]);
    add_add(&two[1], "/bench/0//sum");
    measure_sets(&two[0], &two[1]);
    two[0].len = two[1].len = 0;
    add_add(&two[0], "/bench/0//sum");
    measure("store.add", exchange_add, two);
    two[0].len = 0;
    add_wait(&two[0], "/bench/0//key");
    add_get(&two[1], "/bench/0//key");
    measure("store.get", exchange_get, two);
    two[0].len = 0;
    add_op(&two[0], OP_COMPARE_SET);
    add_key(&two[0], "/bench/0//key");
    add_bytes(&two[0], value, sizeof value);
    add_bytes(&two[0], value, sizeof value);
    measure("store.compare_set", exchange_compare_set, two);
    free(two[0].bytes);
    free(two[1].bytes);
}

static void measure_wake(void)
{
    struct request wait = request_of(256), set = request_of(256);
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct bench_samples samples;
    char key[32];

    bench_pin(&cpus, SERVER);
    bench_samples_init(&samples, SAMPLES);
    for (int i = 0; bench_goes_on(&samples, end); i++) {
        uint64_t start;

        snprintf(key, sizeof key, "/wake/%d", i);
        wait.len = set.len = 0;
        add_wait(&wait, key);
        add_set(&set, key);
        give(ones[0], &wait);
        usleep(500); /* until it waits there */
        start = bench_ticks();
        give(ones[1], &set);
        take_zero(ones[0]);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit("store.wake", who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
    free(wait.bytes);
    free(set.bytes);
    bench_pin(&cpus, CLIENT);
}

/* ---- many requests of one client ---- */

static void emit_rate(const char *metric, struct bench_used before, size_t count)
{
    bench_emit_value(metric, who, (double)count * 1e9 / (double)(bench_now_ns() - before.began), "calls/s");
    bench_emit_service(metric, before, count);
}

static void measure_pipe(size_t depth)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct request r = request_of(depth * 64);
    struct bench_used before;
    size_t count = 0;
    char metric[32];
    int64_t sums[1024], last;

    snprintf(metric, sizeof metric, "store.pipe.%zu", depth);
    for (size_t i = 0; i < depth; i++)
        add_add(&r, "/bench/0//sum");
    before = bench_used_now();
    do {
        give(ones[0], &r);
        take(ones[0], sums, depth * sizeof *sums);
        if (count && sums[0] != last + 1)
            bench_die("the answers of ADD are not in order");
        last = sums[depth - 1];
        count += depth;
    } while (bench_now_ns() < end);
    emit_rate(metric, before, count);
    free(r.bytes);
}

static void measure_stream(void)
{
    struct request r = request_of(BLOCK * 128), add = request_of(64);
    struct bench_used before;
    uint64_t end;
    size_t count = 0;
    char key[32];

    for (int i = 0; i < BLOCK; i++) {
        snprintf(key, sizeof key, "/stream/%d", i);
        add_set(&r, key);
    }
    add_add(&add, "/bench/0//sum");
    give(ones[0], &r); /* the keys are there */
    exchange_add(&add);
    before = bench_used_now();
    end = before.began + (uint64_t)(seconds * 1e9);
    do {
        give(ones[0], &r);
        count += BLOCK;
    } while (bench_now_ns() < end);
    exchange_add(&add);
    emit_rate("store.stream", before, count);
    free(r.bytes);
    free(add.bytes);
}

/* ---- many clients ---- */

static void name_row(char metric[32], const char *what, int count)
{
    snprintf(metric, 32, "store.%s.%d", what, count);
}

static void emit_one(const char *metric, uint64_t ticks)
{
    struct bench_samples samples;

    bench_samples_init(&samples, 1);
    bench_add(&samples, ticks);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void measure_connect(int *fds, int count)
{
    struct bench_used before = bench_used_now();
    uint64_t start = bench_ticks();
    char metric[32];

    for (int i = 0; i < count + ON_THE_WAY; i++) {
        if (i < count)
            fds[i] = open_connection();
        if (i >= ON_THE_WAY)
            is_open(fds[i - ON_THE_WAY]);
    }
    name_row(metric, "connect", count);
    emit_one(metric, bench_ticks() - start);
    bench_emit_service(metric, before, (size_t)count);
}

static void measure_idle(int count)
{
    struct request r = request_of(64);
    char metric[32];

    add_add(&r, "/bench/0//sum");
    name_row(metric, "idle", count);
    measure(metric, exchange_add, &r);
    free(r.bytes);
}

static void measure_fanout(const int *fds, int count)
{
    struct request wait = request_of(64), set = request_of(128), add = request_of(64);
    struct bench_samples samples;
    char metric[32], key[32];

    bench_samples_init(&samples, ROUNDS);
    add_add(&add, "/bench/0//sum");
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start;

        snprintf(key, sizeof key, "/fanout/%d/%d", count, round);
        wait.len = set.len = 0;
        add_wait(&wait, key);
        add_set(&set, key);
        for (int i = 0; i < count; i++)
            give(fds[i], &wait);
        usleep(1000 + 5 * (useconds_t)count); /* until all wait there */
        exchange_add(&add);
        start = bench_ticks();
        give(ones[0], &set);
        for (int i = 0; i < count; i++)
            take_zero(fds[i]);
        bench_add(&samples, bench_ticks() - start);
    }
    name_row(metric, "fanout", count);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
    free(wait.bytes);
    free(set.bytes);
    free(add.bytes);
}

static void barrier_once(const int *fds, int count, int round)
{
    struct request wait = request_of(64), set = request_of(128), add = request_of(64);
    char key[32];

    snprintf(key, sizeof key, "/barrier/%d/%d", count, round);
    add_add(&add, key);
    snprintf(key, sizeof key, "/barrier/%d/%d/last", count, round);
    add_wait(&wait, key);
    add_set(&set, key);
    for (int i = 0; i < count; i++)
        give(fds[i], &add);
    for (int i = 0; i < count; i++) {
        if (take_sum(fds[i]) == count)
            give(fds[i], &set);
        give(fds[i], &wait);
    }
    for (int i = 0; i < count; i++)
        take_zero(fds[i]);
    free(wait.bytes);
    free(set.bytes);
    free(add.bytes);
}

static void measure_barrier(const int *fds, int count)
{
    struct bench_used before = bench_used_now();
    struct bench_samples samples;
    char metric[32];

    bench_samples_init(&samples, ROUNDS);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = bench_ticks();

        barrier_once(fds, count, round);
        bench_add(&samples, bench_ticks() - start);
    }
    name_row(metric, "barrier", count);
    bench_emit_service(metric, before, (size_t)count * ROUNDS);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void measure_clients(int *fds, int count)
{
    struct request r = request_of(64);

    measure_connect(fds, count);
    measure_idle(count);
    measure_fanout(fds, count);
    measure_barrier(fds, count);
    for (int i = 0; i < count; i++)
        close_connection(fds[i]);
    add_add(&r, "/bench/0//sum");
    for (int i = 0; i < 100; i++) /* behind the server's work with those */
        exchange_add(&r);
    free(r.bytes);
}

static void allow_files(int count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        bench_die("getrlimit: %s", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)count + 64)
        bench_die("may open %ju files, needs %d", (uintmax_t)limit.rlim_cur, count + 64);
}

int main(int argc, char **argv)
{
    int *fds, most;

    server.sin_family = AF_INET;
    if (argc != 8 || inet_pton(AF_INET, argv[2], &server.sin_addr) != 1)
        bench_die("usage: store WHO HOST PORT SECONDS PID MOST new|old");
    who = argv[1];
    server.sin_port = htons((uint16_t)bench_number(argv[3], 1, 65535));
    seconds = bench_number(argv[4], 0.001, 10);
    bench_service_watch(who, (pid_t)bench_number(argv[5], 0, INT32_MAX));
    most = (int)bench_number(argv[6], 1, 20000);
    is_old = !strcmp(argv[7], "old");
    alarm(ALARM);
    allow_files(most);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, CLIENT);
    tick_ns = bench_tick_ns();
    memset(value, 'v', sizeof value);
    fds = bench_shared((size_t)most * sizeof *fds);
    for (int i = 0; i < 2; i++) {
        ones[i] = open_connection();
        is_open(ones[i]);
    }
    measure_one_client();
    measure_wake();
    for (size_t depth = 16; depth <= 1024; depth *= 8)
        measure_pipe(depth);
    measure_stream();
    for (int count = 1; count <= most; count *= count == 1 ? 100 : 10)
        measure_clients(fds, count);
    return 0;
}
