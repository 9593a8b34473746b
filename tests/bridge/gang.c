/* tests/bridge/gang.c: see gang.h. */
#include "gang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <muster/muster.h>

struct gang_board *gang;

void gang_wipe(void)
{
    if (!gang)
        gang = mmap(NULL, sizeof *gang, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (gang == MAP_FAILED)
        exit(1);
    memset(gang, 0, sizeof *gang);
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* What the rank gives; ranks above all others: what all know of the instance. */
static uint64_t given(const struct gang_work *w, uint64_t instance, uint32_t rank, size_t i)
{
    return mix(w->seed ^ mix(instance * 1000003 + rank * 8191 + i));
}
enum { ALL = 100000 };

static void fill(const struct gang_work *w, uint64_t instance, uint32_t rank, uint8_t *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)given(w, instance, rank, i);
}

static enum muster_status run_broadcast(struct muster_group *g, const struct gang_work *w, uint64_t n, size_t len,
                                        muster_deadline d)
{
    static uint8_t data[MUSTER_GROUP_DATA_MAX], wanted[MUSTER_GROUP_DATA_MAX];
    uint32_t root = (uint32_t)(given(w, n, ALL, 1) % muster_group_size(g));
    enum muster_status status;

    fill(w, n, root, wanted, len);
    memset(data, 0xa5, sizeof data);
    if (muster_group_rank(g) == root)
        memcpy(data, wanted, len);
    status = muster_group_broadcast(g, root, data, len, d);
    return !status && memcmp(data, wanted, len) != 0 ? MUSTER_DATA_LOSS : status;
}

static enum muster_status run_allgather(struct muster_group *g, const struct gang_work *w, uint64_t n, size_t len,
                                        muster_deadline d)
{
    static uint8_t mine[MUSTER_GROUP_DATA_MAX], wanted[MUSTER_GROUP_DATA_MAX];
    uint32_t size = muster_group_size(g);
    uint8_t *all = malloc(size * len + 1);
    enum muster_status status;

    if (!all)
        return MUSTER_RESOURCE_EXHAUSTED;
    fill(w, n, muster_group_rank(g), mine, len);
    status = muster_group_allgather(g, mine, len, all, d);
    for (uint32_t i = 0; !status && i < size; i++) {
        fill(w, n, i, wanted, len);
        if (memcmp(all + i * len, wanted, len) != 0)
            status = MUSTER_DATA_LOSS;
    }
    free(all);
    return status;
}

/* Sums of doubles whose bits depend on the order in which they are added. */
static enum muster_status run_allreduce(struct muster_group *g, const struct gang_work *w, uint64_t n, size_t len,
                                        muster_deadline d)
{
    static double values[MUSTER_GROUP_DATA_MAX / 8], wanted[MUSTER_GROUP_DATA_MAX / 8];
    size_t count = len / 8;
    enum muster_status status;

    for (size_t k = 0; k < count; k++) {
        values[k] = (double)given(w, n, muster_group_rank(g), k) / 3.0;
        wanted[k] = (double)given(w, n, 0, k) / 3.0;
        for (uint32_t i = 1; i < muster_group_size(g); i++)
            wanted[k] += (double)given(w, n, i, k) / 3.0;
    }
    status = muster_group_allreduce(g, values, count, MUSTER_TYPE_DOUBLE, MUSTER_OP_SUM, d);
    return !status && memcmp(values, wanted, count * 8) != 0 ? MUSTER_DATA_LOSS : status;
}

/* Nobody is let go before all have come, and nobody is two instances ahead. */
static bool all_have_come(struct muster_group *g, uint64_t instance)
{
    for (uint32_t i = 0; i < muster_group_size(g); i++) {
        uint64_t at = atomic_load(&gang->places[i].at);

        if (at < instance || at > instance + 1)
            return false;
    }
    return true;
}

enum { HALVING = 64 }; /* instances */

/* It halves as instances pass. Else nobody would give up where a machine keeps them all shorter than the least
 * patience. */
static muster_deadline deadline_of(const struct gang_work *w, uint64_t instance)
{
    uint64_t halvings;

    if (!w->patience_ns || instance < w->patient_at)
        return muster_after_ms(60000);
    halvings = (instance - w->patient_at) / HALVING;
    return muster_after_ns(halvings < 64 ? w->patience_ns >> halvings : 0);
}

enum muster_status gang_run(struct muster_group *g, const struct gang_work *w, struct gang_place *place)
{
    enum muster_status status = MUSTER_OK;

    for (uint64_t n = 1; !status && (!w->rounds || n <= w->rounds); n++) {
        uint32_t kind = w->kind == GANG_ANY ? (uint32_t)(given(w, n, ALL, 0) % GANG_ANY) : w->kind;
        size_t len = w->max_len ? (size_t)(given(w, n, ALL, 4) % (w->max_len + 1)) : 0;
        muster_deadline d = deadline_of(w, n);

        atomic_store(&place->at, n);
        switch (kind) {
        case GANG_BARRIER: status = muster_group_barrier(g, d); break;
        case GANG_BROADCAST: status = run_broadcast(g, w, n, len, d); break;
        case GANG_ALLGATHER: status = run_allgather(g, w, n, len, d); break;
        default: status = run_allreduce(g, w, n, len, d); break;
        }
        if (status == MUSTER_DATA_LOSS || (!status && !all_have_come(g, n))) {
            printf("instance %llu, kind %u, %zu bytes: a wrong answer (%s)\n", (unsigned long long)n, kind, len,
                   muster_status_name(status));
            fflush(stdout);
            atomic_fetch_add(&place->wrong, 1);
        }
        if (!status) {
            atomic_store(&place->last_ok, n);
        } else {
            snprintf(place->text, sizeof place->text, "%s", muster_last_error());
            atomic_store(&place->status, (uint32_t)status);
            atomic_store(&place->failed, n);
        }
    }
    return status;
}

int gang_member(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct gang_place *place = NULL;
    enum muster_status status = MUSTER_OK;
    struct muster_group *g;
    bool wrong;

    for (uint32_t i = 0; i < w->count; i++)
        if (w->tasks[i] == muster_task_id(m))
            place = &gang->places[i];
    status = muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(50000), &g);
    if (status)
        snprintf(place->text, sizeof place->text, "%s", muster_last_error());
    atomic_store(&place->made, (uint32_t)status + 1);
    if (status)
        return 1;
    gang_run(g, w, place);
    muster_group_free(g);
    wrong = atomic_load(&place->wrong);
    if (w->twice) {
        status = muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(50000), &g);
        if (!status) {
            status = muster_group_barrier(g, muster_after_ms(50000));
            muster_group_free(g);
        }
        if (status)
            printf("task %d, once more: %s\n", muster_task_id(m), muster_last_error());
        wrong |= status != MUSTER_OK;
    }
    fflush(stdout);
    return wrong;
}

static bool all_have_it(const struct gang_work *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (!atomic_load(&gang->places[i].made))
            return false;
    return true;
}

void gang_let_run(struct hosts *h, const struct gang_work *w, uint32_t rank, uint64_t instance)
{
    hosts_await(h, all_have_it(w) && atomic_load(&gang->places[rank].at) >= instance, "the group goes on");
}

bool gang_one_outcome(uint32_t members, const bool *returned)
{
    uint64_t failed = 0;
    uint32_t status = 0;

    for (uint32_t i = 0; i < members; i++)
        if (returned[i]) {
            failed = failed ? failed : gang->places[i].failed;
            status = status ? status : gang->places[i].status;
        }
    for (uint32_t i = 0; i < members; i++) {
        struct gang_place *p = &gang->places[i];
        bool is_odd = returned[i] ? p->failed != failed || p->last_ok != failed - 1 || p->status != status
                                  : p->last_ok >= failed || (p->failed && (p->failed != failed || p->status != status));

        if (is_odd || !failed) {
            printf("member %u: passed %llu, failed %llu with %s (%s); others failed %llu with %s\n", i,
                   (unsigned long long)p->last_ok, (unsigned long long)p->failed,
                   muster_status_name((enum muster_status)p->status), p->text, (unsigned long long)failed,
                   muster_status_name((enum muster_status)status));
            fflush(stdout);
            return false;
        }
    }
    return true;
}

void gang_find_the_dead(struct hosts *h, uint32_t host, pid_t pid)
{
    struct muster *m = hosts_observer(h, host);
    siginfo_t info;

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) || muster_scavenge(m, NULL) || muster_leave(m)) {
        printf("nobody finds the dead: %s\n", muster_last_error());
        exit(1);
    }
}
