/*
 * tests/stream/executor.c: a queue and a thread for each stream.
 */
#include "executor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sync/shm.h"

enum { QUEUE = 4096, LOOKS = 200 };

struct item {
    struct mu_stream_op op;
    struct mu_stream_page *page; /* NULL: a kernel */
    cpu_kernel kernel;
    void *arg;
    uint64_t number;
};

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct item items[QUEUE];
    uint64_t put, taken, executed;
    bool hold, closing;
};

struct state {
    struct mu_stream_page *page;
};

bool cpu_executor_is_absent;

static void execute(const struct item *i)
{
    struct mu_stream_word *word;

    if (!i->page) {
        i->kernel(i->arg, i->number);
        return;
    }
    word = (struct mu_stream_word *)((char *)i->page + i->op.offset);
    if (i->op.kind == MU_STREAM_WRITE_32) {
        /* release: what the stream did before it, as the fence before CUDA's write */
        mu_store32_release(&word->arrived, (uint32_t)i->op.value);
        return;
    }
    for (unsigned looks = 0;; looks++) {
        /* acquire, both: pairs with the owner's write and with a release; each half only grows */
        uint64_t low = mu_load32_acquire(&word->arrived), high = mu_load32_acquire(&word->released);

        if ((int64_t)((high << 32 | low) - i->op.value) >= 0)
            return;
        if (looks < LOOKS)
            mu_pause();
        else
            mu_yield();
    }
}

static void *run(void *arg)
{
    struct CUstream_st *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct item i;

        while ((s->hold || s->taken == s->put) && !s->closing)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->taken == s->put)
            break;
        i = s->items[s->taken++ % QUEUE];
        pthread_mutex_unlock(&s->lock);
        execute(&i);
        pthread_mutex_lock(&s->lock);
        s->executed = s->taken;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct CUstream_st *cpu_stream_open(void)
{
    struct CUstream_st *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, run, s))
        abort();
    return s;
}

bool cpu_stream_is_empty(struct CUstream_st *s)
{
    bool empty;

    pthread_mutex_lock(&s->lock);
    empty = s->executed == s->put;
    pthread_mutex_unlock(&s->lock);
    return empty;
}

void cpu_stream_synchronize(struct CUstream_st *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->executed != s->put)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void cpu_stream_close(struct CUstream_st *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    free(s);
}

void cpu_stream_hold(struct CUstream_st *s, bool hold)
{
    pthread_mutex_lock(&s->lock);
    s->hold = hold;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* All of them at once, as one call of the driver; waits while the queue is full, as the driver does. */
static void put(struct CUstream_st *s, const struct item *items, uint32_t count)
{
    pthread_mutex_lock(&s->lock);
    while (s->put + count - s->executed > QUEUE)
        pthread_cond_wait(&s->changed, &s->lock);
    for (uint32_t i = 0; i < count; i++)
        s->items[s->put++ % QUEUE] = items[i];
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void cpu_stream_launch(struct CUstream_st *s, cpu_kernel kernel, void *arg, uint64_t number)
{
    struct item i = {.kernel = kernel, .arg = arg, .number = number};

    put(s, &i, 1);
}

static enum muster_status open_cpu(void **ret_state)
{
    struct state *s;

    if (cpu_executor_is_absent)
        return mu_fail(MUSTER_UNAVAILABLE, "this machine has no accelerator, says the test");
    s = calloc(1, sizeof *s);
    if (!s)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    *ret_state = s;
    return MUSTER_OK;
}

static enum muster_status map(void *state, struct mu_stream_page *page, size_t bytes, uint32_t rank, uint64_t *ret_base)
{
    struct state *s = state;

    (void)bytes;
    (void)rank;
    s->page = page;
    *ret_base = (uintptr_t)page;
    return MUSTER_OK;
}

static enum muster_status submit(void *state, struct CUstream_st *stream, const struct mu_stream_op *ops,
                                 uint32_t count)
{
    struct state *s = state;
    struct item items[MU_STREAM_OPS_MAX];

    memset(items, 0, sizeof items);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct item){.op = ops[i], .page = s->page};
    put(stream, items, count);
    return MUSTER_OK;
}

static bool close_cpu(void *state, struct mu_stream_page *page)
{
    (void)page;
    free(state);
    return true;
}

const struct mu_stream_executor cpu_executor = {open_cpu, map, submit, close_cpu};
