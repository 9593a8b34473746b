/*
 * tests/task/share.h: several tasks in one process on one mapping of the segment, for ThreadSanitizer: it tells
 * accesses apart by address, and muster_join() maps the segment anew for every handle.
 */
#ifndef MUSTER_TEST_SHARE_H
#define MUSTER_TEST_SHARE_H

#include "stage.h"

/* Join as `task` on the observer's mapping, from the calling thread. NULL: muster_last_error() says why. */
struct muster *share_join(int32_t task, uint32_t flags);

#endif
