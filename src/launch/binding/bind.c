/*
 * launch/binding/bind.c: plans: which task has which place on the machine.
 *
 * In two steps, as people ask for it. Mapping hands out seats: the parts of the kind named by --map-by are visited in
 * turn, and each gives the next of its cores that is free (hardware threads, when one of the two options names those),
 * or the next few for :pe=N; a part without enough of them is passed over. When no part can give one, the seats are at
 * an end: task i sits in seat i modulo their number. Binding then widens each seat to the parts of the kind named by
 * --bind-to that its cores lie in; a core has all its hardware threads that may be used.
 *
 * More tasks than seats: the tasks are not bound, unless overload was asked for. Pinned, two tasks would share one
 * core for good while others idle whenever their owners wait; unpinned, the kernel moves them. The user is told.
 */
#include "launch/binding/bind_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One core, or one hardware thread: threads[first ..] of the machine. */
struct bind_unit {
    size_t first, count;
};

struct bind_planner {
    const struct mu_launch_machine *machine;
    const struct mu_launch_binding *binding;
    struct mu_launch_plan *plan;
    struct bind_unit *units;
    size_t num_units;
    size_t *taken;  /* units of a seat being made */
    int *parts;     /* those that tasks are mapped by, in the order of the tree */
    size_t *cursor; /* of each part: units before this one are given out */
    size_t num_parts;
    cpu_set_t *ids; /* room for numbers of parts */
};

static int bind_out_of_memory(char *why, size_t size)
{
    snprintf(why, size, "out of memory");
    return -1;
}

/* "core 3", "cores 4-7"; with the package before it, when it lies in one. */
static char *part_describe(enum mu_launch_part part, int package, const char *numbers)
{
    static const char *const words[MU_NUM_PARTS][2] = {
        [MU_PART_PACKAGE] = {"package", "packages"},
        [MU_PART_NUMA] = {"NUMA", "NUMA"},
        [MU_PART_L3] = {"L3", "L3"},
        [MU_PART_CORE] = {"core", "cores"},
        [MU_PART_HWTHREAD] = {"hwthread", "hwthreads"},
    };
    const char *word = words[part][strpbrk(numbers, ",-") != NULL];
    char *text;
    int length;

    if (package >= 0 && part > MU_PART_NUMA)
        length = asprintf(&text, "package %d %s %s", package, word, numbers);
    else
        length = asprintf(&text, "%s %s", word, numbers);
    return length < 0 ? NULL : text;
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

static int make_units(struct bind_planner *p)
{
    const struct mu_launch_machine *machine = p->machine;
    int threads = p->binding->map_by == MU_PART_HWTHREAD || p->binding->bind_to == MU_PART_HWTHREAD;
    enum mu_launch_part part = threads ? MU_PART_HWTHREAD : MU_PART_CORE;

    for (size_t i = 0; i < machine->num_threads; i++) {
        struct bind_unit *last = p->num_units ? &p->units[p->num_units - 1] : NULL;

        if (last && machine->threads[last->first].part[part] == machine->threads[i].part[part])
            last->count++;
        else
            p->units[p->num_units++] = (struct bind_unit){i, 1};
    }
    return threads;
}

static int part_of(const struct bind_planner *p, size_t unit)
{
    return p->machine->threads[p->units[unit].first].part[p->binding->map_by];
}

static void make_parts(struct bind_planner *p)
{
    for (size_t i = 0; i < p->num_units; i++) {
        size_t known = 0;

        while (known < p->num_parts && p->parts[known] != part_of(p, i))
            known++;
        if (known == p->num_parts && part_of(p, i) >= 0)
            p->parts[p->num_parts++] = part_of(p, i);
    }
}

/* Takes the next units of the part. 0: it has not enough left. */
static int take_seat(struct bind_planner *p, size_t part)
{
    size_t wanted = p->binding->per_task, found = 0, at = p->cursor[part];

    for (; at < p->num_units && found < wanted; at++)
        if (part_of(p, at) == p->parts[part])
            p->taken[found++] = at;
    p->cursor[part] = at;
    return found == wanted;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The numbers of the parts that the place's processors lie in, as a list; *ret_only is the one of them, or -1. */
static char *parts_of_place(struct bind_planner *p, const struct mu_launch_place *place, enum mu_launch_part part,
                            int *ret_only)
{
    const struct mu_launch_machine *machine = p->machine;

    CPU_ZERO_S(machine->set_size, p->ids);
    *ret_only = -1;
    for (size_t i = 0; i < machine->num_threads; i++) {
        const struct mu_launch_thread *thread = &machine->threads[i];

        if (CPU_ISSET_S(thread->cpu, place->cpus_size, place->cpus) && thread->part[part] >= 0) {
            CPU_SET_S((size_t)thread->part[part], machine->set_size, p->ids);
            *ret_only = thread->part[part];
        }
    }
    if (CPU_COUNT_S(machine->set_size, p->ids) != 1)
        *ret_only = -1;
    return mu_cpus_list(p->ids, machine->set_size);
}

/* Texts of a place with known processors. */
static int describe_place(struct bind_planner *p, struct mu_launch_place *place, char *why, size_t size)
{
    enum mu_launch_part part = p->binding->bind_to;
    int package, node, only;
    char *numbers, *packages;

    packages = parts_of_place(p, place, MU_PART_PACKAGE, &package);
    numbers = parts_of_place(p, place, part, &only);
    place->nodes = parts_of_place(p, place, MU_PART_NUMA, &node);
    place->list = mu_cpus_list(place->cpus, place->cpus_size);
    if (numbers)
        place->where = place->bound ? part_describe(part, package, numbers) : strdup("not bound");
    free(packages);
    free(numbers);
    return place->where && place->list && place->nodes ? 0 : bind_out_of_memory(why, size);
}

int mu_launch_place_describe(const struct mu_launch_machine *machine, enum mu_launch_part part,
                             struct mu_launch_place *place, char *why, size_t size)
{
    struct mu_launch_binding binding = {.bind_to = part};
    struct bind_planner p = {.machine = machine, .binding = &binding, .ids = mu_cpus_new(machine->set_size)};
    int code = p.ids ? describe_place(&p, place, why, size) : bind_out_of_memory(why, size);

    CPU_FREE(p.ids);
    return code;
}

/* Adds to the place every thread of the bind part that the unit lies in. */
static int place_widen(const struct bind_planner *p, struct mu_launch_place *place, size_t unit, char *why, size_t size)
{
    const struct mu_launch_thread *first = &p->machine->threads[p->units[unit].first];
    enum mu_launch_part part = p->binding->bind_to;

    if (first->part[part] < 0) {
        snprintf(why, size, "hwloc knows no %s around processor %u", mu_launch_part_name(part), first->cpu);
        return -1;
    }
    for (size_t i = 0; i < p->machine->num_threads; i++)
        if (p->machine->threads[i].part[part] == first->part[part])
            CPU_SET_S(p->machine->threads[i].cpu, place->cpus_size, place->cpus);
    return 0;
}

static int add_place(struct bind_planner *p, char *why, size_t size)
{
    struct mu_launch_place *place = &p->plan->places[p->plan->num_places++];

    place->cpus_size = p->machine->set_size;
    place->cpus = mu_cpus_new(place->cpus_size);
    if (!place->cpus)
        return bind_out_of_memory(why, size);
    place->bound = 1;
    for (size_t i = 0; i < p->binding->per_task; i++)
        if (place_widen(p, place, p->taken[i], why, size))
            return -1;
    return describe_place(p, place, why, size);
}

/* Seats in the order of mapping, until there are no more or every task has one. */
static int bind_places_make(struct bind_planner *p, uint32_t num_tasks, char *why, size_t size)
{
    int more = 1;

    while (more) {
        more = 0;
        for (size_t part = 0; part < p->num_parts; part++) {
            if (!take_seat(p, part))
                continue;
            if (p->plan->num_places == num_tasks)
                return 0;
            if (add_place(p, why, size))
                return -1;
            more = 1;
        }
    }
    return 0;
}

/* ---- whole plans ------------------------------------------------------------------------------------------------- */

static void clear_place(struct mu_launch_place *place)
{
    CPU_FREE(place->cpus);
    free(place->list);
    free(place->where);
    free(place->nodes);
    free(place->gpus);
    CPU_FREE(place->memory);
    free(place->memory_list);
    for (char **var = place->env; var && *var; var++)
        free(*var);
    free((void *)place->env);
    memset(place, 0, sizeof *place);
}

static void clear_places(struct mu_launch_plan *plan)
{
    for (uint32_t i = 0; i < plan->num_places; i++)
        clear_place(&plan->places[i]);
    plan->num_places = 0;
}

/* The one place of tasks that are not bound: what /proc says of us, which may include processors that are switched off.
 */
static int stay_free(struct mu_launch_plan *plan, char *why, size_t size)
{
    struct mu_launch_place *place = &plan->places[0];
    char *list;

    plan->num_places = 1;
    if (mu_cpus_allowed(&place->cpus, &place->cpus_size)) {
        snprintf(why, size, "cannot ask which processors may be used: %s", strerror(errno));
        return -1;
    }
    list = mu_cpus_of("/proc/self/status");
    if (list) {
        CPU_ZERO_S(place->cpus_size, place->cpus);
        if (mu_cpus_parse(list, place->cpus, place->cpus_size)) {
            snprintf(why, size, "/proc/self/status has an odd list of processors: '%.60s'", list);
            free(list);
            return -1;
        }
    }
    place->list = list ? list : mu_cpus_list(place->cpus, place->cpus_size);
    place->where = strdup("not bound");
    place->nodes = strdup("-");
    return place->list && place->where && place->nodes ? 0 : bind_out_of_memory(why, size);
}

/* The same on a foreign machine: all of it. */
static int stay_free_there(struct bind_planner *p, char *why, size_t size)
{
    struct mu_launch_place *place = &p->plan->places[0];

    p->plan->num_places = 1;
    place->cpus_size = p->machine->set_size;
    place->cpus = mu_cpus_new(place->cpus_size);
    if (!place->cpus)
        return bind_out_of_memory(why, size);
    for (size_t i = 0; i < p->machine->num_threads; i++)
        CPU_SET_S(p->machine->threads[i].cpu, place->cpus_size, place->cpus);
    return describe_place(p, place, why, size);
}

static void bind_planner_done(struct bind_planner *p)
{
    free(p->units);
    free(p->taken);
    free(p->parts);
    free(p->cursor);
    CPU_FREE(p->ids);
}

static int planner_init(struct bind_planner *p, char *why, size_t size)
{
    size_t count = p->machine->num_threads;

    p->units = calloc(count, sizeof *p->units);
    p->taken = calloc(count + p->binding->per_task, sizeof *p->taken);
    p->parts = calloc(count, sizeof *p->parts);
    p->cursor = calloc(count, sizeof *p->cursor);
    p->ids = mu_cpus_new(p->machine->set_size);
    p->plan->places = calloc(count, sizeof *p->plan->places);
    if (p->units && p->taken && p->parts && p->cursor && p->ids && p->plan->places)
        return 0;
    return bind_out_of_memory(why, size);
}

/* More tasks than places: either they share, or nobody is bound. `unit` is "core" or "hardware thread". */
static int tasks_oversubscribe(struct bind_planner *p, uint32_t num_tasks, const char *unit, char *why, size_t size)
{
    struct mu_launch_plan *plan = p->plan;
    uint32_t room = plan->num_places, per_task = p->binding->per_task;
    char each[64] = "";

    plan->oversubscribed = 1;
    if (p->binding->overload) {
        for (uint32_t i = 0; i < room; i++)
            plan->places[i].shared = i + room < num_tasks;
        snprintf(plan->note, sizeof plan->note, "%u tasks share the places of %u", num_tasks, room);
        return 0;
    }
    if (per_task > 1)
        snprintf(each, sizeof each, " of %u %ss", per_task, unit);
    snprintf(plan->note, sizeof plan->note,
             "%u tasks%s on %zu %s%s: not bound; --bind-to %s:overload binds them all the same", num_tasks, each,
             p->num_units, unit, p->num_units == 1 ? "" : "s", mu_launch_part_name(p->binding->bind_to));
    clear_places(plan);
    return plan->foreign ? stay_free_there(p, why, size) : stay_free(plan, why, size);
}

static void count_processors(struct bind_planner *p)
{
    size_t size = p->machine->set_size;

    CPU_ZERO_S(size, p->ids);
    for (uint32_t i = 0; i < p->plan->num_places; i++)
        if (p->plan->places[i].bound)
            CPU_OR_S(size, p->ids, p->ids, p->plan->places[i].cpus);
    p->plan->num_processors = (uint32_t)CPU_COUNT_S(size, p->ids);
}

static int bind_plan_make(struct bind_planner *p, uint32_t num_tasks, char *why, size_t size)
{
    const char *unit;

    if (planner_init(p, why, size))
        return -1;
    unit = make_units(p) ? "hardware thread" : "core";
    make_parts(p);
    if (p->num_parts == 0) {
        snprintf(why, size, "hwloc knows no %s on this machine", mu_launch_part_name(p->binding->map_by));
        return -1;
    }
    if (bind_places_make(p, num_tasks, why, size))
        return -1;
    if (p->plan->num_places == 0) {
        snprintf(why, size, "%u %ss a task (:pe=%u) are more than %s%s has", p->binding->per_task, unit,
                 p->binding->per_task, p->binding->map_by == MU_PART_MACHINE ? "the " : "any ",
                 mu_launch_part_name(p->binding->map_by));
        return -1;
    }
    if (p->plan->num_places < num_tasks && tasks_oversubscribe(p, num_tasks, unit, why, size))
        return -1;
    count_processors(p);
    return 0;
}

int mu_launch_plan_make(const struct mu_launch_binding *binding, uint32_t num_tasks, struct mu_launch_machine **machine,
                        struct mu_launch_plan **ret_plan, char *why, size_t size)
{
    struct mu_launch_machine *own = NULL;
    struct mu_launch_plan *plan = calloc(1, sizeof *plan);
    struct bind_planner planner = {.binding = binding, .plan = plan};
    int code = -1;

    if (!machine)
        machine = &own;
    if (!plan) {
        bind_out_of_memory(why, size);
    } else if (binding->bind_to == MU_PART_MACHINE) {
        plan->places = calloc(1, sizeof *plan->places);
        code = plan->places ? stay_free(plan, why, size) : bind_out_of_memory(why, size);
    } else if (*machine || mu_launch_machine_load(NULL, machine, why, size) == 0) {
        planner.machine = *machine;
        plan->foreign = planner.machine->foreign;
        code = bind_plan_make(&planner, num_tasks, why, size);
        bind_planner_done(&planner);
    }
    mu_launch_machine_free(own);
    if (code)
        mu_launch_plan_free(plan);
    else
        *ret_plan = plan;
    return code;
}

const struct mu_launch_place *mu_launch_plan_place(const struct mu_launch_plan *plan, uint32_t task)
{
    return &plan->places[task % plan->num_places];
}

void mu_launch_plan_free(struct mu_launch_plan *plan)
{
    if (!plan)
        return;
    clear_places(plan);
    free(plan->places);
    free(plan);
}
