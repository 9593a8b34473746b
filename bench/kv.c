/*
 * bench/kv.c: the key-value store of one task, and what its memory would cost without a store.
 *
 * KEYS keys of 64-byte values are set; then each row runs in turn, several times over, so that all see the same
 * machine. An operation is some tens of nanoseconds, a tick of a virtual machine's TSC about ten: a sample is the mean
 * of 32 operations. "hot" is always the same key; "uniform" picks at random, without waiting for the value before;
 * "chained" picks by the value just read, so that no two operations overlap.
 *
 * The limit, "loads", is three dependent random loads an operation, chained the same way, over memory of the same kind
 * (shared, 4 KiB pages) and the same size: the first in an array as large as the index (8 bytes a bucket), the others
 * in lines as many as the bytes of the live blocks, both read from the segment that was just measured.
 *
 * Usage: kv SECONDS KEYS     (seconds for each row)
 */
#include "job.h"
#include "keys.h"

#define BATCH   32
#define ROUNDS  4
#define BUCKETS 65536

struct store {
    struct muster *muster;
    uint32_t keys;
    uint64_t random;
    uint32_t fresh; /* number of the next key to insert */
    char value[BENCH_VALUE_LEN];
    char got[BENCH_VALUE_LEN];
    uint32_t *index; /* the limit's memory: */
    uint32_t index_mask;
    uint32_t *lines; /* 16 words each */
    uint32_t num_lines;
    uint32_t seen; /* what the last chained operation read */
};

typedef void (*operation)(struct store *store);

static inline void get(struct store *store, uint32_t number)
{
    char key[BENCH_KEY_ROOM];
    size_t len;

    bench_key(key, number);
    if (muster_kv_try_get(store->muster, key, BENCH_KEY_LEN, store->got, sizeof(store->got), &len, NULL) ||
        len != BENCH_VALUE_LEN)
        bench_die("muster_kv_try_get %s: %s", key, muster_last_error());
}

static inline void set(struct store *store, uint32_t number)
{
    char key[BENCH_KEY_ROOM];

    bench_key(key, number);
    if (muster_kv_set(store->muster, key, BENCH_KEY_LEN, store->value, sizeof(store->value), NULL))
        bench_die("muster_kv_set %s: %s", key, muster_last_error());
}

static inline uint32_t pick(struct store *store)
{
    return bench_below((uint32_t)(bench_random(&store->random) >> 32), store->keys);
}

static inline void get_hot(struct store *store)
{
    get(store, 0);
}

static inline void get_uniform(struct store *store)
{
    get(store, pick(store));
}

static inline void get_chained(struct store *store)
{
    uint32_t word;

    memcpy(&word, store->got + 20, sizeof(word));
    get(store, bench_below((uint32_t)(bench_random(&store->random) >> 32) ^ word, store->keys));
}

static inline void set_hot(struct store *store)
{
    set(store, 0);
}

static inline void set_uniform(struct store *store)
{
    set(store, pick(store));
}

static inline void increment(struct store *store)
{
    int64_t sum;

    if (muster_kv_increment(store->muster, "counter", 7, 1, &sum))
        bench_die("muster_kv_increment: %s", muster_last_error());
}

static inline void insert(struct store *store)
{
    char key[BENCH_KEY_ROOM];

    bench_key(key, store->fresh++);
    memcpy(key, "fresh", 5);
    if (muster_kv_insert(store->muster, key, BENCH_KEY_LEN, store->value, sizeof(store->value)))
        bench_die("muster_kv_insert %s: %s", key, muster_last_error());
}

/* Random numbers turn the contents into fresh places, so that the walk never falls into a short cycle. */
static inline void load_three(struct store *store)
{
    uint64_t random = bench_random(&store->random);
    uint32_t word = store->index[(store->seen ^ (uint32_t)random) & store->index_mask];

    word = store->lines[16 * (size_t)bench_below(word ^ (uint32_t)(random >> 16), store->num_lines)];
    store->seen = store->lines[16 * (size_t)bench_below(word ^ (uint32_t)(random >> 32), store->num_lines)];
}

__attribute__((always_inline)) static inline void run(struct store *store, struct bench_samples *samples, operation op,
                                                      double seconds, uint64_t most)
{
    uint64_t end = bench_now_ns() + (uint64_t)(seconds / ROUNDS * 1e9);

    for (uint64_t done = 0; done < most && bench_goes_on(samples, end); done += BATCH) {
        uint64_t start = bench_ticks();
        for (int i = 0; i < BATCH; i++)
            op(store);
        bench_add(samples, bench_ticks() - start);
    }
}

static void *shared_memory(size_t bytes)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);
    void *memory;

    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        bench_die("memfd of %zu bytes: %s", bytes, strerror(errno));
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        bench_die("mmap %zu bytes: %s", bytes, strerror(errno));
    close(fd);
    return memory;
}

/* Fill the store and size the limit's memory by what that took. */
static void fill(struct store *store)
{
    struct muster_segment *segment = muster_segment_of(store->muster);
    struct muster_segment_info empty, full;
    struct muster_audit before, after;
    char key[BENCH_KEY_ROOM], value[BENCH_VALUE_LEN];
    uint64_t bytes;

    bench_ok(muster_segment_info(segment, &empty), "muster_segment_info");
    bench_ok(muster_segment_check(segment, NULL, NULL, &before), "muster_segment_check");
    for (uint32_t number = 0; number < store->keys; number++) {
        bench_key(key, number);
        bench_value(value, number);
        bench_ok(muster_kv_set(store->muster, key, BENCH_KEY_LEN, value, sizeof(value), NULL), "muster_kv_set");
    }
    bench_ok(muster_segment_info(segment, &full), "muster_segment_info");
    bench_ok(muster_segment_check(segment, NULL, NULL, &after), "muster_segment_check");
    bytes = after.bytes_live - before.bytes_live;
    bench_emit_fact("kv footprint",
                    "%" PRIu32 " keys of %d bytes: %u buckets = %u KiB index, %" PRIu64 " live blocks of %" PRIu64
                    " KiB, %" PRIu64 " KiB committed for them",
                    store->keys, BENCH_VALUE_LEN, full.num_buckets, full.num_buckets / 128,
                    after.blocks_live - before.blocks_live, bytes >> 10,
                    (full.committed_bytes - empty.committed_bytes) >> 10);
    store->index_mask = full.num_buckets * 2 - 1;
    store->index = shared_memory(full.num_buckets * UINT64_C(8));
    store->num_lines = (uint32_t)(bytes / 64 + 1);
    store->lines = shared_memory(store->num_lines * UINT64_C(64));
    for (uint32_t i = 0; i <= store->index_mask; i++)
        store->index[i] = (uint32_t)(bench_random(&store->random) >> 32);
    for (size_t i = 0; i < 16 * (size_t)store->num_lines; i++)
        store->lines[i] = (uint32_t)(bench_random(&store->random) >> 32);
}

enum row { GET_HOT, GET_UNIFORM, GET_CHAINED, LOADS, SET_HOT, SET_UNIFORM, INCREMENT, INSERT, NUM_ROWS };

static const struct {
    const char *metric, *who;
} rows[NUM_ROWS] = {
    [GET_HOT] = {"kv.get.hot", "muster"},         [GET_UNIFORM] = {"kv.get.uniform", "muster"},
    [GET_CHAINED] = {"kv.get.chained", "muster"}, [LOADS] = {"kv.get.chained", "loads"},
    [SET_HOT] = {"kv.set.hot", "muster"},         [SET_UNIFORM] = {"kv.set.uniform", "muster"},
    [INCREMENT] = {"kv.increment", "muster"},     [INSERT] = {"kv.insert", "muster"},
};

static void round_of_all(struct store *store, struct bench_samples *samples, double seconds)
{
    size_t gone;

    run(store, &samples[GET_HOT], get_hot, seconds, UINT64_MAX);
    run(store, &samples[LOADS], load_three, seconds, UINT64_MAX);
    run(store, &samples[GET_CHAINED], get_chained, seconds, UINT64_MAX);
    run(store, &samples[GET_UNIFORM], get_uniform, seconds, UINT64_MAX);
    run(store, &samples[SET_UNIFORM], set_uniform, seconds, UINT64_MAX);
    run(store, &samples[SET_HOT], set_hot, seconds, UINT64_MAX);
    run(store, &samples[INCREMENT], increment, seconds, UINT64_MAX);
    store->fresh = 0;
    run(store, &samples[INSERT], insert, seconds, store->keys);
    bench_ok(muster_kv_delete(store->muster, "fresh", 5, &gone), "muster_kv_delete");
    if (gone != store->fresh)
        bench_die("%" PRIu32 " keys were inserted, %zu deleted", store->fresh, gone);
}

int main(int argc, char **argv)
{
    struct store store = {.random = 88172645463325252u};
    struct bench_samples samples[NUM_ROWS];
    struct bench_cpus cpus;
    struct bench_job job;
    double seconds, tick_ns;

    if (argc != 3)
        bench_die("usage: kv SECONDS KEYS");
    seconds = bench_number(argv[1], 0.001, 60);
    store.keys = (uint32_t)bench_number(argv[2], 1, 1 << 20);
    alarm((unsigned)seconds * 20 + 60);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, 0);
    tick_ns = bench_tick_ns();
    bench_job_init(&job, "kv", 1);
    job.config.num_buckets = BUCKETS;
    store.muster = bench_job_join(&job, 0, 0);
    bench_value(store.value, 7);
    fill(&store);
    for (int row = 0; row < NUM_ROWS; row++)
        bench_samples_init(&samples[row], 1u << 20);
    get_hot(&store);
    for (int i = 0; i < ROUNDS; i++)
        round_of_all(&store, samples, seconds);
    for (int row = 0; row < NUM_ROWS; row++)
        bench_emit(rows[row].metric, rows[row].who, &samples[row], tick_ns, BATCH, BATCH);
    bench_ok(muster_leave(store.muster), "muster_leave");
    return 0;
}
