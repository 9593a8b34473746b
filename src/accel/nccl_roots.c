/*
 * accel/nccl_roots.c: roots, their sockets and their end.
 *
 * libnccl gives no handle on a root, and ends it only when all ranks have checked in. But an id holds the address, so
 * the listening socket is found among our descriptors by its address and port. It is marked close-on-exec at once: a
 * child that held it would make ranks connect to a root that is gone, and wait for ever instead of being refused. To
 * end a root its socket is shut down: libnccl's accept() fails, and the thread frees everything and goes, in every
 * version alike. The socket is recognised by its inode through a duplicate, so that nothing else is hit that has got
 * its number since.
 *
 * The lock is held while ids are made, and by a thread that forks: a forked child knows of every socket, and closes
 * them.
 */
#include "accel/nccl_roots.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

struct root {
    struct root *next;
    int fd;
    bool ended; /* its thread is about to close the socket */
    ino_t inode;
    uint64_t expires;
    struct mu_nccl_root_key key;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct root *roots;
static _Thread_local bool making; /* this thread holds the lock, and libnccl, or a plugin of it, might fork */

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

static ino_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) || !S_ISSOCK(st.st_mode) ? 0 : st.st_ino;
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An id is opaque, but for this: a number of 8 bytes, then where its root listens. False: it does not look like it. */
static bool address_of(const struct mu_nccl_id *id, union address *ret_address)
{
    memcpy(ret_address, id->bytes + 8, sizeof *ret_address);
    return ret_address->any.sa_family == AF_INET || ret_address->any.sa_family == AF_INET6;
}

static in_port_t port_of(const union address *a)
{
    return a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port;
}

void mu_nccl_id_address(const struct mu_nccl_id *id, char text[MU_NCCL_ADDRESS])
{
    char host[INET6_ADDRSTRLEN] = "?";
    union address a;

    if (!address_of(id, &a)) {
        snprintf(text, MU_NCCL_ADDRESS, "an unknown address");
        return;
    }
    if (a.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host);
    else
        inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host);
    snprintf(text, MU_NCCL_ADDRESS, a.any.sa_family == AF_INET ? "%s:%u" : "[%s]:%u", host, ntohs(port_of(&a)));
}

static bool is_loopback(const union address *a)
{
    static const uint8_t v6[16] = {[15] = 1};

    return a->any.sa_family == AF_INET ? (ntohl(a->v4.sin_addr.s_addr) >> 24) == 127
                                       : !memcmp(&a->v6.sin6_addr, v6, sizeof v6);
}

/* Whether this machine (or container: its network) has a socket that listens on this port, by the kernel's table. */
static bool has_listener(const char *table, unsigned port)
{
    FILE *f = fopen(table, "re");
    char line[256];
    bool found = !f; /* not known: nothing is said against it */

    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = strchr(line, ':'); /* "  0: 0100007F:A3F1 00000000:0000 0A ..." */
        unsigned local, state;

        found = at && sscanf(at + 1, " %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) == 2 && local == port &&
                state == 10;
    }
    if (f)
        fclose(f);
    return found;
}

bool mu_nccl_is_out_of_reach(const struct mu_nccl_id *id)
{
    union address a;

    if (getenv("NCCL_COMM_ID") || !address_of(id, &a) || !is_loopback(&a)) /* with that rank 0 listens, and later */
        return false;
    return !has_listener(a.any.sa_family == AF_INET ? "/proc/self/net/tcp" : "/proc/self/net/tcp6", ntohs(port_of(&a)));
}

/* The address, too: a program may listen on the same port of another one, and that is not ours to shut down. */
static bool is_same(const union address *a, const union address *b)
{
    if (a->any.sa_family != b->any.sa_family || port_of(a) != port_of(b))
        return false;
    return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
                                       : !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr);
}

static bool listens_at(int fd, const union address *wanted)
{
    union address a = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof a, size = sizeof(int);
    int listening = 0;

    return inode_of(fd) && !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) && listening &&
           !getsockname(fd, &a.any, &len) && is_same(&a, wanted);
}

/* Our descriptor that listens where the id says, or -1. */
static int find_socket(const struct mu_nccl_id *id)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    union address a;
    int found = -1;

    if (!folder)
        return -1;
    while (address_of(id, &a) && found < 0 && (entry = readdir(folder))) {
        int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] != '.' && fd != dirfd(folder) && listens_at(fd, &a))
            found = fd;
    }
    closedir(folder);
    return found;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void before_fork(void)
{
    if (!making)
        pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    if (!making)
        pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    while (roots) {
        struct root *r = roots;

        roots = r->next;
        if (inode_of(r->fd) == r->inode)
            close(r->fd);
        free(r);
    }
    if (!making)
        pthread_mutex_unlock(&lock);
}

/* When the library is loaded: a fork that is under way when the first root is made must have met before_fork(). */
static __attribute__((constructor)) void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static bool keys_same(const struct mu_nccl_root_key *a, const struct mu_nccl_root_key *b)
{
    return a->handle == b->handle && a->generation == b->generation && !strcmp(a->name, b->name);
}

/* Of what we ended the thread still has to close the socket: until then a forked child must know of it. */
static void root_end(struct root *r)
{
    int fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return;
    if (inode_of(fd) == r->inode)
        shutdown(fd, SHUT_RDWR);
    close(fd);
    r->ended = true;
}

/* End those that `wanted` names; take out those that are gone. */
static void roots_sweep(bool (*wanted)(void *arg, const struct root *r), void *arg)
{
    struct root **at = &roots;

    while (*at) {
        struct root *r = *at;

        if (inode_of(r->fd) == r->inode) {
            if (!r->ended && wanted(arg, r))
                root_end(r);
            at = &r->next;
            continue;
        }
        *at = r->next;
        free(r);
    }
}

static bool is_of(void *arg, const struct root *r)
{
    return keys_same(arg, &r->key);
}

void mu_nccl_roots_end(const struct mu_nccl_root_key *key)
{
    pthread_mutex_lock(&lock);
    roots_sweep(is_of, (void *)(uintptr_t)key);
    pthread_mutex_unlock(&lock);
}

static bool root_has_expired(void *arg, const struct root *r)
{
    return *(const uint64_t *)arg >= r->expires;
}

/* The keys of this handle's roots that run; malloc()ed. */
static struct mu_nccl_root_key *keys_of(uint64_t handle, uint32_t *ret_count)
{
    struct mu_nccl_root_key *keys;
    uint32_t n = 0;

    for (const struct root *r = roots; r; r = r->next)
        n += !r->ended && r->key.handle == handle;
    *ret_count = 0;
    keys = n ? malloc(n * sizeof *keys) : NULL;
    for (const struct root *r = roots; keys && r; r = r->next)
        if (!r->ended && r->key.handle == handle)
            keys[(*ret_count)++] = r->key;
    return keys;
}

void mu_nccl_roots_reap(uint64_t handle, mu_nccl_dead_fn is_dead, void *arg)
{
    uint64_t now = mu_now();
    struct mu_nccl_root_key *keys;
    uint32_t count;

    pthread_mutex_lock(&lock);
    roots_sweep(root_has_expired, &now);
    keys = keys_of(handle, &count);
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (is_dead(arg, &keys[i]))
            mu_nccl_roots_end(&keys[i]);
    free(keys);
}

uint32_t mu_nccl_roots_count(void)
{
    uint32_t n = 0;

    pthread_mutex_lock(&lock);
    for (const struct root *r = roots; r; r = r->next)
        n += !r->ended && inode_of(r->fd) == r->inode;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* One id; its root joins the list. Under the lock. */
static enum muster_status make_one(const struct mu_nccl *nccl, const struct mu_nccl_root_key *key, uint64_t expires,
                                   struct mu_nccl_id *ret_id)
{
    struct root *r = malloc(sizeof *r);
    char words[256], version[MU_NCCL_VERSION_TEXT];
    int result;

    if (!r)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an NCCL id");
    memset(ret_id, 0, sizeof *ret_id);
    result = nccl->get_unique_id(ret_id);
    if (result != MU_NCCL_SUCCESS) {
        free(r);
        mu_nccl_describe(nccl, NULL, result, words, sizeof words);
        return mu_fail(MUSTER_UNAVAILABLE, "NCCL %s makes no unique id: %s",
                       mu_nccl_version_text(nccl->version, version), words);
    }
    r->fd = find_socket(ret_id);
    if (r->fd < 0) { /* NCCL_COMM_ID is set: rank 0 becomes the root when it initialises */
        free(r);
        return MUSTER_OK;
    }
    fcntl(r->fd, F_SETFD, FD_CLOEXEC);
    r->inode = inode_of(r->fd);
    r->ended = false;
    r->expires = expires;
    r->key = *key;
    r->next = roots;
    roots = r;
    return MUSTER_OK;
}

enum muster_status mu_nccl_roots_make(const struct mu_nccl *nccl, const struct mu_nccl_root_key *key, uint64_t expires,
                                      uint32_t count, struct mu_nccl_id *ret_ids)
{
    enum muster_status status = MUSTER_OK;

    pthread_mutex_lock(&lock);
    making = true;
    for (uint32_t i = 0; i < count && !status; i++)
        status = make_one(nccl, key, expires, &ret_ids[i]);
    if (status)
        roots_sweep(is_of, (void *)(uintptr_t)key);
    making = false;
    pthread_mutex_unlock(&lock);
    return status;
}
