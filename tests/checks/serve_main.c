/*
 * tests/checks/serve_main.c: coordination services, many in one process and on one loop, for harness.py.
 *
 * Lines of input: "open NAME tasks=N [option=value...]" is answered with the service's address, "close NAME" with
 * "closed" once it has stopped; either with "error: ..." in its place. Each service has a job of its own. At the end of
 * the input all are closed and the loop's state is said: "clean", or what was still in it.
 *
 * Options: address, jobs, workers, and in milliseconds heartbeat (60000), register, shutdown (0: no barrier), lost;
 * barrier=1: who registers waits for all; recoverable=1; reconnects=1; heap, in MiB; certificate, key, authority: files
 * for TLS.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <uv.h>

#include "coord/coord.h"
#include "rpc/server.h"
#include "rpc/service.h"
#include "segment/handle.h"
#include "task/task.h"
#include <muster/muster.h>

struct served {
    char name[32];
    struct muster *m;
    struct mu_coord *coord;
    struct mu_service *service;
    bool told; /* its end is answered to who asked for it */
    uv_timer_t timer;
    struct mu_beat *beats;
    uint64_t last_check;
    struct served *next;
};

struct wishes { /* the options of a line, in its text */
    struct muster_segment_config config;
    struct mu_coord_options coord;
    struct mu_rpc_tls tls;
    const char *address, *jobs, *workers;
};

static uv_loop_t loop;
static struct served *all;
static char input[4096];
static size_t used;
static uv_pipe_t in;

static void error(const char *what, const char *why)
{
    printf("error: %s: %s\n", what, why);
    fflush(stdout);
}

static bool take_time(struct wishes *w, const char *name, uint64_t value)
{
    uint64_t ns = value * 1000000;

    if (!strcmp(name, "heartbeat"))
        w->config.heartbeat_timeout_ns = ns;
    else if (!strcmp(name, "register"))
        w->coord.register_timeout_ns = ns;
    else if (!strcmp(name, "shutdown"))
        w->coord.shutdown_timeout_ns = ns;
    else if (!strcmp(name, "lost"))
        w->coord.lost_ns = ns;
    else
        return false;
    return true;
}

static bool take_number(struct wishes *w, const char *name, uint64_t value)
{
    if (!strcmp(name, "tasks"))
        w->config.num_tasks = (uint32_t)value;
    else if (!strcmp(name, "heap"))
        w->config.heap_bytes = value << 20;
    else if (!strcmp(name, "barrier"))
        w->coord.register_barrier = value != 0;
    else if (!strcmp(name, "recoverable"))
        w->coord.recoverable = value != 0;
    else if (!strcmp(name, "reconnects"))
        w->coord.reconnects = value != 0;
    else
        return take_time(w, name, value);
    return true;
}

static bool take(struct wishes *w, const char *name, const char *value)
{
    if (!strcmp(name, "address"))
        w->address = value;
    else if (!strcmp(name, "jobs"))
        w->jobs = value;
    else if (!strcmp(name, "workers"))
        w->workers = value;
    else if (!strcmp(name, "certificate"))
        w->tls.certificate = value;
    else if (!strcmp(name, "key"))
        w->tls.private_key = value;
    else if (!strcmp(name, "authority"))
        w->tls.authority = value;
    else if (!strcmp(name, "prefix"))
        w->tls.peer_uri = value;
    else
        return take_number(w, name, strtoull(value, NULL, 10));
    return true;
}

static struct muster *job_of(const char *name, const struct muster_segment_config *config)
{
    struct muster_options options;
    struct muster *m = NULL;
    char job[64];

    snprintf(job, sizeof job, "test-checks-%d-%s", (int)getpid(), name);
    muster_options_init(&options);
    options.job = job;
    options.num_tasks = config->num_tasks;
    options.flags = MUSTER_JOIN_OBSERVER;
    options.config = config;
    if (muster_join(&options, &m) != MUSTER_OK)
        error("join", muster_last_error());
    return m;
}

/* What an agent does for its job: who is silent is put in error. */
static void check_beats(uv_timer_t *timer)
{
    struct served *s = timer->data;
    struct mu_ctx *ctx;

    if (mu_enter(s->m, &ctx) == MUSTER_OK) {
        mu_beats_check(ctx, s->beats, &s->last_check);
        mu_exit(ctx);
    }
}

static void watch(struct served *s, const struct muster_segment_config *config)
{
    uint64_t period = config->heartbeat_timeout_ns / 8000000;

    s->beats = calloc(config->num_tasks, sizeof *s->beats);
    if (!s->beats)
        abort();
    uv_timer_init(&loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, check_beats, 0, period > 0 ? period : 1);
}

static void start(const char *name, struct wishes *w)
{
    struct mu_service_options options = {.address = w->address, .jobs = w->jobs, .workers = w->workers};
    struct served *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    snprintf(s->name, sizeof s->name, "%s", name);
    if (w->tls.certificate)
        options.tls = &w->tls;
    w->coord.loop = &loop;
    w->coord.m = s->m = job_of(name, &w->config);
    if (s->m && (mu_coord_open(&w->coord, &options.coord) || mu_service_start(&options, &s->service))) {
        error("start", muster_last_error());
        mu_coord_free(options.coord);
        muster_leave(s->m);
        s->m = NULL;
    }
    if (!s->m) {
        free(s);
        return;
    }
    s->coord = options.coord;
    watch(s, &w->config);
    s->next = all;
    all = s;
    printf("%s\n", mu_service_address(s->service));
    fflush(stdout);
}

static void open_one(char *words)
{
    struct wishes w = {
        .config = {.num_buckets = 1024, .num_events = 64, .heap_bytes = 16 << 20, .heartbeat_timeout_ns = 60000000000},
        .address = "127.0.0.1:0"};
    char *rest = NULL, *name = strtok_r(words, " ", &rest), *value; /* of a line of our own tests */

    for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        if (!value || !take(&w, word, value)) {
            error("no option", word);
            return;
        }
    }
    start(name, &w);
}

static void on_closed(uv_handle_t *timer)
{
    struct served *s = timer->data;

    if (s->told) {
        printf("closed\n");
        fflush(stdout);
    }
    free(s->beats);
    free(s);
}

static void on_stopped(void *arg)
{
    struct served *s = arg, **at = &all;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    mu_coord_free(s->coord);
    muster_leave(s->m);
    uv_close((uv_handle_t *)&s->timer, on_closed);
}

static void close_one(const char *name)
{
    for (struct served *s = all; s; s = s->next)
        if (!strcmp(s->name, name)) {
            s->told = true;
            mu_service_stop(s->service, 1000000000, on_stopped, s);
            return;
        }
    error("no service", name);
}

static void on_line(char *line)
{
    if (!strncmp(line, "open ", 5))
        open_one(line + 5);
    else if (!strncmp(line, "close ", 6))
        close_one(line + 6);
    else
        error("no order", line);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    (void)handle;
    (void)suggested;
    *ret_buf = uv_buf_init(input + used, (unsigned)(sizeof input - 1 - used));
}

static void on_input(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    char *end;

    (void)buf;
    if (len < 0) {
        for (struct served *s = all; s; s = s->next)
            mu_service_stop(s->service, 1000000000, on_stopped, s);
        uv_close((uv_handle_t *)stream, NULL);
        return;
    }
    used += (size_t)len;
    input[used] = '\0';
    while ((end = strchr(input, '\n'))) {
        *end = '\0';
        on_line(input);
        used -= (size_t)(end + 1 - input);
        memmove(input, end + 1, used + 1);
    }
}

static void on_left(uv_handle_t *handle, void *arg)
{
    (void)arg;
    printf("left: %s\n", uv_handle_type_name(uv_handle_get_type(handle)));
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_init(&loop);
    uv_pipe_init(&loop, &in, 0);
    uv_pipe_open(&in, 0);
    uv_read_start((uv_stream_t *)&in, on_room, on_input);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_walk(&loop, on_left, NULL);
    if (uv_loop_close(&loop) == 0)
        printf("clean\n");
    return 0;
}
