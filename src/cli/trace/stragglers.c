/*
 * cli/trace/stragglers.c: `muster trace --stragglers`: which tasks were waited for, and how long, for people.
 *
 * In order of time, so that the last lines tell of now. What a barrier costs is the time from the last arrival but one,
 * when one task alone was missing, and the time from the first. Barriers of one arrival tell nothing and are left out.
 *
 * Of a job of several hosts this is one's: where its tasks all waited on, somebody elsewhere came last, and none of
 * them is blamed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/trace/timeline.h"

static int by_last(const void *a, const void *b)
{
    const struct mu_cli_barrier *x = *(const struct mu_cli_barrier *const *)a;
    const struct mu_cli_barrier *y = *(const struct mu_cli_barrier *const *)b;

    return (x->last_ns > y->last_ns) - (x->last_ns < y->last_ns);
}

static const char *duration_words(uint64_t ns, char buffer[32])
{
    if (ns < 1000)
        snprintf(buffer, 32, "%u ns", (unsigned)ns);
    else if (ns < 1000000)
        snprintf(buffer, 32, "%.1f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(buffer, 32, "%.1f ms", (double)ns / 1e6);
    else
        snprintf(buffer, 32, "%.1f s", (double)ns / 1e9);
    return buffer;
}

static const char *state_of(const struct mu_cli_barrier *m)
{
    if (m->open)
        return "open";
    return m->status == MUSTER_OK && !m->passed ? "not known" : muster_status_name(m->status);
}

/* "task 2", or an observer's: never at a barrier, but a damaged trace may say so. */
static void traced_barrier_print(const struct mu_cli_barrier *m, FILE *out)
{
    char name[80], last[16], behind[32], spread[32];
    uint64_t end = m->last_ns + m->remote_ns;

    if (*m->name)
        snprintf(name, sizeof name, "%s", m->name);
    else
        snprintf(name, sizeof name, "#%016" PRIx64, m->object);
    mu_cli_print_text(out, name, strlen(name));
    snprintf(last, sizeof last, m->remote_ns ? "other" : "%d", m->last_task);
    fprintf(out, "%*s %-9" PRIu64 " %-6u %-5s %-10s %-10s %s\n", strlen(name) < 24 ? 24 - (int)strlen(name) : 0, "",
            m->instance, m->count, last,
            duration_words(m->remote_ns ? m->remote_ns : m->last_ns - m->before_ns, behind),
            duration_words(end - m->first_ns, spread), state_of(m));
}

struct total {
    uint64_t barriers, last, behind_ns, waited_ns;
};

static bool barrier_is_shown(const struct mu_cli_barrier *m)
{
    return m->count > 1 || m->remote_ns;
}

/* Those that were waited for are not named: their hosts' traces name them. */
static void print_others(const struct mu_cli_timeline *t, const struct total *others, FILE *out)
{
    char behind[32];

    if (others->last)
        fprintf(out, "%-6s %-9s %-6" PRIu64 " %-10s -\n", "other", "-", others->last,
                duration_words(others->behind_ns, behind));
    if (t->is_part)
        fputs("this is one host's trace: 'other' is a task of another host, which the trace there names\n", out);
}

static void print_totals(const struct mu_cli_timeline *t, struct total *totals, uint32_t num_tasks, FILE *out)
{
    char behind[32], waited[32];

    for (size_t i = 0; i < t->num_spans; i++) {
        const struct mu_cli_span *span = &t->spans[i];

        if (span->barrier < 0 || span->enter->task < 0 || !barrier_is_shown(&t->barriers[span->barrier]))
            continue;
        totals[span->enter->task].barriers += !span->again;
        totals[span->enter->task].waited_ns += span->end_ns - span->enter->time_ns;
    }
    fprintf(out, "%s%-6s %-9s %-6s %-10s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "TASK", "BARRIERS", "LAST", "BEHIND",
            "INSIDE", mu_cli_colour(MU_CLI_PLAIN));
    for (uint32_t i = 0; i < num_tasks; i++)
        if (totals[i].barriers)
            fprintf(out, "%-6u %-9" PRIu64 " %-6" PRIu64 " %-10s %s\n", i, totals[i].barriers, totals[i].last,
                    duration_words(totals[i].behind_ns, behind), duration_words(totals[i].waited_ns, waited));
}

enum muster_status mu_cli_print_stragglers(const struct mu_cli_timeline *timeline, uint32_t num_tasks, FILE *out)
{
    const struct mu_cli_barrier **order = calloc(timeline->num_barriers + 1, sizeof(void *));
    struct total *totals = calloc(num_tasks, sizeof *totals), others = {.last = 0};
    size_t count = 0;

    if (!order || !totals) {
        free(order);
        free(totals);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to sort %zu meetings", timeline->num_barriers);
    }
    for (size_t i = 0; i < timeline->num_barriers; i++)
        if (barrier_is_shown(&timeline->barriers[i]))
            order[count++] = &timeline->barriers[i];
    qsort(order, count, sizeof(void *), by_last);
    fprintf(out, "%s%-24s %-9s %-6s %-5s %-10s %-10s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "BARRIER", "INSTANCE",
            "TASKS", "LAST", "BEHIND", "SPREAD", "STATE", mu_cli_colour(MU_CLI_PLAIN));
    for (size_t i = 0; i < count; i++) {
        const struct mu_cli_barrier *m = order[i];

        traced_barrier_print(m, out);
        if (m->remote_ns) {
            others.last++;
            others.behind_ns += m->remote_ns;
        } else if (m->last_task >= 0) {
            totals[m->last_task].last++;
            totals[m->last_task].behind_ns += m->last_ns - m->before_ns;
        }
    }
    fputc('\n', out);
    print_totals(timeline, totals, num_tasks, out);
    print_others(timeline, &others, out);
    if (timeline->lost)
        fprintf(out, "%" PRIu64 " earlier events have been overwritten\n", timeline->lost);
    free(order);
    free(totals);
    return MUSTER_OK;
}
