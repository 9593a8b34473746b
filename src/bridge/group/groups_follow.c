/*
 * bridge/group/groups_follow.c: groups that span hosts, on the hosts that do not lead.
 *
 * The leader says that a group's members have all come; the entry is made here, with areas for all, before any of this
 * host's members is told. Then, instance by instance: when the last of them has arrived, that and what they gave is
 * said; what the leader answers, released or failed, becomes the proxy's word. Nothing else ever moves that word, but a
 * shortcut's speaker (barrier/shortcut.h): a member that gives up here can only ask (I16).
 *
 * Trust. The leader may say that all others have arrived. Then what it hears first of this host on this connection
 * decides; so when that is ARRIVED, the proxy arrives without an answer. On the next connection the leader may not have
 * heard it: what the proxy has passed is said anew before all else. Trust itself ends with its connection, and is said
 * again where the group may have a shortcut.
 */
#include "bridge/group/groups.h"

#include <stdlib.h>

/* Moved by this agent, and by the speaker of a shortcut. */
static uint64_t follower_verdict(const struct span *s)
{
    return mu_load_acquire(&s->proxy->arrived); /* acquire: pairs with the speaker's CAS */
}

static bool is_own(const struct mu_core *core, uint32_t task, uint32_t host)
{
    (void)host;
    return mu_is_local_task(core->seg, task);
}

static void say_arrived(struct mu_core *core, struct span *s, uint64_t instance)
{
    struct mu_pack p = {0};

    mu_bridge_span_pack(&p, MU_SAY_ARRIVED, s);
    mu_pack_u64(&p, instance);
    mu_bridge_span_pack_data(core, &p, s, instance, is_own, 0);
    mu_bridge_span_send(core, 0, MU_FRAME_GROUP, &p);
    s->said = instance;
}

/* What was passed by the shortcut is told before all that comes after it: the leader may not have heard it. */
static void follower_catch_up(struct mu_core *core, struct span *s)
{
    uint64_t passed = mu_passed(follower_verdict(s));

    if (s->way && s->said < passed)
        say_arrived(core, s, passed);
}

static void follower_say_over(struct mu_core *core, struct span *s)
{
    struct mu_pack p = {0};

    follower_catch_up(core, s);
    mu_bridge_span_pack(&p, MU_SAY_OVER, s);
    mu_bridge_span_send(core, 0, MU_FRAME_GROUP_END, &p);
    s->over = true;
}

/* The leader trusts this host with the instance, and what it hears first of it is that all have arrived: also before
 * what comes by the shortcut. */
static void trusted_pass(struct mu_core *core, struct span *s, uint64_t instance)
{
    if (s->trusted != instance || s->said != instance)
        return;
    mu_way_says(core, s, s->way_host);
    if (mu_area_arrive(s->proxy, instance))
        mu_core_worked(core);
}

/* All of this host are there. */
static void host_come(struct mu_core *core, struct span *s, uint64_t instance)
{
    follower_catch_up(core, s);
    if (s->said < instance)
        say_arrived(core, s, instance);
    trusted_pass(core, s, instance);
}

/* The speaker commits to the instance no more; or it has: then the leader is told that first. False: and it has passed.
 */
static bool speaker_bar(struct mu_core *core, struct span *s, uint64_t instance)
{
    if (s->way && !mu_area_bar(s->proxy, instance))
        host_come(core, s, instance);
    return mu_passed(follower_verdict(s)) < instance;
}

/* A member here has given up. */
static void follower_say_failed(struct mu_core *core, struct span *s, uint64_t instance, uint64_t reason)
{
    struct mu_pack p = {0};

    if (!speaker_bar(core, s, instance)) {
        follower_catch_up(core, s);
        return;
    }
    follower_catch_up(core, s);
    mu_bridge_span_bits(core, s, instance);
    mu_bridge_span_pack(&p, MU_SAY_FAILED, s);
    mu_pack_u64(&p, instance);
    mu_pack_u8(&p, reason != 0);
    mu_bridge_span_pack_bits(&p, s);
    mu_bridge_span_send(core, 0, MU_FRAME_GROUP_END, &p);
    s->wished = instance;
}

static void say_so_far(struct mu_core *core, struct span *s, uint64_t instance)
{
    struct mu_pack p = {0};

    mu_bridge_span_pack(&p, MU_SAY_SO_FAR, s);
    mu_pack_u64(&p, instance);
    mu_bridge_span_pack_bits(&p, s);
    mu_bridge_span_send(core, 0, MU_FRAME_GROUP, &p);
}

/* It serves no member any more: nothing here writes its areas from now on. */
static void span_end(struct mu_core *core, struct span *s)
{
    mu_bridge_span_leave(core, s, UINT32_MAX);
    mu_bridge_span_drop(core, s);
}

/* On a new connection: the leader may not have heard of what was passed here. */
static void say_passed(struct mu_core *core, struct span *s, uint64_t instance)
{
    if (!s->is_anew && instance)
        say_arrived(core, s, instance);
    s->is_anew = true;
}

/* The instance that is under way: what is to be said of it. */
static void look_at_instance(struct mu_core *core, struct span *s, uint64_t instance)
{
    /* acquire: pairs with mu_span_wish() */
    uint64_t wish = mu_load_acquire(&s->proxy->wish);
    uint32_t there = 0;
    bool closed = false;

    for (uint32_t k = 0; k < s->num_own; k++) {
        /* acquire: pairs with member_arrive(); what the member gave is visible */
        uint64_t w = mu_load_acquire(&s->areas[s->own[k]]->arrived);

        there += mu_has_arrived(w, instance);
        closed |= mu_is_closed_at(w, instance);
    }
    if (!there && !closed && MU_ARRIVED_INSTANCE(wish) < instance)
        return;
    if (!closed && MU_ARRIVED_INSTANCE(wish) < instance && mu_way_covers(s, instance))
        return;
    mu_groups_of(core)->busy = true;
    if ((there == s->num_own || mu_is_trusted(follower_verdict(s))) && s->said < instance && s->wished < instance)
        host_come(core, s, instance);
    if (mu_passed(follower_verdict(s)) >= instance)
        return;
    if ((closed || MU_ARRIVED_INSTANCE(wish) >= instance) && s->wished < instance)
        follower_say_failed(core, s, instance, wish & MU_ARRIVED_TIMEOUT);
    if (there < s->num_own && mu_bridge_span_shows(core, s, instance))
        say_so_far(core, s, instance);
}

void mu_follow_look(struct mu_core *core, struct span *s)
{
    enum mu_peer_state leader = core->peers[0].state;
    uint64_t w = follower_verdict(s);

    if (mu_bridge_span_changed(core, s)) {
        struct mu_group_entry r;

        if (mu_bridge_span_load(core, s, &r))
            return;
        if (!r.found) {
            mu_bridge_span_drop(core, s);
            return;
        }
    }
    if (s->gone && leader == MU_PEER_LOST) {
        span_end(core, s);
        return;
    }
    if (leader == MU_PEER_UP)
        say_passed(core, s, mu_passed(w));
    if (leader == MU_PEER_UP && mu_way_is_asked(s, mu_passed(w)))
        follower_catch_up(core, s); /* the leader asked for it, and it was passed by the shortcut before or after */
    if (s->gone && !s->over && leader == MU_PEER_UP)
        follower_say_over(core, s);
    if (leader == MU_PEER_UP && !s->over && !(w & MU_ARRIVED_CLOSED))
        look_at_instance(core, s, mu_passed(w) + 1);
}

/* ---- what the leader says ---------------------------------------------------------------------------------------- */

static bool take_made(struct mu_core *core, const char *name, uint64_t generation, struct mu_unpack *u)
{
    struct mu_group_head head = {0};
    struct mu_group_member *members;
    struct mu_ctx *ctx;
    struct span *s;
    struct mu_group_entry r;
    bool sound;
    enum muster_status status;

    head.data_bytes = mu_unpack_u32(u);
    head.size = mu_unpack_u32(u);
    if (u->failed || !head.size || head.size > MUSTER_GROUP_SIZE_MAX || head.data_bytes > MUSTER_GROUP_DATA_MAX)
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: %u members, %u bytes", name, head.size, head.data_bytes);
    members = calloc(head.size, sizeof *members);
    s = members && !mu_bridge_span_find(core, name, generation)
            ? mu_bridge_span_new(core, name, generation, head.size, head.data_bytes)
            : NULL;
    sound = true;
    for (uint32_t i = 0; members && i < head.size; i++) {
        members[i].task = mu_unpack_u32(u);
        members[i].flags = MU_MEMBER_THERE | MU_MEMBER_FLAGS_OF(mu_unpack_u32(u));
        members[i].incarnation = mu_unpack_u64(u);
        sound &= members[i].task < core->seg->num_tasks;
    }
    sound = members && sound && mu_unpack_end(u);
    if (!s || !sound || mu_enter(core->m, &ctx)) {
        if (s)
            mu_bridge_span_drop(core, s);
        free(members);
        /* known already: fine; without memory the connection breaks, and it comes again */
        return (sound && mu_bridge_span_find(core, name, generation)) ||
               !mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: no memory, or members that cannot be", name);
    }
    status = mu_group_entry_make(ctx, &s->key, &head, members);
    mu_exit(ctx);
    free(members);
    if (!status)
        status = mu_bridge_span_load(core, s, &r);
    if (status) { /* no room: its members will find so, and it is over for this host */
        follower_say_over(core, s);
        mu_bridge_span_leave_one(core, s, UINT32_MAX);
        mu_bridge_span_drop(core, s);
    }
    return true;
}

/* The verdict on the instance: of the one after the last. Any other was said before. */
static bool verdict_is_due(const struct span *s, uint64_t instance)
{
    uint64_t w = follower_verdict(s);

    return !(w & MU_ARRIVED_CLOSED) && MU_ARRIVED_INSTANCE(w) + 1 == instance;
}

static bool take_released(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u);

    if (!verdict_is_due(s, instance))
        return true;
    if (!mu_bridge_span_take_data(core, s, instance, u, UINT32_MAX))
        return false;
    mu_area_arrive(s->proxy, instance);
    return true;
}

static bool follower_take_failed(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u);
    uint8_t why = mu_unpack_u8(u);
    uint64_t reason = why == 1 ? MU_ARRIVED_TIMEOUT : why ? MU_ARRIVED_TRUSTED : 0;

    if (!verdict_is_due(s, instance))
        return true;
    if (!mu_bridge_span_take_bits(core, s, instance, u, MU_ARRIVED_CLOSED | reason))
        return false;
    mu_area_end(&s->proxy->arrived, instance, reason);
    return true;
}

/* The leader has begun to speak of an instance: of none that cannot be under way. */
static void raise_ask(struct span *s, uint64_t instance)
{
    if (instance <= mu_passed(follower_verdict(s)) + 1)
        mu_way_raise(s, instance);
}

/* All others have arrived, and gave this. */
static bool take_trusted(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u);

    raise_ask(s, instance); /* before the look at what has become of it */
    if (!verdict_is_due(s, instance))
        return true;
    if (!mu_bridge_span_take_data(core, s, instance, u, UINT32_MAX))
        return false;
    s->trusted = instance;
    trusted_pass(core, s, instance);
    return true;
}

/* Somebody has given up: unless the leader hears first that all of this host have arrived, that is what it hears. */
static bool take_asked(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u), reason = mu_unpack_u8(u) == 1 ? MU_ARRIVED_TIMEOUT : 0;

    if (!mu_unpack_end(u))
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: what was asked is too long", s->name);
    raise_ask(s, instance);
    if (verdict_is_due(s, instance) && s->said < instance && s->wished < instance)
        follower_say_failed(core, s, instance, reason);
    return true;
}

static bool take_so_far(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u);

    return !verdict_is_due(s, instance) || mu_bridge_span_take_bits(core, s, instance, u, 0);
}

/* A member gave up while the answer was on its way: it has left, before it ever arrived. */
static bool take_gone(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint32_t rank = mu_unpack_u32(u);

    if (!mu_unpack_end(u) || rank >= s->size || !mu_is_local_task(core->seg, s->members[rank].task))
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: member %u", s->name, rank);
    mu_area_close(&s->areas[rank]->arrived, 1, 0);
    mu_bridge_span_leave_one(core, s, rank);
    return true;
}

static bool take_over(struct mu_core *core, struct span *s)
{
    uint64_t w;

    /* the leader does not know it: the members that are left must end, too; at the next one if the speaker is faster */
    while (!((w = follower_verdict(s)) & MU_ARRIVED_CLOSED))
        mu_area_abandon(&s->proxy->arrived, mu_passed(w) + 1);
    span_end(core, s);
    return true;
}

bool mu_follow_take(struct mu_core *core, uint8_t type, uint8_t say, const char *name, uint64_t generation,
                    struct mu_unpack *u)
{
    struct span *s = mu_bridge_span_find(core, name, generation);

    if (type == MU_FRAME_GROUP && say == MU_SAY_MADE)
        return take_made(core, name, generation, u);
    if (!s)
        return true; /* it is over here */
    if (type == MU_FRAME_GROUP_END && say == MU_SAY_OVER)
        return take_over(core, s);
    if (type == MU_FRAME_GROUP_END && say == MU_SAY_FAILED)
        return follower_take_failed(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_RELEASED)
        return take_released(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_TRUSTED)
        return take_trusted(core, s, u);
    if (type == MU_FRAME_GROUP_END && say == MU_SAY_ASKED)
        return take_asked(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_SO_FAR)
        return take_so_far(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_SHORTCUT)
        return mu_way_take(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_GONE)
        return take_gone(core, s, u);
    return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: a leader does not say %u", name, say);
}
