/*
 * bench/nodes.c: nodes of MindSpore's parameter servers, by ps core's wire, at `muster serve --mindspore`.
 *
 *   nodes.ready.SERVERS.WORKERS   the first node connects → the last has the cluster's metadata
 *   nodes.event.N                 a node sends an event → the last of the N nodes has it
 *   nodes.death.N                 a node's sockets are closed, as by a SIGKILL → the last of the others is told
 *
 * All nodes are sockets of this one process and its one thread: what a node of MindSpore does with what it hears costs
 * nothing here. A death is told by the answer to a heartbeat that has not been sent yet.
 *
 * Usage: nodes MUSTER SERVERS WORKERS EVENTS DEATHS      (each death is a cluster of its own)
 */
#include "measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { NODES_MAX = 1024, ROOM = 1 << 17, HEADER = 16, PATIENCE_MS = 60000 };
enum { REGISTER = 1, METADATA = 7, EVENT = 12 };

struct stream {
    int fd;
    size_t have;
    uint8_t *bytes; /* ROOM */
};

static struct node {
    int door;
    uint16_t port;
    struct stream own, pushed; /* to the service; from it */
    uint64_t told_ns[16];      /* of the last push of each command; [0]: of an answer that nobody asked for */
    uint32_t events;
} * nodes;

static struct sockaddr_in service;
static pid_t serving;
static int poller, num_nodes, num_servers;

/* ---- the wire ---- */

static size_t number_put(uint8_t *to, unsigned field, uint64_t value)
{
    size_t n = 0;

    to[n++] = (uint8_t)(field << 3);
    for (; value > 127; value >>= 7)
        to[n++] = (uint8_t)(value | 128);
    to[n++] = (uint8_t)value;
    return n;
}

static size_t text_put(uint8_t *to, unsigned field, const char *text)
{
    size_t len = strlen(text);

    to[0] = (uint8_t)(field << 3 | 2);
    to[1] = (uint8_t)len;
    memcpy(to + 2, text, len);
    return len + 2;
}

static void bytes_send(int fd, const void *bytes, size_t len)
{
    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("send: %s", strerror(errno));
}

static void frame_send(int fd, uint32_t protocol, const uint8_t *meta, size_t meta_len, const uint8_t *body, size_t len)
{
    uint8_t frame[512];
    uint32_t head[2] = {protocol, (uint32_t)meta_len};
    uint64_t total = meta_len + len;

    memcpy(frame, head, 8);
    memcpy(frame + 8, &total, 8);
    memcpy(frame + HEADER, meta, meta_len);
    memcpy(frame + HEADER + meta_len, body, len);
    bytes_send(fd, frame, HEADER + total);
}

static void command_send(struct node *n, unsigned command, const uint8_t *body, size_t len)
{
    static uint64_t requests;
    uint8_t meta[32];
    size_t at = number_put(meta, 1, command);

    at += number_put(meta + at, 2, ++requests);
    frame_send(n->own.fd, 1, meta, at, body, len);
}

/* The number in that field of a message of numbers; 0: it is not there. */
static uint64_t number_of(const uint8_t *meta, size_t len, unsigned field)
{
    size_t at = 0;

    while (at < len) {
        unsigned which = meta[at++] >> 3, shift = 0;
        uint64_t value = 0;

        while (at < len && meta[at] & 128) {
            value |= (uint64_t)(meta[at++] & 127) << shift;
            shift += 7;
        }
        value |= at < len ? (uint64_t)meta[at++] << shift : 0;
        if (which == field)
            return value;
    }
    return 0;
}

static void frame_take(struct node *n, const struct stream *s, const uint8_t *meta, size_t meta_len)
{
    uint64_t command = number_of(meta, meta_len, 1);

    if (s == &n->own) {
        if (!number_of(meta, meta_len, 2))
            n->told_ns[0] = bench_now_ns();
        return;
    }
    frame_send(s->fd, 0, meta, meta_len, meta, 0); /* it is acknowledged */
    n->told_ns[command % 16] = bench_now_ns();
    n->events += command == EVENT;
}

static void stream_read(struct node *n, struct stream *s)
{
    ssize_t got = recv(s->fd, s->bytes + s->have, ROOM - s->have, MSG_DONTWAIT);
    uint32_t meta;
    uint64_t total;

    if (got <= 0) {
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        bench_die("a connection of the service has ended");
    }
    s->have += (size_t)got;
    while (s->have >= HEADER) {
        memcpy(&meta, s->bytes + 4, 4);
        memcpy(&total, s->bytes + 8, 8);
        if (total > ROOM - HEADER || meta > total)
            bench_die("a frame of %llu bytes", (unsigned long long)total);
        if (s->have < HEADER + total)
            break;
        frame_take(n, s, s->bytes + HEADER, meta);
        s->have -= HEADER + total;
        memmove(s->bytes, s->bytes + HEADER + total, s->have);
    }
}

/* ---- nodes ---- */

static void watch(int fd, int index, uint64_t kind)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)index << 2 | kind};

    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e))
        bench_die("epoll_ctl: %s", strerror(errno));
}

static int door_open(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        bench_die("a node's door: %s", strerror(errno));
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void node_register(int index)
{
    struct node *n = &nodes[index];
    uint8_t body[128];
    char name[32];
    size_t at;
    int one = 1;

    n->own.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (n->own.fd < 0 || connect(n->own.fd, (struct sockaddr *)&service, sizeof(service)))
        bench_die("connect: %s", strerror(errno));
    setsockopt(n->own.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    watch(n->own.fd, index, 1);
    snprintf(name, sizeof(name), "n%d", index);
    at = text_put(body, 1, "127.0.0.1");
    at += number_put(body + at, 2, n->port);
    at += text_put(body + at, 3, name);
    at += number_put(body + at, 4, index >= num_servers);
    command_send(n, REGISTER, body, at);
}

static void doors_turn(int timeout_ms)
{
    struct epoll_event found[64];
    int count = epoll_wait(poller, found, 64, timeout_ms);

    if (count <= 0)
        bench_die("the service says nothing");
    for (int i = 0; i < count; i++) {
        int index = (int)(found[i].data.u64 >> 2), one = 1;
        struct node *n = &nodes[index];

        if ((found[i].data.u64 & 3) == 0) {
            n->pushed.fd = accept4(n->door, NULL, NULL, SOCK_CLOEXEC);
            setsockopt(n->pushed.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            watch(n->pushed.fd, index, 2);
        } else {
            stream_read(n, (found[i].data.u64 & 3) == 1 ? &n->own : &n->pushed);
        }
    }
}

/* Until each node but `without` has been told so; when the last was. */
static uint64_t told_await(unsigned command, uint64_t since, int without)
{
    uint64_t last = 0;

    for (int i = 0; i < num_nodes; i++) {
        while (i != without && nodes[i].told_ns[command] < since)
            doors_turn(PATIENCE_MS);
        last = i != without && nodes[i].told_ns[command] > last ? nodes[i].told_ns[command] : last;
    }
    return last;
}

/* ---- the service ---- */

static void service_start(const char *muster)
{
    char servers[16], tasks[16], line[64] = "", *colon;
    int out[2];
    ssize_t got;

    snprintf(servers, sizeof(servers), "%d", num_servers);
    snprintf(tasks, sizeof(tasks), "%d", num_nodes);
    if (pipe(out))
        bench_die("pipe: %s", strerror(errno));
    serving = bench_fork(600);
    if (!serving) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execl(muster, muster, "serve", "--mindspore", "--servers", servers, "-n", tasks, (char *)NULL);
        bench_die("%s: %s", muster, strerror(errno));
    }
    close(out[1]);
    got = read(out[0], line, sizeof(line) - 1);
    colon = got > 0 ? strrchr(line, ':') : NULL;
    if (!colon)
        bench_die("the service did not start");
    colon[strcspn(colon, "\n")] = 0;
    close(out[0]);
    service = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)bench_number(colon + 1, 1, 65535)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void service_stop(void)
{
    kill(serving, SIGTERM);
    waitpid(serving, NULL, 0);
}

static uint64_t cluster_begin(const char *muster)
{
    uint64_t start;

    service_start(muster);
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < num_nodes; i++) {
        nodes[i].door = door_open(&nodes[i].port);
        memset(nodes[i].told_ns, 0, sizeof(nodes[i].told_ns));
        nodes[i].own.have = nodes[i].pushed.have = 0;
        watch(nodes[i].door, i, 0);
    }
    start = bench_now_ns();
    for (int i = 0; i < num_nodes; i++)
        node_register(i);
    return told_await(METADATA, start, -1) - start;
}

static void node_close(struct node *n)
{
    close(n->door);
    close(n->own.fd);
    close(n->pushed.fd);
}

static void cluster_end(int without)
{
    service_stop(); /* first: it says a line of each node that goes */
    for (int i = 0; i < num_nodes; i++)
        if (i != without)
            node_close(&nodes[i]);
    close(poller);
}

static void events_send(int events, struct bench_samples *samples)
{
    for (int i = 0; i < events; i++) {
        struct node *n = &nodes[i % num_nodes];
        uint8_t body[64];
        size_t at = number_put(body, 1, (uint64_t)i + 1);
        uint64_t start;
        char name[32];

        snprintf(name, sizeof(name), "n%d", i % num_nodes);
        at += text_put(body + at, 2, name);
        start = bench_now_ns();
        command_send(n, EVENT, body, at);
        bench_add(samples, told_await(EVENT, start, -1) - start);
    }
}

static void result_emit(const char *what, struct bench_samples *samples)
{
    char metric[64];

    if (strcmp(what, "ready") == 0)
        snprintf(metric, sizeof(metric), "nodes.ready.%d.%d", num_servers, num_nodes - num_servers);
    else
        snprintf(metric, sizeof(metric), "nodes.%s.%d", what, num_nodes);
    if (samples->count)
        bench_emit(metric, "muster", samples, 1.0, 1, 1);
}

int main(int argc, char **argv)
{
    struct bench_samples ready, event, death;
    struct bench_cpus cpus;
    int events, deaths;

    if (argc != 6)
        bench_die("usage: nodes MUSTER SERVERS WORKERS EVENTS DEATHS");
    alarm(600);
    num_servers = (int)bench_number(argv[2], 1, NODES_MAX / 2);
    num_nodes = num_servers + (int)bench_number(argv[3], 0, NODES_MAX / 2);
    events = (int)bench_number(argv[4], 1, 100000);
    deaths = (int)bench_number(argv[5], 1, 1000);
    nodes = calloc((size_t)num_nodes, sizeof(*nodes));
    for (int i = 0; nodes && i < num_nodes; i++) {
        nodes[i].own.bytes = malloc(ROOM);
        nodes[i].pushed.bytes = malloc(ROOM);
        if (!nodes[i].own.bytes || !nodes[i].pushed.bytes)
            bench_die("no memory");
    }
    bench_samples_init(&ready, (size_t)deaths);
    bench_samples_init(&event, (size_t)events);
    bench_samples_init(&death, (size_t)deaths);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    for (int round = 0; round < deaths; round++) {
        int victim = round % num_nodes;
        uint64_t start;

        bench_add(&ready, cluster_begin(argv[1]));
        if (round == 0)
            events_send(events, &event);
        start = bench_now_ns();
        node_close(&nodes[victim]);
        bench_add(&death, told_await(0, start, victim) - start);
        cluster_end(victim);
    }
    result_emit("ready", &ready);
    result_emit("event", &event);
    result_emit("death", &death);
    return 0;
}
