/*
 * topology/by_cuda.c: what the CUDA driver tells of the node, where somebody asks for it.
 *
 * cuInit() may take seconds, opens every GPU, starts threads, and spoils fork() for the caller: so it is called in a
 * child process that ends. No context is made; without one GPUs are only asked. What the driver alone knows: its own
 * numbers, with CUDA_VISIBLE_DEVICES as the caller has it, multiprocessors, and the shared memory a block may ask for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/apart.h"
#include "topology/cuda.h"
#include "topology/node.h"

#define LIBRARY     "libcuda.so.1"
#define LIMIT_MS    60000u /* GPUs that nobody holds are started one after the other */
#define DEVICES_MAX 256
#define NAME_SIZE   128

enum {
    CUDA_OK = 0,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_STUB = 34,
    CUDA_NOT_READY = 802,
    CUDA_MISMATCH = 803,
    CUDA_COMPATIBILITY = 804,
    CUDA_UNKNOWN = 999,
};

/* Numbers of attributes. */
enum { SM_COUNT = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED_MEMORY_OPTIN = 97 };

/* The first form of each function that tells what we need; newer forms are other symbols. */
struct cuda {
    int (*init)(unsigned);
    int (*count)(int *);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*uuid)(char[16], int), (*uuid_of_part)(char[16], int);
    int (*pci)(char *, int, int);
    int (*memory)(size_t *, int);
    int (*attribute)(int *, int, int);
};

/* What the child tells: a device, or words. */
struct cuda_told {
    int32_t ordinal; /* -1: words */
    int32_t multiprocessors, major_capability, minor_capability;
    uint64_t memory_bytes, shared_memory_optin;
    char pci[32], name[NAME_SIZE], uuid[40]; /* without "GPU-" or "MIG-": it does not tell which */
    char words[512];
};

/* ---- in the child ------------------------------------------------------------------------------------------------ */

static void cuda_tell_words(const struct mu_apart_pipe *pipe, const char *words)
{
    struct cuda_told told = {.ordinal = -1};

    snprintf(told.words, sizeof told.words, "%s", words);
    mu_apart_tell(pipe, &told);
}

const char *mu_topology_cuda_path(void)
{
    const char *path = getenv("MUSTER_CUDA");

    return path && *path ? path : LIBRARY;
}

/* dlsym() gives an object pointer: POSIX lets it be copied so. */
static int cuda_find(void *handle, const char *symbol, void *ret_function)
{
    void *address = dlsym(handle, symbol);

    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

static int cuda_open(const struct mu_apart_pipe *pipe, struct cuda *cuda)
{
    void *handle = dlopen(mu_topology_cuda_path(), RTLD_NOW | RTLD_LOCAL);
    const char *reason = handle ? NULL : dlerror();
    char words[512];

    if (handle && cuda_find(handle, "cuInit", &cuda->init) && cuda_find(handle, "cuDeviceGetCount", &cuda->count) &&
        cuda_find(handle, "cuDeviceGet", &cuda->get) && cuda_find(handle, "cuDeviceGetAttribute", &cuda->attribute)) {
        cuda_find(handle, "cuDeviceGetName", &cuda->name);
        cuda_find(handle, "cuDeviceGetUuid", &cuda->uuid);
        cuda_find(handle, "cuDeviceGetUuid_v2", &cuda->uuid_of_part);
        cuda_find(handle, "cuDeviceGetPCIBusId", &cuda->pci);
        cuda_find(handle, "cuDeviceTotalMem_v2", &cuda->memory);
        return 0;
    }
    if (handle)
        snprintf(words, sizeof words, "%s lacks functions: it is no CUDA driver", mu_topology_cuda_path());
    else if (reason && strstr(reason, "No such file"))
        snprintf(words, sizeof words, "%s is not here", mu_topology_cuda_path());
    else
        snprintf(words, sizeof words, "cannot be loaded: %.400s", reason ? reason : mu_topology_cuda_path());
    cuda_tell_words(pipe, words);
    return -1;
}

const char *mu_topology_cuda_words(int code, char *buffer, size_t size)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    switch (code) {
    case CUDA_NOT_INITIALIZED:
        snprintf(buffer, size,
                 "it cannot be asked by a child of a process that has started it (3): ask before cuInit()");
        break;
    case CUDA_STUB:
        snprintf(buffer, size, "%s is the toolkit's stub (34), not the driver: take its folder out of LD_LIBRARY_PATH",
                 mu_topology_cuda_path());
        break;
    case MU_CUDA_NO_DEVICE:
        snprintf(buffer, size, "no device (100)%s%.64s%s", visible ? ": CUDA_VISIBLE_DEVICES is '" : "",
                 visible ? visible : "", visible ? "'" : "");
        break;
    case CUDA_NOT_READY:
        snprintf(buffer, size, "the NVLink fabric is not ready (802): is nvidia-fabricmanager running?");
        break;
    case CUDA_MISMATCH:
    case CUDA_COMPATIBILITY:
        snprintf(buffer, size, "library and driver do not fit (%d): restart after the driver's upgrade", code);
        break;
    case CUDA_UNKNOWN:
        snprintf(buffer, size, "cuInit fails (999): see NVRM lines in 'dmesg'; reload nvidia_uvm");
        break;
    default: snprintf(buffer, size, "cuInit fails (%d)", code); break;
    }
    return buffer;
}

static int device_attribute(const struct cuda *cuda, int device, int number)
{
    int value = 0;

    return cuda->attribute(&value, number, device) == CUDA_OK && value > 0 ? value : 0;
}

/* The newer form gives the part's where a device is one. */
static void ask_uuid(const struct cuda *cuda, int device, char to[40])
{
    char bytes[16];
    int known = (cuda->uuid_of_part && cuda->uuid_of_part(bytes, device) == CUDA_OK) ||
                (cuda->uuid && cuda->uuid(bytes, device) == CUDA_OK);

    to[0] = '\0';
    for (int i = 0; known && i < 16; i++) {
        size_t len = strlen(to);

        snprintf(to + len, 40 - len, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                 (unsigned char)bytes[i]);
    }
}

static void tell_device(const struct mu_apart_pipe *pipe, const struct cuda *cuda, int ordinal)
{
    struct cuda_told told = {.ordinal = ordinal};
    size_t bytes = 0;
    int device;

    if (cuda->get(&device, ordinal) != CUDA_OK)
        return;
    told.multiprocessors = device_attribute(cuda, device, SM_COUNT);
    told.major_capability = device_attribute(cuda, device, CAPABILITY_MAJOR);
    told.minor_capability = device_attribute(cuda, device, CAPABILITY_MINOR);
    told.shared_memory_optin = (uint64_t)device_attribute(cuda, device, SHARED_MEMORY_OPTIN);
    if (cuda->memory && cuda->memory(&bytes, device) == CUDA_OK)
        told.memory_bytes = bytes;
    if (!cuda->name || cuda->name(told.name, sizeof told.name, device) != CUDA_OK)
        told.name[0] = '\0';
    if (!cuda->pci || cuda->pci(told.pci, sizeof told.pci, device) != CUDA_OK)
        told.pci[0] = '\0';
    ask_uuid(cuda, device, told.uuid);
    mu_apart_tell(pipe, &told);
}

static void cuda_tell(const struct mu_apart_pipe *pipe, void *arg)
{
    struct cuda cuda;
    char words[512];
    int count = 0, rc;

    (void)arg;
    memset(&cuda, 0, sizeof cuda);
    setenv("CUDA_FORCE_PRELOAD_LIBRARIES", "0", 1); /* nothing will be compiled here */
    if (cuda_open(pipe, &cuda))
        return;
    rc = cuda.init(0);
    if (rc == CUDA_OK)
        rc = cuda.count(&count);
    if (rc != CUDA_OK) {
        cuda_tell_words(pipe, mu_topology_cuda_words(rc, words, sizeof words));
        return;
    }
    for (int i = 0; i < count && i < DEVICES_MAX; i++)
        tell_device(pipe, &cuda, i);
}

/* ---- in the caller ----------------------------------------------------------------------------------------------- */

/* By its UUID, of a part too; else the GPU at its address; else a new one. */
static struct muster_device *cuda_device_of(struct muster_topology *node, const struct cuda_told *told)
{
    struct muster_device *device = NULL;
    struct mu_pci pci;
    int has_pci;

    for (size_t i = 0; *told->uuid && i < node->num_devices; i++)
        if (strlen(node->devices[i].uuid) > 4 && strcmp(node->devices[i].uuid + 4, told->uuid) == 0)
            return &node->devices[i];
    has_pci = mu_pci_parse(told->pci, &pci) == 0;
    if (has_pci)
        device = mu_node_find_device(node, &pci);
    if (!device)
        device = mu_node_add_device(node, MUSTER_DEVICE_GPU, has_pci ? &pci : NULL);
    if (device && !*device->uuid && *told->uuid)
        device->uuid = mu_node_text(node, "GPU-%s", told->uuid);
    return device;
}

static void make_printable(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void cuda_take(const void *record, void *arg)
{
    struct muster_topology *node = arg;
    struct cuda_told told = *(const struct cuda_told *)record;
    struct muster_device *device;

    make_printable(told.words, sizeof told.words);
    make_printable(told.name, sizeof told.name);
    make_printable(told.pci, sizeof told.pci);
    make_printable(told.uuid, sizeof told.uuid);
    if (told.ordinal < 0) {
        mu_node_note(node, "CUDA: %s", told.words);
        return;
    }
    device = cuda_device_of(node, &told);
    if (!device)
        return;
    device->sources |= MUSTER_SOURCE_CUDA;
    device->cuda_ordinal = told.ordinal;
    if (told.multiprocessors)
        device->core_count = told.multiprocessors;
    if (told.shared_memory_optin)
        device->shared_memory_optin = told.shared_memory_optin;
    if (told.major_capability)
        device->compute_capability =
            mu_node_text(node, "%d.%d", (int)told.major_capability, (int)told.minor_capability);
    if (!device->memory_bytes) /* NVML's is all of it, this what programs may have */
        device->memory_bytes = told.memory_bytes;
    if (!*device->name)
        device->name = mu_node_text(node, "%s", told.name);
    if (!*device->vendor)
        device->vendor = mu_pci_vendor(MU_VENDOR_NVIDIA);
    if (!device->pci_vendor)
        device->pci_vendor = MU_VENDOR_NVIDIA;
}

void mu_provider_cuda(struct muster_topology *node, const struct mu_look *look)
{
    char why[256];

    if (look->source->ask_cuda &&
        mu_apart(cuda_tell, cuda_take, node, sizeof(struct cuda_told), LIMIT_MS, why, sizeof why))
        mu_node_note(node, "CUDA: %s", why);
}
