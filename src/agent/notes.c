/*
 * agent/notes.c: what a job's agents serve, as keys of the job, for `muster status`: where, and what is going on there.
 *
 * They are looked at once a second, and written where they have changed. Of several hosts the leader's agent notes for
 * all what they serve: another's may not sleep until a key is set.
 */
#include <string.h>

#include <muster/kv.h>

#include "agent/private.h"
#include "rpc/desk.h"

#define NOTE_MS 1000

static const struct {
    const char *key, *hosts;
    void (*describe)(const struct mu_agent *agent, char *text, size_t size);
} served[MU_AGENT_SERVED] = {
    [MU_AGENT_GRPC] = {MU_AGENT_GRPC_KEY, MU_AGENT_GRPC_HOSTS_KEY, mu_agent_describe_grpc},
    [MU_AGENT_TCPSTORE] = {MU_AGENT_TCPSTORE_KEY, MU_AGENT_TCPSTORE_HOSTS_KEY, mu_agent_describe_tcpstore},
};

static void name_key(unsigned what, uint32_t host, char *key, size_t size)
{
    if (host)
        snprintf(key, size, "%s/%u", served[what].hosts, host);
    else
        snprintf(key, size, "%s", served[what].key);
}

/* A full segment: then status shows what it knew. */
static void set_note(struct mu_agent *agent, unsigned what, uint32_t host, const char *text)
{
    char key[64];

    name_key(what, host, key, sizeof key);
    muster_kv_set(agent->muster, key, MUSTER_NTS, text, strlen(text), NULL);
}

void mu_agent_hear_note(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    unsigned what = mu_unpack_u8(u);
    char text[MU_AGENT_NOTE] = "";

    mu_unpack_text(u, text, sizeof text);
    if (agent->muster && !u->failed && what < MU_AGENT_SERVED)
        set_note(agent, what, host, text);
}

static void tell_note(struct mu_agent *agent, unsigned what)
{
    struct mu_pack note = {.bytes = NULL};

    mu_pack_u8(&note, (uint8_t)what);
    mu_pack_text(&note, agent->notes[what]);
    mu_agent_tell(agent, 0, MU_TALK_SERVES, &note);
    mu_pack_done(&note);
}

static void note(struct mu_agent *agent, unsigned what)
{
    char text[MU_AGENT_NOTE] = "";

    served[what].describe(agent, text, sizeof text);
    if (strcmp(text, agent->notes[what]) == 0)
        return;
    snprintf(agent->notes[what], sizeof agent->notes[what], "%s", text);
    if (mu_agent_follows(agent))
        tell_note(agent, what);
    else
        set_note(agent, what, 0, text);
}

/* Copies of the leader's notes and of our own, for `muster status` on this host, which asks nobody. */
static struct look {
    struct mu_ask ask;
    bool open;
} looks[MU_AGENT_SERVED][2];

static void looked(struct mu_ask *ask)
{
    ((struct look *)ask)->open = false;
}

static void look_at_notes(struct mu_agent *agent, unsigned what)
{
    char key[64];

    for (unsigned own = 0; own < 2; own++) {
        struct look *look = &looks[what][own];

        if (look->open)
            continue;
        name_key(what, own ? agent->options->hosts->node : 0, key, sizeof key);
        *look = (struct look){.ask = {.answered = looked}, .open = true};
        mu_desk_try_get(agent->desk, &look->ask, key, strlen(key));
    }
}

static void note_all(struct mu_agent *agent)
{
    for (unsigned what = 0; what < MU_AGENT_SERVED; what++)
        note(agent, what);
}

static void note_again(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;

    note_all(agent);
    for (unsigned what = 0; what < MU_AGENT_SERVED && mu_agent_follows(agent); what++)
        look_at_notes(agent, what);
}

void mu_agent_begin_notes(struct mu_agent *agent)
{
    memset(agent->notes, 0, sizeof agent->notes);
    note_all(agent);
    uv_timer_init(&agent->loop, &agent->notes_timer);
    uv_timer_start(&agent->notes_timer, note_again, NOTE_MS, NOTE_MS);
    agent->has_notes = 1;
}

void mu_agent_end_notes(struct mu_agent *agent)
{
    if (agent->has_notes)
        uv_close((uv_handle_t *)&agent->notes_timer, NULL);
    agent->has_notes = 0;
}
