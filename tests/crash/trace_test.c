/*
 * tests/crash/trace_test.c: a thread that notes events is killed after every single instruction.
 *
 * variants: step step3 step-clang step3-clang
 *
 * After each: what a reader finds is whole, in order, and has lost nothing that was found before; the event under way
 * is there or is not. And on a copy of that image the slot's next owner goes on: its event follows the others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/format.h"
#include "segment/slot.h"
#include "segment/trace.h"
#include "step.h"
#include "world.h"

enum { RING = 64, NAMES = 32, NOTED = 150 };

static struct muster_segment seg, copy;
static struct mu_ctx *ctx;
static unsigned long bad;

#define MUST(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition) && bad++ < 20) {                                                                              \
            printf("  FAIL " __VA_ARGS__);                                                                             \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

static void name_of(uint64_t object, char text[57])
{
    memset(text, 0, 57);
    snprintf(text, 57, "the name of object %llu, which is a long one", (unsigned long long)object >> 32);
}

static void note(struct mu_ctx *c, uint64_t i)
{
    uint64_t object = (i + 1) << 32;
    char text[57];

    name_of(object, text);
    mu_trace_note(c, mu_trace_now(c), MU_TRACE_GROUP_ENTER, MUSTER_OK, mu_trace_name(c, object, text, strlen(text)),
                  object, i);
}

static void victim(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < NOTED; i++)
        note(ctx, i);
}

/* Events 0 to the answer have been there. */
static uint64_t check(const struct muster_segment *s, const char *when)
{
    struct mu_traced *events = NULL;
    size_t count = 0;
    uint64_t lost = 0, next = 0;

    MUST(mu_trace_read(s, &events, &count, &lost) == MUSTER_OK, "%s: %s", when, muster_last_error());
    for (size_t i = 0; i < count; i++) {
        const struct mu_traced *e = &events[i];
        char text[57];

        name_of(e->object, text);
        MUST(e->number == lost + i, "%s: event %llu at place %zu", when, (unsigned long long)e->number, i);
        MUST(e->value == e->number && e->object == (e->number + 1) << 32, "%s: event %llu is torn", when,
             (unsigned long long)e->number);
        /* half the names have been overwritten: then it has none, never another's */
        MUST(!strcmp(e->name, text) || (!*e->name && count - i > NAMES - 1), "%s: event %llu is named '%s'", when,
             (unsigned long long)e->number, e->name);
        next = e->number + 1;
    }
    MUST(count == (next < RING ? next : RING - 1), "%s: %zu events", when, count);
    free(events);
    return next;
}

/* The slot's next owner, on a copy of the image. */
static void succeed(uint64_t found)
{
    static struct mu_ctx next;

    memcpy(copy.base, seg.base, seg.size);
    memset(&next, 0, sizeof next);
    next.seg = &copy;
    next.slot = ctx->slot;
    next.own = &copy.slots[ctx->slot];
    mu_trace_open(&next);
    MUST(next.trace.head == found, "the next owner begins at %llu, not %llu", (unsigned long long)next.trace.head,
         (unsigned long long)found);
    note(&next, found);
    MUST(check(&copy, "then") == found + 1, "the next owner's event is not there");
}

static bool build(void)
{
    const struct muster_segment_config config = {
        .num_tasks = 1, .num_slots = 1, .num_buckets = 1, .num_events = 1, .heap_bytes = 1 << 20, .trace_events = RING};
    static struct mu_header h;

    if (mu_format_plan("trace", &config, &h) || mu_format_check(&h, h.total_bytes, "trace", &seg))
        return false;
    seg.base = mmap(NULL, seg.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seg.base == MAP_FAILED)
        return false;
    seg.fd = -1;
    seg.writable = true;
    mu_format_write(seg.base, &h);
    if (mu_format_bind(&seg, &h, "trace"))
        return false;
    copy = seg;
    copy.base = mmap(NULL, seg.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy.base == MAP_FAILED)
        return false;
    if (mu_format_bind(&copy, &h, "trace"))
        return false;
    ctx = malloc(sizeof *ctx);
    return ctx && mu_slot_claim(&seg, 1, ctx) == MUSTER_OK;
}

int main(void)
{
    static struct stepper s;
    uint64_t found = 0, images = 0;
    uint8_t *before;
    const uint8_t *ring;
    size_t size;

    crash_board(); /* the stepper counts there */
    if (!build()) {
        printf("the segment cannot be built: %s\n", muster_last_error());
        return 2;
    }
    ring = (const uint8_t *)ctx->trace.ring;
    size = (size_t)mu_trace_ring_bytes(seg.trace_events, seg.trace_names);
    before = malloc(size);
    memcpy(before, ring, size);
    if (!step_start(&s, victim, NULL))
        return 77;
    while (step_one(&s)) {
        uint64_t now;

        if (!memcmp(before, ring, size)) /* as after the instruction before */
            continue;
        memcpy(before, ring, size);
        now = check(&seg, "killed");
        MUST(now == found || now == found + 1, "from %llu events to %llu", (unsigned long long)found,
             (unsigned long long)now);
        found = now;
        succeed(found);
        images++;
    }
    MUST(found == NOTED, "%llu events in the end", (unsigned long long)found);
    MUST(images > NOTED * 5, "%llu images only", (unsigned long long)images);
    printf("%llu instructions, %llu images, %lu complaints\n", (unsigned long long)s.steps, (unsigned long long)images,
           bad);
    return bad != 0;
}
