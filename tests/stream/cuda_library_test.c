/*
 * tests/stream/cuda_library_test.c: NVIDIA's driver library, whichever this machine has: none (then the loader's reason
 * is told), or the real one. No copy of ours takes its place.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/cuda_library.h"

TEST(loading_gives_all_functions_or_the_loaders_reason)
{
    const struct mu_cuda *cuda = NULL, *again = NULL;
    enum muster_status status = mu_cuda_load(&cuda);

    if (status) {
        print_message("no driver library here: %s\n", muster_last_error());
        assert_int_equal(status, MUSTER_UNAVAILABLE);
        assert_says("libcuda.so.1");
        assert_null(cuda);
        assert_status(MUSTER_UNAVAILABLE, mu_cuda_load(&cuda)); /* and again */
        return;
    }
    print_message("the driver is one of CUDA %d.%d\n", cuda->version / 1000, cuda->version % 1000 / 10);
    assert_ok(mu_cuda_load(&again));
    assert_ptr_equal(cuda, again);
    assert_non_null(cuda->stream_batch);
}

/* Nothing may have been started by loading: a child of this process can still start CUDA, or be told why not. */
TEST(loading_starts_nothing)
{
    const struct mu_cuda *cuda;
    int count = 0, result;

    if (mu_cuda_load(&cuda)) {
        print_message("skipped, no driver library here: %s\n", muster_last_error());
        return;
    }
    result = cuda->device_count(&count);
    assert_true(result == MU_CUDA_NOT_INITIALIZED || result == MU_CUDA_STUB_LIBRARY);
}

TEST(starting_gives_a_device_or_the_drivers_reason_in_words)
{
    const struct mu_cuda *cuda;
    enum muster_status status = mu_cuda_start(&cuda);
    int count = 0;

    if (status) {
        print_message("no CUDA here: %s\n", muster_last_error());
        assert_int_equal(status, MUSTER_UNAVAILABLE);
        assert_true(strlen(muster_last_error()) > 20);
        return;
    }
    assert_int_equal(cuda->device_count(&count), MU_CUDA_SUCCESS);
    print_message("CUDA has %d devices\n", count);
}

TEST(a_child_forked_after_the_start_is_refused_in_words)
{
    const struct mu_cuda *cuda;
    pid_t pid;
    int status;

    if (mu_cuda_start(&cuda)) {
        print_message("skipped, no CUDA here: %s\n", muster_last_error());
        return;
    }
    fflush(NULL);
    pid = fork();
    if (!pid)
        _exit(mu_cuda_start(&cuda) != MUSTER_FAILED_PRECONDITION || !strstr(muster_last_error(), "fork"));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(each_failure_of_the_start_is_told_differently)
{
    static const struct {
        int result;
        enum muster_status status;
        const char *says;
    } known[] = {
        {34, MUSTER_UNAVAILABLE, "stub"},
        {100, MUSTER_UNAVAILABLE, "no GPU"},
        {3, MUSTER_FAILED_PRECONDITION, "fork()"},
        {201, MUSTER_FAILED_PRECONDITION, "context"},
        {803, MUSTER_UNAVAILABLE, "different versions"},
        {802, MUSTER_UNAVAILABLE, "fabricmanager"},
        {712, MUSTER_FAILED_PRECONDITION, "registered already"},
        {999, MUSTER_UNAVAILABLE, "dmesg"},
        {801, MUSTER_UNIMPLEMENTED, "does not support"},
        {-7, MUSTER_UNAVAILABLE, "-7"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_status(known[i].status, mu_cuda_fail(known[i].result, "cuInit"));
        assert_says("cuInit: ");
        assert_says(known[i].says);
    }
}
