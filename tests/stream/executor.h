/*
 * tests/stream/executor.h: streams without a GPU. A thread stands for a stream and executes exactly the operations that
 * the stream barrier gives to CUDA, in order; and functions between them, which stand for kernels. For tests only.
 */
#ifndef MUSTER_TEST_EXECUTOR_H
#define MUSTER_TEST_EXECUTOR_H

#include <stdbool.h>

#include "accel/stream.h"

extern const struct mu_stream_executor cpu_executor;

/* A stream: `struct CUstream_st` is defined by the executor, as it is by CUDA. */
struct CUstream_st *cpu_stream_open(void);
/* Waits until it has run empty. */
void cpu_stream_close(struct CUstream_st *stream);
void cpu_stream_synchronize(struct CUstream_st *stream);
bool cpu_stream_is_empty(struct CUstream_st *stream);

/* A "kernel": called by the stream in its turn. */
typedef void (*cpu_kernel)(void *arg, uint64_t number);
void cpu_stream_launch(struct CUstream_st *stream, cpu_kernel kernel, void *arg, uint64_t number);

/* Until it is let go the stream executes nothing more: a GPU that is slow. */
void cpu_stream_hold(struct CUstream_st *stream, bool hold);

/* While true, cpu_executor.open() fails: a machine without a GPU. */
extern bool cpu_executor_is_absent;

#endif
