/*
 * bench/grpc.c: what clients of the coordination service wait for, over gRPC, and how much of it a service can do: one
 * process with a connection for each of 256 tasks, in today's protocol (xla.coordination), against whatever service
 * listens at ADDRESS. Of etcd (WHO says so) the rows of keys.
 *
 * Registering: all tasks at once, until the last is answered. Keys: a call at a time on one connection. Wake: from the
 * set until the get that waits on another connection is answered; of etcd, until its watch tells. Barriers: all their
 * calls sent, until all are answered. Load: 8 connections with 8 calls on the way each, or 8 barriers of 8 tasks on the
 * way at once: how long each call takes then, how many a second, and the processor time of both sides for each. Death:
 * a process that holds the last task is killed, until task 0's poll for errors is answered; the others' heartbeats go
 * on.
 *
 * Usage: grpc WHO HOST PORT SECONDS PID        (of the service; 0: its processor time is not told)
 */
#include <poll.h>

#include "grpc_client.h"
#include "service.h"

#define TASKS 256
#define MOST  200000
#define ALARM 140 /* seconds */

enum { LOAD = 8, LEAST = 8 };

static struct client_conn *conns;
static struct client_call calls[TASKS];
static uint64_t service;
static const char *who;
static bool is_etcd, is_loaded;
static double tick_ns, seconds;

/* ---- requests ---- */

#define PATH(rpc) "/xla.coordination.CoordinationService/" rpc

static const char insert_path[] = PATH("InsertKeyValue"), get_path[] = PATH("GetKeyValue"),
                  barrier_path[] = PATH("Barrier"), register_path[] = PATH("RegisterTask"),
                  poll_path[] = PATH("PollForError"), heartbeat_path[] = PATH("Heartbeat"),
                  put_path[] = "/etcdserverpb.KV/Put", range_path[] = "/etcdserverpb.KV/Range",
                  watch_path[] = "/etcdserverpb.Watch/Watch";

/* A request with its Incarnations, which all but the first have. */
static struct client_request begin_request(void)
{
    struct client_request r = {.len = 0}, inner = {.len = 0};

    client_fixed(&inner, 3, service);
    client_bytes(&r, 1, inner.bytes, inner.len);
    return r;
}

static struct client_request of_get(const char *key)
{
    struct client_request r = {.len = 0};

    if (!is_etcd)
        r = begin_request();
    client_bytes(&r, is_etcd ? 1 : 2, key, strlen(key));
    return r;
}

static struct client_request of_set(const char *key)
{
    struct client_request entry = {.len = 0}, r;
    char value[64];

    memset(value, 'v', sizeof value);
    client_bytes(&entry, 1, key, strlen(key));
    client_bytes(&entry, 2, value, sizeof value);
    if (is_etcd)
        return entry;
    r = begin_request();
    client_bytes(&r, 2, entry.bytes, entry.len);
    client_number(&r, 3, 1); /* overwrite */
    return r;
}

/* One of `count` tasks from `first` on calls their barrier. */
static struct client_request of_barrier(int task, int first, int count, uint64_t counter)
{
    struct client_request r = begin_request(), members = {.len = 0};
    char name[32];

    snprintf(name, sizeof name, "%s%d.%d", is_loaded ? "load" : "b", first, count);
    for (int i = first; i < first + count; i++)
        client_varint(&members, (uint64_t)i);
    client_bytes(&r, 2, name, strlen(name));
    client_number(&r, 3, 60000);
    client_bytes(&r, 4, members.bytes, members.len);
    client_number(&r, 5, (uint64_t)task);
    client_number(&r, 6, counter);
    return r;
}

/* ---- calls ---- */

static void ask(int at, struct client_call *call, const char *path, const struct client_request *r)
{
    client_ask(&conns[at], call, path, r, false);
    client_flush(&conns[at]);
}

static void is_good(const struct client_call *call, const char *what)
{
    if (call->code)
        bench_die("%s: status %d", what, call->code);
}

/* Of the first connections, one each. */
static void await_all(int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        client_await(&conns[i], &calls[i]);
        is_good(&calls[i], what);
    }
}

static void emit_one(const char *metric, uint64_t ticks)
{
    struct bench_samples samples;

    bench_samples_init(&samples, 1);
    bench_add(&samples, ticks);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void beat(int task, struct client_call *call)
{
    struct client_request r = begin_request();

    client_fixed(&r, 2, (uint64_t)task + 1);
    client_number(&r, 3, (uint64_t)task);
    ask(task, call, heartbeat_path, &r);
}

/* Between rows, so that no row ends as their death. */
static void beat_all(void)
{
    for (int task = 0; !is_etcd && task < TASKS; task++)
        beat(task, &calls[task]);
    await_all(is_etcd ? 0 : TASKS, "heartbeat");
}

/* ---- one at a time ---- */

static void open_all(const struct sockaddr_in *address)
{
    for (int task = 0; task < TASKS; task++)
        client_open(&conns[task], address);
}

/* All connect, then all register. */
static void measure_register(const struct sockaddr_in *address)
{
    struct bench_used before = bench_used_now();
    uint64_t start = bench_ticks();

    open_all(address);
    for (int task = 0; task < TASKS; task++) {
        struct client_request r = {.len = 0};

        client_fixed(&r, 3, (uint64_t)task + 1);
        client_number(&r, 5, (uint64_t)task);
        ask(task, &calls[task], register_path, &r);
    }
    await_all(TASKS, "register");
    emit_one("grpc.register", bench_ticks() - start);
    bench_emit_used("grpc.register", before, TASKS);
    memcpy(&service, calls[0].answer + 6, 8); /* 5 of gRPC, the field's tag */
}

static void measure_call(const char *metric, const char *path, struct client_request r)
{
    struct bench_samples samples;
    struct bench_used before;
    uint64_t end;

    bench_samples_init(&samples, MOST);
    for (int i = 0; i < 50; i++) { /* warm */
        ask(0, &calls[0], path, &r);
        await_all(1, metric);
    }
    before = bench_used_now();
    for (end = bench_now_ns() + (uint64_t)(seconds * 1e9); bench_goes_on(&samples, end);) {
        uint64_t start = bench_ticks();

        ask(0, &calls[0], path, &r);
        await_all(1, metric);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit_used(metric, before, samples.count);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

/* The get of a key, which waits on connection 0; of etcd, its watch, which stays. */
static void begin_waiting(const char *key, bool is_first)
{
    struct client_request r = {.len = 0}, inner;

    if (!is_etcd) {
        r = of_get(key);
        ask(0, &calls[0], get_path, &r);
    } else if (is_first) {
        inner = of_get(key);
        client_bytes(&r, 1, inner.bytes, inner.len);
        client_ask(&conns[0], &calls[0], watch_path, &r, true);
        client_flush(&conns[0]);
        while (!calls[0].got)
            client_take(&conns[0], true);
    }
    usleep(500); /* until it waits there */
}

static void measure_wake(void)
{
    struct bench_samples samples;
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    char key[32];

    bench_samples_init(&samples, MOST);
    for (int i = 0; bench_goes_on(&samples, end); i++) {
        struct client_request r;
        uint64_t start;
        size_t got;

        snprintf(key, sizeof key, "wake/%d", is_etcd ? 0 : i);
        begin_waiting(key, i == 0);
        got = calls[0].got;
        r = of_set(key);
        start = bench_ticks();
        ask(1, &calls[1], is_etcd ? put_path : insert_path, &r);
        while (is_etcd ? calls[0].got == got : calls[0].code < 0)
            client_take(&conns[0], true);
        bench_add(&samples, bench_ticks() - start);
        if (!is_etcd)
            is_good(&calls[0], "a get that waits");
        client_await(&conns[1], &calls[1]);
        is_good(&calls[1], "the set");
    }
    bench_emit("grpc.wake", who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void measure_barrier(int count)
{
    struct bench_samples samples;
    struct bench_used before = bench_used_now();
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    char metric[32];

    snprintf(metric, sizeof metric, "grpc.barrier.%d", count);
    bench_samples_init(&samples, MOST);
    for (uint64_t counter = 0; bench_goes_on(&samples, end); counter++) {
        uint64_t start = bench_ticks();

        for (int task = 0; task < count; task++) {
            struct client_request r = of_barrier(task, 0, count, counter);

            ask(task, &calls[task], barrier_path, &r);
        }
        await_all(count, metric);
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit_used(metric, before, samples.count * (size_t)count);
    bench_emit(metric, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

/* ---- many at a time ---- */

struct load {
    const char *metric;
    int num_conns, each;                                /* calls on the way, of one connection */
    void (*next)(struct load *l, struct client_call *); /* the call is asked again, left in its connection's `out` */
    const char *path;
    struct client_request request;
    uint64_t counters[LOAD];
    int left[LOAD]; /* of a barrier's calls, on the way */
    struct bench_samples samples;
    size_t count;
};

/* The call's connection: those of a load have `each` calls in a row. */
static int conn_of(const struct load *l, const struct client_call *call)
{
    return (int)(call - calls) / l->each;
}

static void ask_again(struct load *l, struct client_call *call)
{
    call->asked = bench_ticks();
    client_ask(&conns[conn_of(l, call)], call, l->path, &l->request, false);
}

/* When all of the barrier's are answered, all ask for the next instance. */
static void meet_again(struct load *l, struct client_call *call)
{
    int task = (int)(call - calls), first = task / LOAD * LOAD;

    if (--l->left[first / LOAD] > 0)
        return;
    l->left[first / LOAD] = LOAD;
    for (int i = first; i < first + LOAD; i++) {
        struct client_request r = of_barrier(i, first, LOAD, l->counters[first / LOAD]);

        calls[i].asked = bench_ticks();
        client_ask(&conns[i], &calls[i], barrier_path, &r, false);
        client_flush(&conns[i]);
    }
    l->counters[first / LOAD]++;
}

static void take_answers(struct load *l, int at, bool goes_on)
{
    struct client_conn *c = &conns[at];
    uint64_t now;

    client_take(c, false);
    now = bench_ticks();
    for (int i = at * l->each; i < (at + 1) * l->each; i++) {
        if (calls[i].code < 0 || !calls[i].asked)
            continue;
        is_good(&calls[i], l->metric);
        bench_add(&l->samples, now - calls[i].asked);
        l->count++;
        calls[i].asked = 0; /* it is counted */
        if (goes_on)
            l->next(l, &calls[i]);
    }
    client_flush(c);
}

static void pump(struct load *l)
{
    struct pollfd fds[LOAD * LOAD];
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    bool goes_on = true;

    for (int i = 0; i < l->num_conns; i++)
        fds[i] = (struct pollfd){.fd = conns[i].fd, .events = POLLIN};
    for (int open = 1; open > 0;) {
        poll(fds, (nfds_t)l->num_conns, 100);
        goes_on = goes_on && (bench_now_ns() < end || l->count < LEAST);
        for (int i = 0; i < l->num_conns; i++)
            if (fds[i].revents)
                take_answers(l, i, goes_on);
        open = 0;
        for (int i = 0; i < l->num_conns; i++)
            open += conns[i].num_open;
    }
}

static void measure_load(struct load l)
{
    struct bench_used before;
    char rate[64];
    uint64_t took;

    bench_samples_init(&l.samples, MOST * 5);
    before = bench_used_now();
    for (int i = 0; i < LOAD; i++)
        l.left[i] = 1; /* the first to ask asks for all */
    for (int i = 0; i < l.num_conns * l.each; i += l.each == 1 ? LOAD : 1)
        l.next(&l, &calls[i]);
    for (int i = 0; i < l.num_conns; i++)
        client_flush(&conns[i]);
    pump(&l);
    took = bench_now_ns() - before.began;
    snprintf(rate, sizeof rate, "%s.rate", l.metric);
    bench_emit_value(rate, who, (double)l.count * 1e9 / (double)took, "calls/s");
    bench_emit_used(l.metric, before, l.count);
    bench_emit(l.metric, who, &l.samples, tick_ns, 1, 1);
    bench_samples_free(&l.samples);
}

/* ---- death ---- */

static void ask_poll(int task, struct client_call *call)
{
    struct client_request r = begin_request();

    client_number(&r, 2, (uint64_t)task);
    ask(task, call, poll_path, &r);
}

/* Until it is answered, or a second is over. */
static bool await_a_second(struct client_conn *c, const struct client_call *call)
{
    struct pollfd fd = {.fd = c->fd, .events = POLLIN};
    uint64_t end = bench_now_ns() + 1000000000;

    while (call->code < 0 && bench_now_ns() < end)
        if (poll(&fd, 1, 100) > 0)
            client_take(c, false);
    return call->code >= 0;
}

/* The last task's connection goes over to a process that is killed. */
static void measure_death(void)
{
    static struct client_call poll_call;
    uint64_t start;
    pid_t pid;

    ask_poll(0, &poll_call);
    ask_poll(TASKS - 1, &calls[TASKS - 1]);
    pid = bench_fork(ALARM);
    if (pid == 0) {
        for (;;)
            pause();
    }
    close(conns[TASKS - 1].fd);
    usleep(200000); /* until both polls wait there */
    start = bench_ticks();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 120 && !await_a_second(&conns[0], &poll_call); i++)
        for (int task = 0; task < TASKS - 1; task++) {
            client_take(&conns[task], false);
            if (i == 0 || calls[task].code >= 0)
                beat(task, &calls[task]);
        }
    if (poll_call.code != 14)
        bench_die("death: status %d", poll_call.code);
    emit_one("grpc.death", bench_ticks() - start);
}

static void measure_keys(void)
{
    const char *set = is_etcd ? put_path : insert_path, *get = is_etcd ? range_path : get_path;

    measure_call("grpc.set", set, of_set("key"));
    beat_all();
    measure_call("grpc.get", get, of_get("key"));
    beat_all();
    measure_load((struct load){.metric = "grpc.load.set",
                               .num_conns = LOAD,
                               .each = LOAD,
                               .next = ask_again,
                               .path = set,
                               .request = of_set("key")});
    beat_all();
    measure_load((struct load){.metric = "grpc.load.get",
                               .num_conns = LOAD,
                               .each = LOAD,
                               .next = ask_again,
                               .path = get,
                               .request = of_get("key")});
    beat_all();
    measure_wake();
}

static void measure_tasks(void)
{
    for (int count = 2; count <= 64; count *= count == 2 ? 4 : 8) {
        beat_all();
        measure_barrier(count);
    }
    beat_all();
    is_loaded = true;
    measure_load((struct load){.metric = "grpc.load.barrier", .num_conns = LOAD * LOAD, .each = 1, .next = meet_again});
    beat_all();
    measure_death();
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct bench_cpus cpus;

    if (argc != 6 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
        bench_die("usage: grpc WHO HOST PORT SECONDS PID");
    who = argv[1];
    is_etcd = !strcmp(who, "etcd");
    address.sin_port = htons((uint16_t)bench_number(argv[3], 1, 65535));
    seconds = bench_number(argv[4], 0.001, 10);
    bench_service_watch(who, (pid_t)bench_number(argv[5], 0, INT32_MAX));
    alarm(ALARM);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    conns = bench_shared(TASKS * sizeof *conns); /* touched: its faults are nobody's */
    if (is_etcd)
        open_all(&address);
    else
        measure_register(&address);
    measure_keys();
    if (!is_etcd)
        measure_tasks();
    return 0;
}
