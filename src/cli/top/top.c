/*
 * cli/top/top.c: `muster top`: the picture of `muster status`, live, on the whole screen.
 *
 * One loop: a picture when it is due, the page drawn from it, then sleep until the next one, a key or a signal. Signals
 * come only while it sleeps, so whatever ends it, the terminal is given back by the one path out. ^Z is not left to
 * curses, which has SIGTSTP ignored while it draws: one that had come before would be gone. A job that ends stays on
 * the screen as it was last seen.
 */
#define NCURSES_WIDECHAR 1
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/top/top.h"
#include "cli/status/watch.h"

enum { CONTROL_U = 21, CONTROL_W = 23, ESCAPE = 27 };

static volatile sig_atomic_t quit_signal; /* SIGQUIT, which ends other verbs at once: here the terminal comes first */

static void on_quit(int number)
{
    quit_signal = number;
}

static volatile sig_atomic_t stop_signal;

static void on_stop(int number)
{
    stop_signal = number;
}

/* Curses takes SIGTSTP only where nobody has a handler. Without job control it is ignored, and stays so. */
static void take_stops(void)
{
    struct sigaction before;

    if (sigaction(SIGTSTP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGTSTP, &(struct sigaction){.sa_handler = on_stop}, NULL);
}

/* The shell has the terminal until it is told to go on. SIGTSTP is blocked here; the next drawing takes the screen. */
static void top_suspend(void)
{
    sigset_t held, open, quiet;

    stop_signal = 0;
    sigemptyset(&quiet);
    sigaddset(&quiet, SIGTTOU); /* the shell may have the terminal already: it is given back all the same */
    sigprocmask(SIG_BLOCK, &quiet, &held);
    endwin();
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(SIGTSTP);
    open = held;
    sigdelset(&open, SIGTSTP);
    sigprocmask(SIG_SETMASK, &open, NULL); /* here it stops */
    sigprocmask(SIG_SETMASK, &held, NULL);
    take_stops();
    if (tcgetpgrp(0) == getpgrp())
        def_shell_mode();
    raise(SIGWINCH); /* the size may be another; only the terminal's owner is told */
}

static enum muster_status top_look(struct mu_top *top)
{
    struct mu_cli_picture now;
    enum muster_status status;

    top->is_over = mu_cli_watch_is_over(top->muster);
    if (top->is_over && (top->has_picture || !mu_cli_watch_is_whole(top->muster)))
        return MUSTER_OK;
    mu_cli_age_at(0);
    status = mu_cli_picture_take(top->muster, top->has_picture ? &top->picture : NULL, &now);
    if (status == MUSTER_ABORTED)
        return MUSTER_OK; /* something changes too fast to be read: the last picture, if any, stays */
    if (status != MUSTER_OK)
        return status;
    if (top->has_picture)
        mu_cli_picture_free(&top->picture);
    top->picture = now;
    top->has_picture = 1;
    return muster_stats_get(top->muster, -1, &top->stats);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void filter_type(struct mu_top *top, int key)
{
    size_t len = strlen(top->text);

    if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        top->is_typing = 0;
    } else if (key == ESCAPE) {
        top->is_typing = 0;
        top->text[0] = 0;
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
        top->text[len ? len - 1 : 0] = 0;
    } else if (key == CONTROL_U) {
        top->text[0] = 0;
    } else if (key == CONTROL_W) { /* the last word, with the blanks behind it */
        while (len > 0 && top->text[len - 1] == ' ')
            len--;
        while (len > 0 && top->text[len - 1] != ' ')
            len--;
        top->text[len] = 0;
    } else if (key >= ' ' && key < 127 && len + 1 < sizeof top->text) {
        top->text[len] = (char)key;
        top->text[len + 1] = 0;
    }
}

static void move_by(struct mu_top *top, long by)
{
    long place;

    if (top->page == MU_TOP_BARRIERS || top->page == MU_TOP_HOSTS) {
        place = (long)top->scroll + by;
        top->scroll = place < 0 ? 0 : (size_t)place; /* drawing knows the end */
        return;
    }
    if (top->num_order == 0)
        return;
    place = (long)mu_top_place(top) + by;
    if (place < 0)
        place = 0;
    if ((size_t)place >= top->num_order)
        place = (long)top->num_order - 1;
    top->task = top->order[place];
}

static void turn_to(struct mu_top *top, enum mu_top_page page)
{
    if (page == MU_TOP_TASK && top->num_order == 0)
        return; /* none to choose */
    top->page = page;
    top->scroll = 0;
}

static void sort_by(struct mu_top *top, enum mu_top_sort sort)
{
    top->sort = sort;
    top->scroll = 0;
}

static void key_press(struct mu_top *top, int key)
{
    long screenful = top->lines > 1 ? (long)top->lines - 1 : 1;

    if (key == KEY_RESIZE) {
        clearok(curscr, TRUE); /* what a terminal does with its text when its size changes, nobody knows */
        return;
    }
    if (top->is_typing) {
        filter_type(top, key);
        return;
    }
    switch (key) {
    case 'q': top->quit = 1; break;
    case '?': turn_to(top, MU_TOP_HELP); break;
    case 'h': turn_to(top, MU_TOP_HOSTS); break;
    case 'b': turn_to(top, MU_TOP_BARRIERS); break;
    case 't':
    case ESCAPE: turn_to(top, MU_TOP_TASKS); break;
    case '\n':
    case '\r':
    case KEY_ENTER: turn_to(top, MU_TOP_TASK); break;
    case KEY_UP:
    case 'k': move_by(top, -1); break;
    case KEY_DOWN:
    case 'j': move_by(top, 1); break;
    case KEY_PPAGE: move_by(top, -screenful); break;
    case KEY_NPAGE: move_by(top, screenful); break;
    case KEY_HOME: move_by(top, -100000); break;
    case KEY_END: move_by(top, 100000); break;
    case 's': sort_by(top, (enum mu_top_sort)((top->sort + 1) % MU_TOP_SORTS)); break;
    case 'i': sort_by(top, MU_TOP_BY_ID); break;
    case 'p': sort_by(top, MU_TOP_BY_STATE); break;
    case 'c': sort_by(top, MU_TOP_BY_CPU); break;
    case 'w': sort_by(top, MU_TOP_BY_WAIT); break;
    case 'a': sort_by(top, MU_TOP_BY_BEAT); break;
    case 'r': top->is_reversed = !top->is_reversed; break;
    case 'f': top->state = (enum mu_top_state)((top->state + 1) % MU_TOP_STATES); break;
    case '/': top->is_typing = 1; break;
    case ' ': top->is_paused = !top->is_paused; break;
    default: break;
    }
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static enum muster_status top_redraw(struct mu_top *top)
{
    enum muster_status status = MUSTER_OK;

    mu_top_arrange(top);
    mu_top_place(top);
    if (top->page == MU_TOP_TASK && !top->is_over)
        status = muster_stats_get(top->muster, (int32_t)top->task, &top->task_stats);
    mu_cli_age_at(top->picture.now_ns); /* a picture that stays does not grow older line by line */
    mu_top_draw(top);
    return status;
}

static enum muster_status top_screens_run(struct mu_top *top)
{
    enum muster_status status = MUSTER_OK;
    uint64_t next = 0;
    sigset_t mask;

    mu_cli_watch_begin(&mask);
    while (!top->quit && !mu_cli_interrupted() && !quit_signal && status == MUSTER_OK) {
        uint64_t now = muster_now_ns();
        int key, keys = 0, is_still, readable;

        if (stop_signal)
            top_suspend();
        if (!top->is_over && ((now >= next && !top->is_paused) || !top->has_picture)) {
            status = top_look(top);
            next = now + top->interval_ns;
        }
        if (!top->has_picture && top->is_over)
            break;
        if (status == MUSTER_OK && top->has_picture)
            status = top_redraw(top);
        if (status != MUSTER_OK)
            break;
        /* what is paused or over changes only by a key, or by the screen's size */
        is_still = top->has_picture && (top->is_over || top->is_paused);
        readable = mu_cli_watch_pause(&mask, is_still ? now + 3600000000000u : next, 0);
        while ((key = getch()) != ERR && !top->quit) {
            key_press(top, key);
            keys++;
        }
        if (readable && !keys)
            break; /* the terminal is gone */
    }
    return status;
}

static const char *sort_word(size_t number)
{
    return number < MU_TOP_SORTS ? mu_top_sort_name((enum mu_top_sort)number) : NULL;
}

static const char *state_word(size_t number)
{
    return number < MU_TOP_STATES ? mu_top_state_name((enum mu_top_state)number) : NULL;
}

static int top_take_options(struct mu_cli_call *call, struct mu_top *top)
{
    size_t sort = 0, state = 0;
    int code = mu_cli_word(call, MU_OPT_SORT, &sort);

    if (!code)
        code = mu_cli_word(call, MU_OPT_STATE, &state);
    if (!code)
        code = mu_cli_watch_interval(call, MU_OPT_EVERY, &top->interval_ns);
    top->sort = (enum mu_top_sort)sort;
    top->state = (enum mu_top_state)state;
    if (call->values[MU_OPT_FILTER])
        snprintf(top->text, sizeof top->text, "%s", call->values[MU_OPT_FILTER]);
    return code;
}

/* One that cannot (TERM=dumb) would show each change of each line on a line of its own. */
static bool can_place(void)
{
    const char *cup = tigetstr("cup");

    return cup && cup != (const char *)-1;
}

static int top_run(struct mu_cli_call *call)
{
    struct mu_top top = {.interval_ns = 1000000000u};
    enum muster_status status;
    SCREEN *screen;
    int code = top_take_options(call, &top);

    if (!code && (!isatty(0) || !isatty(1)))
        return mu_cli_usage(call, "it needs a terminal; elsewhere there is 'muster status --watch'");
    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &top.muster);
    if (code)
        return code;
    setlocale(LC_CTYPE, "");
    take_stops();
    screen = newterm(NULL, stdout, stdin);
    if (!screen || !can_place()) {
        if (screen) {
            endwin();
            delscreen(screen);
        }
        fprintf(stderr, "%s: the terminal '%s' %s\n", call->path, getenv("TERM") ? getenv("TERM") : "",
                screen ? "cannot place its cursor: 'muster status --watch' needs lines alone"
                       : "is not known (see $TERM)");
        return mu_cli_leave(call, top.muster, MU_CLI_EXIT_FAILURE);
    }
    sigaction(SIGQUIT, &(struct sigaction){.sa_handler = on_quit}, NULL);
    mu_top_colours();
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    status = top_screens_run(&top);
    endwin();
    delscreen(screen);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    else if (mu_cli_interrupted())
        code = 128 + mu_cli_interrupted();
    else if (quit_signal)
        code = 128 + quit_signal;
    if (top.has_picture)
        mu_cli_picture_free(&top.picture);
    free(top.order);
    return mu_cli_leave(call, top.muster, code);
}

static const struct mu_cli_option top_options[] = {
    {MU_OPT_SORT, 's', "sort", "KEY", sort_word, "sort by id (default), state, cpu, wait or beat"},
    {MU_OPT_STATE, 0, "state", "STATE", state_word, "show all tasks (default), those in trouble, waiting or working"},
    {MU_OPT_FILTER, 'f', "filter", "TEXT", NULL, "show only tasks whose line has TEXT"},
    {MU_OPT_EVERY, 0, "every", "D", NULL, "look again every D (default 1s)"},
    MU_CLI_JOB,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_top = {
    .name = "top",
    .operands = "",
    .summary = "Watch a job's tasks and barriers live, on the whole screen",
    .options = top_options,
    .run = top_run,
};
