/* shm_layout/objects.h: the part of the format that is the tasks' objects: references, roots, units, counts, calls. */
#ifndef MU_SHM_OBJECTS_H
#define MU_SHM_OBJECTS_H

#include <stdint.h>

#include "sync/shm.h"

/*
 * Objects of the tasks': words like those of the tables, in ranges that are committed as they are needed. A reference
 * names its host, the word, and by its generation the object: the low bits of the tag that the object's first commit
 * gave the word, never 0.
 *     63     52 51      28 27            0
 *     [ host 12 ][ index 24 ][ generation 28 ]
 */
#define MU_OBJECT_REF(host, index, generation)                                                                         \
    (((uint64_t)(host) << 52) | ((uint64_t)(index) << 28) | ((uint64_t)(generation)&0xfffffffu))
#define MU_OBJECT_HOST(ref)       ((uint32_t)((ref) >> 52))
#define MU_OBJECT_INDEX(ref)      ((uint32_t)((ref) >> 28) & 0xffffffu)
#define MU_OBJECT_GENERATION(ref) ((uint32_t)(ref)&0xfffffffu)
#define MU_OBJECTS_MAX            (1u << 24)
#define MU_OBJECTS_RANGE          8192u /* words, 64 KiB */

/*
 * The arena: units, for the bytes of objects that no block can hold. A unit's word says which block, of type
 * MU_TYPE_EXTENT, has it: the unit is that block's while the block is at this generation, and nobody's once it is not.
 * So units are free the instant that their block is, and nobody writes their words then. 0: never any block's.
 *     63            32 31 29   28     27  26      0
 *     [ generation 32 ][ 0  ][backed][ 0 ][index 27]
 * backed: the file system has given the unit's pages.
 */
#define MU_UNIT         16384u
#define MU_UNITS_MAX    (1u << 30)
#define MU_UNITS_RANGE  8192u /* words, 64 KiB, that are committed together */
#define MU_UNIT_BACKED  (1ull << 28)
#define MU_UNIT_REF(w)  ((w) & ~MU_UNIT_BACKED)
#define MU_ARENA_ALIGN  (2u << 20)
#define MU_EXTENT_BYTES 16u /* of an MU_TYPE_EXTENT block: first unit, units */

/* Data of a MU_TYPE_OBJECT block, behind one reference: the MU_TYPE_BYTES or MU_TYPE_EXTENT block; 0: no bytes. */
struct mu_object_root {
    uint64_t ref;   /* its own */
    uint64_t state; /* MU_OBJECT_STATE() */
    uint64_t bytes;
    uint64_t about;   /* MU_OBJECT_ABOUT() */
    uint64_t maker;   /* its first unit in the arena, + 1, 32 (0: the bytes are the block's) | MU_OBJECT_MAKER() 32 */
    uint64_t waiting; /* MU_WAITING() of the last call that waits for this; 0: none */
    uint64_t marks[];
};
/* A call's reference without its host; and, with or without one, that more may wait: their places in the chain a death
 * took: all calls are to be looked at. */
#define MU_WAITING(ref) ((ref) & ((1ull << 52) - 1))
#define MU_WAITING_ALL  (1ull << 63)
/* count 32 | marks 16 | 0 8 | state 8 */
#define MU_OBJECT_WRITING 1u /* its producer writes the bytes */
#define MU_OBJECT_SEALED  2u
#define MU_OBJECT_ERROR   3u /* sealed; the bytes are a sentence, in a bundle where the error has a detail */
/* Those of which the data is a bundle. A call's is what it was submitted with, until it ends. */
#define MU_OBJECT_CALL_WAITING 4u  /* for arguments; bytes: the next call that waits for the same object */
#define MU_OBJECT_CALL_PLACED  5u  /* queued at a place, likewise */
#define MU_OBJECT_CALL_QUEUED  6u  /* ready: any worker may claim it */
#define MU_OBJECT_CALL_RUNNING 7u  /* bytes: MU_OBJECT_MAKER() of the thread that runs it */
#define MU_OBJECT_ALIAS        8u  /* what its first reference is */
#define MU_OBJECT_MANY         9u  /* a call that has ended with several results: the first of them */
#define MU_OBJECT_PART         10u /* bytes: which result of the call that its reference names */
#define MU_OBJECT_PLACE        11u /* a queue that its maker serves; without data */
#define MU_OBJECT_FUNCTION     12u /* struct mu_function: for as long as the segment lives */
#define MU_OBJECT_STATES       13u
#define MU_OBJECT_STATE(count, marks, state)                                                                           \
    (((uint64_t)(uint32_t)(count) << 32) | ((uint64_t)(uint16_t)(marks) << 16) | (state))
#define MU_OBJECT_IS(s)    ((uint32_t)(s)&0xffu)
#define MU_OBJECT_MARKS(s) ((uint32_t)((s) >> 16) & 0xffffu)
#define MU_OBJECT_COUNT(s) ((uint32_t)((s) >> 32))
/* Instead of the metadata's length, of an error without a text: how its producer ended. */
#define MU_ENDED_WRITING 0u /* it had not sealed the object */
#define MU_ENDED_RUNNING 1u /* the worker, in the midst of the call */
#define MU_ENDED_SERVING 2u /* the worker that served the call's place */
/* bytes of metadata, which follow the others at the next multiple of 8, 32 | producing task + 1, 16 | 0 8 | code 8 */
#define MU_OBJECT_ABOUT(meta, task, code)                                                                              \
    (((uint64_t)(uint32_t)(meta) << 32) | ((uint64_t)(uint16_t)(task) << 16) | ((code)&0xffu))
#define MU_OBJECT_META(a) ((uint32_t)((a) >> 32))
#define MU_OBJECT_TASK(a) ((uint32_t)((a) >> 16) & 0xffffu)
#define MU_OBJECT_CODE(a) ((uint32_t)(a)&0xffu)
/* The process that writes it: its death makes the object an error unless that is sealed; never 0. */
/* Instead of a maker: the object is a replica, this host's copy of one of another host; the host's agent seals it. */
#define MU_OBJECT_REMOTE                   0xffffffffu
#define MU_OBJECT_MAKER(slot, incarnation) (((uint64_t)(slot) + 1) << 16 | (uint16_t)(incarnation))
#define MU_OBJECT_MADE(extent, maker)      (((uint64_t)(uint32_t)(extent) << 32) | (uint32_t)(maker))
/* Of a MU_TYPE_BYTES block, before the bytes: they begin at a multiple of 64. At most so many have no pad, and their
 * block is the smallest one. */
#define MU_OBJECT_PAD   48u
#define MU_OBJECT_SMALL 48u

/* The slot's operation on a counted reference: number, never used again, 62 | MU_HOLD_TAKE and its like. */
#define MU_HOLD_OP(number, kind) (((uint64_t)(number) << 2) | (kind))
#define MU_HOLD_NONE             0u
#define MU_HOLD_TAKE             1u
#define MU_HOLD_DROP             2u
#define MU_HOLD_KIND(op)         ((uint32_t)(op)&3u)
#define MU_HOLD_OP_NUMBER(op)    ((op) >> 2)
/* A mark, in an object's root: slot 14 | number 50. And a claim, in a record: slot 14 | number 22 | 0 28. */
#define MU_HOLD_MARK(slot, number)  (((uint64_t)(slot) << 50) | ((uint64_t)(number) & ((1ull << 50) - 1)))
#define MU_HOLD_SLOT(m)             ((uint32_t)((m) >> 50))
#define MU_HOLD_NUMBER(m)           ((m) & ((1ull << 50) - 1))
#define MU_HOLD_BITS                ((1u << 22) - 1)
#define MU_HOLD_CLAIM(slot, number) (((uint64_t)(slot) << 50) | (((uint64_t)(number)&MU_HOLD_BITS) << 28))

/* A bundle: this, `count` references that are counted, then data. While it is OWNED a slot holds these, or, of slot
 * MU_BUNDLE_NOBODY, the next scavenger; while it is LIVE, the object that names it. */
struct mu_bundle {
    uint64_t next; /* the owner's: another one that is ending */
    uint64_t count;
    uint64_t refs[];
};
#define MU_BUNDLE_NOBODY 0x3fffu /* no slot has this number */

/* Data of a call's bundle: its references are the arguments that are objects, then the place, if there is one. */
struct mu_call_data {
    uint64_t function; /* its object */
    uint64_t deadline;
    uint64_t shape; /* MU_CALL_SHAPE() */
    /* MU_ARGUMENT() each; then, with a place or asks, when it was submitted; then MU_ASK() each; then bytes */
    uint64_t arguments[];
};
#define MU_CALL_REFS_MAX 257u
/* placed and asks exclude each other. The metadata's length in the root of a call that has asks is their number. */
#define MU_CALL_SHAPE(arguments, results, refs, asks, placed)                                                          \
    (((uint64_t)(arguments) << 48) | ((uint64_t)(results) << 32) | ((uint64_t)(refs) << 16) |                          \
     ((uint64_t)(asks) << 8) | (placed))
#define MU_CALL_ARGUMENTS(s) ((uint32_t)((s) >> 48))
#define MU_CALL_RESULTS(s)   ((uint32_t)((s) >> 32) & 0xffffu)
#define MU_CALL_REFS(s)      ((uint32_t)((s) >> 16) & 0xffffu)
#define MU_CALL_ASKS(s)      ((uint32_t)((s) >> 8) & 0xffu)
#define MU_CALL_PLACED(s)    ((uint32_t)(s)&1u)
/* What a call asks for: number of the kind in the pool 8 | amount 56 */
#define MU_ASK(kind, amount) (((uint64_t)(kind) << 56) | (amount))
#define MU_ASK_KIND(a)       ((uint32_t)((a) >> 56))
#define MU_ASK_AMOUNT(a)     ((a) & ((1ull << 56) - 1))
/* offset in the body 32 | length 31 | 0; or number of the reference 32 | 1 */
#define MU_ARGUMENT(offset, len) (((uint64_t)(offset) << 32) | ((uint64_t)(len) << 1))
#define MU_ARGUMENT_REF(number)  (((uint64_t)(number) << 32) | 1u)
#define MU_ARGUMENT_IS_REF(a)    ((a)&1u)
#define MU_ARGUMENT_AT(a)        ((uint32_t)((a) >> 32))
#define MU_ARGUMENT_LEN(a)       ((uint32_t)(a) >> 1)

/* Data of a function's bundle: its references are the function before it in the log, or 0, and the code, or 0. */
struct mu_function {
    uint64_t number;
    uint64_t shape; /* kind 32 | results 16 | retries 16 */
    uint64_t text;  /* lengths of name 16, symbol 16, library 16, which follow */
};

/*
 * A queue of messages (src/queue): an object that its writer never seals. Its bytes, from the next multiple of 128 on,
 * are a head and a line for each reader that there may be, and are written in place.
 */
#define MU_MQ_MAGIC 0x3171206d75737465ull
struct mu_mq_head {
    uint64_t magic; /* with the next three, before the reference is known to others */
    uint64_t num_lines;
    uint64_t depth;
    uint64_t max_bytes;
    mu_a64 high; /* lines below this have had an owner */
    uint64_t zero[11];
    /* 128: the writer's */
    mu_a64 floor; /* at most the number of the anchor's message */
    mu_a64
        anchor; /* a message that the writer holds, the next one or one of the last: readers begin there. 0: closed */
    mu_a64 anchor_next; /* the number of the anchor's message, where it is not written yet */
    mu_a64 written;     /* messages */
    mu_a64 wake_at;     /* a reader's position, from which on it wakes the writer */
    uint64_t zero2[11];
};
struct mu_mq_line {
    mu_a64 owner;    /* MU_MQ_OWNER(); 0: nobody */
    mu_a64 position; /* MU_MQ_POSITION(); the writer sleeps on it */
    mu_a64 ready;    /* the same as owner once the reader has its place: only then it counts */
    uint64_t zero[13];
};
#define MU_MQ_OWNER(task, maker) (((uint64_t)(task) + 1) << 32 | (uint32_t)(maker))
#define MU_MQ_TASK(owner)        ((int32_t)((owner) >> 32) - 1)
/* messages that the reader has read, 63 | MU_WORD_S */
#define MU_MQ_POSITION(number) ((uint64_t)(number) << 1)
#define MU_MQ_NUMBER(position) ((position) >> 1)
#define MU_MQ_LEFT             (1ull << 62) /* the number that a reader leaves */

/* Data of a message's bundle: its references are the next message, and, of a long one, the object that it is. */
struct mu_mq_message {
    uint64_t number; /* from 1 on */
    uint64_t len;
    uint64_t bytes[];
};

/* Behind the objects' words, committed with the first worker or call: a bit a slot: its owner is idle; then the queue
 * of ready calls: round 32 | index of the object's word + 1; 0: empty. Hints: the objects' words decide. */
#define MU_IDLE_WORDS   256u
#define MU_QUEUE_PLACES 65536u
#define MU_QUEUE_BYTES  ((MU_IDLE_WORDS + MU_QUEUE_PLACES) * 8ull)

/*
 * The pool: what running calls may have besides their worker. It is the cell "L": this head, then so many leases. Kinds
 * stay for as long as the segment does. A lease counts while the slot of its thread is LIVE, of that incarnation, and
 * names the call as the one that it runs. Of a kind with units, total and amounts are sets of units.
 */
#define MU_POOL_KINDS  8u
#define MU_POOL_NAME   32u
#define MU_POOL_UNITS  64u
#define MU_POOL_LEASES 512u
#define MU_POOL_SCALE  10000u /* an amount of 1, of a kind without units */
struct mu_pool_kind {
    char name[MU_POOL_NAME]; /* zeros behind it */
    uint64_t total;
    uint64_t has_units;
};
struct mu_pool_lease {
    uint64_t call, runner; /* its reference, MU_OBJECT_MAKER() */
    uint64_t amounts[MU_POOL_KINDS];
};
struct mu_pool {
    uint32_t num_kinds, num_leases;
    uint64_t parks; /* calls that did not get what they ask for since none was left without; 0: none is */
    struct mu_pool_kind kinds[MU_POOL_KINDS];
    struct mu_pool_lease leases[MU_POOL_LEASES];
};

#endif
