/*
 * bridge/kv_ops.c: changes of keys that tasks of other hosts ask the leader for.
 *
 * Request: the key (counted bytes), a number (the version that is expected, or what is added), and the value, which is
 * all the rest. Answer: one number (version, sum, length, keys deleted). Each commit leaves the call's record in its
 * page (kv/change.h), so that a leader's agent that was restarted knows it again.
 */
#include "bridge/modules.h"
#include "kv/change.h"

static void left_record(void *arg, uint32_t bucket)
{
    mu_call_left_record(arg, bucket);
}

/* The key as a peer sends it: made once more, so that none gets in that no task here could make. */
static enum muster_status read_key(struct mu_core *core, struct mu_unpack *u, enum mu_op op, struct mu_key *k,
                                   const struct mu_key **ret_key)
{
    size_t len;
    const char *key = mu_unpack_blob(u, MU_KEY_MAX, &len);

    *ret_key = NULL;
    if (!key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the call's key is not well formed");
    if (!len && op == MU_OP_KV_DELETE)
        return MUSTER_OK;
    *ret_key = k;
    return mu_kv_key(core->seg, key, len, k);
}

bool mu_op_kv_change(struct mu_core *core, const struct mu_request *r)
{
    struct mu_done done = {.id = (uint64_t)r->host * MU_FRAME_SLOTS + r->slot, .number = r->number};
    struct mu_kv_behalf behalf = {
        .done = &done, .resent = r->resent, .forget = mu_call_is_settled, .left_record = left_record, .arg = core};
    struct mu_kv_change c = {.op = (enum mu_op)r->op, .behalf = &behalf};
    struct mu_unpack u = r->body;
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = read_key(core, &u, c.op, &k, &c.key);

    c.number = mu_unpack_u64(&u);
    c.value = u.at;
    c.len = u.left;
    if (!status && (u.failed || c.len > MU_VALUE_MAX))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the call is not well formed");
    if (!status)
        status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_kv_change(core->seg, ctx, &c);
        mu_exit(ctx);
        if (status == MUSTER_UNAVAILABLE) {
            mu_call_later(core, r->host, r->slot, r->number);
            return false;
        }
    }
    mu_call_answer(core, r->host, r->slot, r->number, status, NULL, &c.result, sizeof c.result);
    return true;
}
