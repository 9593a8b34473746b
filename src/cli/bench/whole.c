/*
 * cli/bench/whole.c: rows that take whole processes: how soon a death is known, and what a launch costs.
 */
#include "cli/bench/bench.h"

#include <fcntl.h>
#include <spawn.h>

#include "base/process.h"
#include "cli/cli.h"

extern char **environ;

/* ---- death ------------------------------------------------------------------------------------------------------- */

enum { PEER, VICTIM, WATCHER };

/* Both tasks wait for a key that nobody sets, the victim for ever. What the peer is told is that the victim is dead. */
static int wait_in_vain(struct mu_bench_task *task, unsigned batch)
{
    char value[8];
    size_t len;
    enum muster_status status;

    (void)batch;
    status = muster_kv_get(task->muster, "never", MUSTER_NTS, MUSTER_FOREVER, value, sizeof value, &len, NULL);
    task->table->returned_at = bench_ticks();
    if (status != MUSTER_UNAVAILABLE)
        return mu_bench_fail(task->table, "a death ended a wait with %s", muster_status_name(status));
    muster_group_free(task->group);
    task->group = NULL;
    muster_leave(task->muster);
    _exit(0);
}

/* What the launcher's thread does: it sleeps until the kernel tells of a death. Until it is killed. */
static int launcher_watch(struct mu_bench_task *task, unsigned batch)
{
    (void)batch;
    while (muster_death_wait(task->muster, MUSTER_FOREVER, NULL) == MUSTER_OK)
        ;
    return mu_bench_fail(task->table, "%s", muster_last_error());
}

/* Both tasks wait inside muster, and have slept for a while. */
static int await_both(struct mu_bench *bench, struct muster_segment *segment)
{
    static const struct timespec pause = {.tv_nsec = 500000}, asleep = {.tv_nsec = 2000000};
    uint64_t limit = bench_now_ns() + UINT64_C(20000000000);
    struct muster_task_info info[2];
    struct muster_segment_info info_of;
    struct muster_options options;
    struct muster *muster;
    size_t count;
    char text[32];

    memset(info, 0, sizeof info);
    muster_segment_info(segment, &info_of);
    snprintf(text, sizeof text, "fd:%d", muster_segment_fd(segment));
    setenv("MUSTER_SEGMENT", text, 1);
    setenv("MUSTER_JOB", info_of.job, 1);
    muster_options_init(&options);
    options.flags = MUSTER_JOIN_READ_ONLY;
    if (muster_join(&options, &muster) != MUSTER_OK)
        return mu_bench_fail(bench->table, "%s", muster_last_error());
    for (;;) {
        if (muster_task_list(muster, info, 2, &count, NULL) != MUSTER_OK)
            break;
        if (count == 2 && strstr(info[0].waiting, "never") && strstr(info[1].waiting, "never"))
            break;
        if (mu_bench_interrupted() || bench->table->why[0] || bench_now_ns() > limit)
            break;
        nanosleep(&pause, NULL);
    }
    if (!strstr(info[0].waiting, "never") || !strstr(info[1].waiting, "never"))
        mu_bench_fail(bench->table, "the tasks did not come to wait");
    muster_leave(muster);
    nanosleep(&asleep, NULL);
    return bench->table->why[0] ? MU_CLI_EXIT_FAILURE : 0;
}

/* The victim's end and the peer's return; whatever went wrong, all three are gone behind it. */
static int kill_victim(struct mu_bench *bench, const pid_t pids[3], int code)
{
    uint64_t start = bench_ticks();
    int ended;

    if (pids[VICTIM] > 0)
        kill(pids[VICTIM], SIGKILL);
    if (code && pids[PEER] > 0)
        kill(pids[PEER], SIGKILL);
    if (pids[PEER] > 0) {
        ended = mu_bench_reap(bench, pids[PEER]);
        code = code ? code : ended;
    }
    if (!code)
        mu_bench_add(bench->table, bench->table->returned_at - start);
    if (pids[WATCHER] > 0)
        kill(pids[WATCHER], SIGKILL);
    for (int i = VICTIM; i <= WATCHER; i++)
        while (pids[i] > 0 && waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
    return code;
}

static int kill_once(struct mu_bench *bench)
{
    struct muster_segment *segment;
    pid_t pids[3] = {-1, -1, -1};
    char job[64];
    int code = mu_bench_create(bench, 2, job, &segment);

    if (code)
        return code;
    for (uint32_t i = 0; i < 3 && !code; i++) {
        pids[i] = mu_bench_fork(bench, job, muster_segment_fd(segment), i, 2,
                                i == WATCHER ? launcher_watch : wait_in_vain, 1);
        code = pids[i] < 0 ? MU_CLI_EXIT_FAILURE : 0;
    }
    if (!code)
        code = await_both(bench, segment);
    code = kill_victim(bench, pids, code);
    muster_segment_close(segment);
    return mu_bench_interrupted() ? 128 + mu_bench_interrupted() : code;
}

int mu_bench_death(struct mu_bench *bench, const struct mu_bench_row *row)
{
    uint64_t end = bench_now_ns() + (uint64_t)(bench->seconds * 1e9);
    int code;

    (void)row;
    for (int round = 0; round < 6 || bench_now_ns() < end; round++) {
        code = kill_once(bench);
        if (code)
            return code;
        if (round == 0)
            bench->table->count = 0; /* the warm-up */
    }
    return 0;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static int copy_start(struct mu_bench *bench, posix_spawn_file_actions_t *actions, const char *path, char **argv,
                      pid_t *ret_pid)
{
    int rc = path[0] == '/' ? posix_spawn(ret_pid, path, actions, NULL, argv, environ)
                            : posix_spawnp(ret_pid, path, actions, NULL, argv, environ);

    return rc ? mu_bench_fail(bench->table, "cannot start %s: %s", path, strerror(rc)) : 0;
}

/* `copies` processes at once, to the end of the last. */
static int launch_once(struct mu_bench *bench, const char *path, char **argv, uint32_t copies)
{
    posix_spawn_file_actions_t actions;
    pid_t pids[MU_BENCH_TASKS_MAX];
    uint32_t started = 0;
    uint64_t began;
    int code = 0;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    began = bench_ticks();
    for (; started < copies && !code; started += !code)
        code = copy_start(bench, &actions, path, argv, &pids[started]);
    for (uint32_t i = 0; i < started; i++) {
        int ended = mu_bench_reap(bench, pids[i]);

        code = code ? code : ended;
    }
    if (!code)
        mu_bench_add(bench->table, bench_ticks() - began);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static int copies_launch(struct mu_bench *bench, const char *path, char **argv, uint32_t copies)
{
    uint64_t end = bench_now_ns() + (uint64_t)(bench->seconds * 1e9);

    for (int round = 0; round < 6 || bench_now_ns() < end; round++) {
        int code = launch_once(bench, path, argv, copies);

        if (code)
            return code;
        if (round == 0)
            bench->table->count = 0; /* the warm-up */
    }
    return 0;
}

int mu_bench_launch(struct mu_bench *bench, const struct mu_bench_row *row)
{
    char path[4096], number[16];
    char *argv[] = {"muster", "run", "-n", number, "true", NULL};

    (void)row;
    if (mu_command_path(path, sizeof path))
        return mu_bench_fail(bench->table, "/proc/self/exe: %s", strerror(errno));
    snprintf(number, sizeof number, "%u", bench->tasks);
    return copies_launch(bench, path, argv, 1);
}

int mu_bench_spawn(struct mu_bench *bench, const struct mu_bench_row *row)
{
    char *argv[] = {"true", NULL};

    (void)row;
    return copies_launch(bench, "true", argv, bench->tasks);
}
