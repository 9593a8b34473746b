/*
 * schedule/list.c: looks at calls and workers. Works without a slot, and when every process of the job is stopped.
 *
 * A call's word is looked at again behind what was read of it, so what is told of a call was so at one instant; two
 * calls may be of different ones.
 */
#include <stdlib.h>
#include <string.h>

#include "schedule/count.h"
#include "schedule/private.h"
#include "segment/slot.h"

/* What was copied of a call: its references, and its shape behind them. */
struct call_copy {
    uint64_t refs[MU_CALL_REFS_MAX], data[3];
    uint32_t count;
};

/* False: it is corrupt, or another one by now. */
static bool call_copy(const struct muster_segment *seg, const struct mu_object *o, struct call_copy *copy)
{
    uint32_t count;

    return mu_bundle_read(seg, o, 0, copy->refs, 0, &copy->count) && copy->count <= MU_CALL_REFS_MAX &&
           mu_bundle_read(seg, o, copy->count, copy->data, 3, &count) &&
           mu_bundle_read(seg, o, 0, copy->refs, copy->count, &count) &&
           mu_word_same(mu_recheck(mu_object_word(seg, o->ref)), o->word);
}

static void look_at_runner(const struct muster_segment *seg, uint64_t runner, struct muster_call_look *look)
{
    uint32_t slot = (uint32_t)(runner >> 16) - 1;
    /* acquire: pairs with the claim and the release of the slot */
    uint64_t w = slot < seg->num_slots ? mu_load_acquire(&seg->slots[slot].word) : 0;

    if (MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == (uint16_t)runner)
        look->pid = MU_SLOT_PID(w);
}

static void look_at_error(struct muster_segment *seg, const struct mu_object *o, struct muster_call_look *look)
{
    uint64_t detail;
    size_t len;
    const char *text = mu_work_error_text(seg, o, &len, &detail);

    look->state = MUSTER_CALL_FAILED;
    look->code = o->code ? (enum muster_status)o->code : MUSTER_UNKNOWN;
    len = !text ? 0 : len < sizeof look->text ? len : sizeof look->text - 1;
    for (size_t i = 0; i < len; i += 8) {                            /* by words, as it was written */
        uint64_t word = mu_load_relaxed((const mu_a64 *)(text + i)); /* relaxed: the word is looked at again */

        memcpy(look->text + i, &word, len - i < 8 ? len - i : 8);
    }
    if (!mu_word_same(mu_recheck(mu_object_word(seg, o->ref)), o->word))
        look->text[0] = 0;
}

/* Of an object's word; 0: it is no call, or has ended well. */
static enum muster_call_state state_of(const struct mu_object *o)
{
    static const enum muster_call_state states[] = {[MU_OBJECT_CALL_WAITING] = MUSTER_CALL_WAITING,
                                                    [MU_OBJECT_CALL_QUEUED] = MUSTER_CALL_QUEUED,
                                                    [MU_OBJECT_CALL_PLACED] = MUSTER_CALL_PLACED,
                                                    [MU_OBJECT_CALL_RUNNING] = MUSTER_CALL_RUNNING,
                                                    [MU_OBJECT_ERROR] = MUSTER_CALL_FAILED};

    return o->state < sizeof states / sizeof states[0] ? states[o->state] : 0;
}

static bool call_look(struct muster_segment *seg, uint32_t index, uint64_t *body, struct muster_call_look *look)
{
    struct call_copy copy;
    struct mu_object o, argument;

    if (!MU_WORD_INDEX(mu_load_relaxed(&seg->objects[index])) || /* relaxed: a look */
        mu_object_at(seg, index, body, &o))
        return false;
    *look = (struct muster_call_look){.result = o.ref, .task = (int32_t)o.task - 1};
    if (o.state == MU_OBJECT_ERROR) {
        look_at_error(seg, &o, look);
        return true;
    }
    look->state = state_of(&o);
    if (!look->state || !call_copy(seg, &o, &copy))
        return false;
    look->function = ((const struct mu_call_data *)copy.data)->function;
    if (o.state == MU_OBJECT_CALL_RUNNING)
        look_at_runner(seg, o.bytes, look);
    for (uint32_t i = 0; o.state == MU_OBJECT_CALL_WAITING && i < copy.count && !look->waits_for; i++)
        if (!mu_object_resolve(seg, copy.refs[i], body, &argument) && mu_object_is_open(argument.state))
            look->waits_for = argument.ref;
    if (o.state == MU_OBJECT_CALL_PLACED && copy.count)
        look->waits_for = copy.refs[copy.count - 1];
    mu_function_name(seg, look->function, body, look->name, sizeof look->name);
    return true;
}

enum muster_status muster_call_list(struct muster *muster, int (*visit)(void *arg, const struct muster_call_look *look),
                                    void *arg)
{
    enum muster_status status = mu_enter_read(muster);
    struct muster_call_look look;
    uint32_t high;
    uint64_t *body;

    if (status)
        return status;
    body = malloc(MU_CHUNK);
    high = mu_objects_high(muster->seg);
    if (!body)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to look at calls");
    for (uint32_t i = 0; body && i < high; i++)
        if (call_look(muster->seg, i, body, &look) && visit(arg, &look))
            break;
    free(body);
    mu_exit_read();
    return status;
}

enum muster_status muster_call_look_at(struct muster *muster, muster_object result, struct muster_call_look *ret_look)
{
    enum muster_status status = mu_enter_read(muster);
    struct muster_call_look look = {.result = 0};
    struct muster_segment *seg;
    uint32_t index = MU_OBJECT_INDEX(result);
    uint64_t *body;

    if (status)
        return status;
    seg = muster->seg;
    body = malloc(MU_CHUNK);
    if (!body)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to look at a call");
    else if (index >= mu_objects_high(seg) || !call_look(seg, index, body, &look) || look.result != result)
        status = mu_fail(MUSTER_NOT_FOUND, "object 0x%016llx is no call that waits, runs or has failed",
                         (unsigned long long)result);
    else
        *ret_look = look;
    free(body);
    mu_exit_read();
    return status;
}

enum muster_status muster_worker_list(struct muster *muster,
                                      int (*visit)(void *arg, const struct muster_worker_look *look), void *arg)
{
    enum muster_status status = mu_enter_read(muster);
    const struct muster_segment *seg = muster->seg;
    uint32_t high;

    if (status)
        return status;
    high = mu_slot_high(seg);
    for (uint32_t i = 0; i < high; i++) {
        struct muster_worker_look look;

        if (mu_schedule_worker(seg, i, &look) && visit(arg, &look))
            break;
    }
    mu_exit_read();
    return MUSTER_OK;
}

bool mu_schedule_count(struct muster *muster, struct mu_schedule_counts *ret_counts)
{
    struct muster_segment *seg;
    uint64_t *body;
    uint32_t high;

    *ret_counts = (struct mu_schedule_counts){.objects = 0};
    if (mu_enter_read(muster))
        return false;
    seg = muster->seg;
    high = mu_objects_high(seg);
    body = high <= MU_SCHEDULE_COUNT_MOST ? malloc(MU_CHUNK) : NULL;
    for (uint32_t i = 0; body && i < high; i++) {
        struct mu_object o;

        if (!MU_WORD_INDEX(mu_load_relaxed(&seg->objects[i])) || mu_object_at(seg, i, body, &o)) /* relaxed: a look */
            continue;
        ret_counts->calls[state_of(&o)]++;
        if (o.state == MU_OBJECT_SEALED || o.state == MU_OBJECT_WRITING) {
            ret_counts->objects++;
            ret_counts->bytes += o.bytes + o.meta;
        }
    }
    mu_exit_read();
    if (!body)
        return false;
    free(body);
    return true;
}
