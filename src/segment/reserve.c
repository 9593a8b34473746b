/*
 * segment/reserve.c: committing what a launcher has left uncommitted.
 *
 * Most of a new segment's first pages are buckets, cells, events and the chunks of the tasks' records, which a job that
 * never uses muster never touches; to have them and give them back takes a twentieth of the time of a short job. So a
 * launcher commits the header, the slots and the first chunk words alone, and a process that joins, or looks at more
 * than these, has the rest first (I6: no access ever meets a page that the file system lacks). To list segments, to
 * remove one or to ask for its members touches nothing else.
 *
 * Whether it has been done is the file system's to say, by the number of the file's pages: before it nobody else can
 * have added any, for chunks and rings are taken by members. So there is no word to keep true, and a process that dies
 * half-way leaves it to the next.
 */
#include "segment/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "segment/file.h"

static uint64_t first_bytes(const struct muster_segment *seg)
{
    return mu_offset_of(seg, seg->heap) + (uint64_t)seg->num_system_chunks * MU_CHUNK;
}

bool mu_segment_is_committed(const struct muster_segment *seg)
{
    struct stat st;

    /* one that was cut short is others' to find out about */
    return seg->fd < 0 || fstat(seg->fd, &st) || (uint64_t)st.st_size < seg->file_bytes ||
           (uint64_t)st.st_blocks * 512 >= first_bytes(seg);
}

static enum muster_status reserve_failed(const struct muster_segment *seg, const char *what, int error)
{
    char place[MU_PLACE_MAX];

    if (error == ENOSPC || error == ENOMEM) {
        mu_segment_place(seg, place, sizeof place);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "%s is full: no room for the segment of job %s, of which %llu KiB are needed at once "
                       "(free some, or mount it larger)",
                       place, seg->job, (unsigned long long)first_bytes(seg) / 1024);
    }
    return mu_fail(MUSTER_UNAVAILABLE, "cannot %s the segment of job %s, which nobody has joined yet: %s", what,
                   seg->job, strerror(error));
}

enum muster_status mu_segment_commit(struct muster_segment *seg)
{
    char self[64];
    struct statfs fs;
    int fd = seg->fd, error = 0;

    if (mu_segment_is_committed(seg) || fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC)
        return MUSTER_OK; /* another file system: a copy, with holes that cost nothing to read */
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (!seg->writable && (fd = open(self, O_RDWR | O_CLOEXEC)) < 0)
        return reserve_failed(seg, "open", errno);
    while (!error && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)first_bytes(seg)))
        error = errno == EINTR ? 0 : errno;
    if (fd != seg->fd)
        close(fd);
    return error ? reserve_failed(seg, "commit", error) : MUSTER_OK;
}
