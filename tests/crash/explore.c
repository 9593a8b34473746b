/*
 * tests/crash/explore.c: images, burials, and the frame of the test programs.
 *
 * Where the operation does not write to the segment the image cannot change, so it is not looked at: step_on(). An
 * operation that maps the segment itself is stepped from its first instruction to its last. Then comparing the segment
 * after each of thousands must be cheap, so only some pages are compared: those that a rehearsal in the second world
 * changed, and all tables. Now and then everything is compared; if a page changed that was not expected to, it is added
 * and the stepping begins anew.
 */
#include "explore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "segment/slot.h"
#include "task/task.h"

enum { PAGE = 4096, FULL_EVERY = 4096, PAGES_MAX = 2048, REPORTS_MAX = 40 };

bool crash_long;
unsigned crash_salt;

struct images {
    uint8_t *shadow;
    uint32_t hot[PAGES_MAX], count;
    bool is_hot[PAGES_MAX];
};

static void add_page(struct images *im, uint32_t page)
{
    if (page >= PAGES_MAX || im->is_hot[page])
        return;
    im->is_hot[page] = true;
    im->hot[im->count++] = page;
}

/* Run it once in the second world and note what it changed. */
static void rehearse(struct exploration *x, struct images *im)
{
    uint32_t tables = (uint32_t)((world.seg.heap - world.base) / PAGE);
    size_t used;

    for (uint32_t p = 0; p < tables; p++)
        add_page(im, p);
    crash_copy_to_alt();
    crash_run(MAP_SHARED_ALT, x->fn, x->arg);
    used = crash_used(world.alt);
    for (uint32_t p = tables; p < used / PAGE; p++)
        if (memcmp(world.base + (size_t)p * PAGE, world.alt + (size_t)p * PAGE, PAGE))
            add_page(im, p);
}

/* Is what changed in this page only the inside of large values that are still owned, so that nobody will ever read it?
 */
static bool hidden(uint8_t *page, const uint8_t *before)
{
    struct mu_ctx *ctx = world.ctx[VICTIM];
    uint32_t first = (uint32_t)(((size_t)(page - world.seg.heap)) / MU_CHUNK) * MU_CHUNK_GRANULES;

    if (page < world.seg.heap)
        return false;
    for (size_t at = 0; at < PAGE; at += MU_GRANULE) {
        uint32_t granule = (uint32_t)((size_t)(page + at - world.seg.heap) / MU_GRANULE), limit = 0;
        struct mu_block *b = NULL;
        uint64_t w, meta;

        if (!memcmp(page + at, before + at, MU_GRANULE))
            continue;
        while (!(b = mu_heap_block(&world.seg, granule + 1, &limit)) && granule > first)
            granule--;
        if (!b || limit < 2048)
            return false;
        w = mu_load_relaxed(&b->word); /* relaxed, as the next: the owner is stopped */
        meta = mu_load_relaxed(&b->meta);
        if (MU_BLOCK_STATE(w) != MU_OWNED || MU_BLOCK_SLOT(w) != ctx->slot || (uint8_t *)b == page + at ||
            (MU_META_TYPE(meta) != MU_TYPE_PART && (MU_META_TYPE(meta) != MU_TYPE_VALUE || MU_META_REFS(meta))))
            return false;
    }
    return true;
}

/* Has one of these pages changed in a way that somebody may ever see? Takes over what differs. */
static bool changed(struct exploration *x, struct images *im, const uint32_t *pages, uint32_t count)
{
    bool any = false, wrote = false;

    for (uint32_t i = 0; i < count; i++) {
        size_t at = (size_t)pages[i] * PAGE;

        if (!memcmp(world.base + at, im->shadow + at, PAGE))
            continue;
        wrote = true;
        if (x->every_byte || !hidden(world.base + at, im->shadow + at))
            any = true;
        memcpy(im->shadow + at, world.base + at, PAGE);
    }
    if (wrote && !x->own_map)
        step_wrote(&x->stepper);
    return any;
}

static bool surprised(struct images *im)
{
    size_t used = crash_used(world.base);
    bool any = false;

    for (uint32_t p = 0; p < used / PAGE; p++)
        if (!im->is_hot[p] && memcmp(world.base + (size_t)p * PAGE, im->shadow + (size_t)p * PAGE, PAGE)) {
            any = true;
            for (uint32_t k = 0; k < MU_CHUNK / PAGE; k++) /* the rest of a large block will not be far */
                add_page(im, p + k);
        }
    return any;
}

static void visit(struct exploration *x, struct images *im)
{
    x->images++;
    x->visit(x);
    if (x->changed_by_others)
        memcpy(im->shadow, world.base, crash_used(world.base));
    x->changed_by_others = false;
}

/* One passage: 1 done, 0 surprised, -1 not allowed. */
static int passage(struct exploration *x, struct images *im)
{
    struct stepper *s = &x->stepper;
    bool again = false;

    if (!step_start(s, x->fn, x->arg))
        return -1;
    x->images = 0;
    visit(x, im);
    if (x->own_map)
        while (!again && step_one(s)) {
            if (changed(x, im, im->hot, im->count))
                visit(x, im);
            if (s->steps % FULL_EVERY == 0)
                again = surprised(im);
        }
    else if (step_guard(s, world.base, world.size))
        while (step_on(s))
            if (changed(x, im, s->open, s->num_open))
                visit(x, im);
    if (!again)
        again = surprised(im);
    step_kill(s);
    if (again && !x->own_map)
        crash_bad("it wrote where it was not seen to");
    return !again;
}

static void restore(const uint8_t *before, size_t used)
{
    size_t now = crash_used(world.base);

    memcpy(world.base, before, used);
    if (now > used)
        memset(world.base + used, 0, now - used);
}

bool explore(struct exploration *x)
{
    struct images *im = calloc(1, sizeof *im);
    uint8_t *before = malloc(world.size);
    size_t used = crash_used(world.base);
    int rc = 0;

    im->shadow = calloc(1, world.size);
    memcpy(before, world.base, used);
    x->own_map |= step_clone_refused() != NULL;
    if (x->own_map)
        rehearse(x, im);
    for (int tries = 0; !rc && tries < 8; tries++) {
        restore(before, used);
        memset(im->shadow, 0, world.size);
        memcpy(im->shadow, before, used);
        rc = passage(x, im);
    }
    restore(before, used); /* whatever is tried next begins where this began */
    if (!rc)
        crash_bad("the operation changes other pages each time");
    free(im->shadow);
    free(im);
    free(before);
    return rc >= 0;
}

void crash_bury(const struct op *op, int who, int other)
{
    unsigned dead = crash_count_dead();
    uint32_t epoch = mu_load32_acquire(&world.seg.header->epoch); /* acquire: nobody else runs */
    size_t deaths = 0;

    (void)op;
    if (muster_scavenge(world.m[who], &deaths) || deaths != dead)
        crash_bad("%zu of %u dead slots were buried", deaths, dead);
    if (dead && mu_load32_acquire(&world.seg.header->epoch) == epoch) /* acquire: likewise */
        crash_bad("a death did not move the epoch: sleepers sleep on");
    if (muster_scavenge(world.m[other], &deaths) || deaths)
        crash_bad("the second scavenger buried %zu more", deaths);
    crash_audit("after burial");
    crash_idle("after burial");
    crash_background(world.m[who]);
}

static bool has_line(const char *text, const char *line, size_t len)
{
    for (; *text; text = strchr(text, '\n') + 1)
        if (!strncmp(text, line, len))
            return true;
    return false;
}

static void only_in(const char *a, const char *b, const char *what)
{
    for (; *a; a = strchr(a, '\n') + 1) {
        size_t len = (size_t)(strchr(a, '\n') - a) + 1;

        if (!has_line(b, a, len))
            crash_bad("%s: %.*s", what, (int)len - 1, a);
    }
}

void crash_differ(const char *wanted, const char *seen)
{
    only_in(wanted, seen, "  wanted");
    only_in(seen, wanted, "  seen");
}

void crash_print(const char *format, ...)
{
    static unsigned reports;
    va_list args;

    if (!board->complaints[0])
        return;
    if (reports++ < REPORTS_MAX) {
        printf("  FAIL ");
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n%s", board->complaints);
        fflush(stdout);
    }
    board->complaints[0] = 0;
}

unsigned crash_random(void)
{
    static uint64_t state;

    state = (state ? state : crash_salt) * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One operation in a process of its own: 0, 1 complaints, 77 not allowed. */
static int run_op(const struct crash_test *test, const struct op *op)
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (!pid) {
        crash_build();
        if (op->setup)
            op->setup(op);
        crash_audit("after the setup");
        if (!crash_count_dead())
            crash_idle("after the setup");
        crash_print("%s", op->name);
        status = test->try(op) ? 0 : 77;
        crash_print("%s", op->name);
        fflush(stdout);
        _exit(status);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    if (WIFSIGNALED(status)) {
        printf("  FAIL %s: the harness was ended by signal %d%s\n", op->name, WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? ": something hung" : "");
        return 1;
    }
    return WEXITSTATUS(status);
}

int crash_main(const struct crash_test *test, int argc, char **argv)
{
    const char *variant = getenv("VARIANT"), *only = NULL;
    char text[200];
    double start = seconds();
    int rc = 0, failed = 0;

    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--long"))
            crash_long = true;
        else
            only = argv[i];
    variant = variant ? variant : "this build";
    for (const char *p = variant; *p; p++)
        crash_salt = crash_salt * 31 + (unsigned char)*p;
    setvbuf(stdout, NULL, _IOLBF, 0);
    crash_board();
    for (unsigned i = 0; i < num_ops; i++) {
        struct board before = *board;
        double t = seconds();

        if ((only && strcmp(only, ops[i].name)) || (test->applies && !test->applies(&ops[i])))
            continue;
        rc = run_op(test, &ops[i]);
        if (rc == 77)
            return 77;
        if (rc)
            failed = 1;
        test->totals(text, sizeof text);
        printf("%-22s %7llu steps  %s so far, %llu complaints, %.2f s\n", ops[i].name,
               (unsigned long long)(board->steps - before.steps), text, (unsigned long long)board->bad, seconds() - t);
    }
    test->totals(text, sizeof text);
    printf("%s, %s: %s, %llu steps, %llu complaints, %.1f s\n", test->name, variant, text,
           (unsigned long long)board->steps, (unsigned long long)board->bad, seconds() - start);
    return board->bad || failed;
}
