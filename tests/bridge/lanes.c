/*
 * tests/bridge/lanes.c: who asks by lanes.
 */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bridge/barrier/barrier_ops.h"
#include "bridge/call/calls.h"
#include "kv/remote.h"

static void rung(void *arg)
{
    sem_post(arg);
}

static void make_lanes(struct caller *c)
{
    struct mu_core *core = hosts_lock(c->h, c->host);

    assert_non_null(core);
    assert_ok(mu_lanes_make(core, &c->lanes));
    hosts_unlock(c->h, c->host);
    mu_lanes_listen(c->lanes, rung, &c->rung);
}

static void free_lanes(struct caller *c)
{
    struct mu_core *core = hosts_lock(c->h, c->host); /* NULL: the core is gone, and has let go of them */

    mu_lanes_listen(c->lanes, NULL, NULL);
    mu_lanes_free(c->lanes);
    if (core)
        hosts_unlock(c->h, c->host);
}

void caller_begin(struct caller *c, struct hosts *h, uint32_t host)
{
    *c = (struct caller){.h = h, .host = host};
    assert_int_equal(sem_init(&c->rung, 0, 0), 0);
    make_lanes(c);
}

void caller_end(struct caller *c)
{
    free_lanes(c);
    sem_destroy(&c->rung);
}

void caller_anew(struct caller *c)
{
    free_lanes(c);
    make_lanes(c);
}

/* Until something was said, or a moment has passed. */
static void wait_a_moment(struct caller *c)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!sem_timedwait(&c->rung, &until))
        while (!sem_trywait(&c->rung))
            ;
}

void caller_step(struct caller *c)
{
    if (hosts_is_stepped(c->h))
        hosts_wait(c->h);
    else
        wait_a_moment(c);
    mu_lanes_take(c->lanes);
}

void caller_await(struct caller *c, struct question *q)
{
    lanes_await(c, q->answers > 0, "%s", q->call.what);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void answered(struct mu_lane_call *call, enum muster_status status, const char *text, struct mu_unpack body)
{
    struct question *q = (struct question *)call; /* its first member */

    q->answers++;
    q->status = status;
    snprintf(q->text, sizeof q->text, "%s", text);
    free(q->bytes);
    q->bytes = malloc(body.left + 1);
    assert_non_null(q->bytes);
    if (body.left)
        memcpy(q->bytes, body.at, body.left);
    q->len = body.left;
}

static void begin(struct question *q, enum mu_op op, const char *key)
{
    free(q->bytes);
    *q = (struct question){.call = {.op = op, .what = "the test", .answered = answered, .lane = q->call.lane}};
    mu_pack_blob(&q->call.request, key, strlen(key));
}

void question_add(struct question *q, const char *key, int64_t by)
{
    begin(q, MU_OP_KV_INCREMENT, key);
    mu_pack_u64(&q->call.request, (uint64_t)by);
}

void question_append(struct question *q, const char *key, const char *text)
{
    begin(q, MU_OP_KV_APPEND, key);
    mu_pack_u64(&q->call.request, 0);
    mu_pack_raw(&q->call.request, text, strlen(text));
}

void question_set(struct question *q, const char *key, const void *value, size_t len)
{
    begin(q, MU_OP_KV_SET, key);
    mu_pack_u64(&q->call.request, 0);
    mu_pack_raw(&q->call.request, value, len);
}

void question_get(struct question *q, const char *key, uint8_t flags, uint64_t from)
{
    begin(q, MU_OP_KV_GET, "");
    mu_pack_reset(&q->call.request);
    mu_pack_u8(&q->call.request, flags);
    mu_pack_u64(&q->call.request, from);
    mu_pack_blob(&q->call.request, key, strlen(key));
}

void question_done(struct question *q)
{
    mu_pack_done(&q->call.request);
    free(q->bytes);
    q->bytes = NULL;
}

enum muster_status caller_do(struct caller *c, struct question *q, uint64_t *ret_number)
{
    struct mu_unpack u;

    assert_ok(mu_lanes_ask(c->lanes, &q->call));
    caller_await(c, q);
    assert_int_equal(q->answers, 1);
    u = mu_unpack_of(q->bytes, q->len);
    if (ret_number)
        *ret_number = mu_unpack_u64(&u);
    return q->status;
}

struct left left_at_leader(struct hosts *h, uint32_t host)
{
    struct mu_core *core = hosts_lock(h, 0);
    struct left left = {0};

    assert_non_null(core);
    left.open = mu_calls_of_host(core, host)->open;
    left.unsettled = mu_calls_of_host(core, host)->unsettled;
    left.waiters = mu_pending_ops_of(core)->num_waiters;
    hosts_unlock(h, 0);
    return left;
}
