/*
 * tests/barrier/crew.c: what members of groups do in the tests, and what they must see.
 *
 * Every member knows what every other gives: it is drawn from (seed, instance, rank). So each checks the whole answer
 * by itself. The board checks the barrier: nobody may leave an instance before all have entered it.
 */
#include "crew.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "segment/heap.h"
#include "segment/segment.h"

struct board *board;
struct muster_group *group;

void crew_open(uint32_t tasks, const struct muster_segment_config *config)
{
    if (!board) {
        board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(board, MAP_FAILED);
    }
    crew_wipe();
    stage_open(tasks, config);
}

void crew_wipe(void)
{
    memset(board, 0, sizeof *board);
}

void crew_close(void)
{
    stage_close();
}

int act_group_create(void *arg, struct reply *reply)
{
    const struct group_act *a = arg;
    uint32_t answer[2];
    int status = muster_group_create(me, a->name, a->count ? a->tasks : NULL, a->count, a->data_bytes,
                                     a->patience_ns ? muster_after_ns(a->patience_ns) : MUSTER_FOREVER, &group);

    if (status) {
        group = NULL;
        return status;
    }
    answer[0] = muster_group_rank(group);
    answer[1] = muster_group_size(group);
    memcpy(reply->data, answer, sizeof answer);
    reply->len = sizeof answer;
    return MUSTER_OK;
}

int act_group_free(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    muster_group_free(group);
    group = NULL;
    return MUSTER_OK;
}

static struct group_act make(const char *name, const int32_t *tasks, uint32_t count, uint64_t data_bytes)
{
    struct group_act a = {.count = count, .data_bytes = data_bytes};

    snprintf(a.name, sizeof a.name, "%s", name);
    if (count)
        memcpy(a.tasks, tasks, count * sizeof *tasks);
    return a;
}

void crew_create(const char *name, uint32_t count, uint64_t data_bytes)
{
    struct group_act a = make(name, NULL, 0, data_bytes);

    for (uint32_t i = 0; i < count; i++)
        a.tasks[i] = (int32_t)i;
    a.count = count;
    for (uint32_t i = 0; i < count; i++)
        stage_tell((int)i, act_group_create, &a, sizeof a);
    for (uint32_t i = 0; i < count; i++)
        assert_status(stage_hear((int)i), MUSTER_OK);
}

struct reply create_on(int player, const char *name, const int32_t *tasks, uint32_t count, uint64_t patience_ns)
{
    struct group_act a = make(name, tasks, count, 0);

    a.patience_ns = patience_ns;
    return stage_do(player, act_group_create, &a, sizeof a);
}

void tell_create(int player, const char *name, const int32_t *tasks, uint32_t count)
{
    struct group_act a = make(name, tasks, count, 0);

    stage_tell(player, act_group_create, &a, sizeof a);
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t given(const struct run_act *a, uint64_t instance, uint32_t rank, size_t i)
{
    return mix(a->seed ^ mix(instance * 1000003 + rank * 8191 + i));
}

static void fill(const struct run_act *a, uint64_t instance, uint32_t rank, uint8_t *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)given(a, instance, rank, i);
}

static enum muster_status run_broadcast(const struct run_act *a, uint64_t instance, size_t len, muster_deadline d)
{
    static uint8_t data[MUSTER_GROUP_DATA_MAX], wanted[MUSTER_GROUP_DATA_MAX];
    uint32_t root = (uint32_t)(given(a, instance, 1000, 1) % muster_group_size(group));
    enum muster_status status;

    fill(a, instance, root, wanted, len);
    memset(data, 0xa5, sizeof data);
    if (muster_group_rank(group) == root)
        memcpy(data, wanted, len);
    status = muster_group_broadcast(group, root, data, len, d);
    if (!status && memcmp(data, wanted, len) != 0)
        return MUSTER_DATA_LOSS;
    if (!status && len < sizeof data && data[len] != 0xa5)
        return MUSTER_DATA_LOSS; /* more was written than asked for */
    return status;
}

static enum muster_status run_allgather(const struct run_act *a, uint64_t instance, size_t len, muster_deadline d)
{
    static uint8_t mine[MUSTER_GROUP_DATA_MAX], wanted[MUSTER_GROUP_DATA_MAX];
    uint32_t size = muster_group_size(group);
    uint8_t *all = malloc(size * len + 1);
    enum muster_status status;

    if (!all)
        return MUSTER_RESOURCE_EXHAUSTED;
    fill(a, instance, muster_group_rank(group), mine, len);
    all[size * len] = 0xa5;
    status = muster_group_allgather(group, mine, len, all, d);
    for (uint32_t i = 0; !status && i < size; i++) {
        fill(a, instance, i, wanted, len);
        if (memcmp(all + i * len, wanted, len) != 0)
            status = MUSTER_DATA_LOSS;
    }
    if (!status && all[size * len] != 0xa5)
        status = MUSTER_DATA_LOSS;
    free(all);
    return status;
}

/* One scalar of one member, as the 8 bytes that travel. Doubles are small whole numbers: sums of them are exact. */
static uint64_t scalar(uint64_t random, enum muster_type type)
{
    double d;

    if (type != MUSTER_TYPE_DOUBLE)
        return random;
    d = (double)(int64_t)(random % 2000) - 1000;
    memcpy(&random, &d, 8);
    return random;
}

static uint64_t fold(uint64_t x, uint64_t y, enum muster_type type, enum muster_op op)
{
    double a, b;

    if (type == MUSTER_TYPE_DOUBLE) {
        memcpy(&a, &x, 8);
        memcpy(&b, &y, 8);
        switch (op) {
        case MUSTER_OP_SUM: a += b; break;
        case MUSTER_OP_PROD: a *= b; break;
        case MUSTER_OP_MIN: a = b < a ? b : a; break;
        default: a = b > a ? b : a; break;
        }
        memcpy(&x, &a, 8);
        return x;
    }
    switch (op) {
    case MUSTER_OP_SUM: return x + y;
    case MUSTER_OP_PROD: return x * y;
    case MUSTER_OP_BAND: return x & y;
    case MUSTER_OP_BOR: return x | y;
    case MUSTER_OP_MIN:
        if (type == MUSTER_TYPE_INT64)
            return (int64_t)y < (int64_t)x ? y : x;
        return y < x ? y : x;
    default:
        if (type == MUSTER_TYPE_INT64)
            return (int64_t)y > (int64_t)x ? y : x;
        return y > x ? y : x;
    }
}

static enum muster_status run_allreduce(const struct run_act *a, uint64_t instance, size_t len, muster_deadline d)
{
    static uint64_t values[MUSTER_GROUP_DATA_MAX / 8], wanted[MUSTER_GROUP_DATA_MAX / 8];
    enum muster_type type = (enum muster_type)(given(a, instance, 1000, 2) % 3);
    enum muster_op op = (enum muster_op)(given(a, instance, 1000, 3) % 6);
    size_t count = len / 8;
    enum muster_status status;

    if (type == MUSTER_TYPE_DOUBLE && (op == MUSTER_OP_BAND || op == MUSTER_OP_BOR))
        op = MUSTER_OP_SUM;
    for (size_t k = 0; k < count; k++) {
        values[k] = scalar(given(a, instance, muster_group_rank(group), k), type);
        wanted[k] = scalar(given(a, instance, 0, k), type);
        for (uint32_t i = 1; i < muster_group_size(group); i++)
            wanted[k] = fold(wanted[k], scalar(given(a, instance, i, k), type), type, op);
    }
    status = muster_group_allreduce(group, values, count, type, op, d);
    return !status && memcmp(values, wanted, count * 8) != 0 ? MUSTER_DATA_LOSS : status;
}

/* Nobody is released before all have come, and nobody is two instances ahead. */
static bool all_have_come(uint64_t instance)
{
    for (uint32_t i = 0; i < muster_group_size(group); i++) {
        uint64_t at = atomic_load_explicit(&board->places[i].at, memory_order_relaxed);

        if (at < instance || at > instance + 1)
            return false;
    }
    return true;
}

/* With a patience that shrinks, some member gives up in the end, however fast the machine is. */
static muster_deadline deadline_of(const struct run_act *a, uint64_t instance)
{
    uint64_t halvings = a->halving ? (instance - a->first) / a->halving : 0;

    if (!a->patience_ns)
        return MUSTER_FOREVER;
    return muster_after_ns(halvings < 64 ? a->patience_ns >> halvings : 0);
}

int act_run(void *arg, struct reply *reply)
{
    const struct run_act *a = arg;
    struct place *own = &board->places[muster_group_rank(group)];
    enum muster_status status = MUSTER_OK;

    (void)reply;
    for (uint64_t n = a->first; !status && (!a->rounds || n < a->first + a->rounds); n++) {
        muster_deadline d = deadline_of(a, n);
        uint32_t kind = a->kind == RUN_ANY ? (uint32_t)(given(a, n, 1000, 0) % RUN_ANY) : a->kind;
        size_t len = a->max_len ? (size_t)(given(a, n, 1000, 4) % (a->max_len + 1)) : 0;

        atomic_store_explicit(&own->at, n, memory_order_relaxed);
        switch (kind) {
        case RUN_BARRIER: status = muster_group_barrier(group, d); break;
        case RUN_BROADCAST: status = run_broadcast(a, n, len, d); break;
        case RUN_ALLGATHER: status = run_allgather(a, n, len, d); break;
        default: status = run_allreduce(a, n, len, d); break;
        }
        if (!status && !all_have_come(n))
            status = MUSTER_INTERNAL;
        if (!status) {
            atomic_store_explicit(&own->last_ok, n, memory_order_relaxed);
        } else {
            atomic_store_explicit(&own->status, (uint32_t)status, memory_order_relaxed);
            atomic_store_explicit(&own->failed, n, memory_order_release);
        }
    }
    return (int)status;
}

uint32_t crew_areas(void)
{
    struct muster_segment *seg = muster_segment_of(stage_observer);
    uint32_t areas = 0;

    for (uint32_t c = 0; c < seg->num_chunks; c++) {
        uint32_t class_index = MU_CHUNK_CLASS(mu_load32_acquire(&seg->chunks[c])), step;

        if (!class_index)
            continue;
        step = (uint32_t)(mu_heap_class_bytes(class_index - 1) + MU_BLOCK_HEADER) / MU_GRANULE;
        for (uint32_t i = 0; i < mu_heap_chunk_blocks(class_index - 1); i++) {
            struct mu_block *b = mu_heap_block(seg, c * MU_CHUNK_GRANULES + i * step + 1, NULL);

            areas += MU_BLOCK_STATE(mu_load_acquire(&b->word)) == MU_LIVE &&
                     MU_META_TYPE(mu_load_relaxed(&b->meta)) == MU_TYPE_AREA;
        }
    }
    return areas;
}
