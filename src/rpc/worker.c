/*
 * rpc/worker.c: where the workers are, which of them are called now, and what is said of those that cannot be.
 *
 * All descriptors of all calls are in one epoll, which is one handle of the loop: so a call that is over is gone at
 * once. A call that waits for a place has no deadline yet: a hundred workers that are not there cost each other 5 s,
 * and nobody else anything.
 */
#include "rpc/worker_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "segment/names.h"

enum {
    UNDER_WAY_MAX = 64,  /* calls at once */
    EACH_MAX = 4,        /* calls to one worker that are not over */
    EVENTS_A_TURN = 256, /* then others have the loop */
    SENTENCES_MAX = 8,   /* about workers, each about another */
    LOOK_MS = 50,        /* how often deadlines are looked at */
};
#define TIME_MS 5000u
#define RANK    "{rank}"

struct mu_worker {
    uint32_t calls;
    bool is_said;
};

struct mu_workers {
    struct mu_workers_options o;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open; /* handles that are not closed */
    int poll_fd;
    bool is_closed;
    char *text;       /* the addresses, each ended by a NUL; */
    char **addresses; /* and where they begin. NULL: the text is that of all */
    struct mu_worker *workers;
    struct mu_worker_call *under_way, *first, *last; /* and those that wait */
    uint32_t num_under_way, num_sentences;
};

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* A template's text for the task; of others the text as it is. */
static void template_fill(const char *text, uint32_t task, char *to, size_t size)
{
    const char *rank = strstr(text, RANK);

    if (rank)
        snprintf(to, size, "%.*s%u%s", (int)(rank - text), text, task, rank + strlen(RANK));
    else
        snprintf(to, size, "%s", text);
}

static enum muster_status worker_find(const char *text, uint32_t task, struct mu_link_name *ret_name)
{
    char address[300];

    if (strncmp(text, "grpc://", 7) == 0)
        text += 7;
    if (strlen(text) > 260)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.60s...' is no address of a worker", text);
    template_fill(text, task, address, sizeof address);
    if (mu_link_name_parse(address, ret_name) || !ret_name->host[0] || strcmp(ret_name->port, "0") == 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.60s' is no address of a worker: write HOST:PORT or [V6]:PORT",
                       address);
    return MUSTER_OK;
}

/* Cut the text at its commas. */
static enum muster_status workers_cut(struct mu_workers *w)
{
    uint32_t count = 1, n = 0;

    for (const char *at = w->text; *at; at++)
        count += *at == ',';
    if (count != w->o.num_tasks)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the list of workers has %u addresses, and the job %u tasks", count,
                       w->o.num_tasks);
    w->addresses = calloc(count, sizeof *w->addresses);
    if (!w->addresses)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the addresses of %u workers", count);
    for (char *at = w->text; at; n++) {
        w->addresses[n] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = 0;
    }
    return MUSTER_OK;
}

static const char *text_of(const struct mu_workers *w, uint32_t task)
{
    return w->addresses ? w->addresses[task] : w->text;
}

static void free_addresses(struct mu_workers *w)
{
    free(w->text);
    free(w->addresses);
    free(w->workers);
}

static enum muster_status take_addresses(struct mu_workers *w)
{
    enum muster_status status = MUSTER_OK;
    struct mu_link_name name;

    w->text = strdup(w->o.addresses);
    w->workers = calloc(w->o.num_tasks, sizeof *w->workers);
    if (!w->text || !w->workers)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the addresses of workers");
    if (!strstr(w->text, RANK))
        status = workers_cut(w);
    for (uint32_t i = 0; !status && i < w->o.num_tasks; i++)
        status = worker_find(text_of(w, i), i, &name);
    return status;
}

enum muster_status mu_workers_check(const char *addresses, uint32_t num_tasks)
{
    struct mu_workers w = {.o = {.addresses = addresses, .num_tasks = num_tasks}};
    enum muster_status status = take_addresses(&w);

    free_addresses(&w);
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    return mu_now() / 1000000;
}

static void worker_say(struct mu_workers *w, const struct mu_worker_call *call)
{
    char sentence[1000];

    if (!w->o.said || w->workers[call->task].is_said || w->num_sentences >= SENTENCES_MAX)
        return;
    w->workers[call->task].is_said = true;
    snprintf(sentence, sizeof sentence, "gRPC: %s's server at %s could not be told of the job's error: %s%s",
             MU_LABEL(w->o.seg, call->task), call->authority, call->why[0] ? call->why : "it does not say that it was",
             ++w->num_sentences == SENTENCES_MAX ? "; of others like it nothing is said" : "");
    w->o.said(w->o.arg, sentence);
}

static void worker_call_forget(struct mu_workers *w, struct mu_worker_call *call)
{
    MU_LIST_DROP(w->under_way, call);
    w->num_under_way--;
    w->workers[call->task].calls--;
}

static void begin_more(struct mu_workers *w)
{
    while (w->first && w->num_under_way < UNDER_WAY_MAX) {
        struct mu_worker_call *call = w->first;

        w->first = call->next;
        MU_LIST_PUSH(w->under_way, call);
        w->num_under_way++;
        call->until_ms = now_ms() + call->time_ms;
        mu_worker_call_begin(call, w->poll_fd);
    }
    if (w->num_under_way > 0 && !uv_is_active((uv_handle_t *)&w->timer))
        uv_timer_again(&w->timer);
}

/* The call is over. */
static void worker_call_end(struct mu_workers *w, struct mu_worker_call *call)
{
    bool well = mu_worker_call_is_well(call);
    uint32_t task = call->task;
    uint64_t tag = call->tag;

    worker_call_forget(w, call);
    if (!well)
        worker_say(w, call);
    mu_worker_call_free(call);
    begin_more(w);
    w->o.ended(w->o.arg, task, tag, well);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct mu_workers *w = poll->data;
    struct epoll_event event;

    (void)status;
    (void)events;
    /* one by one: an event of a call that has ended meanwhile is never seen */
    for (int i = 0; i < EVENTS_A_TURN && !w->is_closed && epoll_wait(w->poll_fd, &event, 1, 0) == 1; i++) {
        struct mu_worker_call *call = event.data.ptr;

        mu_worker_call_go(call);
        if (call->is_over)
            worker_call_end(w, call);
    }
}

/* The first call that is past its time, or that failed as it began. */
static struct mu_worker_call *overdue_call(struct mu_workers *w)
{
    uint64_t now = now_ms();

    for (struct mu_worker_call *call = w->under_way; call; call = call->next) {
        if (call->is_over)
            return call;
        if (now < call->until_ms)
            continue;
        call->is_over = true;
        snprintf(call->why, sizeof call->why, "it did not answer within %llu ms", (unsigned long long)call->time_ms);
        return call;
    }
    return NULL;
}

static void on_worker_timer(uv_timer_t *timer)
{
    struct mu_workers *w = timer->data;
    struct mu_worker_call *call;

    while (!w->is_closed && (call = overdue_call(w)) != NULL)
        worker_call_end(w, call);
    if (!w->is_closed && w->num_under_way == 0)
        uv_timer_stop(timer);
}

bool mu_workers_call(struct mu_workers *w, uint32_t task, uint64_t tag, const char *path, const void *message,
                     size_t len)
{
    struct mu_link_name name;
    struct mu_worker_call *call;

    if (w->is_closed || task >= w->o.num_tasks || w->workers[task].calls >= EACH_MAX ||
        worker_find(text_of(w, task), task, &name))
        return false;
    call = mu_worker_call_new(&name, path, message, len);
    if (!call)
        return false;
    call->workers = w;
    call->task = task;
    call->tag = tag;
    call->time_ms = w->o.time_ns ? w->o.time_ns / 1000000 : TIME_MS;
    w->workers[task].calls++;
    if (w->first)
        w->last->next = call;
    else
        w->first = call;
    w->last = call;
    begin_more(w);
    return true;
}

/* ---- opening, closing -------------------------------------------------------------------------------------------- */

static void workers_done(struct mu_workers *w)
{
    free_addresses(w);
    if (w->poll_fd >= 0)
        close(w->poll_fd);
    free(w);
}

enum muster_status mu_workers_open(const struct mu_workers_options *options, struct mu_workers **ret_workers)
{
    struct mu_workers *w = calloc(1, sizeof *w);
    enum muster_status status;

    if (!w)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the addresses of workers");
    w->o = *options;
    w->poll_fd = -1;
    status = take_addresses(w);
    if (!status) {
        w->poll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->poll_fd < 0 || uv_poll_init(w->o.loop, &w->poll, w->poll_fd))
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no epoll for calls to workers: %s", strerror(errno));
    }
    if (status) {
        workers_done(w);
        return status;
    }
    uv_timer_init(w->o.loop, &w->timer);
    w->poll.data = w->timer.data = w;
    w->open = 2;
    uv_poll_start(&w->poll, UV_READABLE, on_poll);
    uv_timer_start(&w->timer, on_worker_timer, LOOK_MS, LOOK_MS);
    uv_timer_stop(&w->timer); /* it knows how often: uv_timer_again() */
    uv_unref((uv_handle_t *)&w->poll);
    uv_unref((uv_handle_t *)&w->timer);
    *ret_workers = w;
    return MUSTER_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct mu_workers *w = handle->data;

    if (--w->open == 0)
        workers_done(w);
}

static void calls_drop(struct mu_worker_call *first)
{
    while (first) {
        struct mu_worker_call *call = first;

        first = call->next;
        mu_worker_call_free(call);
    }
}

void mu_workers_close(struct mu_workers *w)
{
    if (!w || w->is_closed)
        return;
    w->is_closed = true;
    calls_drop(w->under_way);
    calls_drop(w->first);
    w->under_way = w->first = NULL;
    uv_close((uv_handle_t *)&w->poll, on_timer_closed);
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
