/*
 * bridge/member/roster.c: the hosts, as the leader knows them, in every host's table.
 *
 * A follower tells its name and its agent's pid when it connects; the leader tells all of all: a change of name or
 * state at once, what it measures now and then. Each agent alone writes its own host's table.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge/member/members.h"

#define MEASURED_NS 4000000000u /* between two tellings of round trips; with many hosts longer */
#define RIDE_NS     200000000u  /* a turn that comes by itself meanwhile will do */

static struct mu_host *host_at(const struct mu_core *core, uint32_t host)
{
    return &core->seg->hosts[host];
}

/* relaxed, all of the table: one agent writes, for people; nothing hangs on the order */
static void word_set(mu_a64 *word, uint64_t value)
{
    mu_store_relaxed(word, value);
}
static uint64_t word_get(const mu_a64 *word)
{
    return mu_load_relaxed(word); /* relaxed: as above */
}

static bool has_name(const struct mu_core *core, uint32_t host)
{
    return word_get(&host_at(core, host)->name[0]) != 0;
}

/* Something is known of the host that the others are to be told. */
static void row_changed(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);

    m->roster++;
    if (core->leader)
        m->hosts_changed[host] = m->roster;
}

static void set_name(struct mu_core *core, uint32_t host, const char *name)
{
    struct members *m = mu_members_of(core);
    char before[64] = "";

    if (has_name(core, host))
        mu_host_name(core->seg, host, before, sizeof before);
    if (!name[0] || host == core->host || !strcmp(before, name))
        return;
    mu_host_set_name(core->seg, host, name);
    if (core->leader)
        m->named[host] = m->roster + 1; /* of the change that follows */
}

static void put_state(const struct mu_core *core, uint32_t host, uint32_t state, uint64_t since)
{
    word_set(&host_at(core, host)->state, state);
    word_set(&host_at(core, host)->since, since);
}

bool mu_roster_init(struct mu_core *core)
{
    struct members *m = mu_members_of(core);

    m->hosts_changed = calloc(core->num_hosts, sizeof *m->hosts_changed);
    m->named = calloc(core->num_hosts, sizeof *m->named);
    m->rtt_told = calloc(core->num_hosts, sizeof *m->rtt_told);
    return m->hosts_changed && m->named && m->rtt_told;
}

void mu_roster_begin(struct mu_core *core)
{
    if (!has_name(core, core->host))
        mu_host_set_name(core->seg, core->host, core->seg->header->host);
    word_set(&host_at(core, core->host)->agent_pid, (uint64_t)getpid());
    put_state(core, core->host, MU_HOST_UP, core->now);
    row_changed(core, core->host);
}

void mu_roster_set(struct mu_core *core, uint32_t host, uint32_t state)
{
    put_state(core, host, state, core->now);
    if (core->leader)
        row_changed(core, host);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static uint64_t age_of(const struct mu_core *core, uint64_t when)
{
    return when && when < core->now ? core->now - when : 0;
}

static void pack_host(struct mu_core *core, struct mu_pack *p, uint32_t host, bool with_name)
{
    const struct mu_host *h = host_at(core, host);
    char name[64] = "";

    if (with_name && has_name(core, host))
        mu_host_name(core->seg, host, name, sizeof name);
    mu_pack_var(p, host);
    mu_pack_u8(p, (uint8_t)word_get(&h->state));
    mu_pack_var(p, age_of(core, word_get(&h->since)) / 1000);
    mu_pack_var(p, age_of(core, word_get(&h->heard)) / 1000);
    mu_pack_var(p, word_get(&h->rtt));
    mu_pack_var(p, word_get(&h->rtt_min));
    mu_pack_var(p, word_get(&h->agent_pid));
    mu_pack_u8(p, (uint8_t)strlen(name));
    mu_pack_raw(p, name, strlen(name));
}

/* What is new to a host that was told up to `told`. It is packed once for all such hosts of a turn: mostly all. */
static const struct mu_pack *news_since(struct mu_core *core, uint64_t told)
{
    struct members *m = mu_members_of(core);
    struct mu_news *n = &m->news;

    if (n->roster == m->roster && n->told == told && n->at == core->now && !n->list.failed)
        return &n->list;
    mu_pack_reset(&n->list);
    for (uint32_t i = 0; i < core->num_hosts; i++)
        if (!told || m->hosts_changed[i] > told)
            pack_host(core, &n->list, i, !told || m->named[i] > told);
    n->roster = m->roster;
    n->told = told;
    n->at = core->now;
    return &n->list;
}

static const struct mu_pack *own_news(struct mu_core *core)
{
    struct mu_pack *list = &mu_members_of(core)->news.list;

    mu_pack_reset(list);
    pack_host(core, list, core->host, true);
    return list;
}

void mu_roster_tell(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);
    const struct mu_pack *list;

    if (m->told[host].roster == m->roster)
        return;
    list = core->leader ? news_since(core, m->told[host].roster) : own_news(core);
    if (list->failed)
        core->peers[host].front.failed = true;
    else if (list->len)
        mu_core_send_front(core, host, MU_FRAME_HOSTS, list->bytes, list->len);
    m->told[host].roster = m->roster;
}

/* What is measured has moved by a quarter, since it was told. */
static bool has_moved(uint64_t told, uint64_t now)
{
    return (told > now ? told - now : now - told) > told / 4;
}

void mu_roster_look(struct mu_core *core)
{
    struct members *m = mu_members_of(core);

    mu_core_trim(&m->news.list);
    m->news.roster = 0;
    if (!core->leader || core->now < m->roster_at)
        return;
    m->roster_at = core->now + MEASURED_NS + (uint64_t)core->num_hosts * 10000000u;
    for (uint32_t i = 0; i < core->num_hosts; i++) {
        uint64_t rtt = word_get(&host_at(core, i)->rtt);

        if (has_moved(m->rtt_told[i], rtt)) {
            m->rtt_told[i] = rtt;
            row_changed(core, i);
        }
    }
}

uint64_t mu_roster_next(struct mu_core *core)
{
    return core->leader ? mu_members_of(core)->roster_at + RIDE_NS : UINT64_MAX;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

struct roster_entry {
    uint64_t host, state, since, heard, rtt, rtt_min, pid;
    char name[64];
};

static void take_name(struct mu_unpack *u, char name[64])
{
    size_t len = mu_unpack_u8(u);
    const char *bytes = len < 64 ? mu_unpack_raw(u, len) : NULL;

    name[0] = 0;
    u->failed |= !bytes || memchr(bytes, 0, len);
    if (u->failed)
        return;
    memcpy(name, bytes, len);
    name[len] = 0;
    for (char *c = name; *c; c++) /* for people's terminals */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
}

static bool take_entry(const struct mu_core *core, uint32_t host, struct mu_unpack *u, struct roster_entry *e)
{
    e->host = mu_unpack_var(u);
    e->state = mu_unpack_u8(u);
    e->since = mu_unpack_var(u);
    e->heard = mu_unpack_var(u);
    e->rtt = mu_unpack_var(u);
    e->rtt_min = mu_unpack_var(u);
    e->pid = mu_unpack_var(u);
    take_name(u, e->name);
    u->failed |= e->since > UINT64_MAX / 1000 || e->heard > UINT64_MAX / 1000;
    if (u->failed || e->host >= core->num_hosts || e->state > MU_HOST_LEFT || e->pid > UINT32_MAX ||
        (core->leader && e->host != host)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "what it says of host %llu cannot be", (unsigned long long)e->host);
        return false;
    }
    e->since *= 1000;
    e->heard *= 1000;
    return true;
}

static uint64_t time_of(const struct mu_core *core, uint64_t ago)
{
    return ago < core->now ? core->now - ago : 0;
}

/* What the leader says of others: our own table has itself, and its connection to the leader. */
static void row_learn(struct mu_core *core, const struct roster_entry *e)
{
    struct mu_host *h = host_at(core, (uint32_t)e->host);

    if (e->host == core->host)
        return;
    word_set(&h->agent_pid, e->pid);
    if (e->host == 0)
        return;
    if (word_get(&h->state) != e->state)
        put_state(core, (uint32_t)e->host, (uint32_t)e->state, time_of(core, e->since));
    word_set(&h->heard, time_of(core, e->heard));
    word_set(&h->rtt, e->rtt);
    word_set(&h->rtt_min, e->rtt_min);
}

bool mu_take_hosts(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct roster_entry e;

    while (u->left) {
        if (!take_entry(core, host, u, &e))
            return false;
        set_name(core, (uint32_t)e.host, e.name);
        if (!core->leader) {
            row_learn(core, &e);
            continue;
        }
        word_set(&host_at(core, host)->agent_pid, e.pid);
        row_changed(core, host);
    }
    mu_core_worked(core);
    return true;
}
