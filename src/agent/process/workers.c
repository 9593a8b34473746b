/*
 * agent/process/workers.c: `muster run --workers N`: processes beside the tasks that run what these call.
 *
 * They have no number in the job, so ranks, barriers and the exit status are the tasks' alone. A worker that ends while
 * tasks run is started again: at once, then later each time that it has not lived long, and at last not any more. How
 * it ended, with the last lines of its stderr, stands in the key MU_AGENT_WORKERS_KEY/PID before another is started.
 * When the tasks have ended the workers are told to, and then killed.
 *
 * Their stderr comes by a pipe for the sake of those last lines, and goes on to the launcher's as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/kv.h>
#include <muster/schedule.h>

#include "agent/private.h"
#include "segment/reserve.h"

enum { TAIL = 2048, TAIL_LINES = 5, SHORT_LIVES = 4 };
#define LONG_LIFE_NS   10000000000ull
#define FIRST_DELAY_NS 100000000ull

/* One life's stderr; freed when libuv has let go of it. */
struct worker_err {
    uv_poll_t poll;
    struct agent_worker *worker;
    int fd;
};

struct agent_worker {
    struct worker_err *err; /* NULL: there is none, or it has ended */
    pid_t pid;              /* 0: it does not run */
    int pidfd;
    uint64_t started_at, start_at; /* start_at: UINT64_MAX: it is not to be started */
    unsigned short_lives;          /* in a row */
    size_t len;
    char tail[TAIL];
};

struct workers_state {
    struct agent_worker *list;
    uint32_t count, alive;
    uint64_t kill_at; /* UINT64_MAX: not set */
    int is_ending, is_counted;
    char *own[3], path[4096]; /* what a worker is, where nothing else was said */
};

static struct workers_state *workers_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_WORKERS);
}

static char *const *worker_command(const struct mu_agent *agent)
{
    return agent->options->worker_argv ? agent->options->worker_argv : workers_state(agent)->own;
}

/* ---- its stderr -------------------------------------------------------------------------------------------------- */

static void tail_keep(struct agent_worker *w, const char *text, size_t len)
{
    size_t keep = len < TAIL ? TAIL - len : 0;

    if (w->len > keep) {
        memmove(w->tail, w->tail + w->len - keep, keep);
        w->len = keep;
    }
    if (len > TAIL) {
        text += len - TAIL;
        len = TAIL;
    }
    memcpy(w->tail + w->len, text, len);
    w->len += len;
}

static void err_free(uv_handle_t *handle)
{
    free(handle->data);
}

static void err_close(struct agent_worker *w)
{
    struct worker_err *err = w->err;

    w->err = NULL;
    if (!err)
        return;
    uv_poll_stop(&err->poll);
    close(err->fd);
    uv_close((uv_handle_t *)&err->poll, err_free);
}

/* What is there; not more than so many pieces, for a worker that never stops writing. */
static void err_read(struct agent_worker *w)
{
    char piece[4096];

    for (int pieces = 0; w->err && pieces < 32; pieces++) {
        ssize_t n = read(w->err->fd, piece, sizeof piece);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            err_close(w);
            return;
        }
        tail_keep(w, piece, (size_t)n);
        mu_agent_write(piece, (size_t)n);
    }
}

static void err_ready(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    err_read(((struct worker_err *)poll->data)->worker);
}

/* *ret_end: the worker's end of it. 0, or -1: errno says why. */
static int err_open(struct mu_agent *agent, struct agent_worker *w, int *ret_end)
{
    struct worker_err *err = malloc(sizeof *err);
    int ends[2], error;

    if (!err || pipe2(ends, O_CLOEXEC)) {
        free(err);
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    err->fd = ends[0];
    err->worker = w;
    error = uv_poll_init(&agent->loop, &err->poll, err->fd);
    if (error) {
        close(ends[0]);
        close(ends[1]);
        free(err);
        errno = -error;
        return -1;
    }
    err->poll.data = err;
    uv_poll_start(&err->poll, UV_READABLE, err_ready);
    w->err = err;
    *ret_end = ends[1];
    return 0;
}

/* Its last lines, without what was cut in the midst. */
static const char *tail_lines(struct agent_worker *w, size_t *ret_len)
{
    size_t end = w->len, at, lines = 0;

    while (end && w->tail[end - 1] == '\n')
        end--;
    for (at = end; at && lines < TAIL_LINES; at--)
        lines += w->tail[at - 1] == '\n';
    if (lines == TAIL_LINES)
        at++;
    *ret_len = end - at;
    return w->tail + at;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static void worker_say_not_started(struct mu_agent *agent, const struct mu_launch_failure *failure)
{
    const char *command = *worker_command(agent);

    if (strcmp(failure->step, "exec") != 0)
        mu_agent_say("cannot start a worker: %s: %s", failure->step, strerror(failure->error));
    else
        mu_agent_say("cannot start a worker: cannot run %s: %s", command, strerror(failure->error));
}

static int worker_spawn(struct mu_agent *agent, struct agent_worker *w, int err)
{
    const struct mu_agent_app *app = &agent->options->apps[0];
    struct mu_launch_failure failure;
    struct mu_launch_image image = {
        .argv = worker_command(agent),
        .envp = agent->launching.envs[0].vars,
        .directory = app->directory,
        .stdio = {agent->launching.null_fd, -1, err},
        .keep = {strncmp(agent->segment_text, "fd:", 3) == 0 ? muster_segment_fd(agent->segment) : -1, -1},
        .mask = agent->launching.mask_before,
        .defaults = agent->launching.defaults,
        .files = agent->launching.files_before,
    };

    if (mu_launch_spawn(&image, &w->pid, &w->pidfd, &failure) == 0)
        return 0;
    w->pid = 0;
    worker_say_not_started(agent, &failure);
    agent->spawn_status = strcmp(failure.step, "exec") != 0 ? MU_AGENT_EXIT_FAILED
                          : failure.error == ENOENT         ? MU_AGENT_EXIT_NO_FILE
                                                            : MU_AGENT_EXIT_NOT_EXEC;
    return -1;
}

/* 0, or -1 with the reason said. */
static int worker_start(struct mu_agent *agent, struct agent_worker *w)
{
    int end, rc;

    w->start_at = UINT64_MAX;
    w->len = 0;
    if (err_open(agent, w, &end)) {
        mu_agent_say("cannot start a worker: %s", strerror(errno));
        agent->spawn_status = MU_AGENT_EXIT_FAILED;
        return -1;
    }
    rc = worker_spawn(agent, w, end);
    close(end);
    if (rc) {
        err_close(w);
        return -1;
    }
    w->started_at = muster_now_ns();
    workers_state(agent)->alive++;
    return 0;
}

static int workers_begin(struct mu_agent *agent)
{
    const struct mu_agent_options *o = agent->options;

    for (uint32_t i = 0; o->workers && i < o->num_resources; i++)
        if (mu_agent_be_there(agent) ||
            muster_resource_offer(agent->muster, o->resources[i].name, o->resources[i].amount, o->resources[i].units)) {
            mu_agent_say("cannot offer resource %s: %s", o->resources[i].name, muster_last_error());
            return -1;
        }
    return 0;
}

static void workers_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    struct workers_state *s = workers_state(agent);

    if (!s->count || first != agent->first_task || count != agent->local_tasks || s->alive)
        return;
    s->is_ending = 0;
    s->kill_at = UINT64_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        s->list[i].short_lives = 0;
        if (worker_start(agent, &s->list[i])) {
            mu_agent_post(agent, MU_ON_END);
            return;
        }
    }
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* For callers, and for people. A full segment: they are told no more than that it died. */
static void death_note(struct mu_agent *agent, struct agent_worker *w, pid_t pid, const char *words)
{
    char key[64], host[256], *text = NULL;
    size_t len;
    const char *lines = tail_lines(w, &len);
    int n;

    if (!agent->muster && mu_segment_is_committed(agent->segment))
        mu_agent_be_there(agent);
    if (!agent->muster)
        return;
    mu_agent_own_name(agent->options->hosts, host, sizeof host);
    snprintf(key, sizeof key, "%s/%d", MU_AGENT_WORKERS_KEY, (int)pid);
    n = asprintf(&text, "worker (pid %d on host %s) %s%s%.*s", (int)pid, host, words, len ? "\n" : "", (int)len, lines);
    if (n > 0)
        muster_kv_set(agent->muster, key, MUSTER_NTS, text, (size_t)n, NULL);
    if (n >= 0)
        free(text);
}

/* When it is to be started again, with that said. */
static void worker_again(struct agent_worker *w, pid_t pid, const char *words)
{
    uint64_t now = muster_now_ns(), delay = 0;

    w->short_lives = now - w->started_at < LONG_LIFE_NS ? w->short_lives + 1 : 0;
    if (w->short_lives >= SHORT_LIVES) {
        mu_agent_say("a worker (pid %d) %s, the %uth time within %u s of its start: it is not started again", (int)pid,
                     words, w->short_lives, (unsigned)(LONG_LIFE_NS / 1000000000u));
        return;
    }
    if (w->short_lives > 1)
        delay = FIRST_DELAY_NS << (w->short_lives - 2);
    w->start_at = now + delay;
    if (delay)
        mu_agent_say("a worker (pid %d) %s; starting another in %.3g s", (int)pid, words, (double)delay / 1e9);
    else
        mu_agent_say("a worker (pid %d) %s; starting another", (int)pid, words);
}

static void worker_ended(struct mu_agent *agent, struct agent_worker *w, int wait_status)
{
    struct workers_state *s = workers_state(agent);
    int killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
    char words[256];
    const char *hint =
        mu_launch_hint(wait_status, killed ? mu_launch_oom_of(w->pid, agent->launching.oom_kills) : MU_LAUNCH_OOM_NOT);
    pid_t pid = w->pid;
    size_t len;

    w->pid = 0;
    s->alive--;
    err_read(w);
    err_close(w);
    if (!s->is_ending && !mu_agent_is_ending(agent)) {
        mu_launch_words(wait_status, words, sizeof words);
        len = strlen(words);
        if (hint)
            snprintf(words + len, sizeof words - len, ": %s", hint);
        death_note(agent, w, pid, words);
        worker_again(w, pid, words);
    }
    if (s->is_counted && !s->alive) {
        s->is_counted = 0;
        agent->stopping--;
    }
}

static int worker_child_ended(struct mu_agent *agent, const siginfo_t *info)
{
    struct workers_state *s = workers_state(agent);
    int status = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        struct agent_worker *w = &s->list[i];

        if (!w->pid || w->pid != info->si_pid)
            continue;
        kill(-w->pid, SIGKILL); /* what it has started; the number is its group's until it is reaped */
        waitpid(w->pid, &status, 0);
        close(w->pidfd);
        worker_ended(agent, w, status);
        return 1;
    }
    return 0;
}

static void workers_signal(struct mu_agent *agent, int number)
{
    struct workers_state *s = workers_state(agent);

    for (uint32_t i = 0; i < s->count; i++)
        if (s->list[i].pid) {
            if (number == SIGTERM && mu_launch_is_stopped(s->list[i].pid))
                kill(-s->list[i].pid, SIGCONT);
            kill(-s->list[i].pid, number);
        }
}

static void workers_ending(struct mu_agent *agent, int killed)
{
    if (killed)
        workers_signal(agent, SIGKILL);
}

static void workers_stop(struct mu_agent *agent)
{
    struct workers_state *s = workers_state(agent);

    s->is_ending = 1;
    if (!s->alive)
        return;
    agent->stopping++;
    s->is_counted = 1;
    s->kill_at = muster_after_ns(agent->options->grace_ns);
    workers_signal(agent, agent->force == MU_FORCE_KILL || !agent->options->grace_ns ? SIGKILL : SIGTERM);
}

/* ---- the clock, and the rest ------------------------------------------------------------------------------------- */

static bool workers_may_start(const struct mu_agent *agent)
{
    return !workers_state(agent)->is_ending && !mu_agent_is_ending(agent) && agent->phase == MU_PHASE_RUNNING;
}

static uint64_t workers_due(const struct mu_agent *agent)
{
    const struct workers_state *s = workers_state(agent);
    uint64_t due = s->is_counted ? s->kill_at : UINT64_MAX;

    for (uint32_t i = 0; i < s->count && workers_may_start(agent); i++)
        if (!s->list[i].pid && s->list[i].start_at < due)
            due = s->list[i].start_at;
    return due;
}

static void workers_tick(struct mu_agent *agent, uint64_t now)
{
    struct workers_state *s = workers_state(agent);

    if (s->is_counted && now >= s->kill_at) {
        s->kill_at = UINT64_MAX;
        workers_signal(agent, SIGKILL);
    }
    for (uint32_t i = 0; i < s->count && workers_may_start(agent); i++)
        if (!s->list[i].pid && s->list[i].start_at <= now && worker_start(agent, &s->list[i]))
            mu_agent_break(agent);
}

static int workers_open(struct mu_agent *agent)
{
    static char verb[] = "worker";
    struct workers_state *s = workers_state(agent);
    ssize_t len;

    if (!agent->options->workers)
        return 0;
    s->list = calloc(agent->options->workers, sizeof *s->list);
    len = readlink("/proc/self/exe", s->path, sizeof s->path - 1);
    if (!s->list || len < 0) {
        mu_agent_say("cannot set up workers: %s", strerror(errno));
        return -1;
    }
    s->own[0] = s->path;
    s->own[1] = verb;
    s->count = agent->options->workers;
    for (uint32_t i = 0; i < s->count; i++)
        s->list[i] = (struct agent_worker){.start_at = UINT64_MAX};
    s->kill_at = UINT64_MAX;
    return 0;
}

static void workers_close(struct mu_agent *agent)
{
    struct workers_state *s = workers_state(agent);

    for (uint32_t i = 0; i < s->count; i++)
        err_close(&s->list[i]);
    free(s->list);
    s->count = 0;
}

const struct mu_component mu_workers_component = {
    .name = "workers",
    .state_size = sizeof(struct workers_state),
    .open = workers_open,
    .begin = workers_begin,
    .started = workers_started,
    .due = workers_due,
    .tick = workers_tick,
    .ending = workers_ending,
    .child_ended = worker_child_ended,
    .stop = workers_stop,
    .close = workers_close,
};
