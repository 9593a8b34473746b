/*
 * launch/words.c: how a process ended, in a person's words and as a launcher's exit status.
 */
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *mu_launch_signal_name(int signal_number, char buffer[32])
{
    const char *name = sigabbrev_np(signal_number);

    if (name)
        snprintf(buffer, 32, "SIG%s", name);
    else if (signal_number >= SIGRTMIN && signal_number <= SIGRTMAX)
        snprintf(buffer, 32, "SIGRTMIN+%d", signal_number - SIGRTMIN);
    else
        snprintf(buffer, 32, "no name");
    return buffer;
}

const char *mu_launch_words(int wait_status, char *buffer, size_t size)
{
    char name[32];

    if (WIFSIGNALED(wait_status))
        snprintf(buffer, size, "was killed by signal %d (%s%s)", WTERMSIG(wait_status),
                 mu_launch_signal_name(WTERMSIG(wait_status), name), WCOREDUMP(wait_status) ? ", core dumped" : "");
    else
        snprintf(buffer, size, "exited with status %d", WEXITSTATUS(wait_status));
    return buffer;
}

int mu_launch_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
