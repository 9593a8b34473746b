/*
 * checkpoint/save.c: saving a part: begin, copy, commit.
 *
 * The table is written at the beginning, the generation's number last, and then the row of the head: from there on the
 * part is saved. Before that it is torn, whatever happens.
 */
#include "checkpoint/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

static uint64_t aligned_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum muster_status names_check(const struct muster_checkpoint_tensor *tensors, size_t count)
{
    const char **names = malloc((count + 1) * sizeof *names);
    enum muster_status status = MUSTER_OK;

    if (!names)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to save %zu tensors", count);
    for (size_t i = 0; i < count; i++)
        names[i] = tensors[i].name;
    qsort(names, count, sizeof *names, names_compare);
    for (size_t i = 1; i < count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = mu_fail(MUSTER_INVALID_ARGUMENT, "two tensors have the name %.200s", names[i]);
    free(names);
    return status;
}

static enum muster_status tensor_check(const struct muster_checkpoint_tensor *t, size_t at)
{
    if (!t->name || !t->dtype || (!t->data && t->len))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "tensor %zu has no %s", at,
                       !t->name    ? "name"
                       : !t->dtype ? "type"
                                   : "data");
    if (strlen(t->name) > MUSTER_CHECKPOINT_TENSOR_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the name of tensor %zu is longer than %u bytes", at,
                       MUSTER_CHECKPOINT_TENSOR_MAX);
    if (strlen(t->dtype) > MUSTER_CHECKPOINT_DTYPE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the name of the type of tensor %.200s is longer than %u bytes",
                       t->name, MUSTER_CHECKPOINT_DTYPE_MAX);
    if (t->num_dims > MUSTER_CHECKPOINT_DIMS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "tensor %.200s has %u dimensions; %u are the most", t->name,
                       t->num_dims, MUSTER_CHECKPOINT_DIMS_MAX);
    return MUSTER_OK;
}

/* What the part will be; without its data. */
static enum muster_status part_plan(const struct muster_checkpoint_tensor *tensors, size_t count,
                                    struct mu_checkpoint_part *ret_part)
{
    uint64_t names = 0, bytes = 0;
    enum muster_status status;

    if (count > MUSTER_CHECKPOINT_TENSORS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu tensors; %u are the most", count, MUSTER_CHECKPOINT_TENSORS_MAX);
    for (size_t i = 0; i < count; i++) {
        status = tensor_check(&tensors[i], i);
        if (status)
            return status;
        names += strlen(tensors[i].name) + 1;
        if (tensors[i].len > (1ull << 47) - bytes)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no machine has room for these tensors");
        bytes += aligned_up(tensors[i].len, MU_CHECKPOINT_ALIGN);
    }
    status = names_check(tensors, count);
    if (status)
        return status;
    *ret_part = (struct mu_checkpoint_part){
        .magic = MU_CHECKPOINT_PART_MAGIC, .count = (uint32_t)count, .names = (uint32_t)names};
    ret_part->data =
        aligned_up(sizeof *ret_part + count * sizeof(struct mu_checkpoint_tensor_row) + names, MU_CHECKPOINT_PAGE);
    ret_part->bytes = ret_part->data + bytes;
    return MUSTER_OK;
}

/* The table, and the list of what is to be copied. */
static void table_write(struct muster_checkpoint *cp, struct mu_checkpoint_part *part,
                        const struct muster_checkpoint_tensor *tensors)
{
    uint8_t *base = cp->files[cp->generation & 1].base;
    struct mu_checkpoint_tensor_row *rows = (void *)(base + sizeof *part);
    char *names = (char *)(rows + part->count);
    uint64_t at = part->data;
    uint32_t name = 0;

    memcpy(base, part, sizeof *part); /* its generation is 0 */
    for (uint32_t i = 0; i < part->count; i++) {
        const struct muster_checkpoint_tensor *t = &tensors[i];
        size_t len = strlen(t->name) + 1;

        rows[i] = (struct mu_checkpoint_tensor_row){.at = at, .len = t->len, .name = name, .num_dims = t->num_dims};
        memcpy(rows[i].dtype, t->dtype, strlen(t->dtype));
        memcpy(rows[i].shape, t->shape, t->num_dims * sizeof *t->shape);
        memcpy(names + name, t->name, len);
        name += (uint32_t)len;
        cp->pieces[i] = (struct mu_checkpoint_piece){.data = t->data, .at = at, .len = t->len};
        cp->left += t->len;
        at += aligned_up(t->len, MU_CHECKPOINT_ALIGN);
    }
}

static void save_forget(struct muster_checkpoint *cp)
{
    free(cp->pieces);
    cp->pieces = NULL;
    cp->num_pieces = cp->next_piece = 0;
    cp->next_byte = cp->left = 0;
}

static enum muster_status save_begin(struct muster_checkpoint *cp, struct mu_ctx *ctx, uint64_t step,
                                     const struct muster_checkpoint_tensor *tensors, size_t count,
                                     muster_deadline deadline)
{
    struct mu_checkpoint_part part;
    enum muster_status status;
    uint64_t whole;
    uint32_t ranks;

    if (cp->rank < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "only a task saves a part of checkpoint %s: this process has no rank", cp->name);
    save_forget(cp);
    status = part_plan(tensors, count, &part);
    if (!status)
        status = mu_checkpoint_await(cp, ctx, cp->committed, deadline);
    if (status)
        return status;
    mu_checkpoint_newest(cp, &ranks); /* a job that only saves removes the parts of other numbers of ranks here */
    whole = mu_checkpoint_settle(cp->head, cp->ranks);
    part.step = cp->step = step;
    part.rank = (uint32_t)cp->rank;
    part.ranks = cp->ranks;
    cp->generation = whole + 1;
    status = mu_checkpoint_part_write(cp, cp->generation, part.bytes);
    if (status)
        return status;
    cp->pieces = malloc((count + 1) * sizeof *cp->pieces);
    if (!cp->pieces)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to save %zu tensors", count);
    cp->num_pieces = count;
    table_write(cp, &part, tensors);
    return MUSTER_OK;
}

enum muster_status muster_checkpoint_begin(struct muster_checkpoint *checkpoint, uint64_t step,
                                           const struct muster_checkpoint_tensor *tensors, size_t count,
                                           muster_deadline deadline)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(checkpoint->m, &ctx);

    if (status)
        return status;
    status = save_begin(checkpoint, ctx, step, tensors, count, deadline);
    mu_exit(ctx);
    return status;
}

static enum muster_status save_check(const struct muster_checkpoint *cp, bool is_copied)
{
    if (!cp->pieces)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "no save of checkpoint %s has begun", cp->name);
    if (is_copied && cp->left)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%llu bytes of generation %llu of checkpoint %s are not copied yet",
                       (unsigned long long)cp->left, (unsigned long long)cp->generation, cp->name);
    return MUSTER_OK;
}

enum muster_status muster_checkpoint_copy(struct muster_checkpoint *checkpoint, size_t bytes, size_t *ret_left)
{
    struct muster_checkpoint *cp = checkpoint;
    enum muster_status status = mu_enter_read(cp->m);

    if (status)
        return status;
    status = save_check(cp, false);
    while (!status && bytes > 0 && cp->left > 0) {
        const struct mu_checkpoint_piece *piece = &cp->pieces[cp->next_piece];
        uint64_t len = piece->len - cp->next_byte;

        if (len > bytes)
            len = bytes;
        if (len)
            memcpy(cp->files[cp->generation & 1].base + piece->at + cp->next_byte, piece->data + cp->next_byte, len);
        bytes -= len;
        cp->left -= len;
        cp->next_byte += len;
        if (cp->next_byte == piece->len) {
            cp->next_piece++;
            cp->next_byte = 0;
        }
    }
    if (!status && ret_left)
        *ret_left = cp->left;
    mu_exit_read();
    return status;
}

enum muster_status muster_checkpoint_commit(struct muster_checkpoint *checkpoint, uint64_t *ret_generation)
{
    struct muster_checkpoint *cp = checkpoint;
    enum muster_status status = mu_enter_read(cp->m);

    if (status)
        return status;
    status = save_check(cp, true);
    if (!status) {
        struct mu_checkpoint_file *file = &cp->files[cp->generation & 1];

        /* release: the bytes come first; pairs with the load in part_lock() */
        mu_store_release(&((struct mu_checkpoint_part *)(void *)file->base)->generation, cp->generation);
        flock(file->fd, LOCK_UN);
        mu_checkpoint_done(cp->head, (uint32_t)cp->rank, cp->generation, cp->step);
        mu_checkpoint_settle(cp->head, cp->ranks);
        if (cp->bell >= 0)
            mu_checkpoint_bell_ring(cp->bell, MU_CHECKPOINT_SAVED);
        cp->committed = cp->generation;
        save_forget(cp);
        if (ret_generation)
            *ret_generation = cp->committed;
    }
    mu_exit_read();
    return status;
}

enum muster_status muster_checkpoint_save(struct muster_checkpoint *checkpoint, uint64_t step,
                                          const struct muster_checkpoint_tensor *tensors, size_t count,
                                          muster_deadline deadline, uint64_t *ret_generation)
{
    enum muster_status status = muster_checkpoint_begin(checkpoint, step, tensors, count, deadline);

    if (!status)
        status = muster_checkpoint_copy(checkpoint, SIZE_MAX, NULL);
    if (!status)
        status = muster_checkpoint_commit(checkpoint, ret_generation);
    return status;
}

enum muster_status muster_checkpoint_reserve(struct muster_checkpoint *checkpoint, size_t bytes)
{
    struct muster_checkpoint *cp = checkpoint;
    enum muster_status status = mu_enter_read(cp->m);
    uint64_t next, done = 0;

    if (status)
        return status;
    if (cp->rank < 0)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "only a task has parts of checkpoint %s: this process has no rank",
                         cp->name);
    else if (cp->pieces)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "a save of checkpoint %s has begun", cp->name);
    next = mu_checkpoint_settle(cp->head, cp->ranks) + 1;
    if (!status)
        done = mu_load_acquire(&cp->head->rows[cp->rank].done); /* acquire: our own */
    /* two files stay: that of the next generation, where our part of it is saved, and that of the newest whole one,
     * which is the next but one's, too */
    for (int i = 0; i < 2 && !status; i++) {
        uint64_t generation = next + (uint64_t)i;
        /* acquire: as its CAS */
        bool keeps = i ? generation - 2 > mu_load_acquire(&cp->head->first) : done >= generation;

        if (!keeps)
            status = mu_checkpoint_part_write(cp, generation, bytes + bytes / 64 + 16 * MU_CHECKPOINT_PAGE);
        if (!status && !keeps)
            flock(cp->files[generation & 1].fd, LOCK_UN);
    }
    mu_exit_read();
    return status;
}
