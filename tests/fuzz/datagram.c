/*
 * tests/fuzz/datagram.c: one speaker of a shortcut (barrier/shortcut.c), committed to each instance in turn, and all
 * that may come to its socket: anybody on the network can send to it. The oracle keeps what was really said.
 */
#include "datagram.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "barrier/group.h"
#include "base/siphash.h"

enum { SAID_MOST = 200, ANEW_MOST = 50, LONGEST = 300, QUEUE_MOST = 100000 };

struct said {
    struct mu_datagram d;
    unsigned connection;
};
struct world {
    struct muster_group g;
    struct mu_shortcut way;
    int other;
    uint64_t instance, last; /* the one that is waited at; the last that was said */
    struct said said[SAID_MOST];
    unsigned said_count;
    uint64_t most[ANEW_MOST + 1]; /* messages taken, by connection */
    unsigned connection;
    const uint8_t *at;
    size_t left;
    struct datagram_sum *sum;
    struct mu_area proxy; /* without data */
};

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "a shortcut's datagrams: %s\n", what);
    abort();
}

static uint8_t next(struct world *w)
{
    return w->left ? w->left--, *w->at++ : 0;
}

/* ---- the other host and the network ---- */

/* False: the socket is full, and it is lost. */
static bool come(struct world *w, const void *bytes, size_t len)
{
    return send(w->other, bytes, len, MSG_DONTWAIT) == (ssize_t)len;
}

/* One as the other speaker signs it, near the instance and the messages that we are at. */
static struct mu_datagram sign(struct world *w)
{
    struct mu_datagram d = {.magic = MU_DATAGRAM_MAGIC};

    d.instance = w->instance - 2 + next(w) % 6;
    d.told = w->most[w->connection] - 2 + next(w) % 8;
    mu_siphash(w->g.end.key_in, &d, offsetof(struct mu_datagram, tag), d.tag);
    return d;
}

static void say(struct world *w)
{
    struct mu_datagram d = sign(w);

    if (w->said_count == SAID_MOST || !come(w, &d, sizeof d))
        return;
    w->said[w->said_count++] = (struct said){d, w->connection};
    w->last = d.instance > w->last ? d.instance : w->last;
    w->sum->said++;
}

static void change(struct world *w)
{
    struct mu_datagram d = sign(w);
    uint8_t bytes[sizeof d];
    size_t place = next(w) % sizeof d;
    uint8_t by = next(w);

    memcpy(bytes, &d, sizeof d);
    bytes[place] ^= by ? by : 0x80;
    w->sum->forged += come(w, bytes, sizeof bytes);
}

static void lengthen(struct world *w)
{
    struct mu_datagram d = sign(w);
    uint8_t bytes[sizeof d + 128] = {0};
    size_t len = sizeof d + next(w) % 128;

    memcpy(bytes, &d, sizeof d);
    len = len == sizeof d ? sizeof d - 1 : len % 3 == 0 ? len - sizeof d : len;
    w->sum->forged += come(w, bytes, len);
}

static void send_any(struct world *w)
{
    size_t len = next(w);

    len = len < w->left ? len : w->left;
    w->sum->forged += come(w, w->at, len);
    w->at += len;
    w->left -= len;
}

/* ---- our side ---- */

/* All before this instance is done; all of this host have come to it, and are committed. */
static void begin_instance(struct world *w)
{
    w->instance++;
    w->g.end.committed = w->instance;
    mu_store_relaxed(&w->proxy.arrived, MU_ARRIVED(w->instance - 1) | MU_ARRIVED_TRUSTED); /* relaxed, all: a thread */
}

static bool was_said(const struct world *w)
{
    for (unsigned i = 0; i < w->said_count; i++)
        if (w->said[i].d.instance == w->instance && w->said[i].d.told <= w->most[w->said[i].connection])
            return true;
    return false;
}

static bool turn(struct world *w)
{
    if (!mu_shortcut_turn(&w->g, w->instance))
        return false;
    must(was_said(w), "let pass by what was not said, or not to be believed yet");
    must(mu_has_arrived(mu_load_relaxed(&w->proxy.arrived), w->instance), "passed, and the proxy has not arrived");
    mu_shortcut_passed(&w->g, w->instance);
    begin_instance(w);
    w->sum->passed++;
    return true;
}

static void take(struct world *w, uint64_t more)
{
    w->most[w->connection] += more;
    mu_store_release(&w->way.taken, w->most[w->connection]); /* release: as the agent does */
}

static void pass_by_agent(struct world *w)
{
    must(mu_area_arrive(&w->proxy, w->instance), "the agent cannot let it pass");
    mu_shortcut_passed(&w->g, w->instance);
    begin_instance(w);
    w->sum->by_agent++;
}

static void be_live(struct world *w)
{
    uint64_t number = MU_SHORTCUT_NUMBER(mu_load_relaxed(&w->way.state)) + 1;

    for (unsigned i = 0; i < 2; i++)
        mu_store_relaxed(&w->way.key_in[i], 0x9e3779b97f4a7c15u * (number + i));
    mu_store_relaxed(&w->way.taken, w->most[w->connection]);
    mu_store_relaxed(&w->way.state, MU_SHORTCUT_STATE(number, MU_SHORTCUT_LIVE));
    mu_shortcut_look(&w->g);
}

/* The agent has ended the shortcut, and counts anew; the speaker has not looked yet. */
static void be_between(struct world *w)
{
    if (w->connection == ANEW_MOST)
        return;
    mu_store_relaxed(&w->way.state,
                     MU_SHORTCUT_STATE(MU_SHORTCUT_NUMBER(mu_load_relaxed(&w->way.state)), MU_SHORTCUT_OFF));
    w->connection++;
    take(w, next(w) % 16);
    if (next(w) % 2)
        turn(w);
    else
        pass_by_agent(w);
    be_live(w);
}

static void step(struct world *w)
{
    const struct said *s;

    switch ((enum datagram_step)(next(w) % DATAGRAM_STEPS)) {
    case DATAGRAM_SAID: say(w); break;
    case DATAGRAM_TAKEN: take(w, next(w) % 4); break;
    case DATAGRAM_ANY: send_any(w); break;
    case DATAGRAM_CHANGED: change(w); break;
    case DATAGRAM_LENGTH: lengthen(w); break;
    case DATAGRAM_AGAIN:
        s = &w->said[w->said_count ? next(w) % w->said_count : 0];
        w->sum->forged += w->said_count && come(w, &s->d, sizeof s->d);
        break;
    case DATAGRAM_AGENT: pass_by_agent(w); break;
    case DATAGRAM_ANEW:
        if (w->connection < ANEW_MOST) {
            w->connection++;
            be_live(w);
        }
        break;
    case DATAGRAM_OFF: be_between(w); break;
    default: turn(w);
    }
}

/* Whatever came: what the other host says now, and has said nothing beyond, is heard behind it. */
static void end(struct world *w)
{
    struct mu_datagram d = {.magic = MU_DATAGRAM_MAGIC};
    uint64_t at;
    unsigned turns = 0;

    take(w, 1000);
    while (recv(w->g.end.fd, &d, 0, MSG_PEEK | MSG_DONTWAIT) >= 0) {
        turn(w);
        if (w->g.end.heard >= w->instance ||
            w->g.end.late >= w->instance) /* and hears nothing before it is past that */
            pass_by_agent(w);
        must(turns++ < QUEUE_MOST, "it does not hear");
    }
    while (w->last >= w->instance)
        pass_by_agent(w);
    at = w->instance;
    d = (struct mu_datagram){.magic = MU_DATAGRAM_MAGIC, .instance = at, .told = w->most[w->connection]};
    mu_siphash(w->g.end.key_in, &d, offsetof(struct mu_datagram, tag), d.tag);
    w->said[0] = (struct said){d, w->connection};
    w->said_count = 1;
    must(come(w, &d, sizeof d), "its socket is not empty");
    must(turn(w) && w->instance == at + 1, "not let pass by what was said");
}

void datagram_try(const uint8_t *data, size_t size, struct datagram_sum *sum)
{
    struct world *w = calloc(1, sizeof *w);
    int ends[2];

    must(w && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) == 0, "no memory, or no socket");
    w->at = data;
    w->left = size;
    w->sum = sum;
    w->other = ends[1];
    w->instance = 6;
    w->most[0] = 5;
    w->g.proxy = &w->proxy;
    w->g.end = (struct mu_shortcut_end){.way = &w->way, .is_speaker = true, .fd = ends[0]};
    be_live(w);
    begin_instance(w);
    while (w->left)
        step(w);
    end(w);
    close(ends[0]);
    close(ends[1]);
    free(w);
}
