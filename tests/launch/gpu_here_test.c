/*
 * tests/launch/gpu_here_test.c: what processes were really told of their GPUs, and where their memory comes from, by
 * the kernel's word; and the GPUs that other jobs' tasks have been given. The GPUs are made up, the processes are real.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "gpu_machines.h"
#include "launch/binding/bind_private.h"
#include "launch/launch.h"
#include "launch/process/raw.h"

/* `cat`, which lives until its stdin is closed. */
struct cat {
    pid_t pid;
    int pidfd, input, memory_error;
};

static struct cat start(const struct mu_launch_place *place, char **env)
{
    char *argv[] = {"/bin/cat", NULL};
    struct mu_launch_image image = {.argv = argv, .envp = env, .stdio = {-1, -1, -1}, .keep = {-1, -1}};
    struct mu_launch_failure failure;
    struct cat cat;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    sigemptyset(&image.mask);
    sigemptyset(&image.defaults);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &image.files), 0);
    image.stdio[0] = ends[0];
    image.nodes = place ? (const unsigned long *)place->memory : NULL;
    image.nodes_bits = place ? place->memory_size * 8 : 0;
    image.ret_memory_error = &cat.memory_error;
    if (mu_launch_spawn(&image, &cat.pid, &cat.pidfd, &failure))
        fail_msg("%s: %s", failure.step, strerror(failure.error));
    close(ends[0]);
    cat.input = ends[1];
    return cat;
}

static void stop(const struct cat *cat)
{
    close(cat->input);
    assert_int_equal(test_reap(cat->pid), 0);
    close(cat->pidfd);
}

/* ---- what a task was told ---------------------------------------------------------------------------------------- */

static const struct {
    char *env[4];
    enum mu_launch_verdict verdict;
    const char *actual;
} told[] = {
    {{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "MUSTER_GPUS=GPU-b"}, MU_LAUNCH_HOLDS, ""},
    {{"A=b", "MUSTER_GPUS=GPU-b", "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"}, MU_LAUNCH_HOLDS, ""},
    {{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-", "MUSTER_GPUS=GPU-b"}, MU_LAUNCH_DIFFERS, "CUDA_VISIBLE_DEVICES=GPU-a,GPU-"},
    {{"CUDA_VISIBLE_DEVICES_=GPU-a,GPU-b", "MUSTER_GPUS=GPU-b"}, MU_LAUNCH_DIFFERS, "CUDA_VISIBLE_DEVICES="},
    {{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "MUSTER_GPUS=3"}, MU_LAUNCH_DIFFERS, "MUSTER_GPUS=3"},
};

TEST(what_a_process_was_told_is_read_from_the_process)
{
    char *wanted[] = {"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "MUSTER_GPUS=GPU-b", NULL};
    struct mu_launch_place place = {.env = wanted};

    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        char *env[5] = {NULL}, actual[160] = "";
        struct cat cat;

        memcpy(env, told[i].env, sizeof told[i].env);
        cat = start(NULL, env);
        assert_int_equal(mu_launch_gpu_verify(cat.pid, &place, actual, sizeof actual), told[i].verdict);
        assert_string_equal(actual, told[i].actual);
        stop(&cat);
        assert_int_equal(mu_launch_gpu_verify(cat.pid, &place, actual, sizeof actual), MU_LAUNCH_GONE);
    }
}

/* As between clone and the end of exec: in our memory, and with our environment in /proc. */
struct early {
    char *env[2];
    _Alignas(16) char stack[16384];
};

MU_RAW_ON_CHILD_STACK static int come_late(void *arg)
{
    struct early *early = arg;
    struct timespec moment = {.tv_nsec = 50000000};
    char *argv[] = {"/bin/sleep", "1000", NULL}; /* sleep: until it is killed */

    mu_raw(SYS_nanosleep, &moment, NULL, 0, 0); /* sleep: it is looked at before its exec */
    mu_raw(SYS_execve, argv[0], argv, early->env, 0);
    mu_raw(SYS_exit_group, 127, 0, 0, 0);
    return 127;
}

TEST(a_process_that_is_in_our_memory_still_is_not_taken_for_us)
{
    char *wanted[] = {"MUSTER_GPUS=GPU-b", NULL}, actual[160] = "";
    struct mu_launch_place place = {.env = wanted};
    static struct early early = {.env = {"MUSTER_GPUS=GPU-b", NULL}};
    pid_t pid;

    if (!MU_RAW_IS_APART) {
        print_message("skipped: no system calls of our own on this machine\n");
        skip();
    }
    pid = clone(come_late, early.stack + sizeof early.stack, CLONE_VM | SIGCHLD, &early);
    assert_true(pid > 0);
    assert_int_equal(mu_launch_gpu_verify(pid, &place, actual, sizeof actual), MU_LAUNCH_HOLDS);
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
}

/* A node that we may have memory from; -1: none that we can tell of. */
static int a_node(void)
{
    char *list = access("/proc/self/numa_maps", R_OK) == 0 ? mu_cpus_nodes_of("/proc/self/status") : NULL;
    int node = list && *list ? (int)strtol(list, NULL, 10) : -1;

    free(list);
    return node;
}

TEST(the_policy_of_a_processs_memory_is_read_from_the_process)
{
    static char *nothing[] = {NULL};
    struct mu_launch_place place = {.env = nothing, .memory_size = 128}, other = {.env = nothing};
    char list[16], actual[160] = "";
    int node = a_node();
    struct cat cat;

    if (node < 0 || node >= 1024) {
        print_message("skipped: the kernel shows no policies here\n");
        skip();
    }
    snprintf(list, sizeof list, "%d", node);
    place.memory = mu_cpus_new(128);
    assert_non_null(place.memory);
    CPU_SET_S((size_t)node, 128, place.memory);
    place.memory_list = list;
    other.memory_list = "1023";
    cat = start(&place, nothing);
    if (cat.memory_error) {
        print_message("set_mempolicy is forbidden here: %s\n", strerror(cat.memory_error));
        assert_true(cat.memory_error == EPERM || cat.memory_error == ENOSYS);
        assert_int_equal(mu_launch_gpu_verify(cat.pid, &place, actual, sizeof actual), MU_LAUNCH_DIFFERS);
        assert_string_equal(actual, "memory: default");
    } else {
        assert_int_equal(mu_launch_gpu_verify(cat.pid, &place, actual, sizeof actual), MU_LAUNCH_HOLDS);
        assert_int_equal(mu_launch_gpu_verify(cat.pid, &other, actual, sizeof actual), MU_LAUNCH_DIFFERS);
        assert_non_null(strstr(actual, "memory: prefer"));
    }
    stop(&cat);
    cat = start(NULL, nothing);
    assert_int_equal(mu_launch_gpu_verify(cat.pid, &place, actual, sizeof actual), MU_LAUNCH_DIFFERS);
    assert_string_equal(actual, "memory: default");
    stop(&cat);
    CPU_FREE(place.memory);
}

/* ---- other jobs -------------------------------------------------------------------------------------------------- */

#define MINE "GPU-00000003-aaaa-bbbb-cccc-dddddddddddd"

static struct mu_launch_plan *plan_of_all(const struct mu_launch_gpus *gpus)
{
    struct mu_launch_binding binding = {.to_gpus = 1};
    struct mu_launch_machine *machine = test_machine(&test_pairs);
    struct mu_launch_plan *plan = NULL;
    char why[400];

    if (mu_launch_gpu_plan_make(&binding, 4, &machine, gpus, &plan, why, sizeof why))
        fail_msg("%s", why);
    mu_launch_machine_free(machine);
    return plan;
}

/* How many of the notes are this one; others run tests with the same GPUs at the same time. */
static unsigned count_notes(const struct mu_launch_plan *plan, const char *run_id, const char *job, char *last)
{
    struct mu_launch_notes notes = {.count = 0};
    unsigned count = 0;

    mu_launch_gpu_users(plan, run_id, &notes);
    assert_true(notes.count < MU_LAUNCH_NOTES);
    for (unsigned i = 0; i < notes.count; i++)
        if (strstr(notes.text[i], job)) {
            memcpy(last, notes.text[i], sizeof notes.text[i]);
            count++;
        }
    return count;
}

TEST(gpus_that_tasks_of_other_jobs_have_been_given_are_named)
{
    struct mu_launch_gpus *gpus = test_gpus(&test_pairs, NULL);
    struct mu_launch_plan *plan = plan_of_all(gpus);
    char run[64], job[64], note[sizeof((struct mu_launch_notes *)0)->text[0]], expected[320];
    char *theirs[] = {run, job, "MUSTER_TASK_ID=5", "MUSTER_GPUS=GPU-x," MINE, NULL};
    char *others[] = {run, job, "MUSTER_TASK_ID=5", "MUSTER_GPUS=" MINE "0,GPU-x", NULL};
    const char *name = job + strlen("MUSTER_JOB=");
    struct cat cat;

    snprintf(run, sizeof run, "MUSTER_RUN_ID=test%d", (int)getpid());
    snprintf(job, sizeof job, "MUSTER_JOB=gpus-of-%d", (int)getpid());
    cat = start(NULL, others);
    assert_int_equal(count_notes(plan, NULL, name, note), 0);
    stop(&cat);
    cat = start(NULL, theirs);
    assert_int_equal(count_notes(plan, strchr(run, '=') + 1, name, note), 0); /* of the job that we are a task of */
    assert_int_equal(count_notes(plan, "another", name, note), 1);
    snprintf(expected, sizeof expected,
             "GPU " MINE " (0000:13:00.0) has been given to task 5 of job %s (pid %d) as well", name, (int)cat.pid);
    assert_string_equal(note, expected);
    stop(&cat);
    mu_launch_plan_free(plan);
    mu_launch_gpus_free(gpus);
}
