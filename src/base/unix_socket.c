/*
 * base/unix_socket.c: sockets that listen at a path.
 *
 * The socket file of a server that died refuses connections: it is replaced; one that takes them, or lets them wait, is
 * a live server's. Between its bind() and its listen() a server refuses them, too: so a server holds the folder's lock
 * while it looks, removes and binds, as far as it can be had. The file's mode is the socket's own before it has a name;
 * the umask is all threads', and children's.
 */
#include "base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCK_TRIES    100 /* then a process that is no server has the folder's lock */
#define LOCK_PAUSE_MS 10

_Static_assert(sizeof((struct sockaddr_un){0}.sun_path) == MU_UNIX_PATH_MAX, "the longest path of a socket");

static struct sockaddr_un socket_name(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    return name;
}

/* A socket that nobody serves: its server was killed. `file` not 0: and it is this one. */
static bool is_abandoned(const char *path, dev_t device, ino_t file)
{
    const struct sockaddr_un name = socket_name(path);
    struct stat st;
    bool refused;
    int fd;

    if (lstat(path, &st) || !S_ISSOCK(st.st_mode) || (file && (st.st_dev != device || st.st_ino != file)))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    refused = connect(fd, (const struct sockaddr *)&name, sizeof name) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* The folder, locked until it is closed; -1: it cannot be read. */
static int lock_folder(const char *path)
{
    char copy[MU_UNIX_PATH_MAX];
    int fd;

    snprintf(copy, sizeof copy, "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++)
        poll(NULL, 0, LOCK_PAUSE_MS);
    return fd;
}

int mu_unix_listen(const char *path, int backlog)
{
    const struct sockaddr_un name = socket_name(path);
    int folder = lock_folder(path), fd, error;
    bool bound;

    if (is_abandoned(path, 0, 0))
        unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bound = fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (!bound || listen(fd, backlog)) {
        error = errno;
        if (bound)
            unlink(path);
        if (fd >= 0)
            close(fd);
        fd = -1;
        errno = error;
    }
    error = errno;
    if (folder >= 0)
        close(folder);
    errno = error;
    return fd;
}

void mu_unix_remove(const char *path, dev_t device, ino_t file)
{
    int folder = lock_folder(path);

    if (is_abandoned(path, device, file))
        unlink(path);
    if (folder >= 0)
        close(folder);
}
