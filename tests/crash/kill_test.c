/*
 * tests/crash/kill_test.c: SIGKILL at every step of every operation.
 *
 * variants: step step3 step-clang step3-clang
 * timeout: 300
 *
 * The victim is single-stepped through the operation, wherever it writes to the segment. At each distinct image of the
 * segment it is declared dead; two peers scavenge, the segment is audited, everything visible is compared with what the
 * operation may have done: nothing or all of it, and once done never undone at a later step. Then a second operation of
 * every kind, and the audit again.
 *
 * At some of the images (--long: at nearly all) the scavenger is stepped through in turn, and at each image that it
 * makes it is declared dead as well, and a third process cleans up after both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explore.h"

enum { STATES_MAX = 8, NESTED = 2, FIRST_IMAGES = 400, OF_VICTIM = 1u << VICTIM | 1u << SECOND };

struct victim {
    const struct op *op;
    pid_t pid;
    char *states[STATES_MAX]; /* what was seen, in order */
    int count;
    uint64_t last_act;
    int nested;
    const struct interference *contender; /* acts once, when the victim is at it; NULL: nobody */
    bool contended;
};

static void run(void *arg)
{
    const struct op *op = arg;

    crash_become(getpid(), OF_VICTIM);
    op->run(op);
}

static void bury(void *arg)
{
    struct victim *v = arg;

    crash_die(v->pid, OF_VICTIM);
    crash_become(getpid(), 1u << PEER | 1u << THIRD);
    crash_bury(v->op, PEER, THIRD);
    crash_observe(world.m[THIRD], false);
    if (v->op->after)
        v->op->after(v->op);
    crash_second(v->op, PEER, THIRD);
}

/* The operation runs to its end and its process dies then: in a world of its own, for it may map it. */
static void complete(void *arg)
{
    struct victim *v = arg;

    crash_separate();
    v->pid = getpid();
    crash_become(getpid(), OF_VICTIM);
    v->op->run(v->op);
    crash_die(v->pid, OF_VICTIM);
    crash_bury(v->op, PEER, THIRD);
    crash_observe(world.m[THIRD], false);
}

/* A state may be the last one seen, or a new one; not an earlier one. */
static void check_state(struct victim *v)
{
    if (v->count && !strcmp(v->states[v->count - 1], board->seen))
        return;
    for (int i = 0; i < v->count; i++)
        if (!strcmp(v->states[i], board->seen)) {
            crash_bad("what had been done is undone again:");
            crash_differ(v->states[v->count - 1], board->seen);
        }
    if (v->count < STATES_MAX)
        v->states[v->count++] = strdup(board->seen);
}

/* ---- the scavenger's turn ---- */

struct scavenger {
    struct victim *v;
    pid_t pid;
    const char *state; /* what the victim left for users to see, before anybody scavenged */
};

static void scavenge(void *arg)
{
    (void)arg;
    crash_become(getpid(), 1u << PEER);
    muster_scavenge(world.m[PEER], NULL);
}

/* Two are dead: the victim and who scavenged it. */
static void bury_both(void *arg)
{
    struct scavenger *s = arg;
    struct muster_task_info info;
    size_t deaths;

    crash_die(s->pid, 1u << PEER);
    crash_become(getpid(), 1u << THIRD);
    muster_scavenge(world.m[THIRD], &deaths);
    if (muster_scavenge(world.m[THIRD], &deaths) || deaths)
        crash_bad("a second look finds %zu more dead slots", deaths);
    crash_audit("after a scavenger's death");
    crash_idle("after a scavenger's death");
    crash_background(world.m[THIRD]);
    if (muster_task_get(world.m[THIRD], PEER, &info) || info.state != MUSTER_TASK_ERROR)
        crash_bad("the dead scavenger's task is not in error");
    muster_task_reset(world.m[THIRD], PEER);
    crash_second(s->v->op, THIRD, SPARE);
}

static void visit_scavenger(struct exploration *x)
{
    struct scavenger *s = x->visitor;

    s->pid = x->stepper.pid;
    crash_run(MAP_PRIVATE_MAIN, bury_both, s);
    board->nested_images++;
    crash_print("%s: its scavenger killed after %llu steps", s->v->op->name, (unsigned long long)x->stepper.steps);
}

static void step_scavenger(void *arg)
{
    struct scavenger s = {.v = arg};
    struct exploration x = {.fn = scavenge, .visit = visit_scavenger, .visitor = &s};

    alarm(0);
    crash_separate();
    crash_die(s.v->pid, OF_VICTIM);
    if (!explore(&x))
        crash_bad("the scavenger cannot be stepped");
    board->scavenges++;
}

/* ---- the victim's images ---- */

static void contend(void *arg)
{
    struct victim *v = arg;

    crash_become(getpid(), 1u << PEER);
    v->contender->run(v->op);
    crash_become(getppid(), 1u << PEER);
}

static bool wants_nested(struct victim *v, const struct exploration *x)
{
    uint64_t act = mu_load_relaxed(&world.ctx[VICTIM]->own->act); /* relaxed: the owner is stopped */
    bool turns = (act != 0) != (v->last_act != 0);

    v->last_act = act;
    if (crash_long)
        return x->images < FIRST_IMAGES || turns || x->images % 64 == 0;
    if (v->nested >= NESTED || !(turns || (x->images % 64 == crash_salt % 64)))
        return false;
    v->nested++;
    return true;
}

/* It is about to commit, or reads in place. */
static bool is_at_it(void)
{
    const struct mu_slot *own = world.ctx[VICTIM]->own;

    return mu_load_relaxed(&own->act) || mu_load_relaxed(&own->pin); /* relaxed: the owner is stopped */
}

static void visit(struct exploration *x)
{
    struct victim *v = x->visitor;

    if (x->images == 1) { /* stepping began anew */
        v->count = 0;
        v->nested = 0;
        v->last_act = 0;
        v->contended = false;
    }
    v->pid = x->stepper.pid;
    crash_run(MAP_PRIVATE_MAIN, bury, v);
    check_state(v);
    if (v->contender)
        board->contended_images++;
    else
        board->kill_images++;
    crash_print("%s killed after %llu steps, image %llu", v->op->name, (unsigned long long)x->stepper.steps,
                (unsigned long long)x->images);
    if (!v->contender && wants_nested(v, x))
        crash_run(MAP_AS_IS, step_scavenger, v);
    if (v->contender && !v->contended && is_at_it()) {
        v->contended = true;
        crash_run(MAP_AS_IS, contend, v);
        crash_print("%s: %s meanwhile", v->op->name, v->contender->name);
        crash_run(MAP_PRIVATE_MAIN, bury, v); /* killed right then: no write of its own comes first */
        crash_print("%s killed right after %s", v->op->name, v->contender->name);
        board->contended_images++;
        x->changed_by_others = true;
        v->count = 0;
    }
}

/* Alone: what it does to the end is what it leaves when it dies then, and nothing between is more than half of that. */
static bool try_alone(const struct op *op)
{
    struct victim v = {.op = op};
    struct exploration x = {.fn = run,
                            .arg = (void *)(uintptr_t)op,
                            .visit = visit,
                            .visitor = &v,
                            .every_byte = crash_long,
                            .own_map = op->flags & OP_OWNMAP};
    static char done[sizeof board->seen];

    crash_run(MAP_AS_IS, complete, &v);
    memcpy(done, board->seen, sizeof done);
    crash_print("%s complete, then killed", op->name);
    if (!explore(&x))
        return false;
    if (!v.count || strcmp(v.states[v.count - 1], done)) {
        crash_bad("killed at the end it does not leave what it leaves when complete:");
        crash_differ(done, v.count ? v.states[v.count - 1] : "");
    }
    if (v.count > (int)op->commits + 1)
        crash_bad("others can see %d states of it, not %u", v.count, op->commits + 1);
    if (op->commits && v.count < 2)
        crash_bad("it changed nothing that others can see");
    return true;
}

/* With a peer who comes first when it was about to commit: what the second attempt leaves, and the first behind it. */
static void try_contended(void *arg)
{
    struct victim *v = arg;
    struct exploration x = {.fn = run, .arg = (void *)(uintptr_t)v->op, .visit = visit, .visitor = v};

    alarm(0);
    crash_separate();
    if (!explore(&x))
        crash_bad("it cannot be stepped");
    crash_print("%s against %s", v->op->name, v->contender->name);
}

static bool try(const struct op *op)
{
    unsigned applicable = 0;

    if (!try_alone(op))
        return false;
    for (unsigned i = 0; i < num_interferences; i++) {
        struct victim v = {.op = op, .contender = &interferences[i]};

        if (!crash_applies(v.contender, op) || v.contender->leaves || (op->flags & (OP_OWNMAP | OP_SLEEPS)))
            continue;
        if (!crash_long && !strncmp(op->name, "append", 6) && strstr(v.contender->name, "parts"))
            continue; /* the second attempt copies a large value, a million steps */
        /* of those that change nothing, few images come, and reading in place depends on who overwrites: all */
        if (crash_long || !op->commits || applicable++ % 5 == crash_salt % 5)
            crash_run(MAP_AS_IS, try_contended, &v);
    }
    return true;
}

static void totals(char *text, size_t size)
{
    snprintf(text, size, "%llu images of killed operations, %llu of contended ones, %llu of scavengers (%llu passages)",
             (unsigned long long)board->kill_images, (unsigned long long)board->contended_images,
             (unsigned long long)board->nested_images, (unsigned long long)board->scavenges);
}

int main(int argc, char **argv)
{
    static const struct crash_test test = {.name = "kill at every step", .try = try, .totals = totals};

    return crash_main(&test, argc, argv);
}
