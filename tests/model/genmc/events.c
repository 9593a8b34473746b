/*
 * events.c: senders and a reader of the ring of events.
 *
 * Stands for: find_tail(), muster_event_send(), copy_event(), reader_overrun() and muster_event_read() in
 * src/event/ring.c.
 *
 * The ring of EVENTS words is full when the senders begin, each of SENDS events, so that the first of them is the
 * second round; the hint says that nothing was ever sent. The reader wants event 0: it gets it whole, or is told how
 * many events it lost, and these are gone; then it goes on, up to event GOES_ON. In the end the ring holds the last
 * events, each with what its sender wrote under the number that it was told; numbers have neither holes nor doubles;
 * and ownership equals reachability. A wait, mu_wait_on(), ends when the word changes, as sleep.c shows.
 *
 * RUN short ok      -DNO_READER                      : two senders of one event; a ring of one event
 * RUN short ok      -DEVENTS=2 -DNO_READER           : likewise; a ring of two events
 * RUN short ok      -DSENDERS=1 -DSENDS=2            : one sender of two, who uses blocks again at once, and a reader
 * RUN short ok      -DEVENTS=2 -DSENDERS=1 -DSENDS=2 : likewise; a ring of two events
 * RUN short ok      -DSENDERS=1 -DSENDS=2 -DGOES_ON=3u : likewise; the reader goes on
 * RUN full  ok      -                                : two senders of one event, and a reader
 * RUN short ok      -DVICTIM -DNO_READER             : the first of two senders may die at any access
 * RUN short reach   -DVICTIM -DNO_READER -DREACH     : it does die
 * RUN short lost    -DREACH_LOST                     : the reader is overtaken
 * RUN short got     -DREACH_GOT                      : the reader is not
 * RUN short corrupt -DBREAK_RELAXED_HINT -DNO_READER : the hint is read without acquiring
 * RUN short holes   -DBREAK_HINT_AHEAD -DNO_READER   : the hint is moved one event further than what is there
 * RUN short torn    -DSENDERS=1 -DGOES_ON=2u -DBREAK_RELAXED_WORD : words are read without acquiring
 * RUN short torn    -DSENDERS=1 -DSENDS=2 -DBREAK_NO_RECHECK : the reader does not look at the word again
 * RUN short torn    -DSENDERS=1 -DSENDS=2 -DBREAK_NO_ACQUIRE_FENCE : its second look is not ordered behind the copy
 * RUN short torn    -DSENDERS=1 -DSENDS=2 -DBREAK_NO_RELEASE_FENCE : a recycled block is filled without a fence
 */
#ifndef EVENTS
#define EVENTS 1u
#endif
#ifndef SENDERS
#define SENDERS 2u
#endif
#ifndef SENDS
#define SENDS 1u
#endif
#ifndef GOES_ON
#define GOES_ON 1u /* an overtaken reader goes on below this number */
#endif
#define MODEL_EVENTS EVENTS
#define MODEL_BLOCKS (EVENTS + SENDERS) /* each sender fills one while the ring is full */
#define MODEL_SLOTS  3u
#include "shm_layout/layout.h"

/* An event's record and one word of payload: which sender it was. Events before the senders began are of nobody. */
#define PAYLOAD(sender) (100 + (sender))
#define OLD_EVENT(q)                                                                                                   \
    [AT_OBJECTS + 2 + (q)] = MU_WORD((q) + 1, 1), [AT_HEAP + (q)*BLOCK_WORDS] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),       \
                      [AT_HEAP + (q)*BLOCK_WORDS + 1] = MU_META(sizeof(struct mu_event_record) + 8, 0, MU_TYPE_EVENT), \
                      [AT_HEAP + (q)*BLOCK_WORDS + 2] = (q), [AT_HEAP + (q)*BLOCK_WORDS + 7] = PAYLOAD(-1)
#if EVENTS > 1
#define MODEL_IMAGE OLD_EVENT(0), OLD_EVENT(1)
#else
#define MODEL_IMAGE OLD_EVENT(0)
#endif
#include "mechanism.h"

#include <genmc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <muster/event.h>

#include "segment/handle.h"
#include "segment/wait.h"

/*
 * GenMC copies nothing of which one side is made of words and the other is not, and no lengths that it must compute.
 * Nor does it assign a struct through a pointer, which copy_event() does last of all, with what it has copied and found
 * to be current: delivered() takes its place, and that is the end of the reader.
 */
static void pack(uint64_t *to, const struct mu_event_record *r, size_t size)
{
    (void)size;
    to[0] = r->sequence;
    to[1] = r->time_ns;
    to[2] = r->task | (uint64_t)r->type << 32;
    to[3] = to[4] = 0; /* of no call */
}
static void delivered(struct mu_event_record *r, const uint64_t *record, size_t size);
static void copy_word(void *to, const void *from, size_t size)
{
    MUST(word, size == 8);
    *(uint64_t *)to = *(const uint64_t *)from;
}
#define memcpy(to, from, size)                                                                                         \
    _Generic((from), const struct mu_event_record *                                                                    \
             : pack, default                                                                                           \
             : _Generic((to), struct mu_event_record *                                                                 \
                        : delivered, default                                                                           \
                        : copy_word))(to, from, size)

#define mu_enter(muster, ret_ctx)      (*(ret_ctx) = own(), MUSTER_OK)
#define mu_enter_wait(muster, ret_ctx) (*(ret_ctx) = own(), MUSTER_OK)
#define mu_enter_read(muster)          MUSTER_OK
#define mu_exit_read()                 ((void)0)
#define mu_exit(ctx)                   ((void)(ctx))
#define mu_wait_begin(w, s, c, d, t)   ((w)->epoch = 0)
#define mu_wait_look(w)                ((void)(w))
#define mu_wait_end(w)                 ((void)(w))
#define mu_wait_has_begun(w)           false
#define mu_cluster_say_others(m, w)    MUSTER_DEADLINE_EXCEEDED
#define is_hint(p)                     ((const void *)(p) == (const void *)&view()->header->event_tail)
#ifdef BREAK_RELAXED_HINT
#define mu_load_acquire(p) (is_hint(p) ? mu_load_relaxed(p) : (mu_load_acquire)(p))
#endif
#ifdef BREAK_RELAXED_WORD
#define mu_load_acquire(p) (is_hint(p) ? (mu_load_acquire)(p) : mu_load_relaxed(p))
#endif
#ifdef BREAK_NO_RECHECK
#define mu_word_same(a, b) ((void)(a), (void)(b), true)
#endif
#ifdef BREAK_HINT_AHEAD
#define mu_cas(p, expected, desired) (mu_cas)(p, expected, (desired) + is_hint(p))
#endif
#include "event/ring.c"
#undef memcpy
#undef mu_cas
#undef mu_load_acquire
#undef mu_word_same

/* Until the word changes. */
enum muster_status mu_wait_on(struct mu_wait *w, mu_a64 *word, uint64_t seen)
{
    (void)w;
    __VERIFIER_loop_begin();
    for (;;) {
        bool changed;

        __VERIFIER_spin_start();
        changed = atomic_load_explicit(word, memory_order_relaxed) != seen;
        __VERIFIER_spin_end(changed);
        if (changed)
            break;
    }
    return MUSTER_OK;
}

PRIVATE(struct muster, handle, sizeof(struct muster))

static void join_as(uint32_t slot)
{
    become(slot);
    handle()->seg = view();
    handle()->task_id = (int32_t)slot;
}

/* The numbers that senders were told, + 1; 0: none. */
static uint64_t told[SENDERS][SENDS];

static void *sender(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg;

    join_as(me);
#ifdef VICTIM
    mortal = me == 0 ? 1 : 0;
#endif
    for (uint32_t i = 0; i < SENDS; i++) {
        uint64_t payload = PAYLOAD(me);
        struct mu_event_record r; /* not initialised as a whole: GenMC would set bytes */

        r.time_ns = 0;
        r.task = me + 1;
        r.type = me;
        r.call = r.number = 0;
        MUST(corrupt, !mu_event_send(own(), &r, &payload, 8)); /* as muster_event_send() on the leader's host */
        told[me][i] = r.sequence + 1;
    }
    mortal = 0;
    return NULL;
}

static uint64_t position, payload;

/* The reader returns this event. */
static void delivered(struct mu_event_record *r, const uint64_t *record, size_t size)
{
    (void)r, (void)size;
    MUST(torn, payload == (uint64_t)PAYLOAD((int)(uint32_t)record[2] - 1) && record[0] < EVENTS + SENDERS * SENDS);
    MUST(order, record[0] == position);
#ifdef REACH_GOT
    MUST(got, false);
#endif
    pthread_exit(NULL);
}

static void *reader(void *arg)
{
    (void)arg;
    join_as(MAIN); /* it writes nothing */
    for (;;) {
        uint64_t before = position, lost;
        enum muster_status status = muster_event_read(handle(), &position, MUSTER_FOREVER, NULL, &payload, 8, &lost);

        MUST(corrupt, status == MUSTER_OUT_OF_RANGE);
        MUST(counted, lost && position == before + lost);
        /* the last of the lost is gone */
        MUST(counted, event_compare(view(), position - 1, mu_load_relaxed(word_of(view(), position - 1))) > 0);
#ifdef REACH_LOST
        MUST(lost, false);
#endif
        if (position >= GOES_ON)
            return NULL;
    }
}

/* Nothing is in flight any more: a block is LIVE and named by one word of the ring, or FREE. */
static void audit_ring(uint64_t sent)
{
    for (uint32_t i = 1; i <= MODEL_BLOCKS; i++) {
        uint64_t w = mu_load_relaxed(&mu_heap_block(view(), i, NULL)->word);
        uint32_t n = 0, live = MU_BLOCK_STATE(w) == MU_LIVE;

        for (uint32_t q = 0; q < EVENTS; q++)
            n += MU_WORD_INDEX(mu_load_relaxed(&view()->events[q])) == i;
        MUST(leak, MU_BLOCK_STATE(w) != MU_OWNED && live <= n);
        MUST(freed, live >= n);
    }
    MUST(holes, mu_load_relaxed(&view()->header->event_tail) <= sent);
    for (uint64_t q = sent - EVENTS; q < sent; q++)
        MUST(holes, MU_WORD_TAG(mu_load_relaxed(word_of(view(), q))) == q / EVENTS + 1);
}

int main(void)
{
    pthread_t threads[SENDERS], r;
    void *died = NULL;
    uint64_t sent = 0;

    (void)r;
    join_as(MAIN);
#ifndef NO_READER
    pthread_create(&r, NULL, reader, NULL);
#endif
    for (uint32_t i = 0; i < SENDERS; i++)
        pthread_create(&threads[i], NULL, sender, (void *)(uintptr_t)i);
#ifdef VICTIM
    kill_owner(0);
#endif
    pthread_join(threads[0], &died);
#ifdef VICTIM
    mu_scavenge(own(), NULL, NULL);
#endif
    for (uint32_t i = 1; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
#ifndef NO_READER
    pthread_join(r, NULL);
#endif
#ifdef REACH
    MUST(reach, !died);
#endif
    for (uint32_t q = 0; q < EVENTS; q++)
        sent += MU_WORD_TAG(mu_load_relaxed(&view()->events[q]));
    audit_ring(sent);
    /* what each sender was told is there, or a round or more behind; and nobody else was told the same */
    for (uint32_t i = 0; i < SENDERS; i++)
        for (uint32_t k = 0; k < SENDS; k++) {
            uint64_t q = told[i][k] - 1, w;
            struct mu_block *b;

            if (died && i == 0)
                continue;
            MUST(holes, told[i][k] && q >= EVENTS && q < sent && (!k || q > told[i][k - 1] - 1));
            MUST(doubles, i == 0 || died || q != told[0][k] - 1);
            w = mu_load_relaxed(word_of(view(), q));
            if (event_compare(view(), q, w))
                continue;
            b = mu_heap_block(view(), MU_WORD_INDEX(w), NULL);
            MUST(torn, mu_load_relaxed(&b->body[0]) == q && mu_load_relaxed(&b->body[5]) == PAYLOAD(i));
        }
    MUST(holes, died ? sent >= EVENTS + (SENDERS - 1) * SENDS : sent == EVENTS + SENDERS * SENDS);
    return 0;
}
