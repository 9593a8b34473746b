/*
 * checkpoint/folder.c: where a run's checkpoints lie.
 *
 * A folder beside the segments, by the run's number, which all attempts of a job share and no other job has: so what an
 * earlier job of the same name may have left is never taken for this one's. In it a head a name and number of ranks,
 * and two parts a rank. The kernel's file system is the allocator, and what a killed process leaves are files that
 * no head names.
 */
#include "checkpoint/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/file.h"

void mu_checkpoint_folder(const char *run_id, char *path, size_t size)
{
    snprintf(path, size, "%s/muster-checkpoints-%u-%s", mu_segment_folder(), (unsigned)geteuid(), run_id);
}

/* What names a file may be trusted in one: as the launcher writes it, and no way out of the folder. */
static bool is_run_id(const char *run_id)
{
    size_t len = run_id ? strlen(run_id) : 0;

    return len > 0 && len <= 64 && strspn(run_id, "0123456789abcdefghijklmnopqrstuvwxyz-") == len;
}

enum muster_status mu_checkpoint_folder_make(const char *run_id, char *path, size_t size)
{
    if (!is_run_id(run_id))
        return mu_fail(
            MUSTER_FAILED_PRECONDITION,
            "checkpoints need a launcher that keeps them: start the job by 'muster run' (MUSTER_RUN_ID is %s)",
            run_id ? "no run's" : "not set");
    mu_checkpoint_folder(run_id, path, size);
    return mu_checkpoint_folder_own(path);
}

enum muster_status mu_checkpoint_folder_own(const char *path)
{
    struct stat st;

    if (mkdir(path, 0700) && errno != EEXIST)
        return mu_fail(errno == ENOSPC || errno == ENOMEM ? MUSTER_RESOURCE_EXHAUSTED : MUSTER_UNAVAILABLE,
                       "cannot make %s for checkpoints: %s", path, strerror(errno));
    if (lstat(path, &st))
        return mu_fail(MUSTER_UNAVAILABLE, "cannot look at %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return mu_fail(MUSTER_PERMISSION_DENIED, "%s is not a folder that user %u alone may write", path,
                       (unsigned)geteuid());
    return MUSTER_OK;
}

void mu_checkpoint_head_path(const char *folder, const char *name, uint32_t ranks, char *path, size_t size)
{
    snprintf(path, size, "%s/%s@%u.head", folder, name, ranks);
}

void mu_checkpoint_part_path(const char *folder, const char *name, uint32_t ranks, uint32_t rank, uint64_t generation,
                             char *path, size_t size)
{
    snprintf(path, size, "%s/%s@%u.%u.%u", folder, name, ranks, rank, (unsigned)(generation & 1));
}

bool mu_checkpoint_is_head(const char *file, char name[MUSTER_CHECKPOINT_NAME_MAX + 1], uint32_t *ret_ranks)
{
    const char *at = strrchr(file, '@');
    char *end;
    unsigned long ranks = at ? strtoul(at + 1, &end, 10) : 0;

    if (!at || at == file || at - file > (ptrdiff_t)MUSTER_CHECKPOINT_NAME_MAX || ranks == 0 || ranks > UINT32_MAX ||
        strcmp(end, ".head") != 0)
        return false;
    memcpy(name, file, (size_t)(at - file));
    name[at - file] = 0;
    *ret_ranks = (uint32_t)ranks;
    return true;
}

void mu_checkpoint_each(const char *folder, mu_checkpoint_visit visit, void *arg)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    uint32_t ranks;

    while (d && (e = readdir(d)))
        if (mu_checkpoint_is_head(e->d_name, name, &ranks))
            visit(arg, name, ranks);
    if (d)
        closedir(d);
}

/* The files with names that begin so; all of them: "". */
static void remove_files(const char *folder, const char *prefix, const char *but)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && (!but || strncmp(e->d_name, but, strlen(but)) != 0))
            unlinkat(dirfd(d), e->d_name, 0); /* folders are none of ours */
    if (d)
        closedir(d);
}

void mu_checkpoint_prune(const char *folder, const char *name, uint32_t ranks)
{
    char prefix[MUSTER_CHECKPOINT_NAME_MAX + 2], own[MUSTER_CHECKPOINT_NAME_MAX + 16];

    snprintf(prefix, sizeof prefix, "%s@", name);
    snprintf(own, sizeof own, "%s@%u.", name, ranks);
    remove_files(folder, prefix, own);
}

void mu_checkpoint_remove(const char *run_id)
{
    char folder[MU_CHECKPOINT_PATH_MAX / 2];

    if (!is_run_id(run_id))
        return;
    mu_checkpoint_folder(run_id, folder, sizeof folder);
    if (rmdir(folder) == 0 || errno != ENOTEMPTY)
        return;
    remove_files(folder, "", NULL);
    rmdir(folder);
}

/* ---- starting again ---- */

struct rewind {
    char folder[MU_CHECKPOINT_PATH_MAX / 2];
    int32_t rank;
    enum muster_status status;
};

static void head_rewind(void *arg, const char *name, uint32_t ranks)
{
    struct rewind *rewind = arg;
    struct mu_checkpoint_head *head;
    enum muster_status status = mu_checkpoint_head_open(rewind->folder, name, ranks, false, &head);

    if (status) {
        rewind->status = status;
        return;
    }
    mu_checkpoint_settle(head, ranks);
    for (uint32_t i = 0; i < ranks; i++)
        if (rewind->rank == MU_CHECKPOINT_ALL || rewind->rank == (int32_t)i)
            mu_checkpoint_withdraw(head, i);
    mu_checkpoint_head_close(head, ranks);
}

enum muster_status mu_checkpoint_rewind(const char *run_id, int32_t rank)
{
    struct rewind rewind = {.rank = rank};

    if (is_run_id(run_id)) {
        mu_checkpoint_folder(run_id, rewind.folder, sizeof rewind.folder);
        mu_checkpoint_each(rewind.folder, head_rewind, &rewind);
    }
    return rewind.status;
}
