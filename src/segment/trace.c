/*
 * segment/trace.c: the trace rings.
 *
 * Invariant: a ring is written by its slot's owner alone. Event n is there, whole, when head > n and head < n + the
 * ring's size; the place of event `head`, the next, is never believed. So the writer needs neither CAS nor commit: four
 * plain stores, then head. Linearization: the store of head.
 *
 * A reader copies, then looks at head again: what has been overwritten meanwhile is dropped and counted as lost. The
 * fences: the writer's, between head = n and the words of event n, pairs with the one in the reader's second look, so
 * a reader that has copied a word of event n sees head >= n, and drops event n - size.
 *
 * A SIGKILL in the middle of an event leaves head as it was: that event is lost, and no other, for its place held the
 * one that nobody believes. The slot's next owner goes on at head. Names lie in a ring of their own, numbered; the
 * number is 0 while the text is written and is compared after the text was copied, so an event with an overwritten name
 * has none, never another's. Killed before `names` counts it: the next owner uses the number again, which
 * no event can hold, for events are written after their names.
 *
 * Pages are committed when a slot is first claimed, and the slot says so (`ring`): a reader touches no others.
 */
#include "segment/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/process.h"

#define CALIBRATION_NS 2000000u
#define RATES_DIFFER   200u /* one part in so many */

/* ---- the clock ---- */

static uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* It counts at one rate, in every state of the processor, and the kernel has found no two processors that differ. */
static bool has_steady_counter(void)
{
#if defined(__x86_64__) && !defined(MU_SIM)
    unsigned a, b, c, d;
    char known[256] = "";
    FILE *f;

    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    f = fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
    if (!f)
        return false;
    if (!fgets(known, sizeof known, f))
        known[0] = 0;
    fclose(f);
    return strstr(known, "tsc") != NULL;
#else
    return false;
#endif
}

/* The counter and the clock, of one instant: the closest of a few looks. */
static void look_at_both(uint64_t *ret_ticks, uint64_t *ret_ns)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = clock_ticks(), ns = mu_now(), after = clock_ticks();

        if (after - before < best) {
            best = after - before;
            *ret_ticks = before + (after - before) / 2;
            *ret_ns = ns;
        }
    }
}

static uint64_t rate_of(uint64_t num_ticks, uint64_t ns)
{
    return num_ticks ? (uint64_t)(((unsigned __int128)ns << 32) / num_ticks) : 0;
}

void mu_trace_plan(struct mu_header *header, uint32_t events)
{
    uint64_t later_ticks = 0, later_ns = 0;

    header->trace_events = events < MU_TRACE_EVENTS_MIN ? MU_TRACE_EVENTS_MIN : events;
    header->trace_names = header->trace_events / 8 < MU_TRACE_NAMES_MIN ? MU_TRACE_NAMES_MIN : header->trace_events / 8;
    header->trace_offset = header->total_bytes;
    header->total_bytes += (uint64_t)header->num_slots * mu_trace_ring_bytes(header->trace_events, header->trace_names);
    header->trace_tsc = has_steady_counter();
    if (!header->trace_tsc)
        return;
    look_at_both(&header->trace_ticks, &header->trace_ns);
    do
        look_at_both(&later_ticks, &later_ns);
    while (later_ns - header->trace_ns < CALIBRATION_NS);
    header->trace_rate = rate_of(later_ticks - header->trace_ticks, later_ns - header->trace_ns);
}

struct timing {
    uint64_t ticks, ns, rate;
    bool tsc;
};

/* The longer the job has run, the better a reader on the same machine knows its rate. */
static struct timing timing_of(const struct muster_segment *seg)
{
    const struct mu_header *h = seg->header;
    struct timing t = {h->trace_ticks, h->trace_ns, h->trace_rate, seg->trace_tsc};
    uint64_t now_ticks = 0, now_ns = 0, rate = 0;
    uint8_t boot[16];

    mu_boot_id(boot);
    if (!t.tsc || seg->foreign || memcmp(boot, h->boot_id, sizeof boot))
        return t;
    look_at_both(&now_ticks, &now_ns);
    if (now_ns > t.ns && now_ns - t.ns > CALIBRATION_NS && now_ticks > t.ticks)
        rate = rate_of(now_ticks - t.ticks, now_ns - t.ns);
    /* Another rate altogether: one of the two stood still meanwhile, for the machine slept. The first one holds, then.
     */
    if (rate > t.rate - t.rate / RATES_DIFFER && rate < t.rate + t.rate / RATES_DIFFER)
        t.rate = rate;
    return t;
}

static uint64_t ns_of(const struct timing *t, uint64_t time)
{
    if (!t->tsc)
        return time;
    return time < t->ticks ? t->ns : t->ns + (uint64_t)(((unsigned __int128)(time - t->ticks) * t->rate) >> 32);
}

/* ---- writing ---- */

static struct mu_ring *ring_of(const struct muster_segment *seg, uint32_t slot)
{
    return (struct mu_ring *)(seg->trace + slot * mu_trace_ring_bytes(seg->trace_events, seg->trace_names));
}

static struct mu_ring_name *names_of(struct mu_ring *ring)
{
    return (struct mu_ring_name *)(ring + 1);
}

static struct mu_ring_event *events_of(const struct muster_segment *seg, struct mu_ring *ring)
{
    return (struct mu_ring_event *)(names_of(ring) + seg->trace_names);
}

/* Have the pages of a ring that nobody has used, and touch them: until then they look like a hole to is_committed(). */
static bool ring_commit(const struct muster_segment *seg, uint32_t slot)
{
    uint8_t *ring = (uint8_t *)ring_of(seg, slot), *end;
    uint64_t bytes = mu_trace_ring_bytes(seg->trace_events, seg->trace_names);
    int rc = 0;

    if (seg->fd >= 0)
        do
            rc = fallocate(seg->fd, 0, (off_t)mu_offset_of(seg, ring), (off_t)bytes);
        while (rc && errno == EINTR);
    if (rc)
        return false;
    end = ring + bytes;
    for (uint8_t *at = ring; at < end; at = (uint8_t *)(((uintptr_t)at | 4095) + 1))
        mu_store_relaxed((mu_a64 *)at, 0); /* relaxed: nobody looks before the slot says that the ring is there */
    return true;
}

void mu_trace_open(struct mu_ctx *ctx)
{
    const struct muster_segment *seg = ctx->seg;
    struct mu_tracer *t = &ctx->trace;

    /* relaxed: the last owner's own, ordered by the mutex and the claim */
    if (!mu_load_relaxed(&ctx->own->ring)) {
        if (!ring_commit(seg, ctx->slot))
            return;
        mu_store_release(&ctx->own->ring, 1); /* release: pairs with the acquire of read_ring() */
    }
    t->ring = ring_of(seg, ctx->slot);
    t->texts = names_of(t->ring);
    t->events = events_of(seg, t->ring);
    t->event_mask = seg->trace_events - 1;
    t->name_mask = seg->trace_names - 1;
    t->head = mu_load_relaxed(&t->ring->head); /* relaxed, all three: likewise */
    t->names = mu_load_relaxed(&t->ring->names);
    t->task = (uint32_t)mu_load_relaxed(&ctx->own->task);
}

/* noinline: a name is written once, and looked for at each event */
static __attribute__((noinline)) uint32_t write_name(struct mu_tracer *t, const char *text, size_t len)
{
    struct mu_ring_name *place = &t->texts[t->names & t->name_mask];
    uint64_t number = (uint32_t)(t->names + 1), words[7] = {0};

    memcpy(words, text, len < sizeof words ? len : sizeof words);
    mu_store_relaxed(&place->number, 0); /* relaxed: the fence orders it before the text; pairs with find_name() */
    mu_fence_release();
    mu_copy_in(place->text, words, 7);
    mu_store_release(&place->number, number);      /* release: the text comes first; pairs with find_name() */
    mu_store_release(&t->ring->names, ++t->names); /* release: of the next owner; the name comes first */
    return (uint32_t)number;
}

uint32_t mu_trace_name(struct mu_ctx *ctx, uint64_t object, const char *text, size_t len)
{
    struct mu_tracer *t = &ctx->trace;
    uint32_t at = (uint32_t)(object >> 32) % MU_TRACE_CACHE;

    if (t->known[at].name && t->known[at].object == object && (uint32_t)t->names - t->known[at].name < t->name_mask)
        return t->known[at].name;
    t->known[at].object = object;
    t->known[at].name = write_name(t, text, len);
    return t->known[at].name;
}

void mu_trace_note(struct mu_ctx *ctx, uint64_t time, enum mu_trace_kind kind, enum muster_status status, uint32_t name,
                   uint64_t object, uint64_t value)
{
    struct mu_tracer *t = &ctx->trace;
    struct mu_ring_event *e = &t->events[t->head & t->event_mask];

    mu_fence_release(); /* head, stored last time, comes before the words below; pairs with the recheck in read_ring()
                         */
    mu_store_relaxed(&e->time, time); /* relaxed, all four: head publishes them */
    mu_store_relaxed(&e->what, MU_TRACE(kind, status, t->task, name));
    mu_store_relaxed(&e->object, object);
    mu_store_relaxed(&e->value, value);          /* relaxed: likewise */
    mu_store_release(&t->ring->head, ++t->head); /* release: pairs with the acquire of read_ring() */
}

/* ---- reading ---- */

struct trace_reading {
    const struct muster_segment *seg;
    struct timing timing;
    struct mu_traced *events;
    size_t count, capacity;
    uint64_t lost;
    bool broken; /* a slot says of pages that they are there, and they are not */
};

static void find_name(const struct muster_segment *seg, struct mu_ring *ring, uint32_t number, char text[57])
{
    const struct mu_ring_name *n = &names_of(ring)[(number - 1) & (seg->trace_names - 1)];
    uint64_t words[7];

    text[0] = 0;
    if (!number || mu_load_acquire(&n->number) != number) /* acquire: pairs with write_name() */
        return;
    mu_copy_out(words, n->text, 7);
    if (mu_recheck(&n->number) != number)
        return;
    memcpy(text, words, sizeof words);
    text[sizeof words] = 0;
}

/* False: nobody writes such events. */
static bool event_decode(const struct trace_reading *r, uint32_t slot, struct mu_ring *ring,
                         const struct mu_ring_event *place, struct mu_traced *e)
{
    /* relaxed, as all here: what counts is head, before and after */
    uint64_t what = mu_load_relaxed(&place->what);

    if (MU_TRACE_KIND(what) == MU_TRACE_NONE || MU_TRACE_KIND(what) >= MU_TRACE_KINDS ||
        MU_TRACE_TASK(what) > r->seg->num_tasks || MU_TRACE_STATUS(what) > MUSTER_DATA_LOSS)
        return false;
    e->time_ns = ns_of(&r->timing, mu_load_relaxed(&place->time));
    e->object = mu_load_relaxed(&place->object);
    e->value = mu_load_relaxed(&place->value);
    e->slot = slot;
    e->task = (int32_t)MU_TRACE_TASK(what) - 1;
    e->kind = (enum mu_trace_kind)MU_TRACE_KIND(what);
    e->status = (enum muster_status)MU_TRACE_STATUS(what);
    find_name(r->seg, ring, MU_TRACE_NAME(what), e->name);
    return true;
}

static bool reading_reserve(struct trace_reading *r, size_t more)
{
    struct mu_traced *events;

    if (r->capacity - r->count >= more)
        return true;
    events = realloc(r->events, (r->count + more) * sizeof *events);
    if (!events)
        return false;
    r->events = events;
    r->capacity = r->count + more;
    return true;
}

/* Its pages are there, whatever the slot says: a look at others would take memory, or find none. */
static bool is_committed(const struct muster_segment *seg, const struct mu_ring *ring)
{
    off_t from = (off_t)mu_offset_of(seg, ring);

    return seg->fd < 0 || /* no file: all of it is memory */
           lseek(seg->fd, from, SEEK_HOLE) >= from + (off_t)mu_trace_ring_bytes(seg->trace_events, seg->trace_names);
}

static bool read_ring(struct trace_reading *r, uint32_t slot)
{
    struct mu_ring *ring = ring_of(r->seg, slot);
    struct mu_ring_event *events = events_of(r->seg, ring);
    uint64_t size = r->seg->trace_events, head, first, now, believed;
    size_t kept = r->count, gone;

    if (mu_load_acquire(&r->seg->slots[slot].ring) != 1) /* acquire: pairs with mu_trace_open() */
        return true;
    if (!is_committed(r->seg, ring)) {
        r->broken = true;
        return true;
    }
    head = mu_load_acquire(&ring->head); /* acquire: pairs with mu_trace_note() */
    first = head < size ? 0 : head - size + 1;
    if (head == first)
        return true;
    if (!reading_reserve(r, (size_t)(head - first)))
        return false;
    for (uint64_t n = first; n < head; n++) {
        struct mu_traced *e = &r->events[r->count];

        e->number = n;
        r->count += event_decode(r, slot, ring, &events[n & (size - 1)], e);
    }
    now = mu_recheck(&ring->head);
    believed = now < size ? 0 : now - size + 1;
    for (gone = kept; gone < r->count && r->events[gone].number < believed; gone++)
        ; /* overwritten meanwhile */
    memmove(&r->events[kept], &r->events[gone], (r->count - gone) * sizeof *r->events);
    r->count -= gone - kept;
    if (__builtin_add_overflow(r->lost, head - (r->count - kept), &r->lost))
        r->lost = UINT64_MAX;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct mu_traced *x = a, *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns > y->time_ns ? 1 : -1;
    return x->slot != y->slot ? (x->slot > y->slot) - (x->slot < y->slot)
                              : (x->number > y->number) - (x->number < y->number);
}

enum muster_status mu_trace_read(const struct muster_segment *seg, struct mu_traced **ret_events, size_t *ret_count,
                                 uint64_t *ret_lost)
{
    struct trace_reading r = {.seg = seg};
    uint32_t high = mu_slot_high(seg);

    if (!seg->trace)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "job %s was started without a trace (muster run --trace)", seg->job);
    r.timing = timing_of(seg);
    for (uint32_t i = 0; i < high; i++)
        if (!read_ring(&r, i)) {
            free(r.events);
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the events of job %s", seg->job);
        }
    if (r.broken) {
        free(r.events);
        return mu_fail(MUSTER_DATA_LOSS, "the trace of job %s is damaged: a thread's ring is not where its slot says",
                       seg->job);
    }
    if (r.count)
        qsort(r.events, r.count, sizeof *r.events, by_time);
    *ret_events = r.events;
    *ret_count = r.count;
    *ret_lost = r.lost;
    return MUSTER_OK;
}
