/*
 * ray/tasks.c: submission, what is remembered of operations, and the end of a task.
 *
 * A task is freed when it has ended and the history does not have it any more. The history is a ring; what ended tasks
 * in it hold beyond a part of the memory is forgotten early.
 */
#include "ray/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "base/utf8.h"

enum {
    HISTORY_BYTES = 64 << 20, /* of ended tasks */
    NUMBER = 0,
    BYTES = 2, /* kinds of fields */
};

/* ---- history ----------------------------------------------------------------------------------------------------- */

static struct mu_ray_operation *operation_slot(const struct mu_ray_sched *s, uint64_t id)
{
    return &s->operations[id % MU_RAY_HISTORY];
}

const struct mu_ray_operation *mu_ray_operation_at(const struct mu_ray_sched *s, uint64_t id)
{
    const struct mu_ray_operation *operation = operation_slot(s, id);

    return id < s->num_operations && s->num_operations - id <= MU_RAY_HISTORY && operation->kind != MU_RAY_OP_NONE
               ? operation
               : NULL;
}

static void task_free(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    mu_ray_give(s, t->bytes);
    mu_blob_drop(t->body);
    free(t->nested.all);
    free(t->why);
    free(t);
}

static void operation_forget(struct mu_ray_sched *s, struct mu_ray_operation *operation)
{
    struct mu_ray_task *t = operation->kind == MU_RAY_OP_TASK ? operation->task : NULL;

    operation->kind = MU_RAY_OP_NONE;
    if (!t)
        return;
    t->is_kept = false;
    if (t->state != MU_RAY_ENDED)
        return;
    s->history_bytes -= t->bytes;
    task_free(s, t);
}

void mu_ray_operation_add(struct mu_ray_sched *s, const struct mu_ray_operation *operation)
{
    struct mu_ray_operation *slot = operation_slot(s, s->num_operations);

    operation_forget(s, slot);
    *slot = *operation;
    s->num_operations++;
}

void mu_ray_task_end(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    t->state = MU_RAY_ENDED;
    t->function = NULL; /* which may go before the history */
    if (!t->is_kept) {
        task_free(s, t);
        return;
    }
    s->history_bytes += t->bytes;
    for (; s->history_bytes > HISTORY_BYTES && s->forgotten < s->num_operations; s->forgotten++) {
        struct mu_ray_operation *operation = operation_slot(s, s->forgotten);

        if (mu_ray_operation_at(s, s->forgotten) && operation->kind == MU_RAY_OP_TASK &&
            operation->task->state == MU_RAY_ENDED)
            operation_forget(s, operation);
    }
}

void mu_ray_tasks_close(struct mu_ray_sched *s)
{
    for (uint32_t i = 0; i < s->num_workers; i++)
        if (s->workers[i]->task)
            mu_ray_task_end(s, s->workers[i]->task);
    while (s->queue) {
        struct mu_ray_task *t = s->queue;

        s->queue = t->next;
        for (uint32_t i = 0; i < t->num_args; i++)
            if (t->waits[i].is_waiting)
                mu_ray_wait_end(s, &t->waits[i]);
        mu_ray_task_end(s, t);
    }
    for (unsigned i = 0; s->operations && i < MU_RAY_HISTORY; i++)
        operation_forget(s, &s->operations[i]);
    for (unsigned i = 0; s->failures && i < MU_RAY_FAILURES; i++)
        free(s->failures[i].function);
}

uint64_t mu_ray_creator(const struct mu_ray_worker *w)
{
    return w->is_driver ? MU_RAY_NIL : w->task ? w->task->operation : MU_RAY_NIL - 1;
}

/* ---- submission -------------------------------------------------------------------------------------------------- */

static size_t var_len(uint64_t n)
{
    size_t len = 1;

    while (n >>= 7)
        len++;
    return len;
}

static void pack_bytes(struct mu_pack *p, unsigned field, const void *bytes, size_t len)
{
    mu_pack_var(p, field << 3 | BYTES);
    mu_pack_var(p, len);
    mu_pack_raw(p, bytes, len);
}

static void pack_value(struct mu_pack *p, const struct mu_ray_value *v)
{
    size_t id = v->id ? 1 + var_len(v->id) : 0, obj = v->obj ? 1 + var_len(v->len) + v->len : 0;

    mu_pack_var(p, 2 << 3 | BYTES);
    mu_pack_var(p, id + obj);
    if (id) {
        mu_pack_var(p, 1 << 3 | NUMBER);
        mu_pack_var(p, v->id);
    }
    if (obj)
        pack_bytes(p, 2, v->obj, v->len);
}

/* ExecuteTaskRequest, or Operation: {1: Task {1: name, 2: its arguments, 3: its results}}. NULL: no memory. */
static struct mu_blob *task_pack(struct mu_ray_text name, const struct mu_ray_value *args, size_t num_args,
                                 uint64_t first, uint64_t count)
{
    struct mu_pack task = {.bytes = NULL}, results = {.bytes = NULL}, whole = {.bytes = NULL};
    struct mu_blob *blob = NULL;

    pack_bytes(&task, 1, name.text, name.len);
    for (size_t i = 0; i < num_args; i++)
        pack_value(&task, &args[i]);
    for (uint64_t i = 0; i < count; i++)
        mu_pack_var(&results, first + i);
    if (count)
        pack_bytes(&task, 3, results.bytes, results.len);
    pack_bytes(&whole, 1, task.bytes, task.len);
    if (!task.failed && !results.failed && !whole.failed)
        blob = mu_blob_new(whole.len);
    if (blob)
        memcpy(blob->bytes, whole.bytes, whole.len);
    mu_pack_done(&task);
    mu_pack_done(&results);
    mu_pack_done(&whole);
    return blob;
}

/* The task, with its memory taken, and with the nested ids. Its arguments are known to be there. */
static enum muster_status task_new(struct mu_ray_sched *s, struct mu_ray_function *f, const struct mu_ray_value *args,
                                   size_t num_args, uint32_t by_id, const struct mu_ray_ids *nested,
                                   struct mu_ray_task **ret_task)
{
    uint64_t first = s->num_objects;
    struct mu_ray_text name = {f->name, f->len};
    struct mu_ray_task *t = calloc(1, sizeof *t + by_id * sizeof *t->waits);
    enum muster_status status;

    if (t)
        t->body = task_pack(name, args, num_args, first, f->num_returns);
    if (!t || !t->body || !mu_ray_grow(&f->heap, sizeof *f->heap, f->num_queued + 1, &f->room)) {
        if (t)
            mu_blob_drop(t->body);
        free(t);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for another task");
    }
    t->bytes = sizeof *t + by_id * sizeof *t->waits + t->body->len + sizeof *t->body + sizeof *f->heap +
               nested->room * sizeof *nested->all;
    status = mu_ray_take(s, t->bytes);
    if (!status) {
        /* its producer's; one for the caller and one for the worker, each dropped for one of its own */
        status = mu_ray_object_new(s, f->num_returns, 3, &t->first_result);
        if (status)
            mu_ray_give(s, t->bytes);
    }
    if (status) {
        mu_blob_drop(t->body);
        free(t);
        return status;
    }
    t->num_results = f->num_returns;
    t->function = f;
    t->nested = *nested;
    t->is_kept = true;
    *ret_task = t;
    return MUSTER_OK;
}

static void task_enqueue(struct mu_ray_sched *s, struct mu_ray_task *t, const struct mu_ray_value *args,
                         size_t num_args, uint64_t creator)
{
    t->operation = s->num_operations;
    mu_ray_operation_add(s, &(struct mu_ray_operation){.kind = MU_RAY_OP_TASK, .creator = creator, .task = t});
    MU_QUEUE_APPEND(s->queue, s->queue_last, t);
    s->num_queued++;
    t->function->num_queued++;
    for (size_t i = 0; i < num_args; i++) {
        struct mu_ray_wait *wait = &t->waits[t->num_args];
        struct mu_ray_object *canonical;

        if (args[i].obj)
            continue;
        *wait = (struct mu_ray_wait){.task = t, .object = args[i].id};
        t->num_args++;
        if (mu_ray_is_ready(s, wait->object, &canonical))
            continue;
        t->missing++;
        mu_ray_wait_for(s, wait);
    }
}

enum muster_status mu_ray_submit(struct mu_ray_sched *s, uint64_t worker, struct mu_ray_text name,
                                 const struct mu_ray_value *args, size_t num_args, bool *ret_registered,
                                 uint64_t *ret_first, uint64_t *ret_count)
{
    struct mu_ray_worker *w;
    enum muster_status status = mu_ray_worker_find(s, worker, &w);
    struct mu_ray_function *f;
    struct mu_ray_object *o;
    struct mu_ray_task *t = NULL;
    struct mu_ray_ids nested = {.all = NULL};
    uint32_t by_id = 0;
    bool is_known = true;

    if (!status && name.len == 0)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the task names no function");
    if (!status && num_args > MU_RAY_ARGS_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "a task has at most %d arguments", MU_RAY_ARGS_MAX);
    if (status)
        return status;
    f = mu_ray_function_find(s, name);
    *ret_registered = f != NULL;
    *ret_first = *ret_count = 0;
    if (!f)
        return MUSTER_OK;
    for (size_t i = 0; !status && i < num_args; i++)
        if (!args[i].obj) {
            by_id++;
            status = mu_ray_object_find(s, args[i].id, &o);
        } else if (is_known) {
            is_known = mu_ray_nested(s, args[i].obj, args[i].len, &nested);
        }
    if (!status)
        status = task_new(s, f, args, num_args, by_id, &nested, &t);
    if (status) {
        free(nested.all);
        return status;
    }
    *ret_first = t->first_result;
    *ret_count = t->num_results;
    for (uint64_t i = 0; i < t->num_results; i++)
        mu_ray_ledger_add(w, t->first_result + i, 1);
    for (size_t i = 0; i < num_args; i++)
        if (!args[i].obj)
            mu_ray_ledger_add(w, args[i].id, -1);
    for (uint32_t i = 0; i < nested.count; i++)
        mu_ray_ledger_add(w, nested.all[i], -1);
    if (!is_known) /* which references it gave away */
        mu_ray_ledger_end(w);
    task_enqueue(s, t, args, num_args, mu_ray_creator(w));
    if (mu_ray_task_look(s, t) && t->missing == 0)
        mu_ray_task_ready(s, t);
    mu_ray_settle(s);
    return MUSTER_OK;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

/* Text that a reader of protobuf takes. */
static size_t words_copy(char *to, struct mu_ray_text from)
{
    size_t len = from.len < MU_RAY_WORDS_MAX ? from.len : MU_RAY_WORDS_MAX, n = 0;

    for (size_t at = 0; at < len;) {
        size_t one = mu_utf8_length(from.text + at, len - at);

        if (one)
            memcpy(to + n, from.text + at, one);
        else
            to[n] = '?';
        n += one ? one : 1;
        at += one ? one : 1;
    }
    to[n] = 0;
    return n + 1;
}

void mu_ray_task_fail(struct mu_ray_sched *s, const struct mu_ray_task *t, const char *address,
                      struct mu_ray_text words)
{
    struct mu_ray_failure *slot = &s->failures[s->num_failed % MU_RAY_FAILURES];
    size_t name = t->function->len + 1, where = strlen(address) + 1;
    size_t said = (words.len < MU_RAY_WORDS_MAX ? words.len : MU_RAY_WORDS_MAX) + 1;
    char *all = malloc(name + where + said);

    s->num_failed++;
    free(slot->function);
    *slot = (struct mu_ray_failure){.operation = t->operation};
    if (!all)
        return;
    slot->function = memcpy(all, t->function->name, name);
    slot->address = memcpy(all + name, address, where);
    slot->words = all + name + where;
    words_copy(slot->words, words);
}

static enum muster_status outcome_check(const struct mu_ray_worker *w, const struct mu_ray_outcome *outcome)
{
    if (w->is_driver)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "worker %u is a driver, which runs no tasks", w->id);
    if (outcome && !w->task)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "worker %u has no task that could have ended", w->id);
    return MUSTER_OK;
}

enum muster_status mu_ray_ready_for_task(struct mu_ray_sched *s, uint64_t worker, const struct mu_ray_outcome *outcome)
{
    static const char silent[] = "its worker asked for another task, and did not say how this one ended";
    struct mu_ray_worker *w;
    enum muster_status status = mu_ray_worker_find(s, worker, &w);

    if (!status)
        status = outcome_check(w, outcome);
    if (status)
        return status;
    if (w->task) {
        struct mu_ray_task *t = w->task;

        w->task = NULL;
        w->state = MU_RAY_REGISTERED;
        s->num_running--;
        if (outcome && outcome->succeeded)
            s->num_succeeded++;
        else
            mu_ray_task_fail(s, t, w->address, outcome ? outcome->words : (struct mu_ray_text){silent, strlen(silent)});
        mu_ray_task_end(s, t);
    }
    if (!w->is_initialized)
        mu_ray_worker_equip(s, w);
    if (w->state != MU_RAY_IDLE)
        mu_ray_worker_idle(s, w);
    mu_ray_settle(s);
    return MUSTER_OK;
}
