/*
 * shm_layout/layout.h: the format of a segment, byte by byte. The drawing and the crash rules are in README.md.
 *
 * Only offsets and indices are stored, never addresses. All fields are fixed-width, little-endian, naturally aligned,
 * without padding that is not named. What is written after creation is an atomic word; the rest is constant. Change
 * anything here and MU_LAYOUT_MAJOR (or _MINOR, for additions in reserved space) moves with it, as does the golden
 * test.
 */
#ifndef MU_SHM_LAYOUT_H
#define MU_SHM_LAYOUT_H

#include <assert.h>
#include <pthread.h>
#include <stdint.h>

#include "shm_layout/objects.h"
#include "sync/shm.h"

#define MU_MAGIC        0x0a0d52455453554dull /* "MUSTER\r\n" */
#define MU_ENDIAN       0x01020304u
#define MU_LAYOUT_MAJOR 10u
#define MU_LAYOUT_MINOR 0u

#define MU_LINE                                                                                                        \
    128u /* what different processes write lies this far apart: two 64-byte lines, because of                          \
            adjacent-line prefetch */
#define MU_HEADER_SIZE    4096u
#define MU_GRANULE        64u    /* blocks start at multiples of this */
#define MU_CHUNK          65536u /* the heap is given to size classes, and to the file system, in these */
#define MU_CHUNK_GRANULES (MU_CHUNK / MU_GRANULE)

/*
 * Object word: a mutable object is one of these. It names the immutable root block, counts commits, and is the futex
 * of waiters for the next commit (its low half: S and 31 bits of the tag).
 *     63        37 36         1  0
 *     [ index 27 ][  tag 36   ][S]
 */
#define MU_WORD_S           1ull
#define MU_WORD_TAG_BITS    36
#define MU_WORD_TAG_MASK    ((1ull << MU_WORD_TAG_BITS) - 1)
#define MU_WORD_INDEX(w)    ((uint32_t)((w) >> 37))
#define MU_WORD_TAG(w)      (((w) >> 1) & MU_WORD_TAG_MASK)
#define MU_WORD(index, tag) (((uint64_t)(index) << 37) | (((uint64_t)(tag)&MU_WORD_TAG_MASK) << 1))
#define MU_INDEX_MAX        ((1u << 27) - 1)

/*
 * Block word: the block's holder. Changed as a whole by CAS; FREE -> OWNED -> LIVE -> FREE with generation + 1. Only
 * the step OWNED -> LIVE is a store, by the owner: nobody else may touch an OWNED block while its owner lives.
 *     63            32 31            16 15     2 1     0
 *     [ generation 32 ][ incarnation 16 ][slot 14][state 2]
 */
#define MU_FREE                 0u
#define MU_OWNED                1u
#define MU_LIVE                 2u
#define MU_BLOCK_STATE(w)       ((uint32_t)(w)&3u)
#define MU_BLOCK_SLOT(w)        (((uint32_t)(w) >> 2) & 0x3fffu)
#define MU_BLOCK_INCARNATION(w) ((uint16_t)((w) >> 16))
#define MU_BLOCK_GENERATION(w)  ((uint32_t)((w) >> 32))
#define MU_BLOCK_WORD(gen, inc, slot, state)                                                                           \
    (((uint64_t)(uint32_t)(gen) << 32) | ((uint64_t)(uint16_t)(inc) << 16) | ((uint64_t)(slot) << 2) | (state))
#define MU_SLOTS_MAX      16000u
#define MU_SLOTS_RESERVED 2u /* the last ones: only to clean up when all others are held, by the dead perhaps */

/*
 * Reference: one block at one generation, in one word, so that it is never read or recorded in halves.
 *     63            32 31    28  27   26      0
 *     [ generation 32 ][ 0 3 ][holds][deep][index 27]
 * deep: the block's own references belong to it alone and are freed with it (a value in parts). holds: it is a bundle,
 * and its counted references end with it.
 */
#define MU_REF_DEEP          (1ull << 27)
#define MU_REF_HOLDS         (1ull << 28)
#define MU_REF_FLAGS         (MU_REF_DEEP | MU_REF_HOLDS)
#define MU_REF_INDEX(r)      ((uint32_t)(r)&MU_INDEX_MAX)
#define MU_REF_GENERATION(r) ((uint32_t)((r) >> 32))
#define MU_REF(gen, index)   (((uint64_t)(uint32_t)(gen) << 32) | (index))

/* A block: header, then `refs` references, then `bytes` of data. Index i is at heap + (i - 1) * MU_GRANULE. */
struct mu_block {
    mu_a64 word;
    mu_a64 meta; /* bytes 32 | refs 16 | type 16 */
    mu_a64 body[];
};
#define MU_BLOCK_HEADER            16u
#define MU_META(bytes, refs, type) (((uint64_t)(bytes) << 32) | ((uint64_t)(refs) << 16) | (type))
#define MU_META_BYTES(m)           ((uint32_t)((m) >> 32))
#define MU_META_REFS(m)            ((uint32_t)((m) >> 16) & 0xffffu)
#define MU_META_TYPE(m)            ((uint32_t)(m)&0xffffu)

/* Block types: for the auditor and for people; the references mean the same in all. */
enum mu_block_type {
    MU_TYPE_NONE = 0,
    MU_TYPE_PAGE = 1,    /* root of a bucket: entries */
    MU_TYPE_VALUE = 2,   /* key and value of one entry, or the table of its parts */
    MU_TYPE_PART = 3,    /* up to MU_CHUNK - 16 bytes of a value */
    MU_TYPE_CLUSTER = 4, /* root of the cluster: references to groups of task records */
    MU_TYPE_TASKS = 5,   /* MU_TASKS_PER_BLOCK task records */
    MU_TYPE_TEXT = 6,    /* an error's message */
    MU_TYPE_EVENT = 7,
    MU_TYPE_AREA = 8,     /* a group member's lines: written after publication */
    MU_TYPE_OBJECT = 9,   /* root of an object of the tasks': struct mu_object_root, and marks */
    MU_TYPE_BYTES = 10,   /* its bytes and metadata; its producer writes them until the object is sealed */
    MU_TYPE_LEDGER = 11,  /* of a process: records of the references that it holds; OWNED by its main slot */
    MU_TYPE_EXTENT = 12,  /* like MU_TYPE_BYTES, but the bytes lie in the arena: {first unit, units} */
    MU_TYPE_MEMBERS = 14, /* the membership: struct mu_members, then a row a task */
    MU_TYPE_BUNDLE = 13,  /* what an object holds of others: counted references, then data: struct mu_bundle */
};

/* Size classes in granules. A chunk belongs to one class for ever: memory is type-stable. */
#define MU_CLASSES 17u
#define MU_CLASS_GRANULES                                                                                              \
    {                                                                                                                  \
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024                                              \
    }
#define MU_BODY_MAX (MU_CHUNK - MU_BLOCK_HEADER)

/* Chunk word: 0 unclaimed; else class + 1, and MU_CHUNK_SYSTEM for chunks kept for the cluster's own records. */
#define MU_CHUNK_CLASS(w) ((w)&0xffu)
#define MU_CHUNK_SYSTEM   0x100u

/*
 * Slot word: the slot's holder. Claimed and released by CAS; pid and start time are for people and for pidfd; death
 * is read from the liveness mutex.
 *     63         40 39     18 17           2 1     0
 *     [ start 24   ][ pid 22 ][incarnation 16][state 2]
 */
#define MU_SLOT_FREE           0u
#define MU_SLOT_LIVE           1u
#define MU_SLOT_DEAD           2u
#define MU_SLOT_STATE(w)       ((uint32_t)(w)&3u)
#define MU_SLOT_INCARNATION(w) ((uint16_t)((w) >> 2))
#define MU_SLOT_PID(w)         ((uint32_t)((w) >> 18) & 0x3fffffu)
#define MU_SLOT_START(w)       ((uint32_t)((w) >> 40))
#define MU_SLOT_WORD(start, pid, inc, state)                                                                           \
    (((uint64_t)((start)&0xffffffu) << 40) | ((uint64_t)((pid)&0x3fffffu) << 18) | ((uint64_t)(uint16_t)(inc) << 2) |  \
     (state))

#define MU_INTENT_REFS  4u
#define MU_WAIT_BUCKETS 28u /* bucket i counts waits shorter than 2048 ns << i; the last one all others */
/* Intent: what the operation in flight would leave behind. act 0: none; else object offset << 8 | news << 4 | olds. */
#define MU_ACT(offset, news, olds) (((uint64_t)(offset) << 8) | ((uint64_t)(news) << 4) | (olds))
#define MU_ACT_OFFSET(a)           ((a) >> 8)
#define MU_ACT_NEWS(a)             ((uint32_t)((a) >> 4) & 15u)
#define MU_ACT_OLDS(a)             ((uint32_t)(a)&15u)

struct mu_slot {
    /* line 0: identity and liveness */
    mu_a64 word;              /* 0 */
    mu_a64 task;              /* 8: task id + 1; 0 observer. In a free slot: the task that its counts are of */
    mu_a64 pid_namespace;     /* 16: inode of the namespace that the word's pid is of; 0: not known */
    pthread_mutex_t liveness; /* 24: robust, held for life by the owner alone; the kernel writes it at death */
    uint8_t pad0[MU_LINE - 24 - sizeof(pthread_mutex_t) - 8];
    mu_a64 ring; /* 120: 1: the pages of the slot's trace ring are committed, for good */
    /* line 1: the owner's pulse; and counts, as in the lines that follow: each lies where its event writes anyway */
    mu_a64 heartbeat;                      /* 128 */
    mu_a64 group_barriers;                 /* 136: passed */
    mu_a32 barrier_waits[MU_WAIT_BUCKETS]; /* 144: at barriers of either kind that slept, by their length */
    /* line 2: intent and pin; the owner writes, the scavenger of the dead reads */
    mu_a64 act;                  /* 256 */
    mu_a64 news[MU_INTENT_REFS]; /* 264 */
    mu_a64 olds[MU_INTENT_REFS]; /* 296 */
    mu_a64 pin;                  /* 328: a block that the owner reads in place */
    mu_a64 pin_object;           /* 336: offset of the object that named it */
    mu_a64 kv_writes;            /* 344 */
    mu_a64 named_barriers;       /* 352: passed */
    mu_a64 deaths;               /* 360: of tasks, that the owner was the one to record */
    mu_a64 burials;              /* 368: dead slots that it cleaned up */
    mu_a64 other_waits;          /* 376: that slept, for neither a key nor a barrier */
    /* line 3: where the owner sleeps, for people */
    mu_a64 wait_since;      /* 384: CLOCK_MONOTONIC ns; 0: not waiting */
    mu_a64 wait_text[12];   /* 392: NUL-padded */
    mu_a64 kv_waits;        /* 488: that slept */
    mu_a64 kv_wait_ns;      /* 496 */
    mu_a64 barrier_wait_ns; /* 504 */
    /* line 4: the counted reference that the owner is changing, and those that its process holds */
    mu_a64 op;        /* 512: MU_HOLD_OP() */
    mu_a64 op_object; /* 520: MU_OBJECT_REF() */
    mu_a64 op_record; /* 528: offset of the record that is changed with the object's count */
    mu_a64 ledger;    /* 536: of a task's main slot: reference of its last ledger block; each names the one before */
    mu_a64 heir;      /* 544: MU_HEIR(): the one thread that drops what the dead owner's ledger holds */
    mu_a64 member;    /* 552: a random number of the owner's handle; 0: not said yet */
    mu_a64 failed;    /* 560: incarnation + 1 of a dead owner of which no object is left unsealed */
    mu_a64 worker;    /* 568: MU_WORKER(): whether the owner takes calls */
    mu_a64 calls[2];  /* 576: those that it runs, or is about to claim; [1]: a place's, within the other */
    mu_a64 bell;      /* 592: it sleeps on this while it is idle: count 63 | S */
    mu_a64 reserved[5];
};
/* Instead of a reference (its index is above 1): no ledger, and none to come. Each holds for one owner of the slot. */
#define MU_LEDGER_NONE(incarnation)   ((uint64_t)(uint16_t)(incarnation) << 32)
#define MU_LEDGER_CLOSED(incarnation) (MU_LEDGER_NONE(incarnation) | 1)
#define MU_LEDGER_IS_BLOCK(l)         (MU_REF_INDEX(l) > 1)
/* incarnation of the dead, 16 | 1 | slot 15 | incarnation 16: of the heir. Of another incarnation it says nothing. */
#define MU_HEIR(dead, slot, incarnation)                                                                               \
    (((uint64_t)(uint16_t)(dead) << 32) | 1u << 31 | ((uint64_t)(slot) << 16) | (uint16_t)(incarnation))
#define MU_HEIR_NOBODY         0x7fffu /* no slot has this number: the last heir has gone on to other things */
#define MU_HEIR_IS_OF(h, dead) ((h) >> 31 == (((uint64_t)(uint16_t)(dead) << 1) | 1))
/* Of a later death than that one. */
#define MU_HEIR_IS_LATER(h, dead) ((h) >> 31 & 1 && (int16_t)((uint16_t)((h) >> 32) - (uint16_t)(dead)) > 0)
#define MU_HEIR_SLOT(h)           ((uint32_t)((h) >> 16) & 0x7fffu)
#define MU_HEIR_INCARNATION(h)    ((uint16_t)(h))

/* incarnation 16 | state 2: MU_WORKER_NONE, _FREE, _BLOCKED */
#define MU_WORKER(incarnation, state) (((uint64_t)(uint16_t)(incarnation) << 2) | (state))
#define MU_WORKER_NONE                0u
#define MU_WORKER_FREE                1u /* takes calls, or runs one */
#define MU_WORKER_BLOCKED             2u /* runs one that waits for an object, or for a place's calls */

struct mu_header {
    /* constant after creation */
    uint64_t magic;             /* 0 */
    uint32_t endian;            /* 8 */
    uint16_t major;             /* 12 */
    uint16_t minor;             /* 14 */
    uint64_t signature;         /* 16: mu_layout_signature() of the creator */
    uint64_t total_bytes;       /* 24 */
    uint64_t run_id[2];         /* 32 */
    uint8_t boot_id[16];        /* 48 */
    uint64_t pid_namespace;     /* 64: inode */
    uint64_t time_namespace;    /* 72 */
    uint32_t uid;               /* 80 */
    uint32_t creator_pid;       /* 84 */
    uint64_t creator_start;     /* 88: clock ticks since boot */
    uint64_t created_unix_ns;   /* 96 */
    uint64_t hash_seed;         /* 104 */
    uint64_t heartbeat_timeout; /* 112: ns */
    uint32_t num_tasks;         /* 120 */
    uint32_t num_slots;         /* 124 */
    uint32_t num_buckets;       /* 128: of the key-value store; power of two */
    uint32_t num_cells;         /* 132: buckets of muster's own table (barriers, groups); power of two */
    uint32_t num_events;        /* 136: power of two */
    uint32_t num_chunks;        /* 140 */
    uint32_t num_system_chunks; /* 144: committed before anybody joins, for the cluster's records alone */
    uint32_t flags;             /* 148: MU_FLAG_* */
    uint64_t slots_offset;      /* 152 */
    uint64_t chunks_offset;     /* 160 */
    uint64_t events_offset;     /* 168 */
    uint64_t cells_offset;      /* 176 */
    uint64_t buckets_offset;    /* 184 */
    uint64_t heap_offset;       /* 192 */
    uint64_t beats_offset;      /* 200: a counter a task, of heartbeats that others brought for it */
    uint64_t trace_offset;      /* 208: 0: nothing is traced */
    uint32_t trace_events;      /* 216: of a slot's ring; power of two, or 0 */
    uint32_t trace_names;       /* 220: likewise */
    uint32_t trace_tsc;    /* 224: 1: events are timed in ticks of the processors' counter; 0: in CLOCK_MONOTONIC ns */
    uint32_t reserved0;    /* 228 */
    uint64_t trace_ticks;  /* 232: the counter at creation, */
    uint64_t trace_ns;     /* 240: and CLOCK_MONOTONIC then */
    uint64_t trace_rate;   /* 248: ns a tick, in units of 2^-32, as measured then */
    char job[256];         /* 256 */
    char host[64];         /* 512 */
    uint64_t hosts_offset; /* 576: a struct mu_host each; 0: the job has this host alone */
    uint64_t asks_offset;  /* 584: a bit a slot: its owner has made a call to the agent */
    uint32_t num_hosts;    /* 592: 0: this one alone */
    uint32_t own_host;     /* 596: 0: the leader */
    uint64_t adopt_ns;     /* 600: within which an agent that died must be replaced; 0: the default */
    uint64_t objects_offset; /* 608 */
    uint32_t num_objects;    /* 616: words of objects; a multiple of MU_OBJECTS_RANGE */
    uint32_t num_units;      /* 620: of the arena; 0: there is none, and no units' words */
    uint64_t units_offset;   /* 624: a word a unit */
    uint64_t arena_offset;   /* 632: at the end of the file; mapped apart from all else */
    uint64_t queue_offset;   /* 640 */
    uint8_t reserved1[376];  /* 648 */
    /* written later; each on its own line */
    mu_a32 state; /* 1024: MU_STATE() */
    uint8_t pad0[MU_LINE - 4];
    mu_a32 epoch; /* 1152: futex; moves with every death, error and departure */
    uint8_t pad1[MU_LINE - 4];
    mu_a64 cluster; /* 1280: object word of the task records */
    uint8_t pad2[MU_LINE - 8];
    mu_a64 event_tail; /* 1408: hint: every event below it is published */
    uint8_t pad3[MU_LINE - 8];
    mu_a32 slots_high; /* 1536: no slot at or above it was ever claimed */
    uint8_t pad4[MU_LINE - 4];
    mu_a64 wanted; /* 1664: a free of a block that would have served clears its bit */
    uint8_t pad5[MU_LINE - 8];
    mu_a32 bell; /* 1792: MU_BELL_*, futex of the agent */
    uint8_t pad6[MU_LINE - 4];
    mu_a64 bridge; /* 1920: MU_BRIDGE(): what the agent says of its connection, and which agent it is */
    uint8_t pad7[MU_LINE - 8];
    mu_a32 objects_high; /* 2048: words of objects that are committed, from the first on */
    uint8_t pad8[MU_LINE - 4];
    mu_a32 units_high; /* 2176: words of units that are committed, from the first on */
    uint8_t pad9[MU_LINE - 4];
    mu_a64 functions; /* 2304: the object that is the log of functions: an alias of the last one; 0: none yet */
    uint8_t pad10[MU_LINE - 8];
    mu_a64 queue_head; /* 2432: of ready calls, taken so far */
    uint8_t pad11[MU_LINE - 8];
    mu_a64 queue_tail; /* 2560: put so far */
    uint8_t pad12[MU_LINE - 8];
    mu_a64 workers; /* 2688: moves when a worker comes, goes, blocks or goes on: count 63 | S */
    uint8_t pad13[MU_LINE - 8];
    mu_a32 queue_there; /* 2816: 1: the queue's pages are committed */
    mu_a32 rescan;      /* 2820: MU_RESCAN_*: calls may be ready, or at an end, that are in no queue: a worker looks */
    mu_a64 look_at;     /* 2824: when, by the clock of deadlines, a worker looks at parked calls anyway; 0: never */
    uint8_t pad14[MU_LINE - 16];
    mu_a64 members; /* 2944: object word of the membership; 0: the job has none */
    uint8_t pad15[MU_LINE - 8];
    uint8_t reserved2[MU_HEADER_SIZE - 3072];
};
/* Wanted: how often a free has cleared bits, 32; a bit a size class that was searched for everywhere in vain, and one
 * for the arena's runs, 31; whether somebody sleeps until one of them is cleared, 1. */
#define MU_WANTED_COUNT(w)   ((uint32_t)((w) >> 32))
#define MU_WANTED_CLASSES(w) ((uint32_t)(w) >> 1)
#define MU_WANTED_BIT(c)     (2ull << (c)) /* of a class, or MU_WANTED_RUNS */
#define MU_WANTED_RUNS       MU_CLASSES
#define MU_OPEN              1u
#define MU_CLOSED            2u /* for ever */
#define MU_CLOSING           3u /* somebody looks whether he was the last; back to OPEN, with another count, if not */
/* What a worker is asked to look at. */
#define MU_RESCAN_ALL    1u /* all calls */
#define MU_RESCAN_FULL   2u /* all calls, once the queue is empty: it was full */
#define MU_RESCAN_PARKED 4u /* those that are queued and ask for resources */
/* The header's state word: state 2, and a count that moves whenever CLOSING is taken back. */
#define MU_STATE(w)      ((w)&3u)
#define MU_STATE_NEXT(w) (((w) & ~3u) + 4u)
#define MU_REMOVED       (MU_CLOSED | 4u) /* closed by a removal of the segment, while it was in use or not */
#define MU_FLAG_MEMFD    1u
#define MU_FLAG_KEPT     2u /* a launcher created it and removes it */
#define MU_FLAG_LISTENED 4u /* of one host, and a writer looks at the bell all the same */
/* The bell: a writer of something that concerns the agent looks here behind a fence; the agent arms it, then looks. */
#define MU_BELL_OFF   0u /* nobody sleeps on it */
#define MU_BELL_ARMED 1u
#define MU_BELL_RUNG  2u
/* round 32 | incarnation 16 | slot 14 | state 2: how often it said something, the slot that the agent held when it said
 * this, and MU_BRIDGE_DOWN, _UP, _LOST */
#define MU_BRIDGE(incarnation, slot, state)                                                                            \
    (((uint64_t)(uint16_t)(incarnation) << 16) | ((uint64_t)(slot) << 2) | (state))
#define MU_BRIDGE_STATE(w)       ((uint32_t)(w)&3u)
#define MU_BRIDGE_SLOT(w)        (((uint32_t)(w) >> 2) & 0x3fffu)
#define MU_BRIDGE_INCARNATION(w) ((uint16_t)((w) >> 16))
#define MU_BRIDGE_ROUND(w)       ((uint32_t)((w) >> 32))

/* One host of the job, as this one's agent knows it. The first line is constant; the agent alone writes the others. */
struct mu_host {
    uint32_t first_task; /* 0: of its run of tasks */
    uint32_t num_tasks;  /* 4 */
    uint8_t pad[MU_LINE - 8];
    mu_a64 name[8];    /* 128: NUL-padded; empty: not known yet */
    mu_a64 state;      /* 192: enum mu_host_state */
    mu_a64 since;      /* 200: CLOCK_MONOTONIC ns, like those below */
    mu_a64 heard;      /* 208: when anything last came from it */
    mu_a64 rtt;        /* 216: ns; 0: not measured */
    mu_a64 rtt_min;    /* 224 */
    mu_a64 bytes_in;   /* 232 */
    mu_a64 bytes_out;  /* 240 */
    mu_a64 frames_in;  /* 248 */
    mu_a64 frames_out; /* 256 */
    mu_a64 connects;   /* 264 */
    mu_a64 asking;     /* 272: calls of its tasks that are not answered */
    mu_a64 agent_pid;  /* 280 */
    mu_a64 reserved[12];
};
#define MU_HOSTS_MAX 4096u

/* Pages: data of a MU_TYPE_PAGE block is {commits, deletes, count}, then the entries. */
#define MU_PAGE_WORDS 3u
/*
 * Entry: {hash, version, shape, value_len}, key and value padded to words when inline. External: the entry's first
 * reference is a MU_TYPE_VALUE block that holds key and value.
 * shape: key_len 16 | flags 16 | refs 16 | words 16 (the whole entry, in words; 0xffff never)
 */
#define MU_ENTRY_WORDS    4u
#define MU_ENTRY_EXTERNAL 1u
#define MU_ENTRY_DONE     2u /* no key: a call that another host made was carried out by a commit of this page */
#define MU_ENTRY_GUEST    4u /* written last for a wire client: goes when all of these have shut down */
/*
 * A DONE entry: its hash has the bucket's bits alone (a key's is odd, so no search finds it), its key is the call's
 * id, MU_DONE_ID(), its value {number, result, result}. At most MU_DONE_MAX of them in a page.
 */
#define MU_DONE_ID(host, slot) (((uint64_t)(host) << 14) | (slot))
#define MU_DONE_WORDS          (MU_ENTRY_WORDS + 4u)
#define MU_DONE_MAX            256u
#define MU_SHAPE(key_len, flags, refs, words)                                                                          \
    (((uint64_t)(key_len) << 48) | ((uint64_t)(flags) << 32) | ((uint64_t)(refs) << 16) | (words))
#define MU_SHAPE_KEY_LEN(s) ((uint32_t)((s) >> 48))
#define MU_SHAPE_FLAGS(s)   ((uint32_t)((s) >> 32) & 0xffffu)
#define MU_SHAPE_REFS(s)    ((uint32_t)((s) >> 16) & 0xffffu)
#define MU_SHAPE_WORDS(s)   ((uint32_t)(s)&0xffffu)

/* Task records. One block holds this many; its references are the records' error messages. */
#define MU_TASKS_PER_BLOCK 16u
struct mu_task_record {
    uint32_t state;            /* enum muster_task_state */
    uint32_t cause;            /* enum muster_cause */
    uint32_t code;             /* enum muster_status */
    uint32_t flags;            /* MU_TASK_* */
    uint32_t pid;              /* 16 */
    uint32_t attempt;          /* 20 */
    uint64_t start;            /* 24: start time of the process, clock ticks */
    uint64_t incarnation;      /* 32 */
    uint64_t since;            /* 40: CLOCK_MONOTONIC ns */
    uint32_t slot;             /* 48: main slot + 1; 0: served from outside (a front-end) */
    uint32_t slot_incarnation; /* 52 */
    uint64_t version;          /* 56: of the root that its last change made */
};
#define MU_TASK_RECOVERABLE 1u
#define MU_TASK_TRANSIENT   2u /* its leaving takes arrivals back, and fails no barrier */
#define MU_TASK_GUEST                                                                                                  \
    4u /* it speaks through its host's agent, which has this slot: alive while connected and while the agent lives */
#define MU_TASK_REMOTE         16u /* another host's, as its agent says: slot is 0, start the version that it has there */
#define MU_TASK_SAID_CONNECTED 32u /* with REMOTE: that is what it said last; the leader's agent alone sets it */
/* its launcher has reaped its process, and starts none in its place; registering clears it */
#define MU_TASK_ENDED       64u
#define MU_TASK_HOW_UNKNOWN 128u /* with ENDED: nobody knows the wait status */
/* The upper half of flags, with ENDED: the wait status, as waitpid() gives it. */
#define MU_TASK_HOW(flags)        ((flags) >> 16)
#define MU_TASK_HOW_FLAGS(status) ((uint32_t)(status) << 16)

/* Data of the cluster's root block, before which stand the references to the blocks of records. */
struct mu_cluster_root {
    uint64_t version;     /* counts every change of any record */
    uint64_t first_error; /* task id + 1 of the first non-recoverable task in error; 0: none */
    uint64_t errors;      /* how many non-recoverable tasks are in error */
    uint64_t ended;       /* how many tasks have ENDED and are not connected */
};

/*
 * A member's area in a group: its arrival line, the lines that its peers watch, then two buffers for collectives. Data
 * of a MU_TYPE_AREA block.
 */
struct mu_area {
    uint8_t pad0[MU_LINE - MU_BLOCK_HEADER]; /* so that the arrival word has a line of its own */
    mu_a64 arrived;                          /* instance << 4 | trusted | timeout | closed | S: what counts */
    mu_a64 wish;   /* of a proxy: instance << 4 | timeout: the last one that a member asked the agent to end */
    mu_a64 keeper; /* of a proxy: the host that was entrusted last; behind it goes TRUSTED */
    uint8_t pad1[MU_LINE - 24];
    struct {
        mu_a64 instance; /* the last one arrived at, stored after `arrived`: spinning members read it */
        /* In a group that spans hosts: instance << 15 | bytes that the member gave to it. In another, where members
         * take turns on a processor: that which it arrived on, + 1; 0: not said. A hint. */
        mu_a64 given;
        uint8_t pad[MU_LINE - 16];
    } sign[2]; /* in turn, by the instance's lowest bit */
    mu_a64 data[];
};
#define MU_GIVEN(instance, len) (((uint64_t)(instance) << 15) | (len))
#define MU_GIVEN_INSTANCE(w)    ((w) >> 15)
#define MU_GIVEN_LEN(w)         ((uint32_t)(w)&0x7fffu)
#define MU_ARRIVED(instance)    ((uint64_t)(instance) << 4)
#define MU_ARRIVED_INSTANCE(w)  ((w) >> 4)
#define MU_ARRIVED_S            1ull
#define MU_ARRIVED_CLOSED       2ull /* it did not arrive at `instance`, and never will */
#define MU_ARRIVED_TIMEOUT      4ull /* with CLOSED: because a deadline passed; else a member was lost */
/* Of a proxy: this host can make the next instance fail no more, another one has the last word on it. Of any, with
 * CLOSED: that host is lost, and whether it let its members pass is not known. */
#define MU_ARRIVED_TRUSTED 8ull
/* Of a follower's proxy, without CLOSED: the agent has said that the next instance failed here; TRUSTED comes no more.
 */
#define MU_ARRIVED_BARRED MU_ARRIVED_TIMEOUT

/*
 * The shortcut of a group with members on two hosts (barrier/shortcut.h): in the data of the proxy's area. The
 * agent writes all but two words.
 */
#define MU_SHORTCUT_WATCHED 48u
struct mu_shortcut {
    mu_a64 state;                 /* number of the shortcut << 2 | MU_SHORTCUT_* */
    mu_a64 ask;                   /* instances up to this one go by the agents; raised by members and agents */
    mu_a64 port;                  /* the speaker's: number << 16 | the UDP port where it listens */
    mu_a64 taken;                 /* messages of this connection that have been taken here */
    mu_a64 sight;                 /* odd: what follows is being written */
    mu_a64 told;                  /* messages given to this connection; what follows was true before that */
    mu_a64 cluster, events;       /* the records' word, and the ring's next event (all ones: not ours to tell) */
    mu_a64 watched;               /* how many of the buckets below; all ones: more than there is room for */
    mu_a64 host;                  /* the other */
    mu_a64 own[3], peer[3];       /* addresses, as mu_shortcut_encode() has them; own: any port */
    mu_a64 key_in[2], key_out[2]; /* of what comes, of what goes */
    struct {
        mu_a64 bucket, word; /* of the store; as the other host was told last */
    } bucket[MU_SHORTCUT_WATCHED];
};
#define MU_SHORTCUT_OFF               0u
#define MU_SHORTCUT_WANTED            1u /* a speaker may open its socket */
#define MU_SHORTCUT_LIVE              2u
#define MU_SHORTCUT_IS(s)             ((uint32_t)(s)&3u)
#define MU_SHORTCUT_NUMBER(s)         ((s) >> 2)
#define MU_SHORTCUT_STATE(number, is) ((uint64_t)(number) << 2 | (is))

/*
 * A slot's trace ring: this, then trace_names names, then trace_events events; filled up to a multiple of
 * MU_TRACE_PAGE, so that no two rings share a page. Only the slot's owner writes. Event n lies at n modulo their
 * number, name n (from 1 on) at n - 1 modulo theirs.
 */
struct mu_ring {
    mu_a64 head;  /* 0: events written so far */
    mu_a64 names; /* 8: names written so far */
    uint8_t pad[MU_LINE - 16];
};
struct mu_ring_name {
    mu_a64 number;  /* 0: being written */
    mu_a64 text[7]; /* NUL-padded */
};
struct mu_ring_event {
    mu_a64 time;   /* ticks or ns: see mu_header.trace_tsc */
    mu_a64 what;   /* MU_TRACE() */
    mu_a64 object; /* hash of a barrier, group or key; the task that changed or died */
    mu_a64 value;  /* a barrier's instance; a key's version; MU_TRACE_CHANGE(); slot << 32 | pid of the dead */
};
enum mu_trace_kind {
    MU_TRACE_NONE = 0,
    MU_TRACE_NAMED_ENTER = 1,
    MU_TRACE_NAMED_LEAVE = 2, /* with the status that the call returned, as all that leave */
    MU_TRACE_GROUP_ENTER = 3,
    MU_TRACE_GROUP_LEAVE = 4,
    MU_TRACE_KEY_ENTER = 5, /* a get or watch that finds no answer at once */
    MU_TRACE_KEY_LEAVE = 6,
    MU_TRACE_STATE = 7, /* a change of a task's record, by its committer; the name is the error's message */
    MU_TRACE_DEATH = 8, /* a dead slot, by each process that looks at it before it is buried */
    MU_TRACE_CALL = 9,  /* a call has ended: its function's name, its result, the ns that it took */
    MU_TRACE_KINDS = 10,
};
/* name's number 32 | task id + 1 of the slot, 16 | status 8 | kind 8 */
#define MU_TRACE(kind, status, task, name)                                                                             \
    (((uint64_t)(uint32_t)(name) << 32) | ((uint64_t)(uint16_t)(task) << 16) | (((uint64_t)(status)&255) << 8) | (kind))
#define MU_TRACE_KIND(w)   ((uint32_t)(w)&255u)
#define MU_TRACE_STATUS(w) ((uint32_t)((w) >> 8) & 255u)
#define MU_TRACE_TASK(w)   ((uint32_t)((w) >> 16) & 0xffffu)
#define MU_TRACE_NAME(w)   ((uint32_t)((w) >> 32))
/* pid 32 | code 8 | cause 8 | state 8 */
#define MU_TRACE_CHANGE(pid, code, cause, state)                                                                       \
    (((uint64_t)(uint32_t)(pid) << 32) | ((uint64_t)((code)&255) << 16) | ((uint64_t)((cause)&255) << 8) |             \
     ((state)&255))
#define MU_TRACE_PAGE       4096u
#define MU_TRACE_EVENTS_MIN 64u
#define MU_TRACE_EVENTS_MAX (1u << 20)
#define MU_TRACE_NAMES_MIN  32u /* else an eighth of the events' number */

/* Data of a MU_TYPE_EVENT block: this, then the payload. */
struct mu_event_record {
    uint64_t sequence;
    uint64_t time_ns;
    uint32_t task; /* id + 1 */
    uint32_t type;
    uint64_t call;   /* 24: MU_DONE_ID() of the calling slot on another host, and its call's number: a call that is */
    uint64_t number; /* 32: made again is recognised by both; 0: sent on the leader's own host */
};

/* FNV-style mix of every offset, size and constant above; two builds with one signature agree on the format. */
uint64_t mu_layout_signature(void);
/* The table behind the signature, "struct.field offset size" a line, for the golden test. Static storage. */
const char *mu_layout_text(void);

static_assert(sizeof(mu_a64) == 8 && sizeof(mu_a32) == 4, "atomic words are plain words");
static_assert(sizeof(struct mu_slot) == 5 * MU_LINE && offsetof(struct mu_slot, op) == 512, "slot");
static_assert(sizeof(struct mu_object_root) == 48, "object");
static_assert(sizeof(struct mu_bundle) == 16 && sizeof(struct mu_call_data) == 24, "calls");
static_assert(sizeof(struct mu_mq_head) == 2 * MU_LINE && offsetof(struct mu_mq_head, floor) == MU_LINE &&
                  sizeof(struct mu_mq_line) == MU_LINE && sizeof(struct mu_mq_message) == 16,
              "queues");
static_assert(offsetof(struct mu_header, objects_offset) == 608 && offsetof(struct mu_header, objects_high) == 2048 &&
                  offsetof(struct mu_header, functions) == 2304 && offsetof(struct mu_header, queue_there) == 2816,
              "header lines of objects");
static_assert(offsetof(struct mu_header, num_units) == 620 && offsetof(struct mu_header, arena_offset) == 632 &&
                  offsetof(struct mu_header, units_high) == 2176,
              "header lines of the arena");
static_assert(offsetof(struct mu_slot, ring) == 120 && offsetof(struct mu_slot, heartbeat) == 128 &&
                  offsetof(struct mu_slot, act) == 256 && offsetof(struct mu_slot, group_barriers) == 136 &&
                  offsetof(struct mu_slot, kv_writes) == 344 && offsetof(struct mu_slot, wait_since) == 384 &&
                  offsetof(struct mu_slot, kv_waits) == 488,
              "slot lines");
static_assert(sizeof(struct mu_header) == MU_HEADER_SIZE, "header");
static_assert(offsetof(struct mu_header, job) == 256 && offsetof(struct mu_header, host) == 512 &&
                  offsetof(struct mu_header, state) == 1024 && offsetof(struct mu_header, epoch) == 1152 &&
                  offsetof(struct mu_header, cluster) == 1280 && offsetof(struct mu_header, event_tail) == 1408 &&
                  offsetof(struct mu_header, slots_high) == 1536 && offsetof(struct mu_header, wanted) == 1664,
              "header lines");
static_assert(sizeof(struct mu_host) == 3 * MU_LINE && offsetof(struct mu_host, name) == MU_LINE &&
                  offsetof(struct mu_host, agent_pid) == 280,
              "host");
static_assert(offsetof(struct mu_header, hosts_offset) == 576 && offsetof(struct mu_header, own_host) == 596 &&
                  offsetof(struct mu_header, adopt_ns) == 600 && offsetof(struct mu_header, bell) == 1792 &&
                  offsetof(struct mu_header, bridge) == 1920,
              "header lines of the bridge");
static_assert(sizeof(struct mu_task_record) == 64, "task record");
static_assert(sizeof(struct mu_cluster_root) == 32, "cluster root");
static_assert(offsetof(struct mu_block, body) == MU_BLOCK_HEADER, "block");
static_assert(offsetof(struct mu_area, arrived) + MU_BLOCK_HEADER == MU_LINE &&
                  offsetof(struct mu_area, sign) + MU_BLOCK_HEADER == 2 * MU_LINE &&
                  offsetof(struct mu_area, data) + MU_BLOCK_HEADER == 4 * MU_LINE,
              "the arrival word and the signs start a line each");
static_assert(sizeof(struct mu_event_record) == 40, "event");
static_assert(sizeof(struct mu_ring) == MU_LINE && sizeof(struct mu_ring_name) == 64 &&
                  sizeof(struct mu_ring_event) == 32,
              "trace ring");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the futex is the low half of a word: little-endian only");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics without locks");

#endif
