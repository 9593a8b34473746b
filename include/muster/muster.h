/*
 * muster/muster.h: everything. muster gathers the processes of a multi-GPU job and keeps them together.
 *
 *     struct muster *m;
 *     if (muster_join(NULL, &m) != MUSTER_OK)
 *         errx(1, "%s", muster_last_error());
 *     muster_kv_set(m, "/hello", MUSTER_NTS, "world", 5, NULL);
 *     muster_barrier_wait(m, "ready", 0, NULL, 0, 10000000000, MUSTER_FOREVER);
 *     muster_leave(m);
 */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include <muster/status.h>
#include <muster/segment.h>
#include <muster/task.h>
#include <muster/kv.h>
#include <muster/barrier.h>
#include <muster/membership.h>
#include <muster/group.h>
#include <muster/event.h>
#include <muster/object.h>
#include <muster/queue.h>
#include <muster/checkpoint.h>
#include <muster/schedule.h>
#include <muster/ps.h>
#include <muster/nccl.h>
#include <muster/stats.h>
#include <muster/topology.h>
#include <muster/stream.h>

#define MUSTER_VERSION_MAJOR 0
#define MUSTER_VERSION_MINOR 1
#define MUSTER_VERSION_PATCH 0

#endif
