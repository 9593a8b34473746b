/*
 * tests/checkpoint/torture_test.c: ranks that save all the time and are killed at random; and so are whole attempts.
 *
 * timeout: 120
 *
 * Each rank is a process that opens, loads, goes on from there and saves each generation, whose bytes say rank, life
 * and generation. The parent kills a rank, or all of them, and starts what it killed again; before each start it notes
 * the newest generation that a rank had said to be committed. What a new process loads is whole, of all ranks, and not
 * older than that. MUSTER_TEST_KILLS: how many; 60.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "child.h"
#include "stage.h"

enum { RANKS = 3, VALUES = 3000 };

static struct board {
    _Atomic uint64_t committed;    /* that some rank's wait has returned with */
    _Atomic uint64_t opened;       /* processes that have loaded */
    _Atomic uint64_t lives[RANKS]; /* of the rank, begun */
} * board;

static uint64_t mark_of(uint32_t rank, uint64_t life, uint64_t generation)
{
    return generation << 32 | life << 8 | rank;
}

/* Whole, of one life, of this generation. */
static int is_part(const struct muster_checkpoint_view *view, uint32_t rank)
{
    const struct muster_checkpoint_tensor *t;
    const uint64_t *values;

    if (view->rank != rank || view->step != view->generation || muster_checkpoint_find(view, "v", NULL, 0, NULL, &t) ||
        t->len != VALUES * 8)
        return 0;
    values = t->data;
    for (size_t i = 1; i < VALUES; i++)
        if (values[i] != values[0])
            return 0;
    return values[0] >> 32 == view->generation && (values[0] & 255) == rank;
}

static uint64_t load_all(struct muster_checkpoint *cp)
{
    struct muster_checkpoint_view views[RANKS];
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t r = 0; r < RANKS; r++) {
        enum muster_status status = muster_checkpoint_load(cp, (int32_t)r, &views[r]);

        if (status == MUSTER_NOT_FOUND)
            return 0;
        CHECK(!status && is_part(&views[r], r));
        least = views[r].generation < least ? views[r].generation : least;
        most = views[r].generation > most ? views[r].generation : most;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        CHECK(is_part(&views[r], r)); /* still */
        muster_checkpoint_unload(&views[r]);
    }
    CHECK(most == least); /* we have saved nothing, so none can become whole */
    return least;
}

static int rank_run(void *arg)
{
    uint32_t rank = (uint32_t)(uintptr_t)arg;
    uint64_t life = ++board->lives[rank], known = board->committed;
    static uint64_t values[VALUES];
    struct muster_checkpoint_tensor t = {
        .name = "v", .dtype = "uint64", .num_dims = 1, .shape = {VALUES}, .data = values, .len = sizeof values};
    struct muster *m = test_join(job.name, (int32_t)rank, MUSTER_JOIN_RECOVERABLE);
    struct muster_checkpoint *cp = NULL;
    uint64_t generation, saved;

    CHECK(m && !muster_checkpoint_open(m, "model", &cp));
    generation = load_all(cp);
    CHECK(generation >= known);
    board->opened++;
    while (board) {
        struct muster_checkpoint_info info;

        CHECK(!muster_checkpoint_info(cp, &info));
        for (size_t i = 0; i < VALUES; i++)
            values[i] = mark_of(rank, life, info.generation + 1);
        CHECK(!muster_checkpoint_save(cp, info.generation + 1, &t, 1, MUSTER_FOREVER, &saved));
        CHECK(saved == info.generation + 1);
        CHECK(!muster_checkpoint_wait(cp, saved, MUSTER_FOREVER));
        for (uint64_t was = board->committed;
             was < saved && !atomic_compare_exchange_weak(&board->committed, &was, saved);)
            ;
    }
    return 0;
}

static void all_begin(pid_t pids[RANKS])
{
    for (uint32_t r = 0; r < RANKS; r++)
        pids[r] = test_fork(rank_run, (void *)(uintptr_t)r);
}

static void one_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL); /* not a failed check */
}

static void job_begin(void)
{
    struct muster_segment_config config = {.num_tasks = RANKS, .num_slots = 64};

    OK(test_job_create(&job, &config));
}

TEST(whichever_ranks_are_killed_the_newest_generation_is_whole)
{
    const char *text = getenv("MUSTER_TEST_KILLS");
    unsigned kills = text ? (unsigned)strtoul(text, NULL, 10) : 60, seed = (unsigned)getpid();
    pid_t pids[RANKS];

    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(run_id, sizeof run_id, "torture-%d", (int)getpid());
    setenv("MUSTER_RUN_ID", run_id, 1);
    job_begin();
    all_begin(pids);
    for (unsigned k = 0; k < kills; k++) {
        uint64_t until = board->committed + (uint64_t)(rand_r(&seed) % 3), pause = (uint64_t)rand_r(&seed) % 3000;

        await(board->committed >= until, "generation %llu", (unsigned long long)until);
        for (uint64_t end = muster_after_ns(pause * 1000); muster_now_ns() < end;)
            ;
        if (k % 8 != 7) {
            uint32_t r = (uint32_t)rand_r(&seed) % RANKS;

            one_kill(pids[r]);
            pids[r] = test_fork(rank_run, (void *)(uintptr_t)r);
            continue;
        }
        for (uint32_t r = 0; r < RANKS; r++)
            one_kill(pids[r]);
        OK(muster_segment_remove(job.name)); /* the next attempt has another */
        muster_segment_close(job.segment);
        mu_checkpoint_rewind(run_id, MU_CHECKPOINT_ALL);
        job_begin();
        all_begin(pids);
    }
    await(board->committed > 0 && board->opened >= kills / 2, "opened %llu", (unsigned long long)board->opened);
    for (uint32_t r = 0; r < RANKS; r++)
        one_kill(pids[r]);
    print_message("%llu generations, %llu openings\n", (unsigned long long)board->committed,
                  (unsigned long long)board->opened);
    mu_checkpoint_remove(run_id);
    OK(muster_segment_remove(job.name));
    muster_segment_close(job.segment);
}
