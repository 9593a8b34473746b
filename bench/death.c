/*
 * bench/death.c: how long after a SIGKILL every wait of the others returns, whatever the size of the dead process.
 *
 * Each kill is a job of its own: a victim (task 0) with RESIDENT MiB of touched 4 KiB pages, seven peers, one agent
 * (an observer in a loop of muster_death_wait(), as `muster run` has) and the parent. The peers take turns in what
 * they wait for: the group's barrier, which the victim never enters; muster_kv_get() of an absent key; and
 * muster_error_wait(). When all of them sleep, the parent notes the time, kills the victim, and polls its pidfd. Every
 * process notes CLOCK_MONOTONIC when its wait returns, and then sleeps until the waits of all have: with more peers
 * than processors the last ones would else wait for the first ones' leaving and ends, 0.3 ms of a processor each.
 *
 * Rows: who "muster" is every return, "muster-last" the last of the seven, then each kind of wait, the agent, and the
 * pidfd's becoming readable.
 *
 * Usage: death KILLS RESIDENT_MIB
 */
#include "job.h"

#include <poll.h>
#include <sys/syscall.h>

#define PEERS      7
#define LIMIT_S    120
#define SETTLED_NS 3000000

enum kind { KIND_BARRIER, KIND_KV_GET, KIND_ERROR_WAIT, NUM_KINDS };
enum row { ROW_ALL, ROW_LAST, ROW_BARRIER, ROW_KV_GET, ROW_ERROR_WAIT, ROW_AGENT, ROW_PIDFD, NUM_ROWS };

static const char *const whos[NUM_ROWS] = {
    "muster", "muster-last", "muster-barrier", "muster-kv_get", "muster-error_wait", "muster-agent", "pidfd"};

struct seat {
    _Alignas(BENCH_LINE) volatile int waiting;
    volatile uint64_t returned_ns;
};

struct table {
    struct seat victim, agent, peers[PEERS + 1]; /* peers from 1, as task ids */
    volatile int over;
    int held[2]; /* a pipe: who has returned reads from it until the parent closes it */
};

/* The status is the expected one, and the sentence or record names the dead task. */
static void wait_for_death(struct muster *muster, struct muster_group *group, enum kind kind)
{
    struct muster_error error;
    enum muster_status status;
    char value[8];
    size_t len;

    switch (kind) {
    case KIND_BARRIER: status = muster_group_barrier(group, muster_after_ms(60000)); break;
    case KIND_KV_GET:
        status = muster_kv_get(muster, "absent", 6, muster_after_ms(60000), value, sizeof(value), &len, NULL);
        break;
    default:
        status = muster_error_wait(muster, muster_after_ms(60000), &error);
        if (status == MUSTER_OK && error.task_id == 0)
            status = MUSTER_UNAVAILABLE;
    }
    if (status != MUSTER_UNAVAILABLE)
        bench_die("wait of kind %d: %s: %s", (int)kind, muster_status_name(status), muster_last_error());
}

static void stay_held(const struct table *table)
{
    char byte;

    if (read(table->held[0], &byte, 1) > 0)
        bench_die("nobody writes into the pipe");
}

/* Until all have returned; looked for seldom enough to be in nobody's way. */
static void release_all(struct table *table, const pid_t *pids)
{
    uint64_t limit = bench_now_ns() + UINT64_C(60000000000);

    for (int task = 1; task <= PEERS; task++)
        while (!table->peers[task].returned_ns) {
            if (waitpid(pids[task], NULL, WNOHANG) || bench_now_ns() > limit)
                bench_die("a peer's wait did not return");
            usleep(1000);
        }
    close(table->held[0]);
    close(table->held[1]);
}

static void run_peer(const struct bench_job *job, const struct bench_cpus *cpus, struct table *table, int task,
                     enum kind kind)
{
    struct muster *muster = bench_job_join(job, task, 0);
    struct muster_group *group;

    bench_ok(muster_group_create(muster, "bench", NULL, 0, 0, muster_after_ms(60000), &group), "muster_group_create");
    bench_pin(cpus, task);
    table->peers[task].waiting = 1;
    wait_for_death(muster, group, kind);
    table->peers[task].returned_ns = bench_now_ns();
    stay_held(table);
    muster_group_free(group);
    muster_leave(muster);
}

static void run_victim(const struct bench_job *job, const struct bench_cpus *cpus, struct table *table, size_t resident)
{
    struct muster *muster = bench_job_join(job, 0, 0);
    struct muster_group *group;
    volatile char *memory;

    memory = mmap(NULL, resident, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("mmap %zu bytes: %s", resident, strerror(errno));
    madvise((void *)memory, resident, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < resident; at += 4096)
        memory[at] = 1;
    bench_ok(muster_group_create(muster, "bench", NULL, 0, 0, muster_after_ms(60000), &group), "muster_group_create");
    bench_pin(cpus, 0);
    table->victim.waiting = 1;
    for (;;)
        pause();
}

static void run_agent(const struct bench_job *job, struct table *table)
{
    struct muster *muster = bench_job_join(job, -1, MUSTER_JOIN_OBSERVER);
    enum muster_status status;
    size_t deaths;

    table->agent.waiting = 1;
    while (!table->over) {
        status = muster_death_wait(muster, muster_after_ms(1000), &deaths);
        if (status == MUSTER_OK && deaths && !table->agent.returned_ns)
            table->agent.returned_ns = bench_now_ns();
        else if (status != MUSTER_OK && status != MUSTER_DEADLINE_EXCEEDED)
            bench_die("muster_death_wait: %s: %s", muster_status_name(status), muster_last_error());
    }
    muster_leave(muster);
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

/* Everybody has said that it is about to wait, and then sleeps. A child that ended instead ends the program. */
static void await_all(struct table *table, const pid_t *pids, pid_t agent)
{
    uint64_t limit = bench_now_ns() + UINT64_C(60000000000);

    for (int task = 0; task <= PEERS; task++) {
        volatile int *waiting = task ? &table->peers[task].waiting : &table->victim.waiting;
        while (!*waiting || !table->agent.waiting || state_of(pids[task]) != 'S') {
            if (waitpid(pids[task], NULL, WNOHANG) || waitpid(agent, NULL, WNOHANG) || bench_now_ns() > limit)
                bench_die("a process of the job did not come to wait");
            usleep(500);
        }
    }
    usleep(SETTLED_NS / 1000);
}

static void kill_once(const struct bench_cpus *cpus, size_t resident, int round, struct bench_samples *samples)
{
    struct table *table = bench_shared(sizeof(*table));
    pid_t pids[PEERS + 1], agent;
    struct bench_job job;
    uint64_t start, last = 0;
    struct pollfd poll_victim = {.events = POLLIN};
    char tag[32];

    if (pipe(table->held))
        bench_die("pipe: %s", strerror(errno));
    snprintf(tag, sizeof(tag), "death-%d", round);
    bench_job_init(&job, tag, PEERS + 1);
    agent = bench_fork(LIMIT_S);
    if (agent == 0) {
        close(table->held[1]);
        run_agent(&job, table);
        _exit(0);
    }
    for (int task = 0; task <= PEERS; task++) {
        pids[task] = bench_fork(LIMIT_S);
        if (pids[task] == 0) {
            close(table->held[1]);
            if (task == 0)
                run_victim(&job, cpus, table, resident);
            run_peer(&job, cpus, table, task, (enum kind)((task + round) % NUM_KINDS));
            _exit(0);
        }
    }
    await_all(table, pids, agent);
    poll_victim.fd = (int)syscall(SYS_pidfd_open, pids[0], 0);
    if (poll_victim.fd < 0)
        bench_die("pidfd_open: %s", strerror(errno));
    start = bench_now_ns();
    kill(pids[0], SIGKILL);
    if (poll(&poll_victim, 1, 60000) != 1)
        bench_die("the pidfd of a killed process stayed silent");
    bench_add(&samples[ROW_PIDFD], bench_now_ns() - start);
    close(poll_victim.fd);
    waitpid(pids[0], NULL, 0);
    release_all(table, pids);
    table->over = 1; /* not before: the agent is told of each of the victim's two threads */
    for (int task = 1; task <= PEERS; task++) {
        bench_reap(pids[task], "a peer");
        uint64_t after = table->peers[task].returned_ns - start;
        bench_add(&samples[ROW_ALL], after);
        bench_add(&samples[ROW_BARRIER + (task + round) % NUM_KINDS], after);
        last = after > last ? after : last;
    }
    bench_add(&samples[ROW_LAST], last);
    bench_reap(agent, "the agent");
    if (table->agent.returned_ns)
        bench_add(&samples[ROW_AGENT], table->agent.returned_ns - start);
    bench_job_remove();
    munmap(table, sizeof(*table));
}

int main(int argc, char **argv)
{
    struct bench_samples samples[NUM_ROWS];
    struct bench_cpus cpus;
    char metric[64];
    int kills, mib;

    if (argc != 3)
        bench_die("usage: death KILLS RESIDENT_MIB");
    kills = (int)bench_number(argv[1], 1, 10000);
    mib = (int)bench_number(argv[2], 1, 1 << 20);
    alarm(600);
    bench_cpus_read(&cpus);
    for (int row = 0; row < NUM_ROWS; row++)
        bench_samples_init(&samples[row], (size_t)kills * PEERS);
    for (int round = 0; round < kills; round++)
        kill_once(&cpus, (size_t)mib << 20, round, samples);
    snprintf(metric, sizeof(metric), "death.%dMiB", mib);
    for (int row = 0; row < NUM_ROWS; row++)
        if (samples[row].count)
            bench_emit(metric, whos[row], &samples[row], 1.0, 1, 1);
    return 0;
}
