/*
 * tests/bridge/cast.c: tasks on several hosts that do as they are told: a socket each, an act one way, its reply the
 * other.
 */
#include "cast.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "segment/cluster.h"
#include "segment/hosts.h"

enum { PATIENCE_MS = 60000 };

struct hosts *cast_hosts;
struct muster *cast_leader;

static struct player {
    pid_t pid;
    int fd;
} players[CAST_MAX];

/* ---- the player ---- */

struct part {
    const char *segment;
    uint32_t task, flags;
    int fd;
};

static struct muster *me;

static void on_interrupt(int signal)
{
    (void)signal;
    muster_interrupt(me);
}

muster_deadline cast_deadline(const struct cast_act *a)
{
    return !a->patience_ns ? MUSTER_FOREVER : a->patience_ns == 1 ? 1 : muster_after_ns(a->patience_ns);
}

static void act(const struct cast_act *a, struct cast_reply *r, int fd)
{
    muster_deadline deadline = cast_deadline(a);
    size_t count = 0;

    switch (a->kind) {
    case CAST_WAIT:
        r->status = (int)muster_barrier_wait(me, a->id, a->counter, a->count ? a->tasks : NULL, a->count, a->timeout_ns,
                                             deadline);
        break;
    case CAST_CANCEL: r->status = (int)muster_barrier_cancel(me, a->id, a->counter); break;
    case CAST_ALIVE:
        r->status = (int)muster_task_alive(me, a->tasks, a->count, deadline, r->tasks, r->incarnations, &count);
        r->count = (uint32_t)count;
        break;
    case CAST_DO: a->fn(me, a, r, fd); break;
    default: break;
    }
    if (r->status)
        snprintf(r->text, sizeof r->text, "%s", muster_last_error());
}

static int play(void *arg)
{
    const struct part *p = arg;
    struct muster_options options;
    struct cast_act a;

    muster_options_init(&options);
    options.task_id = (int32_t)p->task;
    options.flags = p->flags | MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
    setenv("MUSTER_SEGMENT", p->segment, 1);
    if (muster_join(&options, &me)) {
        printf("task %u cannot join %s: %s\n", p->task, p->segment, muster_last_error());
        return 101;
    }
    signal(SIGUSR1, on_interrupt);
    while (read(p->fd, &a, sizeof a) == sizeof a && a.kind != CAST_LEAVE) {
        struct cast_reply r = {0};

        act(&a, &r, p->fd);
        CHECK(write(p->fd, &r, sizeof r) == sizeof r);
    }
    CHECK(muster_leave(me) == MUSTER_OK);
    return 0;
}

/* ---- the director ---- */

void cast_open(const struct hosts_config *config)
{
    cast_hosts = hosts_open(config);
    cast_leader = hosts_observer(cast_hosts, 0);
    memset(players, 0, sizeof players);
}

void cast_enter(uint32_t task, uint32_t flags)
{
    struct part p = {.task = task, .flags = flags};
    int fds[2];

    p.segment = hosts_name(cast_hosts, mu_host_of(hosts_segment(cast_hosts, 0), task));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    p.fd = fds[1];
    players[task].fd = fds[0];
    players[task].pid = hosts_fork(cast_hosts, play, &p);
    close(fds[1]);
    cast_until_known(task, true);
}

void cast_enter_all(void)
{
    for (uint32_t i = 0; i < hosts_segment(cast_hosts, 0)->num_tasks; i++)
        cast_enter(i, 0);
}

pid_t cast_pid(uint32_t task)
{
    return players[task].pid;
}

void cast_tell(uint32_t task, const struct cast_act *a)
{
    assert_int_equal(write(players[task].fd, a, sizeof *a), sizeof *a);
}

bool cast_has_answered(uint32_t task)
{
    struct pollfd p = {.fd = players[task].fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

struct cast_reply cast_hear(uint32_t task)
{
    struct pollfd p = {.fd = players[task].fd, .events = POLLIN};
    struct cast_reply r = {0};

    if (poll(&p, 1, PATIENCE_MS) != 1)
        fail_msg("task %u does not answer", task);
    assert_int_equal(read(p.fd, &r, sizeof r), sizeof r);
    return r;
}

struct cast_reply cast_do(uint32_t task, const struct cast_act *a)
{
    cast_tell(task, a);
    return cast_hear(task);
}

void cast_kill_pid(uint32_t task, pid_t pid)
{
    struct muster *m = hosts_observer(cast_hosts, mu_host_of(cast_leader->seg, task));
    size_t deaths;

    kill(pid, SIGKILL);
    assert_int_equal(hosts_reap(cast_hosts, pid), 1000 + SIGKILL);
    assert_ok(muster_scavenge(m, &deaths)); /* as the launcher does there */
    assert_ok(muster_leave(m));
}

void cast_kill(uint32_t task)
{
    cast_kill_pid(task, players[task].pid);
    close(players[task].fd);
    players[task].pid = 0;
}

void cast_interrupt(uint32_t task)
{
    kill(players[task].pid, SIGUSR1);
}

static bool is_known(uint32_t task, bool connected)
{
    struct mu_task_record r;
    struct mu_cluster cluster;

    return !mu_cluster_task(cast_leader->seg, task, &r, NULL, &cluster) &&
           (r.state == MUSTER_TASK_CONNECTED) == connected;
}

void cast_until_known(uint32_t task, bool connected)
{
    hosts_await(cast_hosts, is_known(task, connected), "the leader knows what became of task %u", task);
}

struct arrival {
    const char *id;
    uint32_t arrived;
    bool there;
};

static int find(void *arg, const struct muster_barrier_info *info)
{
    struct arrival *a = arg;

    a->there |= !strcmp(info->id, a->id) && !info->passed && info->arrived == a->arrived;
    return a->there;
}

static bool have_come(struct arrival *a)
{
    return muster_barrier_list(cast_leader, find, a) == MUSTER_OK && a->there;
}

void cast_until_arrived(const char *id, uint32_t arrived)
{
    struct arrival a = {id, arrived, false};

    hosts_await(cast_hosts, have_come(&a), "%u have come to barrier %s", arrived, id);
}

void cast_close(void)
{
    struct cast_act leave = {.kind = CAST_LEAVE};

    for (uint32_t i = 0; i < CAST_MAX; i++)
        if (players[i].pid) {
            cast_tell(i, &leave);
            assert_int_equal(hosts_reap(cast_hosts, players[i].pid), 0);
            close(players[i].fd);
        }
    assert_ok(muster_leave(cast_leader));
    assert_int_equal(hosts_close(cast_hosts), 0);
}

struct cast_act cast_wait(const char *id, uint64_t counter)
{
    struct cast_act a = {.kind = CAST_WAIT, .counter = counter};

    snprintf(a.id, sizeof a.id, "%s", id);
    return a;
}

void cast_tell_wait(uint32_t task, const char *id, uint64_t counter)
{
    struct cast_act a = cast_wait(id, counter);

    cast_tell(task, &a);
}

struct cast_reply cast_do_wait(uint32_t task, const char *id, uint64_t counter)
{
    cast_tell_wait(task, id, counter);
    return cast_hear(task);
}
