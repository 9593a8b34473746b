/*
 * launch/guard/watch.c: the guard's side: what is done when the launcher has been killed.
 *
 * It kills what is left of the job (the tasks have had their parent's death signal already; this finds their
 * descendants and set-user-id tasks, and what the commands that started other hosts had started in turn), removes the
 * segment and the sockets that the launcher made, says so, and ends. Where the tasks are to survive, it waits until the
 * last of them has ended, and then does the same; an agent that adopts such a job finds the tasks by the guard's table.
 * In a job of several hosts the others wait for this one, whatever its own tasks do: so the guard gives an adopter the
 * time that they do, and then ends it. The commands that started other hosts go last then, and not at once: they may be
 * those hosts' agents.
 */
#include "launch/guard/guard.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "segment/file.h"

#define SWEEP_PAUSE_MS   5
#define ADOPTER_PAUSE_MS 50
#define SWEEP_MAX        6000          /* passes: 30 s, for processes that die slowly */
#define PART_NS          3000000000ull /* for other hosts' agents, to hear of the end and for what their tasks left */

/* And what a link to one of MPICH's files names (agent/mpi/folder.c): nothing else. */
static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    static const char goes[] = "/dev/shm/mpich_";
    char target[128];
    ssize_t len = kind == FTW_SL ? readlink(path, target, sizeof target - 1) : -1;

    (void)st;
    (void)place;
    if (len > 0) {
        target[len] = 0;
        if (strncmp(target, goes, sizeof goes - 1) == 0 && !strchr(target + sizeof goes - 1, '/'))
            unlink(target);
    }
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

/* Where the launcher left its directory nameless, only sockets with a whole path are found. */
static void remove_sockets(const struct mu_guard_table *table)
{
    int moved = table->directory[0] == '/' && chdir(table->directory) == 0;

    for (int i = 0; i < MU_LAUNCH_SOCKETS; i++) {
        const struct mu_guard_socket *at = &table->sockets[i];

        if (at->path[0] == '/' || (at->path[0] && moved))
            mu_unix_remove(at->path, at->device, at->file);
    }
    if (moved && chdir("/")) /* else it would keep a file system busy: no more than that */
        return;
}

/* ---- the job's end ---------------------------------------------------------------------------------------------- */

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
static struct mu_launch_mark mark_of(const struct mu_guard_table *table, uint32_t num_groups)
{
    return (struct mu_launch_mark){
        .run_id = table->run_id, .session = table->session, .groups = table->groups, .num_groups = num_groups};
}

static void end_all(const struct mu_launch_mark *mark)
{
    mu_launch_sweep_out(mark, SWEEP_MAX, SWEEP_PAUSE_MS);
}

/*
 * The tasks that go on without their launcher: their number; with `wait` sleep until the last of them has ended. One
 * after the other: however many they are, one descriptor will do.
 */
static uint32_t tasks_outlive(const struct mu_guard_table *table, int wait)
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

/* ---- an adopter of the job ---- */

/* Somebody else has it; asking does not take it, so nobody is refused because of us. */
static bool is_held(int fd)
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
static void await_adopters(const struct mu_guard_table *table, int table_fd)
{
    uint64_t until = muster_after_ns(table->part.adopt_ns);

    signal(SIGTERM, on_sigterm);
    while (!table->over && !told_to_end) {
        if (is_held(table_fd))
            until = muster_after_ns(table->part.adopt_ns);
        else if (muster_now_ns() >= until && mu_guard_lock(table_fd, F_WRLCK) == 0)
            break;
        poll(NULL, 0, ADOPTER_PAUSE_MS);
    }
}

/* The commands that started other hosts, for so long, or until we are told to end. 0: all have ended. */
static uint32_t await_commands(const struct mu_guard_table *table, uint64_t patience_ns)
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
 * The other hosts' agents have been told of the end by the adopter, or find that nobody leads them. Where a
 * command is the agent itself and is killed before that, the guard there waits for an adopter, and tasks go on.
 */
static void hosts_part(const struct mu_guard_table *table)
{
    struct mu_launch_mark mark = mark_of(table, table->num_tasks + table->num_commands);

    signal(SIGTERM, on_sigterm);
    if (await_commands(table, PART_NS) > 0) {
        mu_launch_sweep(&mark, SIGTERM, NULL, NULL);
        await_commands(table, table->part.adopt_ns);
    }
    end_all(&mark);
}

static void guard_say(const struct mu_guard_table *table, const char *what)
{
    struct pollfd err = {.fd = 2, .events = POLLOUT};

    if (poll(&err, 1, 0) == 1 && (err.revents & POLLOUT))
        dprintf(2, "muster run: the %s of job %s (pid %d) was killed: its tasks %s\n",
                table->has_part && table->part.node ? "agent" : "launcher", table->job, (int)table->launcher, what);
}

/* What the launcher told to be done with signals is not for us. */
static void settle_signals(const struct mu_guard_table *table)
{
    for (int number = 1; number < SIGRTMIN; number++)
        if (number != SIGSEGV && number != SIGBUS && number != SIGILL && number != SIGFPE && number != SIGCHLD)
            signal(number, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &table->mask, NULL);
}

static void is_apart(struct mu_guard_table *table)
{
    mu_store32_release(&table->beside_us, 0); /* release: pairs with mu_launch_await_word() */
    syscall(SYS_futex, &table->beside_us, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Nothing of the launcher's but the table, its pidfd and stderr. */
static void settle_forked(struct mu_guard_table *table, int table_fd, int launcher_fd, char **environment)
{
    int null_fd;

    setsid();
    is_apart(table);
    mu_launch_title_set(MU_LAUNCH_GUARD_NAME, table->job);
    environ = environment;
    settle_signals(table);
    close_all_but(table_fd, launcher_fd);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null_fd, 0);
    dup2(null_fd, 1);
    close(null_fd);
    setrlimit(RLIMIT_NOFILE, &table->files);
    if (chdir("/")) /* else it would keep a file system busy: no more than that */
        return;
}

/* The launcher is dead, and the tasks need not end now. 1: what there is to say has been said. */
static int let_survive(const struct mu_guard_table *table, int table_fd)
{
    char what[400];

    if (!table->survive || (!table->has_part && tasks_outlive(table, 0) == 0))
        return 0;
    if (!table->has_part) {
        guard_say(table, "go on; 'muster agent --adopt' takes them over");
        tasks_outlive(table, 1);
        while (mu_guard_lock(table_fd, F_WRLCK)) /* an adopter cleans up, and may die in it */
            poll(NULL, 0, ADOPTER_PAUSE_MS);
        return 1;
    }
    snprintf(what, sizeof what, "go on for %.6g s, in which 'muster agent --adopt %s' on this host takes them over",
             (double)table->part.adopt_ns / 1e9, table->job);
    guard_say(table, what);
    await_adopters(table, table_fd);
    if (!table->over && !told_to_end)
        guard_say(table, "are ended: nobody has adopted it in time");
    return 1;
}

static int launcher_watch(const struct mu_guard_table *table, int table_fd, int launcher_fd)
{
    struct pollfd pfd = {.fd = launcher_fd, .events = POLLIN};
    struct mu_launch_mark mark;
    int removed, said, parts;

    while (poll(&pfd, 1, -1) < 1)
        ;
    said = let_survive(table, table_fd);
    parts = table->survive && table->part.adopt_ns; /* the hosts have met */
    mark = mark_of(table, table->num_tasks + (parts ? 0 : table->num_commands));
    end_all(&mark);
    if (table->folder[0])
        mu_launch_remove_folder(table->folder);
    remove_sockets(table);
    mu_checkpoint_remove(table->run_id);
    removed = table->file && mu_segment_remove_exactly(table->job, table->device, table->file);
    if (!said)
        guard_say(table, removed ? "are ended, its segment is removed" : "are ended");
    if (parts)
        hosts_part(table);
    return 0;
}

int mu_guard_forked(struct mu_guard_table *table, int table_fd, int launcher_fd, char **environment)
{
    settle_forked(table, table_fd, launcher_fd, environment);
    mprotect(table, mu_guard_table_size(table->num_tasks, table->num_commands), PROT_READ);
    return launcher_watch(table, table_fd, launcher_fd);
}

int mu_launch_guard_main(void)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int has = fcntl(MU_GUARD_TABLE_FD, F_GET_SEALS); /* -1; or one more, by vm.memfd_noexec */
    struct mu_guard_table *table = has >= 0 && (has & seals) == seals ? mu_guard_map(MU_GUARD_TABLE_FD) : NULL;

    if (!table || fcntl(MU_GUARD_LAUNCHER_FD, F_GETFD) < 0) {
        fprintf(stderr, "%s: this is started by 'muster run' and 'muster agent', for themselves alone\n",
                MU_LAUNCH_GUARD_NAME);
        return 2;
    }
    prctl(PR_SET_NAME, MU_LAUNCH_GUARD_NAME);
    settle_signals(table);
    close(MU_GUARD_EXE_FD);
    mprotect(table, mu_guard_table_size(table->num_tasks, table->num_commands), PROT_READ);
    return launcher_watch(table, MU_GUARD_TABLE_FD, MU_GUARD_LAUNCHER_FD);
}
