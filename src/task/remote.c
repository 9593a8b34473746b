/*
 * task/remote.c: what is asked about tasks of other hosts.
 *
 * A task's record is decided on its own host. The leader may put one in error at once, as it does for a host that is
 * lost, and tells the task's host; a reset, or a heartbeat brought for a task, is passed on to that host's agent, which
 * alone knows whether the process lives and when it was last heard of. The call waits for the outcome.
 */
#include "task/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "segment/names.h"
#include "task/task.h"

void mu_task_remote_begin(struct mu_steps *steps, const struct muster_segment *seg, enum mu_op op, uint32_t task,
                          uint32_t code, uint64_t incarnation, const char *message)
{
    struct mu_pack *request = mu_steps_ask(steps, op);
    char host[64];

    mu_host_name(seg, mu_host_of(seg, task), host, sizeof host);
    snprintf(steps->about, sizeof steps->about, "%s %.60s on host %s",
             op == MU_OP_ERROR_REPORT ? "an error report for"
             : op == MU_OP_TASK_RESET ? "the reset of"
                                      : "a heartbeat for",
             MU_LABEL(seg, task), host);
    steps->answer = mu_steps_take_status;
    mu_pack_u32(request, task);
    mu_pack_u32(request, code);
    mu_pack_u64(request, incarnation);
    mu_pack_text(request, message);
}

static enum muster_status remote_ask(struct muster *m, struct mu_ctx *ctx, enum mu_op op, uint32_t task, uint32_t code,
                                     uint64_t incarnation, const char *message)
{
    struct mu_steps steps = {0};

    mu_task_remote_begin(&steps, m->seg, op, task, code, incarnation, message);
    return mu_steps_run(m, ctx, &steps, MUSTER_FOREVER);
}

enum muster_status mu_task_remote_report(struct muster *m, struct mu_ctx *ctx, uint32_t task, enum muster_status code,
                                         const char *message)
{
    char cut[MU_TEXT_MAX];

    mu_utf8_copy(cut, sizeof cut, message, strlen(message));
    return remote_ask(m, ctx, MU_OP_ERROR_REPORT, task, code, 0, cut);
}

enum muster_status mu_task_remote_reset(struct muster *m, struct mu_ctx *ctx, uint32_t task)
{
    struct mu_task_record r;
    struct mu_cluster c;
    enum muster_status status = mu_cluster_task(m->seg, task, &r, NULL, &c);

    return status ? status : remote_ask(m, ctx, MU_OP_TASK_RESET, task, r.state, r.attempt, "");
}

enum muster_status mu_task_remote_beat(struct muster *m, struct mu_ctx *ctx, uint32_t task, uint64_t incarnation)
{
    return remote_ask(m, ctx, MU_OP_TASK_HEARTBEAT, task, MUSTER_OK, incarnation, "");
}
