/*
 * tests/bridge/agents.c: the agents of a test's hosts: their queues and connections, their steps, life and death.
 *
 * One lock (h->lock) holds everything that is between agents: queues, connections, whether an agent lives. Each agent's
 * core has another, held while it takes a step; h->lock is the inner one. An event for an agent (up, down, frame) waits
 * in its queue, whose end rings its bell: so it sleeps as a real one does. A frame belongs to one connection, and is
 * dropped where it lies when that breaks.
 */
#include "agents.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bridge/core/listener.h"
#include "job.h"

#define NAP_NS 20000000u

void hosts_give_up(const char *what)
{
    printf("hosts: %s: %s\n", what, muster_last_error());
    fflush(stdout);
    exit(1);
}

static uint64_t now_of(const struct hosts *h)
{
    return mu_now() + h->passed;
}

/* ---- between agents; all with h->lock held ----------------------------------------------------------------------- */

void agent_push(struct agent *a, enum what what, uint32_t peer, uint64_t connection, uint8_t type, const void *payload,
                size_t len)
{
    struct message *msg = malloc(sizeof *msg + len);

    if (!msg)
        hosts_give_up("no memory for a frame");
    *msg = (struct message){.what = what, .peer = peer, .connection = connection, .type = type, .len = len};
    if (len)
        memcpy(msg->bytes, payload, len);
    *a->end = msg;
    a->end = &msg->next;
    a->queued += len;
    mu_bell_ring_always(a->seg);
}

/* The next message that still counts; NULL: none. */
static struct message *pop(struct agent *a)
{
    struct message *msg;

    while ((msg = a->first)) {
        uint32_t follower = a->host ? a->host : msg->peer;

        a->first = msg->next;
        if (!a->first)
            a->end = &a->first;
        a->queued -= msg->len;
        if (msg->what != FRAME || !msg->connection || msg->connection == a->h->connection[follower].number)
            return msg;
        free(msg); /* was on its way when the connection broke */
    }
    return NULL;
}

void agent_discard(struct agent *a)
{
    while (a->first) {
        struct message *msg = a->first;

        a->first = msg->next;
        free(msg);
    }
    a->end = &a->first;
    a->queued = 0;
}

static void part(struct hosts *h, uint32_t follower, const char *why)
{
    if (!h->connection[follower].number)
        return;
    h->connection[follower] = (struct connection){0};
    agent_push(&h->agents[0], DOWN, follower, 0, 0, why, strlen(why) + 1);
    agent_push(&h->agents[follower], DOWN, 0, 0, 0, why, strlen(why) + 1);
}

static void connect_them(struct hosts *h, uint32_t follower)
{
    if (h->connection[follower].number || !h->agents[0].lives || !h->agents[follower].lives)
        return;
    h->connection[follower] = (struct connection){.number = ++h->connections};
    agent_push(&h->agents[0], UP, follower, h->connections, 0, NULL, 0);
    agent_push(&h->agents[follower], UP, 0, h->connections, 0, NULL, 0);
}

/* ---- an agent's wire: called within its steps -------------------------------------------------------------------- */

/* One step more. False: it dies before it. */
static bool may_step(struct agent *a)
{
    if (a->dying)
        return false;
    if (a->steps_left && !--a->steps_left)
        a->dying = true;
    return !a->dying;
}

static bool wire_send(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct agent *a = arg, *to = &a->h->agents[host];
    struct hosts *h = a->h;
    uint32_t follower = a->host ? a->host : host;
    struct connection *c = &h->connection[follower];
    bool sent = false;

    pthread_mutex_lock(&h->lock);
    /* as with sockets: what is said on a connection that broke does not come out of the next one */
    if (may_step(a) && c->number && c->number == a->knows[follower]) {
        if (c->limited && !c->frames_left) {
            part(h, follower, "the test has cut the connection");
        } else if (to->queued + len > h->queue_bytes) {
            part(h, follower, "the queue is full");
        } else {
            c->frames_left -= c->limited;
            a->frames[type]++;
            a->frames[0]++;
            agent_push(to, FRAME, a->host, c->number, type, payload, len);
            sent = true;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return sent;
}

static bool wire_send_slice(void *arg, uint32_t host, uint8_t type, const void *head, size_t head_len,
                            const struct mu_slice *body)
{
    struct agent *a = arg;
    size_t besides = body->blob->len - body->len;
    struct mu_pack whole = {0};
    bool sent;

    pthread_mutex_lock(&a->h->lock);
    a->besides = besides > a->besides ? besides : a->besides;
    pthread_mutex_unlock(&a->h->lock);
    mu_pack_raw(&whole, head, head_len);
    mu_pack_raw(&whole, mu_slice_bytes(body), body->len);
    if (whole.failed)
        hosts_give_up("no memory for a message");
    sent = wire_send(arg, host, type, whole.bytes, whole.len);
    mu_pack_done(&whole);
    return sent;
}

/* Every host is this machine. */
static bool wire_path(void *arg, uint32_t host, struct sockaddr_storage *ret_own, struct sockaddr_storage *ret_peer)
{
    struct sockaddr_in *own = (struct sockaddr_in *)ret_own;

    (void)arg;
    (void)host;
    memset(ret_own, 0, sizeof *ret_own);
    own->sin_family = AF_INET;
    own->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *ret_peer = *ret_own;
    return true;
}

static void wire_drop(void *arg, uint32_t host, const char *why)
{
    struct agent *a = arg;

    pthread_mutex_lock(&a->h->lock);
    snprintf(a->h->dropped, sizeof a->h->dropped, "%s", why);
    part(a->h, a->host ? a->host : host, why);
    pthread_mutex_unlock(&a->h->lock);
}

/* ---- agents: steps ----------------------------------------------------------------------------------------------- */

static struct message *next_message(struct agent *a, bool *dead)
{
    struct message *msg = NULL;

    pthread_mutex_lock(&a->h->lock);
    if (a->first && !may_step(a))
        *dead = true;
    else
        msg = pop(a);
    pthread_mutex_unlock(&a->h->lock);
    return msg;
}

static void take(struct agent *a, struct message *msg)
{
    uint64_t now = now_of(a->h);

    if (msg->what == UP)
        a->knows[a->host ? a->host : msg->peer] = msg->connection;
    switch (msg->what) {
    case FRAME: mu_core_frame(&a->core, msg->peer, msg->type, msg->bytes, msg->len, now); break;
    case UP: mu_core_up(&a->core, msg->peer, now); break;
    case DOWN: mu_core_down(&a->core, msg->peer, (const char *)msg->bytes, now); break;
    case LOST: mu_core_lost(&a->core, msg->peer, (const char *)msg->bytes, now); break;
    }
    free(msg);
}

bool agent_step(struct agent *a, bool *dead)
{
    struct message *msg = next_message(a, dead);
    bool goes_on;

    if (msg) {
        take(a, msg);
        return true;
    }
    pthread_mutex_lock(&a->h->lock);
    goes_on = !*dead && may_step(a);
    *dead = !goes_on;
    pthread_mutex_unlock(&a->h->lock);
    return goes_on && mu_core_turn(&a->core, now_of(a->h));
}

/* Its part ends as by SIGKILL: nothing more is said or written; the others see their connections break. */
void agent_die(struct agent *a)
{
    struct hosts *h = a->h;

    mu_core_done(&a->core);
    if (muster_leave(a->m))
        hosts_give_up("the agent cannot leave");
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 1; i < h->count; i++)
        if (!a->host || i == a->host)
            part(h, i, "the agent at the other end died");
    agent_discard(a);
    a->lives = a->dying = false;
    a->steps_left = 0;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void nap(struct agent *a, uint64_t until)
{
    uint64_t most = mu_now() + NAP_NS;
    bool work, dead = false;

    pthread_mutex_lock(&a->core_lock);
    mu_core_listener_bell_on(&a->core);
    work = agent_step(a, &dead) || dead;
    if (work)
        mu_core_listener_bell_off(&a->core);
    pthread_mutex_unlock(&a->core_lock);
    if (work) {
        if (dead) {
            pthread_mutex_lock(&a->h->lock);
            a->dying = true;
            pthread_mutex_unlock(&a->h->lock);
        }
        return;
    }
    mu_bell_wait(a->seg, until < most ? until : most);
    pthread_mutex_lock(&a->core_lock);
    mu_core_listener_changed(&a->core);
    pthread_mutex_unlock(&a->core_lock);
}

static void *run(void *arg)
{
    struct agent *a = arg;
    bool dead = false;

    for (;;) {
        uint64_t next = 0;

        pthread_mutex_lock(&a->h->lock);
        while (a->paused && !a->dying)
            pthread_cond_wait(&a->h->changed, &a->h->lock);
        dead = a->dying;
        pthread_mutex_unlock(&a->h->lock);
        pthread_mutex_lock(&a->core_lock);
        while (!dead && agent_step(a, &dead))
            ;
        if (!dead)
            next = mu_core_next(&a->core);
        pthread_mutex_unlock(&a->core_lock);
        if (dead)
            break;
        nap(a, next);
    }
    pthread_mutex_lock(&a->core_lock);
    agent_die(a);
    pthread_mutex_unlock(&a->core_lock);
    return NULL;
}

static void begin(struct agent *a)
{
    struct mu_core_wire wire = {.arg = a,
                                .send = wire_send,
                                .drop = wire_drop,
                                .send_slice = wire_send_slice,
                                .path = a->h->shortcuts ? wire_path : NULL};

    a->m = test_join(a->name, -1, 0);
    if (!a->m)
        hosts_give_up("an agent cannot join");
    memset(&a->core, 0, sizeof a->core);
    a->core.timeout = a->h->timeout;
    a->core.latency = a->h->latency;
    if (mu_core_init(&a->core, &mu_bridge_tables, a->m, &wire, now_of(a->h)))
        hosts_give_up("an agent cannot begin");
}

/* With threads, the agent's slots are those of its own thread: it begins there. */
static void *begin_and_run(void *arg)
{
    struct agent *a = arg;

    begin(a);
    pthread_mutex_lock(&a->h->lock);
    a->lives = true;
    pthread_cond_broadcast(&a->h->changed);
    pthread_mutex_unlock(&a->h->lock);
    return run(a);
}

/* ---- agents: life and death -------------------------------------------------------------------------------------- */

void hosts_start(struct hosts *h, uint32_t host)
{
    struct agent *a = &h->agents[host];

    if (hosts_lives(h, host))
        return;
    pthread_mutex_lock(&h->lock);
    agent_discard(a); /* what was said to the one before */
    pthread_mutex_unlock(&h->lock);
    if (h->stepped) {
        begin(a);
        a->lives = true;
    } else {
        if (a->thread)
            pthread_join(a->thread, NULL);
        a->thread = 0;
        if (pthread_create(&a->thread, NULL, begin_and_run, a))
            hosts_give_up("no thread for an agent");
    }
    pthread_mutex_lock(&h->lock);
    while (!a->lives)
        pthread_cond_wait(&h->changed, &h->lock);
    for (uint32_t i = 1; i < h->count && !h->apart; i++)
        if (!host || i == host)
            connect_them(h, i);
    pthread_mutex_unlock(&h->lock);
}

void hosts_kill(struct hosts *h, uint32_t host)
{
    struct agent *a = &h->agents[host];

    if (h->stepped) {
        if (a->lives)
            agent_die(a);
        return;
    }
    pthread_mutex_lock(&h->lock);
    a->dying = a->lives;
    pthread_cond_broadcast(&h->changed);
    mu_bell_ring_always(a->seg);
    while (a->lives)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void hosts_kill_after(struct hosts *h, uint32_t host, uint32_t steps)
{
    pthread_mutex_lock(&h->lock);
    h->agents[host].steps_left = steps + 1;
    pthread_mutex_unlock(&h->lock);
}

bool hosts_lives(struct hosts *h, uint32_t host)
{
    bool lives;

    pthread_mutex_lock(&h->lock);
    lives = h->agents[host].lives;
    pthread_mutex_unlock(&h->lock);
    return lives;
}

bool hosts_connected(struct hosts *h, uint32_t host)
{
    bool connected;

    pthread_mutex_lock(&h->lock);
    connected = h->connection[host].number != 0;
    pthread_mutex_unlock(&h->lock);
    return connected;
}

void hosts_cut(struct hosts *h, uint32_t host)
{
    pthread_mutex_lock(&h->lock);
    part(h, host, "the test has cut the connection");
    pthread_mutex_unlock(&h->lock);
}

void hosts_join(struct hosts *h, uint32_t host)
{
    pthread_mutex_lock(&h->lock);
    connect_them(h, host);
    pthread_mutex_unlock(&h->lock);
}

void hosts_cut_after(struct hosts *h, uint32_t host, uint32_t frames)
{
    pthread_mutex_lock(&h->lock);
    h->connection[host].limited = 1;
    h->connection[host].frames_left = frames;
    pthread_mutex_unlock(&h->lock);
}

void hosts_lose(struct hosts *h, uint32_t at, uint32_t host, const char *why)
{
    pthread_mutex_lock(&h->lock);
    part(h, at ? at : host, why);
    agent_push(&h->agents[at], LOST, host, 0, 0, why, strlen(why) + 1);
    pthread_mutex_unlock(&h->lock);
}

void hosts_mend(struct hosts *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        pthread_mutex_lock(&h->lock);
        h->agents[i].steps_left = 0;
        h->connection[i].limited = 0;
        while (!h->stepped && h->agents[i].dying) /* it has taken its last step, but is not gone */
            pthread_cond_wait(&h->changed, &h->lock);
        pthread_mutex_unlock(&h->lock);
        hosts_resume(h, i);
        hosts_start(h, i);
    }
    for (uint32_t i = 1; i < h->count; i++)
        hosts_join(h, i);
}

void hosts_pause(struct hosts *h, uint32_t host)
{
    pthread_mutex_lock(&h->lock);
    h->agents[host].paused = true;
    pthread_mutex_unlock(&h->lock);
}

void hosts_resume(struct hosts *h, uint32_t host)
{
    pthread_mutex_lock(&h->lock);
    h->agents[host].paused = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}
