/*
 * tests/launch/gpu_plan_test.c: which task has which GPUs, processors and memory, and what it is told, on nodes of
 * every shape.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_machines.h"
#include "launch/binding/bind_private.h"

static const struct plan {
    const struct test_node *node;
    const char *allowed; /* NULL: all processors */
    uint32_t num_tasks, each;
    int overload;
    const char *expected; /* of each task: devices, cpus, memory, the furthest link; then notes; or why there is none */
} plans[] = {
    /* Sixteen on switches: one each, in order; half a package's cores for eight tasks are two cores each. */
    {&test_sixteen, NULL, 1, 1, 0, "0: 0-31 mem 0\n"},
    {&test_sixteen, NULL, 2, 8, 0,
     "0,1,2,3,4,5,6,7: 0-31 mem 0 NV6\n"
     "8,9,10,11,12,13,14,15: 32-63 mem 1 NV6\n"},
    {&test_sixteen, NULL, 4, 0, 0,
     "0,1,2,3: 0-15 mem 0 NV6\n"
     "4,5,6,7: 16-31 mem 0 NV6\n"
     "8,9,10,11: 32-47 mem 1 NV6\n"
     "12,13,14,15: 48-63 mem 1 NV6\n"},
    {&test_sixteen, NULL, 3, 0, 0,
     "0,1,2,3,4: 0-15 mem 0 NV6\n"
     "5,6,7,8,9: 16-39 any NV6\n" /* of both packages what the others leave */
     "10,11,12,13,14: 40-63 mem 1 NV6\n"},
    {&test_sixteen, NULL, 1, 16, 0, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15: 0-63 any NV6\n"},
    {&test_sixteen, NULL, 3, 6, 0,
     "3 tasks with 6 GPUs each need 18, of the 16 that there are: start 2 tasks (-n), give them fewer GPUs "
     "(--gpus-per-task), or let them share (--bind-to gpu:overload)"},
    {&test_sixteen, NULL, 17, 0, 0,
     "17 tasks with 1 GPU each need 17, of the 16 that there are: start 16 tasks (-n), or let them share (--bind-to "
     "gpu:overload)"},
    {&test_sixteen, NULL, 1, 17, 1, "17 GPUs a task (--gpus-per-task) are more than the 16 that there are"},

    /* Only some processors may be used: what is near and allowed; where nothing is, all that is allowed, said. */
    {&test_sixteen, "2-5,40", 2, 1, 0, "0: 2-3 mem 0\n1: 4-5 mem 0\n"},
    {&test_sixteen, "40-47", 2, 1, 0,
     "0: 40-43 mem 0\n"
     "1: 44-47 mem 0\n"
     "no processor that may be used is known to be near the GPUs of 2 tasks: they are given any\n"},
    {&test_sixteen, "3,40", 3, 1, 0,
     "0: 3 mem 0 shared\n"
     "1: 3 mem 0 shared\n"
     "2: 3 mem 0 shared\n"
     "there are fewer cores near the GPUs than tasks: some share one\n"},

    /* NUMA nodes in another order than GPUs; the two of a board belong together. */
    {&test_reversed, NULL, 8, 0, 0,
     "0: 12-13 mem 3\n1: 14-15 mem 3\n2: 4-5 mem 1\n3: 6-7 mem 1\n"
     "4: 0-1 mem 0\n5: 2-3 mem 0\n6: 8-9 mem 2\n7: 10-11 mem 2\n"},
    {&test_reversed, NULL, 4, 2, 0,
     "0,1: 12-15 mem 3 XGMI\n2,3: 4-7 mem 1 XGMI\n4,5: 0-3 mem 0 XGMI\n6,7: 8-11 mem 2 XGMI\n"},
    {&test_reversed, NULL, 2, 4, 0, "0,1,2,3: 4-7,12-15 mem 1,3 SYS\n4,5,6,7: 0-3,8-11 mem 0,2 SYS\n"},

    /* Memory of GPUs is no memory of tasks. */
    {&test_sparse, NULL, 2, 1, 0, "0: 0-3 mem 0\n1: 4-7 mem 8\n"},
    {&test_sparse, NULL, 1, 2, 0, "0,1: 0-7 any SYS\n"},

    /* Nobody knows where: all processors, divided. */
    {&test_unknown, NULL, 2, 1, 0,
     "0: 0-1 any\n"
     "1: 2-3 any\n"
     "no processor that may be used is known to be near the GPUs of 2 tasks: they are given any\n"},
    {&test_unknown, NULL, 1, 1, 0,
     "0: 0-3 any\n"
     "no processor that may be used is known to be near the GPUs of 1 task: it is given any\n"},

    /* Parts count like GPUs; parts of one are near each other. */
    {&test_divided, NULL, 5, 1, 0,
     "0: 0-3 mem 0\n2: 4 mem 1\n3: 5 mem 1\n4: 6 mem 1\n5: 7 mem 1\n"
     "MIG instances cannot reach each other: each task sees only its own\n"},
    {&test_divided, NULL, 2, 2, 0,
     "0,5: 0-3 any SYS\n2,3: 4-7 mem 1 X\n"
     "MIG instances cannot reach each other: each task sees only its own\n"
     "CUDA before 13 shows a process one MIG instance, the first that it is told of: --gpus-per-task 1 is what such "
     "tasks can use\n"},

    /* By links, not in order; and what the first takes must not tear the others apart. */
    {&test_torn, NULL, 2, 2, 0, "0,2: 0-1 any NV2\n1,3: 2-3 any NV2\n"},
    {&test_torn, NULL, 1, 2, 0, "0,1: 0-1 mem 0 NV3\n"},
    {&test_pairs, NULL, 2, 2, 0, "0,3: 0-1 any NV2\n1,2: 2-3 any NV2\n"},
    {&test_pairs, NULL, 4, 1, 0, "0: 0 mem 0\n1: 1 mem 0\n2: 2 mem 1\n3: 3 mem 1\n"},

    /* More tasks than GPUs, as asked for. */
    {&test_pairs, NULL, 6, 1, 1,
     "0: 0 mem 0 shared\n1: 1 mem 0 shared\n2: 2 mem 1\n3: 3 mem 1\n0: 0 mem 0 shared\n1: 1 mem 0 shared\n"
     "6 tasks share the GPUs of 4: they take turns on them, unless NVIDIA's MPS runs (nvidia-cuda-mps-control -d)\n"
     "there are fewer cores near the GPUs than tasks: some share one\n"},
};

static void print_plan(FILE *out, const struct mu_launch_plan *plan, uint32_t num_tasks)
{
    char link[24];

    for (uint32_t task = 0; task < num_tasks; task++) {
        const struct mu_launch_place *place = mu_launch_plan_place(plan, task);

        for (size_t i = 0; i < place->num_gpus; i++)
            fprintf(out, "%s%d", i ? "," : "", (int)plan->gpus->list[place->gpus[i]].device->index);
        fprintf(out, ": %s %s%s%s%s%s\n", place->list, place->memory_list ? "mem " : "any",
                place->memory_list ? place->memory_list : "", place->num_gpus > 1 ? " " : "",
                place->num_gpus > 1 ? muster_link_name(place->link, link, sizeof link) : "",
                place->shared ? " shared" : "");
    }
    for (unsigned i = 0; i < plan->notes.count; i++)
        fprintf(out, "%s\n", plan->notes.text[i]);
}

static char *text_of(const struct plan *row)
{
    struct mu_launch_binding binding = {.to_gpus = 1, .gpus_per_task = row->each, .overload = row->overload};
    struct test_node node = *row->node;
    struct mu_launch_gpus *gpus = test_gpus(&node, NULL);
    struct mu_launch_machine *machine;
    struct mu_launch_plan *plan = NULL;
    char why[400], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    node.allowed = row->allowed;
    machine = test_machine(&node);
    if (mu_launch_gpu_plan_make(&binding, row->num_tasks, &machine, gpus, &plan, why, sizeof why))
        fputs(why, out);
    else
        print_plan(out, plan, row->num_tasks);
    fclose(out);
    mu_launch_plan_free(plan);
    mu_launch_machine_free(machine);
    mu_launch_gpus_free(gpus);
    return text;
}

TEST(tasks_have_the_gpus_of_the_table_and_what_is_near_them)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char *text = text_of(&plans[i]);

        if (strcmp(text, plans[i].expected) != 0) {
            print_message("row %zu is\n%s\nand not\n%s\n", i, text, plans[i].expected);
            wrong++;
        }
        free(text);
    }
    assert_int_equal(wrong, 0);
}

/* ---- what tasks are told ----------------------------------------------------------------------------------------- */

static const struct telling {
    const struct test_node *node;
    uint32_t num_tasks, each;
    enum mu_launch_visibility visibility;
    int overload;
    const char *expected; /* a line a task */
} tellings[] = {
    {&test_pairs, 2, 1, MU_LAUNCH_SEES_DEFAULT, 0,
     "CUDA_VISIBLE_DEVICES=0,1 MUSTER_GPUS=0 MUSTER_GPU_ORDINALS=0\n"
     "CUDA_VISIBLE_DEVICES=0,1 MUSTER_GPUS=1 MUSTER_GPU_ORDINALS=1\n"},
    {&test_pairs, 2, 2, MU_LAUNCH_SEES_ALL, 0,
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=0,3 MUSTER_GPU_ORDINALS=0,1\n"
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=1,2 MUSTER_GPU_ORDINALS=2,3\n"},
    {&test_pairs, 2, 2, MU_LAUNCH_SEES_OWN, 0,
     "CUDA_VISIBLE_DEVICES=0,3 MUSTER_GPUS=0,3 MUSTER_GPU_ORDINALS=0,1\n"
     "CUDA_VISIBLE_DEVICES=1,2 MUSTER_GPUS=1,2 MUSTER_GPU_ORDINALS=0,1\n"},
    {&test_pairs, 5, 2, MU_LAUNCH_SEES_DEFAULT, 1,
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=0,3 MUSTER_GPU_ORDINALS=0,1\n"
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=1,2 MUSTER_GPU_ORDINALS=2,3\n"
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=0,3 MUSTER_GPU_ORDINALS=0,1\n"
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=1,2 MUSTER_GPU_ORDINALS=2,3\n"
     "CUDA_VISIBLE_DEVICES=0,3,1,2 MUSTER_GPUS=0,3 MUSTER_GPU_ORDINALS=0,1\n"},
    {&test_divided, 2, 1, MU_LAUNCH_SEES_DEFAULT, 0,
     "CUDA_VISIBLE_DEVICES=0 MUSTER_GPUS=0 MUSTER_GPU_ORDINALS=0\n"
     "CUDA_VISIBLE_DEVICES=2 MUSTER_GPUS=2 MUSTER_GPU_ORDINALS=0\n"},
    {&test_divided, 2, 1, MU_LAUNCH_SEES_ALL, 0,
     "CUDA_VISIBLE_DEVICES=0,2 MUSTER_GPUS=0 MUSTER_GPU_ORDINALS=0\n"
     "CUDA_VISIBLE_DEVICES=0,2 MUSTER_GPUS=2 MUSTER_GPU_ORDINALS=1\n"},
    {&test_reversed, 2, 1, MU_LAUNCH_SEES_DEFAULT, 0,
     "ROCR_VISIBLE_DEVICES=0,1 MUSTER_GPUS=0 MUSTER_GPU_ORDINALS=0\n"
     "ROCR_VISIBLE_DEVICES=0,1 MUSTER_GPUS=1 MUSTER_GPU_ORDINALS=1\n"},
    /* Without UUIDs: by numbers, which are made those of PCI addresses. */
    {&test_nameless, 2, 1, MU_LAUNCH_SEES_OWN, 0,
     "CUDA_VISIBLE_DEVICES=#0 MUSTER_GPUS=0000:10:00.0 MUSTER_GPU_ORDINALS=0 CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
     "CUDA_VISIBLE_DEVICES=#1 MUSTER_GPUS=0000:11:00.0 MUSTER_GPU_ORDINALS=0 CUDA_DEVICE_ORDER=PCI_BUS_ID\n"},
};

/* UUIDs are written as the index of the device that has them, numbers of VISIBLE_DEVICES with a '#'. */
static void print_value(FILE *out, const struct mu_launch_gpus *gpus, const char *var)
{
    size_t name = strcspn(var, "=");
    int visible = strstr(var, "VISIBLE_DEVICES=") != NULL;
    char *copy = strdup(var + name + 1), *save = NULL;
    int first = 1;

    fprintf(out, "%.*s=", (int)name, var);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save), first = 0) {
        const struct muster_device *found = NULL;

        for (size_t i = 0; i < gpus->count; i++)
            if (*gpus->list[i].device->uuid && strcmp(gpus->list[i].device->uuid, word) == 0)
                found = gpus->list[i].device;
        if (found)
            fprintf(out, "%s%d", first ? "" : ",", (int)found->index);
        else
            fprintf(out, "%s%s%s", first ? "" : ",", visible ? "#" : "", word);
    }
    free(copy);
}

TEST(tasks_are_told_of_their_gpus_by_uuid)
{
    for (size_t i = 0; i < sizeof tellings / sizeof *tellings; i++) {
        const struct telling *row = &tellings[i];
        struct mu_launch_binding binding = {
            .to_gpus = 1, .gpus_per_task = row->each, .visibility = row->visibility, .overload = row->overload};
        struct mu_launch_gpus *gpus = test_gpus(row->node, NULL);
        struct mu_launch_machine *machine = test_machine(row->node);
        struct mu_launch_plan *plan = NULL;
        char why[400] = "", *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        if (mu_launch_gpu_plan_make(&binding, row->num_tasks, &machine, gpus, &plan, why, sizeof why))
            fail_msg("row %zu: %s", i, why);
        for (uint32_t task = 0; task < row->num_tasks; task++)
            for (char **var = mu_launch_plan_place(plan, task)->env; *var; var++) {
                print_value(out, gpus, *var);
                putc(var[1] ? ' ' : '\n', out);
            }
        fclose(out);
        assert_string_equal(text, row->expected);
        free(text);
        mu_launch_plan_free(plan);
        mu_launch_machine_free(machine);
        mu_launch_gpus_free(gpus);
    }
}

/* ---- a command's own variables ----------------------------------------------------------------------------------- */

TEST(variables_that_say_otherwise_are_refused_and_the_same_are_not)
{
    struct mu_launch_binding binding = {.to_gpus = 1, .gpus_per_task = 1, .visibility = MU_LAUNCH_SEES_ALL};
    struct mu_launch_gpus *gpus = test_gpus(&test_pairs, NULL), *of_amd = test_gpus(&test_reversed, NULL);
    struct mu_launch_machine *machine = test_machine(&test_pairs);
    struct mu_launch_plan *plan = NULL, *plan_of_amd = NULL;
    char why[400] = "", *same[2] = {NULL, NULL};

    assert_int_equal(mu_launch_gpu_plan_make(&binding, 2, &machine, gpus, &plan, why, sizeof why), 0);
    assert_int_equal(mu_launch_gpu_plan_make(&binding, 2, &machine, of_amd, &plan_of_amd, why, sizeof why), 0);
    same[0] = mu_launch_plan_place(plan, 0)->env[0];
    assert_int_equal(mu_launch_gpu_check_env(plan, 0, 2, same, why, sizeof why), 0);
    assert_int_equal(mu_launch_gpu_check_env(plan, 0, 2, (char *[]){"PATH=/bin", "CUDA=1", NULL}, why, sizeof why), 0);
    assert_int_equal(mu_launch_gpu_check_env(plan, 0, 2, NULL, why, sizeof why), 0);
    assert_int_equal(
        mu_launch_gpu_check_env(plan, 1, 1, (char *[]){"A=b", "CUDA_VISIBLE_DEVICES=3", NULL}, why, sizeof why), -1);
    assert_non_null(strstr(why, "--env CUDA_VISIBLE_DEVICES=3 contradicts --bind-to gpu, which gives task 1 GPU-"));
    assert_int_equal(
        mu_launch_gpu_check_env(plan_of_amd, 0, 2, (char *[]){"HIP_VISIBLE_DEVICES=0", NULL}, why, sizeof why), -1);
    assert_non_null(strstr(why, "gives task 0 ROCR_VISIBLE_DEVICES of its own"));
    assert_int_equal(mu_launch_gpu_check_env(plan, 0, 2, (char *[]){"HIP_VISIBLE_DEVICES=0", NULL}, why, sizeof why),
                     0);
    mu_launch_plan_free(plan);
    mu_launch_plan_free(plan_of_amd);
    mu_launch_machine_free(machine);
    mu_launch_gpus_free(gpus);
    mu_launch_gpus_free(of_amd);
}
