/*
 * agent/checkpoint/disk.c: the folder on the disk: opening and claiming it, what lies in it, copying bytes.
 *
 * All is done by the folder's descriptor, so a path that comes to mean another folder, because a file system was
 * unmounted, is noticed and not written to.
 */
#include "agent/checkpoint/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <muster/status.h>

#define CLAIM_NS   2000000000ull /* a launcher that was killed a moment ago may not have let go yet */
#define CLAIM_MS   20
#define PROBE      ".probe@1.new" /* is_leftover() */
#define PIECE      (1u << 20)
#define SYNC_PIECE (8u << 20) /* at most two of these are on their way to the disk at a time */

/* ---- the folder ---- */

int mu_disk_open(struct mu_disk *disk, const char *path, bool make, char why[MU_DISK_WHY])
{
    struct stat st;
    char *absolute;

    *disk = (struct mu_disk){.fd = -1};
    if (make && mkdir(path, 0777) && errno != EEXIST) {
        snprintf(why, MU_DISK_WHY, "cannot make the folder %.200s: %s", path, strerror(errno));
        return -1;
    }
    disk->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    absolute = disk->fd < 0 ? NULL : realpath(path, NULL);
    if (!absolute || strlen(absolute) >= sizeof disk->path || fstat(disk->fd, &st)) {
        snprintf(why, MU_DISK_WHY, "cannot open the folder %.200s: %s", path,
                 strerror(absolute && errno == 0 ? ENAMETOOLONG : errno));
        free(absolute);
        mu_disk_close(disk);
        return -1;
    }
    snprintf(disk->path, sizeof disk->path, "%s", absolute);
    free(absolute);
    disk->device = st.st_dev;
    disk->inode = st.st_ino;
    return 0;
}

void mu_disk_close(struct mu_disk *disk)
{
    if (disk->fd >= 0) {
        flock(disk->fd, LOCK_UN); /* a child that is being started may have the descriptor */
        close(disk->fd);
    }
    disk->fd = -1;
}

int mu_disk_check(const struct mu_disk *disk, char why[MU_DISK_WHY])
{
    struct stat st;

    if (stat(disk->path, &st)) {
        snprintf(why, MU_DISK_WHY, "the folder has gone: %s", strerror(errno));
        return -1;
    }
    if (st.st_dev == disk->device && st.st_ino == disk->inode)
        return 0;
    snprintf(why, MU_DISK_WHY, "it is another folder than at the job's start (is its file system still mounted?)");
    return -1;
}

/* A name of a generation, or with a dot before and `behind` at the end. */
static bool entry_parse(const char *file, const char *behind, struct mu_disk_entry *ret_entry)
{
    const char *at = strrchr(file, '@'), *digits = at ? at + 1 : "";
    size_t len = strspn(digits, "0123456789");

    if (!at || at == file || at - file > (ptrdiff_t)MUSTER_CHECKPOINT_NAME_MAX || len == 0 || len > 15 ||
        digits[0] == '0' || strcmp(digits + len, behind) != 0)
        return false;
    *ret_entry = (struct mu_disk_entry){.generation = strtoull(digits, NULL, 10)};
    memcpy(ret_entry->name, file, (size_t)(at - file));
    return true;
}

static bool is_leftover(const char *file)
{
    struct mu_disk_entry entry;

    return file[0] == '.' && (entry_parse(file + 1, ".new", &entry) || entry_parse(file + 1, ".old", &entry));
}

static DIR *folder_read(const struct mu_disk *disk)
{
    int fd = openat(disk->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !d)
        close(fd);
    return d;
}

static void leftovers_remove(const struct mu_disk *disk)
{
    DIR *d = folder_read(disk);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (is_leftover(e->d_name))
            mu_disk_remove_folder(disk, e->d_name);
    if (d)
        closedir(d);
}

int mu_disk_claim(const struct mu_disk *disk, char why[MU_DISK_WHY])
{
    uint64_t until = muster_after_ns(CLAIM_NS);

    while (flock(disk->fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
        if (muster_now_ns() >= until) {
            snprintf(why, MU_DISK_WHY, "another job writes its checkpoints there: each needs a folder of its own");
            return -1;
        }
        poll(NULL, 0, CLAIM_MS);
    }
    leftovers_remove(disk);
    if (mkdirat(disk->fd, PROBE, 0777) || unlinkat(disk->fd, PROBE, AT_REMOVEDIR)) {
        snprintf(why, MU_DISK_WHY, "it cannot be written to: %s", strerror(errno));
        return -1;
    }
    return 0;
}

/* ---- what lies in it ---- */

static int entries_compare(const void *a, const void *b)
{
    const struct mu_disk_entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->generation < y->generation) - (x->generation > y->generation);
}

int mu_disk_list(const struct mu_disk *disk, struct mu_disk_entry **ret_entries, size_t *ret_count)
{
    struct mu_disk_entry entry, *list = NULL, *more;
    size_t count = 0, room = 0;
    DIR *d = folder_read(disk);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return errno;
    while (!rc && (e = readdir(d))) {
        if (e->d_name[0] == '.' || !entry_parse(e->d_name, "", &entry))
            continue;
        if (count == room) {
            room = room ? 2 * room : 16;
            more = realloc(list, room * sizeof *list);
            rc = more ? 0 : ENOMEM;
            list = more ? more : list;
        }
        if (!rc)
            list[count++] = entry;
    }
    closedir(d);
    if (rc) {
        free(list);
        return rc;
    }
    if (count)
        qsort(list, count, sizeof *list, entries_compare);
    *ret_entries = list;
    *ret_count = count;
    return 0;
}

void mu_disk_entry_path(const char *name, uint64_t generation, const char *before, const char *behind, char path[128])
{
    snprintf(path, 128, "%s%s@%llu%s", before, name, (unsigned long long)generation, behind);
}

int mu_disk_remove_folder(const struct mu_disk *disk, const char *path)
{
    int fd = openat(disk->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        rc = errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0))
            rc = errno;
    closedir(d);
    return unlinkat(disk->fd, path, AT_REMOVEDIR) ? (rc ? rc : errno) : 0;
}

int mu_disk_remove(const struct mu_disk *disk, const char *name, uint64_t generation)
{
    char path[128], old[128];

    mu_disk_entry_path(name, generation, "", "", path);
    mu_disk_entry_path(name, generation, ".", ".old", old);
    mu_disk_remove_folder(disk, old); /* of a removal that failed */
    if (renameat(disk->fd, path, disk->fd, old))
        return errno;
    return mu_disk_remove_folder(disk, old);
}

/* ---- copying ---- */

static ssize_t piece_read(int fd, uint8_t *piece, size_t len, uint64_t at)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, piece + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int piece_write(int fd, const uint8_t *piece, size_t len, uint64_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, piece + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

/* Have the disk take what was written, a piece behind the other, so that little is left for the end. No promise. */
static void piece_push(int fd, uint64_t done)
{
    if (done % SYNC_PIECE)
        return;
    sync_file_range(fd, (off_t)(done - SYNC_PIECE), SYNC_PIECE, SYNC_FILE_RANGE_WRITE);
    if (done > SYNC_PIECE)
        sync_file_range(fd, (off_t)(done - 2 * SYNC_PIECE), SYNC_PIECE,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

enum mu_disk_copied mu_disk_copy(int from, int to, uint64_t bytes, const struct mu_disk_pace *pace, uint32_t *ret_sum)
{
    uint8_t *piece = malloc(PIECE);
    enum mu_disk_copied end = MU_DISK_COPIED;
    uLong sum = crc32(0, NULL, 0);
    uint64_t at = 0;
    int error;

    if (!piece) {
        errno = ENOMEM;
        return MU_DISK_NOT_READ;
    }
    while (at < bytes && end == MU_DISK_COPIED) {
        size_t len = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        ssize_t n = piece_read(from, piece, len, at);

        if (n != (ssize_t)len) {
            errno = n < 0 ? errno : 0;
            end = MU_DISK_NOT_READ;
            break;
        }
        sum = crc32(sum, piece, (uInt)len);
        if (to >= 0 && piece_write(to, piece, len, at)) {
            end = MU_DISK_NOT_WRITTEN;
            break;
        }
        at += len;
        if (to >= 0)
            piece_push(to, at);
        if (pace && !pace->goes_on(pace->arg, len))
            end = MU_DISK_GIVEN_UP;
    }
    error = errno;
    free(piece);
    errno = error;
    *ret_sum = (uint32_t)sum;
    return end;
}
