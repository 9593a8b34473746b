/*
 * launch/spawn.c: one new process.
 *
 * The child is made by clone(CLONE_VM | CLONE_VFORK | CLONE_PIDFD): no page table is copied, however large the
 * launcher's mappings are, the pidfd is had without a race, and the caller goes on only when the child has exec'ed or
 * failed; so the child reports its failure by plain stores into the caller's memory. Until exec it runs on a stack of
 * its own with all signals blocked and makes nothing but system calls (execvpe() keeps its scratch on the stack).
 *
 * A task dies with its launcher: PR_SET_PDEATHSIG, and a look at the parent in case it died before. The kernel ties the
 * death signal to the *thread* that made the child, so tasks are spawned by the launcher's main thread, which lives as
 * long as the process. A set-user-id program clears it at exec: those are the guard's to end.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child's frames are left by exec, never by return: sanitizers must not keep notes about them. */
#define ON_CHILD_STACK __attribute__((no_sanitize_address, no_sanitize_thread))

/* Of <linux/mempolicy.h>, which is no header of libc's. */
#define PREFERRED      1
#define PREFERRED_MANY 5

/* What the child needs and what it says, in the memory that both see. */
struct child {
    const struct mu_launch_image *image;
    pid_t parent;
    int memory_error;
    const char *file; /* where the search along PATH will end; NULL: not known */
    const char *failed_step;
    int error;
};

ON_CHILD_STACK static int set_up_descriptors(const struct mu_launch_image *image)
{
    int moved[3];

    for (int i = 0; i < 3; i++) { /* out of the way first: the sources may themselves be 0, 1 or 2 */
        moved[i] = image->stdio[i];
        if (moved[i] >= 0 && moved[i] < 3 && (moved[i] = fcntl(moved[i], F_DUPFD_CLOEXEC, 3)) < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++)
        if (moved[i] >= 0 && dup2(moved[i], i) < 0)
            return -1;
    for (int i = 0; i < 2; i++)
        if (image->keep[i] >= 0 && fcntl(image->keep[i], F_SETFD, 0))
            return -1;
    return 0;
}

/*
 * Where new memory is to come from, if there is any: preferred, for a policy that binds kills the task when its nodes
 * are full. Kernels before 5.15 prefer one node, the first of the set. 0, or errno.
 */
ON_CHILD_STACK static int prefer_memory(const struct mu_launch_image *image)
{
    unsigned long bits = image->nodes_bits + 1; /* the kernel's count begins at 1 */

    if (syscall(SYS_set_mempolicy, PREFERRED_MANY, image->nodes, bits) == 0)
        return 0;
    if (errno == EINVAL && syscall(SYS_set_mempolicy, PREFERRED, image->nodes, bits) == 0)
        return 0;
    return errno;
}

ON_CHILD_STACK static const char *set_up(struct child *child)
{
    const struct mu_launch_image *image = child->image;
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    if (image->detached) {
        if (setsid() < 0)
            return "setsid";
    } else {
        if (setpgid(0, 0))
            return "setpgid";
        if (!image->survives && prctl(PR_SET_PDEATHSIG, SIGKILL))
            return "prctl";
        if (!image->survives && getppid() != child->parent) /* died before the line above: nobody would tell us */
            _exit(128 + SIGKILL);
    }
    if (set_up_descriptors(image))
        return "dup2";
    if (image->directory && chdir(image->directory))
        return "chdir";
    if (setrlimit(RLIMIT_NOFILE, &image->files))
        return "setrlimit";
    if (image->cpus && sched_setaffinity(0, image->cpus_size, image->cpus)) /* before exec: its memory lies near, too */
        return "sched_setaffinity";
    if (image->nodes)
        child->memory_error = prefer_memory(image); /* a task that is further from its memory is a task all the same */
    for (int number = 1; number < SIGRTMIN; number++)
        if (sigismember(&image->defaults, number) == 1 && sigaction(number, &by_default, NULL))
            return "sigaction";
    return NULL;
}

ON_CHILD_STACK static int child_main(void *arg)
{
    struct child *child = arg;

    child->failed_step = set_up(child);
    if (!child->failed_step) {
        child->failed_step = "sigprocmask";
        if (!sigprocmask(SIG_SETMASK, &child->image->mask, NULL)) {
            child->failed_step = "exec";
            if (child->file)
                execve(child->file, child->image->argv, child->image->envp);
            if (!child->image->path) /* also where the file just tried is not there any more, or has no "#!" */
                execvpe(child->image->argv[0], child->image->argv, child->image->envp);
        }
    }
    child->error = errno;
    _exit(127);
}

/* Room for execvpe()'s path buffers and, for a script without "#!", its copy of argv. */
static size_t stack_needed(char *const *argv)
{
    size_t count = 0;

    while (argv[count])
        count++;
    return (((count + 2) * sizeof *argv + (128u << 10)) + 0xffff) & ~(size_t)0xffff;
}

/*
 * The file that execvpe() will find for `name`; NULL: it must search. A job's tasks are mostly copies of one command,
 * so it is looked for once, as by a shell, and not by failing execs of every task. No entry of PATH before the file has
 * anything that may be executed; relative entries mean another folder after chdir() and end the search.
 */
static const char *find(const char *name)
{
    static char known_name[NAME_MAX + 1], known_path[PATH_MAX], file[PATH_MAX];
    const char *path = getenv("PATH");

    if (!path || !*name || strchr(name, '/') || strlen(name) > NAME_MAX || strlen(path) >= sizeof known_path)
        return NULL;
    if (strcmp(name, known_name) == 0 && strcmp(path, known_path) == 0 && access(file, X_OK) == 0)
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

/* One for all children, kept: none is on it any more when clone() returns. */
static char *child_stack(size_t size)
{
    static char *stack;
    static size_t stack_size;

    if (stack_size < size) {
        if (stack)
            munmap(stack, stack_size);
        stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        stack_size = stack == MAP_FAILED ? 0 : size;
        if (stack == MAP_FAILED)
            stack = NULL;
    }
    return stack;
}

int mu_launch_spawn(const struct mu_launch_image *image, pid_t *ret_pid, int *ret_pidfd,
                    struct mu_launch_failure *ret_failure)
{
    struct child child = {.image = image, .parent = getpid(), .file = image->path ? image->path : find(image->argv[0])};
    size_t size = stack_needed(image->argv);
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, pidfd = -1, error;
    sigset_t all, before;
    pid_t pid;
    char *stack = child_stack(size);

    if (!stack) {
        *ret_failure = (struct mu_launch_failure){"mmap", errno};
        return -1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack + size, flags, &child, &pidfd);
    error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        *ret_failure = (struct mu_launch_failure){"clone", error};
        return -1;
    }
    if (child.error) {
        siginfo_t info;

        *ret_failure = (struct mu_launch_failure){child.failed_step, child.error};
        waitid(P_PID, (id_t)pid, &info, WEXITED);
        close(pidfd);
        return -1;
    }
    if (image->ret_memory_error)
        *image->ret_memory_error = child.memory_error;
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}
