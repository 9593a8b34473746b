/*
 * tests/crash/pause_test.c: an operation is stopped after any number of steps, a peer does something that conflicts,
 * and then it goes on; or is killed.
 *
 * variants: step step3 step-clang step3-clang
 * timeout: 300
 *
 * The process is stepped once. Where a pause is to be tried, it is copied as it stands, into a world of its own (the
 * segment as it is then), where the peer acts; the copy is resumed, or killed and buried. What everybody can see in the
 * end, results of both calls included, must be what the two calls give one after the other, in one order or the other.
 * --long pauses after every step of operations of up to 4000, and at as many places of longer ones. The short form
 * pauses at some places near where the process comes to another page of the segment, others in each variant, and does
 * not step in between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explore.h"

enum { PLACES = 24, PLACES_LONG = 4000, OF_VICTIM = 1u << VICTIM | 1u << SECOND };

struct trial {
    const struct op *op;
    const struct interference *in;
    bool after;     /* reference: the peer acts after the operation, not before */
    bool only_peer; /* reference: the operation never began */
    bool killed;
    pid_t victim;
    bool several; /* no single instant: the orders say nothing */
};

/* What the two give one after the other: for each interference, in either order, resumed and killed. */
enum { FIRST, SECOND_ORDER, KILLED_FIRST, KILLED_SECOND, KILLED_ALONE, REFERENCES };
static char *(*references)[REFERENCES];

static void run(void *arg)
{
    const struct op *op = arg;

    crash_become(getpid(), OF_VICTIM);
    op->run(op);
}

static void finish(struct trial *t)
{
    if (t->killed) {
        crash_die(t->victim, OF_VICTIM);
        board->outcome[0] = (struct outcome){0};
    }
    crash_become(getpid(), 1u << THIRD);
    muster_scavenge(world.m[THIRD], NULL);
    crash_audit("at the end");
    crash_idle("at the end");
    crash_background(world.m[THIRD]);
    crash_observe(world.m[THIRD], true);
}

/* In one process with the operation: the peer must not die with it. */
static void as_peer(struct trial *t)
{
    crash_become(getpid(), 1u << PEER);
    t->in->run(t->op);
    crash_become(getppid(), 1u << PEER);
}

static void refer(void *arg)
{
    struct trial *t = arg;

    t->victim = getpid();
    crash_become(t->victim, OF_VICTIM);
    if (!t->after)
        as_peer(t);
    if (!t->only_peer)
        t->op->run(t->op);
    if (t->after)
        as_peer(t);
    finish(t);
}

static void interfere(void *arg)
{
    struct trial *t = arg;

    crash_become(getpid(), 1u << PEER);
    t->in->run(t->op);
}

static void look(void *arg)
{
    struct trial *t = arg;

    finish(t);
    if (t->killed && t->op->kind == BARRIER && !t->in->leaves)
        t->op->after(t->op);
    if (t->killed)
        crash_second(t->op, THIRD, SPARE);
}

static char *reference(struct trial t)
{
    memset(board->outcome, 0, sizeof board->outcome);
    crash_copy_to_alt(); /* shared: the peer may have processes of its own */
    crash_run(MAP_SHARED_ALT, refer, &t);
    crash_print("%s, and %s %s it", t.op->name, t.in->name, t.after ? "after" : "before");
    return strdup(board->seen);
}

static void make_references(const struct op *op)
{
    references = calloc(num_interferences, sizeof *references);
    if (!references)
        crash_bad("no memory");
    for (unsigned i = 0; i < num_interferences; i++) {
        struct trial t = {.op = op, .in = &interferences[i]};

        if (!crash_applies(t.in, op))
            continue;
        references[i][SECOND_ORDER] = reference(t);
        t.killed = true;
        references[i][KILLED_SECOND] = reference(t);
        t.only_peer = true;
        references[i][KILLED_ALONE] = reference(t);
        t.only_peer = false;
        t.after = true;
        references[i][KILLED_FIRST] = reference(t);
        t.killed = false;
        references[i][FIRST] = reference(t);
    }
}

/* Is the end that was seen one of those that the calls give one after the other? */
static void judge(const struct trial *t, unsigned i)
{
    unsigned from = t->killed ? KILLED_FIRST : FIRST, to = t->killed ? KILLED_ALONE : SECOND_ORDER;

    if (t->several)
        return;
    for (unsigned k = from; k <= to; k++)
        if (!strcmp(references[i][k], board->seen))
            return;
    crash_bad("neither order explains the end:");
    for (unsigned k = from; k <= to; k++) {
        crash_bad("order %u:", k);
        crash_differ(references[i][k], board->seen);
    }
}

/* Let it go on for some writes and kill it then. */
static void go_on_and_die(pid_t copy)
{
    struct stepper s = {.pid = copy};
    unsigned steps = crash_random() % 200;

    if (!step_guard(&s, world.base, world.size))
        return;
    while (steps-- && step_on(&s))
        continue;
    step_kill(&s);
}

static bool try_pause(struct stepper *s, const struct op *op, unsigned i, bool killed)
{
    struct trial t = {.op = op, .in = &interferences[i], .killed = killed, .victim = s->pid};
    struct outcome so_far = board->outcome[0]; /* the stepped process may have noted it already */
    pid_t copy;

    t.several = (op->flags | t.in->flags) & OP_SEVERAL;
    board->outcome[1] = (struct outcome){0};
    crash_copy_to_alt();
    copy = step_clone(s, world.base, world.size, world.alt_fd);
    if (!copy)
        return false;
    crash_run(MAP_SHARED_ALT, interfere, &t);
    if (killed)
        go_on_and_die(copy);
    else
        step_finish(copy);
    board->seen[0] = 0;
    crash_run(MAP_PRIVATE_ALT, look, &t);
    judge(&t, i);
    board->outcome[0] = so_far;
    if (killed)
        board->pause_kill_trials++;
    else
        board->pause_trials++;
    crash_print("%s paused after %llu touches and %llu steps, %s, %s", op->name, (unsigned long long)s->touches,
                (unsigned long long)s->steps, t.in->name, killed ? "killed" : "resumed");
    return true;
}

/* Where to pause. */
struct places {
    uint64_t total, stride; /* steps (--long) or touches; one in so many */
    unsigned per_touch;     /* places a touch, where there are few */
    unsigned left;          /* here */
};

/* How long the operation is. */
static void measure(void *arg)
{
    struct stepper s;

    crash_separate();
    if (!step_start(&s, run, arg))
        _exit(77);
    if (crash_long)
        while (step_one(&s))
            continue;
    else if (step_veil(&s, world.base, world.size))
        while (step_touch(&s, false))
            continue;
    board->outcome[0].a = crash_long ? s.steps : s.touches;
}

static void plan(struct places *p, uint64_t total)
{
    unsigned most = crash_long ? PLACES_LONG : PLACES;

    p->total = total;
    p->stride = total / most + 1;
    p->per_touch = total && total < most ? (unsigned)(most / total) : 1;
    p->left = 0;
}

/* On to the next place. False: it has ended. */
static bool next_place(struct stepper *s, struct places *p)
{
    unsigned steps;

    if (crash_long) {
        do {
            if (!step_one(s))
                return false;
        } while (s->steps % p->stride != crash_salt % p->stride);
        return true;
    }
    if (p->left) {
        p->left--;
        steps = 1 + crash_random() % 8;
    } else {
        do {
            if (!step_touch(s, false))
                return false;
        } while (s->touches % p->stride != crash_salt % p->stride);
        p->left = p->per_touch - 1;
        steps = crash_random() % 2 ? crash_random() % 24 : 0; /* as often right before the access */
    }
    while (steps--)
        if (!step_touch(s, true))
            return false;
    return true;
}

static bool try(const struct op *op)
{
    struct stepper s;
    struct places places;
    uint64_t n = 0;

    if (WEXITSTATUS(crash_run(MAP_AS_IS, measure, (void *)(uintptr_t)op)) == 77)
        return false;
    plan(&places, board->outcome[0].a);
    make_references(op);
    memset(board->outcome, 0, sizeof board->outcome);
    if (!step_start(&s, run, (void *)(uintptr_t)op))
        return false;
    if (!crash_long && !step_veil(&s, world.base, world.size))
        return false;
    while (next_place(&s, &places)) {
        n++;
        for (unsigned i = 0; i < num_interferences; i++)
            if (crash_applies(&interferences[i], op)) {
                bool also_killed = crash_long || (n + i) % 4 == crash_salt % 4;

                if (!try_pause(&s, op, i, false) || (also_killed && !try_pause(&s, op, i, true))) {
                    step_kill(&s);
                    return true;
                }
            }
    }
    step_kill(&s);
    return true;
}

static bool can_be_paused(const struct op *op)
{
    return !(op->flags & (OP_SLEEPS | OP_OWNMAP));
}

static void totals(char *text, size_t size)
{
    snprintf(text, size, "%llu pauses resumed, %llu killed", (unsigned long long)board->pause_trials,
             (unsigned long long)board->pause_kill_trials);
}

int main(int argc, char **argv)
{
    static const struct crash_test test = {
        .name = "pause at every step", .try = try, .applies = can_be_paused, .totals = totals};

    if (step_clone_refused()) {
        printf("%s\n", step_clone_refused());
        return 77;
    }
    return crash_main(&test, argc, argv);
}
