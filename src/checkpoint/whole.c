/*
 * checkpoint/whole.c: whole generations in memory, for processes that are no tasks.
 *
 * A part of a whole generation is final, so one that was found as that generation's, and has not been written over
 * since, is what its rank has saved. A reader either has the viewer's lock all the while, or asks for it again behind
 * its reading: a rank that has begun to write over the part has the other lock, has marked the part as torn, or has
 * made it another generation's. Either way no rank waits for a reader.
 *
 * A generation is put back parts first, then the head, by the same steps as if its ranks had saved it. A SIGKILL
 * between leaves files that no head names, in a folder that goes with the run.
 */
#include "checkpoint/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "checkpoint/private.h"

struct whole_visit {
    const char *folder;
    mu_checkpoint_whole_visit visit;
    void *arg;
    enum muster_status status;
};

static void whole_look(void *arg, const char *name, uint32_t ranks)
{
    struct whole_visit *v = arg;
    struct mu_checkpoint_whole whole = {.ranks = ranks};
    struct mu_checkpoint_head *head;
    enum muster_status status = mu_checkpoint_head_open(v->folder, name, ranks, false, &head);

    if (status) {
        v->status = status == MUSTER_NOT_FOUND ? v->status : status; /* it was removed meanwhile */
        return;
    }
    memcpy(whole.name, name, strlen(name));
    do { /* relaxed: it is another generation's step only once the word has moved on */
        whole.generation = mu_checkpoint_settle(head, ranks);
        whole.step = mu_load_relaxed(&head->rows[0].step[whole.generation & 1]);
    } while (mu_checkpoint_settle(head, ranks) != whole.generation);
    if (whole.generation > mu_load_acquire(&head->first)) /* acquire: pairs with mu_checkpoint_go_on_behind() */
        v->visit(v->arg, &whole);
    mu_checkpoint_head_close(head, ranks);
}

enum muster_status mu_checkpoint_each_whole(const char *folder, mu_checkpoint_whole_visit visit, void *arg)
{
    struct whole_visit v = {.folder = folder, .visit = visit, .arg = arg};

    mu_checkpoint_each(folder, whole_look, &v);
    return v.status;
}

/* ---- reading a part ---- */

/* The part's own words; false: it is none. */
static bool source_read(int fd, struct mu_checkpoint_part *ret_part)
{
    return pread(fd, ret_part, sizeof *ret_part, 0) == (ssize_t)sizeof *ret_part &&
           ret_part->magic == MU_CHECKPOINT_PART_MAGIC;
}

int mu_checkpoint_source_open(const char *folder, const struct mu_checkpoint_whole *whole, uint32_t rank,
                              struct mu_checkpoint_source *ret_source)
{
    char path[MU_CHECKPOINT_PATH_MAX];
    struct mu_checkpoint_part part;
    struct stat st;
    int fd, rc = 0;

    mu_checkpoint_part_path(folder, whole->name, whole->ranks, rank, whole->generation, path, sizeof path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_SH | LOCK_NB))
        rc = errno == EWOULDBLOCK ? EAGAIN : errno;
    else if (!source_read(fd, &part))
        rc = EBADMSG;
    else if (mu_load_relaxed(&part.generation) != whole->generation) /* relaxed: a private copy */
        rc = EAGAIN;
    else if (fstat(fd, &st) || part.rank != rank || part.ranks != whole->ranks || part.bytes > (uint64_t)st.st_size)
        rc = EBADMSG;
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_source = (struct mu_checkpoint_source){.fd = fd, .bytes = part.bytes, .step = part.step};
    return 0;
}

void mu_checkpoint_source_unlock(const struct mu_checkpoint_source *source)
{
    flock(source->fd, LOCK_UN);
}

bool mu_checkpoint_source_is_intact(const struct mu_checkpoint_source *source, const struct mu_checkpoint_whole *whole)
{
    struct mu_checkpoint_part part;

    /* The lock's system call comes behind all reads of the part, and in front of this one. */
    return flock(source->fd, LOCK_SH | LOCK_NB) == 0 && source_read(source->fd, &part) &&
           mu_load_relaxed(&part.generation) == whole->generation; /* relaxed: a private copy */
}

void mu_checkpoint_source_close(struct mu_checkpoint_source *source)
{
    flock(source->fd, LOCK_UN); /* a child that is being started may have the descriptor */
    close(source->fd);
    source->fd = -1;
}

/* ---- for people ---- */

struct state_visit {
    const char *folder, *name;
    mu_checkpoint_state_visit visit;
    void *arg;
};

/* The ranks that are behind, where some are ahead; false: none is. */
static bool missing_list(struct mu_checkpoint_head *head, const struct mu_checkpoint_whole *whole, char text[200])
{
    bool is_begun = false;
    uint32_t count = 0;
    size_t len = 0;

    for (uint32_t i = 0; i < whole->ranks; i++) {
        if (mu_load_acquire(&head->rows[i].done) > whole->generation) { /* acquire: pairs with mu_checkpoint_done() */
            is_begun = true;
            continue;
        }
        if (count++ < 16)
            len += (size_t)snprintf(text + len, 200 - len, "%s%u", count > 1 ? ", " : "", i);
    }
    if (count > 16)
        snprintf(text + len, 200 - len, " and %u more", count - 16);
    return is_begun && count > 0;
}

static uint64_t parts_bytes(const char *folder, const struct mu_checkpoint_whole *whole)
{
    char path[MU_CHECKPOINT_PATH_MAX];
    struct mu_checkpoint_part part;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < whole->ranks; i++) {
        int fd;

        mu_checkpoint_part_path(folder, whole->name, whole->ranks, i, whole->generation, path, sizeof path);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && source_read(fd, &part))
            bytes += part.bytes;
        if (fd >= 0)
            close(fd);
    }
    return bytes;
}

static void state_look(void *arg, const struct mu_checkpoint_whole *whole)
{
    const struct state_visit *v = arg;
    struct mu_checkpoint_head *head;
    char missing[200] = "";
    bool is_missing;

    if ((v->name && strcmp(v->name, whole->name) != 0) ||
        mu_checkpoint_head_open(v->folder, whole->name, whole->ranks, false, &head))
        return;
    is_missing = missing_list(head, whole, missing);
    mu_checkpoint_head_close(head, whole->ranks);
    v->visit(v->arg, whole, parts_bytes(v->folder, whole), is_missing ? missing : NULL);
}

void mu_checkpoint_each_state(const char *folder, const char *name, mu_checkpoint_state_visit visit, void *arg)
{
    mu_checkpoint_each_whole(folder, state_look,
                             &(struct state_visit){.folder = folder, .name = name, .visit = visit, .arg = arg});
}

/* ---- putting a generation back ---- */

int mu_checkpoint_target_make(const char *folder, const struct mu_checkpoint_whole *whole, uint32_t rank,
                              uint64_t bytes)
{
    uint64_t pages = (bytes + MU_CHECKPOINT_PAGE - 1) / MU_CHECKPOINT_PAGE * MU_CHECKPOINT_PAGE;
    char path[MU_CHECKPOINT_PATH_MAX];
    int fd, rc = 0;

    if (!mu_process_may_have(pages))
        return -EFBIG;
    mu_checkpoint_part_path(folder, whole->name, whole->ranks, rank, whole->generation, path, sizeof path);
    unlink(path); /* of a generation that was given up */
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    while (!rc && fallocate(fd, 0, 0, (off_t)pages))
        rc = errno == EINTR ? 0 : errno;
    if (!rc)
        return fd;
    close(fd);
    unlink(path);
    return -rc;
}

bool mu_checkpoint_target_is_sound(int fd, const struct mu_checkpoint_whole *whole, uint32_t rank)
{
    struct mu_checkpoint_part part;
    struct stat st;
    uint8_t *base;
    bool is_sound;

    if (fstat(fd, &st) || st.st_size < (off_t)sizeof part)
        return false;
    base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return false;
    is_sound = mu_checkpoint_part_is_sound(base, (size_t)st.st_size, &part) && part.rank == rank &&
               part.ranks == whole->ranks && part.step == whole->step &&
               mu_load_relaxed(&part.generation) == whole->generation; /* relaxed: nobody else has the file */
    munmap(base, (size_t)st.st_size);
    return is_sound;
}

enum muster_status mu_checkpoint_whole_commit(const char *folder, const struct mu_checkpoint_whole *whole)
{
    struct mu_checkpoint_head *head;
    enum muster_status status = mu_checkpoint_head_open(folder, whole->name, whole->ranks, true, &head);

    if (status)
        return status;
    mu_checkpoint_go_on_behind(head, whole->generation - 1);
    for (uint32_t i = 0; i < whole->ranks; i++)
        mu_checkpoint_done(head, i, whole->generation, whole->step);
    if (mu_checkpoint_settle(head, whole->ranks) != whole->generation)
        status = mu_fail(MUSTER_DATA_LOSS, "checkpoint %s has generations of its own in memory", whole->name);
    mu_checkpoint_head_close(head, whole->ranks);
    return status;
}

void mu_checkpoint_targets_remove(const char *folder, const struct mu_checkpoint_whole *whole)
{
    char path[MU_CHECKPOINT_PATH_MAX];

    for (uint32_t i = 0; i < whole->ranks; i++) {
        mu_checkpoint_part_path(folder, whole->name, whole->ranks, i, whole->generation, path, sizeof path);
        unlink(path);
    }
}
