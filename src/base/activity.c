/*
 * base/activity.c: what a process does now, and when its first thread last ran, from /proc/PID/stat and
 * /proc/PID/sched. Either may be hidden; what cannot be read is said to be unknown.
 */
#include "base/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

static ssize_t read_proc(uint32_t pid, const char *name, char *buffer, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    return mu_read_file(path, buffer, size);
}

/* Of /proc/PID/stat: fields 3, 14, 15 and 22. */
static bool read_stat(uint32_t pid, struct mu_activity *ret)
{
    char text[1024], *at, *field[23] = {NULL};
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);

    if (read_proc(pid, "stat", text, sizeof text) <= 0)
        return false;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int i = 3; at && i <= 22; i++) {
        at = strchr(at + 1, ' ');
        field[i] = at ? at + 1 : NULL;
    }
    if (!field[22])
        return false;
    ret->letter = field[3][0];
    ret->cpu_ns = (strtoull(field[14], NULL, 10) + strtoull(field[15], NULL, 10)) * (1000000000u / ticks);
    ret->start = strtoull(field[22], NULL, 10);
    return true;
}

/* When the first thread was last given a processor, by the scheduler's clock, in ns; 0 where the kernel hides it. */
static uint64_t last_run(uint32_t pid)
{
    char text[1024], *at;

    if (read_proc(pid, "sched", text, sizeof text) <= 0)
        return 0;
    at = strstr(text, "se.exec_start");
    at = at ? strchr(at, ':') : NULL;
    return at ? (uint64_t)(strtod(at + 1, NULL) * 1e6) : 0;
}

void mu_activity_clock(struct mu_activity_clock *ret_clock)
{
    *ret_clock = (struct mu_activity_clock){last_run((uint32_t)getpid()), mu_now()};
}

bool mu_activity_look(uint32_t pid, uint64_t start, const struct mu_activity_clock *clock, struct mu_activity *ret)
{
    struct mu_activity seen = {.letter = 0};
    uint64_t ran;

    if (!pid || !read_stat(pid, &seen) || seen.start != start)
        return false;
    *ret = seen;
    if (!clock || seen.letter == 'R' || seen.letter == 'Z' || !clock->scheduler)
        return true;
    ran = ret->run = last_run(pid);
    if (ran && ran < clock->scheduler)
        ret->last_ran = clock->now - (clock->scheduler - ran);
    else if (ran)
        ret->last_ran = clock->now;
    return true;
}
