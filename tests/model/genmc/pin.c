/*
 * pin.c: a reader in place, and writers that replace what it reads.
 *
 * Stands for: src/segment/pin.c, mu_commit_free_olds() in src/segment/commit.h, intent_undo() and dead_slot_finish() in
 * src/segment/scavenge.c.
 *
 * The object's root refers to a value block. The reader pins the value, reads it twice and unpins it; the writer
 * replaces root and value. While the pin stands the block is LIVE at its generation and its words do not change; in the
 * end no block is lost, whoever ended the pin.
 *
 * RUN short ok    -                                       : reader and writer
 * RUN short ok    -DDEAD_READER                           : the reader may die at any access
 * RUN full  ok    -DDEAD_WRITER                           : the writer may die at any access
 * RUN full  ok    -DTWO_READERS                           : two readers
 * RUN short reach -DREACH                                 : the writer does find the pin
 * RUN short reach -DDEAD_READER -DREACH_DEATH             : the reader does die
 * RUN short freed -DBREAK_FREER_IGNORES_PINS              : the writer frees what is pinned
 * RUN short freed -DBREAK_PIN_NO_SECOND_LOOK              : the reader does not look again after pinning
 * RUN short leak  -DBREAK_WEAK_PIN_FENCE                  : the fences are not sequentially consistent
 * RUN short leak  -DBREAK_UNPIN_FREES_NOTHING             : who unpins leaves the block
 * RUN short leak  -DDEAD_READER -DBREAK_DEAD_PIN_LEFT     : the scavenger leaves the pin of the dead
 * RUN full  freed -DDEAD_WRITER -DBREAK_UNDO_IGNORES_PINS : the scavenger frees what the dead writer replaced, though
 * pinned
 */
#ifdef TWO_READERS
#define MODEL_SLOTS 4u
#else
#define MODEL_SLOTS 3u
#endif
#define MODEL_BLOCKS 4u
#include "shm_layout/layout.h"
#define MODEL_ROOT_WORDS 1
#define FIRST_VALUE      9
/* block 1: the root, a reference to block 2: the value */
#define MODEL_IMAGE                                                                                                    \
    [AT_OBJECTS] = MU_WORD(1, 1), [AT_HEAP] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),                                         \
    [AT_HEAP + 1] = MU_META(0, 1, MU_TYPE_PAGE), [AT_HEAP + 2] = MU_REF(0, 2),                                         \
    [AT_HEAP + BLOCK_WORDS] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),                                                         \
    [AT_HEAP + BLOCK_WORDS + 1] = MU_META(8, 0, MU_TYPE_VALUE), [AT_HEAP + BLOCK_WORDS + 2] = FIRST_VALUE
#define REFERENCES_FOLLOWED
#include "mechanism.h"

enum { READER, WRITER, SECOND_READER };

/* Read the value in place, if it is still there when it has been pinned. */
static void read_in_place(void)
{
    uint64_t ref, first;
    struct mu_block *b;

    MUST(corrupt, mu_object_read(view(), OBJECT, own()->scratch, root()) == MU_READ_OK);
    ref = root()->body[0];
    if (!mu_pin(own(), OBJECT, root()->word, ref))
        return;
    b = mu_heap_block(view(), MU_REF_INDEX(ref), NULL);
    first = mu_load_relaxed(&b->body[0]);
    MUST(freed, mu_load_relaxed(&b->word) == MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE));
    MUST(torn, first == FIRST_VALUE || first == FIRST_VALUE + 1);
#ifdef REACH
    MUST(reach, mu_word_same(mu_load_acquire(OBJECT), root()->word));
#endif
    mu_unpin(own());
}

static void *reader(void *arg)
{
    uint32_t slot = (uint32_t)(uintptr_t)arg;

    become(slot);
#ifdef DEAD_READER
    mortal = slot == READER ? slot + 1 : 0;
#endif
    read_in_place();
    mortal = 0;
    return NULL;
}

/* One attempt at a new root and a new value. */
static void *writer(void *arg)
{
    struct mu_block *b;
    mu_a64 *body;
    uint64_t ref;

    (void)arg;
    become(WRITER);
#ifdef DEAD_WRITER
    mortal = WRITER + 1;
#endif
    mu_txn_begin(txn(), own(), OBJECT);
    MUST(corrupt, mu_txn_read(txn(), root()) == MU_READ_OK);
    assert(!mu_heap_alloc(own(), 8, 0, &ref, &b));
    mu_store_relaxed(&b->meta, MU_META(8, 0, MU_TYPE_VALUE));
    mu_store_relaxed(&b->body[0], FIRST_VALUE + 1);
    mu_txn_new(txn(), ref);
    assert(!mu_txn_root(txn(), MU_TYPE_PAGE, 1, 0, 0, &body));
    mu_store_relaxed(&body[0], ref);
    mu_txn_old(txn(), root()->body[0]);
    assert(mu_txn_commit(txn()) == MU_COMMITTED);
    mortal = 0;
    return NULL;
}

int main(void)
{
    pthread_t r, w, r2;
    void *died;

    become(MAIN);
    pthread_create(&r, NULL, reader, (void *)(uintptr_t)READER);
    pthread_create(&w, NULL, writer, NULL);
#ifdef TWO_READERS
    pthread_create(&r2, NULL, reader, (void *)(uintptr_t)SECOND_READER);
#endif
#if defined(DEAD_READER)
    kill_owner(READER);
    pthread_join(r, &died);
#elif defined(DEAD_WRITER)
    kill_owner(WRITER);
    pthread_join(w, &died);
#endif
    mu_scavenge(own(), NULL, NULL);
#ifndef DEAD_READER
    pthread_join(r, NULL);
#endif
#ifndef DEAD_WRITER
    pthread_join(w, NULL);
#endif
#ifdef TWO_READERS
    pthread_join(r2, NULL);
#endif
#ifdef REACH_DEATH
    MUST(reach, !died);
#endif
    (void)died;
    audit();
    return 0;
}
