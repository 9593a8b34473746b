/*
 * segment/ledger.c: the objects that a process holds: a table in private memory, and records in the segment.
 *
 * A new block of records is OWNED by the thread that took it, then filled with zeros, then made the main slot's by one
 * store of its word, then named by the main slot. A SIGKILL before that last store leaves a block that the sweep frees;
 * behind it, a block of records that count. The table is of open addressing, never more than half full.
 */
#include "segment/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "segment/file.h"
#include "segment/slot.h"

enum {
    FIRST_BYTES = 4096 - MU_BLOCK_HEADER, /* of the first block; those that follow are as large as any can be */
    FIRST_PLACES = 64
};

struct mu_ledger {
    pthread_mutex_t lock;
    struct muster_segment *seg;
    struct mu_slot *main; /* the task's main slot */
    uint32_t slot;
    uint16_t incarnation;
    struct mu_holding *table;
    uint32_t places, used; /* a power of two; of them in use */
    uint32_t lingering;    /* of these: that nobody here uses, and that could not be dropped yet */
    mu_a64 **records;      /* that are 0 */
    uint32_t num_records, records_room;
};

static enum muster_status no_ledger(const struct muster *m)
{
    return mu_fail(MUSTER_FAILED_PRECONDITION,
                   "objects are held by tasks and workers, and this process is none of job %s's: join as a task",
                   m->seg->job);
}

/* Whether the main slot is the one with which the task joined. */
static bool main_is_held(const struct mu_ledger *l)
{
    uint64_t w = mu_load_acquire(&l->main->word); /* acquire: pairs with mu_slot_free() and the scavenger */

    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == l->incarnation;
}

static enum muster_status main_has_ended(const struct mu_ledger *l)
{
    return mu_fail(
        MUSTER_FAILED_PRECONDITION,
        "the thread that joined job %s without a heartbeat thread has ended: the task holds no objects any more",
        l->seg->job);
}

static enum muster_status ledger_make(struct muster *m, struct mu_ledger **ret_ledger)
{
    struct mu_ledger *l, *other = NULL;

    if (!m->pulse)
        return no_ledger(m);
    l = calloc(1, sizeof *l);
    if (l)
        l->table = calloc(FIRST_PLACES, sizeof *l->table);
    if (!l || !l->table) {
        free(l);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the objects that this process holds");
    }
    pthread_mutex_init(&l->lock, NULL);
    l->seg = m->seg;
    l->main = m->pulse;
    l->slot = (uint32_t)(m->pulse - m->seg->slots);
    l->incarnation = (uint16_t)m->pulse_incarnation;
    l->places = FIRST_PLACES;
    /* acq_rel, process-local: of two threads one's ledger stays */
    if (atomic_compare_exchange_strong_explicit(&m->ledger, &other, l, memory_order_acq_rel, memory_order_acquire)) {
        *ret_ledger = l;
        return MUSTER_OK;
    }
    free(l->table);
    free(l);
    *ret_ledger = other;
    return MUSTER_OK;
}

enum muster_status mu_ledger_lock(struct muster *m, struct mu_ledger **ret_ledger)
{
    /* acquire, process-local: pairs with the exchange above */
    struct mu_ledger *l = atomic_load_explicit(&m->ledger, memory_order_acquire);
    enum muster_status status = l ? MUSTER_OK : ledger_make(m, &l);

    if (status)
        return status;
    mu_fence_seq_cst(); /* the claim of our slot comes before the look at the main one; pairs with mu_hold_inherit() */
    /* This thread has a slot by now: so either it finds that the main slot was given up, or the heir finds
     * its slot, and waits (mu_hold_inherit()). */
    if (!main_is_held(l))
        return main_has_ended(l);
    pthread_mutex_lock(&l->lock);
    *ret_ledger = l;
    return MUSTER_OK;
}

void mu_ledger_unlock(struct mu_ledger *ledger)
{
    pthread_mutex_unlock(&ledger->lock);
}

uint64_t mu_ledger_maker(const struct mu_ledger *ledger)
{
    return MU_OBJECT_MAKER(ledger->slot, ledger->incarnation);
}

void mu_ledger_linger(struct mu_ledger *ledger)
{
    ledger->lingering++;
}

struct mu_holding *mu_ledger_lingerer(struct mu_ledger *ledger)
{
    for (uint32_t i = 0; ledger->lingering && i < ledger->places; i++)
        if (ledger->table[i].ref && !ledger->table[i].refs && !ledger->table[i].views) {
            ledger->lingering--;
            return &ledger->table[i];
        }
    ledger->lingering = 0;
    return NULL;
}

/* ---- the table ---- */

static uint32_t table_place(const struct mu_ledger *l, uint64_t ref)
{
    return (uint32_t)((ref * 0x9e3779b97f4a7c15u) >> 32) & (l->places - 1);
}

struct mu_holding *mu_ledger_find(struct mu_ledger *ledger, uint64_t ref)
{
    for (uint32_t i = table_place(ledger, ref); ledger->table[i].ref; i = (i + 1) & (ledger->places - 1))
        if (ledger->table[i].ref == ref)
            return &ledger->table[i];
    return NULL;
}

static struct mu_holding *table_put(struct mu_ledger *l, const struct mu_holding *held)
{
    uint32_t i = table_place(l, held->ref);

    while (l->table[i].ref)
        i = (i + 1) & (l->places - 1);
    l->table[i] = *held;
    return &l->table[i];
}

/* Room for another one in table and stack. */
static bool table_grow(struct mu_ledger *l)
{
    struct mu_holding *old = l->table;
    uint32_t places = l->places;

    if (2 * (l->used + 1) <= places)
        return true;
    l->table = calloc(2 * (size_t)places, sizeof *l->table);
    if (!l->table) {
        l->table = old;
        return false;
    }
    l->places = 2 * places;
    for (uint32_t i = 0; i < places; i++)
        if (old[i].ref)
            table_put(l, &old[i]);
    free(old);
    return true;
}

struct mu_holding *mu_ledger_add(struct mu_ledger *ledger, uint64_t ref, mu_a64 *record)
{
    struct mu_holding held = {.ref = ref, .record = record, .state = MU_OBJECT_WRITING};

    ledger->used++;
    return table_put(ledger, &held);
}

void mu_ledger_remove(struct mu_ledger *ledger, struct mu_holding *held)
{
    uint32_t mask = ledger->places - 1, hole = (uint32_t)(held - ledger->table);

    mu_ledger_put_record(ledger, held->record);
    ledger->used--;
    /* whatever could not lie where it belongs because of this one moves up */
    for (uint32_t i = (hole + 1) & mask; ledger->table[i].ref; i = (i + 1) & mask) {
        uint32_t home = table_place(ledger, ledger->table[i].ref);

        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        ledger->table[hole] = ledger->table[i];
        hole = i;
    }
    ledger->table[hole].ref = 0;
}

/* ---- records ---- */

static bool records_grow(struct mu_ledger *l, uint32_t more)
{
    mu_a64 **grown = realloc(l->records, (l->records_room + (size_t)more) * sizeof *grown);

    if (!grown)
        return false;
    l->records = grown;
    l->records_room += more;
    return true;
}

/* Another block of records: as large as any can be, or, where the heap has none, a small one. */
static enum muster_status ledger_extend(struct mu_ledger *l, struct mu_ctx *ctx)
{
    uint64_t before = mu_load_relaxed(&l->main->ledger); /* relaxed: the CAS below looks again */
    size_t bytes = MU_LEDGER_IS_BLOCK(before) ? MU_BODY_MAX : FIRST_BYTES;
    uint32_t count = (uint32_t)(bytes / 8) - 1;
    enum muster_status status;
    struct mu_block *b;
    uint64_t ref;

    if (before == MU_LEDGER_CLOSED(l->incarnation) || !main_is_held(l))
        return main_has_ended(l);
    /* what there is, used and free, and these */
    if (l->records_room - l->used - l->num_records < count && !records_grow(l, count))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the objects that this process holds");
    status = mu_heap_alloc(ctx, bytes, 0, &ref, &b);
    if (status == MUSTER_RESOURCE_EXHAUSTED && bytes > FIRST_BYTES) {
        bytes = FIRST_BYTES;
        status = mu_heap_alloc(ctx, bytes, 0, &ref, &b);
    }
    if (status)
        return status;
    count = (uint32_t)(bytes / 8) - 1;
    mu_store_relaxed(&b->meta, MU_META(bytes, 0, MU_TYPE_LEDGER)); /* relaxed, as all here: the word publishes them */
    mu_store_relaxed(&b->body[0], before);
    for (uint32_t i = 0; i < count; i++)
        mu_store_relaxed(&b->body[1 + i], 0);
    /* release: pairs with mu_ledger_records() */
    mu_store_release(&b->word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), l->incarnation, l->slot, MU_OWNED));
    /* release half: pairs with mu_hold_empty(). Failed: the slot has been given back meanwhile, see mu_slot_free() */
    if (!mu_cas(&l->main->ledger, before, ref)) {
        mu_heap_free_word(l->seg, ctx, MU_REF_INDEX(ref),
                          MU_BLOCK_WORD(MU_REF_GENERATION(ref), l->incarnation, l->slot, MU_OWNED));
        return main_has_ended(l);
    }
    for (uint32_t i = count; i-- > 0;)
        l->records[l->num_records++] = (mu_a64 *)b->body + 1 + i;
    return MUSTER_OK;
}

enum muster_status mu_ledger_record(struct mu_ledger *ledger, struct mu_ctx *ctx, mu_a64 **ret_record)
{
    enum muster_status status = MUSTER_OK;

    if (!table_grow(ledger))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the objects that this process holds");
    if (!ledger->num_records)
        status = ledger_extend(ledger, ctx);
    if (!status)
        *ret_record = ledger->records[--ledger->num_records];
    return status;
}

void mu_ledger_put_record(struct mu_ledger *ledger, mu_a64 *record)
{
    ledger->records[ledger->num_records++] = record;
}

/* ---- the end ---- */

/* What cannot be dropped now stays in the ledger, and with it the slot: mu_slot_free(). After the first such nobody
 * waits for room. */
static void ledger_drop_all(struct mu_ledger *l, struct mu_ctx *ctx)
{
    uint64_t block = mu_load_relaxed(&l->main->ledger), before = 0; /* relaxed: written under this lock alone */
    bool empty = true;

    for (uint32_t i = 0; i < l->places; i++)
        if (l->table[i].ref) {
            mu_hold_drop(ctx, l->table[i].record, l->table[i].ref, mu_ledger_maker(l), empty);
            empty = empty && !mu_load_relaxed(l->table[i].record); /* relaxed: our own */
        }
    if (!empty || !MU_LEDGER_IS_BLOCK(block))
        return;
    /* release half: nothing is held when no ledger is found; pairs with the acquire in dead_slot_finish() */
    mu_cas(&l->main->ledger, block, MU_LEDGER_NONE(l->incarnation));
    for (; MU_LEDGER_IS_BLOCK(block); block = before) {
        uint32_t count;

        if (!mu_ledger_records(l->seg, block, l->slot, l->incarnation, &count, &before))
            break;
        mu_heap_free_word(l->seg, ctx, MU_REF_INDEX(block),
                          MU_BLOCK_WORD(MU_REF_GENERATION(block), l->incarnation, l->slot, MU_OWNED));
    }
}

/* Without any slot to do it with nothing is dropped here: the main slot then ends as a dead one's. */
void mu_ledger_close(struct muster *m)
{
    struct mu_ledger *l = atomic_load_explicit(&m->ledger, memory_order_acquire); /* process-local: as above */
    struct mu_ctx *ctx = NULL;
    bool borrowed = false;

    if (!l)
        return;
    if (mu_segment_is_whole(m->seg) && main_is_held(l)) {
        if (mu_handle_context(m, &ctx)) {
            ctx = mu_handle_borrow(m);
            borrowed = ctx != NULL;
        }
        if (ctx)
            ledger_drop_all(l, ctx);
        if (borrowed)
            mu_handle_return();
    }
    atomic_store_explicit(&m->ledger, NULL, memory_order_relaxed); /* process-local: no call is under way */
    pthread_mutex_destroy(&l->lock);
    free(l->table);
    free(l->records);
    free(l);
}
