/*
 * launch/process/terminal.c: which processes may read the terminal.
 *
 * Every task has its own process group, so none is in the terminal's foreground; task 0, which inherits stdin, is
 * stopped by SIGTTIN when it reads. Then, and only then, the foreground passes to its group: jobs that never read leave
 * ^C and ^Z with the launcher. The launcher takes the terminal back when task 0 ends. A task that fails may leave it in
 * raw mode: as a shell does of a job that was killed, the launcher then restores the settings.
 */
#include "launch/launch.h"

#include <unistd.h>

void mu_launch_terminal_init(struct mu_launch_terminal *terminal)
{
    terminal->active = isatty(0) && tcgetpgrp(0) >= 0;
    terminal->owner = 0;
    terminal->warned = 0;
    terminal->has_mode = terminal->active && tcgetattr(0, &terminal->mode) == 0;
}

int mu_launch_terminal_give(struct mu_launch_terminal *terminal, pid_t group)
{
    if (!terminal->active)
        return -1;
    /* A launcher in the background asks its shell for the terminal as any program does: it stops too. */
    if (tcgetpgrp(0) != getpgrp() && !terminal->owner)
        raise(SIGTTIN);
    if (tcgetpgrp(0) != getpgrp() && !terminal->owner)
        return -1;
    if (tcsetpgrp(0, group))
        return -1;
    terminal->owner = group;
    kill(-group, SIGCONT);
    return 0;
}

void mu_launch_terminal_take(struct mu_launch_terminal *terminal)
{
    if (terminal->active && terminal->owner && tcgetpgrp(0) == terminal->owner)
        tcsetpgrp(0, getpgrp()); /* SIGTTOU is blocked in the launcher */
    terminal->owner = 0;
}

void mu_launch_terminal_restore(const struct mu_launch_terminal *terminal)
{
    if (terminal->has_mode && tcgetpgrp(0) == getpgrp())
        tcsetattr(0, TCSANOW, &terminal->mode); /* at once: a terminal that is held up by ^S is not waited for */
}
