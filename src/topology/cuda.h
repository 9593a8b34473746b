/* topology/cuda.h: the CUDA driver's library, and what its refusals mean. */
#ifndef MU_TOPOLOGY_CUDA_H
#define MU_TOPOLOGY_CUDA_H

#include <stddef.h>

/* What MUSTER_CUDA names, else libcuda.so.1. */
const char *mu_topology_cuda_path(void);

#define MU_CUDA_NO_DEVICE 100

/* Why cuInit() or cuDeviceGetCount() has refused, by its code; with what to do about it. */
const char *mu_topology_cuda_words(int code, char *buffer, size_t size);

#endif
