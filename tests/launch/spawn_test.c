/*
 * tests/launch/spawn_test.c: a new process runs where it should; what goes wrong before exec is named.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "launch/launch.h"

extern char **environ;

static struct mu_launch_image image_of(char **argv)
{
    struct mu_launch_image image = {.argv = argv, .envp = environ, .stdio = {-1, -1, -1}, .keep = {-1, -1}};

    sigemptyset(&image.mask);
    sigemptyset(&image.defaults);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &image.files), 0);
    return image;
}

/* The first and the last processor that we may use; the same one on a machine of one. */
static void allowed(int *ret_first, int *ret_last)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    *ret_first = *ret_last = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) {
            *ret_last = cpu;
            if (*ret_first < 0)
                *ret_first = cpu;
        }
}

static void runs_on(int cpu)
{
    char script[128];
    char *argv[] = {"sh", "-c", script, NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    cpu_set_t set;
    pid_t pid;
    int pidfd;

    snprintf(script, sizeof script, "grep -qx 'Cpus_allowed_list:\t%d' /proc/$$/status", cpu);
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    image.cpus = &set;
    image.cpus_size = sizeof set;
    if (mu_launch_spawn(&image, &pid, &pidfd, &failure))
        fail_msg("%s: %s", failure.step, strerror(failure.error));
    assert_int_equal(test_reap(pid), 0);
    close(pidfd);
}

TEST(a_process_starts_on_the_processors_that_it_was_given)
{
    cpu_set_t before, after;
    int first, last;

    allowed(&first, &last);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    runs_on(first);
    runs_on(last);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after)); /* the child shares our memory, not our place */
}

TEST(processors_that_are_not_there_are_refused_by_name_of_the_step)
{
    char *argv[] = {"true", NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    cpu_set_t set;
    pid_t pid;
    int pidfd;

    CPU_ZERO(&set);
    image.cpus = &set;
    image.cpus_size = sizeof set;
    assert_int_equal(mu_launch_spawn(&image, &pid, &pidfd, &failure), -1);
    assert_string_equal(failure.step, "sched_setaffinity");
    assert_int_equal(failure.error, EINVAL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
    assert_int_equal(errno, ECHILD);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* A node that we may have memory from; -1: the kernel knows no nodes. */
static int a_node(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    int node = -1;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Mems_allowed_list: %d", &node) == 1)
            break;
    if (file)
        fclose(file);
    return access("/proc/self/numa_maps", R_OK) == 0 && node < 64 ? node : -1;
}

/* The exit status of a shell that looks at its own memory; *ret_error as the launcher gets it. */
static int prefers(unsigned long nodes, const char *pattern, int *ret_error)
{
    char script[128];
    char *argv[] = {"sh", "-c", script, NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    pid_t pid;
    int pidfd, status;

    snprintf(script, sizeof script, "grep -q ' %s ' /proc/$$/numa_maps", pattern);
    image.nodes = &nodes;
    image.nodes_bits = 64;
    image.ret_memory_error = ret_error;
    *ret_error = -1;
    if (mu_launch_spawn(&image, &pid, &pidfd, &failure))
        fail_msg("%s: %s", failure.step, strerror(failure.error));
    status = test_reap(pid);
    close(pidfd);
    return status;
}

TEST(memory_comes_from_the_nodes_that_were_named_where_the_kernel_lets_it)
{
    char pattern[64];
    int node = a_node(), error, status;

    if (node < 0) {
        print_message("skipped: the kernel knows no memory nodes\n");
        skip();
    }
    snprintf(pattern, sizeof pattern, "prefer\\( (many)\\)\\?:%d", node);
    status = prefers(1ul << node, pattern, &error);
    if (error == EPERM || error == ENOSYS) {
        print_message("skipped: set_mempolicy is forbidden here: %s\n", strerror(error));
        skip();
    }
    assert_int_equal(error, 0);
    assert_int_equal(status, 0);
}

TEST(a_process_runs_though_its_memory_nodes_are_not_there)
{
    int error;

    if (a_node() < 0) {
        print_message("skipped: the kernel knows no memory nodes\n");
        skip();
    }
    assert_int_equal(prefers(1ul << 63, "default", &error), 0);
    assert_true(error == EINVAL || error == EPERM || error == ENOSYS);
}

/* As in a container: a filter of system calls, for good. False: there is none. */
static int set_filter(struct sock_filter *filter, size_t len)
{
    struct sock_fprog program = {.len = (unsigned short)len, .filter = filter};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return 1;
    print_message("skipped: no filter of system calls: %s\n", strerror(errno));
    return 0;
}

/* The call is refused, the process runs all the same. */
static int is_refused_memory(void *arg)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int error;

    (void)arg;
    if (!set_filter(filter, sizeof filter / sizeof *filter))
        return 0;
    CHECK(prefers(1, "default", &error) == 0);
    CHECK(error == EPERM);
    return 0;
}

TEST(a_process_runs_though_its_memory_may_not_be_preferred)
{
    if (a_node() < 0) {
        print_message("skipped: the kernel knows no memory nodes\n");
        skip();
    }
    assert_int_equal(test_in_child(is_refused_memory, NULL), 0);
}

/* ---- where a command is looked for ------------------------------------------------------------------------------ */

static char folders[2][120];

static void put(int folder, const char *text, mode_t mode)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/tool", folders[folder]);
    unlink(path);
    if (!text)
        return;
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The exit status of "tool"; minus the errno when it cannot be run. */
static int tool(void)
{
    char *argv[] = {"tool", NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    pid_t pid;
    int pidfd, status;

    if (mu_launch_spawn(&image, &pid, &pidfd, &failure)) {
        assert_string_equal(failure.step, "exec");
        return -failure.error;
    }
    status = test_reap(pid);
    close(pidfd);
    return status;
}

TEST(a_command_is_found_where_it_is_now)
{
    const char *before = getenv("PATH");
    char path[300];

    assert_non_null(before);
    for (int i = 0; i < 2; i++) {
        snprintf(folders[i], sizeof folders[i], "%s/spawn-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        assert_non_null(mkdtemp(folders[i]));
    }
    snprintf(path, sizeof path, "%s:%s", folders[0], folders[1]);
    setenv("PATH", path, 1);
    assert_int_equal(tool(), -ENOENT);
    put(1, "#!/bin/sh\nexit 5\n", 0700);
    assert_int_equal(tool(), 5);
    put(0, "#!/bin/sh\nexit 6\n", 0600); /* may not be executed */
    assert_int_equal(tool(), 5);
    put(1, NULL, 0);
    assert_int_equal(tool(), -EACCES);
    put(0, "exit 7\n", 0700); /* for the shell */
    assert_int_equal(tool(), 7);
    put(0, "#!/no/such/interpreter\n", 0700);
    put(1, "#!/bin/sh\nexit 8\n", 0700);
    assert_int_equal(tool(), 8); /* as execvpe() goes on after ENOENT */
    snprintf(path, sizeof path, "%s:%s", folders[1], folders[0]);
    put(0, "#!/bin/sh\nexit 9\n", 0700);
    setenv("PATH", path, 1);
    assert_int_equal(tool(), 8);
    assert_int_equal(chdir(folders[0]), 0);
    setenv("PATH", ".", 1);
    assert_int_equal(tool(), 9);
    assert_int_equal(chdir("/"), 0);
    setenv("PATH", before, 1);
    for (int i = 0; i < 2; i++) {
        put(i, NULL, 0);
        assert_int_equal(rmdir(folders[i]), 0);
    }
}

/* ---- several at once -------------------------------------------------------------------------------------------- */

TEST(each_of_many_begun_at_once_is_the_one_that_was_asked_for)
{
    enum { COUNT = 3 * MU_LAUNCH_BEGUN_MAX }; /* more than there are places */
    struct mu_launch_begun begun[COUNT];
    struct mu_launch_image images[COUNT];
    struct mu_launch_failure failure = {"nothing", 0};
    static char scripts[COUNT][24];
    static char *argvs[COUNT][4];

    for (int i = 0; i < COUNT; i++) {
        snprintf(scripts[i], sizeof scripts[i], "exit %d", i + 1);
        argvs[i][0] = "sh";
        argvs[i][1] = "-c";
        argvs[i][2] = scripts[i];
        images[i] = image_of(argvs[i]);
        if (mu_launch_begin(&images[i], &begun[i], &failure))
            fail_msg("%d: %s: %s", i, failure.step, strerror(failure.error));
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(mu_launch_settle(&images[i], &begun[i], &failure), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(test_reap(begun[i].pid), i + 1);
        close(begun[i].pidfd);
    }
}

TEST(what_one_says_is_kept_until_it_is_settled)
{
    char *good[] = {"true", NULL}, *bad[] = {"/no/such/file", NULL};
    struct mu_launch_image images[2] = {image_of(good), image_of(bad)};
    struct mu_launch_begun begun[2];
    struct mu_launch_failure failure = {"nothing", 0};
    siginfo_t info;

    for (int i = 0; i < 2; i++) { /* the first has done with its place when the second is begun */
        assert_int_equal(mu_launch_begin(&images[i], &begun[i], &failure), 0);
        assert_int_equal(waitid(P_PID, (id_t)begun[i].pid, &info, WEXITED | WNOWAIT), 0);
    }
    assert_int_equal(mu_launch_settle(&images[0], &begun[0], &failure), 0);
    assert_int_equal(test_reap(begun[0].pid), 0);
    close(begun[0].pidfd);
    assert_int_equal(mu_launch_settle(&images[1], &begun[1], &failure), -1);
    assert_string_equal(failure.step, "exec");
    assert_int_equal(failure.error, ENOENT);
}

TEST(what_fails_beside_us_is_named_and_leaves_our_errno_alone)
{
    char *argv[] = {"true", NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    struct mu_launch_begun begun;
    siginfo_t info;

    image.directory = "/no/such/folder";
    assert_int_equal(mu_launch_begin(&image, &begun, &failure), 0);
    errno = 0;
    assert_int_equal(waitid(P_PID, (id_t)begun.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(errno, 0);
    assert_int_equal(info.si_status, 127);
    assert_int_equal(mu_launch_settle(&image, &begun, &failure), -1);
    assert_string_equal(failure.step, "chdir");
    assert_int_equal(failure.error, ENOENT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
    assert_int_equal(errno, ECHILD);
}

TEST(a_script_that_only_a_shell_can_run_is_run)
{
    char path[200], *argv[] = {path, NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    struct mu_launch_begun begun;
    FILE *file;

    snprintf(path, sizeof path, "%s/spawn-script-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("exit 7\n", file); /* no "#!" */
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    for (int i = 0; i < 2; i++) { /* the second time it is known */
        assert_int_equal(mu_launch_begin(&image, &begun, &failure), 0);
        assert_int_equal(mu_launch_settle(&image, &begun, &failure), 0);
        assert_int_equal(test_reap(begun.pid), 7);
        close(begun.pidfd);
    }
    assert_int_equal(unlink(path), 0);
}

/* 0, or what went wrong: `true` is begun, settled and ends as it should. */
static int begin_and_settle(int expected, int stop)
{
    char *argv[] = {"true", NULL};
    struct mu_launch_image image = image_of(argv);
    struct mu_launch_failure failure = {"nothing", 0};
    struct mu_launch_begun begun;

    CHECK(!mu_launch_begin(&image, &begun, &failure));
    if (stop)
        CHECK(!kill(begun.pid, SIGSTOP));
    CHECK(!mu_launch_settle(&image, &begun, &failure));
    if (stop)
        CHECK(!kill(begun.pid, SIGCONT)); /* it may have been stopped behind its exec */
    CHECK(test_reap(begun.pid) == expected);
    CHECK(!close(begun.pidfd));
    return 0;
}

TEST(who_is_stopped_on_its_way_to_exec_does_not_stop_us)
{
    alarm(60);
    for (int i = 0; i < 5; i++)
        assert_int_equal(begin_and_settle(0, 1), 0);
    alarm(0);
}

static int is_killed(void *arg)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct rlimit no_core = {0, 0};

    (void)arg;
    CHECK(!setrlimit(RLIMIT_CORE, &no_core));
    return set_filter(filter, sizeof filter / sizeof *filter) ? begin_and_settle(1000 + SIGSYS, 0) : 0;
}

TEST(who_is_killed_on_its_way_to_exec_is_reaped_as_such)
{
    assert_int_equal(test_in_child(is_killed, NULL), 0);
}

static int may_only_vfork(void *arg)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)), /* the low half of the flags */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VFORK, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    (void)arg;
    return set_filter(filter, sizeof filter / sizeof *filter) ? begin_and_settle(0, 0) : 0;
}

TEST(where_only_vfork_is_allowed_processes_start_alone)
{
    assert_int_equal(test_in_child(may_only_vfork, NULL), 0);
}

static void make(const char *folder, const char *name, const char *target)
{
    char path[200];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (target) {
        assert_int_equal(symlink(target, path), 0);
        return;
    }
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* The guard reads its name where a killed process may have left half of it; and tasks write what they like into it. */
TEST(a_folder_is_removed_that_is_mpis_and_nothing_beside_it)
{
    char outer[] = "/tmp/muster-test-XXXXXX", inner[80], file[80];

    assert_non_null(mkdtemp(outer));
    snprintf(file, sizeof file, "%s/file", outer);
    snprintf(inner, sizeof inner, "%s" MU_LAUNCH_MPI_FOLDER "1", outer);
    make(outer, "file", NULL);
    assert_int_equal(mkdir(inner, 0700), 0);
    make(inner, "file", NULL);
    make(inner, "link", outer);
    make(inner, "nowhere", "/nowhere");
    mu_launch_remove_folder("");
    mu_launch_remove_folder(outer);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(access(inner, F_OK), 0);
    mu_launch_remove_folder(inner);
    assert_int_equal(access(inner, F_OK), -1);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(outer), 0);
}
