/*
 * bridge/core/control.c: the agents' own conversation, each message once and in order.
 *
 * Other modules say anew, when a peer comes back, how things stand; agents tell of what happens once: a task's end, a
 * signal. So what is said here is kept until the peer has said that it has come: numbered from 1, sent again after a
 * broken connection, and dropped by a peer that has it already. A message of number 0 only acknowledges.
 *
 * Numbers are those between two agents. One that took the place of a dead one has heard nothing and said nothing, so
 * each says first on a connection which agent it is, and nothing else before it has heard the same of the peer. When
 * that is another one than before, what was not acknowledged is numbered from 1 again, and our agent is told, so that
 * it says anew how things stand here.
 */
#include "bridge/core/control.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "bridge/core/modules.h"

struct talk_message {
    struct talk_message *next;
    uint64_t number;
    uint32_t kind;
    size_t len;
    uint8_t bytes[];
};

struct talk {
    uint64_t peer;                     /* the agent that this is with; 0: it has not said yet */
    bool is_met;                       /* it has said so on this connection */
    uint64_t sent, heard;              /* numbers of the last message to the peer, and from it */
    struct talk_message *first, *last; /* that it has not acknowledged */
};

struct talks {
    uint64_t self; /* which agent this is: random, never 0 */
    struct talk with[];
};

static uint32_t num_peers(const struct mu_core *core)
{
    return core->leader ? core->num_hosts : 1;
}

static struct talk *talk_with(struct mu_core *core, uint32_t host)
{
    struct talks *talks = mu_core_state(core, MU_M_CONTROL);

    return talks && host < num_peers(core) ? &talks->with[host] : NULL;
}

static uint64_t self_of(struct mu_core *core)
{
    const struct talks *talks = mu_core_state(core, MU_M_CONTROL);

    return talks->self;
}

static bool control_init(struct mu_core *core, void **ret_state)
{
    struct talks *talks = calloc(1, sizeof *talks + num_peers(core) * sizeof talks->with[0]);

    *ret_state = talks;
    while (talks && !talks->self)
        mu_random(&talks->self, sizeof talks->self);
    return talks != NULL;
}

/* All up to that number have come. */
static void talk_forget(struct talk *talk, uint64_t number)
{
    while (talk->first && talk->first->number <= number) {
        struct talk_message *done = talk->first;

        talk->first = done->next;
        if (!talk->first)
            talk->last = NULL;
        free(done);
    }
}

static void control_done(struct mu_core *core)
{
    struct talks *talks = mu_core_state(core, MU_M_CONTROL);

    for (uint32_t i = 0; i < num_peers(core); i++)
        talk_forget(&talks->with[i], UINT64_MAX);
    free(talks);
}

static void talk_say(struct mu_core *core, uint32_t host, const struct talk *talk, const struct talk_message *message)
{
    struct mu_pack head = {.bytes = NULL};

    mu_pack_u64(&head, message ? message->number : 0);
    mu_pack_u64(&head, talk->heard);
    mu_pack_u64(&head, self_of(core));
    mu_pack_u64(&head, talk->peer);
    mu_pack_u32(&head, message ? message->kind : 0);
    if (head.failed)
        core->peers[host].tail.failed = true; /* as where the frame itself finds no memory */
    else
        mu_core_send_parts(core, host, MU_FRAME_CONTROL, head.bytes, head.len, message ? message->bytes : NULL,
                           message ? message->len : 0);
    mu_pack_done(&head);
}

static void control_up(struct mu_core *core, uint32_t host)
{
    struct talk *talk = talk_with(core, host);

    talk->is_met = false;
    talk_say(core, host, talk, NULL);
}

/* The first message on a connection names the peer's agent. True: another than before. */
static bool talk_meet(struct talk *talk, uint64_t peer)
{
    bool is_another = talk->peer && talk->peer != peer;

    talk->is_met = true;
    if (talk->peer == peer)
        return false;
    talk->peer = peer;
    talk->heard = talk->sent = 0;
    for (struct talk_message *message = talk->first; message; message = message->next)
        message->number = ++talk->sent;
    return is_another;
}

static void control_lost(struct mu_core *core, uint32_t host, const char *why)
{
    (void)why;
    talk_forget(talk_with(core, host), UINT64_MAX);
}

static void send_to(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    struct talk *talk = talk_with(core, host);
    struct talk_message *message;

    if (!talk || len > MU_CONTROL_MAX || core->peers[host].state == MU_PEER_LOST)
        return;
    message = malloc(sizeof *message + len);
    if (!message) {
        core->peers[host].tail.failed = true;
        mu_core_want(core, host);
        return;
    }
    message->next = NULL;
    message->number = ++talk->sent;
    message->kind = kind;
    message->len = len;
    if (len > 0)
        memcpy(message->bytes, bytes, len);
    if (talk->last)
        talk->last->next = message;
    else
        talk->first = message;
    talk->last = message;
    if (talk->is_met)
        talk_say(core, host, talk, message);
}

void mu_control_send(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    if (host != UINT32_MAX) {
        send_to(core, host, kind, bytes, len);
        return;
    }
    for (uint32_t peer = core->leader; peer < num_peers(core); peer++)
        send_to(core, peer, kind, bytes, len);
}

static void say_kept(struct mu_core *core, uint32_t host, const struct talk *talk)
{
    for (const struct talk_message *message = talk->first; message; message = message->next)
        talk_say(core, host, talk, message);
}

/* What it says of numbers is of its talk with the agent that it names: one before us, perhaps. */
static bool talk_can_be(const struct talk *talk, uint64_t number, uint64_t heard, bool is_to_us)
{
    if (is_to_us && heard <= talk->sent && number <= talk->heard + 1)
        return true;
    if (!is_to_us && number == 0)
        return true;
    mu_fail(MUSTER_INVALID_ARGUMENT, "message %llu after %llu, acknowledging %llu of %llu", (unsigned long long)number,
            (unsigned long long)talk->heard, (unsigned long long)heard, (unsigned long long)talk->sent);
    return false;
}

/* To our agent, which may have too much to read already: what it has not taken comes again, on the next connection. */
static bool talk_hear(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    return !core->control || core->control(core->arg, host, kind, bytes, len) ||
           !mu_fail(MUSTER_RESOURCE_EXHAUSTED, "this host's agent has not read what it was told before");
}

bool mu_take_control(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct talk *talk = talk_with(core, host);
    uint64_t number = mu_unpack_u64(u), heard = mu_unpack_u64(u), peer = mu_unpack_u64(u), us = mu_unpack_u64(u);
    uint32_t kind = mu_unpack_u32(u);
    const void *bytes = u->at;
    size_t len = u->left;
    uint64_t before = talk->peer;
    bool is_first, is_another;

    if (u->failed || (number == 0 && len > 0) || (number > 0 && kind == MU_CONTROL_ANOTHER) || peer == 0 ||
        (talk->is_met && peer != talk->peer)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "its head is damaged");
        return false;
    }
    is_first = !talk->is_met;
    is_another = is_first && talk_meet(talk, peer);
    if (!talk_can_be(talk, number, heard, us == self_of(core)))
        return false;
    if (us == self_of(core))
        talk_forget(talk, heard);
    if (is_another && !talk_hear(core, host, MU_CONTROL_ANOTHER, NULL, 0)) {
        talk->peer = before; /* on the next connection it is another again */
        return false;
    }
    if (is_first)
        say_kept(core, host, talk);
    if (number == 0)
        return true;
    if (number > talk->heard) {
        if (!talk_hear(core, host, kind, bytes, len))
            return false;
        talk->heard = number;
        core->worked = true;
    }
    talk_say(core, host, talk, NULL); /* also of one that came again: its sender does not know */
    return true;
}

const struct mu_module mu_module_control = {
    .name = "control",
    .init = control_init,
    .done = control_done,
    .up = control_up,
    .lost = control_lost,
};
