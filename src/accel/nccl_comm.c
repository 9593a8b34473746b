/*
 * accel/nccl_comm.c: making a communicator that ends, one way or the other.
 *
 * ncclCommInitRank waits for its peers in C++ threads of its own, for ever. Started without blocking, it can be asked
 * how it stands, and aborted. So this thread waits in the segment instead, where everything wakes it: a death, an error
 * of a task, a peer that gives up. A rank that fails gives the generation up, with the reason, and so all do.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_id.h"
#include "accel/nccl_roots.h"
#include "base/clock.h"

#define RANKS_PER_ROOT 256u
/* Nobody tells when NCCL is through, so it is asked: soon at first, for small communicators; then ever less often. */
#define ASK_FIRST_NS 50000u
#define ASK_LAST_NS  5000000u

/* How ncclConfig_t begins, since 2.14; a library takes as many bytes as `size` says, and defaults for the rest. */
struct config {
    size_t size;
    uint32_t magic, version;
    int blocking, undefined;
};
#define CONFIG_MAGIC   0xcafebeefu
#define CONFIG_VERSION 21400u
#define CONFIG_MAX     4096u

static enum muster_status make_config(const void *wanted, void **ret_config)
{
    struct config c = {sizeof c, CONFIG_MAGIC, CONFIG_VERSION, 0, INT_MIN};

    if (wanted) {
        memcpy(&c, wanted, sizeof c);
        if (c.magic != CONFIG_MAGIC || c.version < CONFIG_VERSION || c.size < sizeof c || c.size > CONFIG_MAX)
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "the config is no ncclConfig_t that NCCL_CONFIG_INITIALIZER began (size %zu, magic 0x%x, "
                           "version %u)",
                           c.size, c.magic, c.version);
        c.blocking = 0;
    }
    *ret_config = malloc(c.size);
    if (!*ret_config)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a config of %zu bytes", c.size);
    if (wanted)
        memcpy(*ret_config, wanted, c.size);
    memcpy(*ret_config, &c, sizeof c);
    return MUSTER_OK;
}

static enum muster_status comm_failed(struct mu_nccl_call *call, struct ncclComm *comm, int result)
{
    char words[256];

    mu_nccl_describe(call->nccl, comm, result, words, sizeof words);
    return mu_fail(MUSTER_INTERNAL, "communicator %s, rank %u of %u: NCCL: %s", call->name, call->asker.rank,
                   call->asker.nranks, words);
}

static enum muster_status comm_late(struct mu_nccl_call *call, const struct mu_nccl_id *id)
{
    char missing[160], address[MU_NCCL_ADDRESS];
    bool all = !mu_nccl_missing(call, MU_NCCL_TAKEN, missing, sizeof missing) && !*missing;

    mu_nccl_id_address(id, address);
    if (all)
        mu_nccl_missing(call, MU_NCCL_DONE, missing, sizeof missing);
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "communicator %s: the deadline passed %s%s (its root is at %s)",
                   call->name, all ? "when all ranks had the id, but had not all initialised, without " : "without ",
                   missing, address);
}

/* Until NCCL is through, or something speaks against it. */
static enum muster_status comm_await(struct mu_nccl_call *call, struct ncclComm *comm, const struct mu_nccl_id *id,
                                     muster_deadline deadline)
{
    uint64_t pause = ASK_FIRST_NS;

    for (;;) {
        int result = MU_NCCL_SUCCESS, rc = call->nccl->comm_get_async_error(comm, &result);
        enum muster_status status;

        if (rc != MU_NCCL_SUCCESS || (result != MU_NCCL_SUCCESS && result != MU_NCCL_IN_PROGRESS))
            return comm_failed(call, comm, rc != MU_NCCL_SUCCESS ? rc : result);
        if (result == MU_NCCL_SUCCESS)
            return MUSTER_OK;
        if (deadline != MUSTER_FOREVER && mu_now() >= deadline)
            return comm_late(call, id);
        status = mu_nccl_watch(call, pause);
        if (status)
            return status;
        pause = pause * 2 < ASK_LAST_NS ? pause * 2 : ASK_LAST_NS;
    }
}

static enum muster_status comm_initialise(struct mu_nccl_call *call, struct mu_nccl_id *ids, void *config,
                                          muster_deadline deadline, struct ncclComm **ret_comm)
{
    const struct mu_nccl *n = call->nccl;
    int nranks = (int)call->asker.nranks, rank = (int)call->asker.rank;
    struct ncclComm *comm = NULL;
    int rc = call->asker.nids > 1 ? n->comm_init_rank_scalable(&comm, nranks, rank, (int)call->asker.nids, ids, config)
                                  : n->comm_init_rank_config(&comm, nranks, ids[0], rank, config);
    enum muster_status status = MUSTER_OK;

    if (rc != MU_NCCL_SUCCESS && rc != MU_NCCL_IN_PROGRESS)
        status = comm_failed(call, NULL, rc);
    if (!status)
        status = comm_await(call, comm, &ids[0], deadline);
    if (!status)
        *ret_comm = comm;
    else if (comm)
        n->comm_abort(comm);
    return status;
}

/* For the others: a death or an error of a task they learn from the segment, and first-hand. The caller is told the
 * missing ranks, too. */
static void others_tell(struct mu_nccl_call *call, enum muster_status status)
{
    char why[400], reason[120], missing[160];
    bool names;

    snprintf(why, sizeof why, "%s", muster_last_error());
    mu_nccl_say(call, ": ", why, reason);
    names = status != MUSTER_DEADLINE_EXCEEDED && mu_nccl_missing(call, MU_NCCL_TAKEN, missing, sizeof missing);
    mu_nccl_give_up(call, reason);
    mu_fail(status, "%s%s%s", why, names ? "; until then without " : "", names ? missing : "");
}

static uint32_t count_roots(const struct mu_nccl *nccl, uint32_t nranks, const struct muster_nccl_options *options)
{
    uint32_t each = options && options->ranks_per_root ? options->ranks_per_root : RANKS_PER_ROOT;
    uint32_t count = nranks / each + (nranks % each != 0);

    if (!nccl->comm_init_rank_scalable || !count)
        return 1;
    return count < MUSTER_NCCL_IDS_MAX ? count : MUSTER_NCCL_IDS_MAX;
}

static enum muster_status can_init(const struct mu_nccl *nccl)
{
    char version[MU_NCCL_VERSION_TEXT];

    if (nccl->comm_init_rank_config && nccl->comm_get_async_error && nccl->comm_abort)
        return MUSTER_OK;
    return mu_fail(MUSTER_UNIMPLEMENTED,
                   "NCCL %s (%s) cannot initialise without blocking, so not without the risk to hang; 2.14 can",
                   mu_nccl_version_text(nccl->version, version), nccl->path);
}

static enum muster_status take_and_initialise(struct mu_nccl_call *call, void *config, muster_deadline deadline,
                                              struct ncclComm **ret_comm)
{
    struct mu_nccl_id *ids = malloc(call->asker.nids * sizeof *ids);
    enum muster_status status;

    if (!ids)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u NCCL ids", call->asker.nids);
    status = mu_nccl_take(call, deadline, ids);
    if (!status) {
        status = comm_initialise(call, ids, config, deadline, ret_comm);
        if (status)
            others_tell(call, status);
        else
            mu_nccl_finish(call); /* if it fails, the segment is full or gone: the communicator is good all the same */
    }
    free(ids);
    return status;
}

enum muster_status mu_nccl_comm_init(const struct mu_nccl *nccl, struct muster *m, const char *name, uint32_t nranks,
                                     uint32_t rank, const struct muster_nccl_options *options, muster_deadline deadline,
                                     struct ncclComm **ret_comm)
{
    struct mu_nccl_call call;
    void *config = NULL;
    uint64_t now = mu_now();
    enum muster_status status = mu_nccl_call_begin(&call, m, name);

    if (status)
        return status;
    status = can_init(nccl);
    if (!status)
        status = make_config(options ? options->config : NULL, &config);
    if (!status)
        status = mu_nccl_introduce(&call, nccl, nranks, rank, count_roots(nccl, nranks, options), options);
    if (!status) {
        /* an id lives as long as somebody waits for the communicator */
        if (deadline > now && deadline - now > call.asker.expiry)
            call.asker.expiry = deadline - now;
        status = take_and_initialise(&call, config, deadline, ret_comm);
    }
    free(config);
    mu_nccl_call_done(&call);
    return status;
}

enum muster_status muster_nccl_comm_init(struct muster *muster, const char *name, uint32_t nranks, uint32_t rank,
                                         const struct muster_nccl_options *options, muster_deadline deadline,
                                         struct ncclComm **ret_comm)
{
    const struct mu_nccl *nccl;
    enum muster_status status = mu_nccl_open(&nccl);

    return status ? status : mu_nccl_comm_init(nccl, muster, name, nranks, rank, options, deadline, ret_comm);
}
