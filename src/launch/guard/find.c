/*
 * launch/guard/find.c: the guard's table, for an agent that adopts the job, and for readers of its tasks' processes.
 */
#include "launch/guard/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

int mu_guard_lock(int table_fd, int type)
{
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(table_fd, F_OFD_SETLK, &lock);
}

static size_t table_size(const struct mu_guard_table *table)
{
    return mu_guard_table_size(table->num_tasks, table->num_commands);
}

struct mu_guard_table *mu_guard_map(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    struct mu_guard_table *table;

    if (size < (off_t)sizeof *table)
        return NULL;
    table = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED || (size_t)size != table_size(table))
        return NULL;
    return table;
}

/* The descriptor of a guard's table, opened anew; -1: the process has none. */
static int open_table(const char *pid)
{
    char path[300], target[64];
    struct dirent *item;
    int fd = -1;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    dir = opendir(path);
    while (dir && fd < 0 && (item = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), item->d_name, target, sizeof target - 1);

        target[n > 0 ? n : 0] = 0;
        if (strcmp(target, "/memfd:" MU_LAUNCH_GUARD_NAME " (deleted)") == 0)
            fd = openat(dirfd(dir), item->d_name, O_RDWR | O_CLOEXEC);
    }
    if (dir)
        closedir(dir);
    return fd;
}

/* The table of a guard of this job, and its file; NULL: the process is none. */
static struct mu_guard_table *table_of(const char *pid, const char *job, pid_t launcher, uint32_t num_tasks,
                                       int *ret_fd)
{
    char path[64], name[32];
    struct mu_guard_table *table;
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "/proc/%.16s", pid);
    if (stat(path, &st) || st.st_uid != geteuid()) /* another user's job may have the same name */
        return NULL;
    snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    if (mu_read_file(path, name, sizeof name) <= 0 || strcmp(name, MU_LAUNCH_GUARD_NAME "\n") != 0)
        return NULL;
    fd = open_table(pid);
    if (fd < 0)
        return NULL;
    table = mu_guard_map(fd);
    /* not of the segment that we have; of an elastic job that may have fewer tasks than the launcher has room for */
    if (table && (strcmp(table->job, job) != 0 || table->launcher != launcher || table->num_tasks < num_tasks)) {
        munmap(table, table_size(table));
        table = NULL;
    }
    if (table)
        *ret_fd = fd;
    else
        close(fd);
    return table;
}

/* Among the children of the launcher, of which the guard is one of the first, where it lives and the kernel lists them.
 */
static struct mu_guard_table *table_find_near(const char *job, pid_t launcher, uint32_t num_tasks, int *ret_fd)
{
    struct mu_guard_table *table = NULL;
    char path[64], list[4096], *save;
    ssize_t len;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    len = mu_read_file(path, list, sizeof list);
    if (len == sizeof list - 1 && strrchr(list, ' '))
        *strrchr(list, ' ') = 0; /* what is behind it is cut off */
    for (char *pid = len > 0 ? strtok_r(list, " ", &save) : NULL; pid && !table; pid = strtok_r(NULL, " ", &save))
        table = table_of(pid, job, launcher, num_tasks, ret_fd);
    return table;
}

/* Among all processes. */
static struct mu_guard_table *find_anywhere(const char *job, pid_t launcher, uint32_t num_tasks, int *ret_fd,
                                            pid_t *ret_guard)
{
    DIR *dir = opendir("/proc");
    struct mu_guard_table *table = NULL;
    struct dirent *item;

    while (dir && !table && (item = readdir(dir)))
        if (item->d_name[0] >= '0' && item->d_name[0] <= '9' &&
            (table = table_of(item->d_name, job, launcher, num_tasks, ret_fd)))
            *ret_guard = (pid_t)strtol(item->d_name, NULL, 10);
    if (dir)
        closedir(dir);
    return table;
}

int mu_launch_guard_tasks(const char *job, pid_t launcher, uint32_t num_tasks, pid_t *ret_pids)
{
    int fd = -1;
    pid_t guard;
    struct mu_guard_table *table = table_find_near(job, launcher, num_tasks, &fd);
    char run_id[sizeof table->run_id];

    if (!table)
        table = find_anywhere(job, launcher, num_tasks, &fd, &guard);
    if (!table)
        return -1;
    close(fd); /* the table stays mapped; no lock is taken, for nobody is to be adopted */
    snprintf(run_id, sizeof run_id, "%.*s", (int)sizeof run_id - 1, table->run_id);
    for (uint32_t i = 0; i < num_tasks; i++) {
        pid_t pid = table->groups[i];

        /* A number may be somebody else's by now, once nobody reaps the task under it. */
        ret_pids[i] = pid > 0 && (mu_launch_parent(pid) == launcher || mu_launch_bears_mark(pid, run_id)) ? pid : 0;
    }
    munmap(table, table_size(table));
    return 0;
}

int mu_launch_guard_find(const char *job, pid_t launcher, uint32_t num_tasks, struct mu_launch_orphans *ret_orphans)
{
    struct mu_guard_table *table;
    pid_t guard = 0;

    *ret_orphans = (struct mu_launch_orphans){.fd = -1};
    table = find_anywhere(job, launcher, num_tasks, &ret_orphans->fd, &guard);
    if (!table)
        return -1;
    ret_orphans->launcher_lives = mu_launch_parent(guard) == table->launcher;
    ret_orphans->adopted = mu_guard_lock(ret_orphans->fd, F_WRLCK) != 0;
    ret_orphans->launcher = table->launcher;
    ret_orphans->survive = table->survive;
    ret_orphans->num_tasks = table->num_tasks;
    ret_orphans->has_part = table->has_part;
    if (table->has_part)
        ret_orphans->part = table->part;
    snprintf(ret_orphans->run_id, sizeof ret_orphans->run_id, "%.*s", (int)sizeof table->run_id - 1, table->run_id);
    ret_orphans->pids = calloc(table->num_tasks, sizeof *ret_orphans->pids);
    for (uint32_t i = 0; ret_orphans->pids && i < table->num_tasks; i++)
        ret_orphans->pids[i] = table->groups[i];
    munmap(table, table_size(table));
    return ret_orphans->pids ? 0 : -1;
}

void mu_launch_guard_over(const struct mu_launch_orphans *orphans)
{
    struct mu_guard_table *table = orphans->fd >= 0 ? mu_guard_map(orphans->fd) : NULL;

    if (!table)
        return;
    table->over = 1;
    munmap(table, table_size(table));
}
