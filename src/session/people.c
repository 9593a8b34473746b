/*
 * session/people.c: what people ask of the master: which sessions there are, and that one be closed. `muster session`
 * asks at the master's own address, as clients do, and is let in as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

static uint32_t steps_count(const struct mu_ss_session *s)
{
    uint32_t count = 0;

    for (const struct mu_ss_step *step = s->steps; step; step = step->next)
        count++;
    return count;
}

void mu_master_stats(const struct mu_master *service, struct mu_master_stats *ret)
{
    *ret = (struct mu_master_stats){.sessions = service->num_sessions,
                                    .created = service->num_created,
                                    .closed = service->num_closed,
                                    .reset = service->num_reset,
                                    .collected = service->num_collected,
                                    .steps = service->num_steps,
                                    .failed = service->num_failed,
                                    .direct = service->num_direct};
    for (const struct mu_ss_session *s = service->sessions; s; s = s->next)
        ret->running += steps_count(s);
}

void mu_ss_session_rate(struct mu_ss_session *s, uint64_t now)
{
    if (now < s->rated_ms + 1000)
        return;
    s->rate = (s->num_steps - s->rated_steps) * 1000 / (now - s->rated_ms);
    s->rated_ms = now;
    s->rated_steps = s->num_steps;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static const char *error_of(const struct mu_ss_session *s)
{
    if (s->broken)
        return s->broken;
    return s->last_error.status ? mu_ss_text(&s->last_error) : "";
}

static const char *state_of(const struct mu_ss_session *s)
{
    static const char *const states[] = {
        [MU_SS_ASKING] = "asking", [MU_SS_CREATING] = "creating", [MU_SS_OPEN] = "open", [MU_SS_ENDED] = "ended"};

    return s->broken ? "broken" : states[s->state];
}

/* What it points to is the session's. */
static void session_tell(const struct mu_ss_session *s, Mu__Session__SessionInfo *info, char *tasks, size_t size)
{
    size_t n = 0;

    mu__session__session_info__init(info);
    tasks[0] = 0;
    for (uint32_t i = 0; i < s->num_members && n < size; i++)
        n += (size_t)snprintf(tasks + n, size - n, "%s/job:%s/task:%u", i ? " " : "", s->members[i].executor->job,
                              s->members[i].executor->task);
    info->handle = (char *)(uintptr_t)s->handle;
    info->state = (char *)(uintptr_t)state_of(s);
    info->client = (char *)(uintptr_t)s->peer;
    info->tasks = tasks;
    info->error = (char *)(uintptr_t)error_of(s);
    info->has_age_ms = info->has_nodes = info->has_version = info->has_steps = info->has_rate = info->has_running =
        info->has_bytes = info->has_subgraphs = info->has_connections = true;
    info->age_ms = (uv_hrtime() - s->since_ns) / 1000000;
    info->nodes = s->graph.num_nodes;
    info->version = s->graph.version;
    info->steps = s->num_steps;
    info->rate = s->rate;
    info->running = steps_count(s);
    info->bytes = s->graph.bytes + s->compiled_bytes;
    info->subgraphs = s->num_compiled;
    info->connections = s->num_conns;
}

void mu_ss_people_list(struct mu_rpc_call *call, const void *body, size_t len)
{
    enum { TASKS_TEXT = 400 };
    const struct mu_master *service = mu_rpc_arg(call);
    uint32_t count = service->num_sessions;
    Mu__Session__SessionList list = MU__SESSION__SESSION_LIST__INIT;
    Mu__Session__SessionInfo *each = calloc(count + 1, sizeof *each), **all = calloc(count + 1, sizeof *all);
    char *tasks = malloc((count + 1) * (size_t)TASKS_TEXT);

    (void)body;
    (void)len;
    for (const struct mu_ss_session *s = service->sessions; each && all && tasks && s && list.n_session < count;
         s = s->next)
        if (!s->is_listing) {
            session_tell(s, &each[list.n_session], tasks + list.n_session * TASKS_TEXT, TASKS_TEXT);
            all[list.n_session] = &each[list.n_session];
            list.n_session++;
        }
    list.session = all;
    if (each && all && tasks)
        mu_ss_answer(call, &list.base);
    else
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory to list sessions", NULL, 0);
    free(tasks);
    free(each);
    free(all);
}

void mu_ss_people_close(struct mu_rpc_call *call, const void *body, size_t len)
{
    struct mu_master *service = mu_rpc_arg(call);
    Mu__Session__CloseSessionRequest *r = mu__session__close_session_request__unpack(NULL, len, body);
    struct mu_ss_session *s = r && r->session_handle ? mu_ss_session_find(service, r->session_handle) : NULL;
    struct mu_ss_error error = {0};

    if (s) {
        mu_ss_session_end(s, MUSTER_ABORTED, "the session was closed by 'muster session close'");
        mu_rpc_answer(call, "", 0);
    } else {
        mu_ss_fail(&error, MUSTER_NOT_FOUND, "there is no session %s", r && r->session_handle ? r->session_handle : "");
        mu_ss_refuse(call, &error);
    }
    if (r)
        mu__session__close_session_request__free_unpacked(r, NULL);
}
