/*
 * base/activity.c: what a process does now, and when its first thread last ran, from /proc/PID/stat and
 * /proc/PID/sched. Either may be hidden; what cannot be read is said to be unknown.
 */
#include "base/activity.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

#define PROBE_NS   50000000u    /* for a turn on another processor: a task there may have a higher priority */
#define KNOWN_NS   10000000000u /* so long what was seen there is good enough: it changes by what is taken away */
#define STEADY_NS  1000000u     /* a longer read of two clocks was interrupted */
#define TRIES      8
#define PROBES_MAX 3 /* that get no turn: then no more is asked */

static ssize_t read_proc(uint32_t pid, const char *name, char *buffer, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    return mu_read_file(path, buffer, size);
}

/* Of /proc/PID/stat: fields 3, 14, 15, 22 and 39. */
static bool activity_read_stat(uint32_t pid, struct mu_activity *ret)
{
    char text[1024], *at, *field[40] = {NULL};
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);

    if (read_proc(pid, "stat", text, sizeof text) <= 0)
        return false;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int i = 3; at && i <= 39; i++) {
        at = strchr(at + 1, ' ');
        field[i] = at ? at + 1 : NULL;
    }
    if (!field[39])
        return false;
    ret->letter = field[3][0];
    ret->cpu_ns = (strtoull(field[14], NULL, 10) + strtoull(field[15], NULL, 10)) * (1000000000u / ticks);
    ret->start = strtoull(field[22], NULL, 10);
    ret->processor = (int)strtol(field[39], NULL, 10);
    return true;
}

/* When a thread was last given a processor, by that one's clock, in ns; 0 where the kernel hides it. */
static uint64_t last_run_in(const char *path)
{
    char text[1024], *at;

    if (mu_read_file(path, text, sizeof text) <= 0)
        return 0;
    at = strstr(text, "se.exec_start");
    at = at ? strchr(at, ':') : NULL;
    return at ? (uint64_t)(strtod(at + 1, NULL) * 1e6) : 0;
}

static uint64_t last_run(uint32_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/sched", pid);
    return last_run_in(path);
}

/* This thread's, and CLOCK_MONOTONIC at the same time: within STEADY_NS, or else the last of a few. */
static void read_clocks(const char *path, uint64_t *ret_scheduler, uint64_t *ret_now)
{
    uint64_t before;
    int tries = 0;

    do {
        before = mu_now();
        *ret_scheduler = last_run_in(path);
        *ret_now = mu_now();
    } while (*ret_scheduler && *ret_now - before > STEADY_NS && ++tries < TRIES);
}

void mu_activity_clock(struct mu_activity_clock *ret_clock)
{
    char path[64];
    int tries = 0;

    *ret_clock = (struct mu_activity_clock){.processor = -1};
    snprintf(path, sizeof path, "/proc/%d/sched", (int)getpid());
    do {
        ret_clock->processor = sched_getcpu();
        read_clocks(path, &ret_clock->scheduler, &ret_clock->now);
    } while (ret_clock->processor != sched_getcpu() && ++tries < TRIES); /* moved meanwhile */
}

/* ---- another processor's clock ----------------------------------------------------------------------------------- */

struct probe {
    sem_t done;
    uint64_t scheduler, now; /* 0 of the one: not known */
};

static struct processor {
    uint64_t asked;             /* when; 0: never */
    uint64_t scheduler, now;    /* at the same time */
    bool is_known, never_again; /* the thread that was sent there may still wait for its turn */
} processors[1024];
static struct probe *volatile lost[PROBES_MAX]; /* theirs still, and so not forgotten */
static int lost_probes;

static void *probe_main(void *arg)
{
    struct probe *probe = arg;

    read_clocks("/proc/thread-self/sched", &probe->scheduler, &probe->now);
    sem_post(&probe->done);
    return NULL;
}

/* 0, or an error number: also where it must not run. */
static int send_there(int processor, struct probe *probe)
{
    cpu_set_t *only = CPU_ALLOC((size_t)processor + 1);
    size_t size = CPU_ALLOC_SIZE((size_t)processor + 1);
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int error;

    if (!only)
        return ENOMEM;
    CPU_ZERO_S(size, only);
    CPU_SET_S((size_t)processor, size, only);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    error = pthread_attr_setaffinity_np(&attr, size, only);
    sigfillset(&all); /* none of our signals is its */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (!error)
        error = pthread_create(&thread, &attr, probe_main, probe);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    CPU_FREE(only);
    return error;
}

static void processor_ask(struct processor *p, int processor, uint64_t now)
{
    struct probe *probe = calloc(1, sizeof *probe);
    uint64_t until = mu_now() + PROBE_NS;
    struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    int rc = -1;

    p->asked = now;
    p->is_known = false;
    if (!probe || sem_init(&probe->done, 0, 0) || send_there(processor, probe)) {
        free(probe);
        return;
    }
    while ((rc = sem_clockwait(&probe->done, CLOCK_MONOTONIC, &deadline)) && errno == EINTR)
        ;
    if (rc) { /* it keeps its probe */
        p->never_again = true;
        lost[lost_probes++] = probe;
        return;
    }
    p->scheduler = probe->scheduler;
    p->now = probe->now;
    p->is_known = probe->scheduler != 0;
    sem_destroy(&probe->done);
    free(probe);
}

/* When it was so late by the scheduler's clock on that processor; 0: not known. */
static uint64_t when_there(int processor, uint64_t run, uint64_t now)
{
    struct processor *p;

    if (processor < 0 || (size_t)processor >= sizeof processors / sizeof processors[0])
        return 0;
    p = &processors[processor];
    if (!p->never_again && lost_probes < PROBES_MAX && (!p->asked || now - p->asked > KNOWN_NS))
        processor_ask(p, processor, now);
    if (!p->is_known)
        return 0;
    run = p->now - p->scheduler + run;
    return run < now ? run : now;
}

bool mu_activity_look(uint32_t pid, uint64_t start, const struct mu_activity_clock *clock, struct mu_activity *ret)
{
    struct mu_activity seen = {.letter = 0};
    uint64_t ran;

    if (!pid || !activity_read_stat(pid, &seen) || seen.start != start)
        return false;
    *ret = seen;
    if (!clock || seen.letter == 'R' || seen.letter == 'Z' || !clock->scheduler)
        return true;
    ran = ret->run = last_run(pid);
    if (ran && clock->asks_processors && seen.processor != clock->processor)
        ret->last_ran = when_there(seen.processor, ran, clock->now);
    else if (ran && ran < clock->scheduler)
        ret->last_ran = clock->now - (clock->scheduler - ran);
    else if (ran)
        ret->last_ran = clock->now;
    return true;
}
