/*
 * bench/tasks.c: a node's job of more and more tasks: joining, barriers of all, `muster status`, memory.
 *
 *   tasks.join.N     muster_join() of each task in turn, with its heartbeat thread
 *   tasks.meet.N     all have joined and come to their first named barrier at once, until the last has left it
 *   tasks.build.N    then a group of all is built, until the last has left its first barrier
 *   tasks.group.N    the period of back-to-back group barriers of all, at task 0
 *   tasks.named.N    the same of named barriers
 *   tasks.status.N   `muster status --json` of the job, the command's start and end included, while all others wait
 *   tasks.memory.N   committed bytes of the segment for each task, with what it has without tasks; tasks.memory.group.N
 *                    is what a group of all and a barrier add to that
 *
 * Tasks are pinned to the processors in turn; with more tasks than processors a barrier is one of scheduling.
 *
 * Usage: tasks N SECONDS LEAST [MUSTER]     (MUSTER: the command; without it there is no status)
 */
#include "barrier_loop.h"
#include "gate.h"
#include "job.h"
#include "line.h"

#include <fcntl.h>
#include <spawn.h>

enum { TASKS_MAX = 512, STATUS_ROUNDS = 10 };

extern char **environ;

struct plan {
    struct bench_job job;
    struct bench_cpus cpus;
    int size;
    double seconds;
    uint64_t least;
    char *command;
    struct bench_table *table;
    struct {
        _Atomic uint32_t joins, meets; /* gates: it may */
        uint64_t join_ticks, left_ns;  /* of its join; when it had left the first barrier */
        uint64_t built_ns;             /* when it had left that of the group */
    } * seats;
    volatile uint64_t *met_ns; /* when all could come to it */
};

struct member {
    const struct plan *plan;
    struct muster *muster;
    struct muster_group *group;
    struct bench_barrier barrier;
    uint64_t committed; /* bytes of the segment when all had joined */
};

static void arrive_group(void *context)
{
    struct member *self = context;

    bench_ok(muster_group_barrier(self->group, muster_after_ms(60000)), "muster_group_barrier");
}

static void arrive_named(void *context)
{
    struct member *self = context;

    bench_ok(muster_barrier_wait(self->muster, "step", MUSTER_BARRIER_NEXT, NULL, 0, 0, muster_after_ms(60000)),
             "muster_barrier_wait");
}

static uint64_t share(void *context, uint64_t value)
{
    struct member *self = context;

    return bench_share_through(&self->plan->table->shared, value, &self->barrier);
}

static void measure_barrier(struct member *self, const char *name, void (*arrive)(void *context))
{
    char metric[64];

    snprintf(metric, sizeof(metric), "tasks.%s.%d", name, self->plan->size);
    self->barrier.barrier = arrive;
    self->barrier.metric = metric;
    bench_barrier_run(&self->barrier, "muster", self->plan->seconds, self->plan->least, 1u << 20);
}

static uint64_t committed(const struct member *self)
{
    struct muster_segment_info info;

    bench_ok(muster_segment_info(muster_segment_of(self->muster), &info), "muster_segment_info");
    return info.committed_bytes;
}

/* One after the other, then all at once to the first barrier. */
static void join_and_meet(struct member *self, int rank)
{
    const struct plan *plan = self->plan;
    uint64_t start;

    bench_gate_wait(&plan->seats[rank].joins, 1);
    start = bench_ticks();
    self->muster = bench_job_join(&plan->job, rank, 0);
    plan->seats[rank].join_ticks = bench_ticks() - start;
    bench_pin(&plan->cpus, rank);
    if (rank < plan->size - 1)
        bench_gate_open(&plan->seats[rank + 1].joins, 1);
    else
        *plan->met_ns = bench_now_ns();
    if (rank == plan->size - 1)
        for (int other = 0; other < plan->size; other++)
            bench_gate_open(&plan->seats[other].meets, 1);
    bench_gate_wait(&plan->seats[rank].meets, 1);
    if (rank == 0) /* it asks the kernel about each slot: n tasks would ask n * n times */
        self->committed = committed(self);
    bench_ok(muster_barrier_wait(self->muster, "all", 0, NULL, 0, 0, muster_after_ms(60000)), "the first barrier");
    plan->seats[rank].left_ns = bench_now_ns();
    bench_ok(muster_group_create(self->muster, "bench", NULL, 0, 0, muster_after_ms(60000), &self->group),
             "muster_group_create");
    arrive_group(self);
    plan->seats[rank].built_ns = bench_now_ns();
}

static void emit_joins(const struct plan *plan, double tick_ns)
{
    struct bench_samples joins, meeting, building;
    uint64_t left = 0, built = 0;
    char metric[64];

    bench_samples_init(&joins, (size_t)plan->size);
    bench_samples_init(&meeting, 1);
    bench_samples_init(&building, 1);
    for (int rank = 0; rank < plan->size; rank++) {
        bench_add(&joins, plan->seats[rank].join_ticks);
        left = plan->seats[rank].left_ns > left ? plan->seats[rank].left_ns : left;
        built = plan->seats[rank].built_ns > built ? plan->seats[rank].built_ns : built;
    }
    bench_add(&meeting, left - *plan->met_ns);
    bench_add(&building, built - left);
    snprintf(metric, sizeof(metric), "tasks.join.%d", plan->size);
    bench_emit(metric, "muster", &joins, tick_ns, 1, 1);
    snprintf(metric, sizeof(metric), "tasks.meet.%d", plan->size);
    bench_emit(metric, "muster", &meeting, 1, 1, 1);
    snprintf(metric, sizeof(metric), "tasks.build.%d", plan->size);
    bench_emit(metric, "muster", &building, 1, 1, 1);
}

static void emit_status(const struct plan *plan, double tick_ns)
{
    char job[64], *words[] = {plan->command, "status", "--json", "--job", job, NULL};
    posix_spawn_file_actions_t actions;
    struct bench_samples samples;
    char metric[64];

    memcpy(job, plan->job.name, sizeof(job));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bench_samples_init(&samples, STATUS_ROUNDS);
    for (int round = -1; round < STATUS_ROUNDS; round++) { /* the first warms the caches */
        uint64_t start = bench_ticks();
        pid_t pid;
        int rc = posix_spawn(&pid, plan->command, &actions, NULL, words, environ);

        if (rc)
            bench_die("%s: %s", plan->command, strerror(rc));
        bench_reap(pid, "muster status");
        if (round >= 0)
            bench_add(&samples, bench_ticks() - start);
    }
    snprintf(metric, sizeof(metric), "tasks.status.%d", plan->size);
    bench_emit(metric, "muster", &samples, tick_ns, 1, 1);
}

static void emit_memory(const struct member *self)
{
    int size = self->plan->size;
    char metric[64];

    snprintf(metric, sizeof(metric), "tasks.memory.%d", size);
    bench_emit_value(metric, "muster", (double)self->committed / size, "bytes");
    snprintf(metric, sizeof(metric), "tasks.memory.group.%d", size);
    bench_emit_value(metric, "muster", (double)(committed(self) - self->committed) / size, "bytes");
}

static void run_rank(const struct plan *plan, int rank)
{
    struct member self = {.plan = plan};

    self.barrier = (struct bench_barrier){.share = share, .context = &self, .rank = rank, .size = plan->size};
    join_and_meet(&self, rank);
    measure_barrier(&self, "group", arrive_group);
    measure_barrier(&self, "named", arrive_named);
    if (rank == 0) { /* the others are asleep in the barrier */
        double tick_ns = bench_tick_ns();

        emit_joins(plan, tick_ns);
        emit_memory(&self);
        if (plan->command)
            emit_status(plan, tick_ns);
    }
    arrive_named(&self);
    muster_group_free(self.group);
    bench_ok(muster_leave(self.muster), "muster_leave");
}

int main(int argc, char **argv)
{
    static struct plan plan;
    pid_t children[TASKS_MAX];

    if (argc != 4 && argc != 5)
        bench_die("usage: tasks N SECONDS LEAST [MUSTER]");
    plan.size = (int)bench_number(argv[1], 2, TASKS_MAX);
    plan.seconds = bench_number(argv[2], 0.001, 60);
    plan.least = (uint64_t)bench_number(argv[3], 16, 1e8);
    plan.command = argv[4];
    alarm(120);
    bench_cpus_read(&plan.cpus);
    bench_job_init(&plan.job, "tasks", (uint32_t)plan.size);
    plan.table = bench_shared(sizeof(*plan.table));
    plan.met_ns = bench_shared(BENCH_LINE);
    plan.seats = bench_shared((size_t)plan.size * sizeof(*plan.seats));
    atomic_store(&plan.seats[0].joins, 1); /* seq_cst: before the others are */
    for (int rank = 1; rank < plan.size; rank++) {
        children[rank] = bench_fork(120);
        if (children[rank] == 0) {
            run_rank(&plan, rank);
            _exit(0);
        }
    }
    run_rank(&plan, 0);
    for (int rank = 1; rank < plan.size; rank++)
        bench_reap(children[rank], "a task");
    return 0;
}
