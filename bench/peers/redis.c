/*
 * bench/peers/redis.c: Redis over a Unix socket, one blocking client, the same keys and values as muster's rows.
 *
 * The program starts a redis-server of its own in a temporary folder (no TCP port, nothing persisted), pinned to the
 * second processor, the client to the first; commands are written as raw RESP, one write and one read each. The row
 * "wait.parked" is BLPOP against LPUSH of another process: from just before the push to the blocked client's return.
 * The server is killed and the folder removed at the end, whatever the end.
 *
 * Usage: redis SECONDS KEYS     (seconds for each row)
 */
#include "../keys.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#define REQUEST_MAX 256

static char folder[80];
static char socket_path[100];
static pid_t server;
static pid_t owner;

static void clean_up(void)
{
    if (getpid() != owner)
        return;
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    unlink(socket_path);
    rmdir(folder);
}

static int try_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void start_server(const struct bench_cpus *cpus)
{
    const char *temporary = getenv("TMPDIR");

    /* A socket's path has 107 bytes at most. */
    snprintf(folder, sizeof(folder), "%s/bench-redis-XXXXXX",
             temporary && *temporary && strlen(temporary) < 50 ? temporary : "/tmp");
    owner = getpid();
    atexit(clean_up);
    if (!mkdtemp(folder))
        bench_die("mkdtemp: %s", strerror(errno));
    snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
    server = bench_fork(0);
    if (server == 0) {
        bench_pin(cpus, 1);
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_path, "--save", "", "--appendonly",
               "no", "--daemonize", "no", "--dir", folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 1000; i++) {
        int fd = try_connect();
        if (fd >= 0) {
            close(fd);
            return;
        }
        if (waitpid(server, NULL, WNOHANG) == server) {
            server = 0;
            bench_die("redis-server ended at once");
        }
        usleep(10000);
    }
    bench_die("redis-server did not answer in 10 s");
}

/* One command, one reply; returns the bytes of the reply, whose first is its type. */
static size_t command(int fd, const char *request, size_t len, char *reply, size_t capacity)
{
    size_t got = 0;

    if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("send: %s", strerror(errno));
    for (;;) {
        ssize_t n = recv(fd, reply + got, capacity - got, 0);
        if (n <= 0)
            bench_die("redis closed the connection");
        got += (size_t)n;
        if (reply[0] == '-')
            bench_die("redis: %.*s", (int)got, reply);
        if (reply[0] == '$' && reply[1] == '-')
            bench_die("redis has lost a key");
        if (reply[0] == '$' && got < 5 + BENCH_VALUE_LEN + 2) /* "$64\r\n", the value, "\r\n" */
            continue;
        if (reply[0] == '*' && got < 20) /* BLPOP: key and value follow */
            continue;
        if (reply[got - 1] == '\n')
            return got;
    }
}

static size_t request_get(char request[REQUEST_MAX], uint32_t number)
{
    char key[BENCH_KEY_ROOM];

    bench_key(key, number);
    return (size_t)snprintf(request, REQUEST_MAX, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", BENCH_KEY_LEN, key);
}

static size_t request_set(char request[REQUEST_MAX], uint32_t number)
{
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN];

    bench_key(key, number);
    bench_value(value, number);
    return (size_t)snprintf(request, REQUEST_MAX, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%.*s\r\n", BENCH_KEY_LEN, key,
                            BENCH_VALUE_LEN, BENCH_VALUE_LEN, value);
}

static size_t request_increment(char request[REQUEST_MAX], uint32_t number)
{
    (void)number;
    return (size_t)snprintf(request, REQUEST_MAX, "*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n");
}

enum pick { PICK_HOT, PICK_UNIFORM, PICK_NEW };

static void row(int fd, const char *metric, size_t (*request_make)(char[REQUEST_MAX], uint32_t), enum pick pick,
                uint32_t keys, double seconds, double tick_ns)
{
    struct bench_samples samples;
    uint64_t random = 88172645463325252u, end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    static uint32_t fresh = 1u << 20;
    char request[REQUEST_MAX], reply[512];

    bench_samples_init(&samples, 1u << 20);
    for (uint64_t i = 0; bench_goes_on(&samples, end); i++) {
        uint32_t number = pick == PICK_HOT ? 0 : pick == PICK_NEW ? fresh++ : (uint32_t)(bench_random(&random) % keys);
        size_t len = request_make(request, number);
        uint64_t start = bench_ticks();
        command(fd, request, len, reply, sizeof(reply));
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(metric, "redis", &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

struct handoff {
    _Alignas(BENCH_LINE) _Atomic uint64_t ready;    /* reader: about to block for the nth time */
    _Alignas(BENCH_LINE) _Atomic uint64_t returned; /* reader: n times back, `at` is set */
    uint64_t at;
};

static void reader(struct handoff *handoff, int fd, uint64_t rounds)
{
    static const char pop[] = "*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$2\r\n10\r\n";
    char reply[512];

    for (uint64_t i = 1; i <= rounds; i++) {
        atomic_store(&handoff->ready, i);
        command(fd, pop, sizeof(pop) - 1, reply, sizeof(reply));
        handoff->at = bench_ticks();
        atomic_store(&handoff->returned, i);
    }
}

static void row_wait(const struct bench_cpus *cpus, int fd, uint64_t rounds, double tick_ns)
{
    static const char push[] = "*3\r\n$5\r\nLPUSH\r\n$4\r\nlist\r\n$1\r\nx\r\n";
    struct handoff *handoff = bench_shared(sizeof(*handoff));
    struct bench_samples samples;
    char reply[512];
    pid_t child;

    bench_samples_init(&samples, rounds);
    child = bench_fork(60);
    if (child == 0) {
        bench_pin(cpus, 1);
        reader(handoff, try_connect(), rounds);
        _exit(0);
    }
    for (uint64_t i = 1; i <= rounds; i++) {
        uint64_t start;
        while (atomic_load(&handoff->ready) < i)
            bench_pause();
        bench_spin_ns(300000);
        start = bench_ticks();
        command(fd, push, sizeof(push) - 1, reply, sizeof(reply));
        while (atomic_load(&handoff->returned) < i)
            bench_pause();
        bench_add(&samples, handoff->at - start);
    }
    bench_reap(child, "the reader");
    bench_emit("wait.parked", "redis", &samples, tick_ns, 1, 1);
}

int main(int argc, char **argv)
{
    struct bench_cpus cpus;
    char request[REQUEST_MAX], reply[512];
    double seconds, tick_ns;
    uint32_t keys;
    int fd;

    if (argc != 3)
        bench_die("usage: redis SECONDS KEYS");
    seconds = bench_number(argv[1], 0.001, 60);
    keys = (uint32_t)bench_number(argv[2], 1, 1 << 20);
    alarm((unsigned)seconds * 10 + 60);
    bench_cpus_read(&cpus);
    start_server(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    fd = try_connect();
    if (fd < 0)
        bench_die("cannot connect: %s", strerror(errno));
    for (uint32_t number = 0; number < keys; number++)
        command(fd, request, request_set(request, number), reply, sizeof(reply));
    row(fd, "kv.get.hot", request_get, PICK_HOT, keys, seconds, tick_ns);
    row(fd, "kv.get.uniform", request_get, PICK_UNIFORM, keys, seconds, tick_ns);
    row(fd, "kv.set.hot", request_set, PICK_HOT, keys, seconds, tick_ns);
    row(fd, "kv.set.uniform", request_set, PICK_UNIFORM, keys, seconds, tick_ns);
    row(fd, "kv.increment", request_increment, PICK_HOT, keys, seconds, tick_ns);
    row(fd, "kv.insert", request_set, PICK_NEW, keys, seconds, tick_ns);
    row_wait(&cpus, fd, seconds < 0.2 ? 100 : 1000, tick_ns);
    return 0;
}
