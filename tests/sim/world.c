/*
 * tests/sim/world.c: the segment that schedules run on, and the processes' side of it.
 *
 * One anonymous mapping, laid out by the library's own code, with what is random fixed. Before each schedule it is put
 * back to its first image: everything below the heap is copied, and the heap's chunks that were in use are zeroed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "segment/claim.h"
#include "segment/format.h"
#include "segment/slot.h"
#include "segment/wait.h"
#include "sim.h"
#include "task/task.h"

#define TID_MASK   0x3fffffffu
#define OWNER_DIED 0x40000000u
#define WAITERS    0x80000000u

struct muster_segment sim_segment;
static uint8_t *first_image;
static uint64_t image_bytes, next_handle = 1000;
static uint32_t forks;
static bool has_successors; /* as the workload says */

/* As production's: reached only by who was woken by something else after so long. */
static void recheck(struct mu_ctx *ctx)
{
    mu_task_scavenge(ctx);
}

/* What is left of the last schedule's processes. */
static void bury_handles(void)
{
    struct sim_task *t;

    for (uint32_t i = 0; (t = sim_task(i)); i++)
        if (t->handle.seg) {
            mu_handle_detach_thread(&t->handle);
            t->handle.seg = NULL;
        }
}

void sim_world_make(const struct sim_workload *w)
{
    struct muster_segment_config config = w->config;
    struct muster_segment *seg = &sim_segment;
    struct mu_header h;
    struct muster *handle;

    has_successors = w->restarts;
    bury_handles();
    if (seg->base)
        munmap(seg->base, seg->size);
    free(first_image);
    memset(seg, 0, sizeof *seg);
    config.num_tasks = config.num_tasks ? config.num_tasks : 4;
    config.num_slots = config.num_slots ? config.num_slots : 16;
    config.num_buckets = config.num_buckets ? config.num_buckets : 1;
    config.num_events = config.num_events ? config.num_events : 4;
    config.heap_bytes = config.heap_bytes ? config.heap_bytes : 1u << 20;
    if (mu_format_plan("sim", &config, &h))
        sim_fail("%s", muster_last_error());
    h.hash_seed = 0x5eed;
    memset(h.host, 0, sizeof h.host);
    memcpy(h.host, "host", 4);
    seg->base = mmap(NULL, h.total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (seg->base == MAP_FAILED)
        sim_fail("no memory for a segment");
    mu_format_write(seg->base, &h);
    if (mu_format_check(&h, h.total_bytes, "sim", seg))
        sim_fail("%s", muster_last_error());
    if (mu_format_bind(seg, &h, "sim"))
        sim_fail("%s", muster_last_error());
    seg->fd = -1;
    seg->writable = true;
    image_bytes = h.heap_offset;
    first_image = malloc(image_bytes);
    memcpy(first_image, seg->base, image_bytes);
    handle = mu_handle_new(seg, 0); /* once, so that its room is set up */
    forks = handle->forks;
    free(handle);
    mu_wait_recheck = recheck;
}

void sim_world_restore(void)
{
    struct muster_segment *seg = &sim_segment;

    bury_handles();
    sim_arena_reset();
    for (uint32_t c = 0; c < seg->num_chunks; c++)
        if (seg->chunks[c])
            memset(seg->heap + (size_t)c * MU_CHUNK, 0, MU_CHUNK);
    memcpy(seg->base, first_image, image_bytes);
    seg->users = 1u << 20;
}

void sim_world_age(void)
{
    struct muster_segment *seg = &sim_segment;
    const uint64_t old = MU_WORD(0, MU_WORD_TAG_MASK - 1);
    mu_a64 *const rows[] = {seg->buckets, seg->cells, seg->events, &seg->header->cluster};
    const uint32_t counts[] = {seg->num_buckets, seg->num_cells, seg->num_events, 1};

    for (uint32_t i = 0; i < seg->num_slots; i++)
        seg->slots[i].word = MU_SLOT_WORD(0, 0, UINT16_MAX, MU_SLOT_FREE);
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < counts[k]; i++)
            rows[k][i] = old;
    seg->header->event_tail = (MU_WORD_TAG_MASK - 1) * seg->num_events;
    seg->header->epoch = UINT32_MAX - 3;
}

/* As the kernel does at a thread's death. */
void sim_die(struct sim_task *t)
{
    struct muster_segment *seg = &sim_segment;

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        mu_a32 *word = (mu_a32 *)&seg->slots[i].liveness;

        if ((*word & TID_MASK) != t->tid)
            continue;
        *word = (*word & ~TID_MASK) | OWNER_DIED;
        if (*word & WAITERS)
            sim_wake_watcher(word);
        if (sim_mutation == SIM_NO_INTENT)
            seg->slots[i].act = 0;
    }
}

static bool is_dead(const struct mu_slot *s)
{
    return MU_SLOT_STATE(s->word) == MU_SLOT_LIVE && !(*(const mu_a32 *)&s->liveness & TID_MASK);
}

bool sim_is_dead_word(const mu_a32 *word)
{
    for (uint32_t i = 0; i < sim_segment.num_slots; i++)
        if (word == (const mu_a32 *)&sim_segment.slots[i].liveness)
            return is_dead(&sim_segment.slots[i]);
    return false;
}

bool sim_anything_dead(void)
{
    struct muster_segment *seg = &sim_segment;

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        if (MU_SLOT_STATE(seg->slots[i].word) == MU_SLOT_DEAD || is_dead(&seg->slots[i]))
            return true;
    }
    return false;
}

void sim_handle(struct sim_task *t, int task_id)
{
    struct muster *m = &t->handle;

    memset(m, 0, sizeof *m);
    m->seg = &sim_segment;
    m->forks = forks;
    m->id = next_handle++;
    m->task_id = task_id;
    m->incarnation = 7000 + t->tid;
    atomic_store_explicit(&m->state, MU_HANDLE_OPEN, memory_order_relaxed);
}

/* The heartbeat thread: holds the main slot, beats, and scavenges when the kernel reports a death. */
struct keeper {
    struct mu_ctx ctx;
    uint32_t ready, stop, ended;
    enum muster_status status;
};

static void keep(struct sim_task *t)
{
    struct keeper *k = t->arg;

    sim_begin("keeper's claim");
    k->status = mu_claim(&sim_segment, (uint64_t)t->id + 1, &k->ctx);
    sim_end(k->status);
    sim_set(&k->ready);
    while (!k->stop && !k->status) {
        sim_begin("keeper's beat");
        mu_store_relaxed(&k->ctx.own->heartbeat, mu_load_relaxed(&k->ctx.own->heartbeat) + 1);
        mu_task_scavenge(&k->ctx);
        sim_end(MUSTER_OK);
        if (!k->stop && !sim_anything_dead())
            sim_idle(t);
    }
    if (!k->status) {
        sim_begin("keeper's release");
        mu_slot_release(&k->ctx);
        sim_end(MUSTER_OK);
    }
    sim_set(&k->ended);
}

static enum muster_status start_keeper(struct sim_task *t, struct mu_registration *r)
{
    struct keeper *k = calloc(1, sizeof *k);

    t->keeper = sim_add(keep, t->id, k);
    t->keeper->pid = t->pid;
    t->keeper->scavenger = true;
    sim_wait_for(&k->ready);
    r->slot = k->ctx.slot + 1;
    r->slot_incarnation = k->ctx.incarnation;
    t->handle.pulse = k->ctx.own;
    return k->status;
}

static void stop_keeper(struct sim_task *t)
{
    struct keeper *k = t->keeper ? t->keeper->arg : NULL;

    t->keeper = NULL;
    if (!k)
        return;
    k->stop = 1;
    sim_wake_idle();
    sim_wait_for(&k->ended);
}

/* As in task/join.c, on a segment that is open. */
enum muster_status sim_join(struct sim_task *t, uint32_t flags)
{
    struct mu_registration r = {.task = (uint32_t)t->id, .flags = flags, .pid = t->pid};
    struct mu_ctx *ctx;
    enum muster_status status;

    sim_handle(t, t->id);
    r.incarnation = t->handle.incarnation;
    sim_begin("join %d", t->id);
    status = mu_enter(&t->handle, &ctx);
    if (!status) {
        r.slot = ctx->slot + 1;
        r.slot_incarnation = ctx->incarnation;
        t->handle.pulse = ctx->own;
        if (sim_fate.keepers)
            status = start_keeper(t, &r);
        if (!status)
            do
                status = mu_task_register(ctx, &r);
            while (status == MUSTER_UNAVAILABLE && (mu_task_scavenge(ctx) || (mu_pause(), true)));
        mu_exit(ctx);
    }
    t->joined = !status;
    sim_end(status);
    if (status) {
        stop_keeper(t);
        mu_handle_detach_thread(&t->handle);
    }
    return status;
}

enum muster_status sim_leave(struct sim_task *t)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    sim_begin("leave %d", t->id);
    status = mu_enter(&t->handle, &ctx);
    if (!status) {
        status = mu_task_unregister(ctx, (uint32_t)t->id, t->handle.incarnation);
        mu_exit(ctx);
        stop_keeper(t);
        mu_handle_detach_thread(&t->handle);
    }
    sim_end(status);
    return status;
}

/* What an agent does when the kernel told it of a child's end: with words for it. */
static enum muster_status tell_of_death(struct sim_task *t)
{
    struct sim_task *dead;
    enum muster_status status;

    for (uint32_t i = 0; (dead = sim_task(i)); i++) {
        if (dead->state != SIM_KILLED || !sim_is_over(dead) || dead->id < 0 ||
            (uint32_t)dead->id >= sim_segment.num_tasks || dead->told)
            continue;
        dead->told = true;
        sim_begin("process of task %d ended", dead->id);
        status = mu_task_process_ended(&t->handle, dead->id, dead->pid, SIGKILL, !has_successors && sim_chance(2));
        sim_end(status);
        return status;
    }
    sim_begin("scavenge");
    status = muster_scavenge(&t->handle, NULL);
    sim_end(status);
    return status;
}

void sim_scavenger(struct sim_task *t)
{
    if (!t->handle.seg)
        sim_handle(t, -1);
    for (bool watches = sim_chance(2); watches;) {
        sim_begin("watch for deaths");
        watches = !muster_death_wait(&t->handle, MUSTER_FOREVER, NULL);
        sim_end(MUSTER_OK);
    }
    for (;;) {
        enum muster_status status;
        size_t n = 0;

        if (!sim_anything_dead()) {
            sim_idle(t);
            continue;
        }
        if (sim_chance(2)) {
            sim_begin("scavenge");
            status = muster_scavenge(&t->handle, &n);
            sim_end(status);
        } else {
            status = tell_of_death(t);
        }
        SIM_CHECK(!status || status == MUSTER_RESOURCE_EXHAUSTED, "scavenge: %s", muster_last_error());
        if (status) /* the living hold all slots */
            sim_yield();
        sim_totals.scavenged += n;
    }
}

static void complain(void *arg, const char *sentence)
{
    (void)arg;
    sim_fail("the audit: %s", sentence);
}

void sim_world_audit(void)
{
    struct muster_segment *seg = &sim_segment;
    struct muster_audit sum;

    if (muster_segment_check(seg, complain, NULL, &sum))
        sim_fail("the audit failed: %s", muster_last_error());
    /* nobody is inside an operation any more */
    SIM_CHECK(!sum.blocks_owned, "%llu blocks are still owned", (unsigned long long)sum.blocks_owned);
    for (uint32_t i = 0; i < seg->num_slots; i++)
        if (MU_SLOT_STATE(seg->slots[i].word) != MU_SLOT_FREE)
            SIM_CHECK(!seg->slots[i].act && !seg->slots[i].pin, "slot %u: an intent or a pin is left", i);
}

/* ---- names for traces ---- */

static void name_slot(uint32_t slot, uint64_t at, uint64_t value, char *name, size_t size)
{
    const char *field = at < 8     ? "word"
                        : at < 16  ? "task"
                        : at < 24  ? "pid_namespace"
                        : at < 128 ? "liveness"
                        : at < 256 ? "heartbeat"
                                   : NULL;

    if (field)
        snprintf(name, size, "slot %u %s = %llx", slot, field, (unsigned long long)value);
    else if (at < 264)
        snprintf(name, size, "slot %u act = %llx", slot, (unsigned long long)value);
    else if (at < 328)
        snprintf(name, size, "slot %u %s[%u] = %llx", slot, at < 296 ? "news" : "olds", (uint32_t)(at - 264) / 8 % 4,
                 (unsigned long long)value);
    else
        snprintf(name, size, "slot %u %s = %llx", slot,
                 at == 328   ? "pin"
                 : at == 336 ? "pin_object"
                             : "wait",
                 (unsigned long long)value);
}

static void name_heap(uint64_t at, uint64_t value, char *name, size_t size)
{
    uint32_t chunk = (uint32_t)(at / MU_CHUNK), class_index = MU_CHUNK_CLASS(sim_segment.chunks[chunk]);
    static const uint16_t granules[MU_CLASSES] = MU_CLASS_GRANULES;
    uint64_t bytes = class_index && class_index <= MU_CLASSES ? granules[class_index - 1] * MU_GRANULE : MU_CHUNK;
    uint64_t within = at % MU_CHUNK, block = within / bytes * bytes, offset = within - block;
    static const char *const states[] = {"free", "owned", "live", "?"};

    if (offset == 0)
        snprintf(name, size, "block %llu word = generation %u, slot %u/%u, %s",
                 (unsigned long long)((chunk * (uint64_t)MU_CHUNK + block) / MU_GRANULE + 1),
                 MU_BLOCK_GENERATION(value), MU_BLOCK_SLOT(value), MU_BLOCK_INCARNATION(value),
                 states[MU_BLOCK_STATE(value)]);
    else
        snprintf(name, size, "block %llu %s %lld = %llx",
                 (unsigned long long)((chunk * (uint64_t)MU_CHUNK + block) / MU_GRANULE + 1),
                 offset == 8 ? "meta" : "body", (long long)(offset - 16) / 8, (unsigned long long)value);
}

void sim_name_address(const volatile void *address, char *name, size_t size)
{
    struct muster_segment *seg = &sim_segment;
    uint64_t at = (uint64_t)((const volatile uint8_t *)address - seg->base), value;
    const struct {
        const char *name;
        const void *from;
        uint32_t count;
    } rows[] = {{"event", seg->events, seg->num_events},
                {"cell", seg->cells, seg->num_cells},
                {"bucket", seg->buckets, seg->num_buckets}};

    if (!address || at >= seg->size) {
        snprintf(name, size, address ? "(private)" : "pause");
        return;
    }
    memcpy(&value, (const uint8_t *)seg->base + at, at % 8 ? 4 : 8);
    if (at % 8)
        value &= UINT32_MAX;
    if (at >= (uint64_t)(seg->heap - seg->base)) {
        name_heap(at - (uint64_t)(seg->heap - seg->base), value, name, size);
        return;
    }
    for (int i = 0; i < 3; i++) {
        uint64_t from = mu_offset_of(seg, rows[i].from);

        if (at >= from && at < from + rows[i].count * 8ull) {
            snprintf(name, size, "%s %llu = index %u, tag %llu%s", rows[i].name, (unsigned long long)(at - from) / 8,
                     MU_WORD_INDEX(value), (unsigned long long)MU_WORD_TAG(value), value & MU_WORD_S ? ", S" : "");
            return;
        }
    }
    if (at >= MU_HEADER_SIZE && at < MU_HEADER_SIZE + seg->num_slots * sizeof(struct mu_slot))
        name_slot((uint32_t)((at - MU_HEADER_SIZE) / sizeof(struct mu_slot)),
                  (at - MU_HEADER_SIZE) % sizeof(struct mu_slot), value, name, size);
    else
        snprintf(name, size, "%s = %llx",
                 at == offsetof(struct mu_header, cluster)      ? "cluster"
                 : at == offsetof(struct mu_header, epoch)      ? "epoch"
                 : at == offsetof(struct mu_header, event_tail) ? "event_tail"
                 : at == offsetof(struct mu_header, slots_high) ? "slots_high"
                 : at == offsetof(struct mu_header, wanted)     ? "wanted"
                 : at < MU_HEADER_SIZE                          ? "header"
                                                                : "chunk",
                 (unsigned long long)value);
}
