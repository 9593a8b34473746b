/*
 * segment/members.c: the membership's block and its one edit.
 *
 * The object's word is the header's `members`; its root block is a struct mu_members and a row a task. An edit copies
 * all of it, reads the tasks' records behind it, lets its function and then the rules (members_settle.c) change the
 * copy, and commits. What decides a commit is so read inside the edit; a record that changes between that look and the
 * CAS is found by the next look, which every waiter makes when the segment's epoch moves, as each record's change does.
 *
 * What a SIGKILL leaves: before the CAS nothing; behind it the change, and sleepers that were not woken. The death
 * moves the segment's epoch, so they look again. A process that dies between saying `ready` and anything else is a lost
 * participant: whichever process looks first rolls the change back by its name.
 *
 * In a job of several hosts the leader's segment has the membership, and the others' a mirror of it, which their agents
 * put there (bridge/member/epochs.c): there nothing is decided, and what tasks say goes to the leader (task/change.c).
 */
#include "segment/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "segment/hosts.h"

enum { HEAD_WORDS = sizeof(struct mu_members) / 8, BODY_MAX = MU_CHUNK / 8 };
_Static_assert(sizeof(struct mu_members) % 8 == 0, "the rows begin at a word");
_Static_assert(sizeof(struct mu_members) + MU_MEMBERS_MAX * sizeof(struct mu_member_row) <= MU_BODY_MAX, "a block");
_Static_assert(MU_MEMBERS_MAX == MUSTER_MEMBERS_MAX && MU_ROLES_MAX == MUSTER_ROLES_MAX, "as the header says");

static enum muster_status members_corrupt(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt: the membership is not well formed", seg->job);
}

static enum muster_status members_absent(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_FAILED_PRECONDITION, "job %s has no membership (see muster_membership_begin())", seg->job);
}

static enum muster_status members_no_memory(void)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the membership");
}

bool mu_membership_exist(const struct muster_segment *seg)
{
    return MU_WORD_INDEX(mu_load_acquire(&seg->header->members)) != 0; /* acquire: pairs with the commit CAS */
}

/* Whether what was read can be believed: every number is looked at before it is used. */
static bool head_is_sound(const struct muster_segment *seg, const struct mu_members *h)
{
    return h->count == seg->num_tasks && h->count <= MU_MEMBERS_MAX && h->phase <= MUSTER_PHASE_SETTLING &&
           h->outcome <= MUSTER_OUTCOME_SET && !h->text[MU_MEMBERS_TEXT - 1];
}

static bool rows_are_sound(const struct mu_members *h, const struct mu_member_row *rows)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (rows[i].role >= MU_ROLES_MAX || h->roles[rows[i].role][MU_ROLE_NAME_MAX - 1])
            return false;
    return true;
}

enum muster_status mu_membership_look(const struct muster_segment *seg, struct mu_members *ret_head, uint64_t *ret_word)
{
    const mu_a64 *word = &seg->header->members;
    uint64_t words[HEAD_WORDS];

    for (;;) {
        uint64_t w = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
        uint32_t limit, index = MU_WORD_INDEX(w);
        struct mu_block *b = index ? mu_heap_block(seg, index, &limit) : NULL;
        bool fits = b && MU_BLOCK_HEADER + sizeof words <= limit;

        if (fits)
            mu_copy_out(words, b->body, HEAD_WORDS);
        if (!mu_word_same(mu_recheck(word), w))
            continue;
        if (!index)
            return members_absent(seg);
        memcpy(ret_head, words, sizeof *ret_head);
        *ret_word = w;
        return fits && head_is_sound(seg, ret_head) ? MUSTER_OK : members_corrupt(seg);
    }
}

/* What the root's copy says. */
static enum muster_status copy_take(const struct muster_segment *seg, const struct mu_root *root,
                                    struct mu_membership_copy *c)
{
    size_t rows = (size_t)seg->num_tasks * sizeof *c->rows;

    c->word = root->word;
    if (root->type != MU_TYPE_MEMBERS || root->refs || root->bytes != sizeof c->head + rows)
        return members_corrupt(seg);
    memcpy(&c->head, root->body, sizeof c->head);
    if (!head_is_sound(seg, &c->head))
        return members_corrupt(seg);
    if (!c->rows)
        c->rows = malloc(rows);
    if (!c->rows)
        return members_no_memory();
    memcpy(c->rows, root->body + HEAD_WORDS, rows);
    return rows_are_sound(&c->head, c->rows) ? MUSTER_OK : members_corrupt(seg);
}

enum muster_status mu_membership_read(const struct muster_segment *seg, struct mu_membership_copy *ret_copy)
{
    uint64_t *body = malloc(MU_CHUNK);
    struct mu_root root;
    enum muster_status status;
    enum mu_read rc;

    memset(ret_copy, 0, sizeof *ret_copy);
    if (!body)
        return members_no_memory();
    rc = mu_object_read(seg, &seg->header->members, body, &root);
    status = rc == MU_READ_EMPTY     ? members_absent(seg)
             : rc == MU_READ_CORRUPT ? members_corrupt(seg)
                                     : copy_take(seg, &root, ret_copy);
    free(body);
    return status;
}

void mu_membership_done(struct mu_membership_copy *c)
{
    free(c->rows);
    c->rows = NULL;
}

/* The new block, of the copy. */
static enum muster_status members_build(struct mu_txn *t, const struct mu_membership_copy *c)
{
    size_t rows = c->head.count * sizeof *c->rows;
    uint64_t words[HEAD_WORDS];
    enum muster_status status;
    mu_a64 *to;

    /* in a full store, too: one of the blocks that are kept for deletes; the next edit gives it back */
    status = mu_txn_root(t, MU_TYPE_MEMBERS, 0, sizeof c->head + rows, MU_HEAP_RESERVE, &to);
    if (status)
        return status;
    memcpy(words, &c->head, sizeof words);
    mu_copy_in(to, words, HEAD_WORDS);
    for (uint32_t i = 0; i < c->head.count; i++) {
        uint64_t word;

        memcpy(&word, &c->rows[i], sizeof word);
        mu_copy_in(to + HEAD_WORDS + i, &word, 1);
    }
    return MUSTER_OK;
}
_Static_assert(sizeof(struct mu_member_row) == 8, "a row is a word");

/* Into the copy: what fn, and then the rules, make of the present block. False: nothing. */
static bool members_change(struct mu_membership_edit *e, mu_membership_fn fn)
{
    bool changed;

    e->now = mu_now();
    e->moves = e->quiet = false;
    e->status = MUSTER_OK;
    changed = mu_membership_settle(e); /* what has been so for longer comes first */
    if (fn && fn(e)) {
        e->quiet &= !changed;
        changed = true;
        if (mu_membership_settle(e))
            e->quiet = false;
    }
    return changed;
}

/* One attempt. *ret_over: nothing is to be committed. */
static enum muster_status members_attempt(struct mu_membership_edit *e, struct mu_txn *t, mu_membership_fn fn,
                                          struct mu_task_record *records, bool *ret_over, enum mu_commit *ret_commit)
{
    struct muster_segment *seg = e->ctx->seg;
    struct mu_cluster cluster;
    struct mu_root root;
    enum mu_read rc = mu_txn_read(t, &root);
    enum muster_status status;

    if (rc == MU_READ_EMPTY)
        return members_absent(seg);
    status = rc == MU_READ_CORRUPT ? members_corrupt(seg) : copy_take(seg, &root, e->copy);
    if (!status)
        status = mu_cluster_all(seg, records, NULL, &cluster);
    if (status)
        return status;
    *ret_over = !members_change(e, fn);
    if (*ret_over)
        return MUSTER_OK;
    status = members_build(t, e->copy);
    if (!status)
        *ret_commit = e->quiet ? mu_txn_commit_quietly(t) : mu_txn_commit(t);
    return status;
}

enum muster_status mu_membership_edit(struct mu_ctx *ctx, mu_membership_fn fn, void *arg)
{
    struct mu_membership_copy copy = {0};
    struct mu_task_record *records = calloc(ctx->seg->num_tasks, sizeof *records);
    struct mu_membership_edit e = {.ctx = ctx, .copy = &copy, .records = records, .arg = arg};
    enum muster_status status = records ? MUSTER_OK : members_no_memory();
    enum mu_commit commit = MU_RETRY;
    bool over = false;
    struct mu_txn t;

    mu_txn_begin(&t, ctx, &ctx->seg->header->members);
    while (!status && !over && commit == MU_RETRY)
        status = members_attempt(&e, &t, fn, records, &over, &commit);
    if (commit == MU_RETRY)
        mu_txn_abort(&t);
    else if (e.moves)
        mu_epoch_move(ctx->seg); /* killed before it: the scavenger of this death moves it */
    if (commit != MU_RETRY && (e.moves || !e.quiet))
        mu_bell_ring(ctx->seg); /* other hosts have mirrors; killed before it: the agent looks after 100 ms */
    mu_membership_done(&copy);
    free(records);
    return status ? status : e.status;
}

void mu_membership_follow(struct mu_ctx *ctx)
{
    char kept[MU_SENTENCE_MAX];

    if (!mu_membership_exist(ctx->seg) || mu_is_follower(ctx->seg))
        return;
    mu_error_keep(kept);
    mu_membership_edit(ctx, NULL, NULL); /* where it fails, the next look does it */
    mu_error_restore(kept);
}

/* ---- the launcher's ---------------------------------------------------------------------------------------------- */

static void members_fill(struct mu_membership_copy *c, const struct mu_membership_set *set)
{
    memset(c->rows, 0, c->head.count * sizeof *c->rows);
    snprintf(c->head.roles[0], sizeof c->head.roles[0], "worker");
    snprintf(c->head.text, sizeof c->head.text, "%s", set->text ? set->text : "");
    for (uint32_t i = 0; i < set->size; i++)
        c->rows[i] = (struct mu_member_row){.rank = (uint16_t)i, .flags = MU_IS_MEMBER};
    c->head.least = set->least ? set->least : 1;
    c->head.most = set->most ? set->most : c->head.count;
    c->head.flags = (set->shrinks ? MU_MEMBERS_SHRINK : 0) | (set->anew ? MU_MEMBERS_ANEW : 0);
    c->head.phase = MUSTER_PHASE_STEADY;
    c->head.outcome = set->epoch > 1 ? MUSTER_OUTCOME_SET : MUSTER_OUTCOME_NONE;
    c->head.since = mu_now();
}

static enum muster_status members_put(struct mu_ctx *ctx, const struct mu_membership_copy *c, bool replaces)
{
    enum muster_status status;
    struct mu_root root;
    struct mu_txn t;

    mu_txn_begin(&t, ctx, &ctx->seg->header->members);
    do {
        enum mu_read rc = mu_txn_read(&t, &root);

        status = rc == MU_READ_EMPTY || replaces
                     ? members_build(&t, c)
                     : mu_fail(MUSTER_ALREADY_EXISTS, "job %s has a membership", ctx->seg->job);
    } while (!status && mu_txn_commit(&t) == MU_RETRY);
    if (status)
        mu_txn_abort(&t);
    else
        mu_epoch_move(ctx->seg);
    return status;
}

enum muster_status mu_membership_mirror(struct mu_ctx *ctx, const struct mu_membership_copy *c)
{
    if (!head_is_sound(ctx->seg, &c->head) || !rows_are_sound(&c->head, c->rows))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the membership is not well formed");
    return members_put(ctx, c, true);
}

enum muster_status mu_membership_begin(struct mu_ctx *ctx, const struct mu_membership_set *set)
{
    struct mu_membership_copy c = {.head.count = ctx->seg->num_tasks, .head.epoch = set->epoch ? set->epoch : 1};
    uint32_t most = set->most ? set->most : c.head.count, bound = set->anew ? MU_MEMBERS_MAX : c.head.count;
    enum muster_status status;

    if ((mu_is_follower(ctx->seg) && !set->mirrors) || (set->anew && mu_is_bridged(ctx->seg)))
        return mu_fail(MUSTER_FAILED_PRECONDITION, "a job of several hosts has its membership, that of a live job, by "
                                                   "host 0's launcher");
    if (c.head.count > MU_MEMBERS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u tasks; a job with a membership has at most %u", c.head.count,
                       MU_MEMBERS_MAX);
    if (!set->size || set->size > most || set->least > set->size || most > bound)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u members, from %u to %u, of %u tasks", set->size, set->least, most,
                       c.head.count);
    c.rows = calloc(c.head.count, sizeof *c.rows);
    if (!c.rows)
        return members_no_memory();
    members_fill(&c, set);
    status = members_put(ctx, &c, false);
    if (!status)
        mu_bell_ring(ctx->seg);
    mu_membership_done(&c);
    return status;
}

/* What a sentence says of a size that is not possible. */
static enum muster_status members_refuse(const struct mu_members *h, uint32_t size)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "%u members would be left; the job may have %u to %u", size, h->least,
                   h->most);
}

static enum muster_status members_mark(struct mu_membership_copy *c, const struct mu_membership_wish *wish)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].flags & MU_IS_MEMBER)
            c->rows[i].flags |= MU_IS_NEXT;
    for (size_t i = 0; i < wish->num_go; i++) {
        int32_t task = wish->go[i];

        if (task < 0 || (uint32_t)task >= c->head.count || !(c->rows[task].flags & MU_IS_MEMBER))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d is no member", task);
        c->rows[task].flags &= (uint8_t)~MU_IS_NEXT;
    }
    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].flags & MU_IS_NEXT && kept++ >= wish->wanted)
            c->rows[i].flags &= (uint8_t)~MU_IS_NEXT;
    return MUSTER_OK;
}

static bool members_wish(struct mu_membership_edit *e)
{
    struct mu_membership_wish *wish = e->arg;
    struct mu_members *h = &e->copy->head;

    if (!mu_membership_is_anew(h))
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION, "the epochs of job %s follow each other in its segment",
                            e->ctx->seg->job);
    else if (h->phase != MUSTER_PHASE_STEADY)
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION, "change %llu is pending: wait for its end, or cancel it",
                            (unsigned long long)h->change);
    else if (wish->wanted < h->least || wish->wanted > h->most)
        e->status = members_refuse(h, wish->wanted);
    else if ((e->status = members_mark(e->copy, wish)) != MUSTER_OK)
        mu_membership_forget_change(e->copy);
    if (e->status)
        return false;
    mu_membership_rank(e->copy);
    wish->ret_change = ++h->change;
    h->flags |= wish->wanted << MU_MEMBERS_WANTED;
    h->phase = MUSTER_PHASE_PREPARING;
    h->deadline = wish->timeout_ns > UINT64_MAX - 1 - e->now ? UINT64_MAX - 1 : e->now + wish->timeout_ns;
    h->since = e->now;
    return true;
}

enum muster_status mu_membership_wish(struct mu_ctx *ctx, struct mu_membership_wish *wish)
{
    return mu_membership_edit(ctx, members_wish, wish);
}

struct wish_taking {
    uint64_t change;
    uint32_t wanted;
};

static bool members_take(struct mu_membership_edit *e)
{
    struct wish_taking *t = e->arg;
    struct mu_members *h = &e->copy->head;

    if (mu_membership_is_over(e, t->change))
        return false;
    t->wanted = mu_membership_wanted(h) ? mu_membership_wanted(h) : mu_membership_count(e->copy, MU_IS_NEXT);
    h->phase = MUSTER_PHASE_SETTLING;
    h->deadline = UINT64_MAX - 1; /* waiters look at no clock any more */
    h->since = e->now;
    return true;
}

enum muster_status mu_membership_take(struct mu_ctx *ctx, uint64_t change, uint32_t *ret_wanted)
{
    struct wish_taking t = {.change = change};
    enum muster_status status = mu_membership_edit(ctx, members_take, &t);

    if (!status)
        *ret_wanted = t.wanted;
    return status;
}
