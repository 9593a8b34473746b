/*
 * object/info.c: looks at objects, for people and tools: nothing is held, so what is said may be over by then. Works
 * without a slot, and when every process of the job is stopped or dead.
 */
#include <stdlib.h>

#include "object/holding.h"
#include "segment/replica.h"
#include "segment/slot.h"

static void info_fill(const struct mu_object *o, struct muster_object_info *ret_info)
{
    bool has_bytes = o->state == MU_OBJECT_WRITING || o->state == MU_OBJECT_SEALED || o->state == MU_OBJECT_ERROR;

    *ret_info = (struct muster_object_info){
        .object = o->ref,
        .task = (int32_t)o->task - 1,
        .sealed = !mu_object_is_open(o->state),
        .code = o->state == MU_OBJECT_ERROR ? (enum muster_status)o->code : MUSTER_OK,
        .len = has_bytes ? o->bytes : 0,
        .meta_len = has_bytes && o->data ? o->meta : 0,
        .holders = o->count,
    };
}

static uint64_t *look_buffer(void)
{
    uint64_t *body = malloc(MU_CHUNK);

    if (!body)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to look at objects");
    return body;
}

static void info_not_here(const struct muster_segment *seg, uint64_t ref)
{
    char name[MU_HERE_HOST];

    mu_fail(MUSTER_NOT_FOUND, "object 0x%016llx is of %s, and nobody holds it on this host", (unsigned long long)ref,
            mu_here_host(seg, ref, name));
}

enum muster_status muster_object_info(struct muster *muster, muster_object object, struct muster_object_info *ret_info)
{
    enum muster_status status = mu_enter_read(muster);
    uint64_t *body, local = object;
    struct mu_object o;

    if (status)
        return status;
    body = look_buffer();
    if (mu_ref_is_remote(muster->seg, object))
        status = mu_remote_replica_find(muster->seg, NULL, object, &local);
    if (!status)
        status = !local ? MUSTER_NOT_FOUND
                 : body ? mu_object_resolve(muster->seg, local, body, &o)
                        : MUSTER_RESOURCE_EXHAUSTED;
    if (!status)
        info_fill(&o, ret_info);
    else if (status == MUSTER_NOT_FOUND && local == object)
        mu_object_say(muster->seg, object, status);
    else if (status == MUSTER_NOT_FOUND)
        info_not_here(muster->seg, object);
    if (!status && o.ref != object && !mu_object_peek(muster->seg, local, body, &o)) { /* it forwards that one */
        ret_info->object = object;
        ret_info->holders = o.count;
    }
    free(body);
    mu_exit_read();
    return status;
}

static enum muster_status object_list(struct muster_segment *seg, uint64_t *body,
                                      int (*visit)(void *arg, const struct muster_object_info *info), void *arg)
{
    uint32_t high = mu_objects_high(seg);

    for (uint32_t i = 0; i < high; i++) {
        uint64_t w = mu_load_acquire(&seg->objects[i]); /* acquire: pairs with the commit's CAS */
        struct muster_object_info info;
        enum muster_status status;
        struct mu_object o;

        if (!MU_WORD_INDEX(w))
            continue;
        status = mu_object_at(seg, i, body, &o);
        if (status == MUSTER_NOT_FOUND)
            continue;
        if (status)
            return status;
        info_fill(&o, &info);
        if (visit(arg, &info))
            break;
    }
    return MUSTER_OK;
}

enum muster_status muster_object_list(struct muster *muster,
                                      int (*visit)(void *arg, const struct muster_object_info *info), void *arg)
{
    enum muster_status status = mu_enter_read(muster);
    uint64_t *body;

    if (status)
        return status;
    body = look_buffer();
    status = body ? object_list(muster->seg, body, visit, arg) : MUSTER_RESOURCE_EXHAUSTED;
    free(body);
    mu_exit_read();
    return status;
}
