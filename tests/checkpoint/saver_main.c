/*
 * tests/checkpoint/saver_main.c: a task that saves generation after generation, and dies where it is told: saver FOLDER
 * LAST [RANK:GENERATION:WHERE]...
 *
 * It loads its own part, which must be whole, of the generation that it says, and no older than the last that any task
 * had waited for in the attempts before (FOLDER/waited.RANK); then it goes on to generation LAST, and waits for each.
 * The word behind LAST that has the attempt's number is where one of the tasks kills itself: behind begin, copy, commit
 * or wait of that generation. It says "RANK ATTEMPT LOADED". Status 1: something is wrong, which it says; 7: a call
 * failed. Instead of LAST: "steps", the last task saves another step than the others; "late", it does not save, and the
 * others wait for a second; "others", all save, and load the first and the last task's part. What they are told they
 * say.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/checkpoint.h>
#include <muster/muster.h>

enum { VALUES = 20000 };

static struct muster *m;
static struct muster_checkpoint *cp;
static uint64_t values[VALUES];
static char place[64];
static int rank;

static void need(enum muster_status status)
{
    if (!status)
        return;
    fprintf(stderr, "saver: task %d: %s\n", rank, muster_last_error());
    exit(7);
}

static void die_at(uint64_t generation, const char *where)
{
    char here[64];

    snprintf(here, sizeof here, "%d:%" PRIu64 ":%s", rank, generation, where);
    if (strcmp(here, place) == 0)
        raise(SIGKILL);
}

static uint64_t waited_for(const char *folder)
{
    uint64_t newest = 0, one;
    char path[4096];

    for (int r = 0; r < 64; r++) {
        FILE *file;

        snprintf(path, sizeof path, "%s/waited.%d", folder, r);
        file = fopen(path, "re");
        if (file && fscanf(file, "%" SCNu64, &one) == 1 && one > newest)
            newest = one;
        if (file)
            fclose(file);
    }
    return newest;
}

static void waited_say(const char *folder, uint64_t generation)
{
    char path[4096], draft[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/waited.%d", folder, rank);
    snprintf(draft, sizeof draft, "%s/draft.%d", folder, rank);
    file = fopen(draft, "we");
    if (!file || fprintf(file, "%" PRIu64 "\n", generation) < 0 || fclose(file) || rename(draft, path))
        exit(7);
}

static uint64_t load(uint64_t least)
{
    struct muster_checkpoint_view view;
    const struct muster_checkpoint_tensor *t;
    enum muster_status status = muster_checkpoint_load(cp, MUSTER_CHECKPOINT_OWN, &view);
    uint64_t generation = 0, shape[1] = {VALUES};

    if (status != MUSTER_NOT_FOUND) {
        need(status);
        need(muster_checkpoint_find(&view, "values", "uint64", 1, shape, &t));
        generation = view.generation;
        memcpy(values, t->data, sizeof values);
        muster_checkpoint_unload(&view);
        for (int i = 0; i < VALUES; i++)
            if (values[i] != generation * 1000 + (uint64_t)rank || view.step == generation) {
                fprintf(stderr, "saver: task %d: value %d of generation %" PRIu64 " is %" PRIu64 "\n", rank, i,
                        generation, values[i]);
                exit(1);
            }
    }
    if (generation < least) {
        fprintf(stderr,
                "saver: task %d: generation %" PRIu64 " is older than %" PRIu64 ", for which a task had waited\n", rank,
                generation, least);
        exit(1);
    }
    return generation;
}

static void save_as(uint64_t generation, uint64_t step)
{
    struct muster_checkpoint_tensor t = {
        .name = "values", .dtype = "uint64", .num_dims = 1, .shape = {VALUES}, .data = values, .len = sizeof values};
    uint64_t saved;
    size_t left;

    for (int i = 0; i < VALUES; i++)
        values[i] = generation * 1000 + (uint64_t)rank;
    need(muster_checkpoint_begin(cp, step, &t, 1, muster_after_ns(60000000000u)));
    die_at(generation, "begin");
    need(muster_checkpoint_copy(cp, sizeof values, &left));
    die_at(generation, "copy");
    need(muster_checkpoint_commit(cp, &saved));
    die_at(generation, "commit");
    if (saved != generation) {
        fprintf(stderr, "saver: task %d: saved generation %" PRIu64 ", not %" PRIu64 "\n", rank, saved, generation);
        exit(1);
    }
}

static void said(enum muster_status status)
{
    printf("%d %s: %s\n", rank, muster_status_name(status), status ? muster_last_error() : "");
    fflush(stdout);
}

static void meet(const char *where)
{
    need(muster_barrier_wait(m, where, 0, NULL, 0, 0, muster_after_ns(60000000000u)));
}

static int try_fault(const char *what)
{
    int last = (int)muster_num_tasks(m) - 1;
    struct muster_checkpoint_view view = {0};

    need(muster_checkpoint_open(m, "model", &cp));
    if (strcmp(what, "late") != 0 || rank != last)
        save_as(1, strcmp(what, "steps") == 0 && rank == last ? 8 : 7);
    if (strcmp(what, "others") == 0) {
        need(muster_checkpoint_wait(cp, 1, muster_after_ns(60000000000u)));
        for (int r = 0; r <= last; r += last) {
            said(muster_checkpoint_load(cp, r, &view));
            muster_checkpoint_unload(&view);
        }
    } else if (strcmp(what, "late") != 0 || rank != last) {
        said(muster_checkpoint_wait(cp, 1, muster_after_ns(strcmp(what, "late") ? 60000000000u : 1000000000u)));
    }
    meet("over");
    muster_checkpoint_close(cp);
    need(muster_leave(m));
    return 0;
}

int main(int argc, char **argv)
{
    const char *attempt = getenv("MUSTER_ATTEMPT");
    int number = attempt ? (int)strtol(attempt, NULL, 10) : 0;
    uint64_t last, generation, least;

    if (argc < 3)
        return 2;
    last = strtoull(argv[2], NULL, 10);
    need(muster_join(NULL, &m));
    rank = (int)muster_task_id(m);
    if (3 + number < argc)
        snprintf(place, sizeof place, "%s", argv[3 + number]);
    if (!last)
        return try_fault(argv[2]);
    least = waited_for(argv[1]);
    meet("looked");
    need(muster_checkpoint_open(m, "model", &cp));
    generation = load(least);
    printf("%d %d %" PRIu64 "\n", rank, number, generation);
    fflush(stdout);
    meet("loaded");
    while (generation < last) {
        generation++;
        save_as(generation, generation * 7);
        need(muster_checkpoint_wait(cp, 0, muster_after_ns(60000000000u)));
        waited_say(argv[1], generation);
        die_at(generation, "wait");
    }
    muster_checkpoint_close(cp);
    need(muster_leave(m));
    return 0;
}
