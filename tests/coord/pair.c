/*
 * tests/coord/pair.c: an engine for each of several hosts, on one loop.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/call/lanes.h"
#include "segment/hosts.h"

struct mu_coord *pair_coords[HOSTS_MAX];
struct mu_lanes *pair_lanes[HOSTS_MAX];
static struct muster *observers[HOSTS_MAX];
static bool is_open;

void pair_coord_opens(uint32_t host, const struct mu_coord_options *options)
{
    struct mu_coord_options o = options ? *options : (struct mu_coord_options){0};
    struct mu_core *core = hosts_lock(cast_hosts, host);

    assert_non_null(core);
    assert_int_equal(mu_lanes_make(core, &pair_lanes[host]), MUSTER_OK);
    hosts_unlock(cast_hosts, host);
    o.loop = &counter_loop;
    o.m = observers[host];
    o.lanes = pair_lanes[host];
    if (mu_coord_open(&o, &pair_coords[host]))
        fail_msg("no engine: %s", muster_last_error());
}

static bool are_up(void)
{
    for (uint32_t i = 1; i < hosts_count(cast_hosts); i++)
        if (mu_host_bridge_state(hosts_segment(cast_hosts, i)) != MU_BRIDGE_UP)
            return false;
    return true;
}

void pair_begin(const struct mu_coord_options *options)
{
    hosts_await(cast_hosts, are_up(), "the hosts have met");
    counter_begin_loop(hosts_segment(cast_hosts, 0)->num_tasks);
    is_open = true;
    for (uint32_t i = 0; i < hosts_count(cast_hosts); i++) {
        observers[i] = hosts_observer(cast_hosts, i);
        pair_coord_opens(i, options);
    }
    coord = pair_coords[0];
}

void pair_open(const struct hosts_config *config, const struct mu_coord_options *options)
{
    cast_open(config);
    pair_begin(options);
}

static void end_lanes(uint32_t host)
{
    struct mu_core *core;

    if (!pair_lanes[host])
        return;
    core = hosts_lock(cast_hosts, host);
    mu_lanes_free(pair_lanes[host]);
    if (core)
        hosts_unlock(cast_hosts, host);
    pair_lanes[host] = NULL;
}

void pair_coord_closes(uint32_t host)
{
    const struct muster_segment *seg = hosts_segment(cast_hosts, 0);

    for (uint32_t i = 0; i < seg->num_tasks; i++)
        if (mu_host_of(seg, i) == host)
            counter_hang_up((int)i);
    mu_coord_free(pair_coords[host]);
    pair_coords[host] = NULL;
    for (int i = 0; i < 3; i++)
        counter_turn();
    end_lanes(host);
}

static void end_coords(void)
{
    is_open = false;
    counter_hang_up_all();
    for (uint32_t i = 0; i < hosts_count(cast_hosts); i++)
        mu_coord_free(pair_coords[i]);
    memset(pair_coords, 0, sizeof pair_coords);
    coord = NULL;
    counter_end_loop();
    for (uint32_t i = 0; i < hosts_count(cast_hosts); i++) {
        end_lanes(i);
        assert_int_equal(muster_leave(observers[i]), MUSTER_OK);
    }
}

void pair_close(void)
{
    end_coords();
    cast_close();
}

int pair_strike(void)
{
    if (!is_open)
        return 0;
    /* what a failed test leaves is unsound: its processes and segments go with the runner */
    coord = NULL;
    is_open = false;
    return -1;
}

/* ---- one host's guests, and the leader elsewhere ---- */

void counter_open_far(uint32_t tasks, const struct mu_coord_options *options, uint64_t heartbeat_ns)
{
    const struct hosts_config c = {
        .tasks = {HOSTS_NONE, tasks},
        .segment = {
            .num_buckets = 1024, .num_events = 64, .heap_bytes = 64u << 20, .heartbeat_timeout_ns = heartbeat_ns}};

    pair_open(&c, options);
    coord = pair_coords[1];
    stage_observer = observers[1];
    counter_is_far = true;
}

void counter_close_far(void)
{
    stage_observer = NULL;
    hosts_mend(cast_hosts);
    counter_is_far = false;
    pair_close();
}

int counter_strike_far(void)
{
    stage_observer = NULL;
    counter_is_far = false;
    return pair_strike();
}

void counter_disturb(uint32_t how, uint32_t frames)
{
    if (!counter_is_far)
        return;
    if (how == 0)
        hosts_cut(cast_hosts, 1);
    else if (how == 1)
        hosts_cut_after(cast_hosts, 1, frames);
    else
        hosts_mend(cast_hosts);
}

void counter_near_alone(void)
{
    print_message("skipped: of the leader's host alone\n");
    skip();
}

int pair_as(int guest)
{
    coord = pair_coords[mu_host_of(hosts_segment(cast_hosts, 0), (uint32_t)guest)];
    return guest;
}

struct cast_reply pair_hear(uint32_t task)
{
    counter_await(cast_has_answered(task), "the task answers");
    return cast_hear(task);
}

struct cast_reply pair_do(uint32_t task, const struct cast_act *act)
{
    cast_tell(task, act);
    return pair_hear(task);
}

void pair_register_all(void)
{
    uint32_t tasks = hosts_segment(cast_hosts, 0)->num_tasks;

    for (uint32_t i = 0; i < tasks; i++)
        if (!cast_pid(i)) {
            pair_as((int)i);
            assert_answer(do_register((int)i, INCARNATION(i)), MUSTER_OK);
        }
    for (uint32_t i = 0; i < tasks; i++)
        cast_until_known(i, true);
}
