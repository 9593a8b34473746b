/*
 * tests/bridgesim/tasks.c: tasks as coroutines, and what the library asks of the kernel.
 *
 * A task runs until it sleeps on a word, and may run again when the word, or the epoch, is another, or its time has
 * come. No wake-up is looked at: that none is lost is what tests/sim shows.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "segment/slot.h"
#include "sim.h"

enum { STACK = 192 * 1024 };

static ucontext_t scheduler;

static void entry(void)
{
    struct sim_task *t = sim.current;

    t->body(t);
    t->state = SIM_OVER;
    t->inside = 0;
    swapcontext(&t->context, &scheduler);
    abort();
}

/* Stacks are kept from run to run. */
static uint8_t *stack_of(size_t number)
{
    static uint8_t *stacks;
    static size_t count;

    if (!stacks)
        stacks = mmap(NULL, STACK * (count = sim.num_tasks > 16 ? sim.num_tasks : 16), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED || number >= count)
        abort();
    return stacks + number * STACK;
}

void sim_task_start(struct sim_task *t, void (*body)(struct sim_task *t))
{
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stack_of((size_t)(t - sim.tasks));
    t->context.uc_stack.ss_size = STACK;
    t->context.uc_link = NULL;
    makecontext(&t->context, entry, 0);
    t->body = body;
    t->state = SIM_READY;
    t->last_use.handle_id = 0;
}

static bool word_moved(const struct sim_task *t)
{
    /* the kernel's look before it lets a thread sleep: no order is asked of it */
    return (t->word && (uint32_t)mu_load_relaxed(t->word) != t->value) ||
           (t->epoch && mu_load32_relaxed(t->epoch) != t->seen);
}

bool sim_task_can_run(const struct sim_task *t)
{
    return t->state == SIM_READY || (t->state == SIM_ASLEEP && (sim.now >= t->until || word_moved(t)));
}

void sim_task_run(struct sim_task *t)
{
    struct mu_last_use own = mu_last_use;

    sim.current = t;
    t->state = SIM_READY;
    mu_inside = t->inside;
    mu_last_use = t->last_use;
    swapcontext(&scheduler, &t->context);
    t->last_use = mu_last_use;
    mu_last_use = own;
    mu_inside = 0;
    sim.current = NULL;
}

static void sleep_until(uint64_t until)
{
    struct sim_task *t = sim.current;

    t->until = sim_instant(t->host, until);
    t->state = SIM_ASLEEP;
    t->inside = mu_inside;
    swapcontext(&t->context, &scheduler);
}

/* ---- instead of the kernel --------------------------------------------------------------------------------------- */

uint64_t __wrap_mu_now(void);
void __wrap_mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen,
                          muster_deadline deadline);
void __wrap_mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline);
void __wrap_mu_random(void *buffer, size_t length);
unsigned __wrap_mu_processors(void);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_sched_yield(void);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_consistent(pthread_mutex_t *m);
int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);

uint64_t __wrap_mu_now(void)
{
    return sim_clock(sim.current ? sim.current->host : sim.at);
}

void __wrap_mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen,
                          muster_deadline deadline)
{
    struct sim_task *t = sim.current;

    SIM_CHECK(t, "an agent sleeps on a word");
    t->word = word;
    t->epoch = epoch;
    t->value = value;
    t->seen = seen;
    sleep_until(deadline);
}

void __wrap_mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline)
{
    struct sim_task *t = sim.current;
    uint64_t now;

    (void)words;
    (void)values;
    (void)count;
    SIM_CHECK(t, "an agent sleeps on words");
    t->word = NULL;
    t->epoch = NULL;
    now = sim_clock(sim.current->host);
    sleep_until(deadline < now + 1000000 ? deadline : now + 1000000);
}

void __wrap_mu_random(void *buffer, size_t length)
{
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)buffer)[i] = (uint8_t)sim_random(256);
}

unsigned __wrap_mu_processors(void)
{
    return 0; /* fewer than tasks: nobody spins */
}

int __wrap_sched_yield(void)
{
    return 0; /* nobody else runs before this one sleeps */
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    SIM_CHECK(sim.current, "an agent sleeps");
    sim.current->word = NULL;
    sim.current->epoch = NULL;
    sleep_until(sim_clock(sim.current->host) + (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
    return 0;
}

/* A slot's liveness is the only robust mutex that there is. Its word is written as libc and the kernel would. */
static bool is_robust(const pthread_mutex_t *m)
{
    return m->__data.__kind & 16;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
    uint32_t *word = (uint32_t *)&m->__data.__lock;

    if (!is_robust(m))
        return __real_pthread_mutex_trylock(m);
    if (*word & FUTEX_TID_MASK)
        return EBUSY;
    *word = (uint32_t)gettid() | (*word & FUTEX_OWNER_DIED);
    return *word & FUTEX_OWNER_DIED ? EOWNERDEAD : 0;
}

int __wrap_pthread_mutex_consistent(pthread_mutex_t *m)
{
    m->__data.__lock &= (int)~FUTEX_OWNER_DIED;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (!is_robust(m))
        return __real_pthread_mutex_unlock(m);
    m->__data.__lock = 0;
    return 0;
}

void sim_task_kill(struct sim_task *t)
{
    sim_say("task %u dies", t->id);
    sim_totals.task_deaths++;
    sim_slot_kill(t->m);
    t->state = SIM_DEAD;
    sim.died = true;
    sim.hosts[t->host].buries = sim.hosts[t->host].awake = true;
}

void sim_slot_kill(struct muster *m)
{
    struct muster_segment *seg = m->seg;

    for (uint32_t i = 0; i < mu_slot_high(seg); i++)
        if (mu_handle_holds(m, &seg->slots[i]))
            mu_store32_release(mu_slot_liveness(seg, i), FUTEX_OWNER_DIED); /* release: as the kernel's */
}
