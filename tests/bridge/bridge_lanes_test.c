/*
 * tests/bridge/bridge_lanes_test.c: two whole bridges in one process, over loopback, with a loop on each that asks by
 * lanes and listens to the bell. Neither bridge looks again by itself here: a ring that is lost between its two threads
 * and the listener leaves the test hanging, and it fails. So does an end that a thread which sleeps on the bell does
 * not hear of. What nobody rang for is found by who looks for them, and by the bridge itself when nobody does any more.
 */
/* variants: release asan tsan */
#define MU_CORE_LISTENER_RECHECK_NS 3600000000000u
#include "segment/hosts.h"

#include <stdatomic.h>

#include "bridge/link/link.h"

static atomic_uint num_sleeps; /* relaxed adds: the barriers of those who read it order them */
static bool looks_again;       /* set while there is no bridge */

/* What time makes due is the other thread's to find, too. */
static bool wait_for_a_ring(struct muster_segment *seg, muster_deadline deadline)
{
    atomic_fetch_add_explicit(&num_sleeps, 1, memory_order_relaxed);
    return mu_bell_wait(seg, looks_again ? deadline : MUSTER_FOREVER);
}

static void sleep_and_count(struct mu_link *link, int ms)
{
    atomic_fetch_add_explicit(&num_sleeps, 1, memory_order_relaxed);
    mu_link_wait(link, ms);
}

#define mu_bell_wait wait_for_a_ring
#define mu_link_wait sleep_and_count
#include "bridge/bridge_threads.c" /* with waits of its own */
#undef mu_bell_wait
#undef mu_link_wait
#include "bridge/bridge_look.c"
#include "bridge/core/listener.c"

#include "cm.h"
#include "job.h"
#include "kv/remote.h"
#include "segment/file.h"
#include "task/task.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <semaphore.h>
#include <unistd.h>

#include <muster/event.h>
#include <muster/kv.h>

#ifdef MU_TSAN
enum { ROUNDS = 100, ENDS = 8 };
#else
enum { ROUNDS = 400, ENDS = 16 };
#endif

static char job[128], address[64];
static sem_t has_address;

struct side {
    bool leader, latency;
    void (*plays)(struct side *s);
    pthread_t thread;
    struct mu_bridge *bridge;
    struct test_job mine;
    struct muster *m;
    struct mu_lanes *lanes;
    sem_t rung;
    unsigned seed;
    bool answered;
    enum muster_status status;
    uint8_t what;
    unsigned sleeps; /* of both, while they rested */
    uint64_t rested_ns;
};

static void on_listens(void *arg, const char *text)
{
    (void)arg;
    snprintf(address, sizeof address, "%s", text);
    sem_post(&has_address);
}

static void rung(void *arg)
{
    sem_post(arg);
}

/* ---- what the loops do ------------------------------------------------------------------------------------------- */

static void wait_to_be_told(struct side *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (sem_timedwait(&s->rung, &until)) {
        printf("%s is not told\n", s->leader ? "the leader's loop" : "the follower's loop");
        fflush(stdout);
        abort();
    }
    while (!sem_trywait(&s->rung))
        ;
}

/* Sometimes at once, sometimes when all have gone to sleep. */
static void dawdle(struct side *s)
{
    s->seed = s->seed * 1103515245u + 12345u;
    for (volatile unsigned i = 0; i < (s->seed >> 16) % 20000; i++)
        ;
}

static bool is_there(struct side *s, const char *key)
{
    return muster_kv_try_get(s->m, key, MUSTER_NTS, NULL, 0, NULL, NULL) == MUSTER_OUT_OF_RANGE;
}

static void listen_for(struct side *s, const char *key)
{
    for (;;) {
        mu_lanes_arm(s->lanes);
        if (is_there(s, key))
            return;
        wait_to_be_told(s);
    }
}

static void answered(struct mu_lane_call *call, enum muster_status status, const char *text, struct mu_unpack body)
{
    struct side *s = call->arg;

    if (status)
        printf("%s: %s\n", call->what, text);
    s->answered = true;
    s->status = status;
    s->what = mu_unpack_u8(&body);
}

static void ask(struct side *s, struct mu_lane_call *call)
{
    s->answered = false;
    call->answered = answered;
    call->arg = s;
    s->status = mu_lanes_ask(s->lanes, call);
    for (mu_lanes_take(s->lanes); !s->status && !s->answered; mu_lanes_take(s->lanes))
        wait_to_be_told(s);
}

/* A key that is set by a lane, and one that is waited for: as who serves a client's calls does it. */
static void play_follower(struct side *s, const char *ping, const char *pong)
{
    struct mu_lane_call set = {.op = MU_OP_KV_SET, .what = ping}, get = {.op = MU_OP_KV_GET, .what = pong};

    mu_pack_text(&set.request, ping);
    mu_pack_u64(&set.request, 0);
    mu_pack_raw(&set.request, "x", 1);
    ask(s, &set);
    dawdle(s);
    mu_pack_u8(&get.request, MU_READ_WAITS);
    mu_pack_u64(&get.request, 0);
    mu_pack_text(&get.request, pong);
    ask(s, &get);
    listen_for(s, pong);
}

static void play_leader(struct side *s, const char *ping, const char *pong)
{
    listen_for(s, ping);
    dawdle(s);
    s->status = muster_kv_set(s->m, pong, MUSTER_NTS, "y", 1, NULL);
}

static void play(struct side *s)
{
    char ping[32], pong[32];

    for (int i = 0; i < ROUNDS && !s->status; i++) {
        snprintf(ping, sizeof ping, "ping/%d", i);
        snprintf(pong, sizeof pong, "pong/%d", i);
        (s->leader ? play_leader : play_follower)(s, ping, pong);
    }
}

/* ---- a host ------------------------------------------------------------------------------------------------------ */

static enum muster_status meet(struct side *s)
{
    struct mu_bridge_options o = {.leader = s->leader,
                                  .latency = s->latency,
                                  .job = job,
                                  .num_hosts = 2,
                                  .num_tasks = 1,
                                  .num_events = 16,
                                  .num_buckets = 64,
                                  .heap_bytes = 16 << 20,
                                  .join_until = muster_after_ns(60000000000u),
                                  .listens = on_listens};

    o.link.address = s->leader ? "127.0.0.1:0" : address;
    o.link.join.node = !s->leader;
    o.link.join.incarnation[0] = s->leader ? 1 : 2;
    o.link.timeout_ns = 600000000000u;
    snprintf(o.link.join.host, sizeof o.link.join.host, s->leader ? "a" : "b");
    return mu_bridge_meet(&o, NULL, &s->bridge);
}

static enum muster_status make_segment(struct side *s)
{
    const struct mu_bridge_shape *shape = mu_bridge_shape(s->bridge);
    struct mu_hosts_config hosts = {
        .num_hosts = 2, .host = shape->host, .num_tasks = shape->tasks, .run_id = {shape->run_id[0], shape->run_id[1]}};
    struct muster_segment_config config = {.num_tasks = 2,
                                           .num_slots = 32,
                                           .num_buckets = 64,
                                           .num_events = 16,
                                           .heap_bytes = 16 << 20,
                                           .heartbeat_timeout_ns = 600000000000u};

    snprintf(s->mine.name, sizeof s->mine.name, s->leader ? "%.100s" : "%.100s.h1", job);
    return mu_segment_create_hosts(s->mine.name, &config, &hosts, true, &s->mine.segment);
}

/* Until both are through: who stops first would be the other's lost leader, or follower. */
static pthread_barrier_t both;

static bool polls(struct side *s)
{
    bool is_polling;

    pthread_mutex_lock(&s->bridge->lock);
    is_polling = s->bridge->is_polling;
    pthread_mutex_unlock(&s->bridge->lock);
    return is_polling;
}

/* The leader's thread of the sockets polls as long as the follower asks; its other one sleeps, with the bell off. */
static void end_at_work(struct side *s)
{
    pthread_barrier_wait(&both); /* both have begun */
    if (s->leader) {
        while (!polls(s))
            sched_yield();
        mu_bridge_stop(s->bridge);
    } else {
        usleep(2000); /* sleep: by then the leader's threads do, too */
        while (!muster_kv_set(s->m, "go", MUSTER_NTS, "x", 1, NULL))
            ;
    }
    pthread_barrier_wait(&both);
    if (!s->leader)
        mu_bridge_stop(s->bridge);
}

/* The thread at the bell, or nearly; with the bridge's lock. */
static void wait_until_it_sleeps(struct side *s)
{
    pthread_mutex_lock(&s->bridge->lock);
    while (s->bridge->is_polling || !s->bridge->bell_until) {
        pthread_mutex_unlock(&s->bridge->lock);
        sched_yield();
        pthread_mutex_lock(&s->bridge->lock);
    }
}

/* With the bell off nobody rings it. */
static enum muster_status send_without_a_ring(struct side *s)
{
    enum muster_status status;

    wait_until_it_sleeps(s);
    mu_bell_disarm(s->m->seg);
    status = muster_event_send(s->m, 0, "e", 1, NULL);
    mu_bell_arm(s->m->seg);
    pthread_mutex_unlock(&s->bridge->lock);
    return status;
}

static uint64_t frames_out(struct side *s)
{
    struct mu_link_stats stats = {0};

    pthread_mutex_lock(&s->bridge->lock);
    mu_link_stats(s->bridge->link, 1, &stats);
    pthread_mutex_unlock(&s->bridge->lock);
    return stats.frames_out;
}

/* As one does who is killed between its ring and its wake. Until that is taken back nobody else can ring. */
static void ring_and_wake_nobody(struct side *s)
{
    bool rung;

    wait_until_it_sleeps(s);
    rung = mu_cas32(&s->m->seg->header->bell, MU_BELL_ARMED, MU_BELL_RUNG);
    pthread_mutex_unlock(&s->bridge->lock);
    while (rung && mu_load32_acquire(&s->m->seg->header->bell) != MU_BELL_ARMED) { /* acquire: as who rings */
        mu_bridge_look(s->bridge);
        sched_yield();
    }
}

/* It is the look that tells the follower, and when nobody looks any more, the thread at the bell. */
static void look_for_the_bridge(struct side *s)
{
    uint64_t before;

    pthread_barrier_wait(&both);
    if (s->leader) {
        mu_bridge_be_looked_after(s->bridge, true);
        ring_and_wake_nobody(s);
        s->status = send_without_a_ring(s);
        for (before = frames_out(s); !s->status && frames_out(s) == before; sched_yield())
            mu_bridge_look(s->bridge);
        if (!s->status)
            s->status = send_without_a_ring(s);
        before = frames_out(s);
        mu_bridge_be_looked_after(s->bridge, false);
        while (!s->status && frames_out(s) == before)
            sched_yield();
    }
    pthread_barrier_wait(&both);
    mu_bridge_stop(s->bridge);
}

/* For some seconds time asks for nothing but what who looks after them does. A thread that looked again by itself would
 * do so ten times a second. */
static void rest_looked_after(struct side *s)
{
    uint64_t began;
    unsigned before;

    mu_bridge_be_looked_after(s->bridge, true);
    pthread_barrier_wait(&both);
    usleep(500000); /* sleep: there is something to be said at the beginning */
    mu_bridge_look(s->bridge);
    pthread_barrier_wait(&both);
    before = atomic_load(&num_sleeps);
    began = mu_now();
    for (int i = 0; i < 20; i++) {
        usleep(100000); /* sleep: what is looked at */
        mu_bridge_look(s->bridge);
    }
    pthread_barrier_wait(&both);
    s->sleeps = atomic_load(&num_sleeps) - before;
    s->rested_ns = mu_now() - began;
    pthread_barrier_wait(&both);
    mu_bridge_be_looked_after(s->bridge, false);
    mu_bridge_stop(s->bridge);
}

static void play_by_lanes(struct side *s)
{
    s->status = mu_bridge_lanes(s->bridge, &s->lanes);
    if (s->status) {
        printf("%s\n", muster_last_error());
        fflush(stdout);
        abort();
    }
    mu_lanes_listen(s->lanes, rung, &s->rung);
    play(s);
    pthread_barrier_wait(&both);
    mu_lanes_listen(s->lanes, NULL, NULL);
    mu_bridge_end_lanes(s->bridge, s->lanes);
    mu_bridge_stop(s->bridge);
}

/* Both have met, have no segment yet, and take their time: their threads sleep, where one that spun had turns without
 * end. */
static void rest(struct side *s)
{
    unsigned before;

    pthread_barrier_wait(&both);
    before = atomic_load(&num_sleeps);
    usleep(300000); /* sleep: what is looked at */
    pthread_barrier_wait(&both);
    s->sleeps = atomic_load(&num_sleeps) - before;
}

static void *run_side(void *arg)
{
    struct side *s = arg;

    s->status = meet(s);
    if (!s->status && s->plays != end_at_work)
        rest(s);
    if (!s->status)
        s->status = make_segment(s);
    if (!s->status)
        s->status = mu_task_join_open(s->mine.segment, &s->m);
    if (!s->status)
        s->status = mu_bridge_start(s->bridge, s->m);
    if (s->status) {
        printf("%s: %s\n", s->leader ? "leader" : "follower", muster_last_error());
        fflush(stdout);
        abort();
    }
    s->plays(s);
    return NULL;
}

static void run_both(bool latency, void (*plays)(struct side *s), unsigned seed)
{
    struct side sides[2] = {{.leader = true, .latency = latency, .plays = plays, .seed = seed},
                            {.latency = latency, .plays = plays, .seed = seed + 1}};

    test_name(job, "lanes");
    assert_int_equal(sem_init(&has_address, 0, 0), 0);
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sem_init(&sides[i].rung, 0, 0), 0);
        assert_int_equal(pthread_create(&sides[i].thread, NULL, run_side, &sides[i]), 0);
        if (!i)
            sem_wait(&has_address);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sides[i].status, MUSTER_OK);
        assert_true(sides[i].sleeps < (plays == rest_looked_after ? 10 + 2 * sides[i].rested_ns / 1000000000u : 100));
        assert_ok(muster_leave(sides[i].m));
        assert_int_equal(test_job_end(&sides[i].mine), 0);
        sem_destroy(&sides[i].rung);
    }
    pthread_barrier_destroy(&both);
    sem_destroy(&has_address);
}

TEST(keys_go_to_and_fro)
{
    run_both(false, play_by_lanes, 1);
}

TEST(keys_go_to_and_fro_beside_one_who_polls)
{
    run_both(true, play_by_lanes, 1);
}

TEST(an_end_is_heard_by_who_sleeps)
{
    alarm(120); /* a thread that is not told sleeps for minutes */
    for (unsigned i = 0; i < ENDS; i++)
        run_both(i % 2, end_at_work, 0);
    alarm(0);
}

TEST(who_looks_for_the_bridge_finds_what_nobody_rang_for)
{
    alarm(120);
    for (unsigned i = 0; i < ENDS; i++)
        run_both(false, look_for_the_bridge, 0);
    alarm(0);
}

TEST(a_bridge_that_is_looked_after_sleeps)
{
    looks_again = true;
    run_both(false, rest_looked_after, 0);
    looks_again = false;
}
