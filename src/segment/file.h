/* segment/file.h: segments as files: names, creation, opening, removal. */
#ifndef MU_SEGMENT_FILE_H
#define MU_SEGMENT_FILE_H

#include <sys/types.h>

#include "segment/hosts.h"

/* Where segments are made by name: /dev/shm, or what MUSTER_SHM_DIR says. */
const char *mu_segment_folder(void);
/* The file of the job's segment, for this user. */
void mu_segment_path(const char *job, char *path, size_t size);
/* Where this one lies, for words: its folder, or "memory". */
enum { MU_PLACE_MAX = 512 };
void mu_segment_place(const struct muster_segment *seg, char *place, size_t size);

/* Open by job name, path or "fd:N"; writable or not. */
enum muster_status mu_segment_open(const char *name, bool writable, struct muster_segment **ret_segment);

/*
 * A further mapping of a part of the file, at the first call, kept in *at until the last user goes: neither inherited
 * by children nor dumped. NULL: the kernel has none to give. Where there is no file it is a part of the base.
 */
uint8_t *mu_segment_map(struct muster_segment *seg, _Atomic(uint8_t *) *at, uint64_t offset, uint64_t bytes,
                        bool writable);

/* One more, or one less, user of the mapping. The last one unmaps. */
void mu_segment_ref(struct muster_segment *seg);
void mu_segment_unref(struct muster_segment *seg);

/* In a forked child, which did not inherit the mapping, and where no thread stands for the copied users: the rest. */
void mu_segment_abandon(struct muster_segment *seg);

/* Unlink the name if it is still this very segment's. */
void mu_segment_unlink(struct muster_segment *seg);

/* Unlink `path` if it still names the file behind the descriptor: whether it did. */
bool mu_segment_unlink_file(int fd, const char *path);

/* Close the job's segment and unlink its name, if it is this very file, sound or not: whether it was. */
bool mu_segment_remove_exactly(const char *job, dev_t device, ino_t file);

/* After giving up a slot for good: if nobody is left in a job that no launcher keeps, close and unlink it. */
void mu_segment_last_out(struct muster_segment *seg);

/*
 * Whether the file is as long as the mapping. A /dev/shm file cannot be sealed: where its owner's other programs have
 * cut it, a touch is a SIGBUS. Asked after long sleeps and before leaving, not in every call: it is a system call.
 */
bool mu_segment_is_whole(const struct muster_segment *seg);

/* Closed for good. */
bool mu_segment_is_closed(const struct muster_segment *seg);

/* Mark it closed, or removed (MU_CLOSED, MU_REMOVED), and wake everybody. */
void mu_segment_mark_closed(struct muster_segment *seg, uint32_t how);
/* Closed by the command that removed it. */
bool mu_segment_is_removed(const struct muster_segment *seg);
/* CANCELLED, and why: what was waited for, or "". */
enum muster_status mu_segment_say_closed(const struct muster_segment *seg, const char *what);

enum {
    MU_SEGMENT_KEPT = 1, /* a launcher removes it, so the last task to leave does not */
    MU_SEGMENT_LATE = 2  /* the first member may commit its pages (reserve.h): a start without them */
};

/* Create; `how`: of the bits above. */
enum muster_status mu_segment_create(const char *job, const struct muster_segment_config *config, unsigned how,
                                     struct muster_segment **ret_segment);
/* The same in two steps: one that only this process can reach, and its name, which a memfd does without. Where it can
 * have none, it is still to be closed. */
enum muster_status mu_segment_make(const char *job, const struct muster_segment_config *config,
                                   const struct mu_hosts_config *hosts, unsigned how,
                                   struct muster_segment **ret_segment);
enum muster_status mu_segment_name(struct muster_segment *seg);
/* Both, of one of several hosts; by custom a follower's is named "JOB.h3". */
enum muster_status mu_segment_create_hosts(const char *job, const struct muster_segment_config *config,
                                           const struct mu_hosts_config *hosts, unsigned how,
                                           struct muster_segment **ret_segment);

/* Nobody can be using it any more: an earlier boot's, closed, or without a living slot or creator. */
bool mu_segment_is_stale(const struct muster_segment *seg);

/* The pid of a living process that uses it: its maker's, or, where that is dead, that of a thread with a slot. */
uint32_t mu_segment_holder(const struct muster_segment *seg);

/* Slots held by the living. */
uint32_t mu_segment_live_slots(const struct muster_segment *seg);

#endif
