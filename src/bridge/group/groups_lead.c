/*
 * bridge/group/groups_lead.c: groups that span hosts, on the leader.
 *
 * An instance. Every host says when all of its members have arrived, and what they gave. When all have, those of this
 * host, too, the CAS of the proxy's word is the verdict; or somebody closes it before: a member here that gives up, or
 * this agent, because a host asks for it, a host is lost, or none of a host's members is left. A host that connects is
 * told the last verdict; what is said of an instance that has its verdict is passed over.
 *
 * Trust, with --latency. When one host alone is missing, it is trusted with the verdict: it is told what it would be
 * told by RELEASED, and lets its members pass as soon as all are there. So what takes a round trip otherwise takes one
 * way. The proxy's word says so, and then only what that host says moves it: ARRIVED, or FAILED, for which it is asked
 * when anybody here or elsewhere gives up. When it is lost, nobody knows (model: spans.pml).
 *
 * Of a group on two hosts a speaker here may trust the other host, too, and let the proxy arrive, without this agent
 * (barrier/shortcut.h): so every look is at the word as it is, and what the speaker did is said before what comes after
 * it (leader_catch_up(); model: shortcut.pml).
 */
#include "bridge/group/groups.h"

#include <stdlib.h>

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

static uint64_t leader_verdict(const struct span *s)
{
    return mu_load_acquire(&s->proxy->arrived); /* acquire: pairs with a member's closing CAS */
}

static bool is_elsewhere(const struct mu_core *core, uint32_t task, uint32_t host)
{
    return mu_host_of(core->seg, task) != host;
}

bool mu_lead_hears(const struct mu_core *core, const struct span *s, uint32_t host)
{
    return s->sides[host].in && !s->sides[host].over && core->peers[host].state == MU_PEER_UP;
}

/* RELEASED, or TRUSTED: with what the other hosts' members gave. */
static void say_data(struct mu_core *core, struct span *s, uint32_t host, uint8_t say, uint64_t instance)
{
    struct mu_pack p = {0};

    mu_bridge_span_pack(&p, say, s);
    mu_pack_u64(&p, instance);
    mu_bridge_span_pack_data(core, &p, s, instance, is_elsewhere, host);
    mu_bridge_span_send(core, host, MU_FRAME_GROUP, &p);
}

/* What was passed by the shortcut is told before what comes after it: the host may not have heard it. */
static void leader_catch_up(struct mu_core *core, struct span *s, uint32_t host)
{
    uint64_t passed = mu_passed(leader_verdict(s));

    if (!s->way || s->way_host != host || s->released >= passed)
        return;
    say_data(core, s, host, MU_SAY_RELEASED, passed);
    s->released = passed;
}

static uint8_t reason_of(uint64_t w)
{
    return (w & MU_ARRIVED_TRUSTED) ? 2 : (w & MU_ARRIVED_TIMEOUT) ? 1 : 0;
}

/* s->bits are those of the instance. */
static void leader_say_failed(struct mu_core *core, struct span *s, uint32_t host, uint64_t instance)
{
    struct mu_pack p = {0};

    leader_catch_up(core, s, host);
    mu_bridge_span_pack(&p, MU_SAY_FAILED, s);
    mu_pack_u64(&p, instance);
    mu_pack_u8(&p, reason_of(leader_verdict(s)));
    mu_bridge_span_pack_bits(&p, s);
    mu_bridge_span_send(core, host, MU_FRAME_GROUP_END, &p);
}

/* It failed, by whomever: all must hear. */
static void pass_on_end(struct mu_core *core, struct span *s)
{
    uint64_t w = leader_verdict(s), instance = MU_ARRIVED_INSTANCE(w);

    if (!(w & MU_ARRIVED_CLOSED) || s->end_said == instance)
        return;
    s->end_said = instance;
    mu_bridge_span_bits(core, s, instance);
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (mu_lead_hears(core, s, h))
            leader_say_failed(core, s, h, instance);
}

/* The host that is trusted with the next instance; 0: none is. */
static uint32_t decider_of(const struct mu_core *core, const struct span *s)
{
    /* relaxed: written by this agent, or by one before it: leader_verdict() has acquired its CAS */
    uint64_t host = mu_is_trusted(leader_verdict(s)) ? mu_load_relaxed(&s->proxy->keeper) : 0;

    return host < core->num_hosts ? (uint32_t)host : 0;
}

/*
 * The next instance fails, unless it has its verdict, or the last one was the last: because a host says or is so. If
 * another one is trusted, that is asked.
 */
static void instance_fail(struct mu_core *core, struct span *s, uint32_t host, uint64_t reason)
{
    uint64_t w = leader_verdict(s), instance = MU_ARRIVED_INSTANCE(w) + 1;
    uint32_t decider = decider_of(core, s);

    if (!(w & MU_ARRIVED_CLOSED) && decider && decider != host) {
        if (s->wanted < instance)
            s->want_reason = reason;
        s->wanted = instance;
        mu_core_worked(core);
        return;
    }
    if (!(w & MU_ARRIVED_CLOSED) && reason == MU_ARRIVED_TRUSTED)
        mu_area_abandon(&s->proxy->arrived, instance);
    else if (!(w & MU_ARRIVED_CLOSED))
        mu_area_end(&s->proxy->arrived, instance, reason);
    pass_on_end(core, s);
}

/* All have arrived at the instance: the verdict, unless somebody has given up. A member that passes here goes on by the
 * shortcut, with the data and what is said of the instance behind it. */
static void instance_release(struct mu_core *core, struct span *s, uint64_t instance)
{
    uint32_t decider = decider_of(core, s);

    mu_way_says(core, s, s->way_host);
    if (!mu_area_arrive(s->proxy, instance)) {
        pass_on_end(core, s);
        return;
    }
    mu_core_worked(core);
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (mu_lead_hears(core, s, h) && !(h == decider && s->trusting == instance)) /* that one knows */
            say_data(core, s, h, MU_SAY_RELEASED, instance);
    s->released = instance;
}

static void say_trusted(struct mu_core *core, struct span *s, uint32_t host, uint64_t instance)
{
    leader_catch_up(core, s, host);
    say_data(core, s, host, MU_SAY_TRUSTED, instance);
    s->trusting = instance;
    mu_core_worked(core);
}

/* Only this host is missing. */
static void host_trust(struct mu_core *core, struct span *s, uint32_t host, uint64_t instance)
{
    if (!mu_lead_hears(core, s, host) || !mu_area_trust(s->proxy, instance, host))
        return; /* a member here has given up: the next look finds it */
    say_trusted(core, s, host, instance);
}

/*
 * Whether the instance's end is wanted though its word is not closed: while a host is trusted, or because one was with
 * the instance before, when somebody gave up or left.
 */
static bool end_is_wanted(const struct mu_core *core, const struct span *s, uint64_t instance, uint64_t *ret_reason)
{
    uint64_t wish = mu_load_acquire(&s->proxy->wish); /* acquire: pairs with mu_span_wish() */
    bool is_wished = MU_ARRIVED_INSTANCE(wish) >= instance, wanted = is_wished || s->wanted >= instance;

    *ret_reason = (is_wished ? wish : wanted ? s->want_reason : 0) & MU_ARRIVED_TIMEOUT;
    for (uint32_t h = 1; h < core->num_hosts; h++) /* its members are gone: they will not come to the next one */
        wanted |= s->sides[h].in && s->sides[h].over;
    return wanted;
}

/* The end of what a host is trusted with. That host knows which members have arrived, and why it ends. */
static void host_ask(struct mu_core *core, struct span *s, uint64_t instance, uint64_t reason)
{
    uint32_t decider = decider_of(core, s);
    struct mu_pack p = {0};

    if (s->asked == instance || !mu_lead_hears(core, s, decider))
        return;
    s->asked = instance;
    leader_catch_up(core, s, decider);
    mu_bridge_span_pack(&p, MU_SAY_ASKED, s);
    mu_pack_u64(&p, instance);
    mu_pack_u8(&p, reason_of(reason));
    mu_bridge_span_send(core, decider, MU_FRAME_GROUP_END, &p);
}

/* An agent before this one may have given the host up and died before it said so in the verdict; a ruined word names
 * none. */
static bool can_decide(const struct mu_core *core, const struct span *s)
{
    uint32_t decider = decider_of(core, s);

    return decider && s->sides[decider].in && !s->sides[decider].over && core->peers[decider].state != MU_PEER_LOST;
}

/* To people: the members that have arrived until now. */
static void instance_show(struct mu_core *core, struct span *s, uint64_t instance)
{
    if (!mu_bridge_span_shows(core, s, instance))
        return;
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (mu_lead_hears(core, s, h)) {
            struct mu_pack p = {0};

            leader_catch_up(core, s, h);
            mu_bridge_span_pack(&p, MU_SAY_SO_FAR, s);
            mu_pack_u64(&p, instance);
            mu_bridge_span_pack_bits(&p, s);
            mu_bridge_span_send(core, h, MU_FRAME_GROUP, &p);
        }
}

/* The instance that is under way. */
static void consider_instance(struct mu_core *core, struct span *s)
{
    uint64_t w = leader_verdict(s), instance = MU_ARRIVED_INSTANCE(w) + 1;
    uint32_t there = 0, hosts = 0, missing = 0, last = 0;
    uint64_t reason = 0;
    bool wanted = end_is_wanted(core, s, instance, &reason);

    if (wanted && !(w & (MU_ARRIVED_CLOSED | MU_ARRIVED_TRUSTED)))
        w = mu_area_close(&s->proxy->arrived, instance, reason);
    if (w & MU_ARRIVED_CLOSED) {
        pass_on_end(core, s);
        return;
    }
    for (uint32_t k = 0; k < s->num_own; k++)
        /* acquire: pairs with member_arrive(); what the member gave is visible */
        there += mu_has_arrived(mu_load_acquire(&s->areas[s->own[k]]->arrived), instance);
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (s->sides[h].in && s->sides[h].there >= instance) {
            hosts++;
        } else if (s->sides[h].in) {
            missing++;
            last = h;
        }
    if (mu_is_trusted(w) && !can_decide(core, s)) {
        mu_area_end(&s->proxy->arrived, instance, MU_ARRIVED_TRUSTED);
        pass_on_end(core, s);
        return;
    }
    if (!wanted && mu_way_covers(s, instance))
        return;
    if (mu_is_trusted(w) && s->way && s->sides[s->way_host].there >= instance) {
        instance_release(core, s, instance); /* it arrived before our speaker trusted it */
        return;
    }
    if (mu_is_trusted(w)) {
        /* by the speaker, which has asked us then; or it was said on another connection */
        if (s->way && s->trusting != instance && mu_lead_hears(core, s, s->way_host))
            say_trusted(core, s, s->way_host, instance);
        if (wanted)
            host_ask(core, s, instance, reason);
    } else if (there == s->num_own && !missing) {
        instance_release(core, s, instance);
        return;
    } else if (core->latency && there == s->num_own && missing == 1 && there + hosts) {
        host_trust(core, s, last, instance);
    }
    if (there + hosts) {
        mu_groups_of(core)->busy = true;
        instance_show(core, s, instance);
    }
}

/* ---- hosts come, go and are done --------------------------------------------------------------------------------- */

void mu_lead_say_made(struct mu_core *core, struct span *s, uint32_t host)
{
    struct mu_pack p = {0};

    mu_bridge_span_pack(&p, MU_SAY_MADE, s);
    mu_pack_u32(&p, s->data_bytes);
    mu_pack_u32(&p, s->size);
    for (uint32_t i = 0; i < s->size; i++) {
        struct mu_task_record r;
        struct mu_cluster cluster;
        bool is_known = !mu_cluster_task(core->seg, s->members[i].task, &r, NULL, &cluster) &&
                        r.incarnation == s->members[i].incarnation;

        mu_pack_u32(&p, s->members[i].task);
        mu_pack_u32(&p, is_known ? r.attempt : 0);
        mu_pack_u64(&p, s->members[i].incarnation);
    }
    mu_bridge_span_send(core, host, MU_FRAME_GROUP, &p);
}

static void leader_say_over(struct mu_core *core, uint32_t host, const char *name, uint64_t generation)
{
    struct mu_pack p = {0};

    mu_pack_u8(&p, MU_SAY_OVER);
    mu_pack_text(&p, name);
    mu_pack_u64(&p, generation);
    mu_bridge_span_send(core, host, MU_FRAME_GROUP_END, &p);
}

bool mu_lead_any_host_is_left(const struct mu_core *core, const struct span *s)
{
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (s->sides[h].in && !s->sides[h].over)
            return true;
    return false;
}

/* None of the host's members is left. The verdict comes before the marks: with the last of them the areas may go. */
static void end_side(struct mu_core *core, struct span *s, uint32_t host, bool is_lost)
{
    /* whether it let its members pass, nobody here will know */
    is_lost &= decider_of(core, s) == host || (s->way && s->way_host == host);
    if (s->sides[host].over)
        return;
    s->sides[host].over = true;
    instance_fail(core, s, host, is_lost ? MU_ARRIVED_TRUSTED : 0);
    if (s->way && !(leader_verdict(s) & MU_ARRIVED_CLOSED)) /* our speaker was faster: then it is the next one */
        instance_fail(core, s, host, is_lost ? MU_ARRIVED_TRUSTED : 0);
    mu_bridge_span_leave(core, s, host);
    if (!mu_lead_any_host_is_left(core, s))
        mu_bridge_span_drop(core, s);
}

void mu_lead_up(struct mu_core *core, struct span *s, uint32_t host)
{
    uint64_t w;

    if (!s->proxy || !mu_lead_hears(core, s, host))
        return;
    mu_lead_say_made(core, s, host);
    if (decider_of(core, s) == host)
        s->trusting = s->asked = 0;
    w = leader_verdict(s);
    if (mu_passed(w))
        say_data(core, s, host, MU_SAY_RELEASED, mu_passed(w));
    s->released = s->way && s->way_host == host ? mu_passed(w) : s->released;
    if (w & MU_ARRIVED_CLOSED) {
        mu_bridge_span_bits(core, s, MU_ARRIVED_INSTANCE(w));
        leader_say_failed(core, s, host, MU_ARRIVED_INSTANCE(w));
    }
}

void mu_lead_lost(struct mu_core *core, struct span *s, uint32_t host)
{
    if (s->proxy)
        end_side(core, s, host, true);
    else
        mu_bridge_span_leave(core, s, host); /* the waiters are told at the next look */
}

/*
 * The other host spoke of an instance by its agent, and it was passed by the shortcut: it may not have heard that. By
 * the state of things in every look, for the one may come before or after the other.
 */
static void answer_passed(struct mu_core *core, struct span *s)
{
    if (s->way && mu_lead_hears(core, s, s->way_host) && s->sides[s->way_host].there >= mu_passed(leader_verdict(s)))
        leader_catch_up(core, s, s->way_host);
}

void mu_lead_look(struct mu_core *core, struct span *s)
{
    bool is_complete = s->proxy != NULL;

    if (!is_complete || s->num_waiters)
        mu_build_look(core, s);
    if (is_complete) {
        answer_passed(core, s);
        consider_instance(core, s);
    }
}

/* ---- what the others say ----------------------------------------------------------------------------------------- */

/*
 * What a follower says of the instance: of the one that is under way, or of one that has its verdict, which was or is
 * said to all. The word is read once: our speaker may move it between two reads, and the frame is sound by either.
 */
enum heard { HEARD_DUE, HEARD_LATE, HEARD_WRONG };

static enum heard instance_judge(const struct span *s, uint64_t instance)
{
    uint64_t w = leader_verdict(s), passed = mu_passed(w);

    if (passed >= instance || (w & MU_ARRIVED_CLOSED))
        return HEARD_LATE;
    if (instance == passed + 1)
        return HEARD_DUE;
    mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: instance %llu is not under way", s->name, (unsigned long long)instance);
    return HEARD_WRONG;
}

/* All members of the host are there: for those that look at the leader's host. */
static void mark_there(struct mu_core *core, struct span *s, uint32_t host, uint64_t instance)
{
    for (uint32_t i = 0; i < s->size; i++)
        if (mu_host_of(core->seg, s->members[i].task) == host) /* release: pairs with mu_span_word() */
            mu_store_release(&s->areas[i]->arrived, MU_ARRIVED(instance));
}

static bool take_arrived(struct mu_core *core, struct span *s, uint32_t host, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u);
    enum heard heard = instance_judge(s, instance);

    if (heard == HEARD_LATE)
        leader_catch_up(core, s, host);
    if (heard != HEARD_DUE)
        return heard == HEARD_LATE;
    mu_way_raise(s, instance);
    if (s->sides[host].there >= instance) /* said again on a new connection: the same */
        return true;
    if (!mu_bridge_span_take_data(core, s, instance, u, host))
        return false;
    s->sides[host].there = instance;
    if (decider_of(core, s) == host)
        instance_release(core, s, instance);
    else
        consider_instance(core, s);
    if (mu_passed(leader_verdict(s)) < instance)
        mark_there(core, s, host, instance);
    return true;
}

static bool leader_take_failed(struct mu_core *core, struct span *s, uint32_t host, struct mu_unpack *u)
{
    uint64_t instance = mu_unpack_u64(u), reason = mu_unpack_u8(u) ? MU_ARRIVED_TIMEOUT : 0;
    enum heard heard = instance_judge(s, instance);

    if (heard != HEARD_DUE)
        return heard == HEARD_LATE;
    if (!mu_bridge_span_take_bits(core, s, instance, u, 0))
        return false;
    if (s->way && s->sides[host].there >= instance) { /* it can but ask, if our speaker trusts it by now */
        if (mu_is_trusted(mu_area_close(&s->proxy->arrived, instance, reason)))
            instance_release(core, s, instance);
        pass_on_end(core, s);
    } else {
        instance_fail(core, s, host, reason);
    }
    return true;
}

bool mu_lead_take(struct mu_core *core, uint32_t host, uint8_t type, uint8_t say, const char *name, uint64_t generation,
                  struct mu_unpack *u)
{
    struct span *s = mu_bridge_span_find(core, name, generation);

    if (!s || !s->proxy || !s->sides[host].in || s->sides[host].over) {
        leader_say_over(core, host, name, generation); /* nobody here knows it any more */
        return true;
    }
    if (s->way) /* what was heard before, and what the speaker has done since, comes before this */
        consider_instance(core, s);
    if (type == MU_FRAME_GROUP && say == MU_SAY_ARRIVED)
        return take_arrived(core, s, host, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_SHORTCUT)
        return mu_way_take(core, s, u);
    if (type == MU_FRAME_GROUP && say == MU_SAY_SO_FAR) {
        uint64_t instance = mu_unpack_u64(u);

        return instance != mu_passed(leader_verdict(s)) + 1 || mu_bridge_span_take_bits(core, s, instance, u, 0);
    }
    if (type == MU_FRAME_GROUP_END && say == MU_SAY_FAILED)
        return leader_take_failed(core, s, host, u);
    if (type == MU_FRAME_GROUP_END && say == MU_SAY_OVER) {
        end_side(core, s, host, false);
        leader_say_over(core, host, name, generation);
        return true;
    }
    return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: a follower does not say %u", name, say);
}
