/*
 * topology/nvml_abi.h: what of NVIDIA's management library is used, in our own declarations.
 *
 * A symbol with a suffix is another function than the one without: the plain name is the oldest form. Structures with a
 * version word say their size in it, and another size is refused; those without are what they were in 2012, or changed
 * under the same name (the lists of processes did, three times: they are not used).
 */
#ifndef MU_TOPOLOGY_NVML_ABI_H
#define MU_TOPOLOGY_NVML_ABI_H

#include <stdint.h>

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_OPERATING_SYSTEM = 17,
    NVML_VERSION_MISMATCH = 18, /* of library and driver */
    NVML_STRUCT_VERSION = 25,
};

#define NVML_INIT_NO_GPUS   1u
#define NVML_INIT_NO_ATTACH 2u

#define NVML_TEXT_MAX   96 /* names, UUIDs, serial numbers, versions: what the newest form may fill */
#define NVML_SCOPE_NODE 0u

/* Of a far end of an NVLink. */
#define NVML_REMOTE_GPU     0u
#define NVML_REMOTE_NPU     1u
#define NVML_REMOTE_SWITCH  2u
#define NVML_REMOTE_UNKNOWN 0xffu

#define NVML_FABRIC_COMPLETED 3

#define NVML_FIELD_NVLINK_SPEED_COMMON 90u  /* MB/s a link and direction */
#define NVML_FIELD_NVLINK_SPEED        164u /* the same, of the link that is the scope */
#define NVML_VALUE_U32                 1u

#define NVML_EVENT_SINGLE_BIT_ECC  0x1u
#define NVML_EVENT_DOUBLE_BIT_ECC  0x2u
#define NVML_EVENT_XID             0x8u
#define NVML_EVENT_FATAL_POISON    0x2000u
#define NVML_EVENT_GPU_UNAVAILABLE 0x4000u

struct nvml_pci {
    char bus_id_legacy[16];
    uint32_t domain, bus, device;
    uint32_t device_id; /* device << 16 | vendor */
    uint32_t subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t of v3");

struct nvml_memory {
    uint64_t total, free, used;
};
_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
#define NVML_MEMORY_V2 0x02000028u

struct nvml_attributes { /* of a part alone */
    uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    uint64_t memory_mib;
};
_Static_assert(sizeof(struct nvml_attributes) == 40, "nvmlDeviceAttributes_t");

struct nvml_fabric_v1 {
    uint8_t cluster[16];
    uint32_t status, clique;
    uint8_t state;
};
_Static_assert(sizeof(struct nvml_fabric_v1) == 28, "nvmlGpuFabricInfo_t");

struct nvml_fabric { /* v3; v2 is the same without the last */
    uint32_t version;
    uint8_t cluster[16];
    uint32_t status, clique;
    uint8_t state;
    uint32_t health_mask;
    uint8_t health;
};
_Static_assert(sizeof(struct nvml_fabric) == 40, "nvmlGpuFabricInfo_v3_t");
#define NVML_FABRIC_V3 0x03000028u
#define NVML_FABRIC_V2 0x02000024u

struct nvml_field {
    uint32_t id, scope;
    int64_t timestamp, latency;
    uint32_t type, error;
    union {
        double real;
        uint32_t u32;
        uint64_t u64;
    } value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");

struct nvml_event {
    nvml_device device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

/* each(member, symbol, parameters); all return one of the codes above. */
#define MU_NVML_CALLS(each)                                                                                            \
    each(init, nvmlInit_v2, (void));                                                                                   \
    each(init_flags, nvmlInitWithFlags, (uint32_t));                                                                   \
    each(driver, nvmlSystemGetDriverVersion, (char *, uint32_t));                                                      \
    each(count, nvmlDeviceGetCount_v2, (uint32_t *));                                                                  \
    each(by_index, nvmlDeviceGetHandleByIndex_v2, (uint32_t, nvml_device *));                                          \
    each(name, nvmlDeviceGetName, (nvml_device, char *, uint32_t));                                                    \
    each(uuid, nvmlDeviceGetUUID, (nvml_device, char *, uint32_t));                                                    \
    each(serial, nvmlDeviceGetSerial, (nvml_device, char *, uint32_t));                                                \
    each(pci, nvmlDeviceGetPciInfo_v3, (nvml_device, struct nvml_pci *));                                              \
    each(minor, nvmlDeviceGetMinorNumber, (nvml_device, uint32_t *));                                                  \
    each(memory, nvmlDeviceGetMemoryInfo, (nvml_device, struct nvml_memory *));                                        \
    each(memory_v2, nvmlDeviceGetMemoryInfo_v2, (nvml_device, struct nvml_memory_v2 *));                               \
    each(capability, nvmlDeviceGetCudaComputeCapability, (nvml_device, int *, int *));                                 \
    each(cpus, nvmlDeviceGetCpuAffinityWithinScope, (nvml_device, uint32_t, unsigned long *, uint32_t));               \
    each(cpus_old, nvmlDeviceGetCpuAffinity, (nvml_device, uint32_t, unsigned long *));                                \
    each(nodes, nvmlDeviceGetMemoryAffinity, (nvml_device, uint32_t, unsigned long *, uint32_t));                      \
    each(mig_mode, nvmlDeviceGetMigMode, (nvml_device, uint32_t *, uint32_t *));                                       \
    each(mig_max, nvmlDeviceGetMaxMigDeviceCount, (nvml_device, uint32_t *));                                          \
    each(mig_by_index, nvmlDeviceGetMigDeviceHandleByIndex, (nvml_device, uint32_t, nvml_device *));                   \
    each(gpu_instance, nvmlDeviceGetGpuInstanceId, (nvml_device, uint32_t *));                                         \
    each(compute_instance, nvmlDeviceGetComputeInstanceId, (nvml_device, uint32_t *));                                 \
    each(attributes, nvmlDeviceGetAttributes_v2, (nvml_device, struct nvml_attributes *));                             \
    each(link_state, nvmlDeviceGetNvLinkState, (nvml_device, uint32_t, uint32_t *));                                   \
    each(link_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvml_device, uint32_t, struct nvml_pci *));                   \
    each(link_type, nvmlDeviceGetNvLinkRemoteDeviceType, (nvml_device, uint32_t, uint32_t *));                         \
    each(fields, nvmlDeviceGetFieldValues, (nvml_device, int, struct nvml_field *));                                   \
    each(fabric, nvmlDeviceGetGpuFabricInfoV, (nvml_device, struct nvml_fabric *));                                    \
    each(fabric_v1, nvmlDeviceGetGpuFabricInfo, (nvml_device, struct nvml_fabric_v1 *));                               \
    each(event_types, nvmlDeviceGetSupportedEventTypes, (nvml_device, uint64_t *));                                    \
    each(event_set, nvmlEventSetCreate, (nvml_event_set *));                                                           \
    each(event_register, nvmlDeviceRegisterEvents, (nvml_device, uint64_t, nvml_event_set));                           \
    each(event_wait, nvmlEventSetWait_v2, (nvml_event_set, struct nvml_event *, uint32_t));                            \
    each(event_set_free, nvmlEventSetFree, (nvml_event_set))

#endif
