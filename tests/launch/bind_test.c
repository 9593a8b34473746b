/*
 * tests/launch/bind_test.c: which task has which place, on machines of every shape; and what is said to people.
 *
 * The machines are hwloc's synthetic ones: "package:2 core:8 pu:2" is two packages of eight cores of two hardware
 * threads.
 */
#include "cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/binding/bind_private.h"

/* ---- plans ------------------------------------------------------------------------------------------------------- */

#define ONE         "package:1 core:1 pu:1"
#define TWO_SOCKETS "package:2 [numa] core:8 pu:2"
#define FOUR_NODES  "package:4 [numa] l3:4 core:8 pu:1"
#define SPLIT       "package:1 group:2 [numa] core:2 pu:1" /* nodes smaller than packages, at groups */
#define TWO_L3      "package:2 [numa] l3:2 core:3 pu:1"
#define LINUX_STYLE "package:2 [numa] core:2 pu:2(indexes=0,4,1,5,2,6,3,7)"
#define HOLES       "package:1 core:4 pu:1(indexes=0,2,5,1200)"
#define FAST_MEMORY "package:2 [numa] [numa] core:2 pu:1" /* two nodes around the same processors */
#define FAR_NUMBERS "package:2 [numa(indexes=0,8)] core:2 pu:1"
#define NO_CORES    "package:1 pu:3"

static const struct plan {
    const char *machine;
    const char *allowed; /* NULL: all */
    const char *bind_to, *map_by;
    uint32_t num_tasks;
    const char *expected; /* of each task: where, cpus, NUMA nodes; then the note, if any; or why there is no plan */
} plans[] = {
    /* The smallest machine, and one task too many for it. */
    {ONE, NULL, "core", NULL, 1, "package 0 core 0: 0 @0\n"},
    {ONE, NULL, "numa", NULL, 1, "NUMA 0: 0 @0\n"},
    {ONE, NULL, "package", NULL, 1, "package 0: 0 @0\n"},
    {ONE, NULL, "hwthread", NULL, 1, "package 0 hwthread 0: 0 @0\n"},
    {ONE, NULL, "core", NULL, 2,
     "not bound: 0 @0\n"
     "not bound: 0 @0\n"
     "2 tasks on 1 core: not bound; --bind-to core:overload binds them all the same"},
    {ONE, NULL, "core:overload", NULL, 2,
     "package 0 core 0: 0 @0 shared\n"
     "package 0 core 0: 0 @0 shared\n"
     "2 tasks share the places of 1"},

    /* A core has all its hardware threads; cores are taken in order, unless something larger is named. */
    {TWO_SOCKETS, NULL, "core", NULL, 3,
     "package 0 core 0: 0-1 @0\n"
     "package 0 core 1: 2-3 @0\n"
     "package 0 core 2: 4-5 @0\n"},
    {TWO_SOCKETS, NULL, NULL, "slot", 2, "package 0 core 0: 0-1 @0\npackage 0 core 1: 2-3 @0\n"},
    {TWO_SOCKETS, NULL, "core", "package", 3,
     "package 0 core 0: 0-1 @0\n"
     "package 1 core 8: 16-17 @1\n"
     "package 0 core 1: 2-3 @0\n"},
    {LINUX_STYLE, NULL, "core", "numa", 4,
     "package 0 core 0: 0,4 @0\n"
     "package 1 core 2: 2,6 @1\n"
     "package 0 core 1: 1,5 @0\n"
     "package 1 core 3: 3,7 @1\n"},
    {LINUX_STYLE, NULL, "hwthread", NULL, 3,
     "package 0 hwthread 0: 0 @0\n"
     "package 0 hwthread 1: 4 @0\n"
     "package 0 hwthread 2: 1 @0\n"},
    {LINUX_STYLE, NULL, "hwthread", "core", 5,
     "package 0 hwthread 0: 0 @0\n"
     "package 0 hwthread 2: 1 @0\n"
     "package 1 hwthread 4: 2 @1\n"
     "package 1 hwthread 6: 3 @1\n"
     "package 0 hwthread 1: 4 @0\n"},

    /* Each option follows the other: a part for each task before two share one. */
    {TWO_SOCKETS, NULL, "numa", NULL, 3, "NUMA 0: 0-15 @0\nNUMA 1: 16-31 @1\nNUMA 0: 0-15 @0\n"},
    {TWO_SOCKETS, NULL, NULL, "numa", 2, "NUMA 0: 0-15 @0\nNUMA 1: 16-31 @1\n"},
    {TWO_SOCKETS, NULL, "numa", "core", 2, "NUMA 0: 0-15 @0\nNUMA 0: 0-15 @0\n"},
    {TWO_SOCKETS, NULL, "package", "slot", 1, "package 0: 0-15 @0\n"},

    /* Four nodes of four caches of eight cores. */
    {FOUR_NODES, NULL, "l3", NULL, 3, "package 0 L3 0: 0-7 @0\npackage 0 L3 1: 8-15 @0\npackage 0 L3 2: 16-23 @0\n"},
    {FOUR_NODES, NULL, "l3", "numa", 5,
     "package 0 L3 0: 0-7 @0\n"
     "package 1 L3 4: 32-39 @1\n"
     "package 2 L3 8: 64-71 @2\n"
     "package 3 L3 12: 96-103 @3\n"
     "package 0 L3 0: 0-7 @0\n"},
    {FOUR_NODES, NULL, "core", "l3", 2, "package 0 core 0: 0 @0\npackage 0 core 8: 8 @0\n"},
    {FOUR_NODES, NULL, "numa", "slot", 1, "NUMA 0: 0-31 @0\n"},

    /* NUMA nodes as they come: smaller than packages, two of one place, far numbers. */
    {SPLIT, NULL, "numa", NULL, 2, "NUMA 0: 0-1 @0\nNUMA 1: 2-3 @1\n"},
    {SPLIT, NULL, "package", NULL, 1, "package 0: 0-3 @0-1\n"},
    {FAST_MEMORY, NULL, "numa", NULL, 2, "NUMA 0: 0-1 @0\nNUMA 2: 2-3 @2\n"},
    {FAR_NUMBERS, NULL, "numa", NULL, 2, "NUMA 0: 0-1 @0\nNUMA 8: 2-3 @8\n"},

    /* Numbers with holes, also beyond what a cpu_set_t holds; a machine that tells of no cores. */
    {HOLES, NULL, "core", NULL, 4,
     "package 0 core 0: 0 @0\n"
     "package 0 core 1: 2 @0\n"
     "package 0 core 2: 5 @0\n"
     "package 0 core 3: 1200 @0\n"},
    {HOLES, NULL, "package", NULL, 1, "package 0: 0,2,5,1200 @0\n"},
    {NO_CORES, NULL, "core", NULL, 2, "package 0 core 0: 0 @0\npackage 0 core 1: 1 @0\n"},

    /* Only what is allowed: half a core, a lone core of a package, one package of two. */
    {TWO_SOCKETS, "1-3", "core", NULL, 2, "package 0 core 0: 1 @0\npackage 0 core 1: 2-3 @0\n"},
    {TWO_SOCKETS, "1-3", "core", NULL, 3,
     "not bound: 1-3 @0\n"
     "not bound: 1-3 @0\n"
     "not bound: 1-3 @0\n"
     "3 tasks on 2 cores: not bound; --bind-to core:overload binds them all the same"},
    {TWO_SOCKETS, "0,16-21", "core", "numa", 4,
     "package 0 core 0: 0 @0\n"
     "package 1 core 8: 16-17 @1\n"
     "package 1 core 9: 18-19 @1\n"
     "package 1 core 10: 20-21 @1\n"},
    {TWO_SOCKETS, "18-19", "numa", NULL, 1, "NUMA 1: 18-19 @1\n"},
    {HOLES, "1-4,6-1199", "core", NULL, 1, "package 0 core 1: 2 @0\n"},

    /* Several cores a task. What is left of a part after that stays free. */
    {TWO_L3, NULL, NULL, "slot:pe=2", 3,
     "package 0 cores 0-1: 0-1 @0\n"
     "package 0 cores 2-3: 2-3 @0\n"
     "package 0 cores 4-5: 4-5 @0\n"},
    {TWO_L3, NULL, NULL, "slot:pe=5", 2, "package 0 cores 0-4: 0-4 @0\ncores 5-9: 5-9 @0-1\n"},
    {TWO_L3, NULL, "core", "l3:pe=2", 4,
     "package 0 cores 0-1: 0-1 @0\n"
     "package 0 cores 3-4: 3-4 @0\n"
     "package 1 cores 6-7: 6-7 @1\n"
     "package 1 cores 9-10: 9-10 @1\n"},
    {TWO_L3, NULL, "core", "core:PE=6", 2, "package 0 cores 0-5: 0-5 @0\npackage 1 cores 6-11: 6-11 @1\n"},
    {TWO_L3, NULL, "l3", "slot:pe=4", 1, "package 0 L3 0-1: 0-5 @0\n"},
    {LINUX_STYLE, NULL, "hwthread", "slot:pe=2", 2,
     "package 0 hwthreads 0-1: 0,4 @0\npackage 0 hwthreads 2-3: 1,5 @0\n"},
    {TWO_L3, NULL, "core", "l3:pe=2", 5,
     "not bound: 0-11 @0-1\n"
     "not bound: 0-11 @0-1\n"
     "not bound: 0-11 @0-1\n"
     "not bound: 0-11 @0-1\n"
     "not bound: 0-11 @0-1\n"
     "5 tasks of 2 cores on 12 cores: not bound; --bind-to core:overload binds them all the same"},
    {TWO_L3, NULL, "core", "l3:pe=4", 1, "4 cores a task (:pe=4) are more than any l3 has"},
    {TWO_L3, NULL, "core", "slot:pe=13", 1, "13 cores a task (:pe=13) are more than the machine has"},

    /* More tasks than places: all the way round, and only who shares is said to. */
    {LINUX_STYLE, NULL, "core:overload", "numa", 6,
     "package 0 core 0: 0,4 @0 shared\n"
     "package 1 core 2: 2,6 @1 shared\n"
     "package 0 core 1: 1,5 @0\n"
     "package 1 core 3: 3,7 @1\n"
     "package 0 core 0: 0,4 @0 shared\n"
     "package 1 core 2: 2,6 @1 shared\n"
     "6 tasks share the places of 4"},
    {LINUX_STYLE, NULL, "numa", NULL, 4,
     "NUMA 0: 0-1,4-5 @0\nNUMA 1: 2-3,6-7 @1\nNUMA 0: 0-1,4-5 @0\nNUMA 1: 2-3,6-7 @1\n"},

    /* What the machine does not have. */
    {TWO_SOCKETS, NULL, "l3", NULL, 1, "hwloc knows no l3 on this machine"},
    {TWO_SOCKETS, NULL, "l3", "core", 1, "hwloc knows no l3 around processor 0"},
};

/* ---- the whole table is run by one test; each row that differs is printed ---------------------------------------- */

/* A malloc()ed set from a list. */
static cpu_set_t *set_of(const char *list, size_t size)
{
    cpu_set_t *set = mu_cpus_new(size);

    assert_non_null(set);
    assert_int_equal(mu_cpus_parse(list, set, size), 0);
    return set;
}

static struct mu_launch_machine *machine_of(const char *synthetic, const char *allowed)
{
    struct mu_launch_source source = {.synthetic = synthetic, .allowed_size = 256};
    struct mu_launch_machine *machine = NULL;
    cpu_set_t *set = allowed ? set_of(allowed, 256) : NULL;
    char why[200] = "";

    source.allowed = set;
    if (mu_launch_machine_load(&source, &machine, why, sizeof why))
        fail_msg("%s: %s", synthetic, why);
    CPU_FREE(set);
    return machine;
}

/* Processors of all tasks that are bound. */
static uint32_t count_bound(const struct mu_launch_plan *plan, uint32_t num_tasks)
{
    size_t size = mu_launch_plan_place(plan, 0)->cpus_size;
    cpu_set_t *all = mu_cpus_new(size);
    uint32_t count;

    assert_non_null(all);
    for (uint32_t i = 0; i < num_tasks; i++)
        if (mu_launch_plan_place(plan, i)->bound)
            CPU_OR_S(size, all, all, mu_launch_plan_place(plan, i)->cpus);
    count = (uint32_t)CPU_COUNT_S(size, all);
    CPU_FREE(all);
    return count;
}

/* What the plan says, or why there is none. */
static void write_plan(const struct plan *row, FILE *out)
{
    struct mu_launch_machine *machine = machine_of(row->machine, row->allowed);
    struct mu_launch_binding binding;
    struct mu_launch_plan *plan;
    char why[200] = "";

    if (mu_launch_binding_parse(row->bind_to, row->map_by, &binding, why, sizeof why) ||
        mu_launch_plan_make(&binding, row->num_tasks, &machine, &plan, why, sizeof why)) {
        fprintf(out, "%s", why);
    } else {
        for (uint32_t i = 0; i < row->num_tasks; i++) {
            const struct mu_launch_place *place = mu_launch_plan_place(plan, i);
            char *list = mu_cpus_list(place->cpus, place->cpus_size);

            assert_string_equal(list, place->list);
            assert_int_equal(place->bound, strcmp(place->where, "not bound") != 0);
            fprintf(out, "%s: %s @%s%s\n", place->where, place->list, place->nodes, place->shared ? " shared" : "");
            free(list);
        }
        assert_non_null(plan->foreign);
        assert_int_equal(plan->num_processors, count_bound(plan, row->num_tasks));
        assert_int_equal(plan->oversubscribed, plan->note[0] != '\0');
        fprintf(out, "%s", plan->note);
        mu_launch_plan_free(plan);
    }
    mu_launch_machine_free(machine);
}

TEST(every_task_has_the_place_that_the_words_say)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        size_t length;
        char *text = NULL;
        FILE *out = open_memstream(&text, &length);

        assert_non_null(out);
        write_plan(&plans[i], out);
        assert_int_equal(fclose(out), 0);
        if (strcmp(text, plans[i].expected) != 0) {
            printf("%s, allowed %s: --bind-to %s --map-by %s -n %u gave\n%s\nnot\n%s\n\n", plans[i].machine,
                   plans[i].allowed ? plans[i].allowed : "all", plans[i].bind_to ? plans[i].bind_to : "-",
                   plans[i].map_by ? plans[i].map_by : "-", plans[i].num_tasks, text, plans[i].expected);
            wrong++;
        }
        free(text);
    }
    assert_int_equal(wrong, 0);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *bind_to, *map_by;
    const char *expected; /* "bind map per_task", or the complaint */
} words[] = {
    {"core", NULL, "core core 1"},
    {"core:overload", NULL, "core core 1 overload"},
    {"none", NULL, "machine machine 1"},
    {"none", "numa", "machine numa 1"},
    {"hwthread", "package", "hwthread package 1"},
    {NULL, NULL, "machine machine 1"},
    {NULL, "slot", "core machine 1"},
    {NULL, "l3:pe=12", "l3 l3 12"},
    {"numa", "core:pe=2", "numa machine 2"},
    {"", NULL, "--bind-to is none, core, gpu, l3, numa, package or hwthread, not ''"},
    {"Core", NULL, "--bind-to is none, core, gpu, l3, numa, package or hwthread, not 'Core'"},
    {"slot", NULL, "--bind-to is none, core, gpu, l3, numa, package or hwthread, not 'slot'"},
    {"cor", NULL, "--bind-to is none, core, gpu, l3, numa, package or hwthread, not 'cor'"},
    {"socket", NULL, "--bind-to 'socket' is called 'package' here"},
    {"core:", NULL, "--bind-to core can be followed by ':overload', not by ':'"},
    {"core:overloaded", NULL, "--bind-to core can be followed by ':overload', not by ':overloaded'"},
    {"none:overload", NULL, "--bind-to none binds nothing, so there is nothing to overload"},
    {NULL, "none", "--map-by is slot, core, l3, numa, package or hwthread, not 'none'"},
    {NULL, "node", "--map-by 'node' is called 'numa' here"},
    {NULL, "core:2", "--map-by core can be followed by ':pe=N', not by ':2'"},
    {NULL, "core:pe=", "--map-by core:pe='' is no number of cores for a task"},
    {NULL, "core:pe=0", "--map-by core:pe='0' is no number of cores for a task"},
    {NULL, "core:pe=-1", "--map-by core:pe='-1' is no number of cores for a task"},
    {NULL, "core:pe=2x", "--map-by core:pe='2x' is no number of cores for a task"},
    {NULL, "core:pe=99999999999999999999", "--map-by core:pe='99999999999999999999' is no number of cores for a task"},
    {NULL, "hwthread:pe=2", "--map-by hwthread gives a task one hardware thread; for more, --map-by slot:pe=2"},
};

TEST(the_two_options_mean_what_they_say_or_say_what_is_wrong)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct mu_launch_binding binding;
        char text[200], why[200];

        if (mu_launch_binding_parse(words[i].bind_to, words[i].map_by, &binding, why, sizeof why))
            snprintf(text, sizeof text, "%s", why);
        else
            snprintf(text, sizeof text, "%s %s %u%s", mu_launch_part_name(binding.bind_to),
                     mu_launch_part_name(binding.map_by), binding.per_task, binding.overload ? " overload" : "");
        assert_string_equal(text, words[i].expected);
    }
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *machine, *allowed, *what;
    uint32_t expected; /* 0: none */
} counts[] = {
    {ONE, NULL, "core", 1},          {TWO_SOCKETS, NULL, "core", 16}, {TWO_SOCKETS, NULL, "hwthread", 32},
    {TWO_SOCKETS, NULL, "numa", 2},  {FOUR_NODES, NULL, "l3", 16},    {FOUR_NODES, NULL, "package", 4},
    {SPLIT, NULL, "numa", 2},        {FAST_MEMORY, NULL, "numa", 2},  {TWO_SOCKETS, "1-3", "core", 2},
    {TWO_SOCKETS, "1-3", "numa", 1}, {TWO_SOCKETS, NULL, "l3", 0},    {NO_CORES, NULL, "core", 3},
};

TEST(tasks_are_counted_by_parts_of_the_machine)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct mu_launch_machine *machine = machine_of(counts[i].machine, counts[i].allowed);
        uint32_t count = 0;
        char why[200] = "";
        int code = mu_launch_count(counts[i].what, &machine, NULL, &count, why, sizeof why);

        if (code != (counts[i].expected ? 0 : -1) || count != counts[i].expected)
            fail_msg("%s: -n %s gave %u (%s)", counts[i].machine, counts[i].what, count, why);
        mu_launch_machine_free(machine);
    }
}

TEST(words_that_count_nothing_are_refused)
{
    static const char *const wrong[] = {"", "cores", "Core", "0x4", "machine", "slot", "-1", "gpus"};
    struct mu_launch_machine *machine = NULL;
    uint32_t count;
    char why[200];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(mu_launch_is_count(wrong[i]));
        assert_int_equal(mu_launch_count(wrong[i], &machine, NULL, &count, why, sizeof why), -1);
        assert_non_null(strstr(why, "auto, gpu, core, l3, numa, package and hwthread"));
        assert_null(machine);
    }
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

TEST(lists_of_processors_go_both_ways_and_odd_ones_are_refused)
{
    static const char *const same[] = {"", "0", "0-3", "0,2,4", "0-1,63-64,127", "1023"};
    static const char *const odd[] = {"-", "1-", "x", "1,,2", "3-1", "0-99999999", "1 2", "0x3", ",1"};
    cpu_set_t *set;
    char *list;

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        set = set_of(same[i], 128);
        list = mu_cpus_list(set, 128);
        assert_string_equal(list, same[i]);
        free(list);
        CPU_FREE(set);
    }
    set = mu_cpus_new(128);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(mu_cpus_parse(odd[i], set, 128), -1);
    assert_int_equal(mu_cpus_parse("1022-1024", set, 128), 1); /* does not fit */
    CPU_FREE(set);
}
