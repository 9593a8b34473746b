/*
 * session/replies.c: request ids. A client that has lost its connection says the same request again, with the same id:
 * it gets the reply that was kept, so its step is run once. TensorFlow's own master answers ABORTED there.
 *
 * One window of ids over all methods and sessions, as there. Long replies are not kept: such a request is answered as
 * there, and so is a request that is still carried out; a reply that made room for newer ones is not there either.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

enum { REPLY_MAX = 64 << 10, HELD_MAX = 32 << 20, PLACES_BITS = 14 };

/* Clients choose their ids: by what is multiplied with, none can foresee which ones share a place. */
static uint32_t *place_of(const struct mu_ss_replies *r, int64_t id)
{
    uint64_t h = ((uint64_t)id ^ (uint64_t)id >> 32 ^ r->secret) * r->secret;

    return &r->places[h >> (64 - PLACES_BITS)];
}

static struct mu_ss_reply *reply_find(const struct mu_ss_replies *r, int64_t id)
{
    for (uint32_t i = r->ring ? *place_of(r, id) : 0; i; i = r->ring[i - 1].follows)
        if (r->ring[i - 1].id == id)
            return &r->ring[i - 1];
    return NULL;
}

static bool replies_open(struct mu_ss_replies *r)
{
    if (r->ring)
        return true;
    r->ring = calloc(MU_SS_REPLIES, sizeof *r->ring);
    r->places = calloc((size_t)1 << PLACES_BITS, sizeof *r->places);
    r->secret = (uint64_t)mu_ss_random_id() | 1;
    if (r->ring && r->places)
        return true;
    free(r->ring);
    free(r->places);
    r->ring = NULL;
    r->places = NULL;
    return false;
}

static void reply_forget(struct mu_ss_replies *r, struct mu_ss_reply *reply)
{
    if (reply->id) {
        uint32_t *at = place_of(r, reply->id);

        while (&r->ring[*at - 1] != reply)
            at = &r->ring[*at - 1].follows;
        *at = reply->follows;
    }
    r->held -= reply->bytes ? reply->len : 0;
    free(reply->bytes);
    *reply = (struct mu_ss_reply){0};
}

bool mu_ss_request_new(struct mu_master *service, struct mu_rpc_call *call, int64_t id, const char *method)
{
    struct mu_ss_replies *r = &service->replies;
    struct mu_ss_reply *known = id ? reply_find(r, id) : NULL;
    struct mu_ss_error error = {0};

    if (known && known->is_there && known->bytes) {
        mu_rpc_answer(call, known->bytes, known->len);
        return false;
    }
    if (known) {
        mu_ss_fail(&error, MUSTER_ABORTED,
                   "The same %s (Master) request was received twice. request_id: %lld, and its reply was not kept",
                   method, (long long)id);
        mu_ss_refuse(call, &error);
        return false;
    }
    if (!id)
        return true;
    if (replies_open(r)) {
        uint32_t *place = place_of(r, id);

        reply_forget(r, &r->ring[r->next]);
        if (r->drop == r->next) /* it had none to drop any more: the oldest is the next one */
            r->drop = (r->next + 1) % MU_SS_REPLIES;
        r->ring[r->next] = (struct mu_ss_reply){.id = id, .method = method, .follows = *place};
        *place = r->next + 1;
        r->next = (r->next + 1) % MU_SS_REPLIES;
    }
    return true;
}

/* The oldest replies make room. */
static void room_make(struct mu_ss_replies *r, size_t len)
{
    for (uint32_t i = 0; i < MU_SS_REPLIES && r->held + len > HELD_MAX; i++) {
        struct mu_ss_reply *reply = &r->ring[r->drop];

        r->drop = (r->drop + 1) % MU_SS_REPLIES;
        r->held -= reply->bytes ? reply->len : 0;
        free(reply->bytes);
        reply->bytes = NULL;
    }
}

void mu_ss_request_done(struct mu_master *service, int64_t id, const void *reply, size_t len)
{
    struct mu_ss_replies *r = &service->replies;
    struct mu_ss_reply *known = id ? reply_find(r, id) : NULL;

    if (!known || !reply || len > REPLY_MAX)
        return;
    room_make(r, len);
    known->bytes = malloc(len + 1);
    if (!known->bytes)
        return;
    memcpy(known->bytes, reply, len);
    known->len = len;
    known->is_there = true;
    r->held += len;
}

void mu_ss_request_answer(struct mu_master *service, struct mu_rpc_call *call, int64_t id,
                          const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *reply = malloc(len + 1);

    if (!reply) {
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for the reply", NULL, 0);
        return;
    }
    protobuf_c_message_pack(message, reply);
    mu_ss_request_done(service, id, reply, len);
    mu_rpc_answer(call, reply, len);
    free(reply);
}

void mu_ss_replies_clear(struct mu_ss_replies *r)
{
    for (uint32_t i = 0; r->ring && i < MU_SS_REPLIES; i++)
        free(r->ring[i].bytes);
    free(r->ring);
    free(r->places);
    *r = (struct mu_ss_replies){0};
}

void mu_ss_run_refuse(struct mu_master *service, struct mu_rpc_call *call, const Mu__Session__RunStepRequest *r,
                      struct mu_ss_error *error)
{
    Mu__Session__RunStepResponse reply = MU__SESSION__RUN_STEP_RESPONSE__INIT;
    Mu__Session__RunMetadata metadata = MU__SESSION__RUN_METADATA__INIT;

    if (!r->store_errors_in_response_body) {
        mu_ss_refuse(call, error);
        return;
    }
    reply.metadata = &metadata;
    reply.has_status_code = true;
    reply.status_code = (int32_t)error->status;
    reply.status_error_message = (char *)(uintptr_t)mu_ss_text(error);
    mu_ss_request_answer(service, call, r->request_id, &reply.base);
    mu_ss_error_clear(error);
}
