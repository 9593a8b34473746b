/*
 * ray/info.c: SchedulerInfoReply and TaskInfoReply, as they stand on the wire.
 *
 * Lists of ids are packed. Nested messages are written behind their length, so each is written aside first.
 */
#include "ray/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    NUMBER = 0,
    BYTES = 2, /* kinds of fields */
    REPLY_MAX = 200 << 20,
};

static void put_number(struct mu_pack *p, unsigned field, uint64_t value)
{
    if (!value)
        return;
    mu_pack_var(p, field << 3 | NUMBER);
    mu_pack_var(p, value);
}

static void put_bytes(struct mu_pack *p, unsigned field, const void *bytes, size_t len)
{
    mu_pack_var(p, field << 3 | BYTES);
    mu_pack_var(p, len);
    mu_pack_raw(p, bytes, len);
}

static void put_text(struct mu_pack *p, unsigned field, const char *text)
{
    if (*text)
        put_bytes(p, field, text, strlen(text));
}

/* A nested message, or a packed list; then `part` is empty again. */
static void put_part(struct mu_pack *p, unsigned field, struct mu_pack *part)
{
    p->failed = p->failed || part->failed;
    put_bytes(p, field, part->bytes, part->len);
    mu_pack_reset(part);
}

static void put_list(struct mu_pack *p, unsigned field, struct mu_pack *part)
{
    if (part->len || part->failed)
        put_part(p, field, part);
}

/* ---- SchedulerInfo ----------------------------------------------------------------------------------------------- */

/* 2: map<string, FnTableEntry {1: workers, 2: number of results}> */
static void put_function(struct mu_pack *to, const struct mu_ray_function *f)
{
    struct mu_pack workers = {.bytes = NULL}, entry = {.bytes = NULL}, row = {.bytes = NULL};

    for (uint32_t i = 0; i < f->num_words * 64; i++)
        if (mu_ray_knows(f, i))
            mu_pack_var(&workers, i);
    put_list(&entry, 1, &workers);
    put_number(&entry, 2, f->num_returns);
    put_bytes(&row, 1, f->name, f->len);
    put_part(&row, 2, &entry);
    put_part(to, 2, &row);
    mu_pack_done(&workers);
    mu_pack_done(&entry);
    mu_pack_done(&row);
}

/* 6: CompGraph {1: Operation {1: Task, 2: Put, 3: its cause, 4: Get}}; what is forgotten is an empty one. */
static void put_graph(struct mu_pack *to, const struct mu_ray_sched *s)
{
    struct mu_pack graph = {.bytes = NULL}, one = {.bytes = NULL}, inner = {.bytes = NULL};

    for (uint64_t id = 0; id < s->num_operations && graph.len < REPLY_MAX; id++) {
        const struct mu_ray_operation *operation = mu_ray_operation_at(s, id);

        if (operation && operation->kind == MU_RAY_OP_TASK) {
            mu_pack_raw(&one, operation->task->body->bytes, operation->task->body->len);
        } else if (operation) {
            put_number(&inner, 1, operation->object);
            put_part(&one, operation->kind == MU_RAY_OP_PUT ? 2 : 4, &inner);
        }
        if (operation)
            put_number(&one, 3, operation->creator);
        put_part(&graph, 1, &one);
    }
    put_part(to, 6, &graph);
    mu_pack_done(&graph);
    mu_pack_done(&one);
    mu_pack_done(&inner);
}

static enum muster_status reply_check(const struct mu_pack *to)
{
    if (to->failed)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the reply");
    if (to->len > REPLY_MAX)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "the reply is longer than %d MiB: too much has happened since the "
                       "scheduler began",
                       REPLY_MAX >> 20);
    return MUSTER_OK;
}

static void put_objects(struct mu_pack *to, const struct mu_ray_sched *s)
{
    struct mu_pack targets = {.bytes = NULL}, counts = {.bytes = NULL};

    for (uint64_t id = 0; id < s->num_objects && counts.len < REPLY_MAX; id++) {
        const struct mu_ray_object *o = mu_ray_object_at(s, id);

        mu_pack_var(&targets, o ? o->target : MU_RAY_NIL);
        mu_pack_var(&counts, o && !o->is_freed ? o->count : MU_RAY_NIL);
    }
    put_list(to, 4, &targets);
    put_list(to, 5, &counts);
    mu_pack_done(&targets);
    mu_pack_done(&counts);
}

enum muster_status mu_ray_scheduler_info(const struct mu_ray_sched *s, struct mu_pack *to)
{
    struct mu_pack list = {.bytes = NULL};

    for (const struct mu_ray_task *t = s->queue; t; t = t->next)
        mu_pack_var(&list, t->operation);
    put_list(to, 1, &list);
    for (unsigned i = 0; i < MU_RAY_BUCKETS; i++)
        for (const struct mu_ray_function *f = s->buckets[i]; f; f = f->next)
            put_function(to, f);
    for (const struct mu_ray_worker *w = s->idle; w; w = w->next)
        mu_pack_var(&list, w->id);
    put_list(to, 3, &list);
    mu_pack_done(&list);
    put_objects(to, s);
    put_graph(to, s);
    return reply_check(to);
}

/* ---- TaskInfo ---------------------------------------------------------------------------------------------------- */

/* TaskStatus {1: operation, 2: function, 3: worker, 4: error} */
static void put_status(struct mu_pack *to, unsigned field, uint64_t operation, const char *function,
                       const char *address, const char *error)
{
    struct mu_pack one = {.bytes = NULL};

    put_number(&one, 1, operation);
    put_text(&one, 2, function);
    put_text(&one, 3, address);
    put_text(&one, 4, error);
    put_part(to, field, &one);
    mu_pack_done(&one);
}

enum muster_status mu_ray_task_info(const struct mu_ray_sched *s, struct mu_pack *to)
{
    uint64_t first = s->num_failed > MU_RAY_FAILURES ? s->num_failed - MU_RAY_FAILURES : 0;

    for (uint64_t i = first; i < s->num_failed && to->len < REPLY_MAX; i++) {
        const struct mu_ray_failure *f = &s->failures[i % MU_RAY_FAILURES];

        put_status(to, 1, f->operation, f->function ? f->function : "", f->function ? f->address : "",
                   f->function ? f->words : "");
    }
    for (uint32_t i = 0; i < s->num_workers; i++)
        if (s->workers[i]->task)
            put_status(to, 2, s->workers[i]->task->operation, s->workers[i]->task->function->name,
                       s->workers[i]->address, "");
    put_number(to, 3, s->num_succeeded);
    return reply_check(to);
}

void mu_ray_stats(const struct mu_ray_sched *s, struct mu_ray_stats *ret_stats)
{
    *ret_stats = (struct mu_ray_stats){
        .queued = s->num_queued,
        .running = s->num_running,
        .succeeded = s->num_succeeded,
        .failed = s->num_failed,
        .objects = s->live_objects,
        .held = s->held,
    };
    for (uint32_t i = 0; i < s->num_workers; i++)
        if (s->workers[i]->state != MU_RAY_GONE)
            ++*(s->workers[i]->is_driver ? &ret_stats->drivers : &ret_stats->workers);
    for (uint32_t i = 0; i < s->num_stores; i++)
        ret_stats->stores += !s->stores[i]->is_gone;
}
