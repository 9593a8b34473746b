/*
 * tests/agent/metrics_main.c: a job of two tasks whose metrics are served, for metrics_test.py.
 *
 * `metrics ADDRESS JOB` prints "ADDRESS PID PID" once both tasks have met at barriers and written keys, serves until
 * its input ends, then says how the loop was left: "clean", or what was still in it. A line of input counts a restart.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

#include "agent/metrics/metrics.h"
#include <muster/muster.h>

static struct mu_metrics *metrics;

static void must(enum muster_status status, const char *what)
{
    if (status == MUSTER_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, muster_last_error());
    exit(1);
}

static struct muster *join(const char *job, int fd, int32_t task)
{
    struct muster_options options;
    struct muster *m;
    char text[32];

    snprintf(text, sizeof text, "fd:%d", fd);
    setenv("MUSTER_SEGMENT", text, 1);
    setenv("MUSTER_JOB", job, 1);
    muster_options_init(&options);
    options.task_id = task;
    options.flags = MUSTER_JOIN_NO_CREATE | (task < 0 ? MUSTER_JOIN_OBSERVER : 0);
    must(muster_join(&options, &m), "join");
    return m;
}

/* Until task 0 sleeps at the barrier. */
static void until_waiting(struct muster *m)
{
    struct muster_task_info info;
    struct timespec pause = {.tv_nsec = 1000000};
    uint64_t end = muster_after_ns(60000000000);

    do {
        must(muster_task_get(m, 0, &info), "task 0");
        nanosleep(&pause, NULL); /* sleep: between two looks */
    } while (strncmp(info.waiting, "barrier step", 12) != 0 && muster_now_ns() < end);
}

/* Task 1 comes late to each barrier, so that task 0 sleeps there; both then stay, heartbeats going. */
static void be_task(const char *job, int fd, int32_t task, int ready)
{
    struct muster *m = join(job, fd, task);
    struct muster_group *group;
    struct timespec late = {.tv_nsec = 20000000};
    char key[32];

    must(muster_group_create(m, "both", NULL, 0, 0, MUSTER_FOREVER, &group), "group");
    for (uint64_t i = 0; i < 5; i++) {
        if (task == 1) {
            until_waiting(m);
            nanosleep(&late, NULL); /* sleep: the straggler's work */
        }
        must(muster_barrier_wait(m, "step", i, NULL, 0, 60000000000, MUSTER_FOREVER), "barrier");
        must(muster_group_barrier(group, MUSTER_FOREVER), "group barrier");
        snprintf(key, sizeof key, "key/%d/%d", (int)task, (int)i);
        must(muster_kv_set(m, key, MUSTER_NTS, "value", 5, NULL), "set");
    }
    if (write(ready, "r", 1) != 1)
        exit(1);
    for (;;)
        pause();
}

static pid_t start_task(const char *job, int fd, int32_t task, int ready)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        be_task(job, fd, task, ready);
    }
    return pid;
}

static const uint64_t failures = 3;

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char memory[256];

    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(memory, sizeof memory);
}

static void on_input(uv_stream_t *input, ssize_t count, const uv_buf_t *buffer)
{
    for (ssize_t i = 0; i < count; i++)
        if (buffer->base[i] == '\n')
            mu_metrics_restarted(metrics, 1);
    if (count < 0) {
        uv_close((uv_handle_t *)input, NULL);
        mu_metrics_stop(metrics);
    }
}

static int serve(const char *address, struct muster *m, const pid_t *pids)
{
    uv_loop_t loop;
    uv_pipe_t input;
    char why[256];
    int rc;

    uv_loop_init(&loop);
    if (mu_metrics_start(&loop, address, m, &metrics, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        uv_run(&loop, UV_RUN_DEFAULT);
        return uv_loop_close(&loop) ? 3 : 2;
    }
    mu_metrics_launcher(metrics, &(struct mu_metrics_launcher){.failures = &failures});
    uv_pipe_init(&loop, &input, 0);
    uv_pipe_open(&input, 0);
    uv_read_start((uv_stream_t *)&input, on_alloc, on_input);
    printf("%s %d %d\n", mu_metrics_address(metrics), (int)pids[0], (int)pids[1]);
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT); /* input alone keeps it alive; then what is being closed */
    rc = uv_loop_close(&loop);
    puts(rc ? uv_strerror(rc) : "clean");
    return rc != 0;
}

int main(int argc, char **argv)
{
    struct muster_segment_config config = {.num_tasks = 3, .memfd = 1, .heap_bytes = 16 << 20};
    struct muster_segment *segment;
    struct muster *m;
    int ready[2], rc;
    pid_t pids[2];
    char byte;

    if (argc != 3 || pipe(ready))
        return 64;
    signal(SIGPIPE, SIG_IGN);
    config.num_tasks = 2;
    must(muster_segment_create(argv[2], &config, &segment), "create");
    for (int32_t i = 0; i < 2; i++)
        pids[i] = start_task(argv[2], muster_segment_fd(segment), i, ready[1]);
    for (int i = 0; i < 2; i++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    m = join(argv[2], muster_segment_fd(segment), -1);
    rc = serve(argv[1], m, pids);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    muster_leave(m);
    muster_segment_close(segment);
    return rc;
}
