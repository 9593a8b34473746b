/*
 * checkpoint/part.c: a rank's part of a generation: its file.
 *
 * A file of the rank holds one generation of two. It is written under an exclusive lock (flock) and viewed under a
 * shared one, both the kernel's: they go with the process that has them. A writer that finds the file viewed leaves it
 * to the viewers, without a name, and makes another: so a view stays as it is, and no save waits for a reader, stopped
 * or not. While a part is written it says that it is torn. It is found by its name alone, and a reader looks behind
 * its lock which generation it is: one that has lost its name since stays what it was.
 */
#include "checkpoint/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "segment/file.h"

void mu_checkpoint_file_close(struct mu_checkpoint_file *file)
{
    if (file->base)
        munmap(file->base, file->bytes);
    if (file->fd >= 0) {
        flock(file->fd, LOCK_UN); /* a forked child may have the descriptor still */
        close(file->fd);
    }
    *file = (struct mu_checkpoint_file){.fd = -1};
}

static bool is_named(int fd, const char *path)
{
    struct stat mine, named;

    return !fstat(fd, &mine) && !lstat(path, &named) && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/* Ours alone, by its name: the one that we have, or another. 0, or an errno. */
static int file_lock(struct mu_checkpoint_file *file, const char *path)
{
    for (int tries = 0; tries < 100; tries++) {
        if (file->fd < 0)
            file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file->fd < 0)
            return errno;
        if (flock(file->fd, LOCK_EX | LOCK_NB) == 0 && is_named(file->fd, path))
            return 0;
        if (is_named(file->fd, path)) /* viewed: it is theirs */
            unlink(path);
        mu_checkpoint_file_close(file);
    }
    return EBUSY;
}

/* Pages for all of it. In pieces: in Linux 6.1 a signal undoes the call under way, and a profiler sends many. */
static int pages_take(int fd, size_t from, size_t to)
{
    size_t piece = 64 << 20;

    while (from < to) {
        size_t len = to - from < piece ? to - from : piece;

        if (fallocate(fd, 0, (off_t)from, (off_t)len) == 0)
            from += len;
        else if (errno != EINTR)
            return errno;
        else if (piece > 16 * MU_CHECKPOINT_PAGE)
            piece /= 2;
    }
    return 0;
}

/* Pages for so many bytes, mapped, without a fault to come. 0, or an errno. */
static int file_fill(struct mu_checkpoint_file *file, size_t bytes)
{
    struct stat st;
    void *base;
    int rc = 0;

    if (fstat(file->fd, &st))
        return errno;
    if (!mu_process_may_have(bytes))
        return EFBIG;
    if (bytes > file->committed || (uint64_t)st.st_size < bytes)
        rc = pages_take(file->fd, (uint64_t)st.st_size < bytes ? (size_t)st.st_size : 0, bytes);
    if (rc)
        return rc;
    file->committed = bytes > file->committed ? bytes : file->committed;
    if (file->base && file->bytes >= bytes)
        return 0;
    if (file->base)
        munmap(file->base, file->bytes);
    file->base = NULL;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file->fd, 0);
    if (base == MAP_FAILED)
        return errno;
    madvise(base, bytes, MADV_DONTFORK); /* refused: a child's calls are refused all the same */
    madvise(base, bytes, MADV_DONTDUMP);
    file->base = base;
    file->bytes = bytes;
    return 0;
}

/* From here on the part is no generation's. */
static void part_tear(int fd)
{
    static const uint64_t none = 0;
    struct stat st;

    if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(struct mu_checkpoint_part) &&
        pwrite(fd, &none, sizeof none, offsetof(struct mu_checkpoint_part, generation)) < 0)
        return; /* written in memory, where there is a page: it cannot fail */
}

enum muster_status mu_checkpoint_part_write(struct muster_checkpoint *cp, uint64_t generation, size_t bytes)
{
    struct mu_checkpoint_file *file = &cp->files[generation & 1];
    size_t whole = (bytes + MU_CHECKPOINT_PAGE - 1) / MU_CHECKPOINT_PAGE * MU_CHECKPOINT_PAGE;
    char path[MU_CHECKPOINT_PATH_MAX];
    int rc;

    mu_checkpoint_part_path(cp->folder, cp->name, cp->ranks, (uint32_t)cp->rank, generation, path, sizeof path);
    rc = file_lock(file, path);
    if (!rc) {
        part_tear(file->fd);
        rc = file_fill(file, whole);
    }
    if (!rc)
        return MUSTER_OK;
    mu_checkpoint_file_close(file);
    if (rc == ENOSPC || rc == ENOMEM || rc == EFBIG || rc == EDQUOT)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "no room in %s for %zu bytes of checkpoint %s of task %d, which needs two such parts: %s",
                       mu_segment_folder(), bytes, cp->name, cp->rank, strerror(rc));
    return mu_fail(MUSTER_UNAVAILABLE, "cannot write %s: %s", path, strerror(rc));
}

/* ---- reading ---- */

static bool is_row_sound(const struct mu_checkpoint_part *p, const struct mu_checkpoint_tensor_row *row,
                         const char *names)
{
    return row->num_dims <= MUSTER_CHECKPOINT_DIMS_MAX && memchr(row->dtype, 0, sizeof row->dtype) &&
           row->name < p->names && memchr(names + row->name, 0, p->names - row->name) && row->at >= p->data &&
           row->at <= p->bytes && row->len <= p->bytes - row->at && row->at % MU_CHECKPOINT_ALIGN == 0;
}

bool mu_checkpoint_part_is_sound(const uint8_t *base, size_t bytes, struct mu_checkpoint_part *ret_part)
{
    const struct mu_checkpoint_tensor_row *rows = (const void *)(base + sizeof *ret_part);
    struct mu_checkpoint_part *p = ret_part;
    uint64_t table;

    if (bytes < sizeof *p)
        return false;
    memcpy(p, base, sizeof *p);
    if (p->magic != MU_CHECKPOINT_PART_MAGIC || p->bytes > bytes || p->count > MUSTER_CHECKPOINT_TENSORS_MAX)
        return false;
    table = sizeof *p + (uint64_t)p->count * sizeof *rows;
    if (p->data > p->bytes || p->data < table || p->data - table < p->names)
        return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (!is_row_sound(p, &rows[i], (const char *)base + table))
            return false;
    return true;
}
