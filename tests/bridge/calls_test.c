/* tests/bridge/calls_test.c: changes of keys that tasks of other hosts make: what they answer, and how often they are
 * made. */
#include "cm.h"
#include "child.h"
#include "hosts.h"
#include "bridge/call/calls.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

/* ---- the same as on one node ---- */

enum { CHANGES = 3000, NAMES = 12 };

/* A sentence without its numbers: versions count the commits of a bucket, and those are not the same everywhere. */
static void mask(char *to, size_t size, const char *from)
{
    size_t n = 0;

    for (; *from && n + 1 < size; from++) {
        if (isdigit((unsigned char)*from) && n && to[n - 1] == '#')
            continue;
        to[n++] = isdigit((unsigned char)*from) ? '#' : *from;
    }
    to[n] = 0;
}

struct outcome {
    enum muster_status status;
    uint64_t result;
    char text[256];
};

static const char *const names[NAMES] = {"a",    "a/b", "a/b/c",   "/a//b/d", "n",  "n/1",
                                         "n/2/", "x",   "../evil", "",        "/a", "a/./b"};
static const char *const values[] = {"", "1", "-40", "9223372036854775807", "many words that are no number", "7"};

struct change {
    uint64_t op, name, value, version; /* version: 0 absent, 1 the present one, 2 another */
};

static void make_change(struct muster *m, const struct change *c, struct outcome *o)
{
    const char *name = names[c->name], *value = values[c->value];
    uint64_t version = 0;
    size_t length = 0;
    int64_t sum = 0;

    memset(o, 0, sizeof *o);
    switch (c->op) {
    case 0: o->status = muster_kv_set(m, name, MUSTER_NTS, value, strlen(value), &version); break;
    case 1: o->status = muster_kv_insert(m, name, MUSTER_NTS, value, strlen(value)); break;
    case 2:
        o->status = muster_kv_increment(m, name, MUSTER_NTS, (int64_t)c->value - 2, &sum);
        o->result = (uint64_t)sum;
        break;
    case 3:
        o->status = muster_kv_append(m, name, MUSTER_NTS, value, strlen(value), &length);
        o->result = length;
        break;
    case 4:
        o->status = muster_kv_compare_and_set(m, name, MUSTER_NTS, c->version, value, strlen(value), &version);
        o->result = version != 0;
        break;
    default: o->status = muster_kv_delete(m, name, MUSTER_NTS, &length); o->result = length;
    }
    if (o->status)
        mask(o->text, sizeof o->text, muster_last_error());
}

/* The version that a change expects, made from what the key is at where the truth is. */
static void aim(struct muster *truth, struct change *c)
{
    uint64_t version = 0;

    if (muster_kv_try_get(truth, names[c->name], MUSTER_NTS, NULL, 0, NULL, &version))
        version = version ? version : 0;
    c->version = c->version == 0 ? 0 : c->version == 1 ? version : version + 1000;
}

static void assert_same_keys(struct muster *one, struct muster *leader)
{
    struct muster_kv_list *a, *b;

    assert_ok(muster_kv_get_dir(one, "", 0, &a));
    assert_ok(muster_kv_get_dir(leader, "", 0, &b));
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->entries[i].key, b->entries[i].key);
        assert_int_equal(a->entries[i].value_len, b->entries[i].value_len);
        assert_memory_equal(a->entries[i].value, b->entries[i].value, a->entries[i].value_len);
    }
    muster_kv_list_free(a);
    muster_kv_list_free(b);
}

TEST(changes_from_a_follower_answer_as_on_one_node)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1), *alone;
    struct test_random r = {test_seed()};
    struct test_job job;

    assert_ok(test_job_create(&job, NULL));
    alone = test_join(job.name, -1, 0);
    for (int i = 0; i < CHANGES; i++) {
        struct change c = {test_below(&r, 6), test_below(&r, NAMES), test_below(&r, 6), test_below(&r, 3)}, d = c;
        struct outcome here, there;

        aim(alone, &c);
        aim(leader, &d);
        make_change(alone, &c, &here);
        make_change(follower, &d, &there);
        if (here.status != there.status || here.result != there.result || strcmp(here.text, there.text))
            fail_msg("change %d (op %d of '%s' with '%s'): alone %d, %d, '%s'; from a follower %d, %d, '%s'", i,
                     (int)c.op, names[c.name], values[c.value], here.status, (int)here.result, here.text, there.status,
                     (int)there.result, there.text);
    }
    assert_same_keys(alone, leader);
    assert_ok(muster_leave(alone));
    assert_ok(muster_leave(follower));
    assert_ok(muster_leave(leader));
    assert_int_equal(test_job_end(&job), 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(versions_from_a_follower_are_the_leader_s)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint64_t version, seen, expected;

    for (int i = 0; i < 20; i++) {
        assert_ok(muster_kv_set(follower, "key", MUSTER_NTS, "value", 5, &version));
        assert_ok(muster_kv_try_get(leader, "key", MUSTER_NTS, NULL, 0, NULL, &seen) == MUSTER_OUT_OF_RANGE
                      ? MUSTER_OK
                      : MUSTER_INTERNAL);
        assert_int_equal(version, seen);
        expected = version;
        assert_ok(muster_kv_compare_and_set(follower, "key", MUSTER_NTS, expected, "other", 5, &version));
        assert_true(version > expected);
        assert_status(MUSTER_ABORTED,
                      muster_kv_compare_and_set(follower, "key", MUSTER_NTS, expected, "third", 5, &seen));
        assert_int_equal(seen, version);
    }
    assert_ok(muster_leave(follower));
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- large ---- */

TEST(the_largest_values_go_across)
{
    struct muster_segment_config c = {.heap_bytes = 256u << 20};
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .segment = c});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    size_t len = MUSTER_VALUE_MAX, count;
    uint8_t *value = malloc(len), *found = malloc(len);

    assert_non_null(value);
    assert_non_null(found);
    for (size_t i = 0; i < len; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_ok(muster_kv_set(follower, "large", MUSTER_NTS, value, len, NULL));
    assert_ok(muster_kv_try_get(leader, "large", MUSTER_NTS, found, len, &count, NULL));
    assert_int_equal(count, len);
    assert_memory_equal(value, found, len);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_append(follower, "large", MUSTER_NTS, "x", 1, NULL));
    assert_says("67108865 bytes long");
    /* more than the leader has room for is an answer, not an end */
    assert_ok(muster_kv_set(follower, "large2", MUSTER_NTS, value, len, NULL));
    assert_ok(muster_kv_set(follower, "large3", MUSTER_NTS, value, len, NULL));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_set(follower, "large4", MUSTER_NTS, value, len, NULL));
    assert_ok(muster_kv_delete(follower, "", 0, &count));
    assert_int_equal(count, 3);
    assert_ok(muster_kv_set(follower, "large4", MUSTER_NTS, value, len, NULL));
    free(value);
    free(found);
    assert_ok(muster_leave(follower));
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- calls that are made by hand ---- */

static void call_increment(struct hosts *h, uint32_t slot, uint64_t number, bool resent)
{
    struct mu_pack p = {0};

    mu_pack_u32(&p, slot);
    mu_pack_u64(&p, number);
    mu_pack_u32(&p, MU_OP_KV_INCREMENT);
    mu_pack_u32(&p, 0); /* an observer */
    mu_pack_u32(&p, 0);
    mu_pack_u32(&p, 0);
    mu_pack_u64(&p, 0);
    mu_pack_u8(&p, resent);
    mu_pack_text(&p, "counter");
    mu_pack_u64(&p, 1);
    hosts_inject(h, 1, 0, MU_FRAME_CALL, p.bytes, p.len);
    mu_pack_done(&p);
}

/* As if the follower's agent had found the answers to these slots' calls to be in its segment. */
static void acknowledge(struct hosts *h, uint32_t first, uint32_t count, uint64_t number)
{
    struct mu_pack p = {0};

    for (uint32_t slot = first; slot < first + count; slot++) {
        mu_pack_u32(&p, slot);
        mu_pack_u64(&p, number);
    }
    hosts_inject(h, 1, 0, MU_FRAME_ACK, p.bytes, p.len);
    mu_pack_done(&p);
}

static int64_t counter_of(struct muster *m)
{
    char text[32] = "0";
    size_t len = 1;
    enum muster_status status = muster_kv_try_get(m, "counter", MUSTER_NTS, text, 31, &len, NULL);

    assert_true(status == MUSTER_OK || status == MUSTER_NOT_FOUND);
    text[len] = 0;
    return strtoll(text, NULL, 10);
}

/* The leader's agent takes all that lies before it, and nobody else does anything. */
static void leader_alone(struct hosts *h)
{
    while (hosts_step(h, 0))
        ;
}

TEST(strays_and_repetitions_change_nothing)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    struct muster *leader = hosts_observer(h, 0);

    hosts_settle(h, NULL);
    call_increment(h, 5, 7, false);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 1);
    call_increment(h, 5, 7, true);
    call_increment(h, 5, 7, false);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 1);
    assert_int_equal(hosts_frames(h, 0, MU_FRAME_ANSWER), 3); /* the same answer each time */
    call_increment(h, 5, 9, false);
    call_increment(h, 5, 8, true);
    call_increment(h, 5, 7, true);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 2);
    assert_int_equal(hosts_frames(h, 0, MU_FRAME_ANSWER), 4); /* the older ones get none */
    /* an agent that knows nothing finds what its predecessor's commit left */
    hosts_kill(h, 0);
    hosts_start(h, 0);
    leader_alone(h);
    call_increment(h, 5, 9, true);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 2);
    hosts_kill(h, 0);
    hosts_start(h, 0);
    leader_alone(h);
    call_increment(h, 5, 8, true); /* nor what is older than that */
    leader_alone(h);
    assert_int_equal(counter_of(leader), 2);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

TEST(a_page_full_of_records_makes_calls_wait)
{
    struct muster_segment_config c = {.num_slots = 512};
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .segment = c});
    struct muster *leader = hosts_observer(h, 0);

    hosts_settle(h, NULL);
    for (uint32_t slot = 0; slot < 300; slot++)
        call_increment(h, slot, 1, false);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 256);
    for (uint32_t slot = 0; slot < 300; slot++)
        call_increment(h, slot, 1, true);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 256);
    acknowledge(h, 0, 256, 1);
    for (uint32_t slot = 0; slot < 300; slot++)
        call_increment(h, slot, 1, true);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 300);
    /* an agent that knows nothing forgets nothing that is not acknowledged */
    hosts_kill(h, 0);
    hosts_start(h, 0);
    leader_alone(h);
    for (uint32_t slot = 256; slot < 300; slot++)
        call_increment(h, slot, 1, true);
    leader_alone(h);
    assert_int_equal(counter_of(leader), 300);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- what a call leaves behind ---- */

/* Records of the slot's calls in any page. */
static uint64_t records_of(struct muster *leader, uint32_t slot, uint64_t number)
{
    struct mu_table t = mu_table_kv(leader->seg);
    struct mu_done d = {.id = (1u << 14) | slot, .number = number};
    struct mu_ctx *ctx;

    assert_ok(mu_enter(leader, &ctx));
    for (uint32_t b = 0; b <= t.mask; b++) {
        struct mu_done here = {.id = d.id, .number = number};

        assert_ok(mu_table_done(&t, ctx, b, &here));
        d.result[0] += here.result[0];
    }
    mu_exit(ctx);
    return d.result[0];
}

TEST(records_go_when_their_calls_are_settled)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    struct muster *leader = hosts_observer(h, 0);
    struct mu_pack ack = {0};

    hosts_settle(h, NULL);
    for (uint32_t slot = 40; slot < 44; slot++) /* slots that nobody there has: the follower says nothing of them */
        call_increment(h, slot, 3, false);
    leader_alone(h);
    assert_int_equal(records_of(leader, 40, 3), 1); /* a sum's record holds the sum */
    assert_int_equal(records_of(leader, 43, 3), 4);
    hosts_pass(h, 300000000);
    leader_alone(h);
    assert_int_equal(records_of(leader, 40, 3), 1); /* not acknowledged */
    mu_pack_u32(&ack, 40);
    mu_pack_u64(&ack, 3);
    mu_pack_u32(&ack, 41);
    mu_pack_u64(&ack, 9); /* more than it was asked: it was another agent then */
    hosts_inject(h, 1, 0, MU_FRAME_ACK, ack.bytes, ack.len);
    mu_pack_done(&ack);
    hosts_pass(h, 300000000);
    leader_alone(h);
    assert_int_equal(records_of(leader, 40, 3), 0);
    assert_int_equal(records_of(leader, 41, 3), 0);
    assert_int_equal(records_of(leader, 42, 3), 3);
    call_increment(h, 41, 9, true); /* settled: a stray */
    leader_alone(h);
    assert_int_equal(counter_of(leader), 4);
    hosts_lose(h, 0, 1, "the test is tired of it");
    hosts_pass(h, 300000000);
    leader_alone(h);
    assert_int_equal(records_of(leader, 42, 3), 0);
    assert_int_equal(records_of(leader, 43, 3), 0);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* Given up by an agent that has died since: its successor knows it from the table of hosts. */
TEST(records_of_a_host_that_is_lost_go_with_any_agent)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    struct muster *leader = hosts_observer(h, 0);

    hosts_settle(h, NULL);
    call_increment(h, 40, 3, false);
    leader_alone(h);
    assert_int_equal(records_of(leader, 40, 3), 1);
    hosts_lose(h, 0, 1, "the test is tired of it");
    leader_alone(h);
    hosts_kill(h, 0);
    assert_int_equal(records_of(leader, 40, 3), 1);
    hosts_start(h, 0);
    hosts_pass(h, 300000000);
    leader_alone(h);
    assert_int_equal(records_of(leader, 40, 3), 0);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- how a call's wait ends ---- */

static int interrupted_call(struct muster *m, void *arg)
{
    (void)arg;
    muster_interrupt(m);
    CHECK(muster_kv_set(m, "key", MUSTER_NTS, "x", 1, NULL) == MUSTER_CANCELLED);
    CHECK(strstr(muster_last_error(), "the leader's word on key key"));
    return 0;
}

TEST(calls_without_an_answer_end_as_they_should)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .apart = true, .timeout_ns = 600000000000u});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1), *alone;
    struct test_job job;

    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_sync(follower, muster_after_ns(1000000)));
    assert_says("the leader's word");
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_sync(follower, 0));
    assert_int_equal(hosts_reap(h, hosts_visitor(h, 1, interrupted_call, NULL)), 0);
    assert_ok(muster_kv_sync(leader, 0)); /* here is the truth */
    assert_ok(test_job_create(&job, NULL));
    alone = test_join(job.name, -1, 0);
    assert_ok(muster_kv_sync(alone, 0));
    assert_ok(muster_leave(alone));
    assert_int_equal(test_job_end(&job), 0);
    hosts_join(h, 1);
    assert_ok(muster_kv_sync(follower, MUSTER_FOREVER));
    assert_ok(muster_leave(follower));
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- answers that nobody asked for ---- */

static void answer(struct hosts *h, uint32_t slot, uint64_t number, bool later)
{
    struct mu_pack p = {0};

    mu_pack_u32(&p, slot);
    mu_pack_u64(&p, number);
    mu_pack_u8(&p, later);
    mu_pack_u32(&p, MUSTER_NOT_FOUND);
    mu_pack_text(&p, "made up");
    hosts_inject(h, 0, 1, MU_FRAME_ANSWER, p.bytes, p.len);
    mu_pack_done(&p);
    hosts_settle(h, NULL);
}

static uint64_t last_number(struct hosts *h, uint32_t slot)
{
    uint64_t number = mu_calls_of(hosts_lock(h, 1))->asked[slot].number;

    hosts_unlock(h, 1);
    return number;
}

static int ask_twice(struct muster *m, void *arg)
{
    struct mu_ctx *ctx;

    CHECK(!muster_kv_set(m, "key", MUSTER_NTS, "1", 1, NULL));
    CHECK(!muster_kv_set(m, "key", MUSTER_NTS, "2", 1, NULL));
    CHECK(!mu_enter(m, &ctx));
    CHECK(ctx->slot == *(uint32_t *)arg);
    mu_exit(ctx);
    return 0;
}

TEST(an_answer_that_nobody_asked_for_is_refused_and_an_old_one_passed_over)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    uint32_t slot = 1; /* the agent has the first one */
    char why[700];

    hosts_settle(h, NULL);
    answer(h, slot, 1, false);
    assert_false(hosts_connected(h, 1));
    if (!strstr(hosts_dropped(h, why), "call 1 of slot 1 was not asked; its last is 0"))
        fail_msg("it was refused with \"%s\"", why);
    hosts_mend(h);
    assert_int_equal(hosts_reap(h, hosts_visitor(h, 1, ask_twice, &slot)), 0);
    assert_int_equal(last_number(h, slot), 2);
    for (uint64_t old = 1; old <= 2; old++) { /* they have come already */
        answer(h, slot, old, false);
        answer(h, slot, old, true);
    }
    assert_true(hosts_connected(h, 1));
    assert_int_equal(hosts_reap(h, hosts_visitor(h, 1, ask_twice, &slot)), 0);
    assert_int_equal(last_number(h, slot), 4);
    answer(h, slot, 5, true);
    assert_false(hosts_connected(h, 1));
    assert_int_equal(hosts_close(h), 0);
}
