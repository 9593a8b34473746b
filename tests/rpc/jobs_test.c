/*
 * tests/rpc/jobs_test.c: which task "job worker, index 1" is: jobs that were told, one of any name, and words that are
 * no jobs.
 */
#include "cm.h"

#include <string.h>

#include "rpc/tsl_jobs.h"

static struct mu_jobs jobs;

static int teardown(void)
{
    mu_jobs_done(&jobs);
    return 0;
}

static int32_t find(const char *name, int32_t index)
{
    char exact[64]; /* as on the wire: nothing ends it */
    int32_t task = -2;

    memcpy(exact, name, strlen(name));
    memset(exact + strlen(name), 'x', sizeof exact - strlen(name));
    return mu_jobs_find(&jobs, exact, strlen(name), index, &task) ? -2 : task;
}

TEST_WITH(tasks_are_numbered_job_by_job, NULL, teardown)
{
    assert_ok(mu_jobs_init(&jobs, "chief:1,worker:2,ps:3", 6));
    assert_int_equal(find("chief", 0), 0);
    assert_int_equal(find("worker", 0), 1);
    assert_int_equal(find("worker", 1), 2);
    assert_int_equal(find("ps", 2), 5);
    for (int32_t task = 0; task < 6; task++) {
        const struct mu_job *job = mu_jobs_of(&jobs, task);

        assert_int_equal(find(job->name, task - job->first), task);
    }
    assert_null(mu_jobs_of(&jobs, 6));
    assert_null(mu_jobs_of(&jobs, -1));
}

TEST_WITH(strangers_are_not_in_the_cluster, NULL, teardown)
{
    assert_ok(mu_jobs_init(&jobs, "worker:2,ps:1", 3));
    assert_int_equal(find("worker", 2), -2);
    assert_says("/job:worker/replica:0/task:2");
    assert_int_equal(find("worker", -1), -2);
    assert_int_equal(find("ps", INT32_MAX), -2);
    assert_int_equal(find("wor", 0), -2);
    assert_int_equal(find("worker2", 0), -2);
    assert_int_equal(find("", 0), -2); /* of several jobs none is the nameless one */
    assert_int_equal(find("jax_worker", 0), -2);
    assert_says("not in the cluster");
}

TEST_WITH(one_job_has_the_name_that_is_used_first, NULL, teardown)
{
    char longest[200];

    assert_ok(mu_jobs_init(&jobs, NULL, 2));
    assert_int_equal(find("", 1), 1);
    assert_int_equal(find("jax_worker", 1), 1);
    memset(longest, 'a', sizeof longest);
    assert_null(mu_jobs_named(&jobs, longest, sizeof longest));
    assert_null(mu_jobs_named(&jobs, "a\0b", 3));
    assert_int_equal(find("trainer", 0), 0);
    assert_int_equal(find("trainer", 7), 7); /* which the engine refuses */
    assert_int_equal(find("", 1), 1);
    assert_int_equal(find("jax_worker", 1), 1);
    assert_int_equal(find("ps", 0), -2);
    assert_says("its job is called 'trainer'");
    assert_says("--jobs");
}

TEST(what_is_no_list_of_jobs_is_refused)
{
    static const char *const bad[] = {
        "",      "worker",    "worker:",   "worker:0",      ":2",        "worker:2,",
        ",ps:1", "worker:x",  "worker:1x", "worker:-1",     "worker: 2", "worker:99999999999",
        "ps:1",  "ps:2,ps:1", "ps:2,b:2",  "worker:2 ps:1", "a:1,b:1,c"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(MUSTER_INVALID_ARGUMENT, mu_jobs_init(&jobs, bad[i], 3));
        assert_null(jobs.list);
    }
}
