/* segment/robust.h: libc's list of a thread's robust mutexes, where it lies in a segment. */
#ifndef MU_SEGMENT_ROBUST_H
#define MU_SEGMENT_ROBUST_H

#include <pthread.h>
#include <stdbool.h>

/* Before the calling thread unlocks the mutex: whether libc can take it off the list. A damaged place is mended first.
 */
bool mu_robust_mend(pthread_mutex_t *mutex);

#endif
