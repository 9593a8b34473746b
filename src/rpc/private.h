/* rpc/private.h: what the files of the server share. */
#ifndef MU_RPC_PRIVATE_H
#define MU_RPC_PRIVATE_H

#include "rpc/server.h"

/* Puts what stands behind 0. INVALID_ARGUMENT where bounds contradict each other. */
enum muster_status mu_rpc_bounds(struct mu_rpc_options *options);

#endif
