/*
 * launch/binding/gpu_plan.c: plans by GPUs: which task has which, what lies near them, and what the tasks are told.
 *
 * GPUs are named by UUID, for their numbers depend on the counter. By default every task sees all GPUs of the job, its
 * own where LOCAL_RANK says with one a task: a GPU that is hidden from a task cannot be reached by it, neither over
 * NVLink nor by CUDA's IPC. MIG instances cannot reach each other anyway, and CUDA shows a process only the first that
 * it is told of, so with these each task sees its own.
 */
#include "launch/binding/bind_private.h"
#include "launch/binding/gpu.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NODES      1024 /* more the kernel cannot be built for */
#define NODES_SIZE CPU_ALLOC_SIZE(NODES)

struct gpu_planner {
    const struct mu_launch_machine *machine;
    const struct mu_launch_gpus *gpus;
    struct mu_launch_plan *plan;
    uint32_t num_tasks;
    size_t each, groups;
    size_t *order;  /* group * each + n: a GPU */
    cpu_set_t *any; /* all that may be used */
    struct mu_launch_wish *wishes;
    cpu_set_t *nodes; /* of memory, that may be used; NODES_SIZE */
    unsigned num_far; /* tasks with GPUs that have no processors nearby */
    int own;
};

static int plan_out_of_memory(char *why, size_t size)
{
    snprintf(why, size, "out of memory");
    return -1;
}

void mu_launch_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            *text = '?';
}

void mu_launch_note(struct mu_launch_notes *notes, const char *format, ...)
{
    va_list args;

    if (notes->count == MU_LAUNCH_NOTES)
        return;
    va_start(args, format);
    vsnprintf(notes->text[notes->count], sizeof notes->text[0], format, args);
    va_end(args);
    mu_launch_plain(notes->text[notes->count++]);
}

static const size_t *group_of(const struct gpu_planner *p, uint32_t task)
{
    return p->order + task % p->groups * p->each;
}

/* ---- how many ---------------------------------------------------------------------------------------------------- */

static const char *s_of(size_t count)
{
    return count == 1 ? "" : "s";
}

static int count_groups(struct gpu_planner *p, const struct mu_launch_binding *binding, char *why, size_t size)
{
    size_t there = p->gpus->count, fit;
    const char *hider = p->gpus->hider, *after = *hider ? " leaves" : "";

    if (there == 0) {
        mu_launch_gpus_lack(p->gpus, why, size);
        return -1;
    }
    p->each = binding->gpus_per_task ? binding->gpus_per_task : there / p->num_tasks;
    if (p->each == 0)
        p->each = 1;
    fit = there / p->each;
    p->groups = fit < p->num_tasks ? fit : p->num_tasks;
    if (fit == 0) {
        snprintf(why, size, "%zu GPUs a task (--gpus-per-task) are more than the %zu that %s%s", p->each, there,
                 *hider ? hider : "there are", after);
        return -1;
    }
    if (fit >= p->num_tasks)
        return 0;
    if (!binding->overload) {
        snprintf(why, size,
                 "%u tasks with %zu GPU%s each need %llu, of the %zu that %s%s: start %zu task%s (-n)%s, or let them "
                 "share (--bind-to gpu:overload)",
                 p->num_tasks, p->each, s_of(p->each), (unsigned long long)p->num_tasks * p->each, there,
                 *hider ? hider : "there are", after, fit, s_of(fit),
                 p->each > 1 ? ", give them fewer GPUs (--gpus-per-task)" : "");
        return -1;
    }
    p->plan->oversubscribed = 1;
    mu_launch_note(&p->plan->notes, "%u tasks share the GPUs of %zu: they take turns on them%s", p->num_tasks, fit,
                   p->gpus->maker->vendor == mu_launch_makers[0].vendor
                       ? ", unless NVIDIA's MPS runs (nvidia-cuda-mps-control -d)"
                       : "");
    return 0;
}

static void choose_visibility(struct gpu_planner *p, const struct mu_launch_binding *binding)
{
    p->own = binding->visibility == MU_LAUNCH_SEES_OWN ||
             (binding->visibility == MU_LAUNCH_SEES_DEFAULT && p->gpus->has_parts);
    if (p->gpus->has_parts && binding->visibility == MU_LAUNCH_SEES_DEFAULT)
        mu_launch_note(&p->plan->notes, "MIG instances cannot reach each other: each task sees only its own");
    if (p->gpus->has_parts && (!p->own || p->each > 1))
        mu_launch_note(&p->plan->notes,
                       "CUDA before 13 shows a process one MIG instance, the first that it is told of: %s",
                       p->own ? "--gpus-per-task 1 is what such tasks can use" : "--gpu-visibility own is safer");
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

/* Those near the task's GPUs that may be used; all, where none is. */
static void near_gpus_find(struct gpu_planner *p, uint32_t task, cpu_set_t *near)
{
    size_t set_size = p->machine->set_size;

    for (size_t i = 0; i < p->each; i++)
        mu_cpus_parse(p->gpus->list[group_of(p, task)[i]].device->cpus, near, set_size);
    CPU_AND_S(set_size, near, near, p->any);
    if (CPU_COUNT_S(set_size, near) > 0)
        return;
    CPU_OR_S(set_size, near, near, p->any);
    p->num_far++;
}

static int make_wishes(struct gpu_planner *p, char *why, size_t size)
{
    p->any = mu_cpus_new(p->machine->set_size);
    p->wishes = calloc(p->num_tasks, sizeof *p->wishes);
    if (!p->any || !p->wishes)
        return plan_out_of_memory(why, size);
    for (size_t i = 0; i < p->machine->num_threads; i++)
        CPU_SET_S(p->machine->threads[i].cpu, p->machine->set_size, p->any);
    for (uint32_t task = 0; task < p->num_tasks; task++) {
        cpu_set_t *near = mu_cpus_new(p->machine->set_size);

        p->wishes[task].near = near;
        p->wishes[task].cpus = mu_cpus_new(p->machine->set_size);
        if (!near || !p->wishes[task].cpus)
            return plan_out_of_memory(why, size);
        near_gpus_find(p, task, near);
    }
    if (p->num_far)
        mu_launch_note(&p->plan->notes,
                       "no processor that may be used is known to be near the GPUs of %u task%s: %s any", p->num_far,
                       s_of(p->num_far), p->num_far == 1 ? "it is given" : "they are given");
    return mu_launch_split(p->machine, p->wishes, p->num_tasks) ? plan_out_of_memory(why, size) : 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Not memory of GPUs, nor other special kinds: common memory is what a task is to be given. */
static bool is_common(const struct muster_numa *numa)
{
    return numa->number >= 0 && numa->number < NODES && *numa->cpus &&
           (!*numa->kind || strcmp(numa->kind, "DRAM") == 0);
}

static int find_nodes(struct gpu_planner *p, char *why, size_t size)
{
    char *allowed = p->plan->foreign ? NULL : mu_cpus_nodes_of("/proc/self/status");
    cpu_set_t *may = mu_cpus_new(NODES_SIZE);

    p->nodes = mu_cpus_new(NODES_SIZE);
    if (may && allowed)
        mu_cpus_parse(allowed, may, NODES_SIZE);
    for (size_t i = 0; p->nodes && may && i < muster_topology_num_numas(p->gpus->topology); i++) {
        const struct muster_numa *numa = muster_topology_numa(p->gpus->topology, i);

        if (is_common(numa) && (!allowed || CPU_ISSET_S((size_t)numa->number, NODES_SIZE, may)))
            CPU_SET_S((size_t)numa->number, NODES_SIZE, p->nodes);
    }
    free(allowed);
    CPU_FREE(may);
    return p->nodes && may ? 0 : plan_out_of_memory(why, size);
}

static bool is_usable(const struct gpu_planner *p, int32_t number)
{
    return number >= 0 && number < NODES && CPU_ISSET_S((size_t)number, NODES_SIZE, p->nodes);
}

/* The nodes of the processors near the task's GPUs. */
static int nodes_of_processors(const struct gpu_planner *p, uint32_t task, cpu_set_t *nodes)
{
    size_t set_size = p->machine->set_size;
    cpu_set_t *cpus = mu_cpus_new(set_size);

    if (!cpus)
        return -1;
    for (size_t i = 0; i < muster_topology_num_numas(p->gpus->topology); i++) {
        const struct muster_numa *numa = muster_topology_numa(p->gpus->topology, i);

        if (!is_usable(p, numa->number))
            continue;
        CPU_ZERO_S(set_size, cpus);
        mu_cpus_parse(numa->cpus, cpus, set_size);
        CPU_AND_S(set_size, cpus, cpus, p->wishes[task].near);
        if (CPU_COUNT_S(set_size, cpus) > 0)
            CPU_SET_S((size_t)numa->number, NODES_SIZE, nodes);
    }
    CPU_FREE(cpus);
    return 0;
}

/* Where the GPUs lie, else where the processors near them do. */
static int near_nodes(const struct gpu_planner *p, uint32_t task, cpu_set_t *nodes)
{
    for (size_t i = 0; i < p->each; i++) {
        int32_t number = p->gpus->list[group_of(p, task)[i]].device->numa_node;

        if (is_usable(p, number))
            CPU_SET_S((size_t)number, NODES_SIZE, nodes);
    }
    return CPU_COUNT_S(NODES_SIZE, nodes) > 0 ? 0 : nodes_of_processors(p, task, nodes);
}

/* Nothing, where all of the machine's memory is equally near. */
static int place_memory(const struct gpu_planner *p, uint32_t task, struct mu_launch_place *place)
{
    cpu_set_t *nodes = mu_cpus_new(NODES_SIZE);

    if (!nodes || near_nodes(p, task, nodes)) {
        CPU_FREE(nodes);
        return -1;
    }
    if (CPU_COUNT_S(NODES_SIZE, nodes) == 0 || CPU_EQUAL_S(NODES_SIZE, nodes, p->nodes)) {
        CPU_FREE(nodes);
        return 0;
    }
    place->memory = nodes;
    place->memory_size = NODES_SIZE;
    place->memory_list = mu_cpus_list(nodes, NODES_SIZE);
    return place->memory_list ? 0 : -1;
}

/* ---- what tasks are told ----------------------------------------------------------------------------------------- */

enum telling { NAMES, IDS, PLACES };

/* "NAME=a,b,c" of order[first ..]. */
static char *variable_tell(const struct gpu_planner *p, const char *name, enum telling what, size_t first, size_t count)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    fprintf(out, "%s=", name);
    for (size_t i = first; i < first + count; i++) {
        size_t gpu = p->order[i];

        if (i > first)
            putc(',', out);
        if (what == NAMES)
            fputs(mu_launch_gpu_name(p->gpus, gpu), out);
        else if (what == IDS)
            fputs(p->gpus->list[gpu].id, out);
        else
            fprintf(out, "%zu", p->own ? i - first : i);
    }
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

static int place_env(const struct gpu_planner *p, uint32_t task, struct mu_launch_place *place)
{
    size_t first = task % p->groups * p->each, count = 0;
    int by_number = p->gpus->by_number && p->gpus->maker->vendor == mu_launch_makers[0].vendor;

    place->env = calloc(5, sizeof *place->env);
    if (!place->env)
        return -1;
    place->env[count++] =
        variable_tell(p, p->gpus->maker->visible, NAMES, p->own ? first : 0, p->own ? p->each : p->groups * p->each);
    place->env[count++] = variable_tell(p, "MUSTER_GPUS", IDS, first, p->each);
    place->env[count++] = variable_tell(p, "MUSTER_GPU_ORDINALS", PLACES, first, p->each);
    if (by_number)
        place->env[count++] = strdup("CUDA_DEVICE_ORDER=PCI_BUS_ID");
    for (size_t i = 0; i < count; i++)
        if (!place->env[i])
            return -1;
    return 0;
}

/* ---- whole plans ------------------------------------------------------------------------------------------------- */

static int make_place(struct gpu_planner *p, uint32_t task, char *why, size_t size)
{
    struct mu_launch_place *place = &p->plan->places[p->plan->num_places++];
    struct mu_launch_wish *wish = &p->wishes[task];

    place->bound = 1;
    place->shared = wish->shared;
    place->cpus = wish->cpus;
    place->cpus_size = p->machine->set_size;
    wish->cpus = NULL;
    place->num_gpus = p->each;
    place->shares_gpus = task >= p->groups || task + p->groups < p->num_tasks;
    place->gpus = calloc(p->each, sizeof *place->gpus);
    if (!place->gpus)
        return plan_out_of_memory(why, size);
    memcpy(place->gpus, group_of(p, task), p->each * sizeof *place->gpus);
    place->link = mu_launch_gpu_link(p->gpus, place->gpus, p->each);
    if (place_memory(p, task, place) || place_env(p, task, place))
        return plan_out_of_memory(why, size);
    return mu_launch_place_describe(p->machine, MU_PART_CORE, place, why, size);
}

static int gpu_places_make(struct gpu_planner *p, char *why, size_t size)
{
    size_t set_size = p->machine->set_size;
    int any_shared = 0;

    p->plan->places = calloc(p->num_tasks, sizeof *p->plan->places);
    if (!p->plan->places)
        return plan_out_of_memory(why, size);
    CPU_ZERO_S(set_size, p->any);
    for (uint32_t task = 0; task < p->num_tasks; task++) {
        if (make_place(p, task, why, size))
            return -1;
        any_shared |= p->plan->places[task].shared;
        CPU_OR_S(set_size, p->any, p->any, p->plan->places[task].cpus);
    }
    p->plan->num_processors = (uint32_t)CPU_COUNT_S(set_size, p->any);
    if (any_shared)
        mu_launch_note(&p->plan->notes, "there are fewer cores near the GPUs than tasks: some share one");
    return 0;
}

static int gpu_plan_make(struct gpu_planner *p, const struct mu_launch_binding *binding, char *why, size_t size)
{
    if (count_groups(p, binding, why, size))
        return -1;
    choose_visibility(p, binding);
    p->order = calloc(p->groups * p->each, sizeof *p->order);
    if (!p->order || mu_launch_gpu_groups(p->gpus, p->groups, p->each, p->order))
        return plan_out_of_memory(why, size);
    if (make_wishes(p, why, size) || find_nodes(p, why, size) || gpu_places_make(p, why, size))
        return -1;
    return 0;
}

static void gpu_planner_done(struct gpu_planner *p)
{
    for (uint32_t task = 0; p->wishes && task < p->num_tasks; task++) {
        CPU_FREE((cpu_set_t *)p->wishes[task].near);
        CPU_FREE(p->wishes[task].cpus);
    }
    free(p->wishes);
    free(p->order);
    CPU_FREE(p->any);
    CPU_FREE(p->nodes);
}

int mu_launch_gpu_plan_make(const struct mu_launch_binding *binding, uint32_t num_tasks,
                            struct mu_launch_machine **machine, const struct mu_launch_gpus *gpus,
                            struct mu_launch_plan **ret_plan, char *why, size_t size)
{
    struct gpu_planner p = {.gpus = gpus, .num_tasks = num_tasks, .plan = calloc(1, sizeof *p.plan)};
    int code = -1;

    if (!p.plan)
        return plan_out_of_memory(why, size);
    if (*machine || mu_launch_machine_load(NULL, machine, why, size) == 0) {
        p.machine = *machine;
        p.plan->gpus = gpus;
        p.plan->foreign = p.machine->foreign;
        p.plan->notes = gpus->notes;
        code = gpu_plan_make(&p, binding, why, size);
    }
    gpu_planner_done(&p);
    if (code)
        mu_launch_plan_free(p.plan);
    else
        *ret_plan = p.plan;
    return code;
}

const char *const *mu_launch_plan_dropped(const struct mu_launch_plan *plan)
{
    return plan->gpus ? plan->gpus->maker->dropped : NULL;
}

/* ---- a command's own variables ----------------------------------------------------------------------------------- */

/* What we say of the variable that `entry` sets; NULL: nothing. */
static const char *our_value(const struct mu_launch_place *place, const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (char **var = place->env; var && *var; var++)
        if (strncmp(*var, entry, len) == 0 && (*var)[len] == '=')
            return *var + len + 1;
    return NULL;
}

static bool is_dropped(const struct mu_launch_maker *maker, const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (const char *const *name = maker->dropped; *name; name++)
        if (strlen(*name) == len && strncmp(*name, entry, len) == 0)
            return 1;
    return 0;
}

int mu_launch_gpu_check_env(const struct mu_launch_plan *plan, uint32_t first_task, uint32_t num_tasks,
                            char *const *env, char *why, size_t size)
{
    for (; plan->gpus && env && *env; env++)
        for (uint32_t task = first_task; task < first_task + num_tasks; task++) {
            const char *value = our_value(mu_launch_plan_place(plan, task), *env), *own = strchr(*env, '=') + 1;

            if (value ? strcmp(value, own) == 0 : !is_dropped(plan->gpus->maker, *env))
                continue;
            snprintf(why, size,
                     "--env %.80s contradicts --bind-to gpu, which gives task %u %s%.120s; to choose among the GPUs, "
                     "set it for muster run itself",
                     *env, task, value ? "" : plan->gpus->maker->visible, value ? value : " of its own");
            return -1;
        }
    return 0;
}
