/*
 * tests/bridge/goods.h: what tests of objects on several hosts share: numbers that tasks and the test tell one another,
 * bytes that are known by their place, and an object that one task makes and others want.
 */
#ifndef TEST_GOODS_H
#define TEST_GOODS_H

#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "base/clock.h"
#include "crowd.h"

/* The board's numbers. */
enum { STEP, AT, READERS, REFS = 16 };
enum { LONG = 24 << 20 };
extern const struct hosts_config goods_three; /* hosts of two tasks each */

int goods_begin(void);
uint64_t number(int i);
void number_set(int i, uint64_t value);
void number_add(int i);
void until_step(uint64_t step); /* a task waits until the test has come so far */
void reached(int i, uint64_t value, const char *what);
void bytes_fill(void *to, size_t len, size_t salt);
bool bytes_are(const void *from, size_t len, size_t salt);
uint32_t holders(uint32_t host, muster_object ref);
void until_holders(uint32_t host, muster_object ref, uint32_t count);
void ends_well(pid_t pid);

/* In a task: a status other than that one ends the process with the line. */
int told(const char *what, int line, enum muster_status got);
#define EXPECT_STATUS(expected, call)                                                                                  \
    do {                                                                                                               \
        enum muster_status got_ = (call);                                                                              \
        if (got_ != (expected))                                                                                        \
            return told(#call, __LINE__, got_);                                                                        \
    } while (0)
#define EXPECT_OK(call) EXPECT_STATUS(MUSTER_OK, call)
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return told(#condition, __LINE__, MUSTER_OK);                                                              \
    } while (0)

/* What tasks do: one waits for REFS to be sealed, and says how it ended; one puts a long object. */
int get_one(struct muster *m, void *arg);
int put_long(struct muster *m, void *arg);

#endif
