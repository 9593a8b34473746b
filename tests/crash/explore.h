/* tests/crash/explore.h: stepping through an operation and looking at every image of the segment that it makes. */
#ifndef CRASH_EXPLORE_H
#define CRASH_EXPLORE_H

#include "ops.h"
#include "step.h"

/*
 * Step `fn` to its end in a fork. At each image that differs from the last one, and at the first, visit() is called
 * while the process stands there; it must leave the world as it is, or say so. In the end the world is as it was
 * before. False: stepping is not allowed here.
 */
struct exploration {
    void (*fn)(void *arg);
    void *arg;
    void (*visit)(struct exploration *x);
    void *visitor;
    bool own_map;           /* it maps the segment itself: each instruction is looked at, not those near a write only */
    bool every_byte;        /* also images that differ only within a part of a large value that nobody has seen yet */
    bool changed_by_others; /* set by visit(): the world is not as it was */
    struct stepper stepper;
    uint64_t images;
};
bool explore(struct exploration *x);

/* Where the tests begin: arguments, one process an operation, a line each, a total. */
struct crash_test {
    const char *name;
    bool (*try)(const struct op *op); /* in a process of its own with a world; false: not allowed here */
    bool (*applies)(const struct op *op);
    void (*totals)(char *text, size_t size); /* of *board, for one line */
};
extern bool crash_long;      /* --long: leave nothing out */
extern unsigned crash_salt;  /* differs by variant: which of the many are taken */
unsigned crash_random(void); /* the same in every run of a variant */
int crash_main(const struct crash_test *test, int argc, char **argv);

/* As PEER and THIRD: bury whoever is dead, twice, and see that nothing of them is left. */
void crash_bury(const struct op *op, int who, int other);

/* Complain line by line about what is in one of two observations only. */
void crash_differ(const char *wanted, const char *seen);

/* Print the complaints made since, with what was being tried. */
void crash_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
