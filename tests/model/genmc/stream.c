/*
 * stream.c: the stream barrier's flags and their release under weak memory.
 *
 * Stands for: mu_stream_fail(), mu_stream_good() and mu_stream_arrived() in src/accel/stream_lines.c.
 *
 * Two members' streams meet once, each after a word of data: as a GPU does, a stream writes its flag with release (the
 * fence before the write) and reads the two halves of the other's at different times, with acquire. Meanwhile one or
 * two hosts find the barrier failed, whoever is to blame. What a stream finds behind its wait: either all have arrived
 * and their data are there, or `failed` is set. And where `failed` calls the round sound, the data are there though the
 * wait was opened by force.
 *
 * RUN short ok    -                              : one host fails the barrier
 * RUN full  ok    -DHOSTS=2                      : two do
 * RUN full  reach -DREACH_FORCE                  : a wait is opened by force
 * RUN short reach -DREACH_SOUND                  : by force, in a round that is sound
 * RUN short told  -DBREAK_RELEASE_RELAXED        : releases are relaxed
 * RUN full  told  -DBREAK_RELEASED_FIRST         : waits are opened before the failure is told
 * RUN short sound -DBREAK_GOOD_RELAXED           : arrivals are counted without acquiring
 * RUN short data  -DBREAK_WRITE_RELAXED          : a stream's write has no fence before it
 */
#ifndef HOSTS
#define HOSTS 1
#endif
#include <assert.h>
#include <genmc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define MUST(what, condition) assert((condition) || !#what)
#ifdef MODEL_MARK
int MODEL_MARK;
#endif

#include "accel/stream.h"
#include "sync/futex.h"

#ifdef BREAK_RELEASE_RELAXED
#define mu_store32_release(p, v) mu_store32_relaxed(p, v)
#endif
#ifdef BREAK_GOOD_RELAXED
#define mu_load32_acquire(p) mu_load32_relaxed(p)
#endif
#include "accel/stream_lines.c"
#undef mu_store32_release
#undef mu_load32_acquire

static struct mu_stream_page page;
static _Atomic(int) data[2];

void mu_point(const volatile void *address)
{
    (void)address;
}

void mu_futex_wake(mu_a64 *word)
{
    (void)word;
}

/* The wait of 64 bits. True: by the arrival; false: by force. */
static bool pass(const struct mu_stream_word *word)
{
    bool arrived, released;

    __VERIFIER_loop_begin();
    for (;;) {
        __VERIFIER_spin_start();
        arrived = mu_load32_acquire(&word->arrived) >= 1;
        released = mu_load32_acquire(&word->released) != 0;
        __VERIFIER_spin_end(arrived || released);
        if (arrived || released)
            break;
    }
    return arrived;
}

static void *stream(void *arg)
{
    int me = arg != NULL, peer = !me, seen;
    bool arrived;
    uint64_t failed;

    atomic_store_explicit(&data[me], 1, memory_order_relaxed);
#ifdef BREAK_WRITE_RELAXED
    mu_store32_relaxed(&page.lines[me].words[0].arrived, 1);
#else
    mu_store32_release(&page.lines[me].words[0].arrived, 1);
#endif
    arrived = pass(&page.lines[peer].words[0]);
    failed = mu_load_acquire(&page.failed);
    seen = atomic_load_explicit(&data[peer], memory_order_relaxed);
    MUST(told, arrived || failed);
    MUST(data, !arrived || seen);
    MUST(sound, !failed || MU_STREAM_GOOD(failed) < 1 || seen);
#ifdef REACH_FORCE
    MUST(reach, arrived);
#endif
#ifdef REACH_SOUND
    MUST(reach, arrived || MU_STREAM_GOOD(failed) < 1);
#endif
    return NULL;
}

static void *host(void *arg)
{
#ifdef BREAK_RELEASED_FIRST
    mu_store32_release(&page.lines[0].words[0].released, 1);
#endif
    mu_stream_fail(&page, 2, 1, arg != NULL, MU_STREAM_LOST);
    return NULL;
}

int main(void)
{
    pthread_t streams[2], hosts[HOSTS];
    uint64_t failed;

    pthread_create(&streams[0], NULL, stream, NULL);
    pthread_create(&streams[1], NULL, stream, &page);
    pthread_create(&hosts[0], NULL, host, NULL);
#if HOSTS > 1
    pthread_create(&hosts[1], NULL, host, &page);
#endif
    pthread_join(hosts[0], NULL);
    failed = mu_load_acquire(&page.failed);
    pthread_join(streams[0], NULL);
    pthread_join(streams[1], NULL);
#if HOSTS > 1
    pthread_join(hosts[1], NULL);
#endif
    MUST(final, failed && mu_load_acquire(&page.failed) == failed);
    return 0;
}
