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
