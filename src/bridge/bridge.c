/*
 * bridge/bridge.c: a core and a link, tied together, from the meeting of the hosts to the end.
 *
 * What the link tells goes to the core; before there is one, a frame is kept, and an end fails the meeting. Two threads
 * drive both from the end of the meeting on (bridge_threads.c).
 */
#include "bridge/bridge.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "bridge/bridge_private.h"
#include "segment/handle.h"

#define TIMEOUT_NS 10000000000u
#define STAR_HOSTS 64u /* of a job of more hosts most come to the leader by relays */
#define EARLY_MAX  (16u << 20)

/* ---- what the link tells ---- */

static enum mu_join_verdict on_host_join(void *arg, uint32_t connection, const struct mu_join *join, uint32_t *ret_host,
                                         struct mu_pack *welcome, char *refusal, size_t size)
{
    return mu_bridge_seat_join(arg, connection, join, ret_host, welcome, refusal, size);
}

static void on_joiner_gone(void *arg, uint32_t connection)
{
    mu_bridge_seat_gone(arg, connection);
}

static void fail_meeting(struct mu_bridge *b, const char *why)
{
    b->is_failed = true;
    snprintf(b->why, sizeof b->why, "%s", why);
}

static void on_host_up(void *arg, uint32_t host, const void *welcome, size_t len)
{
    struct mu_bridge *b = arg;

    if (!b->options.leader) {
        if (!mu_bridge_take_welcome(b, welcome, len)) {
            char why[512];

            snprintf(why, sizeof why, "%s", muster_last_error());
            mu_link_drop(b->link, 0, why);
            if (b->has_core)
                mu_core_lost(&b->core, 0, why, b->now);
            else
                fail_meeting(b, why);
            return;
        }
        b->is_met = true;
    }
    b->ups[host]++;
    b->is_up[host] = true;
    if (b->has_core)
        mu_core_up(&b->core, host, b->now);
}

static void on_host_down(void *arg, uint32_t host, const char *why)
{
    struct mu_bridge *b = arg;
    struct mu_link_stats s;

    b->is_up[host] = false;
    if (!b->has_core)
        return;
    if (mu_link_stats(b->link, host, &s)) /* its silence began then, whatever it took to notice */
        mu_core_heard(&b->core, host, s.heard_ns);
    mu_core_down(&b->core, host, why, b->now);
}

static void on_host_left(void *arg, uint32_t host)
{
    struct mu_bridge *b = arg;

    b->is_up[host] = false;
    if (b->has_core)
        mu_core_lost(&b->core, host, MU_CORE_LEFT, b->now);
    else if (!b->options.leader)
        fail_meeting(b, "the leader has left");
}

static void on_host_refused(void *arg, const char *why)
{
    struct mu_bridge *b = arg;

    b->is_up[0] = false;
    if (b->has_core)
        mu_core_lost(&b->core, 0, why, b->now);
    else
        fail_meeting(b, why);
}

/* Of a host that began before we did: kept, for this connection of it. */
static void keep_early(struct mu_bridge *b, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    if (b->early.len + len > EARLY_MAX) {
        mu_link_drop(b->link, host, "it says too much before the job has begun here");
        return;
    }
    mu_pack_u32(&b->early, host);
    mu_pack_u32(&b->early, b->ups[host]);
    mu_pack_u8(&b->early, type);
    mu_pack_blob(&b->early, payload, len);
}

static void on_host_frame(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct mu_bridge *b = arg;

    if (b->has_core)
        mu_core_frame(&b->core, host, type, payload, len, b->now);
    else
        keep_early(b, host, type, payload, len);
}

static void on_link_said(void *arg, const char *sentence)
{
    struct mu_bridge *b = arg;

    if (b->options.said)
        b->options.said(b->options.arg, sentence);
}

static void on_port(void *arg, const char *address)
{
    struct mu_bridge *b = arg;

    if (b->options.listens)
        b->options.listens(b->options.arg, address);
}

/* ---- meeting ---- */

static uint64_t count_sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* A host is lost after its timeout: a connection that is silent for half of that is broken, so that it may come anew.
 */
static uint64_t silence_of(uint64_t timeout)
{
    return timeout / 2 ? timeout / 2 : 1;
}

static enum muster_status open_link(struct mu_bridge *b)
{
    struct mu_link_options *o = &b->options.link, first;

    o->events = (struct mu_link_events){b,
                                        on_host_join,
                                        on_joiner_gone,
                                        on_host_up,
                                        on_host_down,
                                        on_host_left,
                                        on_host_refused,
                                        on_host_frame,
                                        on_link_said,
                                        on_port};
    o->num_hosts = b->options.leader ? b->options.num_hosts : 1;
    o->star_hosts = o->star_hosts ? o->star_hosts : STAR_HOSTS;
    o->timeout_ns = silence_of(o->timeout_ns);
    o->join.num_tasks = b->options.num_tasks;
    snprintf(o->join.job, sizeof o->join.job, "%s", b->options.job ? b->options.job : "");
    if (b->options.leader)
        return mu_link_listen(o, &b->link);
    first = *o;
    first.is_called &= !b->is_met;
    if (!b->is_met && !first.patience_ns) /* until the leader has said what holds */
        first.patience_ns = b->options.join_until > b->now ? b->options.join_until - b->now : 0;
    return mu_link_connect(&first, &b->link);
}

static void make_lock(struct mu_bridge *b)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&b->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&b->rest, NULL);
}

/* The core gives up before. */
static void set_patience(struct mu_bridge *b)
{
    uint64_t longest = b->shape.timeout_ns > b->shape.adopt_ns ? b->shape.timeout_ns : b->shape.adopt_ns;

    if (!b->options.link.patience_ns)
        b->options.link.patience_ns = count_sum(longest, longest);
}

/* The first thread keeps the connections from now on, however long the agent takes to make its segment. */
static enum muster_status end_meeting(struct mu_bridge *b)
{
    set_patience(b);
    mu_link_set_limits(b->link, silence_of(b->shape.timeout_ns), b->options.link.patience_ns);
    return mu_bridge_begin_first(b);
}

static struct mu_bridge *new_bridge(const struct mu_bridge_options *options)
{
    struct mu_bridge *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->options = *options;
    b->now = mu_now();
    if (!b->options.link.timeout_ns)
        b->options.link.timeout_ns = TIMEOUT_NS;
    make_lock(b);
    return b;
}

static enum muster_status no_memory(void)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the bridge");
}

/* The last step of making one: all of it, or nothing is left. */
static enum muster_status hand_over(struct mu_bridge *b, enum muster_status status, struct mu_bridge **ret_bridge)
{
    char why[1024];

    if (!status) {
        *ret_bridge = b;
        return MUSTER_OK;
    }
    snprintf(why, sizeof why, "%s", muster_last_error());
    mu_bridge_stop(b);
    return mu_fail(status, "%s", why);
}

enum muster_status mu_bridge_meet(const struct mu_bridge_options *options, const _Atomic int *stop,
                                  struct mu_bridge **ret_bridge)
{
    struct mu_bridge *b = new_bridge(options);
    enum muster_status status = b ? MUSTER_OK : no_memory();

    if (!status && options->leader && (options->num_hosts < 2 || options->num_hosts > MU_HOSTS_MAX))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "a job across hosts has 2 to %u of them, not %u", MU_HOSTS_MAX,
                         options->num_hosts);
    if (!status)
        status = mu_bridge_begin_meeting(b);
    if (!status)
        status = open_link(b);
    if (!status) {
        status = mu_bridge_await_all(b, stop);
        if (status)
            mu_bridge_dismiss_all(b, muster_last_error());
    }
    if (!status)
        status = end_meeting(b);
    return hand_over(b, status, ret_bridge);
}

const struct mu_bridge_shape *mu_bridge_shape(const struct mu_bridge *bridge)
{
    return &bridge->shape;
}

/* ---- start and stop ---- */

static bool wire_send(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    return mu_link_send(((struct mu_bridge *)arg)->link, host, type, payload, len);
}

static bool wire_send_slice(void *arg, uint32_t host, uint8_t type, const void *head, size_t head_len,
                            const struct mu_slice *body)
{
    return mu_link_send_slice(((struct mu_bridge *)arg)->link, host, type, head, head_len, body);
}

static void wire_drop(void *arg, uint32_t host, const char *why)
{
    mu_link_drop(((struct mu_bridge *)arg)->link, host, why);
}

static bool wire_path(void *arg, uint32_t host, struct sockaddr_storage *ret_own, struct sockaddr_storage *ret_peer)
{
    return mu_link_path(((struct mu_bridge *)arg)->link, host, ret_own, ret_peer);
}

static void replay_early(struct mu_bridge *b)
{
    struct mu_unpack u = mu_unpack_of(b->early.bytes, b->early.len);

    while (u.left && !u.failed) {
        uint32_t host = mu_unpack_u32(&u), ups = mu_unpack_u32(&u);
        uint8_t type = mu_unpack_u8(&u);
        size_t len;
        const void *payload = mu_unpack_blob(&u, MU_FRAME_MESSAGE, &len);

        if (payload && b->is_up[host] && b->ups[host] == ups) /* otherwise it went with its connection */
            mu_core_frame(&b->core, host, type, payload, len, b->now);
    }
    mu_pack_done(&b->early);
}

static enum muster_status make_core(struct mu_bridge *b, struct muster *m)
{
    const struct mu_core_wire wire = {
        .arg = b, .send = wire_send, .drop = wire_drop, .send_slice = wire_send_slice, .path = wire_path};
    enum muster_status status;

    b->core = (struct mu_core){.latency = b->options.latency,
                               .timeout = b->shape.timeout_ns,
                               .adopt = b->shape.adopt_ns,
                               .control = b->options.control,
                               .host_changed = b->options.host_changed,
                               .arg = b->options.arg};
    b->now = mu_now();
    for (uint32_t i = 0; i < b->shape.num_hosts; i++)
        if (b->names[i][0])
            mu_host_set_name(m->seg, i, b->names[i]);
    status = mu_core_init(&b->core, &mu_bridge_tables, m, &wire, b->now);
    b->has_core = !status;
    return status;
}

static enum muster_status start_core(struct mu_bridge *b, struct muster *m)
{
    enum muster_status status = b->is_failed ? mu_fail(MUSTER_UNAVAILABLE, "%s", b->why) : make_core(b, m);

    if (status)
        return status;
    for (uint32_t i = b->options.leader; i < (b->options.leader ? b->shape.num_hosts : 1); i++) {
        mu_core_up(&b->core, i, b->now); /* all were, when they met */
        if (!b->is_up[i])
            mu_core_down(&b->core, i, "its connection broke before the job began here", b->now);
    }
    replay_early(b);
    return MUSTER_OK;
}

enum muster_status mu_bridge_start(struct mu_bridge *bridge, struct muster *m)
{
    enum muster_status status;

    pthread_mutex_lock(&bridge->lock);
    status = start_core(bridge, m);
    pthread_mutex_unlock(&bridge->lock);
    mu_link_poke(bridge->link);
    return status ? status : mu_bridge_begin_second(bridge);
}

enum muster_status mu_bridge_resume(const struct mu_bridge_options *options, struct muster *m,
                                    struct mu_bridge **ret_bridge)
{
    struct mu_bridge *b = new_bridge(options);
    enum muster_status status = b ? MUSTER_OK : no_memory();

    if (!status) {
        b->options.leader = mu_is_leader(m->seg);
        b->options.num_hosts = m->seg->num_hosts;
        status = mu_bridge_begin_meeting(b);
    }
    if (!status && !mu_bridge_recall_shape(b, m->seg))
        status = no_memory();
    if (!status) {
        set_patience(b);
        status = open_link(b);
    }
    if (!status)
        status = make_core(b, m);
    if (!status)
        status = mu_bridge_begin_first(b);
    if (!status)
        status = mu_bridge_begin_second(b);
    return hand_over(b, status, ret_bridge);
}

void mu_bridge_stop(struct mu_bridge *bridge)
{
    struct mu_bridge *b = bridge;

    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->has_core) {
        mu_bridge_drive_core(b); /* what was said last goes out before the goodbye */
        mu_bridge_tell_hosts(b);
    }
    b->is_stopping = true;
    pthread_cond_signal(&b->rest);
    pthread_mutex_unlock(&b->lock);
    if (b->link)
        mu_link_poke(b->link);
    mu_bridge_end_threads(b);
    mu_link_free(b->link);
    if (b->has_core)
        mu_core_done(&b->core);
    mu_bridge_end_meeting(b);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->rest);
    free(b);
}
