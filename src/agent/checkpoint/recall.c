/*
 * agent/checkpoint/recall.c: reading generations back from a disk, before a job's tasks start.
 *
 * Of each name the newest sound generation is put into memory as if its ranks had saved it there. Its bytes are summed
 * on the way, so a damaged one is found before it counts; it is named, and the one before it is tried.
 */
#include "agent/checkpoint/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/private.h"

enum recalled { RECALL_DONE, RECALL_DAMAGED, RECALL_FAILED, RECALL_ENDED };

struct recall {
    const struct mu_disk *disk;
    const char *memory;
    const struct mu_disk_pace *pace;
    char *why;
};

/* A part's file, in its generation's folder. */
static int part_open(const struct mu_disk *disk, const struct mu_disk_generation *g, uint32_t rank)
{
    char path[160];
    size_t len;
    int fd;

    mu_disk_entry_path(g->whole.name, g->whole.generation, "", "", path);
    len = strlen(path);
    snprintf(path + len, sizeof path - len, "/%u", rank);
    fd = openat(disk->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || mu_disk_is_own(fd))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* To -1: it is only read. */
static enum recalled part_read(const struct recall *r, const struct mu_disk_generation *g, uint32_t rank, int to)
{
    int from = part_open(r->disk, g, rank);
    enum mu_disk_copied copied = MU_DISK_NOT_READ;
    uint32_t sum = 0;

    if (from >= 0) {
        posix_fadvise(from, 0, 0, POSIX_FADV_SEQUENTIAL);
        copied = mu_disk_copy(from, to, g->parts[rank].bytes, r->pace, &sum);
    }
    if (copied == MU_DISK_NOT_READ)
        snprintf(r->why, MU_DISK_WHY, "the part of rank %u cannot be read: %s", rank,
                 errno ? strerror(errno) : "it is too short");
    if (copied == MU_DISK_NOT_WRITTEN)
        snprintf(r->why, MU_DISK_WHY, "the part of rank %u cannot be put into memory: %s", rank, strerror(errno));
    if (from >= 0)
        close(from);
    if (copied)
        return copied == MU_DISK_NOT_READ ? RECALL_DAMAGED : copied == MU_DISK_GIVEN_UP ? RECALL_ENDED : RECALL_FAILED;
    if (sum == g->parts[rank].sum)
        return RECALL_DONE;
    snprintf(r->why, MU_DISK_WHY, "the part of rank %u is damaged: its checksum is %08x, not %08x", rank, sum,
             g->parts[rank].sum);
    return RECALL_DAMAGED;
}

static enum recalled part_recall(const struct recall *r, const struct mu_disk_generation *g, uint32_t rank)
{
    int to = mu_checkpoint_target_make(r->memory, &g->whole, rank, g->parts[rank].bytes);
    enum recalled recalled;

    if (to < 0) {
        snprintf(r->why, MU_DISK_WHY, "no room in %s for its %llu bytes, which a job needs twice: %s", r->memory,
                 (unsigned long long)g->bytes, strerror(-to));
        return RECALL_FAILED;
    }
    recalled = part_read(r, g, rank, to);
    if (!recalled && !mu_checkpoint_target_is_sound(to, &g->whole, rank)) {
        snprintf(r->why, MU_DISK_WHY, "the part of rank %u is no such part, or of another version", rank);
        recalled = RECALL_DAMAGED;
    }
    close(to);
    return recalled;
}

static enum recalled generation_recall(const struct recall *r, const struct mu_disk_entry *entry,
                                       struct mu_disk_generation *g)
{
    enum recalled recalled = RECALL_DONE;

    if (mu_disk_manifest_read(r->disk, entry, g, r->why))
        return RECALL_DAMAGED;
    for (uint32_t i = 0; i < g->whole.ranks && !recalled; i++)
        recalled = part_recall(r, g, i);
    if (!recalled && mu_checkpoint_whole_commit(r->memory, &g->whole)) {
        snprintf(r->why, MU_DISK_WHY, "%s", muster_last_error());
        recalled = RECALL_FAILED;
    }
    if (recalled)
        mu_checkpoint_targets_remove(r->memory, &g->whole);
    return recalled;
}

/* ---- which ones -------------------------------------------------------------------------------------------------- */

struct looked {
    const char *name;
    bool found;
};

static void memory_look(void *arg, const struct mu_checkpoint_whole *whole)
{
    struct looked *looked = arg;

    looked->found |= strcmp(whole->name, looked->name) == 0;
}

static bool is_in_memory(const char *memory, const char *name)
{
    struct looked looked = {.name = name};

    mu_checkpoint_each_whole(memory, memory_look, &looked);
    return looked.found;
}

/* The generations of one name, `count` of them. 0, or -1 with the reason. */
static int name_recall(const struct recall *r, const struct mu_disk_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mu_disk_generation g;
        enum recalled recalled = generation_recall(r, &entries[i], &g);
        unsigned long long number = entries[i].generation;

        mu_disk_forget(&g);
        if (recalled == RECALL_DONE) {
            mu_agent_say("checkpoint %s: generation %llu (step %llu, of %u rank%s) is read back from %s",
                         entries[i].name, number, (unsigned long long)g.whole.step, g.whole.ranks,
                         g.whole.ranks == 1 ? "" : "s", r->disk->path);
            return 0;
        }
        if (recalled == RECALL_DAMAGED) {
            mu_agent_say("checkpoint %s: generation %llu in %s is passed over: %s", entries[i].name, number,
                         r->disk->path, r->why);
            continue;
        }
        if (recalled == RECALL_ENDED)
            r->why[0] = 0;
        return -1;
    }
    mu_agent_say("checkpoint %s: no generation in %s is sound: the job begins without one", entries[0].name,
                 r->disk->path);
    return 0;
}

int mu_disk_recall(const struct mu_disk *disk, const char *memory, const struct mu_disk_pace *pace,
                   char why[MU_DISK_WHY])
{
    struct recall r = {.disk = disk, .memory = memory, .pace = pace, .why = why};
    struct mu_disk_entry *entries;
    size_t count, end;
    int rc = mu_disk_list(disk, &entries, &count);

    if (rc) {
        snprintf(why, MU_DISK_WHY, "cannot list it: %s", strerror(rc));
        return -1;
    }
    for (size_t i = 0; i < count && !rc; i = end) {
        for (end = i + 1; end < count && strcmp(entries[end].name, entries[i].name) == 0;)
            end++;
        if (!is_in_memory(memory, entries[i].name))
            rc = name_recall(&r, entries + i, end - i);
    }
    free(entries);
    return rc;
}

int mu_disk_verify(const struct mu_disk *disk, const struct mu_disk_generation *generation,
                   const struct mu_disk_pace *pace, char why[MU_DISK_WHY])
{
    struct recall r = {.disk = disk, .pace = pace, .why = why};

    for (uint32_t i = 0; i < generation->whole.ranks; i++)
        if (part_read(&r, generation, i, -1))
            return -1;
    return 0;
}
