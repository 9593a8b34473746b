/*
 * segment/segment.h: one mapping of a segment, and one thread's use of it.
 *
 * struct muster_segment caches every size and offset of the header after validating them once: the header is never
 * believed again. struct mu_ctx is what a thread needs to write: its slot, and private hints where free blocks may be.
 */
#ifndef MU_SEGMENT_SEGMENT_H
#define MU_SEGMENT_SEGMENT_H

#include <muster/segment.h>

#include "base/error.h"
#include "shm_layout/layout.h"
#include "sync/shm.h"

struct muster_segment {
    uint8_t *base;
    uint64_t size;       /* mapped: all but the arena */
    uint64_t file_bytes; /* with it */
    int fd;              /* -1 in the harnesses that map anonymous memory: then nothing needs committing */
    bool writable;
    bool listened; /* of several hosts, or made so: after a change a thread looks at the bell */
    bool foreign;  /* made in another pid or time namespace: pids mean nothing, liveness words do */
    /* of the process, if it made the segment itself, and so need not ask the kernel again; 0: another made it */
    uint32_t maker;
    uint64_t maker_start, maker_namespace;
    struct mu_header *header;
    struct mu_slot *slots;
    mu_a32 *chunks;
    mu_a64 *beats, *events, *cells, *buckets, *objects, *units, *idle, *queue;
    uint8_t *heap;
    uint8_t *trace; /* slots' rings; NULL: nothing is traced */
    uint32_t trace_events, trace_names;
    bool trace_tsc;
    uint32_t num_tasks, num_slots, num_buckets, num_cells, num_events, num_chunks, num_system_chunks, num_objects,
        num_units;
    uint64_t arena_offset;
    uint32_t reserved_slots; /* of num_slots, the last: not for mu_slot_claim() */
    uint64_t hash_seed, heartbeat_timeout;
    struct mu_host *hosts;            /* of the job; NULL: this one alone */
    mu_a64 *asks;                     /* with it: a bit a slot */
    uint32_t num_hosts, host;         /* 1, 0: alone */
    uint32_t first_task, local_tasks; /* the run of tasks of this host */
    char job[208];
    char path[272];
    /* NULL: nobody has asked; see mu_segment_map() */
    _Atomic(uint8_t *) views;              /* what `base` maps, read-only, for views of objects */
    _Atomic(uint8_t *) arena, arena_views; /* the arena, to write to and read-only */
    _Atomic(char *) names;                 /* of the tasks, for sentences (names.h); NULL: numbers */
    _Atomic unsigned users;                /* the handle and each thread's context; the last one unmaps */
};

#define MU_HINTS 16u

struct mu_hints {
    uint32_t ring[MU_HINTS]; /* indices of blocks that this thread freed: probably free, still in its cache */
    uint32_t head, count;
    uint32_t chunk; /* where the search goes on, + 1; 0: nowhere yet */
    uint32_t next;  /* block within the chunk */
};

#define MU_TRACE_CACHE 32u

/* A thread's trace: where its ring is, and which names it holds. All zero when nothing is traced. */
struct mu_tracer {
    struct mu_ring *ring;
    struct mu_ring_event *events;
    struct mu_ring_name *texts;
    uint64_t head, names; /* as in the ring */
    uint32_t event_mask, name_mask;
    uint32_t task; /* id + 1 */
    struct {
        uint64_t object;
        uint32_t name;
    } known[MU_TRACE_CACHE];
};

/* Runs of the arena that this thread freed, the newest last: probably free, their pages still mapped and cached. */
struct mu_extents {
    struct {
        uint32_t start, units;
    } ring[MU_HINTS];
    uint32_t count;
    uint32_t next; /* where the search goes on */
};

struct mu_ctx {
    struct muster_segment *seg;
    struct mu_slot *own;
    uint32_t slot;
    uint16_t incarnation;
    const mu_a32 *interrupt;  /* of the process's handle; NULL: none */
    uint32_t unclaimed;       /* no unclaimed chunk below it, as far as known */
    uint64_t dry[MU_CLASSES]; /* a search of everything was in vain at this MU_WANTED_COUNT, + 1; 0: none was */
    struct mu_hints hints[2][MU_CLASSES];
    struct {
        uint32_t ring[MU_HINTS]; /* words of objects that this thread freed: probably free */
        uint32_t head, count;
        uint32_t next; /* where the search goes on */
    } objects;
    uint64_t ended; /* a bundle of this thread's that ends, and names the next one; 0: none */
    bool ending;    /* it is at that */
    bool leased;    /* the call that it runs has a lease */
    bool keeps;   /* and that lasts beyond the call, until this thread's slot is dead: the slot names the call still */
    bool owes[2]; /* the end of the slot's `calls`, for which there was no memory */
    uint64_t drops; /* references that this thread dropped for the dead */
    struct mu_extents extents;
    struct mu_tracer trace;
    uint64_t scratch[MU_CHUNK / 8]; /* a private copy of the root block being edited */
};

/* Bytes of address space of the sections, and where they start. */
static inline uint64_t mu_offset_of(const struct muster_segment *seg, const void *p)
{
    return (uint64_t)((const uint8_t *)p - seg->base);
}

/* No slot at or above it was ever claimed. */
uint32_t mu_slot_high(const struct muster_segment *seg);

/* Move the epoch and wake every waiter of the segment. */
void mu_epoch_move(struct muster_segment *seg);

/* Words of the tasks' objects that are committed, from the first on. */
static inline uint32_t mu_objects_high(const struct muster_segment *seg)
{
    /* acquire: pairs with the CAS in range_commit(); the words below it are there */
    uint32_t high = mu_load32_acquire(&seg->header->objects_high);

    return high < seg->num_objects ? high : seg->num_objects;
}

#endif
