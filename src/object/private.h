/* object/private.h: what the files of this room share: object.c (life), get.c (views and waits), info.c (looks), room.c
 * (waits for room). */
#ifndef MU_OBJECT_PRIVATE_H
#define MU_OBJECT_PRIVATE_H

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

/* Drop it unless references or views are left. */
void mu_holding_let_go(struct mu_ledger *ledger, struct mu_ctx *ctx, struct mu_holding *h);

/* Look at the object; once it is sealed, `h` says what it shows. */
enum muster_status mu_holding_look(struct mu_ctx *ctx, struct mu_holding *h, struct mu_object *ret_object);

#endif
