/*
 * segment/steps.c: remote operations: what they share, and the driver of a thread, which sleeps between their steps.
 */
#include "segment/steps.h"

struct mu_pack *mu_steps_ask(struct mu_steps *steps, enum mu_op op)
{
    steps->op = op;
    steps->value_len = 0;
    mu_pack_reset(&steps->request);
    return &steps->request;
}

void mu_steps_pass(struct mu_steps *steps, struct mu_steps *part)
{
    struct mu_pack swap = steps->request;

    steps->op = part->op;
    steps->request = part->request;
    part->request = swap;
}

enum muster_status mu_steps_take_status(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    (void)steps;
    (void)body;
    return status;
}

enum muster_status mu_steps_malformed(const struct mu_steps *steps)
{
    return mu_fail(MUSTER_DATA_LOSS, "the leader's answer about %s is not well formed", steps->about);
}

void mu_steps_done(struct mu_steps *steps)
{
    mu_pack_done(&steps->request);
}

enum muster_status mu_steps_run(struct muster *m, struct mu_ctx *ctx, struct mu_steps *steps, muster_deadline deadline)
{
    enum muster_status status;

    do {
        struct mu_remote_call call = {.op = steps->op,
                                      .request = &steps->request,
                                      .value = steps->value,
                                      .value_len = steps->value_len,
                                      .deadline = deadline,
                                      .what = steps->what ? steps->what : steps->about,
                                      .kind = steps->kind};
        struct mu_answer answer;

        steps->op = MU_OP_NONE;
        status = mu_remote_call(m, ctx, &call, &answer);
        status = steps->answer(steps, status, &answer.body);
        mu_answer_done(&answer);
    } while (!status && steps->op);
    mu_steps_done(steps);
    return status;
}
