/*
 * launch/guard.c: what keeps a killed launcher from leaving anything behind.
 *
 * The guard is a process of its own, forked from the launcher before that has anything large in its memory, in its own
 * session, holding a pidfd of the launcher and a table that they share. (Exec'ed, it would start as slowly as a task,
 * 0.7 ms of a processor, of which in a virtual machine 0.3 ms are libc's questions about the processor; forked it takes
 * 0.1 ms.) It sleeps until the kernel says that the launcher is dead. Then it kills what
 * is left of the job (the tasks have had their parent's death signal already; this finds their descendants and
 * set-user-id tasks, and what the commands that started other hosts had started in turn), removes the segment that the
 * launcher created, says so, and ends. Where the tasks are to survive, it waits until the last of them has ended, and
 * then does the same; who adopts such a job finds the tasks by the guard's table. One of several hosts is waited for by
 * the others, whatever its own tasks do: so the guard gives whoever may adopt it the time that they do, and then ends
 * it. The commands that started other hosts go last then, and not at once: they may be those hosts' agents. A launcher
 * that ends by itself has cleaned up by then and kills the guard; one whose guard was killed starts another.
 *
 * The table is written by the launcher alone and read by the guard only after the launcher's death, which the kernel
 * reports after every store of the dead; so plain stores do (volatile: the compiler shall not put them off). An adopter
 * holds a lock of the table's file, which its death releases; `over` is the one word that it writes.
 */
#include "launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/segment.h>

#include "base/process.h"

#define SWEEP_PAUSE_MS   5
#define ADOPTER_PAUSE_MS 50
#define SWEEP_MAX        6000          /* passes: 30 s, for processes that die slowly */
#define PART_NS          3000000000ull /* for other hosts' agents, to hear of the end and for what their tasks left */

struct table {
    pid_t launcher, session;
    uint32_t num_tasks, num_commands;
    int survive; /* the tasks are to outlive the launcher */
    char job[208], run_id[40];
    struct mu_launch_role part;
    char folder[256];        /* of the launcher's, that goes with it; "": none */
    volatile int has_part;   /* set after it, cleared before */
    volatile int over;       /* an adopter has cleaned up */
    volatile pid_t groups[]; /* of the tasks, then of the commands that start other hosts */
};

static size_t table_size(uint32_t num_tasks, uint32_t num_commands)
{
    return sizeof(struct table) + ((size_t)num_tasks + num_commands) * sizeof(pid_t);
}

static size_t size_of(const struct table *table)
{
    return table_size(table->num_tasks, table->num_commands);
}

struct mu_launch_guard {
    struct table *table;
    size_t table_size;
    int table_fd, launcher_fd;
    sigset_t mask;
    struct rlimit files;
    struct mu_launch_env env;
    pid_t pid;
    int pidfd;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

void mu_launch_remove_folder(const char *path)
{
    const char *last = strrchr(path, '/');

    if (!last || strncmp(last, MU_LAUNCH_MPI_FOLDER, strlen(MU_LAUNCH_MPI_FOLDER)) != 0)
        return; /* not of a launcher's making */
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int mu_launch_remove_segment(const char *job, pid_t creator)
{
    struct muster_segment *segment;
    struct muster_segment_info info;
    int ours = 0;

    if (muster_segment_open(job, &segment) != MUSTER_OK)
        return 0;
    if (muster_segment_info(segment, &info) == MUSTER_OK)
        ours = info.creator_pid == (uint32_t)creator;
    muster_segment_close(segment);
    return ours && muster_segment_remove(job) == MUSTER_OK;
}

/* ---- the launcher's side ---------------------------------------------------------------------------------------- */

static int guard_main(struct mu_launch_guard *guard);

static int start(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure)
{
    /* libc's: it sees to it that the child can allocate memory, whatever our threads are doing */
    pid_t pid = fork();

    guard->pid = 0;
    if (pid == 0)
        _exit(guard_main(guard));
    if (pid < 0) {
        *ret_failure = (struct mu_launch_failure){"fork", errno};
        return -1;
    }
    guard->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (guard->pidfd < 0) {
        *ret_failure = (struct mu_launch_failure){"pidfd_open", errno};
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return -1;
    }
    guard->pid = pid;
    return 0;
}

void mu_launch_guard_reap(struct mu_launch_guard *guard)
{
    siginfo_t info;

    if (!guard->pid)
        return;
    while (waitid(P_PIDFD, (id_t)guard->pidfd, &info, WEXITED) && errno == EINTR)
        ;
    close(guard->pidfd);
    guard->pid = 0;
}

static void release(struct mu_launch_guard *guard)
{
    if (guard->table)
        munmap(guard->table, guard->table_size);
    if (guard->table_fd >= 0)
        close(guard->table_fd);
    if (guard->launcher_fd >= 0)
        close(guard->launcher_fd);
    mu_launch_env_done(&guard->env);
    free(guard);
}

int mu_launch_guard_start(const struct mu_launch_ward *ward, struct mu_launch_guard **ret_guard,
                          struct mu_launch_failure *ret_failure)
{
    struct mu_launch_guard *guard = calloc(1, sizeof *guard);

    *ret_failure = (struct mu_launch_failure){"guard", ENOMEM};
    if (!guard)
        return -1;
    guard->mask = ward->mask;
    guard->files = ward->files;
    guard->table_fd = guard->launcher_fd = -1;
    if (mu_launch_env_init(&guard->env, environ, NULL)) {
        release(guard);
        return -1;
    }
    guard->table_size = table_size(ward->num_tasks, ward->num_commands);
    guard->launcher_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    guard->table_fd = memfd_create("muster-guard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (guard->launcher_fd >= 0 && guard->table_fd >= 0 && ftruncate(guard->table_fd, (off_t)guard->table_size) == 0)
        guard->table = mmap(NULL, guard->table_size, PROT_READ | PROT_WRITE, MAP_SHARED, guard->table_fd, 0);
    if (guard->table && guard->table != MAP_FAILED) /* who adopts the job maps it, too */
        fcntl(guard->table_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (!guard->table || guard->table == MAP_FAILED) {
        ret_failure->error = errno;
        guard->table = NULL;
        release(guard);
        return -1;
    }
    guard->table->launcher = getpid();
    guard->table->session = getsid(0);
    guard->table->num_tasks = ward->num_tasks;
    guard->table->num_commands = ward->num_commands;
    guard->table->survive = ward->survive;
    snprintf(guard->table->job, sizeof guard->table->job, "%s", ward->job);
    snprintf(guard->table->run_id, sizeof guard->table->run_id, "%s", ward->run_id);
    if (start(guard, ret_failure)) {
        release(guard);
        return -1;
    }
    *ret_guard = guard;
    return 0;
}

void mu_launch_guard_task(struct mu_launch_guard *guard, uint32_t task_id, pid_t group)
{
    guard->table->groups[task_id] = group;
}

void mu_launch_guard_command(struct mu_launch_guard *guard, uint32_t host, pid_t group)
{
    guard->table->groups[guard->table->num_tasks + host] = group;
}

void mu_launch_guard_part(struct mu_launch_guard *guard, const struct mu_launch_role *part)
{
    if (!guard)
        return;
    guard->table->has_part = 0;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: the compiler's order alone; our death is between us and
                                                  the reader */
    if (!part)
        return;
    guard->table->part = *part;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: likewise */
    guard->table->has_part = 1;
}

pid_t mu_launch_guard_pid(const struct mu_launch_guard *guard)
{
    return guard->pid;
}

void mu_launch_guard_folder(struct mu_launch_guard *guard, const char *path)
{
    char whole[sizeof guard->table->folder];

    if (!guard)
        return;
    snprintf(whole, sizeof whole, "%s", path ? path : "");
    guard->table->folder[0] = 0;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: half a name is none, where we are killed in it */
    memcpy(guard->table->folder + 1, whole + 1, sizeof whole - 1);
    atomic_signal_fence(memory_order_seq_cst); /* process-local: likewise */
    guard->table->folder[0] = whole[0];
}

int mu_launch_guard_restart(struct mu_launch_guard *guard, struct mu_launch_failure *ret_failure)
{
    return start(guard, ret_failure);
}

void mu_launch_guard_dismiss(struct mu_launch_guard *guard)
{
    if (guard && guard->pid)
        syscall(SYS_pidfd_send_signal, guard->pidfd, SIGKILL, NULL, 0);
}

void mu_launch_guard_free(struct mu_launch_guard *guard)
{
    if (!guard)
        return;
    mu_launch_guard_reap(guard);
    release(guard);
}

/* ---- the guard's side ------------------------------------------------------------------------------------------- */

static void close_all_but(int one, int other)
{
    int low = one < other ? one : other, high = one < other ? other : one;

    if (low > 3)
        close_range(3, (unsigned)low - 1, 0);
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0u, 0);
}

/* What bears the job's mark, or is of the first `num_groups` of the table. */
static struct mu_launch_mark mark_of(const struct table *table, uint32_t num_groups)
{
    return (struct mu_launch_mark){
        .run_id = table->run_id, .session = table->session, .groups = table->groups, .num_groups = num_groups};
}

/* Several passes, because what is found may be making more. */
static void end_all(const struct mu_launch_mark *mark)
{
    for (int pass = 0; pass < SWEEP_MAX && mu_launch_sweep(mark, SIGKILL, NULL, NULL) > 0; pass++)
        poll(NULL, 0, SWEEP_PAUSE_MS);
}

/*
 * The tasks that go on without their launcher: their number; with `wait` sleep until the last of them has ended. One
 * after the other: however many they are, one descriptor will do.
 */
static uint32_t outlive(const struct table *table, int wait)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < table->num_tasks; i++) {
        struct pollfd pfd = {.fd = table->groups[i] ? (int)syscall(SYS_pidfd_open, table->groups[i], 0) : -1,
                             .events = POLLIN};

        if (pfd.fd < 0)
            continue;
        if (mu_launch_bears_mark(table->groups[i], table->run_id)) { /* else the number is somebody else's by now */
            alive++;
            while (wait && poll(&pfd, 1, -1) < 1)
                ;
        }
        close(pfd.fd);
    }
    return alive;
}

/* ---- the lock of who has adopted the job ---- */

static int set_lock(int fd, int type)
{
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* Somebody else has it; asking does not take it, so nobody is refused because of us. */
static int is_held(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static volatile sig_atomic_t told_to_end;

static void on_sigterm(int number)
{
    told_to_end = number;
}

/* One of several hosts: until an adopter has seen to its end, or none has come in time, or SIGTERM says that none will.
 * The job is ours then. */
static void await_adopters(const struct mu_launch_guard *guard)
{
    const struct table *table = guard->table;
    uint64_t until = muster_after_ns(table->part.adopt_ns);

    signal(SIGTERM, on_sigterm);
    while (!table->over && !told_to_end) {
        if (is_held(guard->table_fd))
            until = muster_after_ns(table->part.adopt_ns);
        else if (muster_now_ns() >= until && set_lock(guard->table_fd, F_WRLCK) == 0)
            break;
        poll(NULL, 0, ADOPTER_PAUSE_MS);
    }
}

/* The commands that started other hosts, for so long, or until we are told to end. 0: all have ended. */
static uint32_t await_commands(const struct table *table, uint64_t patience_ns)
{
    uint64_t until = muster_after_ns(patience_ns);
    uint32_t left = 0;

    for (uint32_t i = table->num_tasks; i < table->num_tasks + table->num_commands; i++) {
        pid_t pid = table->groups[i];
        struct pollfd pfd = {.fd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1, .events = POLLIN};
        int lives = pfd.fd >= 0 && getsid(pid) == table->session; /* else the number is somebody else's by now */

        while (lives && poll(&pfd, 1, 0) < 1 && !told_to_end && muster_now_ns() < until)
            poll(&pfd, 1, ADOPTER_PAUSE_MS);
        left += lives && poll(&pfd, 1, 0) < 1;
        if (pfd.fd >= 0)
            close(pfd.fd);
    }
    return left;
}

/*
 * The other hosts' agents have been told of the end by who adopted the job, or find that nobody leads them. Where a
 * command is the agent itself and is killed before that, the guard there waits for an adopter, and tasks go on.
 */
static void part(const struct table *table)
{
    struct mu_launch_mark mark = mark_of(table, table->num_tasks + table->num_commands);

    signal(SIGTERM, on_sigterm);
    if (await_commands(table, PART_NS) > 0) {
        mu_launch_sweep(&mark, SIGTERM, NULL, NULL);
        await_commands(table, table->part.adopt_ns);
    }
    end_all(&mark);
}

static void say(const struct table *table, const char *what)
{
    struct pollfd err = {.fd = 2, .events = POLLOUT};

    if (poll(&err, 1, 0) == 1 && (err.revents & POLLOUT))
        dprintf(2, "muster run: the %s of job %s (pid %d) was killed: its tasks %s\n",
                table->has_part && table->part.node ? "agent" : "launcher", table->job, (int)table->launcher, what);
}

/* Nothing of the launcher's but the table, its pidfd and stderr. */
static void settle(const struct mu_launch_guard *guard)
{
    int null_fd;

    setsid();
    mu_launch_title_set(MU_LAUNCH_GUARD_NAME, guard->table->job);
    environ = guard->env.vars;
    for (int number = 1; number < SIGRTMIN; number++)
        if (number != SIGSEGV && number != SIGBUS && number != SIGILL && number != SIGFPE && number != SIGCHLD)
            signal(number, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
    close_all_but(guard->table_fd, guard->launcher_fd);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null_fd, 0);
    dup2(null_fd, 1);
    close(null_fd);
    setrlimit(RLIMIT_NOFILE, &guard->files);
    if (chdir("/")) /* else it would keep a file system busy: no more than that */
        return;
}

/* The launcher is dead, and the tasks need not end now. 1: what there is to say has been said. */
static int let_survive(const struct mu_launch_guard *guard)
{
    const struct table *table = guard->table;
    char what[400];

    if (!table->survive || (!table->has_part && outlive(table, 0) == 0))
        return 0;
    if (!table->has_part) {
        say(table, "go on; 'muster agent --adopt' takes them over");
        outlive(table, 1);
        while (set_lock(guard->table_fd, F_WRLCK)) /* an adopter cleans up, and may die in it */
            poll(NULL, 0, ADOPTER_PAUSE_MS);
        return 1;
    }
    snprintf(what, sizeof what, "go on for %.6g s, in which 'muster agent --adopt %s' on this host takes them over",
             (double)table->part.adopt_ns / 1e9, table->job);
    say(table, what);
    await_adopters(guard);
    if (!table->over && !told_to_end)
        say(table, "are ended: nobody has adopted it in time");
    return 1;
}

static int guard_main(struct mu_launch_guard *guard)
{
    struct pollfd pfd = {.fd = guard->launcher_fd, .events = POLLIN};
    const struct table *table = guard->table;
    struct mu_launch_mark mark;
    int removed, said, parts;

    settle(guard);
    mprotect(guard->table, guard->table_size, PROT_READ);
    while (poll(&pfd, 1, -1) < 1)
        ;
    said = let_survive(guard);
    parts = table->survive && table->part.adopt_ns; /* the hosts have met */
    mark = mark_of(table, table->num_tasks + (parts ? 0 : table->num_commands));
    end_all(&mark);
    if (table->folder[0])
        mu_launch_remove_folder(table->folder);
    removed = mu_launch_remove_segment(table->job, table->launcher);
    if (!said)
        say(table, removed ? "are ended, its segment is removed" : "are ended");
    if (parts)
        part(table);
    return 0;
}

/* ---- for who adopts the job ------------------------------------------------------------------------------------ */

static struct table *map_table(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    struct table *table;

    if (size < (off_t)sizeof *table)
        return NULL;
    table = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED || (size_t)size != size_of(table))
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
static struct table *table_of(const char *pid, const char *job, pid_t launcher, uint32_t num_tasks, int *ret_fd)
{
    char path[64], name[32];
    struct table *table;
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
    table = map_table(fd);
    if (table && (strcmp(table->job, job) != 0 || table->launcher != launcher ||
                  table->num_tasks != num_tasks)) { /* not of the segment that we have */
        munmap(table, size_of(table));
        table = NULL;
    }
    if (table)
        *ret_fd = fd;
    else
        close(fd);
    return table;
}

int mu_launch_guard_find(const char *job, pid_t launcher, uint32_t num_tasks, struct mu_launch_orphans *ret_orphans)
{
    DIR *dir = opendir("/proc");
    struct table *table = NULL;
    struct dirent *item;

    *ret_orphans = (struct mu_launch_orphans){.fd = -1};
    while (dir && !table && (item = readdir(dir)))
        if (item->d_name[0] >= '0' && item->d_name[0] <= '9' &&
            (table = table_of(item->d_name, job, launcher, num_tasks, &ret_orphans->fd)))
            ret_orphans->launcher_lives = mu_launch_parent((pid_t)strtol(item->d_name, NULL, 10)) == table->launcher;
    if (dir)
        closedir(dir);
    if (!table)
        return -1;
    ret_orphans->adopted = set_lock(ret_orphans->fd, F_WRLCK) != 0;
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
    munmap(table, size_of(table));
    return ret_orphans->pids ? 0 : -1;
}

void mu_launch_guard_over(const struct mu_launch_orphans *orphans)
{
    struct table *table = orphans->fd >= 0 ? map_table(orphans->fd) : NULL;

    if (!table)
        return;
    table->over = 1;
    munmap(table, size_of(table));
}
