/*
 * barrier/shortcut.c: what a member does of barrier/shortcut.h: the speaker's socket, committing, sending and hearing;
 * and asking the agents (their part is bridge/group/groups_shortcut.c).
 *
 * The invariant: a host that has let its proxy arrive at an instance has committed to it, and so has the other one; a
 * host that has committed never fails it by itself. The commit is the CAS in mu_area_trust(), against closing (on the
 * leader's host) and barring (on the other). Killed before it, nothing was said; killed behind it and before the
 * datagram is out, the word says what the agent has to say, once a waiter has asked for it.
 */
#include "barrier/shortcut.h"

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "barrier/group.h"
#include "base/siphash.h"
#include "segment/table.h"

enum { MISSES = 16 }; /* so many instances in turn without a datagram: it seems that they do not get through */

unsigned (*mu_shortcut_fate)(uint64_t instance);

uint32_t mu_shortcut_room(uint32_t data_bytes)
{
    uint32_t half = (uint32_t)(sizeof(struct mu_shortcut) + 1) / 2;

    return data_bytes > half ? data_bytes : half;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

bool mu_shortcut_encode(const struct sockaddr_storage *a, uint64_t ret_words[3])
{
    memset(ret_words, 0, 3 * sizeof *ret_words);
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;

        ret_words[0] = 4;
        memcpy(&ret_words[1], &in->sin_addr, sizeof in->sin_addr);
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;

        ret_words[0] = 6 | (uint64_t)in->sin6_scope_id << 32;
        memcpy(&ret_words[1], &in->sin6_addr, sizeof in->sin6_addr);
    }
    return ret_words[0] != 0;
}

socklen_t mu_shortcut_decode(const uint64_t words[3], uint16_t port, struct sockaddr_storage *ret_a)
{
    struct sockaddr_in *in = (struct sockaddr_in *)ret_a;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_a;

    memset(ret_a, 0, sizeof *ret_a);
    if ((uint16_t)words[0] == 4) {
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, &words[1], sizeof in->sin_addr);
        return sizeof *in;
    }
    if ((uint16_t)words[0] != 6)
        return 0;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    in6->sin6_scope_id = (uint32_t)(words[0] >> 32);
    memcpy(&in6->sin6_addr, &words[1], sizeof in6->sin6_addr);
    return sizeof *in6;
}

/* ---- what the agent says ----------------------------------------------------------------------------------------- */

/* Begin to read what the agent writes under `sight`. False: it is writing. */
static bool begin_read(const struct mu_shortcut *way, uint64_t *ret_sight)
{
    /* acquire: pairs with the agent's release at the end of its writing */
    *ret_sight = mu_load_acquire(&way->sight);
    return !(*ret_sight & 1);
}

static bool end_read(const struct mu_shortcut *way, uint64_t sight)
{
    mu_fence_acquire(); /* pairs with the agent's release fence: what was read of a later writing shows its beginning */
    return mu_load_relaxed(&way->sight) == sight; /* relaxed: behind the fence */
}

static void read_words(uint64_t *to, const mu_a64 *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        /* relaxed: between begin_read() and end_read(); pairs with the agent's relaxed stores */
        to[i] = mu_load_relaxed(&from[i]);
}

/* ---- the socket -------------------------------------------------------------------------------------------------- */

static void close_socket(struct mu_shortcut_end *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    e->is_live = false;
}

/* At an address that the agent has told, at any port. False: there is no such address here, or no socket. */
static bool open_socket(struct mu_shortcut_end *e, const uint64_t own[3], uint16_t *ret_port)
{
    struct sockaddr_storage a;
    socklen_t len = mu_shortcut_decode(own, 0, &a);

    close_socket(e);
    if (!len)
        return false;
    e->fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&a, len) != 0 ||
        getsockname(e->fd, (struct sockaddr *)&a, &len) != 0) {
        close_socket(e);
        return false;
    }
    *ret_port =
        ntohs(a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port : ((struct sockaddr_in6 *)&a)->sin6_port);
    return true;
}

/* The agent wants one: it is told the port, and says so to the other host. */
static void shortcut_offer(struct muster_group *g, uint64_t state, const uint64_t own[3])
{
    struct mu_shortcut_end *e = &g->end;
    uint16_t port;

    if (!open_socket(e, own, &port))
        return;
    mu_store_release(&e->way->port, MU_SHORTCUT_NUMBER(state) << 16 | port); /* release: pairs with the agent's look */
    mu_bell_ring_always(g->muster->seg);
}

void mu_shortcut_look(struct muster_group *g)
{
    struct mu_shortcut_end *e = &g->end;
    uint64_t own[3], peer[3], keys[4], state, sight;
    struct sockaddr_storage a;
    socklen_t len;

    if (!e->is_speaker)
        return;
    state = mu_load_acquire(&e->way->state); /* acquire: pairs with the agent's store of it */
    if (state == e->state)
        return;
    e->is_live = false;
    if (!begin_read(e->way, &sight))
        return;
    read_words(own, e->way->own, 3);
    read_words(peer, e->way->peer, 3);
    read_words(keys, e->way->key_in, 2);
    read_words(keys + 2, e->way->key_out, 2);
    /* relaxed: a state that has gone on meanwhile is seen by the next look */
    if (!end_read(e->way, sight) || mu_load_relaxed(&e->way->state) != state)
        return;
    e->state = state;
    e->late = 0;
    if (MU_SHORTCUT_IS(state) == MU_SHORTCUT_WANTED)
        shortcut_offer(g, state, own);
    if (MU_SHORTCUT_IS(state) != MU_SHORTCUT_LIVE || e->fd < 0)
        return;
    len = mu_shortcut_decode(peer, (uint16_t)(peer[0] >> 16), &a);
    e->is_live = len && connect(e->fd, (struct sockaddr *)&a, len) == 0;
    memcpy(e->key_in, keys, sizeof e->key_in);
    memcpy(e->key_out, keys + 2, sizeof e->key_out);
}

void mu_shortcut_begin(struct muster_group *g)
{
    struct mu_shortcut_end *e = &g->end;

    e->fd = -1;
    if (!g->spans)
        return;
    e->way = (struct mu_shortcut *)(void *)g->proxy->data;
    e->is_speaker = g->place == 0;
}

void mu_shortcut_end(struct muster_group *g)
{
    if (g->end.way)
        close_socket(&g->end);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

void mu_shortcut_raise(mu_a64 *ask, uint64_t instance)
{
    uint64_t was = mu_load_relaxed(ask); /* relaxed: the CAS decides */

    /* acq_rel, and a fence behind it where it matters: pairs with the looks at it of members and agents */
    while (was < instance && !mu_cas_seen(ask, &was, instance))
        ;
}

void mu_shortcut_ask(struct muster_group *g, uint64_t instance)
{
    mu_shortcut_raise(&g->end.way->ask, instance);
    mu_bell_ring_always(g->muster->seg);
}

bool mu_shortcut_covers(struct muster_group *g, uint64_t instance)
{
    const struct mu_shortcut *way = g->end.way;

    /* relaxed, both: the caller's arrival and a full fence come before; pairs with an agent that raises `ask` or ends
     * the shortcut, and then looks at the arrivals */
    return MU_SHORTCUT_IS(mu_load_relaxed(&way->state)) == MU_SHORTCUT_LIVE && mu_load_relaxed(&way->ask) < instance;
}

/* ---- committing -------------------------------------------------------------------------------------------------- */

/* All of this host have arrived. */
static bool are_here(const struct muster_group *g, uint64_t instance)
{
    for (uint32_t i = 0; i + 1 < g->num_waits; i++)
        /* acquire, both: pairs with member_arrive(); what they did before is visible to look_back() */
        if (mu_load_acquire(&g->waits[i]->sign[instance & 1].instance) < instance &&
            !mu_has_arrived(mu_load_acquire(&g->waits[i]->arrived), instance))
            return false;
    return true;
}

/* Nobody gave anything: what members give goes by the agents. */
static bool is_bare(const struct muster_group *g, uint64_t instance)
{
    for (uint32_t i = 0; i + 1 < g->num_waits; i++) {
        uint64_t given = mu_load_relaxed(&g->waits[i]->sign[instance & 1].given); /* relaxed: are_here() acquired */

        if (MU_GIVEN_INSTANCE(given) == instance && MU_GIVEN_LEN(given))
            return false;
    }
    return true;
}

enum shortcut_view { CLEAN, DIRTY, UNSTEADY };

/* Whether all that the other host must know before has been told, with how many messages. */
static enum shortcut_view look_back(const struct muster_group *g, uint64_t *ret_told)
{
    const struct mu_shortcut *way = g->end.way;
    struct muster_segment *seg = g->muster->seg;
    struct mu_table t = mu_table_kv(seg);
    uint64_t sight, cluster, events, count;
    bool same = true;

    if (!begin_read(way, &sight))
        return UNSTEADY;
    read_words(ret_told, &way->told, 1);
    read_words(&cluster, &way->cluster, 1);
    read_words(&events, &way->events, 1);
    read_words(&count, &way->watched, 1);
    for (uint64_t i = 0; i < count && i < MU_SHORTCUT_WATCHED && same; i++) {
        uint64_t at, word;

        read_words(&at, &way->bucket[i].bucket, 1);
        read_words(&word, &way->bucket[i].word, 1);
        /* acquire: pairs with the commit CAS; what had come before an arrival is seen here */
        same = at <= t.mask && mu_word_same(mu_load_acquire(&t.buckets[at]), word);
    }
    if (!end_read(way, sight))
        return UNSTEADY;
    same = same && count <= MU_SHORTCUT_WATCHED;
    /* acquire: pairs with the commit of a record */
    same = same && mu_word_same(mu_load_acquire(&seg->header->cluster), cluster);
    /* acquire: pairs with the CAS of a task that sent an event, or has read of one, before it went on */
    same = same && mu_load_acquire(&seg->header->event_tail) <= events;
    return same ? CLEAN : DIRTY;
}

static void datagram_say(struct mu_shortcut_end *e, uint64_t instance, uint64_t told)
{
    struct mu_datagram d = {.magic = MU_DATAGRAM_MAGIC, .instance = instance, .told = told};
    unsigned times = 1;

    mu_siphash(e->key_out, &d, offsetof(struct mu_datagram, tag), d.tag);
    if (mu_shortcut_fate)
        times = mu_shortcut_fate(instance);
    while (times--) /* a failure is a loss */
        (void)!send(e->fd, &d, sizeof d, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* False: it is not for us, or not yet. */
static bool instance_commit(struct muster_group *g, uint64_t instance)
{
    struct mu_shortcut_end *e = &g->end;
    uint64_t told;
    enum shortcut_view sight;

    if (!mu_shortcut_covers(g, instance) || !are_here(g, instance))
        return false;
    sight = look_back(g, &told);
    if (sight == UNSTEADY)
        return false;
    if (sight == DIRTY || !is_bare(g, instance)) {
        mu_shortcut_ask(g, instance);
        return false;
    }
    /* relaxed: constant while the shortcut is live; pairs with shortcut_want() in groups_shortcut.c */
    if (!mu_area_trust(g->proxy, instance, (uint32_t)mu_load_relaxed(&e->way->host)))
        return false;
    e->committed = instance;
    datagram_say(e, instance, told);
    mu_fence_seq_cst(); /* the commit before the look: pairs with the fence of the agent that raises `ask` */
    if (e->missed == MISSES)
        mu_shortcut_ask(g, instance);
    else if (!mu_shortcut_covers(g, instance))
        mu_bell_ring_always(g->muster->seg);
    return true;
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

/* What the datagram said may be believed: our agent has taken all that came before it. */
static void datagram_believe(struct mu_shortcut_end *e)
{
    /* acquire: pairs with the agent's release; what it took is visible to the members that we let pass */
    if (!e->late || mu_load_acquire(&e->way->taken) < e->late_told)
        return;
    /* relaxed: behind the acquire. It is counted anew on the next connection, and before that this state is over */
    if (mu_load_relaxed(&e->way->state) != e->state)
        return;
    e->heard = e->late > e->heard ? e->late : e->heard;
    e->late = 0;
}

/* One datagram, if there is one. */
static void datagram_hear(struct mu_shortcut_end *e)
{
    struct {
        struct mu_datagram d;
        uint64_t more; /* a longer one is none of ours */
    } in;
    uint64_t tag[2];

    if (recv(e->fd, &in, sizeof in, MSG_DONTWAIT) != sizeof in.d || in.d.magic != MU_DATAGRAM_MAGIC)
        return;
    mu_siphash(e->key_in, &in.d, offsetof(struct mu_datagram, tag), tag);
    if (((tag[0] ^ in.d.tag[0]) | (tag[1] ^ in.d.tag[1])) || in.d.instance <= e->heard || in.d.instance <= e->late)
        return;
    e->late = in.d.instance;
    e->late_told = in.d.told;
}

/* What waits to be believed is not driven out by that of the next instance, which may lie behind it. */
static void listen_for(struct mu_shortcut_end *e, uint64_t instance)
{
    if (e->late < instance)
        datagram_hear(e);
    datagram_believe(e);
}

bool mu_shortcut_turn(struct muster_group *g, uint64_t instance)
{
    struct mu_shortcut_end *e = &g->end;

    if (e->committed != instance && !instance_commit(g, instance))
        return false;
    /* relaxed: keys and socket are that state's; a later one is looked at with the next instance */
    if (e->heard < instance && mu_load_relaxed(&e->way->state) == e->state)
        listen_for(e, instance);
    /* That of a later one says that the other host has passed this one, perhaps by its agent, with what its members
     * gave: our agent has not brought that yet. */
    return e->heard == instance && mu_area_arrive(g->proxy, instance);
}

void mu_shortcut_passed(struct muster_group *g, uint64_t instance)
{
    struct mu_shortcut_end *e = &g->end;

    if (e->committed != instance)
        return;
    if (e->heard < instance) /* it may have come while we slept */
        listen_for(e, instance);
    if (e->heard >= instance || e->late >= instance)
        e->missed = 0;
    else
        e->missed += e->missed < MISSES;
}
