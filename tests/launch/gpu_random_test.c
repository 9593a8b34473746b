/*
 * tests/launch/gpu_random_test.c: plans by GPUs for random nodes hold what they promise.
 *
 * Each GPU is given once, unless overload was asked for; each task has processors, only such as may be used, near its
 * GPUs where there are any; no two share one unless they are too many for the cores that they could have (which is
 * found by matching, not by how the plan was made); tasks with the same GPUs' surroundings differ by one core at most.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_machines.h"
#include "launch/binding/bind_private.h"
#include "seed.h"

#define ROUNDS 1000
#define SIZE   256 /* bytes of a set */
#define CPUS   256

static struct test_random source;

static unsigned one_to(unsigned most)
{
    return 1 + (unsigned)test_below(&source, most);
}

struct node {
    struct test_node spec;
    char machine[80], allowed[1200], cpus[16][40], uuids[24][48];
    unsigned nodes, cores, threads, num_gpus;
};

static void list_of(unsigned first, unsigned count, char *text, size_t size)
{
    snprintf(text, size, "%u-%u", first, first + count - 1);
}

static void random_node(struct node *n)
{
    cpu_set_t *allowed = mu_cpus_new(SIZE);
    char *list;
    unsigned cpus;

    assert_non_null(allowed);
    memset(n, 0, sizeof *n);
    n->nodes = one_to(4);
    n->cores = one_to(8);
    n->threads = one_to(2);
    n->num_gpus = one_to(16);
    cpus = n->nodes * n->cores * n->threads;
    snprintf(n->machine, sizeof n->machine, "package:%u [numa] core:%u pu:%u", n->nodes, n->cores, n->threads);
    n->spec.machine = n->machine;
    for (unsigned i = 0; i < n->nodes; i++) {
        list_of(i * n->cores * n->threads, n->cores * n->threads, n->cpus[i], sizeof n->cpus[i]);
        n->spec.numas[i] = (struct test_numa){(int)i, n->cpus[i], ""};
    }
    n->spec.numas[n->nodes].number = -1;
    for (unsigned i = 0; i < n->num_gpus; i++) {
        int at = (int)test_below(&source, n->nodes + 1) - 1;

        snprintf(n->uuids[i], sizeof n->uuids[i], "GPU-%08x-aaaa-bbbb-cccc-dddddddddddd", i);
        n->spec.gpus[i] = (struct test_gpu){0x10de, at, at < 0 ? "" : n->cpus[at], n->uuids[i], "V100", -1, 0, -1};
    }
    for (unsigned i = 0; i < 12 && n->num_gpus > 1; i++) {
        int a = (int)test_below(&source, n->num_gpus), b = (int)test_below(&source, n->num_gpus);

        n->spec.wires[i] = (struct test_wire){a, a == b ? -1 : b, one_to(4)};
        if (a == 0 && n->spec.wires[i].to == 0)
            n->spec.wires[i].to = -1;
    }
    CPU_SET_S(test_below(&source, cpus), SIZE, allowed);
    for (unsigned cpu = 0, most = (unsigned)test_below(&source, 4); cpu < cpus; cpu++)
        if (test_below(&source, 4) <= most)
            CPU_SET_S(cpu, SIZE, allowed);
    list = mu_cpus_list(allowed, SIZE);
    snprintf(n->allowed, sizeof n->allowed, "%s", list);
    n->spec.allowed = n->allowed;
    free(list);
    CPU_FREE(allowed);
}

/* ---- what may be expected ---------------------------------------------------------------------------------------- */

/* What is near the task's GPUs and allowed; else all that is allowed. */
static void near_of(const struct node *n, const struct mu_launch_plan *plan, uint32_t task, cpu_set_t *near)
{
    const struct mu_launch_place *place = mu_launch_plan_place(plan, task);
    cpu_set_t *allowed = mu_cpus_new(SIZE);

    assert_non_null(allowed);
    assert_int_equal(mu_cpus_parse(n->allowed, allowed, SIZE), 0);
    CPU_ZERO_S(SIZE, near);
    for (size_t i = 0; i < place->num_gpus; i++)
        mu_cpus_parse(plan->gpus->list[place->gpus[i]].device->cpus, near, SIZE);
    CPU_AND_S(SIZE, near, near, allowed);
    if (CPU_COUNT_S(SIZE, near) == 0)
        CPU_OR_S(SIZE, near, near, allowed);
    CPU_FREE(allowed);
}

static int core_is_in(const struct node *n, unsigned core, const cpu_set_t *set)
{
    for (unsigned i = 0; i < n->threads; i++)
        if (CPU_ISSET_S(core * n->threads + i, SIZE, set))
            return 1;
    return 0;
}

/* Kuhn's matching of tasks and cores: whether the task can have one, whoever must move. */
static int match(const struct node *n, cpu_set_t *const *near, uint32_t task, int *holder, char *tried)
{
    for (unsigned core = 0; core < n->nodes * n->cores; core++) {
        if (!core_is_in(n, core, near[task]) || tried[core])
            continue;
        tried[core] = 1;
        if (holder[core] < 0 || match(n, near, (uint32_t)holder[core], holder, tried)) {
            holder[core] = (int)task;
            return 1;
        }
    }
    return 0;
}

static int cores_suffice(const struct node *n, cpu_set_t *const *near, uint32_t num_tasks)
{
    int holder[CPUS];

    for (int i = 0; i < CPUS; i++)
        holder[i] = -1;
    for (uint32_t task = 0; task < num_tasks; task++) {
        char tried[CPUS] = {0};

        if (!match(n, near, task, holder, tried))
            return 0;
    }
    return 1;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void gpus_are_given_once(const struct mu_launch_plan *plan, uint32_t num_tasks, size_t each)
{
    char given[64] = {0};

    for (uint32_t task = 0; task < num_tasks; task++) {
        const struct mu_launch_place *place = mu_launch_plan_place(plan, task);

        assert_int_equal(place->num_gpus, each);
        for (size_t i = 0; i < each; i++) {
            assert_true(place->gpus[i] < plan->gpus->count);
            assert_int_equal(given[place->gpus[i]]++, 0);
        }
    }
}

static unsigned cores_of(const struct node *n, const cpu_set_t *set)
{
    unsigned count = 0;

    for (unsigned core = 0; core < n->nodes * n->cores; core++)
        count += (unsigned)core_is_in(n, core, set);
    return count;
}

static void processors_are_near_and_fairly_divided(const struct node *n, const struct mu_launch_plan *plan,
                                                   uint32_t num_tasks)
{
    cpu_set_t *near[64], *both = mu_cpus_new(SIZE);
    int overlaps = 0;

    assert_non_null(both);
    for (uint32_t task = 0; task < num_tasks; task++) {
        const struct mu_launch_place *place = mu_launch_plan_place(plan, task);

        near[task] = mu_cpus_new(SIZE);
        assert_non_null(near[task]);
        near_of(n, plan, task, near[task]);
        assert_true(CPU_COUNT_S(place->cpus_size, place->cpus) > 0);
        assert_true(place->cpus_size <= SIZE);
        for (unsigned cpu = 0; cpu < place->cpus_size * 8; cpu++)
            if (CPU_ISSET_S(cpu, place->cpus_size, place->cpus) && !CPU_ISSET_S(cpu, SIZE, near[task]))
                fail_msg("task %u: processor %u is not near, or not allowed", task, cpu);
    }
    for (uint32_t a = 0; a < num_tasks; a++)
        for (uint32_t b = a + 1; b < num_tasks; b++) {
            const struct mu_launch_place *one = mu_launch_plan_place(plan, a), *other = mu_launch_plan_place(plan, b);
            int more = (int)cores_of(n, one->cpus) - (int)cores_of(n, other->cpus);

            CPU_AND_S(one->cpus_size, both, one->cpus, other->cpus);
            overlaps |= CPU_COUNT_S(one->cpus_size, both) > 0;
            if (CPU_EQUAL_S(SIZE, near[a], near[b]))
                assert_in_range(more + 1, 0, 2);
        }
    if (overlaps == cores_suffice(n, near, num_tasks))
        fail_msg("%s", overlaps ? "tasks share cores that would do for all" : "cores suffice that cannot");
    for (uint32_t task = 0; task < num_tasks; task++)
        CPU_FREE(near[task]);
    CPU_FREE(both);
}

static void one_plan(void)
{
    struct mu_launch_binding binding = {.to_gpus = 1};
    struct mu_launch_machine *machine;
    struct mu_launch_gpus *gpus;
    struct mu_launch_plan *plan = NULL;
    struct node node;
    uint32_t num_tasks;
    char why[400] = "";

    random_node(&node);
    num_tasks = one_to(node.num_gpus);
    binding.gpus_per_task = (uint32_t)test_below(&source, node.num_gpus / num_tasks + 1);
    gpus = test_gpus(&node.spec, NULL);
    machine = test_machine(&node.spec);
    print_message("%s, usable %s: %u GPUs, %u tasks with %u\n", node.machine, node.allowed, node.num_gpus, num_tasks,
                  binding.gpus_per_task);
    if (mu_launch_gpu_plan_make(&binding, num_tasks, &machine, gpus, &plan, why, sizeof why))
        fail_msg("%s", why);
    gpus_are_given_once(plan, num_tasks, binding.gpus_per_task ? binding.gpus_per_task : node.num_gpus / num_tasks);
    processors_are_near_and_fairly_divided(&node, plan, num_tasks);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    mu_launch_gpus_free(gpus);
}

TEST(plans_hold_what_they_promise)
{
    source.state = test_seed();
    for (int i = 0; i < ROUNDS; i++)
        one_plan();
}
