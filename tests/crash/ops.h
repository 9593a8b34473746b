/*
 * tests/crash/ops.h: the operations that are cut short, what their peers do meanwhile, and what must hold afterwards.
 */
#ifndef CRASH_OPS_H
#define CRASH_OPS_H

#include "world.h"

enum kind { KV, TASK, SLOT, BARRIER, GROUP, EVENT, TOPOLOGY, OBJECT, CALL, PS, QUEUE, MEMBERS, KINDS };

struct op {
    const char *name;
    enum kind kind;
    void (*setup)(const struct op *op); /* in the building process; may be NULL */
    void (*run)(const struct op *op);   /* as VICTIM; notes board->outcome[0] */
    void (*after)(const struct op *op); /* as PEER and THIRD, when the victim is dead and buried; may be NULL */
    const char *key;
    unsigned size;
    unsigned commits; /* how many changes others can see it makes, one after the other; 1 unless said */
    unsigned flags;
};
#define OP_SLEEPS  1u /* it really sleeps: not for pausing, where a copy would sleep as often */
#define OP_OWNMAP  2u /* it maps the segment itself: not for pausing */
#define OP_SEVERAL 4u /* not one instant, even without a death: pairs are checked for invariants only */
#define OP_FULL    8u /* the heap is full; "fill" has what fills it */

extern const struct op ops[];
extern const unsigned num_ops;

struct interference {
    const char *name;
    unsigned kinds;                   /* bit per kind */
    void (*run)(const struct op *op); /* as PEER; notes board->outcome[1] */
    unsigned flags;                   /* OP_SEVERAL, IN_PARTS, IN_BLOCKS */
    bool leaves;                      /* the peer has no part in it any more */
};
#define IN_PARTS  16u /* only where the operation's key holds a value in parts */
#define IN_BLOCKS 32u /* likewise, or in a block of its own */
extern const struct interference interferences[];
bool crash_applies(const struct interference *in, const struct op *op);
extern const unsigned num_interferences;

/* One operation of every kind by `who` and `other`, on fresh names and on the operation's own. */
void crash_second(const struct op *op, int who, int other);

#endif
