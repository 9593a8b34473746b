/* base/unix_socket.h: sockets that listen at a path: made, found abandoned, removed. */
#ifndef MU_BASE_UNIX_SOCKET_H
#define MU_BASE_UNIX_SOCKET_H

#include <sys/types.h>

#define MU_UNIX_PATH_MAX 108u /* of a socket, with the NUL */

/*
 * A socket that listens at the path (shorter than MU_UNIX_PATH_MAX), mode 0600, not blocking; -1 with errno. One that
 * nobody serves any more is replaced.
 */
int mu_unix_listen(const char *path, int backlog);

/* Remove a socket that nobody serves. `file` not 0: only if it is this one. Whatever else has the name stays. */
void mu_unix_remove(const char *path, dev_t device, ino_t file);

#endif
