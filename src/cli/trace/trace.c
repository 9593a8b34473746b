/*
 * cli/trace/trace.c: `muster trace`: what a traced job's threads noted, for chrome://tracing, Perfetto, or people.
 *
 * The JSON is the trace event format: a process is a task, a thread a slot; complete events are stays in barriers and
 * waits for keys; instants are changes of tasks' states, and deaths. Times are CLOCK_MONOTONIC. It reads only, and
 * works on a job that is stopped, and on the segment that a dead one has left.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/timeline.h"

struct export
{
    struct mu_cli_json json;
    const struct mu_cli_timeline *timeline;
    const struct muster_segment_info *segment;
    const struct muster_task_info *tasks;
};

/* The process that stands for a task; observers share one behind all tasks. */
static uint32_t process_of(const struct export *x, int32_t task)
{
    return task < 0 || (uint32_t)task >= x->segment->num_tasks ? x->segment->num_tasks : (uint32_t)task;
}

static void open_event(struct export *x, const char *phase, const char *name, uint32_t process, uint32_t slot)
{
    mu_cli_json_open(&x->json, NULL, '{');
    mu_cli_json_text(&x->json, "ph", phase);
    mu_cli_json_text(&x->json, "name", name);
    mu_cli_json_unsigned(&x->json, "pid", process);
    mu_cli_json_unsigned(&x->json, "tid", slot);
}

static void put_named(struct export *x, const char *what, uint32_t process, uint32_t slot, const char *name)
{
    open_event(x, "M", what, process, slot);
    mu_cli_json_open(&x->json, "args", '{');
    mu_cli_json_text(&x->json, "name", name);
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_close(&x->json, '}');
}

/* Every thread that has noted something, and its process, by name. `seen`: a byte for each process, then each slot. */
static void put_names(struct export *x, unsigned char *seen)
{
    const struct mu_cli_timeline *t = x->timeline;
    uint32_t processes = x->segment->num_tasks + 1;
    char name[64];

    for (size_t i = 0; i < t->num_events; i++) {
        const struct mu_traced *e = &t->events[i];
        uint32_t process = process_of(x, e->task);

        if (!seen[process]) {
            seen[process] = 1;
            if (process == x->segment->num_tasks)
                snprintf(name, sizeof name, "observers");
            else if (x->tasks[process].pid)
                snprintf(name, sizeof name, "task %u (pid %u)", process, x->tasks[process].pid);
            else
                snprintf(name, sizeof name, "task %u", process);
            put_named(x, "process_name", process, 0, name);
        }
        if (seen[processes + e->slot] == 0) { /* named in the task that had it first */
            seen[processes + e->slot] = 1;
            snprintf(name, sizeof name, "slot %u", e->slot);
            put_named(x, "thread_name", process, e->slot, name);
        }
    }
}

static void put_span(struct export *x, const struct mu_cli_span *span)
{
    const struct mu_traced *e = span->enter;
    const struct mu_cli_barrier *m = span->barrier < 0 ? NULL : &x->timeline->barriers[span->barrier];
    int is_key = e->kind == MU_TRACE_KEY_ENTER;
    char unknown[32];

    snprintf(unknown, sizeof unknown, "#%016" PRIx64, e->object);
    open_event(x, "X", *e->name ? e->name : m && *m->name ? m->name : unknown, process_of(x, e->task), e->slot);
    mu_cli_json_text(&x->json, "cat", is_key ? "key" : e->kind == MU_TRACE_GROUP_ENTER ? "group" : "barrier");
    mu_cli_json_thousandths(&x->json, "ts", e->time_ns);
    mu_cli_json_thousandths(&x->json, "dur", span->end_ns - e->time_ns);
    mu_cli_json_open(&x->json, "args", '{');
    if (span->dead)
        mu_cli_json_text(&x->json, "status", "died in there");
    else
        mu_cli_json_text(&x->json, "status",
                         span->open      ? "has not returned"
                         : span->unknown ? "not known"
                                         : muster_status_name(span->status));
    if (is_key && !span->open && !span->unknown && span->status == MUSTER_OK)
        mu_cli_json_unsigned(&x->json, "version", span->version);
    if (!is_key)
        mu_cli_json_unsigned(&x->json, "instance", e->value);
    if (m) {
        mu_cli_json_unsigned(&x->json, "arrivals", m->count);
        if (m->remote_ns)
            mu_cli_json_null(&x->json, "last_task");
        else
            mu_cli_json_signed(&x->json, "last_task", m->last_task);
        mu_cli_json_thousandths(&x->json, "after_first_us", e->time_ns - m->first_ns);
    }
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_close(&x->json, '}');
}

/* It is noted when it ends. */
static void put_call(struct export *x, const struct mu_traced *e)
{
    char object[32];

    snprintf(object, sizeof object, "0x%016" PRIx64, e->object);
    open_event(x, "X", *e->name ? e->name : "a call", process_of(x, e->task), e->slot);
    mu_cli_json_text(&x->json, "cat", "call");
    mu_cli_json_thousandths(&x->json, "ts", e->time_ns - e->value);
    mu_cli_json_thousandths(&x->json, "dur", e->value);
    mu_cli_json_open(&x->json, "args", '{');
    mu_cli_json_text(&x->json, "status", muster_status_name(e->status));
    mu_cli_json_text(&x->json, "result", object);
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_close(&x->json, '}');
}

static void put_instant(struct export *x, const struct mu_traced *e)
{
    int32_t task = e->object < x->segment->num_tasks ? (int32_t)e->object : -1;
    enum muster_task_state state = (enum muster_task_state)(e->value & 255);
    char name[96], who[32];

    if (task < 0)
        snprintf(who, sizeof who, "an observer");
    else
        snprintf(who, sizeof who, "task %d", task);
    if (e->kind == MU_TRACE_DEATH)
        snprintf(name, sizeof name, "a thread of %s is dead", who);
    else
        snprintf(name, sizeof name, "%s %s", who, mu_cli_state_name(state));
    open_event(x, "i", name, process_of(x, task), e->kind == MU_TRACE_DEATH ? (uint32_t)(e->value >> 32) : e->slot);
    mu_cli_json_text(&x->json, "cat", e->kind == MU_TRACE_DEATH ? "death" : "state");
    mu_cli_json_text(&x->json, "s", e->kind == MU_TRACE_STATE && state == MUSTER_TASK_ERROR ? "g" : "p");
    mu_cli_json_thousandths(&x->json, "ts", e->time_ns);
    mu_cli_json_open(&x->json, "args", '{');
    mu_cli_json_unsigned(&x->json, "pid", e->kind == MU_TRACE_DEATH ? (uint32_t)e->value : e->value >> 32);
    if (e->kind == MU_TRACE_DEATH)
        mu_cli_json_unsigned(&x->json, "slot", e->value >> 32);
    if (e->kind == MU_TRACE_STATE && state == MUSTER_TASK_ERROR) {
        mu_cli_json_text(&x->json, "code", muster_status_name((enum muster_status)(e->value >> 16 & 255)));
        mu_cli_json_text(&x->json, "cause", mu_cli_cause_name((enum muster_cause)(e->value >> 8 & 255)));
        mu_cli_json_text(&x->json, "message", e->name);
    }
    if (e->task >= 0)
        mu_cli_json_signed(&x->json, "noted_by_task", e->task);
    else
        mu_cli_json_text(&x->json, "noted_by", "an observer");
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_close(&x->json, '}');
}

static void put_all(struct export *x, unsigned char *seen, FILE *out)
{
    const struct mu_cli_timeline *t = x->timeline;

    mu_cli_json_start(&x->json, out);
    mu_cli_json_open(&x->json, NULL, '{');
    mu_cli_json_text(&x->json, "displayTimeUnit", "ns");
    mu_cli_json_open(&x->json, "otherData", '{');
    mu_cli_json_text(&x->json, "job", x->segment->job);
    mu_cli_json_unsigned(&x->json, "tasks", x->segment->num_tasks);
    mu_cli_json_unsigned(&x->json, "events_lost", t->lost);
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_open(&x->json, "traceEvents", '[');
    put_names(x, seen);
    for (size_t i = 0; i < t->num_spans; i++)
        put_span(x, &t->spans[i]);
    for (size_t i = 0; i < t->num_events; i++)
        if (t->events[i].kind == MU_TRACE_STATE || t->events[i].kind == MU_TRACE_DEATH)
            put_instant(x, &t->events[i]);
        else if (t->events[i].kind == MU_TRACE_CALL && t->events[i].value <= t->events[i].time_ns)
            put_call(x, &t->events[i]);
    mu_cli_json_close(&x->json, ']');
    mu_cli_json_close(&x->json, '}');
    mu_cli_json_end(&x->json);
}

/* All that is to be written, before a file is touched: where it cannot be read, an earlier export stays whole. */
struct trace_look {
    struct muster_segment_info info;
    struct mu_cli_timeline timeline;
    struct muster_task_info *tasks;
};

static enum muster_status trace_look_at(struct muster *muster, struct trace_look *look)
{
    struct muster_segment *segment = muster_segment_of(muster);
    size_t count;
    enum muster_status status = muster_segment_info(segment, &look->info);

    if (status == MUSTER_OK)
        status = mu_cli_timeline_read(segment, look->info.slots_live ? muster_now_ns() : 0, &look->timeline);
    return status != MUSTER_OK ? status : mu_cli_tasks(muster, &look->tasks, &count, NULL);
}

static enum muster_status write_look(struct mu_cli_call *call, const struct trace_look *look, FILE *out)
{
    struct export x = {.timeline = &look->timeline, .segment = &look->info, .tasks = look->tasks};
    unsigned char *seen;

    if (call->values[MU_OPT_STRAGGLERS])
        return mu_cli_print_stragglers(&look->timeline, look->info.num_tasks, out);
    seen = calloc(1, (size_t)look->info.num_tasks + 1 + look->info.num_slots);
    if (!seen)
        abort();
    put_all(&x, seen, out);
    free(seen);
    return MUSTER_OK;
}

static int trace_write_out(struct mu_cli_call *call, const struct trace_look *look)
{
    const char *path = call->values[MU_OPT_OUTPUT];
    FILE *out = path ? fopen(path, "we") : stdout;
    enum muster_status status = out ? write_look(call, look, out) : MUSTER_OK;
    int code = status == MUSTER_OK ? 0 : mu_cli_fail(call, status);

    if (path && (!out || ferror(out) | fclose(out)) && !code) {
        fprintf(stderr, "%s: cannot write %s: %s\n", call->path, path, strerror(errno));
        code = MU_CLI_EXIT_FAILURE;
    }
    return code;
}

static int trace_run(struct mu_cli_call *call)
{
    struct trace_look look = {.tasks = NULL};
    struct muster *muster;
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = trace_look_at(muster, &look);
    code = status == MUSTER_OK ? trace_write_out(call, &look) : mu_cli_fail(call, status);
    free(look.tasks);
    mu_cli_timeline_done(&look.timeline);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option trace_options[] = {
    {MU_OPT_OUTPUT, 'o', "output", "FILE", mu_cli_files, "write to this file instead of stdout"},
    {MU_OPT_STRAGGLERS, 0, "stragglers", NULL, NULL, "print who came last to each barrier, and by how much"},
    MU_CLI_JOB,
    MU_CLI_END};

const struct mu_cli_verb mu_cli_trace = {
    .name = "trace",
    .operands = "",
    .summary = "Export what a traced job's tasks did and waited for, for Perfetto",
    .options = trace_options,
    .run = trace_run,
};
