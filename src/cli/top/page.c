/*
 * cli/top/page.c: the pages of `muster top`.
 *
 * Each is drawn whole, from the picture alone, for whatever size the screen has: what does not fit is left out, and on
 * the smallest screen the first line of the diagnosis is what stays. curses finds out what has changed.
 */
#define NCURSES_WIDECHAR 1
#include <inttypes.h>
#include <limits.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdlib.h>
#include <wchar.h>

#include "cli/top/top.h"

enum { PLAIN, RED = 1, GREEN, YELLOW, CYAN };

static int in_colour;

void mu_top_colours(void)
{
    const char *no_color = getenv("NO_COLOR");

    if ((no_color && *no_color) || !has_colors() || start_color() == ERR)
        return;
    use_default_colors();
    init_pair(RED, COLOR_RED, -1);
    init_pair(GREEN, COLOR_GREEN, -1);
    init_pair(YELLOW, COLOR_YELLOW, -1);
    init_pair(CYAN, COLOR_CYAN, -1);
    in_colour = 1;
}

static attr_t colour_tint(int colour)
{
    if (in_colour)
        return COLOR_PAIR(colour);
    return colour == RED ? A_BOLD : A_NORMAL;
}

/* Cut at the screen's edge, by columns; what is no text shows as '?'. Returns the column behind it. */
static int page_put(int row, int column, attr_t attributes, const char *format, ...)
{
    char text[1024];
    const char *at = text;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (row < 0 || row >= LINES)
        return column;
    attrset(attributes);
    move(row, column < COLS ? column : COLS - 1);
    while (*at && column < COLS) {
        wchar_t one[2] = {L'?', 0};
        mbstate_t state = {0};
        size_t n = mbrtowc(one, at, MB_LEN_MAX, &state);
        int width;

        if (n == 0 || n > MB_LEN_MAX) {
            one[0] = L'?';
            n = 1;
        }
        width = wcwidth(one[0]);
        if (width < 1) {
            one[0] = L'?';
            width = 1;
        }
        if (column + width > COLS)
            break;
        addwstr(one);
        column += width;
        at += n;
    }
    attrset(A_NORMAL);
    return column;
}

static void fill_line(int row, attr_t attributes)
{
    for (int column = 0; column < COLS; column++)
        mvaddch(row, column, ' ' | attributes);
}

/* ---- what every page has ----------------------------------------------------------------------------------------- */

static void draw_title(const struct mu_top *top)
{
    const struct mu_cli_picture *picture = &top->picture;
    char calls[256], epoch[96];
    int column;

    fill_line(0, A_REVERSE);
    column = page_put(0, 0, A_REVERSE | A_BOLD, "muster top  %s", picture->segment.job);
    column = page_put(0, column, A_REVERSE, "  %zu tasks: %u connected, %u in error; %" PRIu64 " keys", picture->count,
                      picture->states[MUSTER_TASK_CONNECTED], picture->states[MUSTER_TASK_ERROR], picture->keys);
    if (picture->epoch.is_there)
        column = page_put(0, column, A_REVERSE, "; %s", mu_cli_epoch_brief(&picture->epoch, epoch));
    if (mu_cli_calls_any(&picture->calls))
        column = page_put(0, column, A_REVERSE, "; calls: %s", mu_cli_calls_words(&picture->calls, calls));
    for (unsigned what = 0; what < MU_CLI_SERVED; what++)
        if (picture->served[what].address[0])
            column =
                page_put(0, column, A_REVERSE, "; %s %s: %u connections", what == MU_CLI_GRPC ? "grpc" : "tcpstore",
                         picture->served[what].address, picture->served[what].connections);
    if (top->is_over)
        page_put(0, column, A_REVERSE | A_BOLD, "  THE JOB HAS ENDED");
    else if (top->is_paused)
        page_put(0, column, A_REVERSE | A_BOLD, "  PAUSED");
}

/* The diagnosis from line `row` on; the line behind it. Takes a third of the screen at most. */
static int draw_findings(const struct mu_top *top, int row)
{
    const struct mu_cli_picture *picture = &top->picture;
    size_t room = LINES > 11 ? (size_t)LINES / 4 : 1;

    for (size_t i = 0; i < picture->num_findings && i < room; i++) {
        const struct mu_cli_finding *finding = &picture->findings[i];
        int colour = finding->kind == MU_CLI_FINE ? GREEN : finding->kind <= MU_CLI_IN_ERROR ? RED : YELLOW;

        page_put(row++, 0, colour_tint(colour), "%s", finding->text);
    }
    return row;
}

static void draw_foot(const struct mu_top *top)
{
    if (LINES < 3)
        return;
    fill_line(LINES - 1, A_REVERSE);
    if (top->is_typing) {
        int column = page_put(LINES - 1, 0, A_REVERSE, "filter: %s", top->text);

        page_put(LINES - 1, column, A_REVERSE | A_BLINK, "_");
        page_put(LINES - 1, column + 2, A_REVERSE, "(Enter: keep, Esc: none)");
        return;
    }
    switch (top->page) {
    case MU_TOP_TASKS:
        page_put(LINES - 1, 0, A_REVERSE,
                 "q quit  ? help  Enter task  b barriers  s sort: %s%s  f state: %s  / filter: %s",
                 mu_top_sort_name(top->sort), top->is_reversed ? " reversed" : "", mu_top_state_name(top->state),
                 top->text[0] ? top->text : "-");
        break;
    case MU_TOP_TASK:
        page_put(LINES - 1, 0, A_REVERSE, "q quit  ? help  Esc tasks  Up, Down other task  b barriers");
        break;
    default: page_put(LINES - 1, 0, A_REVERSE, "q quit  ? help  Esc tasks"); break;
    }
}

/* ---- the tasks --------------------------------------------------------------------------------------------------- */

enum { TASK, STATE, PROCESS, PID, TRY, CPU, SECONDS, BEATS, LAST, COLUMNS };
enum { WAITING_WIDTH = 24 };

/* Left of what a task waits for. A narrow screen has room for that instead of the columns of the highest ranks. */
static const struct {
    const char *head;
    int width; /* negative: written from the left */
    int rank;  /* 0: always there */
} columns[COLUMNS] = {
    [TASK] = {"TASK", 5, 0},       [STATE] = {"STATE", -12, 1},     [PROCESS] = {"PROCESS", -8, 0},
    [PID] = {"PID", 8, 2},         [TRY] = {"TRY", 3, 5},           [CPU] = {"CPU%", 6, 3},
    [SECONDS] = {"CPU-SEC", 8, 6}, [BEATS] = {"HEARTBEATS", 10, 7}, [LAST] = {"LAST", 9, 4},
};

/* The highest rank of columns that there is room for. */
static int rank_of(int width)
{
    for (int rank = COLUMNS; rank > 0; rank--) {
        int need = 1 + WAITING_WIDTH; /* behind two blanks; the first column has none before it */

        for (int i = 0; i < COLUMNS; i++)
            need += columns[i].rank <= rank ? 1 + abs(columns[i].width) : 0;
        if (need <= width)
            return rank;
    }
    return 0;
}

static void join_cells(const char *const cells[COLUMNS], int rank, char *text, size_t size)
{
    size_t len = 0;

    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].rank <= rank && len < size)
            len += (size_t)snprintf(text + len, size - len, "%s%*s", i ? " " : "", columns[i].width, cells[i]);
}

static void row_of_rank(const struct mu_cli_picture *picture, const struct mu_cli_task *task, int rank, char *text,
                        size_t size)
{
    const struct muster_task_info *info = &task->info;
    char number[16], beat[32], pid[16] = "-", attempt[16], cpu[16] = "-", seconds[32] = "-", beats[32];

    snprintf(number, sizeof number, "%d", (int)info->task_id);
    snprintf(attempt, sizeof attempt, "%u", info->attempt);
    snprintf(beats, sizeof beats, "%" PRIu64, info->heartbeats);
    if (info->pid)
        snprintf(pid, sizeof pid, "%u", info->pid);
    if (task->cpu_percent >= 0)
        snprintf(cpu, sizeof cpu, "%.0f", task->cpu_percent);
    if (task->start)
        snprintf(seconds, sizeof seconds, "%.2f", (double)task->cpu_ns / 1e9);
    join_cells((const char *const[COLUMNS]){[TASK] = number,
                                            [STATE] = mu_cli_state_name(info->state),
                                            [PROCESS] = mu_cli_process_word(task),
                                            [PID] = pid,
                                            [TRY] = attempt,
                                            [CPU] = cpu,
                                            [SECONDS] = seconds,
                                            [BEATS] = beats,
                                            [LAST] = mu_cli_beat_age(picture, task, beat)},
               rank, text, size);
}

void mu_top_row(const struct mu_cli_picture *picture, const struct mu_cli_task *task, char *text, size_t size)
{
    row_of_rank(picture, task, COLUMNS, text, size);
}

static void draw_columns(int row)
{
    const char *heads[COLUMNS];
    char text[256];

    for (int i = 0; i < COLUMNS; i++)
        heads[i] = columns[i].head;
    join_cells(heads, rank_of(COLS), text, sizeof text);
    page_put(row, 0, A_BOLD, "%s  WAITING", text);
}

static int colour_of(enum mu_cli_kind kind)
{
    if (kind <= MU_CLI_IN_ERROR)
        return RED;
    return kind <= MU_CLI_BLOCKED ? YELLOW : PLAIN;
}

static void draw_task_line(const struct mu_top *top, int row, uint32_t number)
{
    const struct mu_cli_task *task = &top->picture.tasks[number];
    attr_t attributes = colour_tint(colour_of(mu_cli_kind_of(&top->picture, task)));
    char text[256], age[32];
    int column;

    if (number == top->task) {
        attributes |= A_REVERSE;
        fill_line(row, A_REVERSE);
    }
    row_of_rank(&top->picture, task, rank_of(COLS), text, sizeof text);
    column = page_put(row, 0, attributes, "%s", text);
    if (task->info.waiting[0])
        page_put(row, column, attributes, "  %s, for %s", task->info.waiting,
                 mu_cli_age(task->info.waiting_since_ns, age));
    else if (task->info.state == MUSTER_TASK_ERROR)
        page_put(row, column, attributes, "  %s: %s", mu_cli_cause_name(task->info.cause), task->info.message);
}

static void draw_tasks(struct mu_top *top)
{
    int first = draw_findings(top, 1);
    size_t place = mu_top_place(top);

    if (LINES - 1 - first > 3) { /* for a blank line, the head, and two tasks */
        draw_columns(first + 1);
        first += 2;
    }
    top->lines = LINES - 1 > first ? (size_t)(LINES - 1 - first) : 0;
    if (place < top->scroll)
        top->scroll = place;
    if (top->lines && place >= top->scroll + top->lines)
        top->scroll = place - top->lines + 1;
    if (top->scroll + top->lines > top->num_order)
        top->scroll = top->num_order > top->lines ? top->num_order - top->lines : 0;
    for (size_t i = 0; i < top->lines && top->scroll + i < top->num_order; i++)
        draw_task_line(top, first + (int)i, top->order[top->scroll + i]);
    if (top->num_order == 0 && top->lines)
        page_put(first, 0, A_NORMAL, "no task passes the filter: / and f change it");
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

static const char *duration_text(uint64_t ns, char buffer[32])
{
    if (ns < 1000000)
        snprintf(buffer, 32, "%.3g us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(buffer, 32, "%.3g ms", (double)ns / 1e6);
    else
        snprintf(buffer, 32, "%.3g s", (double)ns / 1e9);
    return buffer;
}

/* As many lines as there are, neighbouring buckets put together where they are too few. */
static int draw_histogram(const struct muster_stats *stats, int row, int room)
{
    uint64_t most = 0, sums[MUSTER_STATS_BUCKETS] = {0};
    int first = MUSTER_STATS_BUCKETS, last = -1, per_line = 1, lines;
    char text[32];

    page_put(row++, 0, A_BOLD, "%" PRIu64 " wait%s at barriers and in groups that slept, by length",
             stats->barrier_waits, stats->barrier_waits == 1 ? "" : "s");
    for (int i = 0; i < MUSTER_STATS_BUCKETS; i++) {
        if (!stats->barrier_wait_buckets[i])
            continue;
        first = i < first ? i : first;
        last = i;
    }
    if (last < 0 || room < 2)
        return row;
    while ((last - first) / per_line + 1 > room - 1)
        per_line++;
    lines = (last - first) / per_line + 1;
    for (int i = first; i <= last; i++)
        sums[(i - first) / per_line] += stats->barrier_wait_buckets[i];
    for (int i = 0; i < lines; i++)
        most = sums[i] > most ? sums[i] : most;
    for (int i = 0; i < lines; i++) {
        int end = first + (i + 1) * per_line - 1, width = COLS - 32 > 8 ? COLS - 32 : 8;
        int is_open = end >= MUSTER_STATS_BUCKETS - 1;
        int bar = (int)((double)sums[i] * width / (double)most + 0.5);
        int column =
            page_put(row, 0, A_NORMAL, "%s %8s %12" PRIu64 " ", is_open ? ">=" : " <",
                     duration_text(MUSTER_STATS_BOUND_NS(is_open ? MUSTER_STATS_BUCKETS - 2 : end), text), sums[i]);

        for (bar = sums[i] && !bar ? 1 : bar; bar > 0; bar--)
            column = page_put(row, column, colour_tint(CYAN), "#");
        row++;
    }
    return row;
}

/* ---- one task ---------------------------------------------------------------------------------------------------- */

static int draw_process(const struct mu_cli_picture *picture, const struct mu_cli_task *task, int row)
{
    const struct muster_task_info *info = &task->info;
    char age[32], beat[32];

    page_put(row++, 0, A_NORMAL, "process      %s, pid %u%s%s", mu_cli_process_word(task), info->pid,
             info->host[0] ? " on " : "", info->host);
    if (task->start)
        page_put(row++, 0, A_NORMAL, "processor    %.2f s so far, %.0f %% now; its first thread last ran %s ago",
                 (double)task->cpu_ns / 1e9, task->cpu_percent < 0 ? 0 : task->cpu_percent,
                 task->last_ran ? mu_cli_age(task->last_ran, age) : "-");
    page_put(row++, 0, A_NORMAL, "registered   %u time%s, incarnation %" PRIu64 "%s%s", info->attempt,
             info->attempt == 1 ? "" : "s", info->incarnation, info->recoverable ? ", recoverable" : "",
             info->guest ? ", a guest: it speaks through the agent" : "");
    page_put(row++, 0, A_NORMAL, "heartbeats   %" PRIu64 ", the last one %s ago; silent for %.3g s it is in error",
             info->heartbeats, mu_cli_beat_age(picture, task, beat), (double)picture->heartbeat_timeout_ns / 1e9);
    if (info->waiting[0])
        page_put(row++, 0, A_BOLD, "waits        in %s, for %s", info->waiting,
                 mu_cli_age(info->waiting_since_ns, age));
    else
        page_put(row++, 0, A_NORMAL, "waits        %s",
                 mu_cli_other_host(picture, info->task_id) && !task->letter ? "it is not known here"
                                                                            : "for nothing in muster");
    return row;
}

static void draw_task(struct mu_top *top)
{
    const struct mu_cli_picture *picture = &top->picture;
    const struct mu_cli_task *task = &picture->tasks[top->task];
    const struct muster_task_info *info = &task->info;
    const struct muster_stats *stats = &top->task_stats;
    char age[32], why[192];
    int row = 2;

    page_put(row++, 0, A_BOLD | colour_tint(colour_of(mu_cli_kind_of(picture, task))), "task %d: %s, for %s",
             (int)info->task_id, mu_cli_state_name(info->state), mu_cli_age(info->since_ns, age));
    if (info->state == MUSTER_TASK_ERROR)
        page_put(row++, 0, colour_tint(RED), "error        %s, %s: %s", muster_status_name(info->error),
                 mu_cli_cause_name(info->cause), info->message);
    if (mu_cli_is_ended(info) && !task->unjoined)
        page_put(row++, 0, A_NORMAL, "process      %s", mu_cli_end(info, why));
    if (info->attempt || task->unjoined)
        row = draw_process(picture, task, row);
    for (size_t i = 0; i < picture->num_barriers; i++) {
        const struct mu_barrier_view *barrier = &picture->barriers[i];
        int is_open = mu_cli_barrier_is_open(barrier);

        for (uint32_t k = 0; k < barrier->missing_count && is_open && barrier->arrived; k++)
            if (barrier->missing[k] == info->task_id)
                page_put(row++, 0, colour_tint(YELLOW), "holds up     %u in %s %s, for %s: %s", barrier->arrived,
                         barrier->is_group ? "group" : "barrier", barrier->id, mu_cli_age(barrier->since_ns, age),
                         mu_cli_why_missing(picture, info->task_id, why));
    }
    page_put(row++, 0, A_NORMAL,
             "barriers     %" PRIu64 " named, %" PRIu64 " of groups; keys: %" PRIu64 " written, %" PRIu64 " waited for",
             stats->named_barriers, stats->group_barriers, stats->kv_writes, stats->kv_waits);
    draw_histogram(stats, row + 1, LINES - 2 - row);
}

/* ---- barriers and help ------------------------------------------------------------------------------------------- */

static void draw_barriers(struct mu_top *top)
{
    const struct mu_cli_picture *picture = &top->picture;
    int row = draw_findings(top, 1) + 1, end = LINES - 1 - (LINES > 16 ? LINES / 2 - 2 : 0);
    char age[32], arrived[32], why[192];

    page_put(row++, 0, A_BOLD, "%-24s %-9s %-18s %-9s %s", "BARRIER, GROUP", "INSTANCE", "STATE", "ARRIVED", "SINCE");
    top->lines = end > row ? (size_t)(end - row) : 0;
    if (top->scroll >= picture->num_barriers)
        top->scroll = picture->num_barriers ? picture->num_barriers - 1 : 0;
    for (size_t i = top->scroll; i < picture->num_barriers && row < end; i++) {
        const struct mu_barrier_view *barrier = &picture->barriers[i];
        int is_open = mu_cli_barrier_is_open(barrier);

        snprintf(arrived, sizeof arrived, "%u/%u", barrier->arrived, barrier->participants);
        page_put(row++, 0, is_open ? colour_tint(YELLOW) : A_NORMAL, "%-24.24s %-9" PRIu64 " %-18s %-9s %s",
                 barrier->id, barrier->instance, mu_cli_barrier_word(barrier), arrived,
                 mu_cli_age(barrier->since_ns, age));
        for (uint32_t k = 0; is_open && k < barrier->missing_count && k < 4 && row < end; k++)
            page_put(row++, 0, A_NORMAL, "  missing: task %d, %s%s", (int)barrier->missing[k],
                     mu_cli_why_missing(picture, barrier->missing[k], why),
                     k == 3 && barrier->missing_count > 4 ? ", and others" : "");
    }
    if (picture->num_barriers == 0)
        page_put(row++, 0, A_NORMAL, "no barriers");
    if (LINES > 16)
        draw_histogram(&top->stats, end + 1, LINES - 2 - end);
}

static void draw_hosts(struct mu_top *top)
{
    const struct mu_cli_picture *picture = &top->picture;
    int row = draw_findings(top, 1) + 1;
    char text[320], summary[160];

    if (!picture->num_hosts) {
        page_put(row, 0, A_NORMAL, "this job has one host");
        return;
    }
    page_put(row++, 0, A_NORMAL, "hosts %s; this is host %u", mu_cli_host_summary(picture, summary), picture->own_host);
    page_put(row++, 0, A_BOLD, "%s", mu_cli_host_head());
    top->lines = LINES - 1 > row ? (size_t)(LINES - 1 - row) : 0;
    if (top->scroll + top->lines > picture->num_hosts)
        top->scroll = picture->num_hosts > top->lines ? picture->num_hosts - top->lines : 0;
    for (size_t i = 0; i < top->lines && top->scroll + i < picture->num_hosts; i++) {
        const struct mu_cli_host *host = &picture->hosts[top->scroll + i];
        enum mu_cli_kind kind = mu_cli_host_kind(host);

        mu_cli_host_row(picture, host, text, sizeof text);
        page_put(row++, 0, colour_tint(kind == MU_CLI_FINE ? PLAIN : kind == MU_CLI_DEAD ? RED : YELLOW), "%s", text);
    }
}

static void draw_help(void)
{
    static const char *const lines[] = {
        "Up Down PgUp PgDn Home End (j k)   choose a task; scroll",
        "Enter                              all about the chosen task",
        "Esc, t                             the tasks",
        "b                                  barriers and groups, and how long waits there were",
        "h                                  hosts, and what passes between them",
        "s                                  sort by the next of: id, state, cpu, wait, beat",
        "i p c w a                          sort by id, state, cpu, wait, age of the heartbeat",
        "r                                  the other way round",
        "f                                  show all tasks; those in trouble; waiting; working",
        "/                                  show only tasks whose line has this text",
        "^W ^U                              take back a word of that text; all of it",
        "Space                              pause, go on",
        "q, ^C                              quit",
        "",
        "The first lines say who holds the job up; see muster-status(1) for what the columns mean.",
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && (int)i < LINES - 3; i++)
        page_put((int)i + 2, 0, A_NORMAL, "%s", lines[i]);
}

void mu_top_draw(struct mu_top *top)
{
    erase();
    if (LINES < 4 || COLS < 16) { /* what matters most */
        draw_findings(top, 0);
        refresh();
        return;
    }
    draw_title(top);
    switch (top->page) {
    case MU_TOP_TASKS: draw_tasks(top); break;
    case MU_TOP_TASK: draw_task(top); break;
    case MU_TOP_BARRIERS: draw_barriers(top); break;
    case MU_TOP_HOSTS: draw_hosts(top); break;
    case MU_TOP_HELP: draw_help(); break;
    }
    draw_foot(top);
    move(LINES - 1, 0);
    refresh();
}
