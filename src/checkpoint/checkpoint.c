/*
 * checkpoint/checkpoint.c: opening a checkpoint, waiting until a generation is whole, looking.
 *
 * What holds a saved part when its task, or the whole attempt, is dead? Neither a task's ledger nor the segment, which
 * goes with each attempt: a file in the run's folder (folder.c), until the launcher or its guard removes that.
 * Generations of another number of ranks lie beside, in a head of their own; a job that has changed its size goes on
 * counting behind them, and removes them when its first generation is whole.
 */
#include "checkpoint/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/members.h"
#include "segment/names.h"
#include "segment/wait.h"

bool mu_checkpoint_is_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t len = name ? strlen(name) : 0;

    return len && len <= MUSTER_CHECKPOINT_NAME_MAX && name[0] != '.' && strspn(name, allowed) == len;
}

static enum muster_status name_check(const char *name)
{
    if (!mu_checkpoint_is_name(name))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "a checkpoint's name is 1 to %u letters, digits, '_', '-' and '.', and does not begin with '.'",
                       MUSTER_CHECKPOINT_NAME_MAX);
    return MUSTER_OK;
}

/* ---- other numbers of ranks ---- */

static void others_visit(void *arg, const char *name, uint32_t ranks)
{
    struct muster_checkpoint *cp = arg;
    struct mu_checkpoint_head *head;
    uint64_t whole;

    if (strcmp(name, cp->name) != 0 || ranks == cp->ranks ||
        mu_checkpoint_head_open(cp->folder, name, ranks, false, &head))
        return;
    whole = mu_checkpoint_settle(head, ranks);
    if (whole > mu_load_acquire(&head->first) && whole > cp->before) { /* acquire: pairs with its CAS */
        cp->before = whole;
        cp->before_ranks = ranks;
    }
    mu_checkpoint_head_close(head, ranks);
}

uint64_t mu_checkpoint_newest(struct muster_checkpoint *cp, uint32_t *ret_ranks)
{
    uint64_t whole = mu_checkpoint_settle(cp->head, cp->ranks);

    *ret_ranks = cp->ranks;
    if (whole > mu_load_acquire(&cp->head->first)) { /* acquire: pairs with mu_checkpoint_go_on_behind() */
        if (cp->before && cp->rank == 0) {           /* one of them does it, once */
            mu_checkpoint_prune(cp->folder, cp->name, cp->ranks);
            cp->before = 0;
        }
        return whole;
    }
    *ret_ranks = cp->before ? cp->before_ranks : cp->ranks;
    return cp->before;
}

/* ---- opening ---- */

/*
 * A predecessor's unfinished part is withdrawn; one of our own, of a handle that was closed, still counts. Over hosts
 * either does, for others may have counted it: the next save waits for it.
 */
static void row_take(struct muster_checkpoint *cp)
{
    struct mu_checkpoint_row *row = &cp->head->rows[cp->rank];

    /* acquire: pairs with the store below; a process killed between the two is withdrawn once more */
    if (mu_load_acquire(&row->life) == cp->m->member || cp->bell >= 0) {
        cp->committed = mu_load_relaxed(&row->done); /* relaxed: this rank's own */
        return;
    }
    mu_checkpoint_withdraw(cp->head, (uint32_t)cp->rank);
    mu_store_release(&row->life, cp->m->member); /* release: behind the withdrawal; pairs with the load above */
}

static enum muster_status head_take(struct muster_checkpoint *cp)
{
    char kept[MU_SENTENCE_MAX];
    enum muster_status status = mu_checkpoint_folder_make(getenv("MUSTER_RUN_ID"), cp->folder, sizeof cp->folder);

    if (!status)
        status = mu_checkpoint_head_open(cp->folder, cp->name, cp->ranks, true, &cp->head);
    if (!status && mu_is_bridged(cp->m->seg))
        status = mu_checkpoint_bell_open(cp->folder, &cp->bell);
    if (status) {
        mu_checkpoint_head_close(cp->head, cp->ranks);
        return status;
    }
    mu_error_keep(kept);
    mu_checkpoint_each(cp->folder, others_visit, cp);
    mu_error_restore(kept);
    if (cp->before)
        mu_checkpoint_go_on_behind(cp->head, cp->before);
    mu_checkpoint_settle(cp->head, cp->ranks);
    if (cp->bell >= 0)
        mu_checkpoint_bell_ring(cp->bell, MU_CHECKPOINT_OPENED);
    if (cp->rank >= 0)
        row_take(cp);
    return MUSTER_OK;
}

/* The caller counts ranks that a job of this size has, all the time; over hosts no row ever goes back. */
static enum muster_status job_check(const struct muster *m)
{
    const struct muster_segment *seg = m->seg;
    struct mu_members head;
    uint64_t word;

    if (mu_is_bridged(seg) && (m->flags & MUSTER_JOIN_RECOVERABLE))
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "checkpoints over %u hosts need all tasks to be started again together: recoverable tasks "
                       "(--restart-policy task) have none",
                       seg->num_hosts);
    if (mu_membership_exist(seg) && !mu_membership_look(seg, &head, &word) && !mu_membership_is_anew(&head))
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "a checkpoint in memory is of a fixed number of ranks, and the members of this job change while "
                       "it runs: use '--elastic' without '--live', which starts all again");
    return MUSTER_OK;
}

enum muster_status muster_checkpoint_open(struct muster *muster, const char *name,
                                          struct muster_checkpoint **ret_checkpoint)
{
    struct muster_checkpoint *cp;
    enum muster_status status = name_check(name);

    if (!status)
        status = mu_enter_read(muster);
    if (status)
        return status;
    status = job_check(muster);
    if (status) {
        mu_exit_read();
        return status;
    }
    cp = calloc(1, sizeof *cp);
    if (!cp) {
        mu_exit_read();
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a checkpoint");
    }
    *cp = (struct muster_checkpoint){.m = muster,
                                     .ranks = muster->seg->num_tasks,
                                     .rank = muster->task_id,
                                     .bell = -1,
                                     .files = {{.fd = -1}, {.fd = -1}}};
    memcpy(cp->name, name, strlen(name));
    if (muster->flags & MUSTER_JOIN_READ_ONLY)
        cp->rank = -1;
    status = head_take(cp);
    mu_exit_read();
    if (status)
        free(cp);
    else
        *ret_checkpoint = cp;
    return status;
}

void muster_checkpoint_close(struct muster_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    if (mu_handle_is_ours(checkpoint->m)) { /* a child's copy has no mappings; its descriptors are copies */
        for (int i = 0; i < 2; i++)
            mu_checkpoint_file_close(&checkpoint->files[i]);
        mu_checkpoint_head_close(checkpoint->head, checkpoint->ranks);
    }
    if (checkpoint->bell >= 0)
        close(checkpoint->bell);
    free(checkpoint->pieces);
    free(checkpoint);
}

/* ---- waiting ---- */

struct missing {
    struct muster_checkpoint *cp;
    uint64_t generation;
};

static bool is_missing(void *arg, uint32_t task)
{
    const struct missing *missing = arg;

    /* acquire: pairs with mu_checkpoint_done() */
    return task < missing->cp->ranks && mu_load_acquire(&missing->cp->head->rows[task].done) < missing->generation;
}

static enum muster_status say_missing(struct muster_checkpoint *cp, uint64_t generation)
{
    struct missing missing = {.cp = cp, .generation = generation};
    char list[MU_LIST_MAX];

    mu_cluster_list(cp->m->seg, is_missing, &missing, list);
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "generation %llu of checkpoint %s is not whole: not saved by %s",
                   (unsigned long long)generation, cp->name, list);
}

/* The generation that would be the next is none: ABORTED. */
static enum muster_status steps_check(struct muster_checkpoint *cp)
{
    uint64_t steps[2], generation = mu_checkpoint_settle(cp->head, cp->ranks) + 1;
    uint32_t stray = mu_checkpoint_stray(cp->head, cp->ranks, steps);

    if (!stray)
        return MUSTER_OK;
    return mu_fail(MUSTER_ABORTED, "task 0 has saved step %llu as generation %llu of checkpoint %s, task %u step %llu",
                   (unsigned long long)steps[0], (unsigned long long)generation, cp->name, stray,
                   (unsigned long long)steps[1]);
}

enum muster_status mu_checkpoint_await(struct muster_checkpoint *cp, struct mu_ctx *ctx, uint64_t generation,
                                       muster_deadline deadline)
{
    enum muster_status status = MUSTER_OK;
    char what[MUSTER_CHECKPOINT_NAME_MAX + 64];
    struct mu_wait w;

    if (mu_checkpoint_settle(cp->head, cp->ranks) >= generation)
        return MUSTER_OK;
    snprintf(what, sizeof what, "generation %llu of checkpoint %s", (unsigned long long)generation, cp->name);
    mu_wait_begin(&w, cp->m->seg, ctx, deadline, what);
    w.interrupt = &cp->m->interrupt;
    for (;;) {
        uint64_t seen;

        mu_wait_look(&w);
        seen = mu_load_acquire(&cp->head->whole); /* acquire: pairs with the CAS in mu_checkpoint_settle() */
        if (mu_checkpoint_settle(cp->head, cp->ranks) >= generation)
            break;
        status = steps_check(cp);
        if (!status)
            status = mu_cluster_error(cp->m->seg, what);
        if (!status)
            status = mu_wait_on(&w, &cp->head->whole, seen);
        if (status)
            break;
    }
    mu_wait_end(&w);
    return status == MUSTER_DEADLINE_EXCEEDED ? say_missing(cp, generation) : status;
}

enum muster_status muster_checkpoint_wait(struct muster_checkpoint *checkpoint, uint64_t generation,
                                          muster_deadline deadline)
{
    struct muster_checkpoint *cp = checkpoint;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(cp->m, &ctx);

    if (status)
        return status;
    status = mu_checkpoint_await(cp, ctx, generation ? generation : cp->committed, deadline);
    mu_exit(ctx);
    return status;
}

/* ---- looking ---- */

/* The step of that generation, or of a newer one that has taken its place meanwhile. */
static uint64_t step_of(struct mu_checkpoint_head *head, uint64_t *generation)
{
    for (;;) {
        uint64_t step =
            mu_load_relaxed(&head->rows[0].step[*generation & 1]); /* relaxed: behind the word, and the fence */
        uint64_t newest;

        /* acquire, as a fence: a step of two generations later is stored behind the word that this load sees then */
        mu_fence_acquire();
        newest = MU_CHECKPOINT_GENERATION(mu_load_relaxed(&head->whole)); /* relaxed: behind the fence */
        if (newest <= *generation)
            return *generation ? step : 0;
        *generation = newest;
    }
}

enum muster_status muster_checkpoint_info(struct muster_checkpoint *checkpoint, struct muster_checkpoint_info *ret_info)
{
    struct muster_checkpoint *cp = checkpoint;
    struct muster_checkpoint_info info = {.job_ranks = cp->ranks, .rank = cp->rank};
    struct mu_checkpoint_head *head = cp->head;
    enum muster_status status = mu_enter_read(cp->m);

    if (status)
        return status;
    info.generation = mu_checkpoint_newest(cp, &info.ranks);
    if (info.ranks != cp->ranks && mu_checkpoint_head_open(cp->folder, cp->name, info.ranks, false, &head))
        status = MUSTER_DATA_LOSS;
    if (!status)
        info.step = step_of(head, &info.generation);
    if (!status && cp->rank >= 0) {
        info.saved = mu_load_acquire(&cp->head->rows[cp->rank].done); /* acquire: our own */
        if (info.ranks == cp->ranks && info.saved < info.generation)
            info.saved = info.generation;
    }
    if (head != cp->head && !status)
        mu_checkpoint_head_close(head, info.ranks);
    mu_exit_read();
    if (!status)
        *ret_info = info;
    return status;
}
