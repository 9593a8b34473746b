/*
 * tests/bridge/callers_test.c: a caller that is killed between any two steps of a call. The agent that runs then, not
 * one that comes later, finds what it left: the call is carried out or taken back, its room is given back, and whoever
 * has its slot next is neither held up nor robbed of a call.
 *
 * The caller is single-stepped and killed where it stands: when its call is in the segment and its bit is not set, when
 * its bit is set and nobody was woken, when its agent has asked, when the leader has answered, when the answer is in
 * the segment. Agents are stepped by the test, too, so that nothing else happens in between.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <muster/muster.h>

#include "bridge/call/calls.h"
#include "bridge/member/members.h"
#include "child.h"
#include "hosts.h"
#include "segment/slot.h"

enum { KEYS = 20, LONG = 400, STEPS_MAX = 20000000 };
#define A_WHILE_NS (2 * SWEEP_NS)

enum place { CALL_IS_THERE, BIT_IS_SET, IS_ASKED, IS_CARRIED_OUT, IS_ANSWERED, PLACES };
static const char *const places[PLACES] = {"its call is there", "its bit is set", "its agent has asked",
                                           "the leader has answered", "the answer is there"};

struct scene {
    struct hosts *h;
    struct muster *leader, *m; /* the test's, on hosts 0 and 1 */
    struct mu_ctx *ctx;
    struct test_gate gate;
    uint64_t bytes; /* in use on host 1 when no call is open */
    /* the open calls that were found: how many, and one of them */
    int open;
    uint32_t slot;
    uint64_t number;
};

/* ---- callers ----------------------------------------------------------------------------------------------------- */

/* A question and an answer that both take room. */
static const char *directory(void)
{
    static char name[LONG + 1];

    if (!*name)
        memset(name, 'd', LONG);
    return name;
}

static int list(struct muster *m)
{
    struct muster_kv_list *keys;

    CHECK(!muster_kv_get_dir(m, directory(), MUSTER_NTS, &keys));
    CHECK(keys->count == KEYS);
    muster_kv_list_free(keys);
    return 0;
}

static int call(struct muster *m, void *arg)
{
    (void)arg;
    return list(m);
}

/* Stopped when it has a slot, to be stepped from there on. */
static int call_in_steps(struct muster *m, void *arg)
{
    struct mu_ctx *ctx;

    (void)arg;
    directory();
    CHECK(!mu_enter(m, &ctx));
    mu_exit(ctx);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return 77;
    raise(SIGSTOP);
    return list(m);
}

/* Has a slot, and asks nothing yet. */
static int hold_and_call(struct muster *m, void *arg)
{
    struct scene *s = arg;
    struct mu_ctx *ctx;

    CHECK(!mu_enter(m, &ctx));
    CHECK(ctx->slot == s->slot);
    mu_exit(ctx);
    test_gate_arrive(&s->gate);
    test_gate_pass(&s->gate);
    return list(m);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static void find_open(void *arg, uint32_t slot)
{
    struct scene *s = arg;
    struct mu_request r;

    assert_ok(mu_remote_read(s->ctx, slot, &r));
    if (r.op != MU_OP_NONE) {
        s->open++;
        s->slot = slot;
        s->number = r.number;
    }
    mu_request_done(&r);
}

static int open_calls(struct scene *s)
{
    s->open = 0;
    assert_ok(mu_enter(s->m, &s->ctx));
    mu_remote_collect_all(s->m->seg, find_open, s);
    mu_exit(s->ctx);
    return s->open;
}

static bool bit_is_set(const struct scene *s)
{
    /* relaxed: the caller stands still; pairs with mu_asks_set() */
    return mu_load_relaxed(&s->m->seg->asks[s->slot / 64]) >> (s->slot % 64) & 1;
}

static uint64_t bytes_live(struct scene *s)
{
    struct muster_audit sum;

    assert_ok(muster_scavenge(s->m, NULL));
    assert_ok(muster_segment_check(hosts_segment(s->h, 1), NULL, NULL, &sum));
    return sum.bytes_live;
}

/* The agents that run have had time for everything. */
static void let_them_look(struct scene *s)
{
    for (int i = 0; i < 3; i++) { /* the look; then what it leads to, which waits a moment for company */
        hosts_pass(s->h, A_WHILE_NS);
        hosts_settle(s->h, NULL);
    }
}

/* Nobody believes any more that host 1 asks anything. */
static void assert_nothing_is_asked(struct scene *s)
{
    const struct calls *own = mu_calls_of(hosts_lock(s->h, 1)), *leader = mu_calls_of(hosts_lock(s->h, 0));

    assert_int_equal(open_calls(s), 0);
    assert_int_equal(own->num_open, 0);
    assert_int_equal(leader->hosts[1].open, 0);
    assert_int_equal(leader->hosts[1].unsettled, 0);
    hosts_unlock(s->h, 0);
    hosts_unlock(s->h, 1);
}

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

struct stop {
    pid_t pid;
    int status;
};

static bool has_stopped(struct stop *s)
{
    return waitpid(s->pid, &s->status, 0) == s->pid;
}

static void step(pid_t pid)
{
    intptr_t signal = 0;
    int status;

    do {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)signal), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
        signal = WSTOPSIG(status);
    } while (signal != SIGTRAP);
}

/* Somebody is in the midst of a change: only then it is worth a look at what has changed. */
static bool any_act(const struct scene *s)
{
    for (uint32_t i = 0; i < mu_slot_high(s->m->seg); i++)
        if (mu_load_relaxed(&s->m->seg->slots[i].act)) /* relaxed: all others stand still */
            return true;
    return false;
}

/* It stands where its call is there, and its bit is not set. 0: stepping is not allowed here. */
static pid_t begin_call(struct scene *s)
{
    struct stop stop = {.pid = hosts_visitor(s->h, 1, call_in_steps, NULL)};
    uint64_t before = s->open ? s->number : 0;

    assert_true(has_stopped(&stop));
    if (!WIFSTOPPED(stop.status))
        return 0;
    for (uint32_t steps = 0; !any_act(s) || !open_calls(s) || s->number == before; steps++) {
        assert_true(steps < STEPS_MAX);
        step(stop.pid);
    }
    assert_int_equal(s->open, 1);
    assert_true(before || !bit_is_set(s)); /* or it is the dead one's */
    return stop.pid;
}

/* It waits, and its agent has not looked yet. */
static bool has_asked(struct scene *s)
{
    return open_calls(s) && bit_is_set(s);
}

static pid_t begin_whole_call(struct scene *s)
{
    pid_t pid = hosts_visitor(s->h, 1, call, NULL);
    int status;

    for (int i = 0; !has_asked(s); i++) {
        struct timespec ms = {0, 1000000};

        assert_true(i < 60000);
        nanosleep(&ms, NULL); /* sleep: between looks at a process that must not be helped on */
    }
    kill(pid, SIGSTOP); /* it must not take the answer */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    return pid;
}

static void let_act(struct scene *s, uint32_t host)
{
    while (hosts_step(s->h, host))
        ;
}

/* 0: stepping is not allowed here. */
static pid_t go_to(struct scene *s, enum place place)
{
    pid_t pid = place <= BIT_IS_SET ? begin_call(s) : begin_whole_call(s);

    for (uint32_t steps = 0; pid && place == BIT_IS_SET && !bit_is_set(s); steps++) {
        assert_true(steps < STEPS_MAX);
        step(pid);
    }
    if (place >= IS_ASKED)
        let_act(s, 1);
    if (place >= IS_CARRIED_OUT)
        let_act(s, 0);
    if (place >= IS_ANSWERED) {
        let_act(s, 1);
        assert_int_equal(open_calls(s), 0);
    }
    return pid;
}

/* ---- what comes after it ----------------------------------------------------------------------------------------- */

static void nobody(struct scene *s)
{
    let_them_look(s);
    assert_nothing_is_asked(s);
    assert_true(bytes_live(s) <= s->bytes);
}

static void a_holder_that_asks_nothing(struct scene *s)
{
    pid_t pid;

    assert_ok(muster_scavenge(s->m, NULL));
    assert_int_equal(test_gate_open(&s->gate), 0);
    pid = hosts_visitor(s->h, 1, hold_and_call, s);
    test_gate_await(&s->gate);
    let_them_look(s);
    assert_nothing_is_asked(s);
    assert_true(bytes_live(s) <= s->bytes);
    test_gate_release(&s->gate);
    assert_int_equal(hosts_reap(s->h, pid), 0);
    test_gate_close(&s->gate);
}

static void a_holder_whose_call_has_no_bit_yet(struct scene *s)
{
    uint32_t slot = s->slot;
    uint64_t number = s->number;
    pid_t pid;

    assert_ok(muster_scavenge(s->m, NULL));
    pid = begin_call(s);
    assert_true(pid);
    assert_int_equal(s->slot, slot);
    assert_int_equal(s->number, number + 1);
    let_them_look(s);
    assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
    assert_int_equal(hosts_reap(s->h, pid), 0);
}

static void (*const after[])(struct scene *s) = {nobody, a_holder_that_asks_nothing,
                                                 a_holder_whose_call_has_no_bit_yet};

static bool die_at(struct scene *s, enum place place)
{
    pid_t pid;

    s->open = 0;
    pid = go_to(s, place);
    if (!pid)
        return false;
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    return true;
}

TEST(a_dead_caller_leaves_nothing_wherever_it_was)
{
    struct scene s = {.h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true})};
    char key[LONG + 16], value[LONG];
    bool allowed = true;

    s.leader = hosts_observer(s.h, 0);
    s.m = hosts_observer(s.h, 1);
    memset(value, 'v', sizeof value);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%s/%d", directory(), i);
        assert_ok(muster_kv_set(s.leader, key, MUSTER_NTS, value, sizeof value, NULL));
    }
    assert_int_equal(hosts_reap(s.h, hosts_visitor(s.h, 1, call, NULL)), 0);
    let_them_look(&s);
    s.bytes = bytes_live(&s);
    for (int p = 0; p < PLACES && allowed; p++)
        for (size_t i = 0; i < sizeof after / sizeof *after && allowed; i++) {
            allowed = die_at(&s, (enum place)p);
            if (!allowed)
                break;
            print_message("killed when %s\n", places[p]);
            after[i](&s);
            assert_int_equal(hosts_reap(s.h, hosts_visitor(s.h, 1, call, NULL)), 0);
            let_them_look(&s);
            assert_nothing_is_asked(&s);
            assert_true(bytes_live(&s) <= s.bytes);
        }
    if (!allowed)
        print_message("not tested: single-stepping is not allowed here\n");
    assert_ok(muster_leave(s.m));
    assert_ok(muster_leave(s.leader));
    assert_int_equal(hosts_close(s.h), 0);
}

/* ---- what the leader's tasks ask their own agent ----------------------------------------------------------------- */

static int reset(struct muster *m, void *arg)
{
    (void)arg;
    muster_task_reset(m, 1);
    return 1;
}

struct errands {
    struct hosts *h;
    uint32_t count, asking; /* kept by the leader's agent; of the leader's host, as people see it */
};

static void count_errands(struct errands *e)
{
    e->count = mu_members_of(hosts_lock(e->h, 0))->num_errands;
    hosts_unlock(e->h, 0);
    /* relaxed: a figure; pairs with entry_become() in dispatch.c */
    e->asking = (uint32_t)mu_load_relaxed(&hosts_segment(e->h, 0)->hosts[0].asking);
}

static bool there_is_one(struct errands *e)
{
    count_errands(e);
    return e->count == 1 && e->asking == 1;
}

TEST(what_a_dead_caller_asked_its_own_agent_is_forgotten)
{
    struct errands e = {.h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .apart = true})};
    struct scene s = {.h = e.h};
    pid_t pid = hosts_visitor(e.h, 0, reset, NULL);

    hosts_await(e.h, there_is_one(&e), "one call is on its way"); /* the task's host is not there to do it */
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    let_them_look(&s);
    count_errands(&e);
    assert_int_equal(e.count, 0);
    assert_int_equal(e.asking, 0);
    assert_int_equal(hosts_close(e.h), 0);
}
