/*
 * barrier/collective.c: the group barrier and what is built on it.
 *
 * Every member owns one word on a line of its own: the last instance it arrived at. Arriving is one CAS of that word
 * from instance - 1 to instance; then the member waits until all have arrived. There is no root, no release phase and
 * nothing shared to write: the last to arrive goes on at once, and with more tasks than processors each barrier costs
 * one context switch a member. Anybody can read which members are missing.
 *
 * A spinning member reads another line of the member, its sign: a plain store of the instance right after the CAS.
 * Nobody else touches the arrival word while all goes well, so its CAS stays in the owner's cache, and the store of the
 * sign travels while the owner looks at its peers' already: about one transfer of a line a barrier, not two. A sign is
 * only a hint that comes early or late: sign >= instance says that the CAS succeeded; a member that sees none, because
 * the other was killed or stopped between the two, or has not come, falls back to the arrival words, which alone
 * decide.
 *
 * Outcome. A member that gives up (a deadline, a lost member) closes every member that has not arrived: CAS from
 * instance - 1 to CLOSED. Arriving and closing are CASes on one word, so a member arrived or was closed, never both. If
 * any is closed the instance failed for all; if none could be closed, all had arrived, and the result is OK. Before
 * anybody returns the failure it has itself closed all that had not arrived: so the set of the closed is final, and so
 * is the reason that all report, that of the first of them.
 *
 * A member killed anywhere: before its CAS it is missing, and its death moves the epoch, which makes the others look;
 * after it, it has arrived. A closer killed half-way: its own death makes the others look, and they finish.
 *
 * Data lies in two buffers used in turn: the writer of the one for instance n + 2 has passed n + 1, at which all
 * arrived only after they had read n's.
 */
#include <string.h>

#include "barrier/group.h"
#include "base/clock.h"
#include "segment/stats.h"
#include "segment/wait.h"
#include "sync/futex.h"

enum { TURNS = 8 }; /* of a speaker's looks at its socket, one of so many yields */

/* The reason is that of the word which it replaces: of one that is trusted another. */
static uint64_t close_unless(mu_a64 *word, uint64_t instance, uint64_t reason, uint64_t if_trusted, uint64_t barred)
{
    uint64_t w = mu_load_acquire(word); /* acquire: pairs with member_arrive() and other closers */

    /* a failed CAS means that the member arrived, was closed, or that somebody went to sleep on it; of a proxy also
     * that it became trusted */
    while (!mu_has_arrived(w, instance) && !mu_is_closed_at(w, instance) && !(w & barred)) {
        uint64_t next = MU_ARRIVED(instance) | MU_ARRIVED_CLOSED | (mu_is_trusted(w) ? if_trusted : reason);

        if (mu_cas_seen(word, &w, next)) { /* pairs with member_arrive(), and with mu_area_trust() */
            if (w & MU_ARRIVED_S)
                mu_futex_wake(word);
            w = next;
        }
    }
    return w;
}

uint64_t mu_area_close(mu_a64 *word, uint64_t instance, uint64_t reason)
{
    return close_unless(word, instance, reason, reason, MU_ARRIVED_TRUSTED);
}

uint64_t mu_area_end(mu_a64 *word, uint64_t instance, uint64_t reason)
{
    return close_unless(word, instance, reason, reason, 0);
}

uint64_t mu_area_abandon(mu_a64 *word, uint64_t instance)
{
    return close_unless(word, instance, 0, MU_ARRIVED_TRUSTED, 0);
}

bool mu_area_trust(struct mu_area *a, uint64_t instance, uint32_t host)
{
    uint64_t w = MU_ARRIVED(instance - 1);

    /* relaxed: the CAS releases it; pairs with decider_of() in groups_lead.c, span.c */
    mu_store_relaxed(&a->keeper, host);
    /* a closer that comes later finds it trusted: pairs with close_unless() */
    while (!mu_cas_seen(&a->arrived, &w, w | MU_ARRIVED_TRUSTED))
        if (w != (MU_ARRIVED(instance - 1) | MU_ARRIVED_S))
            return false;
    return true;
}

bool mu_area_bar(struct mu_area *a, uint64_t instance)
{
    uint64_t w = mu_load_relaxed(&a->arrived); /* relaxed: the CAS decides */

    /* of this CAS and the one of mu_area_trust() one comes first */
    while ((w & ~MU_ARRIVED_S) == MU_ARRIVED(instance - 1) && !mu_cas_seen(&a->arrived, &w, w | MU_ARRIVED_BARRED))
        ;
    return !(mu_is_trusted(w) && MU_ARRIVED_INSTANCE(w) == instance - 1);
}

bool mu_group_close(struct muster_group *g, uint64_t instance, uint64_t reason)
{
    bool any = false;

    for (uint32_t i = 0; i < g->num_waits - g->follows; i++)
        any |= mu_is_closed_at(mu_area_close(&g->waits[i]->arrived, instance, reason), instance);
    return any;
}

/* Arrived for sure, and so not closed at the instance. False says nothing. */
static inline bool has_signed(const struct mu_area *a, uint64_t instance)
{
    /* acquire: pairs with member_arrive(); all it wrote before is visible */
    return mu_load_acquire(&a->sign[instance & 1].instance) >= instance;
}

/* False: closed before we came. */
static inline bool member_arrive(struct mu_area *a, uint64_t instance)
{
    mu_a64 *word = &a->arrived;
    uint64_t w = MU_ARRIVED(instance - 1);

    /* acq_rel: releases what we wrote before the barrier to all that see us arrived */
    while (!mu_cas_seen(word, &w, MU_ARRIVED(instance)))
        if ((w & ~(MU_ARRIVED_S | MU_ARRIVED_TRUSTED | MU_ARRIVED_BARRED)) != MU_ARRIVED(instance - 1))
            return false;
    /* release: the same for those that see the sign only; pairs with the acquire of has_signed() */
    mu_store_release(&a->sign[instance & 1].instance, instance);
    if (w & MU_ARRIVED_S)
        mu_futex_wake(word);
    return true;
}

bool mu_area_arrive(struct mu_area *a, uint64_t instance)
{
    return member_arrive(a, instance);
}

static bool leader_lost(const struct muster_group *g)
{
    return g->follows && mu_host_bridge_state(g->muster->seg) == MU_BRIDGE_LOST;
}

/* One of those waited for that have not arrived; num_waits when there is none. Sets *closed when any is closed. */
static uint32_t arrivals_scan(struct muster_group *g, uint64_t instance, uint64_t *seen, bool *closed)
{
    uint32_t missing = 0, pick = g->num_waits;

    for (uint32_t i = 0; i < g->num_waits; i++) {
        uint64_t w;

        if (has_signed(g->waits[i], instance))
            continue;
        w = mu_load_acquire(&g->waits[i]->arrived); /* acquire: pairs with member_arrive() */
        *closed |= mu_is_closed_at(w, instance);
        if (mu_has_arrived(w, instance))
            continue;
        /* one of the missing at random (by rank and instance): arrivals in any order then wake a sleeper about log2
         * times before the last, not once each */
        missing++;
        if ((instance * 2654435761u + g->rank * 40503u + i) % missing == 0) {
            pick = i;
            *seen = w;
        }
    }
    return pick;
}

/* All of this host had arrived: whether the verdict is still to come, or is that it failed. */
static bool is_undecided(const struct muster_group *g, uint64_t instance)
{
    /* acquire: pairs with the agent's CAS; the look at the members' words came before, and they are final */
    return !mu_has_arrived(mu_load_acquire(&g->proxy->arrived), instance);
}

/* Given up, or somebody is closed: what became of the instance. OK: all have arrived, whatever happened since. */
static enum muster_status instance_settle(struct muster_group *g, uint64_t instance, uint64_t reason,
                                          muster_deadline deadline)
{
    bool failed = mu_group_close(g, instance, reason), known = true;
    enum muster_status status = MUSTER_OK;

    if (g->follows || (g->spans && !failed && is_undecided(g, instance))) {
        status = mu_span_verdict(g, instance, reason, deadline, &known);
        failed = status != MUSTER_OK;
    } else if (g->spans && failed) {
        mu_bell_ring(g->muster->seg); /* the agent tells the other hosts */
    }
    g->failed |= failed;
    return failed && known ? mu_group_report(g, instance) : status;
}

/* Yielding and sleeping, and everything that can go wrong. */
static enum muster_status wait_slowly(struct muster_group *g, uint64_t instance, muster_deadline deadline)
{
    struct mu_wait w;
    struct mu_ctx *ctx;
    uint64_t reason = 0;
    enum muster_status status = MUSTER_OK;

    if (g->end.way)
        mu_shortcut_ask(g, instance);
    if (mu_handle_context(g->muster, &ctx)) /* to be woken, a sleeper needs a slot; without one it looks every 2 ms */
        ctx = NULL;
    mu_wait_begin(&w, g->muster->seg, ctx, deadline, g->what);
    w.interrupt = &g->muster->interrupt;
    w.kind = MU_WAIT_BARRIER;
    w.spins = 0;
    w.yields = g->spans ? 0 : w.yields; /* it has yielded all the while */
    for (;;) {
        bool closed = false;
        uint64_t seen = 0;
        uint32_t i;

        mu_wait_look(&w);
        i = arrivals_scan(g, instance, &seen, &closed);
        if (closed || i == g->num_waits || mu_group_has_lost(g, w.epoch) || leader_lost(g))
            break;
        status = mu_wait_on(&w, &g->waits[i]->arrived, seen);
        if (status) {
            reason = status == MUSTER_DEADLINE_EXCEEDED ? MU_ARRIVED_TIMEOUT : 0;
            break;
        }
    }
    mu_wait_end(&w);
    if (status == MUSTER_DATA_LOSS) { /* truncated: the areas may be gone */
        g->failed = true;
        return status;
    }
    return instance_settle(g, instance, reason, deadline);
}

/*
 * Members take turns on processors, and we have arrived. Are all that are missing on others? Then none of ours has
 * anything to do before they come, and to look on costs less than to let each of ours look in vain, a turn each.
 */
static __attribute__((noinline)) bool are_elsewhere(const struct muster_group *g, uint64_t instance)
{
    uint64_t here = mu_place();

    for (uint32_t i = 0; i < g->num_waits; i++) {
        const struct mu_area *a = g->waits[i];
        uint64_t place;

        if (has_signed(a, instance))
            continue;
        /* relaxed: where it arrived two instances ago, stored by instance_meet(); a wrong guess costs a spin, or a turn
         */
        place = mu_load_relaxed(&a->sign[instance & 1].given);
        if (!place || place == here)
            return false;
    }
    return true;
}

/* Arrive at the next instance and wait for all. */
static inline enum muster_status instance_meet(struct muster_group *g, uint64_t instance, muster_deadline deadline,
                                               bool spans)
{
    struct mu_ctx *ctx;
    uint32_t spins = g->spins, left = g->num_waits - 1, i = g->place + 1; /* our own line is on its way to others */
    uint32_t patience = spans ? 0 : g->patience, turns = 1;

    if (patience) /* relaxed: a hint, for are_elsewhere(); on the line that the sign goes into */
        mu_store_relaxed(&g->mine->sign[instance & 1].given, mu_place());
    if (!member_arrive(g->mine, instance))
        return instance_settle(g, instance, 0, deadline);
    if (spans) {
        mu_span_arrived(g, instance);
        spins = mu_wait_is_crowded() ? 0 : spins;
        if (g->end.is_live)
            mu_shortcut_turn(g, instance);
    }
    while (left) {
        i = i < g->num_waits ? i : 0;
        if (has_signed(g->waits[i], instance)) {
            left--;
            i++;
        } else if (spins && spans) {
            spins -= spins < g->turn ? spins : g->turn;
            if (g->end.is_live && mu_shortcut_turn(g, instance))
                continue;
            if (!g->end.is_live || turns++ % TURNS == 0)
                spins = mu_wait_yield() ? spins : 0; /* the agents want a processor, too */
        } else if (spins) {
            spins--;
            mu_pause();
        } else if (patience) {
            spins = are_elsewhere(g, instance) ? patience : 0;
            patience = 0;
        } else {
            enum muster_status status = wait_slowly(g, instance, deadline);

            if (status)
                return status;
            break;
        }
    }
    /* relaxed, process-local: one thread at a time is in a call on a group; muster_group_missing() only looks */
    atomic_store_explicit(&g->instance, instance, memory_order_relaxed);
    if (spans && g->end.is_live)
        mu_shortcut_passed(g, instance);
    ctx = mu_handle_peek(g->muster);
    if (ctx)
        mu_count(&ctx->own->group_barriers, 1);
    return MUSTER_OK;
}

static inline enum muster_status instance_barrier(struct muster_group *g, uint64_t instance, muster_deadline deadline)
{
    enum muster_status status;

    if (__builtin_expect(g->is_plain, 1))
        return instance_meet(g, instance, deadline, false);
    if (g->traced)
        mu_group_note(g, MU_TRACE_GROUP_ENTER, instance, MUSTER_OK);
    status = instance_meet(g, instance, deadline, g->spans);
    if (g->traced)
        mu_group_note(g, MU_TRACE_GROUP_LEAVE, instance, status);
    return status;
}

/* The epoch that it is of is over, or members have left it: we do not arrive, so the instance fails. */
static enum muster_status instance_refuse(struct muster_group *g, uint64_t instance)
{
    enum muster_status status = instance_settle(g, instance, 0, 0);

    mu_exit_read();
    return status;
}

/* Every collective: checks, and the instance's number. No slot is needed until the member sleeps. */
static inline enum muster_status instance_begin(struct muster_group *g, size_t len, uint64_t *ret_instance)
{
    enum muster_status status;

    if (!g)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the group is NULL");
    if (len > g->data_bytes)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu bytes a member; group %s was made for %u", len, g->name,
                       g->data_bytes);
    status = mu_enter_handle(g->muster);
    if (status)
        return status;
    if (g->failed) {
        mu_exit_read();
        return mu_fail(MUSTER_FAILED_PRECONDITION, "group %s has failed before: make a new one", g->name);
    }
    *ret_instance = atomic_load_explicit(&g->instance, memory_order_relaxed) + 1; /* process-local */
    status = mu_enter_segment(g->muster);
    if (!status && g->members_epoch && mu_group_is_past(g))
        return instance_refuse(g, *ret_instance);
    return status;
}

enum muster_status muster_group_barrier(struct muster_group *group, muster_deadline deadline)
{
    uint64_t instance = 0;
    enum muster_status status = instance_begin(group, 0, &instance);

    if (status)
        return status;
    status = instance_barrier(group, instance, deadline);
    mu_exit_read();
    return status;
}

static mu_a64 *buffer_of(const struct muster_group *g, uint32_t rank, uint64_t instance)
{
    return g->areas[rank]->data + (instance & 1) * ((g->data_bytes + 7) / 8);
}

/* relaxed copies on both sides: the arrival CAS releases, the load of the arrival word acquires */
static void bytes_give(mu_a64 *to, const void *from, size_t len)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t v = 0;

        memcpy(&v, (const char *)from + i, len - i < 8 ? len - i : 8);
        mu_store_relaxed(&to[i / 8], v); /* relaxed: see above */
    }
}

/* What the member of this rank gives to the instance. */
static void value_offer(struct muster_group *g, uint64_t instance, const void *from, size_t len)
{
    bytes_give(buffer_of(g, g->rank, instance), from, len);
    if (g->spans) /* relaxed: as in bytes_give(); pairs with the agent's look, which sends so many bytes to the other
                     hosts */
        mu_store_relaxed(&g->mine->sign[instance & 1].given, MU_GIVEN(instance, len));
}

static void bytes_fetch(void *to, const mu_a64 *from, size_t len)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t v = mu_load_relaxed(&from[i / 8]); /* relaxed: see bytes_give() */

        memcpy((char *)to + i, &v, len - i < 8 ? len - i : 8);
    }
}

enum muster_status muster_group_broadcast(struct muster_group *group, uint32_t root, void *data, size_t len,
                                          muster_deadline deadline)
{
    uint64_t instance = 0;
    enum muster_status status;

    if (group && (root >= group->size || (!data && len)))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "broadcast from member %u of %u, data %p", root, group->size, data);
    status = instance_begin(group, len, &instance);
    if (status)
        return status;
    if (group->rank == root)
        value_offer(group, instance, data, len);
    status = instance_barrier(group, instance, deadline);
    if (!status && group->rank != root)
        bytes_fetch(data, buffer_of(group, root, instance), len);
    mu_exit_read();
    return status;
}

enum muster_status muster_group_allgather(struct muster_group *group, const void *mine, size_t len, void *ret_all,
                                          muster_deadline deadline)
{
    uint64_t instance = 0;
    enum muster_status status;

    if (group && len && (!mine || !ret_all))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "allgather without data");
    status = instance_begin(group, len, &instance);
    if (status)
        return status;
    value_offer(group, instance, mine, len);
    status = instance_barrier(group, instance, deadline);
    for (uint32_t i = 0; !status && i < group->size; i++)
        bytes_fetch((char *)ret_all + i * len, buffer_of(group, i, instance), len);
    mu_exit_read();
    return status;
}

#define REDUCE(op, a, b)                                                                                               \
    ((op) == MUSTER_OP_SUM    ? (a) + (b)                                                                              \
     : (op) == MUSTER_OP_PROD ? (a) * (b)                                                                              \
     : (op) == MUSTER_OP_MIN  ? ((b) < (a) ? (b) : (a))                                                                \
                              : ((b) > (a) ? (b) : (a)))

/* One scalar, as the bits that travel. Integer sums wrap: they are made unsigned. */
static uint64_t scalars_combine(uint64_t a, uint64_t b, enum muster_type type, enum muster_op op)
{
    if (op == MUSTER_OP_BAND)
        return a & b;
    if (op == MUSTER_OP_BOR)
        return a | b;
    if (type == MUSTER_TYPE_DOUBLE) {
        double x, y;

        memcpy(&x, &a, 8);
        memcpy(&y, &b, 8);
        x = REDUCE(op, x, y);
        memcpy(&a, &x, 8);
        return a;
    }
    if (type == MUSTER_TYPE_INT64 && (op == MUSTER_OP_MIN || op == MUSTER_OP_MAX)) {
        int64_t x = (int64_t)a, y = (int64_t)b;

        return (uint64_t)REDUCE(op, x, y);
    }
    return REDUCE(op, a, b);
}

enum muster_status muster_group_allreduce(struct muster_group *group, void *values, size_t count, enum muster_type type,
                                          enum muster_op op, muster_deadline deadline)
{
    uint64_t instance = 0;
    enum muster_status status;

    if ((unsigned)type > MUSTER_TYPE_DOUBLE || (unsigned)op > MUSTER_OP_PROD ||
        (type == MUSTER_TYPE_DOUBLE && (op == MUSTER_OP_BAND || op == MUSTER_OP_BOR)))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "operation %d is not defined for type %d", (int)op, (int)type);
    if (count > MUSTER_GROUP_DATA_MAX / 8 || (count && !values))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu scalars; %u is the most", count, MUSTER_GROUP_DATA_MAX / 8);
    status = instance_begin(group, count * 8, &instance);
    if (status)
        return status;
    value_offer(group, instance, values, count * 8);
    status = instance_barrier(group, instance, deadline);
    for (size_t k = 0; !status && k < count; k++) {
        /* relaxed: see bytes_give() */
        uint64_t v = mu_load_relaxed(&buffer_of(group, 0, instance)[k]);

        for (uint32_t i = 1; i < group->size; i++)
            v = scalars_combine(v, mu_load_relaxed(&buffer_of(group, i, instance)[k]), type,
                                op); /* relaxed: likewise */
        memcpy((char *)values + k * 8, &v, 8);
    }
    mu_exit_read();
    return status;
}
