/*
 * tests/bridgesim/lanes.c: agents that call for others: loops that ask by lanes (bridge/call/lanes.h), drop what they
 * have asked, and ask something else instead. What was answered was done once, what was not, once at most; and nothing
 * of it is left at the leader.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/call/calls.h"
#include "bridge/call/lanes.h"
#include "sim.h"

enum { ASKERS = 3, TAGS = 64, LOG_MAX = TAGS * 4 };
enum told { NEVER, ASKED, DONE, UNSURE };

struct asker {
    struct mu_lane_call call;
    uint32_t host, tag;
    bool busy;
};

static struct loop {
    struct mu_lanes *lanes;
    struct asker askers[ASKERS];
    uint32_t left, num_tags;
    enum told told[TAGS];
} loops[SIM_HOSTS];

void sim_lanes_draw(void)
{
    memset(loops, 0, sizeof loops);
    for (uint32_t i = 1; i < sim.num_hosts; i++)
        loops[i].left = (uint32_t)sim_random(TAGS);
    sim.lanes = true;
}

void sim_lanes_begin(uint32_t host)
{
    if (host && sim.lanes && mu_lanes_make(&sim.hosts[host].core, &loops[host].lanes) != MUSTER_OK)
        sim_fail("host %u has no lanes: %s", host, muster_last_error());
}

void sim_lanes_end(uint32_t host)
{
    struct loop *l = &loops[host];

    if (!host || !sim.lanes)
        return;
    for (int i = 0; i < ASKERS; i++) {
        if (l->askers[i].busy)
            l->told[l->askers[i].tag] = UNSURE;
        l->askers[i].busy = false;
    }
    mu_lanes_free(l->lanes);
    l->lanes = NULL;
}

static void answered(struct mu_lane_call *call, enum muster_status status, const char *text, struct mu_unpack body)
{
    struct asker *a = call->arg;

    (void)body;
    SIM_CHECK(status == MUSTER_OK && a->busy, "host %u, by a lane: %s", a->host, text);
    loops[a->host].told[a->tag] = DONE;
    a->busy = false;
}

/* A tag to be appended; or instead of another. */
static void ask(uint32_t host, struct asker *a, bool again)
{
    struct loop *l = &loops[host];
    char key[16], text[16];

    l->left--;
    a->host = host;
    a->tag = l->num_tags++;
    a->busy = true;
    a->call.op = MU_OP_KV_APPEND;
    a->call.what = "the simulation";
    a->call.answered = answered;
    a->call.arg = a;
    snprintf(key, sizeof key, "lane/%u", host);
    snprintf(text, sizeof text, "%u;", a->tag);
    mu_pack_text(&a->call.request, key);
    mu_pack_u64(&a->call.request, 0);
    mu_pack_raw(&a->call.request, text, strlen(text));
    l->told[a->tag] = ASKED;
    SIM_CHECK((again ? mu_lanes_again : mu_lanes_ask)(l->lanes, &a->call) == MUSTER_OK, "host %u: %s", host,
              muster_last_error());
    sim_say("host %u asks for tag %u by a lane%s", host, a->tag, again ? ", instead of another" : "");
    sim.hosts[host].awake = true;
}

static bool take(struct loop *l)
{
    uint32_t before = 0, after = 0;

    for (int i = 0; i < ASKERS; i++)
        before += l->askers[i].busy;
    mu_lanes_take(l->lanes);
    for (int i = 0; i < ASKERS; i++)
        after += l->askers[i].busy;
    return after != before;
}

bool sim_lanes_step(uint32_t host)
{
    struct loop *l = &loops[host];
    struct asker *a = &l->askers[sim_random(ASKERS)];

    if (!l->lanes)
        return false;
    if (take(l))
        return true;
    if (!a->busy && l->left) {
        ask(host, a, false);
        return true;
    }
    if (!a->busy || !sim_chance(10))
        return false;
    l->told[a->tag] = UNSURE;
    if (l->left && sim_chance(2)) {
        ask(host, a, true);
        return true;
    }
    sim_say("host %u drops tag %u", host, a->tag);
    mu_lanes_drop(l->lanes, &a->call);
    a->busy = false;
    return true;
}

bool sim_lanes_over(void)
{
    for (uint32_t i = 0; i < SIM_HOSTS; i++)
        for (int k = 0; k < ASKERS; k++)
            if (loops[i].left || loops[i].askers[k].busy)
                return false;
    return true;
}

static void check_log(uint32_t host, const char *text)
{
    struct loop *l = &loops[host];
    uint32_t seen[TAGS] = {0};

    while (*text) {
        uint32_t tag;
        int n = 0;

        SIM_CHECK(sscanf(text, "%u;%n", &tag, &n) == 1 && n && tag < l->num_tags, "lane/%u holds '%.20s'", host, text);
        SIM_CHECK(!seen[tag]++, "lane/%u: tag %u was appended twice", host, tag);
        text += n;
    }
    for (uint32_t i = 0; i < l->num_tags; i++)
        SIM_CHECK(l->told[i] != DONE || seen[i], "lane/%u: tag %u was acknowledged, and is not there", host, i);
}

void sim_lanes_check(void)
{
    for (uint32_t i = 1; i < sim.num_hosts; i++) {
        const struct host_calls *calls = mu_calls_of_host(&sim.hosts[0].core, i);
        char key[16], text[LOG_MAX + 1];
        size_t len = 0;
        enum muster_status status;

        snprintf(key, sizeof key, "lane/%u", i);
        status = muster_kv_try_get(sim.hosts[0].agent, key, MUSTER_NTS, text, LOG_MAX, &len, NULL);
        SIM_CHECK(status == MUSTER_OK || status == MUSTER_NOT_FOUND, "%s: %s", key, muster_last_error());
        text[status ? 0 : len] = 0;
        check_log(i, text);
        SIM_CHECK(!calls->open && !calls->unsettled, "host %u has %u calls open, %zu bytes unacknowledged", i,
                  calls->open, calls->unsettled);
    }
}
