/*
 * tests/torture/meet.c: events, named barriers, groups and questions about tasks under torture.
 *
 * Groups: whenever the director calls, everybody tries to build the group and runs it until it fails or enough rounds
 * are done. What each saw of a group goes to the board: an instance that failed for one failed for all, with the
 * same status, and none after it passed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "barrier/group.h"
#include "torture.h"

struct message {
    uint64_t worker, number;
    uint8_t filling[240];
};

static uint64_t position, last_number[WORKERS];

static void do_send(void)
{
    struct message e = {.worker = (uint64_t)self, .number = atomic_fetch_add(&board->workers[self].next_event, 1)};
    size_t len = 16 + draw(sizeof e.filling);

    memset(e.filling, (int)(e.number & 0xff), sizeof e.filling);
    expect(muster_event_send(m, (uint32_t)len, &e, len, NULL), 0, "event_send");
}

static void do_receive(void)
{
    for (int i = 0; i < 20; i++) {
        struct muster_event event;
        struct message e;
        uint64_t before = position, lost = 0;
        enum muster_status s = muster_event_read(m, &position, i || draw(50) ? 1 : muster_after_ns(draw(2000000)),
                                                 &event, &e, sizeof e, &lost);

        expect(s, OR(DEADLINE_EXCEEDED) | OR(OUT_OF_RANGE), "event_read");
        if (s == MUSTER_OUT_OF_RANGE && (!lost || position != before + lost))
            violation("events: %" PRIu64 " lost, but from %" PRIu64 " to %" PRIu64, lost, before, position);
        if (s == MUSTER_DEADLINE_EXCEEDED)
            break;
        if (s)
            continue;
        if (event.sequence != before || position != before + 1)
            violation("event %" PRIu64 " was read as %" PRIu64, before, event.sequence);
        if (event.len != event.type || e.worker >= WORKERS || event.task_id != (int32_t)e.worker)
            violation("event %" PRIu64 " is not as it was sent", before);
        for (size_t k = 0; k < event.len - 16; k++)
            if (e.filling[k] != (uint8_t)(e.number & 0xff))
                violation("event %" PRIu64 " is torn", before);
        if (last_number[e.worker] && e.number < last_number[e.worker])
            violation("events of worker %" PRIu64 " are out of order or doubled", e.worker);
        last_number[e.worker] = e.number + 1;
    }
}

void load_events(enum load load)
{
    if (load == LOAD_SEND)
        do_send();
    else
        do_receive();
}

/* The same id for all in a call: deadlines and deaths end some instances, others pass. */
static void do_barrier(void)
{
    char id[16];
    uint64_t patience = 1000000 + draw(30000000);
    enum muster_status s;

    snprintf(id, sizeof id, "b%u", (unsigned)(atomic_load(&board->barrier_call) % 4));
    if (draw(30) == 0) {
        expect(muster_barrier_cancel(m, id, MUSTER_BARRIER_NEXT), OR(FAILED_PRECONDITION), "barrier_cancel");
        return;
    }
    s = muster_barrier_wait(m, id, MUSTER_BARRIER_NEXT, NULL, 0, 1000000 + draw(20000000), muster_after_ns(patience));
    expect(s, OR(DEADLINE_EXCEEDED) | OR(INTERNAL) | OR(CANCELLED) | OR(ABORTED), "barrier_wait");
}

/* What tells this group from every other: the block of the first member's area, at its generation. */
static uint64_t identity(const struct muster_group *g)
{
    const struct mu_block *b = (const struct mu_block *)((const char *)g->areas[0] - MU_BLOCK_HEADER);
    uint64_t offset = mu_offset_of(muster_segment_of(m), b);

    return (uint64_t)MU_BLOCK_GENERATION(mu_load_relaxed(&b->word)) << 32 | offset / MU_GRANULE;
}

static void note(uint64_t mine, uint64_t instance, enum muster_status s)
{
    struct outcome *o = &board->outcomes[mine * 0x9e3779b97f4a7c15u >> 52];
    uint64_t was = 0, now;

    if (!atomic_compare_exchange_strong(&o->group, &was, mine) && was != mine)
        return; /* two groups, one place */
    if (s == MUSTER_OK) {
        was = atomic_load(&o->passed);
        while (was < instance && !atomic_compare_exchange_strong(&o->passed, &was, instance))
            ;
    } else {
        was = 0;
        now = instance << 8 | (uint64_t)s;
        if (!atomic_compare_exchange_strong(&o->failed, &was, now) && was != now)
            violation("group %" PRIx64 ": instance %" PRIu64 " failed with %s for one, %" PRIu64 " with %s for another",
                      mine, was >> 8, muster_status_name((enum muster_status)(was & 255)), instance,
                      muster_status_name(s));
    }
    was = atomic_load(&o->failed);
    if (was && atomic_load(&o->passed) >= was >> 8)
        violation("group %" PRIx64 ": instance %" PRIu64 " failed for one, %" PRIu64 " passed for another", mine,
                  was >> 8, atomic_load(&o->passed));
}

static void do_group(void)
{
    struct muster_group *g;
    uint64_t rounds = 1 + draw(8000), mine;
    enum muster_status s = muster_group_create(m, "g", NULL, 0, 64, muster_after_ns(300000000), &g);

    expect(s, OR(DEADLINE_EXCEEDED) | OR(UNAVAILABLE), "group_create");
    if (s)
        return;
    mine = identity(g);
    for (uint64_t n = 1; n <= rounds && !s; n++) {
        int64_t v[4];

        for (int k = 0; k < 4; k++)
            v[k] = (int64_t)(n * 1000) + self + k;
        s = muster_group_allreduce(g, v, 4, MUSTER_TYPE_INT64, MUSTER_OP_SUM,
                                   muster_after_ns(5000000 + draw(50000000)));
        expect(s, OR(DEADLINE_EXCEEDED) | OR(UNAVAILABLE), "allreduce");
        note(mine, n, s);
        for (int k = 0; !s && k < 4; k++)
            if (v[k] != WORKERS * (int64_t)(n * 1000) + WORKERS * (WORKERS - 1) / 2 + WORKERS * k)
                violation("an allreduce of the group gave %" PRId64, v[k]);
    }
    muster_group_free(g);
}

static void do_alive(void)
{
    int32_t pair[2] = {self, (int32_t)draw(WORKERS)}, ids[2];
    uint64_t incarnations[2];
    size_t count = 0;
    enum muster_status s = muster_task_alive(m, pair, 2, muster_after_ns(draw(2000000)), ids, incarnations, &count);

    expect(s, OR(DEADLINE_EXCEEDED), "task_alive");
    if (!s && (count > 2 || (count == 2 && ids[0] >= ids[1])))
        violation("alive: %zu tasks, %d and %d", count, ids[0], ids[1]);
}

static void do_tasks(void)
{
    struct muster_task_info infos[WORKERS];
    uint64_t version = 0, next;
    size_t count;
    enum muster_status s;

    expect(muster_task_list(m, infos, WORKERS, &count, &version), 0, "task_list");
    if (count != WORKERS || infos[self].pid == 0)
        violation("the list of tasks is not of this job");
    s = muster_task_watch(m, version, muster_after_ns(draw(1000000)), infos, WORKERS, &count, &next);
    expect(s, OR(DEADLINE_EXCEEDED), "task_watch");
    if (!s && next <= version)
        violation("the version of the tasks went back");
    if (draw(4) == 0)
        expect(muster_scavenge(m, NULL), 0, "scavenge");
}

void load_meet(enum load load)
{
    switch (load) {
    case LOAD_BARRIER: do_barrier(); break;
    case LOAD_GROUP: do_group(); break;
    case LOAD_ALIVE: do_alive(); break;
    default: do_tasks(); break;
    }
}
