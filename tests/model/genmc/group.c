/*
 * group.c: the group barrier: arriving, giving up, closing.
 *
 * Stands for: member_arrive(), has_signed(), instance_barrier(), arrivals_scan(), wait_slowly(), instance_settle(),
 * mu_area_close() and mu_group_close() in src/barrier/collective.c.
 *
 * Two or three members meet, each after writing a word of data; once, or INSTANCES times in a row. Each looks once at
 * each sign (nobody spins), then at signs and arrival words. A member that may die is declared lost when the kernel has
 * reported its death; a member with a deadline may give up. All who return have the same outcome; OK means that all had
 * arrived and that the data of all can be read. A wait, mu_wait_on(), ends when the word or the epoch changes, as
 * sleep.c shows.
 *
 * RUN full  ok      -                             : all arrive
 * RUN short ok      -DMEMBERS=2 -DINSTANCES=2     : two members, two instances
 * RUN full  ok      -DMEMBERS=2 -DINSTANCES=3     : two members, three instances: the buffers are used again
 * RUN short ok      -DMEMBERS=2 -DVICTIM          : two members, the first may die at any access
 * RUN short ok      -DMEMBERS=2 -DDEADLINE        : two members, the second may give up
 * RUN short reach   -DMEMBERS=2 -DVICTIM -DREACH  : the barrier does fail
 * RUN short uniform -DDEADLINE -DBREAK_NO_CLOSING : who gives up closes nobody
 * RUN short arrived -DMEMBERS=2 -DVICTIM -DBREAK_SIGN_FIRST : the sign is stored before the CAS
 * RUN short data    -DMEMBERS=2 -DBREAK_RELAXED_WORDS : arrival words are read without acquiring
 * RUN short data    -DMEMBERS=2 -DBREAK_RELAXED_SIGNS : signs are read without acquiring
 * RUN short data    -DMEMBERS=2 -DBREAK_SIGN_NOT_RELEASED : the sign is stored without release
 * RUN short data    -DMEMBERS=2 -DINSTANCES=2 -DBREAK_ONE_BUFFER : data of every instance lie in one buffer
 * RUN short hang    -DMEMBERS=2 -DVICTIM -DBREAK_NO_EPOCH : a death does not move the epoch
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef INSTANCES
#define INSTANCES 1
#endif
#include <assert.h>
#include <genmc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MUST(what, condition) assert((condition) || !#what)
#ifdef MODEL_MARK
int MODEL_MARK;
#endif

#include "barrier/group.h"
#include "base/clock.h"
#include "segment/wait.h"
#include "sync/futex.h"

/* Nothing here needs a slot or a handle; a word of the model says who is lost. */
#define mu_enter(muster, ret_ctx)      (*(ret_ctx) = NULL, MUSTER_OK)
#define mu_enter_light()               ((void)0)
#define mu_exit_light()                ((void)0)
#define mu_handle_context(muster, ctx) (*(ctx) = NULL, MUSTER_OK)
#define mu_handle_peek(muster)         ((struct mu_ctx *)NULL)
#define mu_enter_read(muster)          MUSTER_OK
#define mu_enter_handle(muster)        MUSTER_OK
#define mu_enter_segment(muster)       MUSTER_OK
#define mu_exit_read()                 ((void)0)
#define mu_handle_usable(muster)       true
#define mu_handle_refuse(muster)       MUSTER_INTERNAL
#define mu_wait_begin(w, s, c, d, t)   ((w)->epoch = 0, (w)->yields = 0)
#define mu_wait_end(w)                 ((void)(w))
#define mu_cluster_name(s, t, r, n, z) ((void)(n))
/* All members are on one host. */
#define mu_span_word(g, i)             mu_load_acquire(&(g)->areas[i]->arrived)
#define mu_span_verdict(g, n, r, d, k) MUSTER_INTERNAL
#define mu_span_arrived(g, n)          ((void)(n))
#define mu_bell_ring(seg)              ((void)(seg))
#define mu_host_bridge_state(seg)      MU_BRIDGE_UP
enum { AREA_WORDS = sizeof(struct mu_area) / 8 + 2 };
static uint64_t area[MEMBERS][AREA_WORDS];
static bool model_is_sign(const mu_a64 *p)
{
    size_t at = (size_t)((const uint8_t *)p - (const uint8_t *)area) % sizeof area[0];

    return at >= offsetof(struct mu_area, sign) && at < offsetof(struct mu_area, data);
}
#ifdef BREAK_RELAXED_WORDS
#define mu_load_acquire(p) (model_is_sign(p) ? (mu_load_acquire)(p) : mu_load_relaxed(p))
#endif
#ifdef BREAK_RELAXED_SIGNS
#define mu_load_acquire(p) (model_is_sign(p) ? mu_load_relaxed(p) : (mu_load_acquire)(p))
#endif
#ifdef BREAK_SIGN_NOT_RELEASED /* the only store-release in there */
#define mu_store_release(p, v) mu_store_relaxed(p, v)
#endif
static _Atomic(int) lost[MEMBERS];
static mu_a32 epoch;
static enum muster_status model_look(uint32_t task, struct mu_task_record *record);
#define mu_cluster_task(s, task, record, text, c) model_look(task, record)
#ifdef BREAK_NO_CLOSING /* who gives up fails, and does not tell */
#define mu_cas_seen(p, seen, next) (((next)&MU_ARRIVED_CLOSED) || (mu_cas_seen)(p, seen, next))
#endif
#ifdef BREAK_SIGN_FIRST
#define AREA_OF(word) ((struct mu_area *)(void *)((uint8_t *)(word)-offsetof(struct mu_area, arrived)))
#define mu_cas_seen(p, seen, next)                                                                                     \
    ((((next)&MU_ARRIVED_CLOSED) || (mu_store_release(&AREA_OF(p)->sign[instance & 1].instance, instance), true)) &&   \
     (mu_cas_seen)(p, seen, next))
#endif
#include "barrier/group_fault.c"
#include "barrier/collective.c"
#undef mu_load_acquire
#undef mu_store_release
#undef mu_cas_seen

static enum muster_status model_look(uint32_t task, struct mu_task_record *record)
{
    record->state = atomic_load_explicit(&lost[task], memory_order_relaxed) ? MUSTER_TASK_ERROR : MUSTER_TASK_CONNECTED;
    record->incarnation = 1;
    return MUSTER_OK;
}

static _Atomic(int) doom;
static _Thread_local bool mortal;

void mu_point(const volatile void *address)
{
    (void)address;
    if (mortal && atomic_load_explicit(&doom, memory_order_relaxed))
        pthread_exit(&doom);
}

void mu_futex_wake(mu_a64 *word)
{
    (void)word;
}

void mu_wait_look(struct mu_wait *w)
{
    w->epoch = mu_load32_acquire(&epoch);
}

static _Thread_local bool impatient;

/* Until the word or the epoch changes; or, for who has a deadline, no longer. */
enum muster_status mu_wait_on(struct mu_wait *w, mu_a64 *word, uint64_t seen)
{
    uint32_t noted = w->epoch;

    if (impatient)
        return MUSTER_DEADLINE_EXCEEDED;
    __VERIFIER_loop_begin();
    for (;;) {
        bool changed;

        __VERIFIER_spin_start();
        changed = atomic_load_explicit(word, memory_order_relaxed) != seen ||
                  atomic_load_explicit(&epoch, memory_order_relaxed) != noted;
        __VERIFIER_spin_end(changed);
        if (changed)
            break;
    }
    return MUSTER_OK;
}

static struct mu_area *areas[MEMBERS];
static struct mu_group_member members[MEMBERS];
static struct muster handle;
static struct muster_group groups[MEMBERS];

/* What a member writes for an instance, and where. */
#define DATA(rank, n) ((n)*10 + (rank) + 1)
#ifdef BREAK_ONE_BUFFER
#define BUFFER(n) 1
#else
#define BUFFER(n) (n)
#endif

static void *member(void *arg)
{
    struct muster_group *g = arg;
    enum muster_status status = MUSTER_OK;

#ifdef VICTIM
    mortal = g->rank == 0;
#endif
#ifdef DEADLINE
    impatient = g->rank == 1;
#endif
    for (uint32_t n = 1; n <= INSTANCES && !status; n++) {
        mu_store_relaxed(buffer_of(g, g->rank, BUFFER(n)), DATA(g->rank, n));
        status = instance_barrier(g, n, MUSTER_FOREVER);
        for (uint32_t i = 0; i < MEMBERS && !status; i++)
            MUST(data, mu_load_relaxed(buffer_of(g, i, BUFFER(n))) == DATA(i, n));
    }
    mortal = false;
    return (void *)(uintptr_t)(status + 1);
}

int main(void)
{
    pthread_t threads[MEMBERS];
    void *outcome[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++) {
        areas[i] = (struct mu_area *)area[i];
        members[i].task = i;
        members[i].incarnation = 1;
        groups[i].muster = &handle;
        groups[i].mine = areas[i];
        groups[i].rank = i;
        groups[i].size = MEMBERS;
        groups[i].data_bytes = 8;
        groups[i].members = members;
        groups[i].areas = groups[i].waits = areas;
        groups[i].num_waits = MEMBERS;
        groups[i].place = i;
        groups[i].is_plain = true;
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        pthread_create(&threads[i], NULL, member, &groups[i]);
#ifdef VICTIM
    atomic_store_explicit(&doom, 1, memory_order_relaxed);
    pthread_join(threads[0], &outcome[0]);
    if (outcome[0] == (void *)&doom) {
        atomic_store_explicit(&lost[0], 1, memory_order_relaxed);
#ifndef BREAK_NO_EPOCH
        mu_fetch_add32(&epoch, 1);
#endif
        outcome[0] = NULL;
    }
#else
    pthread_join(threads[0], &outcome[0]);
#endif
    for (uint32_t i = 1; i < MEMBERS; i++) {
        pthread_join(threads[i], &outcome[i]);
        MUST(uniform, i < 2 || outcome[i] == outcome[1]);
    }
    MUST(uniform, !outcome[0] || outcome[0] == outcome[1]);
    for (uint32_t i = 0; i < MEMBERS; i++)
        MUST(arrived, outcome[1] != (void *)(uintptr_t)(MUSTER_OK + 1) ||
                          mu_has_arrived(mu_load_relaxed(&areas[i]->arrived), INSTANCES));
#ifdef REACH
    MUST(reach, outcome[1] == (void *)(uintptr_t)(MUSTER_OK + 1));
#endif
    return 0;
}
