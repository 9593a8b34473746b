/*
 * tests/checkpoint/trainer_main.c: STEPS PAUSE_MS: a task that goes on from the newest generation and saves each step.
 *
 * What it finds must be one whole generation: the parts of all ranks, each as its rank saved it at that step; else it
 * says "torn". Rank 0 prints "found GENERATION STEP RANKS", and "saved GENERATION" whenever one is whole.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

enum { VALUES = 20000 };

static uint64_t value_of(uint32_t rank, uint64_t step, size_t i)
{
    return step * 1000003 + rank * 7919 + i;
}

static int trainer_fail(const char *what)
{
    fprintf(stderr, "torn: %s: %s\n", what, muster_last_error());
    return 1;
}

static int part_check(struct muster_checkpoint *cp, uint32_t rank, uint64_t *step)
{
    const struct muster_checkpoint_tensor *t;
    struct muster_checkpoint_view view;

    if (muster_checkpoint_load(cp, (int32_t)rank, &view) || muster_checkpoint_find(&view, "v", NULL, 0, NULL, &t))
        return trainer_fail("load");
    if (t->len != VALUES * 8 || (*step && view.step != *step))
        return trainer_fail("a part of another step");
    *step = view.step;
    for (size_t i = 0; i < VALUES; i++)
        if (((const uint64_t *)t->data)[i] != value_of(rank, view.step, i))
            return trainer_fail("a part of several steps");
    muster_checkpoint_unload(&view);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t steps = argc > 2 ? strtoull(argv[1], NULL, 10) : 10, step = 0, generation;
    int pause = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    static uint64_t values[VALUES];
    struct muster_checkpoint_tensor t = {
        .name = "v", .dtype = "uint64", .num_dims = 1, .shape = {VALUES}, .data = values, .len = sizeof values};
    struct muster_checkpoint_info info;
    struct muster_checkpoint *cp;
    struct muster *m;

    if (muster_join(NULL, &m) || muster_checkpoint_open(m, "model", &cp) || muster_checkpoint_info(cp, &info))
        return trainer_fail("begin");
    for (uint32_t i = 0; info.generation && i < info.ranks; i++)
        if (part_check(cp, i, &step))
            return 1;
    if (info.rank == 0)
        printf("found %llu %llu %u\n", (unsigned long long)info.generation, (unsigned long long)step, info.ranks);
    fflush(stdout);
    while (step < steps) {
        step++;
        for (size_t i = 0; i < VALUES; i++)
            values[i] = value_of((uint32_t)info.rank, step, i);
        if (muster_checkpoint_save(cp, step, &t, 1, MUSTER_FOREVER, &generation) ||
            muster_checkpoint_wait(cp, 0, MUSTER_FOREVER)) {
            fprintf(stderr, "rank %d: %s\n", info.rank, muster_last_error());
            return 1;
        }
        if (info.rank == 0)
            printf("saved %llu\n", (unsigned long long)generation);
        fflush(stdout);
        poll(NULL, 0, pause);
    }
    muster_checkpoint_close(cp);
    return muster_leave(m) != MUSTER_OK;
}
