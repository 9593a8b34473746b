/*
 * cli/status/watch.c: looking again and again, until a signal or the job's end.
 *
 * The mapping outlives the job: a watcher must ask whether the name still leads to it.
 */
#include "cli/status/watch.h"

#include <poll.h>
#include <sys/stat.h>
#include <stdbool.h>
#include <time.h>

#include "segment/file.h"

void mu_cli_watch_begin(sigset_t *ret_mask)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    sigset_t held;

    sigemptyset(&held);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&held, numbers[i]);
    sigprocmask(SIG_BLOCK, &held, ret_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigdelset(ret_mask, numbers[i]);
}

int mu_cli_watch_pause(const sigset_t *mask, uint64_t deadline_ns, int fd)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};
    uint64_t now = muster_now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    return ppoll(&in, fd >= 0, &timeout, mask) > 0;
}

bool mu_cli_watch_is_whole(struct muster *muster)
{
    return mu_segment_is_whole(muster_segment_of(muster));
}

bool mu_cli_watch_is_over(struct muster *muster)
{
    struct muster_segment *segment = muster_segment_of(muster);
    struct stat file, name;

    if (!mu_segment_is_whole(segment) || mu_segment_is_closed(segment))
        return 1;
    if (segment->path[0] != '/')
        return 0; /* a memfd has no name to lose */
    return fstat(segment->fd, &file) == 0 &&
           (stat(segment->path, &name) != 0 || name.st_ino != file.st_ino || name.st_dev != file.st_dev);
}

int mu_cli_watch_interval(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_ns)
{
    int code;

    if (!call->values[id] || !call->values[id][0])
        return 0;
    code = mu_cli_duration(call, id, ret_ns);
    if (!code && *ret_ns < MU_CLI_WATCH_MIN_NS)
        return mu_cli_wrong(call, id, call->values[id], "is too often: 20ms is the least");
    return code;
}
