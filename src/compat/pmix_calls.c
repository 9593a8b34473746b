/*
 * compat/pmix_calls.c: libpmix's calls, from its thread to the loop's.
 *
 * Its thread must not wait: what a call says is copied, put into a list, and the loop is woken. Only that a task is
 * within PMIx is noted at once: a task that is told that it may go on may end, and be reaped, before the loop has
 * looked.
 */
#include <stdlib.h>
#include <string.h>

#include "compat/pmix_private.h"

void mu_pmix_free_call(struct mu_pmix_call *call)
{
    mu_pack_done(&call->who);
    mu_pack_done(&call->what);
    free(call);
}

void mu_pmix_push(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    bool halted;

    pthread_mutex_lock(&pmix->lock);
    halted = pmix->halted;
    if (!halted) {
        call->next = NULL;
        *(pmix->last ? &pmix->last->next : &pmix->first) = call;
        pmix->last = call;
        uv_async_send(&pmix->async);
    }
    pthread_mutex_unlock(&pmix->lock);
    if (halted) /* nobody will be there to answer */
        mu_pmix_free_call(call);
}

static struct mu_pmix_call *new_call(enum mu_pmix_kind kind, const struct mu_pmix_proc *proc, void *data)
{
    struct mu_pmix_call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    call->kind = kind;
    call->task = proc ? proc->rank : 0;
    call->data = data;
    return call;
}

/* PMIX_SUCCESS: it will be answered. */
static mu_pmix_status call_pass(struct mu_pmix_call *call, mu_pmix_status status)
{
    if (status == MU_PMIX_SUCCESS && (call->who.failed || call->what.failed))
        status = MU_PMIX_ERR_NOMEM;
    if (status == MU_PMIX_SUCCESS)
        mu_pmix_push(mu_pmix_serving, call);
    else
        mu_pmix_free_call(call);
    return status;
}

/* ---- on libpmix's thread ----------------------------------------------------------------------------------------- */

/* False: the task is none of this attempt's. */
static bool note_state(const struct mu_pmix_proc *proc, enum mu_pmix_state state)
{
    struct mu_pmix *pmix = mu_pmix_serving;
    bool is_ours;

    pthread_mutex_lock(&pmix->lock);
    is_ours =
        pmix->has_job && strcmp(proc->nspace, pmix->nspace) == 0 && proc->rank - pmix->first_task < pmix->local_tasks;
    if (is_ours) /* release, process-local: pairs with mu_pmix_state_of(), once the task has been answered, and has
                    ended */
        atomic_store_explicit(&pmix->clients[proc->rank - pmix->first_task].state, state, memory_order_release);
    pthread_mutex_unlock(&pmix->lock);
    return is_ours;
}

static mu_pmix_status on_client_connected(const struct mu_pmix_proc *proc, void *object, struct mu_pmix_info *info,
                                          size_t num_info, mu_pmix_done *done, void *data)
{
    struct mu_pmix_call *call;

    (void)object, (void)info, (void)num_info, (void)done, (void)data;
    if (note_state(proc, MU_PMIX_WITHIN) && (call = new_call(MU_PMIX_CALL_BEGUN, proc, NULL)))
        mu_pmix_push(mu_pmix_serving, call);
    return MU_PMIX_OPERATION_SUCCEEDED;
}

static mu_pmix_status on_client_finalized(const struct mu_pmix_proc *proc, void *object, mu_pmix_done *done, void *data)
{
    (void)object, (void)done, (void)data;
    note_state(proc, MU_PMIX_PAST);
    return MU_PMIX_OPERATION_SUCCEEDED;
}

static mu_pmix_status on_client_aborted(const struct mu_pmix_proc *proc, void *object, int status, const char *text,
                                        struct mu_pmix_proc *procs, size_t num_procs, mu_pmix_done *done, void *data)
{
    struct mu_pmix_call *call = new_call(MU_PMIX_CALL_ABORT, proc, data);

    (void)object, (void)procs, (void)num_procs;
    if (!call)
        return MU_PMIX_ERR_NOMEM;
    call->status = status;
    call->done.op = done;
    if (text && *text)
        mu_pack_raw(&call->what, text, strlen(text) + 1);
    return call_pass(call, MU_PMIX_SUCCESS);
}

static int timeout_in(const struct mu_pmix_info *info, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(info[i].key, MU_PMIX_TIMEOUT) == 0)
            return info[i].value.data.integer;
    return 0;
}

static int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* The tasks of a fence, each once, in order; all of them: nothing. */
static mu_pmix_status pack_tasks(struct mu_pack *p, const struct mu_pmix_proc *procs, size_t count)
{
    struct mu_pmix *pmix = mu_pmix_serving;
    uint32_t *ranks = malloc((count + 1) * sizeof *ranks);
    size_t n = 0, different = 0;
    mu_pmix_status status = ranks ? MU_PMIX_SUCCESS : MU_PMIX_ERR_NOMEM;
    bool all = false;

    pthread_mutex_lock(&pmix->lock);
    for (size_t i = 0; status == MU_PMIX_SUCCESS && i < count; i++) {
        all |= procs[i].rank == MU_PMIX_RANK_WILDCARD;
        if (strcmp(procs[i].nspace, pmix->nspace) != 0)
            status = MU_PMIX_ERR_NOT_SUPPORTED; /* another attempt's, or another job's */
        else if (procs[i].rank < pmix->num_tasks)
            ranks[n++] = procs[i].rank;
        else if (procs[i].rank != MU_PMIX_RANK_WILDCARD)
            status = MU_PMIX_ERR_BAD_PARAM;
    }
    if (n > 0)
        qsort(ranks, n, sizeof *ranks, by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ranks[i] != ranks[i - 1])
            ranks[different++] = ranks[i];
    for (size_t i = 0; !all && different < pmix->num_tasks && i < different; i++)
        mu_pack_u32(p, ranks[i]);
    pthread_mutex_unlock(&pmix->lock);
    free(ranks);
    return status;
}

static mu_pmix_status on_fence(const struct mu_pmix_proc *procs, size_t num_procs, const struct mu_pmix_info *info,
                               size_t num_info, char *bytes, size_t len, mu_pmix_modex_done *done, void *data)
{
    struct mu_pmix_call *call = new_call(MU_PMIX_CALL_FENCE, NULL, data);
    mu_pmix_status status = MU_PMIX_ERR_NOMEM;

    if (call) {
        call->done.modex = done;
        call->timeout_s = timeout_in(info, num_info);
        mu_pack_raw(&call->what, bytes, bytes ? len : 0);
        status = call_pass(call, pack_tasks(&call->who, procs, num_procs));
    }
    if (status == MU_PMIX_SUCCESS)
        free(bytes); /* it was given to us */
    return status;
}

static mu_pmix_status on_modex(const struct mu_pmix_proc *proc, const struct mu_pmix_info *info, size_t num_info,
                               mu_pmix_modex_done *done, void *data)
{
    struct mu_pmix *pmix = mu_pmix_serving;
    struct mu_pmix_call *call;
    bool is_ours;

    pthread_mutex_lock(&pmix->lock);
    is_ours = strcmp(proc->nspace, pmix->nspace) == 0 && proc->rank < pmix->num_tasks;
    pthread_mutex_unlock(&pmix->lock);
    if (!is_ours)
        return MU_PMIX_ERR_NOT_FOUND;
    call = new_call(MU_PMIX_CALL_MODEX, proc, data);
    if (!call)
        return MU_PMIX_ERR_NOMEM;
    call->done.modex = done;
    call->timeout_s = timeout_in(info, num_info);
    return call_pass(call, MU_PMIX_SUCCESS);
}

static mu_pmix_status on_publish(const struct mu_pmix_proc *proc, const struct mu_pmix_info *info, size_t num_info,
                                 mu_pmix_done *done, void *data)
{
    struct mu_pmix_call *call = new_call(MU_PMIX_CALL_PUBLISH, proc, data);

    if (!call)
        return MU_PMIX_ERR_NOMEM;
    call->done.op = done;
    return call_pass(call, mu_pmix_pack_published(call, info, num_info));
}

static mu_pmix_status on_lookup(const struct mu_pmix_proc *proc, char **keys, const struct mu_pmix_info *info,
                                size_t num_info, mu_pmix_lookup_done *done, void *data)
{
    struct mu_pmix_call *call = new_call(MU_PMIX_CALL_LOOKUP, proc, data);

    if (!call)
        return MU_PMIX_ERR_NOMEM;
    call->done.lookup = done;
    call->timeout_s = timeout_in(info, num_info);
    return call_pass(call, mu_pmix_pack_keys(call, keys, info, num_info));
}

static mu_pmix_status on_unpublish(const struct mu_pmix_proc *proc, char **keys, const struct mu_pmix_info *info,
                                   size_t num_info, mu_pmix_done *done, void *data)
{
    struct mu_pmix_call *call = new_call(MU_PMIX_CALL_UNPUBLISH, proc, data);

    if (!call)
        return MU_PMIX_ERR_NOMEM;
    call->done.op = done;
    return call_pass(call, mu_pmix_pack_keys(call, keys, info, num_info));
}

struct mu_pmix_module mu_pmix_module = {
    .client_connected2 = on_client_connected,
    .client_finalized = on_client_finalized,
    .abort = on_client_aborted,
    .fence_nb = on_fence,
    .direct_modex = on_modex,
    .publish = on_publish,
    .lookup = on_lookup,
    .unpublish = on_unpublish,
};

/* ---- in the loop ------------------------------------------------------------------------------------------------- */

void mu_pmix_answer_op(struct mu_pmix_call *call, mu_pmix_status status)
{
    if (call->done.op)
        call->done.op(status, call->data);
    mu_pmix_free_call(call);
}

void mu_pmix_answer_modex(struct mu_pmix_call *call, mu_pmix_status status, void *bytes, size_t len)
{
    if (call->done.modex)
        call->done.modex(status, bytes, len, call->data, free, bytes);
    else
        free(bytes);
    mu_pmix_free_call(call);
}

static void call_take(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    switch (call->kind) {
    case MU_PMIX_CALL_ABORT:
        pmix->options.aborted(pmix->options.arg, call->task, call->status, (const char *)call->what.bytes);
        mu_pmix_answer_op(call, MU_PMIX_SUCCESS);
        break;
    case MU_PMIX_CALL_FENCE: mu_pmix_fence(pmix, call); break;
    case MU_PMIX_CALL_MODEX: mu_pmix_modex(pmix, call); break;
    case MU_PMIX_CALL_MODEX_HAD: mu_pmix_modex_had(pmix, call); break;
    case MU_PMIX_CALL_PUBLISH:
    case MU_PMIX_CALL_LOOKUP:
    case MU_PMIX_CALL_UNPUBLISH: mu_pmix_ask_store(pmix, call); break;
    case MU_PMIX_CALL_BEGUN: mu_pmix_begun(pmix, call); break;
    }
}

void mu_pmix_take_calls(uv_async_t *async)
{
    struct mu_pmix *pmix = async->data;
    struct mu_pmix_call *call;

    for (;;) {
        pthread_mutex_lock(&pmix->lock);
        call = pmix->first;
        if (call)
            pmix->first = call->next;
        if (!pmix->first)
            pmix->last = NULL;
        pthread_mutex_unlock(&pmix->lock);
        if (!call)
            return;
        call->next = NULL;
        call_take(pmix, call);
    }
}
