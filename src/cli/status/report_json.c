/*
 * cli/status/report_json.c: a picture for scripts: one object. Fields are only ever added.
 *
 * "process" keeps its few words; "process_state" says what /proc says. What is not known is null.
 */
#include <inttypes.h>

#include "cli/status/picture.h"

static void json_task(struct mu_cli_json *json, const struct mu_cli_picture *picture, const struct mu_cli_task *task)
{
    uint64_t now = picture->now_ns;

    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_task_fields(json, &task->info);
    mu_cli_json_text(json, "process_state", mu_cli_process_word(task));
    mu_cli_json_bool(json, "joined", task->info.alive && !task->unjoined);
    mu_cli_json_known(json, "cpu_ns", task->start != 0, task->cpu_ns);
    mu_cli_json_known(json, "cpu_percent", task->cpu_percent >= 0,
                      task->cpu_percent < 0 ? 0 : (uint64_t)(task->cpu_percent + 0.5));
    mu_cli_json_bool(json, "cpu_recent", task->cpu_is_recent);
    mu_cli_json_known(json, "last_ran_ns", task->last_ran != 0, task->last_ran);
    mu_cli_json_open(json, "heartbeat_age", '{');
    mu_cli_json_known(json, "min_ns", task->beat_until != 0, now > task->beat_until ? now - task->beat_until : 0);
    mu_cli_json_known(json, "max_ns", task->beat_after != 0, now - task->beat_after);
    mu_cli_json_close(json, '}');
    mu_cli_json_close(json, '}');
}

static void json_missing(struct mu_cli_json *json, const struct mu_cli_picture *picture,
                         const struct mu_barrier_view *barrier)
{
    char why[192];

    mu_cli_json_unsigned(json, "missing_count", barrier->missing_count);
    mu_cli_json_open(json, "missing", '[');
    for (uint32_t i = 0; i < barrier->missing_count; i++) {
        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_signed(json, "task", barrier->missing[i]);
        mu_cli_json_text(json, "why", mu_cli_why_missing(picture, barrier->missing[i], why));
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

static void barrier_write(struct mu_cli_json *json, const struct mu_cli_picture *picture,
                          const struct mu_barrier_view *barrier)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "id", barrier->id);
    mu_cli_json_unsigned(json, "instance", barrier->instance);
    if (barrier->is_group) {
        mu_cli_json_text(json, "state", mu_cli_barrier_word(barrier));
    } else {
        int passed = barrier->state != MU_VIEW_WAITING;

        mu_cli_json_bool(json, "passed", passed);
        mu_cli_json_text(json, "result", passed ? muster_status_name(barrier->code) : NULL);
    }
    mu_cli_json_unsigned(json, "participants", barrier->participants);
    mu_cli_json_unsigned(json, "arrived", barrier->arrived);
    json_missing(json, picture, barrier);
    if (!barrier->is_group)
        mu_cli_json_known(json, "deadline_ns", barrier->deadline_ns != UINT64_MAX, barrier->deadline_ns);
    mu_cli_json_known(json, "since_ns", !barrier->is_group || barrier->since_ns, barrier->since_ns);
    mu_cli_json_close(json, '}');
}

void mu_cli_json_barriers(struct mu_cli_json *json, const struct mu_cli_picture *picture)
{
    for (int groups = 0; groups < 2; groups++) {
        mu_cli_json_open(json, groups ? "groups" : "barriers", '[');
        for (size_t i = 0; i < picture->num_barriers; i++)
            if (picture->barriers[i].is_group == groups)
                barrier_write(json, picture, &picture->barriers[i]);
        mu_cli_json_close(json, ']');
    }
}

static void json_segment(struct mu_cli_json *json, const struct mu_cli_picture *picture)
{
    const struct muster_segment_info *segment = &picture->segment;
    char run_id[40];

    snprintf(run_id, sizeof run_id, "%016" PRIx64 "%016" PRIx64, segment->run_id[0], segment->run_id[1]);
    mu_cli_json_text(json, "job", segment->job);
    mu_cli_json_text(json, "run_id", run_id);
    mu_cli_json_unsigned(json, "creator_pid", segment->creator_pid);
    mu_cli_json_bool(json, "creator_gone", picture->creator_gone);
    mu_cli_json_unsigned(json, "created_unix_ns", segment->created_unix_ns);
    mu_cli_json_unsigned(json, "now_ns", picture->now_ns);
    mu_cli_json_bool(json, "closed", segment->closed);
    mu_cli_json_unsigned(json, "num_tasks", segment->num_tasks);
    mu_cli_json_unsigned(json, "heartbeat_timeout_ns", picture->heartbeat_timeout_ns);
    mu_cli_json_open(json, "segment", '{');
    mu_cli_json_text(json, "path", segment->path);
    mu_cli_json_unsigned(json, "size_bytes", segment->size_bytes);
    mu_cli_json_unsigned(json, "committed_bytes", segment->committed_bytes);
    mu_cli_json_unsigned(json, "slots", segment->num_slots);
    mu_cli_json_unsigned(json, "slots_live", segment->slots_live);
    mu_cli_json_close(json, '}');
    mu_cli_json_unsigned(json, "keys", picture->keys);
    mu_cli_json_unsigned(json, "value_bytes", picture->key_bytes);
}

static void json_served(struct mu_cli_json *json, const struct mu_cli_served *served)
{
    static const struct {
        const char *name, *waiting;
    } names[MU_CLI_SERVED] = {[MU_CLI_GRPC] = {"grpc", "parked"}, [MU_CLI_TCPSTORE] = {"tcpstore", "waiting"}};

    for (unsigned what = 0; what < MU_CLI_SERVED; what++, served++) {
        if (!served->address[0]) {
            mu_cli_json_null(json, names[what].name);
            continue;
        }
        mu_cli_json_open(json, names[what].name, '{');
        mu_cli_json_text(json, "address", served->address);
        mu_cli_json_unsigned(json, "connections", served->connections);
        mu_cli_json_unsigned(json, names[what].waiting, served->waiting);
        mu_cli_json_close(json, '}');
    }
}

static void json_mindspore(struct mu_cli_json *json, const struct mu_cli_cluster *c)
{
    if (!c->address[0]) {
        mu_cli_json_null(json, "mindspore");
        return;
    }
    mu_cli_json_open(json, "mindspore", '{');
    mu_cli_json_text(json, "address", c->address);
    mu_cli_json_text(json, "state", c->state);
    mu_cli_json_unsigned(json, "servers", c->servers);
    mu_cli_json_unsigned(json, "servers_wanted", c->servers_wanted);
    mu_cli_json_unsigned(json, "workers", c->workers);
    mu_cli_json_unsigned(json, "workers_wanted", c->workers_wanted);
    mu_cli_json_unsigned(json, "scalings", c->scalings);
    mu_cli_json_close(json, '}');
}

static void json_hosts(struct mu_cli_json *json, const struct mu_cli_picture *picture)
{
    mu_cli_json_unsigned(json, "host", picture->own_host);
    mu_cli_json_open(json, "hosts", '[');
    for (uint32_t i = 0; i < picture->num_hosts; i++) {
        const struct mu_cli_host *host = &picture->hosts[i];
        const struct mu_host_view *view = &host->view;

        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_unsigned(json, "host", view->host);
        mu_cli_json_text(json, "name", view->name);
        mu_cli_json_bool(json, "leader", view->host == 0);
        mu_cli_json_text(json, "state", mu_host_state_name(view->state));
        mu_cli_json_known(json, "since_ns", view->since != 0, view->since);
        mu_cli_json_known(json, "heard_ns", view->heard != 0, view->heard);
        mu_cli_json_unsigned(json, "first_task", view->first_task);
        mu_cli_json_unsigned(json, "num_tasks", view->num_tasks);
        mu_cli_json_unsigned(json, "connected", host->connected);
        mu_cli_json_unsigned(json, "in_error", host->in_error);
        mu_cli_json_known(json, "rtt_ns", view->rtt != 0, view->rtt);
        mu_cli_json_known(json, "rtt_min_ns", view->rtt_min != 0, view->rtt_min);
        mu_cli_json_unsigned(json, "bytes_in", view->bytes_in);
        mu_cli_json_unsigned(json, "bytes_out", view->bytes_out);
        mu_cli_json_unsigned(json, "frames_in", view->frames_in);
        mu_cli_json_unsigned(json, "frames_out", view->frames_out);
        mu_cli_json_unsigned(json, "connects", view->connects);
        mu_cli_json_unsigned(json, "calls", view->asking);
        mu_cli_json_known(json, "agent_pid", view->agent_pid != 0, view->agent_pid);
        json_served(json, host->served);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

void mu_cli_json_picture(const struct mu_cli_picture *picture, FILE *out)
{
    struct mu_cli_json json;

    mu_cli_json_start(&json, out);
    mu_cli_json_open(&json, NULL, '{');
    json_segment(&json, picture);
    mu_cli_json_open(&json, "diagnosis", '[');
    for (size_t i = 0; i < picture->num_findings; i++)
        mu_cli_json_text(&json, NULL, picture->findings[i].text);
    mu_cli_json_close(&json, ']');
    if (picture->in_error) {
        mu_cli_json_open(&json, "error", '{');
        mu_cli_json_signed(&json, "task", picture->error.task_id);
        mu_cli_json_text(&json, "code", muster_status_name(picture->error.code));
        mu_cli_json_text(&json, "cause", mu_cli_cause_name(picture->error.cause));
        mu_cli_json_text(&json, "message", picture->error.message);
        mu_cli_json_unsigned(&json, "since_ns", picture->error.since_ns);
        mu_cli_json_close(&json, '}');
    } else {
        mu_cli_json_null(&json, "error");
    }
    mu_cli_json_open(&json, "tasks", '[');
    for (size_t i = 0; i < picture->count; i++)
        json_task(&json, picture, &picture->tasks[i]);
    mu_cli_json_close(&json, ']');
    json_hosts(&json, picture);
    json_served(&json, picture->served);
    if (picture->disk[0])
        mu_cli_json_text(&json, "checkpoints", picture->disk);
    else
        mu_cli_json_null(&json, "checkpoints");
    if (picture->ray[0])
        mu_cli_json_text(&json, "ray", picture->ray);
    else
        mu_cli_json_null(&json, "ray");
    if (picture->tf[0])
        mu_cli_json_text(&json, "tf", picture->tf);
    else
        mu_cli_json_null(&json, "tf");
    json_mindspore(&json, &picture->mindspore);
    mu_cli_epoch_json(&json, &picture->epoch);
    mu_cli_json_open(&json, "calls", '{');
    mu_cli_calls_json(&json, &picture->calls);
    mu_cli_json_close(&json, '}');
    mu_cli_json_barriers(&json, picture);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}
