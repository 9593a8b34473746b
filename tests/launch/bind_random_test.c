/*
 * tests/launch/bind_random_test.c: plans for random machines, of which random processors may be used, compared with
 * what arithmetic says.
 *
 * The machines are regular: P packages, each a NUMA node, of L caches of C cores of T hardware threads, numbered
 * through. So the part of a processor is its number divided, and a plan is a formula: round r of mapping takes the
 * cores from r * pe on of each part that has as many.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/binding/bind_private.h"
#include "seed.h"

#define CPUS   256
#define SIZE   (CPUS / 8)
#define ROUNDS 400

struct machine {
    unsigned packages, caches, cores, threads, cpus;
    unsigned divisor[MU_NUM_PARTS]; /* a processor's part is its number by this */
    cpu_set_t *allowed;
};

struct asked {
    struct mu_launch_binding binding;
    uint32_t num_tasks;
};

static struct test_random source;

static unsigned one_to(unsigned most)
{
    return 1 + (unsigned)test_below(&source, most);
}

static struct machine random_machine(void)
{
    struct machine m = {.packages = one_to(4), .caches = one_to(3), .cores = one_to(5), .threads = one_to(4)};

    m.divisor[MU_PART_HWTHREAD] = 1;
    m.divisor[MU_PART_CORE] = m.threads;
    m.divisor[MU_PART_L3] = m.cores * m.threads;
    m.divisor[MU_PART_NUMA] = m.divisor[MU_PART_PACKAGE] = m.caches * m.divisor[MU_PART_L3];
    m.cpus = m.divisor[MU_PART_MACHINE] = m.packages * m.divisor[MU_PART_PACKAGE];
    m.allowed = mu_cpus_new(SIZE);
    assert_non_null(m.allowed);
    CPU_SET_S(test_below(&source, m.cpus), SIZE, m.allowed);
    for (unsigned cpu = 0, most = (unsigned)test_below(&source, 4); cpu < m.cpus; cpu++)
        if (test_below(&source, 4) <= most)
            CPU_SET_S(cpu, SIZE, m.allowed);
    return m;
}

static struct asked random_wish(const struct machine *m)
{
    struct asked asked = {.num_tasks = one_to(m->cpus + m->cpus / 2 + 1)};

    asked.binding.bind_to = MU_PART_PACKAGE + (enum mu_launch_part)test_below(&source, MU_NUM_PARTS - 1);
    asked.binding.map_by = (enum mu_launch_part)test_below(&source, MU_NUM_PARTS);
    asked.binding.overload = (int)test_below(&source, 2);
    asked.binding.per_task = 1;
    if (asked.binding.map_by < MU_PART_CORE && test_below(&source, 2))
        asked.binding.per_task = one_to(3);
    return asked;
}

static int usable(const struct machine *m, unsigned cpu)
{
    return cpu < m->cpus && CPU_ISSET_S(cpu, SIZE, m->allowed);
}

/* The kind of what tasks sit on: cores or hardware threads. */
static enum mu_launch_part seat_kind(const struct asked *asked)
{
    int threads = asked->binding.bind_to == MU_PART_HWTHREAD || asked->binding.map_by == MU_PART_HWTHREAD;

    return threads ? MU_PART_HWTHREAD : MU_PART_CORE;
}

/* The usable cores (threads) of the part, in order: their number. */
static unsigned seats_of(const struct machine *m, const struct asked *asked, unsigned part, unsigned ret_units[CPUS])
{
    unsigned by = m->divisor[asked->binding.map_by], kind = m->divisor[seat_kind(asked)], count = 0;

    for (unsigned cpu = part * by; cpu < (part + 1) * by; cpu++)
        if (usable(m, cpu) && (count == 0 || ret_units[count - 1] != cpu / kind))
            ret_units[count++] = cpu / kind;
    return count;
}

/* Every usable processor of the parts that the units lie in. */
static void widen(const struct machine *m, const struct asked *asked, const unsigned *units, cpu_set_t *set)
{
    unsigned to = m->divisor[asked->binding.bind_to], kind = m->divisor[seat_kind(asked)];

    CPU_ZERO_S(SIZE, set);
    for (unsigned i = 0; i < asked->binding.per_task; i++)
        for (unsigned cpu = 0; cpu < m->cpus; cpu++)
            if (usable(m, cpu) && cpu / to == units[i] * kind / to)
                CPU_SET_S(cpu, SIZE, set);
}

/* The sets of all seats, as lists, in the order of mapping: their number. */
static unsigned expect(const struct machine *m, const struct asked *asked, char *ret_lists[CPUS])
{
    unsigned units[CPUS], each = asked->binding.per_task, seats = 0, found = 1;
    cpu_set_t *set = mu_cpus_new(SIZE);

    assert_non_null(set);
    for (unsigned round = 0; found; round++) {
        found = 0;
        for (unsigned part = 0; part < m->cpus / m->divisor[asked->binding.map_by]; part++)
            if (seats_of(m, asked, part, units) >= (round + 1) * each) {
                widen(m, asked, units + round * each, set);
                ret_lists[seats++] = mu_cpus_list(set, SIZE);
                found = 1;
            }
    }
    CPU_FREE(set);
    return seats;
}

static void compare(const struct asked *asked, struct mu_launch_plan *plan, char *const lists[CPUS], unsigned seats,
                    const char *all)
{
    int over = asked->num_tasks > seats, bound = !over || asked->binding.overload;

    assert_int_equal(plan->oversubscribed, over);
    for (uint32_t task = 0; task < asked->num_tasks; task++) {
        const struct mu_launch_place *place = mu_launch_plan_place(plan, task);
        const char *expected = bound ? lists[task % seats] : all;
        int shared = bound && over && (task >= seats || task + seats < asked->num_tasks);

        if (strcmp(place->list, expected) != 0 || place->bound != bound || place->shared != shared)
            fail_msg("task %u of %u: %s (bound %d, shared %d), not %s (bound %d, shared %d)", task, asked->num_tasks,
                     place->list, place->bound, place->shared, expected, bound, shared);
    }
}

static void one_plan(void)
{
    struct machine m = random_machine();
    struct asked asked = random_wish(&m);
    struct mu_launch_machine *machine = NULL;
    struct mu_launch_plan *plan = NULL;
    char text[200], why[200] = "", *lists[CPUS], *all = mu_cpus_list(m.allowed, SIZE);
    struct mu_launch_source from = {.synthetic = text, .allowed = m.allowed, .allowed_size = SIZE};
    unsigned seats = expect(&m, &asked, lists);
    int code;

    snprintf(text, sizeof text, "package:%u [numa] l3:%u core:%u pu:%u", m.packages, m.caches, m.cores, m.threads);
    print_message("%s, usable %s: bind %s, map %s, pe %u, %u tasks\n", text, all,
                  mu_launch_part_name(asked.binding.bind_to), mu_launch_part_name(asked.binding.map_by),
                  asked.binding.per_task, asked.num_tasks);
    assert_int_equal(mu_launch_machine_load(&from, &machine, why, sizeof why), 0);
    code = mu_launch_plan_make(&asked.binding, asked.num_tasks, &machine, &plan, why, sizeof why);
    assert_int_equal(code, seats ? 0 : -1);
    if (seats)
        compare(&asked, plan, lists, seats, all);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    CPU_FREE(m.allowed);
    free(all);
    for (unsigned i = 0; i < seats; i++)
        free(lists[i]);
}

TEST(plans_are_what_arithmetic_says)
{
    source.state = test_seed();
    for (int i = 0; i < ROUNDS; i++)
        one_plan();
}
