/*
 * accel/stream_cuda.c: the executor of the stream barrier that is meant: CUDA's stream memory operations.
 *
 * The memory is registered with the driver in every process, for all its contexts. It belongs to one barrier, so no
 * page of it can be registered twice. A write has a fence of system scope before it (the default: the flag that waives
 * it is not given), a wait of 64 bits compares cyclically: with numbers up to 2^31 and a release in the high half that
 * is "at least". Before the first use both are tried on the device itself, in a stream and on words of our own: that a
 * write of 32 bits leaves the high half alone, and that a store of the CPU there opens a wait.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/cuda_library.h"
#include "accel/stream.h"
#include "base/clock.h"

#define TRIAL_NS 5000000000u /* for the driver to start its first stream */

struct cuda_state {
    const struct mu_cuda *cuda;
    uint64_t base; /* of the page on the device */
    bool registered;
};

static enum muster_status attribute_need(const struct mu_cuda *cuda, mu_cuda_device device, int which,
                                         const char *lacks)
{
    int value = 0;
    mu_cuda_result result = cuda->device_attribute(&value, which, device);

    if (result)
        return mu_cuda_fail(result, "cuDeviceGetAttribute");
    return value ? MUSTER_OK : mu_fail(MUSTER_UNIMPLEMENTED, "the GPU or its driver cannot %s", lacks);
}

static enum muster_status open_cuda(void **ret_state)
{
    const struct mu_cuda *cuda;
    mu_cuda_context context = NULL;
    mu_cuda_device device;
    mu_cuda_result result;
    struct cuda_state *s;
    enum muster_status status = mu_cuda_load(&cuda);

    if (status)
        return status;
    result = cuda->context_get(&context);
    if (!result && !context)
        result = MU_CUDA_INVALID_CONTEXT;
    if (!result)
        result = cuda->context_device(&device);
    if (result)
        return mu_cuda_fail(result, "the current CUDA context");
    status = attribute_need(cuda, device, MU_CUDA_CAN_REGISTER, "register host memory");
    if (!status)
        status = attribute_need(cuda, device, MU_CUDA_CAN_WAIT_64, "wait on 64 bits in a stream");
    if (status)
        return status;
    s = calloc(1, sizeof *s);
    if (!s)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
    s->cuda = cuda;
    *ret_state = s;
    return MUSTER_OK;
}

static enum muster_status cuda_submit(void *state, struct CUstream_st *stream, const struct mu_stream_op *ops,
                                      uint32_t count)
{
    struct cuda_state *s = state;
    struct mu_cuda_mem_op batch[MU_STREAM_OPS_MAX + 1];
    int capturing = MU_CUDA_NOT_CAPTURING;
    mu_cuda_result result = s->cuda->stream_is_capturing(stream, &capturing);

    static_assert(MU_STREAM_OPS_MAX + 1 <= MU_CUDA_BATCH_MAX, "one batch a round");
    if (result)
        return mu_cuda_fail(result, "cuStreamIsCapturing");
    if (capturing != MU_CUDA_NOT_CAPTURING)
        return mu_fail(
            MUSTER_FAILED_PRECONDITION,
            "the stream is being captured into a CUDA graph, which would repeat one round's number: keep the "
            "barrier out of the graph");
    memset(batch, 0, count * sizeof *batch);
    for (uint32_t i = 0; i < count; i++) {
        batch[i].operation = ops[i].kind == MU_STREAM_WRITE_32 ? MU_CUDA_WRITE_32 : MU_CUDA_WAIT_64;
        batch[i].address = s->base + ops[i].offset;
        batch[i].value = ops[i].value;
        batch[i].flags = MU_CUDA_WAIT_GEQ; /* and of a write: the default, with its fence */
    }
    result = s->cuda->stream_batch(stream, count, batch, 0);
    return result ? mu_cuda_fail(result, "cuStreamBatchMemOp") : MUSTER_OK;
}

/* Looks a tenth of a millisecond apart: this is once a barrier, and its end is for a driver's fault only. */
static void look_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Until the stream has run empty. */
static mu_cuda_result stream_drain(const struct mu_cuda *cuda, mu_cuda_stream stream)
{
    uint64_t until = mu_now() + TRIAL_NS;
    mu_cuda_result result;

    while ((result = cuda->stream_query(stream)) == MU_CUDA_NOT_READY && mu_now() < until)
        look_pause();
    return result;
}

/* What the device made of "write 5, wait for 6, write 7" after the wait was released. */
static enum muster_status probe_judge(mu_cuda_result result, const struct mu_stream_word *word)
{
    uint32_t low = mu_load32_acquire(&word->arrived);   /* acquire: pairs with the device's writes */
    uint32_t high = mu_load32_acquire(&word->released); /* acquire: likewise */

    if (result == MU_CUDA_NOT_READY)
        return mu_fail(MUSTER_UNIMPLEMENTED, "a wait in a stream is not opened by a store of the CPU on this GPU");
    if (result)
        return mu_cuda_fail(result, "trying a wait in a stream");
    if (low != 7 || high != 1)
        return mu_fail(MUSTER_UNIMPLEMENTED, "a write in a stream is not one of 32 bits on this GPU (%u, %u)", low,
                       high);
    return MUSTER_OK;
}

/* On a word of the page that nobody else looks at yet: our own note. */
static enum muster_status try_out(struct cuda_state *s, struct mu_stream_word *word, uint32_t offset)
{
    const struct mu_stream_op ops[] = {
        {MU_STREAM_WRITE_32, offset, 5}, {MU_STREAM_WAIT_64, offset, 6}, {MU_STREAM_WRITE_32, offset, 7}};
    const struct mu_cuda *cuda = s->cuda;
    mu_cuda_stream stream;
    mu_cuda_result result = cuda->stream_create(&stream, MU_CUDA_STREAM_NON_BLOCKING);
    uint64_t until = mu_now() + TRIAL_NS;
    enum muster_status status;

    if (result)
        return mu_cuda_fail(result, "cuStreamCreate");
    status = cuda_submit(s, stream, ops, 3);
    if (!status) {
        while (mu_load32_acquire(&word->arrived) != 5 && mu_now() < until) /* acquire: pairs with the device's write */
            look_pause();
        mu_store32_release(&word->released, 1); /* release: pairs with the device's wait */
        result = stream_drain(cuda, stream);
        status = probe_judge(result, word);
        if (result == MU_CUDA_NOT_READY) {          /* let it go in the way that needs no release */
            mu_store32_release(&word->released, 0); /* release: as above */
            mu_store32_release(&word->arrived, 6);  /* release: likewise */
            stream_drain(cuda, stream);
        }
    }
    cuda->stream_destroy(stream);
    mu_store32_release(&word->arrived, 0);  /* release, both: the note is empty again */
    mu_store32_release(&word->released, 0); /* likewise */
    return status;
}

static enum muster_status cuda_map(void *state, struct mu_stream_page *page, size_t bytes, uint32_t rank,
                                   uint64_t *ret_base)
{
    struct cuda_state *s = state;
    struct mu_stream_word *word = (struct mu_stream_word *)page->notes[rank].text;
    mu_cuda_address base = 0;
    mu_cuda_result result = s->cuda->host_register(page, bytes, MU_CUDA_REGISTER_PORTABLE | MU_CUDA_REGISTER_MAPPED);

    if (result)
        return mu_cuda_fail(result, "cuMemHostRegister");
    s->registered = true;
    result = s->cuda->host_address(&base, page, 0);
    if (result)
        return mu_cuda_fail(result, "cuMemHostGetDevicePointer");
    s->base = *ret_base = base;
    return try_out(s, word, (uint32_t)((char *)word - (char *)page));
}

/* Where the driver keeps its registration (no context is current, say) the addresses must not become something else. */
static bool close_cuda(void *state, struct mu_stream_page *page)
{
    struct cuda_state *s = state;
    bool unused = !s->registered || s->cuda->host_unregister(page) == MU_CUDA_SUCCESS;

    free(s);
    return unused;
}

const struct mu_stream_executor mu_stream_cuda = {open_cuda, cuda_map, cuda_submit, close_cuda};
