/*
 * accel/nccl.c: the public calls about ids. Each is one mu_nccl_call, made, used and given back; what they do is in
 * accel/nccl_id.c. Those that take no id load no library, so that agents and tools may look.
 */
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_id.h"

enum muster_status muster_nccl_unique_ids(struct muster *muster, const char *name, uint32_t nranks, uint32_t rank,
                                          uint32_t count, const struct muster_nccl_options *options,
                                          muster_deadline deadline, void *ret_ids, uint64_t *ret_generation)
{
    struct mu_nccl_call call;
    const struct mu_nccl *nccl;
    struct mu_nccl_id *ids;
    enum muster_status status = mu_nccl_call_begin(&call, muster, name);

    if (!status)
        status = mu_nccl_open(&nccl);
    if (!status)
        status = mu_nccl_introduce(&call, nccl, nranks, rank, count, options);
    if (status)
        return status;
    ids = malloc(count * sizeof *ids);
    status = ids ? mu_nccl_take(&call, deadline, ids)
                 : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u NCCL ids", count);
    if (!status) {
        memcpy(ret_ids, ids, count * sizeof *ids);
        if (ret_generation)
            *ret_generation = call.generation;
    }
    free(ids);
    mu_nccl_call_done(&call);
    return status;
}

enum muster_status muster_nccl_unique_id(struct muster *muster, const char *name, uint32_t nranks, uint32_t rank,
                                         const struct muster_nccl_options *options, muster_deadline deadline,
                                         void *ret_id, uint64_t *ret_generation)
{
    return muster_nccl_unique_ids(muster, name, nranks, rank, 1, options, deadline, ret_id, ret_generation);
}

enum muster_status muster_nccl_check(struct muster *muster, const char *name, uint64_t generation)
{
    struct mu_nccl_call call;
    enum muster_status status = mu_nccl_call_begin(&call, muster, name);

    if (status)
        return status;
    call.generation = generation;
    status = mu_nccl_watch(&call, 0);
    mu_nccl_call_done(&call);
    if (status == MUSTER_ABORTED)
        mu_nccl_look_after_roots(muster);
    return status;
}

enum muster_status muster_nccl_abandon(struct muster *muster, const char *name, uint64_t generation, const char *reason)
{
    struct mu_nccl_call call;
    char words[120];
    enum muster_status status = mu_nccl_call_begin(&call, muster, name);

    if (status)
        return status;
    call.generation = generation;
    mu_nccl_say(&call, " gave it up: ", reason ? reason : "no reason given", words);
    status = mu_nccl_give_up(&call, words);
    mu_nccl_call_done(&call);
    return status;
}

enum muster_status muster_nccl_get(struct muster *muster, const char *name, struct muster_nccl_info *ret_info)
{
    struct mu_nccl_call call;
    bool there = false;
    enum muster_status status = mu_nccl_call_begin(&call, muster, name);

    if (status)
        return status;
    status = mu_nccl_state(&call, &there);
    if (!status)
        memset(ret_info, 0, sizeof *ret_info);
    if (!status && there) {
        const struct mu_nccl_head *h = call.record.head;

        *ret_info = (struct muster_nccl_info){.state = (enum muster_nccl_state)h->state,
                                              .owner_task = h->owner_task,
                                              .generation = h->generation,
                                              .since_ns = h->since,
                                              .owner_rank = h->owner_rank,
                                              .nranks = h->nranks,
                                              .ids = h->nids,
                                              .taken = h->taken,
                                              .done = h->done,
                                              .version = h->version};
        memcpy(ret_info->reason, h->reason, sizeof ret_info->reason);
    }
    mu_nccl_call_done(&call);
    return status;
}
