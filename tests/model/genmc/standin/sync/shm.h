/* Stands in for src/sync/shm.h: the same, or without one of its orderings. */
#ifndef MODEL_SHM_H
#define MODEL_SHM_H

#include_next "sync/shm.h"

#ifdef BREAK_NO_RELEASE_FENCE /* a recycled block is filled without a fence */
#define mu_fence_release() ((void)0)
#endif
#ifdef BREAK_NO_ACQUIRE_FENCE /* the re-check is not ordered behind the copy */
#define mu_recheck(p) mu_load_relaxed(p)
#endif
#ifdef BREAK_WEAK_PIN_FENCE /* pins without sequential consistency */
#define mu_fence_seq_cst() atomic_thread_fence(memory_order_acq_rel)
#endif

#endif
