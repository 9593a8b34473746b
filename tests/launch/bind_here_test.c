/*
 * tests/launch/bind_here_test.c: binding on this machine: plans that hold, the kernel's word, the table, hwloc itself.
 *
 * It passes on a machine of any shape, also of one processor, where what needs two is skipped and says so.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "launch/binding/bind_private.h"
#include "launch/launch.h"

extern char **environ;

/* ---- a real child ------------------------------------------------------------------------------------------------ */

/* `cat`, which lives until its stdin is closed. */
struct cat {
    pid_t pid;
    int pidfd, input;
};

static struct cat start(const struct mu_launch_place *place)
{
    char *argv[] = {"cat", NULL};
    struct mu_launch_image image = {.argv = argv, .envp = environ, .stdio = {-1, -1, -1}, .keep = {-1, -1}};
    struct mu_launch_failure failure;
    struct cat cat;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    sigemptyset(&image.mask);
    sigemptyset(&image.defaults);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &image.files), 0);
    image.stdio[0] = ends[0];
    image.cpus = place->bound ? place->cpus : NULL;
    image.cpus_size = place->cpus_size;
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

static struct mu_launch_plan *plan_of(const char *bind_to, uint32_t num_tasks, struct mu_launch_machine **machine)
{
    struct mu_launch_binding binding;
    struct mu_launch_plan *plan;
    char why[200];

    if (mu_launch_binding_parse(bind_to, NULL, &binding, why, sizeof why) ||
        mu_launch_plan_make(&binding, num_tasks, machine, &plan, why, sizeof why))
        fail_msg("%s", why);
    return plan;
}

/* ---- plans and the kernel ---------------------------------------------------------------------------------------- */

TEST(every_task_runs_where_its_place_is)
{
    static const char *const kinds[] = {"core", "hwthread", "numa", "package"};
    struct mu_launch_machine *machine = NULL;
    char why[200], actual[64];

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        struct mu_launch_plan *plan;
        uint32_t count;

        if (mu_launch_count(kinds[kind], &machine, NULL, &count, why, sizeof why))
            fail_msg("%s", why);
        plan = plan_of(kinds[kind], count, &machine);
        assert_false(plan->oversubscribed);
        assert_null(plan->foreign);
        for (uint32_t i = 0; i < count && i < 64; i++) {
            const struct mu_launch_place *place = mu_launch_plan_place(plan, i);
            struct cat cat = start(place);

            assert_true(place->bound);
            assert_int_equal(mu_launch_verify(cat.pid, place, actual, sizeof actual), MU_LAUNCH_HOLDS);
            assert_string_equal(actual, place->list);
            stop(&cat);
        }
        mu_launch_plan_free(plan);
    }
    mu_launch_machine_free(machine);
}

TEST(without_binding_hwloc_is_not_asked_and_the_task_may_use_what_we_may)
{
    struct mu_launch_machine *machine = NULL;
    struct mu_launch_plan *plan = plan_of("none", 3, &machine);
    const struct mu_launch_place *place = mu_launch_plan_place(plan, 2);
    struct cat cat = start(place);
    char actual[64];

    assert_null(machine);
    assert_false(place->bound);
    assert_string_equal(place->where, "not bound");
    assert_int_equal(mu_launch_verify(cat.pid, place, actual, sizeof actual), MU_LAUNCH_HOLDS);
    stop(&cat);
    mu_launch_plan_free(plan);
}

/* On which processors two threads can differ: 0 when there is but one. */
static int two_processors(cpu_set_t *all, cpu_set_t *one)
{
    size_t cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof *all, all), 0);
    while (!CPU_ISSET(cpu, all))
        cpu++;
    CPU_ZERO(one);
    CPU_SET(cpu, one);
    return CPU_COUNT(all) > 1;
}

TEST(a_task_that_is_moved_is_found_out)
{
    struct mu_launch_plan *plan = plan_of("core", 1, NULL);
    const struct mu_launch_place *place = mu_launch_plan_place(plan, 0);
    cpu_set_t all, one;
    char actual[64];
    struct cat cat;

    if (!two_processors(&all, &one) || CPU_COUNT_S(place->cpus_size, place->cpus) == CPU_COUNT(&all)) {
        print_message("not tried: it needs two processors, and a place smaller than all of them\n");
        mu_launch_plan_free(plan);
        skip();
    }
    cat = start(place);
    assert_int_equal(sched_setaffinity(cat.pid, sizeof all, &all), 0);
    assert_int_equal(mu_launch_verify(cat.pid, place, actual, sizeof actual), MU_LAUNCH_DIFFERS);
    assert_string_not_equal(actual, place->list);
    assert_int_equal(sched_setaffinity(cat.pid, place->cpus_size, place->cpus), 0);
    assert_int_equal(mu_launch_verify(cat.pid, place, actual, sizeof actual), MU_LAUNCH_HOLDS);
    stop(&cat);
    assert_int_equal(mu_launch_verify(cat.pid, place, actual, sizeof actual), MU_LAUNCH_GONE);
    assert_string_equal(actual, "");
    mu_launch_plan_free(plan);
}

static void *thread_on_one(void *arg)
{
    struct test_gate *gate = arg;
    cpu_set_t all, one;

    two_processors(&all, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0); /* of this thread alone */
    test_gate_arrive(gate);
    test_gate_pass(gate);
    return NULL;
}

static int has_a_thread_elsewhere(void *arg)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, thread_on_one, arg) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

TEST(one_thread_elsewhere_is_found_out)
{
    struct mu_launch_plan *plan = plan_of("none", 1, NULL);
    struct test_gate gate;
    cpu_set_t all, one;
    char actual[64], *list;
    pid_t pid;

    if (!two_processors(&all, &one)) {
        print_message("not tried: it needs two processors, and a place smaller than all of them\n");
        mu_launch_plan_free(plan);
        skip();
    }
    assert_int_equal(test_gate_open(&gate), 0);
    pid = test_fork(has_a_thread_elsewhere, &gate);
    test_gate_await(&gate);
    assert_int_equal(mu_launch_verify(pid, mu_launch_plan_place(plan, 0), actual, sizeof actual), MU_LAUNCH_DIFFERS);
    list = mu_cpus_list(&one, sizeof one);
    assert_string_equal(actual, list);
    free(list);
    test_gate_release(&gate);
    assert_int_equal(test_reap(pid), 0);
    test_gate_close(&gate);
    mu_launch_plan_free(plan);
}

static int uses_one_processor(void *arg)
{
    struct mu_launch_machine *machine = NULL;
    struct mu_launch_plan *plan;
    uint32_t count;
    cpu_set_t all, one;
    char why[200], *list;

    (void)arg;
    two_processors(&all, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    list = mu_cpus_list(&one, sizeof one);
    CHECK(mu_launch_count("core", &machine, NULL, &count, why, sizeof why) == 0 && count == 1);
    CHECK(mu_launch_count("hwthread", &machine, NULL, &count, why, sizeof why) == 0 && count == 1);
    plan = plan_of("package", 1, &machine);
    CHECK(strcmp(mu_launch_plan_place(plan, 0)->list, list) == 0);
    mu_launch_plan_free(plan);
    plan = plan_of("core", 2, &machine);
    CHECK(plan->oversubscribed && !mu_launch_plan_place(plan, 1)->bound);
    CHECK(strcmp(mu_launch_plan_place(plan, 1)->list, list) == 0);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    free(list);
    return 0;
}

TEST(what_the_launcher_may_not_use_is_no_place)
{
    assert_int_equal(test_in_child(uses_one_processor, NULL), 0);
}

/* ---- hwloc ------------------------------------------------------------------------------------------------------- */

static int sees_another_machine(void *arg)
{
    struct mu_launch_machine *machine = NULL;
    struct mu_launch_plan *plan;
    uint32_t count;
    char **before, why[200];
    cpu_set_t all;

    (void)arg;
    CHECK(setenv("HWLOC_SYNTHETIC", "package:2 core:600 pu:1", 1) == 0);
    before = environ;
    CHECK(mu_launch_count("core", &machine, NULL, &count, why, sizeof why) == 0 && count == 1200);
    CHECK(environ == before && !getenv("HWLOC_PLUGINS_PATH"));
    plan = plan_of("package", 2, &machine);
    CHECK(plan->foreign && strcmp(plan->foreign, "HWLOC_SYNTHETIC") == 0);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    machine = NULL;
    CHECK(setenv("HWLOC_THISSYSTEM", "1", 1) == 0); /* now it is taken for this one: less what we may not use */
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CHECK(mu_launch_count("core", &machine, NULL, &count, why, sizeof why) == 0 && (int)count == CPU_COUNT(&all));
    plan = plan_of("package", 1, &machine);
    CHECK(!plan->foreign);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    return 0;
}

TEST(a_machine_from_the_environment_is_foreign)
{
    assert_int_equal(test_in_child(sees_another_machine, NULL), 0);
}

static void says(const struct mu_launch_source *source, const char *expected)
{
    struct mu_launch_machine *machine = NULL;
    char why[300] = "";

    assert_int_equal(mu_launch_machine_load(source, &machine, why, sizeof why), -1);
    assert_null(machine);
    if (!strstr(why, expected) || strchr(why, '\n'))
        fail_msg("'%s' does not say '%s'", why, expected);
}

TEST(a_library_that_is_missing_or_broken_is_named_with_its_package)
{
    char path[512];
    const char *folder = getenv("TMPDIR");
    FILE *file;

    says(&(struct mu_launch_source){.library = "libhwloc.so.0"}, "cannot load hwloc (libhwloc.so.0: ");
    says(&(struct mu_launch_source){.library = "libhwloc.so.0"}, "); install the package libhwloc15");
    says(&(struct mu_launch_source){.library = "libm.so.6"}, "undefined symbol: hwloc_");
    snprintf(path, sizeof path, "%s/broken.%d.so", folder ? folder : "/tmp", (int)getpid());
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("this is no library", file);
    assert_int_equal(fclose(file), 0);
    says(&(struct mu_launch_source){.library = path}, "; install the package libhwloc15");
    unlink(path);
    says(&(struct mu_launch_source){.synthetic = "teapot:3"}, "'teapot:3' describes no machine");
}

TEST(nothing_that_may_be_used_is_an_error)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(700, &set);
    says(&(struct mu_launch_source){.synthetic = "package:1 pu:4", .allowed = &set, .allowed_size = sizeof set},
         "hwloc knows none of the processors that may be used");
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static struct mu_launch_place places[] = {
    {.bound = 1, .where = "package 0 core 0", .list = "0,64", .nodes = "0"},
    {.bound = 1, .shared = 1, .where = "NUMA 1", .list = "1-63,65-127", .nodes = "1"},
    {.where = "not bound", .list = "0-127", .nodes = "-"},
};
static const struct mu_launch_report rows[] = {
    {0, 4711, "vm", &places[0], MU_LAUNCH_HOLDS, "0,64", NULL},
    {1, 4712, "vm", &places[1], MU_LAUNCH_DIFFERS, "0-127", NULL},
    {10, 0, "a\"b\\c", &places[2], MU_LAUNCH_UNASKED, "", NULL},
    {11, 4713, "vm", &places[2], MU_LAUNCH_GONE, "", NULL},
};

static void print_like(void (*print)(FILE *, const struct mu_launch_report *, size_t), const char *expected)
{
    size_t length;
    char *text = NULL;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    print(out, rows, sizeof rows / sizeof *rows);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

TEST(the_table_says_for_each_task_what_holds)
{
    print_like(mu_launch_report_print, "TASK  HOST   PID   BOUND TO          CPUS         NUMA  VERIFIED\n"
                                       "0     vm     4711  package 0 core 0  0,64         0     yes\n"
                                       "1     vm     4712  NUMA 1            1-63,65-127  1     NO: 0-127\n"
                                       "10    a\"b\\c  -     not bound         0-127        -     -\n"
                                       "11    vm     4713  not bound         0-127        -     ended\n");
    print_like(
        mu_launch_report_json,
        "[{\"task\":0,\"host\":\"vm\",\"pid\":4711,\"bound\":true,\"shared\":false,\"where\":\"package 0 core 0\","
        "\"cpus\":\"0,64\",\"numa\":\"0\",\"verified\":true},"
        "{\"task\":1,\"host\":\"vm\",\"pid\":4712,\"bound\":true,\"shared\":true,\"where\":\"NUMA 1\","
        "\"cpus\":\"1-63,65-127\",\"numa\":\"1\",\"verified\":false,\"actual\":\"0-127\"},"
        "{\"task\":10,\"host\":\"a\\\"b\\\\c\",\"pid\":null,\"bound\":false,\"shared\":false,"
        "\"where\":\"not bound\",\"cpus\":\"0-127\",\"numa\":\"-\",\"verified\":null},"
        "{\"task\":11,\"host\":\"vm\",\"pid\":4713,\"bound\":false,\"shared\":false,"
        "\"where\":\"not bound\",\"cpus\":\"0-127\",\"numa\":\"-\",\"verified\":null}]\n");
}
