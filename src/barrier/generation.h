/* barrier/generation.h: which of the groups of a name is the current one. */
#ifndef MU_BARRIER_GENERATION_H
#define MU_BARRIER_GENERATION_H

#include "segment/table.h"

/*
 * The version of the name's entry: so none comes twice, and a name leaves nothing once its group is over.
 */
/* 0: the name has none now. */
enum muster_status mu_generation_now(struct mu_ctx *ctx, const char *name, uint64_t *ret_generation);
/* The current one, which begins if there is none. */
enum muster_status mu_generation_begin(struct mu_ctx *ctx, const char *name, uint64_t *ret_generation);
/* On to the next, or to none; unless somebody else has done it. */
enum muster_status mu_generation_move_on(struct mu_ctx *ctx, const char *name, uint64_t from);
enum muster_status mu_generation_end(struct mu_ctx *ctx, const char *name, uint64_t from);

#endif
