/*
 * bench/elastic.c: a membership that changes: how soon every member knows.
 *
 *   elastic.loss.N       SIGKILL of a member → each of the others knows the next epoch; muster-last: the last of them
 *   elastic.change.N     a change in which nobody comes or goes: it is proposed → the last of N members runs on
 *   elastic.grow.N.M     the same, with M tasks that come, and wait for it
 *
 * Members sleep in muster_membership_next(); of a loss every second one in a barrier of the epoch's group, and calls
 * that when the barrier has failed. Each kill is a job of its own, with an agent in a loop of muster_death_wait(), as
 * `muster run` has. Every process notes the time when its wait returns, and of a loss then sleeps until all have: with
 * more members than processors the last ones would else wait for the first ones' ends. A change is proposed by the
 * agent, an observer, when all members sleep.
 *
 * Usage: elastic loss TASKS KILLS | change TASKS COME ROUNDS
 */
#include "job.h"

#define TASKS_MAX  1024
#define LIMIT_S    300
#define SETTLED_NS 3000000

struct seat {
    _Alignas(BENCH_LINE) volatile uint64_t epoch; /* that it knows */
    volatile uint64_t returned_ns;
};

static struct table {
    volatile int over;
    volatile int agent_waits;
    struct seat seats[TASKS_MAX];
} * table;

static struct bench_job job;
static struct bench_cpus cpus;
static pid_t pids[TASKS_MAX];
static int held[2]; /* a pipe: a member that has returned reads from it until the parent closes it */

/* In the steps of the epoch, until they fail: not all members come to this barrier. */
static void steps_run(struct muster *m, const struct muster_membership *now, int task)
{
    struct muster_group *group;

    bench_ok(muster_group_of_epoch(m, now, "steps", 0, MUSTER_FOREVER, &group), "muster_group_of_epoch");
    table->seats[task].epoch = now->epoch;
    if (task % 2 && muster_group_barrier(group, MUSTER_FOREVER) == MUSTER_OK)
        bench_die("a barrier that half of the members have entered has ended");
    muster_group_free(group);
}

static void member_run(int task, int stays)
{
    struct muster *m = bench_job_join(&job, task, MUSTER_JOIN_RECOVERABLE);
    struct muster_membership now = {0};
    char byte;

    close(held[1]);
    bench_pin(&cpus, task);
    while (!table->over) {
        uint64_t before = now.epoch;

        bench_ok(muster_membership_next(m, &now, MUSTER_FOREVER), "muster_membership_next");
        table->seats[task].returned_ns = bench_now_ns();
        if (!stays && !before) {
            steps_run(m, &now, task);
            continue;
        }
        table->seats[task].epoch = now.epoch;
        if (now.rank < 0) /* it waits until it is a member again */
            now = (struct muster_membership){0};
        if (!stays && read(held[0], &byte, 1) > 0)
            bench_die("nobody writes into the pipe");
    }
    muster_leave(m);
    _exit(0);
}

static void agent_run(void)
{
    struct muster *m = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER);
    size_t deaths;

    table->agent_waits = 1;
    while (!table->over) {
        enum muster_status status = muster_death_wait(m, muster_after_ms(1000), &deaths);

        if (status != MUSTER_OK && status != MUSTER_DEADLINE_EXCEEDED)
            bench_die("muster_death_wait: %s: %s", muster_status_name(status), muster_last_error());
    }
    muster_leave(m);
    _exit(0);
}

static void children_look(int tasks)
{
    for (int i = 0; i < tasks; i++)
        if (pids[i] && waitpid(pids[i], NULL, WNOHANG))
            bench_die("a member has ended");
}

/* The state letter of a process: 'S' when it sleeps. */
static char state_of(pid_t pid)
{
    char path[64], text[512], *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return '?';
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    end = strrchr(text, ')');
    return end && end[1] ? end[2] : '?';
}

/* Until the first `members` of `tasks` know this epoch, and all sleep. */
static void settle(int tasks, int members, uint64_t epoch)
{
    uint64_t limit = bench_now_ns() + UINT64_C(120000000000);

    for (int i = 0; i < tasks; i++)
        while (pids[i] && ((i < members && table->seats[i].epoch < epoch) || state_of(pids[i]) != 'S')) {
            children_look(tasks);
            if (bench_now_ns() > limit)
                bench_die("task %d did not come to wait for epoch %llu", i, (unsigned long long)epoch + 1);
            usleep(500);
        }
    usleep(SETTLED_NS / 1000);
}

static uint64_t last_return(int tasks, uint64_t start, struct bench_samples *each)
{
    uint64_t last = 0;

    for (int i = 0; i < tasks; i++) {
        uint64_t after = table->seats[i].returned_ns - start;

        if (!pids[i] || table->seats[i].returned_ns < start)
            continue;
        if (each)
            bench_add(each, after);
        last = after > last ? after : last;
    }
    return last;
}

static struct muster *job_begin(const char *tag, int tasks, int members, int stays)
{
    struct muster *m;

    if (pipe(held))
        bench_die("pipe: %s", strerror(errno));
    memset((void *)table, 0, sizeof(*table));
    bench_job_init(&job, tag, (uint32_t)tasks);
    m = bench_job_join(&job, -1, MUSTER_JOIN_OBSERVER);
    bench_ok(muster_membership_begin(m, (uint32_t)members, 1, (uint32_t)tasks, 1), "muster_membership_begin");
    for (int i = 0; i < tasks; i++) {
        pids[i] = bench_fork(LIMIT_S);
        if (!pids[i])
            member_run(i, stays);
    }
    return m;
}

static void job_end(struct muster *m, int tasks)
{
    muster_leave(m);
    for (int i = 0; i < tasks; i++) {
        if (!pids[i])
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(held[0]);
    close(held[1]);
    bench_job_remove();
}

static void kill_once(int tasks, int round, struct bench_samples *each, struct bench_samples *last)
{
    int victim = round % tasks;
    struct muster *m;
    uint64_t start;
    char tag[32];
    pid_t agent, dead;

    snprintf(tag, sizeof(tag), "loss-%d", round);
    m = job_begin(tag, tasks, tasks, 0);
    agent = bench_fork(LIMIT_S);
    if (!agent)
        agent_run();
    while (!table->agent_waits)
        usleep(500);
    settle(tasks, tasks, 1);
    dead = pids[victim];
    pids[victim] = 0;
    start = bench_now_ns();
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    settle(tasks, tasks, 2);
    bench_add(last, last_return(tasks, start, each));
    table->over = 1;
    bench_reap(agent, "the agent");
    job_end(m, tasks);
}

static void loss(int tasks, int kills)
{
    struct bench_samples each, last;
    char metric[64];

    bench_samples_init(&each, (size_t)kills * (size_t)tasks);
    bench_samples_init(&last, (size_t)kills);
    for (int round = 0; round < kills; round++)
        kill_once(tasks, round, &each, &last);
    snprintf(metric, sizeof(metric), "elastic.loss.%d", tasks);
    bench_emit(metric, "muster", &each, 1.0, 1, 1);
    bench_emit(metric, "muster-last", &last, 1.0, 1, 1);
}

static void change_once(struct muster *m, int tasks, int members, int come, struct bench_samples *last)
{
    struct muster_membership now;
    int32_t others[TASKS_MAX];
    uint64_t start, change;

    for (int i = 0; i < come; i++)
        others[i] = members + i;
    bench_ok(muster_membership_read(m, &now, NULL, 0, NULL), "muster_membership_read");
    settle(tasks, members, now.epoch);
    start = bench_now_ns();
    bench_ok(muster_membership_propose(m, others, (size_t)come, NULL, NULL, 0, UINT64_C(60000000000), &change),
             "muster_membership_propose");
    settle(tasks, members + come, now.epoch + 1);
    bench_add(last, last_return(tasks, start, NULL));
    if (!come)
        return;
    bench_ok(muster_membership_propose(m, NULL, 0, NULL, others, (size_t)come, UINT64_C(60000000000), &change),
             "muster_membership_propose");
    settle(tasks, members, now.epoch + 2);
}

static void change(int members, int come, int rounds)
{
    int tasks = members + come;
    struct bench_samples last;
    struct muster *m;
    char metric[64];

    bench_samples_init(&last, (size_t)rounds);
    m = job_begin("change", tasks, members, 1);
    for (int round = 0; round < rounds; round++)
        change_once(m, tasks, members, come, &last);
    job_end(m, tasks);
    if (come)
        snprintf(metric, sizeof(metric), "elastic.grow.%d.%d", members, come);
    else
        snprintf(metric, sizeof(metric), "elastic.change.%d", members);
    bench_emit(metric, "muster", &last, 1.0, 1, 1);
}

int main(int argc, char **argv)
{
    int tasks;

    if (argc < 4)
        bench_die("usage: elastic loss TASKS KILLS | change TASKS COME ROUNDS");
    alarm(600);
    bench_cpus_read(&cpus);
    table = bench_shared(sizeof(*table));
    tasks = (int)bench_number(argv[2], 2, TASKS_MAX / 2);
    if (!strcmp(argv[1], "loss") && argc == 4)
        loss(tasks, (int)bench_number(argv[3], 1, 10000));
    else if (!strcmp(argv[1], "change") && argc == 5)
        change(tasks, (int)bench_number(argv[3], 0, TASKS_MAX / 2), (int)bench_number(argv[4], 1, 100000));
    else
        bench_die("usage: elastic loss TASKS KILLS | change TASKS COME ROUNDS");
    return 0;
}
