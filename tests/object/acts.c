#include "acts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* ---- the players ---- */

static muster_deadline patience(uint64_t ns)
{
    return ns ? muster_after_ns(ns) : MUSTER_FOREVER;
}

static int answer(struct reply *reply, const void *data, size_t len)
{
    memcpy(reply->data, data, len);
    reply->len = len;
    return MUSTER_OK;
}

int act_put(void *arg, struct reply *reply)
{
    const struct piece *p = arg;
    muster_object object = 0;
    int status = muster_object_put(me, p->bytes, p->len, NULL, 0, 0, &object);

    return status ? status : answer(reply, &object, sizeof object);
}

static struct muster_object_room room;

/* With the first bytes written, and sealed if it is told to. */
int act_create(void *arg, struct reply *reply)
{
    const struct piece *p = arg;
    muster_object object = 0;
    int status = muster_object_create(me, p->len, 0, 0, &object, &room);

    if (status)
        return status;
    memcpy(room.data, p->bytes, p->len < sizeof p->bytes ? p->len : sizeof p->bytes);
    status = p->seals ? muster_object_seal(me, object) : MUSTER_OK;
    return status ? status : answer(reply, &object, sizeof object);
}

int act_seal(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_seal(me, *(muster_object *)arg);
}

int act_fail(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_fail(me, *(muster_object *)arg, MUSTER_ABORTED, "the file has no such line");
}

int act_drop(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_drop(me, arg, 1);
}

int act_retain(void *arg, struct reply *reply)
{
    (void)reply;
    return muster_object_retain(me, arg, 1, NULL);
}

static struct muster_object_view view;

/* Keeps its view. */
int act_get(void *arg, struct reply *reply)
{
    const struct piece *p = arg;
    int status = muster_object_get(me, &p->object, 1, patience(p->patience_ns), &view, NULL);

    return status ? status : answer(reply, view.data, view.len < 256 ? view.len : 256);
}

int act_unview(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    muster_object_unview(me, &view, 1);
    return MUSTER_OK;
}

int act_scribble(void *arg, struct reply *reply)
{
    struct rlimit none = {0, 0};

    (void)arg;
    (void)reply;
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    memset((void *)(uintptr_t)view.data, 0, 1);
    return MUSTER_OK;
}

int act_wait(void *arg, struct reply *reply)
{
    const struct several *s = arg;
    unsigned char ready[64];
    size_t count = 0;
    int status = muster_object_wait(me, s->objects, s->count, s->want, patience(s->patience_ns), ready, &count);

    answer(reply, ready, s->count);
    return status;
}

/* ---- the director ---- */

static muster_object object_of(struct reply r)
{
    muster_object object;

    assert_status(r, MUSTER_OK);
    assert_int_equal(r.len, sizeof object);
    memcpy(&object, r.data, sizeof object);
    return object;
}

static struct piece piece_of(const char *bytes)
{
    struct piece p = {.len = strlen(bytes)};

    snprintf(p.bytes, sizeof p.bytes, "%s", bytes);
    return p;
}

muster_object put(int player, const char *bytes)
{
    struct piece p = piece_of(bytes);

    return object_of(stage_do(player, act_put, &p, sizeof p));
}

muster_object create(int player, const char *bytes)
{
    struct piece p = piece_of(bytes);

    return object_of(stage_do(player, act_create, &p, sizeof p));
}

struct reply get(int player, muster_object object)
{
    struct piece p = {.object = object};

    return stage_do(player, act_get, &p, sizeof p);
}

void tell_get(int player, muster_object object)
{
    struct piece p = {.object = object};

    stage_tell(player, act_get, &p, sizeof p);
}

int do_with(int player, act_fn act, muster_object object)
{
    return stage_do(player, act, &object, sizeof object).status;
}

uint32_t holders(muster_object object)
{
    struct muster_object_info info;
    enum muster_status status = muster_object_info(stage_observer, object, &info);

    assert_true(status == MUSTER_OK || status == MUSTER_NOT_FOUND);
    return status ? 0 : info.holders;
}

void until_holders(muster_object object, uint32_t count)
{
    await(holders(object) == count, "%u holders of object 0x%llx", count, (unsigned long long)object);
}

void until_waiting(int task, muster_object object)
{
    char what[64];

    snprintf(what, sizeof what, "object 0x%016llx", (unsigned long long)object);
    stage_until_waiting(task, what);
}
