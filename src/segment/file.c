/*
 * segment/file.c: segments as files: names, creation, opening; their removal by others is in remove.c.
 *
 * A segment is built whole without a name (O_TMPFILE) and then linked: nobody ever sees a half-made one, and of two
 * creators the kernel lets one link. A name is unlinked only under flock() of the very inode that has it, so that a
 * left-over can be replaced without ever removing a successor; the lock goes with its holder's death.
 */
#include "segment/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/format.h"

const char *mu_segment_folder(void)
{
    const char *d = getenv("MUSTER_SHM_DIR");

    return d && *d ? d : "/dev/shm";
}

void mu_segment_place(const struct muster_segment *seg, char *place, size_t size)
{
    char self[64], *end;
    ssize_t n;

    snprintf(self, sizeof self, "/proc/self/fd/%d", seg->fd);
    n = readlink(self, place, size - 1);
    place[n > 0 ? n : 0] = 0;
    end = strrchr(place, '/');
    if (!strncmp(place, "/memfd:", 7))
        snprintf(place, size, "memory");
    else if (end && end > place)
        *end = 0;
    else
        snprintf(place, size, "%s", mu_segment_folder());
}

void mu_segment_path(const char *job, char *path, size_t size)
{
    snprintf(path, size, "%s/muster-%u-%s", mu_segment_folder(), (unsigned)geteuid(), job);
}

/*
 * The owner that a file must have: under a job's name ourselves, else it is squatted; a path or descriptor that was
 * given is root's to use, whichever user owns it.
 */
enum whose { OURS, ROOT_MAY };

/* Map a checked file. Takes the descriptor over, also when it fails. `path` may be NULL: that of the job's name.
 * `made`: what we have just written there; NULL: another may have. */
static enum muster_status file_map(int fd, bool writable, const char *name, const char *path, enum whose whose,
                                   const struct mu_header *made, struct muster_segment **ret_segment)
{
    struct muster_segment *seg = calloc(1, sizeof *seg);
    struct mu_header h;
    struct stat st;
    enum muster_status status = MUSTER_OK;
    char words[160];
    uint64_t time;
    ssize_t n;

    if (!seg) {
        close(fd);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to open %s", name);
    }
    if (made) {
        seg->maker = made->creator_pid;
        seg->maker_start = made->creator_start;
        seg->maker_namespace = made->pid_namespace;
    }
    /* read, not mapped: a truncated file gives a short read instead of a signal */
    n = pread(fd, &h, sizeof h, 0);
    if (fstat(fd, &st) || n < 0)
        status = mu_fail(MUSTER_DATA_LOSS, "cannot read %s: %s", name, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = mu_fail(MUSTER_DATA_LOSS, "%s is not a regular file", name);
    else if (st.st_uid != geteuid() && (whose == OURS || geteuid() != 0))
        status = mu_fail(MUSTER_PERMISSION_DENIED, "%s belongs to user %u, not to user %u", name, (unsigned)st.st_uid,
                         (unsigned)geteuid());
    else if (n < (ssize_t)sizeof h)
        status = mu_fail(MUSTER_DATA_LOSS, "%s is truncated: %zd bytes are too few for a header", name, n);
    else
        status = mu_format_check(&h, (uint64_t)st.st_size, name, seg);
    if (!status && !made && writable && h.time_namespace && (time = mu_namespace("time")) != 0 &&
        h.time_namespace != time)
        status = mu_fail(MUSTER_FAILED_PRECONDITION,
                         "%s was made in another time namespace: its deadlines mean other instants here", name);
    if (!status) {
        seg->base = mmap(NULL, seg->size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
        if (seg->base == MAP_FAILED)
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot map %s (%" PRIu64 " bytes): %s", name, seg->size,
                             mu_process_map_words(errno, words, sizeof words));
    }
    if (status) {
        close(fd);
        free(seg);
        return status;
    }
    madvise(seg->base, seg->size, MADV_DONTFORK); /* a child must join anew; refused: the calls check all the same */
    status = mu_format_bind(seg, &h, name);
    if (status) {
        munmap(seg->base, seg->size);
        close(fd);
        free(seg);
        return status;
    }
    seg->fd = fd;
    seg->writable = writable;
    seg->users = 1;
    if (h.flags & MU_FLAG_MEMFD)
        seg->path[0] = 0; /* whatever it was reached through */
    else if (path && strlen(path) < sizeof seg->path)
        memcpy(seg->path, path, strlen(path) + 1);
    else
        mu_segment_path(seg->job, seg->path, sizeof seg->path);
    *ret_segment = seg;
    return MUSTER_OK;
}

static enum muster_status open_path(const char *path, bool writable, enum whose whose,
                                    struct muster_segment **ret_segment)
{
    /* a job's name could be squatted with a link; a path is what the caller says, /proc/PID/fd/N for one */
    int follow = whose == OURS ? O_NOFOLLOW : 0;
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | follow);
    struct stat st;

    if (fd >= 0)
        return file_map(fd, writable, path, path, whose, NULL, ret_segment);
    if (errno == ENOENT)
        return mu_fail(MUSTER_NOT_FOUND, "there is no job here with the segment %s", path);
    if (errno == ELOOP)
        return mu_fail(MUSTER_PERMISSION_DENIED, "%s is a symbolic link: somebody squats the name", path);
    if ((errno == EACCES || errno == EPERM) && !lstat(path, &st))
        return mu_fail(MUSTER_PERMISSION_DENIED, "%s belongs to user %u: %s", path, (unsigned)st.st_uid,
                       strerror(errno));
    return mu_fail(MUSTER_UNAVAILABLE, "cannot open %s: %s", path, strerror(errno));
}

enum muster_status mu_segment_open(const char *name, bool writable, struct muster_segment **ret_segment)
{
    char path[512];
    enum muster_status status;

    if (name && !strncmp(name, "fd:", 3)) {
        char *end;
        long n = strtol(name + 3, &end, 10);
        int fd = *end || end == name + 3 || n < 0 || n > 1 << 20 ? -1 : fcntl((int)n, F_DUPFD_CLOEXEC, 3);

        if (fd < 0)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is not an open descriptor of a segment", name);
        return file_map(fd, writable, name, NULL, ROOT_MAY, NULL, ret_segment);
    }
    if (name && strchr(name, '/'))
        return open_path(name, writable, ROOT_MAY, ret_segment);
    status = mu_format_job(name);
    if (status)
        return status;
    mu_segment_path(name, path, sizeof path);
    return open_path(path, writable, OURS, ret_segment);
}

enum muster_status muster_segment_open(const char *job, struct muster_segment **ret_segment)
{
    return mu_segment_open(job, false, ret_segment);
}

bool mu_segment_unlink_file(int fd, const char *path)
{
    struct stat mine, named;
    uint64_t deadline = mu_now() + 1000000000u;
    bool done = false;

    while (flock(fd, LOCK_EX | LOCK_NB)) { /* held for microseconds, unless its holder is stopped */
        struct timespec pause = {.tv_nsec = 1000000};

        if (mu_now() > deadline)
            return false;
        nanosleep(&pause, NULL);
    }
    if (!fstat(fd, &mine) && !lstat(path, &named) && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
        done = unlink(path) == 0;
    flock(fd, LOCK_UN);
    return done;
}

void mu_segment_unlink(struct muster_segment *seg)
{
    if (seg->path[0])
        mu_segment_unlink_file(seg->fd, seg->path);
}

/* Whether there is room for what is left to the first task that joins: twice that, for we may not be the only ones. */
static bool has_room(int fd, const struct mu_header *h)
{
    struct statfs fs;

    return !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC &&
           (fs.f_blocks == 0 || (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= 2 * mu_format_committed(h));
}

/* A file without a name, filled in, its first pages committed: `late`, if it may be, those that are written here. */
static int file_build(const struct mu_header *h, const struct mu_hosts_config *hosts, bool late, const char *job)
{
    bool memfd = h->flags & MU_FLAG_MEMFD;
    int fd = memfd ? memfd_create(job, MFD_CLOEXEC | MFD_ALLOW_SEALING)
                   : open(mu_segment_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    uint64_t bytes = mu_format_committed(h), written = 0;
    uint8_t *base = MAP_FAILED;
    int rc = 0;

    if (fd < 0)
        return -errno;
    if (late && !memfd && !hosts && has_room(fd, h))
        bytes = written = mu_format_written(h);
    if (!mu_process_may_have(h->total_bytes))
        rc = EFBIG;
    else if (ftruncate(fd, (off_t)h->total_bytes))
        rc = errno;
    while (!rc && fallocate(fd, 0, 0, (off_t)bytes))
        if (errno != EINTR)
            rc = errno == ENOMEM ? ENOSPC : errno; /* of memory; ENOMEM is left for addresses */
    if (!rc) {
        /* filled at once: `written` bytes are all written, by one fault each otherwise */
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (written ? MAP_POPULATE : 0), fd, 0);
        rc = base == MAP_FAILED ? errno : 0;
    }
    if (!rc) {
        mu_format_write(base, h);
        if (hosts)
            mu_format_write_hosts(base, h, hosts);
        munmap(base, bytes);
        if (memfd && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
            rc = errno;
    }
    if (rc) {
        close(fd);
        return -rc;
    }
    return fd;
}

static enum muster_status build_failed(int rc, const struct mu_header *h)
{
    char words[160];

    if (rc == EFBIG)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "no file may be as large as the segment (%" PRIu64
                       " KiB, sparse): raise the limit ('ulimit -f'), "
                       "or make the heap, or the room for objects, smaller (--heap, --objects)",
                       h->total_bytes / 1024);
    if (rc == ENOMEM)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot map a new segment: %s",
                       mu_process_map_words(rc, words, sizeof words));
    if (rc == ENOSPC)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "%s has no room for a segment (%" PRIu64 " KiB are needed at once): free some, mount it larger, "
                       "or use a memfd",
                       mu_segment_folder(), mu_format_committed(h) / 1024);
    return mu_fail(rc == EACCES || rc == EPERM ? MUSTER_PERMISSION_DENIED : MUSTER_UNAVAILABLE,
                   "cannot create a segment in %s: %s", mu_segment_folder(), strerror(rc));
}

/* What holds the name is no segment of ours: what its holder, or we, can do. `status` is what its opening has said. */
static enum muster_status say_in_the_way(const char *path, enum muster_status status)
{
    char why[512];
    struct stat st;
    bool is_there = lstat(path, &st) == 0;

    snprintf(why, sizeof why, "%s", muster_last_error());
    if (is_there && st.st_uid != geteuid() && geteuid() != 0)
        return mu_fail(status, "%s; choose another job name: only user %u or root can free this one", why,
                       (unsigned)st.st_uid);
    if (is_there && (st.st_uid != geteuid() || !S_ISREG(st.st_mode)))
        return mu_fail(status, "%s; remove that yourself, or choose another job name", why);
    if (status != MUSTER_DATA_LOSS && status != MUSTER_FAILED_PRECONDITION)
        return mu_fail(status, "%s", why);
    return mu_fail(MUSTER_ALREADY_EXISTS, "%s (remove it with 'muster segment rm')", why);
}

/* The name is taken: by a live job, by a left-over that we may replace (MUSTER_OK: try again), or by something else. */
static enum muster_status name_taken(const char *path)
{
    struct muster_segment *old;
    enum muster_status status = open_path(path, false, OURS, &old);

    if (status == MUSTER_NOT_FOUND)
        return MUSTER_OK;
    if (status)
        return say_in_the_way(path, status);
    if (mu_segment_is_stale(old)) {
        mu_segment_unlink(old);
        muster_segment_close(old);
        return MUSTER_OK;
    }
    status = mu_fail(MUSTER_ALREADY_EXISTS, "job %s is running here already: pid %u holds its name", old->job,
                     mu_segment_holder(old));
    muster_segment_close(old);
    return status;
}

enum muster_status muster_segment_create(const char *job, const struct muster_segment_config *config,
                                         struct muster_segment **ret_segment)
{
    return mu_segment_create(job, config, MU_SEGMENT_KEPT, ret_segment);
}

enum muster_status mu_segment_create(const char *job, const struct muster_segment_config *config, unsigned how,
                                     struct muster_segment **ret_segment)
{
    return mu_segment_create_hosts(job, config, NULL, how, ret_segment);
}

/* By default the arena is as large as the machine's memory, for it is address space alone; where no file may be as
 * large there is none. The file, or -1. */
static int segment_build(const char *job, struct muster_segment_config *c, const struct mu_hosts_config *hosts,
                         unsigned how, struct mu_header *h, enum muster_status *ret_status)
{
    bool by_default = !c->object_bytes;
    int fd = -EFBIG;

    if (by_default)
        c->object_bytes = mu_format_object_bytes();
    for (int tries = by_default ? 2 : 1; fd == -EFBIG && tries; tries--) {
        *ret_status = mu_format_plan_hosts(job, c, hosts, h);
        if (*ret_status)
            return -1;
        h->flags |= how & MU_SEGMENT_KEPT ? MU_FLAG_KEPT : 0;
        fd = file_build(h, hosts, how & MU_SEGMENT_LATE, job);
        c->object_bytes = 0;
    }
    if (fd < 0)
        *ret_status = build_failed(-fd, h);
    return fd;
}

enum muster_status mu_segment_make(const char *job, const struct muster_segment_config *config,
                                   const struct mu_hosts_config *hosts, unsigned how,
                                   struct muster_segment **ret_segment)
{
    struct muster_segment_config c = config ? *config : (struct muster_segment_config){0};
    struct mu_header h;
    char path[512];
    enum muster_status status;
    int fd = segment_build(job, &c, hosts, how, &h, &status);

    if (fd < 0)
        return status;
    mu_segment_path(job, path, sizeof path);
    return file_map(fd, true, c.memfd ? "memfd" : path, c.memfd ? NULL : path, OURS, &h, ret_segment);
}

enum muster_status mu_segment_name(struct muster_segment *seg)
{
    enum muster_status status = MUSTER_OK;
    char self[64];

    snprintf(self, sizeof self, "/proc/self/fd/%d", seg->fd);
    for (int tries = 0; seg->path[0] && linkat(AT_FDCWD, self, AT_FDCWD, seg->path, AT_SYMLINK_FOLLOW); tries++) {
        if (errno == ENOENT && access("/proc/self/fd", F_OK))
            status = mu_fail(MUSTER_UNAVAILABLE,
                             "cannot name the segment %s: /proc is not here: mount it ('mount -t proc proc /proc'), or "
                             "use a memfd (--memfd)",
                             seg->path);
        else if (errno != EEXIST)
            status = mu_fail(MUSTER_UNAVAILABLE, "cannot name the segment %s: %s", seg->path, strerror(errno));
        else if (tries > 100)
            status = mu_fail(MUSTER_UNAVAILABLE, "%s cannot be replaced: another process holds it", seg->path);
        else
            status = name_taken(seg->path);
        if (status)
            return status;
    }
    return MUSTER_OK; /* nothing can fail once it has a name */
}

enum muster_status mu_segment_create_hosts(const char *job, const struct muster_segment_config *config,
                                           const struct mu_hosts_config *hosts, unsigned how,
                                           struct muster_segment **ret_segment)
{
    struct muster_segment *seg;
    enum muster_status status = mu_segment_make(job, config, hosts, how, &seg);

    if (status)
        return status;
    status = mu_segment_name(seg);
    if (status)
        muster_segment_close(seg);
    else
        *ret_segment = seg;
    return status;
}

enum muster_status muster_segment_info(struct muster_segment *segment, struct muster_segment_info *ret_info)
{
    struct muster_segment_info *i = ret_info;
    const struct mu_header *h = segment->header;
    struct stat st;

    memset(i, 0, sizeof *i);
    snprintf(i->job, sizeof i->job, "%s", segment->job);
    snprintf(i->path, sizeof i->path, "%s", segment->path);
    memcpy(i->run_id, h->run_id, sizeof i->run_id);
    i->creator_pid = h->creator_pid;
    i->uid = h->uid;
    i->created_unix_ns = h->created_unix_ns;
    i->size_bytes = segment->size;
    i->object_bytes = (uint64_t)segment->num_units * MU_UNIT;
    if (!fstat(segment->fd, &st))
        i->committed_bytes = (uint64_t)st.st_blocks * 512;
    i->num_tasks = segment->num_tasks;
    i->num_slots = segment->num_slots - segment->reserved_slots;
    i->num_buckets = segment->num_buckets;
    i->num_events = segment->num_events;
    i->slots_live = mu_segment_live_slots(segment);
    i->closed = mu_segment_is_closed(segment);
    i->trace_events = segment->trace_events;
    return MUSTER_OK;
}

enum muster_status muster_segment_list(int (*visit)(void *arg, const struct muster_segment_row *row), void *arg)
{
    char prefix[32], path[512], problem[512];
    DIR *d = opendir(mu_segment_folder());
    struct dirent *e;
    int stop = 0;

    if (!d)
        return mu_fail(MUSTER_UNAVAILABLE, "cannot list %s: %s", mu_segment_folder(), strerror(errno));
    snprintf(prefix, sizeof prefix, "muster-%u-", (unsigned)geteuid());
    while (!stop && (e = readdir(d))) {
        struct muster_segment_row row = {0};
        struct muster_segment_info info;
        struct muster_segment *seg;

        if (strncmp(e->d_name, prefix, strlen(prefix)))
            continue;
        snprintf(path, sizeof path, "%s/%s", mu_segment_folder(), e->d_name);
        row.job = e->d_name + strlen(prefix);
        row.path = path;
        if (open_path(path, false, OURS, &seg)) {
            snprintf(problem, sizeof problem, "%s", muster_last_error());
            row.problem = problem;
            stop = visit(arg, &row);
            continue;
        }
        muster_segment_info(seg, &info);
        row.size_bytes = info.size_bytes;
        row.committed_bytes = info.committed_bytes;
        row.creator_pid = info.creator_pid;
        row.slots_live = info.slots_live;
        if (mu_segment_is_stale(seg))
            row.problem = "left over: nobody uses it any more";
        stop = visit(arg, &row);
        muster_segment_close(seg);
    }
    closedir(d);
    return MUSTER_OK;
}
