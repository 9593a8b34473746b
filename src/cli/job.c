/*
 * cli/job.c: reaching a job from outside, and leaving it again.
 *
 * The job is --job, else $MUSTER_JOB, else the only live one of this user (said on stderr). Inside a job's task
 * $MUSTER_SEGMENT says where the segment is; the library sets that aside when the job is another. A wait is ended by
 * SIGINT, SIGTERM or SIGHUP through muster_interrupt(), so that the handle is always given back.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "segment/file.h"

static struct muster *volatile interruptible; /* the handle that a signal interrupts */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
    if (interruptible)
        muster_interrupt(interruptible);
}

void mu_cli_catch(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now, action = {.sa_handler = handler}; /* without SA_RESTART: waits end */

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

int mu_cli_interrupted(void)
{
    return interrupted;
}

int mu_cli_fail(const struct mu_cli_call *call, enum muster_status status)
{
    if (interrupted && status == MUSTER_CANCELLED)
        return 128 + interrupted;
    fflush(stdout);
    fprintf(stderr, "%s: ", call->path);
    mu_cli_print_line(stderr, muster_last_error()); /* it may quote a value: still one line */
    putc('\n', stderr);
    switch (status) {
    case MUSTER_OK: return MU_CLI_EXIT_OK;
    case MUSTER_NOT_FOUND: return MU_CLI_EXIT_NOT_FOUND;
    case MUSTER_DEADLINE_EXCEEDED: return MU_CLI_EXIT_DEADLINE;
    default: return MU_CLI_EXIT_FAILURE;
    }
}

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
static int is_follower(const char *job)
{
    struct muster_segment *segment;
    int found;

    if (!before_host(job) || muster_segment_open(job, &segment) != MUSTER_OK)
        return 0;
    found = mu_is_follower(segment);
    muster_segment_close(segment);
    return found;
}

struct part {
    const char *job;
    unsigned long host; /* the least; ULONG_MAX: none */
    int is_live;
    char name[208];
};

static int see_part(void *arg, const struct muster_segment_row *row)
{
    struct part *part = arg;
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
    struct part part = {.host = ULONG_MAX};
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
    struct part part = {.job = job, .host = ULONG_MAX};
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

/* ---- which job ------------------------------------------------------------------------------------------------ */

struct candidates {
    unsigned sound, live;
    char last_sound[208], last_live[208], names[256];
};

static int see(void *arg, const struct muster_segment_row *row)
{
    struct candidates *found = arg;
    size_t len = strlen(found->names);

    if (row->problem || another_shows(row->job))
        return 0;
    found->sound++;
    snprintf(found->last_sound, sizeof found->last_sound, "%s", row->job);
    if (row->slots_live > 0) {
        found->live++;
        snprintf(found->last_live, sizeof found->last_live, "%s", row->job);
    }
    snprintf(found->names + len, sizeof found->names - len, "%s%s", len ? ", " : "", row->job);
    return 0;
}

int mu_cli_no_job_name(const struct mu_cli_call *call, const char *job)
{
    static const char what[] = "is no job name: 1 to 200 of A-Z a-z 0-9 . _ -, not beginning with '.'";

    if (job == call->values[MU_OPT_JOB] && (call->count == 0 || job != call->operands[0]))
        return mu_cli_wrong(call, MU_OPT_JOB, job, "%s", what);
    return mu_cli_usage(call, "'%.60s%s' %s", job, strlen(job) > 60 ? "..." : "", what);
}

int mu_cli_pick_job(struct mu_cli_call *call, char *ret_job, size_t size)
{
    const char *job = call->values[MU_OPT_JOB], *from_env = getenv("MUSTER_JOB");
    struct candidates found = {.sound = 0};
    enum muster_status status;

    if (!job && from_env && *from_env)
        job = from_env;
    if (job) {
        if (!strchr(job, '/') && strncmp(job, "fd:", 3) != 0 && !mu_cli_valid_job(job))
            return mu_cli_no_job_name(call, job);
        if ((size_t)snprintf(ret_job, size, "%s", job) >= size)
            return mu_cli_usage(call, "the job's path is too long");
        return 0;
    }
    status = muster_segment_list(see, &found);
    if (status != MUSTER_OK)
        return mu_cli_fail(call, status);
    if (found.live == 1 || (found.live == 0 && found.sound == 1)) {
        snprintf(ret_job, size, "%s", found.live ? found.last_live : found.last_sound);
        if (!call->values[MU_OPT_JSON])
            fprintf(stderr, "%s: job %s\n", call->path, ret_job);
        return 0;
    }
    if (found.sound == 0) {
        fprintf(stderr, "%s: this user has no job here\n", call->path);
        return MU_CLI_EXIT_NOT_FOUND;
    }
    return mu_cli_usage(call, "which job? --job NAME, one of: %s", found.names);
}

/* A path is given to the library as $MUSTER_SEGMENT, with the name that stands in the segment as $MUSTER_JOB. */
static enum muster_status name_by_path(char *job, size_t size)
{
    struct muster_segment *segment;
    struct muster_segment_info info;
    enum muster_status status = muster_segment_open(job, &segment);

    if (status != MUSTER_OK)
        return status;
    status = muster_segment_info(segment, &info);
    muster_segment_close(segment);
    if (status != MUSTER_OK)
        return status;
    setenv("MUSTER_SEGMENT", job, 1);
    setenv("MUSTER_JOB", info.job, 1);
    snprintf(job, size, "%s", info.job);
    return MUSTER_OK;
}

int mu_cli_join(struct mu_cli_call *call, uint32_t flags, int32_t task_id, struct muster **ret_muster)
{
    char job[512];
    struct muster_options options;
    enum muster_status status = MUSTER_OK;
    int code = mu_cli_pick_job(call, job, sizeof job);

    if (code)
        return code;
    if (strchr(job, '/') || strncmp(job, "fd:", 3) == 0)
        status = name_by_path(job, sizeof job);
    if (status == MUSTER_OK) {
        muster_options_init(&options);
        options.job = job;
        options.flags = flags | MUSTER_JOIN_NO_CREATE;
        options.task_id = task_id;
        status = muster_join(&options, ret_muster);
        if (status == MUSTER_NOT_FOUND && !strchr(job, '/') && mu_cli_find_part(call, job, sizeof job))
            status = muster_join(&options, ret_muster);
    }
    if (status != MUSTER_OK)
        return mu_cli_fail(call, status);
    interruptible = *ret_muster;
    mu_cli_catch(on_signal);
    return 0;
}

int mu_cli_finish(const struct mu_cli_call *call, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "%s: cannot write: %s\n", call->path, strerror(errno));
    return code ? code : MU_CLI_EXIT_FAILURE;
}

int mu_cli_leave(struct mu_cli_call *call, struct muster *muster, int code)
{
    interruptible = NULL;
    muster_leave(muster);
    return mu_cli_finish(call, code);
}
