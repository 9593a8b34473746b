/*
 * launch/binding/bind_private.h: what the files behind launch/binding/bind.h share.
 */
#ifndef MU_LAUNCH_BINDING_BIND_PRIVATE_H
#define MU_LAUNCH_BINDING_BIND_PRIVATE_H

#include "base/cpus.h"
#include "launch/binding/bind.h"

/* A hardware thread that may be used, and the parts of the machine that it lies in (-1: in no such part). */
struct mu_launch_thread {
    unsigned cpu; /* the kernel's number */
    int part[MU_NUM_PARTS];
};

/* All of a machine: its threads in the order of the tree, so that those of a core are neighbours. */
struct mu_launch_machine {
    struct mu_launch_thread *threads;
    size_t num_threads;
    size_t set_size; /* bytes of a set that holds every cpu and every number of a part */
    const char *foreign;
};

/* ---- bind.c: what other planners need ---- */
/* The texts of a place with known processors, in words for `part`. */
int mu_launch_place_describe(const struct mu_launch_machine *machine, enum mu_launch_part part,
                             struct mu_launch_place *place, char *why, size_t size);

/* ---- bind_report.c, gpu_report.c: the table of --report-bindings ---- */
void mu_launch_verdict_words(const struct mu_launch_report *row, char *words, size_t size);
void mu_launch_json_text(FILE *out, const char *key, const char *text);
/* The rows of a plan by GPUs: a line a GPU. */
void mu_launch_gpu_report_print(FILE *out, const struct mu_launch_report *rows, size_t count);
/* Further members of the task's object. */
void mu_launch_gpu_report_json(FILE *out, const struct mu_launch_report *row);

#endif
