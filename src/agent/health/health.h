/*
 * agent/health/health.h: the GPUs of a job are watched while it runs, and what goes wrong with one is an error of its
 * tasks.
 */
#ifndef MU_AGENT_HEALTH_HEALTH_H
#define MU_AGENT_HEALTH_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#include "topology/nvml.h"

#define MU_HEALTH_NAME "muster-health" /* of the process that watches */

/* ---- health.c ---------------------------------------------------------------------------------------------------- */

struct mu_agent;
struct mu_health;

/* Watch, where there is something to be watched: it costs nothing else. Never fails. */
void mu_health_start(struct mu_agent *agent);
/* End the watching process; NULL is allowed. The rest is freed when the loop closes. */
void mu_health_stop(struct mu_agent *agent);

/* ---- health/watch.c: the process that watches -------------------------------------------------------------------- */

enum mu_health_kind {
    MU_HEALTH_GPU = 1,   /* one of those that are watched: number, pci, uuid, name */
    MU_HEALTH_PART = 2,  /* of that GPU: uuid, gpu_instance */
    MU_HEALTH_READY = 3, /* all have been told; from here on events */
    MU_HEALTH_EVENT = 4, /* type, data; gpu_instance where it is of a part alone */
    MU_HEALTH_LOST = 5,  /* the GPU has gone */
    MU_HEALTH_END = 6,   /* it can watch no more: text */
};

/* What goes through the pipe, each with one write(). */
struct mu_health_record {
    uint32_t magic;
    uint32_t kind, gpu;
    int32_t gpu_instance, is_refused;
    uint64_t type, data;
    char pci[MU_NVML_PCI_MAX], uuid[NVML_TEXT_MAX], name[NVML_TEXT_MAX], text[128];
};
#define MU_HEALTH_MAGIC 0x6c616568u /* "heal" */

/* main() of it: NAME DESCRIPTOR. */
int mu_health_main(int argc, char **argv);

/* ---- health/words.c ---------------------------------------------------------------------------------------------- */

enum mu_health_verdict {
    MU_HEALTH_UNKNOWN,  /* a number without words here: said, no more */
    MU_HEALTH_PROGRAM,  /* a program's fault, the GPU is well: said, no more; the program learns of it by itself */
    MU_HEALTH_NOTED,    /* the GPU goes on, and somebody should look at it some time */
    MU_HEALTH_HARDWARE, /* tasks that compute with it cannot go on */
};

/* What the driver calls Xid; the words go behind "GPU 0000:5e:00.0 ". */
enum mu_health_verdict mu_health_xid(uint64_t xid, const char **ret_words);

/* The same of an event: "fell off the bus (Xid 79)". */
enum mu_health_verdict mu_health_event(uint64_t type, uint64_t data, char *words, size_t size);

/* ---- health/uses.c ----------------------------------------------------------------------------------------------- */

struct mu_health_part {
    uint32_t gpu;
    int32_t gpu_instance;
    char uuid[NVML_TEXT_MAX];
};

struct mu_health_gpu {
    char pci[MU_NVML_PCI_MAX], uuid[NVML_TEXT_MAX], name[NVML_TEXT_MAX];
    int is_refused; /* may not be opened: the CUDA driver does not number it */
    int has_failed;
    uint32_t failures; /* of its parts, too */
    uint64_t said[4];  /* Xids that were said of it, one bit each; the last is of all from 255 on */
};

#define MU_HEALTH_PARTS_MAX (MU_NVML_GPUS_MAX * MU_NVML_PARTS_MAX)

/* The GPUs of the machine, in NVML's order. */
struct mu_health_gpus {
    uint32_t num_gpus, num_parts;
    struct mu_health_gpu gpus[MU_NVML_GPUS_MAX];
    struct mu_health_part parts[MU_HEALTH_PARTS_MAX];
};

enum mu_health_use { MU_HEALTH_USES_NOT, MU_HEALTH_USES, MU_HEALTH_USE_NOT_TOLD };

/*
 * Whether a process with this environment (as in /proc: NUL after each entry) computes on the GPU; with gpu_instance
 * not -1, on that part of it.
 */
enum mu_health_use mu_health_uses(const struct mu_health_gpus *gpus, const char *environment, size_t size, uint32_t gpu,
                                  int32_t gpu_instance);

#endif
