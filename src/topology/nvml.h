/*
 * topology/nvml.h: NVIDIA's management library, opened when it is there, and what it tells of GPUs.
 *
 * The library is the vendor's and runs in the caller's process: it may hang for as long as a driver does, or crash.
 * A caller that must not see that asks in a process apart (topology/apart.h), as by_nvml.c and the agent do.
 */
#ifndef MU_TOPOLOGY_NVML_H
#define MU_TOPOLOGY_NVML_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "topology/nvml_abi.h"

#define MU_NVML_LIBRARY "libnvidia-ml.so.1"

#define MU_NVML_GPUS_MAX  64u
#define MU_NVML_PARTS_MAX 16u /* of one GPU */
#define MU_NVML_LINKS_MAX 256u
#define MU_NVML_WIRES_MAX 32u /* far ends of one GPU's links */
#define MU_NVML_CPU_WORDS 32u /* 2048 processors */
#define MU_NVML_PCI_MAX   24u

#define MEMBER(name, symbol, parameters) int(*name) parameters
struct mu_nvml {
    void *handle;
    pid_t pid; /* the process that has started it: a child does not inherit NVML's state */
    MU_NVML_CALLS(MEMBER);
    const char *(*error_string)(int);
};
#undef MEMBER

/*
 * The library's path where `path` is NULL: what MUSTER_NVML says, else MU_NVML_LIBRARY; "": NVML is not to be asked.
 */
const char *mu_nvml_path(const char *path);

#define MU_NVML_ABSENT (-1) /* the library is not here, or is not to be asked */
#define MU_NVML_BROKEN (-2) /* it cannot be loaded, or is another */

/*
 * Open and start it; GPUs are not attached by this. It is never closed nor shut down. 0, or one of the above, or the
 * code with which it refuses to start, with the reason in `why` ("libnvidia-ml.so.1 is not here").
 */
int mu_nvml_open(const char *path, struct mu_nvml *ret_nvml, char *why, size_t size);
/* Words for a code. */
const char *mu_nvml_words(const struct mu_nvml *nvml, int code);

/* One call of the library at a time in a process. 0, or the code why it must not be made. */
int mu_nvml_enter(const struct mu_nvml *nvml, int is_there);
void mu_nvml_leave(void);
/* MU_NVML(nvml, count, &n): the call's code. */
#define MU_NVML(nvml, call, ...)                                                                                       \
    ({                                                                                                                 \
        int rc_ = mu_nvml_enter(nvml, (nvml)->call != NULL);                                                           \
        if (rc_ == NVML_OK) {                                                                                          \
            rc_ = (nvml)->call(__VA_ARGS__);                                                                           \
            mu_nvml_leave();                                                                                           \
        }                                                                                                              \
        rc_;                                                                                                           \
    })

/* NVLinks of a GPU that end at the same place. */
struct mu_nvml_wire {
    char pci[MU_NVML_PCI_MAX]; /* "": not told. Of switches it may be anything */
    uint32_t far;              /* NVML_REMOTE_* */
    uint32_t lanes;
    uint64_t bandwidth_mbs; /* of all of them, each way; 0: not told */
};

/* A GPU, or a part of one. No pointers: it goes through pipes. Strings "", numbers -1 or 0: not told. */
struct mu_nvml_device {
    uint32_t gpu;    /* NVML's number of the GPU; it is another's when one before it has gone */
    int32_t is_part; /* a MIG instance of it */
    int32_t refused; /* the code why it may not be looked at; the rest but is_lost is empty then */
    int32_t is_lost; /* it was, but has gone from the bus or must be reset */
    int32_t minor, major_capability, minor_capability;
    int32_t gpu_instance, compute_instance, multiprocessors; /* of a part; NVML does not tell them of a GPU */
    int32_t numa_node;                                       /* the host's */
    uint32_t device_id;
    uint64_t memory_bytes;
    uint32_t num_wires;
    struct mu_nvml_wire wires[MU_NVML_WIRES_MAX];
    uint64_t cpus[MU_NVML_CPU_WORDS];
    char pci[MU_NVML_PCI_MAX]; /* "0000:3b:00.0" */
    char name[NVML_TEXT_MAX], uuid[NVML_TEXT_MAX], serial[NVML_TEXT_MAX], profile[NVML_TEXT_MAX];
    char fabric[56]; /* "8-4-4-4-12/clique" */
};

/* The driver's version. 0, or a code. */
int mu_nvml_driver(const struct mu_nvml *nvml, char ret_version[NVML_TEXT_MAX]);
/* GPUs, MU_NVML_GPUS_MAX at most. 0, or a code. */
int mu_nvml_count(const struct mu_nvml *nvml, uint32_t *ret_count);
/* All of GPU `index`. *ret_handle may be NULL; it is NULL when the GPU may not be looked at. */
void mu_nvml_gpu(const struct mu_nvml *nvml, uint32_t index, struct mu_nvml_device *ret_device,
                 nvml_device *ret_handle);
/* The parts of it, in the order of their places; 0 when it is not divided. At most MU_NVML_PARTS_MAX. */
size_t mu_nvml_parts(const struct mu_nvml *nvml, uint32_t index, nvml_device handle,
                     struct mu_nvml_device ret_parts[MU_NVML_PARTS_MAX]);

/* "00000000:3B:00.0" becomes "0000:3b:00.0". 0, or -1: that is no address. */
int mu_nvml_address(const char *bus_id, char ret_pci[MU_NVML_PCI_MAX]);

#endif
