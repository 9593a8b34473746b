/*
 * segment/remove.c: segments that are removed by others than their users.
 *
 * Of what is no sound segment, one that was cut short for example, only the name can be removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/file.h"

static int open_name(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

enum muster_status muster_segment_remove(const char *job)
{
    struct muster_segment *seg;
    char path[512], why[512];
    enum muster_status status = mu_segment_open(job, true, &seg);
    int fd;

    if (!status) {
        mu_segment_mark_closed(seg, MU_REMOVED);
        mu_segment_unlink(seg);
        muster_segment_close(seg);
        return MUSTER_OK;
    }
    if (status != MUSTER_DATA_LOSS && status != MUSTER_FAILED_PRECONDITION)
        return status;
    if (strchr(job, '/'))
        snprintf(path, sizeof path, "%s", job);
    else
        mu_segment_path(job, path, sizeof path);
    snprintf(why, sizeof why, "%s", muster_last_error());
    fd = open_name(path);
    if (fd < 0 || !mu_segment_unlink_file(fd, path))
        status = mu_fail(status, "%s; and it cannot be removed: %s", why, strerror(errno));
    else
        status = MUSTER_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

bool mu_segment_remove_exactly(const char *job, dev_t device, ino_t file)
{
    struct muster_segment *seg;
    char path[512], self[64];
    struct stat st;
    bool done = false;
    int fd;

    mu_segment_path(job, path, sizeof path);
    fd = open_name(path);
    if (fd >= 0 && !fstat(fd, &st) && st.st_dev == device && st.st_ino == file) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        if (mu_segment_open(self, true, &seg) == MUSTER_OK) {
            mu_segment_mark_closed(seg, MU_CLOSED);
            muster_segment_close(seg);
        }
        done = mu_segment_unlink_file(fd, path);
    }
    if (fd >= 0)
        close(fd);
    return done;
}
