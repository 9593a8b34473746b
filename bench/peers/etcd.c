/*
 * bench/peers/etcd.c: etcd on one host, one blocking client on another: HTTP/1.1 with JSON, one connection kept.
 *
 * The program starts an etcd of its own, a cluster of one, on the second processor, with its data in memory (/dev/shm),
 * so that its fsync costs nothing; it is killed and the folder removed at the end, whatever the end. The client, on the
 * first processor, writes ready-made requests. Keys and values are those of the other stores; JSON has them in base64.
 *
 * Usage: etcd SECONDS NET ADDRESS NET ADDRESS     (seconds for each row; bench/net.h; etcd is on the first host)
 */
#include "../keys.h"
#include "../net.h"

#include <ftw.h>

#define ROOM 1024

static char folder[64];
static pid_t server, owner;

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    (void)where;
    return remove(path);
}

static void clean_up(void)
{
    if (getpid() != owner)
        return;
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_server(const struct bench_cpus *cpus, const struct bench_host *host, const uint16_t ports[2])
{
    char client[64], peer[64], cluster[80];

    bench_enter(host);
    bench_pin(cpus, 1);
    snprintf(client, sizeof(client), "http://%s:%u", host->address, ports[0]);
    snprintf(peer, sizeof(peer), "http://%s:%u", host->address, ports[1]);
    snprintf(cluster, sizeof(cluster), "default=%s", peer);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(1);
    execlp("etcd", "etcd", "--data-dir", folder, "--listen-client-urls", client, "--advertise-client-urls", client,
           "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
           "--log-level", "error", (char *)NULL);
    _exit(127);
}

/* Free a moment ago: etcd cannot be told to choose. */
static uint16_t free_port(const struct bench_host *host)
{
    uint16_t port;

    close(bench_listen(host, &port));
    return port;
}

static size_t base64(char *to, const char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t out = 0;

    for (size_t i = 0; i < len; i += 3) {
        uint32_t word = 0;

        for (size_t k = 0; k < 3; k++)
            word = word << 8 | (i + k < len ? (unsigned char)bytes[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            to[out++] = i + k <= len ? digits[word >> (18 - 6 * k) & 63] : '=';
    }
    to[out] = 0;
    return out;
}

static size_t request_of(char request[ROOM], const struct bench_host *host, int is_put)
{
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN], key64[32], value64[128], body[256];
    int len;

    bench_key(key, 0);
    bench_value(value, 0);
    base64(key64, key, BENCH_KEY_LEN);
    base64(value64, value, sizeof(value));
    if (is_put)
        len = snprintf(body, sizeof(body), "{\"key\":\"%s\",\"value\":\"%s\"}", key64, value64);
    else
        len = snprintf(body, sizeof(body), "{\"key\":\"%s\"}", key64);
    return (size_t)snprintf(request, ROOM, "POST /v3/kv/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s",
                            is_put ? "put" : "range", host->address, len, body);
}

/* One request, one whole answer of status 200. */
static void ask(int fd, const char *request, size_t len)
{
    char reply[4096];
    size_t got = 0, whole = 0;

    if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("send: %s", strerror(errno));
    while (!whole || got < whole) {
        ssize_t n = recv(fd, reply + got, sizeof(reply) - 1 - got, 0);
        char *end, *length;

        if (n <= 0)
            bench_die("etcd closed the connection");
        got += (size_t)n;
        reply[got] = 0;
        end = strstr(reply, "\r\n\r\n");
        if (whole || !end)
            continue;
        length = strstr(reply, "Content-Length: ");
        if (strncmp(reply, "HTTP/1.1 200", 12) != 0 || !length || length > end)
            bench_die("etcd: %.*s", (int)strcspn(reply, "\r"), reply);
        whole = (size_t)(end + 4 - reply) + strtoul(length + 16, NULL, 10);
    }
}

static int connect_to(const struct bench_host *host, uint16_t port)
{
    for (int i = 0; i < 1500; i++) {
        int fd = bench_connect(host, port);

        if (fd >= 0)
            return fd;
        if (waitpid(server, NULL, WNOHANG) == server) {
            server = 0;
            bench_die("etcd ended at once");
        }
        usleep(10000);
    }
    bench_die("etcd did not answer in 15 s");
}

static void row(int fd, const struct bench_host *host, int is_put, double seconds, double tick_ns)
{
    struct bench_samples samples;
    char request[ROOM];
    size_t len = request_of(request, host, is_put);
    uint64_t end;

    bench_samples_init(&samples, 1u << 18);
    for (int i = 0; i < 20; i++)
        ask(fd, request, len);
    end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        ask(fd, request, len);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(is_put ? "cross.kv.set" : "cross.kv.get", "etcd", &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

int main(int argc, char **argv)
{
    struct bench_host hosts[2];
    struct bench_cpus cpus;
    uint16_t ports[2];
    double tick_ns, seconds;
    int fd;

    if (argc != 6)
        bench_die("usage: etcd SECONDS NET ADDRESS NET ADDRESS");
    seconds = bench_number(argv[1], 0.001, 60);
    for (int i = 0; i < 2; i++)
        hosts[i] = (struct bench_host){argv[2 + 2 * i], argv[3 + 2 * i]};
    alarm(120);
    bench_cpus_read(&cpus);
    tick_ns = bench_tick_ns();
    owner = getpid();
    atexit(clean_up);
    snprintf(folder, sizeof(folder), "/dev/shm/bench-%d-etcd-XXXXXX", (int)owner); /* harness/machine.py */
    if (!mkdtemp(folder))
        bench_die("%s: %s", folder, strerror(errno));
    bench_enter(&hosts[0]);
    ports[0] = free_port(&hosts[0]);
    ports[1] = free_port(&hosts[0]);
    server = bench_fork(0);
    if (server == 0)
        run_server(&cpus, &hosts[0], ports);
    bench_enter(&hosts[1]);
    bench_pin(&cpus, 0);
    fd = connect_to(&hosts[0], ports[0]);
    row(fd, &hosts[0], 1, seconds, tick_ns);
    row(fd, &hosts[0], 0, seconds, tick_ns);
    close(fd);
    return 0;
}
