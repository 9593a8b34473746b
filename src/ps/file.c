/*
 * ps/file.c: save and load. A file is a head, then, for a dense tensor, the arrays of each shard, values first; for a
 * table a key and a row's words, row by row. Numbers are the machine's own. A file is written beside its name, synced,
 * and renamed: so `path` is the old file or the new one, whole.
 */
#include "ps/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

struct file_head {
    char magic[8];
    uint64_t type, count, rows, states, shards, steps, version;
    uint64_t bytes; /* of what follows */
};
static const char magic[8] = "muster\x01P";

struct ps_file {
    struct muster_ps *ps;
    const char *path;
    FILE *stream;
    struct file_head head;
};

static enum muster_status file_failed(const struct ps_file *f, const char *what)
{
    return mu_fail(errno == ENOENT ? MUSTER_NOT_FOUND : MUSTER_UNKNOWN, "cannot %s %s, of tensor %s: %s", what, f->path,
                   f->ps->name, strerror(errno));
}

static enum muster_status file_write(struct ps_file *f, const void *data, size_t len)
{
    if (len && fwrite(data, 1, len, f->stream) != len)
        return file_failed(f, "write");
    f->head.bytes += len;
    return MUSTER_OK;
}

static enum muster_status file_read(struct ps_file *f, void *data, size_t len)
{
    if (len > f->head.bytes || (len && fread(data, 1, len, f->stream) != len))
        return mu_fail(MUSTER_DATA_LOSS, "%s is cut off: it ends within tensor %s", f->path, f->ps->name);
    f->head.bytes -= len;
    return MUSTER_OK;
}

/* ---- save ---- */

static enum muster_status shards_save(struct ps_file *f)
{
    uint32_t parts = 1 + f->ps->states;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < f->ps->config.shards; i++) {
        struct muster_object_view views[PS_PARTS_MAX];
        uint64_t steps = 0, version = 0;

        status = mu_ps_shard_view(f->ps, i, parts, views, &version, &steps);
        if (status)
            break;
        if (!i || version < f->head.version) {
            f->head.version = version;
            f->head.steps = steps;
        }
        for (uint32_t k = 0; !status && k < parts; k++)
            status = file_write(f, views[k].data, views[k].len);
        muster_object_unview(f->ps->m, views, parts);
    }
    return status;
}

static enum muster_status rows_save(struct ps_file *f)
{
    uint64_t bytes = mu_ps_row_bytes(f->ps), count = mu_ps_table_entries(f->ps), key;
    uint64_t *words = malloc(bytes);
    enum muster_status status = words ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a row");

    for (uint64_t i = 0; !status && i < count; i++) {
        if (!mu_ps_row_read(f->ps, i, &key, words))
            continue;
        f->head.rows++;
        status = file_write(f, &key, sizeof key);
        if (!status)
            status = file_write(f, words, bytes);
    }
    free(words);
    return status;
}

static void head_fill(struct ps_file *f)
{
    memcpy(f->head.magic, magic, sizeof magic);
    f->head.type = f->ps->config.type;
    f->head.count = f->ps->count;
    f->head.states = f->ps->states;
    f->head.shards = f->ps->config.rows ? 0 : f->ps->config.shards;
}

/* The head is written last, for only then it is known. */
static enum muster_status file_fill(struct ps_file *f)
{
    enum muster_status status = file_write(f, &f->head, sizeof f->head);

    f->head.bytes = 0;
    if (!status)
        status = f->ps->config.rows ? rows_save(f) : shards_save(f);
    if (status)
        return status;
    if (fseek(f->stream, 0, SEEK_SET) || fwrite(&f->head, sizeof f->head, 1, f->stream) != 1 || fflush(f->stream) ||
        fsync(fileno(f->stream)))
        return file_failed(f, "write");
    return MUSTER_OK;
}

static enum muster_status file_save(struct ps_file *f)
{
    size_t len = strlen(f->path) + 8;
    char *beside = malloc(len);
    enum muster_status status;
    int fd;

    if (!beside)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to save tensor %s", f->ps->name);
    snprintf(beside, len, "%s.XXXXXX", f->path);
    fd = mkostemp(beside, O_CLOEXEC);
    f->stream = fd < 0 ? NULL : fdopen(fd, "w");
    status = f->stream ? file_fill(f) : file_failed(f, "create a file beside");
    if (f->stream && fclose(f->stream) && !status)
        status = file_failed(f, "write");
    if (!status && rename(beside, f->path))
        status = file_failed(f, "replace");
    if (status && fd >= 0)
        unlink(beside);
    free(beside);
    return status;
}

static enum muster_status ps_refuse_call(struct muster_ps *ps, const char *path)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    if (!ps || !path || !*path)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no tensor, or no path is given");
    status = mu_enter(ps->m, &ctx);
    if (!status)
        mu_exit(ctx);
    return status;
}

enum muster_status muster_ps_save(struct muster_ps *ps, const char *path)
{
    struct ps_file f = {.ps = ps, .path = path};
    enum muster_status status = ps_refuse_call(ps, path);

    if (status)
        return status;
    head_fill(&f);
    return file_save(&f);
}

/* ---- load ---- */

static enum muster_status shards_load(struct ps_file *f)
{
    uint32_t parts = 1 + f->ps->states;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < f->ps->config.shards; i++) {
        uint64_t bytes = ps_shard_bytes(f->ps, i);
        uint8_t *data = malloc(bytes * parts);
        const void *arrays[PS_PARTS_MAX];

        if (!data)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a shard of tensor %s", f->ps->name);
        status = file_read(f, data, bytes * parts);
        for (uint32_t k = 0; k < parts; k++)
            arrays[k] = data + k * bytes;
        if (!status)
            status = mu_ps_shard_replace(f->ps, i, arrays, f->head.steps, NULL);
        free(data);
    }
    return status;
}

static enum muster_status rows_load(struct ps_file *f)
{
    uint64_t bytes = mu_ps_row_bytes(f->ps), key = 0;
    uint64_t *words = malloc(bytes);
    enum muster_status status = words ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a row");

    for (uint64_t i = 0; !status && i < f->head.rows; i++) {
        status = file_read(f, &key, sizeof key);
        if (!status)
            status = file_read(f, words, bytes);
        if (!status)
            status = mu_ps_row_write(f->ps, key, words);
    }
    free(words);
    return status;
}

/* Whether the file is whole, and of such a tensor, before anything of it is used. */
static enum muster_status head_read(struct ps_file *f)
{
    struct file_head want;
    struct ps_file of = {.ps = f->ps};
    uint64_t bytes;

    head_fill(&of);
    want = of.head;
    if (fread(&f->head, sizeof f->head, 1, f->stream) != 1 || memcmp(f->head.magic, magic, sizeof magic) != 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no file that a tensor was saved to", f->path);
    if (f->head.type != want.type || f->head.count != want.count || f->head.states != want.states ||
        f->head.shards != want.shards)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is of another tensor than %s: %llu numbers of type %llu, %llu arrays of an optimizer, %llu "
                       "shards",
                       f->path, f->ps->name, (unsigned long long)f->head.count, (unsigned long long)f->head.type,
                       (unsigned long long)f->head.states, (unsigned long long)f->head.shards);
    bytes = f->ps->config.rows ? f->head.rows * (8 + mu_ps_row_bytes(f->ps))
                               : f->ps->count * f->ps->width * (1 + f->ps->states);
    if (f->head.bytes != bytes || f->head.rows > 2 * MUSTER_PS_ROWS_MAX || fseek(f->stream, 0, SEEK_END) ||
        (uint64_t)ftell(f->stream) != bytes + sizeof f->head || fseek(f->stream, sizeof f->head, SEEK_SET))
        return mu_fail(MUSTER_DATA_LOSS, "%s is not whole: %llu bytes should follow its head", f->path,
                       (unsigned long long)bytes);
    return MUSTER_OK;
}

enum muster_status muster_ps_load(struct muster_ps *ps, const char *path)
{
    struct ps_file f = {.ps = ps, .path = path};
    enum muster_status status = ps_refuse_call(ps, path);

    if (status)
        return status;
    f.stream = fopen(path, "re");
    if (!f.stream)
        return file_failed(&f, "open");
    status = head_read(&f);
    if (!status)
        status = ps->config.rows ? rows_load(&f) : shards_load(&f);
    fclose(f.stream);
    return status;
}
