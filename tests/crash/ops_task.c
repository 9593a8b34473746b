/*
 * tests/crash/ops_task.c: operations of tasks and slots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops_kv.h"
#include "segment/slot.h"
#include "task/client.h"
#include "task/task.h"

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

/* Task 3 is served from outside, as by a front-end: connected, without a slot. */
void task_setup_served(const struct op *op)
{
    struct mu_registration r = {.task = 3, .incarnation = 3003, .pid = 1};

    (void)op;
    if (mu_task_register(world.ctx[PEER], &r))
        crash_bad("setup: %s", muster_last_error());
}

static const int32_t trio[] = {0, 1, 2};

/* The two others have asked who is alive; the third answers all. */
void task_setup_alive(const struct op *op)
{
    int32_t ids[3];
    size_t n;

    (void)op;
    muster_task_alive(world.m[PEER], trio, 3, 0, ids, NULL, &n);
    muster_task_alive(world.m[THIRD], trio, 3, 0, ids, NULL, &n);
}

/* A real one, by another process, with a mapping of its own. */
void task_join(const struct op *op)
{
    struct muster_options o;
    struct muster *m = NULL;
    char name[32];

    (void)op;
    snprintf(name, sizeof name, "fd:%d", world.join_fd);
    setenv("MUSTER_SEGMENT", name, 1);
    muster_options_init(&o);
    o.task_id = 3;
    o.incarnation = 3003;
    o.flags = MUSTER_JOIN_NO_HEARTBEAT;
    note(muster_join(&o, &m));
}

void task_register(const struct op *op)
{
    struct mu_registration r = {.task = 3, .incarnation = 3003, .pid = (uint32_t)getpid()};

    (void)op;
    r.pid = 77;
    r.slot = world.ctx[VICTIM]->slot + 1;
    r.slot_incarnation = world.ctx[VICTIM]->incarnation;
    note(mu_task_register(world.ctx[VICTIM], &r));
}

/* The launcher's word for one that has never joined. */
void task_ended(const struct op *op)
{
    (void)op;
    note(mu_task_process_ended(world.m[VICTIM], 3, 77, 9 << 8, true));
}

void task_leave(const struct op *op)
{
    (void)op;
    note(muster_leave(world.m[VICTIM]));
}

void task_report(const struct op *op)
{
    (void)op;
    note(muster_error_report(world.m[VICTIM], 0, MUSTER_INTERNAL, "it went wrong"));
}

void task_report_other(const struct op *op)
{
    (void)op;
    note(muster_error_report(world.m[VICTIM], 3, MUSTER_INTERNAL, "it went wrong"));
}

void task_reset(const struct op *op)
{
    (void)op;
    note(muster_task_reset(world.m[VICTIM], 3));
}

void task_beat_known(const struct op *op)
{
    (void)op;
    note(muster_task_heartbeat(world.m[VICTIM], 3, 3003));
}

void task_beat_stale(const struct op *op)
{
    (void)op;
    note(muster_task_heartbeat(world.m[VICTIM], 3, 1));
}

void task_heartbeat(const struct op *op)
{
    (void)op;
    note(muster_heartbeat(world.m[VICTIM]));
}

void task_alive(const struct op *op)
{
    int32_t ids[3];
    size_t n = 0;
    enum muster_status status = muster_task_alive(world.m[VICTIM], trio, 3, 0, ids, NULL, &n);

    (void)op;
    board->outcome[0] = (struct outcome){status, n, 0};
}

void task_death_wait(const struct op *op)
{
    (void)op;
    note(muster_death_wait(world.m[VICTIM], 0, NULL));
}

/* Task 3 is a guest of the victim's observer, which dies with it. */
static enum muster_status be_guest(int agent, uint64_t incarnation)
{
    return mu_client_register(world.ctx[agent], &(struct mu_client){.task = 3, .incarnation = incarnation});
}

void guest_setup(const struct op *op)
{
    (void)op;
    if (be_guest(SECOND, 3003))
        crash_bad("setup: %s", muster_last_error());
}

void guest_come(const struct op *op)
{
    (void)op;
    note(be_guest(SECOND, 3003));
}

void guest_come_anew(const struct op *op)
{
    (void)op;
    note(be_guest(SECOND, 3004));
}

void guest_go(const struct op *op)
{
    (void)op;
    note(mu_client_disconnect(world.ctx[SECOND], 3));
}

void guest_lose(const struct op *op)
{
    (void)op;
    note(mu_client_lost(world.ctx[SECOND], 3, 3003, "its connection was reset"));
}

/* Whatever became of it, its agent is dead, and whoever buried that one has said so. */
void guest_after(const struct op *op)
{
    struct muster_task_info info;

    (void)op;
    if (muster_task_get(world.m[PEER], 3, &info))
        crash_bad("the guest's record cannot be read: %s", muster_last_error());
    else if (info.state == MUSTER_TASK_CONNECTED)
        crash_bad("a guest is connected without an agent");
}

void slot_setup_agent_dead(const struct op *op)
{
    if (be_guest(SPARE, 3003))
        crash_bad("setup: %s", muster_last_error());
    slot_setup_spare_dead(op);
}

/* One more handle of the victim's process; its slot is claimed by its first call. */
static struct muster *extra;

void slot_setup(const struct op *op)
{
    (void)op;
    extra = mu_handle_new(&world.seg, MUSTER_JOIN_OBSERVER);
}

/* Every free slot has a mutex whose owner died. */
void slot_setup_dead_mutex(const struct op *op)
{
    slot_setup(op);
    for (uint32_t i = 0; i < world.seg.num_slots; i++)
        if (MU_SLOT_STATE(mu_load_acquire(&world.seg.slots[i].word)) == MU_SLOT_FREE) /* acquire: nobody runs */
            mu_store32_release(mu_slot_liveness(&world.seg, i), 0x40000000u);         /* release: as the kernel */
}

void slot_claim(const struct op *op)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(extra, &ctx);

    (void)op;
    if (!status)
        mu_exit(ctx);
    note(status);
}

void slot_claim_release(const struct op *op)
{
    slot_claim(op);
    muster_thread_detach(extra);
}

void slot_release(const struct op *op)
{
    (void)op;
    muster_thread_detach(world.m[SECOND]);
    note(MUSTER_OK);
}

void slot_setup_spare_dead(const struct op *op)
{
    (void)op;
    crash_die(0, 1u << SPARE);
}

void slot_scavenge(const struct op *op)
{
    size_t deaths = 0;
    enum muster_status status = muster_scavenge(world.m[VICTIM], &deaths);

    (void)op;
    note(status);
}
