/*
 * segment/hosts.c: which host has which task, the bell, and what the agent says of its connection.
 *
 * All of it is words of the header and of the hosts' table that one agent writes; a job of one host has none of it.
 */
#include "segment/hosts.h"

#include <stdio.h>
#include <string.h>

#include "segment/slot.h"
#include "sync/futex.h"

uint32_t mu_host_of(const struct muster_segment *seg, uint32_t task)
{
    uint32_t low = 0, high = seg->num_hosts;

    /* the last host with a run that begins at or before the task; of equal ones, all but the last are empty */
    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;

        if (seg->hosts[mid].first_task <= task)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Names are read for every host whenever all hosts tell one another of all: no printf. */
static void copy_name(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, 63);

    len = len < size ? len : size - 1;
    memcpy(to, from, len);
    to[len] = 0;
}

void mu_host_name(const struct muster_segment *seg, uint32_t host, char *name, size_t size)
{
    uint64_t words[8];

    if (!mu_is_bridged(seg) || host >= seg->num_hosts) {
        copy_name(name, size, seg->header->host);
        return;
    }
    mu_copy_out(words, seg->hosts[host].name, 8); /* set once as a rule; of two names at worst a mixture is shown */
    if (*(char *)words)
        copy_name(name, size, (char *)words);
    else
        snprintf(name, size, "host %u", host);
}

void mu_host_set_name(struct muster_segment *seg, uint32_t host, const char *name)
{
    uint64_t words[8] = {0};

    copy_name((char *)words, sizeof words, name);
    mu_copy_in(seg->hosts[host].name, words, 8);
}

void mu_bell_ring_always(struct muster_segment *seg)
{
    mu_a32 *bell = &seg->header->bell;

    mu_fence_seq_cst(); /* pairs with the fence of mu_bell_arm(): the change before it, or the bell behind it, is seen
                         */
    /* relaxed: the CAS decides; where it fails, another has rung, or the agent is awake and looks */
    if (mu_load32_relaxed(bell) == MU_BELL_ARMED && mu_cas32(bell, MU_BELL_ARMED, MU_BELL_RUNG))
        mu_futex_wake32(bell);
}

void mu_bell_arm(struct muster_segment *seg)
{
    mu_store32_release(&seg->header->bell, MU_BELL_ARMED); /* release: the fence orders it; pairs with the ringer's */
    mu_fence_seq_cst();
}

bool mu_bell_disarm(struct muster_segment *seg)
{
    mu_a32 *bell = &seg->header->bell;

    if (mu_cas32(bell, MU_BELL_ARMED, MU_BELL_OFF)) /* pairs with the ringer's CAS */
        return false;
    mu_store32_release(bell, MU_BELL_OFF); /* release: only the agent moves it from RUNG */
    return true;
}

bool mu_bell_arm_again(struct muster_segment *seg)
{
    mu_a32 *bell = &seg->header->bell;
    bool was = true;

    for (;;) {
        uint32_t seen = mu_load32_relaxed(bell); /* relaxed: the CAS decides; or the fence, as in mu_bell_arm() */

        if (seen == MU_BELL_ARMED || mu_cas32(bell, seen, MU_BELL_ARMED)) {
            mu_fence_seq_cst(); /* pairs with the ringer's */
            return was && seen == MU_BELL_ARMED;
        }
        was = false;
    }
}

void mu_bell_arm_if_off(struct muster_segment *seg)
{
    /* acq_rel: pairs with the ringer's CAS, and with the one that turned it off */
    mu_cas32(&seg->header->bell, MU_BELL_OFF, MU_BELL_ARMED);
    mu_fence_seq_cst(); /* pairs with the ringer's */
}

bool mu_bell_is_armed(struct muster_segment *seg)
{
    mu_a32 *bell = &seg->header->bell;
    uint32_t seen = mu_load32_acquire(bell); /* acquire: pairs with the ringer's CAS */

    if (seen == MU_BELL_RUNG)
        mu_cas32(bell, MU_BELL_RUNG,
                 MU_BELL_OFF); /* another of the agent's threads may have; pairs with the ringer's */
    return seen == MU_BELL_ARMED;
}

bool mu_bell_wait(struct muster_segment *seg, muster_deadline deadline)
{
    mu_a32 *bell = &seg->header->bell;
    uint32_t armed = MU_BELL_ARMED;

    mu_futex_wait_any(&bell, &armed, 1, deadline);
    return mu_bell_disarm(seg);
}

void mu_bell_wake(struct muster_segment *seg)
{
    mu_a32 *bell = &seg->header->bell;

    if (mu_load32_relaxed(bell) != MU_BELL_ARMED) /* relaxed: only a reason to wake; the woken one takes it back */
        mu_futex_wake32(bell);
}

void mu_asks_set(struct muster_segment *seg, uint32_t slot)
{
    mu_a64 *word = &seg->asks[slot / 64];
    uint64_t bit = 1ull << (slot % 64), seen = mu_load_relaxed(word); /* relaxed: the CAS decides */

    /* a CAS also where the bit is set: pairs with the agent's in mu_asks_take(), which then sees the call behind it */
    while (!mu_cas_seen(word, &seen, seen | bit))
        ;
    mu_bell_ring_always(seg);
}

uint64_t mu_asks_take(struct muster_segment *seg, uint32_t i)
{
    uint64_t bits = mu_load_relaxed(&seg->asks[i]); /* relaxed: the CAS decides; a bit that comes now rings the bell */

    while (bits && !mu_cas_seen(&seg->asks[i], &bits, 0)) /* pairs with mu_asks_set(): the call comes with its bit */
        ;
    return bits;
}

void mu_host_bridge_say(struct mu_ctx *ctx, enum mu_bridge_state state)
{
    uint64_t round = mu_host_bridge_round(ctx->seg) + 1;

    /* release: pairs with the acquires below; what the state stands for comes first */
    mu_store_release(&ctx->seg->header->bridge, round << 32 | MU_BRIDGE(ctx->incarnation, ctx->slot, state));
    mu_epoch_move(ctx->seg);
}

uint32_t mu_host_bridge_round(const struct muster_segment *seg)
{
    return MU_BRIDGE_ROUND(mu_load_acquire(&seg->header->bridge)); /* acquire: pairs with mu_host_bridge_say() */
}

enum mu_bridge_state mu_host_bridge_state(const struct muster_segment *seg)
{
    uint64_t w = mu_load_acquire(&seg->header->bridge); /* acquire: pairs with mu_host_bridge_say() */

    return MU_BRIDGE_STATE(w) <= MU_BRIDGE_LOST ? (enum mu_bridge_state)MU_BRIDGE_STATE(w) : MU_BRIDGE_DOWN;
}

bool mu_host_bridge_agent_lives(const struct muster_segment *seg)
{
    uint64_t w = mu_load_acquire(&seg->header->bridge); /* acquire: as above */
    uint32_t i = MU_BRIDGE_SLOT(w);
    uint64_t s;

    if (!w || i >= seg->num_slots)
        return false;
    s = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */
    return MU_SLOT_STATE(s) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(s) == MU_BRIDGE_INCARNATION(w) &&
           !mu_slot_is_dead(seg, i, s);
}
