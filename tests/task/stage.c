/*
 * tests/task/stage.c: the director's side: players as forked processes, each driven through a pair of pipes.
 *
 * A function's address is the same in the director and in its forked players, so an act travels as a pointer. Players
 * die with the director (PR_SET_PDEATHSIG), whatever happens to it.
 */
#include "stage.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "private.h"

#define PATIENCE_MS 60000

struct player {
    pid_t pid; /* 0: has ended */
    int orders, answers;
    bool asked;
};

static struct player players[STAGE_PLAYERS];
static int num_players;
static unsigned num_stages;
struct muster *stage_observer;
char stage_job[64];

void stage_open(uint32_t tasks, const struct muster_segment_config *config)
{
    struct muster_segment_config small = {.num_buckets = 1024, .num_events = 64, .heap_bytes = 64u << 20};
    struct muster_options o;

    if (config)
        small = *config;
    test_await_report = stage_print_tasks;
    small.num_tasks = tasks;
    snprintf(stage_job, sizeof stage_job, "t-%d-%u", (int)getpid(), num_stages++);
    muster_options_init(&o);
    o.job = stage_job;
    o.flags = MUSTER_JOIN_OBSERVER;
    o.num_tasks = tasks;
    o.config = &small;
    if (muster_join(&o, &stage_observer) != MUSTER_OK)
        fail_msg("the observer cannot join: %s", muster_last_error());
}

int stage_player(void)
{
    int orders[2], answers[2], i = num_players;
    pid_t director = getpid(), pid;

    if (i == STAGE_PLAYERS || pipe(orders) || pipe(answers))
        fail_msg("no more players");
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        fail_msg("fork: %s", strerror(errno));
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != director)
            _exit(3);
        signal(SIGPIPE, SIG_IGN);
        for (int k = 0; k < num_players; k++) {
            close(players[k].orders);
            close(players[k].answers);
        }
        close(orders[1]);
        close(answers[0]);
        stage_play(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    players[i] = (struct player){pid, orders[1], answers[0], false};
    num_players++;
    return i;
}

int stage_pid(int player)
{
    return players[player].pid;
}

int stage_enter(int32_t task, uint32_t flags)
{
    struct join_act a = {.task = task, .flags = flags};
    int p = stage_player();

    assert_status(stage_do(p, act_join, &a, sizeof a), MUSTER_OK);
    return p;
}

void stage_enter_all(void)
{
    uint32_t n = muster_num_tasks(stage_observer);

    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(stage_enter((int32_t)i, 0), i);
}

void stage_tell(int player, act_fn act, const void *arg, size_t len)
{
    struct order o = {.act = act, .len = len};

    assert_false(players[player].asked);
    assert_true(len <= sizeof o.arg);
    if (len)
        memcpy(o.arg, arg, len);
    if (!stage_send(players[player].orders, &o, sizeof o))
        fail_msg("player %d takes no orders", player);
    players[player].asked = true;
}

bool stage_has_answered(int player)
{
    struct pollfd p = {.fd = players[player].answers, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

struct reply stage_hear(int player)
{
    struct pollfd p = {.fd = players[player].answers, .events = POLLIN};
    struct reply r;

    assert_true(players[player].asked);
    if (poll(&p, 1, PATIENCE_MS) != 1) {
        stage_print_tasks();
        fail_msg("player %d does not answer", player);
    }
    if (!stage_receive(players[player].answers, &r, sizeof r))
        fail_msg("player %d (pid %d) has ended instead of answering", player, (int)players[player].pid);
    players[player].asked = false;
    return r;
}

struct reply stage_do(int player, act_fn act, const void *arg, size_t len)
{
    stage_tell(player, act, arg, len);
    return stage_hear(player);
}

int stage_end(int player)
{
    int status;

    if (waitpid(players[player].pid, &status, 0) != players[player].pid)
        fail_msg("waitpid: %s", strerror(errno));
    players[player].pid = 0;
    players[player].asked = false;
    close(players[player].orders);
    close(players[player].answers);
    players[player].orders = players[player].answers = -1;
    return status;
}

void stage_signal(int player, int signal)
{
    assert_int_not_equal(players[player].pid, 0);
    kill(players[player].pid, signal);
    if (signal == SIGSTOP) {
        int status;

        assert_int_equal(waitpid(players[player].pid, &status, WUNTRACED), players[player].pid);
        assert_true(WIFSTOPPED(status));
    }
}

int stage_kill(int player)
{
    stage_signal(player, SIGKILL);
    return stage_end(player);
}

struct muster_task_info stage_task(int32_t task)
{
    struct muster_task_info i;

    if (muster_task_get(stage_observer, task, &i) != MUSTER_OK)
        fail_msg("task %d: %s", (int)task, muster_last_error());
    return i;
}

void stage_print_tasks(void)
{
    for (uint32_t t = 0; stage_observer && t < muster_num_tasks(stage_observer); t++) {
        struct muster_task_info i;

        if (muster_task_get(stage_observer, (int32_t)t, &i) == MUSTER_OK && i.attempt)
            print_message("task %u: pid %u, state %d, %s, waiting: '%s', error: '%s'\n", t, i.pid, (int)i.state,
                          i.alive ? "alive" : "not alive", i.waiting, i.message);
    }
}

static bool is_waiting(int32_t task, const char *what)
{
    struct muster_task_info i = stage_task(task);

    return !strncmp(i.waiting, what, strlen(what));
}

void stage_until_waiting(int32_t task, const char *what)
{
    await(is_waiting(task, what), "%s", what);
}

void stage_until_state(int32_t task, enum muster_task_state state)
{
    await(stage_task(task).state == state, "task %d is in state %d", (int)task, (int)state);
}

static void print_problem(void *arg, const char *sentence)
{
    (void)arg;
    print_message("audit: %s\n", sentence);
}

struct muster_audit stage_audit(void)
{
    struct muster_audit audit;

    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(muster_segment_check(muster_segment_of(stage_observer), print_problem, NULL, &audit), MUSTER_OK);
    if (audit.problems)
        fail_msg("the audit finds %llu problems", (unsigned long long)audit.problems);
    return audit;
}

static void forget_players(void)
{
    num_players = 0;
}

void stage_close(void)
{
    struct muster_segment *seg;

    for (int i = 0; i < num_players; i++)
        if (players[i].pid) {
            struct reply r = stage_do(i, act_leave, NULL, 0);

            if (r.status)
                fail_msg("player %d cannot leave: %s", i, r.text);
            stage_tell(i, NULL, NULL, 0);
            assert_int_equal(stage_end(i), 0);
        }
    stage_audit();
    assert_int_equal(muster_leave(stage_observer), MUSTER_OK);
    stage_observer = NULL;
    forget_players();
    assert_int_equal(muster_segment_open(stage_job, &seg), MUSTER_NOT_FOUND);
}

int stage_strike(void)
{
    for (int i = 0; i < num_players; i++)
        if (players[i].pid) {
            kill(players[i].pid, SIGKILL);
            stage_end(i);
        }
    forget_players();
    if (stage_observer) {
        muster_segment_remove(stage_job);
        muster_leave(stage_observer);
        stage_observer = NULL;
    }
    return 0;
}

void stage_assert_status(struct reply reply, int wanted, const char *what, const char *file, int line)
{
    if (reply.status == wanted)
        return;
    print_error("%s: %s (%s), not %s\n", what, muster_status_name((enum muster_status)reply.status),
                reply.status ? reply.text : "", muster_status_name((enum muster_status)wanted));
    _fail(file, line);
}

void stage_assert_says(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("'%s' does not say '%s'\n", text, part);
    _fail(file, line);
}
