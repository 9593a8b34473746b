/*
 * checkpoint/load.c: views of parts.
 *
 * A part is found by its name, and is what the newest whole generation needs when it says that generation behind the
 * reader's lock: a writer has the other lock. A reader that was late, and finds a later one, looks again at the
 * word that names the newest.
 */
#include "checkpoint/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/hosts.h"

struct view_own {
    struct mu_checkpoint_file file;
    uint32_t forks; /* mu_forks when it was loaded */
    struct muster_checkpoint_tensor tensors[];
};

/* The part's file, locked and mapped. FAILED_PRECONDITION, without a sentence: it is not this generation's (by now). */
static enum muster_status part_lock(const char *path, uint64_t generation, struct mu_checkpoint_file *ret_file)
{
    struct mu_checkpoint_file file = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    struct mu_checkpoint_part *part;
    struct stat st;
    void *base;

    if (file.fd < 0)
        return errno == ENOENT ? MUSTER_FAILED_PRECONDITION
                               : mu_fail(MUSTER_UNAVAILABLE, "cannot open %s: %s", path, strerror(errno));
    if (flock(file.fd, LOCK_SH | LOCK_NB) || fstat(file.fd, &st) || st.st_size < (off_t)sizeof *part) {
        close(file.fd);
        return MUSTER_FAILED_PRECONDITION;
    }
    file.bytes = (size_t)st.st_size;
    base = mmap(NULL, file.bytes, PROT_READ, MAP_SHARED, file.fd,
                0); /* a load maps its pages as it reads them, in all its threads */
    if (base == MAP_FAILED) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot map %s: %s", path, strerror(errno));
        mu_checkpoint_file_close(&file);
        return MUSTER_RESOURCE_EXHAUSTED;
    }
    madvise(base, file.bytes, MADV_DONTDUMP);
    file.base = base;
    part = base;
    /* acquire: pairs with the store in muster_checkpoint_commit() */
    if (mu_load_acquire(&part->generation) != generation) {
        mu_checkpoint_file_close(&file);
        return MUSTER_FAILED_PRECONDITION;
    }
    *ret_file = file;
    return MUSTER_OK;
}

/* Of the part that is mapped: its tensors, or DATA_LOSS. */
static enum muster_status view_fill(const struct muster_checkpoint *cp, struct mu_checkpoint_file *file,
                                    struct muster_checkpoint_view *view)
{
    const struct mu_checkpoint_tensor_row *rows = (const void *)(file->base + sizeof(struct mu_checkpoint_part));
    struct mu_checkpoint_part part;
    const char *names;
    struct view_own *own;

    if (!mu_checkpoint_part_is_sound(file->base, file->bytes, &part) || part.rank != view->rank ||
        part.ranks != view->ranks)
        return mu_fail(MUSTER_DATA_LOSS, "the part of rank %u of generation %llu of checkpoint %s is damaged",
                       view->rank, (unsigned long long)view->generation, cp->name);
    own = malloc(sizeof *own + part.count * sizeof *own->tensors);
    if (!own)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to load %u tensors", part.count);
    names = (const char *)(rows + part.count);
    for (uint32_t i = 0; i < part.count; i++) {
        own->tensors[i] = (struct muster_checkpoint_tensor){.name = names + rows[i].name,
                                                            .dtype = rows[i].dtype,
                                                            .num_dims = rows[i].num_dims,
                                                            .data = file->base + rows[i].at,
                                                            .len = rows[i].len};
        memcpy(own->tensors[i].shape, rows[i].shape, sizeof rows[i].shape);
    }
    own->file = *file;
    own->forks = atomic_load_explicit(&mu_forks, memory_order_relaxed); /* relaxed: process-local */
    view->step = part.step;
    view->tensors = own->tensors;
    view->count = part.count;
    view->own = own;
    return MUSTER_OK;
}

/* Whether `rank` has a part in the generation: *ret_rank. */
static enum muster_status rank_check(const struct muster_checkpoint *cp, uint64_t generation, uint32_t ranks,
                                     int32_t rank, uint32_t *ret_rank)
{
    char host[64];

    if (!generation)
        return mu_fail(MUSTER_NOT_FOUND, "no generation of checkpoint %s is whole yet", cp->name);
    if (rank == MUSTER_CHECKPOINT_OWN && ranks != cp->ranks)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "generation %llu of checkpoint %s was saved by %u ranks, and the job has %u: load the parts by "
                       "their ranks",
                       (unsigned long long)generation, cp->name, ranks, cp->ranks);
    if (rank == MUSTER_CHECKPOINT_OWN && cp->rank < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "this process has no rank, and so no part of checkpoint %s",
                       cp->name);
    *ret_rank = (uint32_t)(rank == MUSTER_CHECKPOINT_OWN ? cp->rank : rank);
    if (rank < MUSTER_CHECKPOINT_OWN || *ret_rank >= ranks)
        return mu_fail(MUSTER_NOT_FOUND, "generation %llu of checkpoint %s has %u ranks, and no rank %d",
                       (unsigned long long)generation, cp->name, ranks, rank);
    if (mu_is_bridged(cp->m->seg) && !mu_is_local_task(cp->m->seg, *ret_rank)) {
        mu_host_name(cp->m->seg, mu_host_of(cp->m->seg, *ret_rank), host, sizeof host);
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "the part of rank %u of checkpoint %s is on host %s, and can be loaded there alone", *ret_rank,
                       cp->name, host);
    }
    return MUSTER_OK;
}

static enum muster_status part_view(struct muster_checkpoint *cp, int32_t rank, struct muster_checkpoint_view *view)
{
    struct mu_checkpoint_file file;
    char path[MU_CHECKPOINT_PATH_MAX];
    enum muster_status status;
    uint64_t before = 0;

    for (;;) {
        view->generation = mu_checkpoint_newest(cp, &view->ranks);
        status = rank_check(cp, view->generation, view->ranks, rank, &view->rank);
        if (status)
            return status;
        mu_checkpoint_part_path(cp->folder, cp->name, view->ranks, view->rank, view->generation, path, sizeof path);
        status = part_lock(path, view->generation, &file);
        if (status != MUSTER_FAILED_PRECONDITION)
            break;
        if (view->generation == before) /* it is still the newest: nobody writes it */
            return mu_fail(MUSTER_DATA_LOSS, "the part of rank %u of generation %llu of checkpoint %s is not in %s",
                           view->rank, (unsigned long long)view->generation, cp->name, path);
        before = view->generation;
    }
    if (status)
        return status;
    status = view_fill(cp, &file, view);
    if (status)
        mu_checkpoint_file_close(&file);
    return status;
}

enum muster_status muster_checkpoint_load(struct muster_checkpoint *checkpoint, int32_t rank,
                                          struct muster_checkpoint_view *ret_view)
{
    struct muster_checkpoint_view view = {0};
    enum muster_status status = mu_enter_read(checkpoint->m);

    if (status)
        return status;
    status = part_view(checkpoint, rank, &view);
    mu_exit_read();
    if (!status)
        *ret_view = view;
    return status;
}

void muster_checkpoint_unload(struct muster_checkpoint_view *view)
{
    struct view_own *own = view ? view->own : NULL;

    if (!own)
        return;
    if (own->forks == atomic_load_explicit(&mu_forks, memory_order_relaxed)) { /* relaxed: process-local */
        mu_checkpoint_file_close(&own->file);
    } else { /* a child's copy: the lock is its parent's, too */
        munmap(own->file.base, own->file.bytes);
        close(own->file.fd);
    }
    free(own);
    *view = (struct muster_checkpoint_view){0};
}

/* "float32[2,3]" */
static const char *shape_words(const char *dtype, uint32_t num_dims, const uint64_t *shape, char words[256])
{
    size_t n = (size_t)snprintf(words, 32, "%.15s[", dtype);

    for (uint32_t i = 0; i < num_dims && i < MUSTER_CHECKPOINT_DIMS_MAX; i++)
        n += (size_t)snprintf(words + n, 256 - n, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    snprintf(words + n, 256 - n, "]");
    return words;
}

enum muster_status muster_checkpoint_find(const struct muster_checkpoint_view *view, const char *name,
                                          const char *dtype, uint32_t num_dims, const uint64_t *shape,
                                          const struct muster_checkpoint_tensor **ret_tensor)
{
    char saved[256], wanted[256];

    for (size_t i = 0; i < view->count; i++) {
        const struct muster_checkpoint_tensor *t = &view->tensors[i];

        if (strcmp(t->name, name) != 0)
            continue;
        if (dtype && (strcmp(t->dtype, dtype) != 0 || t->num_dims != num_dims ||
                      (num_dims && memcmp(t->shape, shape, num_dims * sizeof *shape) != 0)))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "tensor %.200s is %s in generation %llu, not %s", name,
                           shape_words(t->dtype, t->num_dims, t->shape, saved), (unsigned long long)view->generation,
                           shape_words(dtype, num_dims, shape, wanted));
        *ret_tensor = t;
        return MUSTER_OK;
    }
    return mu_fail(MUSTER_NOT_FOUND, "generation %llu has no tensor %.200s in the part of rank %u",
                   (unsigned long long)view->generation, name, view->rank);
}
