/*
 * launch/process/ports.c: ports that nobody has.
 */
#include "launch/launch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int mu_launch_free_ports(uint16_t *ret_ports, int count, int anywhere)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(anywhere ? INADDR_ANY : INADDR_LOOPBACK)};
    int fds[8], rc = 0, opened = 0;

    for (; opened < count && opened < 8 && rc == 0; opened++) { /* all are held until each has its own */
        struct sockaddr_in bound;
        socklen_t len = sizeof bound;

        fds[opened] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[opened] < 0 || bind(fds[opened], (struct sockaddr *)&address, sizeof address) ||
            getsockname(fds[opened], (struct sockaddr *)&bound, &len))
            rc = -1;
        else
            ret_ports[opened] = ntohs(bound.sin_port);
    }
    while (opened-- > 0)
        close(fds[opened]);
    return rc;
}
