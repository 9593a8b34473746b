/*
 * tests/bridge/shortcut_test.c: barriers of two hosts by datagrams between tasks (barrier/shortcut.h): they need no
 * agent; datagrams that are lost, doubled or forged, connections that break, agents and members that are killed, and
 * patience that ends change no outcome (I16), and nobody hangs. What who passes must know is shortcut_told_test.c's.
 */
#include "cm.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "barrier/group.h"
#include "base/clock.h"
#include "base/siphash.h"
#include "bridge/group/groups.h"
#include "child.h"
#include "gang.h"

static struct test_random dice;
static const struct timespec a_moment = {0, 1000000};

static struct gang_work work_of(uint32_t count, uint64_t rounds, uint32_t kind)
{
    struct gang_work w = {
        .name = "g", .count = count, .data_bytes = 256, .rounds = rounds, .max_len = 256, .kind = kind};

    w.seed = test_below(&dice, 1u << 30);
    for (uint32_t i = 0; i < count; i++)
        w.tasks[i] = (int32_t)i;
    return w;
}

static struct hosts *open_two(uint32_t here, uint32_t there, bool stepped)
{
    return hosts_open(
        &(struct hosts_config){.tasks = {here, there}, .latency = true, .shortcuts = true, .stepped = stepped});
}

static void start(struct hosts *h, const struct gang_work *w, pid_t *pids)
{
    gang_wipe();
    for (uint32_t i = 0; i < w->count; i++)
        pids[i] = hosts_task(h, i, gang_member, (void *)(uintptr_t)w);
}

/* The harness breaks none: an agent does, when it takes a frame for one that is not sound. */
static void no_frame_was_refused(struct hosts *h)
{
    char why[700];

    assert_string_equal(hosts_dropped(h, why), "");
}

static void all_end_well(struct hosts *h, const struct gang_work *w, const pid_t *pids)
{
    for (uint32_t i = 0; i < w->count; i++) {
        int result = hosts_reap(h, pids[i]);

        if (result)
            fail_msg("member %u ended with %d: %s", i, result, gang->places[i].text);
    }
    no_frame_was_refused(h);
    assert_int_equal(hosts_close(h), 0);
}

/* No synchronisation: some time goes by, so that faults come at all moments. */
static void dawdle(void)
{
    for (volatile uint64_t i = test_below(&dice, 3000000); i; i--)
        ;
}

/* ---- what becomes of datagrams ----------------------------------------------------------------------------------- */

/* By chance, the same for nobody: none, one or two. */
static unsigned uncertain(uint64_t instance)
{
    uint64_t x = (instance * 2654435761u) ^ ((uint64_t)getpid() * 0x9e3779b97f4a7c15u);

    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (unsigned)(x >> 40) % 3;
}

static unsigned never(uint64_t instance)
{
    (void)instance;
    return 0;
}

/* ---- without agents ---------------------------------------------------------------------------------------------- */

static uint64_t slowest(uint32_t count)
{
    uint64_t at = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++)
        at = gang->places[i].last_ok < at ? gang->places[i].last_ok : at;
    return at;
}

/* Instances that pass while no agent takes a step. Who waits too long for the other asks the agents: then they must. */
TEST(barriers_pass_without_a_step_of_an_agent)
{
    for (uint32_t members = 1; members <= 2; members++) {
        struct hosts *h = open_two(members, members, true);
        struct gang_work w = work_of(2 * members, 0, GANG_BARRIER);
        uint64_t most = 0, until = mu_now() + 50000000000u;
        pid_t pids[GANG_MAX] = {0};
        struct test_random random = {test_seed()};

        start(h, &w, pids);
        gang_let_run(h, &w, 0, 3);
        while (most < 10 && mu_now() < until) {
            uint64_t from, passed;

            hosts_settle(h, &random);
            from = slowest(w.count);
            nanosleep(&a_moment, NULL); /* sleep: the tasks go on, or wait for an agent */
            passed = slowest(w.count) - from;
            most = passed > most ? passed : most;
        }
        assert_true(most >= 10);
        kill(pids[0], SIGKILL);
        gang_find_the_dead(h, 0, pids[0]);
        assert_int_equal(hosts_reap(h, pids[0]), 1000 + SIGKILL);
        for (uint32_t i = 1; i < w.count; i++)
            assert_int_equal(hosts_reap(h, pids[i]), 0);
        assert_int_equal(hosts_close(h), 0);
    }
}

TEST(what_members_give_arrives_though_barriers_go_another_way)
{
    struct hosts *h = open_two(2, 2, false);
    struct gang_work w = work_of(4, 400, GANG_ANY);
    pid_t pids[GANG_MAX] = {0};

    w.twice = true;
    start(h, &w, pids);
    all_end_well(h, &w, pids);
}

/* ---- datagrams that do not come, or are none of theirs ----------------------------------------------------------- */

TEST(who_hears_nothing_goes_by_the_agents)
{
    struct hosts *h = open_two(1, 1, false);
    struct gang_work w = work_of(2, 300, GANG_BARRIER);
    pid_t pids[GANG_MAX] = {0};

    mu_shortcut_fate = never;
    start(h, &w, pids);
    all_end_well(h, &w, pids);
    mu_shortcut_fate = NULL;
}

TEST(lost_and_doubled_ones_change_nothing)
{
    struct hosts *h = open_two(2, 1, false);
    struct gang_work w = work_of(3, 2000, GANG_BARRIER);
    pid_t pids[GANG_MAX] = {0};

    mu_shortcut_fate = uncertain;
    start(h, &w, pids);
    all_end_well(h, &w, pids);
    mu_shortcut_fate = NULL;
}

static struct span *span_of(struct hosts *h, uint32_t host)
{
    return mu_groups_of(hosts_lock(h, host))->first;
}

/* Stepped: the speakers of both hosts have sockets, and no agent has told the other of them. */
static bool have_sockets(struct hosts *h)
{
    struct span *s = span_of(h, 0);
    bool are = s && s->way && MU_SHORTCUT_IS(mu_load_acquire(&s->way->state)) == MU_SHORTCUT_WANTED &&
               mu_load_acquire(&s->way->port) >> 16; /* acquire: pairs with shortcut_offer() in shortcut.c */

    hosts_unlock(h, 0);
    return are;
}

static int hold_then_meet(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct gang_place *place = &gang->places[muster_task_id(m)];
    struct muster_group *g;

    CHECK(!muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(50000), &g));
    place->made = 1;
    gang_run(g, w, place);
    muster_group_free(g);
    return (int)atomic_load(&place->wrong);
}

/* To the leader's speaker, before it takes none but the other speaker's: what is too short, too long, not signed. */
TEST(forged_ones_are_not_believed)
{
    struct hosts *h = open_two(1, 1, true);
    struct gang_work w = work_of(2, 200, GANG_BARRIER);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    pid_t pids[GANG_MAX] = {0};

    gang_wipe();
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, hold_then_meet, &w);
    hosts_await(h, have_sockets(h), "both have sockets");
    to.sin_port = htons((uint16_t)mu_load_relaxed(&span_of(h, 0)->way->port)); /* relaxed: it was acquired */
    hosts_unlock(h, 0);
    for (uint64_t n = 1; n < 40; n++) {
        struct mu_datagram d[2] = {{MU_DATAGRAM_MAGIC, n * 4, 0, {n, n}}};

        assert_true(sendto(s, d, n % 4 ? sizeof d[0] : n % 8 ? 39 : 41, 0, (struct sockaddr *)&to, sizeof to) > 0);
    }
    close(s);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(gang->places[0].last_ok, w.rounds);
    assert_int_equal(hosts_close(h), 0);
}

TEST(a_port_that_cannot_be_breaks_the_connection_with_words)
{
    struct hosts *h = open_two(1, 1, true);
    struct gang_work w = work_of(2, 0, GANG_BARRIER);
    struct mu_pack p = {0};
    pid_t pids[GANG_MAX] = {0};
    char why[700];

    start(h, &w, pids);
    gang_let_run(h, &w, 0, 2);
    mu_bridge_span_pack(&p, MU_SAY_SHORTCUT, span_of(h, 0));
    hosts_unlock(h, 0);
    mu_pack_u32(&p, 65536);
    mu_pack_u64(&p, 1);
    mu_pack_u64(&p, 2);
    hosts_inject(h, 1, 0, MU_FRAME_GROUP, p.bytes, p.len);
    mu_pack_done(&p);
    while (!strstr(hosts_dropped(h, why), "a shortcut to port 65536"))
        hosts_step(h, 0);
    hosts_mend(h);
    kill(pids[0], SIGKILL);
    gang_find_the_dead(h, 0, pids[0]);
    assert_int_equal(hosts_reap(h, pids[0]), 1000 + SIGKILL);
    assert_int_equal(hosts_reap(h, pids[1]), 0);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- what a datagram says ---------------------------------------------------------------------------------------- */

/* A speaker that is committed to instance 7, its agent, and the other host's speaker. */
struct pair {
    struct muster_group g;
    struct mu_shortcut way;
    struct mu_area proxy;
    int other;
};

static void pair_open(struct pair *p)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct mu_shortcut_end *e = &p->g.end;
    socklen_t len = sizeof a;

    *p = (struct pair){.g.proxy = &p->proxy, .g.end = {.way = &p->way, .is_speaker = true, .is_live = true}};
    e->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    p->other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(e->fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(getsockname(e->fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(connect(p->other, (struct sockaddr *)&a, len), 0);
    e->state = MU_SHORTCUT_STATE(1, MU_SHORTCUT_LIVE);
    e->committed = 7;
    mu_store_relaxed(&p->way.state, e->state); /* relaxed, all here: one thread */
    mu_store_relaxed(&p->way.taken, 5);
    mu_store_relaxed(&p->proxy.arrived, MU_ARRIVED(6) | MU_ARRIVED_TRUSTED);
}

static void pair_say(struct pair *p, uint64_t instance, uint64_t told)
{
    struct mu_datagram d = {.magic = MU_DATAGRAM_MAGIC, .instance = instance, .told = told};

    mu_siphash(p->g.end.key_in, &d, offsetof(struct mu_datagram, tag), d.tag);
    assert_int_equal(send(p->other, &d, sizeof d, 0), sizeof d);
}

static void pair_close(struct pair *p)
{
    close(p->g.end.fd);
    close(p->other);
}

/* The other host has passed 7 if it is at 8; but if it did so by its agent, what its members gave is still to come. */
TEST(that_of_a_later_instance_lets_nobody_pass)
{
    struct pair p;

    pair_open(&p);
    pair_say(&p, 8, 5);
    for (int i = 0; i < 3; i++)
        assert_false(mu_shortcut_turn(&p.g, 7));
    assert_int_equal(MU_ARRIVED_INSTANCE(mu_load_relaxed(&p.proxy.arrived)), 6); /* relaxed: one thread */
    pair_close(&p);
}

TEST(what_is_not_believed_yet_is_kept_though_the_next_has_come)
{
    struct pair p;

    pair_open(&p);
    pair_say(&p, 7, 6);
    pair_say(&p, 8, 9);
    for (int i = 0; i < 3; i++)
        assert_false(mu_shortcut_turn(&p.g, 7));
    mu_store_relaxed(&p.way.taken, 6); /* relaxed: one thread */
    assert_true(mu_shortcut_turn(&p.g, 7));
    assert_int_equal(p.g.end.heard, 7);
    pair_close(&p);
}

/* What was said on a connection that is over is not measured by what has been taken of the next one. */
TEST(what_was_taken_of_another_connection_does_not_count)
{
    struct pair p;

    pair_open(&p);
    mu_store_relaxed(&p.way.state, MU_SHORTCUT_STATE(2, MU_SHORTCUT_LIVE)); /* relaxed: one thread */
    pair_say(&p, 8, 4);
    mu_shortcut_passed(&p.g, 7);
    assert_int_equal(p.g.end.heard, 0);
    pair_close(&p);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

TEST(broken_connections_and_killed_agents_change_nothing)
{
    struct hosts *h = open_two(2, 2, false);
    struct gang_work w = work_of(4, 3000, GANG_BARRIER);
    pid_t pids[GANG_MAX] = {0};

    mu_shortcut_fate = uncertain;
    start(h, &w, pids);
    for (uint64_t goal = 1; goal < w.rounds; goal += 60) {
        uint32_t host = (uint32_t)test_below(&dice, 2);

        switch (test_below(&dice, 3)) {
        case 0: hosts_cut(h, 1); break;
        case 1:
            hosts_cut_after(h, 1, (uint32_t)test_below(&dice, 12));
            dawdle();
            hosts_cut(h, 1);
            break;
        default:
            hosts_kill_after(h, host, (uint32_t)test_below(&dice, 40));
            dawdle();
            hosts_kill(h, host);
            hosts_start(h, host);
            break;
        }
        hosts_join(h, 1);
        hosts_await(h, slowest(2) >= goal, "the group goes on");
    }
    hosts_mend(h);
    all_end_well(h, &w, pids);
    mu_shortcut_fate = NULL;
}

TEST(a_member_that_is_killed_fails_one_instance_for_all)
{
    for (int round = 0; round < 20; round++) {
        struct hosts *h = open_two(2, 2, false);
        struct gang_work w = work_of(4, 0, GANG_BARRIER);
        uint32_t victim = (uint32_t)test_below(&dice, 4);
        bool returned[GANG_MAX];
        pid_t pids[GANG_MAX] = {0};

        mu_shortcut_fate = round % 2 ? uncertain : NULL;
        start(h, &w, pids);
        gang_let_run(h, &w, victim, 1 + test_below(&dice, 100));
        kill(pids[victim], SIGKILL);
        for (uint32_t i = 0; i < 4; i++) {
            returned[i] = i != victim;
            assert_int_equal(hosts_reap(h, pids[i]), i == victim ? 1000 + SIGKILL : 0);
        }
        assert_true(gang_one_outcome(4, returned));
        assert_int_equal(hosts_close(h), 0);
    }
    mu_shortcut_fate = NULL;
}

TEST(who_loses_patience_agrees_with_who_does_not)
{
    bool all[GANG_MAX];

    memset(all, 1, sizeof all);
    for (int round = 0; round < 40; round++) {
        struct hosts *h = open_two(2, 1, false);
        struct gang_work w[3];
        pid_t pids[GANG_MAX] = {0};
        bool ended_well = true;

        mu_shortcut_fate = round % 2 ? uncertain : NULL;
        gang_wipe();
        w[0] = work_of(3, 0, GANG_BARRIER);
        for (uint32_t i = 0; i < 3; i++) { /* from some instance on, each has about as much time as one takes */
            w[i] = w[0];
            w[i].patient_at = 50;
            w[i].patience_ns = 3000 + test_below(&dice, round % 4 < 2 ? 60000 : 2000000);
            w[i].twice = true;
            pids[i] = hosts_task(h, i, gang_member, &w[i]);
        }
        for (uint32_t i = 0; i < 3; i++)
            ended_well &= !hosts_reap(h, pids[i]);
        no_frame_was_refused(h);
        assert_true(ended_well && gang_one_outcome(3, all));
        assert_int_equal(hosts_close(h), 0);
    }
    mu_shortcut_fate = NULL;
}

/* The other host is lost: whoever had committed, and did not hear, is told that it is not known. */
TEST(of_a_lost_host_nobody_claims_to_know)
{
    for (int round = 0; round < 10; round++) {
        struct hosts *h = open_two(1, 1, false);
        struct gang_work w = work_of(2, 0, GANG_BARRIER);
        pid_t pids[GANG_MAX] = {0};

        mu_shortcut_fate = uncertain;
        start(h, &w, pids);
        gang_let_run(h, &w, 0, 1 + test_below(&dice, 200));
        hosts_cut(h, 1);
        hosts_lose(h, 0, 1, "host 1 is lost");
        hosts_lose(h, 1, 0, "host 0 is lost");
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(hosts_reap(h, pids[i]), 0);
        for (uint32_t i = 0; i < 2; i++) {
            const struct gang_place *own = &gang->places[i], *other = &gang->places[!i];

            assert_int_equal(own->status, MUSTER_UNAVAILABLE);
            /* passed there, failed here: then this one says that it does not know */
            if (other->last_ok >= own->failed)
                assert_true(strstr(own->text, "is not known here") || strstr(own->text, "had the last word"));
        }
        assert_int_equal(hosts_close(h), 0);
    }
    mu_shortcut_fate = NULL;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

TEST(addresses_come_back_as_they_were)
{
    struct sockaddr_storage a, b;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
    uint64_t words[3];

    memset(&a, 0, sizeof a);
    v6->sin6_family = AF_INET6;
    v6->sin6_scope_id = 3;
    v6->sin6_port = htons(4711);
    for (uint8_t i = 0; i < 16; i++)
        v6->sin6_addr.s6_addr[i] = (uint8_t)(i + 1);
    assert_true(mu_shortcut_encode(&a, words));
    assert_int_equal(mu_shortcut_decode(words, 4711, &b), sizeof *v6);
    assert_memory_equal(&a, &b, sizeof *v6);
    memset(&a, 0, sizeof a);
    a.ss_family = AF_UNIX;
    assert_false(mu_shortcut_encode(&a, words));
    assert_int_equal(mu_shortcut_decode(words, 1, &b), 0);
}

int main(void)
{
    dice = (struct test_random){test_seed()};
    return test_run(NULL, NULL);
}
