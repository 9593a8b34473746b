/*
 * bridge/object/objects.c: the frames by which hosts speak of objects: their senders and receivers, and what they mean
 * to them.
 *
 * The leader passes on what one follower says to another, and keeps nothing of it but which hosts have spoken: those
 * it tells when the other comes again, or is lost. What was said meanwhile to a host that is down is lost, and said
 * anew then.
 */
#include "bridge/object/objects.h"

#include <inttypes.h>
#include <stdlib.h>

#define HEAD_BYTES 17u

static bool objects_init(struct mu_core *core, void **ret_state)
{
    struct mu_dispatch *o = calloc(1, sizeof *o);

    *ret_state = o;
    if (!o)
        return false;
    o->borrowers = calloc(core->num_hosts, sizeof *o->borrowers);
    o->known = calloc(core->num_hosts, sizeof *o->known);
    return o->borrowers && o->known;
}

static void objects_done(struct mu_core *core)
{
    struct mu_dispatch *o = mu_dispatch_of(core);

    if (o->borrowers)
        mu_loans_done(core);
    mu_pulls_done(core);
    for (uint32_t i = 0; o->known && i < core->num_hosts; i++)
        free(o->known[i]);
    free(o->known);
    free(o->borrowers);
    free(o);
}

/* ---- out ---- */

/* The connection ends, and all is said anew on the next. */
static void no_memory_for(struct mu_core *core, uint32_t host)
{
    core->peers[host].tail.failed = true;
    mu_core_want(core, host);
}

static void head_pack(struct mu_pack *p, enum mu_dispatch_said word, uint32_t from, uint32_t to, uint64_t ref)
{
    mu_pack_u8(p, (uint8_t)word);
    mu_pack_u32(p, from);
    mu_pack_u32(p, to);
    mu_pack_u64(p, ref);
}

void mu_dispatch_tell(struct mu_core *core, enum mu_dispatch_said word, uint32_t host, uint64_t ref,
                      const struct mu_pack *rest, const struct mu_slice *body)
{
    struct mu_pack p = {0};

    head_pack(&p, word, core->host, host, ref);
    if (rest)
        mu_pack_raw(&p, rest->bytes, rest->len);
    if (p.failed || (rest && rest->failed))
        no_memory_for(core, core->leader ? host : 0);
    else if (body)
        mu_core_send_slice(core, core->leader ? host : 0, MU_FRAME_OBJECT, p.bytes, p.len, body);
    else
        mu_core_send(core, core->leader ? host : 0, MU_FRAME_OBJECT, p.bytes, p.len);
    mu_pack_done(&p);
}

/* ---- the leader: between two followers ---- */

static bool known_set(struct mu_core *core, uint32_t host, uint32_t other)
{
    struct mu_dispatch *o = mu_dispatch_of(core);

    if (!o->known[host])
        o->known[host] = calloc(core->num_hosts / 64 + 1, sizeof **o->known);
    if (o->known[host])
        o->known[host][other / 64] |= 1ull << other % 64;
    return o->known[host] != NULL;
}

/* To a host, as if `about` had said it. */
static void tell_about(struct mu_core *core, enum mu_dispatch_said word, uint32_t about, uint32_t host)
{
    struct mu_pack p = {0};

    head_pack(&p, word, about, host, 0);
    if (p.failed)
        no_memory_for(core, host);
    else
        mu_core_send(core, host, MU_FRAME_OBJECT, p.bytes, p.len);
    mu_pack_done(&p);
}

static void tell_known(struct mu_core *core, enum mu_dispatch_said word, uint32_t about)
{
    const uint64_t *known = mu_dispatch_of(core)->known[about];

    for (uint32_t i = 0; known && i < core->num_hosts; i++)
        if (known[i / 64] >> i % 64 & 1)
            tell_about(core, word, about, i);
}

static void frame_pass_on(struct mu_core *core, uint32_t from, uint32_t to, const uint8_t *payload, size_t len)
{
    if (core->peers[to].state == MU_PEER_LOST)
        tell_about(core, MU_SAY_LOST, to, from);
    else if (!known_set(core, from, to) || !known_set(core, to, from))
        no_memory_for(core, from);
    else /* to a host that is not up nothing is sent: it is told of when it comes */
        mu_core_send_parts(core, to, MU_FRAME_OBJECT, payload, HEAD_BYTES, payload + HEAD_BYTES, len - HEAD_BYTES);
}

/* ---- in ---- */

static bool frame_is_odd(const char *why, uint32_t word, uint32_t from, uint32_t to, uint64_t ref)
{
    mu_fail(MUSTER_INVALID_ARGUMENT, "what %u from host %u to host %u about 0x%016" PRIx64 " %s", word, from, to, ref,
            why);
    return false;
}

/* Whether the hosts of the head can be, and the reference is the home's. */
static bool head_is_sound(const struct mu_core *core, uint32_t host, uint32_t word, uint32_t from, uint32_t to,
                          uint64_t ref)
{
    uint32_t home = word == MU_SAY_IS || word == MU_SAY_PIECE ? from : to;

    if (!word || word >= MU_SAYINGS || from >= core->num_hosts || to >= core->num_hosts || from == to)
        return frame_is_odd("cannot be", word, from, to, ref);
    if (core->leader ? from != host : to != core->host)
        return frame_is_odd("came from another, or to another", word, from, to, ref);
    if (word >= MU_SAY_AGAIN ? core->leader : MU_OBJECT_HOST(ref) != home)
        return frame_is_odd("is not the sender's to say", word, from, to, ref);
    return true;
}

static bool frame_take(struct mu_core *core, uint32_t word, uint32_t from, uint64_t ref, struct mu_unpack *u)
{
    if (u->left && word != MU_SAY_GO && word != MU_SAY_IS && word != MU_SAY_PIECE)
        return frame_is_odd("has bytes behind it", word, from, core->host, ref);
    switch (word) {
    case MU_SAY_WANT: mu_loan_want(core, from, ref); return true;
    case MU_SAY_GO: return mu_loan_go(core, from, ref, u);
    case MU_SAY_END: mu_loan_end(core, from, ref); return true;
    case MU_SAY_IS: return mu_pull_take_is(core, from, ref, u);
    case MU_SAY_PIECE: return mu_pull_take_piece(core, ref, u);
    case MU_SAY_AGAIN:
        mu_pulls_again(core, from);
        mu_loans_again(core, from);
        return true;
    default:
        mu_pulls_lost(core, from);
        mu_loans_lost(core, from);
        return true;
    }
}

bool mu_take_object(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    const uint8_t *payload = u->at;
    size_t len = u->left;
    uint32_t word = mu_unpack_u8(u), from = mu_unpack_u32(u), to = mu_unpack_u32(u);
    uint64_t ref = mu_unpack_u64(u);

    if (!head_is_sound(core, host, word, from, to, ref))
        return false;
    mu_core_worked(core);
    if (to == core->host)
        return frame_take(core, word, from, ref, u);
    frame_pass_on(core, from, to, payload, len);
    return true;
}

/* ---- the module ---- */

static void objects_up(struct mu_core *core, uint32_t host)
{
    uint32_t whom = core->leader ? host : MU_EVERY_HOST;

    mu_pulls_again(core, whom);
    mu_loans_again(core, whom);
    if (core->leader)
        tell_known(core, MU_SAY_AGAIN, host);
}

static void objects_lost(struct mu_core *core, uint32_t host, const char *why)
{
    uint32_t whom = core->leader ? host : MU_EVERY_HOST;

    (void)why;
    mu_pulls_lost(core, whom);
    mu_loans_lost(core, whom);
    if (core->leader)
        tell_known(core, MU_SAY_LOST, host);
}

static void objects_look(struct mu_core *core)
{
    mu_pulls_look(core);
    mu_loans_look(core);
}

static uint64_t objects_next(struct mu_core *core)
{
    uint64_t pulls = mu_pulls_next(core), loans = mu_loans_next(core);

    return pulls < loans ? pulls : loans;
}

const struct mu_module mu_module_objects = {.name = "objects",
                                            .init = objects_init,
                                            .done = objects_done,
                                            .up = objects_up,
                                            .lost = objects_lost,
                                            .look = objects_look,
                                            .next = objects_next};
