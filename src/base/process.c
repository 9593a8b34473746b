/*
 * base/process.c: facts about processes, from /proc and the kernel. Every one may be missing in a container; each has a
 * value that says so.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t mu_read_file(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t len = 0;
    ssize_t n = 1;

    buffer[0] = 0;
    if (fd < 0)
        return -1;
    while (n != 0 && len < size - 1) { /* a file of /proc may come page by page */
        n = read(fd, buffer + len, size - 1 - len);
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    buffer[len] = 0;
    return n < 0 && len == 0 ? -1 : (ssize_t)len;
}

/* What follows the process's name in its stat file, " S 1 ...", in `text`; NULL when that cannot be read. */
static char *process_read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (mu_read_file(path, text, size) <= 0)
        return NULL;
    text = strrchr(text, ')'); /* the name before it may hold anything */
    return text ? text + 1 : NULL;
}

uint64_t mu_process_start(pid_t pid)
{
    char text[1024], *p = process_read_stat(pid, text, sizeof text);

    for (int field = 3; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

bool mu_process_is_ending(pid_t pid)
{
    char text[1024], *p = process_read_stat(pid, text, sizeof text);

    return !p || p[1] == 'Z' || p[1] == 'X';
}

uint64_t mu_namespace(const char *kind)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

void mu_boot_id(uint8_t id[16])
{
    char text[64];
    unsigned n = 0;

    memset(id, 0, 16);
    if (mu_read_file("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0)
        return;
    for (const char *p = text; *p && n < 32; p++) {
        unsigned digit;

        if (*p >= '0' && *p <= '9')
            digit = (unsigned)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            digit = (unsigned)(*p - 'a') + 10;
        else
            continue;
        id[n / 2] = (uint8_t)(id[n / 2] << 4 | digit);
        n++;
    }
}

void mu_random(void *buffer, size_t length)
{
    uint8_t *p = buffer;

    while (length) {
        ssize_t n = getrandom(p, length, 0);

        if (n > 0) {
            p += n;
            length -= (size_t)n;
        }
    }
}

static _Atomic unsigned processors_of_job;

void mu_processors_learn(unsigned count)
{
    /* process-local: relaxed, a count alone; a waiter that still reads the old one spins or does not, no more */
    atomic_store_explicit(&processors_of_job, count, memory_order_relaxed);
}

unsigned mu_processors(void)
{
    cpu_set_t sets[16]; /* a set of 1024 is refused where the kernel knows more */
    unsigned own = 1, learnt;

    if (sched_getaffinity(0, sizeof sets, sets) == 0 && CPU_COUNT_S(sizeof sets, sets) > 0)
        own = (unsigned)CPU_COUNT_S(sizeof sets, sets);
    /* process-local: relaxed, see mu_processors_learn() */
    learnt = atomic_load_explicit(&processors_of_job, memory_order_relaxed);
    return learnt > own ? learnt : own;
}

/* A program, and no stranger's. */
static bool is_command(const char *path, size_t folder_len)
{
    struct stat exe, st;

    return stat("/proc/self/exe", &exe) == 0 && mu_is_beside(path, folder_len, exe.st_uid) && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int mu_command_path(char *path, size_t size)
{
    static const struct {
        const char *whole, *command; /* how either ends */
    } places[] = {{"/lib/muster/muster", "/bin/muster"}, {"/whole/muster", "/muster"}};
    ssize_t len = readlink("/proc/self/exe", path, size);

    if (len < 0 || (size_t)len >= size) {
        errno = len < 0 ? errno : ENAMETOOLONG;
        path[0] = 0;
        return -1;
    }
    path[len] = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t end = strlen(places[i].whole);

        if ((size_t)len < end || strcmp(path + len - end, places[i].whole) != 0)
            continue;
        memcpy(path + len - end, places[i].command, strlen(places[i].command) + 1); /* which is shorter */
        if (is_command(path, (size_t)len - end))
            return 0;
        memcpy(path + len - end, places[i].whole, end + 1);
    }
    return 0;
}

/* A link has no mode of its own; and in a folder as /tmp is, nobody exchanges what is another's. */
static bool anybody_writes(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) && !S_ISLNK(st->st_mode) && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX));
}

bool mu_is_beside(const char *path, size_t folder_len, uid_t owner)
{
    char part[PATH_MAX + 64];
    struct stat folder, st;
    size_t len = folder_len;

    if (strlen(path) >= sizeof part - 1) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(part, sizeof part, "%.*s/", (int)folder_len, path);
    if (stat(part, &folder))
        return false;
    while (path[len]) {
        len += 1 + strcspn(path + len + 1, "/");
        snprintf(part, sizeof part, "%.*s", (int)len, path);
        if (lstat(part, &st))
            return false;
        if (strcmp(part + len - 3, "/..") == 0)
            continue;
        if ((st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != owner && st.st_uid != folder.st_uid) ||
            anybody_writes(&st)) {
            errno = EPERM;
            return false;
        }
    }
    return true;
}

bool mu_process_may_have(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) || bytes <= limit.rlim_cur;
}

const char *mu_process_map_words(int error, char *words, size_t size)
{
    struct rlimit limit;

    if (error == ENOMEM && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(words, size,
                 "%s: a process may have %llu KiB of address space ('ulimit -v'): raise the limit, or make the heap "
                 "smaller",
                 strerror(error), (unsigned long long)limit.rlim_cur / 1024);
    else
        snprintf(words, size, "%s", strerror(error));
    return words;
}

/* Threads of muster's own, below the pid that they are of: a forked child has none of them. */
static _Atomic uint64_t own_threads;

void mu_own_thread(int change)
{
    uint64_t pid = (uint64_t)getpid() << 32, was = atomic_load(&own_threads); /* process-local: any order will do */

    for (;;) {
        uint64_t now = ((was & ~0xffffffffull) == pid ? was : pid) + (uint64_t)(int64_t)change;

        if (atomic_compare_exchange_weak(&own_threads, &was, now)) /* process-local: see above */
            return;
    }
}

bool mu_is_alone(void)
{
    uint64_t own = atomic_load(&own_threads); /* process-local: see above */
    struct stat folder;

    if (own >> 32 != (uint64_t)getpid())
        own = 0;
    /* a folder has a link for itself, one from its parent, and one a subfolder */
    return stat("/proc/self/task", &folder) == 0 && folder.st_nlink == 3 + (nlink_t)(own & 0xffffffff);
}
