/*
 * cli/status/calls.c: a job's functions, calls and workers, for `muster task list`, `muster status` and `muster top`.
 */
#include "cli/status/calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {[MUSTER_CALL_WAITING] = "waiting",
                                    [MUSTER_CALL_QUEUED] = "queued",
                                    [MUSTER_CALL_PLACED] = "placed",
                                    [MUSTER_CALL_RUNNING] = "running"};

/* One more row behind `count`; it is zeroed. NULL: no memory. */
static void *row_add(void **rows, size_t *count, size_t size)
{
    if ((*count & (*count - 1)) == 0) {
        void *more = realloc(*rows, (*count ? 2 * *count : 1) * size);

        if (!more)
            return NULL;
        *rows = more;
    }
    return memset((char *)*rows + (*count)++ * size, 0, size);
}

#define ROW_ADD(rows, count) row_add((void **)&(rows), &(count), sizeof *(rows))

static struct mu_cli_function_row *function_row(struct mu_cli_calls *c, muster_function function, const char *name)
{
    struct mu_cli_function_row *row;

    for (size_t i = 0; i < c->num_functions; i++)
        if (c->functions[i].function == function)
            return &c->functions[i];
    row = ROW_ADD(c->functions, c->num_functions);
    if (row) {
        row->function = function;
        row->name = strndup(name, strcspn(name, "#")); /* Python's have their code's number there */
    }
    return row;
}

static const char *function_name(const struct mu_cli_calls *c, muster_function function)
{
    for (size_t i = 0; i < c->num_functions; i++)
        if (c->functions[i].function == function && c->functions[i].name)
            return c->functions[i].name;
    return "";
}

static int function_take(void *arg, const struct muster_function_info *info)
{
    return !function_row(arg, info->function, info->name);
}

static int call_take(void *arg, const struct muster_call_look *look)
{
    struct mu_cli_calls *c = arg;
    struct mu_cli_function_row *f;
    struct mu_cli_call_row *row;

    c->counts[look->state]++;
    if (look->state == MUSTER_CALL_FAILED) {
        struct muster_call_look *failed = c->num_failed < MU_CLI_FAILED_MOST ? ROW_ADD(c->failed, c->num_failed) : NULL;

        if (failed)
            *failed = *look;
        return 0;
    }
    f = function_row(c, look->function, look->name);
    if (f)
        f->counts[look->state]++;
    row = c->num_calls < MU_CLI_CALLS_MOST ? ROW_ADD(c->calls, c->num_calls) : NULL;
    if (row)
        *row =
            (struct mu_cli_call_row){look->result, look->waits_for, look->function, look->state, look->task, look->pid};
    return 0;
}

static int worker_take(void *arg, const struct muster_worker_look *look)
{
    struct mu_cli_calls *c = arg;
    struct muster_worker_look *row = ROW_ADD(c->workers, c->num_workers);

    if (row)
        *row = *look;
    return !row;
}

static int offer_take(void *arg, const struct muster_resource_look *look)
{
    struct mu_cli_calls *c = arg;
    struct muster_resource_look *row = ROW_ADD(c->resources, c->num_resources);

    if (row)
        *row = *look;
    return !row;
}

static int lease_take(void *arg, const struct muster_lease_look *look)
{
    struct mu_cli_calls *c = arg;
    struct muster_lease_look *row = ROW_ADD(c->leases, c->num_leases);

    if (row)
        *row = *look;
    return !row;
}

static int object_take(void *arg, const struct muster_object_info *info)
{
    struct mu_cli_calls *c = arg;

    c->objects += info->len + info->meta_len != 0;
    c->object_bytes += info->len + info->meta_len;
    return 0;
}

enum muster_status mu_cli_calls_take(struct muster *muster, struct mu_cli_calls *ret_calls)
{
    enum muster_status status;

    *ret_calls = (struct mu_cli_calls){.calls = NULL};
    status = muster_function_list(muster, 0, function_take, ret_calls);
    if (status == MUSTER_OK)
        status = muster_call_list(muster, call_take, ret_calls);
    if (status == MUSTER_OK)
        status = muster_worker_list(muster, worker_take, ret_calls);
    if (status == MUSTER_OK)
        status = muster_resource_list(muster, offer_take, ret_calls);
    if (status == MUSTER_OK)
        status = muster_lease_list(muster, lease_take, ret_calls);
    if (status == MUSTER_OK)
        status = muster_object_list(muster, object_take, ret_calls);
    if (status != MUSTER_OK)
        mu_cli_calls_free(ret_calls);
    return status;
}

void mu_cli_calls_free(struct mu_cli_calls *calls)
{
    for (size_t i = 0; i < calls->num_functions; i++)
        free(calls->functions[i].name);
    free(calls->functions);
    free(calls->calls);
    free(calls->workers);
    free(calls->failed);
    free(calls->resources);
    free(calls->leases);
    *calls = (struct mu_cli_calls){.calls = NULL};
}

bool mu_cli_calls_any(const struct mu_cli_calls *calls)
{
    return calls->num_functions || calls->num_workers || calls->objects;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static const char *worker_word(const struct muster_worker_look *w)
{
    return w->blocked ? "blocked" : w->idle ? "idle" : w->call ? "busy" : "free";
}

const char *mu_cli_workers_words(const struct mu_cli_calls *calls, char buffer[96])
{
    uint32_t idle = 0, blocked = 0;

    for (size_t i = 0; i < calls->num_workers; i++) {
        idle += calls->workers[i].idle != 0;
        blocked += calls->workers[i].blocked != 0;
    }
    snprintf(buffer, 96, "%zu worker%s: %u idle, %u blocked", calls->num_workers, calls->num_workers == 1 ? "" : "s",
             idle, blocked);
    return buffer;
}

const char *mu_cli_calls_words(const struct mu_cli_calls *calls, char buffer[256])
{
    char crew[96], size[32];

    snprintf(buffer, 256, "%" PRIu64 " running, %" PRIu64 " queued, %" PRIu64 " waiting; %s; %" PRIu64 " object%s, %s",
             calls->counts[MUSTER_CALL_RUNNING], calls->counts[MUSTER_CALL_QUEUED] + calls->counts[MUSTER_CALL_PLACED],
             calls->counts[MUSTER_CALL_WAITING], mu_cli_workers_words(calls, crew), calls->objects,
             calls->objects == 1 ? "" : "s", mu_cli_bytes(calls->object_bytes, size));
    return buffer;
}

static const struct mu_cli_call_row *call_of(const struct mu_cli_calls *c, muster_object result)
{
    for (size_t i = 0; result && i < c->num_calls; i++)
        if (c->calls[i].result == result)
            return &c->calls[i];
    return NULL;
}

static void print_workers(const struct mu_cli_calls *c, FILE *out)
{
    char text[96];

    fprintf(out, "\n%s\n", mu_cli_workers_words(c, text));
    if (c->num_workers)
        fprintf(out, "%-10s %6s %-8s %s\n", "PID", "TASK", "STATE", "CALL");
    for (size_t i = 0; i < c->num_workers; i++) {
        const struct muster_worker_look *w = &c->workers[i];
        const struct mu_cli_call_row *call = call_of(c, w->call);

        snprintf(text, sizeof text, w->task < 0 ? "-" : "%d", (int)w->task);
        fprintf(out, "%-10u %6s %-8s ", w->pid, text, worker_word(w));
        if (w->call)
            fprintf(out, "0x%016" PRIx64 " %s", w->call, call ? function_name(c, call->function) : "");
        else
            putc('-', out);
        putc('\n', out);
    }
}

/* What there is, and which call has what of it. */
static void print_resources(const struct mu_cli_calls *c, FILE *out)
{
    if (c->num_resources)
        fprintf(out, "\n%-12s %8s %8s  %s\n", "RESOURCE", "TOTAL", "LENT", "CALLS THAT HAVE IT");
    for (size_t i = 0; i < c->num_resources; i++) {
        const struct muster_resource_look *r = &c->resources[i];
        const char *between = "  ";

        fprintf(out, "%-12s %8.10g %8.10g", r->name, r->total, r->lent);
        for (size_t j = 0; j < c->num_leases; j++) {
            const struct muster_lease_look *l = &c->leases[j];

            if (strcmp(l->name, r->name) != 0)
                continue;
            fprintf(out, "%s0x%016" PRIx64 " (pid %u): ", between, l->call, l->pid);
            if (l->units[0])
                mu_cli_print_line(out, l->units);
            else
                fprintf(out, "%.10g", l->amount);
            between = "; ";
        }
        putc('\n', out);
    }
}

static void print_failed(const struct mu_cli_calls *c, FILE *out)
{
    if (c->counts[MUSTER_CALL_FAILED])
        fprintf(out, "\n%" PRIu64 " error%s\n", c->counts[MUSTER_CALL_FAILED],
                c->counts[MUSTER_CALL_FAILED] == 1 ? "" : "s");
    for (size_t i = 0; i < c->num_failed; i++) {
        fprintf(out, "0x%016" PRIx64 "  %s: ", c->failed[i].result, muster_status_name(c->failed[i].code));
        mu_cli_print_line(out, c->failed[i].text[0] ? c->failed[i].text : "its producer ended");
        putc('\n', out);
    }
}

void mu_cli_calls_print(const struct mu_cli_calls *c, FILE *out)
{
    fprintf(out, "\n%8s %8s %8s %8s  FUNCTION\n", "WAITING", "QUEUED", "PLACED", "RUNNING");
    for (size_t i = 0; i < c->num_functions; i++) {
        for (int state = MUSTER_CALL_WAITING; state < MUSTER_CALL_FAILED; state++)
            fprintf(out, "%8" PRIu64 " ", c->functions[i].counts[state]);
        putc(' ', out);
        mu_cli_print_line(out, c->functions[i].name ? c->functions[i].name : "");
        putc('\n', out);
    }
    print_workers(c, out);
    print_resources(c, out);
    print_failed(c, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_reference(struct mu_cli_json *json, const char *key, uint64_t object)
{
    char text[32];

    snprintf(text, sizeof text, "0x%016" PRIx64, object);
    mu_cli_json_text(json, key, object ? text : NULL);
}

static void json_resources(struct mu_cli_json *json, const struct mu_cli_calls *c)
{
    mu_cli_json_open(json, "resources", '[');
    for (size_t i = 0; i < c->num_resources; i++) {
        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_text(json, "name", c->resources[i].name);
        mu_cli_json_thousandths(json, "total", (uint64_t)(c->resources[i].total * 1000 + 0.5));
        mu_cli_json_thousandths(json, "lent", (uint64_t)(c->resources[i].lent * 1000 + 0.5));
        mu_cli_json_open(json, "leases", '[');
        for (size_t j = 0; j < c->num_leases; j++) {
            if (strcmp(c->leases[j].name, c->resources[i].name) != 0)
                continue;
            mu_cli_json_open(json, NULL, '{');
            json_reference(json, "call", c->leases[j].call);
            mu_cli_json_unsigned(json, "pid", c->leases[j].pid);
            mu_cli_json_thousandths(json, "amount", (uint64_t)(c->leases[j].amount * 1000 + 0.5));
            mu_cli_json_text(json, "units", c->leases[j].units[0] ? c->leases[j].units : NULL);
            mu_cli_json_close(json, '}');
        }
        mu_cli_json_close(json, ']');
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

void mu_cli_calls_json(struct mu_cli_json *json, const struct mu_cli_calls *c)
{
    mu_cli_json_open(json, "functions", '[');
    for (size_t i = 0; i < c->num_functions; i++) {
        mu_cli_json_open(json, NULL, '{');
        json_reference(json, "function", c->functions[i].function);
        mu_cli_json_text(json, "name", c->functions[i].name);
        for (int state = MUSTER_CALL_WAITING; state < MUSTER_CALL_FAILED; state++)
            mu_cli_json_unsigned(json, words[state], c->functions[i].counts[state]);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
    mu_cli_json_open(json, "workers", '[');
    for (size_t i = 0; i < c->num_workers; i++) {
        const struct mu_cli_call_row *call = call_of(c, c->workers[i].call);

        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_unsigned(json, "pid", c->workers[i].pid);
        mu_cli_json_signed(json, "task", c->workers[i].task);
        mu_cli_json_text(json, "state", worker_word(&c->workers[i]));
        json_reference(json, "call", c->workers[i].call);
        mu_cli_json_text(json, "function", call ? function_name(c, call->function) : NULL);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
    json_resources(json, c);
    mu_cli_json_unsigned(json, "errors", c->counts[MUSTER_CALL_FAILED]);
    mu_cli_json_open(json, "failed", '[');
    for (size_t i = 0; i < c->num_failed; i++) {
        mu_cli_json_open(json, NULL, '{');
        json_reference(json, "object", c->failed[i].result);
        mu_cli_json_signed(json, "task", c->failed[i].task);
        mu_cli_json_text(json, "error", muster_status_name(c->failed[i].code));
        mu_cli_json_text(json, "text", c->failed[i].text);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

/* ---- why --------------------------------------------------------------------------------------------------------- */

/* The call that all those before it wait for, through their arguments: a chain, for no call waits for a later one. */
static const struct mu_cli_call_row *call_behind(const struct mu_cli_calls *c, const struct mu_cli_call_row *call)
{
    for (int steps = 0; call->state == MUSTER_CALL_WAITING && steps < 1000; steps++) {
        const struct mu_cli_call_row *next = call_of(c, call->waits_for);

        if (!next)
            break;
        call = next;
    }
    return call;
}

void mu_cli_calls_why(const struct mu_cli_calls *c, const char *waiting, char *text, size_t size)
{
    bool is_object = strncmp(waiting, "object 0x", 9) == 0;
    const struct mu_cli_call_row *call = is_object ? call_of(c, strtoull(waiting + 7, NULL, 16)) : NULL, *last;
    char crew[96], before[200] = "";

    if (!call)
        return;
    size -= strlen(text);
    text += strlen(text);
    last = call_behind(c, call);
    mu_cli_workers_words(c, crew);
    if (last != call)
        snprintf(before, sizeof before, " waits for object 0x%016" PRIx64 " of %.100s, which", last->result,
                 function_name(c, last->function));
    if (last->state == MUSTER_CALL_RUNNING)
        snprintf(text, size, ", of function %.100s, which%s runs in the process with pid %u",
                 function_name(c, call->function), before, last->pid);
    else if (last->state == MUSTER_CALL_QUEUED)
        snprintf(text, size, ", of function %.100s, which%s is queued: %s", function_name(c, call->function), before,
                 c->num_workers ? crew : "there is no worker");
    else
        snprintf(text, size, ", of function %.100s, which%s waits for %s 0x%016" PRIx64,
                 function_name(c, call->function), before, last->state == MUSTER_CALL_PLACED ? "place" : "object",
                 last->waits_for);
}
