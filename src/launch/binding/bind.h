/*
 * launch/binding/bind.h: which processors the tasks of a job may use.
 *
 * A machine is what hwloc says of this node, less what the launcher itself may not use. A plan gives each task a place
 * on it. The caller hands the place to mu_launch_spawn(), and asks the kernel afterwards whether it holds.
 *
 * Functions that may fail return -1 and say why, without a newline, in `why`.
 */
#ifndef MU_LAUNCH_BINDING_BIND_H
#define MU_LAUNCH_BINDING_BIND_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <muster/topology.h>

/* Sentences for the user; what is too many is left out. */
#define MU_LAUNCH_NOTES 8
struct mu_launch_notes {
    char text[MU_LAUNCH_NOTES][320];
    unsigned count;
};
/* Makes a question mark of what a terminal might obey; variables and drivers may say anything. */
void mu_launch_plain(char *text);
void mu_launch_note(struct mu_launch_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- bind_words.c: what people ask for -------------------------------------------------------------------------- */

/* The parts of a machine that tasks are counted by, spread over and bound to; from large to small. */
enum mu_launch_part {
    MU_PART_MACHINE, /* --bind-to none, --map-by slot */
    MU_PART_PACKAGE,
    MU_PART_NUMA,
    MU_PART_L3,
    MU_PART_CORE,
    MU_PART_HWTHREAD,
    MU_NUM_PARTS,
};

/* Which GPUs a task sees. */
enum mu_launch_visibility {
    MU_LAUNCH_SEES_DEFAULT, /* all, but its own where there are MIG instances */
    MU_LAUNCH_SEES_ALL,     /* all of the job's, in the order of the tasks */
    MU_LAUNCH_SEES_OWN,
};

struct mu_launch_binding {
    enum mu_launch_part bind_to;
    enum mu_launch_part map_by;
    uint32_t per_task;      /* cores a task (with hwthread: hardware threads) */
    int overload;           /* bind also when tasks must share */
    int to_gpus;            /* to GPUs and what is near them: launch/binding/gpu.h */
    uint32_t gpus_per_task; /* 0: as many as there are, divided by the tasks */
    enum mu_launch_visibility visibility;
};

/* `bind_to` "core", "core:overload", "gpu"; `map_by` "numa", "slot:pe=4"; NULL: not given, so that it follows the
 * other. */
int mu_launch_binding_parse(const char *bind_to, const char *map_by, struct mu_launch_binding *ret_binding, char *why,
                            size_t size);
/* The words that each may be, by number; NULL: no more. Some can be followed by ':' and more. */
const char *mu_launch_bind_to_word(size_t number);
const char *mu_launch_map_by_word(size_t number);
const char *mu_launch_count_word(size_t number); /* behind -n */
/* Whether -n TEXT asks for a count ("auto", "gpu", "core", ...): then it is one for mu_launch_count(). */
bool mu_launch_is_count(const char *text);
/* "core" */
const char *mu_launch_part_name(enum mu_launch_part part);
/* MU_NUM_PARTS: it is none. */
enum mu_launch_part mu_launch_part_find(const char *word);

/* ---- machine.c --------------------------------------------------------------------------------------------------- */

struct mu_launch_machine;

/* Where to look; zeros: at this machine. Tests look elsewhere. */
struct mu_launch_source {
    const char *library;   /* NULL: libhwloc.so.15 */
    const char *synthetic; /* a machine in hwloc's words, "package:2 core:8 pu:2" */
    const cpu_set_t *allowed;
    size_t allowed_size; /* bytes */
};

/*
 * Loads hwloc, and lets go of it again: 0.9 ms on two processors, more while other threads run, for then its plugins
 * are opened. `source` may be NULL.
 */
int mu_launch_machine_load(const struct mu_launch_source *source, struct mu_launch_machine **ret_machine, char *why,
                           size_t size);
/* NULL is allowed. */
void mu_launch_machine_free(struct mu_launch_machine *machine);

/* NULL, or the variable that shows us another machine than this one: only for a dry run. */
const char *mu_launch_machine_foreign(const struct mu_launch_machine *machine);

/*
 * How many tasks "core", "l3", "numa", "package", "hwthread", "gpu" or "auto" (the GPUs; without any, the cores) mean.
 * *machine and *gpus (launch/binding/gpu.h) are loaded if they are needed and NULL; the caller frees them.
 * `machine`, `gpus` NULL: loaded and freed here.
 */
struct mu_launch_gpus;
int mu_launch_count(const char *what, struct mu_launch_machine **machine, struct mu_launch_gpus **gpus,
                    uint32_t *ret_count, char *why, size_t size);

/* ---- bind.c ------------------------------------------------------------------------------------------------------ */

/* Where a task runs. */
struct mu_launch_place {
    int bound;       /* 0: wherever the launcher may */
    int shared;      /* another task has the same place, because there are more tasks than places */
    cpu_set_t *cpus; /* for struct mu_launch_image, if bound; what /proc must say afterwards in any case */
    size_t cpus_size;
    char *list;  /* "0-3,8" */
    char *where; /* "package 0 core 3"; numbers as lstopo's L#, those of NUMA nodes the kernel's */
    char *nodes; /* NUMA nodes, "0"; "-" where that was not asked */

    /* Of a plan by GPUs. */
    size_t *gpus; /* the task's own, by their places in plan->gpus */
    size_t num_gpus;
    int shares_gpus;         /* another task has them, because there are more tasks than GPUs */
    struct muster_link link; /* the furthest among them */
    cpu_set_t *memory;       /* nodes near them, for struct mu_launch_image; NULL: none is nearer than another */
    size_t memory_size;
    char *memory_list; /* "0-1"; NULL as above */
    char **env;        /* NAME=VALUE..., ended by NULL: what the task is told of its GPUs */
};

struct mu_launch_plan {
    struct mu_launch_place *places;
    uint32_t num_places;     /* task i has place i modulo this */
    uint32_t num_processors; /* of all places together, for struct mu_launch_job; 0 when nothing is bound */
    int oversubscribed;      /* more tasks than the machine has room for: not bound, unless overload was asked for */
    const char *foreign;     /* NULL, or the variable that shows us another machine: then only for a dry run */
    char note[200];          /* "", or what the user should be told */
    struct mu_launch_notes notes;      /* the same, of a plan by GPUs */
    const struct mu_launch_gpus *gpus; /* NULL: no plan by GPUs */
};

/* `machine` as for mu_launch_count(). A plan that binds nothing needs none. */
int mu_launch_plan_make(const struct mu_launch_binding *binding, uint32_t num_tasks, struct mu_launch_machine **machine,
                        struct mu_launch_plan **ret_plan, char *why, size_t size);
const struct mu_launch_place *mu_launch_plan_place(const struct mu_launch_plan *plan, uint32_t task);
/* Names of variables that tasks do not inherit, for struct mu_launch_job; NULL: none. */
const char *const *mu_launch_plan_dropped(const struct mu_launch_plan *plan);
/* NULL is allowed. */
void mu_launch_plan_free(struct mu_launch_plan *plan);

/* ---- bind_report.c ----------------------------------------------------------------------------------------------- */

enum mu_launch_verdict {
    MU_LAUNCH_UNASKED, /* a dry run */
    MU_LAUNCH_HOLDS,   /* every thread of the process may use exactly the place */
    MU_LAUNCH_DIFFERS, /* one may not */
    MU_LAUNCH_GONE,    /* no process to ask about */
};

/* Asks the kernel. `actual` becomes its list ("0-3"; cut where it does not fit): of the thread that differs, if any. */
enum mu_launch_verdict mu_launch_verify(pid_t pid, const struct mu_launch_place *place, char *actual, size_t size);

/*
 * The same for what a task was told of its GPUs, and for its memory where the kernel shows it. `actual` becomes what
 * differs, "CUDA_VISIBLE_DEVICES=3".
 */
enum mu_launch_verdict mu_launch_gpu_verify(pid_t pid, const struct mu_launch_place *place, char *actual, size_t size);

/* A line of --report-bindings. */
#define MU_LAUNCH_ACTUAL 160
struct mu_launch_report {
    uint32_t task;
    pid_t pid; /* 0: not started */
    const char *host;
    const struct mu_launch_place *place;
    enum mu_launch_verdict verdict;
    char actual[MU_LAUNCH_ACTUAL];
    const struct mu_launch_gpus *gpus; /* of a plan by GPUs; else NULL */
};

/* What a dry run says of the task's GPUs, a line each; nothing, without a plan by GPUs. */
void mu_launch_gpu_print(const struct mu_launch_plan *plan, uint32_t task, FILE *out);

void mu_launch_report_print(FILE *out, const struct mu_launch_report *rows, size_t count);
/* An array of objects, ended by a newline. */
void mu_launch_report_json(FILE *out, const struct mu_launch_report *rows, size_t count);

#endif
