/*
 * tests/coord/scenarios_test.c: the rules of named barriers as one table of scenarios of three tasks, and all that can
 * play them: tasks' threads and guests, on the leader's host, on another, and mixed. Acceptance items 44 to 58. What
 * one kind alone can do is in tests/barrier/named_test.c and barrier_test.c; what hosts alone can, in tests/bridge.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLES = 3, STEPS = 14 };

/* WAITS: a call that waits. MEETS: one that is answered at once. HEARS: the answer of the one that waited. */
enum kind { END, WAITS, MEETS, HEARS, CANCELS };

struct step {
    enum kind kind;
    int who;
    int64_t instance;
    const char *tasks; /* their numbers; NULL: all */
    enum muster_status status;
    const char *says[2];
    uint32_t come;   /* WAITS: so many have, then */
    int64_t counter; /* the instance that a guest is answered for */
    bool replayed;   /* and whether that had passed before */
};

/* An instance that all three pass. */
#define PASSES(n)                                                                                                      \
    {WAITS, 0, (n), .come = 1}, {WAITS, 1, (n), .come = 2}, {MEETS, 2, (n), .counter = (n)},                           \
        {HEARS, 0, .counter = (n)},                                                                                    \
    {                                                                                                                  \
        HEARS, 1, .counter = (n)                                                                                       \
    }
#define AGAIN(role, ...)                                                                                               \
    {                                                                                                                  \
        MEETS, role, 0, .replayed = true, __VA_ARGS__                                                                  \
    }
#define REFUSED(...)   .status = MUSTER_INVALID_ARGUMENT, .says = {__VA_ARGS__}
#define RESTARTED(...) .status = MUSTER_INTERNAL, .says = {__VA_ARGS__}

static const struct scenario {
    const char *what;
    struct step steps[STEPS];
} scenarios[] = {
    {"44: nobody is released before the last of three", {PASSES(0)}},
    {"45: a subset needs only itself",
     {{WAITS, 0, 0, "01", .come = 1}, {MEETS, 1, 0, "01", .status = MUSTER_OK}, {HEARS, 0, .status = MUSTER_OK}}},
    {"46: different lists fail the instance for both, and for every later caller",
     {{WAITS, 0, 0, "01", .come = 1},
      {MEETS, 1, 0, "12", REFUSED("Conflicting tasks specified")},
      {HEARS, 0, REFUSED("Conflicting tasks specified")},
      {MEETS, 2, 0, "12", REFUSED("Conflicting tasks specified"), .replayed = true}}},
    {"46: so do some and then all",
     {{WAITS, 0, 0, "01", .come = 1}, {MEETS, 1, 0, NULL, REFUSED(NULL)}, {HEARS, 0, REFUSED(NULL)}}},
    {"46: so do all and then some",
     {{WAITS, 0, 0, NULL, .come = 1}, {MEETS, 1, 0, "01", REFUSED(NULL)}, {HEARS, 0, REFUSED(NULL)}}},
    {"47: a task that is not listed fails it for the waiter and itself",
     {{WAITS, 0, 0, "01", .come = 1},
      {MEETS, 2, 0, "01", REFUSED("non-participating task")},
      {HEARS, 0, REFUSED("non-participating task")}}},
    {"47: so does one that lists another",
     {{WAITS, 1, 0, "01", .come = 1}, {MEETS, 0, 0, "1", REFUSED(NULL)}, {HEARS, 1, REFUSED(NULL)}}},
    {"47: a task may meet itself", {{MEETS, 0, 0, "0", .status = MUSTER_OK}}},
    {"47: but not by another's call",
     {{MEETS, 1, 0, "0", REFUSED(NULL)}, {MEETS, 0, 0, "0", REFUSED(NULL), .replayed = true}}},
    {"48: an outsider of a passed barrier is refused, and the others keep what they have",
     {{WAITS, 0, 0, "01", .come = 1},
      {MEETS, 1, 0, "01", .status = MUSTER_OK},
      {HEARS, 0, .status = MUSTER_OK},
      {MEETS, 2, 0, "01", REFUSED("A non-participating task"), .replayed = true},
      AGAIN(0, .tasks = "01"),
      {MEETS, 1, 7, "01", RESTARTED(NULL)},
      AGAIN(1, .tasks = "01")}},
    {"49: a list with a task outside of the cluster is refused, and leaves nothing behind",
     {{MEETS, 0, 0, "013", REFUSED("not in the cluster", "3")}, PASSES(0)}},
    {"53: another instance fails the one that is open for all",
     {{WAITS, 0, 0, .come = 1},
      {MEETS, 1, 1, RESTARTED("instance 0", "restarted")},
      {HEARS, 0, RESTARTED("restarted")},
      {MEETS, 2, 0, RESTARTED(NULL), .replayed = true}}},
    {"54, 58: an instance that has passed is answered again, and instances that are not due are refused",
     {PASSES(0),
      AGAIN(0),
      AGAIN(1),
      AGAIN(2),
      {MEETS, 0, -2, RESTARTED(NULL)},
      {MEETS, 0, 2, RESTARTED(NULL)},
      AGAIN(0)}},
    {"54, 58: and the next one passes", {PASSES(0), AGAIN(1), AGAIN(1), PASSES(1)}},
    {"55: a cancelled instance is cancelled for all",
     {{WAITS, 0, 0, .come = 1},
      {WAITS, 1, 0, .come = 2},
      {CANCELS, 2, 0, .status = MUSTER_OK},
      {HEARS, 0, .status = MUSTER_CANCELLED, .says = {"is cancelled by task 2"}},
      {HEARS, 1, .status = MUSTER_CANCELLED},
      {MEETS, 2, 0, .status = MUSTER_CANCELLED, .replayed = true}}},
    {"56: what has passed cannot be cancelled",
     {PASSES(0),
      {CANCELS, 0, 0, .status = MUSTER_FAILED_PRECONDITION, .says = {"already been passed"}},
      AGAIN(1),
      AGAIN(0)}},
    {"57: only the open instance can be cancelled",
     {PASSES(0),
      {WAITS, 0, 1, .come = 1},
      {CANCELS, 1, 0, .status = MUSTER_FAILED_PRECONDITION, .says = {"likely due to a restart"}},
      {CANCELS, 1, 2, .status = MUSTER_FAILED_PRECONDITION, .says = {"likely due to a restart"}},
      {CANCELS, 1, 1, .status = MUSTER_OK},
      {HEARS, 0, .status = MUSTER_CANCELLED, .counter = 1}}},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* Where the tasks are, and which are guests ('g'). */
static const struct layout {
    uint32_t tasks[2];
    const char *kinds;
} layouts[] = {
    {{3, HOSTS_NONE}, "ggg"}, {{3, HOSTS_NONE}, "ttt"}, {{HOSTS_NONE, 3}, "ggg"},
    {{HOSTS_NONE, 3}, "ttt"}, {{1, 2}, "gtg"},          {{2, 1}, "tgt"},
};
static const struct layout *layout;
static char where[200]; /* for people: scenario, layout and step */
static const char *id;
static struct asked *asked[ROLES]; /* of guests */
static bool waits[ROLES];

static bool is_guest(int role)
{
    return layout->kinds[role] == 'g';
}

static void begin(const struct step *s)
{
    struct cast_act act = {.kind = s->kind == CANCELS ? CAST_CANCEL : CAST_WAIT, .counter = (uint64_t)s->instance};

    for (const char *c = s->tasks; c && *c; c++)
        act.tasks[act.count++] = *c - '0';
    snprintf(act.id, sizeof act.id, "%s", id);
    if (!is_guest(s->who))
        cast_tell((uint32_t)s->who, &act);
    else if (s->kind == CANCELS)
        asked[s->who] = do_cancel(pair_as(s->who), id, s->instance);
    else if (act.count)
        asked[s->who] = do_meet_some(pair_as(s->who), id, s->instance, act.tasks, act.count);
    else
        asked[s->who] = do_meet(pair_as(s->who), id, s->instance);
}

static void end(const struct step *s)
{
    const struct asked *a = asked[s->who];
    enum muster_status status;
    struct cast_reply r;

    if (is_guest(s->who))
        until_answered(asked[s->who]);
    else
        r = pair_hear((uint32_t)s->who);
    status = is_guest(s->who) ? a->ask.status : (enum muster_status)r.status;
    if (status != s->status)
        fail_msg("%s: %s (%s), not %s", where, muster_status_name(status), is_guest(s->who) ? a->text : r.text,
                 muster_status_name(s->status));
    for (int i = 0; i < 2; i++)
        if (s->says[i] && !strstr(is_guest(s->who) ? a->text : r.text, s->says[i]))
            fail_msg("%s: '%s' does not mention '%s'", where, is_guest(s->who) ? a->text : r.text, s->says[i]);
    if (!is_guest(s->who) || s->kind == CANCELS)
        return;
    if (a->ask.counter != s->counter || a->ask.replayed != s->replayed || strcmp(a->barrier_id, id) != 0 ||
        a->ask.payload != (unsigned)(status ? MU_PAYLOAD_BARRIER : MU_PAYLOAD_NONE))
        fail_msg("%s: instance %lld of %s, %s, payload %u", where, (long long)a->ask.counter, a->barrier_id,
                 a->ask.replayed ? "replayed" : "not replayed", (unsigned)a->ask.payload);
}

static void still_wait(void)
{
    counter_turn();
    for (int i = 0; i < ROLES; i++)
        if (waits[i] && (is_guest(i) ? asked[i]->answered : cast_has_answered((uint32_t)i)))
            fail_msg("%s: task %d does not wait", where, i);
}

static int count_arrived(void *arg, const struct muster_barrier_info *info)
{
    if (!strcmp(info->id, id) && !info->passed)
        *(uint32_t *)arg = info->arrived;
    return 0;
}

static uint32_t arrived(void)
{
    uint32_t count = 0;

    assert_int_equal(muster_barrier_list(cast_leader, count_arrived, &count), MUSTER_OK);
    return count;
}

static void play(const struct scenario *scenario)
{
    for (const struct step *s = scenario->steps; s < scenario->steps + STEPS && s->kind; s++) {
        snprintf(where, sizeof where, "%s, tasks %s of %u and %u, step %d", scenario->what, layout->kinds,
                 layout->tasks[0], layout->tasks[1], (int)(s - scenario->steps));
        if (s->kind != HEARS)
            begin(s);
        waits[s->who] = s->kind == WAITS || (s->kind == CANCELS && waits[s->who]);
        if (s->kind == WAITS)
            counter_await(arrived() == s->come, "%s: %u have come", where, s->come);
        else
            end(s);
        if (s->kind == WAITS || (s->kind == CANCELS && s->status))
            still_wait();
    }
}

PAIR_TEST(the_rules_are_the_same_for_threads_and_guests_on_every_host)
{
    char name[16];

    for (layout = layouts; layout < layouts + sizeof layouts / sizeof *layouts; layout++) {
        cast_open(&(struct hosts_config){.tasks = {layout->tasks[0], layout->tasks[1]}});
        for (int i = 0; i < ROLES; i++)
            if (!is_guest(i))
                cast_enter((uint32_t)i, 0);
        pair_begin(NULL);
        pair_register_all();
        for (int i = 0; i < SCENARIOS; i++) {
            snprintf(name, sizeof name, "b%d", i);
            id = name;
            memset(waits, 0, sizeof waits);
            play(&scenarios[i]);
        }
        pair_close();
    }
}
