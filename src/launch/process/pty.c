/*
 * launch/process/pty.c: a terminal for what a task writes.
 *
 * A program that writes to a terminal writes each line when it is done, in colours, and as wide as the terminal is. The
 * terminal is one for output alone: nobody types there, and what is written comes out as it went in, so it is told to
 * leave line ends and control characters alone. It becomes no task's controlling terminal: the tasks stay in the
 * launcher's session, where the guard finds them, ^C stays with the launcher's own terminal, and the end of the
 * launcher hangs nobody up. So the kernel tells nobody of a new size; the launcher does, by SIGWINCH.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static uint16_t size_variable(const char *name, uint16_t otherwise)
{
    const char *text = getenv(name);
    unsigned long number = text ? strtoul(text, NULL, 10) : 0;

    return number > 0 && number < 10000 ? (uint16_t)number : otherwise;
}

struct mu_launch_size mu_launch_size_here(void)
{
    static const int fds[] = {1, 2, 0};
    struct winsize size;

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
            return (struct mu_launch_size){size.ws_row, size.ws_col};
    return (struct mu_launch_size){size_variable("LINES", 24), size_variable("COLUMNS", 80)};
}

void mu_launch_pty_resize(int fd, struct mu_launch_size size)
{
    struct winsize winsize = {.ws_row = size.rows, .ws_col = size.columns};

    ioctl(fd, TIOCSWINSZ, &winsize);
}

static int set_up_peer(int peer, struct mu_launch_size size)
{
    struct termios mode;

    if (tcgetattr(peer, &mode))
        return -1;
    mode.c_oflag &= ~(tcflag_t)OPOST;
    mode.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (tcsetattr(peer, TCSANOW, &mode))
        return -1;
    mu_launch_pty_resize(peer, size);
    return 0;
}

int mu_launch_pty_open(struct mu_launch_size size, int ends[2])
{
    int error;

    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0)
        return -1;
    /* By the descriptor: its name may be another's in this mount namespace. */
    ends[1] = unlockpt(ends[0]) ? -1 : ioctl(ends[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] >= 0 && set_up_peer(ends[1], size) == 0)
        return 0;
    error = errno;
    if (ends[1] >= 0)
        close(ends[1]);
    close(ends[0]);
    errno = error;
    return -1;
}
