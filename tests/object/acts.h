/*
 * tests/object/acts.h: what players do with objects, and what the director asks them to do.
 */
#ifndef TEST_OBJECT_ACTS_H
#define TEST_OBJECT_ACTS_H

#include "stage.h"

#include "job.h"

struct piece {
    muster_object object;
    uint64_t len;
    uint64_t patience_ns;
    char bytes[256];
    int seals;
};

struct several {
    muster_object objects[64];
    uint64_t count, want, patience_ns;
};

int act_put(void *arg, struct reply *reply);
int act_create(void *arg, struct reply *reply);
int act_seal(void *arg, struct reply *reply);
int act_fail(void *arg, struct reply *reply);
int act_drop(void *arg, struct reply *reply);
int act_retain(void *arg, struct reply *reply);
int act_get(void *arg, struct reply *reply);
int act_unview(void *arg, struct reply *reply);
int act_scribble(void *arg, struct reply *reply);
int act_wait(void *arg, struct reply *reply);
muster_object put(int player, const char *bytes);
muster_object create(int player, const char *bytes);
struct reply get(int player, muster_object object);
void tell_get(int player, muster_object object);
int do_with(int player, act_fn act, muster_object object);
uint32_t holders(muster_object object);
void until_holders(muster_object object, uint32_t count);
void until_waiting(int task, muster_object object);

#endif
