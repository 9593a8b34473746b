/*
 * bench/wait.c: a get that waits: from just before the set to the reader's return, beside what the hardware allows, and
 * what it is made of.
 *
 * Two processes on two processors. In turn, so that all see the same machine:
 *   wait.spin    line     the reader spins on a plain word; the setter stores into it
 *   wait.spin    N lines  the same, but behind the word the reader follows N - 1 more, each named by the one before,
 * which the setter wrote just before: seventeen sets of them take turns, as a thread's blocks do wait.spin    muster
 * the reader is in muster_kv_get() of an absent key since half a microsecond; muster_kv_set() wait.over    muster   the
 * reader is in muster_kv_watch() of a key that is there; muster_kv_set() overwrites it wait.set     muster
 * muster_kv_set() of an absent key until it returns, while nobody waits for it wait.set     waited   the same of the
 * rounds of wait.spin: the reader looks at the bucket all the while wait.get     muster   muster_kv_get() of a key that
 * the other process has just set; nobody waits wait.parked  futex    the reader sleeps in FUTEX_WAIT since 300 us; the
 * setter stores and calls FUTEX_WAKE wait.parked  muster   the reader is in muster_kv_get() since 300 us, so asleep;
 * muster_kv_set() Both ends read the same TSC (or CLOCK_MONOTONIC); its offset between the processors is below the
 * one-way line.
 *
 * Usage: wait ROUNDS
 */
#include "job.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum row {
    SPIN_LINE,
    SPIN_LINES_2,
    SPIN_LINES_3,
    SPIN_LINES_4,
    SPIN_MUSTER,
    OVER_MUSTER,
    SET_MUSTER,
    GET_MUSTER,
    PARKED_FUTEX,
    PARKED_MUSTER,
    NUM_ROWS,
    SET_WAITED = NUM_ROWS, /* measured in the rounds of SPIN_MUSTER */
    NUM_RESULTS
};

enum { SETS = 17, LINES_MAX = 4 };

static const struct {
    const char *metric, *who;
    uint64_t delay_ns;
} rows[NUM_RESULTS] = {
    [SPIN_LINE] = {"wait.spin", "line", 500},          [SPIN_LINES_2] = {"wait.spin", "2 lines", 500},
    [SPIN_LINES_3] = {"wait.spin", "3 lines", 500},    [SPIN_LINES_4] = {"wait.spin", "4 lines", 500},
    [SPIN_MUSTER] = {"wait.spin", "muster", 500},      [OVER_MUSTER] = {"wait.over", "muster", 500},
    [SET_MUSTER] = {"wait.set", "muster", 500},        [GET_MUSTER] = {"wait.get", "muster", 500},
    [PARKED_FUTEX] = {"wait.parked", "futex", 300000}, [PARKED_MUSTER] = {"wait.parked", "muster", 300000},
    [SET_WAITED] = {"wait.set", "waited", 500},
};

struct line {
    _Alignas(BENCH_LINE) _Atomic uint64_t next; /* the set in which to go on */
};

struct handoff {
    _Alignas(BENCH_LINE) _Atomic uint64_t ready;    /* reader: about to wait for the nth time */
    _Alignas(BENCH_LINE) _Atomic uint32_t word;     /* setter: the raw rows' word */
    _Alignas(BENCH_LINE) _Atomic uint64_t returned; /* reader: n times back, the two below are set */
    uint64_t began, at;
    struct line lines[SETS][LINES_MAX];
};

struct side {
    struct muster *muster;
    struct handoff *handoff;
    uint64_t version; /* of the key "over", as the reader saw it last */
};

/* How many lines a row hands over; 0: it is not one of these. */
static int lines_of(enum row row)
{
    return row <= SPIN_LINES_4 ? (int)(row - SPIN_LINE) + 1 : row == GET_MUSTER || row == SET_MUSTER ? 1 : 0;
}

static void get(struct side *self)
{
    char value[8];
    size_t len;

    if (muster_kv_get(self->muster, "wait", 4, MUSTER_FOREVER, value, sizeof(value), &len, NULL))
        bench_die("muster_kv_get: %s", muster_last_error());
}

static void wait_once(struct side *self, enum row row, uint32_t round)
{
    struct handoff *handoff = self->handoff;
    uint64_t at = round % SETS;
    char value[8];
    size_t len;

    if (lines_of(row)) {
        /* acquire, as the next: pairs with the releases of release_once() */
        while (atomic_load_explicit(&handoff->word, memory_order_acquire) != round)
            bench_pause();
        for (int i = 1; i < lines_of(row); i++)
            at = atomic_load_explicit(&handoff->lines[at][i].next, memory_order_acquire);
        if (at >= SETS)
            bench_die("a line names set %" PRIu64, at);
    }
    handoff->began = bench_ticks();
    switch (row) {
    case PARKED_FUTEX:
        for (uint32_t now; (now = atomic_load_explicit(&handoff->word, memory_order_acquire)) != round;)
            syscall(SYS_futex, &handoff->word, FUTEX_WAIT, now, NULL, NULL, 0);
        break;
    case OVER_MUSTER:
        if (muster_kv_watch(self->muster, "over", 4, self->version, MUSTER_FOREVER, value, sizeof(value), &len,
                            &self->version))
            bench_die("muster_kv_watch: %s", muster_last_error());
        break;
    case SPIN_MUSTER:
    case GET_MUSTER:
    case PARKED_MUSTER: get(self); break;
    default: break;
    }
    handoff->at = bench_ticks();
}

static void reader(struct side *self, uint32_t rounds)
{
    struct handoff *handoff = self->handoff;
    char value[8];
    size_t len;

    bench_ok(muster_kv_get(self->muster, "over", 4, MUSTER_FOREVER, value, sizeof(value), &len, &self->version), "get");
    for (uint32_t round = 1; round <= rounds; round++) {
        atomic_store(&handoff->ready, round);
        wait_once(self, round % NUM_ROWS, round);
        atomic_store(&handoff->returned, round);
        /* The key must be gone before the next wait for it. */
        while (atomic_load(&handoff->ready) == round)
            bench_pause();
    }
}

static void set(struct side *self, const char *key)
{
    if (muster_kv_set(self->muster, key, 4, "x", 1, NULL))
        bench_die("muster_kv_set: %s", muster_last_error());
}

/* What the row waits for; returns when it began, *ret_end: when the set had returned. */
static uint64_t release_once(struct side *self, enum row row, uint32_t round, uint64_t *ret_end)
{
    struct handoff *handoff = self->handoff;
    uint64_t start = bench_ticks();

    if (row == OVER_MUSTER)
        set(self, "over");
    else if (row == SPIN_MUSTER || row == SET_MUSTER || row == GET_MUSTER || row == PARKED_MUSTER)
        set(self, "wait");
    *ret_end = bench_ticks();
    for (int i = lines_of(row) - 1; i > 0; i--)
        atomic_store_explicit(&handoff->lines[round % SETS][i].next, round % SETS, memory_order_release);
    if (lines_of(row) || row == PARKED_FUTEX)
        atomic_store_explicit(&handoff->word, round, memory_order_release);
    if (row == PARKED_FUTEX)
        syscall(SYS_futex, &handoff->word, FUTEX_WAKE, 1, NULL, NULL, 0);
    return start;
}

static void setter(struct side *self, struct bench_samples *samples, uint32_t rounds)
{
    struct handoff *handoff = self->handoff;

    for (uint32_t round = 1; round <= rounds; round++) {
        enum row row = round % NUM_ROWS;
        uint64_t start, end;
        while (atomic_load(&handoff->ready) != round)
            bench_pause();
        bench_spin_ns(rows[row].delay_ns);
        start = release_once(self, row, round, &end);
        while (atomic_load(&handoff->returned) != round)
            bench_pause();
        if (row == SET_MUSTER)
            bench_add(&samples[row], end - start);
        else
            bench_add(&samples[row], handoff->at - (row == GET_MUSTER ? handoff->began : start));
        if (row == SPIN_MUSTER)
            bench_add(&samples[SET_WAITED], end - start);
        if (row == SPIN_MUSTER || row == SET_MUSTER || row == GET_MUSTER || row == PARKED_MUSTER)
            bench_ok(muster_kv_delete(self->muster, "wait", 4, NULL), "muster_kv_delete");
        atomic_store(&handoff->ready, 0);
    }
}

int main(int argc, char **argv)
{
    struct side self = {.handoff = bench_shared(sizeof(*self.handoff))};
    struct bench_samples samples[NUM_RESULTS];
    struct bench_cpus cpus;
    struct bench_job job;
    uint32_t rounds;
    double tick_ns;
    pid_t child;

    if (argc != 2)
        bench_die("usage: wait ROUNDS");
    rounds = (uint32_t)bench_number(argv[1], 1, 1e6) * NUM_ROWS;
    alarm(120);
    bench_cpus_read(&cpus);
    if (cpus.count < 2)
        bench_die("needs two processors, may use %d", cpus.count);
    tick_ns = bench_tick_ns();
    bench_job_init(&job, "wait", 2);
    child = bench_fork(120);
    self.muster = bench_job_join(&job, child == 0, 0);
    bench_pin(&cpus, child == 0);
    if (child == 0) {
        reader(&self, rounds);
    } else {
        for (int row = 0; row < NUM_RESULTS; row++)
            bench_samples_init(&samples[row], rounds / NUM_ROWS);
        set(&self, "over");
        setter(&self, samples, rounds);
        for (int row = 0; row < NUM_RESULTS; row++)
            bench_emit(rows[row].metric, rows[row].who, &samples[row], tick_ns, 1, 1);
    }
    bench_ok(muster_leave(self.muster), "muster_leave");
    if (child)
        bench_reap(child, "the reader");
    return 0;
}
