/*
 * tests/accel/nccl_gpu_test.c: communicators of a real NCCL on a real GPU: one rank and an allreduce; and a rank whose
 * peer never comes, which must be aborted by its deadline and by a task's error. Skipped without a GPU or libnccl, with
 * the reason. Everything here is real.
 *
 * Each part is a process of its own: CUDA does not survive a fork.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/cuda_library.h"
#include "accel/nccl_library.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

enum { SKIP = 77, COUNT = 1024, NCCL_FLOAT = 7, NCCL_SUM = 0 };

static struct test_job job;

/* What muster itself does not call. */
static struct {
    int (*memory_allocate)(mu_cuda_address *, size_t);
    int (*memory_free)(mu_cuda_address);
    int (*copy_in)(mu_cuda_address, const void *, size_t);
    int (*copy_out)(void *, mu_cuda_address, size_t);
    int (*all_reduce)(mu_cuda_address from, mu_cuda_address to, size_t count, int type, int op, struct ncclComm *,
                      mu_cuda_stream);
    int (*comm_destroy)(struct ncclComm *);
    int (*comm_count)(struct ncclComm *, int *);
} more;

static void find(const char *library, const char *name, void *place)
{
    void *handle = dlopen(library, RTLD_NOW), *symbol = handle ? dlsym(handle, name) : NULL;

    CHECK(symbol != NULL);
    memcpy(place, &symbol, sizeof symbol);
}

static void find_more(const struct mu_nccl *nccl)
{
    find("libcuda.so.1", "cuMemAlloc_v2", &more.memory_allocate);
    find("libcuda.so.1", "cuMemFree_v2", &more.memory_free);
    find("libcuda.so.1", "cuMemcpyHtoD_v2", &more.copy_in);
    find("libcuda.so.1", "cuMemcpyDtoH_v2", &more.copy_out);
    find(nccl->path, "ncclAllReduce", &more.all_reduce);
    find(nccl->path, "ncclCommDestroy", &more.comm_destroy);
    find(nccl->path, "ncclCommCount", &more.comm_count);
}

/* Device 0 becomes this thread's, as cudaSetDevice(0) would make it. */
static const struct mu_cuda *start_device(void)
{
    const struct mu_cuda *cuda;
    mu_cuda_context context;
    mu_cuda_device device;
    char name[128] = "";
    int count = 0;

    if (mu_cuda_start(&cuda)) {
        printf("no GPU to try it on: %s\n", muster_last_error());
        exit(SKIP);
    }
    if (cuda->device_count(&count) || !count) {
        printf("the CUDA driver knows no GPU\n");
        exit(SKIP);
    }
    CHECK(!cuda->device_get(&device, 0) && !cuda->device_name(name, sizeof name, device));
    CHECK(!cuda->primary_retain(&context, device) && !cuda->context_set(context));
    printf("on %s\n", name);
    return cuda;
}

static void settle(const struct mu_nccl *nccl, struct ncclComm *comm)
{
    int result = MU_NCCL_IN_PROGRESS;

    while (result == MU_NCCL_IN_PROGRESS)
        CHECK(!nccl->comm_get_async_error(comm, &result));
    CHECK(result == MU_NCCL_SUCCESS);
}

static int reduce_alone(void *arg)
{
    const struct mu_cuda *cuda = start_device();
    struct muster *m = test_join(job.name, 0, 0);
    const struct mu_nccl *nccl;
    struct ncclComm *comm;
    mu_cuda_stream stream;
    mu_cuda_address memory;
    float data[COUNT], back[COUNT];
    uint64_t start = muster_now_ns();
    int rc, ranks = 0;

    (void)arg;
    CHECK(m != NULL);
    CHECK(!mu_nccl_open(&nccl));
    find_more(nccl);
    CHECK(!muster_nccl_comm_init(m, "alone", 1, 0, NULL, muster_after_ms(60000), &comm));
    printf("NCCL %d: a communicator of one rank after %.1f ms\n", nccl->version,
           (double)(muster_now_ns() - start) / 1e6);
    CHECK(!more.comm_count(comm, &ranks) && ranks == 1);
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    CHECK(!cuda->stream_create(&stream, MU_CUDA_STREAM_NON_BLOCKING));
    CHECK(!more.memory_allocate(&memory, sizeof data));
    CHECK(!more.copy_in(memory, data, sizeof data));
    rc = more.all_reduce(memory, memory, COUNT, NCCL_FLOAT, NCCL_SUM, comm, stream);
    CHECK(rc == MU_NCCL_SUCCESS || rc == MU_NCCL_IN_PROGRESS);
    settle(nccl, comm);
    CHECK(!cuda->stream_synchronize(stream) && !more.copy_out(back, memory, sizeof back));
    CHECK(!memcmp(data, back, sizeof data)); /* the sum over one rank */
    more.memory_free(memory);
    more.comm_destroy(comm);
    CHECK(!muster_leave(m));
    return 0;
}

static int wait_for_nobody(void *arg)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct ncclComm *comm = NULL;

    (void)arg;
    start_device();
    CHECK(m &&
          muster_nccl_comm_init(m, "nobody", 2, 0, NULL, muster_after_ms(1000), &comm) == MUSTER_DEADLINE_EXCEEDED);
    CHECK(strstr(muster_last_error(), "without rank 1") && !comm);
    CHECK(!muster_leave(m));
    return 0;
}

static int wait_for_an_error(void *arg)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct ncclComm *comm = NULL;

    (void)arg;
    start_device();
    CHECK(m && muster_nccl_comm_init(m, "error", 2, 0, NULL, muster_after_ms(60000), &comm) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "task 1") && !comm);
    CHECK(!muster_leave(m));
    return 0;
}

/* In a process that uses no GPU: rank 1, which takes the id and then is in error. */
static int take_and_report(void *arg)
{
    struct muster *m = test_join(job.name, 1, 0);
    char id[MUSTER_NCCL_ID_BYTES];

    (void)arg;
    CHECK(m && !muster_nccl_unique_id(m, "error", 2, 1, NULL, muster_after_ms(60000), id, NULL));
    CHECK(!muster_error_report(m, 1, MUSTER_INTERNAL, "it has changed its mind"));
    CHECK(!muster_leave(m));
    return 0;
}

int main(void)
{
    pid_t waiter;
    int rc;

    test_nccl_required();
    if (test_job_create(&job, NULL)) {
        printf("%s\n", muster_last_error());
        return 1;
    }
    rc = test_in_child(reduce_alone, NULL);
    if (!rc)
        rc = test_in_child(wait_for_nobody, NULL);
    if (!rc) {
        waiter = test_fork(wait_for_an_error, NULL);
        rc = test_in_child(take_and_report, NULL);
        rc = test_reap(waiter) || rc;
    }
    return test_job_end(&job) ? 1 : rc;
}
