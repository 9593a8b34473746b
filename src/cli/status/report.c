/*
 * cli/status/report.c: a picture for people: first what is wrong, then the job, its tasks, its barriers.
 *
 * To stdout with colours where it shows them; to anything else, as the launcher's stderr, without.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/status/picture.h"

enum { FINDINGS_SHOWN = 8, MISSING_SHOWN = 16 };

static FILE *coloured; /* besides stdout: what will be written there */

void mu_cli_report_colours(FILE *out)
{
    coloured = out;
}

static const char *colour_code(FILE *out, enum mu_cli_colour wanted)
{
    return out == stdout || out == coloured ? mu_cli_colour(wanted) : "";
}

void mu_cli_print_findings(const struct mu_cli_picture *picture, FILE *out)
{
    for (size_t i = 0; i < picture->num_findings && i < FINDINGS_SHOWN; i++) {
        const struct mu_cli_finding *finding = &picture->findings[i];
        enum mu_cli_colour how = finding->kind == MU_CLI_FINE       ? MU_CLI_GREEN
                                 : finding->kind <= MU_CLI_IN_ERROR ? MU_CLI_RED
                                                                    : MU_CLI_YELLOW;

        fputs(colour_code(out, how), out);
        mu_cli_print_line(out, finding->text);
        fprintf(out, "%s\n", colour_code(out, MU_CLI_PLAIN));
    }
    if (picture->num_findings > FINDINGS_SHOWN)
        fprintf(out, "and %zu findings more\n", picture->num_findings - FINDINGS_SHOWN);
}

const char *mu_cli_beat_age(const struct mu_cli_picture *picture, const struct mu_cli_task *task, char buffer[32])
{
    char age[32];

    if (task->beat_after)
        snprintf(buffer, 32, "<%s", mu_cli_age(task->beat_after, age));
    else if (task->beat_until && picture->now_ns > task->beat_until)
        snprintf(buffer, 32, ">%s", mu_cli_age(task->beat_until, age));
    else
        snprintf(buffer, 32, "-");
    return buffer;
}

static void print_task(const struct mu_cli_picture *picture, const struct mu_cli_task *task, FILE *out)
{
    static const enum mu_cli_colour colours[] = {
        [MUSTER_TASK_DISCONNECTED] = MU_CLI_DIM,
        [MUSTER_TASK_CONNECTED] = MU_CLI_GREEN,
        [MUSTER_TASK_ERROR] = MU_CLI_RED,
    };
    const struct muster_task_info *info = &task->info;
    unsigned state = (unsigned)info->state < 3 ? (unsigned)info->state : 0;
    enum mu_cli_kind kind = mu_cli_kind_of(picture, task);
    char age[32], beat[32], pid[16] = "-", cpu[16] = "-", seconds[32] = "-", host[80] = "", end[192];

    if (info->pid)
        snprintf(pid, sizeof pid, "%u", info->pid);
    if (task->cpu_percent >= 0)
        snprintf(cpu, sizeof cpu, "%.0f", task->cpu_percent);
    if (task->start)
        snprintf(seconds, sizeof seconds, "%.2f", (double)task->cpu_ns / 1e9);
    if (picture->num_hosts)
        snprintf(host, sizeof host, "%-12.12s ", mu_cli_host_of(picture, info->task_id));
    fprintf(out, "%-5d ", (int)info->task_id);
    mu_cli_print_line(out, host);
    fprintf(out, "%s%-12s%s %s%-8s%s %-8s %-3u %-8s %-9s %-5s %-10" PRIu64 " %-*s", colour_code(out, colours[state]),
            mu_cli_state_name(info->state), colour_code(out, MU_CLI_PLAIN),
            kind <= MU_CLI_STOPPED ? colour_code(out, MU_CLI_RED) : "", mu_cli_process_word(task),
            kind <= MU_CLI_STOPPED ? colour_code(out, MU_CLI_PLAIN) : "", pid, info->attempt,
            mu_cli_age(info->since_ns, age), seconds, cpu, info->heartbeats, info->waiting[0] ? 9 : 0,
            mu_cli_beat_age(picture, task, beat));
    if (info->waiting[0]) {
        putc(' ', out);
        mu_cli_print_line(out, info->waiting);
        fprintf(out, ", for %s", mu_cli_age(info->waiting_since_ns, age));
    }
    putc('\n', out);
    if (mu_cli_is_ended(info) && info->attempt == 0)
        fprintf(out, "      %s\n", mu_cli_end(info, end));
    if (info->state == MUSTER_TASK_ERROR) {
        fprintf(out, "      %s%s, %s%s: ", colour_code(out, MU_CLI_RED), muster_status_name(info->error),
                mu_cli_cause_name(info->cause), colour_code(out, MU_CLI_PLAIN));
        mu_cli_print_line(out, info->message);
        putc('\n', out);
    }
}

void mu_cli_print_tasks(const struct mu_cli_picture *picture, FILE *out)
{
    fprintf(out, "%s%-5s %s%-12s %-8s %-8s %-3s %-8s %-9s %-5s %-10s %-9s %s%s\n", colour_code(out, MU_CLI_BOLD),
            "TASK", picture->num_hosts ? "HOST         " : "", "STATE", "PROCESS", "PID", "TRY", "SINCE", "CPU-SEC",
            "CPU%", "HEARTBEATS", "LAST", "WAITING", colour_code(out, MU_CLI_PLAIN));
    for (size_t i = 0; i < picture->count; i++)
        print_task(picture, &picture->tasks[i], out);
}

void mu_cli_print_hosts(const struct mu_cli_picture *picture, FILE *out)
{
    if (picture->num_hosts)
        fprintf(out, "%s%s%s\n", colour_code(out, MU_CLI_BOLD), mu_cli_host_head(), colour_code(out, MU_CLI_PLAIN));
    for (uint32_t i = 0; i < picture->num_hosts; i++) {
        const struct mu_cli_host *host = &picture->hosts[i];
        enum mu_cli_kind kind = mu_cli_host_kind(host);
        char text[320];

        mu_cli_host_row(picture, host, text, sizeof text);
        fputs(kind == MU_CLI_FINE ? "" : colour_code(out, kind == MU_CLI_DEAD ? MU_CLI_RED : MU_CLI_YELLOW), out);
        mu_cli_print_line(out, text);
        fprintf(out, "%s\n", kind == MU_CLI_FINE ? "" : colour_code(out, MU_CLI_PLAIN));
    }
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static void barrier_print(const struct mu_cli_picture *picture, const struct mu_barrier_view *barrier, FILE *out)
{
    int is_open = mu_cli_barrier_is_open(barrier);
    size_t len = strlen(barrier->id);
    char age[32], why[192], arrived[32];

    snprintf(arrived, sizeof arrived, "%u/%u", barrier->arrived, barrier->participants);
    mu_cli_print_line(out, barrier->id);
    fprintf(out, "%*s %-9" PRIu64 " %-18s %-9s %s\n", len < 24 ? (int)(24 - len) : 0, "", barrier->instance,
            mu_cli_barrier_word(barrier), arrived, mu_cli_age(barrier->since_ns, age));
    for (uint32_t i = 0; i < barrier->missing_count && i < MISSING_SHOWN && is_open; i++) {
        fprintf(out, "  %smissing%s: task %d, ", colour_code(out, MU_CLI_YELLOW), colour_code(out, MU_CLI_PLAIN),
                (int)barrier->missing[i]);
        mu_cli_print_line(out, mu_cli_why_missing(picture, barrier->missing[i], why));
        putc('\n', out);
    }
    if (barrier->missing_count > MISSING_SHOWN && is_open)
        fprintf(out, "  and %u more\n", barrier->missing_count - MISSING_SHOWN);
}

static void print_kind(const struct mu_cli_picture *picture, int groups, FILE *out)
{
    int shown = 0;

    for (size_t i = 0; i < picture->num_barriers; i++) {
        if (picture->barriers[i].is_group != groups)
            continue;
        if (shown++ == 0)
            fprintf(out, "%s%-24s %-9s %-18s %-9s %s%s\n", colour_code(out, MU_CLI_BOLD), groups ? "GROUP" : "BARRIER",
                    "INSTANCE", "STATE", "ARRIVED", "SINCE", colour_code(out, MU_CLI_PLAIN));
        barrier_print(picture, &picture->barriers[i], out);
    }
}

void mu_cli_print_barriers(const struct mu_cli_picture *picture, FILE *out)
{
    print_kind(picture, 0, out);
    print_kind(picture, 1, out);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void print_serving(const struct mu_cli_served *served, FILE *out)
{
    fprintf(out, ": %u connection%s, %u call%s", served->connections, served->connections == 1 ? "" : "s",
            served->waiting, served->waiting == 1 ? " waits" : "s wait");
}

/* This host's, and on the leader's all of them together. */
static void print_served(const struct mu_cli_picture *picture, unsigned what, const char *label, FILE *out)
{
    const struct mu_cli_served *own = &picture->served[what];
    struct mu_cli_served all = {.connections = 0};
    unsigned hosts = 0;

    for (uint32_t i = 0; i < picture->num_hosts && picture->own_host == 0; i++) {
        const struct mu_cli_served *one = &picture->hosts[i].served[what];

        hosts += one->address[0] != 0;
        all.connections += one->connections;
        all.waiting += one->waiting;
    }
    if (!own->address[0] && !hosts)
        return;
    fprintf(out, "%-9s", label);
    mu_cli_print_line(out, own->address[0] ? own->address : "not on this host");
    if (own->address[0])
        print_serving(own, out);
    if (hosts) {
        fprintf(out, "; on %u host%s", hosts, hosts == 1 ? "" : "s");
        print_serving(&all, out);
    }
    putc('\n', out);
}

static void print_mpi(const struct mu_cli_picture *picture, FILE *out)
{
    for (size_t i = 0; picture->mpi && i < picture->mpi->count; i++) {
        const struct muster_kv_entry *entry = &picture->mpi->entries[i];
        const char *number = strrchr(entry->key, '/');
        char text[256];

        snprintf(text, sizeof text, "%.*s", (int)entry->value_len, (const char *)entry->value);
        if (!*text)
            continue;
        fprintf(out, "mpi      ");
        if (picture->num_hosts && number)
            fprintf(out, "host %lu: ", strtoul(number + 1, NULL, 10));
        mu_cli_print_line(out, text);
        putc('\n', out);
    }
}

static void print_mindspore(const struct mu_cli_cluster *c, FILE *out)
{
    if (c->address[0])
        fprintf(out, "mindspore %s: %s, %u of %u servers, %u of %u workers, %u scaling%s\n", c->address, c->state,
                c->servers, c->servers_wanted, c->workers, c->workers_wanted, c->scalings, c->scalings == 1 ? "" : "s");
}

static void print_epoch(const struct mu_cli_epoch *epoch, FILE *out)
{
    char words[768];

    if (!epoch->is_there)
        return;
    fputs("epoch    ", out);
    mu_cli_print_line(out, mu_cli_epoch_words(epoch, words));
    putc('\n', out);
}

static void print_note(const char *name, const char *note, FILE *out)
{
    if (!note[0])
        return;
    fputs(name, out);
    mu_cli_print_line(out, note);
    putc('\n', out);
}

static void print_job(const struct mu_cli_picture *picture, FILE *out)
{
    const struct muster_segment_info *segment = &picture->segment;
    char size[32], committed[32], values[32], age[32];
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(out, "job      %s%s%s, made by pid %u %.1f s ago%s%s\n", colour_code(out, MU_CLI_BOLD), segment->job,
            colour_code(out, MU_CLI_PLAIN), segment->creator_pid,
            (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)segment->created_unix_ns / 1e9,
            picture->creator_gone ? ", which is gone" : "", segment->closed ? ", closed" : "");
    fprintf(out, "segment  %s: %s, %s committed; %u of %u slots in use; %" PRIu64 " key%s, %s\n",
            segment->path[0] ? segment->path : "memfd", mu_cli_bytes(segment->size_bytes, size),
            mu_cli_bytes(segment->committed_bytes, committed), segment->slots_live, segment->num_slots, picture->keys,
            picture->keys == 1 ? "" : "s", mu_cli_bytes(picture->key_bytes, values));
    fprintf(out, "tasks    %zu: %u connected, %u in error, %u not connected; %u alive\n", picture->count,
            picture->states[MUSTER_TASK_CONNECTED], picture->states[MUSTER_TASK_ERROR],
            picture->states[MUSTER_TASK_DISCONNECTED], picture->alive);
    print_epoch(&picture->epoch, out);
    if (mu_cli_calls_any(&picture->calls)) {
        char calls[256];

        fprintf(out, "calls    %s\n", mu_cli_calls_words(&picture->calls, calls));
    }
    if (picture->num_hosts) {
        char summary[160];

        fprintf(out, "hosts    %s; this is host %u\n", mu_cli_host_summary(picture, summary), picture->own_host);
    }
    print_served(picture, MU_CLI_GRPC, "grpc", out);
    print_served(picture, MU_CLI_TCPSTORE, "tcpstore", out);
    print_note("saved to ", picture->disk, out);
    print_note("ray      ", picture->ray, out);
    print_note("tf       ", picture->tf, out);
    print_mindspore(&picture->mindspore, out);
    print_mpi(picture, out);
    if (picture->in_error) {
        fprintf(out, "%serror%s    task %d ", colour_code(out, MU_CLI_RED), colour_code(out, MU_CLI_PLAIN),
                (int)picture->error.task_id);
        if (picture->error.pid) /* of a wire client it may not be known */
            fprintf(out, "(pid %u) ", picture->error.pid);
        fprintf(out, "%s ago, %s: ", mu_cli_age(picture->error.since_ns, age), mu_cli_cause_name(picture->error.cause));
        mu_cli_print_line(out, picture->error.message);
        putc('\n', out);
    }
}

void mu_cli_print_picture(const struct mu_cli_picture *picture, FILE *out)
{
    mu_cli_print_findings(picture, out);
    putc('\n', out);
    print_job(picture, out);
    putc('\n', out);
    mu_cli_print_hosts(picture, out);
    if (picture->num_hosts)
        putc('\n', out);
    mu_cli_print_tasks(picture, out);
    putc('\n', out);
    mu_cli_print_barriers(picture, out);
    if (picture->num_barriers == 0)
        fputs("no barriers\n", out);
}

enum muster_status mu_cli_report(struct muster *muster, FILE *out)
{
    struct mu_cli_picture picture;
    enum muster_status status = mu_cli_picture_take(muster, NULL, &picture);

    if (status != MUSTER_OK)
        return status;
    mu_cli_print_findings(&picture, out);
    print_epoch(&picture.epoch, out);
    print_mpi(&picture, out);
    mu_cli_print_tasks(&picture, out);
    mu_cli_print_barriers(&picture, out);
    fflush(out);
    mu_cli_picture_free(&picture);
    return MUSTER_OK;
}
