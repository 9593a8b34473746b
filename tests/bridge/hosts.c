/*
 * tests/bridge/hosts.c: several hosts in one test program: making and ending them, looking at them, stepping them, and
 * their tasks. What is in between is agents.c's.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agents.h"
#include "base/clock.h"
#include "child.h"
#include "job.h"
#include "segment/file.h"

#define PATIENCE_NS 60000000000u

/* ---- looking ----------------------------------------------------------------------------------------------------- */

uint32_t hosts_count(const struct hosts *h)
{
    return h->count;
}

bool hosts_is_stepped(const struct hosts *h)
{
    return h->stepped;
}

const char *hosts_name(const struct hosts *h, uint32_t host)
{
    return h->agents[host].name;
}

struct muster_segment *hosts_segment(const struct hosts *h, uint32_t host)
{
    return h->agents[host].seg;
}

struct muster *hosts_observer(const struct hosts *h, uint32_t host)
{
    struct muster *m = test_join(h->agents[host].name, -1, 0);

    if (!m)
        hosts_give_up("an observer cannot join");
    return m;
}

struct mu_core *hosts_lock(struct hosts *h, uint32_t host)
{
    struct agent *a = &h->agents[host];

    pthread_mutex_lock(&a->core_lock);
    if (hosts_lives(h, host))
        return &a->core;
    pthread_mutex_unlock(&a->core_lock);
    return NULL;
}

void hosts_unlock(struct hosts *h, uint32_t host)
{
    pthread_mutex_unlock(&h->agents[host].core_lock);
}

const char *hosts_dropped(struct hosts *h, char why[700])
{
    pthread_mutex_lock(&h->lock);
    memcpy(why, h->dropped, sizeof h->dropped);
    pthread_mutex_unlock(&h->lock);
    return why;
}

size_t hosts_besides(struct hosts *h, uint32_t from)
{
    size_t n;

    pthread_mutex_lock(&h->lock);
    n = h->agents[from].besides;
    pthread_mutex_unlock(&h->lock);
    return n;
}

uint64_t hosts_frames(struct hosts *h, uint32_t from, uint8_t type)
{
    uint64_t n;

    pthread_mutex_lock(&h->lock);
    n = h->agents[from].frames[type];
    pthread_mutex_unlock(&h->lock);
    return n;
}

void hosts_inject(struct hosts *h, uint32_t from, uint32_t to, uint8_t type, const void *payload, size_t len)
{
    pthread_mutex_lock(&h->lock);
    agent_push(&h->agents[to], FRAME, from, 0, type, payload, len);
    pthread_mutex_unlock(&h->lock);
}

/* ---- stepped ----------------------------------------------------------------------------------------------------- */

bool hosts_step(struct hosts *h, uint32_t host)
{
    struct agent *a = &h->agents[host];
    bool dead = false, did;

    if (!a->lives)
        return false;
    did = agent_step(a, &dead);
    if (dead || a->dying)
        agent_die(a);
    return did || dead;
}

void hosts_pass(struct hosts *h, uint64_t ns)
{
    h->passed += ns;
}

/* Every agent once, from a random one on. False: none found anything to do. */
static bool step_all(struct hosts *h, struct test_random *random)
{
    uint32_t from = random ? (uint32_t)test_below(random, h->count) : 0;
    bool did = false;

    for (uint32_t i = 0; i < h->count; i++)
        did |= hosts_step(h, (from + i) % h->count);
    return did;
}

void hosts_settle(struct hosts *h, struct test_random *random)
{
    while (step_all(h, random))
        ;
}

void hosts_wait(struct hosts *h)
{
    if (!h->stepped || !step_all(h, NULL))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* sleep: nothing else wakes this thread */
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

struct errand {
    const char *segment;
    int32_t task;
    int (*fn)(struct muster *m, void *arg);
    void *arg;
};

static int run_errand(void *arg)
{
    const struct errand *e = arg;
    struct muster_options options;
    struct muster *m;
    char id[16];
    int status;

    snprintf(id, sizeof id, "%d", (int)e->task);
    setenv("MUSTER_SEGMENT", e->segment, 1);
    setenv("MUSTER_TASK_ID", id, 1);
    muster_options_init(&options);
    if (e->task < 0) {
        unsetenv("MUSTER_TASK_ID");
        options.flags |= MUSTER_JOIN_OBSERVER;
    }
    if (muster_join(&options, &m)) {
        printf("hosts: task %d cannot join %s: %s\n", (int)e->task, e->segment, muster_last_error());
        return 101;
    }
    status = e->fn(m, e->arg);
    if (muster_leave(m)) {
        printf("hosts: task %d cannot leave: %s\n", (int)e->task, muster_last_error());
        return 102;
    }
    return status;
}

void hosts_calls(struct hosts *h, bool begin)
{
    if (begin)
        pthread_rwlock_rdlock(&h->quiet);
    else
        pthread_rwlock_unlock(&h->quiet);
}

/* Nobody is within a call; a call may wait for a connection that only we mend. */
static void hush(struct hosts *h)
{
    struct timespec until;

    for (;;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (!pthread_rwlock_timedwrlock(&h->quiet, &until))
            return;
        hosts_mend(h);
    }
}

/* How many other threads of ours do something, be it to begin or to end. */
static unsigned busy_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned count = 0;
    struct dirent *item;

    while (dir && (item = readdir(dir))) {
        char path[64], text[256] = "";
        const char *state;
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", item->d_name);
        if (item->d_name[0] == '.' || strtol(item->d_name, NULL, 10) == gettid() || !(file = fopen(path, "re")))
            continue;
        state = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        count += state && state[2] != 'S';
        fclose(file);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* They come to rest by themselves: those that act at our locks, and one that has just been made where it waits. */
static void await_rest(void)
{
    uint64_t until = mu_now() + 5000000000u;

    while (busy_threads() && mu_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* sleep: between two looks */
}

/*
 * Fork while no other thread does anything, not even begin or end: a sanitizer's allocator keeps the locks that another
 * thread held at that moment, in the child for ever.
 */
pid_t hosts_fork(struct hosts *h, int (*fn)(void *arg), void *arg)
{
    pid_t pid;

    hush(h);
    for (uint32_t i = 0; i < h->count; i++)
        pthread_mutex_lock(&h->agents[i].core_lock);
    for (uint32_t i = 0; i < h->count; i++)
        if (h->agents[i].thread && !h->agents[i].lives) { /* its last step was under its lock */
            pthread_join(h->agents[i].thread, NULL);
            h->agents[i].thread = 0;
        }
    pthread_mutex_lock(&h->lock);
    if (!h->stepped)
        await_rest();
    pid = test_fork(fn, arg);
    pthread_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < h->count; i++)
        pthread_mutex_unlock(&h->agents[i].core_lock);
    pthread_rwlock_unlock(&h->quiet);
    return pid;
}

pid_t hosts_task(struct hosts *h, uint32_t task, int (*fn)(struct muster *m, void *arg), void *arg)
{
    struct errand e = {NULL, (int32_t)task, fn, arg};
    uint32_t host = 0;

    while (host + 1 < h->count && task >= h->first_task[host + 1])
        host++;
    e.segment = h->agents[host].name;
    return hosts_fork(h, run_errand, &e);
}

pid_t hosts_visitor(struct hosts *h, uint32_t host, int (*fn)(struct muster *m, void *arg), void *arg)
{
    struct errand e = {h->agents[host].name, -1, fn, arg};

    return hosts_fork(h, run_errand, &e);
}

int hosts_reap(struct hosts *h, pid_t pid)
{
    uint64_t until = test_patience();
    int status;

    for (; waitpid(pid, &status, WNOHANG) != pid; hosts_wait(h))
        if (test_is_over(until)) {
            printf("hosts: process %d does not end (the last connection that an agent broke: %s)\n", (int)pid,
                   h->dropped);
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return 1999;
        }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void make_segment(struct hosts *h, uint32_t host, const struct muster_segment_config *config,
                         const uint64_t run_id[2])
{
    struct agent *a = &h->agents[host];
    char name[16];
    struct muster_segment_config c = *config;
    struct mu_hosts_config hosts = {
        .num_hosts = h->count, .host = host, .num_tasks = h->tasks, .run_id = {run_id[0], run_id[1]}};

    c.num_tasks = h->first_task[h->count];
    c.num_slots = c.num_slots ? c.num_slots : 64;
    c.num_buckets = c.num_buckets ? c.num_buckets : 256;
    c.num_events = c.num_events ? c.num_events : 64;
    c.heap_bytes = c.heap_bytes ? c.heap_bytes : 32u << 20;
    c.heartbeat_timeout_ns = c.heartbeat_timeout_ns ? c.heartbeat_timeout_ns : 600000000000u;
    if (mu_segment_create_hosts(a->name, &c, &hosts, true, &a->seg))
        hosts_give_up("a segment cannot be made");
    snprintf(name, sizeof name, "node%u", host); /* all are this machine, but not in a test's eyes */
    mu_host_set_name(a->seg, host, name);
}

struct hosts *hosts_open(const struct hosts_config *config)
{
    struct hosts *h = calloc(1, sizeof *h);
    struct test_random r = {test_seed()};
    uint64_t run_id[2] = {test_random(&r), test_random(&r)};
    struct muster_segment_config segment;
    pthread_rwlockattr_t eager;
    char job[128];

    if (!h)
        hosts_give_up("no memory");
    test_name(job, "hosts");
    h->stepped = config->stepped;
    h->timeout = config->timeout_ns ? config->timeout_ns : 10000000000u;
    h->latency = config->latency;
    h->shortcuts = config->shortcuts;
    h->queue_bytes = config->queue_bytes ? config->queue_bytes : 128u << 20;
    pthread_rwlockattr_init(&eager);
    pthread_rwlockattr_setkind_np(&eager, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&h->quiet, &eager);
    pthread_rwlockattr_destroy(&eager);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    while (h->count < HOSTS_MAX && (h->count < 2 || config->tasks[h->count])) {
        uint32_t n = config->tasks[h->count] == HOSTS_NONE ? 0 : config->tasks[h->count];

        h->tasks[h->count] = n;
        h->first_task[h->count + 1] = h->first_task[h->count] + n;
        h->count++;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct agent *a = &h->agents[i];

        a->h = h;
        a->host = i;
        a->end = &a->first;
        pthread_mutex_init(&a->core_lock, NULL);
        snprintf(a->name, sizeof a->name, i ? "%.110s.h%u" : "%.110s", job, i);
        segment = config->segment;
        if (i && config->heap_elsewhere)
            segment.heap_bytes = config->heap_elsewhere;
        make_segment(h, i, &segment, run_id);
    }
    h->apart = config->apart;
    for (uint32_t i = 0; i < h->count; i++)
        hosts_start(h, i);
    h->apart = false;
    return h;
}

static void say(void *arg, const char *sentence)
{
    printf("audit of %s: %s\n", (const char *)arg, sentence);
}

unsigned long hosts_close(struct hosts *h)
{
    unsigned long problems = 0;

    for (uint32_t i = h->count; i-- > 0;) {
        struct agent *a = &h->agents[i];

        hosts_kill(h, i);
        if (a->thread)
            pthread_join(a->thread, NULL);
        agent_discard(a); /* what the others said to it afterwards */
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct agent *a = &h->agents[i];
        struct muster_audit sum = {0};

        if (muster_segment_check(a->seg, say, a->name, &sum) || muster_segment_remove(a->name)) {
            printf("%s: %s\n", a->name, muster_last_error());
            problems++;
        }
        problems += sum.problems;
        muster_segment_close(a->seg);
        pthread_mutex_destroy(&a->core_lock);
        agent_discard(a);
    }
    pthread_rwlock_destroy(&h->quiet);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
    free(h);
    return problems;
}
