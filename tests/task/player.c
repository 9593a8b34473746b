/*
 * tests/task/player.c: the players' side: acts that many tests use.
 *
 * An act is a thin wrapper of one public call; what it returned, with its sentence, is the answer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "private.h"

struct muster *me;

bool stage_send(int fd, const void *data, size_t len)
{
    for (const char *p = data; len;) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool stage_receive(int fd, void *data, size_t len)
{
    for (char *p = data; len;) {
        ssize_t n = read(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

_Noreturn void stage_play(int orders, int answers)
{
    static struct order o;
    static struct reply r;

    for (;;) {
        if (!stage_receive(orders, &o, sizeof o))
            _exit(3);
        if (!o.act)
            exit(0);
        memset(&r, 0, sizeof r);
        r.status = o.act(o.arg, &r);
        if (r.status)
            snprintf(r.text, sizeof r.text, "%s", muster_last_error());
        if (!stage_send(answers, &r, sizeof r))
            _exit(3);
    }
}

int act_join(void *arg, struct reply *reply)
{
    const struct join_act *a = arg;
    struct muster_options o;
    uint64_t incarnation;
    int status;

    muster_options_init(&o);
    o.job = stage_job;
    o.task_id = a->task;
    o.flags = a->flags;
    o.incarnation = a->incarnation;
    o.heartbeat_period_ns = a->period_ns;
    o.num_tasks = muster_num_tasks(stage_observer) ? muster_num_tasks(stage_observer) : 2;
    o.deadline = muster_after_ns(50000000000u);
    status = muster_join(&o, &me);
    if (status) {
        me = NULL;
        return status;
    }
    incarnation = muster_incarnation(me);
    memcpy(reply->data, &incarnation, sizeof incarnation);
    reply->len = sizeof incarnation;
    return MUSTER_OK;
}

int act_observe(void *arg, struct reply *reply)
{
    struct muster_options o;

    (void)arg;
    (void)reply;
    muster_options_init(&o);
    o.job = stage_job;
    o.flags = MUSTER_JOIN_OBSERVER;
    return muster_join(&o, &me);
}

int act_leave(void *arg, struct reply *reply)
{
    int status = muster_leave(me);

    (void)arg;
    (void)reply;
    me = NULL;
    return status;
}

int act_barrier(void *arg, struct reply *reply)
{
    const struct barrier_act *a = arg;

    (void)reply;
    return muster_barrier_wait(me, a->id, a->counter, a->count ? a->tasks : NULL, a->count, a->timeout_ns,
                               a->patience_ns ? muster_after_ns(a->patience_ns) : MUSTER_FOREVER);
}

int act_cancel(void *arg, struct reply *reply)
{
    const struct cancel_act *a = arg;

    (void)reply;
    return muster_barrier_cancel(me, a->id, a->counter);
}

int act_report(void *arg, struct reply *reply)
{
    const struct report_act *a = arg;

    (void)reply;
    return muster_error_report(me, a->task, a->code, a->message);
}

int act_reset(void *arg, struct reply *reply)
{
    int32_t task;

    (void)reply;
    memcpy(&task, arg, sizeof task);
    return muster_task_reset(me, task);
}

int act_error_wait(void *arg, struct reply *reply)
{
    struct muster_error e;
    int status = muster_error_wait(me, MUSTER_FOREVER, &e);

    (void)arg;
    if (!status) {
        memcpy(reply->data, &e, sizeof e);
        reply->len = sizeof e;
    }
    return status;
}

int act_kv_get(void *arg, struct reply *reply)
{
    size_t len = 0;
    int status = muster_kv_get(me, arg, MUSTER_NTS, MUSTER_FOREVER, reply->data, sizeof reply->data, &len, NULL);

    reply->len = len;
    return status;
}

int act_kv_set(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_kv_set(me, arg, MUSTER_NTS, arg, MUSTER_NTS, NULL);
}

int act_watch(void *arg, struct reply *reply)
{
    struct muster_task_info infos[4];
    uint64_t version, now = 0;
    size_t count = 0;
    int status;

    memcpy(&version, arg, sizeof version);
    status = muster_task_watch(me, version, MUSTER_FOREVER, infos, 4, &count, &now);
    if (!status) {
        memcpy(reply->data, &now, sizeof now);
        memcpy(reply->data + sizeof now, infos, (count < 4 ? count : 4) * sizeof *infos);
        reply->len = sizeof now + (count < 4 ? count : 4) * sizeof *infos;
    }
    return status;
}

int act_alive(void *arg, struct reply *reply)
{
    const struct alive_act *a = arg;
    struct alive_answer answer = {0};
    size_t count = 0;
    int status = muster_task_alive(me, a->tasks, a->count, MUSTER_FOREVER, answer.tasks, answer.incarnations, &count);

    answer.count = count;
    memcpy(reply->data, &answer, sizeof answer);
    reply->len = sizeof answer;
    return status;
}

int act_beat(void *arg, struct reply *reply)
{
    const struct beat_act *a = arg;

    (void)reply;
    return muster_task_heartbeat(me, a->task, a->incarnation);
}

struct reply do_text(int player, act_fn act, const char *text)
{
    return stage_do(player, act, text, strlen(text) + 1);
}

void tell_text(int player, act_fn act, const char *text)
{
    stage_tell(player, act, text, strlen(text) + 1);
}

struct reply do_plain(int player, act_fn act)
{
    return stage_do(player, act, NULL, 0);
}

void tell_plain(int player, act_fn act)
{
    stage_tell(player, act, NULL, 0);
}

void tell_barrier(int player, const char *id, uint64_t counter)
{
    struct barrier_act a = {.counter = counter};

    snprintf(a.id, sizeof a.id, "%s", id);
    stage_tell(player, act_barrier, &a, sizeof a);
}

struct reply do_barrier(int player, const char *id, uint64_t counter)
{
    tell_barrier(player, id, counter);
    return stage_hear(player);
}

struct reply do_report(int player, int32_t task, enum muster_status code, const char *message)
{
    struct report_act a = {.task = task, .code = code};

    snprintf(a.message, sizeof a.message, "%s", message);
    return stage_do(player, act_report, &a, sizeof a);
}
