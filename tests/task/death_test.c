/*
 * tests/task/death_test.c: deaths of every kind, found by the kernel's word: SIGKILL, exit without leaving, exec,
 * abort, the end of threads; what a launcher adds to them; and being told of them.
 */
#include "stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task/task.h"

static int act_exit(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    _exit(9);
}

static int act_abort(void *arg, struct reply *reply)
{
    struct rlimit none = {0, 0};

    (void)arg;
    (void)reply;
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* Lives on as another program until its input ends. */
static int act_exec(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    execlp("cat", "cat", (char *)NULL);
    return MUSTER_UNKNOWN;
}

static void the_survivor_learns(int survivor, int victim)
{
    struct reply r = stage_hear(survivor);
    char pid[32];

    snprintf(pid, sizeof pid, "pid %d", stage_pid(victim));
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1");
    assert_says(r.text, pid);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_DIED);
    assert_int_equal(stage_task(1).error, MUSTER_UNAVAILABLE);
    assert_false(stage_task(1).alive);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
}

static void open_with_a_waiter(void)
{
    stage_open(2, NULL);
    stage_enter_all();
    tell_text(0, act_kv_get, "never");
    stage_until_waiting(0, "key never");
}

STAGE_TEST(a_task_that_is_killed_ends_its_peers_waits)
{
    open_with_a_waiter();
    stage_signal(1, SIGKILL);
    the_survivor_learns(0, 1);
    assert_true(WIFSIGNALED(stage_end(1)));
    stage_close();
}

STAGE_TEST(a_task_that_exits_without_leaving_is_dead)
{
    open_with_a_waiter();
    tell_plain(1, act_exit);
    the_survivor_learns(0, 1);
    assert_int_equal(WEXITSTATUS(stage_end(1)), 9);
    stage_close();
}

STAGE_TEST(a_task_that_aborts_is_dead)
{
    open_with_a_waiter();
    tell_plain(1, act_abort);
    the_survivor_learns(0, 1);
    assert_int_equal(WTERMSIG(stage_end(1)), SIGABRT);
    stage_close();
}

static void *write_and_exec(void *arg)
{
    muster_kv_set(me, "k", 1, "v", 1, NULL);
    execlp("cat", "cat", (char *)NULL);
    return arg;
}

static int act_exec_from_a_thread(void *arg, struct reply *reply)
{
    pthread_t t;

    (void)arg;
    (void)reply;
    pthread_create(&t, NULL, write_and_exec, NULL);
    pthread_join(t, NULL);
    return MUSTER_UNKNOWN;
}

static uint32_t slots_left(void)
{
    struct muster_segment_info info;

    muster_scavenge(stage_observer, NULL);
    assert_int_equal(muster_segment_info(muster_segment_of(stage_observer), &info), MUSTER_OK);
    return info.slots_live;
}

/* The kernel forgets the robust futexes of such a thread. */
STAGE_TEST(a_thread_that_execs_takes_its_task_along)
{
    open_with_a_waiter();
    tell_plain(1, act_exec_from_a_thread);
    the_survivor_learns(0, 1);
    await(slots_left() == 3, "the slots are given back, but the observer's and two of task 0");
    assert_int_equal(muster_task_reset(stage_observer, 1), MUSTER_OK);
    stage_kill(1);
    stage_close();
}

STAGE_TEST(a_task_that_becomes_another_program_is_dead_though_its_process_lives)
{
    open_with_a_waiter();
    tell_plain(1, act_exec);
    the_survivor_learns(0, 1);
    stage_kill(1);
    stage_close();
}

/* And joins again, before anybody has noticed. */
static int act_exec_again(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    execl("/proc/self/exe", "death_test", stage_job, (char *)NULL);
    return MUSTER_UNKNOWN;
}

static int join_again(const char *job)
{
    struct muster_options o;
    struct muster *m;

    muster_options_init(&o);
    o.job = job;
    o.task_id = 0;
    o.flags = MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_RECOVERABLE;
    o.deadline = muster_after_ms(50000);
    if (muster_join(&o, &m)) {
        fprintf(stderr, "%s\n", muster_last_error());
        return 1;
    }
    return muster_leave(m) ? 2 : 7;
}

STAGE_TEST(a_recoverable_task_that_execs_may_join_again_at_once)
{
    stage_open(1, NULL);
    stage_enter(0, MUSTER_JOIN_RECOVERABLE);
    tell_plain(0, act_exec_again);
    assert_int_equal(WEXITSTATUS(stage_end(0)), 7);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
    assert_int_equal(stage_task(0).attempt, 2);
    stage_close();
}

STAGE_TEST(a_stopped_task_that_is_killed_is_dead)
{
    open_with_a_waiter();
    stage_signal(1, SIGSTOP);
    stage_signal(1, SIGKILL);
    the_survivor_learns(0, 1);
    stage_end(1);
    stage_close();
}

/* Task 0's heartbeat thread may be faster, and then there is no death left to be told of. */
static void watch_until_error(int32_t task)
{
    while (stage_task(task).state != MUSTER_TASK_ERROR) {
        enum muster_status s = muster_death_wait(stage_observer, muster_after_ms(100), NULL);

        assert_true(s == MUSTER_OK || s == MUSTER_DEADLINE_EXCEEDED);
    }
}

/* A zombie has a pid still; its liveness word does not lie. */
STAGE_TEST(an_unreaped_zombie_is_dead)
{
    stage_open(2, NULL);
    stage_enter_all();
    kill(stage_pid(1), SIGKILL);
    watch_until_error(1);
    assert_false(stage_task(1).alive);
    stage_end(1);
    stage_close();
}

static void *write_and_end(void *arg)
{
    (void)arg;
    return muster_kv_set(me, "thread", MUSTER_NTS, "", 0, NULL) ? "failed" : NULL;
}

static uint32_t slots_live(void)
{
    struct muster_segment_info i;

    assert_int_equal(muster_segment_info(muster_segment_of(stage_observer), &i), MUSTER_OK);
    return i.slots_live;
}

static int act_threads(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    for (int i = 0; i < 200; i++) {
        pthread_t t;
        void *result;

        pthread_create(&t, NULL, write_and_end, NULL);
        pthread_join(t, &result);
        if (result)
            return MUSTER_INTERNAL;
    }
    return MUSTER_OK;
}

STAGE_TEST(threads_that_end_give_their_slots_back_and_are_no_death)
{
    uint32_t before;
    size_t deaths = 1;

    stage_open(2, NULL);
    stage_enter_all();
    before = slots_live();
    assert_status(do_plain(0, act_threads), MUSTER_OK);
    assert_int_equal(slots_live(), before);
    assert_int_equal(muster_scavenge(stage_observer, &deaths), MUSTER_OK);
    assert_int_equal(deaths, 0);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

static int act_detach(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    muster_thread_detach(me);
    return MUSTER_OK;
}

STAGE_TEST(a_detached_thread_takes_a_slot_again_when_it_writes)
{
    uint32_t before;

    stage_open(2, NULL);
    stage_enter_all();
    before = slots_live();
    assert_status(do_plain(0, act_detach), MUSTER_OK);
    assert_int_equal(slots_live(), before - 1);
    assert_status(do_text(0, act_kv_set, "k"), MUSTER_OK);
    assert_int_equal(slots_live(), before);
    stage_close();
}

/* The record has room for one death only: whoever comes first says why, and the launcher's words win. */
static void process_ended(int status, enum muster_cause cause, const char *words, bool scavenged_before)
{
    struct muster_task_info i;
    pid_t pid;

    stage_open(2, NULL);
    stage_enter_all();
    pid = stage_pid(1);
    stage_kill(1);
    if (scavenged_before) {
        assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
        assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    }
    assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)pid, status, true), MUSTER_OK);
    i = stage_task(1);
    assert_int_equal(i.state, MUSTER_TASK_ERROR);
    assert_int_equal(i.cause, cause);
    assert_int_equal(i.error, MUSTER_UNAVAILABLE);
    assert_says(i.message, words);
    assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)pid, status, true), MUSTER_OK); /* again */
    assert_says(stage_task(1).message, words);
    assert_int_equal(mu_task_process_ended(stage_observer, 2, (uint32_t)pid, 0, true), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_launcher_says_by_which_signal_a_task_died)
{
    process_ended(SIGKILL, MUSTER_CAUSE_DIED, "killed by signal 9 (Killed)", false);
    process_ended(SIGSEGV, MUSTER_CAUSE_DIED, "killed by signal 11 (Segmentation fault)", true);
}

STAGE_TEST(a_launcher_says_with_which_status_a_task_exited)
{
    process_ended(3 << 8, MUSTER_CAUSE_EXITED, "exited with status 3 without leaving the job", false);
    process_ended(0, MUSTER_CAUSE_EXITED, "exited with status 0 without leaving the job", true);
}

STAGE_TEST(the_end_of_a_process_that_had_left_is_no_error)
{
    pid_t pid;

    stage_open(2, NULL);
    stage_enter_all();
    pid = stage_pid(1);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    stage_kill(1);
    assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)pid, 0, true), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    stage_close();
}

STAGE_TEST(the_end_of_a_predecessor_does_not_touch_its_successor)
{
    pid_t pid;

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    pid = stage_pid(1);
    stage_kill(1);
    assert_int_equal(stage_enter(1, MUSTER_JOIN_RECOVERABLE), 2);
    assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)pid, SIGKILL, true), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_true(stage_task(1).alive);
    stage_close();
}

STAGE_TEST(the_end_of_a_process_is_in_the_record_whether_it_had_joined_or_not)
{
    struct muster_task_info i;
    pid_t pid;

    stage_open(4, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0);
    pid = stage_pid(1);
    assert_int_equal(mu_task_process_ended(stage_observer, 2, 4711, 7 << 8, false), MUSTER_OK); /* to be restarted */
    assert_false(stage_task(2).ended);
    assert_int_equal(mu_task_process_ended(stage_observer, 2, 4712, 7 << 8, true), MUSTER_OK);
    i = stage_task(2);
    assert_true(i.ended);
    assert_int_equal(i.state, MUSTER_TASK_DISCONNECTED);
    assert_int_equal(i.pid, 4712);
    assert_int_equal(i.attempt, 0);
    assert_int_equal(i.wait_status, 7 << 8);
    assert_int_equal(mu_task_process_ended(stage_observer, 2, 4712, 0, true), MUSTER_OK); /* the first word counts */
    assert_int_equal(stage_task(2).wait_status, 7 << 8);
    assert_int_equal(mu_task_process_ended(stage_observer, 3, 4713, MU_TASK_HOW_IS_UNKNOWN, true), MUSTER_OK);
    assert_int_equal(stage_task(3).wait_status, -1);
    /* a child of that process is connected still: it is over when that leaves */
    assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)pid + 1, SIGTERM, true), MUSTER_OK);
    assert_false(stage_task(1).ended);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_true(stage_task(1).ended);
    assert_int_equal(stage_task(1).wait_status, SIGTERM);
    stage_enter(2, 0); /* in its place, after all */
    assert_false(stage_task(2).ended);
    assert_int_equal(stage_task(2).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

STAGE_TEST(death_wait_ends_with_the_deadline_when_nobody_dies)
{
    size_t deaths = 7;

    stage_open(2, NULL);
    stage_enter_all();
    assert_int_equal(muster_death_wait(stage_observer, 0, &deaths), MUSTER_DEADLINE_EXCEEDED);
    assert_int_equal(deaths, 0);
    assert_int_equal(muster_death_wait(stage_observer, muster_after_ms(20), NULL), MUSTER_DEADLINE_EXCEEDED);
    stage_close();
}

/* More slots than one sleep can watch: it takes turns. */
STAGE_TEST(death_wait_watches_more_slots_than_one_sleep_can)
{
    struct muster_segment_config c = {.num_buckets = 64, .num_events = 64, .heap_bytes = 64u << 20, .num_slots = 400};
    stage_open(70, &c); /* two slots each */
    stage_enter_all();
    for (int victim = 5; victim < 70; victim += 31) {
        stage_signal(victim, SIGKILL);
        watch_until_error(victim);
        stage_end(victim);
    }
    stage_close();
}

static void *write_and_vanish(void *arg)
{
    enum muster_status status = muster_kv_set(stage_observer, "k", 1, "v", 1, NULL);

    usleep(20000); /* sleep: the other one does, too, most of the time; either way it finds it */
    if (status == MUSTER_OK)
        syscall(SYS_exit, 0);
    return arg;
}

/* It does not sleep on the words of its own process's threads: it looks, and nobody else here does. */
STAGE_TEST(death_wait_finds_a_thread_of_its_own_process_that_ends_with_its_slot)
{
    size_t deaths = 0;
    pthread_t t;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("not under a sanitizer: such a thread frees nothing\n");
    skip();
#endif
    stage_open(2, NULL);
    assert_int_equal(pthread_create(&t, NULL, write_and_vanish, NULL), 0);
    assert_int_equal(muster_death_wait(stage_observer, MUSTER_FOREVER, &deaths), MUSTER_OK);
    assert_int_equal(deaths, 1);
    assert_int_equal(pthread_join(t, NULL), 0);
    stage_close();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return join_again(argv[1]);
    return test_run(NULL, NULL);
}
