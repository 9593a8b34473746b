/*
 * segment/remote.c: calls to the agent, through the segment.
 *
 * The call: an edit of cell "Q" + slot; its number is one more than what was there. Then the slot's bit, then the bell.
 * The answer: an edit of cell "Z" + slot by the agent, which wakes the sleeper on it. Every state in between is one
 * that an agent finds when it starts: a call without an answer of its number is open, whether its bit is set or not. A
 * caller that dies leaves an open call, which is carried out, or taken back; nobody waits for it. Its head says which
 * of the slot's holders made it: so the agent that runs finds one without its bit set, and does not take back its
 * successor's.
 */
#include "segment/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/cluster.h"
#include "segment/slot.h"

enum { SMALL = 256 }; /* bytes that a finished call may leave behind */

/* What a call's value begins with; the op's own bytes follow. */
struct call_head {
    uint64_t number;
    uint16_t op, holder; /* the slot's incarnation, which tells the caller */
    uint32_t task, flags, attempt;
    uint64_t incarnation; /* of the process */
};

/* What an answer's value begins with; the sentence and the op's own bytes follow. */
struct answer_head {
    uint64_t number;
    uint32_t status, text_len;
};

static void cell_key(struct mu_key *k, const struct muster_segment *seg, char letter, uint32_t slot)
{
    char bytes[5] = {letter};

    memcpy(bytes + 1, &slot, sizeof slot);
    mu_key_make(k, seg, bytes, sizeof bytes);
}

void mu_answer_done(struct mu_answer *a)
{
    free(a->memory);
    a->memory = NULL;
}

void mu_request_done(struct mu_request *r)
{
    mu_blob_drop(r->memory);
    r->memory = NULL;
}

static enum muster_status call_no_memory(void)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call to another host");
}

/* Read a cell's value into *buffer, which grows. version 0: it is not there. */
static enum muster_status cell_fetch(struct mu_ctx *ctx, const struct mu_key *k, void **buffer, size_t *capacity,
                                     struct mu_found *f)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    enum muster_status status;

    for (;;) {
        void *more;

        status = mu_table_get(&t, ctx, k, *buffer, *capacity, f);
        if (status || f->len <= *capacity)
            return status;
        more = realloc(*buffer, f->len);
        if (!more)
            return call_no_memory();
        *buffer = more;
        *capacity = f->len;
    }
}

/* ---- the caller's side ------------------------------------------------------------------------------------------- */

struct post {
    uint8_t *head;
    size_t len; /* of it all */
    const void *more;
    size_t more_len;
    uint64_t number;
};

static enum mu_verdict cell_put(struct mu_edit *e, const struct post *p)
{
    e->value = p->head;
    e->len = p->len;
    e->more = p->more;
    e->more_len = p->more_len;
    return MU_PUT;
}

static enum mu_verdict put_call(struct mu_edit *e)
{
    struct post *p = e->arg;
    uint64_t before = 0;

    if (e->version && e->old_len >= sizeof before)
        memcpy(&before, e->old, sizeof before);
    p->number = before + 1;
    memcpy(p->head, &p->number, sizeof p->number);
    return cell_put(e, p);
}

/* The call as what is to be put. False: no memory. */
static bool call_compose(const struct muster *m, const struct mu_ctx *ctx, const struct mu_remote_call *call,
                         struct post *ret_post)
{
    size_t body = call->request ? call->request->len : 0;
    struct call_head h = {.op = (uint16_t)call->op,
                          .task = (uint32_t)(m->task_id + 1),
                          .flags = m->flags,
                          .incarnation = m->incarnation,
                          .holder = ctx->incarnation};
    uint8_t *head = call->request && call->request->failed ? NULL : malloc(sizeof h + body);
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (!head)
        return false;
    if (m->task_id >= 0 && !mu_cluster_task(m->seg, (uint32_t)m->task_id, &r, NULL, &cluster))
        h.attempt = r.attempt;
    memcpy(head, &h, sizeof h);
    if (body)
        memcpy(head + sizeof h, call->request->bytes, body);
    *ret_post = (struct post){
        .head = head, .len = sizeof h + body + call->value_len, .more = call->value, .more_len = call->value_len};
    return true;
}

/* Whether the wait for an answer must end: the agent has given the leader up, or has died and nobody took over. */
enum muster_status mu_remote_abandoned(const struct muster_segment *seg, const char *what, uint64_t *dead_since)
{
    uint64_t patience = seg->header->adopt_ns; /* constant after creation */
    char name[64];

    if (mu_host_bridge_state(seg) == MU_BRIDGE_LOST) {
        mu_host_name(seg, 0, name, sizeof name);
        return mu_fail(MUSTER_UNAVAILABLE, "%s: the leader of the job, host %s, is lost", what, name);
    }
    if (mu_host_bridge_agent_lives(seg)) {
        *dead_since = 0;
        return MUSTER_OK;
    }
    if (!*dead_since)
        *dead_since = mu_now();
    if (mu_now() - *dead_since < patience)
        return MUSTER_OK;
    return mu_fail(MUSTER_UNAVAILABLE, "%s: the agent of this host is dead, and nobody has adopted job %s for %.6g s",
                   what, seg->job, (double)patience / 1e9);
}

static enum muster_status wait_for_answer(const struct mu_remote_call *call, struct mu_ctx *ctx, struct mu_wait *w,
                                          uint64_t number, void **buffer, size_t *ret_len)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_key z;
    uint64_t dead_since = 0;
    size_t capacity = 0;
    enum muster_status status = MUSTER_OK;

    cell_key(&z, ctx->seg, 'Z', ctx->slot);
    while (!status) {
        struct mu_found f;

        mu_wait_look(w);
        status = cell_fetch(ctx, &z, buffer, &capacity, &f);
        if (!status && f.version && f.len >= sizeof(struct answer_head) && !memcmp(*buffer, &number, sizeof number)) {
            *ret_len = f.len;
            return MUSTER_OK;
        }
        if (!status)
            status = mu_remote_abandoned(ctx->seg, call->what, &dead_since);
        if (!status && call->ends)
            status = call->ends(call->arg);
        if (!status)
            status = mu_wait_on(w, mu_table_bucket(&t, &z), f.word);
    }
    return status;
}

/* Only the room is given back: what is there has the number that this has. */
static enum mu_verdict put_rest(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

/* Large values are not kept until this slot's next call. */
static void cell_give_back(struct mu_ctx *ctx, const struct post *p, size_t answer_len)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct call_head h = {.number = p->number, .op = MU_OP_NONE};
    struct answer_head a = {.number = p->number};
    struct mu_edit e;
    struct mu_key k;

    if (p->len > sizeof h + SMALL) {
        e = (struct mu_edit){.value = &h, .len = sizeof h};
        cell_key(&k, ctx->seg, 'Q', ctx->slot);
        mu_table_edit(&t, ctx, &k, 0, put_rest, &e, NULL);
    }
    if (answer_len > sizeof a + SMALL) {
        e = (struct mu_edit){.value = &a, .len = sizeof a};
        cell_key(&k, ctx->seg, 'Z', ctx->slot);
        mu_table_edit(&t, ctx, &k, 0, put_rest, &e, NULL);
    }
}

/* The answer's status, its sentence, and where its body begins. */
static enum muster_status open_answer(struct mu_answer *a, size_t len)
{
    struct answer_head h;
    const char *text = (const char *)a->memory + sizeof h;

    memcpy(&h, a->memory, sizeof h);
    if (h.text_len > len - sizeof h || h.status > MUSTER_DATA_LOSS)
        return mu_fail(MUSTER_DATA_LOSS, "an answer of the agent is not well formed");
    a->status = (enum muster_status)h.status;
    a->body = mu_unpack_of(text + h.text_len, len - sizeof h - h.text_len);
    return h.status ? mu_fail(a->status, "%.*s", (int)h.text_len, text) : MUSTER_OK;
}

enum muster_status mu_remote_call(struct muster *m, struct mu_ctx *ctx, const struct mu_remote_call *call,
                                  struct mu_answer *ret_answer)
{
    struct mu_table t = mu_table_cells(m->seg);
    struct post p = {0};
    struct mu_edit e = {.arg = &p};
    struct mu_key q;
    struct mu_wait w;
    size_t len = 0;
    enum muster_status status;

    *ret_answer = (struct mu_answer){.status = MUSTER_UNAVAILABLE};
    if (!ctx)
        return mu_fail(MUSTER_PERMISSION_DENIED, "%s: job %s is open read-only here, and only its leader knows",
                       call->what, m->seg->job);
    if (!mu_is_bridged(m->seg))
        return mu_fail(MUSTER_INTERNAL, "%s: job %s has no other hosts", call->what, m->seg->job);
    if (!call_compose(m, ctx, call, &p))
        return call_no_memory();
    cell_key(&q, m->seg, 'Q', ctx->slot);
    status = mu_table_edit(&t, ctx, &q, MU_EDIT_WANTS_OLD, put_call, &e, NULL);
    if (!status) {
        mu_asks_set(ctx->seg, ctx->slot);
        mu_wait_begin(&w, m->seg, ctx, call->deadline, call->what);
        w.interrupt = call->undisturbed ? NULL : &m->interrupt;
        w.kind = call->kind;
        mu_wait_remote(&w);
        status = wait_for_answer(call, ctx, &w, p.number, &ret_answer->memory, &len);
        mu_wait_end(&w);
        if (status != MUSTER_DATA_LOSS) /* truncated: hands off */
            cell_give_back(ctx, &p, len);
    }
    free(p.head);
    if (status) {
        mu_answer_done(ret_answer);
        return status;
    }
    return open_answer(ret_answer, len);
}

/* ---- the agent's side -------------------------------------------------------------------------------------------- */

void mu_remote_collect(struct muster_segment *seg, void (*visit)(void *arg, uint32_t slot), void *arg)
{
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i * 64 < high; i++)
        for (uint64_t bits = mu_asks_take(seg, i); bits; bits &= bits - 1)
            visit(arg, i * 64 + (uint32_t)__builtin_ctzll(bits));
}

void mu_remote_collect_all(struct muster_segment *seg, void (*visit)(void *arg, uint32_t slot), void *arg)
{
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i < high; i++)
        visit(arg, i);
}

/* Read a cell's value into memory of its own; *ret_blob NULL: there is none. What its writer does to the cell
 * meanwhile, or afterwards, changes nothing of it. */
static enum muster_status fetch_blob(struct mu_ctx *ctx, const struct mu_key *k, struct mu_blob **ret_blob,
                                     struct mu_found *f)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    enum muster_status status = mu_table_get(&t, ctx, k, NULL, 0, f);
    struct mu_blob *blob = NULL;

    while (!status && f->version && (!blob || f->len > blob->len)) {
        mu_blob_drop(blob);
        blob = mu_blob_new(f->len);
        status = blob ? mu_table_get(&t, ctx, k, blob->bytes, blob->len, f) : call_no_memory();
    }
    *ret_blob = status || !f->version ? NULL : blob;
    if (!*ret_blob)
        mu_blob_drop(blob);
    return status;
}

/* The number of the slot's last answer, 0: none; and the bytes of it all. */
static enum muster_status last_answer(struct mu_ctx *ctx, uint32_t slot, uint64_t *ret_number, size_t *ret_len)
{
    struct mu_found f;
    struct mu_key z;
    void *buffer = NULL;
    size_t capacity = 0;
    enum muster_status status;

    *ret_number = 0;
    cell_key(&z, ctx->seg, 'Z', slot);
    status = cell_fetch(ctx, &z, &buffer, &capacity, &f);
    if (!status && f.version && f.len >= sizeof *ret_number)
        memcpy(ret_number, buffer, sizeof *ret_number);
    *ret_len = f.len;
    free(buffer);
    return status;
}

enum muster_status mu_remote_read(struct mu_ctx *ctx, uint32_t slot, struct mu_request *ret_request)
{
    struct call_head h;
    struct mu_found f;
    struct mu_key q;
    struct mu_blob *blob;
    size_t answer_len;
    uint64_t answered = 0;
    enum muster_status status;

    *ret_request = (struct mu_request){.host = ctx->seg->host, .slot = slot};
    cell_key(&q, ctx->seg, 'Q', slot);
    status = fetch_blob(ctx, &q, &blob, &f);
    if (!status && blob)
        status = last_answer(ctx, slot, &answered, &answer_len);
    if (status || !blob || f.len < sizeof h) {
        mu_blob_drop(blob);
        return status;
    }
    memcpy(&h, blob->bytes, sizeof h);
    ret_request->number = h.number;
    if (h.op == MU_OP_NONE || h.number <= answered) {
        mu_blob_drop(blob);
        return MUSTER_OK;
    }
    ret_request->memory = blob;
    ret_request->op = h.op;
    ret_request->task = h.task;
    ret_request->flags = h.flags;
    ret_request->attempt = h.attempt;
    ret_request->incarnation = h.incarnation;
    ret_request->body = mu_unpack_of(blob->bytes + sizeof h, f.len - sizeof h);
    return MUSTER_OK;
}

static enum mu_verdict put_answer(struct mu_edit *e)
{
    struct post *p = e->arg;
    uint64_t before = 0;

    e->status = MUSTER_OK;
    if (e->version && e->old_len >= sizeof before)
        memcpy(&before, e->old, sizeof before);
    return before >= p->number ? MU_KEEP : cell_put(e, p);
}

enum muster_status mu_remote_answer(struct mu_ctx *ctx, uint32_t slot, uint64_t number, enum muster_status status,
                                    const char *text, const void *body, size_t len)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    size_t text_len = text && status ? strlen(text) : 0;
    struct answer_head h = {.number = number, .status = status, .text_len = (uint32_t)text_len};
    struct post p = {.head = malloc(sizeof h + text_len),
                     .len = sizeof h + text_len + len,
                     .more = body,
                     .more_len = len,
                     .number = number};
    struct mu_edit e = {.arg = &p};
    struct mu_key z;

    if (!p.head)
        return call_no_memory();
    memcpy(p.head, &h, sizeof h);
    if (text_len)
        memcpy(p.head + sizeof h, text, text_len);
    cell_key(&z, ctx->seg, 'Z', slot);
    status = mu_table_edit(&t, ctx, &z, MU_EDIT_WANTS_OLD, put_answer, &e, NULL);
    free(p.head);
    return status;
}

uint32_t mu_remote_holder(const struct muster_segment *seg, uint32_t slot)
{
    uint64_t w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim */

    return (uint32_t)MU_SLOT_INCARNATION(w) << 2 | (mu_slot_is_dead(seg, slot, w) ? 2 : 0) | 1;
}

/* The last call of a slot; its caller may be gone. */
struct taking {
    const struct muster_segment *seg;
    uint32_t slot;
    uint64_t answered;
    struct mu_taken taken;
    uint8_t room[sizeof(struct call_head)];
};

/* What is left of a call or an answer: the numbers go on from there. */
static enum mu_verdict cell_shrink(struct mu_edit *e, struct taking *t, uint64_t number, size_t len)
{
    memset(t->room, 0, len);
    memcpy(t->room, &number, sizeof number);
    e->value = t->room;
    e->len = len;
    t->taken.any = true;
    return MU_PUT;
}

/* The page was read before the slot is: the maker of a call that is in it has come to the slot by then. */
static bool has_its_caller(const struct taking *t, const struct call_head *h)
{
    return mu_remote_holder(t->seg, t->slot) == ((uint32_t)h->holder << 2 | 1);
}

static enum mu_verdict take_call(struct mu_edit *e)
{
    struct taking *t = e->arg;
    struct call_head h;

    e->status = MUSTER_OK;
    t->taken = (struct mu_taken){0};
    if (!e->version || e->old_len < sizeof h)
        return MU_KEEP;
    memcpy(&h, e->old, sizeof h);
    t->taken.number = h.number;
    if (has_its_caller(t, &h)) {
        t->taken.number--;
        return MU_KEEP;
    }
    if (h.op == MU_OP_NONE || (h.number <= t->answered && e->old_len <= sizeof h + SMALL))
        return MU_KEEP;
    return cell_shrink(e, t, h.number, sizeof h);
}

static enum mu_verdict take_answer(struct mu_edit *e)
{
    struct taking *t = e->arg;
    uint64_t number;

    e->status = MUSTER_OK;
    if (!e->version || e->old_len <= sizeof(struct answer_head) + SMALL)
        return MU_KEEP;
    memcpy(&number, e->old, sizeof number);
    if (number > t->taken.number) /* its slot has a new holder, which calls */
        return MU_KEEP;
    return cell_shrink(e, t, number, sizeof(struct answer_head));
}

enum muster_status mu_remote_take_back(struct mu_ctx *ctx, uint32_t slot, struct mu_taken *ret_taken)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct taking taking = {.seg = ctx->seg, .slot = slot};
    struct mu_edit e = {.arg = &taking};
    struct mu_key k;
    size_t answer_len;
    enum muster_status status = last_answer(ctx, slot, &taking.answered, &answer_len);

    if (!status) {
        cell_key(&k, ctx->seg, 'Q', slot);
        status = mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, take_call, &e, NULL);
    }
    if (!status && answer_len > sizeof(struct answer_head) + SMALL) {
        e = (struct mu_edit){.arg = &taking};
        cell_key(&k, ctx->seg, 'Z', slot);
        status = mu_table_edit(&t, ctx, &k, MU_EDIT_WANTS_OLD, take_answer, &e, NULL);
    }
    *ret_taken = taking.taken;
    return status;
}
