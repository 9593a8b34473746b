/*
 * compat/pmix_remote.c: fences over several hosts, and values that another host's tasks have put.
 *
 * libpmix asks once all of this host's participants have come, and gives their bytes. What the hosts of a fence give is
 * gathered by the server's opener, in order of fences of the same tasks; each host gets all parts, one after the
 * other: libpmix knows where each ends. Values go from server to server by host 0's, for others do not know each other.
 *
 * A host that is lost ends the job, so nobody waits for its part for ever.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/pmi1.h"
#include "compat/pmix_private.h"

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void set_clock(struct mu_pmix *pmix);

static void time_is_up(uv_timer_t *timer)
{
    mu_pmix_expire(timer->data, false);
}

static void set_clock(struct mu_pmix *pmix)
{
    uint64_t first = 0, now = uv_now(pmix->options.loop);

    for (const struct mu_pmix_call *call = pmix->waiting; call; call = call->next)
        if (call->expires_at && (!first || call->expires_at < first))
            first = call->expires_at;
    if (first)
        uv_timer_start(&pmix->timer, time_is_up, first > now ? first - now : 0, 0);
    else
        uv_timer_stop(&pmix->timer);
}

void mu_pmix_await(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    call->id = ++pmix->next_id;
    call->next = pmix->waiting;
    pmix->waiting = call;
    if (call->timeout_s > 0) {
        uv_update_time(pmix->options.loop);
        call->expires_at = uv_now(pmix->options.loop) + (uint64_t)call->timeout_s * 1000;
        set_clock(pmix);
    }
}

static struct mu_pmix_call *call_of_answer(struct mu_pmix *pmix, uint32_t id)
{
    for (struct mu_pmix_call **at = &pmix->waiting; *at; at = &(*at)->next) {
        struct mu_pmix_call *call = *at;

        if (call->id != id)
            continue;
        *at = call->next;
        if (call->expires_at)
            set_clock(pmix);
        return call;
    }
    return NULL; /* its time was up */
}

static void give_up(struct mu_pmix *pmix, struct mu_pmix_call *call, mu_pmix_status status)
{
    if (call->kind == MU_PMIX_CALL_FENCE || call->kind == MU_PMIX_CALL_MODEX)
        mu_pmix_answer_modex(call, status, NULL, 0);
    else
        mu_pmix_found(pmix, call, status, NULL, 0);
}

void mu_pmix_expire(struct mu_pmix *pmix, bool all)
{
    uint64_t now = uv_now(pmix->options.loop);

    for (struct mu_pmix_call **at = &pmix->waiting; *at;) {
        struct mu_pmix_call *call = *at;

        if (!all && (!call->expires_at || call->expires_at > now)) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        give_up(pmix, call, all ? MU_PMIX_ERR_LOST_CONNECTION : MU_PMIX_ERR_TIMEOUT);
    }
    set_clock(pmix);
}

void mu_pmix_say(struct mu_pmix *pmix, uint32_t host, struct mu_pack *p)
{
    if (p->failed)
        ; /* no memory: the waiter has its timeout, or the job's */
    else if (host == pmix->host)
        mu_pmix_told(pmix, host, p->bytes, p->len);
    else
        pmix->options.tell(pmix->options.arg, host, p->bytes, p->len);
    mu_pack_done(p);
}

/* ---- fences ------------------------------------------------------------------------------------------------------ */

/* The hosts of its tasks, in order; malloc()ed. NULL: no memory. */
static uint32_t *hosts_of(const struct mu_pmix *pmix, const struct mu_pack *who, uint32_t *ret_count)
{
    uint32_t *hosts = malloc((pmix->num_hosts + 1) * sizeof *hosts), count = 0;
    struct mu_unpack u = mu_unpack_of(who->bytes, who->len);

    for (uint32_t i = 0; hosts && !who->len && i < pmix->num_hosts; i++)
        if (pmix->host_tasks[i] > 0)
            hosts[count++] = i;
    while (hosts && u.left) { /* tasks in order lie on hosts in order */
        uint32_t host = mu_pmix_host_of(pmix, mu_unpack_u32(&u));

        if (count == 0 || hosts[count - 1] != host)
            hosts[count++] = host;
    }
    *ret_count = count;
    return hosts;
}

/* The same on all hosts for a fence of the same tasks, and of no others: FNV-1a's 64 bits are many enough. */
static void name_fence(const struct mu_pmix *pmix, const struct mu_pack *who, char *name, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < who->len; i++)
        hash = (hash ^ who->bytes[i]) * 0x100000001b3u;
    snprintf(name, size, "pmix/%.160s/%zu/%016" PRIx64, pmix->nspace, who->len / 4, hash);
}

void mu_pmix_fence(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    struct mu_pack what = call->what;
    uint32_t count, *hosts = hosts_of(pmix, &call->who, &count);
    char name[256];

    pmix->stats.fences++;
    call->what = (struct mu_pack){.bytes = NULL};
    if (!hosts) {
        mu_pack_done(&what);
        mu_pmix_answer_modex(call, MU_PMIX_ERR_NOMEM, NULL, 0);
    } else if (count == 1 && hosts[0] == pmix->host) {
        mu_pmix_answer_modex(call, MU_PMIX_SUCCESS, what.bytes, what.len);
    } else {
        name_fence(pmix, &call->who, name, sizeof name);
        mu_pmix_await(pmix, call);
        if (pmix->options.waits)
            pmix->options.waits(pmix->options.arg);
        pmix->options.gather(pmix->options.arg, hosts, count, name, what.bytes, what.len, call->id);
        mu_pack_done(&what);
    }
    free(hosts);
}

void mu_pmix_gathered(struct mu_pmix *pmix, uint32_t id, bool failed, void *bytes, size_t len)
{
    struct mu_pmix_call *call = call_of_answer(pmix, id);

    if (call)
        mu_pmix_answer_modex(call, failed ? MU_PMIX_ERR_LOST_CONNECTION : MU_PMIX_SUCCESS, bytes, len);
    else
        free(bytes);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void hear_bytes(struct mu_pmix *pmix, struct mu_unpack *u)
{
    uint32_t id = mu_unpack_u32(u);
    int status = (int)mu_unpack_u32(u);
    size_t len;
    const void *bytes = mu_unpack_blob(u, MU_PMIX_BLOB_MAX, &len);
    struct mu_pmix_call *call = u->failed ? NULL : call_of_answer(pmix, id);
    void *copy = call && len ? malloc(len) : NULL;

    if (!call)
        return;
    if (copy)
        memcpy(copy, bytes, len);
    else if (len)
        status = MU_PMIX_ERR_NOMEM;
    mu_pmix_answer_modex(call, status, copy, copy ? len : 0);
}

void mu_pmix_modex(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    struct mu_pack p = {.bytes = NULL};

    pmix->stats.modexes++;
    if (mu_pmix_host_of(pmix, call->task) == pmix->host) { /* libpmix has what there is */
        mu_pmix_answer_modex(call, MU_PMIX_ERR_NOT_FOUND, NULL, 0);
        return;
    }
    mu_pmix_await(pmix, call);
    mu_pack_u8(&p, MU_PMIX_SAYS_MODEX);
    mu_pack_u32(&p, pmix->host);
    mu_pack_u32(&p, call->id);
    mu_pack_u32(&p, call->task);
    mu_pmix_say(pmix, 0, &p);
}

/* On libpmix's thread. */
static void on_modex_had(mu_pmix_status status, char *bytes, size_t len, void *data)
{
    struct mu_pmix_call *call = data;

    call->status = status;
    if (status == MU_PMIX_SUCCESS && bytes)
        mu_pack_raw(&call->what, bytes, len);
    mu_pmix_push(mu_pmix_serving, call);
}

static void say_had(struct mu_pmix *pmix, uint32_t host, uint32_t id, int status, const void *bytes, size_t len)
{
    struct mu_pack p = {.bytes = NULL};

    mu_pack_u8(&p, MU_PMIX_SAYS_HAD);
    mu_pack_u32(&p, host);
    mu_pack_u32(&p, id);
    mu_pack_u32(&p, (uint32_t)status);
    mu_pack_blob(&p, bytes, len);
    mu_pmix_say(pmix, 0, &p);
}

void mu_pmix_modex_had(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    say_had(pmix, call->host, call->remote, call->what.failed ? MU_PMIX_ERR_NOMEM : call->status, call->what.bytes,
            call->what.failed ? 0 : call->what.len);
    mu_pmix_free_call(call);
}

static void hear_modex(struct mu_pmix *pmix, struct mu_unpack *u)
{
    struct mu_unpack again = *u;
    uint32_t from = mu_unpack_u32(u), id = mu_unpack_u32(u), task = mu_unpack_u32(u);
    uint32_t host = u->failed || task >= pmix->num_tasks ? UINT32_MAX : mu_pmix_host_of(pmix, task);
    struct mu_pmix_call *call;
    struct mu_pmix_proc proc;
    mu_pmix_status status;

    if (host == UINT32_MAX || (host != pmix->host && pmix->host != 0))
        return;
    if (host != pmix->host) {
        struct mu_pack p = {.bytes = NULL};

        mu_pack_u8(&p, MU_PMIX_SAYS_MODEX);
        mu_pack_raw(&p, again.at, again.left);
        mu_pmix_say(pmix, host, &p);
        return;
    }
    call = calloc(1, sizeof *call);
    if (!call)
        return;
    call->kind = MU_PMIX_CALL_MODEX_HAD;
    call->host = from;
    call->remote = id;
    proc = mu_pmix_proc_of(pmix, task);
    status = pmix->library.PMIx_server_dmodex_request(&proc, on_modex_had, call);
    if (status == MU_PMIX_SUCCESS)
        return;
    call->status = status;
    mu_pmix_modex_had(pmix, call);
}

static void hear_had(struct mu_pmix *pmix, struct mu_unpack *u)
{
    struct mu_unpack again = *u;
    uint32_t to = mu_unpack_u32(u);

    if (u->failed || to >= pmix->num_hosts)
        return;
    if (to == pmix->host) {
        hear_bytes(pmix, u);
    } else if (pmix->host == 0) {
        struct mu_pack p = {.bytes = NULL};

        mu_pack_u8(&p, MU_PMIX_SAYS_HAD);
        mu_pack_raw(&p, again.at, again.left);
        mu_pmix_say(pmix, to, &p);
    }
}

/* ---- tasks that will not come ------------------------------------------------------------------------------------ */

/*
 * libpmix completes a fence when all have come, and says nothing of one for which a task is missing. So, as with other
 * launchers: once one task has begun PMIx all have to, and a task that ends without it leaves the others waiting.
 */

static bool is_within(const void *arg, uint32_t task)
{
    return mu_pmix_is_within(arg, task);
}

static bool is_outside(const void *arg, uint32_t task)
{
    return mu_pmix_state_of(arg, task) == MU_PMIX_OUTSIDE;
}

void mu_pmix_describe(const struct mu_pmix *pmix, char *text, size_t size)
{
    const struct mu_pmix_call *call = pmix->waiting;
    char here[80], missing[80];

    text[0] = 0;
    if (!pmix->has_job || mu_pmi1_list(here, sizeof here, pmix->first_task, pmix->local_tasks, is_within, pmix) == 0)
        return;
    while (call && call->kind != MU_PMIX_CALL_FENCE)
        call = call->next;
    if (call)
        snprintf(text, size, "%s in a fence of PMIx for other hosts", here);
    else if (mu_pmi1_list(missing, sizeof missing, pmix->first_task, pmix->local_tasks, is_outside, pmix) > 0)
        snprintf(text, size, "%s within PMIx, which %s %s not begun", here, missing,
                 strncmp(missing, "tasks", 5) == 0 ? "have" : "has");
}

static uint32_t first_within(const struct mu_pmix *pmix)
{
    for (uint32_t i = 0; i < pmix->local_tasks; i++)
        if (mu_pmix_is_within(pmix, pmix->first_task + i))
            return pmix->first_task + i;
    return UINT32_MAX;
}

/* To all other hosts but the one that has said it; only host 0 tells others than host 0. */
static void say_left(struct mu_pmix *pmix, uint32_t task, uint32_t except)
{
    for (uint32_t host = 0; host < (pmix->host == 0 ? pmix->num_hosts : 1); host++) {
        struct mu_pack p = {.bytes = NULL};

        if (host == pmix->host || host == except)
            continue;
        mu_pack_u8(&p, MU_PMIX_SAYS_LEFT);
        mu_pack_u32(&p, task);
        mu_pmix_say(pmix, host, &p);
    }
}

enum mu_pmix_end mu_pmix_task_ended(struct mu_pmix *pmix, uint32_t task, uint32_t *ret_other)
{
    if (!pmix || !pmix->has_job || task - pmix->first_task >= pmix->local_tasks)
        return MU_PMIX_FINALIZED;
    switch (mu_pmix_state_of(pmix, task)) {
    case MU_PMIX_WITHIN: return MU_PMIX_OPEN;
    case MU_PMIX_PAST: return MU_PMIX_FINALIZED;
    case MU_PMIX_OUTSIDE: break;
    }
    if (pmix->left == UINT32_MAX) {
        pmix->left = task;
        say_left(pmix, task, pmix->host);
    }
    *ret_other = first_within(pmix);
    return *ret_other == UINT32_MAX ? MU_PMIX_NEVER : MU_PMIX_MISSED;
}

void mu_pmix_begun(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    uint32_t task = call->task;

    mu_pmix_free_call(call);
    if (pmix->options.waits)
        pmix->options.waits(pmix->options.arg);
    if (pmix->left != UINT32_MAX && mu_pmix_is_within(pmix, task))
        pmix->options.stranded(pmix->options.arg, task, pmix->left);
}

static void hear_left(struct mu_pmix *pmix, uint32_t host, struct mu_unpack *u)
{
    uint32_t task = mu_unpack_u32(u), other;

    if (u->failed || task >= pmix->num_tasks || pmix->left != UINT32_MAX)
        return;
    pmix->left = task;
    say_left(pmix, task, host);
    other = first_within(pmix);
    if (other != UINT32_MAX)
        pmix->options.stranded(pmix->options.arg, other, task);
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

static void hear_found(struct mu_pmix *pmix, struct mu_unpack *u)
{
    uint32_t id = mu_unpack_u32(u);
    int status = (int)mu_unpack_u32(u);
    size_t len;
    const void *bytes = mu_unpack_blob(u, MU_PMIX_BLOB_MAX, &len);
    struct mu_pmix_call *call = u->failed ? NULL : call_of_answer(pmix, id);

    if (call)
        mu_pmix_found(pmix, call, status, bytes, len);
}

void mu_pmix_told(struct mu_pmix *pmix, uint32_t host, const void *bytes, size_t len)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);
    enum mu_pmix_word word = (enum mu_pmix_word)mu_unpack_u8(&u);

    if (!pmix->has_job || host >= pmix->num_hosts)
        return;
    switch (word) {
    case MU_PMIX_SAYS_MODEX: hear_modex(pmix, &u); break;
    case MU_PMIX_SAYS_HAD: hear_had(pmix, &u); break;
    case MU_PMIX_SAYS_PUBLISH:
    case MU_PMIX_SAYS_LOOKUP:
    case MU_PMIX_SAYS_UNPUBLISH: mu_pmix_asked_store(pmix, host, word, &u); break;
    case MU_PMIX_SAYS_FOUND: hear_found(pmix, &u); break;
    case MU_PMIX_SAYS_LEFT: hear_left(pmix, host, &u); break;
    }
}
