/*
 * cli/doctor/gpu.c: libraries that are loaded when they are there, hwloc, OpenSSL and those of accelerators, and
 * accelerators that are there without a driver. Each library is really loaded and asked; doctor.c sees to it that a
 * broken one does no harm.
 */
#include "cli/doctor/doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/nccl_library.h"
#include "bridge/link/openssl.h"
#include "cli/cli.h"
#include "topology/cuda.h"
#include "topology/hwloc_library.h"
#include "topology/nvml.h"
#include "topology/pci.h"

/* ---- PCI --------------------------------------------------------------------------------------------------------- */

struct gpus {
    unsigned driven, alone, nvidia;
    char first[64];
};

/* Of NVIDIA or AMD, by the rule that says what a GPU is everywhere. */
static void see_device(struct gpus *gpus, const char *name)
{
    char path[512], text[32], driver[512];
    uint32_t class, vendor;
    enum mu_pci_kind kind;
    struct mu_pci pci;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.64s/class", name);
    if (mu_pci_parse(name, &pci) || mu_doctor_read(path, text, sizeof text) <= 0)
        return;
    class = (uint32_t)strtoul(text, NULL, 16) >> 8;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.64s/vendor", name);
    if (mu_doctor_read(path, text, sizeof text) <= 0)
        return;
    vendor = (uint32_t)strtoul(text, NULL, 16);
    kind = mu_pci_kind(&pci, vendor, class);
    if ((kind != MU_PCI_ACCELERATOR && kind != MU_PCI_PERHAPS) ||
        (vendor != MU_VENDOR_NVIDIA && vendor != MU_VENDOR_AMD))
        return;
    gpus->nvidia += vendor == MU_VENDOR_NVIDIA;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.64s/driver", name);
    if (readlink(path, driver, sizeof driver) > 0) {
        gpus->driven++;
        return;
    }
    if (gpus->alone++ == 0)
        snprintf(gpus->first, sizeof gpus->first, "%.48s (%s)", name, vendor == MU_VENDOR_NVIDIA ? "NVIDIA" : "AMD");
}

/* 0, or -1 when there is no bus to be seen. */
static int see_devices(struct gpus *gpus)
{
    DIR *folder = opendir("/sys/bus/pci/devices");
    struct dirent *entry;

    if (!folder)
        return -1;
    for (int i = 0; i < 100000 && (entry = readdir(folder)); i++)
        if (entry->d_name[0] != '.')
            see_device(gpus, entry->d_name);
    closedir(folder);
    return 0;
}

/* One may be passed into a virtual machine or a container in more ways than by PCI. */
static bool has_nvidia(void)
{
    struct gpus gpus = {.nvidia = 0};

    see_devices(&gpus);
    return gpus.nvidia > 0 || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/nvhost-ctrl", F_OK) == 0 ||
           access("/dev/dxg", F_OK) == 0;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

/* Say why the library was not loaded, where it was not. */
static void *library_take(struct mu_doctor_page *page, const char *name, const char *library, void *handle,
                          int of_nvidia, const char *lack, const char *mend)
{
    const char *why = handle ? NULL : dlerror();

    if (handle)
        return handle;
    if (why && strstr(why, "No such file") && of_nvidia && !has_nvidia())
        mu_doctor_say(page, MU_DOCTOR_OK, name, NULL, "%s is not here, and no NVIDIA GPU either", library);
    else if (why && strstr(why, "No such file"))
        mu_doctor_say(page, MU_DOCTOR_NOTE, name, mend, "%s is not here: %s", library, lack);
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, name, "reinstall it, and look at LD_LIBRARY_PATH for another copy",
                      "cannot be loaded: %.280s", why ? why : library);
    return NULL;
}

/* Load it, or say why not. */
static void *library_load(struct mu_doctor_page *page, const char *name, const char *library, int of_nvidia,
                          const char *lack, const char *mend)
{
    return library_take(page, name, library, dlopen(library, RTLD_NOW | RTLD_LOCAL), of_nvidia, lack, mend);
}

/* A function of the library; said when it lacks it. dlsym() gives an object pointer: POSIX lets it be copied so. */
static int symbol_find(struct mu_doctor_page *page, const char *name, void *handle, const char *symbol,
                       void *ret_function)
{
    void *address = dlsym(handle, symbol);

    if (!address)
        mu_doctor_say(page, MU_DOCTOR_NOTE, name, "reinstall it, and look at LD_LIBRARY_PATH for another copy",
                      "the library has no %s", symbol);
    memcpy(ret_function, &address, sizeof address);
    return address ? 0 : -1;
}

void mu_doctor_hwloc(struct mu_doctor_page *page)
{
    void *handle = library_take(page, "hwloc", "libhwloc.so.15", mu_hwloc_library(), 0,
                                "caches and their processors are not known for placement",
                                "apt-get install libhwloc15 (hwloc-libs elsewhere)");
    unsigned (*version)(void), number;

    if (!handle || symbol_find(page, "hwloc", handle, "hwloc_get_api_version", &version))
        return;
    number = version();
    if (number >> 16 == 2)
        mu_doctor_say(page, MU_DOCTOR_OK, "hwloc", NULL, "API %u.%u", number >> 16, number >> 8 & 0xff);
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, "hwloc", "apt-get install libhwloc15",
                      "API %u.%u, but libhwloc.so.15 is that of 2: it is not used", number >> 16, number >> 8 & 0xff);
}

/* Ask hwloc, as topo, -n core and --bind-to do. */
void mu_doctor_topology(struct mu_doctor_page *page)
{
    static const char mend[] = "mount sysfs whole: 'mount -t sysfs sysfs /sys'; for a container, --security-opt "
                               "systempaths=unconfined (docker) or unmask=ALL (podman)";
    const struct mu_hwloc_wish wish = {.source = NULL};
    char note[MU_HWLOC_NOTE_SIZE];
    struct mu_hwloc hwloc;
    hwloc_topology_t tree;

    if (mu_hwloc_open(NULL, &hwloc, note, sizeof note)) {
        mu_doctor_say(page, MU_DOCTOR_NOTE, "topology", "apt-get install libhwloc15", "%.300s", note);
    } else if (mu_hwloc_load(&hwloc, &wish, &tree, note) != MUSTER_OK) {
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "topology", mend,
                      "%.220s: 'muster run -n core' and '--bind-to' do not work", muster_last_error());
    } else {
        hwloc.hwloc_topology_destroy(tree);
        if (*note)
            mu_doctor_say(page, MU_DOCTOR_NOTE, "topology", mend, "%.300s", note);
        else
            mu_doctor_say(page, MU_DOCTOR_OK, "topology", NULL, "hwloc can read this machine");
    }
}

void mu_doctor_openssl(struct mu_doctor_page *page)
{
    void *handle = library_load(page, "OpenSSL", MU_OPENSSL_LIBRARY, 0, "jobs of several hosts cannot be started",
                                "apt-get install libssl3 (openssl-libs elsewhere)");
    const char *(*version)(int);

    if (handle && symbol_find(page, "OpenSSL", handle, "OpenSSL_version", &version) == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "OpenSSL", NULL, "%.100s", version(OPENSSL_VERSION));
}

static const char nvml_mend[] =
    "load the driver (modprobe nvidia), restart after its upgrade, or start the container with --gpus all; see "
    "'nvidia-smi'";

static void say_no_nvml(struct mu_doctor_page *page, int rc, const char *why)
{
    if (rc == MU_NVML_ABSENT && !has_nvidia())
        mu_doctor_say(page, MU_DOCTOR_OK, "NVML", NULL, "%s, and no NVIDIA GPU either", why);
    else if (rc == MU_NVML_ABSENT)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NVML",
                      "with a GPU, install its driver (libnvidia-ml1); in a container, start it with --gpus all",
                      "%s: of NVIDIA GPUs only what the kernel tells is known", why);
    else if (rc == MU_NVML_BROKEN)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NVML",
                      "reinstall it, and look at LD_LIBRARY_PATH and MUSTER_NVML for another copy", "%.300s", why);
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NVML", nvml_mend, "%.300s", why);
}

#define SICK_GPUS_MAX 8 /* that have a line of their own */

/* What is wrong with this GPU; 0: nothing is. */
static int see_gpu(struct mu_doctor_page *page, const struct mu_nvml *nvml, uint32_t index)
{
    static const char which[] = " ('muster topo' says which, where that can be known)";
    struct mu_nvml_device gpu;
    char name[24];

    mu_nvml_gpu(nvml, index, &gpu, NULL);
    if (gpu.pci[0])
        snprintf(name, sizeof name, "GPU %.18s", gpu.pci);
    else
        snprintf(name, sizeof name, "a GPU");
    if (gpu.is_lost)
        mu_doctor_say(page, MU_DOCTOR_NOTE, name,
                      "look for NVRM lines in 'dmesg'; reset it ('nvidia-smi -r') or start the machine again",
                      "has gone from the bus or must be reset%s", gpu.pci[0] ? "" : which);
    else if (gpu.refused)
        mu_doctor_say(page, MU_DOCTOR_NOTE, name,
                      "hand it to this user or container: --gpus all, its /dev/nvidiaN, the control group's devices",
                      "may not be opened: %s%s", mu_nvml_words(nvml, gpu.refused), gpu.pci[0] ? "" : which);
    return gpu.is_lost || gpu.refused;
}

static size_t count_parts(const struct mu_nvml *nvml, uint32_t gpus)
{
    struct mu_nvml_device gpu, parts[MU_NVML_PARTS_MAX];
    nvml_device handle;
    size_t count = 0;

    for (uint32_t i = 0; i < gpus; i++) {
        mu_nvml_gpu(nvml, i, &gpu, &handle);
        count += mu_nvml_parts(nvml, i, handle, parts);
    }
    return count;
}

void mu_doctor_nvml(struct mu_doctor_page *page)
{
    struct mu_nvml nvml;
    char why[512], version[NVML_TEXT_MAX], of_parts[64] = "";
    uint32_t count = 0;
    size_t parts;
    int rc = mu_nvml_open(NULL, &nvml, why, sizeof why), sick = 0;

    if (rc) {
        say_no_nvml(page, rc, why);
        return;
    }
    if (mu_nvml_count(&nvml, &count) || mu_nvml_driver(&nvml, version)) {
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NVML", "see 'nvidia-smi'", "does not tell the GPUs or the driver");
        return;
    }
    parts = count_parts(&nvml, count);
    if (parts > 0)
        snprintf(of_parts, sizeof of_parts, " with %zu MIG part%s", parts, parts == 1 ? "" : "s");
    mu_doctor_say(page, MU_DOCTOR_OK, "NVML", NULL, "%u GPU%s%s, driver %.80s", count, count == 1 ? "" : "s", of_parts,
                  version);
    for (uint32_t i = 0; i < count && sick < SICK_GPUS_MAX; i++)
        sick += see_gpu(page, &nvml, i);
}

void mu_doctor_cuda(struct mu_doctor_page *page)
{
    void *handle = library_load(page, "CUDA", mu_topology_cuda_path(), 1, "no CUDA program runs here",
                                "with a GPU, install its driver (libcuda1); in a container, start it with --gpus all");
    int (*version_of)(int *), (*init)(unsigned), (*count_of)(int *), version = 0, count = 0, rc;
    char words[256];

    if (!handle || symbol_find(page, "CUDA", handle, "cuDriverGetVersion", &version_of) ||
        symbol_find(page, "CUDA", handle, "cuInit", &init) ||
        symbol_find(page, "CUDA", handle, "cuDeviceGetCount", &count_of))
        return;
    version_of(&version);
    rc = init(0);
    if (rc == 0)
        rc = count_of(&count);
    if (rc == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "CUDA", NULL, "%d.%d, %d device%s%s", version / 1000, version % 1000 / 10,
                      count, count == 1 ? "" : "s",
                      getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, "CUDA",
                      rc == MU_CUDA_NO_DEVICE
                          ? "if there is a GPU: unset CUDA_VISIBLE_DEVICES, or start the container with --gpus all"
                          : "see 'nvidia-smi' and NVRM lines in 'dmesg'",
                      "%d.%d: %s", version / 1000, version % 1000 / 10,
                      mu_topology_cuda_words(rc, words, sizeof words));
}

/* As a job finds it: what the loader does not know may lie in the folders where the vendor's packages put it. */
void mu_doctor_nccl(struct mu_doctor_page *page)
{
    const char *said = getenv("MUSTER_NCCL_LIBRARY");
    const struct mu_nccl *nccl;
    enum muster_status status = mu_nccl_open(&nccl);
    char version[MU_NCCL_VERSION_TEXT];

    if (!status)
        mu_doctor_say(page, MU_DOCTOR_OK, "NCCL", NULL, "%s, %.280s", mu_nccl_version_text(nccl->version, version),
                      nccl->path);
    else if (said && *said)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NCCL", "unset MUSTER_NCCL_LIBRARY, or let it name libnccl.so.2", "%.280s",
                      muster_last_error());
    else if (status == MUSTER_NOT_FOUND && strstr(muster_last_error(), "No such file") && !has_nvidia())
        mu_doctor_say(page, MU_DOCTOR_OK, "NCCL", NULL, "libnccl.so.2 is not here, and no NVIDIA GPU either");
    else if (status == MUSTER_NOT_FOUND && strstr(muster_last_error(), "No such file"))
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NCCL",
                      "apt-get install libnccl2 from NVIDIA's repository, or let MUSTER_NCCL_LIBRARY name another copy",
                      "libnccl.so.2 is not here: jobs that bring no copy of their own have none");
    else
        mu_doctor_say(page, MU_DOCTOR_NOTE, "NCCL", "reinstall it, and look at LD_LIBRARY_PATH for another copy",
                      "%.280s", muster_last_error());
}

void mu_doctor_pci(struct mu_doctor_page *page)
{
    struct gpus gpus = {.driven = 0};

    if (see_devices(&gpus))
        mu_doctor_say(page, MU_DOCTOR_OK, "GPUs", NULL, "no PCI bus to be seen");
    else if (gpus.alone > 0)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "GPUs", "install or load its driver: modprobe nvidia, modprobe amdgpu",
                      "%u on the PCI bus without a driver, the first is %s", gpus.alone, gpus.first);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "GPUs", NULL, "%u on the PCI bus%s", gpus.driven,
                      gpus.driven ? ", each with its driver" : "");
}
