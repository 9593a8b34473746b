/*
 * session/inner.h: an executor of muster's own kernels, in the loop's thread: for a machine without TensorFlow.
 *
 * Steps take turns in the loop; a kernel that takes long runs in libuv's pool of threads. Executors of one mu_inner
 * give each other the tensors of their steps.
 */
#ifndef MU_SESSION_INNER_H
#define MU_SESSION_INNER_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "session/executor.h"

struct mu_inner;

/* memory: what all their tensors may take, in bytes; 0: half of the machine's. NULL: no memory. */
struct mu_inner *mu_inner_new(uv_loop_t *loop, size_t memory);
/* job is copied; address: "". NULL: no memory. It lives as long as its mu_inner. */
struct mu_executor *mu_inner_executor(struct mu_inner *local, const char *job, uint32_t task);
/* Nobody has a call any more. `stopped`, which may be NULL, is called when the loop and its threads have let go. */
void mu_inner_free(struct mu_inner *local, void (*stopped)(void *arg), void *arg);

#endif
