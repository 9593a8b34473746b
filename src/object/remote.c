/*
 * object/remote.c: objects of other hosts, and the replicas that stand for them here.
 *
 * A replica is made by the first process that wants the object, open, and told to this host's agent, which says which
 * one stands for the reference: of several that come at once the first. The agent asks the home host for the object,
 * and seals the replica; all else of it is what any object's is. So a process that is killed leaves nothing here but
 * what its ledger says, and an agent that is replaced finds the open replicas in the cells (segment/replica.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/holding.h"
#include "segment/remote.h"
#include "segment/replica.h"

enum { WHAT_MAX = MU_HERE_HOST + 40 };

/* One reference more of this process to an object of this host; or one less. */
static enum muster_status local_hold(struct muster *m, struct mu_ctx *ctx, uint64_t local)
{
    struct mu_ledger *ledger;
    struct mu_holding *h;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    status = mu_holding_find(ledger, ctx, local, &h);
    if (!status)
        h->refs++;
    mu_ledger_unlock(ledger);
    return status;
}

static void local_let_go(struct muster *m, struct mu_ctx *ctx, uint64_t local)
{
    struct mu_ledger *ledger;
    struct mu_holding *h;

    if (mu_ledger_lock(m, &ledger))
        return;
    h = mu_ledger_find(ledger, local);
    if (h && h->refs) {
        h->refs--;
        mu_holding_let_go(ledger, ctx, h);
    }
    mu_ledger_unlock(ledger);
}

/* An open replica, held once. */
static enum muster_status replica_make(struct muster *m, struct mu_ctx *ctx, uint64_t *ret_local)
{
    struct mu_object o = {.state = MU_OBJECT_WRITING, .maker = MU_OBJECT_REMOTE};
    struct mu_ledger *ledger;
    struct mu_holding *h;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    status = mu_holding_new(ledger, ctx, &o, false, &h);
    mu_ledger_unlock(ledger);
    *ret_local = o.ref;
    return status;
}

/* Which replica stands for the reference, as the agent says; it is `local` unless another was there. */
static enum muster_status agent_ask(struct muster *m, struct mu_ctx *ctx, uint64_t ref, uint64_t local,
                                    muster_deadline deadline, uint64_t *ret_local)
{
    struct mu_pack request = {0};
    char what[WHAT_MAX], name[MU_HERE_HOST];
    struct mu_remote_call call = {.op = MU_OP_OBJECT_PULL, .request = &request, .deadline = deadline, .what = what};
    struct mu_answer answer;
    enum muster_status status;

    snprintf(what, sizeof what, "object 0x%016llx of %s", (unsigned long long)ref, mu_here_host(m->seg, ref, name));
    mu_pack_u64(&request, ref);
    mu_pack_u64(&request, local);
    status = mu_remote_call(m, ctx, &call, &answer);
    if (!status) {
        *ret_local = mu_unpack_u64(&answer.body);
        if (!mu_unpack_end(&answer.body))
            status = mu_fail(MUSTER_DATA_LOSS, "the agent's answer about %s is not well formed", what);
    }
    mu_answer_done(&answer);
    mu_pack_done(&request);
    return status;
}

/* The replica for a reference, held once more. Each further round another process's replica has come and gone. */
static enum muster_status replica_hold(struct muster *m, struct mu_ctx *ctx, uint64_t ref, muster_deadline deadline,
                                       uint64_t *ret_local)
{
    for (;;) {
        uint64_t own, stands;
        enum muster_status status = mu_remote_replica_find(m->seg, ctx, ref, ret_local);

        if (status)
            return status;
        status = *ret_local ? local_hold(m, ctx, *ret_local) : MUSTER_NOT_FOUND;
        if (status != MUSTER_NOT_FOUND)
            return status;
        status = replica_make(m, ctx, &own);
        if (status)
            return status;
        status = agent_ask(m, ctx, ref, own, deadline, &stands);
        *ret_local = own;
        if (!status && stands == own)
            return MUSTER_OK;
        local_let_go(m, ctx, own);
        if (status)
            return status;
    }
}

enum muster_status mu_here_begin(struct muster *m, struct mu_ctx *ctx, const muster_object *objects, size_t count,
                                 muster_deadline deadline, struct mu_here *here, size_t *ret_at)
{
    enum muster_status status = MUSTER_OK;
    muster_object *local = here->few;
    size_t first = 0;

    here->given = here->local = objects;
    here->count = count;
    here->num_held = 0;
    if (!mu_is_bridged(m->seg))
        first = count;
    while (first < count && !mu_ref_is_remote(m->seg, objects[first]))
        first++;
    here->any = first < count;
    if (!here->any)
        return MUSTER_OK;
    if (count > MU_HERE_FEW)
        local = malloc(count * sizeof *local);
    if (!local)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu references", count);
    memcpy(local, objects, count * sizeof *local);
    here->local = local;
    for (size_t i = first; !status && i < count; i++) {
        if (mu_ref_is_remote(m->seg, objects[i]))
            status = replica_hold(m, ctx, objects[i], deadline, &local[i]);
        if (status && ret_at)
            *ret_at = i;
        here->num_held = status ? i : i + 1;
    }
    if (status)
        mu_here_end(m, ctx, here);
    return status;
}

void mu_here_end(struct muster *m, struct mu_ctx *ctx, struct mu_here *here)
{
    char kept[MU_SENTENCE_MAX];

    if (!here->any)
        return;
    mu_error_keep(kept);
    for (size_t i = 0; i < here->num_held; i++)
        if (here->local[i] != here->given[i])
            local_let_go(m, ctx, here->local[i]);
    mu_error_restore(kept);
    if (here->local != here->few)
        free((muster_object *)here->local);
}

uint64_t mu_here_of(struct muster *m, struct mu_ctx *ctx, uint64_t ref)
{
    uint64_t local;

    return mu_ref_is_remote(m->seg, ref) && !mu_remote_replica_find(m->seg, ctx, ref, &local) && local ? local : ref;
}

const char *mu_here_host(const struct muster_segment *seg, uint64_t ref, char name[MU_HERE_HOST])
{
    char own[64];

    mu_host_name(seg, MU_OBJECT_HOST(ref), own, sizeof own);
    snprintf(name, MU_HERE_HOST, "%s%s", strncmp(own, "host ", 5) ? "host " : "", own);
    return name;
}

enum muster_status mu_here_only(struct muster *m, uint64_t ref)
{
    char name[MU_HERE_HOST];

    if (!mu_ref_is_remote(m->seg, ref))
        return MUSTER_OK;
    return mu_fail(MUSTER_FAILED_PRECONDITION, "object 0x%016llx is of %s: its producer there seals it",
                   (unsigned long long)ref, mu_here_host(m->seg, ref, name));
}
