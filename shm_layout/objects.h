/* shm_layout/objects.h: the part of the format that is the tasks' objects: references, roots, units, counts. */
#ifndef MU_SHM_OBJECTS_H
#define MU_SHM_OBJECTS_H

#include <stdint.h>

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
    uint64_t about; /* MU_OBJECT_ABOUT() */
    uint64_t maker; /* its first unit in the arena, + 1, 32 (0: the bytes are the block's) | MU_OBJECT_MAKER() 32 */
    uint64_t marks[];
};
/* count 32 | marks 16 | 0 8 | state 8 */
#define MU_OBJECT_WRITING 1u /* its producer writes the bytes */
#define MU_OBJECT_SEALED  2u
#define MU_OBJECT_ERROR   3u /* sealed; the bytes are a sentence */
#define MU_OBJECT_STATE(count, marks, state)                                                                           \
    (((uint64_t)(uint32_t)(count) << 32) | ((uint64_t)(uint16_t)(marks) << 16) | (state))
#define MU_OBJECT_IS(s)    ((uint32_t)(s)&0xffu)
#define MU_OBJECT_MARKS(s) ((uint32_t)((s) >> 16) & 0xffffu)
#define MU_OBJECT_COUNT(s) ((uint32_t)((s) >> 32))
/* bytes of metadata, which follow the others at the next multiple of 8, 32 | producing task + 1, 16 | 0 8 | code 8 */
#define MU_OBJECT_ABOUT(meta, task, code)                                                                              \
    (((uint64_t)(uint32_t)(meta) << 32) | ((uint64_t)(uint16_t)(task) << 16) | ((code)&0xffu))
#define MU_OBJECT_META(a) ((uint32_t)((a) >> 32))
#define MU_OBJECT_TASK(a) ((uint32_t)((a) >> 16) & 0xffffu)
#define MU_OBJECT_CODE(a) ((uint32_t)(a)&0xffu)
/* The process that writes it: its death makes the object an error unless that is sealed; never 0. */
#define MU_OBJECT_MAKER(slot, incarnation) (((uint64_t)(slot) + 1) << 16 | (uint16_t)(incarnation))
#define MU_OBJECT_MADE(extent, maker)      (((uint64_t)(uint32_t)(extent) << 32) | (uint32_t)(maker))
#define MU_OBJECT_PAD                      48u /* of a MU_TYPE_BYTES block, before the bytes: they begin at a multiple of 64 */

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

#endif
