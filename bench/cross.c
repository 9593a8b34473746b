/*
 * bench/cross.c: barriers and keys of a job of several hosts, one task each, over the bridge as it is: TCP, TLS with
 * the job's key.
 *
 * Each host is a process with its agent's bridge, in its network namespace, and a task that it forks before the
 * bridge's threads run. Barriers go by the loop of all contenders, at the leader's task. Keys are those of a follower's
 * task: one that it has no copy of yet (the leader answers), one that it has, and an overwrite that the leader
 * acknowledges; "values" are the same with large ones; "objects" are got that the leader's task has put. Agents are not
 * pinned: a host's agent and its task take turns on the processors that there are.
 *
 * Usage: cross group|named|keys|values|objects block|poll SECONDS LEAST MOST NET ADDRESS NET ADDRESS... (bench/net.h)
 */
#include "barrier_loop.h"
#include "job.h"
#include "keys.h"
#include "net.h"

#include "bridge/bridge.h"
#include "segment/file.h"
#include "sync/futex.h"
#include "task/task.h"

enum { HOSTS_MAX = 16, FRESH = 20000, FRESH_BYTES = 32 << 20 };

struct run {
    uint32_t num_hosts, host;
    const char *what, *mode;
    double seconds;
    uint64_t least, most;
    struct bench_host hosts[HOSTS_MAX];
    int address[2]; /* a pipe: where the leader listens, once for each follower */
    uint8_t key[MU_KEY_BYTES];
    char job[64];
};

struct rank {
    struct muster *muster;
    struct muster_group *group;
    uint32_t rank, shared;
};

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static void arrive(void *context)
{
    struct rank *r = context;

    if (r->group)
        bench_ok(muster_group_barrier(r->group, MUSTER_FOREVER), "muster_group_barrier");
    else
        bench_ok(muster_barrier_wait(r->muster, "step", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER),
                 "muster_barrier_wait");
}

static uint64_t share(void *context, uint64_t value)
{
    struct rank *r = context;
    char key[32];
    size_t len;

    snprintf(key, sizeof(key), "share/%u", r->shared++);
    if (r->rank == 0)
        bench_ok(muster_kv_set(r->muster, key, MUSTER_NTS, &value, sizeof(value), NULL), "muster_kv_set");
    else
        bench_ok(muster_kv_get(r->muster, key, MUSTER_NTS, MUSTER_FOREVER, &value, sizeof(value), &len, NULL),
                 "muster_kv_get");
    return value;
}

static void run_barriers(const struct run *run, struct rank *r)
{
    struct bench_barrier b = {
        .barrier = arrive, .share = share, .context = r, .rank = (int)run->host, .size = (int)run->num_hosts};
    char metric[64];

    snprintf(metric, sizeof(metric), "cross.n%u%s", run->num_hosts, run->mode[0] == 'p' ? ".latency" : "");
    b.metric = metric;
    if (run->what[0] == 'g')
        bench_ok(muster_group_create(r->muster, "bench", NULL, 0, 0, muster_after_ms(30000), &r->group),
                 "muster_group_create");
    bench_barrier_run(&b, run->what[0] == 'g' ? "muster" : "muster-named", run->seconds, run->least, run->most);
    muster_group_free(r->group);
}

static void time_key(const struct rank *r, const char *metric, double seconds, uint32_t many, int is_set,
                     double tick_ns)
{
    struct bench_samples samples;
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN];
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);
    size_t len;

    bench_samples_init(&samples, many);
    bench_value(value, 0);
    while (bench_goes_on(&samples, end)) {
        uint64_t start;

        bench_key(key, many == FRESH ? (uint32_t)samples.count : 0);
        start = bench_ticks();
        if (is_set)
            bench_ok(muster_kv_set(r->muster, key, BENCH_KEY_LEN, value, sizeof(value), NULL), "muster_kv_set");
        else
            bench_ok(muster_kv_try_get(r->muster, key, BENCH_KEY_LEN, value, sizeof(value), &len, NULL),
                     "muster_kv_try_get");
        bench_add(&samples, bench_ticks() - start);
    }
    bench_emit(metric, "muster", &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

/* The leader's task puts the keys there; the last host's reads and writes them. */
static void run_keys(const struct run *run, struct rank *r)
{
    const char *mode = run->mode[0] == 'p' ? ".latency" : "";
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN], metric[64];
    double tick_ns;

    bench_value(value, 0);
    for (uint32_t i = 0; i < FRESH && run->host == 0; i++) {
        bench_key(key, i);
        bench_ok(muster_kv_set(r->muster, key, BENCH_KEY_LEN, value, sizeof(value), NULL), "muster_kv_set");
    }
    arrive(r);
    if (run->host == run->num_hosts - 1) {
        tick_ns = bench_tick_ns();
        snprintf(metric, sizeof(metric), "cross.kv.get%s", mode);
        time_key(r, metric, run->seconds, FRESH, 0, tick_ns);
        snprintf(metric, sizeof(metric), "cross.kv.copy%s", mode);
        time_key(r, metric, run->seconds / 10, 1u << 18, 0, tick_ns);
        snprintf(metric, sizeof(metric), "cross.kv.set%s", mode);
        time_key(r, metric, run->seconds, 1u << 18, 1, tick_ns);
    }
    arrive(r);
}

/* Fresh gets of so many bytes, then overwrites of a key that its host has no copy of: what is set does not come back.
 */
static void time_value(const struct run *run, const struct rank *r, char *value, size_t size, const char *name,
                       int is_set)
{
    uint64_t end = bench_now_ns() + (uint64_t)(run->seconds * 1e9);
    struct bench_samples samples;
    char key[BENCH_KEY_ROOM], metric[64];
    size_t len;

    bench_samples_init(&samples, is_set ? 1u << 18 : FRESH_BYTES / size);
    while (bench_goes_on(&samples, end)) {
        uint64_t start;

        bench_key(key, is_set ? FRESH : (uint32_t)samples.count);
        start = bench_ticks();
        if (is_set)
            bench_ok(muster_kv_set(r->muster, key, BENCH_KEY_LEN, value, size, NULL), "muster_kv_set");
        else
            bench_ok(muster_kv_try_get(r->muster, key, BENCH_KEY_LEN, value, size, &len, NULL), "muster_kv_try_get");
        bench_add(&samples, bench_ticks() - start);
    }
    snprintf(metric, sizeof(metric), "cross.kv.%s.%s", is_set ? "set" : "get", name);
    bench_emit(metric, "muster", &samples, bench_tick_ns(), 1, 1);
    bench_samples_free(&samples);
}

static void run_values(const struct run *run, struct rank *r)
{
    static const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"64k", 64 << 10}, {"1m", 1 << 20}};
    char *value = calloc(1, 1 << 20), key[BENCH_KEY_ROOM];

    if (!value)
        bench_die("no memory for a value");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (uint32_t i = 0; i < FRESH_BYTES / sizes[s].size && run->host == 0; i++) {
            bench_key(key, i);
            bench_ok(muster_kv_set(r->muster, key, BENCH_KEY_LEN, value, sizes[s].size, NULL), "muster_kv_set");
        }
        arrive(r);
        for (int is_set = 0; is_set < 2 && run->host == run->num_hosts - 1; is_set++)
            time_value(run, r, value, sizes[s].size, sizes[s].name, is_set);
        arrive(r);
        if (run->host == 0) /* the next ones are not seen before */
            bench_ok(muster_kv_delete(r->muster, "bench", MUSTER_NTS, NULL), "muster_kv_delete");
        arrive(r);
    }
    free(value);
}

/* The last host's task gets one object after the other that the leader's has put, and has seen none of them before. */
static void time_objects(const struct run *run, struct rank *r, const void *bytes, size_t size, const char *name)
{
    uint64_t end = bench_now_ns() + (uint64_t)(run->seconds * 1e9);
    bool gets = run->host == run->num_hosts - 1;
    struct bench_samples samples;
    muster_object object = 0;
    char metric[64];
    size_t len;

    bench_samples_init(&samples, 1u << 12);
    for (;;) {
        if (run->host == 0 && (bench_now_ns() < end || !samples.count))
            bench_ok(muster_object_put(r->muster, bytes, size, NULL, 0, 0, &object), "muster_object_put");
        if (run->host == 0) /* one key, and not one each: what hosts have copies of costs the leader something */
            bench_ok(muster_kv_set(r->muster, "object", MUSTER_NTS, &object, sizeof(object), NULL), "muster_kv_set");
        arrive(r);
        bench_ok(muster_kv_get(r->muster, "object", MUSTER_NTS, MUSTER_FOREVER, &object, sizeof(object), &len, NULL),
                 "muster_kv_get");
        if (!object) {
            arrive(r); /* before the next row's key */
            break;
        }
        if (gets) {
            uint64_t start = bench_ticks();
            struct muster_object_view view;

            bench_ok(muster_object_get(r->muster, &object, 1, MUSTER_FOREVER, &view, NULL), "muster_object_get");
            bench_add(&samples, bench_ticks() - start);
            muster_object_unview(r->muster, &view, 1);
        } else {
            samples.count++;
        }
        arrive(r);
        if (run->host == 0)
            bench_ok(muster_object_drop(r->muster, &object, 1), "muster_object_drop");
        object = 0;
    }
    snprintf(metric, sizeof(metric), "cross.object.%s", name);
    if (gets)
        bench_emit(metric, "muster", &samples, bench_tick_ns(), 1, 1);
    bench_samples_free(&samples);
}

static void run_objects(const struct run *run, struct rank *r)
{
    uint8_t *bytes = malloc(64 << 20);

    if (!bytes)
        bench_die("no memory for an object");
    memset(bytes, 1, 64 << 20);
    time_objects(run, r, bytes, 20, "20");
    time_objects(run, r, bytes, 1 << 20, "1m");
    time_objects(run, r, bytes, 64 << 20, "64m");
    free(bytes);
}

static void run_task(const struct run *run, const char *segment)
{
    struct rank r = {.rank = run->host};
    struct muster_options options;

    muster_options_init(&options);
    options.job = segment;
    options.task_id = (int32_t)run->host;
    options.flags = MUSTER_JOIN_NO_CREATE;
    bench_ok(muster_join(&options, &r.muster), "muster_join");
    bench_ok(muster_barrier_wait(r.muster, "all", 0, NULL, 0, 0, muster_after_ms(60000)), "the first barrier");
    if (run->what[0] == 'k')
        run_keys(run, &r);
    else if (run->what[0] == 'v')
        run_values(run, &r);
    else if (run->what[0] == 'o')
        run_objects(run, &r);
    else
        run_barriers(run, &r);
    bench_ok(muster_barrier_wait(r.muster, "end", 0, NULL, 0, 0, muster_after_ms(60000)), "the last barrier");
    bench_ok(muster_leave(r.muster), "muster_leave");
}

/* ---- the agent --------------------------------------------------------------------------------------------------- */

static void on_listens(void *arg, const char *address)
{
    const struct run *run = arg;
    char text[64];

    snprintf(text, sizeof(text), "%s", address);
    for (uint32_t i = 1; i < run->num_hosts; i++)
        if (write(run->address[1], text, sizeof(text)) != sizeof(text))
            bench_die("the address cannot be told");
}

static _Atomic uint32_t left;

static void on_changed(void *arg, uint32_t host, enum mu_peer_state state, const char *why)
{
    (void)arg;
    (void)host;
    (void)why;
    if (state == MU_PEER_LOST) {
        left++; /* process-local, seq_cst: the main thread sleeps on it */
        mu_futex_wake32((mu_a32 *)&left);
    }
}

static void serve(const struct run *run, struct mu_bridge *bridge)
{
    const struct mu_bridge_shape *shape = mu_bridge_shape(bridge);
    struct mu_hosts_config hosts = {.num_hosts = shape->num_hosts,
                                    .host = shape->host,
                                    .num_tasks = shape->tasks,
                                    .run_id = {shape->run_id[0], shape->run_id[1]}};
    struct muster_segment_config config = {.num_tasks = shape->num_tasks, .heartbeat_timeout_ns = 600000000000u};
    struct muster_segment *segment;
    struct muster *muster;
    char name[80];
    pid_t task;

    snprintf(name, sizeof(name), shape->host ? "%s.h%u" : "%s", run->job, shape->host);
    bench_ok(mu_segment_create_hosts(name, &config, &hosts, true, &segment), "mu_segment_create_hosts");
    task = bench_fork(120);
    if (task == 0) {
        run_task(run, name);
        _exit(0);
    }
    bench_ok(mu_task_join_open(segment, &muster), "mu_task_join_open");
    bench_ok(mu_bridge_start(bridge, muster), "mu_bridge_start");
    bench_reap(task, "a task");
    for (uint32_t seen; run->host == 0 && (seen = left) < run->num_hosts - 1;) {
        mu_a32 *word = (mu_a32 *)&left;

        mu_futex_wait_any(&word, &seen, 1, muster_after_ms(100));
    }
    mu_bridge_stop(bridge);
    bench_ok(muster_leave(muster), "muster_leave");
    mu_segment_unlink(segment);
    muster_segment_close(segment);
}

static void be_host(const struct run *run)
{
    struct mu_bridge_options options = {.leader = run->host == 0,
                                        .latency = run->mode[0] == 'p',
                                        .job = run->job,
                                        .num_hosts = run->num_hosts,
                                        .num_tasks = 1,
                                        .join_until = muster_after_ms(60000),
                                        .arg = (void *)(uintptr_t)run,
                                        .listens = on_listens,
                                        .host_changed = on_changed};
    struct mu_bridge *bridge;
    char address[64];

    bench_enter(&run->hosts[run->host]);
    snprintf(address, sizeof(address), "%s:0", run->hosts[0].address);
    if (run->host && read(run->address[0], address, sizeof(address)) != sizeof(address))
        bench_die("the leader does not listen");
    options.link.address = address;
    options.link.key = run->key;
    options.link.join.node = run->host;
    options.link.join.pid = (uint32_t)getpid();
    options.link.join.incarnation[0] = (uint64_t)getpid();
    snprintf(options.link.join.host, sizeof(options.link.join.host), "host-%u", run->host);
    bench_ok(mu_bridge_meet(&options, NULL, &bridge), "mu_bridge_meet");
    serve(run, bridge);
}

int main(int argc, char **argv)
{
    pid_t pids[HOSTS_MAX];
    struct run run = {
        .num_hosts = (uint32_t)(argc - 6) / 2, .what = argv[1], .mode = argv[2], .key = "of the benchmark"};

    if (argc < 10 || argc % 2 || run.num_hosts > HOSTS_MAX)
        bench_die(
            "usage: cross group|named|keys|values|objects block|poll SECONDS LEAST MOST NET ADDRESS NET ADDRESS...");
    run.seconds = bench_number(argv[3], 0.001, 60);
    run.least = (uint64_t)bench_number(argv[4], 16, 1e8);
    run.most = (uint64_t)bench_number(argv[5], 16, 1e8);
    for (uint32_t i = 0; i < run.num_hosts; i++)
        run.hosts[i] = (struct bench_host){argv[6 + 2 * i], argv[7 + 2 * i]};
    snprintf(run.job, sizeof(run.job), "bench-%d-cross", (int)getpid());
    if (pipe(run.address))
        bench_die("pipe: %s", strerror(errno));
    alarm(120);
    for (run.host = 0; run.host < run.num_hosts; run.host++) {
        pids[run.host] = bench_fork(120);
        if (pids[run.host] == 0) {
            be_host(&run);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < run.num_hosts; i++)
        bench_reap(pids[i], "a host");
    return 0;
}
