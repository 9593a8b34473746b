/* task/change.h: what processes say of a change of the membership, here and from other hosts. */
#ifndef MU_TASK_CHANGE_H
#define MU_TASK_CHANGE_H

#include "segment/members.h"
#include "segment/remote.h"

struct mu_proposal {
    const int32_t *come, *go;
    size_t num_come, num_go;
    const char *role;
    uint64_t timeout_ns, change; /* change: its number, once it is pending */
    /* From another host: the last change that it knew of, and whether it may have been made before. */
    bool is_far, is_resent;
    uint64_t known;
};

/* The caller's task has said MU_IS_READY, MU_IS_DONE, or both. As muster_membership_ready(), wherever the leader is. */
enum muster_status mu_task_change_say(struct muster *m, struct mu_ctx *ctx, uint64_t change, uint8_t flags);

/* MU_OP_MEMBERSHIP, on the leader's host: carry it out. *ret_change: a proposal's number, or 0. */
enum muster_status mu_task_change_take(struct mu_ctx *ctx, const struct mu_request *r, uint64_t *ret_change);

#endif
