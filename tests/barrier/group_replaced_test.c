/*
 * tests/barrier/group_replaced_test.c: a member that comes to a group although its incarnation is over: held up in
 * between, it had a successor, of which the others had heard before it came. Those who wait look at the records again
 * then, though no record has changed: nobody would tell them that they wait for one who will never be there.
 */
#include "cm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "barrier/generation.h"
#include "barrier/entry.h"
#include "job.h"
#include "segment/handle.h"

enum { TASKS = 3, HELD_UP = 1, PATIENCE_MS = 2000 }; /* the last task never comes */

static struct test_job job;
static enum muster_status status;
static char why[512];

static void *wait_for_the_others(void *m)
{
    struct muster_group *g;

    status = muster_group_create(m, "g", NULL, 0, 64, muster_after_ms(PATIENCE_MS), &g);
    snprintf(why, sizeof why, "%s", muster_last_error());
    return NULL;
}

/* How many have come to the group's present generation. */
static uint32_t there(struct muster *m)
{
    struct mu_group_member members[TASKS];
    struct mu_area *areas[TASKS];
    struct mu_group_entry r = {.size = TASKS, .data_bytes = 64, .members = members, .areas = areas};
    uint64_t generation;
    struct mu_ctx *ctx;
    struct mu_key key;

    assert_ok(mu_enter(m, &ctx));
    assert_ok(mu_generation_now(ctx, "g", &generation));
    mu_group_entry_key(&key, job.segment, "g", generation);
    assert_ok(mu_group_entry_read(job.segment, ctx, &key, "g", &r));
    mu_exit(ctx);
    return r.there;
}

/* What is left of its call, when it goes on. */
static void come(struct muster *m, uint64_t incarnation)
{
    struct mu_group_member members[TASKS] = {{.task = 0}, {.task = 1}, {.task = 2}};
    struct mu_group_join c = {
        .name = "g", .members = members, .size = TASKS, .data_bytes = 64, .rank = HELD_UP, .incarnation = incarnation};
    struct mu_ctx *ctx;

    assert_ok(mu_enter(m, &ctx));
    assert_ok(mu_group_entry_join(ctx, &c));
    mu_exit(ctx);
    assert_int_equal(there(m), 2);
}

TEST(one_that_comes_after_its_successor_is_seen)
{
    struct muster *waits, *successor;
    uint64_t incarnation;
    pthread_t thread;

    assert_ok(test_job_create(&job, &(struct muster_segment_config){.num_tasks = TASKS}));
    successor = test_join(job.name, HELD_UP, 0);
    incarnation = successor->incarnation;
    assert_ok(muster_leave(successor));
    successor = test_join(job.name, HELD_UP, 0);
    assert_true(successor->incarnation != incarnation);
    waits = test_join(job.name, 0, 0);
    pthread_create(&thread, NULL, wait_for_the_others, waits);
    while (there(successor) < 1)
        usleep(1000); /* sleep: between two looks */
    usleep(300000);   /* sleep: it looks every 100 ms; if it has not looked yet, it finds the same a little later */
    come(successor, incarnation);
    pthread_join(thread, NULL);
    assert_int_equal(status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(why, "has replaced the member that came"));
    assert_ok(muster_leave(waits));
    assert_ok(muster_leave(successor));
    assert_int_equal(test_job_end(&job), 0);
}
