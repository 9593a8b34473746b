/*
 * rpc/probe.c: grpc.health.v1.Health, as load balancers, Kubernetes and grpc_health_probe ask it.
 *
 * The server as a whole ("") and each service that it has are healthy while the server runs. A watcher is told so, and
 * of the end: it is the one change that there is.
 */
#include "rpc/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rpc/codec.h"
#include "base/list.h"
#include "rpc/health.pb-c.h"

enum {
    SERVING = MU__HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = MU__HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVICE_UNKNOWN = MU__HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
};

struct mu_rpc_watch {
    struct mu_rpc_watch *next, *prev;
    struct mu_rpc_call *call;
};

static bool is_served(const struct mu_rpc *rpc, const uint8_t *service, size_t len)
{
    if (len == 0)
        return true;
    for (uint32_t i = 0; i <= rpc->table_mask; i++)
        if (rpc->table[i]) {
            const char *name = rpc->table[i]->path + 1, *slash = strchr(name, '/');

            if (slash && (size_t)(slash - name) == len && memcmp(name, service, len) == 0)
                return true;
        }
    return false;
}

/* SERVING or SERVICE_UNKNOWN; 0: the call is refused. */
static uint8_t health_look(struct mu_rpc_call *call, const void *body, size_t len)
{
    ProtobufCMessage *message;
    ProtobufCBinaryData service;
    uint8_t status;

    if (mu_codec_read(&mu__health__health_check_request__descriptor, NULL, body, len, &message)) {
        mu_rpc_call_refuse(call, MUSTER_INVALID_ARGUMENT, "%s", muster_last_error());
        return 0;
    }
    service = ((Mu__Health__HealthCheckRequest *)message)->service;
    status = is_served(call->conn->rpc, service.data, service.len) ? SERVING : SERVICE_UNKNOWN;
    mu_codec_free(message);
    return status;
}

static void begin_check(struct mu_rpc_call *call, const void *body, size_t len)
{
    uint8_t status = health_look(call, body, len);

    if (status == SERVICE_UNKNOWN)
        mu_rpc_call_refuse(call, MUSTER_NOT_FOUND, "there is no such service here");
    else if (status)
        mu_rpc_answer(call, (const uint8_t[]){1 << 3, status}, 2);
}

static void watch_forget(struct mu_rpc_watch *watch)
{
    struct mu_rpc *rpc = watch->call->conn->rpc;

    MU_LIST_DROP(rpc->watches, watch);
    free(watch);
}

static void on_ended(void *arg)
{
    watch_forget(arg);
}

static void begin_watch(struct mu_rpc_call *call, const void *body, size_t len)
{
    uint8_t status = health_look(call, body, len);
    struct mu_rpc *rpc = call->conn->rpc;
    struct mu_rpc_watch *watch;

    if (!status)
        return;
    watch = calloc(1, sizeof *watch);
    if (!watch) {
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    watch->call = call;
    MU_LIST_PUSH(rpc->watches, watch);
    mu_rpc_wait(call, on_ended, watch);
    if (!mu_rpc_send(call, (const uint8_t[]){1 << 3, status}, 2)) /* refused: nobody hears of it any more */
        watch_forget(watch);
}

void mu_rpc_health_stop(struct mu_rpc *rpc)
{
    while (rpc->watches) {
        struct mu_rpc_call *call = rpc->watches->call;

        watch_forget(rpc->watches);
        if (mu_rpc_send(call, (const uint8_t[]){1 << 3, NOT_SERVING}, 2))
            mu_rpc_finish(call);
    }
}

const struct mu_rpc_method mu_rpc_health_methods[] = {
    {.path = "/grpc.health.v1.Health/Check", .begin = begin_check},
    {.path = "/grpc.health.v1.Health/Watch", .begin = begin_watch},
    {.path = NULL},
};
