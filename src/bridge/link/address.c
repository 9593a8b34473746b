/*
 * bridge/link/address.c: addresses from and to text, and names looked up beside the loop.
 *
 * getaddrinfo() blocks for as long as the resolver likes, and the link's owner holds a lock: so it runs in a thread
 * that nobody waits for before it has said that it has the answer; then it is as good as over, and is waited for. (An
 * agent forks its guard soon after it has found the leader: of a process with one thread, where all locks are free.)
 * The look-up belongs to the thread and to the one that began it: the last of the two frees it.
 */
#include "bridge/link/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

static bool take_port(const char *text, char port[6])
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 5 || text[digits] || strtoul(text, NULL, 10) > 65535)
        return false;
    snprintf(port, 6, "%s", text);
    return true;
}

enum muster_status mu_link_name_parse(const char *text, struct mu_link_name *ret_name)
{
    const char *colon = strrchr(text, ':'), *start = text, *end = colon ? colon : text;

    memset(ret_name, 0, sizeof *ret_name);
    if (!take_port(colon ? colon + 1 : text, ret_name->port))
        goto bad;
    if (text[0] == '[') {
        if (!colon || colon[-1] != ']')
            goto bad;
        start++;
        end--;
    } else if (memchr(start, ':', (size_t)(end - start)))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.80s' is no address: put IPv6 in brackets, like [::1]:4711", text);
    if ((size_t)(end - start) >= sizeof ret_name->host || (text[0] == '[' && end == start) ||
        strcspn(start, " \t\n/") < (size_t)(end - start))
        goto bad;
    memcpy(ret_name->host, start, (size_t)(end - start));
    if (strcmp(ret_name->host, "*") == 0)
        snprintf(ret_name->host, sizeof ret_name->host, "0.0.0.0");
    return MUSTER_OK;
bad:
    return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.80s' is no address: write HOST:PORT, [IPV6]:PORT or :PORT", text);
}

bool mu_link_is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;

    if (a->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    if (a->sa_family != AF_INET6)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

void mu_link_print(const struct sockaddr *a, char *text, size_t size)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    char host[INET6_ADDRSTRLEN] = "?";

    if (a->sa_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
    } else if (a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, host, sizeof host);
        snprintf(text, size, "%s:%u", host, ntohs(v6->sin6_port));
    } else if (a->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else
        snprintf(text, size, "?");
}

/* ---- look-ups ---- */

struct mu_lookup {
    pthread_mutex_t lock;
    bool is_half; /* one of the two has done with it */
    bool has_thread;
    pthread_t thread; /* the one that began it */
    struct mu_link_name name;
    int fd, error;
    struct addrinfo *list;
};

static void lookup_done(struct mu_lookup *l)
{
    bool last;

    pthread_mutex_lock(&l->lock);
    last = l->is_half;
    l->is_half = true;
    pthread_mutex_unlock(&l->lock);
    if (!last)
        return;
    if (l->list)
        freeaddrinfo(l->list);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static int name_look_up(const struct mu_lookup *l, int flags, struct addrinfo **ret_list)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};

    *ret_list = NULL;
    return getaddrinfo(l->name.host[0] ? l->name.host : "127.0.0.1", l->name.port, &hints, ret_list);
}

static void lookup_tell(const struct mu_lookup *l)
{
    uint64_t one = 1;
    ssize_t n = write(l->fd, &one, sizeof one);

    (void)n; /* an eventfd takes the first 1 always */
}

static void *lookup_run(void *arg)
{
    struct mu_lookup *l = arg;
    struct addrinfo *list;
    int error = name_look_up(l, 0, &list);

    pthread_mutex_lock(&l->lock);
    l->error = error;
    l->list = list;
    pthread_mutex_unlock(&l->lock);
    lookup_tell(l);
    lookup_done(l);
    return NULL;
}

/* Without signals: those are for the agent's other threads. */
static bool lookup_thread_begin(struct mu_lookup *l)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    l->has_thread = pthread_create(&l->thread, NULL, lookup_run, l) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return l->has_thread;
}

struct mu_lookup *mu_lookup_begin(const struct mu_link_name *name)
{
    struct mu_lookup *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    pthread_mutex_init(&l->lock, NULL);
    l->name = *name;
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->is_half = true; /* until there is a thread */
    if (l->fd >= 0) {
        l->error = name_look_up(l, AI_NUMERICHOST, &l->list);
        if (l->error == 0) {
            lookup_tell(l);
            return l;
        }
        l->is_half = false;
        if (lookup_thread_begin(l))
            return l;
        l->is_half = true;
        close(l->fd);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

int mu_lookup_fd(const struct mu_lookup *lookup)
{
    return lookup->fd;
}

int mu_lookup_end(struct mu_lookup *lookup, struct addrinfo **ret_list)
{
    int error;

    if (lookup->has_thread)
        pthread_join(lookup->thread, NULL);
    pthread_mutex_lock(&lookup->lock);
    error = lookup->error;
    *ret_list = lookup->list;
    lookup->list = NULL;
    pthread_mutex_unlock(&lookup->lock);
    lookup_done(lookup);
    return error;
}

void mu_lookup_abandon(struct mu_lookup *lookup)
{
    if (!lookup)
        return;
    if (lookup->has_thread)
        pthread_detach(lookup->thread);
    lookup_done(lookup);
}
