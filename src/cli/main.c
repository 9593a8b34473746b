/*
 * cli/main.c: main() of the `muster` executable.
 */
#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/health/health.h"
#include "launch/launch.h"

int main(int argc, char **argv)
{
    static char line[8192];
    int fd;

    if (argc > 0 && strcmp(argv[0], MU_LAUNCH_GUARD_NAME) == 0)
        return mu_launch_guard_main();
    if (mu_cli_quick)
        mu_cli_quick(argv);
    if (argc > 0 && strcmp(argv[0], MU_HEALTH_NAME) == 0)
        return mu_health_main(argc, argv);
    mu_launch_title_init(argv);
    /* Started with one of 0, 1, 2 closed. What is written to a standard output that is none fails, and is not lost in
     * silence. */
    for (fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR);
    /* A line is one write: what other processes say on the same stderr stands before or behind it. */
    setvbuf(stderr, line, _IOLBF, sizeof line);
    return mu_cli_main(argc, argv);
}
