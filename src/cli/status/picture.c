/*
 * cli/status/picture.c: taking one look at a job.
 *
 * From the segment: tasks, barriers, groups, keys, the first error; nothing there is waited for. From the guard of the
 * launcher: the processes of tasks that have not joined, if it is of this host. From /proc: what the
 * processes do; of those on other hosts their agents tell the leader's. A pid may have been given to another process
 * since, or mean another one in our pid namespace: /proc is believed only where the start time is the one that the task
 * registered with.
 *
 * A heartbeat is one store without a clock, so its age is what the looks before allow to say: a counter that moved
 * between two looks moved in between; one that has not moved is as old as the first look, or as the instant at which
 * the process was stopped.
 */
#include "cli/status/picture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/activity.h"
#include "base/process.h"
#include "kv/size.h"
#include "segment/handle.h"
#include "task/task.h"

static void look_at_process(struct mu_cli_task *task, const struct mu_activity_clock *clock, uint64_t start)
{
    struct mu_activity seen;

    task->cpu_percent = -1;
    if (!mu_activity_look(task->info.pid, start, clock, &seen))
        return;
    task->letter = seen.letter;
    task->start = seen.start;
    task->cpu_ns = seen.cpu_ns;
    task->last_ran = seen.last_ran;
    if (task->last_ran && task->last_ran < task->info.since_ns && task->info.state == MUSTER_TASK_CONNECTED)
        task->last_ran = task->info.since_ns; /* its own doing */
}

const char *mu_cli_process_word(const struct mu_cli_task *task)
{
    if (mu_cli_is_ended(&task->info) && !task->unjoined)
        return "ended";
    if (task->info.attempt == 0 && !task->unjoined)
        return "-";
    if (!task->info.alive && task->letter == 'Z')
        return "zombie";
    if (!task->info.alive)
        return task->info.state == MUSTER_TASK_DISCONNECTED ? "left" : task->info.guest ? "lost" : "dead";
    if (task->info.guest && task->letter != 'T' && task->letter != 't')
        return "guest";
    switch (task->letter) {
    case 'T': return "stopped";
    case 't': return "traced";
    case 'S':
    case 'I': return "sleeping";
    case 'D': return "blocked";
    case 'Z':
    case 'X': return "ending";
    case 'R': return "running";
    default: return "alive";
    }
}

/* ---- what two looks tell ----------------------------------------------------------------------------------------- */

static const struct mu_cli_task *same_task(const struct mu_cli_picture *before, size_t i,
                                           const struct mu_cli_task *task)
{
    const struct mu_cli_task *old = before && i < before->count ? &before->tasks[i] : NULL;

    return old && old->info.incarnation == task->info.incarnation ? old : NULL;
}

static void time_heartbeat(struct mu_cli_task *task, const struct mu_cli_task *old, const struct mu_cli_picture *before,
                           const struct mu_cli_picture *now)
{
    const struct muster_task_info *info = &task->info;
    uint64_t timeout = now->heartbeat_timeout_ns;

    if (info->attempt == 0 || task->unjoined)
        return;
    if (!old)
        task->beat_until = now->now_ns;
    else if (old->info.heartbeats != info->heartbeats)
        task->beat_after = before->now_ns, task->beat_until = now->now_ns;
    else
        task->beat_after = old->beat_after, task->beat_until = old->beat_until;
    if (info->state == MUSTER_TASK_ERROR && info->cause == MUSTER_CAUSE_HEARTBEAT && info->since_ns > timeout &&
        task->beat_until > info->since_ns - timeout)
        task->beat_until = info->since_ns - timeout;
    if ((task->letter == 'T' || task->letter == 't') && task->last_ran && task->beat_until > task->last_ran)
        task->beat_until = task->last_ran;
    if (task->beat_after > task->beat_until)
        task->beat_after = 0;
}

static void time_cpu(struct mu_cli_task *task, const struct mu_cli_task *old, const struct mu_cli_picture *before,
                     uint64_t now)
{
    uint64_t began, life;

    if (!task->start)
        return;
    if (old && old->start == task->start && now > before->now_ns && task->cpu_ns >= old->cpu_ns) {
        task->cpu_percent = 100.0 * (double)(task->cpu_ns - old->cpu_ns) / (double)(now - before->now_ns);
        task->cpu_is_recent = 1;
        return;
    }
    began = task->start * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)); /* since boot, as is CLOCK_BOOTTIME */
    life = 0;
    if (began) {
        struct timespec boot;

        clock_gettime(CLOCK_BOOTTIME, &boot);
        life = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
        life = life > began ? life - began : 0;
    }
    if (life > 10000000)
        task->cpu_percent = 100.0 * (double)task->cpu_ns / (double)life;
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

static enum muster_status picture_take_tasks(struct muster *muster, const struct mu_cli_picture *before,
                                             struct mu_cli_picture *picture)
{
    uint32_t count = (uint32_t)muster_num_tasks(muster);
    struct muster_task_info *infos = calloc(count + 1, sizeof *infos);
    uint64_t *starts = calloc(count + 1, sizeof *starts);
    bool *unjoined = calloc(count + 1, sizeof *unjoined);
    struct mu_activity_clock clock;
    enum muster_status status;

    picture->tasks = calloc(count + 1, sizeof *picture->tasks);
    if (!infos || !starts || !unjoined || !picture->tasks)
        abort();
    status = mu_task_run(muster, 0, count, infos, starts);
    picture->count = status == MUSTER_OK ? count : 0;
    mu_activity_clock(&clock);
    clock.asks_processors = true;
    picture->now_ns = clock.now;
    mu_cli_find_unjoined(muster->seg, infos, starts, picture->count, unjoined);
    for (size_t i = 0; i < picture->count; i++) {
        struct mu_cli_task *task = &picture->tasks[i];
        const struct mu_cli_task *old;

        task->info = infos[i];
        task->unjoined = unjoined[i];
        if (unjoined[i])
            starts[i] = mu_process_start((pid_t)infos[i].pid);
        task->cpu_percent = -1;
        if (!picture->foreign && mu_is_local_task(muster->seg, (uint32_t)i))
            look_at_process(task, &clock, starts[i]);
        if (task->unjoined && task->letter == 'Z')
            task->info.alive = 0; /* its launcher has not reaped it yet */
        old = same_task(before, i, task);
        time_heartbeat(task, old, before, picture);
        time_cpu(task, old, before, picture->now_ns);
        if ((unsigned)task->info.state < 3)
            picture->states[task->info.state]++;
        picture->alive += task->info.alive != 0;
    }
    free(unjoined);
    free(starts);
    free(infos);
    return status;
}

/* A pid alone may be another's by now. Of one in another pid namespace nothing is known. */
static bool is_creator_gone(struct muster *muster, const struct mu_cli_picture *picture)
{
    uint64_t start = muster_segment_of(muster)->header->creator_start;
    struct mu_activity creator;

    if (picture->foreign)
        return 0;
    return !mu_activity_look(picture->segment.creator_pid, start, NULL, &creator) || creator.letter == 'Z' ||
           creator.letter == 'X';
}

/* A group's members leave no time: take that of members that have waited long enough to say it. */
static void time_groups(struct mu_cli_picture *picture)
{
    for (size_t i = 0; i < picture->num_barriers; i++) {
        struct mu_barrier_view *barrier = &picture->barriers[i];
        char what[2][96];

        if (!barrier->is_group)
            continue;
        snprintf(what[0], sizeof what[0], MU_GROUP_WAITS, 89, barrier->id); /* as cut off there */
        snprintf(what[1], sizeof what[1], MU_GROUP_BUILDS, barrier->id);
        for (size_t k = 0; k < picture->count; k++) {
            const struct muster_task_info *info = &picture->tasks[k].info;

            if ((strcmp(info->waiting, what[0]) == 0 || strcmp(info->waiting, what[1]) == 0) &&
                (!barrier->since_ns || info->waiting_since_ns < barrier->since_ns))
                barrier->since_ns = info->waiting_since_ns;
        }
    }
}

static const struct {
    const char *key, *hosts, *form;
} served[MU_CLI_SERVED] = {
    [MU_CLI_GRPC] = {MU_AGENT_GRPC_KEY, MU_AGENT_GRPC_HOSTS_KEY, "%159s connections %u parked %u leaves %u"},
    [MU_CLI_TCPSTORE] = {MU_AGENT_TCPSTORE_KEY, MU_AGENT_TCPSTORE_HOSTS_KEY, "%159s connections %u waiting %u"},
};

/* "127.0.0.1:4711 connections 4 parked 8 leaves 0": any task could have written something else there. */
static void read_served(unsigned what, struct mu_cli_served *ret, const void *value, size_t len)
{
    char text[256] = "";

    memcpy(text, value, len < sizeof text ? len : sizeof text - 1);
    ret->leaves = 0;
    if (sscanf(text, served[what].form, ret->address, &ret->connections, &ret->waiting, &ret->leaves) < 3)
        *ret = (struct mu_cli_served){.connections = 0};
}

/* Of other hosts than the leader's, from "muster/grpc-hosts/3". */
static void take_served_hosts(struct muster *muster, unsigned what, struct mu_cli_picture *picture)
{
    struct muster_kv_list *list;

    if (muster_kv_get_dir(muster, served[what].hosts, MUSTER_NTS, &list) != MUSTER_OK)
        return;
    for (size_t i = 0; i < list->count; i++) {
        const struct muster_kv_entry *entry = &list->entries[i];
        const char *number = strrchr(entry->key, '/');
        unsigned long host = number ? strtoul(number + 1, NULL, 10) : 0;

        if (host > 0 && host < picture->num_hosts)
            read_served(what, &picture->hosts[host].served[what], entry->value, entry->value_len);
    }
    muster_kv_list_free(list);
}

static void take_served_key(struct muster *muster, unsigned what, const char *key, struct mu_cli_served *ret)
{
    char text[256];
    size_t len;

    if (muster_kv_try_get(muster, key, MUSTER_NTS, text, sizeof text - 1, &len, NULL) == MUSTER_OK)
        read_served(what, ret, text, len);
}

/* On another host than the leader's its agent sees to it that there are copies of the leader's and of its own. */
static void take_served(struct muster *muster, unsigned what, struct mu_cli_picture *picture)
{
    char key[64];

    if (picture->creator_gone || picture->segment.closed)
        return;
    take_served_key(muster, what, served[what].key, &picture->served[what]);
    if (!picture->num_hosts)
        return;
    picture->hosts[0].served[what] = picture->served[what];
    snprintf(key, sizeof key, "%s/%u", served[what].hosts, picture->own_host);
    if (picture->own_host > 0)
        take_served_key(muster, what, key, &picture->hosts[picture->own_host].served[what]);
    else
        take_served_hosts(muster, what, picture);
    picture->served[what] = picture->hosts[picture->own_host].served[what];
}

static void picture_take_mindspore(struct muster *muster, struct mu_cli_picture *picture)
{
    struct mu_cli_cluster *c = &picture->mindspore;
    char text[256] = "";
    size_t len;

    if (picture->creator_gone || picture->segment.closed ||
        muster_kv_try_get(muster, MU_AGENT_MINDSPORE_KEY, MUSTER_NTS, text, sizeof text - 1, &len, NULL) != MUSTER_OK)
        return;
    if (sscanf(text, "%159s %31s servers %u/%u workers %u/%u scalings %u", c->address, c->state, &c->servers,
               &c->servers_wanted, &c->workers, &c->workers_wanted, &c->scalings) != 7)
        *c = (struct mu_cli_cluster){.servers = 0};
}

/* Another host's agent than the leader's would have to ask. */
static void picture_take_mpi(struct muster *muster, struct mu_cli_picture *picture)
{
    if (!picture->creator_gone && !picture->segment.closed && !picture->own_host &&
        muster_kv_get_dir(muster, MU_AGENT_MPI_WAITS, MUSTER_NTS, &picture->mpi) != MUSTER_OK)
        picture->mpi = NULL;
}

/* "": it is not served, or elsewhere. */
static void picture_take_note(struct muster *muster, const struct mu_cli_picture *picture, const char *key, char *note,
                              size_t size)
{
    size_t len = 0;

    if (!picture->creator_gone && !picture->segment.closed && !picture->own_host &&
        muster_kv_try_get(muster, key, MUSTER_NTS, note, size - 1, &len, NULL))
        len = 0;
    note[len < size ? len : 0] = 0;
}

enum muster_status mu_cli_picture_take(struct muster *muster, const struct mu_cli_picture *before,
                                       struct mu_cli_picture *ret_picture)
{
    struct mu_cli_picture picture = {.foreign = muster_segment_of(muster)->foreign,
                                     .heartbeat_timeout_ns = muster_segment_of(muster)->heartbeat_timeout};
    enum muster_status status = muster_segment_info(muster_segment_of(muster), &picture.segment);

    if (status == MUSTER_OK)
        status = picture_take_tasks(muster, before, &picture);
    if (status == MUSTER_OK)
        mu_cli_take_hosts(muster_segment_of(muster), &picture);
    if (status == MUSTER_OK)
        mu_cli_take_status(muster, &picture);
    if (status == MUSTER_OK)
        status = mu_barrier_view_list(muster, &picture.barriers, &picture.num_barriers);
    if (status == MUSTER_OK)
        status = mu_kv_size(muster, &picture.keys, &picture.key_bytes);
    if (status == MUSTER_OK)
        status = mu_cli_calls_take(muster, &picture.calls);
    if (status == MUSTER_OK)
        status = mu_cli_epoch_take(muster, &picture.epoch);
    if (status != MUSTER_OK) {
        mu_cli_picture_free(&picture);
        return status;
    }
    picture.in_error = muster_error_wait(muster, muster_after_ns(0), &picture.error) == MUSTER_OK;
    picture.creator_gone = is_creator_gone(muster, &picture);
    for (unsigned what = 0; what < MU_CLI_SERVED; what++)
        take_served(muster, what, &picture);
    picture.leaves = (picture.num_hosts ? picture.hosts[0].served : picture.served)[MU_CLI_GRPC].leaves;
    if (picture.leaves > picture.count)
        picture.leaves = 0;
    picture_take_mpi(muster, &picture);
    picture_take_note(muster, &picture, MU_AGENT_CHECKPOINT_KEY, picture.disk, sizeof picture.disk);
    picture_take_note(muster, &picture, MU_AGENT_RAY_KEY, picture.ray, sizeof picture.ray);
    picture_take_note(muster, &picture, MU_AGENT_TF_KEY, picture.tf, sizeof picture.tf);
    picture_take_mindspore(muster, &picture);
    time_groups(&picture);
    if (mu_cli_diagnose(&picture))
        abort();
    *ret_picture = picture;
    return MUSTER_OK;
}

void mu_cli_picture_free(struct mu_cli_picture *picture)
{
    free(picture->tasks);
    free(picture->hosts);
    if (picture->mpi)
        muster_kv_list_free(picture->mpi);
    mu_barrier_view_free(picture->barriers, picture->num_barriers);
    free(picture->findings);
    mu_cli_calls_free(&picture->calls);
    mu_cli_epoch_free(&picture->epoch);
    *picture = (struct mu_cli_picture){.tasks = NULL};
}
