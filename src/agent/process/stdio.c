/*
 * agent/process/stdio.c: what a task's 0, 1 and 2 are: the launcher's own, a file, or one end of a relay or feed.
 */
#include "agent/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mu_agent_set_input(struct mu_agent *agent, uint32_t task_id, int stdio[3])
{
    int32_t to = agent->options->stdin_to;

    stdio[0] = agent->launching.null_fd;
    if (to == (int32_t)task_id)
        stdio[0] = -1;
    else if (to == MU_AGENT_STDIN_ALL && agent->launching.feed && agent->tasks[task_id].restarts == 0)
        return mu_launch_feed_add(agent->launching.feed, &stdio[0]);
    return 0;
}

/* The output file of one stream, -1 with the reason said. */
static int open_file(struct mu_agent *agent, uint32_t task_id, int out)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    char host[256], *path;
    int fd;

    mu_agent_own_name(agent->options->hosts, host, sizeof host);
    path = mu_launch_files_path(agent->options->output,
                                &(struct mu_launch_file){agent->title, host, task_id, task->attempt, out});
    fd = path ? mu_launch_files_open(path) : -1;
    if (fd < 0) {
        mu_agent_say("cannot write %s: %s", path ? path : "the output", strerror(errno));
        agent->spawn_status = MU_AGENT_EXIT_FAILED;
    }
    free(task->err_path);
    task->err_path = path;
    return fd;
}

static void say_no_relay(const struct mu_agent *agent, uint32_t task_id)
{
    mu_agent_say("cannot relay the output of task %u: %s%s", task_id, strerror(errno),
                 !agent->options->pty ? ""
                 : errno == ENOSPC    ? " (there are so many terminals: see /proc/sys/kernel/pty/max)"
                                      : " (--pty takes a /dev/ptmx, and a /dev/pts)");
}

int mu_agent_set_output(struct mu_agent *agent, uint32_t task_id, int stdio[3])
{
    const char *template = agent->options->output;
    struct mu_agent_launching *with = &agent->launching;
    int files[2] = {-1, -1}, is_relayed = agent->options->label || agent->options->pty;

    if (template) {
        if ((files[0] = open_file(agent, task_id, 1)) < 0)
            return -1;
        if (!with->catch_both)
            files[1] = mu_launch_files_are_apart(template) ? open_file(agent, task_id, 2)
                                                           : fcntl(files[0], F_DUPFD_CLOEXEC, 3);
        if (!with->catch_both && files[1] < 0) {
            close(files[0]);
            return -1;
        }
    }
    if (with->catch_both) {
        if (mu_launch_output_add(with->output, task_id, 2, files[0], &stdio[2]) == 0 &&
            (stdio[1] = fcntl(stdio[2], F_DUPFD_CLOEXEC, 3)) >= 0)
            return 0;
        say_no_relay(agent, task_id);
        if (stdio[2] < 0 && files[0] >= 0)
            close(files[0]);
        return -1;
    }
    for (int out = 1; out <= 2; out++) {
        if (!is_relayed && !(with->catch_err && out == 2)) {
            stdio[out] = files[out - 1];
        } else if (mu_launch_output_add(with->output, task_id, out, files[out - 1], &stdio[out])) {
            say_no_relay(agent, task_id);
            for (; out <= 2; out++)
                if (files[out - 1] >= 0)
                    close(files[out - 1]);
            return -1;
        }
    }
    return 0;
}
