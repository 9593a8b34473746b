/*
 * coord/line.c: clients' connections, and what becomes of tasks when theirs is gone.
 *
 * A task's line is the one through which it spoke last. A client that waits there for errors gives up when the line
 * breaks: so its task is in error at once, or, where the launcher started its process, a moment later: a connection
 * closes some milliseconds before the kernel says how the process ended, and that is worth more. One that does not wait
 * there comes back on another line when it has something to say, as TensorFlow's clients do with their next heartbeat:
 * so its heartbeats decide, as those of any task, and the kernel, which is asked now and again, where its process is
 * known. A client that had called for the shutdown is done, and has left. In a job that has failed nobody waits for
 * heartbeats of a task without a known process: its client was told of the error, and ends; its line's end is the
 * task's.
 *
 * Where the peer's process is known (a Unix socket's), the kernel's word for its end counts as well: others may have
 * inherited the connection, and hold it open.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "coord/private.h"
#include "base/list.h"
#include "task/client.h"

#define LOOK_NS  1000000000u /* between two looks at the process of a task that has no line */
#define WORDS_NS 200000000u  /* the launcher has said by then how a process ended, even a large one */

#define REQUESTS 32768u      /* of a line that may wait, */
#define BYTES    (32u << 20) /* and bytes of theirs */

/* What a line hears of its peer's end; outlives it by a turn of the loop. */
struct mu_process_watch {
    uv_poll_t poll;
    struct mu_line *line;
    int pidfd;
};

static void process_ended(uv_poll_t *poll, int status, int events);

static void listen_to(struct mu_line *line)
{
    struct mu_process_watch *ear = line->pid ? calloc(1, sizeof *ear) : NULL;

    if (!ear)
        return;
    ear->line = line;
    ear->pidfd = (int)syscall(SYS_pidfd_open, line->pid, 0);
    if (ear->pidfd < 0 || uv_poll_init(line->coord->o.loop, &ear->poll, ear->pidfd)) {
        if (ear->pidfd >= 0)
            close(ear->pidfd);
        free(ear);
        return; /* its connection alone tells */
    }
    ear->poll.data = ear;
    uv_poll_start(&ear->poll, UV_READABLE, process_ended);
    line->ear = ear;
}

static void ear_closed(uv_handle_t *handle)
{
    struct mu_process_watch *ear = handle->data;

    close(ear->pidfd);
    free(ear);
}

static void stop_listening(struct mu_line *line)
{
    if (line->ear)
        uv_close((uv_handle_t *)&line->ear->poll, ear_closed);
    line->ear = NULL;
}

void mu_coord_line_may(struct mu_line *line, uint32_t requests, size_t bytes)
{
    line->most = requests;
    line->most_bytes = bytes;
}

struct mu_line *mu_coord_line(struct mu_coord *coord, uint32_t pid, const char *name)
{
    struct mu_line *line = calloc(1, sizeof *line);

    if (!line) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a connection");
        return NULL;
    }
    line->coord = coord;
    line->pid = pid;
    mu_coord_line_may(line, REQUESTS, BYTES);
    snprintf(line->name, sizeof line->name, "%s", name);
    MU_LIST_PUSH(coord->lines, line);
    listen_to(line);
    return line;
}

void mu_line_speaks(struct mu_coord *coord, struct mu_line *line, int32_t task, uint64_t incarnation)
{
    struct mu_coord_task *t = &coord->tasks[task];

    if (!line)
        return;
    line->speaks = true;
    t->line = line;
    t->spoke = incarnation;
    t->lost_at = 0;
}

/* Is it still the wire client that spoke? */
static bool speaker_is_there(const struct mu_coord *coord, int32_t task)
{
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, NULL);
    return r.state == MUSTER_TASK_CONNECTED && (r.flags & MU_TASK_GUEST) && r.incarnation == coord->tasks[task].spoke;
}

static void client_lose(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task, const char *why)
{
    struct mu_coord_task *t = &coord->tasks[task];

    t->lost_at = 0;
    mu_client_lost(ctx, (uint32_t)task, t->spoke, why);
    free(t->lost_why);
    t->lost_why = NULL;
}

/* The task is lost after so long, 0: now; unless it comes back. */
static void lose_in(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task, uint64_t ns, const char *why)
{
    struct mu_coord_task *t = &coord->tasks[task];

    free(t->lost_why);
    t->lost_why = strdup(why);
    t->lost_at = mu_now() + ns;
    if (!ns || !t->lost_why) {
        client_lose(coord, ctx, task, why);
        return;
    }
    if (t->lost_at < coord->lost_next)
        coord->lost_next = t->lost_at;
    mu_coord_due(coord, t->lost_at);
}

/* For so long the launcher may have a better word for the task's end than we. */
static uint64_t awaits_words(const struct mu_coord *coord, int32_t task)
{
    return coord->o.pid_of && coord->o.pid_of(coord->o.arg, (uint32_t)task) ? WORDS_NS : 0;
}

/* It may come back. */
static void await_return(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task, uint32_t pid, const char *why)
{
    struct mu_coord_task *t = &coord->tasks[task];

    t->lost_pid = coord->o.lost_ns ? 0 : pid;
    if (coord->o.lost_ns || pid) {
        lose_in(coord, ctx, task, coord->o.lost_ns ? coord->o.lost_ns : LOOK_NS, why);
    } else if (coord->error.is && !awaits_words(coord, task)) {
        client_lose(coord, ctx, task, why);
    } else { /* its heartbeats decide, or mu_lines_failed() */
        free(t->lost_why);
        t->lost_why = strdup(why);
    }
}

void mu_lines_failed(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    if (mu_enter(coord->m, &ctx))
        return;
    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        struct mu_coord_task *t = &coord->tasks[i];

        if (!t->line && t->lost_why && !t->lost_at && speaker_is_there(coord, (int32_t)i) &&
            !awaits_words(coord, (int32_t)i))
            client_lose(coord, ctx, (int32_t)i, t->lost_why);
    }
    mu_exit(ctx);
}

/* The line says nothing for the task any more. `final`: nor can it come back. */
static void line_is_gone(struct mu_coord *coord, struct mu_ctx *ctx, int32_t task, const char *why, bool final)
{
    struct mu_coord_task *t = &coord->tasks[task];
    uint32_t pid = t->line ? t->line->pid : 0;

    t->line = t->poll_line = NULL;
    if (!speaker_is_there(coord, task))
        return;
    if (t->left)
        mu_coord_disconnect(coord, ctx, task);
    else if (!final)
        await_return(coord, ctx, task, pid, why);
    else {
        t->lost_pid = 0;
        lose_in(coord, ctx, task, awaits_words(coord, task), why);
    }
}

static void process_ended(uv_poll_t *poll, int status, int events)
{
    struct mu_line *line = ((struct mu_process_watch *)poll->data)->line;
    struct mu_coord *coord = line->coord;
    struct mu_ctx *ctx;
    char why[MU_TEXT_MAX];

    (void)status;
    (void)events;
    stop_listening(line);
    if (coord->stopped || mu_enter(coord->m, &ctx))
        return;
    snprintf(why, sizeof why, "its process (pid %u) has ended without a shutdown", line->pid);
    for (uint32_t i = 0; i < coord->num_tasks; i++)
        if (coord->tasks[i].line == line)
            line_is_gone(coord, ctx, (int32_t)i, why, true);
    mu_exit(ctx);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

/* All of them, also those that are answered because another one is dropped, and those with a request that its client
 * has used again meanwhile: the request does not lead to them any more. */
static void requests_drop(struct mu_coord *coord, const struct mu_line *line)
{
    bool delivering = coord->delivering;

    coord->delivering = true; /* nobody is called back meanwhile */
    while (line->pending)
        mu_coord_pending_drop(coord, line->pending);
    for (struct mu_coord_pending *p = coord->ready.first, *next; p; p = next) {
        next = p->next;
        if (p->request->line == line)
            mu_coord_pending_drop(coord, p);
    }
    coord->delivering = delivering;
}

void mu_coord_hang_up(struct mu_line *line, const char *why)
{
    struct mu_coord *coord = line->coord;
    struct mu_ctx *ctx;
    char text[MU_TEXT_MAX];
    bool entered;

    requests_drop(coord, line);
    stop_listening(line);
    if (strncmp(why, "closed by", 9) == 0 || strncmp(why, "reset by", 8) == 0)
        snprintf(text, sizeof text, "its connection (%s) was %s without a shutdown", line->name, why);
    else /* the server's own reason: a sentence, or the system's word */
        snprintf(text, sizeof text, "its connection (%s) has ended without a shutdown: %s", line->name, why);
    entered = !coord->stopped && !mu_enter(coord->m, &ctx);
    for (uint32_t i = 0; line->speaks && i < coord->num_tasks; i++) {
        struct mu_coord_task *t = &coord->tasks[i];

        if (t->line == line && entered)
            line_is_gone(coord, ctx, (int32_t)i, text, t->poll_line == line);
        t->line = t->line == line ? NULL : t->line;
        t->poll_line = t->poll_line == line ? NULL : t->poll_line;
    }
    if (entered)
        mu_exit(ctx);
    MU_LIST_DROP(coord->lines, line);
    free(line);
    if (entered)
        mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}

/* What the kernel says of a process; of 0, which is none, GONE. One that cannot be asked lives: its heartbeats decide.
 */
enum client_fate { LIVES, ENDED /* and nobody has reaped it */, GONE };

static enum client_fate fate_of(uint32_t pid)
{
    struct pollfd one = {.fd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1, .events = POLLIN};
    enum client_fate fate = pid && one.fd < 0 && errno != ESRCH ? LIVES : GONE;

    if (one.fd >= 0) {
        fate = poll(&one, 1, 0) == 0 ? LIVES : ENDED;
        close(one.fd);
    }
    return fate;
}

/* The launcher is about to reap the task's process, and to say how it ended: that counts, also if it is late. */
static bool has_words_coming(const struct mu_coord *coord, uint32_t task)
{
    return coord->o.pid_of && fate_of(coord->o.pid_of(coord->o.arg, task)) == ENDED;
}

static uint64_t lost_next(const struct mu_coord *coord)
{
    return coord->lost_next;
}

static void lost_due(struct mu_coord *coord, uint64_t now)
{
    struct mu_ctx *ctx;

    if (now < coord->lost_next || mu_enter(coord->m, &ctx))
        return;
    coord->lost_next = UINT64_MAX;
    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        struct mu_coord_task *t = &coord->tasks[i];

        if (t->lost_at && t->lost_at <= now && fate_of(t->lost_pid) == LIVES)
            t->lost_at = now + LOOK_NS;
        else if (t->lost_at && t->lost_at <= now && has_words_coming(coord, i))
            t->lost_at = now + WORDS_NS;
        else if (t->lost_at && t->lost_at <= now)
            client_lose(coord, ctx, (int32_t)i, t->lost_why);
        if (t->lost_at && t->lost_at < coord->lost_next)
            coord->lost_next = t->lost_at;
    }
    mu_exit(ctx);
}

const struct mu_coord_feature mu_lines_feature = {.next = lost_next, .due = lost_due};
