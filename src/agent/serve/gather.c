/*
 * agent/serve/gather.c: rounds in which every host gives bytes and gets those of all.
 *
 * Host 0 keeps the rounds: a part goes to the oldest round of its name that lacks one from that host. When the last
 * part has come the answer goes to each host of the round, host 0 itself included, and there to the oldest of its own
 * that waits for that name. What the hosts say to each other comes once and in order (bridge/core/control.h), so no
 * round bears a number.
 *
 * A message of the agents has a bound: parts and answers go in pieces, each with the whole's length; those of one are
 * sent without anything between them. A round that has failed stays until each of its hosts has given or is lost, and
 * a host that gives to it is told: else a late part would be taken for the next round's.
 *
 * One that gives to no round again (its agent is another, or is lost) fails those that need it. Afterwards nothing is
 * gathered on that host: it does not know which rounds are which.
 */
#include "agent/serve/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/private.h"
#include "agent/serve/pieces.h"
#include "base/list.h"
#include "base/error.h"

enum { WHY_MAX = 400, ROUNDS_MAX = 4096 };

/* Host 0's. */
struct round {
    struct round *next;
    uint32_t num_parts, num_here;
    uint32_t *hosts;
    struct gather_part {
        uint8_t *bytes;
        size_t len;
        bool here;
    } * parts;
    size_t len; /* of all parts */
    bool failed;
    char why[WHY_MAX];
    char name[MU_GATHER_NAME_MAX + 1];
};

struct waiting {
    struct waiting *next;
    mu_gather_done *done;
    void *arg;
    char name[MU_GATHER_NAME_MAX + 1];
};

struct mu_gathers {
    uint32_t self, num_hosts;
    mu_gathers_tell *tell;
    void *arg;
    struct round *rounds;
    uint32_t num_rounds;
    struct waiting *waiting;
    bool *lost; /* of each host */
    char why_lost[WHY_MAX];
    struct mu_pieces coming[];
};

/* ---- answers ---- */

static void answer_here(struct mu_gathers *g, const char *name, enum muster_status status,
                        const struct mu_gathered *all)
{
    struct waiting **link = &g->waiting, *it;

    while ((it = *link) && strcmp(it->name, name) != 0)
        link = &it->next;
    if (!it)
        return;
    *link = it->next;
    it->done(it->arg, status, all);
    free(it);
}

static void fail_here(struct mu_gathers *g, const char *name, const char *why)
{
    answer_here(g, name, MUSTER_ABORTED, &(struct mu_gathered){.why = why});
}

static void tell_failure(struct mu_gathers *g, uint32_t host, const struct round *round)
{
    struct mu_pack whole = {.bytes = NULL};

    if (host == g->self) {
        fail_here(g, round->name, round->why);
        return;
    }
    mu_pack_u32(&whole, MUSTER_ABORTED);
    mu_pack_text(&whole, round->why);
    mu_pack_u32(&whole, 0);
    mu_pieces_say(g->tell, g->arg, host, round->name, &whole);
    mu_pack_done(&whole);
}

static void forget_round(struct mu_gathers *g, struct round *round)
{
    MU_CHAIN_DROP(g->rounds, round, next);
    g->num_rounds--;
    for (uint32_t i = 0; i < round->num_parts; i++)
        free(round->parts[i].bytes);
    free(round->parts);
    free(round->hosts);
    free(round);
}

/* The hosts that have given are told; the others when they give. */
static void fail_round(struct mu_gathers *g, struct round *round, const char *why)
{
    if (round->failed)
        return;
    round->failed = true;
    snprintf(round->why, sizeof round->why, "%s", why);
    for (uint32_t i = 0; i < round->num_parts; i++) {
        free(round->parts[i].bytes);
        round->parts[i].bytes = NULL;
        if (round->parts[i].here && !g->lost[round->hosts[i]])
            tell_failure(g, round->hosts[i], round);
    }
}

static void answer_round(struct mu_gathers *g, struct round *round)
{
    struct mu_gathered_part *parts = calloc(round->num_parts, sizeof *parts);
    struct mu_pack whole = {.bytes = NULL};
    bool here = false;

    mu_pack_u32(&whole, MUSTER_OK);
    mu_pack_text(&whole, "");
    mu_pack_u32(&whole, round->num_parts);
    for (uint32_t i = 0; i < round->num_parts; i++) {
        mu_pack_blob(&whole, round->parts[i].bytes, round->parts[i].len);
        if (parts)
            parts[i] = (struct mu_gathered_part){round->parts[i].bytes, round->parts[i].len};
        here |= round->hosts[i] == g->self;
    }
    if (whole.failed || !parts) {
        fail_round(g, round, "out of memory");
    } else {
        for (uint32_t i = 0; i < round->num_parts; i++)
            if (round->hosts[i] != g->self)
                mu_pieces_say(g->tell, g->arg, round->hosts[i], round->name, &whole);
        if (here)
            answer_here(g, round->name, MUSTER_OK, &(struct mu_gathered){round->num_parts, parts, ""});
    }
    mu_pack_done(&whole);
    free(parts);
}

/* ---- host 0 puts them together ---- */

static struct gather_part *part_of(struct round *round, uint32_t host)
{
    for (uint32_t i = 0; i < round->num_parts; i++)
        if (round->hosts[i] == host)
            return &round->parts[i];
    return NULL;
}

/* The oldest of this name that lacks one from the host; NULL: none. */
static struct round *find_round(struct mu_gathers *g, const char *name, uint32_t host)
{
    for (struct round *round = g->rounds; round; round = round->next) {
        const struct gather_part *part = strcmp(round->name, name) == 0 ? part_of(round, host) : NULL;

        if (part && !part->here)
            return round;
    }
    return NULL;
}

static struct round *find_any(struct mu_gathers *g, uint32_t host)
{
    for (struct round *round = g->rounds; round; round = round->next) {
        const struct gather_part *part = part_of(round, host);

        if (part && !part->here)
            return round;
    }
    return NULL;
}

/* One that is lost has given all that it will. */
static void count_lost(struct mu_gathers *g, struct round *round)
{
    for (uint32_t i = 0; i < round->num_parts; i++) {
        if (!g->lost[round->hosts[i]] || round->parts[i].here)
            continue;
        fail_round(g, round, g->why_lost);
        round->parts[i].here = true;
        round->num_here++;
    }
}

static struct round *new_round(struct mu_gathers *g, const char *name, const uint32_t *hosts, uint32_t num_hosts)
{
    struct round **link = &g->rounds, *round = calloc(1, sizeof *round);

    if (!round)
        return NULL;
    round->num_parts = num_hosts;
    round->hosts = malloc(num_hosts * sizeof *hosts);
    round->parts = calloc(num_hosts, sizeof *round->parts);
    if (!round->hosts || !round->parts) {
        free(round->hosts);
        free(round->parts);
        free(round);
        return NULL;
    }
    memcpy(round->hosts, hosts, num_hosts * sizeof *hosts);
    snprintf(round->name, sizeof round->name, "%s", name);
    while (*link)
        link = &(*link)->next;
    *link = round;
    g->num_rounds++;
    count_lost(g, round);
    return round;
}

static void take_part(struct mu_gathers *g, uint32_t host, const char *name, const uint32_t *hosts, uint32_t num_hosts,
                      const void *bytes, size_t len)
{
    struct round *round = find_round(g, name, host);
    struct gather_part *part;

    if (!round && g->num_rounds < ROUNDS_MAX)
        round = new_round(g, name, hosts, num_hosts);
    part = round ? part_of(round, host) : NULL;
    if (!part) /* no memory: its waiter is answered when the job ends */
        return;
    part->here = true;
    round->num_here++;
    if (!round->failed && round->len + len > MU_PIECES_MAX - (64u << 10) - 8 * round->num_parts)
        fail_round(g, round, "the hosts gave more than can be put together");
    else if (round->failed && !g->lost[host])
        tell_failure(g, host, round);
    if (!round->failed) {
        part->bytes = malloc(len + 1);
        part->len = len;
        round->len += len;
        if (part->bytes && len > 0)
            memcpy(part->bytes, bytes, len);
        if (!part->bytes)
            fail_round(g, round, "out of memory");
    }
    if (round->num_here < round->num_parts)
        return;
    if (!round->failed)
        answer_round(g, round);
    forget_round(g, round);
}

/* ---- what comes ---- */

static void hear_part(struct mu_gathers *g, uint32_t host, const struct mu_pieces *coming)
{
    struct mu_unpack u = mu_unpack_of(coming->bytes, coming->len);
    uint32_t num_hosts = mu_unpack_u32(&u), *hosts;
    const void *bytes;
    size_t len;
    bool sound = num_hosts > 0 && num_hosts <= g->num_hosts;

    hosts = sound ? malloc(num_hosts * sizeof *hosts) : NULL;
    for (uint32_t i = 0; hosts && i < num_hosts; i++) {
        hosts[i] = mu_unpack_u32(&u);
        sound &= hosts[i] < g->num_hosts && (i == 0 || hosts[i] > hosts[i - 1]);
    }
    bytes = mu_unpack_blob(&u, MU_GATHER_BYTES_MAX, &len);
    if (hosts && sound && mu_unpack_end(&u))
        take_part(g, host, coming->name, hosts, num_hosts, bytes, len);
    free(hosts);
}

static void hear_answer(struct mu_gathers *g, const struct mu_pieces *coming)
{
    struct mu_unpack u = mu_unpack_of(coming->bytes, coming->len);
    enum muster_status status = (enum muster_status)mu_unpack_u32(&u);
    struct mu_gathered_part *parts = NULL;
    char why[WHY_MAX] = "";
    uint32_t num_parts;

    mu_unpack_text(&u, why, sizeof why);
    num_parts = mu_unpack_u32(&u);
    if (num_parts <= g->num_hosts)
        parts = calloc(num_parts + 1, sizeof *parts);
    for (uint32_t i = 0; parts && i < num_parts; i++)
        parts[i].bytes = mu_unpack_blob(&u, MU_GATHER_BYTES_MAX, &parts[i].len);
    if (!parts || !mu_unpack_end(&u))
        fail_here(g, coming->name, "host 0's answer cannot be read");
    else
        answer_here(g, coming->name, status, &(struct mu_gathered){num_parts, parts, why});
    free(parts);
}

void mu_gathers_hear(struct mu_gathers *g, uint32_t host, struct mu_unpack *u)
{
    struct mu_pieces whole;

    if (host >= g->num_hosts || host == g->self || g->lost[host] || !mu_pieces_hear(&g->coming[host], u))
        return;
    whole = g->coming[host];
    g->coming[host] = (struct mu_pieces){.bytes = NULL};
    if (g->self == 0)
        hear_part(g, host, &whole);
    else
        hear_answer(g, &whole);
    free(whole.bytes);
}

/* ---- giving ---- */

static enum muster_status gather_check(const struct mu_gathers *g, const uint32_t *hosts, uint32_t num_hosts,
                                       const char *name, size_t len)
{
    bool has_self = false;

    if (strlen(name) > MU_GATHER_NAME_MAX || !*name)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a round's name has 1 to %u bytes", MU_GATHER_NAME_MAX);
    if (len > MU_GATHER_BYTES_MAX)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "a host gives at most %u bytes to a round, not %zu",
                       MU_GATHER_BYTES_MAX, len);
    for (uint32_t i = 0; i < num_hosts; i++) {
        if (hosts[i] >= g->num_hosts || (i > 0 && hosts[i] <= hosts[i - 1]))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "a round's hosts are not ascending numbers below %u", g->num_hosts);
        has_self |= hosts[i] == g->self;
    }
    if (!has_self)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "this host, %u, is none of the round's", g->self);
    if (g->self > 0 && g->lost[0])
        return mu_fail(MUSTER_ABORTED, "%s", g->why_lost);
    return MUSTER_OK;
}

static void give_to_leader(struct mu_gathers *g, const uint32_t *hosts, uint32_t num_hosts, const char *name,
                           const void *bytes, size_t len)
{
    struct mu_pack whole = {.bytes = NULL};

    mu_pack_u32(&whole, num_hosts);
    for (uint32_t i = 0; i < num_hosts; i++)
        mu_pack_u32(&whole, hosts[i]);
    mu_pack_blob(&whole, bytes, len);
    if (whole.failed)
        fail_here(g, name, "out of memory");
    else
        mu_pieces_say(g->tell, g->arg, 0, name, &whole);
    mu_pack_done(&whole);
}

enum muster_status mu_gathers_give(struct mu_gathers *g, const uint32_t *hosts, uint32_t num_hosts, const char *name,
                                   const void *bytes, size_t len, mu_gather_done *done, void *arg)
{
    enum muster_status status = gather_check(g, hosts, num_hosts, name, len);
    struct waiting **link = &g->waiting, *it;

    if (status != MUSTER_OK)
        return status;
    if (num_hosts == 1) { /* alone */
        done(arg, MUSTER_OK, &(struct mu_gathered){1, &(struct mu_gathered_part){bytes, len}, ""});
        return MUSTER_OK;
    }
    it = calloc(1, sizeof *it);
    if (!it)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    it->done = done;
    it->arg = arg;
    snprintf(it->name, sizeof it->name, "%s", name);
    while (*link)
        link = &(*link)->next;
    *link = it;
    if (g->self == 0)
        take_part(g, 0, name, hosts, num_hosts, bytes, len);
    else
        give_to_leader(g, hosts, num_hosts, name, bytes, len);
    return MUSTER_OK;
}

/* ---- what goes wrong ---- */

void mu_gathers_lost(struct mu_gathers *g, uint32_t host, const char *why)
{
    struct round *round;

    if (host >= g->num_hosts || host == g->self || g->lost[host])
        return;
    g->lost[host] = true;
    snprintf(g->why_lost, sizeof g->why_lost, "%s", why);
    while ((round = find_any(g, host))) { /* a callback may have begun others, and ended some */
        count_lost(g, round);
        if (round->num_here == round->num_parts)
            forget_round(g, round);
    }
    while (g->self > 0 && host == 0 && g->waiting)
        fail_here(g, g->waiting->name, why);
}

static struct round *oldest_round(const struct mu_gathers *g, const char *name)
{
    struct round *round = g->rounds;

    while (round && (round->failed || strcmp(round->name, name) != 0))
        round = round->next;
    return round;
}

uint32_t mu_gathers_missing(const struct mu_gathers *g, const char *name, uint32_t *ret_hosts, uint32_t most)
{
    const struct round *round = oldest_round(g, name);
    uint32_t count = 0;

    for (uint32_t i = 0; round && i < round->num_parts; i++) {
        if (round->parts[i].here)
            continue;
        if (count < most)
            ret_hosts[count] = round->hosts[i];
        count++;
    }
    return count;
}

void mu_gathers_fail(struct mu_gathers *g, const char *name, const char *why)
{
    struct round *round = oldest_round(g, name);

    if (round)
        fail_round(g, round, why);
}

struct mu_gathers *mu_gathers_new(uint32_t self, uint32_t num_hosts, mu_gathers_tell *tell, void *arg)
{
    struct mu_gathers *g = calloc(1, sizeof *g + num_hosts * sizeof g->coming[0]);

    if (!g)
        return NULL;
    *g = (struct mu_gathers){.self = self, .num_hosts = num_hosts, .tell = tell, .arg = arg};
    g->lost = calloc(num_hosts, sizeof *g->lost);
    if (g->lost)
        return g;
    free(g);
    return NULL;
}

void mu_gathers_free(struct mu_gathers *g, const char *why)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->num_hosts; i++) /* a callback that gives again now is refused */
        g->lost[i] = i != g->self;
    snprintf(g->why_lost, sizeof g->why_lost, "%s", why);
    while (g->waiting)
        fail_here(g, g->waiting->name, why);
    while (g->rounds)
        forget_round(g, g->rounds);
    for (uint32_t i = 0; i < g->num_hosts; i++)
        free(g->coming[i].bytes);
    free(g->lost);
    free(g);
}
