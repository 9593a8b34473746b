/*
 * tests/sim/event.c: senders and readers on a ring of four events.
 *
 * Oracle: sequence numbers are dense and each is one event, the same for all; a sender's events are in its order; an
 * acknowledged one has the number that was returned; one whose sender was killed is there or not; who is overrun is
 * told how many it lost; a reader that waits is woken (the scheduler's own check).
 */
#include <string.h>

#include "sim.h"

enum { SENDERS = 3, READERS = 2, EVENTS = 6, ALL = SENDERS * EVENTS, RING = 4 };

struct payload {
    uint64_t sender, number;
    uint64_t pattern[4];
};

static struct payload seen[ALL + 1];       /* by sequence; sender + 1, or 0 */
static uint64_t base, acknowledged, begun; /* base: what the first event is called */
static uint32_t each;

static void note(uint64_t at, const struct payload *p)
{
    uint64_t sequence = at - base;

    SIM_CHECK(sequence < ALL && p->sender && p->sender <= SENDERS && p->number < each, "event %llu is nonsense",
              (unsigned long long)sequence);
    for (int i = 0; i < 4; i++)
        SIM_CHECK(p->pattern[i] == p->sender * 1000 + p->number * 10 + (uint64_t)i, "event %llu is torn",
                  (unsigned long long)sequence);
    SIM_CHECK(sequence < begun, "event %llu is one more than was ever sent", (unsigned long long)sequence);
    if (seen[sequence].sender)
        SIM_CHECK(!memcmp(&seen[sequence], p, sizeof *p), "two events have number %llu", (unsigned long long)sequence);
    for (uint64_t i = 0; i < ALL; i++)
        if (seen[i].sender == p->sender && i != sequence)
            SIM_CHECK((seen[i].number < p->number) == (i < sequence) && seen[i].number != p->number,
                      "events %llu and %llu of one sender are out of order", (unsigned long long)i,
                      (unsigned long long)sequence);
    seen[sequence] = *p;
}

static void sender(struct sim_task *t)
{
    sim_handle(t, -1);
    for (uint32_t i = 0; i < each; i++) {
        struct payload p = {(uint64_t)t->id + 1, i, {0}};
        uint64_t sequence = 0, floor = acknowledged;
        enum muster_status status;

        for (int k = 0; k < 4; k++)
            p.pattern[k] = p.sender * 1000 + p.number * 10 + (uint64_t)k;
        begun++;
        sim_begin("send %u", i);
        status = muster_event_send(&t->handle, 7, &p, sizeof p, &sequence);
        sim_end(status);
        SIM_CHECK(!status, "send: %s", muster_last_error());
        SIM_CHECK(sequence - base >= floor, "number %llu after %llu were acknowledged", (unsigned long long)sequence,
                  (unsigned long long)floor);
        acknowledged++;
        note(sequence, &p);
    }
}

static void reader(struct sim_task *t)
{
    uint64_t position = base;

    sim_handle(t, -1);
    for (;;) {
        struct muster_event e;
        struct payload p;
        uint64_t lost = 0, before = position;
        muster_deadline deadline = sim_clock() + 1000000 * (1 + sim_random(20));
        enum muster_status status;

        sim_begin("read %llu", (unsigned long long)position);
        status = muster_event_read(&t->handle, &position, deadline, &e, &p, sizeof p, &lost);
        sim_end(status);
        if (status == MUSTER_DEADLINE_EXCEEDED) {
            SIM_CHECK(sim_clock() >= deadline && position == before, "the deadline has not passed");
            break;
        }
        if (status == MUSTER_OUT_OF_RANGE) {
            SIM_CHECK(lost && position == before + lost && position - base < begun,
                      "overrun at %llu: %llu lost, now %llu", (unsigned long long)before, (unsigned long long)lost,
                      (unsigned long long)position);
            continue;
        }
        SIM_CHECK(!status, "read: %s", muster_last_error());
        SIM_CHECK(position == before + 1 && e.sequence == before && e.len == sizeof p && e.type == 7,
                  "event %llu has number %llu", (unsigned long long)before, (unsigned long long)e.sequence);
        note(e.sequence, &p);
    }
}

static void start(void)
{
    memset(seen, 0, sizeof seen);
    acknowledged = begun = 0;
    base = sim_segment.header->event_tail;
    each = 1 + (uint32_t)sim_random(EVENTS);
    for (int i = 0; i < SENDERS; i++)
        sim_add(sender, i, NULL);
    for (int i = 0; i < READERS; i++)
        sim_add(reader, i, NULL);
}

static void finish(void)
{
    struct sim_task self;
    uint64_t next = 0, position;

    sim_handle(&self, -1);
    SIM_CHECK(!muster_event_next(&self.handle, &next), "next: %s", muster_last_error());
    SIM_CHECK(next - base >= acknowledged && next - base <= begun, "%llu events, %llu acknowledged, %llu begun",
              (unsigned long long)(next - base), (unsigned long long)acknowledged, (unsigned long long)begun);
    for (position = next - base > RING ? next - RING : base; position < next;) {
        struct muster_event e;
        struct payload p;

        SIM_CHECK(!muster_event_read(&self.handle, &position, 1, &e, &p, sizeof p, NULL), "%s", muster_last_error());
        note(e.sequence, &p);
    }
    mu_handle_detach_thread(&self.handle);
}

const struct sim_workload sim_event = {
    .name = "event", .config = {.num_events = RING}, .start = start, .finish = finish};
