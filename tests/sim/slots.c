/*
 * tests/sim/slots.c: more processes than slots: claiming, releasing, dying, scavenging; the dead may hold every slot.
 *
 * Oracle: no slot is held by two; a claim fails only when as many as there are may be held; at the end all are free
 * but the scavengers'.
 */
#include <string.h>

#include "segment/slot.h"
#include "sim.h"

enum { SLOTS = 3, CLIENTS = 5, HELD = 16 };

static struct {
    struct sim_task *holder;
    uint16_t incarnation;
} held[HELD];

static void client(struct sim_task *t)
{
    for (int i = 0; i < 3; i++) {
        struct mu_ctx *ctx;
        enum muster_status status;

        sim_handle(t, -1);
        sim_begin("claim");
        status = mu_enter(&t->handle, &ctx);
        sim_end(status);
        if (status) {
            SIM_CHECK(status == MUSTER_RESOURCE_EXHAUSTED, "claim: %s", muster_last_error());
            continue;
        }
        if (held[ctx->slot].holder && held[ctx->slot].holder->state != SIM_KILLED)
            sim_fail("slot %u is held by tasks %u and %u", ctx->slot, t->number, held[ctx->slot].holder->number);
        held[ctx->slot].holder = t;
        held[ctx->slot].incarnation = ctx->incarnation;
        SIM_CHECK(ctx->own == &sim_segment.slots[ctx->slot], "slot %u lies elsewhere", ctx->slot);
        mu_exit(ctx);
        if (sim_chance(2)) {
            sim_begin("set");
            status = muster_kv_set(&t->handle, "k", 1, &i, sizeof i, NULL);
            sim_end(status);
            SIM_CHECK(!status, "set: %s", muster_last_error());
        }
        if (sim_chance(3)) {
            size_t n;

            sim_begin("scavenge");
            sim_end(muster_scavenge(&t->handle, &n));
        }
        sim_begin("release");
        held[ctx->slot].holder = NULL;
        mu_handle_detach_thread(&t->handle);
        sim_end(MUSTER_OK);
    }
}

static void start(void)
{
    memset(held, 0, sizeof held);
    sim_fate.kills = 6;
    sim_fate.scavengers = 1 + (uint32_t)sim_random(2);
    for (int i = 0; i < CLIENTS; i++)
        sim_add(client, i, NULL);
}

static void finish(void)
{
    uint32_t live = 0, idle = 0;

    for (uint32_t i = 0; i < sim_segment.num_slots; i++)
        live += MU_SLOT_STATE(sim_segment.slots[i].word) != MU_SLOT_FREE;
    for (uint32_t i = 0; sim_task(i); i++)
        idle += sim_task(i)->state == SIM_IDLE;
    SIM_CHECK(live <= idle, "%u slots are held, and only %u scavengers are left", live, idle);
}

const struct sim_workload sim_slots = {
    .name = "slots", .config = {.num_slots = SLOTS}, .start = start, .finish = finish};
