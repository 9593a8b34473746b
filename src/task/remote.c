/*
 * task/remote.c: what is asked about tasks of other hosts.
 *
 * A task's record is decided on its own host. The leader may put one in error at once, as it does for a host that is
 * lost, and tells the task's host; a reset, or a heartbeat brought for a task, is passed on to that host's agent, which
 * alone knows whether the process lives and when it was last heard of. The call waits for the outcome.
 */
#include <stdio.h>

#include "base/pack.h"
#include "segment/remote.h"
#include "task/task.h"

/*
 * The request is {task, code, incarnation, message} in each of them, so that one function reads it. A reset has in
 * their place the state and the registration that the caller sees the task in: one that is made again knows by them
 * whether it was carried out.
 */
static enum muster_status ask(struct muster *m, struct mu_ctx *ctx, enum mu_op op, const char *what, uint32_t task,
                              uint32_t code, uint64_t incarnation, const char *message)
{
    char host[64], words[128];
    struct mu_pack request = {0};
    struct mu_answer answer;
    struct mu_remote_call call = {.op = op, .request = &request, .deadline = MUSTER_FOREVER, .what = words};
    enum muster_status status;

    mu_host_name(m->seg, mu_host_of(m->seg, task), host, sizeof host);
    snprintf(words, sizeof words, "%s task %u on host %s", what, task, host);
    mu_pack_u32(&request, task);
    mu_pack_u32(&request, code);
    mu_pack_u64(&request, incarnation);
    mu_pack_text(&request, message);
    status = mu_remote_call(m, ctx, &call, &answer);
    mu_answer_done(&answer);
    mu_pack_done(&request);
    return status;
}

enum muster_status mu_task_remote_report(struct muster *m, struct mu_ctx *ctx, uint32_t task, enum muster_status code,
                                         const char *message)
{
    char cut[MU_TEXT_MAX];

    snprintf(cut, sizeof cut, "%s", message);
    return ask(m, ctx, MU_OP_ERROR_REPORT, "an error report for", task, code, 0, cut);
}

enum muster_status mu_task_remote_reset(struct muster *m, struct mu_ctx *ctx, uint32_t task)
{
    struct mu_task_record r;
    struct mu_cluster c;
    enum muster_status status = mu_cluster_task(m->seg, task, &r, NULL, &c);

    return status ? status : ask(m, ctx, MU_OP_TASK_RESET, "the reset of", task, r.state, r.attempt, "");
}

enum muster_status mu_task_remote_beat(struct muster *m, struct mu_ctx *ctx, uint32_t task, uint64_t incarnation)
{
    return ask(m, ctx, MU_OP_TASK_HEARTBEAT, "a heartbeat for", task, MUSTER_OK, incarnation, "");
}
