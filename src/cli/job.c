/*
 * cli/job.c: reaching a job from outside, and leaving it again.
 *
 * Which one is said by cli/words/which.c. Inside a job's task $MUSTER_SEGMENT says where the segment is; the library
 * sets that aside when the job is another. A wait is ended by SIGINT, SIGTERM or SIGHUP through muster_interrupt(), so
 * that the handle is always given back.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct muster *volatile interruptible; /* the handle that a signal interrupts */
static volatile sig_atomic_t interrupted;

static void on_job_signal(int number)
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
    if (status == MUSTER_NOT_FOUND)
        return mu_cli_no_job(call, job);
    if (status != MUSTER_OK)
        return mu_cli_fail(call, status);
    interruptible = *ret_muster;
    mu_cli_catch(on_job_signal);
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
