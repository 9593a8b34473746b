/*
 * bridge/link/tree.c: the leader's decision which hosts connect to it directly, and which by which relay.
 *
 * Few hosts are all the leader's own connections. In a larger job the first that come are relays, about as many as will
 * be behind each. A later host is kept waiting, and told where a relay listens. It comes by that, or says why it
 * cannot, and is taken as it is. So what a relay adds can be lost at any time, by its death or by a firewall, and the
 * job goes on as a star. A host that has lost its relay comes again like any other, and is sent to another one.
 */
#include <stdio.h>
#include <string.h>

#include "bridge/link/private.h"

enum { STAYS_MOST = 2 }; /* then it is not sent to relays again */

void mu_tree_begin(struct mu_link *link)
{
    uint32_t hosts = link->options.num_hosts, wanted = 1;

    if (!link->options.star_hosts || hosts <= link->options.star_hosts || hosts < 3)
        return;
    while (wanted < MU_LINK_FAN && (wanted + 1) * (wanted + 1) <= hosts - 1)
        wanted++;
    link->tree.wanted = wanted;
}

/* ---- relays ---- */

/* The owner has been told, or will be: it is up. */
void mu_tree_up(struct mu_link_peer *p)
{
    struct mu_link_tree *tree = &p->link->tree;
    uint8_t hosts[4];

    if (p->relay || p->is_staying || tree->count >= tree->wanted || p->link->hosts[p->host].cannot_listen ||
        !mu_branch_begin(p))
        return;
    for (int i = 0; i < 4; i++)
        hosts[i] = (uint8_t)(p->link->options.num_hosts >> (8 * i));
    tree->relays[tree->count++] = p;
    p->parked = p->link->now; /* since when its answer is awaited */
    mu_peer_send(p, MU_FRAME_RELAY, hosts, sizeof hosts);
}

static void forget_move(struct mu_link_peer *p)
{
    const struct mu_link_tree *tree = &p->link->tree;

    for (uint32_t i = 0; p->moving_to && i < tree->count; i++)
        if (tree->relays[i]->connection == p->moving_to)
            tree->relays[i]->branch->coming--;
    p->moving_to = 0;
    p->is_parked = false;
}

/* The hosts on the way to that relay are taken as they are: a relay that has gone may keep nobody waiting. */
static void waiting_take_back(const struct mu_link_peer *relay)
{
    for (struct mu_link_peer *p = relay->link->peers; p; p = p->next)
        if (p->is_parked && p->moving_to == relay->connection) {
            p->moving_to = 0;
            p->is_staying = true;
        }
}

/* It is no relay any more, nor kept waiting for one. */
static void leave_tree(struct mu_link_peer *p)
{
    struct mu_link_tree *tree = &p->link->tree;

    if (p->is_parked)
        forget_move(p);
    for (uint32_t i = 0; p->branch && i < tree->count; i++)
        if (tree->relays[i] == p) {
            tree->relays[i] = tree->relays[--tree->count];
            p->link->due = 0;
            waiting_take_back(p);
            return;
        }
}

/* A connection that is closed, or on its way to; while it is the latter, its relay has its last word still to send. */
void mu_tree_ended(struct mu_link_peer *p)
{
    if (p->relay && p->state == MU_LINK_CLOSED)
        mu_branch_leave(p);
    leave_tree(p);
    if (p->branch)
        mu_branch_end(p, p->why);
}

/* Where its connection comes from, and the port that it says; 0: it cannot. */
void mu_tree_listens(struct mu_link_peer *relay, const struct mu_message *message)
{
    struct mu_unpack u = mu_unpack_of(message->bytes, message->len);
    const char *colon = strrchr(relay->from, ':');
    uint32_t port = mu_unpack_u32(&u);

    if (!mu_unpack_end(&u) || port > 65535 || !colon || relay->branch->listens) {
        mu_peer_take_wrong(relay, message, " that is not well formed");
        return;
    }
    relay->link->due = 0;
    if (!port) {
        relay->link->hosts[relay->host].cannot_listen = true;
        leave_tree(relay);
        return;
    }
    snprintf(relay->branch->address, sizeof relay->branch->address, "%.*s:%u", (int)(colon - relay->from), relay->from,
             port);
    relay->branch->listens = true;
}

/* One that does not say where it listens is not waited for. */
static bool is_any_awaited(const struct mu_link *link)
{
    for (uint32_t i = 0; i < link->tree.count; i++)
        if (!link->tree.relays[i]->branch->listens && link->now < link->tree.relays[i]->parked + mu_link_reach(link))
            return true;
    return false;
}

/* A relay with an address that means the same to both, and the fewest hosts. While others may still listen, none takes
 * more than its part. */
static struct mu_link_peer *relay_best(const struct mu_link_peer *p)
{
    const struct mu_link_tree *tree = &p->link->tree;
    uint32_t others = p->link->options.num_hosts - 1 - tree->wanted, most = MU_LINK_FAN;
    struct mu_link_peer *found = NULL;

    if (is_any_awaited(p->link) && (others + tree->wanted - 1) / tree->wanted < most)
        most = (others + tree->wanted - 1) / tree->wanted;
    for (uint32_t i = 0; i < tree->count; i++) {
        struct mu_link_peer *r = tree->relays[i];
        uint32_t load = r->branch->count + r->branch->coming;

        if (r->branch->listens && r->is_loopback == p->is_loopback && load < most &&
            (!found || load < found->branch->count + found->branch->coming))
            found = r;
    }
    return found;
}

/* ---- the hosts that are sent there ---- */

static void send_there(struct mu_link_peer *p, struct mu_link_peer *relay)
{
    p->moving_to = relay->connection;
    relay->branch->coming++;
    mu_peer_send(p, MU_FRAME_MOVE, relay->branch->address, strlen(relay->branch->address));
}

bool mu_tree_keeps(struct mu_link_peer *p, uint32_t host)
{
    struct mu_link *link = p->link;
    const struct mu_link_host *h = host < link->options.num_hosts ? &link->hosts[host] : NULL;
    struct mu_link_peer *relay;

    if (!link->tree.wanted || !h || p->relay || p->is_staying || !p->join || h->stays >= STAYS_MOST ||
        (link->tree.count < link->tree.wanted && !h->cannot_listen))
        return false;
    relay = relay_best(p);
    if (!relay && !is_any_awaited(link))
        return false;
    p->is_kept = false;
    p->is_parked = true;
    p->pending_host = host;
    p->parked = link->now;
    if (relay)
        send_there(p, relay);
    return true;
}

/* It waits no longer: it comes as it is. */
static void waiting_release(struct mu_link_peer *p)
{
    const struct mu_join join = *p->join;

    forget_move(p);
    mu_peer_ask(p, &join);
}

void mu_tree_stays(struct mu_link_peer *p, const struct mu_message *message)
{
    char words[160], why[200];
    size_t n = message->len < sizeof why - 1 ? message->len : sizeof why - 1;

    for (size_t i = 0; i < n; i++)
        why[i] = (char)(message->bytes[i] < 0x20 || message->bytes[i] == 0x7f ? '?' : message->bytes[i]);
    why[n] = 0;
    mu_peer_words(p, words, sizeof words);
    mu_link_say(p->link, "%s comes directly, not by a relay: %s", words, why);
    p->link->hosts[p->pending_host].stays++;
    p->is_staying = true;
    waiting_release(p);
}

/*
 * The hosts that wait without having been sent anywhere. The list changes with each that is released. Such a host is
 * not kept again: the conditions are those of mu_tree_keeps().
 */
void mu_tree_look(struct mu_link *link)
{
    struct mu_link_peer *p = link->peers;

    while (p) {
        struct mu_link_peer *next = p->next, *relay;

        if (p->is_parked && !p->moving_to) {
            relay = p->is_staying ? NULL : relay_best(p);
            if (relay)
                send_there(p, relay);
            else if (p->is_staying || !is_any_awaited(link) ||
                     (link->tree.count < link->tree.wanted && !link->hosts[p->pending_host].cannot_listen)) {
                waiting_release(p);
                next = link->peers;
            }
        }
        p = next;
    }
}
