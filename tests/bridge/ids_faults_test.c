/*
 * tests/bridge/ids_faults_test.c: NCCL's ids between hosts whose connections break and whose agents die between any two
 * of their steps: each round all ranks of all hosts have the same id of just the next generation, their communicators
 * come up and the name is forgotten, and a generation that one gives up is dead for all. (The library is a FAKE one:
 * ranks.h.)
 */
#include "ranks.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <muster/muster.h>

#include "child.h"
#include "seed.h"

enum { TASKS = 4, ROUNDS = 40 };
/* Hosts that are slow because this machine is are not given up. */
#define PATIENCE_NS 600000000000u

static struct cast_act named(struct cast_act a, const char *name)
{
    snprintf(a.id, sizeof a.id, "%s", name);
    return a;
}

/* A generation, and a communicator that is up at once. */
static void do_round(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    struct cast_act world = named(*a, "world"), ring = named(*a, "ring");
    struct cast_reply other = {0};

    rank_take(m, &world, r, fd);
    if (r->status)
        return;
    ring.mode = INIT;
    rank_take(m, &ring, &other, fd);
    r->status = other.status;
}

/* When all have it, one gives the generation up: until this one has heard of it. */
static void end_round(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    struct cast_act world = named(*a, "world");

    if (a->counter % TASKS == a->rank)
        rank_abandon(m, &world, r, fd);
    while (!r->status)
        rank_check(m, &world, r, fd);
}

/* ---- every step ---- */

struct round {
    struct hosts *h;
    bool hit; /* the fault came */
};

/* Whoever died, or was cut off, comes back at the next look: so the others see that it was away. */
static bool mend(struct round *r)
{
    for (uint32_t i = 0; i < hosts_count(r->h); i++)
        if (!hosts_lives(r->h, i) || (i && !hosts_connected(r->h, i))) {
            r->hit = true;
            hosts_settle(r->h, NULL);
            hosts_mend(r->h);
            return true;
        }
    return false;
}

static bool all_have_answered(struct round *round)
{
    uint32_t answered = 0;

    if (mend(round))
        return false;
    for (uint32_t i = 0; i < TASKS; i++)
        answered += cast_has_answered(i);
    return answered == TASKS;
}

static void print_answers(void)
{
    for (uint32_t i = 0; i < TASKS; i++)
        printf("task %u: %s\n", i, cast_has_answered(i) ? cast_hear(i).text : "(no answer)");
}

/* All tasks do this; their replies. */
static void all_do(struct round *round, struct cast_act a, struct cast_reply replies[TASKS], uint32_t place)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        a.rank = i;
        cast_tell(i, &a);
    }
    test_await_report = print_answers;
    hosts_await(round->h, all_have_answered(round), "a round ends; the fault was at place %u", place);
    for (uint32_t i = 0; i < TASKS; i++)
        replies[i] = cast_hear(i);
}

static void a_round_with(struct hosts *h, void (*fault)(struct hosts *h, uint32_t place), uint32_t place,
                         uint64_t generation, bool *ret_hit)
{
    struct cast_act a = {.kind = CAST_DO, .fn = do_round, .counter = generation, .count = TASKS, .id = "world"};
    struct round round = {.h = h};
    struct cast_reply r[TASKS];

    fault(h, place);
    all_do(&round, a, r, place);
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_reply(r[i], MUSTER_OK);
        if (r[i].number != generation)
            fail_msg("task %u has generation %d instead of %d: the fault was at place %u", i, (int)r[i].number,
                     (int)generation, place);
        assert_memory_equal(r[i].bytes, r[0].bytes, sizeof r[0].bytes);
    }
    hosts_mend(h);
    hosts_settle(h, NULL);
    a.fn = end_round;
    all_do(&round, a, r, place);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_reply(r[i], MUSTER_ABORTED);
    hosts_mend(h);
    hosts_settle(h, NULL);
    *ret_hit = round.hit;
}

static void fault_everywhere(const struct hosts_config *config, void (*fault)(struct hosts *h, uint32_t place))
{
    uint64_t generation = 1;
    uint32_t place = 0, behind = 0;
    bool hit;

    cast_open(config);
    for (uint32_t i = 0; i < TASKS; i++)
        cast_enter(i, 0);
    for (; behind < 3; place++) { /* rounds are not all alike long */
        a_round_with(cast_hosts, fault, place, generation++, &hit);
        behind = hit ? 0 : behind + 1;
    }
    print_message("%u places\n", place - behind);
    cast_close();
}

static const struct hosts_config two_hosts = {.tasks = {2, 2}, .stepped = true, .timeout_ns = PATIENCE_NS};
static const struct hosts_config three_hosts = {.tasks = {1, 1, 2}, .stepped = true, .timeout_ns = PATIENCE_NS};

static void kill_leader(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 0, place);
}

static void kill_follower(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 1, place);
}

static void cut(struct hosts *h, uint32_t place)
{
    hosts_cut_after(h, 1, place);
}

TEST(the_leaders_agent_dies_at_every_step)
{
    fault_everywhere(&two_hosts, kill_leader);
}

TEST(the_other_hosts_agent_dies_at_every_step)
{
    fault_everywhere(&two_hosts, kill_follower);
}

TEST(the_connection_breaks_at_every_frame)
{
    fault_everywhere(&two_hosts, cut);
}

TEST(the_leaders_agent_dies_at_every_step_of_three_hosts)
{
    fault_everywhere(&three_hosts, kill_leader);
}

/* ---- at random ---- */

struct life {
    uint32_t rank;
    struct board {
        _Atomic uint64_t done[TASKS]; /* sequentially consistent on both sides: a test's */
        char ids[TASKS][ROUNDS][MUSTER_NCCL_ID_BYTES];
    } * board;
};

/* As many generations as there are rounds, and between two of them a barrier. */
static int live(struct muster *m, void *arg)
{
    const struct life *l = arg;

    for (uint64_t n = 0; n < ROUNDS; n++) {
        struct cast_act a = {.count = TASKS, .rank = l->rank, .counter = n + 1, .id = "world"};
        struct cast_reply r = {0};

        do_round(m, &a, &r, -1);
        if (r.status)
            printf("rank %u, round %d: %s\n", l->rank, (int)n, muster_last_error());
        CHECK(!r.status && r.number == n + 1);
        memcpy(l->board->ids[l->rank][n], r.bytes, sizeof r.bytes);
        CHECK(muster_barrier_wait(m, "next", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
        end_round(m, &a, &r, -1);
        CHECK(r.status == MUSTER_ABORTED);
        atomic_store(&l->board->done[l->rank], n + 1);
    }
    return 0;
}

static void break_something(struct hosts *h, struct test_random *r)
{
    uint32_t follower = 1 + (uint32_t)test_below(r, hosts_count(h) - 1), any = (uint32_t)test_below(r, hosts_count(h));

    switch (test_below(r, 4)) {
    case 0: hosts_cut_after(h, follower, (uint32_t)test_below(r, 12)); break;
    case 1: hosts_kill(h, any); break;
    case 2: hosts_kill_after(h, any, (uint32_t)test_below(r, 30)); break;
    default:
        hosts_kill_after(h, 0, (uint32_t)test_below(r, 30));
        hosts_kill_after(h, follower, (uint32_t)test_below(r, 30));
    }
}

struct progress {
    struct board *board;
    uint64_t sum;
};

static bool they_get_on(struct progress *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < TASKS; i++)
        sum += atomic_load(&p->board->done[i]);
    if (sum == p->sum && sum < TASKS * ROUNDS)
        return false;
    p->sum = sum;
    return true;
}

TEST(random_faults_mix_no_generations)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1, 2}, .timeout_ns = PATIENCE_NS});
    struct test_random r = {test_seed()};
    struct progress p = {.board =
                             mmap(NULL, sizeof *p.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    pid_t pids[TASKS];
    int faults = 0;
    char why[700];

    assert_true(p.board != MAP_FAILED);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct life l = {i, p.board};

        pids[i] = hosts_task(h, i, live, &l);
    }
    for (; p.sum < TASKS * ROUNDS; faults++) {
        break_something(h, &r);
        hosts_mend(h);
        hosts_await(h, they_get_on(&p),
                    "somebody gets on after %d faults (the last connection that an agent broke: %s)", faults,
                    hosts_dropped(h, why));
    }
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    for (uint32_t i = 1; i < TASKS; i++)
        assert_memory_equal(p.board->ids[i], p.board->ids[0], sizeof p.board->ids[0]);
    print_message("%d faults\n", faults);
    munmap(p.board, sizeof *p.board);
    assert_int_equal(hosts_close(h), 0);
}
