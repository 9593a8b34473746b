/*
 * agent/metrics/text.c: what a scrape answers: the text exposition format 0.0.4 of Prometheus.
 *
 * All of a metric stands together, below its HELP and TYPE. Counters are sums over the segment's lines (muster/stats.h)
 * and never fall. A heartbeat's age is that of its last change seen here: the counter has no time of its own.
 */
#include "agent/metrics/text.h"

#include "agent/metrics/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>
#include <muster/stats.h>

#include "schedule/count.h"
#include "compat/tcpstore.h"
#include "rpc/service.h"
#include "segment/handle.h"
#include "launch/launch.h"
#include "segment/host_view.h"

#define PIECE_MAX 512 /* bytes that one text_put() may add */

struct metrics_beat {
    uint64_t counter, incarnation, changed_ns;
};

struct mu_metrics_view {
    struct muster *muster;
    struct mu_service *service;          /* NULL: none is served */
    struct mu_tcpstore *store;           /* likewise */
    struct mu_metrics_launcher launcher; /* .lives NULL: there is none */
    uint32_t num_tasks;
    struct metrics_beat *beats;
    struct muster_task_info *infos;
    size_t count; /* of infos */
};

struct metrics_text {
    char *data;
    size_t len, size;
    int failed;
};

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_reserve(struct metrics_text *text, size_t more)
{
    size_t size = text->size ? text->size : 16384;
    char *data;

    if (text->failed || text->len + more < text->size)
        return;
    while (size <= text->len + more)
        size *= 2;
    data = realloc(text->data, size);
    if (!data) {
        text->failed = 1;
        return;
    }
    text->data = data;
    text->size = size;
}

static void text_put(struct metrics_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void text_put(struct metrics_text *text, const char *format, ...)
{
    va_list args;
    int n;

    text_reserve(text, PIECE_MAX);
    if (text->failed)
        return;
    va_start(args, format);
    n = vsnprintf(text->data + text->len, PIECE_MAX, format, args);
    va_end(args);
    if (n < 0 || n >= PIECE_MAX)
        text->failed = 1;
    else
        text->len += (size_t)n;
}

/* As a label's value: backslash, quote and newline escaped; what is not printable ASCII becomes '?'. */
static void put_label(struct metrics_text *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            text_put(text, "\\%c", *value);
        else if (*value == '\n')
            text_put(text, "\\n");
        else
            text_put(text, "%c", *value < 0x20 || *value > 0x7e ? '?' : *value);
    }
}

static void metric_head(struct metrics_text *text, const char *name, const char *type, const char *help)
{
    text_put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metric_counter(struct metrics_text *text, const char *name, const char *help, uint64_t value)
{
    metric_head(text, name, "counter", help);
    text_put(text, "%s %" PRIu64 "\n", name, value);
}

static void metric_seconds(struct metrics_text *text, const char *name, const char *help, uint64_t ns)
{
    metric_head(text, name, "counter", help);
    text_put(text, "%s %.9f\n", name, (double)ns / 1e9);
}

static void metric_gauge(struct metrics_text *text, const char *name, const char *help, uint64_t value)
{
    metric_head(text, name, "gauge", help);
    text_put(text, "%s %" PRIu64 "\n", name, value);
}

/* ---- the view ---------------------------------------------------------------------------------------------------- */

struct mu_metrics_view *mu_metrics_view_new(struct muster *muster)
{
    struct mu_metrics_view *view = calloc(1, sizeof *view);

    if (!view)
        return NULL;
    view->muster = muster;
    view->num_tasks = muster_num_tasks(muster);
    view->beats = calloc(view->num_tasks ? view->num_tasks : 1, sizeof *view->beats);
    view->infos = calloc(view->num_tasks ? view->num_tasks : 1, sizeof *view->infos);
    if (!view->beats || !view->infos) {
        mu_metrics_view_free(view);
        return NULL;
    }
    mu_metrics_look(view);
    return view;
}

void mu_metrics_view_service(struct mu_metrics_view *view, struct mu_service *service)
{
    view->service = service;
}

void mu_metrics_view_tcpstore(struct mu_metrics_view *view, struct mu_tcpstore *store)
{
    view->store = store;
}

void mu_metrics_view_launcher(struct mu_metrics_view *view, const struct mu_metrics_launcher *launcher)
{
    view->launcher = *launcher;
}

void mu_metrics_view_free(struct mu_metrics_view *view)
{
    if (!view)
        return;
    free(view->beats);
    free(view->infos);
    free(view);
}

void mu_metrics_look(struct mu_metrics_view *view)
{
    uint64_t now = muster_now_ns();

    if (muster_task_list(view->muster, view->infos, view->num_tasks, &view->count, NULL) != MUSTER_OK)
        view->count = 0;
    if (view->count > view->num_tasks)
        view->count = view->num_tasks;
    for (size_t i = 0; i < view->count; i++) {
        const struct muster_task_info *info = &view->infos[i];
        struct metrics_beat *beat = &view->beats[i];

        if (beat->changed_ns == 0 || beat->counter != info->heartbeats || beat->incarnation != info->incarnation)
            *beat = (struct metrics_beat){info->heartbeats, info->incarnation, now};
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void put_states(struct metrics_text *text, const struct mu_metrics_view *view)
{
    static const char *const names[] = {[MUSTER_TASK_DISCONNECTED] = "disconnected",
                                        [MUSTER_TASK_CONNECTED] = "connected",
                                        [MUSTER_TASK_ERROR] = "error"};
    uint64_t counts[3] = {0, 0, 0};

    for (size_t i = 0; i < view->count; i++)
        if ((unsigned)view->infos[i].state < 3)
            counts[view->infos[i].state]++;
    metric_head(text, "muster_tasks", "gauge", "Tasks of the job by state.");
    for (size_t i = 0; i < 3; i++)
        text_put(text, "muster_tasks{state=\"%s\"} %" PRIu64 "\n", names[i], counts[i]);
}

static void put_each_task(struct metrics_text *text, const struct mu_metrics_view *view, uint64_t now)
{
    const struct muster_task_info *info = view->infos, *end = view->infos + view->count;
    const struct mu_metrics_launcher *launcher = &view->launcher;

    metric_head(text, "muster_task_info", "gauge", "Where a task that has joined runs; always 1.");
    for (; info < end; info++) {
        if (info->attempt == 0)
            continue;
        text_put(text, "muster_task_info{task=\"%d\",pid=\"%u\",host=\"", (int)info->task_id, info->pid);
        put_label(text, info->host);
        text_put(text, "\"} 1\n");
    }
    metric_head(text, "muster_task_alive", "gauge",
                "1 while the kernel says that the task's process lives, whether it has joined or not.");
    for (info = view->infos; info < end; info++)
        text_put(text, "muster_task_alive{task=\"%d\"} %d\n", (int)info->task_id,
                 info->alive != 0 || (launcher->lives && launcher->lives(launcher->arg, (uint32_t)info->task_id)));
    metric_head(text, "muster_task_exit_code", "gauge",
                "Of a task whose process has ended: its exit status, or 128 + the signal; -1: not known.");
    for (info = view->infos; info < end; info++)
        if (info->ended)
            text_put(text, "muster_task_exit_code{task=\"%d\"} %d\n", (int)info->task_id,
                     info->wait_status < 0 ? -1 : mu_launch_code(info->wait_status));
    metric_head(text, "muster_task_joins_total", "counter", "How often a process has joined as this task.");
    for (info = view->infos; info < end; info++)
        text_put(text, "muster_task_joins_total{task=\"%d\"} %u\n", (int)info->task_id, info->attempt);
    metric_head(text, "muster_task_heartbeats_total", "counter", "Heartbeats of the task's present process.");
    for (info = view->infos; info < end; info++)
        text_put(text, "muster_task_heartbeats_total{task=\"%d\"} %" PRIu64 "\n", (int)info->task_id, info->heartbeats);
    metric_head(text, "muster_task_heartbeat_age_seconds", "gauge",
                "Time since a connected task's heartbeat was seen to change.");
    for (info = view->infos; info < end; info++)
        if (info->state == MUSTER_TASK_CONNECTED)
            text_put(text, "muster_task_heartbeat_age_seconds{task=\"%d\"} %.3f\n", (int)info->task_id,
                     (double)(now - view->beats[info - view->infos].changed_ns) / 1e9);
    metric_head(text, "muster_task_waiting_seconds", "gauge",
                "How long a thread of the task has waited inside muster; 0: none waits.");
    for (info = view->infos; info < end; info++)
        text_put(text, "muster_task_waiting_seconds{task=\"%d\"} %.6f\n", (int)info->task_id,
                 info->waiting[0] && info->waiting_since_ns && info->waiting_since_ns < now
                     ? (double)(now - info->waiting_since_ns) / 1e9
                     : 0.0);
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

static void put_host(struct metrics_text *text, const char *name, const struct mu_host_view *view, const char *more)
{
    text_put(text, "%s{index=\"%u\",host=\"", name, view->host);
    put_label(text, view->name);
    text_put(text, "\"%s} ", more);
}

/* Of a job of several hosts, as this one knows them. */
static void put_hosts(struct metrics_text *text, const struct muster_segment *seg)
{
    static const struct {
        const char *name, *help, *in, *out;
        size_t at[2];
    } pairs[] = {{"muster_host_bytes_total",
                  "Bytes between the host's agent and the leader's.",
                  ",direction=\"in\"",
                  ",direction=\"out\"",
                  {offsetof(struct mu_host_view, bytes_in), offsetof(struct mu_host_view, bytes_out)}},
                 {"muster_host_frames_total",
                  "Frames between the host's agent and the leader's.",
                  ",direction=\"in\"",
                  ",direction=\"out\"",
                  {offsetof(struct mu_host_view, frames_in), offsetof(struct mu_host_view, frames_out)}}};
    struct mu_host_view view;

    metric_head(text, "muster_host_up", "gauge", "1 while the host is connected; its state is the label.");
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        char state[40];

        mu_host_look(seg, i, &view);
        snprintf(state, sizeof state, ",state=\"%s\"", mu_host_state_name(view.state));
        put_host(text, "muster_host_up", &view, state);
        text_put(text, "%d\n", view.state == MU_HOST_UP);
    }
    metric_head(text, "muster_host_round_trip_seconds", "gauge", "The last round trip to the leader; 0: not measured.");
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        mu_host_look(seg, i, &view);
        put_host(text, "muster_host_round_trip_seconds", &view, "");
        text_put(text, "%.9f\n", (double)view.rtt / 1e9);
    }
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        metric_head(text, pairs[k].name, "counter", pairs[k].help);
        for (uint32_t i = 0; i < 2 * seg->num_hosts; i++) {
            uint64_t value;

            mu_host_look(seg, i / 2, &view);
            memcpy(&value, (char *)&view + pairs[k].at[i % 2], sizeof value);
            put_host(text, pairs[k].name, &view, i % 2 ? pairs[k].out : pairs[k].in);
            text_put(text, "%" PRIu64 "\n", value);
        }
    }
    metric_head(text, "muster_host_connects_total", "counter", "How often the host has connected.");
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        mu_host_look(seg, i, &view);
        put_host(text, "muster_host_connects_total", &view, "");
        text_put(text, "%" PRIu64 "\n", view.connects);
    }
    metric_head(text, "muster_host_calls", "gauge", "Calls of the host's tasks that are not answered.");
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        mu_host_look(seg, i, &view);
        put_host(text, "muster_host_calls", &view, "");
        text_put(text, "%" PRIu64 "\n", view.asking);
    }
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static void put_barrier_waits(struct metrics_text *text, const struct muster_stats *stats)
{
    static const char name[] = "muster_barrier_wait_seconds";
    uint64_t below = 0;

    metric_head(text, name, "histogram", "Waits at barriers and for a group's members that slept, by their length.");
    for (int i = 0; i < MUSTER_STATS_BUCKETS - 1; i++) {
        below += stats->barrier_wait_buckets[i];
        text_put(text, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", name, (double)MUSTER_STATS_BOUND_NS(i) / 1e9, below);
    }
    below += stats->barrier_wait_buckets[MUSTER_STATS_BUCKETS - 1];
    text_put(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, below);
    text_put(text, "%s_sum %.9f\n%s_count %" PRIu64 "\n", name, (double)stats->barrier_wait_ns / 1e9, name, below);
}

static void put_stats(struct metrics_text *text, const struct muster_stats *stats)
{
    metric_counter(text, "muster_named_barriers_total", "Calls at named barriers that passed.", stats->named_barriers);
    metric_counter(text, "muster_group_barriers_total", "Barriers and collectives of groups that passed.",
                   stats->group_barriers);
    put_barrier_waits(text, stats);
    metric_counter(text, "muster_kv_writes_total", "Calls that changed keys.", stats->kv_writes);
    metric_counter(text, "muster_kv_waits_total", "Gets and watches that slept until there was an answer.",
                   stats->kv_waits);
    metric_seconds(text, "muster_kv_wait_seconds_total", "Time that those slept.", stats->kv_wait_ns);
    metric_counter(text, "muster_other_waits_total", "Waits for events, errors and changes of tasks that slept.",
                   stats->other_waits);
    metric_counter(text, "muster_deaths_total", "Tasks put in error because they died or fell silent.", stats->deaths);
    metric_counter(text, "muster_burials_total", "Dead threads whose slots were cleaned up.", stats->burials);
}

static void put_segment(struct metrics_text *text, const struct muster_segment_info *info)
{
    metric_gauge(text, "muster_segment_size_bytes", "Address space of the segment.", info->size_bytes);
    metric_gauge(text, "muster_segment_committed_bytes", "Memory that the segment really takes.",
                 info->committed_bytes);
    metric_gauge(text, "muster_segment_slots", "Threads that may write at once.", info->num_slots);
    metric_gauge(text, "muster_segment_slots_in_use", "Threads that hold a slot now.", info->slots_live);
    metric_head(text, "muster_segment_created_timestamp_seconds", "gauge",
                "When the segment was made, since the epoch.");
    text_put(text, "muster_segment_created_timestamp_seconds %.3f\n", (double)info->created_unix_ns / 1e9);
}

static void put_job(struct metrics_text *text, const struct mu_metrics_view *view,
                    const struct muster_segment_info *info)
{
    metric_head(text, "muster_info", "gauge", "The job and the version of muster that serves this; always 1.");
    text_put(text, "muster_info{muster_job=\"");
    put_label(text, info->job);
    text_put(text, "\",run=\"%016" PRIx64 "%016" PRIx64 "\",version=\"%s\",tasks=\"%u\"} 1\n", info->run_id[0],
             info->run_id[1], muster_version(), view->num_tasks);
}

static void put_call(void *arg, const char *method, const char *code, uint64_t count)
{
    text_put(arg, "muster_grpc_calls_total{method=\"%s\",code=\"%s\"} %" PRIu64 "\n", method, code, count);
}

static void put_service(struct metrics_text *text, const struct mu_service *service)
{
    struct mu_service_stats stats;

    mu_service_stats(service, &stats);
    metric_gauge(text, "muster_grpc_connections", "Connections of clients of the coordination service.",
                 stats.connections);
    metric_gauge(text, "muster_grpc_parked", "Calls that wait for their answer.", stats.parked);
    metric_head(text, "muster_grpc_calls_total", "counter", "Calls that were answered, by method and code.");
    mu_service_calls(service, put_call, text);
}

static void put_store(struct metrics_text *text, const struct mu_tcpstore *store)
{
    struct mu_tcpstore_stats stats;

    mu_tcpstore_stats(store, &stats);
    metric_gauge(text, "muster_tcpstore_connections", "Connections of clients of PyTorch's store.", stats.connections);
    metric_gauge(text, "muster_tcpstore_waiting", "Its clients that wait for keys.", stats.waiting);
    metric_counter(text, "muster_tcpstore_in_bytes_total", "Bytes that they have sent.", stats.bytes_in);
    metric_counter(text, "muster_tcpstore_out_bytes_total", "Bytes that they were sent.", stats.bytes_out);
    metric_head(text, "muster_tcpstore_calls_total", "counter", "Their calls, by name.");
    for (unsigned call = 0; call < MU_TCPSTORE_CALLS; call++)
        if (stats.calls[call])
            text_put(text, "muster_tcpstore_calls_total{call=\"%s\"} %" PRIu64 "\n", mu_tcpstore_call_name(call),
                     stats.calls[call]);
}

static int worker_count(void *arg, const struct muster_worker_look *look)
{
    uint64_t *counts = arg;

    counts[look->blocked ? 2 : look->idle ? 0 : 1]++;
    return 0;
}

/* Objects, calls and workers are those of this host. */
static void put_calls(struct metrics_text *text, struct muster *muster)
{
    static const char *const states[] = {"", "waiting", "queued", "placed", "running", "failed"};
    static const char *const kinds[] = {"idle", "busy", "blocked"};
    struct mu_schedule_counts counts;
    uint64_t workers[3] = {0};

    muster_worker_list(muster, worker_count, workers);
    metric_head(text, "muster_workers", "gauge", "Threads that run calls, by what they do.");
    for (size_t i = 0; i < 3; i++)
        text_put(text, "muster_workers{state=\"%s\"} %" PRIu64 "\n", kinds[i], workers[i]);
    if (!mu_schedule_count(muster, &counts))
        return;
    metric_head(text, "muster_calls", "gauge", "Calls that have not ended, by state; failed: objects that are errors.");
    for (size_t i = MUSTER_CALL_WAITING; i <= MUSTER_CALL_FAILED; i++)
        text_put(text, "muster_calls{state=\"%s\"} %" PRIu64 "\n", states[i], counts.calls[i]);
    metric_gauge(text, "muster_objects", "Objects that hold bytes.", counts.objects);
    metric_gauge(text, "muster_object_bytes", "Their bytes, with metadata.", counts.bytes);
}

/* "drivers 2 servers 1/3": a sample each, and one of what is wanted. */
static void put_noted(struct metrics_text *text, const char *service, char *note)
{
    char *rest, *name = NULL, *word = strtok_r(note, " ", &rest), *end; /* the address */

    text_put(text, "# HELP muster_%s What the service counts, as 'muster status' shows it.\n# TYPE muster_%s gauge\n",
             service, service);
    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        unsigned long long number = strtoull(word, &end, 10);

        if (end == word || !name) {
            name = word;
            continue;
        }
        text_put(text, "muster_%s{count=\"%.40s\"} %llu\n", service, name, number);
        if (*end == '/')
            text_put(text, "muster_%s{count=\"%.40s_wanted\"} %llu\n", service, name, strtoull(end + 1, NULL, 10));
    }
}

static void put_services(struct metrics_text *text, const struct mu_metrics_launcher *launcher)
{
    for (unsigned which = 0; launcher->service; which++) {
        char note[256] = "";
        const char *name = launcher->service(launcher->arg, which, note, sizeof note);

        if (!name)
            return;
        if (*note)
            put_noted(text, name, note);
    }
}

char *mu_metrics_render(struct mu_metrics_view *view, uint64_t restarts, size_t *ret_len, const char **ret_why)
{
    struct muster_segment_info info;
    struct muster_stats stats;
    struct metrics_text text = {.data = NULL};

    *ret_why = "the segment cannot be read";
    if (muster_segment_info(muster_segment_of(view->muster), &info) != MUSTER_OK ||
        muster_stats_get(view->muster, -1, &stats) != MUSTER_OK)
        return NULL;
    mu_metrics_look(view);
    put_job(&text, view, &info);
    put_states(&text, view);
    put_each_task(&text, view, muster_now_ns());
    put_stats(&text, &stats);
    if (view->launcher.failures)
        metric_counter(&text, "muster_failures_total",
                       "Processes of tasks that ended badly by themselves, joined or not.", *view->launcher.failures);
    metric_counter(&text, "muster_restarts_total", "Tasks that the launcher has started anew.", restarts);
    put_segment(&text, &info);
    if (mu_is_bridged(muster_segment_of(view->muster)))
        put_hosts(&text, muster_segment_of(view->muster));
    put_calls(&text, view->muster);
    put_services(&text, &view->launcher);
    if (view->service)
        put_service(&text, view->service);
    if (view->store)
        put_store(&text, view->store);
    if (text.failed) {
        *ret_why = "no memory for the answer";
        free(text.data);
        return NULL;
    }
    *ret_len = text.len;
    return text.data;
}
