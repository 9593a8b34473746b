/*
 * tests/bridge/members_many_test.c: the leader of 1,024 hosts with 8 tasks each, while all come and one is lost: what
 * it says to them is what changed, once, gathered; an error does not wait for that.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bridge/core/core.h"
#include "bridge/core/records.h"
#include "job.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { HOSTS = 1024, EACH = 8, TASKS = HOSTS * EACH };

static struct test_job job;
static struct muster *m;
static struct mu_core core;
static uint64_t now, records[HOSTS], frames[HOSTS], bytes;

static bool count(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct mu_unpack u = mu_unpack_of(payload, len);
    struct mu_records_in in;

    (void)arg;
    if (type != MU_FRAME_RECORDS)
        return true;
    bytes += len;
    frames[host]++;
    mu_unpack_u64(&u);
    in = mu_records_of(&u);
    while (mu_records_next(&in)) {
        assert_true(in.now.task / EACH != host); /* nobody is told of its own tasks */
        records[host]++;
    }
    assert_false(in.u.failed);
    return true;
}

static void drop(void *arg, uint32_t host, const char *why)
{
    (void)arg;
    fail_msg("host %u is dropped: %s", host, why);
}

static int setup(void)
{
    static uint32_t tasks[HOSTS];
    const struct mu_hosts_config hosts = {.num_hosts = HOSTS, .num_tasks = tasks, .run_id = {7, 8}};
    const struct muster_segment_config config = {
        .num_tasks = TASKS, .num_slots = 16, .num_buckets = 64, .num_events = 16, .heap_bytes = 4 << 20};
    const struct mu_core_wire wire = {.send = count, .drop = drop};

    for (uint32_t i = 0; i < HOSTS; i++)
        tasks[i] = EACH;
    test_name(job.name, "many");
    if (mu_segment_create_hosts(job.name, &config, &hosts, true, &job.segment) || mu_task_join_open(job.segment, &m))
        return -1;
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

/* All tasks of a host are so. */
static void tell(uint32_t host, uint64_t version, uint32_t task_state)
{
    bool is_error = task_state == MUSTER_TASK_ERROR;
    struct mu_records_out out;
    struct mu_pack p = {0};

    mu_pack_u64(&p, 0);
    mu_records_begin(&out, &p);
    for (uint32_t i = 0; i < EACH; i++) {
        const struct mu_said said = {.task = host * EACH + i,
                                     .version = version,
                                     .state = task_state,
                                     .cause = is_error ? MUSTER_CAUSE_DIED : MUSTER_CAUSE_NONE,
                                     .code = is_error ? MUSTER_UNAVAILABLE : MUSTER_OK,
                                     .pid = 1000 + i,
                                     .attempt = 1,
                                     .incarnation = host * 0x9e3779b97f4a7c15ull + i};

        mu_records_add(&out, &said, (host + 1) * EACH);
    }
    mu_core_frame(&core, host, MU_FRAME_RECORDS, p.bytes, p.len, now);
    mu_pack_done(&p);
}

static void turn(uint64_t ns)
{
    now += ns;
    mu_core_turn(&core, now);
}

static void settle(void)
{
    turn(1000000000);
    for (int i = 0; i < 4; i++)
        turn(0);
}

/* Some may be told again to a host that came just before. */
static void expect_all(uint64_t each, uint64_t again, uint64_t most_frames)
{
    uint64_t all = 0;

    for (uint32_t i = 1; i < HOSTS; i++) {
        if (records[i] < each || records[i] > each + again || frames[i] > most_frames)
            fail_msg("host %u got %llu records in %llu frames", i, (unsigned long long)records[i],
                     (unsigned long long)frames[i]);
        all += records[i];
        records[i] = frames[i] = 0;
    }
    assert_true(bytes <= 20 * all); /* of the 64 that a record is: what is alike is said once for all of a host */
    print_message("%.1f MB\n", (double)bytes / 1e6);
    bytes = 0;
}

TEST_WITH(every_host_is_told_once_of_every_change, setup, teardown)
{
    struct mu_cluster c;
    clock_t begun = clock();

    for (uint32_t i = 1; i < HOSTS; i++) { /* a host a 100 us, a turn each */
        mu_core_up(&core, i, now);
        tell(i, EACH, MUSTER_TASK_CONNECTED);
        turn(100000);
    }
    settle();
    assert_ok(mu_cluster_look(m->seg, &c));
    assert_int_equal(c.root.version, TASKS - EACH);
    expect_all(TASKS - 2 * EACH, 210 * EACH, 16); /* the pace is 20 ms here, the whole takes 100 */
    settle();
    expect_all(0, 0, 0);
    print_message("joining: %.1f ms of the leader's processor\n", (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC);
}

TEST_WITH(an_error_is_told_in_the_same_turn, setup, teardown)
{
    every_host_is_told_once_of_every_change();
    tell(5, 100, MUSTER_TASK_DISCONNECTED);
    turn(1); /* the first after a pause goes at once, too */
    tell(6, 100, MUSTER_TASK_DISCONNECTED);
    turn(1);
    assert_int_equal(records[7], EACH);
    tell(8, 100, MUSTER_TASK_ERROR);
    turn(1);
    assert_int_equal(records[7], 3 * EACH);
    mu_core_lost(&core, 9, "it burns", now);
    turn(1);
    assert_int_equal(records[7], 4 * EACH);
    assert_ok(mu_cluster_error(m->seg, "it") ? MUSTER_OK : MUSTER_INTERNAL);
    assert_says("it: task 64 (pid 1000 on host host 8) is in error: ");
}
