/*
 * tests/cli/watch_fast_test.c: `muster status --watch` of a job in which a barrier is passed again and again, faster
 * than the bucket that it shares with large ones can be copied. Who looks once may be told so; who watches goes on.
 */
#include "cm.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "barrier/view.h"
#include "child.h"
#include "job.h"
#include "segment/handle.h"
#include "segment/table.h"

enum { TASKS = 512, LARGE = 32, LOOKS = 1500, ENOUGH = 10, PATIENCE = 60 };

static struct test_job job;

static int setup(void)
{
    const struct muster_segment_config config = {.num_tasks = TASKS, .num_buckets = 16, .heap_bytes = 64 << 20};

    return test_job_create(&job, &config) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

static mu_a64 *bucket_of(const char *barrier)
{
    struct mu_table table = mu_table_cells(job.segment);
    struct mu_key key;
    char name[32];

    mu_key_make(&key, job.segment, name, (size_t)snprintf(name, sizeof name, "B%s", barrier));
    return mu_table_bucket(&table, &key);
}

/* Of all tasks, so too large to lie in the bucket's page; the caller comes to each and gives up. */
static void make_large_barriers(struct muster *m)
{
    char name[16];

    for (int i = 0, made = 0; made < LARGE; i++) {
        snprintf(name, sizeof name, "%d", i);
        if (bucket_of(name) != bucket_of("hot"))
            continue;
        assert_status(MUSTER_DEADLINE_EXCEEDED, muster_barrier_wait(m, name, MUSTER_BARRIER_NEXT, NULL, 0, 0, 1));
        made++;
    }
}

static int passes_for_ever(void *arg)
{
    const int32_t self = 1;
    struct muster *m = test_join(job.name, self, 0);

    (void)arg;
    for (;;)
        CHECK(muster_barrier_wait(m, "hot", MUSTER_BARRIER_NEXT, &self, 1, 0, MUSTER_FOREVER) == MUSTER_OK);
    return 0;
}

static FILE *watch(pid_t *ret_pid)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(getenv("MUSTER"), "muster", "status", "--job", job.name, "--watch=20ms", "--json", NULL);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

/* Until `count` more documents have come, or it says no more. */
static int come(FILE *documents, int count)
{
    char *line = NULL;
    size_t size = 0;
    int got = 0;

    while (got < count && getline(&line, &size, documents) > 0)
        got++;
    free(line);
    return got;
}

/* What has come so far, without waiting: so that it is never held up by us. */
static void take_what_is_there(FILE *documents)
{
    struct pollfd ready = {.fd = fileno(documents), .events = POLLIN};

    while (poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) && come(documents, 1))
        ;
}

TEST_WITH(a_watch_outlives_what_is_too_fast_for_it, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0), *reader = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);
    struct mu_barrier_view *barriers;
    size_t count;
    time_t begun = time(NULL);
    int too_fast = 0;
    pid_t watcher, writer;
    FILE *documents;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        print_message("one processor: nothing changes while it is read\n");
        skip();
    }
    make_large_barriers(m);
    documents = watch(&watcher);
    assert_int_equal(come(documents, 2), 2);
    writer = test_fork(passes_for_ever, NULL);
    while (too_fast < LOOKS && time(NULL) < begun + (too_fast ? ENOUGH : PATIENCE)) {
        enum muster_status status = mu_barrier_view_list(reader, &barriers, &count);

        if (status == MUSTER_OK)
            mu_barrier_view_free(barriers, count);
        else
            assert_int_equal(status, MUSTER_ABORTED);
        too_fast += status == MUSTER_ABORTED;
        take_what_is_there(documents);
    }
    assert_true(too_fast > 0);
    kill(writer, SIGKILL);
    assert_int_equal(test_reap(writer), 1000 + SIGKILL);
    assert_int_equal(come(documents, 5), 5); /* more than were underway */
    kill(watcher, SIGTERM);
    come(documents, INT_MAX); /* it may be writing */
    assert_int_equal(test_reap(watcher), 128 + SIGTERM);
    fclose(documents);
    assert_ok(muster_leave(reader));
    assert_ok(muster_leave(m));
}
