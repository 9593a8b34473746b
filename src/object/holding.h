/* object/holding.h: what this process holds, for this room's files and for src/schedule. */
#ifndef MU_OBJECT_HOLDING_H
#define MU_OBJECT_HOLDING_H

#include <muster/object.h>

#include "segment/ledger.h"

/*
 * Call `fn` until it returns something other than RESOURCE_EXHAUSTED, again when room may have come for so many bytes,
 * up to the deadline. What it took by then it has given back.
 */
typedef enum muster_status (*mu_room_fn)(struct mu_ctx *ctx, void *arg);
enum muster_status mu_room_wait(struct mu_ctx *ctx, uint64_t bytes, muster_deadline deadline, mu_room_fn fn, void *arg);

/* All with the ledger locked. */

/* The object in the ledger, held anew if it was not: with a count of references and views as it was. */
enum muster_status mu_holding_find(struct mu_ledger *ledger, struct mu_ctx *ctx, uint64_t ref,
                                   struct mu_holding **ret_held);

/* A new object in the ledger, held once; its data is taken over, and freed where this fails. `made`: unsealed it
 * becomes an error with this process. */
enum muster_status mu_holding_new(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_object *o, bool made,
                                  struct mu_holding **ret_held);

/*
 * Objects of other hosts. In the calls above and below a reference is of this host; these find the replicas that stand
 * for references of others, each held once more by this process until mu_here_end().
 */
enum { MU_HERE_FEW = 8 };
struct mu_here {
    const muster_object *given; /* as the caller has them */
    const muster_object *local; /* as they are on this host: `given` itself, where all are */
    size_t count, num_held;     /* of the first num_held those that are remote are held */
    bool any;                   /* one is remote */
    muster_object few[MU_HERE_FEW];
};
enum muster_status mu_here_begin(struct muster *m, struct mu_ctx *ctx, const muster_object *objects, size_t count,
                                 muster_deadline deadline, struct mu_here *ret_here, size_t *ret_at);
void mu_here_end(struct muster *m, struct mu_ctx *ctx, struct mu_here *here);
/* What stands for a reference that this process holds: itself, where it is of this host, or not held. */
uint64_t mu_here_of(struct muster *m, struct mu_ctx *ctx, uint64_t ref);
/* "host b", which the reference names. */
#define MU_HERE_HOST 80
const char *mu_here_host(const struct muster_segment *seg, uint64_t ref, char name[MU_HERE_HOST]);
/* MUSTER_FAILED_PRECONDITION, where the object is of another host. */
enum muster_status mu_here_only(struct muster *m, uint64_t ref);

/* Bytes into a block, from a multiple of 8 on, by words: a reader of what it was before may still copy it. */
void mu_holding_copy_in(uint8_t *to, const void *from, size_t len);

/* What a sealed object that was read shows, as `ref`. */
enum muster_status mu_holding_show(struct muster_segment *seg, uint64_t ref, const struct mu_object *o,
                                   struct muster_object_view *ret_view);

/* Drop it unless references or views are left. */
void mu_holding_let_go(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_holding *h);

/* One reference less to each of them that this process holds. */
void mu_holding_forget(struct mu_ledger *ledger, struct mu_ctx *ctx, const muster_object *objects, size_t count);

/* Look at the object; once it is sealed, `h` says what it shows. */
enum muster_status mu_holding_look(struct mu_ctx *ctx, struct mu_holding *h, struct mu_object *ret_object);

#endif
