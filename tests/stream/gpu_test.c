/*
 * tests/stream/gpu_test.c: the stream barrier on real GPUs: processes that go round those there are. Without one it is
 * skipped, with the reason that the loader or the driver gives. Nothing stands in for a GPU here.
 */
#include "child.h"
#include "job.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/cuda_library.h"

enum { SKIPPED = 77, MEMBERS = 2, ROUNDS = 2000 };

static struct shared {
    char reason[400];
    _Atomic int waiting;
} * shared;
static struct test_job job;

/* One member: everything up to the barrier. */
static const struct mu_cuda *cuda;
static struct muster *me;
static mu_cuda_stream stream;
static struct muster_stream_barrier *barrier;

static void take_part(int32_t task, const char *name)
{
    mu_cuda_context context;
    mu_cuda_device device;
    int devices;

    me = test_join(job.name, task, TEST_WITH_HEARTBEAT);
    CHECK(me);
    CHECK(!mu_cuda_start(&cuda));
    CHECK(!cuda->device_count(&devices));
    CHECK(!cuda->device_get(&device, task % devices));
    CHECK(!cuda->primary_retain(&context, device));
    CHECK(!cuda->context_set(context));
    CHECK(!cuda->stream_create(&stream, MU_CUDA_STREAM_NON_BLOCKING));
    CHECK(!muster_stream_barrier_create(me, name, (int32_t[]){0, 1}, MEMBERS, muster_after_ms(60000), &barrier));
}

static void enqueue(int rounds)
{
    for (int i = 0; i < rounds; i++)
        CHECK(!muster_stream_barrier_enqueue(barrier, stream));
}

static int probe(void *arg)
{
    (void)arg;
    if (mu_cuda_start(&cuda)) {
        snprintf(shared->reason, sizeof shared->reason, "%s", muster_last_error());
        return 1;
    }
    return 0;
}

static int play(void *arg)
{
    uint64_t good = 0;

    take_part(*(int32_t *)arg, "rounds");
    enqueue(ROUNDS);
    CHECK(!cuda->stream_synchronize(stream));
    CHECK(!muster_stream_barrier_status(barrier, &good));
    CHECK(good == ROUNDS);
    CHECK(muster_stream_barrier_failed_word(barrier) != 0);
    CHECK(!muster_stream_barrier_free(barrier));
    CHECK(!muster_leave(me));
    return 0;
}

/* A capture is refused, and spoils neither the capture nor the barrier. */
static int capture(void *arg)
{
    mu_cuda_result (*begin)(mu_cuda_stream, int mode), (*end)(mu_cuda_stream, void **graph);
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *address = NULL, *graph = NULL;

    take_part(*(int32_t *)arg, "capture");
    CHECK(library && (address = dlsym(library, "cuStreamBeginCapture_v2")));
    memcpy(&begin, &address, sizeof address);
    CHECK((address = dlsym(library, "cuStreamEndCapture")));
    memcpy(&end, &address, sizeof address);
    CHECK(!begin(stream, 1));
    CHECK(muster_stream_barrier_enqueue(barrier, stream) == MUSTER_FAILED_PRECONDITION);
    CHECK(strstr(muster_last_error(), "graph"));
    CHECK(!end(stream, &graph));
    enqueue(1);
    CHECK(!cuda->stream_synchronize(stream));
    CHECK(!muster_stream_barrier_status(barrier, NULL));
    CHECK(!muster_stream_barrier_free(barrier));
    CHECK(!muster_leave(me));
    return 0;
}

static int die(void *arg)
{
    take_part(*(int32_t *)arg, "death");
    enqueue(10);
    CHECK(!cuda->stream_synchronize(stream));
    atomic_fetch_add(&shared->waiting, 1);
    while (pause())
        ;
    return 1;
}

static int survive(void *arg)
{
    uint64_t good = 0;

    take_part(*(int32_t *)arg, "death");
    enqueue(40);
    atomic_fetch_add(&shared->waiting, 1);
    CHECK(!cuda->stream_synchronize(stream));
    CHECK(muster_stream_barrier_status(barrier, &good) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "task 1 (pid"));
    CHECK(good == 10);
    CHECK(muster_stream_barrier_enqueue(barrier, stream) == MUSTER_UNAVAILABLE);
    CHECK(!muster_stream_barrier_free(barrier));
    muster_leave(me);
    return 0;
}

static int both(int (*first)(void *), int (*second)(void *))
{
    static int32_t tasks[] = {0, 1};
    pid_t a = test_fork(first, &tasks[0]), b = test_fork(second, &tasks[1]);

    return test_reap(a) + test_reap(b);
}

static int death(void)
{
    static int32_t tasks[] = {0, 1};
    pid_t a = test_fork(survive, &tasks[0]), b = test_fork(die, &tasks[1]);
    siginfo_t ended = {0};

    while (atomic_load(&shared->waiting) < 2 && waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           !ended.si_pid)
        usleep(1000); /* sleep: between looks at what the members say; one that fails ends */
    kill(b, SIGKILL);
    return test_reap(a) + (test_reap(b) != 1000 + SIGKILL);
}

int main(void)
{
    struct muster_segment_config config = {.num_tasks = MEMBERS};
    int failed = 0;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (test_in_child(probe, NULL)) {
        printf("skipped, no CUDA here: %s\n", shared->reason);
        return SKIPPED;
    }
    if (test_job_create(&job, &config)) {
        printf("%s\n", muster_last_error());
        return 1;
    }
    failed += both(play, play);
    failed += failed ? 0 : both(capture, capture);
    failed += failed ? 0 : death();
    failed += test_job_end(&job) != 0;
    return failed != 0;
}
