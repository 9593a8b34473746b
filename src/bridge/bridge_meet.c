/*
 * bridge/bridge_meet.c: which agents may take part in the job, as which host, and the shape that all of them learn.
 *
 * The leader has a seat for each host. A host is its node number and its incarnation: the same incarnation comes back
 * to its seat, another one finds it taken. Until an agent that is there has every seat, all are kept waiting;
 * then all are welcomed with the same shape. What is refused is refused in words, and changes nothing for the others.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "bridge/bridge_private.h"

#define RECHECK_NS 100000000u /* whether the waiting is to end */

static bool make_tables(struct mu_bridge *b, uint32_t hosts)
{
    free(b->tasks);
    free(b->names);
    b->tasks = calloc(hosts, sizeof *b->tasks);
    b->names = calloc(hosts, sizeof *b->names);
    b->shape.tasks = b->tasks;
    b->shape.names = (const char(*)[64])b->names;
    return b->tasks && b->names;
}

enum muster_status mu_bridge_begin_meeting(struct mu_bridge *b)
{
    const struct mu_bridge_options *o = &b->options;
    uint32_t hosts = o->leader ? o->num_hosts : 1;

    b->ups = calloc(hosts, sizeof *b->ups);
    b->is_up = calloc(hosts, sizeof *b->is_up);
    b->seats = calloc(hosts, sizeof *b->seats);
    if (!b->ups || !b->is_up || !b->seats || !make_tables(b, hosts))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a job of %u hosts", hosts);
    if (!o->leader)
        return MUSTER_OK;
    b->num_missing = hosts - 1;
    b->seats[0].is_taken = true;
    b->tasks[0] = o->num_tasks;
    snprintf(b->names[0], sizeof b->names[0], "%s", o->link.join.host);
    b->shape.num_hosts = hosts;
    snprintf(b->shape.job, sizeof b->shape.job, "%s", o->job ? o->job : "");
    memcpy(b->shape.run_id, o->run_id, sizeof b->shape.run_id);
    if (!o->run_id[0] && !o->run_id[1])
        mu_random(b->shape.run_id, sizeof b->shape.run_id);
    b->shape.num_events = o->num_events;
    b->shape.num_buckets = o->num_buckets;
    b->shape.heap_bytes = o->heap_bytes;
    b->shape.object_bytes = o->object_bytes;
    b->shape.heartbeat_timeout_ns = o->heartbeat_timeout_ns;
    b->shape.timeout_ns = o->link.timeout_ns;
    b->shape.adopt_ns = o->adopt_ns;
    b->shape.welcome = o->welcome;
    b->shape.welcome_len = o->welcome_len;
    return MUSTER_OK;
}

void mu_bridge_end_meeting(struct mu_bridge *b)
{
    free(b->ups);
    free(b->is_up);
    free(b->seats);
    free(b->tasks);
    free(b->names);
    free(b->welcome);
    mu_pack_done(&b->early);
}

/* ---- the shape, as bytes ---- */

static void pack_shape(const struct mu_bridge *b, uint32_t host, struct mu_pack *p)
{
    const struct mu_bridge_shape *s = &b->shape;

    mu_pack_u32(p, s->num_hosts);
    mu_pack_u32(p, host);
    mu_pack_u64(p, s->run_id[0]);
    mu_pack_u64(p, s->run_id[1]);
    mu_pack_u32(p, s->num_events);
    mu_pack_u32(p, s->num_buckets);
    mu_pack_u64(p, s->heap_bytes);
    mu_pack_u64(p, s->object_bytes);
    mu_pack_u64(p, s->heartbeat_timeout_ns);
    mu_pack_u64(p, s->timeout_ns);
    mu_pack_u64(p, s->adopt_ns);
    mu_pack_text(p, s->job);
    for (uint32_t i = 0; i < s->num_hosts; i++) {
        mu_pack_u32(p, s->tasks[i]);
        mu_pack_text(p, s->names[i]);
    }
    mu_pack_blob(p, s->welcome, s->welcome_len);
}

static bool unpack_shape(struct mu_bridge *b, struct mu_unpack *u)
{
    struct mu_bridge_shape *s = &b->shape;
    uint64_t tasks = 0;
    const void *welcome;

    s->num_hosts = mu_unpack_u32(u);
    s->host = mu_unpack_u32(u);
    s->run_id[0] = mu_unpack_u64(u);
    s->run_id[1] = mu_unpack_u64(u);
    s->num_events = mu_unpack_u32(u);
    s->num_buckets = mu_unpack_u32(u);
    s->heap_bytes = mu_unpack_u64(u);
    s->object_bytes = mu_unpack_u64(u);
    s->heartbeat_timeout_ns = mu_unpack_u64(u);
    s->timeout_ns = mu_unpack_u64(u);
    s->adopt_ns = mu_unpack_u64(u);
    mu_unpack_text(u, s->job, sizeof s->job);
    if (u->failed || s->num_hosts < 2 || s->num_hosts > MU_HOSTS_MAX || !s->host || s->host >= s->num_hosts ||
        !s->timeout_ns || !make_tables(b, s->num_hosts))
        return false;
    for (uint32_t i = 0; i < s->num_hosts; i++) {
        b->tasks[i] = mu_unpack_u32(u);
        tasks += b->tasks[i];
        mu_unpack_text(u, b->names[i], sizeof b->names[i]);
    }
    welcome = mu_unpack_blob(u, MU_SHAPE_BYTES_MAX, &s->welcome_len);
    s->num_tasks = (uint32_t)tasks;
    /* what is allocated and walked from here on goes by these: tasks that we did not announce would be beyond it */
    if (!mu_unpack_end(u) || tasks > INT32_MAX || b->tasks[s->host] != b->options.num_tasks)
        return false;
    b->welcome = malloc(s->welcome_len ? s->welcome_len : 1);
    if (b->welcome && s->welcome_len)
        memcpy(b->welcome, welcome, s->welcome_len);
    s->welcome = b->welcome;
    return b->welcome != NULL;
}

/* Later ones, when we have come back, must be of the same run, and for the same host. */
bool mu_bridge_take_welcome(struct mu_bridge *b, const void *bytes, size_t len)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);
    uint64_t run_id[2];
    uint32_t hosts, host;

    if (!b->is_met) {
        if (unpack_shape(b, &u))
            return true;
        mu_fail(MUSTER_DATA_LOSS, "the leader's welcome (%zu bytes) is not well formed, or there is no memory for it",
                len);
        return false;
    }
    hosts = mu_unpack_u32(&u);
    host = mu_unpack_u32(&u);
    run_id[0] = mu_unpack_u64(&u);
    run_id[1] = mu_unpack_u64(&u);
    if (!u.failed && hosts == b->shape.num_hosts && host == b->shape.host &&
        memcmp(run_id, b->shape.run_id, sizeof run_id) == 0)
        return true;
    mu_fail(MUSTER_FAILED_PRECONDITION, "the leader that answers at %s now is of another run of the job",
            b->options.link.address);
    return false;
}

/* What all have been welcomed with, as the segment has it. */
bool mu_bridge_recall_shape(struct mu_bridge *b, const struct muster_segment *seg)
{
    struct mu_bridge_shape *s = &b->shape;

    if (!make_tables(b, seg->num_hosts))
        return false;
    s->num_hosts = seg->num_hosts;
    s->host = seg->host;
    s->num_tasks = seg->num_tasks;
    for (uint32_t i = 0; i < seg->num_hosts; i++) {
        b->tasks[i] = seg->hosts[i].num_tasks;
        mu_host_name(seg, i, b->names[i], sizeof b->names[i]);
    }
    snprintf(s->job, sizeof s->job, "%s", b->options.job ? b->options.job : "");
    memcpy(s->run_id, seg->header->run_id, sizeof s->run_id);
    s->heartbeat_timeout_ns = seg->heartbeat_timeout;
    s->timeout_ns = b->options.link.timeout_ns;
    s->adopt_ns = seg->header->adopt_ns;
    b->num_missing = 0;
    b->is_met = true;
    return true;
}

/* ---- seats ---- */

static uint32_t find_seat(const struct mu_bridge *b, const struct mu_join *join)
{
    uint32_t free_one = UINT32_MAX;

    if (join->node != UINT32_MAX)
        return join->node;
    for (uint32_t i = 1; i < b->shape.num_hosts; i++) {
        const struct mu_bridge_seat *seat = &b->seats[i];

        if (seat->is_taken && memcmp(seat->incarnation, join->incarnation, sizeof seat->incarnation) == 0)
            return i;
        if (!seat->is_taken && free_one == UINT32_MAX)
            free_one = i;
    }
    return free_one;
}

/* Whether it may have that seat; otherwise why not. */
static bool may_sit(const struct mu_bridge *b, const struct mu_join *join, uint32_t host, char *why, size_t size)
{
    const struct mu_bridge_seat *seat = host < b->shape.num_hosts ? &b->seats[host] : NULL;
    uint32_t hosts = b->shape.num_hosts;

    if (join->job[0] && b->shape.job[0] && strcmp(join->job, b->shape.job) != 0)
        snprintf(why, size, "it is of job '%.80s', this is job '%.80s'", join->job, b->shape.job);
    else if (join->nodes && join->nodes != hosts)
        snprintf(why, size, "it was told that the job has %u hosts, and it has %u", join->nodes, hosts);
    else if (host == 0)
        snprintf(why, size, "node 0 is the leader itself; the others are 1 to %u", hosts - 1);
    else if (!seat && join->node == UINT32_MAX)
        snprintf(why, size, "all %u hosts of the job are there already", hosts);
    else if (!seat)
        snprintf(why, size, "it calls itself node %u, and the job has %u hosts: 0 to %u", host, hosts, hosts - 1);
    else if (seat->is_taken && memcmp(seat->incarnation, join->incarnation, sizeof seat->incarnation) != 0)
        snprintf(why, size, "node %u is taken by host %s, agent pid %u", host, b->names[host], seat->pid);
    else if (b->is_met && join->num_tasks != b->tasks[host])
        snprintf(why, size, "node %u had %u tasks when the job began, now it says %u", host, b->tasks[host],
                 join->num_tasks);
    else if (b->has_core && b->core.peers[host].state == MU_PEER_LOST)
        snprintf(why, size, "the job has given up node %u", host);
    else
        return true;
    return false;
}

enum mu_join_verdict mu_bridge_seat_join(struct mu_bridge *b, uint32_t connection, const struct mu_join *join,
                                         uint32_t *ret_host, struct mu_pack *welcome, char *refusal, size_t size)
{
    uint32_t host = find_seat(b, join);
    struct mu_bridge_seat *seat;

    if (!may_sit(b, join, host, refusal, size))
        return MU_JOIN_REFUSED;
    seat = &b->seats[host];
    *ret_host = host;
    if (b->is_met) { /* it had been welcomed before: everybody has, if not by this agent */
        *seat = (struct mu_bridge_seat){true, 0, join->pid, {join->incarnation[0], join->incarnation[1]}};
        pack_shape(b, host, welcome);
        return MU_JOIN_ACCEPTED;
    }
    if (seat->is_taken) {
        uint32_t older = seat->connection;

        seat->connection = connection;
        mu_link_refuse(b->link, older, "it has connected anew");
        return MU_JOIN_LATER;
    }
    *seat = (struct mu_bridge_seat){true, connection, join->pid, {join->incarnation[0], join->incarnation[1]}};
    b->tasks[host] = join->num_tasks;
    snprintf(b->names[host], sizeof b->names[host], "%s", join->host);
    b->num_missing--;
    return MU_JOIN_LATER;
}

/* While all are awaited, a seat is held by being there. */
void mu_bridge_seat_gone(struct mu_bridge *b, uint32_t connection)
{
    for (uint32_t i = 1; i < b->shape.num_hosts && !b->is_met; i++)
        if (b->seats[i].is_taken && b->seats[i].connection == connection) {
            b->seats[i] = (struct mu_bridge_seat){0};
            b->num_missing++;
        }
}

static void welcome_all(struct mu_bridge *b)
{
    struct mu_pack p = {0};
    uint64_t tasks = 0;

    for (uint32_t i = 0; i < b->shape.num_hosts; i++)
        tasks += b->tasks[i];
    if (tasks == 0 || tasks > INT32_MAX) {
        snprintf(b->why, sizeof b->why, "the hosts have %llu tasks together", (unsigned long long)tasks);
        b->is_failed = true;
        return;
    }
    b->shape.num_tasks = (uint32_t)tasks;
    b->is_met = true;
    for (uint32_t i = 1; i < b->shape.num_hosts; i++) {
        uint32_t connection = b->seats[i].connection;

        b->seats[i].connection = 0;
        mu_pack_reset(&p);
        pack_shape(b, i, &p);
        if (p.failed)
            mu_link_refuse(b->link, connection, "the leader has no memory for the welcome");
        else
            mu_link_welcome(b->link, connection, i, p.bytes, p.len);
    }
    mu_pack_done(&p);
}

void mu_bridge_dismiss_all(struct mu_bridge *b, const char *why)
{
    for (uint32_t i = 1; b->seats && i < b->shape.num_hosts; i++)
        if (b->seats[i].connection)
            mu_link_refuse(b->link, b->seats[i].connection, why);
}

/* "hosts 2, 3 and 5 more have not come" */
static void say_missing(const struct mu_bridge *b, char *text, size_t size)
{
    uint32_t said = 0;
    size_t at = (size_t)snprintf(text, size, "%s", b->num_missing == 1 ? "host" : "hosts");

    for (uint32_t i = 1; i < b->shape.num_hosts && said < 16 && at < size; i++) {
        const char *name = b->options.name_of ? b->options.name_of(b->options.arg, i) : NULL;

        if (b->seats[i].is_taken)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s %u", said++ ? "," : "", i);
        if (name && *name && at < size)
            at += (size_t)snprintf(text + at, size - at, " (%.63s)", name);
    }
    if (at < size && b->num_missing > said)
        at += (size_t)snprintf(text + at, size - at, " and %u more", b->num_missing - said);
    if (at < size)
        snprintf(text + at, size - at, " of %u %s not come", b->shape.num_hosts, b->num_missing == 1 ? "has" : "have");
}

/* ---- waiting ---- */

/* MUSTER_UNKNOWN: not yet. */
static enum muster_status look_at_meeting(struct mu_bridge *b, const _Atomic int *stop)
{
    char missing[1024];

    if (b->options.leader && !b->num_missing)
        welcome_all(b);
    if (b->is_failed)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s", b->why);
    if (b->is_met)
        return MUSTER_OK;
    if (stop && *stop)
        return mu_fail(MUSTER_CANCELLED, "stopped while hosts were awaited");
    if (b->now < b->options.join_until)
        return MUSTER_UNKNOWN;
    if (!b->options.leader)
        return mu_fail(MUSTER_DEADLINE_EXCEEDED, "the leader (%s) has not begun the job in time: it waits for others",
                       b->options.link.address);
    say_missing(b, missing, sizeof missing);
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s in time", missing);
}

enum muster_status mu_bridge_await_all(struct mu_bridge *b, const _Atomic int *stop)
{
    for (;;) {
        struct pollfd fd = {.fd = mu_link_fd(b->link), .events = POLLIN};
        enum muster_status status;
        uint64_t next;

        b->now = mu_now();
        mu_link_turn(b->link, b->now);
        status = look_at_meeting(b, stop);
        mu_link_flush(b->link);
        if (status != MUSTER_UNKNOWN)
            return status;
        next = b->now + RECHECK_NS;
        next = mu_link_next(b->link) < next ? mu_link_next(b->link) : next;
        next = b->options.join_until < next ? b->options.join_until : next;
        poll(&fd, 1, next <= b->now ? 0 : (int)((next - b->now) / 1000000 + 1));
    }
}

void mu_bridge_be_patient(struct mu_bridge *bridge, bool is_patient)
{
    pthread_mutex_lock(&bridge->lock);
    mu_link_be_patient(bridge->link, is_patient, mu_now());
    pthread_mutex_unlock(&bridge->lock);
    mu_link_poke(bridge->link);
}
