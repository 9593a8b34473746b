/*
 * launch/process/spawn.c: new processes.
 *
 * A child is made by clone(CLONE_VM | CLONE_PIDFD): no page table is copied, however large the launcher's mappings are,
 * and the pidfd is had without a race. Until exec it runs in the launcher's memory, on a stack of its own with all
 * signals blocked, and reports a failure by plain stores there.
 *
 * Begun, it runs beside the launcher: what the kernel does for the exec of one overlaps the making of the next, on as
 * many processors as there are. So it makes system calls of its own (raw.h) and nothing else. The kernel clears a word,
 * CLONE_CHILD_CLEARTID, when the child lets go of the memory: by exec, or by its end.
 *
 * Alone, with CLONE_VFORK, the launcher sleeps until then, and the child may search PATH as libc does. That is also how
 * all is tried again that failed beside the launcher: one way alone says what went wrong.
 *
 * A task dies with its launcher: PR_SET_PDEATHSIG, and a look at the parent in case it died before. The kernel ties the
 * death signal to the *thread* that made the child, so tasks are spawned by the launcher's main thread, which lives as
 * long as the process. A set-user-id program clears it at exec: those are the guard's to end.
 */
#include "launch/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/process/raw.h"

#define BEGUN_STACK 16384    /* system calls with arguments of their own take less than a page */
#define LOOK_NS     50000000 /* at a child that takes so long */

/* Of <linux/mempolicy.h>, which is no header of libc's. */
#define PREFERRED      1
#define PREFERRED_MANY 5

/* What the child needs and what it says, in the memory that both see. */
struct child {
    const struct mu_launch_image *image;
    pid_t parent;
    int memory_error;
    const char *file; /* where the search along PATH will end; NULL: not known */
    int alone;
    const char *failed_step;
    int error;
};

/* Of a child that was begun: what it uses until exec. */
struct child_place {
    /* not 0 from begin() until the kernel, having done with the child's stores, clears it; read by
     * mu_launch_await_word() */
    _Atomic uint32_t taken;
    int begun; /* it is somebody's, from begin() to settle(): what the child has said is not read before */
    struct child child;
    char file[PATH_MAX];
    _Alignas(16) char stack[BEGUN_STACK];
};

/* ---- in the child ------------------------------------------------------------------------------------------------ */

/* 0, or a negative errno; so do those below. */
MU_RAW_ON_CHILD_STACK static long set_up_descriptors(const struct mu_launch_image *image)
{
    int moved[3];
    long rc;

    for (int i = 0; i < 3; i++) { /* out of the way first: the sources may themselves be 0, 1 or 2 */
        moved[i] = image->stdio[i];
        if (moved[i] < 0 || moved[i] > 2)
            continue;
        rc = mu_raw(SYS_fcntl, moved[i], F_DUPFD_CLOEXEC, 3, 0);
        if (rc < 0)
            return rc;
        moved[i] = (int)rc;
    }
    for (int i = 0; i < 3; i++)
        if (moved[i] >= 0 && (rc = mu_raw(SYS_dup3, moved[i], i, 0, 0)) < 0)
            return rc;
    for (int i = 0; i < 2; i++)
        if (image->keep[i] >= 0 && (rc = mu_raw(SYS_fcntl, image->keep[i], F_SETFD, 0, 0)) < 0)
            return rc;
    return 0;
}

/*
 * Where new memory is to come from, if there is any: preferred, for a policy that binds kills the task when its nodes
 * are full. Kernels before 5.15 prefer one node, the first of the set. 0, or errno.
 */
MU_RAW_ON_CHILD_STACK static int prefer_memory(const struct mu_launch_image *image)
{
    unsigned long bits = image->nodes_bits + 1; /* the kernel's count begins at 1 */
    long rc = mu_raw(SYS_set_mempolicy, PREFERRED_MANY, image->nodes, bits, 0);

    if (rc == -EINVAL)
        rc = mu_raw(SYS_set_mempolicy, PREFERRED, image->nodes, bits, 0);
    return rc < 0 ? (int)-rc : 0;
}

MU_RAW_ON_CHILD_STACK static long set_up_signals(const sigset_t *defaults)
{
    const long by_default[16] = {0}; /* the kernel's struct sigaction, whatever its form: SIG_DFL, nothing else */
    long rc = 0;

    for (int number = 1; number < SIGRTMIN && rc >= 0; number++)
        if (sigismember(defaults, number) == 1)
            rc = mu_raw(SYS_rt_sigaction, number, by_default, NULL, _NSIG / 8);
    return rc;
}

MU_RAW_ON_CHILD_STACK static long set_up(struct child *child)
{
    const struct mu_launch_image *image = child->image;
    long rc;

#define STEP(name, ...)                                                                                                \
    do {                                                                                                               \
        child->failed_step = name;                                                                                     \
        rc = __VA_ARGS__;                                                                                              \
        if (rc < 0)                                                                                                    \
            return rc;                                                                                                 \
    } while (0)
    STEP("setpgid", mu_raw(SYS_setpgid, 0, 0, 0, 0));
    STEP("prctl", mu_raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0));
    if (mu_raw(SYS_getppid, 0, 0, 0, 0) != child->parent) /* died before that: nobody would tell us */
        mu_raw(SYS_exit_group, 128 + SIGKILL, 0, 0, 0);
    STEP("dup2", set_up_descriptors(image));
    if (image->directory)
        STEP("chdir", mu_raw(SYS_chdir, image->directory, 0, 0, 0));
    STEP("setrlimit", mu_raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &image->files, NULL));
    if (image->cpus) /* before exec: its memory lies near, too */
        STEP("sched_setaffinity", mu_raw(SYS_sched_setaffinity, 0, image->cpus_size, image->cpus, 0));
    if (image->nodes)
        child->memory_error = prefer_memory(image); /* a task that is further from its memory is a task all the same */
    STEP("sigaction", set_up_signals(&image->defaults));
    STEP("sigprocmask", mu_raw(SYS_rt_sigprocmask, SIG_SETMASK, &image->mask, NULL, _NSIG / 8));
    if (image->survives) /* from here on; before, the guard could not tell it from the launcher, and would leave it */
        STEP("prctl", mu_raw(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0));
#undef STEP
    return 0;
}

MU_RAW_ON_CHILD_STACK static int child_main(void *arg)
{
    struct child *child = arg;
    long rc = set_up(child);

    if (rc >= 0) {
        child->failed_step = "exec";
        if (child->file)
            rc = mu_raw(SYS_execve, child->file, child->image->argv, child->image->envp, 0);
        if (child->alone && !child->image->path) { /* also where the file just tried is gone, or has no "#!" */
            execvpe(child->image->argv[0], child->image->argv, child->image->envp);
            rc = -errno;
        }
    }
    child->error = (int)-rc;
    mu_raw(SYS_exit_group, 127, 0, 0, 0);
    return 127;
}

/* ---- where the command is ---------------------------------------------------------------------------------------- */

/*
 * The file that execvpe() will find for `name`; NULL: it must search. A job's tasks are mostly copies of one command,
 * so it is looked for once, as by a shell, and not by failing execs of every task. No entry of PATH before the file has
 * anything that may be executed; relative entries mean another folder after chdir() and end the search. A caller that
 * does not `look` whether the known one is still there must be ready for its not being there.
 */
static const char *program_find(const char *name, int look)
{
    static char known_name[NAME_MAX + 1], known_path[PATH_MAX], file[PATH_MAX];
    const char *path = getenv("PATH");

    if (!path || !*name || strchr(name, '/') || strlen(name) > NAME_MAX || strlen(path) >= sizeof known_path)
        return NULL;
    if (strcmp(name, known_name) == 0 && strcmp(path, known_path) == 0 && (!look || access(file, X_OK) == 0))
        return file;
    known_name[0] = 0;
    for (const char *at = path, *end; *at == '/'; at = end + 1) {
        end = strchrnul(at, ':');
        if (snprintf(file, sizeof file, "%.*s/%s", (int)(end - at), at, name) >= (int)sizeof file)
            return NULL;
        if (access(file, X_OK) == 0) {
            snprintf(known_name, sizeof known_name, "%s", name);
            snprintf(known_path, sizeof known_path, "%s", path);
            return file;
        }
        if (!*end)
            break;
    }
    return NULL;
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

/* Room for execvpe()'s path buffers and, for a script without "#!", its copy of argv. */
static size_t stack_needed(char *const *argv)
{
    size_t count = 0;

    while (argv[count])
        count++;
    return (((count + 2) * sizeof *argv + (128u << 10)) + 0xffff) & ~(size_t)0xffff;
}

static void *new_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* One for all children, kept: none is on it any more when clone() returns. */
static char *stack_alone(size_t size)
{
    static char *stack;
    static size_t stack_size;

    if (stack_size < size) {
        if (stack)
            munmap(stack, stack_size);
        stack = new_memory(size);
        stack_size = stack ? size : 0;
    }
    return stack;
}

/* `word`: cleared when the child lets go of our memory. The pid; -1: errno says why. */
static pid_t child_make(struct child *child, char *stack_end, int flags, int *ret_pidfd, void *word)
{
    sigset_t all, before;
    pid_t pid;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack_end, flags | CLONE_VM | CLONE_PIDFD | SIGCHLD, child, ret_pidfd, NULL, word);
    error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

static int spawn_fail(const char *step, int error, struct mu_launch_failure *ret_failure)
{
    *ret_failure = (struct mu_launch_failure){step, error};
    return -1;
}

static void child_reap(pid_t pid, int pidfd)
{
    siginfo_t info;

    while (waitid(P_PID, (id_t)pid, &info, WEXITED) && errno == EINTR)
        ;
    close(pidfd);
}

int mu_launch_spawn(const struct mu_launch_image *image, pid_t *ret_pid, int *ret_pidfd,
                    struct mu_launch_failure *ret_failure)
{
    struct child child = {.image = image,
                          .parent = getpid(),
                          .file = image->path ? image->path : program_find(image->argv[0], 1),
                          .alone = 1};
    size_t size = stack_needed(image->argv);
    char *stack = stack_alone(size);
    int pidfd = -1;
    pid_t pid;

    if (!stack)
        return spawn_fail("mmap", errno, ret_failure);
    pid = child_make(&child, stack + size, CLONE_VFORK, &pidfd, NULL);
    if (pid < 0)
        return spawn_fail("clone", errno, ret_failure);
    if (child.error) {
        child_reap(pid, pidfd);
        return spawn_fail(child.failed_step, child.error, ret_failure);
    }
    if (image->ret_memory_error)
        *image->ret_memory_error = child.memory_error;
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

/* ---- beside the launcher ----------------------------------------------------------------------------------------- */

/* One that nobody is in; NULL: none is to be had. */
static struct child_place *take_place(void)
{
    static struct child_place *places; /* kept; what is not used is never touched */

    if (!places)
        places = new_memory(MU_LAUNCH_BEGUN_MAX * sizeof *places);
    for (int i = 0; places && i < MU_LAUNCH_BEGUN_MAX; i++)
        if (!places[i].begun)
            return &places[i];
    return NULL;
}

/* The last command that had to be started alone, after all: a script without "#!", say. */
static char vain[NAME_MAX + 1];

int mu_launch_begin(const struct mu_launch_image *image, struct mu_launch_begun *ret_begun,
                    struct mu_launch_failure *ret_failure)
{
    const char *name = image->argv[0];
    const char *file = image->path ? image->path : strchr(name, '/') ? name : program_find(name, 0);
    struct child_place *place =
        MU_RAW_IS_APART && file && strlen(file) < PATH_MAX && strcmp(name, vain) ? take_place() : NULL;

    ret_begun->place = NULL;
    if (!place)
        return mu_launch_spawn(image, &ret_begun->pid, &ret_begun->pidfd, ret_failure);
    memcpy(place->file, file, strlen(file) + 1);
    place->child = (struct child){.image = image, .parent = getpid(), .file = place->file};
    /* relaxed, process-local: the child does not read it, and clone() is a barrier to the kernel */
    atomic_store_explicit(&place->taken, 1, memory_order_relaxed);
    ret_begun->pid =
        child_make(&place->child, place->stack + BEGUN_STACK, CLONE_CHILD_CLEARTID, &ret_begun->pidfd, &place->taken);
    if (ret_begun->pid < 0) /* too many; or a filter of system calls that knows vfork() only */
        return mu_launch_spawn(image, &ret_begun->pid, &ret_begun->pidfd, ret_failure);
    place->begun = 1;
    ret_begun->place = place;
    return 0;
}

/*
 * It may have been stopped before exec, by a process that stops all that it sees: it goes on, for it is in our memory,
 * and we wait for nothing else meanwhile. Or have ended by a signal that dumps core: then kernels before 5.17 leave the
 * word as it is.
 */
void mu_launch_await_word(mu_a32 *word, pid_t pid)
{
    const struct timespec patience = {.tv_nsec = LOOK_NS};

    /* acquire: pairs with the kernel's clearing it, after the child's last store, or with a guard's, is_apart() and
     * guard_program_main() */
    while (mu_load32_acquire(word)) {
        siginfo_t info = {.si_pid = 0};

        if (syscall(SYS_futex, word, FUTEX_WAIT, 1, &patience, NULL, 0) == 0 || errno != ETIMEDOUT)
            continue;
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT)) {
            if (errno == ECHILD)
                return;
            continue;
        }
        if (info.si_pid == 0)
            continue;
        if (info.si_code != CLD_STOPPED)
            return;
        kill(pid, SIGCONT);
    }
}

void mu_launch_await(const struct mu_launch_begun *begun)
{
    if (begun->place)
        mu_launch_await_word(&begun->place->taken, begun->pid);
}

int mu_launch_settle(const struct mu_launch_image *image, struct mu_launch_begun *begun,
                     struct mu_launch_failure *ret_failure)
{
    struct child_place *place = begun->place;
    int rc;

    if (!place)
        return 0;
    begun->place = NULL;
    mu_launch_await_word(&place->taken, begun->pid);
    place->begun = 0;
    if (!place->child.error) {
        if (image->ret_memory_error)
            *image->ret_memory_error = place->child.memory_error;
        return 0;
    }
    child_reap(begun->pid, begun->pidfd);
    rc = mu_launch_spawn(image, &begun->pid, &begun->pidfd, ret_failure);
    if (rc == 0)
        snprintf(vain, sizeof vain, "%s", image->argv[0]);
    return rc;
}
