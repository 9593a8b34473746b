/*
 * cli/executor/bind.c: TensorFlow's server listens on every interface, and cannot be told otherwise; what it serves is
 * to run any graph, for anybody. So an executor that is for this machine alone answers for bind(): an address that is
 * every interface's becomes the loopback's.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/executor/library.h"

static int stays_home;

void mu_tf_stay_home(void)
{
    stays_home = 1;
}

/* Libraries that are opened find this one before libc's. */
__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (stays_home && address->sa_family == AF_INET && len >= sizeof v4) {
        memcpy(&v4, address, sizeof v4);
        if (v4.sin_addr.s_addr == htonl(INADDR_ANY))
            v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return (int)syscall(SYS_bind, fd, &v4, sizeof v4);
    }
    if (stays_home && address->sa_family == AF_INET6 && len >= sizeof v6) {
        memcpy(&v6, address, sizeof v6);
        if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) { /* of both families: it is reached by 127.0.0.1 */
            static const struct in6_addr mapped = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};

            v6.sin6_addr = mapped;
        }
        return (int)syscall(SYS_bind, fd, &v6, sizeof v6);
    }
    return (int)syscall(SYS_bind, fd, address, len);
}
