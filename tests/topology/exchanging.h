/*
 * tests/topology/exchanging.h: exchanges of topologies on the stage of tests/task: what is given, what must come of it,
 * and the act.
 */
#ifndef TEST_TOPOLOGY_EXCHANGING_H
#define TEST_TOPOLOGY_EXCHANGING_H

#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOREVER = 0, BYTES_MAX = 400 };

struct exchange_act {
    char name[64];
    enum muster_topology_form form;
    uint32_t size;
    uint64_t patience_ns; /* FOREVER, or that long; 1: not at all */
    uint32_t padding;     /* bytes of a field that nobody knows, behind the others */
    uint8_t bytes[BYTES_MAX];
};

/* A local topology, written by hand: the id, today also a boot id, and so many devices. Ids below 128. */
static inline struct exchange_act local(const char *name, enum muster_topology_form form, int id, int devices)
{
    struct exchange_act a = {.form = form};
    uint8_t *p = a.bytes;

    snprintf(a.name, sizeof a.name, "%s", name);
    *p++ = 0x08;
    *p++ = (uint8_t)id;
    if (form == MUSTER_FORM_XLA) {
        *p++ = 0x12;
        *p++ = 1;
        *p++ = (uint8_t)('a' + id % 3); /* three hosts, in turn */
    }
    for (int i = 0; i < devices; i++) {
        *p++ = form == MUSTER_FORM_XLA ? 0x1a : 0x12;
        *p++ = 2;
        *p++ = 0x08;
        *p++ = (uint8_t)i;
    }
    a.size = (uint32_t)(p - a.bytes);
    return a;
}

/* With its padding: field 100, a string of zeros. malloc()ed. */
static inline uint8_t *whole(const struct exchange_act *a, size_t *ret_size)
{
    uint8_t *bytes = calloc(1, a->size + a->padding + 8), *p = bytes + a->size;
    uint32_t left = a->padding;

    memcpy(bytes, a->bytes, a->size);
    *ret_size = a->size;
    if (!left)
        return bytes;
    *p++ = 0xa2;
    *p++ = 0x06;
    for (; left > 127; left >>= 7)
        *p++ = (uint8_t)(left | 0x80);
    *p++ = (uint8_t)left;
    *ret_size = (size_t)(p - bytes) + a->padding;
    return bytes;
}

/* As many bytes as an answer holds; of more, all their sums. */
static inline void put_bytes(struct reply *r, const uint8_t *bytes, size_t size)
{
    uint64_t sums[2] = {size, 14695981039346656037u};

    r->len = size;
    if (size <= sizeof r->data) {
        memcpy(r->data, bytes, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        sums[1] = (sums[1] ^ bytes[i]) * 1099511628211u;
    memcpy(r->data, sums, sizeof sums);
    r->len = sizeof sums;
}

/* What one process makes of all of them. */
static inline struct reply expected(const struct exchange_act *acts, size_t count)
{
    struct reply r = {0};
    uint8_t *locals[64] = {NULL};
    size_t sizes[64] = {0}, size;
    void *bytes;

    for (size_t i = 0; i < count; i++)
        locals[i] = whole(&acts[i], &sizes[i]);
    if (muster_topology_global(acts[0].form, (const void *const *)locals, sizes, count, &bytes, &size))
        fail_msg("%s", muster_last_error());
    put_bytes(&r, bytes, size);
    free(bytes);
    for (size_t i = 0; i < count; i++)
        free(locals[i]);
    return r;
}

static inline int act_exchange(void *arg, struct reply *reply)
{
    const struct exchange_act *a = arg;
    size_t given, size;
    uint8_t *local = whole(a, &given);
    void *bytes;
    int status =
        (int)muster_topology_exchange(me, a->name[0] ? a->name : NULL, a->form, local, given,
                                      a->patience_ns ? muster_after_ns(a->patience_ns) : MUSTER_FOREVER, &bytes, &size);

    free(local);
    if (status)
        return status;
    put_bytes(reply, bytes, size);
    free(bytes);
    return MUSTER_OK;
}

static inline void tell(int player, struct exchange_act a)
{
    stage_tell(player, act_exchange, &a, sizeof a);
}

static inline struct reply ask(int player, struct exchange_act a)
{
    return stage_do(player, act_exchange, &a, sizeof a);
}

static inline void tell_and_wait(int player, struct exchange_act a)
{
    tell(player, a);
    stage_until_waiting(player, "topology exchange");
}

/* Killed, and everybody knows. */
static inline void kill_task(int player, int32_t task)
{
    stage_kill(player);
    muster_scavenge(stage_observer, NULL);
    stage_until_state(task, MUSTER_TASK_ERROR);
}

static inline void assert_same(struct reply got, const struct reply *wanted)
{
    assert_status(got, wanted->status);
    assert_int_equal(got.len, wanted->len);
    assert_memory_equal(got.data, wanted->data, wanted->len);
}

#endif
