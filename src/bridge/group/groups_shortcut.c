/*
 * bridge/group/groups_shortcut.c: groups on two hosts, with --latency: what the agents do for the datagrams that their
 * tasks send each other (barrier/shortcut.h).
 *
 * Setting up. The leader, where the hosts' connection is direct, wants a shortcut; the speaker there opens a socket and
 * says its port, which the leader's agent sends with a key, SHORTCUT. The other agent then wants one, too, and answers
 * in the same way when its speaker has a port. An end that has both is live. It ends with the connection and its keys.
 *
 * While it is live the agent says nothing of an instance that no member has asked it for. What was passed by the
 * shortcut is said before anything else that supposes it: the two connections are not in one order.
 *
 * What a speaker must know for causality lies in the shortcut under `sight`: odd from before anything goes out to the
 * other host until the end of the turn, when what has been told is written down anew.
 */
#include "bridge/group/groups.h"

#include <string.h>

#include "base/process.h"

/* ---- what speakers read ------------------------------------------------------------------------------------------ */

static void begin_write(struct mu_shortcut *way)
{
    uint64_t sight = mu_load_relaxed(&way->sight); /* relaxed: our own word, or a dead agent's */

    if (sight & 1)
        return;
    mu_store_relaxed(&way->sight, sight + 1); /* relaxed: the fence orders it before what follows */
    mu_fence_release();                       /* pairs with the fence of end_read() in shortcut.c */
}

static void end_write(struct mu_shortcut *way)
{
    /* release: pairs with begin_read(); relaxed: our own word */
    mu_store_release(&way->sight, (mu_load_relaxed(&way->sight) | 1) + 1);
}

static void write_words(mu_a64 *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mu_store_relaxed(&to[i], from[i]); /* relaxed: between begin_write() and end_write() */
}

static void set_state(struct span *s, uint32_t is)
{
    mu_store_release(&s->way->state, MU_SHORTCUT_STATE(s->way_number, is)); /* release: what it says is written */
    mu_fence_seq_cst(); /* members that arrive see it, or we see them: pairs with the fence in mu_span_arrived() */
}

/* Only when they may have changed: it is a walk over all that any host wants. */
static void write_buckets(struct mu_core *core, struct span *s)
{
    uint32_t buckets[MU_SHORTCUT_WATCHED];
    uint64_t words[MU_SHORTCUT_WATCHED];
    size_t n;

    if (s->way_collections == mu_copies_collections(core))
        return;
    s->way_collections = mu_copies_collections(core);
    n = mu_copies_told(core, s->way_host, buckets, words, MU_SHORTCUT_WATCHED);
    s->way_watched = n == SIZE_MAX ? UINT64_MAX : n;
    for (size_t i = 0; n != SIZE_MAX && i < n; i++) {
        uint64_t pair[2] = {buckets[i], words[i]};

        write_words(&s->way->bucket[i].bucket, pair, 2);
    }
}

/* What the other host has been told, with how many messages. Not all, where something for it waits for the next turn:
 * what was collected for all hosts behind its own turn to be spoken to is as good as told to the modules. */
static void write_down(struct mu_core *core, struct span *s)
{
    uint64_t cluster = 0, events = 0, told = core->peers[s->way_host].told, watched;
    bool all = !core->peers[s->way_host].wanted;

    all &= mu_members_told(core, s->way_host, &cluster);
    all &= mu_events_told(core, s->way_host, &events);
    begin_write(s->way);
    write_buckets(core, s);
    watched = all ? s->way_watched : UINT64_MAX;
    write_words(&s->way->told, &told, 1);
    write_words(&s->way->cluster, &cluster, 1);
    write_words(&s->way->events, &events, 1);
    write_words(&s->way->watched, &watched, 1);
    end_write(s->way);
    s->way_cluster = cluster;
    s->way_is_stale = !all;
}

void mu_way_says(struct mu_core *core, struct span *s, uint32_t host)
{
    (void)core;
    if (s->way_is_live && s->way_host == host) {
        begin_write(s->way);
        s->way_is_stale = true;
    }
}

void mu_way_took(struct mu_core *core, struct span *s, uint32_t host)
{
    if (s->way_is_wanted && s->way_host == host)
        /* release: pairs with datagram_believe() in shortcut.c; all it brought is in place */
        mu_store_release(&s->way->taken, core->peers[host].taken);
}

void mu_way_rest(struct mu_core *core, struct span *s)
{
    if (!s->way_is_live)
        return;
    /* relaxed: only whether it has changed */
    if (s->way_is_stale || s->way_collections != mu_copies_collections(core) ||
        !mu_word_same(mu_load_relaxed(&core->seg->header->cluster), s->way_cluster))
        write_down(core, s);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

void mu_way_off(struct span *s)
{
    if (!s->way)
        return;
    s->way_is_live = s->way_is_wanted = s->way_said = s->way_heard = false;
    set_state(s, MU_SHORTCUT_OFF);
}

void mu_way_attach(struct mu_core *core, struct span *s)
{
    uint32_t other = UINT32_MAX;

    for (uint32_t i = 0; i < s->size; i++) {
        uint32_t host = mu_host_of(core->seg, s->members[i].task);

        if (host == core->host)
            continue;
        if (host >= core->num_hosts || (other != UINT32_MAX && other != host))
            return;
        other = host;
    }
    if (other == UINT32_MAX || !s->num_own || (!core->leader && other))
        return;
    s->way_host = other;
    s->way = (struct mu_shortcut *)(void *)s->proxy->data;
    s->way_number = MU_SHORTCUT_NUMBER(mu_load_relaxed(&s->way->state)); /* relaxed: an agent's before this one */
    mu_way_off(s);
}

/* Under a number of its own: a speaker may open its socket. */
static void shortcut_want(struct mu_core *core, struct span *s)
{
    struct sockaddr_storage own, peer;
    uint64_t from[3], to[3], host = s->way_host, taken = core->peers[s->way_host].taken;

    if (!core->wire.path || !core->wire.path(core->wire.arg, s->way_host, &own, &peer) ||
        !mu_shortcut_encode(&own, from) || !mu_shortcut_encode(&peer, to))
        return;
    s->way_number++;
    mu_random(s->way_key, sizeof s->way_key);
    to[0] |= (uint64_t)s->way_port << 16;
    begin_write(s->way);
    write_words(s->way->own, from, 3);
    write_words(s->way->peer, to, 3);
    write_words(&s->way->host, &host, 1);
    write_words(s->way->key_in, s->way_key, 2);
    write_words(s->way->key_out, s->way_key_out, 2);
    end_write(s->way);
    mu_store_release(&s->way->taken, taken); /* release: as in mu_way_took() */
    s->way_is_wanted = true;
    set_state(s, MU_SHORTCUT_WANTED);
}

/* Both ends are known. */
static void go_live(struct mu_core *core, struct span *s)
{
    uint64_t to = mu_load_relaxed(&s->way->peer[0]); /* relaxed: our own word */

    to = (to & ~0xffff0000ull) | (uint64_t)s->way_port << 16;
    begin_write(s->way);
    write_words(s->way->peer, &to, 1);
    write_words(s->way->key_out, s->way_key_out, 2);
    s->way_collections = UINT64_MAX;
    write_down(core, s);
    s->way_is_live = true;
    set_state(s, MU_SHORTCUT_LIVE);
}

/* Our speaker's port, and the key under which it believes what it hears. */
static void say_port(struct mu_core *core, struct span *s, uint64_t port)
{
    struct mu_pack p = {0};

    mu_bridge_span_pack(&p, MU_SAY_SHORTCUT, s);
    mu_pack_u32(&p, (uint32_t)(port & 0xffff));
    mu_pack_u64(&p, s->way_key[0]);
    mu_pack_u64(&p, s->way_key[1]);
    mu_bridge_span_send(core, s->way_host, MU_FRAME_GROUP, &p);
    s->way_said = true;
}

void mu_way_look(struct mu_core *core, struct span *s)
{
    uint64_t port;

    if (!s->way || s->way_is_live || core->peers[s->way_host].state != MU_PEER_UP)
        return;
    if (!s->way_is_wanted && (core->leader ? core->latency : s->way_heard))
        shortcut_want(core, s);
    if (!s->way_is_wanted)
        return;
    port = mu_load_acquire(&s->way->port); /* acquire: pairs with shortcut_offer() in shortcut.c */
    if (!s->way_said && port >> 16 == s->way_number && (port & 0xffff))
        say_port(core, s, port);
    if (s->way_said && s->way_heard)
        go_live(core, s);
}

bool mu_way_take(struct mu_core *core, struct span *s, struct mu_unpack *u)
{
    uint32_t port = mu_unpack_u32(u);
    uint64_t key[2] = {mu_unpack_u64(u), mu_unpack_u64(u)};

    if (!mu_unpack_end(u) || !port || port > UINT16_MAX)
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: a shortcut to port %u", s->name, port);
    if (!s->way || s->way_heard)
        return true;
    s->way_port = (uint16_t)port;
    memcpy(s->way_key_out, key, sizeof key);
    s->way_heard = true;
    mu_core_worked(core);
    return true;
}

/* ---- instances --------------------------------------------------------------------------------------------------- */

bool mu_way_covers(const struct span *s, uint64_t instance)
{
    /* acquire: pairs with the CAS of mu_shortcut_raise() */
    return s->way_is_live && mu_load_acquire(&s->way->ask) < instance;
}

bool mu_way_is_asked(const struct span *s, uint64_t instance)
{
    return s->way && mu_load_acquire(&s->way->ask) >= instance; /* acquire: likewise */
}

void mu_way_raise(struct span *s, uint64_t instance)
{
    if (!s->way)
        return;
    mu_shortcut_raise(&s->way->ask, instance);
    mu_fence_seq_cst(); /* then we look: a committing or arriving member sees it. Pairs with instance_commit() in
                           shortcut.c */
}
