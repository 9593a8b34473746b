/*
 * muster/topology.h: what this node has, and what all nodes of the job have together.
 *
 * A topology is a list of devices (accelerators; without any, the processors), how each pair of them is connected, and
 * where they lie: NUMA node, package, processors nearby. It is learned from hwloc, the kernel's files, NVML and, where
 * asked, the CUDA driver; each of these may be missing, and then what it would have told is empty ("", -1, 0).
 * Nothing here needs a GPU or a vendor's library to be installed.
 *
 * A task tells the others of its devices by a LocalTopologyProto, and all get the same GlobalTopologyProto with the
 * devices numbered (xla.DistributedRuntimeService.EnumerateDevices; in today's XLA the keys local_topology/... and
 * global_topology/... of the key-value store). Both forms of these messages are spoken.
 *
 * Threads: a topology is immutable; any number of threads may read one. Fork: a child may read its parent's. No call
 * starts the CUDA driver in the calling process.
 */
#ifndef MUSTER_TOPOLOGY_H
#define MUSTER_TOPOLOGY_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this node --------------------------------------------------------------------------------------------------- */

struct muster_topology;
struct hwloc_topology; /* hwloc_topology_t is a pointer to it */

enum muster_device_kind {
    MUSTER_DEVICE_CPU = 0,      /* the processors of a package: only where there is no accelerator */
    MUSTER_DEVICE_GPU = 1,      /* a whole GPU, or what its driver shows as one (an MI250X is two) */
    MUSTER_DEVICE_GPU_PART = 2, /* a MIG instance: `parent` is the GPU */
};

/* The sources that told of a device; bits of muster_device.sources. */
enum muster_device_source {
    MUSTER_SOURCE_HWLOC = 1 << 0,
    MUSTER_SOURCE_SYSFS = 1 << 1,
    MUSTER_SOURCE_NVIDIA_PROC = 1 << 2, /* /proc/driver/nvidia */
    MUSTER_SOURCE_NVML = 1 << 3,
    MUSTER_SOURCE_KFD = 1 << 4, /* /sys/class/kfd: AMD */
    MUSTER_SOURCE_CUDA = 1 << 5,
};

/* Fields are added at the end only. Strings are the topology's, never NULL, "" where not known. */
struct muster_device {
    enum muster_device_kind kind;
    uint32_t sources;             /* bits of enum muster_device_source */
    int32_t index;                /* its place in the list: by PCI address, the parts behind their GPU */
    int32_t parent;               /* GPU_PART: index of the GPU; else -1 */
    int32_t numa_node;            /* the nearest with processors, by the kernel's number; -1: not known */
    int32_t package;              /* hwloc's logical number; -1: not known */
    int32_t minor;                /* of /dev/nvidiaN or the AMD render node; -1 */
    int32_t cuda_ordinal;         /* -1 unless the CUDA driver was asked */
    int32_t core_count;           /* multiprocessors, compute units, cores; 0: not known */
    int32_t gpu_instance;         /* GPU_PART; else -1 */
    int32_t compute_instance;     /* GPU_PART; else -1 */
    int32_t health;               /* 0: nothing known against it; -1: it is lost, or must be reset */
    uint64_t memory_bytes;        /* 0: not known */
    uint64_t shared_memory_optin; /* bytes a block may ask for; 0: not known (only CUDA tells) */
    uint32_t pci_class;           /* 0x0302; 0: none */
    uint32_t pci_vendor;          /* 0x10de */
    uint32_t pci_device;          /* 0x2330 */
    const char *pci;              /* "0000:3b:00.0", as sysfs writes it */
    const char *name;             /* "NVIDIA H100 80GB HBM3" */
    const char *vendor;           /* "NVIDIA Corporation" */
    const char *uuid;             /* "GPU-8-4-4-4-12", "MIG-...", AMD: "GPU-<unique_id>" */
    const char *serial;
    const char *compute_capability; /* "9.0"; AMD: "gfx942" */
    const char *fabric;             /* "8-4-4-4-12/clique": GPUs of one NVLink fabric share it */
    const char *cpus;               /* the processors nearby that this process may use, "0-15,32-47" */
    const char *part_profile;       /* GPU_PART: "1g.10gb" */
};

/* How two devices reach each other, from near to far; the names are those of nvidia-smi topo -m. */
enum muster_link_level {
    MUSTER_LINK_SELF = 0,    /* "X": the same device; parts of one GPU */
    MUSTER_LINK_NVLINK = 1,  /* "NV12": that many NVLinks */
    MUSTER_LINK_XGMI = 2,    /* AMD's */
    MUSTER_LINK_PIX = 3,     /* at most one PCIe bridge */
    MUSTER_LINK_PXB = 4,     /* several PCIe bridges, none of them a host bridge */
    MUSTER_LINK_PHB = 5,     /* one PCIe host bridge */
    MUSTER_LINK_NODE = 6,    /* several host bridges of one NUMA node */
    MUSTER_LINK_SYS = 7,     /* between NUMA nodes */
    MUSTER_LINK_UNKNOWN = 8, /* "?" */
};

struct muster_link {
    enum muster_link_level level;
    uint32_t lanes;         /* NVLINK: how many links, bonded; 0: not told, or none */
    uint64_t bandwidth_mbs; /* each way, MB/s of 1e6 bytes; 0: not known */
};

/* A memory node. Fields are added at the end only. */
struct muster_numa {
    int32_t number;  /* the kernel's */
    int32_t package; /* hwloc's logical number; -1: none or several */
    uint64_t memory_bytes;
    const char *cpus; /* "" when it has none (memory of a GPU, CXL) */
    const char *kind; /* "", "GPUMemory", ... as hwloc's subtype */
};

/* Where to look. Zeros: at this machine. */
struct muster_topology_source {
    const char *hwloc_xml; /* a file in hwloc's XML form, of any machine */
    const char *synthetic; /* hwloc's words: "package:2 l3:2 core:4 pu:2" */
    const char *root;      /* sysfs and /proc below this folder instead of "/"; not with the two above */
    const char *nvml;      /* the library's path; NULL: $MUSTER_NVML or libnvidia-ml.so.1; "": do not ask NVML */
    int ask_cuda; /* also the CUDA driver, in a child process that ends: seconds where nothing holds the GPUs */
};

/*
 * Look at the node: some ms. *ret_topology is the caller's, to be freed. hwloc and NVML are asked in child processes,
 * which are over when the call returns.
 * A library that is missing is no error but a note: without hwloc this machine is read from its files alone.
 * MUSTER_UNAVAILABLE: a machine in hwloc's XML or words, and no hwloc; MUSTER_INVALID_ARGUMENT: the file or the words
 * are no machine; MUSTER_NOT_FOUND, MUSTER_PERMISSION_DENIED: the file cannot be read.
 */
MUSTER_API enum muster_status muster_topology_load(const struct muster_topology_source *source,
                                                   struct muster_topology **ret_topology);
/* NULL is allowed. */
MUSTER_API void muster_topology_free(struct muster_topology *topology);

MUSTER_API size_t muster_topology_num_devices(const struct muster_topology *topology);
/* NULL beyond the last. */
MUSTER_API const struct muster_device *muster_topology_device(const struct muster_topology *topology, size_t index);
MUSTER_API size_t muster_topology_num_numas(const struct muster_topology *topology);
/* By place, not by the kernel's number; NULL beyond the last. */
MUSTER_API const struct muster_numa *muster_topology_numa(const struct muster_topology *topology, size_t index);
/* Level UNKNOWN for places beyond the last. */
MUSTER_API struct muster_link muster_topology_link(const struct muster_topology *topology, size_t a, size_t b);
/* PHB: the node that it lies at; SYS: another; UNKNOWN. `numa` is a place. */
MUSTER_API struct muster_link muster_topology_numa_link(const struct muster_topology *topology, size_t device,
                                                        size_t numa);
/* "NV12" (with its lanes), "XGMI", "PIX", ..., as nvidia-smi and rocm-smi write it; `size` 16 is enough. */
MUSTER_API const char *muster_link_name(struct muster_link link, char *buffer, size_t size);
/* The host's name, and the kernel's id of this boot (one for all containers of a host); "" where that is not known. */
MUSTER_API const char *muster_topology_host(const struct muster_topology *topology);
MUSTER_API const char *muster_topology_boot_id(const struct muster_topology *topology);
/* What a provider has to say ("NVML: libnvidia-ml.so.1 is not here"); NULL beyond the last. */
MUSTER_API const char *muster_topology_note(const struct muster_topology *topology, size_t index);

/*
 * hwloc's own tree of this node, ready to be read and bound by. Within a job it is loaded once: the first task that
 * asks loads and shares it, the others map it (10 us), or read its XML where its addresses are taken. Outside of
 * `muster run`, or with `muster` NULL, it is loaded here. The caller uses the same libhwloc (2.x, the shared one), ends
 * with hwloc_topology_destroy(), and does not modify it: it may be mapped read-only. Best before cuInit(), which takes
 * large ranges of addresses. Blocks while it is loaded, by us or by another task: some ms, seconds on large machines;
 * twenty seconds after another began it is loaded here. A child process loads it, and hands it over. Where NVIDIA GPUs
 * are, its loader also asks NVML for all, in a child process: its answers are the machine's info "MusterNVML".
 * MUSTER_UNAVAILABLE: no hwloc, or it cannot read this machine. Any thread; a child after fork() may use what its
 * parent has.
 */
MUSTER_API enum muster_status muster_topology_hwloc(struct muster *muster, struct hwloc_topology **ret_topology);

/* The node's topology by that tree: as muster_topology_load() of this machine, without loading hwloc again. */
MUSTER_API enum muster_status muster_topology_get(struct muster *muster, struct muster_topology **ret_topology);

/* ---- the messages ------------------------------------------------------------------------------------------------ */

enum muster_topology_form {
    MUSTER_FORM_XLA = 0,  /* today's xla/pjrt/distributed/protocol.proto */
    MUSTER_FORM_2020 = 1, /* xla.DistributedRuntimeService of 2020: the two cannot read each other */
};

/* The task and the host that a local topology is of. Zeros and NULLs: as said. */
struct muster_local {
    int32_t process_id;        /* 2020: node_id */
    const char *boot_id;       /* NULL: the topology's */
    const char *network_nodes; /* outermost first, "spine1,leaf7"; NULL or "": none */
    const uint32_t *devices;   /* their places in the topology, in the order of the local ordinals; NULL: all */
    size_t num_devices;
    int has_partition_index;
    int32_t partition_index;
};

/*
 * A LocalTopologyProto with the values that XLA's CUDA backend would fill in. *ret_bytes is malloc()ed.
 * MUSTER_INVALID_ARGUMENT: a place that the topology does not have, text that is not UTF-8.
 */
MUSTER_API enum muster_status muster_topology_local(const struct muster_topology *topology,
                                                    const struct muster_local *local, enum muster_topology_form form,
                                                    void **ret_bytes, size_t *ret_size);

/*
 * The GlobalTopologyProto of these locals, given in any order, with ids as the service of that form gives them.
 * Fields that we do not know are kept. Pure: equal locals, equal bytes. *ret_bytes is malloc()ed.
 * MUSTER_INVALID_ARGUMENT names the fault: bytes that are no local topology, text that is not UTF-8, a process id that
 * is given twice, is missing or out of range [0, count), a partition index with some only. MUSTER_RESOURCE_EXHAUSTED:
 * read, they take more than 256 MiB.
 */
MUSTER_API enum muster_status muster_topology_global(enum muster_topology_form form, const void *const *locals,
                                                     const size_t *sizes, size_t count, void **ret_bytes,
                                                     size_t *ret_size);

/*
 * Every task of the job gives its local topology under the same `name` (1 to 128 bytes without '/'; NULL: "default"),
 * and gets the same global one, malloc()ed. Blocks until all have given theirs. As of GetKeyValue, a task that is in
 * error (dead, too) ends it for all, and so does one that has left: MUSTER_UNAVAILABLE with its name; of a recoverable
 * task the successor is waited for. MUSTER_DEADLINE_EXCEEDED names those that did not come; what was given stands, and
 * the call may be repeated. What muster_topology_global() finds wrong is every task's MUSTER_INVALID_ARGUMENT, with the
 * same sentence, in which local topology N is task N's; so are different forms under one name.
 *
 * A name serves once in a job: giving something else under it is MUSTER_FAILED_PRECONDITION, also for a process that
 * has replaced another of its task; the same once more gets the same again. What is exchanged lies in the key-value
 * store under muster/topology/NAME/, until somebody deletes it.
 */
MUSTER_API enum muster_status muster_topology_exchange(struct muster *muster, const char *name,
                                                       enum muster_topology_form form, const void *local,
                                                       size_t local_size, muster_deadline deadline, void **ret_global,
                                                       size_t *ret_size);

#ifdef __cplusplus
}
#endif
#endif
