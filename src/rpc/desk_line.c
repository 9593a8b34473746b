/*
 * rpc/desk_line.c: clients' connections, and what becomes of tasks when theirs is gone.
 *
 * A task's line is the one through which it spoke last. A client that waits there for errors gives up when the line
 * breaks: so its task is in error at once. One that does not may come back on another line; when it has not within a
 * second or so, it is lost likewise. Who had called for the shutdown is done, and has left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/desk_private.h"
#include "task/guest.h"

struct mu_line *mu_desk_line(struct mu_desk *desk, uint32_t pid, const char *name)
{
    struct mu_line *line = calloc(1, sizeof *line);

    if (!line) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a connection");
        return NULL;
    }
    line->desk = desk;
    line->pid = pid;
    snprintf(line->name, sizeof line->name, "%s", name);
    line->next = desk->lines;
    if (line->next)
        line->next->prev = line;
    desk->lines = line;
    return line;
}

void mu_line_speaks(struct mu_desk *desk, struct mu_line *line, int32_t task, uint64_t incarnation)
{
    struct mu_desk_task *t = &desk->tasks[task];

    if (!line)
        return;
    t->line = line;
    t->spoke = incarnation;
    t->lost_at = 0;
}

/* Is it still the guest that spoke? */
static bool is_there(const struct mu_desk *desk, int32_t task)
{
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, NULL);
    return r.state == MUSTER_TASK_CONNECTED && (r.flags & MU_TASK_GUEST) && r.incarnation == desk->tasks[task].spoke;
}

static void lose(struct mu_desk *desk, struct mu_ctx *ctx, int32_t task)
{
    struct mu_desk_task *t = &desk->tasks[task];

    t->lost_at = 0;
    mu_guest_lost(ctx, (uint32_t)task, t->spoke, t->lost_why);
    free(t->lost_why);
    t->lost_why = NULL;
}

static void line_is_gone(struct mu_desk *desk, struct mu_ctx *ctx, int32_t task, const struct mu_line *line,
                         const char *why)
{
    struct mu_desk_task *t = &desk->tasks[task];
    bool polled = t->poll_line == line;
    char text[MU_TEXT_MAX];

    t->line = t->poll_line = NULL;
    if (!is_there(desk, task))
        return;
    if (t->left) {
        mu_desk_disconnect(desk, ctx, task);
        return;
    }
    snprintf(text, sizeof text, "its connection (%s) %s without a shutdown", line->name, why);
    free(t->lost_why);
    t->lost_why = strdup(text);
    if (!t->lost_why || polled) {
        lose(desk, ctx, task);
        return;
    }
    t->lost_at = mu_now() + desk->o.lost_ns;
    if (t->lost_at < desk->lost_next)
        desk->lost_next = t->lost_at;
    mu_desk_due(desk, t->lost_at);
}

void mu_desk_hang_up(struct mu_line *line, const char *why)
{
    struct mu_desk *desk = line->desk;
    struct mu_ctx *ctx;
    bool entered;

    while (line->parked)
        mu_desk_drop(desk, line->parked->ask);
    entered = !desk->stopped && !mu_enter(desk->m, &ctx);
    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        struct mu_desk_task *t = &desk->tasks[i];

        if (t->line == line && entered)
            line_is_gone(desk, ctx, (int32_t)i, line, why);
        t->line = t->line == line ? NULL : t->line;
        t->poll_line = t->poll_line == line ? NULL : t->poll_line;
    }
    if (entered)
        mu_exit(ctx);
    *(line->prev ? &line->prev->next : &desk->lines) = line->next;
    if (line->next)
        line->next->prev = line->prev;
    free(line);
    if (entered)
        mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}

void mu_lost_due(struct mu_desk *desk, uint64_t now)
{
    struct mu_ctx *ctx;

    if (now < desk->lost_next || mu_enter(desk->m, &ctx))
        return;
    desk->lost_next = UINT64_MAX;
    for (uint32_t i = 0; i < desk->num_tasks; i++) {
        struct mu_desk_task *t = &desk->tasks[i];

        if (t->lost_at && t->lost_at <= now)
            lose(desk, ctx, (int32_t)i);
        else if (t->lost_at && t->lost_at < desk->lost_next)
            desk->lost_next = t->lost_at;
    }
    mu_exit(ctx);
}
