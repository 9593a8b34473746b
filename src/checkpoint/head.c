/*
 * checkpoint/head.c: the head of a checkpoint: one word names the newest whole generation of all ranks.
 *
 *     row of rank r:   done = g       its part of generation g is saved: a store behind the part's bytes
 *     head:            whole = g      all rows are done with g: a CAS from g - 1, by the process that finds it so
 *
 * A rank begins g + 1 only when whole is g, so no row is more than one ahead of it, and of the two parts that a rank
 * keeps the one that is written is never the one that whole names. What a SIGKILL leaves:
 *
 *   before the row's store    a torn part, which nothing names; the rank's next process writes it anew
 *   between row and CAS       a whole generation that nobody has named: each process that waits, looks or opens counts
 *                             the rows, and so does the launcher before it starts the job again
 *   behind the CAS            sleepers that were not woken: no wait is longer than 100 ms
 *
 * A process that takes a dead one's place goes back to the newest whole generation, so what that one had saved beyond
 * it must not become a part of what the others save: it is withdrawn. The row is set back first, then the count in
 * `whole` moves. A process that had read the row before has the old count in its hand, and its CAS fails; one that was
 * quicker has made the generation whole, and then that is what the new process finds. So a withdrawal and a commit
 * exclude each other by the same word. tests/model/checkpoint.pml has all of it.
 */
#include "checkpoint/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "segment/file.h"
#include "sync/futex.h"

/* A file without a name, filled in. The descriptor, or -errno. */
static int head_build(const char *folder, uint32_t ranks)
{
    struct mu_checkpoint_head head = {.magic = MU_CHECKPOINT_HEAD_MAGIC, .ranks = ranks};
    size_t bytes = mu_checkpoint_head_bytes(ranks);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), rc = 0;

    if (fd < 0)
        return -errno;
    if (!mu_process_may_have(bytes))
        rc = EFBIG;
    else if (ftruncate(fd, (off_t)bytes) || fallocate(fd, 0, 0, (off_t)bytes))
        rc = errno;
    else if (pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        rc = EIO;
    if (rc)
        close(fd);
    return rc ? -rc : fd;
}

/* It has the name, or another process's has. 0, or an errno. */
static int head_make(const char *folder, uint32_t ranks, const char *path)
{
    char self[64];
    int fd = head_build(folder, ranks), rc = fd < 0 ? -fd : 0;

    if (rc)
        return rc;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) && errno != EEXIST)
        rc = errno;
    close(fd);
    return rc;
}

static enum muster_status head_map(int fd, const char *path, uint32_t ranks, struct mu_checkpoint_head **ret_head)
{
    size_t bytes = mu_checkpoint_head_bytes(ranks);
    struct mu_checkpoint_head *head;
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_size != bytes)
        return mu_fail(MUSTER_DATA_LOSS, "%s is no checkpoint's head of %u ranks", path, ranks);
    head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot map %s: %s", path, strerror(errno));
    madvise(head, bytes, MADV_DONTFORK); /* refused: a child's calls are refused all the same */
    if (head->magic != MU_CHECKPOINT_HEAD_MAGIC || head->ranks != ranks) {
        munmap(head, bytes);
        return mu_fail(MUSTER_DATA_LOSS, "%s is no checkpoint's head of this version", path);
    }
    *ret_head = head;
    return MUSTER_OK;
}

enum muster_status mu_checkpoint_head_open(const char *folder, const char *name, uint32_t ranks, bool make,
                                           struct mu_checkpoint_head **ret_head)
{
    char path[MU_CHECKPOINT_PATH_MAX];
    enum muster_status status;
    int fd, rc = 0;

    mu_checkpoint_head_path(folder, name, ranks, path, sizeof path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT && make) {
        rc = head_make(folder, ranks, path);
        fd = rc ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0) {
        rc = rc ? rc : errno;
        status = rc == ENOENT                   ? MUSTER_NOT_FOUND
                 : rc == ENOSPC || rc == ENOMEM ? MUSTER_RESOURCE_EXHAUSTED
                                                : MUSTER_UNAVAILABLE;
        return mu_fail(status, "cannot open %s: %s", path, strerror(rc));
    }
    status = head_map(fd, path, ranks, ret_head);
    close(fd);
    return status;
}

void mu_checkpoint_head_close(struct mu_checkpoint_head *head, uint32_t ranks)
{
    if (head)
        munmap(head, mu_checkpoint_head_bytes(ranks));
}

static bool are_done(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t generation)
{
    for (uint32_t i = 0; i < ranks; i++)
        /* acquire: pairs with mu_checkpoint_done(): a process that learns that it is whole sees all parts */
        if (mu_load_acquire(&head->rows[i].done) < generation)
            return false;
    return true;
}

/* The first rank that has saved another step than rank 0; 0: none. */
static uint32_t stray_of(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t generation)
{
    uint32_t i = 1;

    /* relaxed, both: behind done, and before the CAS that fails where a row was set back meanwhile */
    while (i < ranks &&
           mu_load_relaxed(&head->rows[i].step[generation & 1]) == mu_load_relaxed(&head->rows[0].step[generation & 1]))
        i++;
    return i < ranks ? i : 0;
}

uint64_t mu_checkpoint_settle(struct mu_checkpoint_head *head, uint32_t ranks)
{
    /* acquire: the count of withdrawals is read before the rows; pairs with the CAS in mu_checkpoint_withdraw() */
    uint64_t seen = mu_load_acquire(&head->whole);

    while (are_done(head, ranks, MU_CHECKPOINT_GENERATION(seen) + 1) &&
           !stray_of(head, ranks, MU_CHECKPOINT_GENERATION(seen) + 1)) {
        uint64_t next = (seen & ~MU_WORD_S) + MU_CHECKPOINT_ONE;

        /* acq_rel: the commit; pairs with the loads of all that look at the word */
        if (!mu_cas_seen(&head->whole, &seen, next))
            continue;
        if (seen & MU_WORD_S)
            mu_futex_wake(&head->whole);
        seen = next;
    }
    return MU_CHECKPOINT_GENERATION(seen);
}

uint32_t mu_checkpoint_stray(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t steps[2])
{
    uint64_t seen = mu_load_acquire(&head->whole), next = MU_CHECKPOINT_GENERATION(seen) + 1; /* acquire: as above */
    uint32_t stray = are_done(head, ranks, next) ? stray_of(head, ranks, next) : 0;

    steps[0] = mu_load_relaxed(&head->rows[0].step[next & 1]); /* relaxed, both: the word is looked at again */
    steps[1] = mu_load_relaxed(&head->rows[stray].step[next & 1]);
    /* acquire, as a fence: a row that was set back, or a commit, moved the word before another step was written */
    mu_fence_acquire();
    return (mu_load_relaxed(&head->whole) & ~MU_WORD_S) == (seen & ~MU_WORD_S) ? stray : 0;
}

void mu_checkpoint_done(struct mu_checkpoint_head *head, uint32_t rank, uint64_t generation, uint64_t step)
{
    struct mu_checkpoint_row *row = &head->rows[rank];

    mu_store_relaxed(&row->step[generation & 1], step); /* relaxed: the next store publishes it */
    mu_store_release(&row->done, generation);           /* release: pairs with are_done() */
}

uint64_t mu_checkpoint_withdraw(struct mu_checkpoint_head *head, uint32_t rank)
{
    uint64_t seen = mu_load_acquire(&head->whole); /* acquire: as in mu_checkpoint_settle() */
    mu_a64 *done = &head->rows[rank].done;

    /* relaxed: this rank's own; nobody else writes it, and its predecessor is dead */
    if (mu_load_relaxed(done) > MU_CHECKPOINT_GENERATION(seen))
        mu_store_release(done, MU_CHECKPOINT_GENERATION(seen)); /* release: as in mu_checkpoint_done() */
    /* acq_rel: behind the store; a process that read the row before that has the old count, and fails */
    while (!mu_cas_seen(&head->whole, &seen, seen + MU_CHECKPOINT_WITHDRAWAL))
        ;
    return MU_CHECKPOINT_GENERATION(seen);
}

void mu_checkpoint_agree(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t generation, uint64_t step)
{
    uint64_t seen = mu_load_acquire(&head->whole); /* acquire: as in mu_checkpoint_settle() */

    for (uint32_t i = 0; i < ranks; i++)
        mu_checkpoint_done(head, i, generation, step);
    /* acq_rel: as in mu_checkpoint_withdraw() */
    while (!mu_cas_seen(&head->whole, &seen,
                        ((seen & ~(MU_CHECKPOINT_WITHDRAWAL - 1)) + MU_CHECKPOINT_WITHDRAWAL) |
                            generation * MU_CHECKPOINT_ONE))
        ;
}

void mu_checkpoint_go_on_behind(struct mu_checkpoint_head *head, uint64_t before)
{
    uint64_t seen = mu_load_acquire(&head->first); /* acquire, both: as the CAS */

    /* acq_rel: said before the generation counts as whole; pairs with mu_checkpoint_newest() */
    while (seen < before && !mu_cas_seen(&head->first, &seen, before))
        ;
    seen = mu_load_acquire(&head->whole);
    /* acq_rel: as in mu_checkpoint_settle(); a sleeper's mark stays, for nobody waits for these */
    while (MU_CHECKPOINT_GENERATION(seen) < before &&
           !mu_cas_seen(&head->whole, &seen, seen + (before - MU_CHECKPOINT_GENERATION(seen)) * MU_CHECKPOINT_ONE))
        ;
}
