/*
 * rpc/bounds.c: how much, how long and how often, where the caller does not say.
 *
 * A message of 256 MiB is four times the largest value of a key: whole directories are listed in one. A client that has
 * tens of thousands of calls open is normal: each wait for a key is one, also those that it has given up.
 */
#include "rpc/private.h"

#include "base/account.h"
#include "base/error.h"

#define MIB ((size_t)1 << 20)

enum muster_status mu_rpc_bounds(struct mu_rpc_options *options)
{
    struct mu_rpc_options *o = options;

    if (o->account)
        o->total_max = o->account->most;
    if (!o->message_max)
        o->message_max = 256 * MIB;
    if (!o->held_max)
        o->held_max = o->message_max + 64 * MIB;
    if (!o->total_max)
        o->total_max = 2 * o->held_max;
    if (o->account && o->held_max > o->total_max)
        o->held_max = o->total_max;
    if (o->account && o->message_max > o->held_max)
        o->message_max = o->held_max;
    if (!o->streams_max)
        o->streams_max = 20000;
    if (!o->connections_max)
        o->connections_max = 16384;
    if (!o->handshake_ms)
        o->handshake_ms = 10000;
    if (!o->stall_ms)
        o->stall_ms = 60000;
    if (o->message_max > UINT32_MAX || o->message_max > o->held_max || o->held_max > o->total_max)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "a message of %zu bytes may come, but %zu may be held for a connection and %zu for all",
                       o->message_max, o->held_max, o->total_max);
    return MUSTER_OK;
}
