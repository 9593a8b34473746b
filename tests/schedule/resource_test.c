/*
 * tests/schedule/resource_test.c: what calls ask for besides a worker: nobody has it twice, and deaths give it back.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "test.h"

enum { WORKERS = 3 };

static struct test_job job;
static struct muster *me;
static pid_t workers[WORKERS + 1];
static muster_function f;

/* Of all processes: which has the unit; how much of the amount is in use; how many calls wait to be let go; which
 * processes the test kills. */
static struct {
    _Atomic int holders[8], amount, held, may_end, wrong, is_over, num_doomed, doomed[64];
    _Atomic int waiting, may_go_on; /* calls 'w', which wait for something else than calls 'h' */
    _Atomic int begun, at, keeper; /* how many calls have begun; the last 'n' as which; which process keeps something */
} * seen;

#define OK(call) assert_status((call), MUSTER_OK, #call)

static void assert_status(enum muster_status got, enum muster_status wanted, const char *what)
{
    if (got != wanted)
        fail_msg("%s: %s, not %s: %s", what, muster_status_name(got), muster_status_name(wanted), muster_last_error());
}

/* ---- what workers run ---- */

static bool is_doomed(int pid)
{
    for (int i = 0; i < atomic_load(&seen->num_doomed); i++)
        if (atomic_load(&seen->doomed[i]) == pid)
            return true;
    return false;
}

/* What a process that was killed had is another's afterwards; what a living one has is nobody else's. */
static void units_hold(const char *units, bool begins)
{
    for (; *units; units += *units == ',') {
        _Atomic int *holder = &seen->holders[strtol(units, (char **)&units, 10)];
        int own = getpid(), before = begins ? atomic_exchange(holder, own) : own;

        if (begins ? before && !is_doomed(before) : !atomic_compare_exchange_strong(holder, &before, 0))
            atomic_fetch_add(&seen->wrong, 1);
    }
}

static void call_hold(_Atomic int *held, const _Atomic int *may_end)
{
    atomic_fetch_add(held, 1);
    while (!atomic_load(may_end))
        usleep(200); /* sleep: until the test lets it go */
}

static bool then_execs; /* the worker that keeps something */

static void call_keep(struct muster_call *call, bool execs)
{
    CHECK(muster_call_keep(call) == MUSTER_OK);
    then_execs = execs;
    atomic_store(&seen->keeper, getpid());
}

/* 'h', 'w': until it may end, or go on; 'd': it dies; 'k', 'e': it keeps what it has; 'n': it notes when it began; else
 * it goes on at once. */
static void call_run(struct muster_call *call)
{
    struct muster_object_view what;
    char units[MUSTER_RESOURCE_TEXT];
    double amount;

    CHECK(muster_call_argument(call, 0, &what) == MUSTER_OK);
    CHECK(muster_call_resource(call, "GPU", NULL, units) == MUSTER_OK);
    CHECK(muster_call_resource(call, "disk", &amount, NULL) == MUSTER_OK);
    atomic_fetch_add(&seen->begun, 1);
    if (*(const char *)what.data == 'd')
        raise(SIGKILL);
    units_hold(units, true);
    if (atomic_fetch_add(&seen->amount, (int)(amount * 10)) + (int)(amount * 10) > 15)
        atomic_store(&seen->is_over, 1);
    sched_yield();
    if (*(const char *)what.data == 'h')
        call_hold(&seen->held, &seen->may_end);
    else if (*(const char *)what.data == 'w')
        call_hold(&seen->waiting, &seen->may_go_on);
    else if (*(const char *)what.data == 'n')
        atomic_store(&seen->at, atomic_load(&seen->begun));
    else if (*(const char *)what.data == 'k' || *(const char *)what.data == 'e')
        call_keep(call, *(const char *)what.data == 'e');
    atomic_fetch_add(&seen->amount, -(int)(amount * 10));
    units_hold(units, false);
}

static int worker_main(void *arg)
{
    struct muster *m = test_join(job.name, (int)(intptr_t)arg, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);
    struct muster_call *call;
    enum muster_status status;

    CHECK(m != NULL);
    while ((status = muster_worker_next(m, 0, MUSTER_FOREVER, &call)) == MUSTER_OK) {
        call_run(call);
        CHECK(muster_call_done(call) == MUSTER_OK);
    }
    if (atomic_load(&seen->keeper) == getpid()) {
        CHECK(status == MUSTER_FAILED_PRECONDITION && strstr(muster_last_error(), "keeps what a call had"));
        while (!then_execs || !atomic_load(&seen->may_go_on))
            usleep(200); /* sleep: until it is killed, or told to go on */
        execlp("sleep", "sleep", "1000", NULL);
    }
    muster_leave(m);
    return 0;
}

/* ---- the stage ---- */

static void stage_begin(int count)
{
    struct muster_segment_config config = {.num_tasks = WORKERS + 1, .num_slots = 200, .heap_bytes = 64 << 20};
    struct muster_function_text text = {.name = "f", .kind = MUSTER_FUNCTION_OWN, .num_results = 1};

    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    OK(test_job_create(&job, &config));
    me = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    assert_non_null(me);
    OK(muster_resource_offer(me, "GPU", 0, "0,1"));
    OK(muster_resource_offer(me, "disk", 1.5, NULL));
    OK(muster_function_export(me, &text, &f));
    for (int i = 1; i <= count; i++)
        workers[i] = test_fork(worker_main, (void *)(intptr_t)i);
}

static int lent_sum(void *arg, const struct muster_resource_look *look)
{
    *(double *)arg += look->lent;
    return 0;
}

static double lent(void)
{
    double sum = 0;

    OK(muster_resource_list(me, lent_sum, &sum));
    return sum;
}

static void stage_end(int count)
{
    await(lent() == 0, "something is lent still");
    assert_int_equal(atomic_load(&seen->wrong), 0);
    /* those that were killed have not counted down */
    assert_true(atomic_load(&seen->num_doomed) || !atomic_load(&seen->is_over));
    for (int i = 1; i <= count; i++) {
        kill(workers[i], SIGKILL);
        test_reap(workers[i]);
    }
    muster_scavenge(me, NULL);
    OK(muster_leave(me));
    assert_int_equal(test_job_end(&job), 0);
    munmap(seen, sizeof *seen);
}

static enum muster_status submit(char what, const struct muster_resource *r, uint32_t count, int retries,
                                 muster_object *ret)
{
    struct muster_argument a = {.data = &what, .len = 1};
    struct muster_submit_options options = {.max_retries = retries, .resources = r, .num_resources = count};

    return muster_submit(me, f, &a, 1, &options, ret);
}

static muster_object call_with(char what, double gpus, double disk)
{
    struct muster_resource r[] = {{"GPU", gpus}, {"disk", disk}};
    muster_object o = 0;

    OK(submit(what, r, 2, 200, &o));
    return o;
}

static enum muster_status outcome_of(muster_object o)
{
    struct muster_object_view view;
    enum muster_status status = muster_object_get(me, &o, 1, muster_after_ms(60000), &view, NULL);

    if (!status)
        muster_object_unview(me, &view, 1);
    OK(muster_object_drop(me, &o, 1));
    return status;
}

static void let_go(int held)
{
    await(atomic_load(&seen->held) >= held, "%d of %d calls run", atomic_load(&seen->held), held);
    atomic_store(&seen->may_end, 1);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* In the place of one that was killed. */
static void worker_again(int w)
{
    enum muster_status status;

    test_reap(workers[w]);
    muster_scavenge(me, NULL);
    status = muster_task_reset(me, w);
    if (status != MUSTER_FAILED_PRECONDITION) /* it had not joined yet */
        OK(status);
    workers[w] = test_fork(worker_main, (void *)(intptr_t)w);
}

/* ---- tests ---- */

TEST(what_can_never_be_had_is_refused)
{
    static const struct {
        struct muster_resource r[2];
        uint32_t count;
        enum muster_status status;
        const char *words;
    } rows[] = {
        {{{"tape", 1}}, 1, MUSTER_FAILED_PRECONDITION, "asks for 1 of resource tape, of which job"},
        {{{"GPU", 3}}, 1, MUSTER_FAILED_PRECONDITION, "has 2"},
        {{{"disk", 1.6}}, 1, MUSTER_FAILED_PRECONDITION, "has 1.5"},
        {{{"GPU", 0.5}}, 1, MUSTER_INVALID_ARGUMENT, "is lent whole"},
        {{{"disk", -1}}, 1, MUSTER_INVALID_ARGUMENT, "is a number from 0"},
        {{{"disk", 1e300 * 1e300}}, 1, MUSTER_INVALID_ARGUMENT, "is a number from 0"},
        {{{"disk", 1}, {"disk", 0.1}}, 2, MUSTER_INVALID_ARGUMENT, "twice"},
        {{{"a b", 1}}, 1, MUSTER_INVALID_ARGUMENT, "name is 1 to 31"},
        {{{"", 1}}, 1, MUSTER_INVALID_ARGUMENT, "name is 1 to 31"},
    };
    struct muster_submit_options options = {.resources = rows[0].r, .num_resources = 1};
    char name[16], many[2 * MUSTER_RESOURCE_UNITS_MAX + 2];
    muster_object o;

    stage_begin(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_status(submit('x', rows[i].r, rows[i].count, 0, &o), rows[i].status, rows[i].words);
        if (!strstr(muster_last_error(), rows[i].words))
            fail_msg("%s is not in: %s", rows[i].words, muster_last_error());
    }
    OK(muster_place_open(me, &options.place));
    assert_status(muster_submit(me, f, NULL, 0, &options, &o), MUSTER_INVALID_ARGUMENT, "of a place");
    OK(muster_object_drop(me, &options.place, 1));
    memset(many, '1', sizeof many);
    for (size_t i = 1; i < sizeof many; i += 2)
        many[i] = ',';
    many[sizeof many - 1] = 0;
    assert_status(muster_resource_offer(me, "many", 0, many), MUSTER_INVALID_ARGUMENT, "65 units");
    assert_status(muster_resource_offer(me, "none", 0, ""), MUSTER_INVALID_ARGUMENT, "no units");
    assert_status(muster_resource_offer(me, "none", 0, "a,,b"), MUSTER_INVALID_ARGUMENT, "a unit without a name");
    assert_status(muster_resource_offer(me, "GPU", 4, NULL), MUSTER_FAILED_PRECONDITION, "without units now");
    for (uint32_t i = 2; i < MUSTER_RESOURCES_MAX; i++) {
        snprintf(name, sizeof name, "r%u", i);
        OK(muster_resource_offer(me, name, 1, NULL));
    }
    assert_status(muster_resource_offer(me, "more", 1, NULL), MUSTER_RESOURCE_EXHAUSTED, "the ninth");
    stage_end(0);
}

TEST(nobody_has_what_another_call_has)
{
    muster_object calls[240];

    stage_begin(WORKERS);
    for (int i = 0; i < 240; i++)
        calls[i] = call_with('x', i % 3, i % 4 * 0.5);
    for (int i = 0; i < 240; i++)
        OK(outcome_of(calls[i]));
    stage_end(WORKERS);
}

TEST(others_go_on_while_a_call_is_parked)
{
    muster_object first, parked, small, plain;

    stage_begin(2);
    first = call_with('h', 2, 0);
    await(atomic_load(&seen->held) == 1, "it does not run");
    parked = call_with('x', 1, 1);
    small = call_with('x', 0, 1);
    plain = call_with('x', 0, 0);
    OK(outcome_of(small));
    OK(outcome_of(plain));
    assert_int_equal((int)lent(), 2);
    let_go(1);
    OK(outcome_of(first));
    OK(outcome_of(parked));
    stage_end(2);
}

TEST(more_is_offered_and_what_is_parked_runs)
{
    muster_object first, parked;

    stage_begin(2);
    first = call_with('h', 2, 0);
    await(atomic_load(&seen->held) == 1, "it does not run");
    parked = call_with('x', 1, 0);
    assert_status(muster_resource_offer(me, "GPU", 0, "1,2"), MUSTER_FAILED_PRECONDITION, "a unit in another's place");
    assert_status(muster_resource_offer(me, "GPU", 0, "0,12"), MUSTER_FAILED_PRECONDITION, "a unit in another's place");
    assert_non_null(strstr(muster_last_error(), "has units 0,1: others can be offered behind these"));
    OK(muster_resource_offer(me, "GPU", 0, "0")); /* the last one goes, and comes again */
    OK(muster_resource_offer(me, "GPU", 0, "0,1,2"));
    OK(outcome_of(parked));
    let_go(1);
    OK(outcome_of(first));
    stage_end(2);
}

TEST(what_is_given_back_goes_to_a_parked_call_first)
{
    muster_object first, other, parked, plain[500];
    int before;

    stage_begin(2);
    first = call_with('h', 2, 0);
    await(atomic_load(&seen->held) == 1, "it does not run");
    parked = call_with('n', 1, 0);
    other = call_with('w', 0, 0); /* the worker that parks the call runs this one behind it */
    await(atomic_load(&seen->waiting) == 1, "it does not run");
    for (int i = 0; i < 500; i++)
        plain[i] = call_with('x', 0, 0);
    before = atomic_load(&seen->begun);
    let_go(1);
    OK(outcome_of(parked));
    assert_int_equal(atomic_load(&seen->at), before + 1);
    atomic_store(&seen->may_go_on, 1);
    for (int i = 0; i < 500; i++)
        OK(outcome_of(plain[i]));
    OK(outcome_of(other));
    OK(outcome_of(first));
    stage_end(2);
}

TEST(many_parked_calls_do_not_hide_another_kind)
{
    muster_object first, gpus[100], disk;

    stage_begin(2);
    first = call_with('h', 2, 1.5);
    await(atomic_load(&seen->held) == 1, "it does not run");
    for (int i = 0; i < 100; i++)
        gpus[i] = call_with('w', 2, 0);
    disk = call_with('x', 0, 1);
    OK(outcome_of(call_with('x', 0, 0))); /* behind it: all are parked */
    let_go(1);
    OK(outcome_of(disk)); /* beside the first of the others, which waits */
    atomic_store(&seen->may_go_on, 1);
    for (int i = 0; i < 100; i++)
        OK(outcome_of(gpus[i]));
    OK(outcome_of(first));
    stage_end(2);
}

TEST(the_deadline_of_a_parked_call_ends_it)
{
    struct muster_argument a = {.data = "x", .len = 1};
    struct muster_resource r = {"GPU", 1};
    struct muster_submit_options options = {.resources = &r, .num_resources = 1};
    muster_object first, parked, other;

    stage_begin(WORKERS);
    first = call_with('h', 2, 0);
    await(atomic_load(&seen->held) == 1, "it does not run");
    for (int i = 0; i < 2; i++) { /* first by the worker that has parked it; then that one, or the other, has a call */
        options.deadline = muster_after_ms(200);
        OK(muster_submit(me, f, &a, 1, &options, &parked));
        other = i ? call_with('w', 0, 0) : 0;
        await(!i || atomic_load(&seen->waiting) == 1, "it does not run");
        assert_status(outcome_of(parked), MUSTER_DEADLINE_EXCEEDED, "a parked call");
        assert_non_null(strstr(muster_last_error(), "no worker had begun it"));
    }
    atomic_store(&seen->may_go_on, 1);
    OK(outcome_of(other));
    let_go(1);
    OK(outcome_of(first));
    stage_end(WORKERS);
}

/* `what`: it is killed then, or it execs. */
static void keeper_ends(char what)
{
    muster_object keeps, parked;

    stage_begin(2);
    keeps = call_with(what, 2, 0);
    OK(outcome_of(keeps));
    parked = call_with('x', 1, 0);
    OK(outcome_of(call_with('x', 0, 0))); /* the other worker parks it before */
    assert_int_equal((int)lent(), 2);
    if (what == 'k')
        kill(atomic_load(&seen->keeper), SIGKILL);
    atomic_store(&seen->may_go_on, 1);
    OK(outcome_of(parked));
    stage_end(2);
}

TEST(what_is_kept_is_lent_again_when_the_process_has_ended)
{
    keeper_ends('k');
    keeper_ends('e');
}

static int lease_names(void *arg, const struct muster_lease_look *look)
{
    char *text = arg;

    if (look->pid == (uint32_t)workers[1])
        snprintf(text + strlen(text), 200 - strlen(text), "%s %.1f [%s];", look->name, look->amount, look->units);
    return 0;
}

TEST(a_look_says_who_has_what)
{
    char text[200] = "";
    muster_object o;

    stage_begin(1);
    o = call_with('h', 1, 0.5);
    await(atomic_load(&seen->held) == 1, "it does not run");
    OK(muster_lease_list(me, lease_names, text));
    assert_string_equal(text, "GPU 1.0 [0];disk 0.5 [];");
    let_go(1);
    OK(outcome_of(o));
    stage_end(1);
}

TEST(a_parked_call_is_cancelled)
{
    muster_object first, parked;

    stage_begin(2);
    first = call_with('h', 2, 0);
    await(atomic_load(&seen->held) == 1, "it does not run");
    parked = call_with('x', 1, 0);
    OK(muster_call_cancel(me, parked));
    assert_status(outcome_of(parked), MUSTER_CANCELLED, "a parked call");
    let_go(1);
    OK(outcome_of(first));
    OK(outcome_of(call_with('x', 2, 1.5)));
    stage_end(2);
}

TEST(a_death_gives_back_what_the_call_had)
{
    stage_begin(2);
    for (int i = 0; i < 10; i++) {
        muster_object dies, next = 0;
        struct muster_resource r[] = {{"GPU", 2}};

        OK(submit('d', r, 1, 0, &dies));
        OK(submit('x', r, 1, 0, &next)); /* parked, where the other has begun */
        assert_status(outcome_of(dies), MUSTER_UNAVAILABLE, "a call whose worker died");
        OK(outcome_of(next));
        await(has_ended(workers[1]) || has_ended(workers[2]), "the worker that died has not ended");
        for (int w = 1; w <= 2; w++)
            if (has_ended(workers[w]))
                worker_again(w);
    }
    stage_end(2);
}

TEST(workers_are_killed_at_any_instant)
{
    muster_object calls[400];

    stage_begin(WORKERS);
    for (int i = 0; i < 400; i++)
        calls[i] = call_with('x', i % 3, i % 4 * 0.5);
    for (int i = 0; i < 40; i++) {
        int w = 1 + i % WORKERS;

        usleep((useconds_t)(i * 37 % 900)); /* sleep: the kill may come anywhere */
        atomic_store(&seen->doomed[i], workers[w]);
        atomic_store(&seen->num_doomed, i + 1);
        kill(workers[w], SIGKILL);
        worker_again(w);
    }
    for (int i = 0; i < 400; i++)
        OK(outcome_of(calls[i]));
    stage_end(WORKERS);
}
