/* tests/bridge/lanes_faults_test.c: what an agent asks for others is done once, whatever connections break and whoever
 * of the agents dies between any two steps; and nothing of it is left at the leader. */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "bridge/call/calls.h"
#include "seed.h"
#include "segment/table.h"

/* Hosts that are slow because this machine is are not given up. */
#define PATIENCE_NS 600000000000u
enum { ASKERS = 16, TAGS = 1200, PLACES = 12 };

/* What became of each tag that was to be appended. */
enum told { NEVER, ASKED, DONE, UNSURE };
static enum told fates[TAGS];
static uint32_t num_tags;

struct asker {
    struct question q;
    uint32_t tag;
    bool busy;
};
static struct asker askers[ASKERS];

static void ask_next(struct caller *c, struct asker *a, bool again)
{
    char text[16];

    assert_true(num_tags < TAGS);
    a->tag = num_tags++;
    snprintf(text, sizeof text, "%u;", a->tag);
    question_append(&a->q, "log", text);
    assert_ok((again ? mu_lanes_again : mu_lanes_ask)(c->lanes, &a->q.call));
    fates[a->tag] = ASKED;
    a->busy = true;
}

/* Whose answers have come. */
static uint32_t settle(void)
{
    uint32_t open = 0;

    for (int i = 0; i < ASKERS; i++) {
        struct asker *a = &askers[i];

        if (!a->busy)
            continue;
        if (!a->q.answers) {
            open++;
            continue;
        }
        assert_int_equal(a->q.answers, 1);
        if (a->q.status != MUSTER_OK && a->q.status != MUSTER_UNAVAILABLE)
            fail_msg("tag %u: %s", a->tag, a->q.text);
        fates[a->tag] = a->q.status ? UNSURE : DONE; /* unavailable: our agent has died */
        a->busy = false;
    }
    return open;
}

/* Something with one of them: asked, asked otherwise, or dropped. */
static void act(struct caller *c, struct test_random *r)
{
    struct asker *a = &askers[test_below(r, ASKERS)];

    if (!a->busy) {
        ask_next(c, a, false);
    } else if (!a->q.answers && !test_below(r, 4)) {
        fates[a->tag] = UNSURE;
        mu_lanes_drop(c->lanes, &a->q.call);
        a->busy = false;
    } else if (!a->q.answers && !test_below(r, 3)) {
        fates[a->tag] = UNSURE;
        ask_next(c, a, true);
    }
}

static bool nothing_left(struct caller *c)
{
    struct left left = left_at_leader(c->h, c->host);

    return !left.open && !left.unsettled;
}

/* What lanes have asked goes with the agent that died, answered or not. */
static void replace(struct caller *c)
{
    mu_lanes_take(c->lanes);
    settle();
    for (int i = 0; i < ASKERS; i++)
        if (askers[i].busy) {
            fates[askers[i].tag] = UNSURE;
            mu_lanes_drop(c->lanes, &askers[i].q.call);
            askers[i].busy = false;
        }
    caller_anew(c);
}

static void assert_logged(struct muster *m)
{
    uint32_t seen[TAGS] = {0};
    void *text = NULL;
    size_t len;

    assert_ok(muster_kv_get_alloc(m, "log", MUSTER_NTS, 0, &text, &len, NULL));
    for (char *at = text; (size_t)(at - (char *)text) < len;) {
        unsigned long tag = strtoul(at, &at, 10);

        assert_true(*at == ';' && tag < num_tags);
        at++;
        seen[tag]++;
    }
    for (uint32_t i = 0; i < num_tags; i++)
        if (seen[i] > 1 || (fates[i] == DONE && seen[i] != 1))
            fail_msg("tag %u of fate %d is there %u times", i, fates[i], seen[i]);
    free(text);
}

static bool count_record(void *arg, uint64_t id, uint64_t number)
{
    (void)id;
    (void)number;
    ++*(uint32_t *)arg;
    return false;
}

/* In any page of the leader's keys. */
static bool no_record_left(struct muster *m)
{
    struct mu_table t = mu_table_kv(m->seg);
    uint32_t count = 0;
    struct mu_ctx *ctx;

    assert_ok(mu_enter(m, &ctx));
    for (uint32_t b = 0; b < m->seg->num_buckets; b++) {
        struct mu_key k = {.hash = (uint64_t)b << 20};

        mu_table_forget(&t, ctx, &k, count_record, &count);
    }
    mu_exit(ctx);
    return !count;
}

static void end(struct caller *c)
{
    struct hosts *h = c->h;
    struct muster *m = hosts_observer(h, 0);

    hosts_mend(h);
    lanes_await(c, settle() == 0, "all are answered");
    if (hosts_is_stepped(h))
        hosts_pass(h, 2 * ACK_NS);
    lanes_await(c, nothing_left(c), "the leader has nothing left of our calls");
    if (hosts_is_stepped(h))
        hosts_pass(h, 2 * SWEEP_NS);
    lanes_await(c, no_record_left(m), "no record of a call is left");
    assert_logged(m);
    for (int i = 0; i < ASKERS; i++)
        question_done(&askers[i].q);
    memset(askers, 0, sizeof askers);
    memset(fates, 0, sizeof fates);
    num_tags = 0;
    assert_ok(muster_leave(m));
    caller_end(c);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- at random --------------------------------------------------------------------------------------------------- */

static void break_something(struct caller *c, struct test_random *r)
{
    struct hosts *h = c->h;

    switch (test_below(r, 5)) {
    case 0: hosts_cut(h, 1); break;
    case 1: hosts_cut_after(h, 1, (uint32_t)test_below(r, 12)); break;
    case 2: hosts_kill_after(h, 0, (uint32_t)test_below(r, 30)); break;
    case 3: hosts_kill_after(h, 1, (uint32_t)test_below(r, 30)); break;
    default: hosts_cut_after(h, 1, (uint32_t)test_below(r, 6)); hosts_kill_after(h, 0, (uint32_t)test_below(r, 10));
    }
}

/* Whoever died comes back; ours with other lanes. */
static void mend(struct caller *c)
{
    bool died = !hosts_lives(c->h, 1);

    hosts_mend(c->h);
    if (died)
        replace(c);
}

/* Stepped, so that a seed repeats it. */
TEST(random_faults_do_nothing_twice)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .timeout_ns = PATIENCE_NS});
    struct test_random r = {test_seed()};
    struct caller c;
    int faults = 0;

    hosts_settle(h, NULL);
    caller_begin(&c, h, 1);
    while (num_tags < TAGS - ASKERS) {
        for (uint64_t n = test_below(&r, 6); n && num_tags < TAGS - ASKERS; n--)
            act(&c, &r);
        for (uint64_t n = test_below(&r, 12); n; n--)
            hosts_step(h, (uint32_t)test_below(&r, 2));
        if (!test_below(&r, 8)) {
            break_something(&c, &r);
            faults++;
        }
        if (!test_below(&r, 4))
            mend(&c);
        if (!test_below(&r, 6))
            hosts_pass(h, LATER_NS + test_below(&r, 2 * ACK_NS));
        if (hosts_lives(h, 1))
            mu_lanes_take(c.lanes);
        settle();
    }
    mend(&c);
    print_message("%d faults, %u calls\n", faults, num_tags);
    end(&c);
}

/* ---- at every step ----------------------------------------------------------------------------------------------- */

static void cut(struct hosts *h, uint32_t place)
{
    hosts_cut_after(h, 1, place);
}

static void kill_leader(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 0, place);
}

static void kill_follower(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 1, place);
}

/* One that is answered, one that is dropped, one that is asked again, with the fault at each place in turn. */
static void everywhere(struct caller *c, void (*fault)(struct hosts *h, uint32_t place), uint32_t places)
{
    for (uint32_t place = 0; place < places; place++) {
        fault(c->h, place);
        for (int i = 0; i < 3; i++)
            ask_next(c, &askers[i], false);
        for (uint32_t i = 0; i < place / 2; i++)
            hosts_step(c->h, i % 2 ? 0 : 1);
        if (hosts_lives(c->h, 1)) {
            fates[askers[1].tag] = UNSURE;
            askers[1].busy = false;
            mu_lanes_drop(c->lanes, &askers[1].q.call);
            fates[askers[2].tag] = UNSURE;
            ask_next(c, &askers[2], true);
        }
        hosts_settle(c->h, NULL);
        mend(c);
        lanes_await(c, settle() == 0, "all are answered");
        hosts_pass(c->h, 2 * ACK_NS);
        hosts_settle(c->h, NULL);
    }
}

TEST(a_fault_at_any_step_does_nothing_twice)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .timeout_ns = PATIENCE_NS});
    struct caller c;

    hosts_settle(h, NULL);
    caller_begin(&c, h, 1);
    everywhere(&c, cut, PLACES);
    everywhere(&c, kill_leader, 4 * PLACES);
    everywhere(&c, kill_follower, 4 * PLACES);
    end(&c);
}
