/*
 * tests/bridge/roster_test.c: what a leader says of the hosts: the same bytes to all who know the same, and to one that
 * comes anew, in the same turn, all that there is.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bridge/core/core.h"
#include "job.h"
#include "segment/file.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { HOSTS = 5 };

static struct test_job job;
static struct muster *m;
static struct mu_core core;
static uint64_t now;
static struct said {
    uint8_t bytes[4096];
    size_t len;
    uint32_t frames, hosts, named;
} said[HOSTS];

static void count_hosts(struct said *s)
{
    struct mu_unpack u = mu_unpack_of(s->bytes, s->len);

    s->hosts = s->named = 0;
    while (u.left && !u.failed) {
        size_t len;

        mu_unpack_var(&u);
        mu_unpack_u8(&u);
        for (int i = 0; i < 5; i++) /* since, heard, round trip, least, pid */
            mu_unpack_var(&u);
        len = mu_unpack_u8(&u);
        mu_unpack_raw(&u, len);
        s->hosts++;
        s->named += len > 0;
    }
    assert_false(u.failed);
}

static bool take(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct said *s = &said[host];

    (void)arg;
    if (type != MU_FRAME_HOSTS)
        return true;
    assert_in_range(len, 1, sizeof s->bytes);
    memcpy(s->bytes, payload, len);
    s->len = len;
    s->frames++;
    count_hosts(s);
    return true;
}

static void drop(void *arg, uint32_t host, const char *why)
{
    (void)arg;
    fail_msg("host %u is dropped: %s", host, why);
}

static int setup(void)
{
    static uint32_t tasks[HOSTS] = {1, 1, 1, 1, 1};
    const struct mu_hosts_config hosts = {.num_hosts = HOSTS, .num_tasks = tasks, .run_id = {7, 8}};
    const struct muster_segment_config config = {
        .num_tasks = HOSTS, .num_slots = 16, .num_buckets = 64, .num_events = 16, .heap_bytes = 4 << 20};
    const struct mu_core_wire wire = {.send = take, .drop = drop};
    char name[16];

    test_name(job.name, "roster");
    if (mu_segment_create_hosts(job.name, &config, &hosts, true, &job.segment) || mu_task_join_open(job.segment, &m))
        return -1;
    for (uint32_t i = 0; i < HOSTS; i++) {
        snprintf(name, sizeof name, "node%u", i);
        mu_host_set_name(job.segment, i, name);
    }
    now = mu_now();
    core.timeout = 10000000000u;
    return mu_core_init(&core, &mu_bridge_tables, m, &wire, now) ? -1 : 0;
}

static int teardown(void)
{
    mu_core_done(&core);
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static void turns(void)
{
    memset(said, 0, sizeof said);
    do
        now += 1000000;
    while (mu_core_turn(&core, now));
}

TEST(who_knows_the_same_is_told_the_same)
{
    for (uint32_t i = 1; i < HOSTS; i++)
        mu_core_up(&core, i, now);
    turns();
    for (uint32_t i = 1; i < HOSTS; i++) {
        assert_int_equal(said[i].frames, 1);
        assert_int_equal(said[i].hosts, HOSTS);
        assert_int_equal(said[i].named, HOSTS);
        assert_int_equal(said[i].len, said[1].len);
        assert_memory_equal(said[i].bytes, said[1].bytes, said[1].len);
    }
}

TEST(who_comes_anew_is_told_all_and_the_others_what_changed)
{
    for (uint32_t late = 1; late < HOSTS; late++) { /* in whatever place it is told */
        mu_core_down(&core, late, "the test cuts it", now);
        mu_core_up(&core, late, now);
        turns();
        for (uint32_t i = 1; i < HOSTS; i++) {
            assert_int_equal(said[i].frames, 1);
            assert_int_equal(said[i].hosts, i == late ? HOSTS : 1);
            assert_int_equal(said[i].named, i == late ? HOSTS : 0);
        }
    }
}

int main(void)
{
    return test_run(setup, teardown);
}
