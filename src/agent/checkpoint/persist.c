/*
 * agent/checkpoint/persist.c: writing a whole generation to a disk.
 *
 * What a SIGKILL leaves, and what a full or failing disk does:
 *
 *   before the rename          a folder with a dot before its name; this writer, or the next job's, removes it
 *   the rename                 one step of the file system: the generation is there or is not
 *   behind it                  a generation that is there, though nobody has said so, and older ones to be removed
 *
 * All bytes are on the disk (fsync of each file, then of their folder) before the rename, and the rename is (fsync of
 * DIR) before the generation is said to be there.
 */
#include "agent/checkpoint/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct persist {
    const struct mu_disk *disk;
    const struct mu_disk_pace *pace;
    char *why;
    int folder; /* that is being written */
    bool held;
    struct mu_disk_generation generation;
    struct mu_checkpoint_source *sources;
};

static enum mu_disk_end persist_fail(struct persist *p, const char *what, int error)
{
    snprintf(p->why, MU_DISK_WHY, "%s: %s", what, strerror(error));
    return MU_DISK_FAILED;
}

/* ---- the parts in memory ---- */

static enum mu_disk_end source_end(struct persist *p, uint32_t rank, int rc)
{
    if (rc == EAGAIN)
        return MU_DISK_OVERWRITTEN;
    snprintf(p->why, MU_DISK_WHY, "the part of rank %u in memory %s", rank,
             rc == ENOENT    ? "is missing"
             : rc == EBADMSG ? "is damaged"
                             : strerror(rc));
    return MU_DISK_FAILED;
}

static void sources_close(struct persist *p)
{
    for (uint32_t i = 0; p->sources && i < p->generation.whole.ranks; i++)
        if (p->sources[i].fd >= 0)
            mu_checkpoint_source_close(&p->sources[i]);
}

/* All of them at once, if their ranks have room for other parts meanwhile. */
static enum mu_disk_end sources_hold(struct persist *p, const char *memory)
{
    const struct mu_checkpoint_whole *whole = &p->generation.whole;
    uint64_t bytes = 0;
    struct statvfs vfs;

    for (uint32_t i = 0; i < whole->ranks; i++) {
        int rc = mu_checkpoint_source_open(memory, whole, i, &p->sources[i]);

        if (rc)
            return source_end(p, i, rc);
        bytes += p->sources[i].bytes;
    }
    if (statvfs(memory, &vfs) == 0 && (uint64_t)vfs.f_bavail * vfs.f_frsize >= bytes)
        return MU_DISK_DONE;
    p->held = false;
    snprintf(p->why, MU_DISK_WHY, "there are no %llu bytes of memory in %s for what the tasks save meanwhile",
             (unsigned long long)bytes, memory);
    sources_close(p);
    return MU_DISK_DONE;
}

/* ---- writing ---- */

/* Written and on the disk; the descriptor is closed. 0, or an errno. */
static int file_end(int fd)
{
    int rc = fsync(fd) ? errno : 0;

    if (!rc)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* the memory is the tasks' */
    return close(fd) && !rc ? errno : rc;
}

static enum mu_disk_end part_copy(struct persist *p, const char *memory, uint32_t rank)
{
    struct mu_checkpoint_source *source = &p->sources[rank];
    struct mu_disk_part *part = &p->generation.parts[rank];
    enum mu_disk_copied copied;
    char file[16], what[64];
    int fd, rc;

    if (!p->held) {
        rc = mu_checkpoint_source_open(memory, &p->generation.whole, rank, source);
        if (rc)
            return source_end(p, rank, rc);
        mu_checkpoint_source_unlock(source);
    }
    snprintf(file, sizeof file, "%u", rank);
    snprintf(what, sizeof what, "the part of rank %u", rank);
    fd = openat(p->folder, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return persist_fail(p, what, errno);
    part->bytes = source->bytes;
    copied = mu_disk_copy(source->fd, fd, source->bytes, p->pace, &part->sum);
    if (copied != MU_DISK_COPIED) {
        rc = errno;
        close(fd);
        return copied == MU_DISK_GIVEN_UP ? MU_DISK_ENDED : persist_fail(p, what, rc ? rc : EIO);
    }
    rc = file_end(fd);
    if (rc)
        return persist_fail(p, what, rc);
    if (!p->held && !mu_checkpoint_source_is_intact(source, &p->generation.whole))
        return MU_DISK_OVERWRITTEN;
    p->generation.whole.step = source->step;
    p->generation.bytes += source->bytes;
    mu_checkpoint_source_close(source);
    return MU_DISK_DONE;
}

static enum mu_disk_end manifest_write(struct persist *p)
{
    size_t len = 0, done = 0;
    char *text;
    int fd, rc = 0;

    p->generation.written = (int64_t)time(NULL);
    text = mu_disk_manifest_text(&p->generation, &len);
    fd = openat(p->folder, "manifest", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 || !text)
        rc = text ? errno : ENOMEM;
    while (!rc && done < len) {
        ssize_t n = write(fd, text + done, len - done);

        rc = n > 0 || (n < 0 && errno == EINTR) ? 0 : n < 0 ? errno : EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    free(text);
    if (!rc)
        rc = file_end(fd);
    else if (fd >= 0)
        close(fd);
    return rc ? persist_fail(p, "its manifest", rc) : MU_DISK_DONE;
}

/* 0, or an errno; a file system that has no such thing has nothing to be done. */
static int folder_sync(int fd)
{
    return fsync(fd) && errno != EINVAL ? errno : 0;
}

/* All is in the folder `new`: give it its name. What has the name is damaged: no sound one is written again. */
static enum mu_disk_end generation_name(struct persist *p, const char *new)
{
    const struct mu_checkpoint_whole *whole = &p->generation.whole;
    char path[128];
    int rc = folder_sync(p->folder);

    if (rc)
        return persist_fail(p, "its folder", rc);
    mu_disk_entry_path(whole->name, whole->generation, "", "", path);
    if (renameat(p->disk->fd, new, p->disk->fd, path) &&
        ((errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) ||
         mu_disk_remove(p->disk, whole->name, whole->generation) || renameat(p->disk->fd, new, p->disk->fd, path)))
        return persist_fail(p, "it cannot be given its name", errno);
    rc = folder_sync(p->disk->fd);
    return rc ? persist_fail(p, "the folder", rc) : MU_DISK_DONE;
}

static enum mu_disk_end persist_run(struct persist *p, const char *memory, const char *new)
{
    enum mu_disk_end end = p->held ? sources_hold(p, memory) : MU_DISK_DONE;

    if (end)
        return end;
    if (mkdirat(p->disk->fd, new, 0777))
        return persist_fail(p, "its folder", errno);
    p->folder = openat(p->disk->fd, new, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (p->folder < 0)
        return persist_fail(p, "its folder", errno);
    for (uint32_t i = 0; i < p->generation.whole.ranks && !end; i++)
        end = part_copy(p, memory, i);
    if (!end)
        end = manifest_write(p);
    return end ? end : generation_name(p, new);
}

enum mu_disk_end mu_disk_write(const struct mu_disk *disk, const char *memory, const struct mu_checkpoint_whole *whole,
                               bool held, const struct mu_disk_pace *pace, uint64_t *ret_bytes, char why[MU_DISK_WHY])
{
    struct persist p = {
        .disk = disk, .pace = pace, .why = why, .folder = -1, .held = held, .generation = {.whole = *whole}};
    enum mu_disk_end end;
    char new[128];

    why[0] = 0;
    if (mu_disk_check(disk, why))
        return MU_DISK_FAILED;
    mu_disk_entry_path(whole->name, whole->generation, ".", ".new", new);
    mu_disk_remove_folder(disk, new); /* of an attempt that failed */
    p.generation.parts = calloc(whole->ranks, sizeof *p.generation.parts);
    p.sources = calloc(whole->ranks, sizeof *p.sources);
    for (uint32_t i = 0; p.sources && i < whole->ranks; i++)
        p.sources[i].fd = -1;
    end = p.sources && p.generation.parts ? persist_run(&p, memory, new) : persist_fail(&p, "its parts", ENOMEM);
    sources_close(&p);
    if (p.folder >= 0)
        close(p.folder);
    if (end)
        mu_disk_remove_folder(disk, new);
    *ret_bytes = p.generation.bytes;
    free(p.sources);
    mu_disk_forget(&p.generation);
    return end;
}

void mu_disk_prune(const struct mu_disk *disk, const char *name, uint64_t generation, uint32_t keep)
{
    struct mu_disk_entry *entries;
    size_t count;
    uint32_t kept = 0;

    if (mu_disk_list(disk, &entries, &count))
        return;
    for (size_t i = 0; i < count; i++) /* one with a greater number is damaged, and will be written anew */
        if (strcmp(entries[i].name, name) == 0 && entries[i].generation <= generation && kept++ >= keep)
            mu_disk_remove(disk, name, entries[i].generation);
    free(entries);
}
