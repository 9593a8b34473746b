/*
 * segment/cluster.c: the task records: one object word; its root refers to blocks of MU_TASKS_PER_BLOCK records,
 * which refer to the messages of those in error. Changing one record replaces its block and the root by one commit, so
 * state, job version, error counters and the first error are decided at once, and all records can be read as of one
 * instant.
 *
 * Blocks below the root are read like values: copied, then checked by their own word at the generation that the root
 * named. The records use chunks kept for them alone, committed before anybody joins: a death can be recorded in a full
 * segment.
 */
#include "segment/cluster.h"

#include <stdio.h>
#include <string.h>

#include <muster/task.h>

#include "segment/hosts.h"
#include "segment/trace.h"

enum {
    ROOT_WORDS = sizeof(struct mu_cluster_root) / 8,
    RECORD_WORDS = sizeof(struct mu_task_record) / 8,
    TASKS_WORDS = MU_TASKS_PER_BLOCK * (1 + RECORD_WORDS), /* references, then records */
    REFS_MAX = 8192 / MU_TASKS_PER_BLOCK
};

static uint32_t num_blocks(const struct muster_segment *seg)
{
    return (seg->num_tasks + MU_TASKS_PER_BLOCK - 1) / MU_TASKS_PER_BLOCK;
}

static enum muster_status cluster_corrupt(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: the task records are not well formed",
                   seg->job);
}

/* Copy the body of the block that `ref` names: 1 whole, 0 it has been replaced. Absent (0) is zeros. */
static int copy_block(const struct muster_segment *seg, uint64_t ref, uint64_t *body, uint32_t words)
{
    uint32_t limit;
    struct mu_block *b;
    uint64_t live = MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE);

    memset(body, 0, words * 8);
    if (!ref)
        return 1;
    b = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);
    if (!b || MU_BLOCK_HEADER + words * 8 > limit || mu_load_acquire(&b->word) != live) /* acquire: as heap.c */
        return 0;
    mu_copy_out(body, b->body, words);
    return mu_recheck(&b->word) == live;
}

/*
 * The root's numbers, and of its references `count` from `first` on, into `refs`: 1, 0 changed, -1 corrupt. A read of
 * one record does not copy what names all the others: with thousands of tasks that would be most of the work.
 */
static int copy_root(const struct muster_segment *seg, uint32_t first, uint32_t count, uint64_t *refs,
                     struct mu_cluster *c)
{
    const mu_a64 *word = &seg->header->cluster;
    uint32_t limit, all = num_blocks(seg);
    uint64_t meta, numbers[ROOT_WORDS];
    struct mu_block *b;

    memset(c, 0, sizeof *c);
    memset(refs, 0, count * sizeof *refs);
    c->word = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
    if (!MU_WORD_INDEX(c->word))
        return 1;
    b = mu_heap_block(seg, MU_WORD_INDEX(c->word), &limit);
    meta = b ? mu_load_relaxed(&b->meta) : 0; /* relaxed: re-checked below */
    if (!b || MU_META_REFS(meta) != all || MU_META_BYTES(meta) != ROOT_WORDS * 8 ||
        MU_BLOCK_HEADER + (all + ROOT_WORDS) * 8 > limit)
        return mu_word_same(mu_recheck(word), c->word) ? -1 : 0;
    mu_copy_out(refs, b->body + first, count);
    mu_copy_out(numbers, b->body + all, ROOT_WORDS);
    if (!mu_word_same(mu_recheck(word), c->word))
        return 0;
    memcpy(&c->root, numbers, sizeof c->root);
    return 1;
}

enum muster_status mu_cluster_look(const struct muster_segment *seg, struct mu_cluster *ret_cluster)
{
    uint64_t none;
    int rc;

    do
        rc = copy_root(seg, 0, 0, &none, ret_cluster);
    while (!rc);
    return rc < 0 ? cluster_corrupt(seg) : MUSTER_OK;
}

static int copy_text(const struct muster_segment *seg, uint64_t ref, char text[MU_TEXT_MAX])
{
    uint64_t words[MU_TEXT_MAX / 8];
    int rc = copy_block(seg, ref, words, MU_TEXT_MAX / 8);

    memcpy(text, words, MU_TEXT_MAX);
    text[MU_TEXT_MAX - 1] = 0;
    return rc;
}

/* The records and texts of block `i` of a root: 1, 0 changed. */
static int copy_tasks(const struct muster_segment *seg, uint64_t ref, struct mu_task_record *records, uint32_t first,
                      uint32_t count, char (*texts)[MU_TEXT_MAX])
{
    uint64_t body[TASKS_WORDS];

    if (!copy_block(seg, ref, body, TASKS_WORDS))
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&records[i], body + MU_TASKS_PER_BLOCK + (first + i) * RECORD_WORDS, sizeof records[i]);
        if (texts && !copy_text(seg, body[first + i], texts[i]))
            return 0;
    }
    return 1;
}

enum muster_status mu_cluster_task(const struct muster_segment *seg, uint32_t task, struct mu_task_record *ret_record,
                                   char text[MU_TEXT_MAX], struct mu_cluster *ret_cluster)
{
    uint64_t ref;
    int rc;

    if (task >= seg->num_tasks) /* callers take task numbers from shared memory, too */
        return cluster_corrupt(seg);
    do {
        rc = copy_root(seg, task / MU_TASKS_PER_BLOCK, 1, &ref, ret_cluster);
        if (rc > 0)
            rc = copy_tasks(seg, ref, ret_record, task % MU_TASKS_PER_BLOCK, 1,
                            text ? (char(*)[MU_TEXT_MAX])text : NULL);
        if (!rc && mu_word_same(mu_recheck(&seg->header->cluster), ret_cluster->word))
            rc = -1; /* the current root names something that is not there */
    } while (!rc);
    return rc < 0 ? cluster_corrupt(seg) : MUSTER_OK;
}

enum muster_status mu_cluster_all(const struct muster_segment *seg, struct mu_task_record *ret_records,
                                  char (*ret_texts)[MU_TEXT_MAX], struct mu_cluster *ret_cluster)
{
    return mu_cluster_run(seg, 0, seg->num_tasks, ret_records, ret_texts, ret_cluster);
}

enum muster_status mu_cluster_run(const struct muster_segment *seg, uint32_t first, uint32_t count,
                                  struct mu_task_record *ret_records, char (*ret_texts)[MU_TEXT_MAX],
                                  struct mu_cluster *ret_cluster)
{
    uint64_t refs[REFS_MAX];
    uint32_t from = first / MU_TASKS_PER_BLOCK, to = (first + count + MU_TASKS_PER_BLOCK - 1) / MU_TASKS_PER_BLOCK;
    int rc;

    do {
        rc = copy_root(seg, from, to - from, refs, ret_cluster);
        for (uint32_t i = 0, n; rc > 0 && i < count; i += n) {
            uint32_t at = (first + i) % MU_TASKS_PER_BLOCK;

            n = MU_TASKS_PER_BLOCK - at < count - i ? MU_TASKS_PER_BLOCK - at : count - i;
            rc = copy_tasks(seg, refs[(first + i) / MU_TASKS_PER_BLOCK - from], ret_records + i, at, n,
                            ret_texts ? ret_texts + i : NULL);
        }
        if (!rc && mu_word_same(mu_recheck(&seg->header->cluster), ret_cluster->word))
            rc = -1;
    } while (!rc);
    return rc < 0 ? cluster_corrupt(seg) : MUSTER_OK;
}

/* What one commit is to change: some tasks of one block of records. */
struct cluster_edit {
    struct mu_ctx *ctx;
    struct mu_txn txn;
    struct mu_root root;
    const uint32_t *wanted; /* all that are asked for */
    uint32_t from, to;      /* those of this commit */
    uint32_t texts;         /* messages that come or go by it: the intent has room for TEXTS */
    mu_task_fn fn;
    void *arg;
    enum muster_status declined; /* what fn said when it last left a record as it is */
    struct mu_cluster_root numbers;
    uint32_t num_changes;
    struct mu_task_change changes[MU_TASKS_PER_BLOCK];
    uint64_t tasks[TASKS_WORDS]; /* the block of records that is being replaced */
};
enum { TEXTS = MU_INTENT_REFS - 2 }; /* the others: the root and the block */

static uint32_t block_of(const struct cluster_edit *d)
{
    return d->wanted[d->from] / MU_TASKS_PER_BLOCK;
}

/* Lowest-numbered task in a propagated error, + 1, with the edit; for when the first error is cleared. */
static uint64_t other_error(const struct cluster_edit *d, const uint64_t *refs)
{
    for (uint32_t i = 0; i < num_blocks(d->ctx->seg); i++) {
        struct mu_task_record records[MU_TASKS_PER_BLOCK];

        if (i == block_of(d))
            memcpy(records, d->tasks + MU_TASKS_PER_BLOCK, sizeof records);
        else if (!copy_tasks(d->ctx->seg, refs[i], records, 0, MU_TASKS_PER_BLOCK, NULL))
            return 0; /* replaced meanwhile: the commit will fail and we come again */
        for (uint32_t k = 0; k < MU_TASKS_PER_BLOCK; k++)
            if (mu_cluster_is_propagated(&records[k]))
                return i * MU_TASKS_PER_BLOCK + k + 1;
    }
    return 0;
}

/* A new block of the transaction. */
static enum muster_status add_block(struct cluster_edit *d, uint32_t type, uint32_t refs, const uint64_t *body,
                                    uint32_t words, uint64_t *ret_ref)
{
    struct mu_block *b;
    enum muster_status status = mu_heap_alloc(d->ctx, words * 8, MU_HEAP_SYSTEM, ret_ref, &b);

    if (status)
        return status;
    mu_store_relaxed(&b->meta, MU_META((words - refs) * 8, refs, type)); /* relaxed: the commit CAS publishes */
    mu_copy_in(b->body, body, words);
    mu_txn_new(&d->txn, *ret_ref);
    return MUSTER_OK;
}

static enum muster_status new_text(struct cluster_edit *d, const char *text, uint64_t *ref)
{
    uint64_t words[MU_TEXT_MAX / 8] = {0};
    enum muster_status status = MUSTER_OK;

    if (*ref)
        mu_txn_old(&d->txn, *ref);
    *ref = 0;
    if (text[0]) {
        snprintf((char *)words, sizeof words, "%s", text);
        status = add_block(d, MU_TYPE_TEXT, 0, words, MU_TEXT_MAX / 8, ref);
    }
    d->texts++;
    return status;
}

/* The new root's numbers, after one change. */
static void root_account(struct cluster_edit *d, const struct mu_task_record *before, struct mu_task_change *c)
{
    struct mu_cluster_root *root = &d->numbers;
    bool is = mu_cluster_is_propagated(&c->record);

    root->version++;
    c->record.version = root->version;
    root->errors += (uint64_t)is - (uint64_t)mu_cluster_is_propagated(before);
    root->ended += (uint64_t)mu_cluster_is_over(&c->record) - (uint64_t)mu_cluster_is_over(before);
    if (is && !root->first_error)
        root->first_error = c->task + 1;
}

enum applied { APPLIED, FULL, AGAIN, FAILED };

/* Ask for one task's change, and make it on the copy of the block. FULL: not in this commit any more. */
static enum applied change_apply(struct cluster_edit *d, uint32_t index, enum muster_status *ret_status)
{
    struct mu_task_change *c = &d->changes[d->num_changes];
    uint32_t at = d->wanted[index] % MU_TASKS_PER_BLOCK;
    uint64_t *record = d->tasks + MU_TASKS_PER_BLOCK + at * RECORD_WORDS;
    struct mu_task_record before;
    char text[MU_TEXT_MAX];

    if (!copy_text(d->ctx->seg, d->tasks[at], text))
        return AGAIN;
    memcpy(&before, record, sizeof before);
    *c = (struct mu_task_change){.task = d->wanted[index], .index = index, .record = before, .arg = d->arg};
    memcpy(c->text, text, sizeof text);
    if (!d->fn(c)) {
        d->declined = c->status;
        return APPLIED;
    }
    c->text[MU_TEXT_MAX - 1] = 0;
    if (strcmp(c->text, text)) {
        if (d->texts == TEXTS)
            return FULL;
        *ret_status = new_text(d, c->text, &d->tasks[at]);
        if (*ret_status)
            return FAILED;
    }
    root_account(d, &before, c);
    memcpy(record, &c->record, sizeof c->record);
    d->num_changes++;
    return APPLIED;
}

/* As many of the block's tasks as one commit takes: 1, 0 again, -1 failed. */
static int apply_all(struct cluster_edit *d, uint32_t count, enum muster_status *ret_status)
{
    uint32_t block = block_of(d);

    d->texts = d->num_changes = 0;
    d->declined = MUSTER_OK;
    for (d->to = d->from; d->to < count && d->wanted[d->to] / MU_TASKS_PER_BLOCK == block; d->to++) {
        enum applied rc = d->num_changes < MU_TASKS_PER_BLOCK ? change_apply(d, d->to, ret_status) : FULL;

        if (rc == FULL)
            break;
        if (rc != APPLIED)
            return rc == AGAIN ? 0 : -1;
    }
    return 1;
}

/* Everything else for one commit: block of records, root. */
static enum muster_status commit_build(struct cluster_edit *d)
{
    struct muster_segment *seg = d->ctx->seg;
    uint32_t block = block_of(d), refs = num_blocks(seg), first = (uint32_t)d->numbers.first_error - 1;
    uint64_t ref, body[REFS_MAX + ROOT_WORDS];
    struct mu_task_record r;
    enum muster_status status;
    mu_a64 *to;

    memset(body, 0, sizeof body);
    if (MU_WORD_INDEX(d->root.word))
        memcpy(body, d->root.body, (refs + ROOT_WORDS) * 8);
    if (d->numbers.first_error && first / MU_TASKS_PER_BLOCK == block) {
        memcpy(&r, d->tasks + MU_TASKS_PER_BLOCK + first % MU_TASKS_PER_BLOCK * RECORD_WORDS, sizeof r);
        if (!mu_cluster_is_propagated(&r))
            d->numbers.first_error = other_error(d, body);
    }
    status = add_block(d, MU_TYPE_TASKS, MU_TASKS_PER_BLOCK, d->tasks, TASKS_WORDS, &ref);
    if (status)
        return status;
    if (body[block])
        mu_txn_old(&d->txn, body[block]);
    body[block] = ref;
    memcpy(body + refs, &d->numbers, sizeof d->numbers);
    status = mu_txn_root(&d->txn, MU_TYPE_CLUSTER, refs, sizeof d->numbers, MU_HEAP_SYSTEM, &to);
    if (!status)
        mu_copy_in(to, body, refs + ROOT_WORDS);
    return status;
}

/* Read the root and the block that is to change: 1, 0 again, -1 corrupt. */
static int cluster_load(struct cluster_edit *d)
{
    struct muster_segment *seg = d->ctx->seg;
    enum mu_read rc = mu_txn_read(&d->txn, &d->root);
    uint64_t ref = 0;

    memset(&d->numbers, 0, sizeof d->numbers);
    if (rc == MU_READ_CORRUPT)
        return -1;
    if (rc == MU_READ_OK) {
        if (d->root.refs != num_blocks(seg) || d->root.bytes != ROOT_WORDS * 8)
            return -1;
        ref = d->root.body[block_of(d)];
        memcpy(&d->numbers, mu_root_data(&d->root), sizeof d->numbers);
    }
    if (!copy_block(seg, ref, d->tasks, TASKS_WORDS))
        return mu_word_same(mu_recheck(d->txn.word), d->root.word) ? -1 : 0;
    return 1;
}

/* Into the trace: what the record has become. The message's name is the time's, for no other message has it. */
static void change_note(struct mu_ctx *ctx, const struct mu_task_change *c)
{
    const struct mu_task_record *r = &c->record;
    uint64_t now = mu_trace_now(ctx);
    uint32_t name = c->text[0] ? mu_trace_name(ctx, now, c->text, strlen(c->text)) : 0;

    mu_trace_note(ctx, now, MU_TRACE_STATE, MUSTER_OK, name, c->task,
                  MU_TRACE_CHANGE(r->pid, r->code, r->cause, r->state));
}

/* One commit, of as many of wanted[from ...] as it takes; d->to says where it ended. */
static enum muster_status edit_some(struct cluster_edit *d, uint32_t count)
{
    enum muster_status status = MUSTER_OK;
    enum mu_commit commit = MU_RETRY;

    mu_txn_begin(&d->txn, d->ctx, &d->ctx->seg->header->cluster);
    while (!status && commit == MU_RETRY) {
        int rc;

        while (d->txn.num_news > 1)
            mu_txn_drop_last(&d->txn);
        rc = cluster_load(d);
        if (rc > 0) {
            rc = apply_all(d, count, &status);
            if (!rc && mu_word_same(mu_recheck(d->txn.word), d->root.word))
                rc = -1; /* the current records name a message that is not there */
        }
        if (rc < 0 && !status)
            status = cluster_corrupt(d->ctx->seg);
        if (rc <= 0)
            continue;
        if (!d->num_changes)
            break;
        status = commit_build(d);
        if (!status)
            commit = mu_txn_commit(&d->txn);
    }
    if (commit == MU_RETRY) {
        mu_txn_abort(&d->txn);
        return status;
    }
    mu_epoch_move(d->ctx->seg); /* killed before it: the scavenger of this death moves it */
    mu_bell_ring(d->ctx->seg);
    for (uint32_t i = 0; i < d->num_changes && mu_is_traced(d->ctx); i++)
        change_note(d->ctx, &d->changes[i]);
    return MUSTER_OK;
}

enum muster_status mu_cluster_edit(struct mu_ctx *ctx, uint32_t task, mu_task_fn fn, void *arg)
{
    struct cluster_edit d = {.ctx = ctx, .wanted = &task, .fn = fn, .arg = arg};
    enum muster_status status = edit_some(&d, 1);

    return status ? status : d.declined;
}

enum muster_status mu_cluster_edit_many(struct mu_ctx *ctx, const uint32_t *tasks, uint32_t count, mu_task_fn fn,
                                        void *arg)
{
    struct cluster_edit d = {.ctx = ctx, .wanted = tasks, .fn = fn, .arg = arg};
    enum muster_status status = MUSTER_OK;

    for (; !status && d.from < count; d.from = d.to)
        status = edit_some(&d, count);
    return status;
}

/* The root as it is, but for the first error: 1 built, 0 again, -1 nothing to do or failed. */
static int build_first(struct cluster_edit *d, uint32_t task, enum muster_status *ret_status)
{
    uint32_t at = task % MU_TASKS_PER_BLOCK, refs = d->root.refs;
    struct mu_task_record r;
    uint64_t *body = d->root.body;
    mu_a64 *to;

    memcpy(&r, d->tasks + MU_TASKS_PER_BLOCK + at * RECORD_WORDS, sizeof r);
    if (!MU_WORD_INDEX(d->root.word) || !mu_cluster_is_propagated(&r) || d->numbers.first_error == task + 1)
        return -1;
    d->numbers.first_error = task + 1;
    d->numbers.version++;
    memcpy(body + refs, &d->numbers, sizeof d->numbers);
    *ret_status = mu_txn_root(&d->txn, MU_TYPE_CLUSTER, refs, sizeof d->numbers, MU_HEAP_SYSTEM, &to);
    if (*ret_status)
        return -1;
    mu_copy_in(to, body, refs + ROOT_WORDS);
    return 1;
}

enum muster_status mu_cluster_set_first(struct mu_ctx *ctx, uint32_t task)
{
    struct cluster_edit d = {.ctx = ctx, .wanted = &task};
    enum muster_status status = MUSTER_OK;
    enum mu_commit commit = MU_RETRY;
    int rc = 0;

    mu_txn_begin(&d.txn, ctx, &ctx->seg->header->cluster);
    while (commit == MU_RETRY && rc >= 0) {
        rc = cluster_load(&d);
        if (rc < 0)
            status = cluster_corrupt(ctx->seg);
        if (rc > 0)
            rc = build_first(&d, task, &status);
        if (rc > 0)
            commit = mu_txn_commit(&d.txn);
    }
    if (commit == MU_RETRY)
        mu_txn_abort(&d.txn);
    else
        mu_epoch_move(ctx->seg);
    return status;
}
