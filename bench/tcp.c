/*
 * bench/tcp.c: the round trip of 64 bytes over one TCP connection between two hosts: the limit of all that one host can
 * learn of another. With BYTES, so many go one way and 64 come back.
 *
 * "block": both sides sleep in recv(), as an agent that waits for its peer does. "poll": both ask again and again
 * without sleeping, as one in latency mode does. NODELAY, one write and one read a message, the sides on two
 * processors.
 *
 * Usage: tcp METRIC WHO block|poll SECONDS NET ADDRESS NET ADDRESS [BYTES]     (bench/net.h)
 */
#include "net.h"

#define MESSAGE 64
#define MOST    (64 << 20)

static int recv_flags; /* MSG_DONTWAIT: poll */

/* 0: the other side has closed. */
static int receive(int fd, char *message, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = recv(fd, message + got, len - got, recv_flags);

        if (n == 0)
            return 0;
        if (n < 0 && errno != EAGAIN)
            bench_die("recv: %s", strerror(errno));
        if (n < 0)
            bench_pause();
        else
            got += (size_t)n;
    }
    return 1;
}

static void say(int fd, const char *message, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(fd, message + sent, len - sent, MSG_NOSIGNAL);

        if (n < 0)
            bench_die("send: %s", strerror(errno));
        sent += (size_t)n;
    }
}

static void answer(const struct bench_cpus *cpus, int listener, size_t len)
{
    static char message[MOST];
    int fd;

    bench_pin(cpus, 1);
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        bench_die("accept: %s", strerror(errno));
    bench_nodelay(fd);
    while (receive(fd, message, len))
        say(fd, message, MESSAGE);
}

int main(int argc, char **argv)
{
    struct bench_host hosts[2];
    struct bench_samples samples;
    struct bench_cpus cpus;
    static char message[MOST], back[MESSAGE];
    size_t len = argc == 10 ? (size_t)bench_number(argv[9], 1, MOST) : MESSAGE;
    uint16_t port;
    uint64_t end;
    double tick_ns;
    pid_t child;
    int listener, fd;

    if ((argc != 9 && argc != 10) || (strcmp(argv[3], "block") != 0 && strcmp(argv[3], "poll") != 0))
        bench_die("usage: tcp METRIC WHO block|poll SECONDS NET ADDRESS NET ADDRESS [BYTES]");
    for (int i = 0; i < 2; i++)
        hosts[i] = (struct bench_host){argv[5 + 2 * i], argv[6 + 2 * i]};
    recv_flags = argv[3][0] == 'p' ? MSG_DONTWAIT : 0;
    alarm(120);
    bench_cpus_read(&cpus);
    tick_ns = bench_tick_ns();
    bench_enter(&hosts[0]);
    listener = bench_listen(&hosts[0], &port);
    child = bench_fork(120);
    if (child == 0) {
        answer(&cpus, listener, len);
        _exit(0);
    }
    close(listener);
    bench_enter(&hosts[1]);
    bench_pin(&cpus, 0);
    fd = bench_connect(&hosts[0], port);
    if (fd < 0)
        bench_die("the other side does not listen");
    bench_samples_init(&samples, 1u << 20);
    for (int i = 0; i < 100; i++) { /* both are awake, and know the way */
        say(fd, message, len);
        receive(fd, back, MESSAGE);
    }
    end = bench_now_ns() + (uint64_t)(bench_number(argv[4], 0.001, 60) * 1e9);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        say(fd, message, len);
        if (!receive(fd, back, MESSAGE))
            bench_die("the other side has gone");
        bench_add(&samples, bench_ticks() - start);
    }
    close(fd);
    bench_reap(child, "the other side");
    bench_emit(argv[1], argv[2], &samples, tick_ns, 1, 1);
    return 0;
}
