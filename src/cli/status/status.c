/*
 * cli/status/status.c: `muster status`: which task is missing, where, since when, and is it dead, stopped or elsewhere?
 *
 * Read-only: it takes no slot and waits for nobody, so it answers when every process of the job is stopped or dead. The
 * picture and the sentences about it are made by picture.c and diagnose.c.
 *
 * With --watch a picture follows the other: on a terminal each in the place of the last, drawn in memory first and cut
 * to the screen; else one below the other. It ends by a signal, or with the job: the last picture is of a closed one.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/status/picture.h"
#include "cli/status/watch.h"

#define SECOND_LOOK_NS 100000000u

struct view {
    int is_json, is_screen;
    size_t shown;
};

/*
 * In the place of the last one. What is too long does not wrap (?7l): the rest of it goes into the last column,
 * character upon character, and \033[K clears that. Lines that are too many are cut by us; no newline leaves the last
 * row, for it would scroll.
 */
static void picture_draw(const struct mu_cli_picture *picture)
{
    struct winsize size = {.ws_row = 0};
    char *text = NULL, *line, *end;
    size_t len = 0, rows;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        abort();
    mu_cli_report_colours(out);
    mu_cli_print_picture(picture, out);
    mu_cli_report_colours(NULL);
    if (fclose(out) != 0)
        abort();
    ioctl(1, TIOCGWINSZ, &size);
    rows = size.ws_row > 0 ? size.ws_row : 24;
    fputs("\033[?7l\033[H", stdout);
    for (line = text; *line && rows > 1; line = end + (*end != 0), rows--) {
        end = line + strcspn(line, "\n");
        printf("%.*s\033[K\n", (int)(end - line), line);
    }
    if (line == text) /* a single row: the diagnosis */
        printf("%.*s", (int)strcspn(line, "\n"), line);
    else if (*line)
        fputs("...", stdout);
    fputs("\033[K\033[J\033[?7h\r", stdout);
    free(text);
}

static void picture_show(struct view *view, const struct mu_cli_picture *picture)
{
    if (view->is_json) {
        mu_cli_json_picture(picture, stdout);
    } else if (view->is_screen) {
        if (view->shown == 0)
            fputs("\033[2J", stdout);
        picture_draw(picture);
    } else {
        if (view->shown > 0)
            putchar('\n');
        mu_cli_print_picture(picture, stdout);
    }
    view->shown++;
    fflush(stdout);
}

/* The next picture, shown and kept in *last. What changes too fast to be read ends nothing: what was shown stays. */
static enum muster_status status_look(struct muster *muster, struct view *view, struct mu_cli_picture *last)
{
    struct mu_cli_picture now;
    enum muster_status status = mu_cli_picture_take(muster, view->shown ? last : NULL, &now);

    if (status != MUSTER_OK)
        return status == MUSTER_ABORTED ? MUSTER_OK : status;
    if (view->shown)
        mu_cli_picture_free(last);
    *last = now;
    picture_show(view, last);
    return MUSTER_OK;
}

static int status_watch(struct mu_cli_call *call, struct muster *muster, struct view *view, uint64_t interval)
{
    struct mu_cli_picture last;
    enum muster_status status = MUSTER_OK;
    uint64_t now, next = muster_now_ns();
    sigset_t mask;
    int is_over = 0;

    mu_cli_watch_begin(&mask);
    while (!is_over && !mu_cli_interrupted() && !ferror(stdout)) {
        is_over = mu_cli_watch_is_over(muster);
        if (is_over && !mu_cli_watch_is_whole(muster))
            break;
        status = status_look(muster, view, &last);
        if (status != MUSTER_OK)
            break;
        next += interval;
        now = muster_now_ns();
        if (next < now)
            next = now + interval; /* we were stopped, or the terminal was */
        while (!is_over && !mu_cli_interrupted() && muster_now_ns() < next) {
            mu_cli_watch_pause(&mask, next < muster_now_ns() + 100000000u ? next : muster_now_ns() + 100000000u, -1);
            if (mu_cli_watch_is_over(muster))
                break;
        }
    }
    if (view->shown)
        mu_cli_picture_free(&last);
    if (view->is_screen && view->shown)
        putchar('\n');
    if (status != MUSTER_OK)
        return mu_cli_fail(call, status);
    if (mu_cli_interrupted())
        return 128 + mu_cli_interrupted();
    if (!view->is_json)
        printf("%sjob %s has ended\n", view->is_screen ? "" : "\n", muster_job(muster));
    return 0;
}

/*
 * One picture; where the culprit is one that seems to work, or of which the first thread sleeps, a second one soon
 * after, for what it does now: the part of a processor that it has used in all its life tells nothing of that.
 */
static enum muster_status take_one(struct muster *muster, struct mu_cli_picture *ret_picture)
{
    struct mu_cli_picture first;
    enum muster_status status = mu_cli_picture_take(muster, NULL, &first);
    sigset_t mask;

    if (status != MUSTER_OK)
        return status;
    *ret_picture = first;
    if (first.findings[0].kind != MU_CLI_RUNS && first.findings[0].kind != MU_CLI_SLEEPS)
        return MUSTER_OK;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    mu_cli_watch_pause(&mask, first.now_ns + SECOND_LOOK_NS, -1);
    if (mu_cli_watch_is_whole(muster) && mu_cli_picture_take(muster, &first, ret_picture) == MUSTER_OK)
        mu_cli_picture_free(&first);
    return MUSTER_OK;
}

static int status_run(struct mu_cli_call *call)
{
    struct view view = {.is_json = call->values[MU_OPT_JSON] != NULL};
    uint64_t interval = 1000000000u;
    struct muster *muster;
    struct mu_cli_picture picture;
    enum muster_status status;
    int code = mu_cli_watch_interval(call, MU_OPT_WATCH, &interval);

    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);
    if (code)
        return code;
    if (call->values[MU_OPT_WATCH]) {
        const char *term = getenv("TERM");

        view.is_screen = !view.is_json && isatty(1) && term && strcmp(term, "dumb") != 0;
        return mu_cli_leave(call, muster, status_watch(call, muster, &view, interval));
    }
    status = take_one(muster, &picture);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    picture_show(&view, &picture);
    mu_cli_picture_free(&picture);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option status_options[] = {
    {MU_OPT_WATCH, 'w', "watch", "[=D]", NULL, "show it again every D (default 1s), until the job ends"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_status = {
    .name = "status",
    .operands = "",
    .summary = "Show a job's tasks and barriers: who is missing, where, since when",
    .options = status_options,
    .run = status_run,
};
