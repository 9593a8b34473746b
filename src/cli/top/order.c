/*
 * cli/top/order.c: which tasks `muster top` shows, and in which order.
 *
 * The selection is a task, not a line: it stays with its task when lines move, and goes to the nearest one when its
 * task is filtered away. Equals stay in the order of their numbers, so that nothing moves that has no reason to.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"

static const char *const sorts[] = {"id", "state", "cpu", "wait", "beat"};
static const char *const states[] = {"all", "trouble", "waiting", "working"};

const char *mu_top_sort_name(enum mu_top_sort sort)
{
    return sorts[sort];
}

const char *mu_top_state_name(enum mu_top_state state)
{
    return states[state];
}

static int text_contains(const char *text, const char *part)
{
    size_t len = strlen(part);

    for (; *text; text++)
        if (strncasecmp(text, part, len) == 0)
            return 1;
    return len == 0;
}

static bool task_is_shown(const struct mu_top *top, const struct mu_cli_task *task)
{
    enum mu_cli_kind kind = mu_cli_kind_of(&top->picture, task);
    char row[512];
    size_t len;

    switch (top->state) {
    case MU_TOP_TROUBLE:
        if (kind > MU_CLI_ABSENT)
            return 0;
        break;
    case MU_TOP_WAITING:
        if (!task->info.waiting[0])
            return 0;
        break;
    case MU_TOP_WORKING:
        if (kind < MU_CLI_BLOCKED || kind > MU_CLI_RUNS)
            return 0;
        break;
    default: break;
    }
    if (!top->text[0])
        return 1;
    mu_top_row(&top->picture, task, row, sizeof row);
    len = strlen(row);
    snprintf(row + len, sizeof row - len, " %s %s", task->info.waiting, task->info.message);
    return text_contains(row, top->text);
}

/* The larger, the further up. */
static double task_weight(const struct mu_top *top, uint32_t number)
{
    const struct mu_cli_task *task = &top->picture.tasks[number];

    switch (top->sort) {
    case MU_TOP_BY_STATE: return -(double)mu_cli_kind_of(&top->picture, task);
    case MU_TOP_BY_CPU: return task->cpu_percent;
    case MU_TOP_BY_WAIT:
        return task->info.waiting[0] ? (double)(top->picture.now_ns - task->info.waiting_since_ns) : -1;
    case MU_TOP_BY_BEAT: return task->beat_until ? (double)(top->picture.now_ns - task->beat_until) : -1;
    default: return -(double)number;
    }
}

static const struct mu_top *sorted; /* qsort() hands nothing on; there is one thread */

static int tasks_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double d = task_weight(sorted, y) - task_weight(sorted, x);
    int by_number = x < y ? -1 : x > y;

    if (sorted->is_reversed)
        d = -d;
    return d < 0 ? -1 : d > 0 ? 1 : by_number;
}

void mu_top_arrange(struct mu_top *top)
{
    uint32_t *order = realloc(top->order, (top->picture.count + 1) * sizeof *order);

    if (!order)
        abort();
    top->order = order;
    top->num_order = 0;
    for (size_t i = 0; i < top->picture.count; i++)
        if (task_is_shown(top, &top->picture.tasks[i]))
            order[top->num_order++] = (uint32_t)i;
    sorted = top;
    qsort(order, top->num_order, sizeof *order, tasks_compare);
}

size_t mu_top_place(struct mu_top *top)
{
    size_t nearest = 0;

    for (size_t i = 0; i < top->num_order; i++) {
        uint32_t at = top->order[i], best = top->order[nearest];

        if (at == top->task)
            return i;
        if (labs((long)at - (long)top->task) < labs((long)best - (long)top->task))
            nearest = i;
    }
    if (top->num_order)
        top->task = top->order[nearest];
    return nearest;
}
