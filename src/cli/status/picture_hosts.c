/*
 * cli/status/picture_hosts.c: the hosts of a job in its picture, and what is wrong with them.
 *
 * The table is in every host's segment, so any of them shows all; of a host with another agent than ours we know what
 * the leader's agent last said.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/hosts/status.h"
#include "base/process.h"
#include "cli/status/picture.h"

void mu_cli_take_hosts(const struct muster_segment *seg, struct mu_cli_picture *picture)
{
    if (!mu_is_bridged(seg))
        return;
    picture->num_hosts = seg->num_hosts;
    picture->own_host = seg->host;
    picture->hosts = calloc(seg->num_hosts, sizeof *picture->hosts);
    if (!picture->hosts)
        abort();
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        struct mu_cli_host *host = &picture->hosts[i];

        mu_host_look(seg, i, &host->view);
        for (uint32_t k = 0; k < host->view.num_tasks && host->view.first_task + k < picture->count; k++) {
            enum muster_task_state state = picture->tasks[host->view.first_task + k].info.state;

            host->connected += state == MUSTER_TASK_CONNECTED;
            host->in_error += state == MUSTER_TASK_ERROR;
        }
    }
}

/* ---- what their agents say of their tasks ---- */

static void status_take(struct mu_cli_picture *picture, const struct mu_agent_status *status)
{
    struct mu_cli_task *task = &picture->tasks[status->task];

    if (task->info.incarnation != status->incarnation ||
        task->info.alive != !status->pid) /* of another process than now */
        return;
    if (status->pid) {
        task->unjoined = true;
        task->info.alive = 1;
        task->info.pid = status->pid;
        picture->alive++;
    }
    task->letter = status->letter;
    task->last_ran = status->ran;
    if ((task->letter == 'T' || task->letter == 't') && status->ran && status->ran < task->beat_until)
        task->beat_until = status->ran;
    if (status->waiting[0] && status->since) {
        memcpy(task->info.waiting, status->waiting, sizeof task->info.waiting);
        task->info.waiting_since_ns = status->since;
    }
}

/* "muster/sights/3": any task could have written something else there. */
static void statuses_read(struct mu_cli_picture *picture, const struct muster_kv_entry *entry)
{
    const char *number = strrchr(entry->key, '/');
    struct mu_unpack u = mu_unpack_of(entry->value, entry->value_len);
    uint64_t came = mu_unpack_u64(&u);
    unsigned long host = number ? strtoul(number + 1, NULL, 10) : 0;
    const struct mu_host_view *view;
    struct mu_agent_status status;

    if (host >= picture->num_hosts || host == picture->own_host || came > muster_now_ns())
        return;
    view = &picture->hosts[host].view;
    while (view->state == MU_HOST_UP && u.left && mu_agent_status_unpack(&u, came, &status))
        if (status.task - view->first_task < view->num_tasks && status.task < picture->count)
            status_take(picture, &status);
}

/* What an agent said that has died since would be taken for news. */
void mu_cli_take_status(struct muster *muster, struct mu_cli_picture *picture)
{
    struct muster_kv_list *list;

    if (!picture->num_hosts || picture->own_host || picture->segment.closed ||
        !mu_process_start((pid_t)picture->hosts[0].view.agent_pid) ||
        muster_kv_get_dir(muster, MU_AGENT_STATUS, MUSTER_NTS, &list) != MUSTER_OK)
        return;
    for (size_t i = 0; i < list->count; i++)
        statuses_read(picture, &list->entries[i]);
    muster_kv_list_free(list);
}

static const struct mu_cli_host *host_of(const struct mu_cli_picture *picture, int32_t task_id)
{
    for (uint32_t i = 0; i < picture->num_hosts; i++)
        if ((uint32_t)task_id - picture->hosts[i].view.first_task < picture->hosts[i].view.num_tasks)
            return &picture->hosts[i];
    return NULL;
}

const struct mu_cli_host *mu_cli_other_host(const struct mu_cli_picture *picture, int32_t task_id)
{
    const struct mu_cli_host *host = host_of(picture, task_id);

    return host && host->view.host != picture->own_host ? host : NULL;
}

const char *mu_cli_host_of(const struct mu_cli_picture *picture, int32_t task_id)
{
    const struct mu_cli_host *host = host_of(picture, task_id);

    return host ? host->view.name : "-";
}

const char *mu_cli_host_summary(const struct mu_cli_picture *picture, char buffer[160])
{
    size_t len = (size_t)snprintf(buffer, 160, "%u:", picture->num_hosts), first = len;

    for (int state = MU_HOST_UP; state <= MU_HOST_LEFT + 1; state++) {
        enum mu_host_state wanted = state > MU_HOST_LEFT ? MU_HOST_AWAITED : (enum mu_host_state)state;
        uint32_t count = 0;

        for (uint32_t i = 0; i < picture->num_hosts; i++)
            count += picture->hosts[i].view.state == wanted;
        if (count)
            len += (size_t)snprintf(buffer + len, 160 - len, "%s %u %s", len > first ? "," : "", count,
                                    mu_host_state_name(wanted));
    }
    return buffer;
}

enum mu_cli_kind mu_cli_host_kind(const struct mu_cli_host *host)
{
    switch (host->view.state) {
    case MU_HOST_LOST: return MU_CLI_DEAD;
    case MU_HOST_DOWN: return MU_CLI_BLOCKED;
    case MU_HOST_AWAITED: return MU_CLI_ABSENT;
    default: return MU_CLI_FINE;
    }
}

void mu_cli_accuse_host(const struct mu_cli_picture *picture, const struct mu_cli_host *host, char *text, size_t size)
{
    static const struct {
        const char *now, *since; /* where a time is known */
    } words[] = {[MU_HOST_AWAITED] = {"has not come yet", "has not come for"},
                 [MU_HOST_DOWN] = {"is not connected", "has not been connected for"},
                 [MU_HOST_LOST] = {"is lost", "has been lost for"}};
    uint32_t count = host->view.num_tasks;
    char age[32], name[80];
    size_t len;

    if (strncmp(host->view.name, "host ", 5) == 0) /* it has not told its name */
        snprintf(name, sizeof name, "%s", host->view.name);
    else
        snprintf(name, sizeof name, "host %u (%s)", host->view.host, host->view.name);
    len = (size_t)snprintf(text, size, "%s%s %s", host->view.host ? "" : "the leader, ", name,
                           host->view.since ? words[host->view.state].since : words[host->view.state].now);
    if (host->view.since)
        len += (size_t)snprintf(text + len, size - len, " %s", mu_cli_age(host->view.since, age));
    if (count == 1)
        len += (size_t)snprintf(text + len, size - len, ": task %u is there", host->view.first_task);
    else if (count)
        len += (size_t)snprintf(text + len, size - len, ": tasks %u to %u are there", host->view.first_task,
                                host->view.first_task + count - 1);
    if (host->view.asking)
        snprintf(text + len, size - len, ", %llu call%s unanswered", (unsigned long long)host->view.asking,
                 host->view.asking == 1 ? " is" : "s are");
    (void)picture;
}

void mu_cli_host_row(const struct mu_cli_picture *picture, const struct mu_cli_host *host, char *text, size_t size)
{
    const struct mu_host_view *view = &host->view;
    char name[80], tasks[32], since[32], heard[32], rtt[2][32], in[32], out[32], frames[48];

    snprintf(name, sizeof name, "%s%s", view->name,
             view->host == picture->own_host ? " *"
             : view->host == 0               ? " (leader)"
                                             : "");
    snprintf(tasks, sizeof tasks, "%u/%u", host->connected, view->num_tasks);
    snprintf(frames, sizeof frames, "%llu/%llu", (unsigned long long)view->frames_in,
             (unsigned long long)view->frames_out);
    for (int i = 0; i < 2; i++) {
        uint64_t ns = i ? view->rtt_min : view->rtt;

        if (!ns)
            snprintf(rtt[i], sizeof rtt[i], "-");
        else if (ns < 1000000)
            snprintf(rtt[i], sizeof rtt[i], "%.1f us", (double)ns / 1e3);
        else
            snprintf(rtt[i], sizeof rtt[i], "%.1f ms", (double)ns / 1e6);
    }
    snprintf(text, size, "%-5u %-20s %-8s %-9s %-8s %-8s %-9s %-9s %-10s %-10s %-15s %-5llu %llu", view->host, name,
             mu_host_state_name(view->state), tasks, mu_cli_age(view->since, since), mu_cli_age(view->heard, heard),
             rtt[0], rtt[1], mu_cli_bytes(view->bytes_in, in), mu_cli_bytes(view->bytes_out, out), frames,
             (unsigned long long)view->connects, (unsigned long long)view->asking);
}

const char *mu_cli_host_head(void)
{
    return "HOST  NAME                 STATE    TASKS     SINCE    HEARD    RTT       LEAST     IN         OUT        "
           "FRAMES          LINKS CALLS";
}
