/*
 * bridge/core/records.c: task records as they travel: runs of neighbours with one head.
 *
 * The writer adds one record after the other, and a run grows by counting up in its head, so the writer need not know
 * what comes behind. The reader gets them one by one from where they lie, and unpacks nothing but the one at hand.
 */
#include "bridge/core/records.h"

#include <string.h>

enum { RUN_MAX = 255 };

void mu_records_begin(struct mu_records_out *out, struct mu_pack *to)
{
    *out = (struct mu_records_out){.to = to};
}

static bool goes_on(const struct mu_records_out *out, const struct mu_said *s)
{
    const struct mu_said *l = &out->last;

    return out->count_at && !out->to->failed && out->to->bytes[out->count_at] < RUN_MAX && s->task == l->task + 1 &&
           s->task < out->end && s->state == l->state && s->cause == l->cause && s->code == l->code &&
           s->flags == l->flags && s->attempt == l->attempt && s->text_len == l->text_len &&
           (!s->text_len || !memcmp(s->text, out->text, s->text_len));
}

static void begin_run(struct mu_records_out *out, const struct mu_said *s, uint32_t end)
{
    struct mu_pack *p = out->to;

    mu_pack_var(p, s->task);
    out->count_at = p->len;
    mu_pack_u8(p, 0);
    mu_pack_u8(p, (uint8_t)s->state);
    mu_pack_u8(p, (uint8_t)s->cause);
    mu_pack_u8(p, (uint8_t)s->code);
    mu_pack_u8(p, (uint8_t)s->flags);
    if (s->flags & MU_TASK_ENDED)
        mu_pack_var(p, MU_TASK_HOW(s->flags));
    mu_pack_var(p, s->attempt);
    mu_pack_var(p, s->text_len);
    mu_pack_raw(p, s->text, s->text_len);
    out->end = end;
    out->last = (struct mu_said){0};
    if (s->text_len && s->text_len < sizeof out->text)
        memcpy(out->text, s->text, s->text_len);
}

void mu_records_add(struct mu_records_out *out, const struct mu_said *said, uint32_t end)
{
    struct mu_pack *p = out->to;

    if (!goes_on(out, said))
        begin_run(out, said, end);
    mu_pack_step(p, out->last.version, said->version);
    mu_pack_step(p, out->last.pid, said->pid);
    mu_pack_u64(p, said->incarnation);
    mu_pack_step(p, out->last.age / 1000, said->age / 1000);
    out->last = *said;
    if (!p->failed)
        p->bytes[out->count_at]++;
}

static void run_head_take(struct mu_records_in *in)
{
    struct mu_unpack *u = &in->u;
    struct mu_said *s = &in->now;
    uint64_t task = mu_unpack_var(u), how, attempt;

    in->left = mu_unpack_u8(u);
    *s = (struct mu_said){.task = (uint32_t)task - 1};
    s->state = mu_unpack_u8(u);
    s->cause = mu_unpack_u8(u);
    s->code = mu_unpack_u8(u);
    s->flags = mu_unpack_u8(u);
    how = s->flags & MU_TASK_ENDED ? mu_unpack_var(u) : 0;
    s->flags |= MU_TASK_HOW_FLAGS(how);
    attempt = mu_unpack_var(u);
    s->attempt = (uint32_t)attempt;
    s->text_len = mu_unpack_var(u);
    u->failed |=
        !in->left || how > UINT16_MAX || task >= UINT32_MAX || attempt > UINT32_MAX || s->text_len >= MU_TEXT_MAX;
    s->text = s->text_len && !u->failed ? mu_unpack_raw(u, s->text_len) : NULL;
}

bool mu_records_next(struct mu_records_in *in)
{
    struct mu_said *s = &in->now;
    uint64_t pid;

    if (!in->left && !in->u.left)
        return false;
    if (!in->left)
        run_head_take(in);
    s->task++;
    in->left--;
    s->version = mu_unpack_step(&in->u, s->version);
    pid = mu_unpack_step(&in->u, s->pid);
    s->pid = (uint32_t)pid;
    s->incarnation = mu_unpack_u64(&in->u);
    s->age = mu_unpack_step(&in->u, s->age / 1000);
    in->u.failed |= pid > UINT32_MAX || s->age > UINT64_MAX / 1000;
    s->age *= 1000;
    return !in->u.failed;
}
