/*
 * cli/main.c: main() of the `muster` executable.
 */
#include "cli/cli.h"

#include <string.h>

#include "launch/launch.h"

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], MU_LAUNCH_GUARD_NAME) == 0)
        return mu_launch_guard_main(argc, argv);
    return mu_cli_main(argc, argv);
}
