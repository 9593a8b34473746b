/*
 * cli/words/which.c: which job is meant: --job, else $MUSTER_JOB, else the only live one of this user, which is said on
 * stderr.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"
#include "segment/file.h"
#include "segment/handle.h"

/* ---- hosts of one job -------------------------------------------------------------------------------------------- */

/* Of "JOB.h3" the length of JOB; 0: it does not end so. */
static size_t before_host(const char *job)
{
    const char *dot = strrchr(job, '.');

    if (!dot || dot[1] != 'h' || !dot[2] || dot[2 + strspn(dot + 2, "0123456789")])
        return 0;
    return (size_t)(dot - job);
}

/* A follower's segment, by more than its name. */
static bool is_follower(const char *job)
{
    struct muster_segment *segment;
    int found;

    if (!before_host(job) || muster_segment_open(job, &segment) != MUSTER_OK)
        return 0;
    found = mu_is_follower(segment);
    muster_segment_close(segment);
    return found;
}

struct name_part {
    const char *job;
    unsigned long host; /* the least; ULONG_MAX: none */
    int is_live;
    char name[208];
};

static int see_part(void *arg, const struct muster_segment_row *row)
{
    struct name_part *part = arg;
    size_t len = before_host(row->job);
    unsigned long host;
    int is_live = row->slots_live > 0;

    if (row->problem || len != strlen(part->job) || strncmp(row->job, part->job, len) != 0 || !is_follower(row->job))
        return 0;
    host = strtoul(row->job + len + 2, NULL, 10);
    if (part->host != ULONG_MAX && (is_live < part->is_live || (is_live == part->is_live && host > part->host)))
        return 0;
    part->host = host;
    part->is_live = is_live;
    snprintf(part->name, sizeof part->name, "%s", row->job);
    return 0;
}

/* One job's hosts on one machine are one job: its leader's segment shows it, else the least of the followers'. */
static int another_shows(const char *job)
{
    struct name_part part = {.host = ULONG_MAX};
    struct muster_segment *segment;
    char leader[208];

    if (!is_follower(job))
        return 0;
    snprintf(leader, sizeof leader, "%.*s", (int)before_host(job), job);
    if (muster_segment_open(leader, &segment) == MUSTER_OK) {
        muster_segment_close(segment);
        return 1;
    }
    part.job = leader;
    return muster_segment_list(see_part, &part) == MUSTER_OK && part.host != ULONG_MAX && strcmp(part.name, job) != 0;
}

/* Where the leader's segment is on another host, a follower's of the same job serves. 1: *job is it now. */
int mu_cli_find_part(const struct mu_cli_call *call, char *job, size_t size)
{
    struct name_part part = {.job = job, .host = ULONG_MAX};
    char why[512];

    snprintf(why, sizeof why, "%s", muster_last_error());
    if (muster_segment_list(see_part, &part) != MUSTER_OK || part.host == ULONG_MAX) {
        mu_fail(MUSTER_NOT_FOUND, "%s", why); /* the sentence that is to be shown */
        return 0;
    }
    snprintf(job, size, "%s", part.name);
    if (!call->values[MU_OPT_JSON])
        fprintf(stderr, "%s: job %s, this host's part of it\n", call->path, job);
    return 1;
}

/* ---- this user's jobs ------------------------------------------------------------------------------------------- */

/* Those that can be looked into, each once. */
struct jobs {
    struct job {
        char name[208];
        int is_live, is_left; /* somebody uses it; nobody does any more */
    } * list;
    size_t count;
};

/* Whether a job with a dead launcher, which nobody has joined, has tasks that survived it. */
static bool has_tasks(const struct muster_segment *segment, uint32_t launcher)
{
    pid_t *pids = calloc(segment->local_tasks, sizeof *pids);
    int found = 0;

    if (pids && mu_launch_guard_tasks(segment->job, (pid_t)launcher, segment->local_tasks, pids) == 0)
        for (uint32_t i = 0; i < segment->local_tasks; i++)
            found |= pids[i] != 0;
    free(pids);
    return found;
}

static int job_see(void *arg, const struct muster_segment_row *row)
{
    struct jobs *jobs = arg;
    struct muster_segment *segment;
    struct job *job;
    int is_live = row->slots_live > 0, is_left = 0;

    if (another_shows(row->job))
        return 0;
    if (row->problem) {
        if (muster_segment_open(row->job, &segment) != MUSTER_OK)
            return 0;
        is_live = has_tasks(segment, row->creator_pid);
        is_left = !is_live;
        muster_segment_close(segment);
    }
    jobs->list = realloc(jobs->list, (jobs->count + 1) * sizeof *jobs->list);
    if (!jobs->list)
        abort();
    job = &jobs->list[jobs->count++];
    *job = (struct job){.is_live = is_live, .is_left = is_left};
    snprintf(job->name, sizeof job->name, "%s", row->job);
    return 0;
}

static int by_name(const void *one, const void *other)
{
    return strverscmp(((const struct job *)one)->name, ((const struct job *)other)->name);
}

static enum muster_status find_jobs(struct jobs *jobs)
{
    enum muster_status status = muster_segment_list(job_see, jobs);

    if (jobs->count > 1)
        qsort(jobs->list, jobs->count, sizeof *jobs->list, by_name);
    return status;
}

static size_t count_left(const struct jobs *jobs)
{
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++)
        count += jobs->list[i].is_left != 0;
    return count;
}

/* "w1, w2": those that are left over, or those that are not. */
static void join_names(const struct jobs *jobs, int is_left, char *text, size_t size)
{
    size_t len = 0;

    text[0] = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        const char *name = jobs->list[i].name, *comma = len ? ", " : "";

        if (jobs->list[i].is_left != is_left)
            continue;
        if (len + strlen(name) + 8 > size) {
            snprintf(text + len, size - len, "%s...", comma);
            return;
        }
        len += (size_t)snprintf(text + len, size - len, "%s%s", comma, name);
    }
}

int mu_cli_no_job_name(const struct mu_cli_call *call, const char *job)
{
    static const char what[] = "is no job name: 1 to 200 of A-Z a-z 0-9 . _ -, not beginning with '.'";

    if (job == call->values[MU_OPT_JOB] && (call->count == 0 || job != call->operands[0]))
        return mu_cli_wrong(call, MU_OPT_JOB, job, "%s", what);
    return mu_cli_usage(call, "'%.60s%s' %s", job, strlen(job) > 60 ? "..." : "", what);
}

int mu_cli_no_job(const struct mu_cli_call *call, const char *job)
{
    struct jobs jobs = {.count = 0};
    struct muster_segment *segment;
    enum muster_status status;
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT], why[512], names[320];

    snprintf(why, sizeof why, "%s", muster_last_error());
    status = muster_segment_open(job, &segment);
    if (status == MUSTER_OK)
        muster_segment_close(segment);
    if (status != MUSTER_NOT_FOUND || strchr(job, '/') || find_jobs(&jobs) != MUSTER_OK) {
        free(jobs.list);
        return mu_cli_fail(call, mu_fail(MUSTER_NOT_FOUND, "%s", why)); /* a path, or something in the job */
    }
    mu_cli_guess_start(&guess, job, strlen(job));
    for (size_t i = 0; i < jobs.count; i++)
        mu_cli_guess_see(&guess, jobs.list[i].name);
    fprintf(stderr, "%s: there is no job %s here", call->path, job);
    if (mu_cli_guess_end(&guess))
        fputs(mu_cli_did_you_mean(&guess, "", "", meant), stderr);
    else if (jobs.count > count_left(&jobs)) {
        join_names(&jobs, 0, names, sizeof names);
        fprintf(stderr, "; there %s %s", jobs.count - count_left(&jobs) == 1 ? "is" : "are", names);
    }
    fputc('\n', stderr);
    free(jobs.list);
    return MU_CLI_EXIT_NOT_FOUND;
}

/* Nobody's but left over: what to do with it. */
static void say_none(const struct mu_cli_call *call, const struct jobs *jobs)
{
    size_t left = count_left(jobs);
    char names[320];

    fprintf(stderr, "%s: this user has no job here", call->path);
    join_names(jobs, 1, names, sizeof names);
    if (left == 1)
        fprintf(stderr, "; %s is left over from one: --job %s shows it, 'muster segment rm %s' removes it", names,
                names, names);
    else if (left > 1)
        fprintf(stderr, "; %s are left over: --job NAME shows one, 'muster segment rm NAME' removes it", names);
    fputc('\n', stderr);
}

static int pick_only(struct mu_cli_call *call, char *ret_job, size_t size)
{
    struct jobs jobs = {.count = 0};
    enum muster_status status = find_jobs(&jobs);
    const struct job *live = NULL, *sound = NULL;
    size_t num_live = 0, num_sound = 0;
    char names[320];
    int code = 0;

    for (size_t i = 0; i < jobs.count; i++) {
        num_live += jobs.list[i].is_live != 0;
        num_sound += !jobs.list[i].is_left;
        live = jobs.list[i].is_live ? &jobs.list[i] : live;
        sound = !jobs.list[i].is_left ? &jobs.list[i] : sound;
    }
    if (status != MUSTER_OK) {
        code = mu_cli_fail(call, status);
    } else if (num_live == 1 || (num_live == 0 && num_sound == 1)) {
        snprintf(ret_job, size, "%s", num_live ? live->name : sound->name);
        if (!call->values[MU_OPT_JSON])
            fprintf(stderr, "%s: job %s\n", call->path, ret_job);
    } else if (num_sound == 0) {
        say_none(call, &jobs);
        code = MU_CLI_EXIT_NOT_FOUND;
    } else {
        join_names(&jobs, 0, names, sizeof names);
        code = mu_cli_usage(call, "which job? --job NAME, one of: %s", names);
    }
    free(jobs.list);
    return code;
}

int mu_cli_pick_job(struct mu_cli_call *call, char *ret_job, size_t size)
{
    const char *job = call->values[MU_OPT_JOB], *from_env = getenv("MUSTER_JOB");

    if (!job && from_env && *from_env)
        job = from_env;
    if (job) {
        if (!strchr(job, '/') && strncmp(job, "fd:", 3) != 0 && !mu_cli_valid_job(job))
            return mu_cli_no_job_name(call, job);
        if ((size_t)snprintf(ret_job, size, "%s", job) >= size)
            return mu_cli_usage(call, "the job's path is too long");
        return 0;
    }
    return pick_only(call, ret_job, size);
}
