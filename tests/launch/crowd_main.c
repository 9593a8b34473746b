/*
 * tests/launch/crowd_main.c: a task whose threads take every slot of its job while its launcher is stopped, and hold
 * them until the launcher has had time to come: crowd. Status 0: the job goes on; 7: a call failed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

enum { THREADS_MAX = 512 };

static struct muster *m;
static _Atomic int refused; /* relaxed, with joins and a barrier around: a count */
static pthread_barrier_t all_have_tried, may_end;

static void *writes(void *arg)
{
    (void)arg;
    if (muster_kv_set(m, "a", MUSTER_NTS, "b", 1, NULL) == MUSTER_RESOURCE_EXHAUSTED)
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed); /* relaxed, process-local: see above */
    pthread_barrier_wait(&all_have_tried);
    pthread_barrier_wait(&may_end);
    return NULL;
}

int main(void)
{
    const struct timespec while_the_launcher_comes = {.tv_nsec = 300000000};
    struct muster_segment_info info;
    pthread_t threads[THREADS_MAX];
    pthread_attr_t small;
    unsigned count;

    kill(getppid(), SIGSTOP);
    if (muster_join(NULL, &m) != MUSTER_OK || muster_segment_info(muster_segment_of(m), &info) != MUSTER_OK ||
        info.num_slots > THREADS_MAX) {
        fprintf(stderr, "crowd: %s\n", muster_last_error());
        kill(getppid(), SIGCONT);
        return 7;
    }
    count = info.num_slots; /* one more than there can be, for the task has one itself */
    pthread_barrier_init(&all_have_tried, NULL, count + 1);
    pthread_barrier_init(&may_end, NULL, count + 1);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], &small, writes, NULL))
            abort();
    pthread_barrier_wait(&all_have_tried);
    kill(getppid(), SIGCONT);
    nanosleep(&while_the_launcher_comes, NULL); /* sleep: what it finds then is no matter of time */
    pthread_barrier_wait(&may_end);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%s\n", atomic_load_explicit(&refused, memory_order_relaxed) ? "full" : "not full"); /* process-local */
    return muster_leave(m) == MUSTER_OK ? 0 : 7;
}
