/*
 * coord/coord.c: the engine: what it is made of, opening and closing it.
 */
#include "coord/remote.h"

#include <stdlib.h>

#define HOUR_NS   3600000000000u
#define SECOND_NS 1000000000u

/*
 * In the order in which they look and what is due is done: a task's error ends what waits for the task, and a key that
 * is there is found before the leader is asked for it. They stop in the reverse order: those that have calls to the
 * leader before the calls that nobody waits for.
 */
static const struct mu_coord_feature *const features[] = {
    &mu_remote_feature,  &mu_watchers_feature,   &mu_errors_feature,      &mu_registering_feature,
    &mu_leaving_feature, &mu_generation_feature, &mu_lines_feature,       &mu_calls_feature,
    &mu_work_feature,    &mu_key_waits_feature,  &mu_key_fetches_feature, NULL,
};
enum { FEATURES = sizeof features / sizeof features[0] - 1 };

/* Then the register barrier has passed, before an adoption. */
static bool have_all_been_here(const struct mu_coord *coord)
{
    struct mu_task_record r = {.attempt = 1};

    for (uint32_t i = 0; i < coord->num_tasks && r.attempt; i++)
        mu_coord_record(coord, (int32_t)i, &r, NULL);
    return r.attempt != 0;
}

/* The run's first word: a job that is begun again has another. Never 0. */
static uint64_t incarnation_of(struct muster_segment *seg)
{
    struct muster_segment_info info;

    return muster_segment_info(seg, &info) || !info.run_id[0] ? 1 : info.run_id[0];
}

static enum muster_status engine_begin(struct mu_coord *coord)
{
    enum muster_status status = MUSTER_OK;

    if (!coord->tasks)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u tasks", coord->num_tasks);
    for (size_t i = 0; i < FEATURES && !status; i++)
        status = features[i]->open ? features[i]->open(coord) : MUSTER_OK;
    return status ? status : mu_coord_handles_open(coord);
}

enum muster_status mu_coord_open(const struct mu_coord_options *options, struct mu_coord **ret_coord)
{
    struct mu_coord *coord = calloc(1, sizeof *coord);
    enum muster_status status;

    if (!coord)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the coordination service");
    coord->o = *options;
    coord->o.register_timeout_ns = options->register_timeout_ns ? options->register_timeout_ns : HOUR_NS;
    coord->o.say_ns = options->say_ns ? options->say_ns : 10ull * SECOND_NS;
    coord->features = features;
    coord->m = options->m;
    coord->seg = muster_segment_of(options->m);
    coord->num_tasks = coord->seg->num_tasks;
    coord->incarnation = incarnation_of(coord->seg);
    coord->tasks = calloc(coord->num_tasks, sizeof *coord->tasks);
    status = engine_begin(coord);
    if (status) {
        mu_pending_close(&coord->pending);
        free(coord->remote);
        free(coord->tasks);
        free(coord);
        return status;
    }
    coord->leave_until = coord->lost_next = coord->word_until = UINT64_MAX;
    coord->report_of = -1;
    coord->registered = have_all_been_here(coord);
    mu_coord_listen(coord); /* once it cannot fail any more */
    coord->pending.named.is_heard = coord->listener != NULL;
    *ret_coord = coord;
    return MUSTER_OK;
}

void mu_coord_stop(struct mu_coord *coord)
{
    if (coord->stopped)
        return;
    coord->stopped = true;
    for (size_t i = FEATURES; i-- > 0;)
        if (features[i]->stop)
            features[i]->stop(coord);
    mu_coord_listen_stop(coord);
    uv_timer_stop(&coord->timer);
    uv_timer_stop(&coord->recheck);
    mu_coord_deliver(coord);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct mu_coord *coord = handle->data;

    if (--coord->closing)
        return;
    for (uint32_t i = 0; i < coord->num_tasks; i++)
        free(coord->tasks[i].lost_why);
    for (uint32_t i = 0; i < MU_VALUES; i++)
        if (coord->values[i].blob)
            coord->values[i].blob->seat = NULL;
    free(coord->tasks);
    free(coord->remote);
    free(coord);
}

void mu_coord_free(struct mu_coord *coord)
{
    if (!coord)
        return;
    mu_coord_stop(coord);
    uv_close((uv_handle_t *)&coord->timer, on_handle_closed);
    uv_close((uv_handle_t *)&coord->recheck, on_handle_closed);
    uv_close((uv_handle_t *)&coord->idle, on_handle_closed);
    uv_close((uv_handle_t *)&coord->bell, on_handle_closed);
}
