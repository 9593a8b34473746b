/*
 * bench/relay.c: the least that a barrier of two hosts takes in which a task leaves the network to another process of
 * its host, as a task of muster leaves it to its agent: bare TCP, a word of shared memory each way, and nothing else.
 *
 * One task and one relay a host. The task says in a word that it has arrived; the second host's relay tells the first
 * one's by 64 bytes; when that one's own task has arrived, too, it answers, and each relay lets its task go on. All
 * four poll, and yield after each look, since the two of a host have one processor. Timed at the first host's task.
 *
 * Usage: relay METRIC WHO SECONDS NET ADDRESS NET ADDRESS     (bench/net.h)
 */
#include "net.h"

#include <sched.h>
#include <stdatomic.h>

#define MESSAGE 64

struct side {
    _Alignas(128) _Atomic uint32_t arrived;  /* the task's: its barriers so far */
    _Alignas(128) _Atomic uint32_t released; /* the relay's */
    _Alignas(128) _Atomic uint32_t is_over;
};

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* False: it is over. */
static int pass(struct side *side, uint32_t barrier)
{
    atomic_store(&side->arrived, barrier); /* seq_cst, as all here: pairs with the loads in run_relay() */
    while (atomic_load(&side->released) != barrier) {
        if (atomic_load(&side->is_over))
            return 0;
        sched_yield();
    }
    return 1;
}

static void time_task(struct side *side, char **argv, double tick_ns)
{
    uint64_t end = bench_now_ns() + (uint64_t)(bench_number(argv[3], 0.001, 60) * 1e9);
    struct bench_samples samples;
    uint32_t barrier = 0;

    bench_samples_init(&samples, 1u << 20);
    while (barrier < 100) /* all are awake, and know the way */
        pass(side, ++barrier);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        if (!pass(side, ++barrier))
            bench_die("the other side has gone");
        bench_add(&samples, bench_ticks() - start);
    }
    atomic_store(&side->is_over, 1); /* pairs with the load in run_relay() */
    bench_emit(argv[1], argv[2], &samples, tick_ns, 1, 1);
}

/* ---- the relay --------------------------------------------------------------------------------------------------- */

static void say(int fd, const char *message)
{
    if (send(fd, message, MESSAGE, MSG_NOSIGNAL) != MESSAGE && errno != EPIPE && errno != ECONNRESET)
        bench_die("send: %s", strerror(errno));
}

/* How many messages have come: 0 or 1; -1: the other side has closed. */
static int hear(int fd, char *message)
{
    ssize_t n = recv(fd, message, MESSAGE, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n == 0 || (n < 0 && errno == ECONNRESET)) /* it ended before it had read all */
        return -1;
    if (n != MESSAGE) /* so few bytes are never parted */
        bench_die("recv: %zd bytes, %s", n, strerror(errno));
    return 1;
}

static void run_relay(struct side *side, int fd, int leads)
{
    char message[MESSAGE] = "";
    uint32_t said = 0, heard = 0;
    int n;

    while (!atomic_load(&side->is_over) && (n = hear(fd, message)) >= 0) {
        uint32_t arrived = atomic_load(&side->arrived);

        heard += (uint32_t)n;
        if (arrived > said && (!leads || heard > said)) {
            said++;
            if (leads)
                atomic_store(&side->released, said);
            say(fd, message);
        }
        if (!leads)
            atomic_store(&side->released, heard);
        sched_yield();
    }
    atomic_store(&side->is_over, 1);
    close(fd);
}

int main(int argc, char **argv)
{
    struct bench_host hosts[2];
    struct bench_cpus cpus;
    struct side *sides;
    pid_t relays[2], task;
    uint16_t port;
    double tick_ns;
    int listener, fd;

    if (argc != 8)
        bench_die("usage: relay METRIC WHO SECONDS NET ADDRESS NET ADDRESS");
    for (int i = 0; i < 2; i++)
        hosts[i] = (struct bench_host){argv[4 + 2 * i], argv[5 + 2 * i]};
    alarm(120);
    bench_cpus_read(&cpus);
    tick_ns = bench_tick_ns();
    sides = bench_shared(2 * sizeof(*sides));
    bench_enter(&hosts[0]);
    listener = bench_listen(&hosts[0], &port);
    for (int i = 0; i < 2; i++) {
        relays[i] = bench_fork(120);
        if (relays[i])
            continue;
        bench_pin(&cpus, i);
        if (i)
            bench_enter(&hosts[1]);
        fd = i ? bench_connect(&hosts[0], port) : accept(listener, NULL, NULL);
        if (fd < 0)
            bench_die("the two relays do not meet: %s", strerror(errno));
        bench_nodelay(fd);
        run_relay(&sides[i], fd, i == 0);
        _exit(0);
    }
    task = bench_fork(120);
    if (task == 0) {
        bench_pin(&cpus, 1);
        for (uint32_t barrier = 1; pass(&sides[1], barrier);)
            barrier++;
        _exit(0);
    }
    bench_pin(&cpus, 0);
    time_task(&sides[0], argv, tick_ns);
    for (int i = 0; i < 2; i++)
        bench_reap(relays[i], "a relay");
    bench_reap(task, "the other task");
    return 0;
}
