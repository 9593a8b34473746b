/*
 * tests/gpu/device_main.c: programs of `make gpu-check` that use a GPU. They call the CUDA driver by themselves, so
 * that what muster says of a GPU is held against another's word.
 *
 *   device list        a line each GPU that CUDA sees: number, UUID, PCI address, bytes, name
 *   device rank        the same, each behind "rank K ", K from MUSTER_TASK_ID
 *   device hold        of two tasks: task 1 takes 1 GiB and is killed; task 0 says when it knew, and when the memory
 * was back device cost        of two tasks on one GPU: what a stream barrier costs, and what the driver's own waits
 * cost device fault       a kernel writes where nothing is; the driver must say so (Xid 31 or 13 for whoever watches)
 *   device twice       of two tasks: both ranks of a communicator on one GPU, which NCCL refuses
 *
 *   device mode        1: one process at a time may use the first GPU (compute mode), 0: any number
 *
 * Exit status 77, with the reason on stdout: there is no GPU, by the driver's own word; 1: it has one, or may have.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>
#include <muster/nccl.h>
#include <muster/stream.h>

#include "gpu.h"

enum { GIB = 1 << 30, ROUNDS = 2000, WARM = 100, PATIENCE_MS = 30000 };

static struct {
    int (*init)(unsigned);
    int (*error_name)(int, const char **);
    int (*error_string)(int, const char **);
    int (*device_count)(int *);
    int (*device_get)(int *, int);
    int (*device_name)(char *, int, int);
    int (*device_uuid)(unsigned char *, int);
    int (*device_pci)(char *, int, int);
    int (*device_bytes)(size_t *, int);
    int (*primary_retain)(void **, int);
    int (*context_set)(void *);
    int (*memory_info)(size_t *, size_t *);
    int (*memory_allocate)(unsigned long long *, size_t);
    int (*memory_set)(unsigned long long, unsigned, size_t);
    int (*stream_create)(void **, unsigned);
    int (*stream_synchronize)(void *);
    int (*event_create)(void **, unsigned);
    int (*event_record)(void *, void *);
    int (*stream_wait_event)(void *, void *, unsigned);
    int (*module_load)(void **, const void *);
    int (*function_get)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void);
    int (*device_attribute)(int *, int, int);
} cuda;

enum { NO_DEVICE = 100, STUB_LIBRARY = 34, COMPUTE_MODE = 20, PROHIBITED = 2, EXCLUSIVE = 3 }; /* CUDA's numbers */
enum { LISTED = 7 }; /* so many of them are for a list */

static const struct {
    const char *name;
    void *place;
} symbols[] = {
    {"cuInit", &cuda.init},
    {"cuDeviceGetCount", &cuda.device_count},
    {"cuDeviceGet", &cuda.device_get},
    {"cuDeviceGetName", &cuda.device_name},
    {"cuDeviceGetUuid_v2", &cuda.device_uuid},
    {"cuDeviceGetPCIBusId", &cuda.device_pci},
    {"cuDeviceTotalMem_v2", &cuda.device_bytes},
    {"cuGetErrorName", &cuda.error_name},
    {"cuGetErrorString", &cuda.error_string},
    {"cuDevicePrimaryCtxRetain", &cuda.primary_retain},
    {"cuCtxSetCurrent", &cuda.context_set},
    {"cuMemGetInfo_v2", &cuda.memory_info},
    {"cuMemAlloc_v2", &cuda.memory_allocate},
    {"cuMemsetD8_v2", &cuda.memory_set},
    {"cuStreamCreate", &cuda.stream_create},
    {"cuStreamSynchronize", &cuda.stream_synchronize},
    {"cuEventCreate", &cuda.event_create},
    {"cuEventRecord", &cuda.event_record},
    {"cuStreamWaitEvent", &cuda.stream_wait_event},
    {"cuModuleLoadData", &cuda.module_load},
    {"cuModuleGetFunction", &cuda.function_get},
    {"cuLaunchKernel", &cuda.launch},
    {"cuCtxSynchronize", &cuda.synchronize},
    {"cuDeviceGetAttribute", &cuda.device_attribute},
};

static void must(int result, const char *doing)
{
    const char *name = "?", *text = "?";

    if (!result)
        return;
    if (cuda.error_name)
        cuda.error_name(result, &name);
    if (cuda.error_string)
        cuda.error_string(result, &text);
    printf("%s: %s (%s, %d)\n", doing, text, name, result);
    exit(1);
}

/* A call of muster's that must succeed. */
static void need(enum muster_status status)
{
    if (status == MUSTER_OK)
        return;
    printf("%s\n", muster_last_error());
    exit(1);
}

/* Loads and starts the driver, of which a list wants little; ends with 77 and the reason where there is no GPU. Returns
 * how many devices it has. */
static int driver_start(bool is_list)
{
    const char *path = getenv("MUSTER_CUDA"), *visible = getenv("CUDA_VISIBLE_DEVICES"), *text = "";
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    int count = 0, result;

    if (!library) {
        text = dlerror();
        printf("no CUDA driver: %s\n", text);
        exit(strstr(text, "No such file") ? GPU_SKIPPED : 1);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);

        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!*(void **)symbols[i].place && i < (is_list ? LISTED : sizeof symbols / sizeof *symbols)) {
            printf("the CUDA driver has no %s(): it is too old\n", symbols[i].name);
            exit(1);
        }
    result = cuda.init(0);
    if (!result)
        result = cuda.device_count(&count);
    if (result || count == 0) {
        if (cuda.error_string)
            cuda.error_string(result, &text);
        printf("the CUDA driver has no GPU: %s (%d)%s%s\n", text, result, visible ? "; CUDA_VISIBLE_DEVICES is " : "",
               visible ? visible : "");
        exit(!result || result == NO_DEVICE || result == STUB_LIBRARY ? GPU_SKIPPED : 1);
    }
    return count;
}

static void devices_print(const char *before)
{
    int count = driver_start(true);

    for (int i = 0; i < count; i++) {
        char name[GPU_TEXT_MAX] = "", pci[GPU_TEXT_MAX] = "";
        unsigned char uuid[16] = {0};
        size_t bytes = 0;
        int device;

        must(cuda.device_get(&device, i), "cuDeviceGet");
        must(cuda.device_name(name, sizeof name, device), "cuDeviceGetName");
        must(cuda.device_uuid(uuid, device), "cuDeviceGetUuid");
        must(cuda.device_pci(pci, sizeof pci, device), "cuDeviceGetPCIBusId");
        must(cuda.device_bytes(&bytes, device), "cuDeviceTotalMem");
        printf("%s%d GPU-", before, i);
        for (size_t k = 0; k < sizeof uuid; k++)
            printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", uuid[k]);
        printf(" %s %zu %s\n", pci, bytes, name);
    }
}

static void device_use(int ordinal)
{
    void *context;
    int device;

    must(cuda.device_get(&device, ordinal), "cuDeviceGet");
    must(cuda.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuda.context_set(context), "cuCtxSetCurrent");
}

static struct muster *job_join(void)
{
    struct muster *m;

    need(muster_join(NULL, &m));
    if (muster_num_tasks(m) != 2) {
        printf("this wants two tasks\n");
        exit(1);
    }
    return m;
}

/* ---- hold -------------------------------------------------------------------------------------------------------- */

static size_t memory_free_now(void)
{
    size_t left, all;

    must(cuda.memory_info(&left, &all), "cuMemGetInfo");
    return left;
}

static void key_set(struct muster *m, const char *key, uint64_t value)
{
    need(muster_kv_set(m, key, MUSTER_NTS, &value, sizeof value, NULL));
}

static uint64_t key_wait(struct muster *m, const char *key)
{
    uint64_t value = 0;
    size_t len;

    need(muster_kv_get(m, key, MUSTER_NTS, muster_after_ms(PATIENCE_MS), &value, sizeof value, &len, NULL));
    return value;
}

static void hold_and_die(struct muster *m)
{
    unsigned long long memory;

    key_wait(m, "ready");
    driver_start(false);
    device_use(0);
    must(cuda.memory_allocate(&memory, GIB), "cuMemAlloc of 1 GiB");
    must(cuda.memory_set(memory, 1, GIB), "cuMemsetD8");
    must(cuda.synchronize(), "cuCtxSynchronize");
    key_set(m, "held", 1);
    key_wait(m, "seen");
    key_set(m, "gone", muster_now_ns());
    kill(getpid(), SIGKILL);
}

static void hold_watch(struct muster *m)
{
    struct muster_error error;
    uint64_t gone, known, end;
    size_t before, during;

    driver_start(false);
    device_use(0);
    before = memory_free_now();
    key_set(m, "ready", 1);
    key_wait(m, "held");
    during = memory_free_now();
    key_set(m, "seen", 1);
    need(muster_error_wait(m, muster_after_ms(PATIENCE_MS), &error));
    known = muster_now_ns();
    gone = key_wait(m, "gone");
    end = known + PATIENCE_MS * 1000000ull;
    while (memory_free_now() + GIB / 16 < before && muster_now_ns() < end)
        usleep(200); /* sleep: between two looks at what the driver has free */
    printf("known_us %.0f back_ms %.1f held_mib %zu task %d back %d\n", (double)(known - gone) / 1e3,
           (double)(muster_now_ns() - gone) / 1e6, (before - during) >> 20, error.task_id,
           memory_free_now() + GIB / 16 >= before);
    exit(0);
}

/* ---- cost -------------------------------------------------------------------------------------------------------- */

static int number_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double costs[ROUNDS];

static double cost_median(void)
{
    qsort(costs, ROUNDS, sizeof *costs, number_compare);
    return costs[ROUNDS / 2];
}

/* Both ranks on device 0, so that the figure is of one GPU wherever it is measured. */
static void cost_measure(struct muster *m)
{
    struct muster_stream_barrier *barrier;
    void *stream, *other, *event;
    double barrier_us, bare_us, event_us;

    driver_start(false);
    device_use(0);
    must(cuda.stream_create(&stream, 1), "cuStreamCreate");
    must(cuda.stream_create(&other, 1), "cuStreamCreate");
    must(cuda.event_create(&event, 2 /* without timing */), "cuEventCreate");
    need(muster_stream_barrier_create(m, "cost", (int32_t[]){0, 1}, 2, muster_after_ms(PATIENCE_MS), &barrier));
    for (int i = -WARM; i < ROUNDS; i++) {
        uint64_t start = muster_now_ns();

        need(muster_stream_barrier_enqueue(barrier, stream));
        must(cuda.stream_synchronize(stream), "cuStreamSynchronize");
        if (i >= 0)
            costs[i] = (double)(muster_now_ns() - start) / 1e3;
    }
    barrier_us = cost_median();
    for (int i = -WARM; i < ROUNDS; i++) {
        uint64_t start = muster_now_ns();

        must(cuda.stream_synchronize(stream), "cuStreamSynchronize");
        if (i >= 0)
            costs[i] = (double)(muster_now_ns() - start) / 1e3;
    }
    bare_us = cost_median();
    for (int i = -WARM; i < ROUNDS; i++) {
        uint64_t start = muster_now_ns();

        must(cuda.event_record(event, stream), "cuEventRecord");
        must(cuda.stream_wait_event(other, event, 0), "cuStreamWaitEvent");
        must(cuda.stream_synchronize(other), "cuStreamSynchronize");
        if (i >= 0)
            costs[i] = (double)(muster_now_ns() - start) / 1e3;
    }
    event_us = cost_median();
    need(muster_stream_barrier_free(barrier));
    if (muster_task_id(m) == 0)
        printf("barrier_us %.1f bare_us %.1f events_us %.1f\n", barrier_us, bare_us, event_us);
    need(muster_leave(m));
}

/* ---- fault, twice ------------------------------------------------------------------------------------------------ */

static void fault_make(void)
{
    static const char ptx[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry fault()\n{\n.reg .b64 %a;\n.reg .b32 %b;\n"
                              "mov.u64 %a, 8;\nmov.u32 %b, 1;\nst.global.u32 [%a], %b;\nret;\n}\n";
    void *module, *function;
    int result;

    driver_start(false);
    device_use(0);
    sleep(3); /* sleep: until the launcher's watcher has registered, as row health waits for it */
    must(cuda.module_load(&module, ptx), "cuModuleLoadData");
    must(cuda.function_get(&function, module, "fault"), "cuModuleGetFunction");
    must(cuda.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
    result = cuda.synchronize();
    printf("the driver says %d\n", result);
    sleep(2); /* sleep: the event of it is on its way to the launcher, which tells of it while its task lives */
    exit(result == 0);
}

static void twice_try(struct muster *m)
{
    struct ncclComm *comm;
    enum muster_status status;

    driver_start(false);
    device_use(0);
    status =
        muster_nccl_comm_init(m, "twice", 2, (uint32_t)muster_task_id(m), NULL, muster_after_ms(PATIENCE_MS), &comm);
    if (status == MUSTER_NOT_FOUND) {
        printf("%s\n", muster_last_error());
        exit(GPU_SKIPPED);
    }
    printf("%s\n", status ? muster_last_error() : "two ranks on one GPU were taken");
    exit(status == MUSTER_OK || status == MUSTER_DEADLINE_EXCEEDED);
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "", *task = getenv("MUSTER_TASK_ID");
    char before[32];

    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (strcmp(what, "list") == 0) {
        devices_print("");
    } else if (strcmp(what, "rank") == 0) {
        snprintf(before, sizeof before, "rank %.8s ", task ? task : "?");
        devices_print(before);
    } else if (strcmp(what, "hold") == 0) {
        struct muster *m = job_join();

        if (muster_task_id(m) == 1)
            hold_and_die(m);
        hold_watch(m);
    } else if (strcmp(what, "cost") == 0) {
        cost_measure(job_join());
    } else if (strcmp(what, "fault") == 0) {
        fault_make();
    } else if (strcmp(what, "twice") == 0) {
        twice_try(job_join());
    } else if (strcmp(what, "mode") == 0) {
        int mode = 0;

        driver_start(false);
        must(cuda.device_attribute(&mode, COMPUTE_MODE, 0), "cuDeviceGetAttribute");
        printf("%d\n", mode == EXCLUSIVE || mode == PROHIBITED);
    } else {
        fprintf(stderr, "device: list, rank, hold, cost, fault, twice or mode\n");
        return 2;
    }
    return 0;
}
