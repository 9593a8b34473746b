/*
 * muster/object.h: objects in shared memory, which tasks of one host hand to each other without copying them.
 *
 * An object is bytes and metadata that never change once it is sealed. A task creates it and writes the bytes in place,
 * or puts a copy of its own; a holder of a reference gets a view of those very bytes. A reference is 64 bits that may
 * travel by any way, a key, a pipe, another object; 0 is none. The object lives as long as some process holds it: a
 * process holds what it created, retained or got until it has dropped it as often, and given back its views.
 *
 * A process that ends, or is killed, holds nothing from then on, and what it had created and not sealed becomes an
 * error for its other holders: a wait ends with the name of the task, not by a timeout. Nothing else is lost with
 * it.
 *
 * A task without a heartbeat thread (MUSTER_JOIN_NO_HEARTBEAT) holds objects for as long as the thread that joined
 * lives.
 *
 * Views are read-only memory: a write through one is a SIGSEGV of the writer. The producer alone has writable memory,
 * and writes to it before it seals; afterwards the room is not the producer's to touch.
 *
 * All calls are thread-safe. None blocks but those with a deadline, and
 * muster_object_retain() of an object of another host, which waits for this host's agent. Only tasks and workers hold
 * objects; to others the calls that do are MUSTER_FAILED_PRECONDITION. Observers, read-only ones too, may ask by
 * muster_object_info() and muster_object_list(). muster_leave() ends all views, and their memory goes.
 * An object may be as large as what the job has for objects (muster_segment_config.object_bytes); its metadata less
 * than 4 GiB. (Semantics: the 2016 ObjStore, and Plasma.)
 *
 * In a job of several hosts a reference names the object's home, the host on which it was made, and may be used on all
 * of them. On another host the first call that wants to hold the object asks this host's agent, which has its bytes
 * brought here once; from then on it is an object of this host, too, which all its processes share and which no longer
 * needs the home. Until the bytes have come it is as one that is not sealed: muster_object_get() and
 * muster_object_wait() wait for it, and it becomes an error when its producer fails or dies, its home is lost
 * (MUSTER_UNAVAILABLE), nobody held it any more when it was asked for (MUSTER_NOT_FOUND), or this host has no room for
 * it (MUSTER_RESOURCE_EXHAUSTED). Each names the host. A task that hands a reference to another host's holds the
 * object until that one has it, as on one host. muster_object_retain() holds an object of another host, too, and brings
 * it; a get or wait without it that ends early gives up what had come. Retain waits for the agent alone.
 */
#ifndef MUSTER_OBJECT_H
#define MUSTER_OBJECT_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t muster_object; /* a reference; 0: none */

/* Where a producer writes. `data` begins at a multiple of 64, or of 16 where data and metadata take at
 * most 48 bytes; both are NULL where their length is 0. */
struct muster_object_room {
    void *data;
    size_t len;
    void *meta;
    size_t meta_len;
};

/* What a reader sees, read-only, until muster_object_unview(). */
struct muster_object_view {
    muster_object object;
    const void *data;
    size_t len;
    const void *meta;
    size_t meta_len;
};

/*
 * A new object of `len` bytes and `meta_len` of metadata; their contents are whatever was in that memory before. It is
 * held by this process once. Where there is no room it waits until objects are dropped, up to the deadline: 0 asks
 * without waiting. MUSTER_RESOURCE_EXHAUSTED: there is still none; after a wait the tasks that hold the most bytes are
 * named. MUSTER_UNAVAILABLE: a task is in error, MUSTER_CANCELLED: interrupted, or the job was closed, while it waited.
 * MUSTER_OUT_OF_RANGE: too large for the job, whatever is dropped.
 */
MUSTER_API enum muster_status muster_object_create(struct muster *muster, size_t len, size_t meta_len,
                                                   muster_deadline deadline, muster_object *ret_object,
                                                   struct muster_object_room *ret_room);

/* The bytes are final: the waiters for the object get it. MUSTER_FAILED_PRECONDITION: it is sealed, or another
 * process's; MUSTER_RESOURCE_EXHAUSTED: in a segment so full that not even its reserve is left: try again. */
MUSTER_API enum muster_status muster_object_seal(struct muster *muster, muster_object object);

/* Instead of sealing: the object is an error, which every get returns as `code` with the text. At most 800 bytes of
 * the text are kept; `code` is not MUSTER_OK. The same errors; where there is no room for the text, drop the object:
 * it is an error, too, then. */
MUSTER_API enum muster_status muster_object_fail(struct muster *muster, muster_object object, enum muster_status code,
                                                 const char *text);

/* Create, copy and seal, at one instant. The same deadline and errors as muster_object_create(). */
MUSTER_API enum muster_status muster_object_put(struct muster *muster, const void *data, size_t len, const void *meta,
                                                size_t meta_len, muster_deadline deadline, muster_object *ret_object);

/* Hold each of the objects once more. All or none: MUSTER_NOT_FOUND when one is gone, MUSTER_RESOURCE_EXHAUSTED when
 * the segment is full: *ret_at (it may be NULL) gets the number of that one. */
MUSTER_API enum muster_status muster_object_retain(struct muster *muster, const muster_object *objects, size_t count,
                                                   size_t *ret_at);

/*
 * Hold each once less. What this process holds no more and has no view of goes when nobody else holds it; one that it
 * had created and not sealed becomes an error for the others. References of 0 are left out. MUSTER_NOT_FOUND: this
 * process holds one of them less often; all others are dropped.
 */
MUSTER_API enum muster_status muster_object_drop(struct muster *muster, const muster_object *objects, size_t count);

/*
 * Wait until all of the objects are sealed, and view them. Each view holds its object: a reference that came from
 * elsewhere need not be retained first. Ends early when one is an error: with that one's code, and its text as
 * muster_last_error(). No view is kept then, nor after MUSTER_DEADLINE_EXCEEDED (the producer is named),
 * MUSTER_UNAVAILABLE (a task is in error, or the producer, a recoverable one too), MUSTER_RESOURCE_EXHAUSTED (the
 * segment is full: a hold needs a little room), MUSTER_NOT_FOUND (one is gone), MUSTER_CANCELLED (interrupted, or the
 * job was closed). *ret_at (it may be NULL) gets the number of the one that is to blame. (StreamObjTo, and Plasma's
 * Get)
 */
MUSTER_API enum muster_status muster_object_get(struct muster *muster, const muster_object *objects, size_t count,
                                                muster_deadline deadline, struct muster_object_view *ret_views,
                                                size_t *ret_at);

/* Give views back; the memory may be another object's at once. Views with an object of 0 are left out. A thread
 * without a slot, where none is free, gives nothing back: the views then count until the process leaves. */
MUSTER_API void muster_object_unview(struct muster *muster, struct muster_object_view *views, size_t count);

/*
 * Wait until `want` of the objects are sealed, errors included; ret_ready[i] becomes 1 for each that is, *ret_count
 * their number: more than `want` when more are. At the deadline MUSTER_DEADLINE_EXCEEDED, and both say how far it came:
 * a deadline that has passed asks without waiting. The same errors else. An object that is gone is ready, and
 * so is one that a producer in error has not sealed: a get of it says so. (Wait)
 */
MUSTER_API enum muster_status muster_object_wait(struct muster *muster, const muster_object *objects, size_t count,
                                                 size_t want, muster_deadline deadline, unsigned char *ret_ready,
                                                 size_t *ret_count);

/*
 * The same for the first of them that is ready, in their order: *ret_at gets its number. Nothing is written for the
 * others, so the call costs what it takes to look as far as that one. A caller that waits for all, one by one, puts the
 * last of its list in that place and calls again.
 */
MUSTER_API enum muster_status muster_object_wait_any(struct muster *muster, const muster_object *objects, size_t count,
                                                     muster_deadline deadline, size_t *ret_at);

struct muster_object_info {
    muster_object object;
    int32_t task; /* that created it */
    int sealed;
    enum muster_status code; /* MUSTER_OK, or the error that it is */
    uint64_t len, meta_len;
    uint32_t holders; /* processes that hold it */
};
/* Never blocks. MUSTER_NOT_FOUND when it is gone, and of one of another host when nobody holds it on this one: what is
 * told is this host's copy, and its holders here. The task is -1 until the copy has come. */
MUSTER_API enum muster_status muster_object_info(struct muster *muster, muster_object object,
                                                 struct muster_object_info *ret_info);

/* Every object of this host, copies of others' included (under references of this host), in no order; stops when
 * `visit` returns non-zero, which makes no muster call. Never blocks. */
MUSTER_API enum muster_status
muster_object_list(struct muster *muster, int (*visit)(void *arg, const struct muster_object_info *info), void *arg);

#ifdef __cplusplus
}
#endif
#endif
